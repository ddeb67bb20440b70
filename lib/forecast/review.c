/* SPDX-License-Identifier: Apache-2.0 */
/* A finished plan as reviews see it: each rank of the pipeline, what it holds, and how long its
 * instructions take; and what they ask for. */
#include "forecast/forecast.h"

#include <string.h>
#include <weft/review.h>

int weft_plan_round(const weft_plan *plan)
{
    return plan->round;
}

const weft_graph *weft_plan_trained(const weft_plan *plan)
{
    return plan->graphs[WEFT_MODE_TRAIN];
}

weft_pipeline_view weft_plan_pipeline(const weft_plan *plan)
{
    const weft_tasks *t = plan->tasks[WEFT_MODE_TRAIN];
    return (weft_pipeline_view){t->ranks, t->stages, t->micro_batches, t->rank_of};
}

int64_t weft_plan_room(const weft_plan *plan)
{
    weft_device_rates rates;
    if (!weft_device_find_rates(plan, &rates))
        return 0;
    return (int64_t)(rates.memory_bytes / (size_t)weft_device_sharers(plan, &rates));
}

/* ---- what is asked ---- */

static weft_request *find(const weft_plugins *plugins, const char *what)
{
    weft_request *r = plugins->asked;
    while (r && strcmp(r->what, what) != 0)
        r = r->next;
    return r;
}

const char *weft_asked(const weft_host *host, const char *what)
{
    const weft_request *r = find(host->core, what);
    return r ? r->value : NULL;
}

static weft_status ask(weft_plugins *plugins, const char *by, const char *what, const char *value,
                       weft_error *err)
{
    weft_request *r = find(plugins, what);
    if (r && strcmp(r->by, by) != 0)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "plugin %s asks for %s = %s, and plugin %s has asked for %s; list only "
                         "one of them",
                         by, what, value, r->by, r->value);
    const char *name = weft_pool_strdup(&plugins->link_pool, what),
               *copy = weft_pool_strdup(&plugins->link_pool, value);
    weft_request *fresh = r ? r : weft_pool_alloc(&plugins->link_pool, sizeof *r);
    if (!name || !copy || !fresh)
        return weft_fail_memory(err);
    *fresh = (weft_request){by, name, copy, r ? r->next : plugins->asked};
    plugins->asked = r ? plugins->asked : fresh;
    return WEFT_OK;
}

/* Refused requests count whatever the review makes of them. */
static weft_status record(weft_plan *p, const char *what, const char *value, bool again,
                          weft_error *err)
{
    const weft_request *r = find(p->plugins, what);
    if (r && strcmp(r->value, value) == 0)
        return WEFT_OK;
    p->again = p->again || again;
    p->refused = p->refused ? p->refused : ask(p->plugins, p->reviewer, what, value, err);
    return p->refused;
}

weft_status weft_plan_ask(weft_plan *p, const char *what, const char *value, weft_error *err)
{
    return record(p, what, value, true, err);
}

weft_status weft_plan_settle(weft_plan *p, const char *what, const char *value, weft_error *err)
{
    return record(p, what, value, false, err);
}

/* ---- another rank, planned for this alone ---- */

/* The first of those with this coordinate: no other holds more. */
static int first_rank(const weft_plan *plan, int coordinate)
{
    const int axis = weft_graph_stage_axis(plan->graphs[WEFT_MODE_TRAIN]);
    return axis < 0 ? 0 : coordinate * weft_mesh_stride(&plan->mesh, axis);
}

void weft_plan_forget_other(weft_plan *other)
{
    for (int m = 0; m < WEFT_MODES; m++)
        weft_lowered_destroy(other->lowered[m]);
    weft_states_release(&other->states);
    weft_states_release(&other->caches);
}

