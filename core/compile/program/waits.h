/* SPDX-License-Identifier: Apache-2.0 */
/* Who touches which memory, and whether all who touch the same do so in some order. */
#ifndef WEFT_PROGRAM_WAITS_H
#define WEFT_PROGRAM_WAITS_H

#include "compile/program/lower.h"

/* Bytes [lo, hi) of a base; what lies in slots is in the arena. */
typedef struct weft_access {
    int64_t lo, hi;
    weft_base base;
    bool writes;
} weft_access;

/* What an instruction of a micro-batch touches, its workspace included; list has room for
 * weft_most_accesses of them. Returns how many. */
int weft_accesses(const weft_lowered *l, const weft_instruction *in, int64_t micro,
                  weft_access *list);
int weft_most_accesses(const weft_lowered *l);
/* Is there a byte that both touch and one writes? */
bool weft_accesses_conflict(const weft_access *a, int n_a, const weft_access *b, int n_b);

/* ---- what is known to be done when an instruction begins ---- */

/* Of each queue the last instruction there, and so all before it; -1: none. */
typedef struct weft_clock {
    int at[WEFT_MOST_QUEUES];
} weft_clock;

/* clock[i], from those of the program's instructions before i; i counts as done. */
void weft_clock_fill(const weft_program *p, int i, weft_clock *clock);

/* From the body of one task's program to what may run beside it: the body of the next task, or the
 * prologue of the one behind that, which is enqueued in between. */
typedef struct weft_crossing {
    const weft_program *before, *after;
    const weft_boundary *waits;
    const weft_clock *clock;    /* by instruction of `before` */
    weft_clock *known;          /* by instruction of `after`: what of that body is done */
    int last[WEFT_MOST_QUEUES]; /* of that body, on each queue; -1: none */
    int from, to;               /* instructions of `after`: its prologue, or its body */
} weft_crossing;

/* clock and known have room for any program's instructions. */
weft_crossing weft_crossing_begin(const weft_lowered *l, const weft_boundary *waits,
                                  weft_clock *clock, weft_clock *known);
/* known[i], from those before i and from its waits. */
void weft_crossing_fill(const weft_crossing *c, int i);
/* What an instruction of that body must be done for those behind the crossing: all but what is only
 * begun there, and awaited by an instruction of its own. */
static inline bool weft_crossing_counts(const weft_instruction *in)
{
    return in->queue != WEFT_QUEUE_TRANSFERS;
}

#endif
