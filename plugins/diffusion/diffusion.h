/* SPDX-License-Identifier: Apache-2.0 */
/* Ops of models that learn to take noise away, and of transformers whose blocks are told how much
 * there is. What is drawn follows from the number of the sample and the place in it alone. */
#ifndef DIFFUSION_H
#define DIFFUSION_H

#include <string.h>
#include <weft/weft.h>

/* clang-format off */
#define DIFFUSION_OPS(X) \
    X(draw_noise) X(draw_time) X(fourier) X(flow_mix) X(flow_error) X(flow_error_dx) \
    X(silu) X(silu_dx) X(modulate) X(modulate_dx) X(modulate_dm) \
    X(gate_add) X(gate) X(gate_dm) X(interleave) X(separate) X(take_image) X(put_image) \
    X(turn) X(turn_dx)
/* clang-format on */

#define DIFFUSION_DECLARE(op) extern const weft_op diffusion_##op;
DIFFUSION_OPS(DIFFUSION_DECLARE)
#undef DIFFUSION_DECLARE

extern const weft_kernel diffusion_kernels[];

/* Attribute `law` of draw_time. */
enum { DIFFUSION_UNIFORM, DIFFUSION_LOGIT_NORMAL, DIFFUSION_LEVELS, DIFFUSION_CONSTANT };

/* ---- for plain kernels ---- */

static inline double diffusion_get(const weft_tensor *t, int64_t i)
{
    if (t->dtype == WEFT_F32)
        return (double)((const float *)t->data)[i];
    return t->dtype == WEFT_F64 ? ((const double *)t->data)[i] : weft_tensor_get(t, i);
}

/* Writes element i of a result, or adds to it: the first alone is added to. */
static inline void diffusion_put(const weft_call *call, int result, int64_t i, double x)
{
    const weft_tensor *y = &call->outs[result];
    weft_tensor_set(y, i, call->accumulate && result == 0 ? diffusion_get(y, i) + x : x);
}

static inline int64_t diffusion_int(const weft_tensor *t, int64_t i)
{
    return t->dtype == WEFT_I32 ? ((const int32_t *)t->data)[i] : (int64_t)diffusion_get(t, i);
}

/* A result looks like this value. */
static inline void diffusion_like(weft_value *out, const weft_value *v)
{
    out->n_dims = v->n_dims;
    memcpy(out->dims, v->dims, sizeof out->dims);
    out->dtype = v->dtype;
}

/* Where things of two sequences lie in a third: units of `text` places of the one and `image` of
 * the other take turns. */
typedef struct diffusion_turns {
    int64_t text, image;
} diffusion_turns;

diffusion_turns diffusion_turns_of(int64_t text, int64_t image);

/* Of a place of the sequence, where units of text and image take turns: its row and its column in
 * the picture; text has neither, and is not turned. Pairs of a head belong to three axes. */
typedef struct diffusion_picture {
    int64_t text, image, columns, width[3];
    double theta;
} diffusion_picture;

diffusion_picture diffusion_picture_of(const weft_call *call);
/* By what pair `pair` of a head is turned at a place. */
double diffusion_angle(const diffusion_picture *p, int64_t place, int64_t pair);

#endif
