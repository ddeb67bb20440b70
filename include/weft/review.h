/* SPDX-License-Identifier: Apache-2.0 */
/* Reviews. Passes decide before the plan exists; what it needs of memory and time is known behind
 * it. A contribution of kind WEFT_REVIEW is shown the finished plan of a training run, all modes
 * and all ranks of the pipeline, and may ask for something: then all is planned once more, from the
 * model's graph on, by the same plugins, which find what was asked by weft_asked. Reviews run
 * behind each round, those that change an earlier stage first, else in listed order; when a round
 * asks for nothing new, its plan is the run's.
 *
 * Every rank of a run plans for itself, so a review must ask for the same on all of them: it
 * decides by what is shown here, which is that on all ranks, and by parameters, but neither by its
 * own rank nor by a clock. What was asked is compared with rank 0's before the first step. */
#ifndef WEFT_REVIEW_H
#define WEFT_REVIEW_H

#include <weft/pass.h>
#include <weft/service.h>

#ifdef __cplusplus
extern "C" {
#endif

struct weft_host;

/* A finished plan; const, but for what is asked. */
typedef struct weft_plan weft_plan;

/* A run whose reviews still ask for something new behind so many plans is refused. */
enum { WEFT_MOST_ROUNDS = 32 };

/* ---- what may be asked for ---- */

/* From a review: `what` shall be `value` from the next round on. Both are texts for people, too:
 * they are shown in the plan, kept for the run folder and compared between ranks. What is so
 * already asks for no round. Who first asks for something owns it: `what` of another plugin is an
 * error, which names both. Names begin with the plugin's own, as "ac keep", unless several are to
 * agree on them. */
weft_status weft_plan_ask(weft_plan *plan, const char *what, const char *value, weft_error *err);
/* The same of what this plan has already, so that no round follows for it: it is shown, kept and
 * compared. */
weft_status weft_plan_settle(weft_plan *plan, const char *what, const char *value, weft_error *err);
/* From passes, services and reviews: what `what` is asked to be; NULL: nobody has asked for it, as
 * in the first round, and in plans without training. Lives until the next round begins. */
const char *weft_asked(const struct weft_host *host, const char *what);

/* ---- the view ---- */

/* Plans that were made before this one, for the same run: 0 in the first round. */
int weft_plan_round(const weft_plan *plan);
/* The training graph as it will run, with its backward and update. Nodes know their part and stage.
 */
const weft_graph *weft_plan_trained(const weft_plan *plan);
/* Ranks of the pipeline (1: there is none), its stages, and the rank of each. */
weft_pipeline_view weft_plan_pipeline(const weft_plan *plan);

/* What a rate is for. */
typedef enum weft_work {
    WEFT_WORK_PRODUCT,
    WEFT_WORK_ATTENTION,
    WEFT_WORK_OTHER,
    WEFT_WORK_SENT,
    WEFT_WORKS
} weft_work;

typedef struct weft_planned_instruction {
    weft_instruction_kind kind;
    const weft_node *const *nodes; /* what it does: one, or redistributes that are sent as one */
    int n_nodes;
    weft_part part;
    int stage;
    int position;   /* in the order that buffers live by */
    double seconds; /* of one run, by the service "costs" or the device's own rates, were nothing
                       beside it */
    weft_work work;
    double flops, bytes; /* of what is computed: this rank's operations, masked ones too; what is
                            read and written */
} weft_planned_instruction;

typedef struct weft_planned_buffer {
    const weft_value
        *value;      /* the first that lies there; NULL: room that an instruction works in */
    int64_t bytes;   /* of one place */
    int64_t places;  /* for micro-batches that are on their way at once; else 1 */
    int first, last; /* of the arena: positions between which it is in use */
    bool arena;      /* else it is state, or an input */
    bool inside;     /* it lies, with all its places, in another buffer of the arena */
} weft_planned_buffer;

/* What the largest of the ranks with this coordinate in the pipeline is planned to hold and to do
 * in training; bytes count all modes. */
typedef struct weft_planned {
    int64_t bytes; /* in all: what `weft plan` calls planned */
    int64_t arena, state, others;
    int64_t libraries; /* beside these, as device and transport estimate it */
    const weft_planned_instruction *instructions; /* programs one after the other */
    int n_instructions;
    const weft_planned_buffer *buffers;
    int n_buffers;
    int n_positions;
    bool known; /* the times: the device, or a service "costs", says what it reaches; else they are
                   those of a made-up one */
    void *core; /* the core's own */
} weft_planned;

/* rank: of the pipeline, from 0 on. weft_planned_release. */
weft_status weft_plan_show(const weft_plan *plan, int rank, weft_planned *out, weft_error *err);
void weft_planned_release(weft_planned *planned);

/* What a stage of the pipeline takes for one micro-batch. */
typedef struct weft_planned_stage {
    double forward, backward, weights; /* seconds, without waits for other stages; weights: of the
                                          gradients of weights that wait, which `backward` lacks */
    double sends_on, sends_back; /* seconds of what it sends to the next stage and the one before,
                                    were they another rank's */
    int64_t kept, held; /* bytes that its forward keeps for what comes behind; that wait for weights
                           when its backward is over */
} weft_planned_stage;

/* As ranks see it whose other coordinates are 0: the same on all. out: room for all stages. times:
 * NULL, or a file of lines as a run's metrics.jsonl has them, whose seconds count instead of
 * predicted ones; those of weights, if it has none, are of the backward's the share that is
 * predicted. Which stages have gradients of weights apart, this plan's schedule says. */
weft_status weft_plan_stages(const weft_plan *plan, const char *times, weft_planned_stage *out,
                             weft_error *err);

/* Seconds that a step is predicted to take on average, with what ranks and stages wait for, as
 * `weft plan` says it: the same on all ranks. */
weft_status weft_plan_seconds(const weft_plan *plan, double *seconds, weft_error *err);

/* Memory that the run's device has for each rank, in bytes; 0: nobody knows. */
int64_t weft_plan_room(const weft_plan *plan);

/* capability "costs": a plugin's own model of how long work takes, instead of the one of the
 * device's rates, or beside it. Each function is optional, and says the same on every rank. */
typedef struct weft_cost_model {
    size_t size;
    /* Changes what the device says of itself, or, if it says nothing (name is NULL), says it. */
    void (*rates)(void *self, weft_device_rates *rates);
    /* guess: by these rates. Below 0: the guess. */
    double (*seconds)(void *self, const weft_device_rates *rates, const weft_graph *g,
                      const weft_planned_instruction *in, double guess);
    /* Seconds of the host for an instruction that it enqueues; guess: rates->enqueue_s. */
    double (*enqueue)(void *self, const weft_graph *g, const weft_planned_instruction *in,
                      double guess);
} weft_cost_model;

#ifdef __cplusplus
}
#endif
#endif
