/* SPDX-License-Identifier: Apache-2.0 */
/* Grouped-query attention with causality by `index` and document masks by `segments`; neither is
 * ever taken from the order in memory. full_attention is the same without both: every place sees
 * every other. */
#include "ops.h"

#include <math.h>

enum { Q, K, V, INDEX_Q, INDEX_K, SEGMENTS_Q, SEGMENTS_K };

/* Are some places hidden from others? */
static bool hides(const weft_call *call)
{
    return call->n_ins > SEGMENTS_K;
}

/* The last operands of a gradient. */
static const weft_tensor *out_of(const weft_call *call)
{
    return &call->ins[call->n_ins - 3];
}

static const weft_tensor *lse_of(const weft_call *call)
{
    return &call->ins[call->n_ins - 2];
}

static const weft_tensor *dout_of(const weft_call *call)
{
    return &call->ins[call->n_ins - 1];
}

/* Sizes of a call; heads are this rank's. */
typedef struct shape {
    int64_t batch, queries, keys, heads, kv_heads, d;
    double scale;
    bool causal;
} shape;

static shape shape_of(const weft_call *call)
{
    const weft_tensor *q = &call->ins[Q], *k = &call->ins[K];
    int64_t d = q->grain[2];
    double scale = weft_call_real(call, "scale");
    return (shape){
        .batch = q->size[0],
        .queries = q->size[1],
        .keys = k->size[1],
        .heads = q->size[2] / d,
        .kv_heads = k->size[2] / d,
        .d = d,
        .scale = scale != 0.0 ? scale : 1.0 / sqrt((double)d),
        .causal =
            hides(call) && (!weft_call_has(call, "causal") || weft_call_int(call, "causal") != 0),
    };
}

/* The local kv head that a local q head reads: by global numbers, since a shard may begin inside of
 * a group's heads. */
static int64_t kv_head_of(const weft_call *call, const shape *s, int64_t head)
{
    const weft_tensor *q = &call->ins[Q], *k = &call->ins[K];
    int64_t group = q->whole[2] / k->whole[2];
    return (q->lo[2] / s->d + head) / group - k->lo[2] / s->d;
}

static int64_t at_q(const shape *s, int64_t b, int64_t i, int64_t head)
{
    return ((b * s->queries + i) * s->heads + head) * s->d;
}

static int64_t at_k(const shape *s, int64_t b, int64_t j, int64_t head)
{
    return ((b * s->keys + j) * s->kv_heads + head) * s->d;
}

static bool sees(const weft_call *call, const shape *s, int64_t b, int64_t i, int64_t j)
{
    if (!hides(call))
        return true;
    if (s->causal && op_get_int(&call->ins[INDEX_K], j) > op_get_int(&call->ins[INDEX_Q], i))
        return false;
    return op_get_int(&call->ins[SEGMENTS_Q], b * s->queries + i) ==
           op_get_int(&call->ins[SEGMENTS_K], b * s->keys + j);
}

static double dot(const weft_tensor *a, int64_t at_a, const weft_tensor *b, int64_t at_b, int64_t n)
{
    double sum = 0.0;
    for (int64_t c = 0; c < n; c++)
        sum += op_get(a, at_a + c) * op_get(b, at_b + c);
    return sum;
}

/* One query row: p[j] = exp(score - max) (0 where unseen); gives the sum of p, and the maximum. */
static double row_weights(const weft_call *call, const shape *s, int64_t b, int64_t i, int64_t head,
                          int64_t kv, double *p, double *max)
{
    double sum = 0.0;

    *max = -INFINITY;
    for (int64_t j = 0; j < s->keys; j++) {
        p[j] = -INFINITY;
        if (sees(call, s, b, i, j))
            p[j] = s->scale *
                   dot(&call->ins[Q], at_q(s, b, i, head), &call->ins[K], at_k(s, b, j, kv), s->d);
        *max = p[j] > *max ? p[j] : *max;
    }
    for (int64_t j = 0; j < s->keys; j++) {
        p[j] = p[j] == -INFINITY ? 0.0 : exp(p[j] - *max);
        sum += p[j];
    }
    return sum;
}

