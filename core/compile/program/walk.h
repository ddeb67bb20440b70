/* SPDX-License-Identifier: Apache-2.0 */
/* The way through a rank's list of tasks: whose prologue or body comes next, and what it waits for.
 * A run enqueues in this order, a prediction follows it, and what a device keeps is counted along
 * it. */
#ifndef WEFT_PROGRAM_WALK_H
#define WEFT_PROGRAM_WALK_H

#include "compile/program/lower.h"

typedef enum weft_walk_kind {
    WEFT_WALK_PROLOGUE, /* what a task begins early; there is something */
    WEFT_WALK_BODY,
    WEFT_WALK_OVER /* nothing more of this task */
} weft_walk_kind;

typedef struct weft_walk_step {
    weft_walk_kind kind;
    int index; /* of the task, in the list */
    const weft_task *task;
    const weft_program *program;
    /* of a prologue or a body */
    bool meets;                    /* it comes behind all that is enqueued */
    const weft_boundary *boundary; /* else what it waits for of the body before; NULL: nothing */
    /* of an end */
    bool last; /* the host waits here, and all queues are in step */
} weft_walk_step;

typedef struct weft_walk {
    const weft_lowered *l;
    weft_part first, last;      /* only tasks of these parts */
    unsigned runs;              /* the kind of step: weft_lowered_runs; at first, all */
    bool keeps, communicates;   /* the device keeps spans; collectives in them, too */
    weft_walk_step step;        /* after weft_walk_next */
    const weft_program *before; /* whose body was the last; NULL: all queues are in step */
    int before_index;
    int task, phase; /* where it is */
    bool fresh;      /* at the beginning, or behind where the host waits */
} weft_walk;

/* Instructions [from, to) of a body that the device keeps as one, for the same places in memory. */
typedef struct weft_captured {
    int from, to;
    bool forks; /* some are on other queues than the first: all are in step before and behind it */
} weft_captured;

/* All queues are in step at first. */
void weft_walk_init(weft_walk *walk, const weft_lowered *l, weft_part first, weft_part last);
/* Goes on to the next step; false: there is none. */
bool weft_walk_next(weft_walk *walk);
/* Of the step, a body, the next span from this instruction on; none: it begins behind all. */
weft_captured weft_walk_captured(const weft_walk *walk, int from);
/* The span's that begins there: the same for the same places in memory, in slots as well. */
uint64_t weft_walk_key(const weft_walk *walk, int from);
/* All queues have been put in step, whatever the plan says. */
void weft_walk_meet(weft_walk *walk);

#endif
