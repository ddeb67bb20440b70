/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the adamw plugin: settings, learning-rate schedule, ops and kernels. */
#ifndef WEFT_ADAMW_H
#define WEFT_ADAMW_H

#include <weft/marks.h>
#include <weft/plugin.h>

/* ---- learning rate ---- */

typedef enum adamw_shape { ADAMW_CONSTANT, ADAMW_LINEAR, ADAMW_SQRT, ADAMW_COSINE } adamw_shape;

/* Warm-up, a flat part, decay. The first `warmup` steps climb to lr, the last `decay` of `total`
 * steps fall towards min_factor * lr. */
typedef struct adamw_schedule {
    double lr, min_factor;
    int64_t warmup, decay, total; /* steps */
    adamw_shape shape;
} adamw_schedule;

/* From the settings and the run's length; decay is shortened where warm-up and decay do not fit. */
adamw_schedule adamw_schedule_plan(const weft_params *params, int64_t total);
/* The learning rate of a step, counted from 1. Steps past the end get the last value. */
double adamw_schedule_lr(const adamw_schedule *schedule, int64_t step);
const char *adamw_shape_name(adamw_shape shape);
/* ADAMW_CONSTANT for any unknown name. */
adamw_shape adamw_shape_find(const char *name);

/* ---- the plugin's instance and its pass ---- */

typedef struct adamw {
    const weft_host *host;
    adamw_schedule schedule;
} adamw;

/* True if weight decay applies to a parameter of this name and number of dims. */
bool adamw_decays(const weft_params *params, const char *name, int n_dims);
/* Adds the learning rate. */
void adamw_rate(void *self, weft_graph *graph);
/* Adds the rest of the step_end graph: norm, clip, updates. */
void adamw_joint(void *self, weft_graph *graph);

/* ---- ops (ops.c) and their kernels for the device "cpu" (cpu.c) ---- */

extern const weft_op *const adamw_ops[];
extern const weft_kernel adamw_cpu_kernels[];

/* The numbers that one update needs beside its tensors. */
typedef struct adamw_numbers {
    double beta1, beta2, eps;
    double keep; /* 1 - lr * weight_decay */
    double rate; /* lr / (1 - beta1^t) */
    double root; /* 1 / sqrt(1 - beta2^t) */
    double clip; /* factor on the gradient */
} adamw_numbers;

adamw_numbers adamw_numbers_of(const weft_call *call);
/* An error unless all tensors have the extent of operand 0 where they should, and nothing is to be
 * accumulated. */
weft_status adamw_check_update(const weft_call *call, weft_error *err);

#endif
