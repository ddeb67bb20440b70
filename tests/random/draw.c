/* SPDX-License-Identifier: Apache-2.0 */
/* The case of a seed: model, precision, data, three meshes, the order in which plugins are listed.
 * Most of what is drawn is legal; what is not must be refused. */
#include "random.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RANKS = 8 };

/* Sizes that are odd, and a bf16 product sums two terms at once. */
typedef struct odd_sizes {
    bool drawn, low; /* low: in bf16, whatever else is drawn */
    int seq;
    int dim, ffn, vocabulary; /* 0: as small as others; else several threads compute a product */
} odd_sizes;

typedef struct drawing {
    uint64_t state;
    random_case *c;
    odd_sizes odd;
    bool low, eighth; /* bf16; float8 */
    bool text;        /* is what it learns */
} drawing;

/* SplitMix64 */
static uint64_t next(drawing *d)
{
    uint64_t z = d->state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}

static int below(drawing *d, int n)
{
    return (int)(next(d) % (uint64_t)n);
}

static bool one_in(drawing *d, int n)
{
    return below(d, n) == 0;
}

/* One of the words. */
static const char *pick(drawing *d, const char *words, char out[RANDOM_VALUE])
{
    int n = 1;
    for (const char *w = words; *w; w++)
        n += *w == ' ';
    for (int skip = below(d, n); skip > 0; skip--)
        words = strchr(words, ' ') + 1;
    snprintf(out, RANDOM_VALUE, "%.*s", (int)strcspn(words, " "), words);
    return out;
}

static int pick_number(drawing *d, const char *words)
{
    char word[RANDOM_VALUE];
    return atoi(pick(d, words, word));
}

__attribute__((format(printf, 6, 7))) static void set(drawing *d, unsigned runs,
                                                      const char *section, const char *key,
                                                      const char *simple, const char *format, ...)
{
    va_list list;
    if (d->c->n_settings == RANDOM_SETTINGS)
        return;
    random_setting *s = &d->c->settings[d->c->n_settings++];
    *s = (random_setting){.section = section, .key = key, .simple = simple, .runs = runs};
    va_start(list, format);
    vsnprintf(s->value, sizeof s->value, format, list);
    va_end(list);
}

/* One of the words, which may be left out. */
static void maybe(drawing *d, unsigned runs, const char *section, const char *key,
                  const char *words)
{
    char word[RANDOM_VALUE];
    if (below(d, 2))
        set(d, runs, section, key, "", "%s", pick(d, words, word));
}

static void list(drawing *d, const char *name, unsigned runs, bool needed)
{
    for (int i = 0; i < d->c->n_plugins; i++)
        if (strcmp(d->c->plugins[i].name, name) == 0) {
            d->c->plugins[i].runs |= runs;
            return;
        }
    d->c->plugins[d->c->n_plugins++] = (random_plugin){name, runs, needed};
}

/* ---- what all three runs have ---- */

/* By numbers of its own, so that the other seeds draw what they did without it. */
static odd_sizes draw_odd(uint64_t seed, bool large)
{
    drawing d = {.state = seed ^ (uint64_t)1 << 40};
    odd_sizes o = {.drawn = one_in(&d, 6)};
    if (!o.drawn)
        return o;
    o.low = below(&d, 3) > 0;
    o.seq = pick_number(&d, large ? "131 255" : "5 7 11 13 35 63 65 127");
    if (below(&d, 3))
        return o;
    o.dim = pick_number(&d, "48 66 98");
    o.ffn = pick_number(&d, "131 193");
    o.vocabulary = pick_number(&d, "259 515");
    return o;
}

static int or_odd(int odd, int drawn)
{
    return odd ? odd : drawn;
}

static void draw_llama(drawing *d, bool large)
{
    int kv = pick_number(d, large ? "1 2" : "1 2 3 4"),
        heads = kv * pick_number(d, large ? "1 2" : "1 1 2 3");
    const odd_sizes *o = &d->odd;
    list(d, "llama3", RANDOM_ALL, true);
    set(d, RANDOM_ALL, "llama3", "dim", "8", "%d", or_odd(o->dim, pick_number(d, "8 16 24 30 32")));
    const int layers = pick_number(d, large ? "1 2" : "1 2 2 3 4");
    set(d, RANDOM_ALL, "llama3", "n_layers", "1", "%d", o->dim && layers > 2 ? 2 : layers);
    set(d, RANDOM_ALL, "llama3", "n_heads", "1", "%d", heads);
    set(d, RANDOM_ALL, "llama3", "n_kv_heads", "1", "%d", kv);
    set(d, RANDOM_ALL, "llama3", "head_dim", "2", "%d",
        large ? pick_number(d, "48 80") : pick_number(d, "2 4 6 8 16"));
    set(d, RANDOM_ALL, "llama3", "ffn_dim", "8", "%d",
        or_odd(o->ffn, pick_number(d, "1 7 16 26 48")));
    set(d, RANDOM_ALL, "llama3", "vocab_size", NULL, "%d",
        or_odd(o->vocabulary, pick_number(d, "258 259 262 304")));
    if (below(d, 2))
        set(d, RANDOM_ALL, "llama3", "tied", "", "yes");
    if (one_in(d, 4))
        set(d, RANDOM_ALL, "llama3", "rope_scaling", "", "yes");
}