weft_status weft_plan_other(const weft_plan *plan, int rank, bool train_only, weft_plan *other,
                            weft_error *err)
{
    const int64_t alignment = weft_device_alignment(plan->device);
    *other = *plan;
    other->rank = rank;
    memset(other->lowered, 0, sizeof other->lowered);
    other->states = other->caches = (weft_states){0};
    weft_mesh_coord(&plan->mesh, rank, other->coord);
    weft_status s = weft_states_init(&other->states, plan->graphs[WEFT_MODE_TRAIN], other->coord,
                                     false, alignment, err);
    if (!s && plan->graphs[WEFT_MODE_GENERATE])
        s = weft_states_init(&other->caches, plan->graphs[WEFT_MODE_GENERATE], other->coord, true,
                             alignment, err);
    for (int m = 0; m < WEFT_MODES && !s; m++)
        if (plan->graphs[m] && (m == WEFT_MODE_TRAIN || !train_only))
            s = weft_plan_lower(other, (weft_mode)m, &other->lowered[m], err);
    for (const weft_kept_bytes *k = plan->plugins->kept; k; k = k->next)
        other->states.bytes += weft_align(k->bytes, alignment);
    return s;
}

/* ---- what is shown of it ---- */

static void show_instruction(const weft_roofline *r, const weft_lowered *l, const weft_program *p,
                             const weft_instruction *in, weft_planned_instruction *out)
{
    *out = weft_roofline_show(in);
    out->part = p->part;
    out->stage = p->stage;
    out->seconds = weft_roofline_cost(r, l, in).seconds;
}

static weft_status show_programs(const weft_plan *plan, weft_planned *out, weft_error *err)
{
    weft_lowered *l = plan->lowered[WEFT_MODE_TRAIN];
    weft_roofline r;
    int n = 0;
    for (int a = 0; a < l->n_programs; a++)
        n += l->programs[a].n;
    weft_planned_instruction *list = weft_alloc(((size_t)n + 1) * sizeof *list);
    weft_status s = list ? weft_forecast_see(l, NULL, err) : weft_fail_memory(err);
    out->known = weft_plan_roofline(plan, &r) || (r.model && r.model->seconds);
    out->instructions = list;
    for (int a = 0; a < l->n_programs && !s; a++)
        for (int i = 0; i < l->programs[a].n; i++)
            show_instruction(&r, l, &l->programs[a], &l->programs[a].list[i],
                             &list[out->n_instructions++]);
    return s;
}

static weft_status show_buffers(const weft_lowered *l, weft_planned *out, weft_error *err)
{
    weft_planned_buffer *list = weft_alloc(((size_t)l->n_buffers + 1) * sizeof *list);
    out->buffers = list;
    if (!list)
        return weft_fail_memory(err);
    for (int i = 0; i < l->n_buffers; i++) {
        const weft_buffer *b = &l->buffers[i];
        const bool slot = b->base == WEFT_BASE_SLOT;
        list[i] = (weft_planned_buffer){.value = b->value,
                                        .bytes = b->bytes,
                                        .places = slot ? l->slots[b->slots].n : 1,
                                        .first = b->first,
                                        .last = b->last,
                                        .arena = slot || b->base == WEFT_BASE_ARENA,
                                        .inside = slot};
    }
    out->n_buffers = l->n_buffers;
    out->n_positions = l->n_positions;
    return WEFT_OK;
}

weft_status weft_plan_show(const weft_plan *plan, int rank, weft_planned *out, weft_error *err)
{
    const int number = first_rank(plan, rank);
    *out = (weft_planned){0};
    weft_plan *own = weft_alloc_zero(1, sizeof *own); /* what is shown points into its programs */
    out->core = own;
    weft_status s = own ? WEFT_OK : weft_fail_memory(err);
    if (!s && number != plan->rank)
        s = weft_plan_other(plan, number, false, own, err);
    const weft_plan *of = own && number != plan->rank ? own : plan;
    weft_libraries libraries = {0};
    s = s ? s : weft_plan_libraries(of, &libraries, err);
    s = s ? s : show_programs(of, out, err);
    s = s ? s : show_buffers(of->lowered[WEFT_MODE_TRAIN], out, err);
    if (s) {
        weft_planned_release(out);
        return s;
    }
    const weft_held held = weft_plan_held(of);
    out->bytes = (int64_t)weft_plan_bytes(of);
    out->arena = held.arena;
    out->state = held.state;
    out->others = out->bytes - held.arena - held.state;
    out->libraries =
        libraries.device + libraries.captured + libraries.loading + libraries.transport;
    return WEFT_OK;
}

void weft_planned_release(weft_planned *planned)
{
    weft_plan *own = planned->core;
    if (own)
        weft_plan_forget_other(own);
    weft_free(own);
    weft_free((void *)planned->instructions);
    weft_free((void *)planned->buffers);
    *planned = (weft_planned){0};
}
