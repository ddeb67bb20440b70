/* SPDX-License-Identifier: Apache-2.0 */
/* Test support: calls built by hand, run by a plugin's kernel and by the op's plain kernel in f64.
 * How a kernel is launched, and in which ways, is the machine's. */
#ifndef WEFT_TEST_TRIAL_H
#define WEFT_TEST_TRIAL_H

#include <weft/weft.h>

enum { MOST_TENSORS = 12 };

typedef struct trial {
    const weft_op *op;
    const weft_kernel *kernel;
    weft_attr attrs[12];
    int n_attrs, n_ins, n_outs;
    weft_tensor ins[MOST_TENSORS], outs[MOST_TENSORS];
    double
        tolerance; /* of f32 results, against the largest element; bf16's own rounding is added */
    double size;   /* what "largest element" is at least */
    bool alone;    /* results are not added to what is there, which would round them again */
    bool product;  /* a matrix product: the machine may run it in other ways */
    const char *launcher; /* for the machine; the op's name unless said otherwise */
} trial;

/* Whoever uses trials has one. */
typedef struct trial_machine {
    const weft_kernel *kernels;
    size_t alignment;                 /* of operands and results, as the arena's on this device */
    const weft_op *const *const *ops; /* tables beside the core's, NULL-ended */
    /* The name of variant i, each of which must agree with the plain kernel; NULL: there is none */
    const char *(*variant)(const trial *t, int i);
    /* How often each is launched; all times to the same bits. */
    int (*repeats)(const trial *t);
    const char *repeated; /* what differs: "the thread count" */
    bool slow;            /* sizes are smaller, and tests with many cases take a sample */
    /* workspace, state and results are there; before prepare call->queue is set by `address` */
    void (*address)(const trial *t, int variant, int repeat, weft_call *call);
    weft_status (*launch)(const trial *t, int variant, int repeat, const weft_call *call,
                          weft_error *err);
    const char *(*name)(void); /* of a GPU; NULL: the host */
    /* How far what a variant rounds inside of the kernel may move a result, relative to the
     * largest; NULL: none rounds any */
    double (*rounding)(const trial *t, int variant);
} trial_machine;

extern const trial_machine machine;

/* With the first kernel of the op. */
void trial_init(trial *t, const char *op);
/* Another kernel of the op, by its name. */
void trial_choose(trial *t, const char *kernel, const char *launcher);
void trial_release(trial *t);
void trial_int(trial *t, const char *key, int64_t value);
void trial_real(trial *t, const char *key, double value);
void trial_text(trial *t, const char *key, const char *value);
/* Adds an operand or a result; sizes end with -1. Operands are filled with nearly normal numbers of
 * this seed. */
weft_tensor *trial_in(trial *t, weft_dtype dtype, uint64_t seed, const int64_t *sizes);
weft_tensor *trial_out(trial *t, weft_dtype dtype, const int64_t *sizes);
/* A composite last dim: `grain` elements each, this shard beginning at element lo of whole. */
void tensor_heads(weft_tensor *t, int64_t grain, int64_t lo, int64_t whole);
/* Integers in [lo, hi). */
void tensor_ints(weft_tensor *t, uint64_t seed, int64_t lo, int64_t hi);
#define SIZES(...) ((const int64_t[]){__VA_ARGS__, -1})

/* Runs the kernel in every way of the machine, with and without accumulation, and in place where
 * the op allows it; all variants must agree with the plain kernel within the tolerance. Releases
 * the trial. */
void trial_check(trial *t);
/* Once, by a variant; the results lie in the trial's own outs. */
void trial_run(trial *t, int variant, int repeat, bool accumulate);
/* What its plain kernel makes of it, in f64 but for 8 bits and integers, in outs of the caller's;
 * trial_free_outs. */
void trial_plain(trial *t, bool accumulate, weft_tensor *outs);
void trial_free_outs(const trial *t, weft_tensor *outs);

/* What main does: runs all tests, or those that argv[1] matches (*, ?); --list prints their names.
 */
struct CMUnitTest;
int trial_main(int argc, char **argv, const char *group, const struct CMUnitTest *tests, size_t n);

#endif
