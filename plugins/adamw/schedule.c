/* SPDX-License-Identifier: Apache-2.0 */
#include "adamw.h"

#include <math.h>
#include <string.h>

static const char *const shape_names[] = {"constant", "linear", "sqrt", "cosine"};

const char *adamw_shape_name(adamw_shape shape)
{
    return shape_names[shape];
}

adamw_shape adamw_shape_find(const char *name)
{
    for (int i = ADAMW_COSINE; i > ADAMW_CONSTANT; i--)
        if (strcmp(name, shape_names[i]) == 0)
            return (adamw_shape)i;
    return ADAMW_CONSTANT;
}

static int64_t min_int(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

adamw_schedule adamw_schedule_plan(const weft_params *params, int64_t total)
{
    adamw_schedule s = {
        .lr = weft_params_real(params, "lr"),
        .min_factor = weft_params_real(params, "min_lr_factor"),
        .warmup = weft_params_int(params, "warmup_steps"),
        .total = total,
        .shape = adamw_shape_find(weft_params_text(params, "lr_decay")),
    };
    if (weft_params_is(params, "warmup_steps", "auto"))
        s.warmup = min_int(200, total / 10);
    if (s.shape == ADAMW_CONSTANT)
        return s;
    int64_t room = s.warmup < total ? total - s.warmup : 0;
    s.decay = room;
    if (!weft_params_is(params, "decay_ratio", "auto"))
        s.decay = min_int(room, llround((double)total * weft_params_real(params, "decay_ratio")));
    return s;
}

/* What is left of the learning rate when a part p of the decay is over. */
static double remaining(adamw_shape shape, double p)
{
    switch (shape) {
    case ADAMW_LINEAR:
        return 1 - p;
    case ADAMW_SQRT:
        return 1 - sqrt(p);
    case ADAMW_COSINE:
        return 0.5 * (1 + cos(3.14159265358979323846 * p));
    case ADAMW_CONSTANT:
        break;
    }
    return 1;
}

double adamw_schedule_lr(const adamw_schedule *s, int64_t step)
{
    if (step > s->total)
        step = s->total;
    if (step <= s->warmup)
        return s->lr * (double)step / (double)s->warmup;
    /* One virtual step after the last one would reach the end of the decay, so that the last real
     * step still learns. */
    int64_t into = step - (s->total + 1 - s->decay);
    if (into <= 0)
        return s->lr;
    double x = remaining(s->shape, (double)into / (double)s->decay);
    return s->lr * (s->min_factor + (1 - s->min_factor) * x);
}