static void draw_gpt2(drawing *d, int positions)
{
    list(d, "gpt2", RANDOM_ALL, true);
    set(d, RANDOM_ALL, "gpt2", "dim", "8", "%d", pick_number(d, "8 16 24 32"));
    set(d, RANDOM_ALL, "gpt2", "n_layers", "1", "%d", pick_number(d, "1 2 2 3 4"));
    set(d, RANDOM_ALL, "gpt2", "n_heads", "1", "%d", pick_number(d, "1 2 4 8"));
    set(d, RANDOM_ALL, "gpt2", "ffn_dim", "8", "%d", pick_number(d, "1 7 16 26 48"));
    set(d, RANDOM_ALL, "gpt2", "vocab_size", NULL, "%d", pick_number(d, "258 259 262 304"));
    set(d, RANDOM_ALL, "gpt2", "n_positions", NULL, "%d", positions);
    if (below(d, 2))
        set(d, RANDOM_ALL, "gpt2", "tied", "", "no");
}

/* Sizes that mixtral and qwen3 have in common with llama3, under their own name. */
static void draw_experts(drawing *d)
{
    const bool qwen = below(d, 2);
    const char *name = qwen ? "qwen3" : "mixtral";
    const int kv = pick_number(d, "1 2 3 4"), heads = kv * pick_number(d, "1 1 2 3"),
              layers = pick_number(d, "1 2 2 3 4"), experts = pick_number(d, "2 3 4 4 6 8 8 12"),
              k = 1 + below(d, experts < 4 ? experts : 4);
    list(d, "moe", RANDOM_ALL, true);
    list(d, name, RANDOM_ALL, true);
    set(d, RANDOM_ALL, name, "dim", "8", "%d", pick_number(d, "8 16 24 30 32"));
    set(d, RANDOM_ALL, name, "n_layers", "1", "%d", layers);
    set(d, RANDOM_ALL, name, "n_heads", "1", "%d", heads);
    set(d, RANDOM_ALL, name, "n_kv_heads", "1", "%d", kv);
    set(d, RANDOM_ALL, name, "head_dim", "2", "%d", pick_number(d, "2 4 6 8 16"));
    set(d, RANDOM_ALL, name, "ffn_dim", "8", "%d", pick_number(d, "1 7 16 26 48"));
    set(d, RANDOM_ALL, name, "vocab_size", NULL, "%d", pick_number(d, "258 259 262 304"));
    set(d, RANDOM_ALL, name, "n_experts", NULL, "%d", experts);
    set(d, RANDOM_ALL, name, "top_k", "1", "%d", k);
    if (below(d, 2))
        set(d, RANDOM_ALL, name, "tied", "", "yes");
    if (below(d, 2))
        set(d, RANDOM_ALL, name, "balance", "0", "0.1");
    else
        set(d, RANDOM_ALL, name, "balance", NULL, "0");
    if (below(d, 2))
        set(d, RANDOM_ALL, name, "bias_rate", "", "0.01");
    if (one_in(d, 3))
        set(d, RANDOM_ALL, name, "router_z", "", "0.01");
    if (one_in(d, 4))
        set(d, RANDOM_ALL, name, "shared", "0", "%d", pick_number(d, "1 5 12"));
    if (!qwen)
        return;
    set(d, RANDOM_ALL, name, "expert_dim", "1", "%d", pick_number(d, "1 5 12 16"));
    if (one_in(d, 3))
        set(d, RANDOM_ALL, name, "norm_top_k", "", "no");
    if (layers > 1 && one_in(d, 3))
        set(d, RANDOM_ALL, name, "decoder_sparse_step", "", "2");
    else if (layers > 1 && one_in(d, 3))
        set(d, RANDOM_ALL, name, "mlp_only_layers", "", "0");
}

