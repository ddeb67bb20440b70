/* SPDX-License-Identifier: Apache-2.0 */
/* Rectified flow (Liu et al., "Flow straight and fast", 2022): a sample x and noise n are mixed,
 * (1 - t) x + t n, and a model learns the way from the one to the other, n - x. */
#include "diffusion.h"

#include <math.h>

/* x [b s c], number [b], index [s] -> normal numbers like x. Element by element by the sample's
 * number and the place in it: of one that is not there they are 0. */
static weft_status draw_noise(const weft_call *call, weft_error *err)
{
    const weft_tensor *x = &call->ins[0], *y = &call->outs[0];
    const uint64_t seed = (uint64_t)weft_call_int(call, "seed"), name = weft_hash_name("noise");
    const int64_t places = x->size[1], width = x->size[2];
    (void)err;
    for (int64_t i = 0; i < weft_tensor_count(y); i++) {
        const int64_t number = diffusion_int(&call->ins[1], i / width / places),
                      place = diffusion_int(&call->ins[2], i / width % places);
        const uint64_t element = (uint64_t)(place * x->whole[2] + x->lo[2] + i % width);
        diffusion_put(call, 0, i,
                      number < 0 ? 0
                                 : weft_normal_inverse(weft_random_uniform(
                                       seed, name + (uint64_t)number, element)));
    }
    return WEFT_OK;
}

/* By the law: uniform in (0, 1); 1 / (1 + e^-z) of a normal z (Esser et al., 2024); levels: the
 * middles of so many equal parts in turn; always the same. */
static double time_of(const weft_call *call, int64_t number)
{
    const int64_t law = weft_call_int(call, "law"), levels = weft_call_int(call, "levels");
    if (law == DIFFUSION_CONSTANT)
        return weft_call_real(call, "value");
    if (law == DIFFUSION_LEVELS)
        return ((double)(number < 0 ? 0 : number % levels) + 0.5) / (double)levels;
    const double u = weft_random_uniform((uint64_t)weft_call_int(call, "seed"),
                                         weft_hash_name("time"), (uint64_t)number);
    if (law == DIFFUSION_UNIFORM)
        return u;
    return 1 / (1 + exp(-(weft_call_real(call, "mean") +
                          weft_call_real(call, "std") * weft_normal_inverse(u))));
}

static weft_status draw_time(const weft_call *call, weft_error *err)
{
    (void)err;
    for (int64_t i = 0; i < weft_tensor_count(&call->outs[0]); i++)
        diffusion_put(call, 0, i, time_of(call, diffusion_int(&call->ins[0], i)));
    return WEFT_OK;
}

static weft_status time_infer(weft_graph *g, weft_node *node, weft_error *err)
{
    const int64_t law = weft_node_int(node, "law");
    diffusion_like(node->outs[0], node->ins[0]);
    node->outs[0]->dtype = weft_graph_dtype(g);
    if (law < DIFFUSION_UNIFORM || law > DIFFUSION_CONSTANT ||
        (law == DIFFUSION_LEVELS && weft_node_int(node, "levels") < 1))
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "draw_time: there is no law %lld, or it has no levels", (long long)law);
    return WEFT_OK;
}

/* t [b] -> cos and then sin of t * scale * period^(-i / half) */
static weft_status fourier(const weft_call *call, weft_error *err)
{
    const weft_tensor *y = &call->outs[0];
    const double scale = weft_call_real(call, "scale"), period = weft_call_real(call, "period");
    const int64_t half = y->whole[1] / 2, width = y->size[1];
    (void)err;
    for (int64_t i = 0; i < weft_tensor_count(y); i++) {
        const int64_t f = y->lo[1] + i % width;
        const double angle = diffusion_get(&call->ins[0], i / width) * scale *
                             exp(-log(period) * (double)(f % half) / (double)half);
        diffusion_put(call, 0, i, f < half ? cos(angle) : sin(angle));
    }
    return WEFT_OK;
}

static weft_status fourier_infer(weft_graph *g, weft_node *node, weft_error *err)
{
    const int64_t width = weft_node_int(node, "width");
    weft_value *y = node->outs[0];
    (void)g;
    if (width < 2 || width % 2)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "fourier: width is %lld; it must be even, and 2 at least",
                         (long long)width);
    diffusion_like(y, node->ins[0]);
    y->dims[y->n_dims++] = (weft_dim){"frequencies", width, 1};
    return WEFT_OK;
}

