/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan says of a run before it runs: times, memory, texts for people. */
#ifndef WEFT_LIB_FORECAST_FORECAST_H
#define WEFT_LIB_FORECAST_FORECAST_H

#include "compile/driver/plan.h"
#include "forecast/roofline.h"

/* ---- reproducer.c ---- */

/* How many ranks the set's axes ask for: the product of their degrees, auto counted as one. */
weft_status weft_plan_ranks(const weft_plugins *plugins, int *ranks, weft_error *err);
/* For weft_plan_options: writes before-PLUGIN.graph, in the run folder or the user's cache. */
void weft_plan_keep_broken(const weft_plan *plan, const char *plugin, const weft_graph *graph,
                           weft_error *err);

/* ---- costs.c: a training step before it is run ---- */

/* What the plan's device says of itself; false: it does not know. */
bool weft_device_find_rates(const weft_plan *plan, weft_device_rates *rates);
/* How many ranks compute on one device of these rates. */
int weft_device_sharers(const weft_plan *plan, const weft_device_rates *rates);
/* Does the transport make such reductions by sending all terms? */
bool weft_plan_sends_terms(const weft_plan *plan, weft_reduce op);
/* What the device says of itself. false: nothing; 1e12 flop/s and 1e10 byte/s are assumed. */
bool weft_plan_roofline(const weft_plan *plan, weft_roofline *out);

/* How many of all steps end these periods and no others. */
double weft_lowered_share(const weft_lowered *l, unsigned runs);

typedef struct weft_forecast {
    weft_costs costs;         /* without what stages wait for each other */
    weft_timeline *timeline;  /* with it */
    double step_s, longest_s; /* on average, and of the longest kind of step */
    weft_lowered **ranks;     /* of the pipeline; the planned one is the plan's own */
    int *like; /* of each: who has planned its programs; of a rough plan, the first that is alike */
    weft_plan *others; /* ... and theirs; NULL: another forecast's */
    bool borrows;
    double work_s[WEFT_WORKS], waits_s;  /* of the planned rank's step: what its instructions take,
                                            and how long it computes nothing for those that send */
    double host_s;                       /* ... and how long for the host, which enqueues */
    double model_flops, model_attention; /* what MFU counts of a step, a rank of the pipeline */
    const char *unknown;                 /* the first op whose time is not known */
    int n_unknown;
    double flops, unknown_flops;  /* of the planned rank: all, and those of such */
    double products[WEFT_DTYPES]; /* of these, products' by the dtype that they run in */
} weft_forecast;

/* What the tasks of a training step take, what goes from stage to stage, and when they run.
 * weft_forecast_release. */
weft_status weft_plan_forecast(const weft_plan *plan, const weft_roofline *roofline,
                               weft_forecast *f, weft_error *err);
/* The same of a plan of which there is a forecast by another roofline, which lives longer. */
weft_status weft_plan_forecast_like(const weft_plan *plan, const weft_roofline *roofline,
                                    const weft_forecast *like, weft_forecast *f, weft_error *err);
void weft_forecast_release(const weft_plan *plan, weft_forecast *f);
/* In words, if the device says what it reaches (forecast.c): a step's time, tokens/s, MFU. */
void weft_plan_print_forecast(const weft_plan *plan, weft_text *text);
/* Attention as slow as it may be, where rates are unsure. */
weft_roofline weft_roofline_slowest(const weft_roofline *r);
/* A line a stage. */
void weft_plan_print_costs(const weft_costs *costs, const int *rank_of, weft_text *text);

/* ---- review.c: another rank's plan ---- */

/* *other: a copy whose programs (of training alone, if that is asked) and states are that rank's,
 * and its own. weft_plan_forget_other, also after a failure. */
weft_status weft_plan_other(const weft_plan *plan, int rank, bool train_only, weft_plan *other,
                            weft_error *err);
void weft_plan_forget_other(weft_plan *other);

/* ---- alike.c: ranks of a pipeline that run the same ---- */

/* By rank: the first one whose programs are its own but for whom it sends to. */
weft_status weft_forecast_alike(const weft_plan *plan, int *like, weft_error *err);
/* Another rank's, whose stages are so many further on. NULL: no memory. weft_lowered_return. */
weft_lowered *weft_lowered_borrow(const weft_lowered *from, const weft_task_list *tasks, int shift);
void weft_lowered_return(weft_lowered *borrowed);

/* ---- identity.c ---- */

/* Plans of equal numbers are one: every rank of the pipeline runs the same, at the same places in
 * memory. f: a forecast of the plan. */
uint64_t weft_plan_identity(const weft_plan *plan, const weft_forecast *f);

/* ---- check.c: what a run would refuse that the plan can see ---- */

weft_status weft_plan_check(const weft_plan *plan, weft_error *err);
/* Of that: is there what axes are said to cut? */
weft_status weft_plan_check_axes(const weft_plan *plan, weft_error *err);
/* And: are the fields sound that the data say they have? */
weft_status weft_plan_check_fields(const weft_plan *plan, weft_error *err);

/* ---- libraries.c: memory beside what is planned, as the plugins estimate it ---- */

typedef struct weft_libraries {
    int64_t device, captured, loading, transport; /* captured: launches that are replayed; loading:
                                                     what kernels take before the first step */
    const char *transport_name;                   /* NULL: it does not say */
} weft_libraries;

weft_status weft_plan_libraries(const weft_plan *plan, weft_libraries *out, weft_error *err);

/* ---- what `weft plan` says (report.c) ---- */

const char *weft_class_name(weft_buffer_class c);
/* "1.2 GFLOP". */
void weft_print_flops(weft_text *text, double flops);

/* Parameters, flops, memory by class, the peak and what is alive at it, collectives, passes. times:
 * how long each pass took, too; without, equal plans are equal texts. */
void weft_plan_print(const weft_plan *plan, bool times, weft_text *text);
/* One program's instructions with their operands' places; of one stage of a pipeline, or (-1) of
 * all that this rank has. */
void weft_plan_print_program(const weft_plan *plan, weft_mode mode, weft_part part, int stage,
                             weft_text *text);
/* What ranks compute alike at the end of a step after gathering it (repeats.c). */
void weft_plan_print_repeats(const weft_plan *plan, weft_text *text);
/* What is gathered whole in a micro-batch though nobody asked for it (gathers.c). */
void weft_plan_print_gathers(const weft_plan *plan, weft_text *text);
/* A line of a name, which is filled up to so many columns, and bytes. */
void weft_print_named(weft_text *text, const char *name, int width, double bytes);
/* Memory of libraries, and what is left of the device (room.c). */
void weft_plan_print_libraries(const weft_plan *plan, weft_text *text);
/* far.c: what lies far, if anything does, and what moves. */
void weft_plan_print_far(const weft_plan *plan, weft_text *text);
/* Trained elements, all ranks together. */
int64_t weft_plan_parameters(const weft_plan *plan);
/* How many shares of a micro-batch have no sample: it is cut into more than it has. */
int64_t weft_plan_idle(const weft_plan *plan);

#endif
