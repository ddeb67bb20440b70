/* SPDX-License-Identifier: Apache-2.0 */
/* Launches of what makes an activation and narrows it, or narrows what is there, of the plugin
 * float8. */
#include "gpu.h"

#include <string.h>

typedef struct shape {
    int sum;         /* 1: result 0 is a sum, which is normed */
    int wide;        /* operands before the scale */
    bool norm, rows; /* rows: each has a scale, which is made here */
    bool amax;       /* is the largest magnitude asked for? */
    bool pair;       /* two gradients, each with a scale and a maximum */
} shape;

static shape shape_of(const weft_call *call)
{
    const char *op = call->op->name;
    shape s = {.sum = strstr(op, "add_") != NULL, .norm = strstr(op, "rms_norm") != NULL};
    s.pair = strstr(op, "_dx_") != NULL;
    s.wide = strstr(op, "quantise") ? 1 : 2 + (s.sum || s.pair);
    s.rows = call->n_ins == s.wide;
    s.amax = !s.rows && call->n_outs > 1 + s.sum;
    return s;
}

/* Rows of bf16, of norms such as a block holds; what is there may be anything. */
static bool is_held(const weft_call *call, const shape *s)
{
    const int64_t width = cuda_width(&call->ins[0]);
    if (s->wide == 1)
        return true;
    if (width % 8 != 0 || (s->norm && width > 32 * CUDA_THREADS))
        return false;
    for (int i = 0; i < s->wide - s->norm; i++)
        if (call->ins[i].dtype != WEFT_BF16)
            return false;
    return !s->sum || call->outs[0].dtype == WEFT_BF16;
}

/* And a scale that is one, or each row's. */
bool cuda_narrow_accepts(const weft_call *call)
{
    const shape s = shape_of(call);
    const int64_t places = weft_call_int(call, "places");
    const int n = call->ins[0].n_dims;
    if (!is_held(call, &s))
        return false;
    if (s.rows)
        return n > 0 && places == ((int64_t)1 << (n - 1)) - 1;
    return call->ins[s.wide].n_dims == 0 && places == 0;
}

static int64_t blocks_of(const weft_call *call, const shape *s)
{
    const weft_tensor *x = &call->ins[0];
    const int64_t n = weft_tensor_count(x);
    if (!s->norm && !s->rows)
        return cuda_chunk_blocks(n);
    return n ? cuda_row_blocks(cuda_rows(x)) : 0;
}

size_t cuda_narrow_workspace(const weft_call *call)
{
    const shape s = shape_of(call);
    return s.amax ? (size_t)blocks_of(call, &s) * sizeof(float) * (s.pair ? 2 : 1) : 0;
}

static cuda_narrow_args narrow_args(const weft_call *call, const shape *s)
{
    const weft_tensor *x = &call->ins[0];
    const weft_dtype dtype = call->outs[s->sum].dtype;
    return (cuda_narrow_args){.of = {.rows = cuda_rows(x),
                                     .width = cuda_width(x),
                                     .eps = s->norm ? (float)weft_call_real(call, "eps") : 0},
                              .e5m2 = dtype == WEFT_F8E5M2,
                              .power_of_two = s->rows && weft_call_int(call, "power_of_two") != 0,
                              .most = weft_dtype_max(dtype)};
}

static void set_addresses(cuda_narrow_args *a, const weft_call *call, const shape *s)
{
    const weft_tensor *q = &call->outs[s->sum];
    a->of.x = cuda_view_of(&call->ins[0]);
    a->scale = s->rows ? NULL : call->ins[s->wide].data;
    a->scales = s->rows ? q[1].data : NULL;
    a->parts = s->amax ? call->workspace : NULL;
    a->out = q->data;
    if (s->wide > 1)
        a->of.w = cuda_view_of(&call->ins[1 + s->sum]);
    if (s->sum) {
        a->of.dy = cuda_view_of(&call->ins[1]);
        a->of.sum = cuda_view_of(&call->outs[0]);
    }
    if (s->pair) {
        a->of.dy = cuda_view_of(&call->ins[2]);
        a->other_scale = call->ins[4].data;
        a->other = call->outs[2].data;
    }
}

static cuda_kernel kernel_of(const shape *s, int64_t width)
{
    if (s->norm)
        return width > 16 * CUDA_THREADS ? CUDA_KERNEL_narrow_norm_4 : CUDA_KERNEL_narrow_norm_2;
    if (s->pair)
        return CUDA_KERNEL_narrow_silu_mul_dx;
    if (s->wide == 1)
        return s->rows ? CUDA_KERNEL_narrow_given_rows : CUDA_KERNEL_narrow_given;
    return s->rows ? CUDA_KERNEL_narrow_silu_mul_rows : CUDA_KERNEL_narrow_silu_mul;
}

/* The largest of what blocks have seen, into result i; first: the first block's. */
static weft_status find_most(const weft_call *call, int i, float *first, int64_t n, weft_error *err)
{
    const cuda_quantise_args a = {.out = cuda_view_of(&call->outs[i]), .parts = first, .n = n};
    return cuda_launch(call->queue, CUDA_KERNEL_amax_of_parts, &a, 1, err);
}

typedef struct narrow {
    cuda_narrow_args args;
    shape form;
    cuda_kernel kernel;
    int64_t blocks;
    size_t workspace;
} narrow;

weft_status cuda_narrow_prepare(const weft_call *call, void **state, weft_error *err)
{
    const shape form = shape_of(call);
    const narrow made = {.args = narrow_args(call, &form),
                         .form = form,
                         .kernel = kernel_of(&form, cuda_width(&call->ins[0])),
                         .blocks = blocks_of(call, &form),
                         .workspace = cuda_narrow_workspace(call)};
    return cuda_keep(&made, sizeof made, state, err);
}

weft_status cuda_narrow_launch(const weft_call *call, weft_error *err)
{
    const narrow *made = call->state;
    const shape *form = &made->form;
    cuda_narrow_args a = made->args;
    set_addresses(&a, call, form);
    weft_status s = cuda_check_workspace(call, made->workspace, err);
    s = s ? s : cuda_launch(call->queue, made->kernel, &a, made->blocks, err);
    if (!s && form->amax)
        s = find_most(call, form->sum + 1, a.parts, made->blocks, err);
    if (!s && form->pair)
        s = find_most(call, 3, a.parts + made->blocks, made->blocks, err);
    return s;
}

/* A launch more for each maximum of all blocks; rows that are not held are made twice. */
weft_kernel_work cuda_narrow_work(const weft_call *call)
{
    const shape form = shape_of(call);
    const bool twice = form.rows && !form.norm;
    weft_kernel_work w = {.launches = 1 + form.amax + form.pair, .dtype = WEFT_F32};
    for (int i = 0; i < call->n_ins + call->n_outs; i++) {
        const weft_tensor *t = i < call->n_ins ? &call->ins[i] : &call->outs[i - call->n_ins];
        w.bytes += (double)weft_tensor_count(t) * (double)weft_dtype_size(t->dtype) *
                   (twice && i < call->n_ins ? 2 : 1);
    }
    return w;
}
