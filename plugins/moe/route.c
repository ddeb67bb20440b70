/* SPDX-License-Identifier: Apache-2.0 */
/* Which experts a token goes to, and with which weights: logits [batch seq choices] and a bias
 * [choices] -> chosen [batch seq k], weights [batch seq k]; the gradient of the weights. */
#include "moe.h"

#include <math.h>

#define ATTRS "k, score, norm, eps, scale, limit_groups, keep_groups, bias_rate, recentre"

/* One token. */
typedef struct token {
    int64_t n, k;
    const weft_tensor *logits;
    int64_t first; /* of its logits */
    int score;
    double most, sum; /* of the softmax over all */
} token;

static double logit(const token *t, int64_t x)
{
    return weft_tensor_get(t->logits, t->first + x);
}

static token token_of(const weft_call *call, int64_t i)
{
    const weft_tensor *logits = &call->ins[0];
    token t = {.n = moe_last(logits),
               .k = weft_call_int(call, "k"),
               .logits = logits,
               .first = i * moe_last(logits),
               .score = (int)weft_call_int(call, "score"),
               .most = -INFINITY};
    for (int64_t x = 0; x < t.n; x++)
        t.most = fmax(t.most, logit(&t, x));
    for (int64_t x = 0; x < t.n; x++)
        t.sum += exp(logit(&t, x) - t.most);
    return t;
}

/* What an expert is chosen by, before the bias, and, but for SOFTMAX_CHOSEN, weighed by. */
static double score(const token *t, int64_t x)
{
    if (t->score == MOE_SIGMOID)
        return 1 / (1 + exp(-logit(t, x)));
    return t->score == MOE_SOFTMAX ? exp(logit(t, x) - t->most) / t->sum : logit(t, x);
}

/* ---- choosing ---- */

/* A score that is not a number is the last to be chosen. */
static double choice(const token *t, const weft_tensor *bias, int64_t x)
{
    double c = score(t, x) + (bias ? weft_tensor_get(bias, x) : 0);
    return isnan(c) ? -INFINITY : c;
}

/* The sum of the two largest of [from, to). */
static double best_two(const double *c, int64_t from, int64_t to)
{
    double a = -INFINITY, b = -INFINITY;
    for (int64_t x = from; x < to; x++)
        if (c[x] > a) {
            b = a;
            a = c[x];
        } else if (c[x] > b) {
            b = c[x];
        }
    return a + b;
}

/* Experts of groups that are not among the best cannot be chosen. */
static void limit_groups(double *c, double *sums, int64_t n, int64_t groups, int64_t keep)
{
    const int64_t width = n / groups;
    for (int64_t i = 0; i < groups; i++)
        sums[i] = best_two(c, i * width, (i + 1) * width);
    for (int64_t i = 0; i < groups; i++) {
        int64_t better = 0;
        for (int64_t j = 0; j < groups; j++)
            better += sums[j] > sums[i] || (sums[j] == sums[i] && j < i);
        for (int64_t x = i * width; better >= keep && x < (i + 1) * width; x++)
            c[x] = -INFINITY;
    }
}

/* The largest that is not taken yet, of equals the first; taken ones are NaN. */
static int64_t take_largest(double *c, int64_t n)
{
    int64_t best = -1;
    for (int64_t x = 0; x < n; x++)
        if (!isnan(c[x]) && (best < 0 || c[x] > c[best]))
            best = x;
    c[best] = NAN;
    return best;
}

static double divisor(const weft_call *call, const double *s, int64_t k)
{
    double sum = weft_call_real(call, "eps");
    if (!weft_call_int(call, "norm"))
        return 1;
    for (int64_t i = 0; i < k; i++)
        sum += s[i];
    return sum;
}

/* SOFTMAX_CHOSEN: a softmax over the k chosen logits. */
static void soften(double *s, int64_t k)
{
    double most = -INFINITY, sum = 0;
    for (int64_t i = 0; i < k; i++)
        most = fmax(most, s[i]);
    for (int64_t i = 0; i < k; i++)
        sum += s[i] = exp(s[i] - most);
    for (int64_t i = 0; i < k; i++)
        s[i] /= sum;
}

