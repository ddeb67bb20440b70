/* SPDX-License-Identifier: Apache-2.0 */
/* Sends and receives. Beside the data each end tells the other what it means, so that a send ends
 * only when its receive has begun, and both know if they do not mean the same. */
#include "mpi.h"

#include <string.h>

enum { HEADS = 2 }; /* what the other end says, and what this one does: the first requests */

struct weft_request {
    group *group;
    int peer;
    bool sends;
    int64_t mine[2], theirs[2]; /* count, dtype */
    MPI_Request *list;          /* [n] the heads, then the data's messages */
    int *with;                  /* [n] the peer */
    int n;
    weft_request *next;
};

/* ---- the end ---- */

/* What is not over is no longer wanted. A send cannot be taken back; it may never end. */
static void drop(weft_request *r)
{
    weft_request **at = &r->group->transfers;
    while (*at && *at != r)
        at = &(*at)->next;
    if (*at)
        *at = r->next;
    for (int i = 0; r->list && i < r->n; i++) {
        bool receives = i == 0 || (i >= HEADS && !r->sends);
        if (r->list[i] == MPI_REQUEST_NULL)
            continue;
        if (receives)
            MPI_Cancel(&r->list[i]);
        MPI_Request_free(&r->list[i]);
    }
    weft_free(r->list);
    weft_free(r->with);
    weft_free(r);
}

void mpi_drop_transfers(group *g)
{
    while (g->transfers)
        drop(g->transfers);
}

/* ---- the beginning ---- */

static int post_heads(weft_request *r)
{
    int mine = r->sends ? WEFT_TAG_SENDER : WEFT_TAG_RECEIVER,
        theirs = r->sends ? WEFT_TAG_RECEIVER : WEFT_TAG_SENDER;
    int code = MPI_Irecv(r->theirs, 2, MPI_INT64_T, r->peer, theirs, r->group->comm, &r->list[0]);
    if (code == MPI_SUCCESS)
        code = MPI_Isend(r->mine, 2, MPI_INT64_T, r->peer, mine, r->group->comm, &r->list[1]);
    return code;
}

static int post_data(weft_request *r, const char *source, char *target, size_t bytes)
{
    int code = MPI_SUCCESS;
    for (size_t i = 0; mpi_slice(bytes, i) && code == MPI_SUCCESS; i++) {
        size_t at = i * WEFT_MESSAGE_BYTES;
        int n = (int)mpi_slice(bytes, i);
        MPI_Request *request = &r->list[HEADS + i];
        code = r->sends ? MPI_Isend(source + at, n, MPI_BYTE, r->peer, WEFT_TAG_DATA,
                                    r->group->comm, request)
                        : MPI_Irecv(target + at, n, MPI_BYTE, r->peer, WEFT_TAG_DATA,
                                    r->group->comm, request);
    }
    return code;
}

static weft_status begin(group *g, bool sends, int peer, const char *source, char *target,
                         int64_t count, weft_dtype dtype, weft_request **out, weft_error *err)
{
    size_t bytes = (size_t)count * weft_dtype_size(dtype), messages = 0;
    while (mpi_slice(bytes, messages))
        messages++;
    weft_request *r = weft_alloc_zero(1, sizeof *r);
    if (!r)
        return weft_fail_memory(err);
    *r = (weft_request){.group = g, .peer = peer, .sends = sends, .mine = {count, dtype}};
    r->n = HEADS + (int)messages;
    r->list = weft_alloc((size_t)r->n * sizeof *r->list);
    r->with = weft_alloc((size_t)r->n * sizeof *r->with);
    for (int i = 0; r->list && r->with && i < r->n; i++) {
        r->list[i] = MPI_REQUEST_NULL;
        r->with[i] = peer;
    }
    weft_status s = r->list && r->with ? WEFT_OK : weft_fail_memory(err);
    int code = s ? MPI_SUCCESS : post_heads(r);
    if (!s && code == MPI_SUCCESS)
        code = post_data(r, source, target, bytes);
    if (code != MPI_SUCCESS)
        s = mpi_error(code, "a transfer cannot be begun", err);
    if (s) {
        drop(r);
        return s;
    }
    r->next = g->transfers;
    g->transfers = r;
    *out = r;
    return WEFT_OK;
}

weft_status mpi_send(void *self, void *handle, int to, const void *data, int64_t count,
                     weft_dtype dtype, weft_queue *queue, weft_request **request, weft_error *err)
{
    (void)self, (void)queue;
    return begin(handle, true, to, data, NULL, count, dtype, request, err);
}

weft_status mpi_recv(void *self, void *handle, int from, void *data, int64_t count,
                     weft_dtype dtype, weft_queue *queue, weft_request **request, weft_error *err)
{
    (void)self, (void)queue;
    return begin(handle, false, from, NULL, data, count, dtype, request, err);
}

/* ---- waiting ---- */

static weft_status fail_different(const weft_request *r, weft_error *err)
{
    const group *g = r->group;
    const int64_t *sent = r->sends ? r->mine : r->theirs, *got = r->sends ? r->theirs : r->mine;
    int me = g->ranks[g->me], peer = g->ranks[r->peer];
    return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                     "mpi: rank %d sends %lld elements of %s to rank %d, which receives %lld of %s",
                     r->sends ? me : peer, (long long)sent[0], weft_dtype_name((weft_dtype)sent[1]),
                     r->sends ? peer : me, (long long)got[0], weft_dtype_name((weft_dtype)got[1]));
}

weft_status mpi_wait(void *self, weft_request *r, weft_queue *queue, weft_error *err)
{
    (void)self, (void)queue;
    group *g = r->group;
    weft_status s = mpi_wait_all(g, r->list, r->with, HEADS, err);
    if (!s && memcmp(r->mine, r->theirs, sizeof r->mine) != 0)
        s = fail_different(r, err);
    s = s ? s : mpi_wait_all(g, r->list + HEADS, r->with + HEADS, r->n - HEADS, err);
    drop(r);
    return s;
}
