/* SPDX-License-Identifier: Apache-2.0 */
/* A run as a program that can be read before it runs: plugins' passes over graphs, one graph per
 * mode, lowered for one rank. Nothing is opened. */
#ifndef WEFT_DRIVER_PLAN_H
#define WEFT_DRIVER_PLAN_H

#include "compile/program/lower.h"
#include "host/plugins.h"

/* What one pass did, for `weft plan`. */
typedef struct weft_pass_record {
    const char *plugin, *stage;
    const char *after; /* the pass waits for this capability, wherever it is listed; NULL */
    int nodes_before, nodes_after;
    double ms;
} weft_pass_record;

/* Sizes of the graphs that write text. */
typedef struct weft_writing {
    int64_t rows;    /* texts at a time */
    int64_t context; /* the most tokens of a text, prompt included */
    int64_t places;  /* of the sequence: context, and padding in front of shorter prompts */
    bool cache;      /* keys and values are kept; else every token computes all places again */
} weft_writing;

typedef struct weft_plan_options {
    int rank, ranks;
    const char *stop_after; /* plugin after whose last graph or placed pass to stop: the train graph
                               is placed and nothing more; NULL: go on */
    bool train_only;        /* no evaluate and generate graphs */
    const weft_writing *write; /* only the graphs that write text, of this size: no training, no
                                  data, no optimizer; NULL: a training run */
    bool fetch_computed; /* all that the training graph computes once of a micro-batch is marked
                            `fetch` */
    bool fetch_rounded;  /* what it rounds to 8 bits, or chooses, is */
    bool rough;          /* memory is laid out in one sweep: quick, and the arena is too large */
    uint64_t dice;       /* tests: random legal placement */
    const char *spread;  /* the plugin to be advised where none spreads a run; NULL: none */
    /* Is handed a graph as it was before a pass of `plugin` broke it, on rank 0; NULL: nobody is.
     * Notes in err where it is. */
    void (*broken)(const weft_plan *plan, const char *plugin, const weft_graph *graph,
                   weft_error *err);
} weft_plan_options;

struct weft_plan {
    weft_plugins *plugins; /* not owned */
    const weft_params *train, *weft, *mesh_params;
    weft_mesh mesh;
    int coord[WEFT_MAX_AXES];         /* the rank's in it */
    char axes[2 * WEFT_MAX_AXES][24]; /* the names of all declared axes, of one rank, too */
    int n_axes;
    weft_ops ops;
    weft_kernels kernels;
    weft_states states, caches;
    int n_kept;      /* by plugins, behind the states in their memory */
    int64_t sending; /* the host's memory, in bytes, that the transport needs for what ranks send */
    weft_writing writing;
    weft_graph *graphs[WEFT_MODES];
    weft_tasks *tasks[WEFT_MODES]; /* of all ranks of the pipeline */
    weft_lowered *lowered[WEFT_MODES];
    const weft_device *device;
    void *device_self;
    const weft_far *far; /* NULL: nothing lies far */
    void *far_self;
    const weft_generator *generator;
    void *generator_self;
    int64_t micro_batch, micro_batches, global_batch, seq_len, steps;
    const char *unit; /* what speeds count: "tokens", "samples" */
    int64_t units;    /* of them in a step, with labels or without */
    int rank, ranks;
    weft_pass_record *records;
    int n_records, records_capacity;
    int round;            /* plans before this one */
    const char *reviewer; /* the plugin that looks at it; NULL: none does */
    bool again, rough;    /* again: something new was asked for */
    weft_status refused;  /* what was asked for cannot be */
};

/* plugins are created (not opened). */
weft_status weft_plan_create(weft_plugins *plugins, weft_settings *settings,
                             const weft_plan_options *options, weft_plan **out, weft_error *err);
void weft_plan_destroy(weft_plan *plan);
/* Is there far memory for what lies far, and does the device reach it? */
weft_status weft_plan_reach_far(const weft_plan *plan, weft_error *err);
/* A graph with all parameters: the training graph, or where there is none the one that reads
 * prompts. */
const weft_graph *weft_plan_model(const weft_plan *plan);

/* ---- device.c: those functions of the plan's device that take a queue, here by its number, or
 * that it may lack; the others are called by its table ---- */

/* Pinned, if the device has such memory; zeroed. */
weft_status weft_device_alloc_host(const weft_plan *plan, size_t bytes, void **memory,
                                   weft_error *err);
