/* SPDX-License-Identifier: Apache-2.0 */
/* Test support: calls built by hand, run by a kernel of the cuda plugin on the emulator, in several
 * orders of threads, and by the op's plain kernel in f64. */
#ifndef WEFT_CUDA_TRIAL_H
#define WEFT_CUDA_TRIAL_H

#include "gpu.h"

enum { MOST_TENSORS = 12 };

typedef struct trial {
    const weft_op *op;
    const weft_kernel *kernel;
    weft_attr attrs[8];
    int n_attrs, n_ins, n_outs;
    weft_tensor ins[MOST_TENSORS], outs[MOST_TENSORS];
    double
        tolerance; /* of f32 results, against the largest element; bf16's own rounding is added */
    double size;   /* what "largest element" is at least */
    bool in_place; /* results lie where operands lay, as the op allows */
} trial;

void trial_init(trial *t, const char *op);
void trial_release(trial *t);
void trial_int(trial *t, const char *key, int64_t value);
void trial_real(trial *t, const char *key, double value);
void trial_text(trial *t, const char *key, const char *value);
/* Adds an operand or a result; sizes end with -1. Operands are filled with normal numbers of this
 * seed. */
weft_tensor *trial_in(trial *t, weft_dtype dtype, uint64_t seed, const int64_t *sizes);
weft_tensor *trial_out(trial *t, weft_dtype dtype, const int64_t *sizes);
/* A composite last dim: `grain` elements each, this shard beginning at element lo of whole. */
void tensor_heads(weft_tensor *t, int64_t grain, int64_t lo, int64_t whole);
/* Integers in [lo, hi). */
void tensor_ints(weft_tensor *t, uint64_t seed, int64_t lo, int64_t hi);
#define SIZES(...) ((const int64_t[]){__VA_ARGS__, -1})

/* Runs the kernel in all orders of threads, with and without accumulation, and in place; all orders
 * must agree to the bit, and all with the plain kernel within the tolerance. Releases the trial. */
void trial_check(trial *t);
/* As the kernel, results in the trial's own outs. */
void trial_run(trial *t, bool accumulate);

#endif
