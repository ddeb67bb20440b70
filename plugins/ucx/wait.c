/* SPDX-License-Identifier: Apache-2.0 */
/* Messages, and waiting for them: at first without a pause, so that a short wait stays short; then
 * the core is given to whoever wants it; a long wait costs none. */
#include "ucx.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <time.h>

/* From the beginning of a wait. Messages only move while somebody looks, so a wait of some
 * milliseconds, as for a large one, does without pauses; they grow to 1/64 of the wait. */
static const double spin_s = 50e-6, yield_s = 5e-3, longest_pause_s = 1e-3, look_s = 0.1;

/* ---- what is lost ---- */

static void pause_for(double seconds)
{
    const struct timespec pause = {.tv_nsec = (long)(seconds * 1e9)};
    if (nanosleep(&pause, NULL) != 0 && errno != EINTR)
        sched_yield();
}

static weft_status fail_left(weft_error *err)
{
    return weft_fail(err, WEFT_ERR_PEER, WEFT_NOWHERE,
                     "another rank has ended in the middle of a step");
}

static weft_status look(const group *g, double since, weft_error *err)
{
    const weft_host *host = g->t->host;
    return host->waiting(host, since, g->ranks, g->absent, g->n, err);
}

/* Where a message is lost its rank is gone, or cannot be reached. The core's own channel knows more
 * of that, and says so to all, in its own time. */
static weft_status find_cause(const group *g, int lost, double since, ucs_status_t status,
                              weft_error *err)
{
    static const double patience_s = 40;
    const double until = weft_now() + patience_s;
    memset(g->absent, 0, (size_t)g->n * sizeof *g->absent);
    g->absent[lost] = true;
    while (weft_now() < until) {
        if (atomic_load(&g->t->left))
            return fail_left(err);
        weft_status s = look(g, since, err);
        if (s)
            return s;
        pause_for(look_s);
    }
    return weft_fail(err, WEFT_ERR_RUN, WEFT_NOWHERE,
                     "ucx: a message to or from rank %d was lost: %s", g->ranks[lost],
                     ucs_status_string(status));
}

/* ---- sending and receiving ---- */

/* Members of a group send each other messages of one kind in order, and UCX keeps that. */
static ucp_tag_t tag_of(const group *g, int sender, message_kind kind)
{
    return (ucp_tag_t)g->number << 40 | (ucp_tag_t)kind << 32 | (uint32_t)g->ranks[sender];
}

/* Whoever sends or receives there gets the error, too. */
static void note_loss(void *arg, ucp_ep_h end, ucs_status_t status)
{
    (void)arg, (void)end, (void)status;
}

/* The way to a member; made when it is first needed. */
static weft_status find_end(group *g, int to, ucp_ep_h *out, weft_error *err)
{
    transport *t = g->t;
    int rank = g->ranks[to];
    if (!t->ends[rank]) {
        const char *address = t->addresses + (size_t)rank * t->address_bytes;
        /* with error handling a process that is gone is an error, and not the end of this one */
        const ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
                                                      UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                                                      UCP_EP_PARAM_FIELD_ERR_HANDLER,
                                        .err_handler.cb = note_loss,
                                        .address = (const ucp_address_t *)(const void *)address,
                                        .err_mode = UCP_ERR_HANDLING_MODE_PEER};
        ucs_status_t status = ucp_ep_create(t->worker, &params, &t->ends[rank]);
        if (status != UCS_OK) {
            t->ends[rank] = NULL;
            return weft_fail(err, WEFT_ERR_RUN, WEFT_NOWHERE, "ucx: rank %d cannot be reached: %s",
                             rank, ucs_status_string(status));
        }
    }
    *out = t->ends[rank];
    return WEFT_OK;
}

/* What a call that begins a message returns. */
static weft_status keep(const group *g, message *out, void *request, weft_error *err)
{
    out->request = UCS_PTR_IS_ERR(request) ? NULL : request;
    return UCS_PTR_IS_ERR(request)
               ? find_cause(g, out->with, weft_now(), UCS_PTR_STATUS(request), err)
               : WEFT_OK;
}

weft_status ucx_send_message(group *g, int to, message_kind kind, const void *data, size_t bytes,
                             message *out, weft_error *err)
{
    const ucp_request_param_t param = {0};
    ucp_ep_h end = NULL;
    *out = (message){.with = to};
    weft_status s = find_end(g, to, &end, err);
    return s ? s
             : keep(g, out, ucp_tag_send_nbx(end, data, bytes, tag_of(g, g->me, kind), &param),
                    err);
}

