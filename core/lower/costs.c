/* SPDX-License-Identifier: Apache-2.0 */
/* What the tasks of a training step take, from operations and bytes; and when they run. */
#include "lower/compile.h"
#include "lower/plan.h"

#include <string.h>

/* Does a node read, in its own part, what another stage has made? Inputs are every rank's own. */
static bool is_sent(const weft_node *n, const weft_value *v)
{
    return weft_part_is_micro(n->part) && !weft_node_is(v->node, WEFT_OP_SOURCE) &&
           v->node->part == n->part && v->node->stage != n->stage;
}

/* What goes to another stage counts once, however many read it there. */
static void count_boundary(const weft_graph *g, const weft_node *n, bool *seen, weft_costs *out)
{
    for (int i = 0; i < n->n_ins; i++) {
        const weft_value *v = n->ins[i];
        if (!is_sent(n, v) || seen[v->id])
            continue;
        seen[v->id] = true;
        out->bytes[n->part == WEFT_PART_B][v->node->stage] += (double)weft_value_part_bytes(g, v);
    }
}

/* Without what brings a value from stage to stage: the schedule knows when that is under way. */
static double seconds_of(const weft_graph *g, const weft_node *n, const weft_rates *rates)
{
    weft_cost cost;
    weft_node_cost(g, n, &cost);
    bool moves = n->steps && n->n_ins > 0 && is_sent(n, n->ins[0]);
    return cost.flops / rates->flops_per_s + (moves ? 0 : (double)cost.sent / rates->bytes_per_s);
}

static void count_node(const weft_graph *g, const weft_node *n, const weft_rates *rates,
                       weft_costs *out)
{
    double seconds = seconds_of(g, n, rates);
    if (weft_part_is_micro(n->part)) {
        out->seconds[n->part][n->stage] += seconds;
        return;
    }
    int axis = weft_graph_stage_axis(g), at = -1;
    if (axis >= 0 && n->n_outs > 0)
        at = weft_layout_at(n->outs[0]->layout, axis);
    for (int r = 0; r < out->ranks; r++)
        out->seconds[n->part][r] += at < 0 || at == r ? seconds : 0;
}

weft_status weft_plan_costs(const weft_plan *plan, const weft_rates *rates, weft_costs *out,
                            weft_error *err)
{
    weft_graph *g = plan->graphs[WEFT_MODE_TRAIN];
    const weft_tasks *t = plan->tasks[WEFT_MODE_TRAIN];
    bool *seen = weft_alloc_zero((size_t)weft_graph_values(g) + 1, sizeof *seen);
    weft_status s = seen ? weft_costs_init(out, t->ranks, t->stages, err) : weft_fail_memory(err);
    if (s) {
        weft_free(seen);
        return s;
    }
    out->bytes_per_s = rates->bytes_per_s;
    weft_graph_mark_live(g);
    for (const weft_node *n = g->first; n; n = n->next) {
        if (!n->mark)
            continue;
        count_node(g, n, rates, out);
        count_boundary(g, n, seen, out);
    }
    weft_free(seen);
    return WEFT_OK;
}

/* Neighbouring stages are of different ranks, if there are several. */
static void print_sent(const weft_costs *costs, double bytes, const char *where, weft_text *text)
{
    if (bytes <= 0 || costs->ranks == 1)
        return;
    weft_text_add(text, ", ");
    weft_print_bytes(text, bytes);
    weft_text_print(text, " %s", where);
}

void weft_plan_print_costs(const weft_costs *costs, weft_text *text)
{
    for (int s = 0; s < costs->stages; s++) {
        weft_text_print(text, "  stage %d, rank %d: forward ", s, s % costs->ranks);
        weft_print_seconds(text, costs->seconds[WEFT_PART_F][s]);
        weft_text_add(text, ", backward ");
        weft_print_seconds(text, costs->seconds[WEFT_PART_B][s]);
        print_sent(costs, costs->bytes[0][s], "sent on", text);
        print_sent(costs, costs->bytes[1][s], "sent back", text);
        weft_text_add(text, "\n");
    }
}
