/* SPDX-License-Identifier: Apache-2.0 */
/* What placement makes of the usual parallelisms: how many collectives, of how many bytes, when, in
 * which dtype, against closed formulas; and what the listed order of passes changes. */
#include "../../lib/planned.h"
#include "print/graph.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* last: it needs the headers above */
#include <cmocka.h>

/* Sizes that divide, so that the formulas are exact. */
enum { B = 3, D = 24, HEADS = 12 * 4, KV = 6 * 4, FFN = 32, V = 48, BATCH = 4, SEQ = 8, W = 4 };
static const char even[] = "n_layers = 3\ndim = 24\nn_heads = 12\nn_kv_heads = 6\nhead_dim = "
                           "4\nffn_dim = 32\nvocab_size = 48\n";
enum {
    PARAMETERS = 9 * B + 3,
    NORMS = (2 * B + 1) * D,
    WEIGHTS = 2 * V * D + NORMS + B * (2 * HEADS * D + 2 * KV * D + 3 * FFN * D),
};

/* ---- what there is ---- */

typedef struct line {
    char what[160]; /* "micro_batch forward all_gather[tp] f32" */
    int64_t count, bytes;
    bool expected;
} line;

typedef struct traffic {
    line lines[64];
    int n;
} traffic;

static line *find_line(traffic *t, const char *what)
{
    for (int i = 0; i < t->n; i++)
        if (strcmp(t->lines[i].what, what) == 0)
            return &t->lines[i];
    return NULL;
}

static void add_step(traffic *t, const weft_graph *g, const weft_node *n, const weft_step *s,
                     weft_layout before)
{
    const weft_value *v = n->outs[0];
    char what[160];
    int size = snprintf(what, sizeof what, "%s %s %s[", weft_scope_name(n->scope),
                        weft_phase_name(n->phase), weft_move_name(s->move));
    for (int k = 0; k < s->n_axes; k++)
        size += snprintf(what + size, sizeof what - (size_t)size, "%s%s", k ? "," : "",
                         g->config.mesh.axis[s->axes[k]].name);
    snprintf(what + size, sizeof what - (size_t)size, "] %s", weft_dtype_name(v->dtype));
    line *l = find_line(t, what);
    if (!l) {
        assert_true(t->n < 64);
        l = &t->lines[t->n++];
        *l = (line){.count = 0};
        memcpy(l->what, what, sizeof what);
    }
    l->count++;
    l->bytes += weft_step_bytes(&g->config.mesh, s, before, v->n_dims, v->dims, v->dtype);
}

static void count(const weft_graph *g, traffic *t)
{
    t->n = 0;
    for (const weft_node *n = weft_graph_first(g); n; n = n->next) {
        weft_layout before = n->n_ins ? n->ins[0]->layout : (weft_layout){0};
        for (int i = 0; i < n->n_steps; i++) {
            if (n->steps[i].move < WEFT_SLICE)
                add_step(t, g, n, &n->steps[i], before);
            before = n->steps[i].after;
        }
    }
}

static void plan(planned *p, const char *axes, const char *passes, traffic *t)
{
    planned_spec spec = {.axes = axes, .passes = passes, .ini = even, .batch = BATCH, .seq = SEQ};
    if (planned_init(p, &spec))
        fail_msg("%s, %s: %s", axes, passes, weft_error_text(&p->err));
    count(p->g, t);
}

static void traffic_of(const char *axes, const char *passes, traffic *t)
{
    planned p;
    plan(&p, axes, passes, t);
    planned_release(&p);
}

static void expect(traffic *t, const char *what, int64_t n, int64_t bytes)
{
    line *l = find_line(t, what);
    if (!l)
        fail_msg("there is no %s", what);
    if (l->count != n || l->bytes != bytes)
        fail_msg("%s: %lld of %lld bytes, not %lld of %lld", what, (long long)l->count,
                 (long long)l->bytes, (long long)n, (long long)bytes);
    l->expected = true;
}

