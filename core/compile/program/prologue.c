/* SPDX-License-Identifier: Apache-2.0 */
/* In a pipeline the first gather of a micro-batch's program stands in its prologue, behind what is
 * received, so that it may go on while the task before computes. */
#include "compile/program/compiler.h"

#include <string.h>
#include <weft/marks.h>

/* Of weights, on the queue for such: prologues have no other. */
static bool is_gather(const weft_node *n)
{
    return n->steps && weft_is_gather(n) &&
           (weft_get_mark(n, WEFT_MARK_GROUP) || weft_get_mark(n, WEFT_MARK_PREFETCH));
}

/* The task before may be of any program: only what a step begins with is there for sure. */
static bool may_begin(const weft_compiler *c, int p, int n)
{
    for (int i = p; i < p + n; i++)
        for (int k = 0; k < c->order[i]->n_ins; k++) {
            const weft_node *of = c->order[i]->ins[k]->node;
            if (!(of->op->flags & WEFT_OP_SOURCE) && of->part != WEFT_PART_BEGIN)
                return false;
        }
    return true;
}

/* Puts the nodes [p, p + n) before those from `to` on. */
static weft_status put_first(weft_compiler *c, int to, int p, int n)
{
    weft_node **moved = weft_pool_alloc(&c->pool, (size_t)n * sizeof *moved);
    if (!moved)
        return weft_fail_memory(c->err);
    memcpy(moved, c->order + p, (size_t)n * sizeof *moved);
    memmove(c->order + to + n, c->order + to, (size_t)(p - to) * sizeof *moved);
    memcpy(c->order + to, moved, (size_t)n * sizeof *moved);
    for (int i = to; i < p + n; i++) {
        int *at = &c->position[c->order[i]->id];
        *at += *at < p ? n : to - p;
    }
    for (int i = to; i < to + n; i++)
        c->early[c->order[i]->id] = true;
    return WEFT_OK;
}

static weft_status begin_early(weft_compiler *c, const weft_program *program)
{
    int to = program->from, p, n = 1;
    while (to < program->to && weft_node_sends(c->order[to]) &&
           !weft_compile_is_sender(c, c->order[to]))
        to++;
    for (p = to; p < program->to && !is_gather(c->order[p]); p++)
        continue;
    if (p == program->to)
        return WEFT_OK;
    while (p + n < c->n && c->position[c->order[p + n]->id] == p) /* they run as one */
        n++;
    return may_begin(c, p, n) ? put_first(c, to, p, n) : WEFT_OK;
}

weft_status weft_compile_early(weft_compiler *c)
{
    weft_status s = WEFT_OK;
    for (int i = 0; i < c->l->n_programs && !s && weft_graph_stages(c->g) > 1; i++)
        if (weft_part_is_micro(c->l->programs[i].part))
            s = begin_early(c, &c->l->programs[i]);
    return s;
}
