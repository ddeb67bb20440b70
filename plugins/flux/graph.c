/* SPDX-License-Identifier: Apache-2.0 */
/* The graph. Streams are [batch text_seq embed], [batch image_seq embed] and, of both,
 * [batch joint_seq embed]; `vec` [batch embed] is what blocks are told of the sample. */
#include "flux.h"

#include <math.h>
#include <stdio.h>

/* Which slots of a block's rows are what, in the published order. */
enum { SHIFT_1, SCALE_1, GATE_1, SHIFT_2, SCALE_2, GATE_2, DOUBLE_SLOTS, SINGLE_SLOTS = 3 };
/* At the end diffusers has them the other way round. */
enum { FINAL_SCALE, FINAL_SHIFT, FINAL_SLOTS };
/* Laws of draw_time. */
enum { UNIFORM, LOGIT_NORMAL, LEVELS, CONSTANT };
enum { FREQUENCIES = 256 };

typedef struct build {
    const flux *m;
    weft_graph *g;
    weft_value *vec; /* silu of what blocks are told */
} build;

/* ---- pieces ---- */

/* Pictures are made: x, the time and the guidance are given, and the way to go is what is asked. */
static bool writes(const build *b)
{
    return weft_graph_mode(b->g) == WEFT_MODE_GENERATE;
}

/* Half the width of a uniform distribution whose variance keeps that of what goes through, forward
 * and backward (Glorot and Bengio, 2010). */
static weft_init xavier(double out, double in)
{
    return (weft_init){WEFT_INIT_UNIFORM, sqrt(6 / (out + in)), 0};
}

static const weft_init zero = {WEFT_INIT_ZERO, 0, 0}, one = {WEFT_INIT_ONE, 0, 0};

/* x w^T + bias of parameters PART.weight and PART.bias; zeros: they begin so. */
static weft_value *linear(const build *b, const char *name, const char *part, const char *out,
                          const char *in, weft_value *x, bool zeros)
{
    char shape[64], weight[96], bias[96], product[64];
    snprintf(shape, sizeof shape, "%s %s", out, in);
    snprintf(weight, sizeof weight, "%s.weight", part);
    snprintf(bias, sizeof bias, "%s.bias", part);
    snprintf(product, sizeof product, "%s.xw", name);
    weft_value *w = weft_add_parameter(
        b->g, weight, shape,
        zeros ? zero
              : xavier((double)weft_graph_size(b->g, out), (double)weft_graph_size(b->g, in)));
    weft_value *c = weft_add_parameter(b->g, bias, out, zero);
    return weft_bias(b->g, name, weft_linear(b->g, product, x, w), c);
}

/* The rows of a block, from vec. */
static weft_value *slots(const build *b, const char *name, const char *part, const char *dim)
{
    return linear(b, name, part, dim, "embed", b->vec, true);
}

static weft_value *modulate(const build *b, const char *name, weft_value *x, weft_value *m,
                            int shift, int scale)
{
    weft_value *y = weft_add_full(b->g, "modulate", name, 2, (weft_value *[]){x, m}, 1, NULL,
                                  (const weft_attr[]){{"shift", WEFT_ATTR_INT, shift, 0, NULL},
                                                      {"scale", WEFT_ATTR_INT, scale, 0, NULL},
                                                      {"eps", WEFT_ATTR_REAL, 0, 1e-6, NULL}},
                                  3);
    return y;
}

static weft_value *add_gated(const build *b, const char *name, weft_value *x, weft_value *y,
                             weft_value *m, int gate)
{
    weft_value *sum = weft_add_full(b->g, "gate_add", name, 3, (weft_value *[]){x, y, m}, 1, NULL,
                                    (const weft_attr[]){{"gate", WEFT_ATTR_INT, gate, 0, NULL}}, 1);
    weft_set_role(b->g, sum, "residual");
    return sum;
}

static weft_value *head_norm(const build *b, const char *name, weft_value *x, const char *weight)
{
    weft_value *w = weft_add_parameter(b->g, weight, "head_dim", one);
    weft_value *y = weft_add2(b->g, "head_norm", name, x, w);
    weft_set_real(b->g, y, "eps", 1e-6);
    return y;
}