/* Attention through latents, and experts in groups. */
static void draw_deepseek3(drawing *d)
{
    const char *name = "deepseek3";
    const int layers = pick_number(d, "1 2 2 3 4"), groups = pick_number(d, "1 1 2 4"),
              experts = groups * pick_number(d, "2 3 4"), keep = 1 + below(d, groups),
              most = keep * (experts / groups), nope = pick_number(d, "2 3 6 8"),
              turns = pick_number(d, "2 4 6");
    list(d, "moe", RANDOM_ALL, true);
    list(d, name, RANDOM_ALL, true);
    set(d, RANDOM_ALL, name, "dim", "8", "%d", pick_number(d, "8 16 24 30 32"));
    set(d, RANDOM_ALL, name, "n_layers", NULL, "%d", layers);
    set(d, RANDOM_ALL, name, "n_heads", "1", "%d", pick_number(d, "1 2 3 4 4 6"));
    set(d, RANDOM_ALL, name, "q_rank", "0", "%d", pick_number(d, "0 5 8 16"));
    /* The norm of one element is its sign, with a gradient of what rounding leaves. */
    set(d, RANDOM_ALL, name, "kv_rank", "2", "%d", pick_number(d, "2 5 8 12"));
    set(d, RANDOM_ALL, name, "nope_dim", NULL, "%d", nope);
    set(d, RANDOM_ALL, name, "rope_dim", NULL, "%d", turns);
    set(d, RANDOM_ALL, name, "v_dim", "1", "%d", 1 + below(d, nope + turns));
    set(d, RANDOM_ALL, name, "ffn_dim", "8", "%d", pick_number(d, "1 7 16 26"));
    set(d, RANDOM_ALL, name, "vocab_size", NULL, "%d", pick_number(d, "258 259 262 304"));
    set(d, RANDOM_ALL, name, "dense_layers", NULL, "%d", below(d, layers));
    set(d, RANDOM_ALL, name, "n_experts", NULL, "%d", experts);
    set(d, RANDOM_ALL, name, "n_groups", NULL, "%d", groups);
    set(d, RANDOM_ALL, name, "keep_groups", NULL, "%d", keep);
    set(d, RANDOM_ALL, name, "top_k", "1", "%d", 1 + below(d, most < 4 ? most : 4));
    set(d, RANDOM_ALL, name, "expert_dim", "1", "%d", pick_number(d, "1 5 12 16"));
    set(d, RANDOM_ALL, name, "n_shared", "1", "%d", pick_number(d, "1 1 2"));
    if (below(d, 2))
        set(d, RANDOM_ALL, name, "tied", "", "yes");
    if (below(d, 2))
        set(d, RANDOM_ALL, name, "balance", NULL, "0");
    if (below(d, 2))
        set(d, RANDOM_ALL, name, "bias_rate", "", "0.01");
    if (one_in(d, 3))
        set(d, RANDOM_ALL, name, "yarn", "", "yes");
}

/* As many tokens of text as places of the image, in files that random_runs.c writes. */
static void draw_flux(drawing *d)
{
    const int heads = pick_number(d, "1 2 2 3 4 4 6"), size = pick_number(d, "4 12");
    list(d, "diffusion", RANDOM_ALL, true);
    list(d, "flux", RANDOM_ALL, true);
    set(d, RANDOM_ALL, "flux", "dim", NULL, "%d", heads * pick_number(d, "2 4 6 8 16"));
    set(d, RANDOM_ALL, "flux", "n_heads", NULL, "%d", heads);
    set(d, RANDOM_ALL, "flux", "n_double", "1", "%d", pick_number(d, "1 1 2 3"));
    set(d, RANDOM_ALL, "flux", "n_single", "1", "%d", pick_number(d, "1 1 2 3"));
    set(d, RANDOM_ALL, "flux", "text", NULL, "%d", size);
    set(d, RANDOM_ALL, "flux", "image", NULL, "%d", size == 4 ? 32 : 64);
    set(d, RANDOM_ALL, "flux", "image_width", NULL, "%d", size == 4 ? 32 : 48);
    set(d, RANDOM_ALL, "flux", "channels", NULL, "2");
    set(d, RANDOM_ALL, "flux", "t5_dim", NULL, "5");
    set(d, RANDOM_ALL, "flux", "clip_dim", NULL, "3");
    maybe(d, RANDOM_ALL, "flux", "timestep", "uniform logit_normal");
    if (below(d, 2))
        set(d, RANDOM_ALL, "flux", "guidance", "", "yes");
    maybe(d, RANDOM_ALL, "flux", "levels", "1 3 8");
}

