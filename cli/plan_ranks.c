/* SPDX-License-Identifier: Apache-2.0 */
/* weft plan --rank all: what each rank of the pipeline computes, holds and sends. Ranks that differ
 * on other axes alone are alike. */
#include "plan_ranks.h"
#include "forecast/forecast.h"

#include "console/built_in.h"
#include "console/columns.h"

#include <stdlib.h>
#include <string.h>

weft_status weft_cli_read_rank(const char *text, int ranks, int *rank, weft_error *err)
{
    char *end;
    *rank = 0;
    if (!text || strcmp(text, "all") == 0)
        return WEFT_OK;
    long number = strtol(text, &end, 10);
    if (end == text || *end || number < 0 || number >= ranks)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "--rank is a number from 0 to %d, or all, not '%s'", ranks - 1, text);
    *rank = (int)number;
    return WEFT_OK;
}

static int64_t sent_bytes(const weft_lowered *l)
{
    int64_t sent = 0;
    for (int p = 0; p < l->n_programs; p++)
        for (int i = 0; i < l->programs[p].n; i++) {
            const weft_instruction *in = &l->programs[p].list[i];
            bool micro = in->node->scope == WEFT_MICRO_BATCH;
            if (in->kind == WEFT_POST_SEND)
                sent += weft_nominal_bytes(l->graph, in->node->ins[0]) *
                        (micro ? l->graph->config.sizes.micro_batches : 1);
        }
    return sent;
}

static void add_bytes(weft_columns *c, double bytes)
{
    weft_print_bytes(&c->cells, bytes);
    weft_columns_next(c);
}

static void add_row(weft_columns *c, const weft_plan *plan)
{
    const weft_lowered *l = plan->lowered[WEFT_MODE_TRAIN];
    weft_text_print(&c->cells, "  %d", plan->rank);
    weft_columns_next(c);
    for (int p = 0, n = 0; p < l->n_programs; p++)
        if (l->programs[p].part == WEFT_PART_F)
            weft_text_print(&c->cells, "%s%d", n++ ? " " : "", l->programs[p].stage);
    weft_columns_next(c);
    weft_print_flops(&c->cells, l->flops);
    weft_columns_next(c);
    add_bytes(c, (double)weft_plan_bytes(plan));
    add_bytes(c, (double)plan->states.bytes);
    add_bytes(c, (double)l->arena_bytes);
    int slots = 0;
    for (int i = 0; i < l->n_slots; i++)
        slots = l->slots[i].n > slots ? l->slots[i].n : slots;
    weft_text_print(&c->cells, "%d", slots ? slots : 1);
    weft_columns_next(c);
    add_bytes(c, (double)sent_bytes(l));
}

/* The ranks that stand for those of each stage. */
static int count(const weft_plan *plan, int *stride)
{
    int axis = weft_graph_stage_axis(plan->graphs[WEFT_MODE_TRAIN]);
    *stride = axis < 0 ? 1 : weft_mesh_stride(&plan->mesh, axis);
    return axis < 0 ? 1 : plan->mesh.axis[axis].size;
}

weft_status weft_cli_print_ranks(weft_session *s, weft_text *text, weft_error *err)
{
    static const char *const heads[] = {
        "  rank", "stages", "operations a step", "memory",
        "state",  "arena",  "most slots",        "sends to other stages a step"};
    weft_columns c;
    weft_status status = WEFT_OK;
    weft_columns_init(&c, "rlrrrrrr");
    for (int i = 0; i < c.n; i++)
        weft_columns_add(&c, heads[i]);
    for (int i = 0, n = 1, stride = 1; i < n && !status; i++) {
        const weft_plan_options options = {.rank = i * stride,
                                           .ranks = s->host.ranks,
                                           .train_only = true,
                                           .spread = WEFT_SPREAD,
                                           .broken = weft_plan_keep_broken};
        weft_plan *plan;
        status = weft_plan_create(s->plugins, s->settings, &options, &plan, err);
        if (status)
            break;
        status = weft_plan_check(plan, err);
        n = count(plan, &stride);
        add_row(&c, plan);
        weft_plan_destroy(plan);
    }
    if (!status)
        weft_columns_print(&c, text);
    weft_columns_release(&c);
    return status;
}