static int64_t common(int64_t a, int64_t b)
{
    return b ? common(b, a % b) : a;
}

/* Turned by the places in the picture; joint: of places of both. */
static weft_value *turn(const build *b, const char *name, weft_value *x, bool joint)
{
    const flux *m = b->m;
    const int64_t n = common(m->text, m->places);
    return weft_add_full(
        b->g, "turn", name, 2,
        (weft_value *[]){x, weft_add_input(b->g, joint ? "index:joint_seq" : "index:image_seq")}, 1,
        NULL,
        (const weft_attr[]){{"text", WEFT_ATTR_INT, joint ? m->text / n : 0, 0, NULL},
                            {"image", WEFT_ATTR_INT, joint ? m->places / n : 1, 0, NULL},
                            {"columns", WEFT_ATTR_INT, m->columns, 0, NULL},
                            {"axis0", WEFT_ATTR_INT, m->axis[0], 0, NULL},
                            {"axis1", WEFT_ATTR_INT, m->axis[1], 0, NULL},
                            {"axis2", WEFT_ATTR_INT, m->axis[2], 0, NULL},
                            {"theta", WEFT_ATTR_REAL, 0, m->theta, NULL}},
        7);
}

/* Two sequences in one, back, or of that the image's alone. */
static weft_value *sequences(const build *b, const char *op, const char *name, int n_ins,
                             weft_value *const *ins, int n_outs, weft_value **outs)
{
    return weft_add_full(b->g, op, name, n_ins, ins, n_outs, outs,
                         (const weft_attr[]){{"text", WEFT_ATTR_INT, b->m->text, 0, NULL},
                                             {"image", WEFT_ATTR_INT, b->m->places, 0, NULL}},
                         2);
}

static weft_value *join(const build *b, const char *name, weft_value *text, weft_value *image)
{
    return sequences(b, "interleave", name, 2, (weft_value *[]){text, image}, 1, NULL);
}

static weft_value *attention(const build *b, weft_value *q, weft_value *k, weft_value *v)
{
    return weft_add(b->g, "full_attention", "o", 3, (weft_value *[]){q, k, v});
}

/* ---- blocks ---- */

/* A stream of a double block: what its weights and values are called. */
typedef struct stream {
    weft_value *x, *m, *q, *k, *v;
    const char *letter, *norm, *parts[3], *norms[2], *out, *up, *down;
    bool image;
} stream;

/* "t.q", of a stream. */
static const char *call(char room[32], const stream *s, const char *what)
{
    snprintf(room, 32, "%s.%s", s->letter, what);
    return room;
}

static void attend_from(const build *b, stream *s)
{
    char a[32];
    s->m = slots(b, call(a, s, "m"), s->norm, "double_slots");
    weft_value *n = modulate(b, call(a, s, "n1"), s->x, s->m, SHIFT_1, SCALE_1);
    s->q = linear(b, call(a, s, "q"), s->parts[0], "heads", "embed", n, false);
    s->k = linear(b, call(a, s, "k"), s->parts[1], "heads", "embed", n, false);
    s->v = linear(b, call(a, s, "v"), s->parts[2], "heads", "embed", n, false);
    s->q = head_norm(b, call(a, s, "q_norm"), s->q, s->norms[0]);
    s->k = head_norm(b, call(a, s, "k_norm"), s->k, s->norms[1]);
    if (!s->image)
        return;
    s->q = turn(b, call(a, s, "q_rot"), s->q, false);
    s->k = turn(b, call(a, s, "k_rot"), s->k, false);
}

static void go_on(const build *b, stream *s, weft_value *o)
{
    char a[32];
    weft_value *d = linear(b, call(a, s, "attn"), s->out, "embed", "heads", o, false);
    s->x = add_gated(b, call(a, s, "h"), s->x, d, s->m, GATE_1);
    weft_value *n = modulate(b, call(a, s, "n2"), s->x, s->m, SHIFT_2, SCALE_2);
    weft_value *f = linear(b, call(a, s, "f"), s->up, "ffn", "embed", n, false);
    f = weft_add1(b->g, "gelu", call(a, s, "a"), f);
    d = linear(b, call(a, s, "d"), s->down, "embed", "ffn", f, false);
    s->x = add_gated(b, call(a, s, "y"), s->x, d, s->m, GATE_2);
}