static weft_status attention_plain(const weft_call *call, weft_error *err)
{
    shape s = shape_of(call);
    double *p = weft_alloc_zero((size_t)s.keys, sizeof(*p));

    if (!p)
        return weft_fail_memory(err);
    for (int64_t row = 0; row < s.batch * s.queries * s.heads; row++) {
        int64_t head = row % s.heads, i = row / s.heads % s.queries, b = row / s.heads / s.queries,
                kv = kv_head_of(call, &s, head);
        double max, sum = row_weights(call, &s, b, i, head, kv, p, &max);
        for (int64_t c = 0; c < s.d; c++) {
            double out = 0.0;
            for (int64_t j = 0; j < s.keys; j++)
                if (p[j] > 0.0)
                    out += p[j] * op_get(&call->ins[V], at_k(&s, b, j, kv) + c);
            op_put(call, row * s.d + c, sum > 0.0 ? out / sum : 0.0);
        }
        weft_tensor_set(&call->outs[1], row, sum > 0.0 ? max + log(sum) : -INFINITY);
    }
    weft_free(p);
    return WEFT_OK;
}

/* ---- backward ---- */

/* Sums in f64 of one (batch row, kv head): dk and dv [keys d], and dq [d] of the query row at hand.
 */
typedef struct sums {
    double *dq, *dk, *dv;
} sums;

/* p = exp(score - lse); dv += p dout; ds = p (dout.v - dout.out) scale; dq += ds k; dk += ds q */
static void backward_row(const weft_call *call, const shape *s, int64_t b, int64_t i, int64_t head,
                         int64_t kv, sums t)
{
    const weft_tensor *q = &call->ins[Q], *k = &call->ins[K], *dout = dout_of(call);
    int64_t q0 = at_q(s, b, i, head);
    double lse = op_get(lse_of(call), q0 / s->d), delta = dot(dout, q0, out_of(call), q0, s->d);

    for (int64_t j = 0; j < s->keys; j++) {
        int64_t k0 = at_k(s, b, j, kv);
        double p, ds;
        if (!sees(call, s, b, i, j))
            continue;
        p = exp(s->scale * dot(q, q0, k, k0, s->d) - lse);
        ds = p * (dot(dout, q0, &call->ins[V], k0, s->d) - delta) * s->scale;
        for (int64_t c = 0; c < s->d; c++) {
            t.dq[c] += ds * op_get(k, k0 + c);
            t.dk[j * s->d + c] += ds * op_get(q, q0 + c);
            t.dv[j * s->d + c] += p * op_get(dout, q0 + c);
        }
    }
}

static void backward_head(const weft_call *call, const shape *s, int64_t b, int64_t kv, sums t)
{
    for (int64_t n = 0; n < s->keys * s->d; n++)
        t.dk[n] = t.dv[n] = 0.0;
    for (int64_t head = 0; head < s->heads; head++) {
        if (kv_head_of(call, s, head) != kv)
            continue;
        for (int64_t i = 0; i < s->queries; i++) {
            for (int64_t c = 0; c < s->d; c++)
                t.dq[c] = 0.0;
            backward_row(call, s, b, i, head, kv, t);
            for (int64_t c = 0; c < s->d; c++)
                op_put(call, at_q(s, b, i, head) + c, t.dq[c]);
        }
    }
    for (int64_t n = 0; n < s->keys * s->d; n++) {
        int64_t to = at_k(s, b, n / s->d, kv) + n % s->d;
        weft_tensor_set(&call->outs[1], to, t.dk[n]);
        weft_tensor_set(&call->outs[2], to, t.dv[n]);
    }
}

static weft_status attention_dx_plain(const weft_call *call, weft_error *err)
{
    shape s = shape_of(call);
    size_t per_head = (size_t)(s.keys * s.d);
    double *all = weft_alloc_zero(2 * per_head + (size_t)s.d, sizeof(*all));
    sums t;

    if (!all)
        return weft_fail_memory(err);
    t = (sums){.dk = all, .dv = all + per_head, .dq = all + 2 * per_head};
    for (int64_t b = 0; b < s.batch; b++)
        for (int64_t kv = 0; kv < s.kv_heads; kv++)
            backward_head(call, &s, b, kv, t);
    weft_free(all);
    return WEFT_OK;
}

