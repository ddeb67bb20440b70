/* SPDX-License-Identifier: Apache-2.0 */
/* spiral: a small model of diffusion and its data in one file: clouds of points on a spiral. It
 * shows what the ops of the plugin `diffusion` are for; nothing in it knows of ranks. */
#include <weft/weft.h>

#include <math.h>

typedef struct spiral {
    const weft_host *host;
    int64_t dim, layers, points, validation;
    uint64_t seed; /* of the data */
} spiral;

/* ---- the data: one field ---- */

static const weft_field field_list[] = {
    {.name = "points", .shape = "batch places axes", .dtype = WEFT_F32}, {.name = NULL}};

static const weft_field *fields(void *self)
{
    (void)self;
    return field_list;
}

static weft_status begin(void *self, int64_t seq_len, uint64_t seed, weft_error *err)
{
    (void)seq_len, (void)err;
    ((spiral *)self)->seed = seed;
    return WEFT_OK;
}

static int64_t samples(void *self, weft_split split)
{
    return split == WEFT_SPLIT_TRAIN ? INT64_MAX : ((const spiral *)self)->validation;
}

/* All is drawn by the sample's number: the same on every rank, and after a restart. */
static weft_status sample(void *self, weft_split split, int64_t i, const weft_sample *out,
                          weft_error *err)
{
    const spiral *m = self;
    const uint64_t stream = weft_hash_name(split == WEFT_SPLIT_TRAIN ? "train" : "validation");
    float *to = out->field[0];
    (void)err;
    for (int64_t k = 0; to && k < m->points; k++) {
        const double along = weft_random_uniform(m->seed, stream + (uint64_t)i, (uint64_t)k);
        to[2 * k] = (float)(2 * along * cos(9 * along));
        to[2 * k + 1] = (float)(2 * along * sin(9 * along));
    }
    return WEFT_OK;
}

static const weft_data data = {.size = sizeof(weft_data),
                               .fields = fields,
                               .begin = begin,
                               .samples = samples,
                               .sample = sample};

/* ---- the model: blocks that are told the time by shifts, scales and gates ---- */

static weft_value *linear(weft_graph *g, weft_value *x, const char *name, const char *shape,
                          double std)
{
    const weft_init init = {WEFT_INIT_NORMAL, std, 0};
    return weft_linear(g, NULL, x, weft_add_parameter(g, name, shape, init));
}

static weft_value *block(const spiral *m, weft_graph *g, int64_t i, weft_value *x, weft_value *t)
{
    const double in = 1 / sqrt((double)m->dim);
    weft_graph_set_block(g, (int)i);
    weft_graph_set_parameter_prefix(g, "blocks.%lld.", (long long)i);
    weft_value *slots = linear(g, t, "slots", "slots embed", in);
    weft_value *h = weft_add2(g, "modulate", NULL, x, slots);
    weft_set_int(g, h, "scale", 1);
    weft_set_real(g, h, "eps", 1e-6);
    h = weft_add1(g, "silu", NULL, linear(g, h, "up", "ffn embed", in));
    h = weft_add3(g, "gate_add", NULL, x, linear(g, h, "down", "embed ffn", in / 2), slots);
    weft_set_int(g, h, "gate", 2);
    weft_set_role(g, h, "residual");
    return h;
}

static void build(void *self, weft_graph *g)
{
    const spiral *m = self;
    const bool trains = weft_graph_mode(g) == WEFT_MODE_TRAIN;
    weft_graph_dim(g, "places", m->points, 1);
    weft_graph_dim(g, "axes", 2, 1);
    weft_graph_dim(g, "embed", m->dim, 1);
    weft_graph_dim(g, "ffn", 4 * m->dim, 1);
    weft_graph_dim(g, "slots", 3 * m->dim, 1);
    weft_graph_dim(g, "frequencies", 32, 1);
    weft_value *x = weft_add_input(g, "points"), *number = weft_add_input(g, "sample_number"),
               *index = weft_add_input(g, "index:places");
    weft_value *noise = weft_add3(g, "draw_noise", NULL, x, number, index);
    weft_value *t = weft_add1(g, "draw_time", NULL, number);
    weft_set_int(g, t, "law", trains ? 0 : 2); /* in validation the same eight times, in turn */
    weft_set_int(g, t, "levels", 8);
    weft_graph_set_block(g, WEFT_BLOCK_EMBEDDING);
    const weft_attr attrs[] = {{"width", WEFT_ATTR_INT, 32, 0, NULL},
                               {"scale", WEFT_ATTR_REAL, 0, 100, NULL},
                               {"period", WEFT_ATTR_REAL, 0, 1000, NULL}};
    weft_value *waves = weft_add_full(g, "fourier", NULL, 1, &t, 1, NULL, attrs, 3);
    weft_value *time = linear(g, waves, "time", "embed frequencies", 0.2),
               *told = weft_add1(g, "silu", NULL, time);
    weft_value *h = linear(g, weft_add3(g, "flow_mix", NULL, x, noise, t), "in", "embed axes", 1);
    weft_set_role(g, h, "residual");
    for (int64_t i = 0; i < m->layers; i++)
        h = block(m, g, i, h, told);
    weft_graph_set_block(g, WEFT_BLOCK_HEAD);
    weft_value *v = linear(g, h, "out", "axes embed", 1e-3), *ins[] = {v, x, noise, number};
    weft_value *error = weft_add(g, "flow_error", NULL, 4, ins);
    weft_value *numbers = trains ? weft_add_input(g, "step_sample_number") : number;
    weft_set_loss_count(g, weft_add1(g, "count_valid", NULL, numbers));
    weft_add_loss(g, "flow", weft_add1(g, "sum", NULL, error), 1, WEFT_LOSS_VALIDATION);
}

/* ---- the plugin ---- */

#define SIZE(field, value_, help_)                                                                 \
    {                                                                                              \
        .name = #field, WEFT_INT(spiral, field), .value = value_, .min = 1, .max = 65536,          \
        .help = help_                                                                              \
    }
static const weft_param params[] = {SIZE(dim, "64", "Width of the residual stream."),
                                    SIZE(layers, "3", "Blocks."),
                                    SIZE(points, "32", "Points of a cloud."),
                                    SIZE(validation, "64", "Clouds to validate with."),
                                    {.name = NULL}};
static const weft_contribution contributions[] = {
    {.kind = WEFT_PASS,
     .stage = WEFT_STAGE_GRAPH,
     .graph = build,
     .needs = (const char *const[]){"diffusion", NULL},
     .gives = (const char *const[]){"model", NULL}},
    {.kind = WEFT_SERVICE, .service = "data", .table = &data},
    {.kind = WEFT_END}};

WEFT_PLUGIN(spiral) = {
    WEFT_PLUGIN_HEAD,
    .name = "spiral",
    .version = "1.0",
    .licence = "Apache-2.0",
    .summary = "a small model of diffusion, with data",
    .numerics = WEFT_NUMERICS_CHANGES,
    .params = params,
    .self_size = WEFT_SELF(spiral),
    .contributions = contributions,
};