/* Nothing else runs in this scope. */
static void expect_no_more(const traffic *t, const char *scope)
{
    for (int i = 0; i < t->n; i++)
        if (!t->lines[i].expected && strncmp(t->lines[i].what, scope, strlen(scope)) == 0)
            fail_msg("there is also %s: %lld of %lld bytes", t->lines[i].what,
                     (long long)t->lines[i].count, (long long)t->lines[i].bytes);
}

/* ---- tensor parallelism ---- */

/* Of tokens [tokens, width] that each of n ranks holds an n-th of. */
static int64_t ring(int64_t tokens, int64_t width, int64_t n)
{
    return tokens * width * W * (n - 1) / n;
}

static void sequence_parallel(void **state)
{
    (void)state;
    traffic t;
    int64_t tokens = BATCH / 2 * SEQ, each = ring(tokens, D, 2), m = 2 * B + 1;
    int64_t local = (WEIGHTS - NORMS) / 2 + NORMS, gathered = local * W / 2,
            table = V * D / 2 * W / 2;
    traffic_of("tp=2 dp_shard=2", "tp fsdp", &t);
    expect(&t, "micro_batch recompute all_gather[tp] f32", 2 * B, 2 * B * each); /* inside blocks */
    expect(&t, "micro_batch forward all_gather[tp] f32", m,
           m * each); /* two a block and the head's; the embedding scatters, too */
    expect(&t, "micro_batch forward reduce_scatter[tp] f32", m, m * each);
    expect(&t, "micro_batch backward all_gather[tp] f32", m, m * each);
    expect(&t, "micro_batch backward reduce_scatter[tp] f32", m, m * each);
    expect(&t, "micro_batch forward all_reduce[tp] f32", 3,
           3 * 2 * ring(tokens, 1, 2)); /* loss parallel: maximum, sum, target */
    expect(&t, "micro_batch forward all_gather[dp_shard] f32", PARAMETERS, gathered);
    expect(&t, "micro_batch recompute all_gather[dp_shard] f32", PARAMETERS - 3,
           gathered - 2 * table -
               D * W / 2); /* the embedding is not asked for again, the head stays */
    expect(&t, "micro_batch backward reduce_scatter[dp_shard] f32", PARAMETERS, gathered);
    expect_no_more(&t, "micro_batch");
    expect(&t, "step_begin forward all_reduce[dp_shard] f32", 1,
           2 * W / 2 * 1 * 2); /* how many tokens */
    expect_no_more(&t, "step_begin");
    /* Norm weights are open over tp, too; then the norm in one; the loss. */
    expect(&t, "step_end update all_reduce[tp] f32", 2 * B + 1, (2 * B + 1) * D / 2 * W);
    expect(&t, "step_end update all_reduce[tp,dp_shard] f32", 1, 2 * 3 * W);
    expect(&t, "step_end update all_reduce[dp_shard] f32", 1, 2 * W);
    expect_no_more(&t, "step_end");
}

/* Full recomputation repeats two gathers and one reduce_scatter a block: nobody asks for a block's
 * last product. */
static void recomputation(void **state)
{
    (void)state;
    traffic plain, full, op;
    int64_t each = ring(BATCH / 2 * SEQ, D, 2);
    traffic_of("tp=2 dp_shard=2", "tp:regather=no fsdp", &plain);
    traffic_of("tp=2 dp_shard=2", "tp fsdp ac", &full); /* nothing is left for regather to mark */
    traffic_of("tp=2 dp_shard=2", "tp:regather=no fsdp ac:mode=op", &op);
    expect(&full, "micro_batch recompute all_gather[tp] f32", 2 * B, 2 * B * each);
    expect(&full, "micro_batch recompute reduce_scatter[tp] f32", B, B * each);
    for (int i = 0; i < plain.n; i++)
        expect(&full, plain.lines[i].what, plain.lines[i].count, plain.lines[i].bytes);
    expect_no_more(&full, "");
    /* Products are kept, in the layout they were read in; of their open sums only what a recomputed
     * residual asks for closes again. */
    expect(&op, "micro_batch recompute reduce_scatter[tp] f32", B, B * each);
    assert_null(find_line(&op, "micro_batch recompute all_gather[tp] f32"));
}

