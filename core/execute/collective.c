/* SPDX-License-Identifier: Apache-2.0 */
#include "execute/collective.h"
#include "base/array.h"
#include "execute/run.h"

/* ---- places ---- */

typedef struct where {
    const weft_instruction *in;
    char *workspace;
} where;

static char *address(const where *w, weft_place p)
{
    if (p.of == WEFT_PLACE_ZEROS)
        return NULL;
    return (p.of == WEFT_PLACE_WORKSPACE ? w->workspace : (char *)w->in->tensors[p.of].data) + p.at;
}

static weft_status move(weft_run *run, const where *w, const weft_exchange_part *part,
                        weft_error *err)
{
    weft_status s = weft_array_reserve(&run->boxes, &run->boxes_capacity, (size_t)part->n,
                                       sizeof *run->boxes, err);
    for (int i = 0; i < part->n && !s; i++) {
        const weft_place_box *b = &w->in->exchange->boxes[part->first + i];
        run->boxes[i] = b->box;
        run->boxes[i].to = address(w, b->to);
        run->boxes[i].from = address(w, b->from);
    }
    return s ? s : weft_device_move(run->plan, w->in->queue, run->boxes, part->n, err);
}

/* ---- the transport ---- */

static weft_status call(const weft_groups *g, void *of, const weft_exchange_part *p, void *send,
                        void *recv, weft_queue *queue, weft_error *err)
{
    const weft_transport *t = g->transport;
    void *self = g->transport_self;
    switch (p->step->move) {
    case WEFT_ALL_GATHER:
        return t->all_gather(self, of, send, recv, p->count, p->dtype, queue, err);
    case WEFT_REDUCE_SCATTER:
        return t->reduce_scatter(self, of, send, recv, p->count, p->dtype, p->op, queue, err);
    case WEFT_ALL_REDUCE:
        return t->all_reduce(self, of, send, recv, p->count, p->dtype, p->op, queue, err);
    case WEFT_ALL_TO_ALL:
        return t->all_to_all(self, of, send, recv, p->count, p->dtype, queue, err);
    case WEFT_BROADCAST:
        return t->broadcast(self, of, p->step->dim, recv, p->count, p->dtype, queue, err);
    case WEFT_SLICE:
    case WEFT_ZERO:
    case WEFT_SEND:
    case WEFT_SHIFT:
    case WEFT_KEEP:
        break;
    }
    return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE, "%s is not a collective",
                     weft_move_name(p->step->move));
}

weft_doing weft_groups_set_task(const weft_groups *groups, const weft_node *n, const char *what)
{
    return weft_control_set_task(groups->control, groups->rank,
                                 (weft_doing){what, n->by, n->block});
}

/* Calls of parts [from, to), which do not wait for each other: as one, where the transport may. */
static weft_status call_all(weft_run *run, const where *w, int from, int to, weft_queue *queue,
                            weft_error *err)
{
    const weft_groups *g = &run->groups;
    const weft_transport *t = g->transport;
    const weft_exchange_part *parts = w->in->exchange->parts;
    const weft_step *step = parts[from].step;
    void *group = weft_groups_find(g, WEFT_CHANNEL_COLLECTIVES, step->axes, step->n_axes)->handle;
    const bool as_one = to - from > 1 && t->group_begin;
    weft_status s = as_one ? t->group_begin(g->transport_self, group, err) : WEFT_OK;
    if (s)
        return s;
    for (int i = from; i < to && !s; i++) {
        run->plan->plugins->running.sent = parts[i].sent;
        s = call(g, group, &parts[i], address(w, parts[i].send), address(w, parts[i].recv), queue,
                 err);
    }
    run->plan->plugins->running.sent = NULL;
    weft_status ended = as_one ? t->group_end(g->transport_self, group, s ? NULL : err) : WEFT_OK;
    return s ? s : ended;
}

/* Behind the calls that may be made as one with call `from`: none reads what another writes. */
static int end_of_calls(const weft_instruction *in, int from)
{
    int to = from + 1;
    while (in->parts && to < in->exchange->n_parts && in->exchange->parts[to].sends)
        to++;
    return to;
}

weft_status weft_collective(weft_run *run, const weft_instruction *in, void *workspace,
                            weft_error *err)
{
    const weft_groups *g = &run->groups;
    const where w = {in, workspace};
    const weft_doing before =
        weft_groups_set_task(g, in->node, weft_move_name(in->node->steps->move));
    weft_queue *queue = weft_device_queue(run->plan, in->queue);
    weft_status s = WEFT_OK;
    for (int i = 0, next; i < in->exchange->n_parts && !s; i = next) {
        const weft_exchange_part *part = &in->exchange->parts[i];
        weft_groups_set_task(g, in->node, weft_move_name(part->step->move));
        const double since = weft_now();
        next = part->sends ? end_of_calls(in, i) : i + 1;
        s = part->sends ? call_all(run, &w, i, next, queue, err) : move(run, &w, part, err);
        run->sent_s += part->sends ? weft_now() - since : 0;
    }
    weft_control_set_task(g->control, g->rank, before);
    return s;
}
