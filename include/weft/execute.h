/* SPDX-License-Identifier: Apache-2.0 */
/* Running a run's graphs outside of its steps: for whoever writes text, or looks into a step.
 *
 * All ranks do it together, in the same order, on the thread that drives the run, where nothing
 * else runs: before and after steps, when a generator is asked, and in observers of
 * WEFT_EVENT_NOT_FINITE. What an observer runs is shown to those observers alone that may end the
 * run. */
#ifndef WEFT_EXECUTE_H
#define WEFT_EXECUTE_H

#include <weft/plugin.h>

#ifdef __cplusplus
extern "C" {
#endif

/* weft_run_view.core. */
typedef struct weft_run weft_run;
/* Host memory for the inputs of a mode: those of the step, and of some micro-batches. */
typedef struct weft_batch weft_batch;

/* The graph of a mode, as it was planned; NULL: the run has none. */
const weft_graph *weft_run_graph(const weft_run *run, weft_mode mode);
/* Of a mode that writes, as it is when all parts have run: the logits [batch vocab] of the last
 * position, or what the model has set as its output; every rank holds all of it. */
const weft_value *weft_run_output(const weft_run *run, weft_mode mode);

/* *out is destroyed by the caller in every case. */
weft_status weft_batch_create(weft_run *run, weft_mode mode, int64_t micro_batches,
                              weft_batch **out, weft_error *err);
/* NULL: nothing happens. */
void weft_batch_destroy(weft_batch *batch);
/* Where an input lies in a batch, to be filled with int32 or f32 as weft_add_input says, and this
 * rank's part of it without data; NULL: the graph does not use it. */
void *weft_batch_input(const weft_batch *batch, int64_t micro, const char *name, weft_tensor *t);
/* Fills in what the core knows: the input `step`, and every index, from 0 on. */
void weft_fill_step(const weft_batch *batch, int64_t step);

/* The inputs of a step, behind all that reads those of before; those of its micro-batches come with
 * the tasks that run from now on. The batch may change again after the next wait. */
weft_status weft_run_feed(weft_run *run, const weft_batch *batch, weft_error *err);

/* Called around every task; each may be NULL. */
typedef struct weft_task_hooks {
    weft_status (*before)(void *self, const weft_task *task, weft_error *err);
    weft_status (*after)(void *self, const weft_task *task, weft_error *err);
    void *self;
} weft_task_hooks;
/* Runs this rank's tasks of these parts of a mode, in the order of its list: each one's prologue
 * before the body of the task before it, or behind that of BEGIN, whose results prologues read.
 * hooks may be NULL. Returns when all is enqueued. */
weft_status weft_run_parts(weft_run *run, weft_mode mode, weft_part first, weft_part last,
                           const weft_task_hooks *hooks, weft_error *err);

/* Until all that was enqueued is done. What has failed is named, and so is what hangs: for longer
 * than [weft] rank_timeout. */
weft_status weft_run_wait(weft_run *run, weft_error *err);
/* This rank's part of a value, in memory that the host may read until the next call of this or of
 * weft_run_tensor; waits for what is enqueued. Valid while it is alive: results of the step, sums
 * over micro-batches, logits; in a hook, inputs of the task's micro-batch. data NULL: this rank
 * holds nothing of it. */
weft_status weft_run_value(weft_run *run, weft_mode mode, const weft_value *v, weft_tensor *out,
                           weft_error *err);

#ifdef __cplusplus
}
#endif
#endif