static void draw_latents(drawing *d)
{
    const int size = random_number(d->c, RANDOM_ONE, "flux", "text", 4);
    list(d, "latents", RANDOM_ALL, true);
    set(d, RANDOM_ALL, "latents", "path", NULL, "pictures-%d.safetensors", size);
    set(d, RANDOM_ALL, "latents", "validation", NULL, "%d", pick_number(d, "1 5 8"));
    if (below(d, 2))
        return;
    set(d, RANDOM_ALL, "latents", "empty", NULL, "empty-%d.safetensors", size);
    maybe(d, RANDOM_ALL, "latents", "drop_t5", "0.1 0.5 1");
    maybe(d, RANDOM_ALL, "latents", "drop_clip", "0.1 0.5 1");
}

static void draw_float8(drawing *d)
{
    list(d, "float8", RANDOM_ALL, false);
    char recipe[RANDOM_VALUE];
    set(d, RANDOM_ALL, "float8", "recipe", "", "%s",
        pick(d, "tensorwise delayed rowwise rowwise_gw_hp", recipe));
    bool head = below(d, 2);
    if (head)
        set(d, RANDOM_ALL, "float8", "head", "", "yes");
    if (head || below(d, 4)) /* no vocabulary is a multiple of 16 but one */
        set(d, RANDOM_ALL, "float8", "multiple", "", "%d", pick_number(d, head ? "1" : "1 2 8"));
    if (one_in(d, 4))
        set(d, RANDOM_ALL, "float8", "history", "", "%d", pick_number(d, "1 2 3"));
    if (one_in(d, 4))
        set(d, RANDOM_ALL, "float8", "interval", "", "2");
    if (one_in(d, 4))
        maybe(d, RANDOM_ALL, "float8", "recipe_of",
              "*q_proj*=rowwise *mlp*=delayed *mlp*=tensorwise *o_proj*=rowwise_gw_hp");
    if (one_in(d, 4))
        maybe(d, RANDOM_ALL, "float8", "power_of_two", "yes no");
}

static void draw_precision(drawing *d)
{
    d->low = one_in(d, 5);
    d->low = d->low || d->odd.low;
    d->eighth = d->text && one_in(d, d->low ? 8 : 3);
    bool wide = !d->low && below(d, 8);
    set(d, RANDOM_ALL, "train", "dtype", "f64", wide ? "f64" : "f32");
    if (d->low)
        list(d, "bf16", RANDOM_ALL, false);
    if (d->eighth)
        draw_float8(d);
}

/* Scales of a micro-batch's activations depend on what is in it, and so does a validation that does
 * not take all batches. */
static void draw_batches(drawing *d, int seq)
{
    static const int batches[] = {1, 2, 3, 4, 6, 8};
    int global = batches[below(d, seq > 100 ? 2 : 6)];
    global = d->odd.drawn && global % 2 == 0 ? 3 : global; /* so is a micro-batch's, and tokens */
    int micro = global, other = global;
    for (int n = 0; n < 8; n++) {
        int divisor = 1 + below(d, global);
        micro = global % divisor == 0 ? divisor : micro;
        divisor = 1 + below(d, global);
        other = global % divisor == 0 ? divisor : other;
    }
    if (d->text)
        set(d, RANDOM_ALL, "train", "seq_len", "4", "%d", seq);
    set(d, RANDOM_ALL, "train", "global_batch", "1", "%d", global);
    bool validates = below(d, 4) > 0, all = one_in(d, 2);
    if (validates) {
        set(d, RANDOM_ALL, "train", "eval_every", "", "%d", pick_number(d, "1 2"));
        if (!all)
            set(d, RANDOM_ALL, "train", "eval_batches", "1", "%d", pick_number(d, "1 2 3 8"));
    }
    bool may_differ = !d->eighth && (!validates || all);
    if (may_differ)
        set(d, RANDOM_ONE, "train", "micro_batch", "", "%d", other);
    set(d, may_differ ? RANDOM_MANY | RANDOM_OTHER : RANDOM_ALL, "train", "micro_batch", "1", "%d",
        micro);
}

static void draw_data(drawing *d)
{
    list(d, "text", RANDOM_ALL, true);
    set(d, RANDOM_ALL, "text", "path", NULL, "%s", one_in(d, 3) ? "text.txt" : "documents.jsonl");
    set(d, RANDOM_ALL, "text", "validation", NULL, "%s", one_in(d, 3) ? "0.2" : "0.07");
    if (one_in(d, 3))
        set(d, RANDOM_ALL, "text", "reset", "", "attention positions");
    else if (one_in(d, 4))
        maybe(d, RANDOM_ALL, "text", "reset", "attention positions");
    if (one_in(d, 3) && random_number(d->c, RANDOM_ONE, "train", "global_batch", 1) > 1)
        list(d, "masked", RANDOM_ALL, false);
}

