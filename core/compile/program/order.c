/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/program/order.h"

#include <string.h>

/* ---- what is touched ---- */

static weft_access access_of(const weft_lowered *l, int buffer, int64_t micro, bool writes)
{
    if (buffer < 0) /* held elsewhere */
        return (weft_access){0, 0, WEFT_BASE_NONE, false};
    const weft_buffer *b = &l->buffers[buffer];
    int64_t lo = weft_buffer_offset(l, b, micro);
    weft_base base = b->base == WEFT_BASE_SLOT ? WEFT_BASE_ARENA : b->base;
    return (weft_access){lo, lo + b->bytes, base, writes};
}

int weft_accesses(const weft_lowered *l, const weft_instruction *in, int64_t micro,
                  weft_access *list)
{
    int n = 0;
    for (int i = 0; i < in->n_ins + in->n_outs; i++)
        list[n++] = access_of(l, in->buffers[i], micro, i >= in->n_ins);
    if (in->workspace >= 0)
        list[n++] = access_of(l, in->workspace, micro, true);
    return n;
}

int weft_most_accesses(const weft_lowered *l)
{
    int most = 0;
    for (int a = 0; a < l->n_programs; a++)
        for (int i = 0; i < l->programs[a].n; i++) {
            const weft_instruction *in = &l->programs[a].list[i];
            int n = in->n_ins + in->n_outs + 1;
            most = n > most ? n : most;
        }
    return most;
}

bool weft_accesses_conflict(const weft_access *a, int n_a, const weft_access *b, int n_b)
{
    for (int i = 0; i < n_a; i++)
        for (int k = 0; k < n_b; k++)
            if ((a[i].writes || b[k].writes) && a[i].base == b[k].base && a[i].lo < b[k].hi &&
                b[k].lo < a[i].hi)
                return true;
    return false;
}

/* ---- what is known to be done ---- */

static void join(weft_clock *to, const weft_clock *other)
{
    for (int q = 0; q < WEFT_MOST_QUEUES; q++)
        to->at[q] = other->at[q] > to->at[q] ? other->at[q] : to->at[q];
}

/* The instruction before i on its queue, from `from` on; -1: none. */
static int find_last(const weft_program *p, int from, int i, int queue)
{
    int last = i - 1;
    while (last >= from && p->list[last].queue != queue)
        last--;
    return last >= from ? last : -1;
}

void weft_clock_fill(const weft_program *p, int i, weft_clock *clock)
{
    const weft_instruction *in = &p->list[i];
    int last = find_last(p, 0, i, in->queue);
    for (int q = 0; q < WEFT_MOST_QUEUES; q++)
        clock[i].at[q] = -1;
    if (last >= 0)
        join(&clock[i], &clock[last]);
    for (int k = 0; k < in->n_waits; k++)
        join(&clock[i], &clock[in->waits[k]]);
    clock[i].at[in->queue] = i;
}

weft_crossing weft_crossing_begin(const weft_lowered *l, const weft_boundary *waits,
                                  weft_clock *clock, weft_clock *known)
{
    const weft_program *before = &l->programs[waits->before], *after = &l->programs[waits->after];
    weft_crossing c = {.before = before,
                       .after = after,
                       .waits = waits,
                       .clock = clock,
                       .known = known,
                       .from = waits->prologue ? 0 : after->n_prologue,
                       .to = waits->prologue ? after->n_prologue : after->n};
    for (int i = 0; i < before->n; i++)
        weft_clock_fill(before, i, clock);
    for (int q = 0; q < WEFT_MOST_QUEUES; q++)
        c.last[q] = find_last(before, before->n_prologue, before->n, q);
    return c;
}

void weft_crossing_fill(const weft_crossing *c, int i)
{
    const weft_instruction *in = &c->after->list[i];
    int last = find_last(c->after, c->from, i, in->queue);
    weft_clock *mine = &c->known[i];
    for (int q = 0; q < WEFT_MOST_QUEUES; q++)
        mine->at[q] = -1;
    if (last >= 0)
        join(mine, &c->known[last]);
    else if (c->last[in->queue] >= 0)
        join(mine, &c->clock[c->last[in->queue]]);
    for (int k = 0; k < in->n_waits; k++)
        if (in->waits[k] >= c->from)
            join(mine, &c->known[in->waits[k]]);
    for (int k = 0; k < c->waits->n_waits; k++)
        if (c->waits->waits[k].after == i)
            join(mine, &c->clock[c->waits->waits[k].before]);
}
