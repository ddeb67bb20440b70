/* SPDX-License-Identifier: Apache-2.0 */
/* How long planned work takes, by a roofline: every instruction the larger of its operations and
 * its bytes over what the device reaches, and instructions beside each other as their queues and
 * waits let them. A prediction, and no more. */
#ifndef WEFT_LIB_FORECAST_ROOFLINE_H
#define WEFT_LIB_FORECAST_ROOFLINE_H

#include "compile/program/lower.h"
#include "forecast/timeline.h"

#include <weft/review.h>

typedef struct weft_roofline {
    weft_device_rates rates;
    bool slow;          /* attention as slow as it may be */
    bool in_turn;       /* all queues are one */
    bool transfers;     /* there is a queue for what is sent from rank to rank */
    bool staged;        /* what the device has no kernel for is computed by the host */
    bool captures;      /* tasks that are the same every time go through the first queue */
    bool captures_sent; /* ... those in which ranks communicate, too */
    int sharers;        /* ranks that compute on one device; below 2: each has its own */
    bool through_host;  /* so goes what is sent, and the host waits for it */
    unsigned runs; /* the kind of step, weft_lowered_runs; 0: what runs in some only is left out */
    bool terms[2]; /* by weft_reduce: all terms are sent to whoever reduces them */
    weft_far_rates far;           /* 0: not known */
    const weft_cost_model *model; /* a plugin's own; NULL: none */
    void *model_self;
} weft_roofline;

/* An instruction as plugins see it; seconds: 0. */
weft_planned_instruction weft_roofline_show(const weft_instruction *in);
/* With what a plugin's model makes of the rates. */
void weft_roofline_ask(weft_roofline *r);

/* Of who knows no device: one rate for all that is computed and one for all that is sent, 0: as it
 * is; nothing else takes time. */
void weft_roofline_assume(weft_roofline *r, double flops_per_s, double bytes_per_s);

/* n ranks compute on one device, in turn: each has its share of it, and what they send each other
 * is copied in its memory. */
void weft_roofline_share(weft_roofline *r, int n);

/* What is sent goes through the host's memory, between ranks of a host as fast as to there. */
void weft_roofline_stage(weft_roofline *r);

/* Of one run of an instruction. */
typedef struct weft_work_cost {
    weft_work work;
    double seconds;
    bool known; /* no: its kernel is the host's, or the device has no rate for it; the time is that
                   of what is known */
} weft_work_cost;

/* Attention of one step, recomputed or not. */
typedef struct weft_causal {
    double flops, seen; /* seen: what queries see under causality, of one document */
    double model;       /* of what MFU counts */
    bool cut;           /* queries are a part of the sequence */
} weft_causal;
/* Fills in what the causal mask hides of each attention (masked), and sums; out: may be NULL. */
weft_status weft_forecast_see(weft_lowered *l, weft_causal *out, weft_error *err);

/* The dtype that a computed product runs in, as its kernel says. */
weft_dtype weft_roofline_dtype(const weft_lowered *l, const weft_instruction *in);
/* Of a send: of a ring what it takes beside its queue, of a pipeline to put aside what is sent. */
weft_work_cost weft_roofline_cost(const weft_roofline *r, const weft_lowered *l,
                                  const weft_instruction *in);
/* What the host takes to enqueue it. */
double weft_roofline_enqueue(const weft_roofline *r, const weft_lowered *l,
                             const weft_instruction *in);
/* From when both ends of what a POST_SEND sends have begun it until it is over. */
double weft_roofline_transfer(const weft_roofline *r, const weft_lowered *l,
                              const weft_instruction *in);
/* What a collective does before it waits for the other stages of a pipeline; -1: it does not. */
double weft_roofline_before_stages(const weft_roofline *r, const weft_lowered *l,
                                   const weft_instruction *in);
/* reach.c: how many of a group's ranks are on a host, and how many hosts have some. Where hosts end
 * in the middle of groups, of the group that is on most of them, and of its ranks on a host the
 * fewest. */
typedef struct weft_reach {
    int n, near, hosts;
} weft_reach;
weft_reach weft_reach_of(const weft_device_rates *rates, const weft_mesh *mesh, const int *axes,
                         int n_axes);
/* What a call of the transport takes; count: as in its table of functions. */
double weft_roofline_send(const weft_roofline *r, const weft_mesh *mesh, const weft_step *step,
                          int64_t count, weft_dtype dtype, weft_reduce op);

/* ---- course.c ---- */

/* Is told of every instruction of every task (its place in the list) when it runs. */
typedef struct weft_course_watch {
    void *self;
    void (*see)(void *self, int task, const weft_instruction *in, const weft_task_time *when);
} weft_course_watch;

/* When each task of the rank's list runs, were it alone and nothing sent from stage to stage, into
 * out[tasks]: from where the first queue is done with the one before to where it is done with this
 * one. What other queues still do then goes on beside the next; where the host waits, all is done.
 * watch may be NULL. */
weft_status weft_roofline_course(const weft_roofline *r, const weft_lowered *l,
                                 const weft_course_watch *watch, weft_task_time *out,
                                 weft_error *err);

/* ---- pipeline.c ---- */

/* The same of all n ranks of a pipeline together, whose graph is one; a task begins later by what
 * others keep its first queue waiting. watch may be NULL; else it sees rank `watched`. starved: of
 * each rank, how long its first queue waits for the host alone; may be NULL. */
weft_status weft_roofline_pipeline(const weft_roofline *r, weft_lowered *const *ranks, int n,
                                   int watched, const weft_course_watch *watch,
                                   weft_task_time *const *out, double *starved, weft_error *err);

#endif