void weft_device_free_host(const weft_plan *plan, void *memory, size_t bytes);
/* queue: its number; WEFT_NOW: behind everything, and done on return. */
enum { WEFT_NOW = -1 };
weft_status weft_device_upload(const weft_plan *plan, int queue, void *to, const void *from_host,
                               size_t bytes, weft_error *err);
weft_status weft_device_download(const weft_plan *plan, int queue, void *to_host, const void *from,
                                 size_t bytes, weft_error *err);
weft_status weft_device_move(const weft_plan *plan, int queue, const weft_box *boxes, int n,
                             weft_error *err);
/* Does it compute later than it is told to? Else it has no events. */
bool weft_device_is_async(const weft_plan *plan);
weft_status weft_device_record(const weft_plan *plan, int queue, weft_device_event *event,
                               weft_error *err);
weft_status weft_device_await(const weft_plan *plan, int queue, weft_device_event *event,
                              weft_error *err);
uint64_t weft_device_reached(const weft_plan *plan, int queue);
/* 0: it does not say, or its memory is the process's own. */
size_t weft_device_peak_bytes(const weft_plan *plan);
/* Of what it lacks: 0, NULL, nothing. */
weft_queue *weft_device_queue(const weft_plan *plan, int i);
uint64_t weft_device_adversary(const weft_plan *plan);

/* What is wrong with the texts (rule, linear groups, gradient) of a plugin's ops, which are among
 * `ops`; in the words that a run gives. where: the line that lists the plugin. */
weft_status weft_plan_check_ops(const weft_ops *ops, const weft_plugin *plugin, weft_where where,
                                weft_error *err);
/* Declares what a contribution says of axes, if it says anything. */
weft_status weft_declare_axes(const weft_loaded *loaded, const weft_contribution *c,
                              weft_mesh_plan *mesh, weft_error *err);

/* ---- passes.c, for plan.c ---- */

/* Runs all passes of a mode into plan->graphs. A pass that breaks the graph is named, and the graph
 * before it is written to a file. */
weft_status weft_plan_graph(weft_plan *plan, weft_mode mode, const weft_plan_options *options,
                            weft_error *err);
/* start: when the pass began. */
weft_status weft_plan_record(weft_plan *plan, weft_pass_record record, double start,
                             weft_error *err);

/* What the plan's rank runs in a mode whose graph and lists are there. */
weft_status weft_plan_lower(const weft_plan *plan, weft_mode mode, weft_lowered **out,
                            weft_error *err);

/* ---- review.c, for plan.c ---- */

/* Shows the plan to all reviews: plan->again. */
weft_status weft_plan_review(weft_plan *plan, weft_error *err);

/* ---- schedule.c, for plan.c ---- */

/* Makes the lists of tasks of a mode whose graph is there. */
weft_status weft_plan_schedule(weft_plan *plan, weft_mode mode, weft_error *err);

/* May the device keep tasks in which ranks communicate, as the transport says? */
bool weft_plan_captures_sent(const weft_plan *plan);

/* ---- states.c, calls.c, footprint.c: memory ---- */

/* What a store is shown: every parameter and state, this rank's part, without data, and behind them
 * the n_kept that plugins keep; kept: how many bytes, of rank after rank; NULL: only this one is
 * known. weft_free. */
weft_status weft_plan_state(const weft_plan *plan, const int64_t *kept, weft_state_tensor **out,
                            weft_error *err);
/* Gives what plugins keep a place. All that ask have asked. */
weft_status weft_plan_keep(weft_plan *plan, weft_error *err);
/* Memory that saving takes on this rank; 0 without a store. */
int64_t weft_plan_store_bytes(const weft_plan *plan);
/* calls.c: tells the transport what ranks send. All modes are lowered. */
weft_status weft_plan_sending(weft_plan *plan, weft_error *err);

/* ---- footprint.c: memory that a run asks for, in bytes ---- */

typedef struct weft_held {
    int64_t arena, state, caches, store; /* store: what saving takes */
    int64_t inputs; /* with those on the host, if that is the device's memory, too */
    int64_t micro_inputs, step_inputs; /* of these: the device's pieces */
    int64_t host_inputs;               /* beside a device that has memory of its own */
    int64_t far, moving;               /* in far memory; what moving it takes of the host's */
} weft_held;

weft_held weft_plan_held(const weft_plan *plan);
/* Is none of what services say of it less than nothing? */
weft_status weft_plan_check_held(const weft_plan *plan, weft_error *err);
/* All but host_inputs and far: what is planned. */
size_t weft_plan_bytes(const weft_plan *plan);

#endif
