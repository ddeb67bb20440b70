/* SPDX-License-Identifier: Apache-2.0 */
/* Gaussian noise on every gradient (Neelakantan et al., "Adding gradient noise improves learning
 * for very deep networks", 2015). It shows a transform between the backward and the optimizers, and
 * random numbers that are the same on every mesh: keyed by parameter, step and global element. */
#include <weft/random.h>
#include <weft/weft.h>

#include <math.h>

typedef struct noise {
    const weft_host *host;
    double std, decay;
} noise;

static const weft_param params[] = {
    {.name = "std",
     WEFT_REAL(noise, std),
     .value = "1e-3",
     .min = 0,
     .max = 1e6,
     .help = "Standard deviation of the noise in the first step."},
    {.name = "decay",
     WEFT_REAL(noise, decay),
     .value = "0.55",
     .min = 0,
     .max = 10,
     .help = "In step t its variance is std^2 / t^decay."},
    {.name = NULL},
};

/* Row-major index in the whole value of local element i. */
static uint64_t global_index(const weft_tensor *t, int64_t i)
{
    uint64_t index = 0, scale = 1;
    for (int d = t->n_dims - 1; d >= 0; d--) {
        index += (uint64_t)(t->lo[d] + i % t->size[d]) * scale;
        i /= t->size[d];
        scale *= (uint64_t)t->whole[d];
    }
    return index;
}

/* A stream of random numbers for each parameter and step. */
static uint64_t stream_of(uint64_t name, int64_t step)
{
    unsigned char bytes[8];
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)((uint64_t)step >> (8 * i));
    return weft_hash_bytes(name, bytes, sizeof bytes);
}

/* Writes element i of result 0, or adds to it. */
static void put(const weft_call *call, int64_t i, double x)
{
    const weft_tensor *out = &call->outs[0];
    weft_tensor_set(out, i, call->accumulate ? weft_tensor_get(out, i) + x : x);
}

/* gradient, step -> gradient and noise */
static weft_status noise_plain(const weft_call *call, weft_error *err)
{
    const weft_tensor *g = &call->ins[0];
    int64_t step = llround(weft_tensor_get(&call->ins[1], 0)), n = weft_tensor_count(g);
    uint64_t seed = (uint64_t)weft_call_int(call, "seed");
    uint64_t stream = stream_of((uint64_t)weft_call_int(call, "name"), step);
    double std = weft_call_real(call, "std") / pow((double)step, weft_call_real(call, "decay") / 2);
    (void)err;
    for (int64_t i = 0; i < n; i++) {
        double u = weft_random_uniform(seed, stream, global_index(g, i));
        put(call, i, weft_tensor_get(g, i) + std * weft_normal_inverse(u));
    }
    return WEFT_OK;
}

/* Not linear: on a sum that is still open every rank would add noise of its own. */
static const weft_op noise_op = {
    .name = "gradient_noise",
    .summary = "adds Gaussian noise, keyed by name, step and global element",
    .rule = "*, -> *",
    .attrs = "seed, name, std, decay",
    .flags = WEFT_OP_INPLACE,
    .plain = noise_plain,
};

static const weft_op *const ops[] = {&noise_op, NULL};

static void add_noise(void *self, weft_graph *g)
{
    const noise *m = self;
    weft_value *p, *step = weft_add_input(g, "step");
    for (int i = 0; (p = weft_graph_parameter(g, i)); i++) {
        if (!p->gradient)
            continue;
        weft_graph_set_block(g, p->node->block);
        weft_value *noisy = weft_add2(g, "gradient_noise", NULL, p->gradient, step);
        weft_set_int(g, noisy, "seed", weft_params_int(m->host->train, "seed"));
        weft_set_int(g, noisy, "name", (int64_t)weft_hash_name(p->name));
        weft_set_real(g, noisy, "std", m->std);
        weft_set_real(g, noisy, "decay", m->decay);
        weft_set_gradient(g, p, noisy);
    }
    weft_graph_set_block(g, WEFT_BLOCK_NONE);
}

/* Behind an optimizer it would come too late. */
static const char *const optimizer[] = {"optimizer", NULL};
static const weft_contribution contributions[] = {
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_JOINT, .graph = add_noise, .refuses = optimizer},
    {.kind = WEFT_END},
};

WEFT_PLUGIN(gradient_noise) = {
    WEFT_PLUGIN_HEAD,
    .name = "gradient_noise",
    .version = "1.0",
    .licence = "Apache-2.0",
    .summary = "adds Gaussian noise to gradients",
    .numerics = WEFT_NUMERICS_CHANGES,
    .params = params,
    .self_size = WEFT_SELF(noise),
    .contributions = contributions,
    .ops = ops,
};