static void no_sequence_parallel(void **state)
{
    (void)state;
    traffic t;
    int64_t all = 2 * ring(BATCH * SEQ, D, 2), m = 2 * B + 1;
    traffic_of("tp=2", "tp:sequence_parallel=no", &t);
    expect(&t, "micro_batch forward all_reduce[tp] f32", m + 3,
           m * all + 3 * 2 * ring(BATCH * SEQ, 1, 2));
    expect(&t, "micro_batch backward all_reduce[tp] f32", m, m * all);
    expect_no_more(&t, "micro_batch");
    /* In bf16 activations travel in bf16, statistics of the loss in f32. */
    traffic_of("tp=2", "bf16 tp:sequence_parallel=no", &t);
    expect(&t, "micro_batch forward all_reduce[tp] bf16", m, m * all / 2);
    expect(&t, "micro_batch backward all_reduce[tp] bf16", m, m * all / 2);
    expect(&t, "micro_batch forward all_reduce[tp] f32", 3, 3 * 2 * ring(BATCH * SEQ, 1, 2));
    expect_no_more(&t, "micro_batch");
    /* Whole logits are gathered instead. */
    traffic_of("tp=2", "tp:loss_parallel=no", &t);
    expect(&t, "micro_batch forward all_gather[tp] f32", m + 1,
           m * all / 2 + ring(BATCH * SEQ, V, 2));
    assert_null(find_line(&t, "micro_batch forward all_reduce[tp] f32"));
}

/* ---- data and context parallelism ---- */

static void context_parallel(void **state)
{
    (void)state;
    traffic t;
    int64_t tokens = BATCH / 2 * SEQ, kv = ring(tokens, KV, 2);
    traffic_of("cp=2 dp_shard=2", "cp fsdp", &t);
    expect(&t, "micro_batch forward all_gather[cp] f32", 2 * B, 2 * B * kv);
    expect(&t, "micro_batch forward all_gather[cp] i32", 1,
           ring(tokens, 1, 2)); /* segments of keys, once for all blocks */
    expect(&t, "micro_batch backward reduce_scatter[cp] f32", 2 * B, 2 * B * kv);
    expect(&t, "micro_batch backward reduce_scatter[dp_shard,cp] f32", PARAMETERS,
           WEIGHTS / 4 * 3 * W);
    expect(&t, "micro_batch forward all_gather[dp_shard,cp] f32", PARAMETERS, WEIGHTS / 4 * 3 * W);
    expect(&t, "micro_batch recompute all_gather[dp_shard,cp] f32", PARAMETERS - 3,
           (WEIGHTS - 2 * V * D - D) / 4 * 3 * W);
    expect_no_more(&t, "micro_batch");
    /* Recomputed blocks gather keys again, but not what belongs to no block. */
    traffic_of("cp=2 dp_shard=2", "cp fsdp ac", &t);
    expect(&t, "micro_batch recompute all_gather[cp] f32", 2 * B, 2 * B * kv);
    expect(&t, "micro_batch forward all_gather[cp] i32", 1, ring(tokens, 1, 2));
    assert_null(find_line(&t, "micro_batch recompute all_gather[cp] i32"));
}

