/* SPDX-License-Identifier: Apache-2.0 */
/* weft conform: does a plugin do what it declares? Each part of the work is done by a process of
 * its own, which sends what it finds as lines, so that a crash is one more finding. */
#ifndef WEFT_TOOLS_CONFORM_H
#define WEFT_TOOLS_CONFORM_H

#include "compile/driver/plan.h"
#include "compile/graph/graph.h"
#include <weft/options.h>

/* ---- findings (child.c) ---- */

/* Of the parts' process, and of those that it starts in turn. */
typedef struct conform {
    const char *plugin;     /* its name; NULL: the core */
    const char *ini;        /* the author's run; NULL: runs of our own */
    weft_option_values set; /* -o: "SECTION.KEY=VALUE"; in runs of our own, keys of the plugin */
    const char *folder;     /* scratch */
    bool whole;             /* every case instead of a sample */
    bool model;             /* it gives a model */
    const char *place;      /* of the plugin in whose place alone it can be; NULL: any */
    bool cuts;              /* it declares an axis, whose degree is its key `degree` */
    int out;                /* where findings go */
    int printed;            /* where what is printed goes, which should be nothing */
    char *now;              /* shared: what is being done, for the report of a crash */
} conform;

enum { CONFORM_NOW = 256, CONFORM_MOST_SET = 64 };

/* "FAIL op x: shards: ..."; what is wrong and what to do, in one line. */
void conform_fail(const conform *c, const char *format, ...) WEFT_PRINTF(2, 3);
/* What could not be tried, and why. */
void conform_skip(const conform *c, const char *format, ...) WEFT_PRINTF(2, 3);
/* n more checks of this kind ("shards") were made, whatever they found. */
void conform_count(const conform *c, const char *kind, int n);
/* What is done from here on: "op x: shards". */
void conform_now(const conform *c, const char *format, ...) WEFT_PRINTF(2, 3);
/* Has anything been printed since the last call? That is a finding of `who`. */
void conform_check_output(const conform *c, const char *who);
/* Zeroed memory that processes started from now on share; NULL: there is none. It lasts as long as
 * the process. */
void *conform_share(size_t bytes);
/* Calls part(c, self) in a process of its own. A crash, an end, a time-out and anything that is
 * printed are findings. Returns false if it did not come to its end. */
bool conform_isolate(const conform *c, double seconds, void (*part)(const conform *c, void *self),
                     void *self);

/* ---- what runs say (runs.c) ---- */

/* The line that says most of what was printed: of a crash, the first error, where runs parted, or
 * the last one. Cuts the text off behind it. */
const char *conform_gist(weft_text *said);

/* ---- a run of the plugin's, planned (plan.c) ---- */

typedef struct conform_case {
    const char *model;  /* "llama3", "gpt2" */
    const char *others; /* "bf16 tp fsdp ac": plugins between model and data */
    const char *place;  /* where the plugin is listed: "after:llama3", "instead:adamw" */
    int ranks, threads;
    bool validates;
    int degree; /* of the plugin's own axis; 0: 1 */
} conform_case;

typedef struct conform_plan {
    weft_settings *settings;
    weft_plugins *plugins;
    weft_plan *plan;
    weft_log log;
    weft_host host;
} conform_plan;

enum { CONFORM_MOST_PLACES = 8 };
/* "instead:adamw" of an optimizer: a run has one such plugin; NULL: it may have several. */
const char *conform_own_place(const weft_plugin *plugin);
/* Of a plugin that has no place: does it break a promise where it might stand? Appends how, or why
 * it is refused at the first place. */
bool conform_find_breakage(const conform *c, conform_case k, weft_text *why);
/* Places in the list of such a run at which the plugin gets to a plan; in place of another one only
 * if there is no other way. One, NULL: the list has it anyway. Returns how many. */
int conform_find_places(const conform *c, const conform_case *k,
                        const char *places[CONFORM_MOST_PLACES]);
/* Is the plugin one that others bring along as an axis? */
bool conform_is_axis(const char *plugin);
/* Appends the INI of a case. */
void conform_print_ini(const conform *c, const conform_case *k, weft_text *ini);
/* Release in every case. */
weft_status conform_plan_init(conform_plan *p, const conform *c, const conform_case *k,
                              weft_error *err);
void conform_plan_release(conform_plan *p);

/* ---- uses of ops (use.c) ---- */

/* An op on whole tensors of the host, floats in f64, as a graph uses it. like: one more operand,
 * without data. */
typedef struct conform_use {
    const weft_graph *graph;
    const weft_node *node;
    weft_rule rule;
    weft_tensor ins[WEFT_RULE_MAX_PARTS], outs[WEFT_RULE_MAX_PARTS];
} conform_use;

