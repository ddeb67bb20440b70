/* SPDX-License-Identifier: Apache-2.0 */
/* One kernel on one use of its op: operands and results in memory of the device, with guards around
 * them, and what the plain kernel makes of the same. */
#ifndef WEFT_TOOLS_CONFORM_TRIAL_H
#define WEFT_TOOLS_CONFORM_TRIAL_H

#include "conform.h"

typedef struct conform_buffer {
    unsigned char *memory; /* of the device: guard, data, guard */
    size_t bytes;
} conform_buffer;

enum {
    CONFORM_MOST_TENSORS = 2 * WEFT_RULE_MAX_PARTS,
    CONFORM_MOST_BUFFERS = CONFORM_MOST_TENSORS + 2 /* workspace, a length */
};

typedef struct conform_trial {
    const conform *c;
    const conform_use *u;
    const conform_plan *p;
    const weft_kernel *kernel;
    const char *as; /* "bf16" */
    bool accumulate;
    weft_pool pool;
    weft_tensor ins[WEFT_RULE_MAX_PARTS],
        outs[WEFT_RULE_MAX_PARTS]; /* host: what goes in, comes out */
    weft_tensor want[WEFT_RULE_MAX_PARTS];
    weft_tensor shapes[CONFORM_MOST_TENSORS];    /* ins, outs, without data */
    weft_tensor on_device[CONFORM_MOST_TENSORS]; /* the same with data */
    conform_buffer buffers[CONFORM_MOST_BUFFERS];
    int n_buffers;
} conform_trial;

/* "kernel K of op O: ... (bf16)" */
void conform_trial_fail(const conform_trial *t, const char *format, ...) WEFT_PRINTF(2, 3);
/* Rounds the operands to a dtype (WEFT_DTYPES: as the graph has them), and computes what the plain
 * kernel makes of exactly these. Results are NaN, or numbers to add to. False: that cannot be
 * had. */
bool conform_trial_make(conform_trial *t, weft_dtype dtype);
/* The call, without data. */
weft_call conform_trial_call(conform_trial *t, int threads);
/* What the kernel says of a call. */
bool conform_trial_accepts(const conform_trial *t, const weft_call *call);
/* Copies operands and results to the device, makes the workspace that the kernel asks for, and
 * sets the call's addresses. */
weft_status conform_trial_upload(conform_trial *t, weft_call *call, weft_error *err);
/* n bytes in a buffer of their own; data NULL: NaN. */
weft_status conform_trial_put(conform_trial *t, const void *data, size_t bytes, void **at,
                              weft_error *err);
/* prepare, launch, wait, release. */
weft_status conform_trial_launch(const conform_trial *t, weft_call *call, weft_error *err);
/* Copies results back. A guard that is not whole, or an operand that is not what it was, is a
 * finding. */
weft_status conform_trial_download(conform_trial *t, weft_error *err);
/* Of a result's dtype, and of the operands'. */
double conform_trial_tolerance(const weft_tensor *t, weft_dtype dtype);
/* Frees what was made; the trial can be made again. */
void conform_trial_release(conform_trial *t);

#endif