static void route_token(const weft_call *call, int64_t i, double *c, double *sums)
{
    const token t = token_of(call, i);
    const weft_tensor *bias = call->n_ins > 1 ? &call->ins[1] : NULL;
    const int64_t groups = weft_call_int(call, "limit_groups");
    double *s = sums;
    for (int64_t x = 0; x < t.n; x++)
        c[x] = choice(&t, bias, x);
    if (groups > 1)
        limit_groups(c, sums, t.n, groups, weft_call_int(call, "keep_groups"));
    for (int64_t k = 0; k < t.k; k++) {
        int64_t x = take_largest(c, t.n);
        weft_tensor_set(&call->outs[0], i * t.k + k, (double)x);
        s[k] = score(&t, x);
    }
    if (t.score == MOE_SOFTMAX_CHOSEN)
        soften(s, t.k);
    const double by = divisor(call, s, t.k), scale = weft_call_real(call, "scale");
    for (int64_t k = 0; k < t.k; k++)
        weft_tensor_set(&call->outs[1], i * t.k + k, s[k] / by * scale);
}

static weft_status route_plain(const weft_call *call, weft_error *err)
{
    const int64_t n = moe_last(&call->ins[0]), k = weft_call_int(call, "k");
    weft_status status = moe_no_sum(call, err);
    if (status)
        return status;
    double *c = weft_alloc((size_t)(2 * n) * sizeof *c);
    if (!c)
        return weft_fail_memory(err);
    for (int64_t i = 0; i < weft_tensor_count(&call->outs[0]) / k; i++)
        route_token(call, i, c, c + n);
    weft_free(c);
    return WEFT_OK;
}

static weft_status route_rule(const weft_node *node, weft_text *rule, weft_error *err)
{
    (void)err;
    weft_text_add(rule, node->n_ins > 1 ? "b s [x], [x] -> b s [k], b s [k]"
                                        : "b s [x] -> b s [k], b s [k]");
    return WEFT_OK;
}

static weft_status route_infer(weft_graph *g, weft_node *node, weft_error *err)
{
    const weft_value *logits = node->ins[0];
    const int64_t k = weft_node_int(node, "k");
    (void)g;
    if (k < 1 || logits->n_dims != 3 || k > logits->dims[2].size)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "route of %s: %lld experts are to be chosen of %lld", logits->name,
                         (long long)k, (long long)logits->dims[logits->n_dims - 1].size);
    for (int i = 0; i < node->n_outs; i++) {
        weft_value *v = node->outs[i];
        v->n_dims = 3;
        v->dims[0] = logits->dims[0];
        v->dims[1] = logits->dims[1];
        v->dims[2] = moe_dim("chosen", k);
        v->dtype = i == 0 ? WEFT_I32 : logits->dtype;
    }
    return WEFT_OK;
}

/* ---- the gradient: logits, chosen, dy of the weights -> that of the logits ---- */

/* ds: of the scores of the chosen, from dy. */
static void score_gradient(const weft_call *call, int64_t i, const double *s, int64_t k, double *ds)
{
    const weft_tensor *dy = &call->ins[2];
    const double by = divisor(call, s, k), scale = weft_call_real(call, "scale");
    double dot = 0;
    for (int64_t j = 0; j < k; j++)
        dot += weft_tensor_get(dy, i * k + j) * s[j] / by;
    for (int64_t j = 0; j < k; j++)
        ds[j] =
            scale * (weft_tensor_get(dy, i * k + j) - (weft_call_int(call, "norm") ? dot : 0)) / by;
}

static void route_token_dx(const weft_call *call, int64_t i, double *d, double *s)
{
    const token t = token_of(call, i);
    const weft_tensor *chosen = &call->ins[1];
    double *ds = s + t.k, dot = 0;
    for (int64_t j = 0; j < t.k; j++)
        s[j] = score(&t, moe_int(chosen, i * t.k + j));
    if (t.score == MOE_SOFTMAX_CHOSEN)
        soften(s, t.k);
    score_gradient(call, i, s, t.k, ds);
    for (int64_t j = 0; j < t.k; j++)
        dot += ds[j] * s[j];
    for (int64_t x = 0; x < t.n; x++)
        d[x] = t.score == MOE_SOFTMAX ? -score(&t, x) * dot : 0;
    for (int64_t j = 0; j < t.k; j++) {
        const int64_t x = moe_int(chosen, i * t.k + j);
        d[x] += t.score == MOE_SIGMOID   ? ds[j] * s[j] * (1 - s[j])
                : t.score == MOE_SOFTMAX ? ds[j] * s[j]
                                         : s[j] * (ds[j] - dot);
    }
    for (int64_t x = 0; x < t.n; x++)
        moe_put(call, t.first + x, d[x]);
}

