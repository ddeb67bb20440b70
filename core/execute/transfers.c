/* SPDX-License-Identifier: Apache-2.0 */
/* What stages of a pipeline send each other: begun here, awaited there. A send is over when its
 * place is needed again, at the latest when the tasks end; a receive, before its first reader. */
#include "execute/run.h"

#include <string.h>

struct weft_transfer {
    weft_request **posted; /* in order */
    int n;
    int64_t next;               /* place of the next that is sent */
    const weft_instruction *by; /* the last that began one */
};

weft_status weft_transfers_create(weft_run *run, weft_error *err)
{
    for (int m = 0; m < WEFT_MODES; m++) {
        const weft_lowered *l = run->plan->lowered[m];
        if (!l || !l->n_transfers)
            continue;
        const size_t n = (size_t)l->n_transfers;
        const size_t most = (size_t)(l->sending > WEFT_MOST_POSTED ? l->sending : WEFT_MOST_POSTED);
        struct weft_transfer *list = run->transfers[m] =
            weft_alloc_zero(n, sizeof *list + most * sizeof *list->posted);
        if (!list)
            return weft_fail_memory(err);
        for (size_t i = 0; i < n; i++)
            list[i].posted = (weft_request **)(list + n) + i * most;
    }
    return WEFT_OK;
}

void weft_transfers_destroy(weft_run *run)
{
    weft_error unsaid = {0};
    for (int m = 0; m < WEFT_MODES; m++) {
        for (int i = 0; run->transfers[m] && i < run->plan->lowered[m]->n_transfers; i++) {
            const struct weft_transfer *t = &run->transfers[m][i];
            if (t->n && weft_node_is_far(t->by->node)) /* after an error */
                run->plan->far->wait(run->plan->far_self, t->posted[0], &unsaid);
        }
        weft_free(run->transfers[m]);
    }
    weft_error_release(&unsaid);
}

/* Until the oldest is over. */
static weft_status await(weft_run *run, struct weft_transfer *t, const weft_instruction *in,
                         const char *what, weft_error *err)
{
    const weft_groups *g = &run->groups;
    weft_request *oldest = t->posted[0];
    memmove(t->posted, t->posted + 1, (size_t)--t->n * sizeof *t->posted);
    const weft_doing before = weft_groups_set_task(g, in->node, what);
    const double since = weft_now();
    const bool far = weft_node_is_far(in->node);
    weft_status s =
        far ? weft_far_blame(run, in, run->plan->far->wait(run->plan->far_self, oldest, err), err)
            : g->transport->wait(g->transport_self, oldest, weft_device_queue(run->plan, in->queue),
                                 err);
    run->waited_s += weft_now() - since;
    run->sent_s += far ? 0 : weft_now() - since;
    weft_control_set_task(g->control, g->rank, before);
    return s;
}

static struct weft_transfer *transfer_of(weft_run *run, const weft_lowered *l,
                                         const weft_instruction *in)
{
    return &run->transfers[l->graph->config.mode][in->transfer];
}

static const weft_group *group_of(const weft_run *run, const weft_node *n)
{
    return weft_groups_find(&run->groups, weft_channel_of(n, n->steps), n->steps->axes,
                            n->steps->n_axes);
}

weft_status weft_transfer_send(weft_run *run, const weft_lowered *l, const weft_instruction *in,
                               size_t bytes, void *place, weft_error *err)
{
    struct weft_transfer *t = transfer_of(run, l, in);
    const weft_groups *g = &run->groups;
    const weft_tensor *v = &in->tensors[0];
    const bool micro = weft_part_is_micro(in->node->part) && !weft_node_shifts(in->node);
    const int64_t places = micro ? l->sending : 1; /* others go one by one */
    weft_status s = t->n == places ? await(run, t, in, "send", err) : WEFT_OK;
    if (s)
        return s;
    if (weft_tensor_count(v) == 0)
        return WEFT_OK;
    const weft_group *group = group_of(run, in->node);
    int to = weft_node_shifts(in->node) ? (group->me + 1) % group->n : in->node->steps->to;
    if (place) {
        place = (char *)place +
                t->next * weft_align(weft_nominal_bytes(l->graph, in->node->ins[0]), l->alignment);
        t->next = (t->next + 1) % places;
    }
    const weft_box box = weft_box_of(place, v->data, (int64_t)bytes);
    if (place && (s = weft_device_move(run->plan, in->queue, &box, 1, err)))
        return s;
    if (!place) /* from where it lies */
        place = v->data;
    t->by = in;
    int queue = weft_streams_transfers(run, in);
    if ((s = weft_streams_order(run, in->queue, queue, err)))
        return s;
    s = g->transport->send(g->transport_self, group->handle, to, place, weft_tensor_count(v),
                           v->dtype, weft_device_queue(run->plan, queue), &t->posted[t->n], err);
    t->n += !s;
    return s;
}

weft_status weft_transfer_recv(weft_run *run, const weft_lowered *l, const weft_instruction *in,
                               weft_error *err)
{
    struct weft_transfer *t = transfer_of(run, l, in);
    const weft_groups *g = &run->groups;
    const weft_tensor *v = &in->tensors[0];
    if (t->n == WEFT_MOST_POSTED)
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE, "%s is received too early",
                         in->node->outs[0]->name);
    int from = in->node->steps->dim;
    if (weft_node_shifts(in->node))
        from = (group_of(run, in->node)->me + group_of(run, in->node)->n - 1) %
               group_of(run, in->node)->n;
    if (weft_tensor_count(v) == 0)
        return WEFT_OK;
    t->by = in;
    weft_status s = g->transport->recv(
        g->transport_self, group_of(run, in->node)->handle, from, v->data, weft_tensor_count(v),
        v->dtype, weft_device_queue(run->plan, in->queue), &t->posted[t->n], err);
    t->n += !s;
    return s;
}

bool weft_transfer_is_zero(weft_run *run, const weft_lowered *l, const weft_instruction *in)
{
    struct weft_transfer *t = transfer_of(run, l, in);
    const bool sum = in->node->ins[0]->kind == WEFT_STATE_STEP, zero = sum && t->next == 0;
    t->next = sum ? (t->next + 1) % l->graph->config.sizes.micro_batches : 0;
    return zero;
}

weft_status weft_transfer_far(weft_run *run, const weft_lowered *l, const weft_instruction *in,
                              weft_error *err)
{
    struct weft_transfer *t = transfer_of(run, l, in);
    if (weft_tensor_count(&in->tensors[0]) == 0)
        return WEFT_OK;
    t->by = in;
    weft_status s = weft_far_begin(run, l, in, &t->posted[t->n], err);
    t->n += !s;
    return s;
}

weft_status weft_transfer_await(weft_run *run, const weft_lowered *l, const weft_instruction *in,
                                weft_error *err)
{
    struct weft_transfer *t = transfer_of(run, l, in);
    const char *what = weft_node_is_far(in->node) ? in->node->op->name : "recv";
    weft_status s = t->n ? await(run, t, in, what, err) : WEFT_OK; /* of nothing, nothing */
    bool sends = weft_node_shifts(in->node) && t[1].n;
    return !s && sends ? await(run, t + 1, in, "send", err) : s;
}

weft_status weft_transfers_end(weft_run *run, const weft_lowered *l, weft_error *err)
{
    weft_status s = WEFT_OK;
    for (int i = 0; i < l->n_transfers && !s; i++) {
        struct weft_transfer *t = &run->transfers[l->graph->config.mode][i];
        while (t->n && !s)
            s = await(run, t, t->by, "send", err);
    }
    return s;
}