/* What crosses from a micro-batch to the step's end decides what runs when. */
static void zero_levels(void **state)
{
    (void)state;
    static const char *const orders[][2] = {{"fsdp:zero=1", "fsdp:zero=2"},
                                            {"fsdp:zero=1 bf16", "fsdp:zero=2 bf16"}};
    traffic t;
    int64_t bytes = WEIGHTS / 2 * W;
    for (int i = 0; i < 2; i++) {
        traffic_of("dp_shard=2", orders[i][0], &t);
        expect(&t, "step_begin forward all_gather[dp_shard] f32", PARAMETERS, bytes);
        expect(&t, "step_end backward reduce_scatter[dp_shard] f32", PARAMETERS, bytes);
        expect_no_more(&t, "micro_batch");
        traffic_of("dp_shard=2", orders[i][1], &t);
        expect(&t, "step_begin forward all_gather[dp_shard] f32", PARAMETERS, bytes);
        expect(&t, "micro_batch backward reduce_scatter[dp_shard] f32", PARAMETERS, bytes);
        expect_no_more(&t, "micro_batch");
    }
    traffic_of("dp_shard=2", "fsdp:reshard=no", &t);
    expect(&t, "micro_batch forward all_gather[dp_shard] f32", PARAMETERS, bytes);
    expect(&t, "micro_batch backward reduce_scatter[dp_shard] f32", PARAMETERS, bytes);
    expect_no_more(&t, "micro_batch");
    traffic_of("dp_shard=2", "fsdp", &t);
    expect(&t, "micro_batch forward all_gather[dp_shard] f32", PARAMETERS, bytes);
    expect(&t, "micro_batch recompute all_gather[dp_shard] f32", PARAMETERS - 3,
           bytes - (2 * V * D + D) / 2 * W);
    expect(&t, "micro_batch backward reduce_scatter[dp_shard] f32", PARAMETERS, bytes);
    expect_no_more(&t, "micro_batch");
    traffic_of("dp_replicate=2", "fsdp:zero=0", &t);
    expect_no_more(&t, "micro_batch");
    /* HSDP: the shard is summed over the copies once a step. */
    traffic_of("dp_shard=2 dp_replicate=2", "fsdp", &t);
    expect(&t, "micro_batch forward all_gather[dp_shard] f32", PARAMETERS, bytes);
    expect(&t, "micro_batch recompute all_gather[dp_shard] f32", PARAMETERS - 3,
           bytes - (2 * V * D + D) / 2 * W);
    expect(&t, "micro_batch backward reduce_scatter[dp_shard] f32", PARAMETERS, bytes);
    expect_no_more(&t, "micro_batch");
    expect(&t, "step_end update all_reduce[dp_replicate] f32", PARAMETERS, 2 * WEIGHTS / 2 / 2 * W);
}

/* All of a gradient's traffic, when it settles in the cuts of its value: 8B, two blocks, tp 2, cp
 * 4, dp 2. */
static void settled_traffic(void **state)
{
    (void)state;
    enum {
        L = 2,
        E = 4096,
        H = 4096,
        K = 1024,
        F = 14336,
        VOCAB = 128256,
        SAMPLES = 16,
        PLACES = 8192
    };
    planned p;
    traffic t;
    planned_spec spec = {.axes = "tp=2 cp=4 dp_shard=2",
                         .passes = "bf16 tp cp fsdp",
                         .ini = "flavor = 8B\nn_layers = 2\n",
                         .batch = SAMPLES,
                         .seq = PLACES,
                         .chunk = 1 << 30};
    assert_int_equal(planned_init(&p, &spec), WEFT_OK);
    count(p.g, &t);
    int64_t here = (int64_t)SAMPLES / 2 * PLACES / 4; /* tokens of one tp group */
    int64_t residual = here * E * 2 / 2, keys = here * 4 * K / 2 * 2 * 3 / 4,
            norms = (2 * L + 1) * E;
    int64_t matrices =
        ((int64_t)2 * VOCAB * E + (int64_t)L * (2 * H * E + 2 * K * E + 3 * F * E)) / 2;
    expect(&t, "micro_batch backward all_gather[tp] bf16", 2 * L + 1, (2 * L + 1) * residual);
    expect(&t, "micro_batch backward reduce_scatter[tp] bf16", 2 * L + 1, (2 * L + 1) * residual);
    expect(&t, "micro_batch backward reduce_scatter[cp] bf16", 2 * L, 2 * L * keys);
    expect(&t, "micro_batch backward reduce_scatter[dp_shard,cp] f32", 9 * L + 3,
           (matrices + norms) / 8 * 7 * W);
    int64_t total = 0;
    for (int i = 0; i < t.n; i++)
        if (strstr(t.lines[i].what, " backward ") || strstr(t.lines[i].what, " update "))
            total += t.lines[i].bytes;
    planned_release(&p);
    assert_int_equal(total / 1000000, 3474);
}