/* A tensor like t with memory of its own: zero, or a copy; NULL data: out of memory. */
weft_tensor conform_new(const weft_tensor *t, weft_pool *pool);
weft_tensor conform_copy(const weft_tensor *t, weft_pool *pool);
/* Places [lo, hi) of dim d, as a shard. */
weft_tensor conform_slice(const weft_tensor *t, int d, int64_t lo, int64_t hi, weft_pool *pool);
/* Normal numbers. */
void conform_randomise(weft_tensor *t, uint64_t stream);
/* An attribute that was read and is not declared is an error. */
weft_status conform_watched(const weft_attr_watch *watch, weft_error *err);
/* Runs the op's plain kernel on these tensors. */
weft_status conform_run(const conform_use *u, const weft_tensor *ins, const weft_tensor *outs,
                        bool accumulate, weft_error *err);
/* The same, and an error is a finding. check: "shards". */
bool conform_ran(const conform *c, const conform_use *u, const char *check, const weft_tensor *ins,
                 const weft_tensor *outs);
/* The first element where they differ by more than `tolerance` of the largest; -1: none. */
int64_t conform_differ(const weft_tensor *want, const weft_tensor *got, double tolerance);
/* "shape [3, 7, 18], result 0, element 5: 1.25, not 1.5" */
void conform_print_difference(const weft_tensor *want, const weft_tensor *got, int result,
                              int64_t i, weft_text *text);

/* ---- values of a graph (values.c) ---- */

typedef struct conform_values {
    weft_tensor *of; /* by value id; without data: not known */
} conform_values;

/* Computes all values of the graph with plain kernels, on one rank: what a node means does not
 * depend on the mesh. */
weft_status conform_evaluate(const conform *c, const weft_graph *g, conform_values *values,
                             weft_pool *pool, weft_error *err);
/* Computes one node from its operands' values. */
weft_status conform_compute(const weft_graph *g, const weft_node *n, conform_values *values,
                            weft_pool *pool, weft_error *err);
/* Of a node whose operands are known. False: memory is short, or the rule cannot be had. */
bool conform_use_init(conform_use *u, const weft_graph *g, const weft_node *n,
                      const conform_values *values, weft_pool *pool, weft_error *err);

/* ---- checks ---- */

void conform_check_linear(const conform *c, const conform_use *u);
void conform_check_monotone(const conform *c, const conform_use *u);
void conform_check_accumulate(const conform *c, const conform_use *u);
/* Predictions, and MFU, are of what it says. */
void conform_check_flops(const conform *c, const conform_use *u);
void conform_check_in_place(const conform *c, const conform_use *u);
void conform_check_shards(const conform *c, const conform_use *u);
/* ops: of the graph, with what this check needs of its own. */
weft_status conform_add_ops(weft_ops *ops, weft_error *err);
void conform_check_order(const conform *c, const conform_use *u);
void conform_check_gradient(const conform *c, const conform_use *u, const weft_ops *ops);
/* What became of the first kernels of the plugin, in their order. */
enum { CONFORM_MOST_KERNELS = 1024, CONFORM_TRIED = 1, CONFORM_TAKEN = 2 };
typedef struct conform_kernels {
    unsigned char of[CONFORM_MOST_KERNELS];
} conform_kernels;

/* All kernels of this plugin for the op. */
void conform_check_kernels(const conform *c, const conform_use *u, const conform_plan *p,
                           conform_kernels *seen);
/* The kernel's prepare on this call, which it accepts: leaks, and allocations that fail. */
void conform_check_prepare(const conform *c, const weft_kernel *k, const weft_call *call);

/* State that the plugin has added to a graph that ranks share. */
void conform_check_states(const conform *c, const weft_graph *g);

/* Logits of validation against those of training (modes.c). */
void conform_check_modes(const conform *c, const weft_plan *plan);

/* Is a plugin to blame that a run was refused with these words? (start.c) */
bool conform_is_fault(const weft_text *said);
/* A run of one rank, started: is there nothing that makes all others useless? */
bool conform_start(const conform *c, const char *ini);
/* Two INIs by the oracle; exactly: "all", or NULL (runs.c). */
void conform_compare_runs(const conform *c, const char *what, const char *one, const char *two,
                          const char *exactly);
/* Validation's loss and greedy text of one rank and of a mesh of so many (texts.c). */
void conform_compare_validation(const conform *c, const char *what, const char *one,
                                const char *many, int ranks);
void conform_compare_text(const conform *c, const char *what, const char *one, const char *many,
                          int ranks);
/* A run on one rank, whole and resumed (resume.c). */
void conform_compare_resumed(const conform *c, const char *what, const char *ini);
/* The author's run on meshes (own.c). */
void conform_own_runs(const conform *c);

/* All ops and kernels (ops.c); allocation failures and leaks of hooks and passes
 * (memory.c); runs on meshes (runs.c); commands (commands.c). */
void conform_ops(const conform *c, void *module);
void conform_memory(const conform *c, void *module);
void conform_runs(const conform *c, void *module);
void conform_commands(const conform *c, void *module);

/* Begins the program anew, once, with a C library that keeps no freed pieces aside: it counts those
 * as in use, and a leak of a few bytes is told from them by hundreds of rounds only. argv: main's.
 */
void conform_count_exactly(char **argv);

#endif
