/* SPDX-License-Identifier: Apache-2.0 */
/* Which nodes are live, in which program each runs, and how long each value is needed. */
#include "lower/compile.h"

#include <string.h>

weft_part weft_compiler_part(const weft_compiler *c, int position)
{
    int a = 0;
    while (position >= c->part_end[a])
        a++;
    return (weft_part)a;
}

static void mark_root(weft_compiler *c, weft_value *v)
{
    if (!v)
        return;
    c->root[v->id] = true;
    v->node->mark = 1;
}

/* Sets mark 1 on every node that something reads in the end. Operands stand before their readers,
 * so one walk from the end does. */
static void mark_live(weft_compiler *c)
{
    weft_graph *g = c->g;
    for (weft_node *n = g->first; n; n = n->next)
        n->mark = 0;
    mark_root(c, g->loss_report);
    mark_root(c, g->loss_sum);
    mark_root(c, g->tokens);
    mark_root(c, g->logits);
    for (int i = 0; i < g->n_reports; i++)
        mark_root(c, g->reports[i].value);
    for (weft_node *n = g->last; n; n = n->prev) {
        for (int i = 0; i < n->n_outs; i++)
            if (n->outs[i]->update_of || n->outs[i]->fetch || (n->op->flags & WEFT_OP_SOURCE))
                n->mark = 1;
        for (int i = 0; n->mark && i < n->n_ins; i++)
            n->ins[i]->node->mark = 1;
    }
}

/* Of the nodes after the last micro-batch, those that a reported number needs get mark 2: they run
 * before the update. */
static void mark_reported(weft_graph *g)
{
    if (g->loss_report)
        g->loss_report->node->mark = 2;
    for (int i = 0; i < g->n_reports; i++)
        g->reports[i].value->node->mark = 2;
    for (weft_node *n = g->last; n; n = n->prev) {
        if (n->mark == 1)
            for (int i = 0; i < n->n_outs; i++)
                if (n->outs[i]->fetch)
                    n->mark = 2;
        for (int i = 0; n->mark == 2 && i < n->n_ins; i++)
            n->ins[i]->node->mark = 2;
    }
}

static weft_part part_of(const weft_node *n, bool *backward)
{
    switch (n->scope) {
    case WEFT_MICRO_BATCH:
        *backward = *backward || n->chunk >= 0 || n->phase != WEFT_FORWARD;
        return *backward ? WEFT_PART_B : WEFT_PART_F;
    case WEFT_STEP_END:
        return n->mark == 2 ? WEFT_PART_STEP_END : WEFT_PART_UPDATE;
    default:
        return WEFT_PART_BEGIN;
    }
}

static void find_last_uses(weft_compiler *c)
{
    int micro_end = c->part_end[WEFT_PART_B] - 1;
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
        if (last && c->position[gradient->node->id] >= 0 && *last < c->part_end[WEFT_PART_STEP_END])
            *last = c->part_end[WEFT_PART_STEP_END];
    }
}

weft_status weft_compile_order(weft_compiler *c)
{
    weft_graph *g = c->g;
    size_t n_nodes = (size_t)g->n_nodes + 1;
    weft_part *part = weft_alloc(n_nodes * sizeof *part);
    if (!part)
        return weft_fail_memory(c->err);
    mark_live(c);
    mark_reported(g);
    bool backward = false, train = g->config.mode == WEFT_MODE_TRAIN;
    for (weft_node *n = g->first; n; n = n->next)
        if (n->mark) {
            part[n->id] = part_of(n, &backward);
            if (!train && n->scope == WEFT_MICRO_BATCH)
                part[n->id] = WEFT_PART_F;
        }
    for (int i = 0; i < (int)n_nodes; i++)
        c->position[i] = -1;
    for (int a = 0; a < WEFT_PARTS; a++) {
        for (weft_node *n = g->first; n; n = n->next) {
            if (!n->mark || part[n->id] != (weft_part)a)
                continue;
            c->position[n->id] = c->n;
            c->order[c->n++] = n;
        }
        c->part_end[a] = c->n;
    }
    weft_free(part);
    weft_status s = weft_compile_group(c);
    if (!s)
        find_last_uses(c);
    return s;
}