/* ---- steps of a ring ---- */

/* Of softmax over two sets of keys, what softmax over all of them is: with l = log(e^a + e^b) of
 * the two log-sum-exps, out = e^(a - l) x + e^(b - l) y. Who saw no key has none to give. */
static weft_status merge_plain(const weft_call *call, weft_error *err)
{
    const weft_tensor *x = &call->ins[0], *y = &call->ins[2], *lse = &call->outs[1];
    int64_t rows = weft_tensor_count(lse), d = rows ? weft_tensor_count(x) / rows : 0;
    (void)err;
    for (int64_t r = 0; r < rows; r++) {
        double a = op_get(&call->ins[1], r), b = op_get(&call->ins[3], r), most = a > b ? a : b,
               l = most == -INFINITY ? most : most + log(exp(a - most) + exp(b - most)),
               p = a == -INFINITY ? 0 : exp(a - l), q = b == -INFINITY ? 0 : exp(b - l);
        if (isnan(a) || isnan(b))
            l = p = q = NAN;
        for (int64_t c = 0; c < d; c++)
            op_put(call, r * d + c, p * op_get(x, r * d + c) + q * op_get(y, r * d + c));
        weft_tensor_set(lse, r, l);
    }
    return WEFT_OK;
}

/* ---- the table ---- */

/* Products of [queries d] with [keys d], one per head; causality is not counted. */
static double products(const weft_call *call)
{
    return 2.0 * (double)weft_tensor_count(&call->ins[Q]) * (double)call->ins[K].size[1];
}

static double attention_flops(const weft_call *call)
{
    return 2.0 * products(call);
}

static double attention_dx_flops(const weft_call *call)
{
    return 5.0 * products(call);
}

static weft_status attention_infer(weft_graph *graph, weft_node *node, weft_error *err)
{
    const weft_value *q = node->ins[Q], *k = node->ins[K], *v = node->ins[V];
    weft_value *lse = node->outs[1];
    const weft_dim *hq = &q->dims[2], *hk = &k->dims[2], *hv = &v->dims[2];

    (void)graph;
    if (q->n_dims != 3 || k->n_dims != 3 || v->n_dims != 3)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "attention of %s: q, k and v must be [batch seq heads]", q->name);
    if (hq->grain != hk->grain || hk->grain != hv->grain || hk->size != hv->size || hk->size == 0 ||
        hq->size % hk->size != 0)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "attention of %s: %lld heads of %lld share %lld heads of %lld; the number "
                         "of q heads must be a multiple of the kv heads and "
                         "all must have one size",
                         q->name, (long long)(hq->size / hq->grain), (long long)hq->grain,
                         (long long)(hk->size / hk->grain), (long long)hk->grain);
    op_infer_like(node, 0, q);
    op_infer_like(node, 1, q);
    lse->dims[2].size = hq->size / hq->grain;
    lse->dims[2].grain = 1;
    lse->dtype = q->dtype == WEFT_F64 ? WEFT_F64 : WEFT_F32;
    return WEFT_OK;
}

static weft_status attention_dx_infer(weft_graph *graph, weft_node *node, weft_error *err)
{
    (void)graph, (void)err;
    for (int i = 0; i < 3; i++)
        op_infer_like(node, i, node->ins[i]);
    return WEFT_OK;
}

static weft_status merge_infer(weft_graph *graph, weft_node *node, weft_error *err)
{
    (void)graph, (void)err;
    op_infer_like(node, 0, node->ins[0]);
    op_infer_like(node, 1, node->ins[1]);
    return WEFT_OK;
}

