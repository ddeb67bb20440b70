/* SPDX-License-Identifier: Apache-2.0 */
/* Llama 8B on 8 ranks, 70B on 256, 405B on 512, as in examples: every collective of a micro-batch
 * and of a step, in number and to the byte, against sums over the model's weights that are made
 * here, from its sizes alone. */
#include "../../lib/planned.h"
#include "print/graph.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>
/* last: it needs the headers above */
#include <cmocka.h>

typedef struct model {
    const char *flavor;
    int64_t layers, embed, heads, keys, ffn, vocab; /* heads, keys: times their width */
    int64_t tp, dp;
} model;

static const model models[] = {
    {"8B", 32, 4096, 4096, 1024, 14336, 128256, 1, 8},
    {"70B", 80, 8192, 8192, 1024, 28672, 128256, 8, 32},
    {"405B", 126, 16384, 16384, 1024, 53248, 128256, 8, 64},
};
enum { SEQ = 8192, F32 = 4, BF16 = 2 };

/* ---- what the plan has ---- */

typedef struct sums {
    int64_t count, bytes;
    bool expected;
    char what[160]; /* "micro_batch forward all_gather[tp] f32" */
} sums;

typedef struct table {
    sums list[64];
    int n;
} table;

static sums *find(table *t, const char *what)
{
    for (int i = 0; i < t->n; i++)
        if (strcmp(t->list[i].what, what) == 0)
            return &t->list[i];
    return NULL;
}

static void count_step(table *t, const weft_graph *g, const weft_node *n, const weft_step *s,
                       weft_layout before)
{
    const weft_value *v = n->outs[0];
    sums now = {.count = 1,
                .bytes = weft_step_bytes(&g->config.mesh, s, before, v->n_dims, v->dims, v->dtype)};
    int size = snprintf(now.what, sizeof now.what, "%s %s %s[", weft_scope_name(n->scope),
                        weft_phase_name(n->phase), weft_move_name(s->move));
    for (int k = 0; k < s->n_axes; k++)
        size += snprintf(now.what + size, sizeof now.what - (size_t)size, "%s%s", k ? "," : "",
                         g->config.mesh.axis[s->axes[k]].name);
    snprintf(now.what + size, sizeof now.what - (size_t)size, "] %s", weft_dtype_name(v->dtype));
    sums *there = find(t, now.what);
    if (there) {
        there->count++;
        there->bytes += now.bytes;
        return;
    }
    assert_true(t->n < 64);
    t->list[t->n++] = now;
}

/* Returns how many chunks the head has. */
static int64_t count(const weft_graph *g, table *t)
{
    int chunks = 1;
    for (const weft_node *n = weft_graph_first(g); n; n = n->next) {
        weft_layout before = n->n_ins ? n->ins[0]->layout : (weft_layout){0};
        chunks = n->chunk >= chunks ? n->chunk + 1 : chunks;
        for (int i = 0; i < n->n_steps; before = n->steps[i++].after)
            if (n->steps[i].move < WEFT_SLICE)
                count_step(t, g, n, &n->steps[i], before);
    }
    return chunks;
}

static void expect(table *t, const char *what, int64_t n, int64_t bytes)
{
    sums *s = find(t, what);
    if (!s)
        fail_msg("there is no %s", what);
    if (s->count != n || s->bytes != bytes)
        fail_msg("%s: %lld of %lld bytes, not %lld of %lld", what, (long long)s->count,
                 (long long)s->bytes, (long long)n, (long long)bytes);
    s->expected = true;
}

/* ---- what it should have ---- */

/* A rank's share of a ring over n ranks: (n - 1) / n of `bytes`. */
static int64_t ring(int64_t bytes, int64_t n)
{
    assert_int_equal(bytes % n, 0);
    return bytes / n * (n - 1);
}

/* Elements of a block's seven matrices, of all ranks together. */
static int64_t block_matrices(const model *m)
{
    return m->embed * (2 * m->heads + 2 * m->keys + 3 * m->ffn);
}

/* Weights: once for the forward, in the copies' dtype; again for the backward, but for embedding,
 * head and the norm before it; reduced in f32. */
static void expect_weights(table *t, const model *m)
{
    int64_t l = m->layers, blocks = l * block_matrices(m) / m->tp,
            table_size = m->vocab * m->embed / m->tp;
    expect(t, "micro_batch forward all_gather[dp_shard] bf16", 7 * l + 2,
           ring((blocks + 2 * table_size) * BF16, m->dp));
    expect(t, "micro_batch forward all_gather[dp_shard] f32", 2 * l + 1,
           ring((2 * l + 1) * m->embed * F32, m->dp));
    expect(t, "micro_batch recompute all_gather[dp_shard] bf16", 7 * l, ring(blocks * BF16, m->dp));
    expect(t, "micro_batch recompute all_gather[dp_shard] f32", 2 * l,
           ring(2 * l * m->embed * F32, m->dp));
    expect(t, "micro_batch backward reduce_scatter[dp_shard] f32", 9 * l + 3,
           ring((blocks + 2 * table_size + (2 * l + 1) * m->embed) * F32, m->dp));
}

