/* SPDX-License-Identifier: Apache-2.0 */
/* What several ranks compute alike at the end of a step, because an op there wants whole what they
 * store in parts: an optimizer of whole matrices. What is computed alike because it is held alike
 * costs nothing that could be saved, and is not counted. */
#include "forecast/forecast.h"

#include <string.h>

typedef struct repeat {
    const char *by; /* the plugin whose nodes these are */
    int64_t ranks;  /* how many compute the same */
    double flops, bytes;
} repeat;

enum { ROWS = 16 };

typedef struct repeats {
    const weft_lowered *l;
    weft_axes *whole; /* by value id: the axes that a gather of the update has taken off it */
    repeat rows[ROWS];
    int n;
} repeats;

static bool at_the_end(const weft_node *n)
{
    return n->phase == WEFT_UPDATE && n->scope == WEFT_STEP_END;
}

/* The axes that change nothing of what a node reads and makes. */
static weft_axes untouched(const weft_mesh *mesh, const weft_node *n)
{
    weft_axes axes = 0;
    for (int a = 0; a < mesh->n_axes; a++) {
        bool touched = false;
        for (int i = 0; i < n->n_ins + n->n_outs; i++)
            touched = touched ||
                      weft_layout_byte((i < n->n_ins ? n->ins[i] : n->outs[i - n->n_ins])->layout,
                                       a) != 0;
        axes |= touched ? 0 : 1u << a;
    }
    return axes;
}

static repeat *row_of(repeats *r, const weft_node *n)
{
    const weft_mesh *mesh = &r->l->graph->config.mesh;
    int64_t ranks = weft_mesh_count(mesh, untouched(mesh, n));
    for (int i = 0; i < r->n; i++)
        if (r->rows[i].ranks == ranks && strcmp(r->rows[i].by, n->by) == 0)
            return &r->rows[i];
    if (r->n == ROWS)
        return NULL;
    r->rows[r->n] = (repeat){n->by, ranks, 0, 0};
    return &r->rows[r->n++];
}

/* What a gather brings is on behalf of who reads it first. */
static void count_gathers(repeats *r, const weft_node *n)
{
    const weft_value *v = n->outs[0];
    weft_layout before = n->ins[0]->layout;
    repeat *row = v->n_uses ? row_of(r, v->uses[0].node) : NULL;
    for (int i = 0; row && i < n->n_steps; before = n->steps[i++].after)
        if (n->steps[i].move == WEFT_ALL_GATHER)
            row->bytes += (double)weft_step_bytes(&r->l->graph->config.mesh, &n->steps[i], before,
                                                  v->n_dims, v->dims, v->dtype);
}

static weft_axes gathered(const weft_node *n)
{
    weft_axes axes = 0;
    for (int i = 0; i < n->n_steps; i++)
        for (int k = 0; n->steps[i].move == WEFT_ALL_GATHER && k < n->steps[i].n_axes; k++)
            axes |= 1u << n->steps[i].axes[k];
    return axes;
}

/* A rank that has got what others have goes on alike until its own part is taken. */
static void spread(repeats *r, const weft_node *n)
{
    const weft_mesh *mesh = &r->l->graph->config.mesh;
    weft_axes axes = gathered(n);
    for (int i = 0; i < n->n_ins; i++)
        axes |= r->whole[n->ins[i]->id];
    for (int i = 0; i < n->n_outs; i++) {
        r->whole[n->outs[i]->id] = axes;
        for (int a = 0; a < mesh->n_axes; a++)
            if (weft_layout_byte(n->outs[i]->layout, a))
                r->whole[n->outs[i]->id] &= ~(1u << a);
    }
    if (gathered(n))
        count_gathers(r, n);
}

static void count_flops(repeats *r, const weft_instruction *in)
{
    const weft_mesh *mesh = &r->l->graph->config.mesh;
    const weft_node *n = in->node;
    weft_axes axes = 0;
    if (in->kind != WEFT_COMPUTE || !at_the_end(n))
        return;
    for (int i = 0; i < n->n_ins; i++)
        axes |= r->whole[n->ins[i]->id];
    repeat *row = axes & untouched(mesh, n) ? row_of(r, n) : NULL;
    if (row)
        row->flops += in->flops;
}

void weft_plan_print_repeats(const weft_plan *plan, weft_text *text)
{
    repeats r = {.l = plan->lowered[WEFT_MODE_TRAIN]};
    r.whole = weft_alloc_zero((size_t)r.l->graph->n_values + 1, sizeof *r.whole);
    text->out_of_memory = text->out_of_memory || !r.whole;
    for (const weft_node *n = r.whole ? r.l->graph->first : NULL; n; n = n->next)
        if (at_the_end(n))
            spread(&r, n);
    for (int a = 0; r.whole && a < r.l->n_programs; a++) {
        const weft_program *p = &r.l->programs[a];
        for (int i = 0; i < p->n && p->part >= WEFT_PART_STEP_END; i++)
            count_flops(&r, &p->list[i]);
    }
    for (int i = 0; i < r.n; i++) {
        if (r.rows[i].flops <= 0)
            continue;
        weft_text_print(text, "%s: computes ", r.rows[i].by);
        weft_print_flops(text, r.rows[i].flops);
        weft_text_print(text, " of the update on %s%lld ranks alike, and sends ",
                        r.rows[i].ranks == plan->ranks ? "all " : "", (long long)r.rows[i].ranks);
        weft_print_bytes(text, r.rows[i].bytes);
        weft_text_add(text, " a rank to gather what it needs whole\n");
    }
    weft_free(r.whole);
}