static void double_block(const build *b, int64_t i, weft_value **text, weft_value **image)
{
    stream t = {.x = *text,
                .letter = "t",
                .norm = "norm1_context.linear",
                .parts = {"attn.add_q_proj", "attn.add_k_proj", "attn.add_v_proj"},
                .norms = {"attn.norm_added_q.weight", "attn.norm_added_k.weight"},
                .out = "attn.to_add_out",
                .up = "ff_context.net.0.proj",
                .down = "ff_context.net.2"};
    stream p = {.x = *image,
                .letter = "i",
                .norm = "norm1.linear",
                .parts = {"attn.to_q", "attn.to_k", "attn.to_v"},
                .norms = {"attn.norm_q.weight", "attn.norm_k.weight"},
                .out = "attn.to_out.0",
                .up = "ff.net.0.proj",
                .down = "ff.net.2",
                .image = true};
    weft_graph_set_block(b->g, (int)i);
    weft_graph_set_prefix(b->g, "b%lld.", (long long)i);
    weft_graph_set_parameter_prefix(b->g, "transformer_blocks.%lld.", (long long)i);
    attend_from(b, &t);
    attend_from(b, &p);
    weft_value *o[2] = {NULL}, *both = attention(b, join(b, "q", t.q, p.q), join(b, "k", t.k, p.k),
                                                 join(b, "v", t.v, p.v));
    sequences(b, "separate", "o.t", 1, &both, 2, o);
    go_on(b, &t, o[0]);
    go_on(b, &p, o[1]);
    *text = t.x;
    *image = p.x;
}

static weft_value *single_block(const build *b, int64_t i, weft_value *x)
{
    weft_graph *g = b->g;
    weft_graph_set_block(g, (int)(b->m->doubles + i));
    weft_graph_set_prefix(g, "b%lld.", (long long)(b->m->doubles + i));
    weft_graph_set_parameter_prefix(g, "single_transformer_blocks.%lld.", (long long)i);
    weft_value *m = slots(b, "m", "norm.linear", "single_slots");
    weft_value *n = modulate(b, "n", x, m, SHIFT_1, SCALE_1);
    weft_value *q = linear(b, "q", "attn.to_q", "heads", "embed", n, false);
    weft_value *k = linear(b, "k", "attn.to_k", "heads", "embed", n, false);
    weft_value *v = linear(b, "v", "attn.to_v", "heads", "embed", n, false);
    q = turn(b, "q_rot", head_norm(b, "q_norm", q, "attn.norm_q.weight"), true);
    k = turn(b, "k_rot", head_norm(b, "k_norm", k, "attn.norm_k.weight"), true);
    weft_value *o = attention(b, q, k, v);
    weft_value *f = linear(b, "f", "proj_mlp", "ffn", "embed", n, false);
    f = weft_add1(g, "gelu", "a", f);
    /* one product of both, one behind the other, is the sum of two */
    const weft_init init = xavier((double)b->m->dim, 5 * (double)b->m->dim);
    weft_value *of_o = weft_linear(
        g, "attn", o, weft_add_parameter(g, "proj_out.attn.weight", "embed heads", init));
    weft_value *of_f =
        weft_linear(g, "d", f, weft_add_parameter(g, "proj_out.mlp.weight", "embed ffn", init));
    weft_value *y = weft_bias(g, "yb", weft_add2(g, "add", "sum", of_o, of_f),
                              weft_add_parameter(g, "proj_out.bias", "embed", zero));
    return add_gated(b, "y", x, y, m, GATE_1);
}

/* ---- what blocks are told ---- */

/* Of some numbers for each sample: linear, silu, linear. */
static weft_value *told(const build *b, const char *name, const char *part, const char *in,
                        weft_value *x)
{
    char first[96], second[96], room[64];
    snprintf(first, sizeof first, "time_text_embed.%s.linear_1", part);
    snprintf(second, sizeof second, "time_text_embed.%s.linear_2", part);
    snprintf(room, sizeof room, "%s.h", name);
    weft_value *h = linear(b, room, first, "told", in, x, false);
    return linear(b, name, second, "embed", "told", weft_add1(b->g, "silu", NULL, h), false);
}