static void draw_observers(drawing *d, int steps)
{
    if (d->text && below(d, 2)) {
        list(d, "sample", RANDOM_ALL, false);
        set(d, RANDOM_ALL, "sample", "every", NULL, "2");
        set(d, RANDOM_ALL, "sample", "temperature", NULL, "0");
        set(d, RANDOM_ALL, "sample", "prompt", NULL, "Sent");
        if (below(d, 2))
            set(d, RANDOM_ALL, "sample", "prompt", "", "a");
        set(d, RANDOM_ALL, "sample", "tokens", NULL, "5");
        set(d, RANDOM_ALL, "sample", "context", NULL, "%d", pick_number(d, "6 12"));
    }
    if (below(d, 2)) {
        list(d, "dump", RANDOM_ALL, false);
        for (int i = 1; i <= steps; i++)
            set(d, RANDOM_ALL, "dump", "steps", i == 1 ? NULL : "", "%d", i);
        if (d->text && one_in(d, 4))
            set(d, RANDOM_ALL, "dump", "what", "", "parameters gradients tokens logits");
    }
    list(d, "metrics", RANDOM_ALL, true);
}

/* ---- meshes ---- */

typedef struct mesh {
    unsigned run;
    int ranks;
    const char *axes[6];
    int n_axes;
} mesh;

/* The degree of an axis, if it has one. */
static int draw_degree(drawing *d, mesh *m, const char *plugin, const char *key, const char *axis)
{
    int degree = pick_number(d, "2 2 2 3 4 5");
    if (m->ranks * degree > MOST_RANKS || below(d, 2))
        return 1;
    m->ranks *= degree;
    m->axes[m->n_axes++] = axis;
    set(d, m->run, plugin, key, strcmp(key, "degree") == 0 ? "2" : "", "%d", degree);
    return degree;
}

static void draw_tp(drawing *d, mesh *m)
{
    if (draw_degree(d, m, "tp", "degree", "tp") == 1)
        return;
    list(d, "tp", m->run, false);
    if (one_in(d, 3))
        set(d, m->run, "tp", "sequence_parallel", "", "no");
    if (one_in(d, 4))
        set(d, m->run, "tp", "regather", "", "no");
    if (one_in(d, 3))
        set(d, m->run, "tp", "loss_parallel", "", "no");
    if (one_in(d, 3))
        set(d, m->run, "tp", "reduce_dtype", "", "f32");
}

static void draw_cp(drawing *d, mesh *m)
{
    if (draw_degree(d, m, "cp", "degree", "cp") == 1)
        return;
    list(d, "cp", m->run, false);
    maybe(d, m->run, "cp", "attention", "ring gather");
    if (one_in(d, 3))
        set(d, m->run, "cp", "balance", "", "none");
    if (one_in(d, 3))
        set(d, m->run, "cp", "reduce_dtype", "", "f32");
}

/* A schedule with as many stages a rank: V's and those with one have their own number of them. On a
 * V an order made for a loop may wait in a circle. */
static void draw_schedule(drawing *d, mesh *m, int stages)
{
    char name[RANDOM_VALUE];
    static const char *const names[] = {"1f1b gpipe bfs zb_h1 zb_h2 interleaved_zb",
                                        "interleaved gpipe bfs interleaved_zb zbv dualpipev",
                                        "interleaved gpipe bfs interleaved_zb"};
    if (one_in(d, 4))
        return;
    set(d, m->run, "pp", "schedule", "", "%s", pick(d, names[stages < 3 ? stages - 1 : 2], name));
    const bool v = strcmp(name, "zbv") == 0 || strcmp(name, "dualpipev") == 0;
    if (one_in(d, 4) && (v || strcmp(name, "gpipe") == 0))
        set(d, m->run, "pp", "placement", "", "v");
    if (one_in(d, 3))
        set(d, m->run, "pp", "defer", "", "all");
}

static void draw_pp(drawing *d, mesh *m)
{
    int layers = random_layers(d->c);
    int degree = draw_degree(d, m, "pp", "degree", "pp");
    if (degree == 1)
        return;
    list(d, "pp", m->run, false);
    int stages = pick_number(d, "1 1 2 2 3");
    stages = degree * stages > layers + 2 && below(d, 8) ? 1 : stages;
    if (stages > 1)
        set(d, m->run, "pp", "virtual_stages", "", "%d", stages);
    if (stages == 1 && degree == 3 && one_in(d, 2))
        set(d, m->run, "pp", "split", "", "0 head");
    draw_schedule(d, m, stages);
}