/* ---- what the order changes ---- */

static const weft_value *value(const planned *p, const char *name)
{
    const weft_value *v = weft_graph_find(p->g, name);
    if (!v)
        fail_msg("there is no value %s", name);
    return v;
}

static void assert_prints(const planned *p, const char *name, const char *want)
{
    const weft_value *v = value(p, name);
    weft_text t = {0};
    weft_text_add(&t, weft_dtype_name(v->dtype));
    weft_layout_print(&p->g->config.mesh, v->layout, v->n_dims, v->dims, false, &t);
    if (strcmp(weft_text_get(&t), want) != 0)
        fail_msg("%s: %s, not %s", name, weft_text_get(&t), want);
    weft_text_release(&t);
}

#define MLP  "model.layers.1.mlp."
#define NORM "model.layers.1.post_attention_layernorm.weight"

/* One MLP through bf16, tp, fsdp and ac. */
static void one_mlp(void **state)
{
    (void)state;
    static const char *const layouts[][2] = {
        {MLP "gate_proj.weight", "f32[ffn/tp/dp_shard, embed]"},
        {MLP "gate_proj.weight.c", "bf16[ffn/tp/dp_shard, embed]"},
        {MLP "gate_proj.weight.c.g", "bf16[ffn/tp, embed]"},
        {"b1.n2", "bf16[batch/dp_shard, seq/tp, embed]"},
        {"b1.n2.r", "bf16[batch/dp_shard, seq, embed]"},
        {"b1.g", "bf16[batch/dp_shard, seq, ffn/tp]"},
        {"b1.u", "bf16[batch/dp_shard, seq, ffn/tp]"},
        {"b1.a", "bf16[batch/dp_shard, seq, ffn/tp]"},
        {"b1.d", "bf16[batch/dp_shard, seq, embed] +tp"},
        {"b1.d.r", "bf16[batch/dp_shard, seq/tp, embed]"},
        {"b1.y", "bf16[batch/dp_shard, seq/tp, embed]"},
        {"b1.a'", "bf16[batch/dp_shard, seq, ffn/tp]"},
        {"b1.g'", "bf16[batch/dp_shard, seq, ffn/tp]"},
        {"b1.u'", "bf16[batch/dp_shard, seq, ffn/tp]"},
        {MLP "down_proj.weight.c.g'", "f32[embed, ffn/tp] +dp_shard"},
        {MLP "down_proj.weight.c.g'.r", "f32[embed/dp_shard, ffn/tp]"},
        {MLP "gate_proj.weight.c.g'", "f32[ffn/tp, embed] +dp_shard"},
        {"b1.n2.r'", "bf16[batch/dp_shard, seq, embed] +tp"},
        {NORM ".g'", "f32[embed] +tp +dp_shard"},
        {NORM ".g'.r", "f32[embed/dp_shard] +tp"},
    };
    static const char *const again[] = {"b1.n2*", "b1.n2.r*", "b1.g*",
                                        "b1.u*",  "b1.a*",    MLP "gate_proj.weight.c.g*",
                                        "b1.q*",  "b1.h*"};
    static const char *const never[] = {"b1.d*", "b1.y*", "b1.d.r*", MLP "gate_proj.weight.c*",
                                        "x*"};
    planned p;
    traffic t;
    plan(&p, "tp=2 dp_shard=2", "bf16 tp fsdp ac", &t);
    for (size_t i = 0; i < sizeof layouts / sizeof layouts[0]; i++)
        assert_prints(&p, layouts[i][0], layouts[i][1]);
    for (size_t i = 0; i < sizeof again / sizeof again[0]; i++)
        assert_int_equal(value(&p, again[i])->node->phase, WEFT_RECOMPUTE);
    for (size_t i = 0; i < sizeof never / sizeof never[0]; i++)
        assert_null(weft_graph_find(p.g, never[i]));
    /* The cast lets the shard pass, once a step; its gather carries bf16, every time. */
    assert_int_equal(value(&p, MLP "gate_proj.weight.c")->node->scope, WEFT_STEP_BEGIN);
    assert_int_equal(value(&p, MLP "gate_proj.weight.c.g")->node->scope, WEFT_MICRO_BATCH);
    assert_string_equal(value(&p, MLP "gate_proj.weight.c.g")->node->by, "fsdp");
    assert_string_equal(value(&p, "b1.n2.r")->node->by, "tp");
    assert_string_equal(value(&p, MLP "down_proj.weight.c.g'.r")->node->by, "fsdp");
    planned_release(&p);
    /* Listed the other way round the gather carries f32, and the cast of what was gathered is as
     * short-lived as it. */
    plan(&p, "tp=2 dp_shard=2", "fsdp tp bf16 ac", &t);
    assert_prints(&p, MLP "gate_proj.weight.g", "f32[ffn/tp, embed]");
    assert_prints(&p, MLP "gate_proj.weight.g.c", "bf16[ffn/tp, embed]");
    assert_int_equal(value(&p, MLP "gate_proj.weight.g.c")->node->scope, WEFT_MICRO_BATCH);
    assert_true(value(&p, MLP "gate_proj.weight.g.c")->recompute);
    assert_int_equal(value(&p, MLP "gate_proj.weight.g.c*")->node->phase, WEFT_RECOMPUTE);
    planned_release(&p);
}

