/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives from messages between pairs, so that every sum is made in the order of the group, on
 * any number of ranks and with any count. */
#include "mpi.h"

#include <math.h>
#include <string.h>

static const int64_t summed_at_once =
    (int64_t)1 << 18; /* elements of every member: what scratch memory holds */

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
        const piece *out = &g->pieces[to], *in = &g->pieces[from];
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

weft_status mpi_swap(group *g, weft_error *err)
{
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

/* ---- moving ---- */

weft_status mpi_all_gather(void *self, void *handle, const void *send, void *recv, int64_t count,
                           weft_dtype dtype, weft_queue *queue, weft_error *err)
{
    (void)self, (void)queue;
    group *g = handle;
    size_t bytes = (size_t)count * weft_dtype_size(dtype);
    for (int i = 0; i < g->n; i++)
        g->pieces[i] = (piece){send, (char *)recv + (size_t)i * bytes, bytes, bytes};
    memmove(g->pieces[g->me].recv, send, bytes);
    return mpi_swap(g, err);
}

weft_status mpi_all_to_all(void *self, void *handle, const void *send, void *recv, int64_t count,
                           weft_dtype dtype, weft_queue *queue, weft_error *err)
{
    (void)self, (void)queue;
    group *g = handle;
    size_t bytes = (size_t)count * weft_dtype_size(dtype);
    for (int i = 0; i < g->n; i++)
        g->pieces[i] = (piece){(const char *)send + (size_t)i * bytes,
                               (char *)recv + (size_t)i * bytes, bytes, bytes};
    memcpy(g->pieces[g->me].recv, g->pieces[g->me].send, bytes);
    return mpi_swap(g, err);
}

weft_status mpi_broadcast(void *self, void *handle, int root, void *data, int64_t count,
                          weft_dtype dtype, weft_queue *queue, weft_error *err)
{
    (void)self, (void)queue;
    group *g = handle;
    size_t bytes = (size_t)count * weft_dtype_size(dtype);
    for (int i = 0; i < g->n; i++)
        g->pieces[i] =
            (piece){data, data, g->me == root ? bytes : 0, i == root && g->me != root ? bytes : 0};
    return mpi_swap(g, err);
}

/* ---- sums ---- */

/* A NaN stays, wherever it comes from. */
static double larger(double a, double b)
{
    return a > b || isnan(a) ? a : b;
}

static void combine_f64(double *out, const double *x, int64_t n, weft_reduce op)
{
    if (op == WEFT_REDUCE_SUM)
        for (int64_t i = 0; i < n; i++)
            out[i] += x[i];
    else
        for (int64_t i = 0; i < n; i++)
            out[i] = larger(out[i], x[i]);
}

static void combine_f32(float *out, const float *x, int64_t n, weft_reduce op)
{
    if (op == WEFT_REDUCE_SUM)
        for (int64_t i = 0; i < n; i++)
            out[i] += x[i];
    else
        for (int64_t i = 0; i < n; i++)
            out[i] = (float)larger(out[i], x[i]);
}

/* Sums in f32 over all members, rounded once. */
static void combine_bf16(const group *g, uint16_t *out, int64_t n, weft_reduce op)
{
    for (int64_t i = 0; i < n; i++) {
        float sum = weft_bf16_to_f32(((const uint16_t *)(const void *)g->pieces[0].recv)[i]);
        for (int r = 1; r < g->n; r++) {
            float x = weft_bf16_to_f32(((const uint16_t *)(const void *)g->pieces[r].recv)[i]);
            sum = op == WEFT_REDUCE_SUM ? sum + x : (float)larger(sum, x);
        }
        out[i] = weft_f32_to_bf16(sum);
    }
}

/* What came from every member, in the order of the group. */
static void combine(const group *g, void *out, int64_t n, weft_dtype dtype, weft_reduce op)
{
    if (dtype == WEFT_BF16) {
        combine_bf16(g, out, n, op);
        return;
    }
    memcpy(out, g->pieces[0].recv, (size_t)n * weft_dtype_size(dtype));
    for (int r = 1; r < g->n; r++) {
        const void *x = g->pieces[r].recv;
        if (dtype == WEFT_F64)
            combine_f64(out, x, n, op);
        else
            combine_f32(out, x, n, op);
    }
}

static weft_status reserve(group *g, size_t bytes, weft_error *err)
{
    if (bytes <= g->scratch_bytes)
        return WEFT_OK;
    weft_free_aligned(g->scratch);
    g->scratch = weft_alloc_aligned(64, bytes);
    g->scratch_bytes = g->scratch ? bytes : 0;
    return g->scratch ? WEFT_OK : weft_fail_memory(err);
}

static int64_t clamp(int64_t x, int64_t most)
{
    return x < 0 ? 0 : x > most ? most : x;
}

/* Member i owns elements [i * part, i * part + part) of `total`, the last ones fewer; out gets the
 * combination of everyone's elements that this one owns. out may be where they are in send. */
static weft_status reduce(group *g, const char *send, int64_t total, int64_t part, char *out,
                          weft_dtype dtype, weft_reduce op, weft_error *err)
{
    if (!weft_dtype_is_float(dtype) || weft_dtype_is_f8(dtype))
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE, "mpi: %s cannot be reduced",
                         weft_dtype_name(dtype));
    size_t width = weft_dtype_size(dtype);
    int64_t step = part < summed_at_once ? part : summed_at_once;
    weft_status s = reserve(g, (size_t)g->n * (size_t)step * width, err);
    for (int64_t at = 0; at < part && !s; at += step) {
        int64_t mine = clamp(clamp(total - g->me * part, part) - at, step);
        for (int i = 0; i < g->n; i++) {
            int64_t theirs = clamp(clamp(total - i * part, part) - at, step);
            g->pieces[i] = (piece){send + (size_t)(i * part + at) * width,
                                   g->scratch + (size_t)(i * step) * width, (size_t)theirs * width,
                                   (size_t)mine * width};
        }
        if (mine)
            memcpy(g->pieces[g->me].recv, g->pieces[g->me].send, (size_t)mine * width);
        s = mpi_swap(g, err);
        if (!s && mine)
            combine(g, out + (size_t)at * width, mine, dtype, op);
    }
    return s;
}

weft_status mpi_reduce_scatter(void *self, void *handle, const void *send, void *recv,
                               int64_t count, weft_dtype dtype, weft_reduce op, weft_queue *queue,
                               weft_error *err)
{
    (void)self, (void)queue;
    group *g = handle;
    return reduce(g, send, count * g->n, count, recv, dtype, op, err);
}

/* Everyone combines a part and hands it to all. Its own part of recv is written when the others
 * have it from send already. */
weft_status mpi_all_reduce(void *self, void *handle, const void *send, void *recv, int64_t count,
                           weft_dtype dtype, weft_reduce op, weft_queue *queue, weft_error *err)
{
    (void)self, (void)queue;
    group *g = handle;
    size_t width = weft_dtype_size(dtype);
    int64_t part = (count + g->n - 1) / g->n, mine = clamp(count - g->me * part, part);
    char *own = (char *)recv + (size_t)(g->me * part) * width;
    weft_status s = reduce(g, send, count, part, own, dtype, op, err);
    if (s)
        return s;
    for (int i = 0; i < g->n; i++) {
        int64_t theirs = clamp(count - i * part, part);
        g->pieces[i] = (piece){own, (char *)recv + (size_t)(i * part) * width, (size_t)mine * width,
                               (size_t)theirs * width};
    }
    return mpi_swap(g, err);
}