static void draw_fsdp(drawing *d, mesh *m)
{
    int degree = draw_degree(d, m, "fsdp", "degree", "dp_shard"),
        copies = draw_degree(d, m, "fsdp", "replicate", "dp_replicate");
    if (degree == 1 && copies == 1)
        return;
    if (degree == 1)
        set(d, m->run, "fsdp", "degree", NULL, "1");
    list(d, "fsdp", m->run, false);
    int zero = below(d, 4);
    if (zero != 3)
        set(d, m->run, "fsdp", "zero", "", "%d", zero);
    else
        maybe(d, m->run, "fsdp", "reshard", "no 1");
    if (copies > 1 && (zero > 0 || one_in(d, 8)) && below(d, 2))
        set(d, m->run, "fsdp", "two_level", "", zero == 3 && below(d, 2) ? "micro_batch" : "step");
    if (one_in(d, 4))
        set(d, m->run, "fsdp", "group", "", "none");
    if (one_in(d, 4))
        set(d, m->run, "fsdp", "prefetch", "", "%d", pick_number(d, "0 2"));
}

static bool has_axis(const mesh *m, const char *axis)
{
    for (int i = 0; i < m->n_axes; i++)
        if (strcmp(m->axes[i], axis) == 0)
            return true;
    return false;
}

/* Before other axes: a degree that divides the experts. */
static void draw_ep(drawing *d, mesh *m, int experts)
{
    const int degree = pick_number(d, "2 2 2 3 4");
    if (experts % degree || below(d, 3) == 0)
        return;
    m->ranks *= degree;
    m->axes[m->n_axes++] = "ep";
    list(d, "ep", m->run, false);
    set(d, m->run, "ep", "degree", "1", "%d", degree);
}

/* Behind them: whole axes that share experts, too, and room that is enough whatever is chosen. */
static void draw_over(drawing *d, mesh *m, const char *model, int experts)
{
    static const char *const axes[] = {"tp", "cp"};
    int owners = random_number(d->c, m->run, "ep", "degree", 1);
    const int k = random_number(d->c, RANDOM_ALL, model, "top_k", 1);
    bool shares = false;
    for (int i = 0; i < 2; i++) {
        const int degree = random_number(d->c, m->run, axes[i], "degree", 1);
        if (!has_axis(m, axes[i]) || experts % (owners * degree) || one_in(d, 3))
            continue;
        list(d, "ep", m->run, false);
        set(d, m->run, "ep", "over", "", "%s", axes[i]);
        owners *= degree;
        shares = shares || i == 0;
    }
    if (has_axis(m, "tp") && !shares && one_in(d, 2)) {
        list(d, "ep", m->run, false);
        set(d, m->run, "ep", "tensor", "", "yes");
    }
    const int each = experts / owners, most = k < each ? k : each;
    if (owners > 1 && one_in(d, 2))
        set(d, m->run, "ep", "room", "", "%.17g",
            owners * most > k ? (double)owners * most / k : 1.0);
}

static void draw_ac(drawing *d, const mesh *m)
{
    if (below(d, 3))
        return;
    list(d, "ac", m->run, false);
    maybe(d, m->run, "ac", "mode", "full every op none");
}

/* ep comes before axes of fsdp: what is listed first is inside. */
static void inside_samples(mesh *m)
{
    for (int i = 0, ep = m->n_axes; i < m->n_axes; i++) {
        ep = strncmp(m->axes[i], "dp_", 3) == 0 && ep == m->n_axes ? i : ep;
        if (ep < i && strcmp(m->axes[i], "ep") == 0) {
            m->axes[i] = m->axes[ep];
            m->axes[ep] = "ep";
        }
    }
}

static void draw_order(drawing *d, mesh *m)
{
    char order[RANDOM_VALUE] = "";
    for (int i = m->n_axes - 1; i > 0; i--) {
        int k = below(d, i + 1);
        const char *axis = m->axes[i];
        m->axes[i] = m->axes[k];
        m->axes[k] = axis;
    }
    inside_samples(m);
    for (int i = 0; i < m->n_axes; i++) {
        size_t used = strlen(order);
        snprintf(order + used, sizeof order - used, "%s%s", i ? " " : "", m->axes[i]);
    }
    if (m->n_axes > 1 && one_in(d, 3))
        set(d, m->run, "mesh", "order", "", "%s", order);
}