static void same_traffic(const char *passes, const traffic *want)
{
    traffic t;
    traffic_of("tp=2 cp=2 dp_shard=2", passes, &t);
    for (int i = 0; i < want->n; i++)
        expect(&t, want->lines[i].what, want->lines[i].count, want->lines[i].bytes);
    expect_no_more(&t, "");
}

static void permute(const char *const *list, unsigned left, const char *before, const traffic *want)
{
    if (!left && strstr(before, "bf16") < strstr(before, "fsdp"))
        same_traffic(before, want);
    for (int i = 0; i < 5; i++) {
        char now[96];
        if (!(left >> i & 1u))
            continue;
        snprintf(now, sizeof now, "%s%s%s", before, *before ? " " : "", list[i]);
        permute(list, left & ~(1u << i), now, want);
    }
}

/* The places of tp, cp and ac in the list change no collective; that of bf16 and fsdp changes what
 * gathers carry. */
static void order_of_passes(void **state)
{
    (void)state;
    static const char *const list[] = {"bf16", "tp", "cp", "fsdp", "ac"};
    traffic first, second;
    traffic_of("tp=2 cp=2 dp_shard=2", "bf16 tp cp fsdp ac", &first);
    permute(list, 0x1f, "", &first);
    traffic_of("tp=2 cp=2 dp_shard=2", "fsdp tp cp bf16 ac", &second);
    const char *what = "micro_batch forward all_gather[dp_shard,cp] ";
    char narrow[96], wide[96];
    snprintf(narrow, sizeof narrow, "%sbf16", what);
    snprintf(wide, sizeof wide, "%sf32", what);
    int64_t cut = (WEIGHTS - NORMS) / 2, all = cut + NORMS;
    expect(&first, narrow, PARAMETERS - (2 * B + 1), cut / 4 * 3 * 2);
    expect(&first, wide, 2 * B + 1, NORMS / 4 * 3 * W);
    assert_null(find_line(&second, narrow));
    expect(&second, wide, PARAMETERS, all / 4 * 3 * W);
    /* Gradients of weights are sums over tokens: f32 either way. */
    expect(&first, "micro_batch backward reduce_scatter[dp_shard,cp] f32", PARAMETERS,
           all / 4 * 3 * W);
    expect(&second, "micro_batch backward reduce_scatter[dp_shard,cp] f32", PARAMETERS,
           all / 4 * 3 * W);
}

/* ---- what is kept, what crosses ---- */

