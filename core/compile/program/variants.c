/* SPDX-License-Identifier: Apache-2.0 */
/* Some instructions run only in some steps. Programs have no branches, so there is one of each kind
 * for every kind of step: that in which all periods end, and copies of it without the instructions
 * of those that do not. */
#include "compile/program/compiler.h"

#include <string.h>

/* ---- kinds of steps: sets of periods that end together ---- */

unsigned weft_lowered_runs(const weft_lowered *l, int64_t step)
{
    unsigned runs = 0;
    for (int i = 0; i < l->n_periods; i++)
        runs |= step % l->periods[i] == 0 ? 1u << i : 0;
    return runs;
}

/* Does `every` divide each number that all periods of a set divide? Their least common multiple may
 * be beyond 64 bits; that of what each has in common with `every` is not. */
static bool divides(const weft_lowered *l, int64_t every, unsigned set)
{
    int64_t least = 1;
    for (int i = 0; i < l->n_periods; i++) {
        const int64_t common = set >> i & 1u ? weft_gcd(every, l->periods[i]) : 1;
        least = least / weft_gcd(least, common) * common;
    }
    return least == every;
}

/* Are there steps that end these periods and no others? */
static bool exists(const weft_lowered *l, unsigned runs)
{
    for (int i = 0; i < l->n_periods; i++)
        if (!(runs >> i & 1u) && divides(l, l->periods[i], runs))
            return false;
    return true;
}

int weft_lowered_next_runs(const weft_lowered *l, int runs)
{
    for (runs++; runs < 1 << l->n_periods; runs++)
        if (exists(l, (unsigned)runs))
            return runs;
    return -1;
}

/* ---- programs ---- */

const weft_program *weft_lowered_pick(const weft_lowered *l, const weft_task *task, unsigned runs)
{
    const weft_program *p = weft_lowered_program(l, task->part, task->stage);
    const weft_program *end = l->programs + l->n_programs + l->n_variants;
    const unsigned wanted = p->periods & runs;
    if (p->runs == wanted)
        return p;
    const weft_program *v = l->programs + l->n_programs;
    while (v < end && (v->part != p->part || v->stage != p->stage || v->runs != wanted))
        v++;
    return v < end ? v : p;
}

static unsigned bit_of(weft_lowered *l, int64_t every)
{
    int i = 0;
    while (i < l->n_periods && l->periods[i] != every)
        i++;
    if (i == l->n_periods)
        l->periods[l->n_periods++] = every;
    return 1u << i;
}

/* Of an instruction that does not run in every step, the period; 0: it does. */
static int64_t period_of(const weft_instruction *in)
{
    return in->every > 1 ? in->every : in->every < 0 ? -in->every : 0;
}

/* Of the graph, so that all its ranks have them in one order. */
static void find_periods(weft_lowered *l)
{
    for (const weft_node *n = l->graph->first; n; n = n->next)
        if (n->every > 1)
            bit_of(l, n->every);
    for (int a = 0; a < l->n_programs; a++) {
        weft_program *p = &l->programs[a];
        for (int i = 0; i < p->n; i++)
            p->periods |= period_of(&p->list[i]) ? bit_of(l, period_of(&p->list[i])) : 0;
        p->runs = p->periods;
    }
}

/* Leaves those of a program's instructions that run when these periods end. */
static void leave(weft_lowered *l, weft_program *p, unsigned runs)
{
    int n = 0, n_prologue = 0;
    for (int i = 0; i < p->n; i++) {
        const weft_instruction *in = &p->list[i];
        const bool ends = period_of(in) && (bit_of(l, period_of(in)) & runs);
        if (period_of(in) && ends != (in->every > 0))
            continue;
        n_prologue += i < p->n_prologue;
        p->list[n++] = *in;
    }
    p->n = n;
    p->n_prologue = n_prologue;
    p->runs = runs & p->periods;
}

static weft_status add_variant(weft_compiler *c, const weft_program *of, unsigned runs)
{
    weft_lowered *l = c->l;
    weft_program *v = &l->programs[l->n_programs + l->n_variants];
    weft_instruction *list = weft_alloc((size_t)(of->n + 1) * sizeof *list);
    if (!list)
        return weft_fail_memory(c->err);
    memcpy(list, of->list, (size_t)of->n * sizeof *list);
    *v = *of;
    v->list = list;
    leave(l, v, runs);
    l->n_variants++;
    return WEFT_OK;
}

static bool is_there(const weft_lowered *l, const weft_program *of, unsigned runs)
{
    const weft_task task = {.part = of->part, .stage = of->stage};
    return weft_lowered_pick(l, &task, runs)->runs == (of->periods & runs);
}

weft_status weft_compile_variants(weft_compiler *c)
{
    weft_lowered *l = c->l;
    weft_status s = WEFT_OK;
    find_periods(l);
    if (!l->n_periods)
        return WEFT_OK;
    const size_t most = (size_t)l->n_programs << l->n_periods;
    weft_program *more = weft_realloc(l->programs, most * sizeof *more);
    if (!more)
        return weft_fail_memory(c->err);
    l->programs = more;
    for (int a = 0; a < l->n_programs && !s; a++) {
        for (int runs = -1; !s && (runs = weft_lowered_next_runs(l, runs)) >= 0;)
            if (!is_there(l, &l->programs[a], (unsigned)runs))
                s = add_variant(c, &l->programs[a], (unsigned)runs);
        if (!s && l->programs[a].periods)
            leave(l, &l->programs[a], l->programs[a].periods);
    }
    return s;
}