/* Any rule is legal: a layout says who holds what, never what it is. */
static void draw_rules(drawing *d, const mesh *m)
{
    static const char *const values[][2] = {{"input:ids", "batch seq -"},
                                            {"input:labels", "batch seq -"},
                                            {"input:segments", "batch seq -"},
                                            {"input:positions", "batch seq -"},
                                            {"input:step_labels", "micro batch seq -"},
                                            {"input", "batch seq -"},
                                            {"role:residual", "batch seq embed -"},
                                            {"param:*norm*", "embed -"},
                                            {"param", "embed -"},
                                            {"param:*mlp*", "ffn embed -"},
                                            {"param:*embed_tokens*", "vocab embed -"},
                                            {"param:*_proj*", "embed -"},
                                            {"param", "experts expert_ffn choices -"}};
    const char *model = random_model(d->c);
    const int n_values = strcmp(model, "llama3") == 0 ? 12 : strcmp(model, "gpt2") == 0 ? 7 : 13;
    for (int n = 1 + below(d, 4); n > 0 && m->n_axes > 0; n--) {
        char dim[RANDOM_VALUE];
        const char *axis = m->axes[below(d, m->n_axes)];
        if (strcmp(axis, "pp") == 0 && below(d, 8)) /* cuts nothing */
            continue;
        int i = below(d, n_values);
        pick(d, values[i][1], dim);
        set(d, m->run, "mesh", "rule", "", "%s %s %s", values[i][0], dim, axis);
    }
}

static void draw_mesh(drawing *d, unsigned run)
{
    mesh m = {.run = run, .ranks = 1};
    void (*const draws[])(drawing *, mesh *) = {draw_pp, draw_tp, draw_cp, draw_fsdp};
    const char *model = random_model(d->c);
    const int experts = random_number(d->c, RANDOM_ALL, model, "n_experts", 0);
    int first = below(d, 4);
    if (experts)
        draw_ep(d, &m, experts);
    for (int i = 0; i < 4; i++)
        draws[(first + i) % 4](d, &m);
    if (experts)
        draw_over(d, &m, model, experts);
    draw_ac(d, &m);
    draw_order(d, &m);
    if (d->text && one_in(d, 5))
        draw_rules(d, &m);
    bool head = random_get(d->c, run, "float8", "head") != NULL,
         few = random_number(d->c, run, "train", "seq_len", 0) < 100;
    if (d->text && (one_in(d, 3) || head))
        set(d, run, "train", "loss_chunk", "", "%d",
            pick_number(d, head && few ? "1 1 8"
                           : few       ? "1 3 8 16"
                                       : "16 100"));
    if (one_in(d, 5)) {
        set(d, run, "cpu", "queues", "", "adversarial");
        set(d, run, "cpu", "adversary_seed", "", "%d", 1 + below(d, 999));
    }
    set(d, run, "weft", "threads", "1", "%d", pick_number(d, "1 1 2 3"));
    if (m.ranks > 1 && below(d, 2))
        list(d, "local", run, false);
}

/* ---- what changes no number, or only how sums are rounded ---- */

static void draw_far(drawing *d, unsigned run)
{
    const char *state, *activations;
    char words[3][RANDOM_VALUE];
    list(d, "disk", run, false);
    list(d, "offload", run, false);
    state = pick(d, "moments all none", words[0]);
    activations = pick(d, "no boundary all", words[1]);
    set(d, run, "offload", "state", "", "%s", state);
    set(d, run, "offload", "activations", "", "%s", activations);
    set(d, run, "offload", "gradients", "", "%s", pick(d, "yes no", words[2]));
    set(d, run, "offload", "least", NULL, "%d", pick_number(d, "0 0 1024"));
    maybe(d, run, "offload", "prefetch", "0 1 2 3");
    maybe(d, run, "offload", "copies", "yes no");
    maybe(d, run, "disk", "verify", "yes no");
    maybe(d, run, "disk", "threads", "1 3");
}

/* By numbers of its own, so that what else a seed draws does not change. */
static void draw_passes(const drawing *drawn, unsigned run)
{
    random_case *c = drawn->c;
    drawing d = {.state = c->seed ^ run << 20, .c = c, .text = drawn->text};
    if (one_in(&d, 3))
        draw_far(&d, run);
    if (one_in(&d, 3))
        list(&d, "join", run, false);
    /* in other recipes a piece has scales of its own */
    const char *recipe = random_get(c, run, "float8", "recipe");
    const bool same =
        !random_lists(c, run, "float8") ||
        (strcmp(recipe, "rowwise_gw_hp") == 0 && !random_get(c, run, "float8", "recipe_of"));
    /* pieces that do not divide are refused, and of what is odd few do */
    if (one_in(&d, 8) && same && !drawn->odd.drawn) {
        list(&d, "overlap", run, false);
        set(&d, run, "overlap", "pieces", "2", "%d", pick_number(&d, "2 2 2 2 3 4"));
        if (one_in(&d, 3))
            maybe(&d, run, "overlap", "along", "batch seq");
    }
}