static weft_status route_dx_plain(const weft_call *call, weft_error *err)
{
    const int64_t n = moe_last(&call->ins[0]), k = moe_last(&call->ins[1]);
    double *d = weft_alloc((size_t)(n + 2 * k) * sizeof *d);
    if (!d)
        return weft_fail_memory(err);
    for (int64_t i = 0; i < weft_tensor_count(&call->ins[1]) / k; i++)
        route_token_dx(call, i, d, d + n);
    weft_free(d);
    return WEFT_OK;
}

static double route_flops(const weft_call *call)
{
    return 20.0 * (double)weft_tensor_count(&call->ins[0]);
}

const weft_op moe_route = {
    .name = "route",
    .summary = "the k experts of each token, and their weights",
    .grad = (const char *const[]){"0: route_dx 0 r0 dy1", NULL},
    .attrs = ATTRS,
    .flags = WEFT_OP_STAT,
    .plain = route_plain,
    .flops = route_flops,
    .make_rule = route_rule,
    .infer = route_infer,
};

const weft_op moe_route_dx = {
    .name = "route_dx",
    .summary = "gradient of route's logits",
    .rule = "b s [x], b s [k], b s [k] -> b s [x]",
    .linear = "2",
    .attrs = ATTRS,
    .flags = WEFT_OP_STAT,
    .plain = route_dx_plain,
    .flops = route_flops,
};

/* ---- what balances ---- */

/* Of every expert, the share of its score in the sum of all, summed over tokens: logits -> [batch
 * choices], or with the attribute `batch` [choices]. */

/* As much of a token's whole as expert x has; softmax of all logits but for SIGMOID. */
static double part_of(const token *t, int64_t x, double sum)
{
    return t->score == MOE_SIGMOID ? score(t, x) / sum : exp(logit(t, x) - t->most) / t->sum;
}

static double sum_of_scores(const token *t)
{
    double sum = 0;
    for (int64_t x = 0; x < t->n && t->score == MOE_SIGMOID; x++)
        sum += score(t, x);
    return sum;
}

/* Where expert 0 of what token i is summed in begins. */
static int64_t sum_at(const weft_call *call, int64_t i)
{
    const weft_tensor *logits = &call->ins[0];
    return weft_call_int(call, "batch") ? 0 : i / logits->size[1] * moe_last(logits);
}

static int64_t tokens_of(const weft_tensor *logits)
{
    return logits->size[0] * logits->size[1];
}

/* Sums in f64, whatever the result's dtype. share: of the k largest instead of all. */
static weft_status sum_tokens(const weft_call *call, bool share, weft_error *err)
{
    const int64_t n = weft_tensor_count(&call->outs[0]), all = moe_last(&call->ins[0]);
    double *sum = weft_alloc_zero((size_t)(n + all), sizeof *sum), *c = sum ? sum + n : NULL;
    if (!sum)
        return weft_fail_memory(err);
    for (int64_t i = 0; i < tokens_of(&call->ins[0]); i++) {
        const token t = token_of(call, i);
        const double whole = sum_of_scores(&t);
        double *to = sum + sum_at(call, i);
        for (int64_t x = 0; x < t.n; x++) {
            c[x] = choice(&t, NULL, x);
            to[x] += share ? 0 : part_of(&t, x, whole);
        }
        for (int64_t k = 0; share && k < t.k; k++)
            to[take_largest(c, t.n)] += 1;
    }
    for (int64_t i = 0; i < n; i++)
        moe_put(call, i, sum[i]);
    weft_free(sum);
    return WEFT_OK;
}

static weft_status router_mean_plain(const weft_call *call, weft_error *err)
{
    return sum_tokens(call, false, err);
}

static weft_status router_share_plain(const weft_call *call, weft_error *err)
{
    return sum_tokens(call, true, err);
}

