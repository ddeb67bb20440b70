/* SPDX-License-Identifier: Apache-2.0 */
/* What each stage of a pipeline takes, as a schedule must know it, and what a step does. */
#include "compile/mesh/axes.h"
#include "forecast/forecast.h"

#include <weft/files.h>
#include <weft/review.h>

/* ---- bytes ---- */

enum {
    FORWARD = 1 << WEFT_PART_F,
    BACKWARD = 1 << WEFT_PART_B,
    WEIGHTS = 1 << WEFT_PART_W,
    MICRO = FORWARD | BACKWARD | WEIGHTS
};

/* By buffer: in which parts it is used, and the stage that uses it first. */
static void find_uses(const weft_lowered *l, unsigned *parts, int *stage)
{
    for (int a = 0; a < l->n_programs; a++)
        for (int i = 0; i < l->programs[a].n; i++) {
            const weft_instruction *in = &l->programs[a].list[i];
            for (int k = 0; k < in->n_ins + in->n_outs; k++) {
                const int b = in->buffers[k];
                if (b < 0)
                    continue;
                stage[b] = parts[b] & MICRO ? stage[b] : l->programs[a].stage;
                parts[b] |= 1u << l->programs[a].part;
            }
        }
}

static weft_status count_bytes(const weft_lowered *l, weft_planned_stage *out, weft_error *err)
{
    const size_t n = (size_t)l->n_buffers + 1;
    unsigned *parts = weft_alloc_zero(n, sizeof *parts);
    int *stage = weft_alloc_zero(n, sizeof *stage);
    weft_status s = parts && stage ? WEFT_OK : weft_fail_memory(err);
    if (!s)
        find_uses(l, parts, stage);
    for (int b = 0; b < l->n_buffers && !s; b++) {
        const weft_buffer *buffer = &l->buffers[b];
        const bool here = buffer->base == WEFT_BASE_ARENA || buffer->base == WEFT_BASE_SLOT;
        if (!here || !buffer->value || parts[b] & ~(unsigned)MICRO)
            continue;
        if (parts[b] & FORWARD && parts[b] & (BACKWARD | WEIGHTS))
            out[stage[b]].kept += buffer->bytes;
        if (parts[b] & (FORWARD | BACKWARD) && parts[b] & WEIGHTS)
            out[stage[b]].held += buffer->bytes;
    }
    weft_free(parts);
    weft_free(stage);
    return s;
}

/* ---- seconds ---- */

static void take_seconds(const weft_costs *c, weft_planned_stage *out)
{
    for (int s = 0; s < c->stages; s++) {
        out[s].forward = c->seconds[WEFT_PART_F][s];
        out[s].backward = c->seconds[WEFT_PART_B][s];
        out[s].weights = c->seconds[WEFT_PART_W][s];
        for (int way = 0; way < 2; way++)
            *(way ? &out[s].sends_back : &out[s].sends_on) =
                c->latency_s + (c->bytes_per_s > 0 ? c->bytes[way][s] / c->bytes_per_s : 0);
    }
}

/* A run whose backwards were whole has no time of weights. */
static weft_status measure(weft_costs *c, const char *times, weft_planned_stage *out,
                           weft_error *err)
{
    char *text = NULL;
    size_t size;
    weft_status s = weft_read_file(times, &text, &size, err);
    c->split = NULL;
    s = s ? s : weft_costs_parse(c, times, text, err);
    weft_free(text);
    for (int i = 0; i < c->stages && !s; i++) {
        double *back = &c->seconds[WEFT_PART_B][i], *weights = &c->seconds[WEFT_PART_W][i];
        const double whole = out[i].backward + out[i].weights;
        if (*weights > 0 || whole <= 0)
            continue;
        *weights = *back * (out[i].weights / whole);
        *back -= *weights;
    }
    if (!s)
        take_seconds(c, out);
    return s;
}

static weft_status predict(const weft_plan *plan, weft_forecast *f, weft_error *err)
{
    weft_roofline r;
    weft_plan_roofline(plan, &r);
    return weft_plan_forecast(plan, &r, f, err);
}

static weft_status see(const weft_plan *plan, const char *times, weft_planned_stage *out,
                       weft_error *err)
{
    weft_forecast f;
    weft_status s = predict(plan, &f, err);
    if (s)
        return s;
    for (int i = 0; i < f.costs.stages; i++)
        out[i] = (weft_planned_stage){0};
    take_seconds(&f.costs, out);
    for (int i = 0; i < f.costs.ranks && !s; i++)
        s = count_bytes(f.ranks[i], out, err);
    if (!s && times)
        s = measure(&f.costs, times, out, err);
    weft_forecast_release(plan, &f);
    return s;
}

static weft_status see_step(const weft_plan *plan, double *seconds, weft_error *err)
{
    weft_forecast f;
    weft_status s = predict(plan, &f, err);
    if (s)
        return s;
    *seconds = f.step_s;
    weft_forecast_release(plan, &f);
    return WEFT_OK;
}

/* Rank 0's plan: with parts of other sizes other ranks would choose otherwise. own: its memory. */
static weft_status find_first(const weft_plan *plan, const weft_plan **first, weft_plan **own,
                              weft_error *err)
{
    *own = plan->rank == 0 ? NULL : weft_alloc_zero(1, sizeof **own);
    *first = plan->rank == 0 ? plan : *own;
    if (!*first)
        return weft_fail_memory(err);
    return *own ? weft_plan_other(plan, 0, false, *own, err) : WEFT_OK;
}

static void forget_first(weft_plan *own)
{
    if (own)
        weft_plan_forget_other(own);
    weft_free(own);
}

weft_status weft_plan_stages(const weft_plan *plan, const char *times, weft_planned_stage *out,
                             weft_error *err)
{
    const weft_plan *first;
    weft_plan *own;
    weft_status s = find_first(plan, &first, &own, err);
    s = s ? s : see(first, times, out, err);
    forget_first(own);
    return s;
}

weft_status weft_plan_seconds(const weft_plan *plan, double *seconds, weft_error *err)
{
    const weft_plan *first;
    weft_plan *own;
    weft_status s = find_first(plan, &first, &own, err);
    s = s ? s : see_step(first, seconds, err);
    forget_first(own);
    return s;
}

/* ---- ranks ---- */

weft_status weft_plan_ranks(const weft_plugins *plugins, int *ranks, weft_error *err)
{
    weft_mesh_plan mesh;
    weft_mesh_plan_init(&mesh, 1);
    weft_status s = WEFT_OK;
    for (int i = 0; i < plugins->n_passes && !s; i++)
        s = weft_declare_axes(&plugins->list[plugins->passes[i].plugin], plugins->passes[i].item,
                              &mesh, err);
    int64_t product = 1;
    for (int i = 0; i < mesh.n && !s; i++)
        product *= mesh.entry[i].degree > 0 ? mesh.entry[i].degree : 1;
    *ranks = (int)product;
    return s;
}