/* ---- the whole ---- */

/* Those that need another behind them come behind it. */
static bool comes_behind(const char *name, const char *other)
{
    return (strcmp(other, "text") == 0 &&
            (strcmp(name, "sample") == 0 || strcmp(name, "masked") == 0)) ||
           (strcmp(other, "adamw") == 0 && strcmp(name, "dump") == 0) ||
           (strcmp(other, "disk") == 0 && strcmp(name, "offload") == 0) ||
           (strcmp(other, "ep") == 0 && strcmp(name, "fsdp") == 0); /* axes that cut samples */
}

static void shuffle(drawing *d)
{
    random_plugin *p = d->c->plugins;
    const int stay =
        strcmp(p[1].name, random_model(d->c)) == 0 ? 2 : 1; /* the model, behind what it needs */
    for (int i = d->c->n_plugins - 1; i > stay; i--) {
        int k = stay + below(d, i - stay + 1);
        random_plugin held = p[i];
        p[i] = p[k];
        p[k] = held;
    }
    for (int i = 1; i < d->c->n_plugins; i++)
        for (int k = i + 1; k < d->c->n_plugins; k++)
            if (comes_behind(p[i].name, p[k].name)) {
                random_plugin held = p[i];
                p[i] = p[k];
                p[k] = held;
            }
}

static void draw_checks(drawing *d)
{
    static const char *const checks[] = {"memory", "nan", "replicas"};
    for (int i = 0; i < 3; i++)
        if (one_in(d, 5))
            set(d, RANDOM_MANY | RANDOM_OTHER, "weft", "check", "", "%s", checks[i]);
}

void random_draw(uint64_t seed, random_case *c)
{
    drawing d = {.state = seed, .c = c, .text = seed % 6 != 1};
    *c = (random_case){.seed = seed, .goes_on = false};
    bool large = one_in(&d, 20);
    int seq = large ? pick_number(&d, "130 257") : pick_number(&d, "4 8 9 10 16 33 62 64");
    if (d.text)
        d.odd = draw_odd(seed, large);
    seq = or_odd(d.odd.seq, seq);
    int steps = pick_number(&d, "2 3 4");
    c->goes_on = one_in(&d, 3);
    steps = c->goes_on ? 4 : steps;
    if (!d.text)
        draw_flux(&d);
    else if (seed % 7 == 3)
        draw_deepseek3(&d);
    else if (seed % 5 == 0)
        draw_experts(&d);
    else if (below(&d, 4))
        draw_llama(&d, large);
    else
        draw_gpt2(&d, seq > 12 ? seq : 12);
    set(&d, RANDOM_ALL, "train", "steps", c->goes_on ? NULL : "2", "%d", steps);
    set(&d, RANDOM_ALL, "train", "seed", "", "%d", below(&d, 100000));
    draw_precision(&d);
    draw_batches(&d, seq);
    if (d.text)
        draw_data(&d);
    else
        draw_latents(&d);
    list(&d, "cpu", RANDOM_ALL, true);
    list(&d, "adamw", RANDOM_ALL, true);
    set(&d, RANDOM_ALL, "adamw", "eps", NULL, "1e-3"); /* rounding of tiny gradients stays small */
    if (below(&d, 2))
        set(&d, RANDOM_ALL, "adamw", "lr", "", "1e-2");
    maybe(&d, RANDOM_ALL, "adamw", "max_norm", "0 0.1");
    draw_observers(&d, steps);
    set(&d, RANDOM_ONE, "weft", "threads", NULL, "1");
    draw_mesh(&d, RANDOM_MANY);
    if (c->goes_on) {
        draw_mesh(&d, RANDOM_OTHER);
        list(&d, "ckpt", RANDOM_MANY | RANDOM_OTHER, false);
        set(&d, RANDOM_MANY | RANDOM_OTHER, "ckpt", "every", NULL, "2");
    }
    draw_checks(&d);
    draw_passes(&d, RANDOM_MANY);
    if (c->goes_on)
        draw_passes(&d, RANDOM_OTHER);
    shuffle(&d);
}