/* logits, dy -> dlogits */
static weft_status router_mean_dx_plain(const weft_call *call, weft_error *err)
{
    const weft_tensor *dy = &call->ins[1];
    (void)err;
    for (int64_t i = 0; i < tokens_of(&call->ins[0]); i++) {
        const token t = token_of(call, i);
        const double whole = sum_of_scores(&t);
        const int64_t at = sum_at(call, i);
        double dot = 0;
        for (int64_t x = 0; x < t.n; x++)
            dot += part_of(&t, x, whole) * weft_tensor_get(dy, at + x);
        for (int64_t x = 0; x < t.n; x++) {
            const double d = part_of(&t, x, whole) * (weft_tensor_get(dy, at + x) - dot);
            moe_put(call, t.first + x, t.score == MOE_SIGMOID ? d * (1 - score(&t, x)) : d);
        }
    }
    return WEFT_OK;
}

static weft_status sum_rule(const weft_node *node, weft_text *rule, weft_error *err)
{
    (void)err;
    weft_text_add(rule, weft_node_int(node, "batch") ? "b s [x] -> [x]" : "b s [x] -> b [x]");
    return WEFT_OK;
}

static weft_status sum_dx_rule(const weft_node *node, weft_text *rule, weft_error *err)
{
    (void)err;
    weft_text_add(rule, weft_node_int(node, "batch") ? "b s [x], [x] -> b s [x]"
                                                     : "b s [x], b [x] -> b s [x]");
    return WEFT_OK;
}

#define SUM_ATTRS ATTRS ", batch"

const weft_op moe_router_mean = {
    .name = "router_mean",
    .summary = "the part of each expert in the router's scores, summed over tokens",
    .grad = (const char *const[]){"0: router_mean_dx 0 dy", NULL},
    .attrs = SUM_ATTRS,
    .flags = WEFT_OP_STAT,
    .plain = router_mean_plain,
    .make_rule = sum_rule,
};

const weft_op moe_router_mean_dx = {
    .name = "router_mean_dx",
    .summary = "gradient of router_mean",
    .linear = "1",
    .attrs = SUM_ATTRS,
    .flags = WEFT_OP_STAT,
    .plain = router_mean_dx_plain,
    .make_rule = sum_dx_rule,
};

const weft_op moe_router_share = {
    .name = "router_share",
    .summary = "how many tokens have each expert among their k best, whatever the bias",
    .attrs = SUM_ATTRS,
    .flags = WEFT_OP_STAT,
    .plain = router_share_plain,
    .make_rule = sum_rule,
};

/* ---- router_z: the sum over tokens of (log sum exp logits)^2 ---- */

static weft_status router_z_plain(const weft_call *call, weft_error *err)
{
    double sum = 0;
    (void)err;
    for (int64_t i = 0; i < tokens_of(&call->ins[0]); i++) {
        const token t = token_of(call, i);
        sum += pow(t.most + log(t.sum), 2);
    }
    moe_put(call, 0, sum);
    return WEFT_OK;
}

static weft_status router_z_dx_plain(const weft_call *call, weft_error *err)
{
    const double dy = weft_tensor_get(&call->ins[1], 0);
    (void)err;
    for (int64_t i = 0; i < tokens_of(&call->ins[0]); i++) {
        const token t = token_of(call, i);
        for (int64_t x = 0; x < t.n; x++)
            moe_put(call, t.first + x,
                    2 * (t.most + log(t.sum)) * exp(logit(&t, x) - t.most) / t.sum * dy);
    }
    return WEFT_OK;
}

const weft_op moe_router_z = {
    .name = "router_z",
    .summary = "the sum over tokens of (log sum exp logits)^2",
    .rule = "b s [x] ->",
    .grad = (const char *const[]){"0: router_z_dx 0 dy", NULL},
    .attrs = ATTRS,
    .flags = WEFT_OP_STAT,
    .plain = router_z_plain,
};

const weft_op moe_router_z_dx = {
    .name = "router_z_dx",
    .summary = "gradient of router_z",
    .rule = "b s [x], -> b s [x]",
    .linear = "1",
    .attrs = ATTRS,
    .flags = WEFT_OP_STAT,
    .plain = router_z_dx_plain,
};
