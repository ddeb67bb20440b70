/* SPDX-License-Identifier: Apache-2.0 */
#include "sim.h"

#include <setjmp.h>
#include <string.h>
#include <weft/random.h>
/* last: it needs the headers above */
#include <cmocka.h>

static weft_tensor *parts_of(const sim *s, const weft_value *v)
{
    return &s->parts[v->id * s->ranks];
}

/* Memory for all ranks' parts of a value, the first time. */
static void allocate(sim *s, const weft_value *v)
{
    weft_tensor *parts = parts_of(s, v);
    if (parts[0].data)
        return;
    weft_dtype dtype = weft_dtype_is_float(v->dtype) ? WEFT_F64 : v->dtype;
    for (int r = 0; r < s->ranks; r++) {
        parts[r] = sim_local(&s->g->config.mesh, v->layout, v->n_dims, v->dims, dtype, r);
        sim_allocate(&parts[r], &s->pool);
    }
}

/* ---- what the run gives: parameters and data ---- */

typedef double (*number)(const sim *s, const weft_value *v, const int64_t at[WEFT_MAX_DIMS],
                         int64_t micro);

/* Every rank takes its part of the global tensor. */
static void fill(sim *s, const weft_value *v, number f, int64_t micro)
{
    weft_pool scratch = {0};
    weft_tensor all =
        sim_local(&s->g->config.mesh, (weft_layout){0}, v->n_dims, v->dims, WEFT_F64, 0);
    allocate(s, v);
    all.dtype = parts_of(s, v)[0].dtype;
    sim_allocate(&all, &scratch);
    for (int64_t i = 0; i < weft_tensor_count(&all); i++) {
        int64_t at[WEFT_MAX_DIMS], rest = i;
        for (int d = all.n_dims - 1; d >= 0; d--) {
            at[d] = rest % all.size[d];
            rest /= all.size[d];
        }
        weft_tensor_set(&all, i, f(s, v, at, micro));
    }
    for (int r = 0; r < s->ranks; r++)
        sim_paste(&parts_of(s, v)[r], &all, SIM_SET);
    weft_pool_release(&scratch);
}

/* A function of the name and the global index; weights of norms lie around 1. */
static double parameter(const sim *s, const weft_value *v, const int64_t at[WEFT_MAX_DIMS],
                        int64_t micro)
{
    uint64_t index = 0;
    (void)micro;
    for (int d = 0; d < v->n_dims; d++)
        index = index * (uint64_t)v->dims[d].size + (uint64_t)at[d];
    double x =
        0.3 * weft_normal_inverse(weft_random_uniform(s->seed, weft_hash_name(v->name), index));
    return v->init.kind == WEFT_INIT_ONE ? 1 + x : x;
}

static double nothing(const sim *s, const weft_value *v, const int64_t at[WEFT_MAX_DIMS],
                      int64_t micro)
{
    (void)s, (void)v, (void)at, (void)micro;
    return 0;
}

enum { IDS = 1, LABELS, DOCUMENTS };

/* Place `k` of sample `n`: the same on every mesh and for every cut in micro-batches. */
static uint64_t bits(const sim *s, uint64_t stream, int64_t n, int64_t k)
{
    return weft_random_bits(s->seed, stream, (uint64_t)(n * 1000 + k));
}

static int64_t label(const sim *s, int64_t n, int64_t k, int64_t vocab)
{
    uint64_t x = bits(s, LABELS, n, k);
    return x % 5 == 0 ? -1 : (int64_t)(x / 5 % (uint64_t)vocab);
}

/* Documents of a sample are packed: which one place k is in, and where that begins. */
static int64_t segment_of(const sim *s, int64_t n, int64_t k, int64_t *start)
{
    int64_t segment = 0;
    *start = 0;
    for (int64_t i = 1; i <= k; i++) {
        if (bits(s, DOCUMENTS, n, i) % 5)
            continue;
        segment++;
        *start = i;
    }
    return segment;
}

/* The label `shift` places behind place k, in the same document. */
static int64_t label_behind(const sim *s, int64_t n, int64_t k, int64_t shift, int64_t vocab)
{
    int64_t unused;
    if (k + shift >= s->g->config.sizes.seq_len ||
        segment_of(s, n, k, &unused) != segment_of(s, n, k + shift, &unused))
        return -1;
    return label(s, n, k + shift, vocab);
}

static double input(const sim *s, const weft_value *v, const int64_t at[WEFT_MAX_DIMS],
                    int64_t micro)
{
    const weft_dim *dim = weft_map_get(&s->g->dims, "vocab", 5);
    int64_t vocab = dim ? dim->size : 1, batch = s->g->config.sizes.micro_batch;
    if (strcmp(v->name, "step") == 0)
        return (double)s->step;
    if (strcmp(v->name, "index") == 0)
        return (double)at[0];
    if (strcmp(v->name, "step_labels") == 0)
        return (double)label(s, at[0] * batch + at[1], at[2], vocab);
    if (strncmp(v->name, "step_labels+", 12) == 0)
        return (double)label_behind(s, at[0] * batch + at[1], at[2], weft_input_shift(v->name),
                                    vocab);
    int64_t n = micro * batch + at[0], k = at[1], start;
    if (strcmp(v->name, "last") == 0)
        return (double)(bits(s, IDS, n, 999) % (uint64_t)s->g->config.sizes.seq_len);
    if (strcmp(v->name, "ids") == 0)
        return (double)(bits(s, IDS, n, k) % (uint64_t)vocab);
    if (strcmp(v->name, "labels") == 0)
        return (double)label(s, n, k, vocab);
    if (strncmp(v->name, "labels+", 7) == 0)
        return (double)label_behind(s, n, k, weft_input_shift(v->name), vocab);
    int64_t segment = segment_of(s, n, k, &start);
    if (strcmp(v->name, "segments") == 0)
        return (double)segment;
    assert_string_equal(v->name, "positions");
    return (double)(k - start);
}

