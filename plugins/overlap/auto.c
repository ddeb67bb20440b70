/* SPDX-License-Identifier: Apache-2.0 */
/* pieces = auto: the run is planned with one piece, and, if enough of that plan's time is spent on
 * sending, with two and with four; what takes least time is kept. */
#include "overlap.h"

#include <stdio.h>
#include <stdlib.h>

static const char ASKED[] = "overlap pieces";

int overlap_pieces(const overlap *o)
{
    const char *asked = o->pieces < 0 ? weft_asked(o->host, ASKED) : NULL;
    if (o->pieces >= 0)
        return (int)o->pieces;
    return asked ? atoi(asked) : 1;
}

/* Of the time of one piece, the share in percent that is spent on sending over the axes. */
static double share_sent(const overlap *o, const weft_plan *plan, const weft_planned *p)
{
    const weft_mesh *mesh = weft_graph_mesh(weft_plan_trained(plan));
    double sent = 0, all = 0;
    for (int i = 0; i < p->n_instructions; i++) {
        const weft_planned_instruction *in = &p->instructions[i];
        const weft_node *n = in->n_nodes ? in->nodes[0] : NULL;
        if (!weft_part_is_micro(in->part) || !n)
            continue;
        const bool counts = in->work != WEFT_WORK_SENT ||
                            (overlap_is_over(o, mesh, n) && !weft_get_mark(n, WEFT_MARK_GROUP));
        all += counts ? in->seconds : 0;
        sent += counts && in->work == WEFT_WORK_SENT ? in->seconds : 0;
    }
    return all > 0 ? 100 * sent / all : 0;
}

/* All stages of this plan. */
static weft_status time_of(const weft_plan *plan, double *seconds, weft_error *err)
{
    const int n = weft_plan_pipeline(plan).stages;
    weft_planned_stage *list = weft_alloc_zero((size_t)n, sizeof *list);
    if (!list)
        return weft_fail_memory(err);
    weft_status s = weft_plan_stages(plan, NULL, list, err);
    *seconds = 0;
    for (int i = 0; i < n && !s; i++)
        *seconds += list[i].forward + list[i].backward + list[i].weights;
    weft_free(list);
    return s;
}

typedef weft_status asks(weft_plan *plan, const char *what, const char *value, weft_error *err);

static weft_status ask(weft_plan *plan, asks *how, int pieces, const char *why, weft_error *err)
{
    char *value = weft_format("%d%s", pieces, why);
    weft_status s = value ? how(plan, ASKED, value, err) : weft_fail_memory(err);
    weft_free(value);
    return s;
}

/* The best of what was tried. The plan that was made last may be it. */
static weft_status settle(const overlap *o, weft_plan *plan, int now, const char *why,
                          weft_error *err)
{
    const char *none = o->best == 1 ? ": no number of pieces is faster" : "";
    return ask(plan, now == o->best ? weft_plan_settle : weft_plan_ask, o->best,
               *why       ? why
               : now == 1 ? ""
                          : none,
               err);
}

/* Why nothing else than one piece is tried; empty: it is. */
static weft_status look_at_one(const overlap *o, const weft_plan *plan, char *why, size_t size,
                               weft_error *err)
{
    weft_planned p;
    weft_status s = weft_plan_show(plan, 0, &p, err);
    if (s)
        return s;
    const double share = share_sent(o, plan, &p);
    if (!p.known)
        snprintf(why, size, ": the device does not say how fast it is");
    else if (share < o->least || share <= 0)
        snprintf(why, size, ": %.1f %% of the time is spent on sending, least = %g", share,
                 o->least);
    weft_planned_release(&p);
    return WEFT_OK;
}

weft_status overlap_review(overlap *o, weft_plan *plan, weft_error *err)
{
    const int now = overlap_pieces(o);
    const weft_graph *g = weft_plan_trained(plan);
    char why[96] = "";
    double seconds = 0;
    if (o->pieces >= 0 || weft_mesh_ranks(weft_graph_mesh(g)) == 1)
        return WEFT_OK;
    if (weft_plan_round(plan) == 0) {
        o->best = 0;
        o->tried = 0;
    }
    if (o->tried < 0)
        return WEFT_OK;
    weft_status s = time_of(plan, &seconds, err);
    if (!s && now == 1)
        s = look_at_one(o, plan, why, sizeof why, err);
    if (s)
        return s;
    if (!o->best || seconds < o->best_s) {
        o->best = now;
        o->best_s = seconds;
    }
    o->tried = now;
    int next = now * 2;
    while (next <= 4 && !overlap_fits(o, g, next))
        next *= 2;
    if (!*why && next <= 4 && o->best == now)
        return ask(plan, weft_plan_ask, next, "", err);
    o->tried = -1;
    return settle(o, plan, now, why, err);
}
