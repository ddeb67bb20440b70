/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives from messages between pairs. */
#include "mpi.h"

#include <string.h>

/* ---- messages ---- */

weft_status mpi_error(int code, const char *what, weft_error *err)
{
    char text[MPI_MAX_ERROR_STRING] = "unknown error";
    int n;
    if (MPI_Error_string(code, text, &n) != MPI_SUCCESS)
        strncpy(text, "unknown error", sizeof text - 1);
    return weft_fail(err, WEFT_ERR_RUN, WEFT_NOWHERE, "mpi: %s: %s", what, text);
}

size_t mpi_slice(size_t bytes, size_t i)
{
    size_t at = i * WEFT_MESSAGE_BYTES;
    return at >= bytes ? 0 : bytes - at < WEFT_MESSAGE_BYTES ? bytes - at : WEFT_MESSAGE_BYTES;
}

/* Posts message number i of every piece; *more: something is left. */
static int post(group *g, size_t i, int *n, bool *more)
{
    size_t at = i * WEFT_MESSAGE_BYTES;
    int code = MPI_SUCCESS;
    *n = 0;
    *more = false;
    for (int k = 1; k < g->n && code == MPI_SUCCESS;
         k++) { /* all of them at once, and not all to the same member first */
        int to = (g->me + k) % g->n, from = (g->me - k + g->n) % g->n;
        const weft_swap *out = &g->pairs.pieces[to], *in = &g->pairs.pieces[from];
        size_t send = mpi_slice(out->send_bytes, i), recv = mpi_slice(in->recv_bytes, i);
        if (recv) {
            g->with[*n] = from;
            code = MPI_Irecv(in->recv + at, (int)recv, MPI_BYTE, from, WEFT_TAG_COLLECTIVE, g->comm,
                             &g->requests[(*n)++]);
        }
        if (send && code == MPI_SUCCESS) {
            g->with[*n] = to;
            code = MPI_Isend(out->send + at, (int)send, MPI_BYTE, to, WEFT_TAG_COLLECTIVE, g->comm,
                             &g->requests[(*n)++]);
        }
        *more = *more || mpi_slice(out->send_bytes, i + 1) || mpi_slice(in->recv_bytes, i + 1);
    }
    return code;
}

weft_status mpi_swap(void *handle, weft_error *err)
{
    group *g = handle;
    bool more = true;
    for (size_t i = 0; more; i++) {
        int n, code = post(g, i, &n, &more);
        if (code != MPI_SUCCESS)
            return mpi_error(code, "a message cannot be sent or received", err);
        weft_status s = mpi_wait_all(g, g->requests, g->with, n, err);
        if (s)
            return s;
    }
    return WEFT_OK;
}

/* ---- what the core makes of them ---- */

weft_status mpi_all_gather(void *self, void *handle, const void *send, void *recv, int64_t count,
                           weft_dtype dtype, weft_queue *queue, weft_error *err)
{
    (void)self, (void)queue;
    return weft_pairs_all_gather(&((group *)handle)->pairs, send, recv, count, dtype, err);
}

weft_status mpi_reduce_scatter(void *self, void *handle, const void *send, void *recv,
                               int64_t count, weft_dtype dtype, weft_reduce op, weft_queue *queue,
                               weft_error *err)
{
    (void)self, (void)queue;
    return weft_pairs_reduce_scatter(&((group *)handle)->pairs, send, recv, count, dtype, op, err);
}

weft_status mpi_all_reduce(void *self, void *handle, const void *send, void *recv, int64_t count,
                           weft_dtype dtype, weft_reduce op, weft_queue *queue, weft_error *err)
{
    (void)self, (void)queue;
    return weft_pairs_all_reduce(&((group *)handle)->pairs, send, recv, count, dtype, op, err);
}

weft_status mpi_all_to_all(void *self, void *handle, const void *send, void *recv, int64_t count,
                           weft_dtype dtype, weft_queue *queue, weft_error *err)
{
    (void)self, (void)queue;
    return weft_pairs_all_to_all(&((group *)handle)->pairs, send, recv, count, dtype, err);
}

weft_status mpi_broadcast(void *self, void *handle, int root, void *data, int64_t count,
                          weft_dtype dtype, weft_queue *queue, weft_error *err)
{
    (void)self, (void)queue;
    return weft_pairs_broadcast(&((group *)handle)->pairs, root, data, count, dtype, err);
}