/* Keys, values and what is known of each travel; a query sees all of them in the end. */
static const weft_ring ring = {
    .rule = "b s h, b s h, b s h, s, s, b s, b s -> b s h, b s h",
    .index = "s",
    .travels = "1 2 4 6",
    .merge = "attention_merge",
};
static const weft_ring ring_dx = {
    .rule = "b s h, b s h, b s h, s, s, b s, b s, b s h, b s h, b s h -> b s h, b s h, b s h",
    .index = "s",
    .travels = "1 2 4 6",
    .returns = "1 2",
};

static const weft_cached cached = {.keys = K,
                                   .values = V,
                                   .index = INDEX_Q,
                                   .index_keys = INDEX_K,
                                   .segments_keys = SEGMENTS_K,
                                   .write = "cache"};

/* Not linear in v, although `out` is: lse would be taken for a sum as well. STAT: for lse. */
const weft_op ops_attention = {
    .name = "attention",
    .summary = "grouped-query attention; also gives the log-sum-exp of the scores",
    .family = "attention",
    .rule = "b q h, b [k] h, b [k] h, q, [k], b q, b [k] -> b q h, b q h",
    .grad = (const char *const[]){"0 1 2: attention_dx 0 1 2 3 4 5 6 r0 r1 dy", NULL},
    .attrs = "causal, scale, ring",
    .flags = WEFT_OP_HALF | WEFT_OP_STAT | WEFT_OP_MATMUL,
    .plain = attention_plain,
    .flops = attention_flops,
    .infer = attention_infer,
    .ring = &ring,
    .cached = &cached,
};

const weft_op ops_attention_dx = {
    .name = "attention_dx",
    .summary = "gradients of attention's q, k and v",
    .family = "attention",
    .rule = "b q h, b [k] h, b [k] h, q, [k], b q, b [k], b q h, b q h, b q h -> b q h, b [k] h, b "
            "[k] h",
    .linear = "9",
    .attrs = "causal, scale, ring",
    .flags = WEFT_OP_HALF | WEFT_OP_MATMUL,
    .plain = attention_dx_plain,
    .flops = attention_dx_flops,
    .infer = attention_dx_infer,
    .ring = &ring_dx,
};

static const weft_ring full_ring = {.rule = "b s h, b s h, b s h -> b s h, b s h",
                                    .index = "s",
                                    .travels = "1 2",
                                    .merge = "attention_merge"};
static const weft_ring full_ring_dx = {
    .rule = "b s h, b s h, b s h, b s h, b s h, b s h -> b s h, b s h, b s h",
    .index = "s",
    .travels = "1 2",
    .returns = "1 2",
};

const weft_op ops_full_attention = {
    .name = "full_attention",
    .summary = "attention in which every place sees every other",
    .family = "attention",
    .rule = "b q h, b [k] h, b [k] h -> b q h, b q h",
    .grad = (const char *const[]){"0 1 2: full_attention_dx 0 1 2 r0 r1 dy", NULL},
    .attrs = "scale, ring",
    .flags = WEFT_OP_HALF | WEFT_OP_STAT | WEFT_OP_MATMUL,
    .plain = attention_plain,
    .flops = attention_flops,
    .infer = attention_infer,
    .ring = &full_ring,
};

const weft_op ops_full_attention_dx = {
    .name = "full_attention_dx",
    .summary = "gradients of full_attention's q, k and v",
    .family = "attention",
    .rule = "b q h, b [k] h, b [k] h, b q h, b q h, b q h -> b q h, b [k] h, b [k] h",
    .linear = "5",
    .attrs = "scale, ring",
    .flags = WEFT_OP_HALF | WEFT_OP_MATMUL,
    .plain = attention_dx_plain,
    .flops = attention_dx_flops,
    .infer = attention_dx_infer,
    .ring = &full_ring_dx,
};

const weft_op ops_attention_merge = {
    .name = "attention_merge",
    .summary = "attention over two sets of keys, from the output and log-sum-exp over each",
    .rule = "b s h, b s h, b s h, b s h -> b s h, b s h",
    .attrs = "ring",
    .flags = WEFT_OP_INPLACE,
    .plain = merge_plain,
    .infer = merge_infer,
};