static weft_value *fourier(const build *b, const char *name, weft_value *t)
{
    return weft_add_full(b->g, "fourier", name, 1, &t, 1, NULL,
                         (const weft_attr[]){{"width", WEFT_ATTR_INT, FREQUENCIES, 0, NULL},
                                             {"scale", WEFT_ATTR_REAL, 0, 1000, NULL},
                                             {"period", WEFT_ATTR_REAL, 0, 10000, NULL}},
                         3);
}

/* A number for each sample, by `law` of draw_time. */
static weft_value *draw(const build *b, const char *name, int law, double value)
{
    weft_value *number = weft_add_input(b->g, "sample_number");
    return weft_add_full(b->g, "draw_time", name, 1, &number, 1, NULL,
                         (const weft_attr[]){{"seed", WEFT_ATTR_INT, b->m->seed, 0, NULL},
                                             {"law", WEFT_ATTR_INT, law, 0, NULL},
                                             {"mean", WEFT_ATTR_REAL, 0, b->m->mean, NULL},
                                             {"std", WEFT_ATTR_REAL, 0, b->m->std, NULL},
                                             {"levels", WEFT_ATTR_INT, b->m->levels, 0, NULL},
                                             {"value", WEFT_ATTR_REAL, 0, value, NULL}},
                         6);
}

static weft_value *tell(const build *b, weft_value *t)
{
    weft_value *vec =
        told(b, "time_in", "timestep_embedder", "frequencies", fourier(b, "waves", t));
    if (b->m->guidance) {
        weft_value *g = writes(b) ? weft_add_input(b->g, "guidance")
                                  : draw(b, "guidance", CONSTANT, b->m->guidance_scale);
        vec = weft_add2(b->g, "add", "time_guidance", vec,
                        told(b, "guidance_in", "guidance_embedder", "frequencies",
                             fourier(b, "guidance_waves", g)));
    }
    weft_value *clip =
        told(b, "clip_in", "text_embedder", "clip_width", weft_add_input(b->g, "clip"));
    return weft_add1(b->g, "silu", "vec", weft_add2(b->g, "add", "told", vec, clip));
}

/* ---- the whole ---- */

static void declare(const flux *m, weft_graph *g)
{
    weft_graph_dim(g, "embed", m->dim, 1);
    weft_graph_dim(g, "told", m->dim, 1);
    weft_graph_dim(g, "heads", m->heads, m->dim / m->heads);
    weft_graph_dim(g, "head_dim", m->dim / m->heads, 1);
    weft_graph_dim(g, "ffn", 4 * m->dim, 1);
    weft_graph_dim(g, "double_slots", DOUBLE_SLOTS * m->dim, 1);
    weft_graph_dim(g, "single_slots", SINGLE_SLOTS * m->dim, 1);
    weft_graph_dim(g, "final_slots", FINAL_SLOTS * m->dim, 1);
    weft_graph_dim(g, "text_seq", m->text, 1);
    weft_graph_dim(g, "image_seq", m->places, 1);
    weft_graph_dim(g, "image_rows", m->rows, 1); /* these two are for data to compare */
    weft_graph_dim(g, "image_columns", m->columns, 1);
    weft_graph_dim(g, "joint_seq", m->text + m->places, 1);
    weft_graph_dim(g, "packed", 4 * m->channels, 1);
    weft_graph_dim(g, "t5_width", m->t5, 1);
    weft_graph_dim(g, "clip_width", m->clip, 1);
    weft_graph_dim(g, "frequencies", FREQUENCIES, 1);
}

static weft_value *noise(const build *b, weft_value *image)
{
    weft_value *n =
        weft_add3(b->g, "draw_noise", "drawn_noise", image, weft_add_input(b->g, "sample_number"),
                  weft_add_input(b->g, "index:image_seq"));
    weft_set_int(b->g, n, "seed", b->m->seed);
    return n;
}

static weft_value *times(const build *b)
{
    if (b->m->law == FLUX_TIME_OF_DATA || writes(b))
        return weft_add_input(b->g, "time");
    return draw(b, "drawn_time",
                weft_graph_mode(b->g) == WEFT_MODE_EVALUATE ? LEVELS
                : b->m->law == FLUX_LOGIT_NORMAL            ? LOGIT_NORMAL
                                                            : UNIFORM,
                0);
}

