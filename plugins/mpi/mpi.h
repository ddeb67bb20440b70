/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the mpi plugin share. */
#ifndef WEFT_PLUGINS_MPI_H
#define WEFT_PLUGINS_MPI_H

#include <weft/weft.h>

#include <mpi.h>
#include <stdatomic.h>

/* What goes to a member and what comes from it in one swap; other members' sends and receives must
 * fit. */
typedef struct piece {
    const char *send;
    char *recv;
    size_t send_bytes, recv_bytes;
} piece;

typedef struct group {
    const weft_host *host;
    MPI_Comm comm;
    int n, me;
    int *ranks;            /* [n] of the run */
    bool *absent;          /* [n] who is being waited for */
    piece *pieces;         /* [n] */
    MPI_Request *requests; /* [2 * n] */
    int *with;             /* [2 * n] of each request: the other member */
    char *scratch; /* others' terms of a sum; made at the first one, kept until the group goes */
    size_t scratch_bytes;
    atomic_bool *left; /* whoever sets it ends all waiting */
} group;

weft_status mpi_error(int code, const char *what, weft_error *err);
/* Until the first n requests are done. */
weft_status mpi_wait_all(group *g, int n, weft_error *err);
/* Every member calls it: pieces[i] is exchanged with member i. The own one is not touched. */
weft_status mpi_swap(group *g, weft_error *err);

weft_status mpi_all_gather(void *self, void *handle, const void *send, void *recv, int64_t count,
                           weft_dtype dtype, weft_queue *queue, weft_error *err);
weft_status mpi_all_to_all(void *self, void *handle, const void *send, void *recv, int64_t count,
                           weft_dtype dtype, weft_queue *queue, weft_error *err);
weft_status mpi_reduce_scatter(void *self, void *handle, const void *send, void *recv,
                               int64_t count, weft_dtype dtype, weft_reduce op, weft_queue *queue,
                               weft_error *err);
weft_status mpi_all_reduce(void *self, void *handle, const void *send, void *recv, int64_t count,
                           weft_dtype dtype, weft_reduce op, weft_queue *queue, weft_error *err);

#endif
