/* SPDX-License-Identifier: Apache-2.0 */
/* Test support: calls built by hand, run by a kernel of the cpu plugin and by the op's plain kernel
 * in f64. */
#ifndef WEFT_CPU_TEST_CALL_H
#define WEFT_CPU_TEST_CALL_H

#include "cpu.h"

enum { MOST_TENSORS = 12, GUARD = 64 };

typedef struct trial {
    const weft_op *op;
    const weft_kernel *kernel;
    const char *launcher; /* its field of cpu_launchers; the op's name unless said otherwise */
    weft_attr attrs[8];
    int n_attrs, n_ins, n_outs;
    weft_tensor ins[MOST_TENSORS], outs[MOST_TENSORS];
    double
        tolerance; /* of f32 results, against the largest element; bf16's own rounding is added */
    double size;   /* what "largest element" is at least */
    bool product;  /* sums may depend on the thread count */
} trial;

void trial_init(trial *t, const char *op);
/* Another kernel of the op than the first one. */
void trial_choose(trial *t, const char *kernel, const char *launcher);
void trial_release(trial *t);
void trial_int(trial *t, const char *key, int64_t value);
void trial_real(trial *t, const char *key, double value);
/* Adds an operand or a result; sizes end with -1. Operands are filled with normal numbers of this
 * seed. */
weft_tensor *trial_in(trial *t, weft_dtype dtype, uint64_t seed, const int64_t *sizes);
weft_tensor *trial_out(trial *t, weft_dtype dtype, const int64_t *sizes);
/* A composite last dim: `grain` elements each, this shard beginning at element lo of whole. */
void tensor_heads(weft_tensor *t, int64_t grain, int64_t lo, int64_t whole);
/* Integers in [lo, hi). */
void tensor_ints(weft_tensor *t, uint64_t seed, int64_t lo, int64_t hi);
#define SIZES(...) ((const int64_t[]){__VA_ARGS__, -1})

/* Runs the kernel for every instruction set, thread count, and with and without accumulation, and
 * compares all with the plain kernel. */
void trial_check(trial *t);
/* As the kernel with these threads and products; the results lie in the trial's own outs. */
void trial_run(trial *t, cpu_isa isa, int threads, cpu_products products, bool accumulate);

#endif