/* Activations of one sample a group: two pairs a block and one for embedding and head, there and
 * back; half of the pairs once more to recompute. */
static void expect_activations(table *t, const model *m, int64_t chunks)
{
    int64_t l = m->layers, each = ring(SEQ * m->embed * BF16, m->tp), pairs = 2 * l + 1;
    expect(t, "micro_batch forward all_gather[tp] bf16", 2 * l + chunks, pairs * each);
    expect(t, "micro_batch forward reduce_scatter[tp] bf16", pairs, pairs * each);
    expect(t, "micro_batch recompute all_gather[tp] bf16", 2 * l, 2 * l * each);
    expect(t, "micro_batch recompute reduce_scatter[tp] bf16", l, l * each);
    expect(t, "micro_batch backward all_gather[tp] bf16", pairs, pairs * each);
    expect(t, "micro_batch backward reduce_scatter[tp] bf16", 2 * l + chunks, pairs * each);
    expect(t, "micro_batch forward all_reduce[tp] f32", 3 * chunks,
           3 * 2 * ring(SEQ * F32, m->tp)); /* maximum, sum and target of the loss */
}

/* Single numbers: each of n ranks sends one twice to n - 1 others. */
static int64_t scalar(int64_t n)
{
    return 2 * (n - 1) * F32;
}

static void expect_step(table *t, const model *m)
{
    expect(t, "step_begin forward all_reduce[dp_shard] f32", 1,
           scalar(m->dp)); /* how many tokens */
    if (m->tp == 1) {
        expect(t, "step_end update all_reduce[dp_shard] f32", 2,
               2 * scalar(m->dp)); /* norm, loss */
        return;
    }
    expect(t, "step_end update all_reduce[dp_shard] f32", 1, scalar(m->dp));
    expect(t, "step_end update all_reduce[tp,dp_shard] f32", 1, scalar(m->tp * m->dp));
    expect(t, "step_end update all_reduce[tp] f32", 2 * m->layers + 1,
           (2 * m->layers + 1) * 2 * ring(m->embed / m->dp * F32, m->tp)); /* norms */
}

/* What a rank holds of parameters, from their layouts. */
static int64_t held(const weft_graph *g)
{
    int64_t total = 0;
    for (int i = 0; weft_graph_parameter(g, i); i++) {
        const weft_value *v = weft_graph_parameter(g, i);
        total += weft_layout_elements(&g->config.mesh, v->layout, v->n_dims, v->dims);
    }
    return total;
}

static void everything_is_sent_once(void **state)
{
    const model *m = *state;
    char axes[64], passes[64], ini[64];
    planned p;
    table t = {.n = 0};
    snprintf(axes, sizeof axes, "tp=%d dp_shard=%d", (int)m->tp, (int)m->dp);
    snprintf(passes, sizeof passes, "bf16 %sfsdp ac", m->tp > 1 ? "tp " : "");
    snprintf(ini, sizeof ini, "flavor = %s\nrope_scaling = yes\n", m->flavor);
    const planned_spec spec = {
        .axes = axes, .passes = passes, .ini = ini, .batch = m->dp, .seq = SEQ};
    if (planned_init(&p, &spec))
        fail_msg("%s: %s", m->flavor, weft_error_text(&p.err));
    int64_t chunks = count(p.g, &t);
    int64_t matrices = m->layers * block_matrices(m) + 2 * m->vocab * m->embed,
            norms = (2 * m->layers + 1) * m->embed;
    assert_int_equal(held(p.g), (matrices / m->tp + norms) / m->dp);
    planned_release(&p);
    expect_weights(&t, m);
    if (m->tp > 1)
        expect_activations(&t, m, chunks);
    expect_step(&t, m);
    for (int i = 0; i < t.n; i++)
        if (!t.list[i].expected)
            fail_msg("%s: there is also %s: %lld of %lld bytes", m->flavor, t.list[i].what,
                     (long long)t.list[i].count, (long long)t.list[i].bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(everything_is_sent_once, (void *)(uintptr_t)&models[0]),
        cmocka_unit_test_prestate(everything_is_sent_once, (void *)(uintptr_t)&models[1]),
        cmocka_unit_test_prestate(everything_is_sent_once, (void *)(uintptr_t)&models[2]),
    };
    return cmocka_run_group_tests_name("scale", tests, NULL, NULL);
}
