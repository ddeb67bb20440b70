/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank will call its transport for, and the memory that takes. */
#include "base/array.h"
#include "compile/driver/plan.h"

typedef struct calls {
    weft_planned_call *list;
    int n, capacity;
} calls;

static weft_status add(calls *c, weft_planned_call call, weft_error *err)
{
    weft_planned_call *added = weft_array_push(&c->list, &c->n, &c->capacity, sizeof *added);
    if (!added)
        return weft_fail_memory(err);
    *added = call;
    return WEFT_OK;
}

static weft_status add_collective(calls *c, const weft_lowered *l, const weft_exchange *e,
                                  weft_error *err)
{
    weft_status s = WEFT_OK;
    for (int i = 0; i < e->n_parts && !s; i++) {
        const weft_exchange_part *part = &e->parts[i];
        const weft_planned_call call = {.mode = l->graph->config.mode,
                                        .move = part->step->move,
                                        .members =
                                            weft_step_members(&l->graph->config.mesh, part->step),
                                        .count = part->count,
                                        .dtype = part->dtype,
                                        .at_once = 1,
                                        .sent = part->sent};
        s = part->sends ? add(c, call, err) : WEFT_OK;
    }
    return s;
}

/* ---- transfers ---- */

static bool is_post(const weft_instruction *in)
{
    return in->kind == WEFT_POST_SEND || in->kind == WEFT_POST_RECV;
}

static int64_t bytes_of(const weft_instruction *in)
{
    return weft_tensor_count(&in->tensors[0]) * (int64_t)weft_dtype_size(in->tensors[0].dtype);
}

/* How many of this size are on their way at once. What stages send each other may be until it is
 * sent again, or received once more; what is shifted, until it is awaited in its program. */
static int find_most(const weft_lowered *l, int64_t bytes)
{
    int stages = 0, most = 0;
    for (int a = 0; a < l->n_programs; a++)
        for (int i = 0, shifts = 0; i < l->programs[a].n; i++) {
            const weft_instruction *in = &l->programs[a].list[i];
            bool shifted = in->node && weft_node_shifts(in->node);
            if (is_post(in) && !shifted && bytes_of(in) == bytes)
                stages += in->kind == WEFT_POST_SEND ? (int)l->sending : WEFT_MOST_POSTED;
            if (is_post(in) && shifted)
                shifts += bytes_of(in) == bytes;
            else if (in->kind == WEFT_AWAIT && shifted)
                shifts -= 2 * (bytes_of(in) == bytes); /* both ways */
            most = shifts > most ? shifts : most;
        }
    return stages + most;
}

/* first: of the mode's transfers. */
static weft_status add_transfer(calls *c, int first, const weft_lowered *l,
                                const weft_instruction *in, weft_error *err)
{
    const weft_tensor *t = &in->tensors[0];
    for (int i = first; i < c->n; i++)
        if (c->list[i].count * (int64_t)weft_dtype_size(c->list[i].dtype) == bytes_of(in))
            return WEFT_OK;
    const weft_planned_call call = {.mode = l->graph->config.mode,
                                    .move = WEFT_SEND,
                                    .members =
                                        weft_step_members(&l->graph->config.mesh, in->node->steps),
                                    .count = weft_tensor_count(t),
                                    .dtype = t->dtype,
                                    .at_once = find_most(l, bytes_of(in))};
    return call.count ? add(c, call, err) : WEFT_OK;
}

static weft_status add_mode(calls *c, const weft_lowered *l, weft_error *err)
{
    weft_status s = WEFT_OK;
    for (int a = 0; a < l->n_programs; a++)
        for (int i = 0; i < l->programs[a].n && !s; i++)
            if (l->programs[a].list[i].kind == WEFT_COLLECTIVE)
                s = add_collective(c, l, l->programs[a].list[i].exchange, err);
    const int first = c->n;
    for (int a = 0; a < l->n_programs; a++)
        for (int i = 0; i < l->programs[a].n && !s; i++)
            if (is_post(&l->programs[a].list[i]))
                s = add_transfer(c, first, l, &l->programs[a].list[i], err);
    return s;
}

weft_status weft_plan_sending(weft_plan *plan, weft_error *err)
{
    void *self;
    calls c = {0};
    const weft_transport *t = weft_plugins_service(plan->plugins, "transport", &self);
    if (!t || !t->plan || plan->ranks == 1)
        return WEFT_OK;
    weft_status s = WEFT_OK;
    for (int m = 0; m < WEFT_MODES && !s; m++)
        if (plan->lowered[m])
            s = add_mode(&c, plan->lowered[m], err);
    s = s ? s : t->plan(self, c.list, c.n, &plan->sending, err);
    weft_free(c.list);
    return s;
}
