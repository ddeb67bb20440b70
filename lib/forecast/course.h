/* SPDX-License-Identifier: Apache-2.0 */
/* One rank on its way through its list (course.c), and what it waits for in other ranks of its
 * pipeline (pipeline.c). */
#ifndef WEFT_LIB_FORECAST_COURSE_H
#define WEFT_LIB_FORECAST_COURSE_H

#include "compile/program/walk.h"
#include "forecast/roofline.h"

/* The body that was enqueued last, and the prologues of two tasks at most, are still asked for. */
enum { WEFT_REMEMBERED = 3 };

typedef struct weft_pipeline weft_pipeline;

typedef struct weft_course {
    const weft_roofline *r;
    const weft_lowered *l;
    const weft_course_watch *watch; /* NULL: nobody */
    weft_task_time *out;
    weft_pipeline *pipeline; /* NULL: alone */
    int rank;                /* of the pipeline */

    double queue[WEFT_MOST_QUEUES];
    double ends[2][WEFT_MOST_QUEUES]; /* of the last two bodies, on each queue */
    int ended;
    double host;     /* it enqueues nothing before: that takes it time, and it waits for what goes
                        through it */
    double far;      /* until when far memory is at work */
    double ring;     /* when what was last sent to the next rank has come */
    double *arrives; /* by transfer: of a ring, when what it receives has come */
    bool *summed;    /* by transfer: has it fetched a sum over micro-batches in this step? */
    weft_task_time *times[WEFT_REMEMBERED]; /* by task, modulo; of its instructions */
    double **host_s;                        /* by program: what the host takes to enqueue them */
    double **seconds; /* by program: what its instructions take, the same in each of its tasks */

    weft_walk walk;     /* where it is in its list */
    bool begun;         /* in the middle of a step, which waits for another rank */
    bool entered;       /* ... and is */
    int at;             /* ... at this instruction */
    int enqueued;       /* ... and the host at this one */
    weft_captured span; /* ... in, or before, what the device keeps as one */
    int64_t made;       /* steps */
    bool through;
    double starved; /* how long the first queue has waited for the host alone */
    double stood;   /* how long others have kept the first queue from this task */
} weft_course;

weft_status weft_course_begin(weft_course *course, weft_error *err);
void weft_course_end(weft_course *course);
/* As far as it can: to the end, or to where it waits for another rank. Has it come further? */
bool weft_course_advance(weft_course *course);
bool weft_course_is_through(const weft_course *course);
/* Does it move what lies in far memory? */
bool weft_course_is_far(const weft_instruction *in);
/* Does it fetch a sum over micro-batches? Each step's first is zeros, and is not read. */
bool weft_course_sums(const weft_instruction *in);

/* ---- pipeline.c; false: nobody knows yet ---- */

/* Does it go to another stage, or come from one? */
bool weft_course_passes_on(const weft_instruction *in);
/* At this time what is to be sent, or received, is begun. */
void weft_pipeline_post(const weft_course *course, const weft_instruction *in, double now);
/* Does it send, and is one of its places free? */
bool weft_pipeline_has_place(const weft_course *course, const weft_instruction *in);
/* When is the oldest that this instruction, or its receive, has begun over? -1: there is none. It
 * is over from then on. */
bool weft_pipeline_await(const weft_course *course, int transfer, double *over);
/* When have all ranks come to their next collective of all stages? now: this one. */
bool weft_pipeline_meet(const weft_course *course, double now, double *all);

#endif
