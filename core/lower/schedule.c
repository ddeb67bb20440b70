/* SPDX-License-Identifier: Apache-2.0 */
/* Which nodes are live, the programs that they make, and how long each value is needed. */
#include "lower/compile.h"

#include <string.h>

weft_program *weft_compiler_program(const weft_compiler *c, int position)
{
    weft_program *p = c->l->programs;
    while (position >= p->to)
        p++;
    return p;
}

weft_part weft_compiler_part(const weft_compiler *c, int position)
{
    return weft_compiler_program(c, position)->part;
}

int weft_compiler_end(const weft_compiler *c, weft_part part)
{
    int end = 0;
    for (int i = 0; i < c->l->n_programs; i++)
        if (c->l->programs[i].part <= part)
            end = c->l->programs[i].to;
    return end;
}

static const weft_value *root(const weft_graph *g, int i)
{
    const weft_value *const own[] = {g->loss_report, g->loss_sum, g->tokens, g->logits};
    return i < 4 ? own[i] : g->reports[i - 4].value;
}

/* Operands stand before their readers, so one walk from the end does. */
void weft_graph_mark_live(weft_graph *g)
{
    for (weft_node *n = g->first; n; n = n->next)
        n->mark = 0;
    for (int i = 0; i < 4 + g->n_reports; i++)
        if (root(g, i))
            root(g, i)->node->mark = 1;
    for (weft_node *n = g->last; n; n = n->prev) {
        for (int i = 0; i < n->n_outs; i++)
            if (n->outs[i]->update_of || n->outs[i]->fetch || (n->op->flags & WEFT_OP_SOURCE))
                n->mark = 1;
        for (int i = 0; n->mark && i < n->n_ins; i++)
            n->ins[i]->node->mark = 1;
    }
}

static void mark_live(weft_compiler *c)
{
    for (int i = 0; i < 4 + c->g->n_reports; i++)
        if (root(c->g, i))
            c->root[root(c->g, i)->id] = true;
    weft_graph_mark_live(c->g);
}

static void find_last_uses(weft_compiler *c)
{
    int micro_end = weft_compiler_end(c, WEFT_PART_B) - 1;
    int reported = weft_compiler_end(c, WEFT_PART_STEP_END);
    for (int i = 0; i < c->n; i++) {
        weft_node *n = c->order[i];
        int p = c->position[n->id];
        for (int r = 0; r < n->n_outs; r++) {
            const weft_value *v = n->outs[r];
            bool to_the_end =
                c->root[v->id] || v->update_of; /* read by the host, or copied into a state */
            c->last_use[v->id] = to_the_end ? c->n : p;
        }
        weft_part a = weft_compiler_part(c, p);
        bool micro = a == WEFT_PART_F || a == WEFT_PART_B;
        for (int k = 0; k < n->n_ins; k++) {
            int *last = &c->last_use[n->ins[k]->id];
            bool outer = weft_compiler_part(c, c->position[n->ins[k]->node->id]) == WEFT_PART_BEGIN;
            int until = c->repeats && micro && outer ? micro_end : p;
            *last = *last > until ? *last : until;
        }
    }
    for (int i = 0; i < c->g->n_parameters && c->g->config.mode == WEFT_MODE_TRAIN;
         i++) { /* whoever compares or diagnoses gradients, before the update */
        const weft_value *gradient = c->g->parameters[i]->gradient;
        int *last = gradient ? &c->last_use[gradient->id] : NULL;
        if (last && c->position[gradient->node->id] >= 0 && *last < reported)
            *last = reported;
    }
}

static bool is_of(const weft_node *n, const weft_program *p)
{
    return n->part == p->part && n->stage == p->stage;
}

static weft_status make_programs(weft_compiler *c)
{
    weft_lowered *l = c->l;
    int stages = weft_graph_stages(c->g);
    l->programs = weft_alloc_zero((size_t)(WEFT_PARTS * stages), sizeof *l->programs);
    if (!l->programs)
        return weft_fail_memory(c->err);
    for (int part = 0; part < WEFT_PARTS; part++) {
        int n = part == WEFT_PART_F || part == WEFT_PART_B ? stages : 1;
        for (int i = 0; i < n; i++) {
            weft_program *p = &l->programs[l->n_programs++];
            p->part = (weft_part)part;
            p->stage = part == WEFT_PART_B ? n - 1 - i : i;
        }
    }
    return WEFT_OK;
}

weft_status weft_compile_order(weft_compiler *c)
{
    weft_graph *g = c->g;
    if (!g->has_parts)
        return weft_fail(c->err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                         "the graph's nodes have no parts yet");
    weft_status s = make_programs(c);
    if (s)
        return s;
    mark_live(c);
    for (int i = 0; i <= g->n_nodes; i++)
        c->position[i] = -1;
    for (int i = 0; i < c->l->n_programs; i++) {
        weft_program *p = &c->l->programs[i];
        p->from = c->n;
        for (weft_node *n = g->first; n; n = n->next) {
            if (!n->mark || !is_of(n, p))
                continue;
            c->position[n->id] = c->n;
            c->order[c->n++] = n;
        }
        p->to = c->n;
    }
    s = weft_compile_group(c);
    if (!s)
        find_last_uses(c);
    return s;
}