/* The mean squared error of a sample, summed over samples; its mean is over those that are there.
 */
static void add_loss(const build *b, weft_value *v, weft_value *image, weft_value *n)
{
    weft_graph *g = b->g;
    weft_value *number = weft_add_input(g, "sample_number");
    const bool trains = weft_graph_mode(g) == WEFT_MODE_TRAIN;
    weft_value *error =
        weft_add(g, "flow_error", "errors", 4, (weft_value *[]){v, image, n, number});
    weft_set_loss_count(g, weft_add1(g, "count_valid", "samples",
                                     trains ? weft_add_input(g, "step_sample_number") : number));
    weft_add_loss(g, "flow", weft_add1(g, "sum", "error", error), 1, WEFT_LOSS_VALIDATION);
}

/* Do the data have what they are to say? */
static bool check_data(const flux *m, weft_graph *g)
{
    static const char *const keys[] = {"noise", "timestep"}, *const fields[] = {"noise", "time"};
    const bool asked[] = {m->noise == FLUX_NOISE_OF_DATA, m->law == FLUX_TIME_OF_DATA};
    if (weft_graph_mode(g) == WEFT_MODE_GENERATE)
        return true;
    for (int i = 0; i < 2; i++)
        if (asked[i] && !weft_graph_has_field(g, fields[i]))
            weft_graph_fail(g, WEFT_ERR_INPUT, weft_params_where(m->host->params, keys[i]),
                            "[flux] %s = data: the data have no field '%s'; latents have it with "
                            "[latents] also = %s",
                            keys[i], fields[i], fields[i]);
    return !weft_graph_status(g);
}

void flux_build(void *self, weft_graph *g)
{
    build b = {.m = self, .g = g};
    const flux *m = self;
    if (writes(&b) && !weft_graph_has_field(g, "guidance")) {
        weft_graph_fail(g, WEFT_ERR_INPUT, WEFT_NOWHERE,
                        "flux writes no text; list images in place of what does, or give `weft "
                        "generate` --out, for latents of pictures");
        return;
    }
    if (!check_data(m, g))
        return;
    declare(m, g);
    /* in no block: every stage of a pipeline that reads them makes them */
    weft_graph_set_block(g, WEFT_BLOCK_NONE);
    weft_value *x = weft_add_input(g, "image"), *n = NULL;
    if (!writes(&b))
        n = m->noise == FLUX_NOISE_OF_DATA ? weft_add_input(g, "noise") : noise(&b, x);
    weft_value *t = times(&b);

    weft_graph_set_block(g, WEFT_BLOCK_EMBEDDING);
    weft_value *mixed = writes(&b) ? x : weft_add3(g, "flow_mix", "mixed", x, n, t);
    weft_value *image = linear(&b, "i.x", "x_embedder", "embed", "packed", mixed, false);
    weft_value *text = linear(&b, "t.x", "context_embedder", "embed", "t5_width",
                              weft_add_input(g, "text"), false);
    weft_set_role(g, image, "residual");
    weft_set_role(g, text, "residual");
    b.vec = tell(&b, t);
    for (int64_t i = 0; i < m->doubles; i++)
        double_block(&b, i, &text, &image);
    weft_value *both = NULL;
    for (int64_t i = 0; i < m->singles; i++) {
        if (i == 0) {
            weft_graph_set_block(g, (int)m->doubles);
            both = join(&b, "joint", text, image);
            weft_set_role(g, both, "residual");
        }
        both = single_block(&b, i, both);
    }

    weft_graph_set_block(g, WEFT_BLOCK_HEAD);
    image = sequences(&b, "take_image", "image_out", 1, &both, 1, NULL);
    weft_value *s = slots(&b, "m", "norm_out.linear", "final_slots");
    image = modulate(&b, "n", image, s, FINAL_SHIFT, FINAL_SCALE);
    weft_value *v = linear(&b, "v", "proj_out", "packed", "embed", image, true);
    if (writes(&b))
        weft_set_output(g, v);
    else
        add_loss(&b, v, x, n);
}