/* x [b s c], n [b s c], t [b] -> (1 - t) x + t n */
static weft_status flow_mix(const weft_call *call, weft_error *err)
{
    const weft_tensor *x = &call->ins[0];
    const int64_t each = x->size[1] * x->size[2];
    (void)err;
    for (int64_t i = 0; i < weft_tensor_count(&call->outs[0]); i++) {
        const double t = diffusion_get(&call->ins[2], i / each);
        diffusion_put(call, 0, i,
                      (1 - t) * diffusion_get(x, i) + t * diffusion_get(&call->ins[1], i));
    }
    return WEFT_OK;
}

/* v less what it should be, and how much of a sample it is. */
static double error_at(const weft_call *call, int64_t i)
{
    return diffusion_get(&call->ins[0], i) -
           (diffusion_get(&call->ins[2], i) - diffusion_get(&call->ins[1], i));
}

static double share_of(const weft_call *call, int64_t b)
{
    const weft_tensor *v = &call->ins[0];
    return diffusion_int(&call->ins[3], b) < 0 ? 0
                                               : 1 / ((double)v->whole[1] * (double)v->whole[2]);
}

/* v, x, n [b s c], number [b] -> [b s], whose sum over a sample is its mean squared error */
static weft_status flow_error(const weft_call *call, weft_error *err)
{
    const weft_tensor *v = &call->ins[0];
    const int64_t places = v->size[1], width = v->size[2];
    (void)err;
    for (int64_t row = 0; row < v->size[0] * places; row++) {
        double sum = 0;
        for (int64_t c = 0; c < width; c++)
            sum += error_at(call, row * width + c) * error_at(call, row * width + c);
        diffusion_put(call, 0, row, sum * share_of(call, row / places));
    }
    return WEFT_OK;
}

/* v, x, n, number, dy -> dv */
static weft_status flow_error_dx(const weft_call *call, weft_error *err)
{
    const weft_tensor *v = &call->ins[0];
    const int64_t places = v->size[1], width = v->size[2];
    (void)err;
    for (int64_t i = 0; i < weft_tensor_count(v); i++)
        diffusion_put(call, 0, i,
                      2 * error_at(call, i) * share_of(call, i / width / places) *
                          diffusion_get(&call->ins[4], i / width));
    return WEFT_OK;
}

const weft_op diffusion_draw_noise = {
    .name = "draw_noise",
    .summary = "normal numbers, by the sample's number and the place: x, number, index -> like x",
    .rule = "b s c, b, s -> b s c",
    .attrs = "seed",
    .plain = draw_noise,
};

const weft_op diffusion_draw_time = {
    .name = "draw_time",
    .summary = "a time for each sample, by its number",
    .rule = "b -> b",
    .attrs = "seed, law, mean, std, levels, value",
    .plain = draw_time,
    .infer = time_infer,
};

const weft_op diffusion_fourier = {
    .name = "fourier",
    .summary = "cosines and sines of a number for each sample",
    .rule = "b -> b f",
    .attrs = "width, scale, period",
    .plain = fourier,
    .infer = fourier_infer,
};

const weft_op diffusion_flow_mix = {
    .name = "flow_mix",
    .summary = "(1 - t) x + t n: x, n, t -> like x",
    .rule = "b s c, b s c, b -> b s c",
    .flags = WEFT_OP_HALF,
    .plain = flow_mix,
};

const weft_op diffusion_flow_error = {
    .name = "flow_error",
    .summary = "the square of v - (n - x), a place's share of a sample's mean: v, x, n, number",
    .rule = "b s c, b s c, b s c, b -> b s",
    .grad = (const char *const[]){"0: flow_error_dx 0 1 2 3 dy", NULL},
    .flags = WEFT_OP_STAT,
    .plain = flow_error,
};

const weft_op diffusion_flow_error_dx = {
    .name = "flow_error_dx",
    .summary = "gradient of flow_error's v",
    .rule = "b s c, b s c, b s c, b, b s -> b s c",
    .linear = "4",
    .flags = WEFT_OP_HALF,
    .plain = flow_error_dx,
};
