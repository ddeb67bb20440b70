/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the mpi plugin share. */
#ifndef WEFT_PLUGINS_MPI_H
#define WEFT_PLUGINS_MPI_H

#include <weft/pairs.h>
#include <weft/weft.h>

#include <mpi.h>
#include <stdatomic.h>

enum { WEFT_TAG_COLLECTIVE = 1, WEFT_TAG_SENDER, WEFT_TAG_RECEIVER, WEFT_TAG_DATA };
/* MPI counts are ints; and a message that has gone through is a sign of life, also over a slow
 * link.
 */
#define WEFT_MESSAGE_BYTES ((size_t)16 << 20)

typedef struct group {
    const weft_host *host;
    MPI_Comm comm;
    int n, me;
    int *ranks;   /* [n] of the run */
    bool *absent; /* [n] who is being waited for */
    weft_pairs pairs;
    MPI_Request *requests;   /* [2 * n] */
    int *with;               /* [2 * n] of each request: the other member */
    weft_request *transfers; /* begun, and nobody has waited for them */
    atomic_bool *left;       /* whoever sets it ends all waiting */
} group;

weft_status mpi_error(int code, const char *what, weft_error *err);
/* Until these n requests are done; with: of each, the other member. */
weft_status mpi_wait_all(group *g, MPI_Request *requests, const int *with, int n, weft_error *err);
/* The length of message number i of so many bytes: 0 behind the last. */
size_t mpi_slice(size_t bytes, size_t i);
/* For weft_pairs. */
weft_status mpi_swap(void *group, weft_error *err);

weft_status mpi_all_gather(void *self, void *handle, const void *send, void *recv, int64_t count,
                           weft_dtype dtype, weft_queue *queue, weft_error *err);
weft_status mpi_all_to_all(void *self, void *handle, const void *send, void *recv, int64_t count,
                           weft_dtype dtype, weft_queue *queue, weft_error *err);
weft_status mpi_reduce_scatter(void *self, void *handle, const void *send, void *recv,
                               int64_t count, weft_dtype dtype, weft_reduce op, weft_queue *queue,
                               weft_error *err);
weft_status mpi_all_reduce(void *self, void *handle, const void *send, void *recv, int64_t count,
                           weft_dtype dtype, weft_reduce op, weft_queue *queue, weft_error *err);

weft_status mpi_broadcast(void *self, void *handle, int root, void *data, int64_t count,
                          weft_dtype dtype, weft_queue *queue, weft_error *err);

/* transfer.c */
weft_status mpi_send(void *self, void *handle, int to, const void *data, int64_t count,
                     weft_dtype dtype, weft_queue *queue, weft_request **request, weft_error *err);
weft_status mpi_recv(void *self, void *handle, int from, void *data, int64_t count,
                     weft_dtype dtype, weft_queue *queue, weft_request **request, weft_error *err);
weft_status mpi_wait(void *self, weft_request *request, weft_queue *queue, weft_error *err);
/* Ends what nobody has waited for. */
void mpi_drop_transfers(group *g);

#endif
