/* SPDX-License-Identifier: Apache-2.0 */
/* Sends and receives. Beside the data each end tells the other what it means, so that a send ends
 * only when its receive has begun, and both know if they do not mean the same. */
#include "ucx.h"

#include <string.h>

enum { HEADS = 2 }; /* what the other end says, and what this one does: the first messages */

struct weft_request {
    group *group;
    int peer;
    bool sends;
    int64_t mine[2], theirs[2]; /* count, dtype */
    message *list;              /* [n] the heads, then the data's messages */
    int n;
    weft_request *next;
};

/* What is not over is no longer wanted. */
static void drop(weft_request *r)
{
    weft_request **at = &r->group->transfers;
    while (*at && *at != r)
        at = &(*at)->next;
    if (*at)
        *at = r->next;
    if (r->list)
        ucx_drop_messages(r->group->t, r->list, r->n);
    weft_free(r->list);
    weft_free(r);
}

void ucx_drop_transfers(group *g)
{
    while (g->transfers)
        drop(g->transfers);
}

static weft_status post(weft_request *r, const char *source, char *target, size_t bytes,
                        weft_error *err)
{
    group *g = r->group;
    weft_status s = ucx_recv_message(g, r->peer, r->sends ? RECEIVER : SENDER, r->theirs,
                                     sizeof r->theirs, &r->list[0], err);
    s = s ? s
          : ucx_send_message(g, r->peer, r->sends ? SENDER : RECEIVER, r->mine, sizeof r->mine,
                             &r->list[1], err);
    for (size_t i = 0; ucx_slice(bytes, i) && !s; i++) {
        size_t at = i * WEFT_MESSAGE_BYTES, n = ucx_slice(bytes, i);
        message *m = &r->list[HEADS + i];
        s = r->sends ? ucx_send_message(g, r->peer, DATA, source + at, n, m, err)
                     : ucx_recv_message(g, r->peer, DATA, target + at, n, m, err);
    }
    return s;
}

static weft_status begin(group *g, bool sends, int peer, const char *source, char *target,
                         int64_t count, weft_dtype dtype, weft_request **out, weft_error *err)
{
    size_t bytes = (size_t)count * weft_dtype_size(dtype), messages = 0;
    while (ucx_slice(bytes, messages))
        messages++;
    weft_request *r = weft_alloc_zero(1, sizeof *r);
    if (!r)
        return weft_fail_memory(err);
    *r = (weft_request){.group = g, .peer = peer, .sends = sends, .mine = {count, dtype}};
    r->n = HEADS + (int)messages;
    r->list = weft_alloc_zero((size_t)r->n, sizeof *r->list);
    weft_status s = r->list ? post(r, source, target, bytes, err) : weft_fail_memory(err);
    if (s) {
        drop(r);
        return s;
    }
    r->next = g->transfers;
    g->transfers = r;
    *out = r;
    return WEFT_OK;
}

weft_status ucx_send(void *self, void *handle, int to, const void *data, int64_t count,
                     weft_dtype dtype, weft_queue *queue, weft_request **request, weft_error *err)
{
    (void)self, (void)queue;
    return begin(handle, true, to, data, NULL, count, dtype, request, err);
}

weft_status ucx_recv(void *self, void *handle, int from, void *data, int64_t count,
                     weft_dtype dtype, weft_queue *queue, weft_request **request, weft_error *err)
{
    (void)self, (void)queue;
    return begin(handle, false, from, NULL, data, count, dtype, request, err);
}

static weft_status fail_different(const weft_request *r, weft_error *err)
{
    const group *g = r->group;
    const int64_t *sent = r->sends ? r->mine : r->theirs, *got = r->sends ? r->theirs : r->mine;
    int me = g->ranks[g->me], peer = g->ranks[r->peer];
    return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                     "ucx: rank %d sends %lld elements of %s to rank %d, which receives %lld of %s",
                     r->sends ? me : peer, (long long)sent[0], weft_dtype_name((weft_dtype)sent[1]),
                     r->sends ? peer : me, (long long)got[0], weft_dtype_name((weft_dtype)got[1]));
}

weft_status ucx_wait(void *self, weft_request *r, weft_queue *queue, weft_error *err)
{
    (void)self, (void)queue;
    weft_status s = ucx_wait_all(r->group, r->list, HEADS, err);
    if (!s && memcmp(r->mine, r->theirs, sizeof r->mine) != 0)
        s = fail_different(r, err);
    s = s ? s : ucx_wait_all(r->group, r->list + HEADS, r->n - HEADS, err);
    drop(r);
    return s;
}