weft_status ucx_recv_message(group *g, int from, message_kind kind, void *data, size_t bytes,
                             message *out, weft_error *err)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL};
    *out = (message){.with = from, .receives = true};
    return keep(
        g, out,
        ucp_tag_recv_nbx(g->t->worker, data, bytes, tag_of(g, from, kind), UINT64_MAX, &param),
        err);
}

size_t ucx_slice(size_t bytes, size_t i)
{
    size_t at = i * WEFT_MESSAGE_BYTES;
    return at >= bytes ? 0 : bytes - at < WEFT_MESSAGE_BYTES ? bytes - at : WEFT_MESSAGE_BYTES;
}

/* ---- waiting ---- */

static void rest(double waited)
{
    if (waited < spin_s)
        return;
    if (waited < yield_s)
        sched_yield();
    else
        pause_for(waited / 64 < longest_pause_s ? waited / 64 : longest_pause_s);
}

/* Frees what is done; *left: how many are not. *lost: the member whose message never will be. */
static ucs_status_t collect(message *list, int n, int *left, int *lost)
{
    *left = 0;
    for (int i = 0; i < n; i++) {
        if (!list[i].request)
            continue;
        ucs_status_t status = ucp_request_check_status(list[i].request);
        if (status == UCS_INPROGRESS) {
            ++*left;
            continue;
        }
        ucp_request_free(list[i].request);
        list[i].request = NULL;
        *lost = list[i].with;
        if (status != UCS_OK)
            return status;
    }
    return UCS_OK;
}

static void find_absent(const group *g, const message *list, int n)
{
    memset(g->absent, 0, (size_t)g->n * sizeof *g->absent);
    for (int i = 0; i < n; i++)
        if (list[i].request)
            g->absent[list[i].with] = true;
}

/* Gives up when a rank has ended, for its messages will never come, or when the core says so. Every
 * message that is done begins the wait anew. */
weft_status ucx_wait_all(group *g, message *list, int n, weft_error *err)
{
    double since = weft_now(), look_at = since + look_s;
    for (int left = 0, lost = 0, before = n;; before = left) {
        while (ucp_worker_progress(g->t->worker))
            continue;
        ucs_status_t status = collect(list, n, &left, &lost);
        if (status != UCS_OK)
            return find_cause(g, lost, since, status, err);
        if (left == 0)
            return WEFT_OK;
        if (atomic_load(&g->t->left))
            return fail_left(err);
        double now = weft_now();
        since = left < before ? now : since;
        if (now >= look_at) {
            look_at = now + look_s;
            find_absent(g, list, n);
            weft_status s = look(g, since, err);
            if (s)
                return s;
        }
        rest(now - since);
    }
}

/* A send cannot be taken back; it ends with the worker, if it does not before. */
void ucx_drop_messages(transport *t, message *list, int n)
{
    for (int i = 0; i < n; i++) {
        if (!list[i].request)
            continue;
        if (list[i].receives)
            ucp_request_cancel(t->worker, list[i].request);
        ucp_request_free(list[i].request);
        list[i].request = NULL;
    }
}

/* ---- all members at once ---- */

/* Begins message number i of every piece; *more: something is left. */
static weft_status post(group *g, size_t i, int *n, bool *more, weft_error *err)
{
    size_t at = i * WEFT_MESSAGE_BYTES;
    weft_status s = WEFT_OK;
    *n = 0;
    *more = false;
    for (int k = 1; k < g->n && !s; k++) { /* all at once, and not all to the same member first */
        int to = (g->me + k) % g->n, from = (g->me - k + g->n) % g->n;
        const weft_swap *out = &g->pairs.pieces[to], *in = &g->pairs.pieces[from];
        size_t send = ucx_slice(out->send_bytes, i), recv = ucx_slice(in->recv_bytes, i);
        if (recv)
            s = ucx_recv_message(g, from, COLLECTIVE, in->recv + at, recv, &g->messages[(*n)++],
                                 err);
        if (send && !s)
            s = ucx_send_message(g, to, COLLECTIVE, out->send + at, send, &g->messages[(*n)++],
                                 err);
        *more = *more || ucx_slice(out->send_bytes, i + 1) || ucx_slice(in->recv_bytes, i + 1);
    }
    return s;
}

weft_status ucx_swap(void *handle, weft_error *err)
{
    group *g = handle;
    weft_status s = WEFT_OK;
    bool more = true;
    for (size_t i = 0; more && !s; i++) {
        int n;
        s = post(g, i, &n, &more, err);
        s = s ? s : ucx_wait_all(g, g->messages, n, err);
        if (s)
            ucx_drop_messages(g->t, g->messages, n);
    }
    return s;
}