/* ---- nodes ---- */

/* A mutation: what the node should have moved stays where it was. */
static void keep_own(sim *s, const weft_node *n)
{
    allocate(s, n->outs[0]);
    for (int r = 0; r < s->ranks; r++)
        sim_paste(&parts_of(s, n->outs[0])[r], &parts_of(s, n->ins[0])[r], SIM_SET);
}

static void redistribute(sim *s, const weft_node *n)
{
    const weft_value *v = n->outs[0];
    weft_layout before = n->ins[0]->layout;
    const weft_tensor *now = parts_of(s, n->ins[0]);
    weft_pool scratch = {0};
    allocate(s, v);
    for (int i = 0; i < n->n_steps; i++) {
        const weft_step *step = &n->steps[i];
        weft_tensor *next = parts_of(s, v);
        if (i + 1 < n->n_steps) {
            next = weft_pool_alloc(&scratch, (size_t)s->ranks * sizeof *next);
            assert_non_null(next);
            for (int r = 0; r < s->ranks; r++) {
                next[r] =
                    sim_local(&s->g->config.mesh, step->after, v->n_dims, v->dims, now[r].dtype, r);
                sim_allocate(&next[r], &scratch);
            }
        }
        sim_step(&s->g->config.mesh, step, before, now, next);
        now = next;
        before = step->after;
    }
    assert_true(n->n_steps > 0 && before.bits == v->layout.bits);
    weft_pool_release(&scratch);
}

static void compute(sim *s, const weft_node *n, bool accumulate)
{
    weft_tensor ins[WEFT_RULE_MAX_PARTS], outs[WEFT_RULE_MAX_PARTS];
    for (int i = 0; i < n->n_outs; i++)
        allocate(s, n->outs[i]);
    for (int r = 0; r < s->ranks; r++) {
        for (int i = 0; i < n->n_ins; i++) {
            ins[i] = parts_of(s, n->ins[i])[r];
            assert_non_null(ins[i].data);
        }
        for (int i = 0; i < n->n_outs; i++)
            outs[i] = parts_of(s, n->outs[i])[r];
        weft_call call = {.op = n->op,
                          .attrs = n->attrs,
                          .n_attrs = n->n_attrs,
                          .n_ins = n->n_ins,
                          .n_outs = n->n_outs,
                          .ins = ins,
                          .outs = outs,
                          .accumulate = accumulate};
        weft_error err = {0};
        if (n->op->plain(&call, &err))
            fail_msg("%s = %s on rank %d: %s", n->outs[0]->name, n->op->name, r,
                     weft_error_text(&err));
    }
}

static void run_node(sim *s, const weft_node *n, int64_t micro)
{
    if (n->steps && s->stuck && s->stuck(n))
        keep_own(s, n);
    else if (n->steps)
        redistribute(s, n);
    else if (strcmp(n->op->name, "input") == 0)
        fill(s, n->outs[0], input, micro);
    else if (!(n->op->flags & WEFT_OP_SOURCE))
        compute(s, n, micro > 0 && (n->op->flags & WEFT_OP_ACCUMULATES));
}

static void run_program(sim *s, weft_scope scope, int64_t micro)
{
    for (const weft_node *n = weft_graph_first(s->g); n; n = n->next)
        if (n->scope == scope)
            run_node(s, n, micro);
}

/* ---- the machine ---- */

void sim_init(sim *s, weft_graph *g, uint64_t seed)
{
    *s = (sim){.g = g,
               .seed = seed,
               .ranks = weft_mesh_ranks(&g->config.mesh),
               .micro_batches = g->config.sizes.micro_batches};
    s->tolerance = 1e-10; /* the order of sums may differ, nothing else */
    s->parts = weft_pool_alloc(&s->pool, (size_t)g->n_values * (size_t)s->ranks * sizeof *s->parts);
    assert_non_null(s->parts);
    for (const weft_node *n = weft_graph_first(g); n; n = n->next) {
        if (strcmp(n->op->name, "parameter") == 0)
            fill(s, n->outs[0], parameter, 0);
        else if (strcmp(n->op->name, "state") == 0)
            fill(s, n->outs[0], nothing, 0);
    }
}

void sim_release(sim *s)
{
    weft_pool_release(&s->pool);
    memset(s, 0, sizeof *s);
}

void sim_run(sim *s)
{
    s->step++;
    run_program(s, WEFT_STEP_BEGIN, 0);
    for (int64_t k = 0; k < s->micro_batches; k++)
        run_program(s, WEFT_MICRO_BATCH, k);
    run_program(s, WEFT_STEP_END, 0);
    for (const weft_node *n = weft_graph_first(s->g); n; n = n->next) {
        for (int i = 0; i < n->n_outs; i++) {
            const weft_value *v = n->outs[i], *state = v->update_of;
            for (int r = 0; state && r < s->ranks; r++)
                assert_int_equal(sim_paste(&parts_of(s, state)[r], &parts_of(s, v)[r], SIM_SET),
                                 weft_tensor_count(&parts_of(s, v)[r]));
        }
    }
}

weft_tensor sim_value(sim *s, const weft_value *v)
{
    assert_non_null(v);
    assert_non_null(parts_of(s, v)[0].data);
    return sim_assemble(&s->g->config.mesh, v->layout, v->n_dims, v->dims, parts_of(s, v),
                        s->tolerance, v->name, &s->pool);
}

double sim_scalar(sim *s, const weft_value *v)
{
    weft_tensor t = sim_value(s, v);
    assert_int_equal(t.n_dims, 0);
    return weft_tensor_get(&t, 0);
}