/* Forward values of a micro-batch that wait for the backward. */
static bool waits(const weft_value *v)
{
    bool read = false;
    for (int i = 0; i < v->n_uses; i++)
        read = read || v->uses[i].node->phase == WEFT_BACKWARD ||
               v->uses[i].node->phase == WEFT_RECOMPUTE;
    return read && v->node->phase == WEFT_FORWARD && v->node->scope == WEFT_MICRO_BATCH;
}

static void what_is_kept(void **state)
{
    (void)state;
    static const char *const passes[] = {"tp fsdp:reshard=no ac bf16", "ac tp bf16 fsdp:reshard=no",
                                         "tp fsdp ac bf16", "bf16 ac fsdp tp"};
    for (int i = 0; i < 4; i++) {
        planned p;
        traffic t;
        plan(&p, "tp=2 dp_shard=2", passes[i], &t);
        int inside = 0, weights = 0;
        for (const weft_node *n = weft_graph_first(p.g); n; n = n->next) {
            for (int r = 0; r < n->n_outs; r++) {
                const weft_value *v = n->outs[r];
                if (!waits(v))
                    continue;
                weights += v->weight && n->block >= 0; /* the head's wait a moment only */
                inside += n->block == 1 && !v->weight;
                if (n->block == 1 && !v->weight)
                    assert_string_equal(v->name, "b1.y"); /* what leaves the block */
            }
        }
        assert_int_equal(inside, 1);
        /* Without reshard every gathered weight waits, whatever ac does; with it none does, in
         * either order of bf16 and fsdp. */
        assert_int_equal(weights > 0, i < 2);
        assert_int_equal(find_line(&t, "micro_batch recompute all_gather[dp_shard] bf16") ||
                             find_line(&t, "micro_batch recompute all_gather[dp_shard] f32"),
                         i >= 2);
        planned_release(&p);
    }
}

static int place_of(int block)
{
    return block == WEFT_BLOCK_EMBEDDING ? -1 : block == WEFT_BLOCK_HEAD ? B : block;
}

/* Between any two blocks exactly one value passes forward, and its gradient back: where a pipeline
 * cuts. */
static void one_value_crosses(void **state)
{
    (void)state;
    static const char *const passes[] = {"bf16 tp cp fsdp", "bf16 tp cp fsdp ac"};
    for (int i = 0; i < 2; i++) {
        planned p;
        traffic t;
        const weft_value *forward[B + 1] = {NULL}, *back[B + 1] = {NULL};
        plan(&p, "tp=2 cp=2 dp_shard=2", passes[i], &t);
        for (const weft_node *n = weft_graph_first(p.g); n; n = n->next) {
            for (int k = 0; k < n->n_ins; k++) {
                const weft_value *v = n->ins[k];
                int from = v->node->block, to = n->block;
                if (n->scope != WEFT_MICRO_BATCH || from == to || from == WEFT_BLOCK_NONE ||
                    to == WEFT_BLOCK_NONE)
                    continue;
                const weft_value **seen =
                    place_of(from) < place_of(to) ? &forward[place_of(to)] : &back[place_of(from)];
                assert_int_equal(abs(place_of(to) - place_of(from)), 1);
                if (*seen && *seen != v)
                    fail_msg("%s and %s both pass to block %d", (*seen)->name, v->name, to);
                *seen = v;
                assert_prints(&p, v->name, "bf16[batch/dp_shard, seq/cp/tp, embed]");
            }
        }
        for (int k = 0; k <= B; k++)
            assert_true(forward[k] && back[k]);
        planned_release(&p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sequence_parallel),
        cmocka_unit_test(recomputation),
        cmocka_unit_test(no_sequence_parallel),
        cmocka_unit_test(context_parallel),
        cmocka_unit_test(zero_levels),
        cmocka_unit_test(settled_traffic),
        cmocka_unit_test(one_mlp),
        cmocka_unit_test(order_of_passes),
        cmocka_unit_test(what_is_kept),
        cmocka_unit_test(one_value_crosses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
