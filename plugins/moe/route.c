/* SPDX-License-Identifier: Apache-2.0 */
/* Which experts a token goes to, and with which weights: logits [batch seq choices] and a bias
 * [choices] -> chosen [batch seq k], weights [batch seq k]; the gradient of the weights. */
#include "moe.h"

#include <math.h>

#define ATTRS "k, score, norm, eps, scale, limit_groups, keep_groups, bias_rate, recentre"

/* What experts are chosen by, before the bias, and, but for SOFTMAX_CHOSEN, weighed by: of token i
 * into s. */
static void score_token(const weft_tensor *logits, int64_t i, int score, double *s)
{
    const int64_t n = moe_last(logits);
    double most = -INFINITY, sum = 0;
    for (int64_t x = 0; x < n; x++) {
        s[x] = weft_tensor_get(logits, i * n + x);
        most = fmax(most, s[x]);
    }
    if (score == MOE_SOFTMAX_CHOSEN)
        return;
    for (int64_t x = 0; x < n; x++)
        sum += s[x] = score == MOE_SIGMOID ? 1 / (1 + exp(-s[x])) : exp(s[x] - most);
    for (int64_t x = 0; x < n && score == MOE_SOFTMAX; x++)
        s[x] /= sum;
}

static int score_of(const weft_call *call)
{
    return (int)weft_call_int(call, "score");
}

/* ---- choosing ---- */

/* A score that is not a number is the last to be chosen. */
static double choice(double score, const weft_tensor *bias, int64_t x)
{
    const double c = score + (bias ? weft_tensor_get(bias, x) : 0);
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

static int64_t k_of(const weft_call *call)
{
    return weft_call_int(call, "k");
}

/* room: scores, choices, sums of groups and then the scores of the chosen. */
static void route_token(const weft_call *call, int64_t i, double *room)
{
    const weft_tensor *bias = call->n_ins > 1 ? &call->ins[1] : NULL;
    const int64_t n = moe_last(&call->ins[0]), k = k_of(call),
                  groups = weft_call_int(call, "limit_groups");
    double *scores = room, *c = room + n, *s = c + n;
    score_token(&call->ins[0], i, score_of(call), scores);
    for (int64_t x = 0; x < n; x++)
        c[x] = choice(scores[x], bias, x);
    if (groups > 1)
        limit_groups(c, s, n, groups, weft_call_int(call, "keep_groups"));
    for (int64_t j = 0; j < k; j++) {
        const int64_t x = take_largest(c, n);
        weft_tensor_set(&call->outs[0], i * k + j, (double)x);
        s[j] = scores[x];
    }
    if (score_of(call) == MOE_SOFTMAX_CHOSEN)
        soften(s, k);
    const double by = divisor(call, s, k), scale = weft_call_real(call, "scale");
    for (int64_t j = 0; j < k; j++)
        weft_tensor_set(&call->outs[1], i * k + j, s[j] / by * scale);
}

size_t moe_route_room(const weft_call *call)
{
    return (size_t)(4 * moe_last(&call->ins[0])) * sizeof(double);
}

void moe_route_tokens(const weft_call *call, int64_t from, int64_t to, double *room)
{
    for (int64_t i = from; i < to; i++)
        route_token(call, i, room);
}

static int64_t tokens_of(const weft_tensor *logits)
{
    return logits->size[0] * logits->size[1];
}

/* All tokens, one after the other. */
static weft_status route_all(const weft_call *call, moe_tokens *visit, weft_error *err)
{
    double *room = weft_alloc(moe_route_room(call));
    if (!room)
        return weft_fail_memory(err);
    visit(call, 0, tokens_of(&call->ins[0]), room);
    weft_free(room);
    return WEFT_OK;
}

static weft_status route_plain(const weft_call *call, weft_error *err)
{
    weft_status status = moe_no_sum(call, err);
    return status ? status : route_all(call, moe_route_tokens, err);
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
        dot += weft_tensor_get(dy, i * k + j) * (s[j] / by); /* of one: exactly dy */
    for (int64_t j = 0; j < k; j++)
        ds[j] =
            scale * (weft_tensor_get(dy, i * k + j) - (weft_call_int(call, "norm") ? dot : 0)) / by;
}

static void route_token_dx(const weft_call *call, int64_t i, double *room)
{
    const weft_tensor *chosen = &call->ins[1];
    const int64_t n = moe_last(&call->ins[0]), k = moe_last(chosen);
    const int how = score_of(call);
    double *d = room, *s = d + n, *ds = s + k, dot = 0;
    score_token(&call->ins[0], i, how, d);
    for (int64_t j = 0; j < k; j++)
        s[j] = d[moe_int(chosen, i * k + j)];
    if (how == MOE_SOFTMAX_CHOSEN)
        soften(s, k);
    score_gradient(call, i, s, k, ds);
    for (int64_t j = 0; j < k; j++)
        dot += ds[j] * s[j];
    for (int64_t x = 0; x < n; x++)
        d[x] = how == MOE_SOFTMAX ? -d[x] * dot : 0;
    for (int64_t j = 0; j < k; j++)
        d[moe_int(chosen, i * k + j)] += how == MOE_SIGMOID   ? ds[j] * s[j] * (1 - s[j])
                                         : how == MOE_SOFTMAX ? ds[j] * s[j]
                                                              : s[j] * (ds[j] - dot);
    for (int64_t x = 0; x < n; x++)
        moe_put(call, i * n + x, d[x]);
}

void moe_route_tokens_dx(const weft_call *call, int64_t from, int64_t to, double *room)
{
    for (int64_t i = from; i < to; i++)
        route_token_dx(call, i, room);
}

static weft_status route_dx_plain(const weft_call *call, weft_error *err)
{
    return route_all(call, moe_route_tokens_dx, err);
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

/* The part of each expert in the scores of token i; of logits that are chosen by, in their softmax.
 * s: the scores. */
static void parts_of(const weft_call *call, int64_t i, double *s, double *part)
{
    const int64_t n = moe_last(&call->ins[0]);
    const bool sigmoid = score_of(call) == MOE_SIGMOID;
    double whole = sigmoid ? 0 : 1;
    score_token(&call->ins[0], i, sigmoid ? MOE_SIGMOID : MOE_SOFTMAX, s);
    for (int64_t x = 0; x < n && sigmoid; x++)
        whole += s[x];
    for (int64_t x = 0; x < n; x++)
        part[x] = s[x] / whole;
}

/* Where expert 0 of what token i is summed in begins. */
static int64_t sum_at(const weft_call *call, int64_t i)
{
    const weft_tensor *logits = &call->ins[0];
    return weft_call_int(call, "batch") ? 0 : i / logits->size[1] * moe_last(logits);
}

static void add_part(const weft_call *call, int64_t i, double *room, double *to)
{
    const int64_t n = moe_last(&call->ins[0]);
    parts_of(call, i, room, room + n);
    for (int64_t x = 0; x < n; x++)
        to[x] += room[n + x];
}

static void add_share(const weft_call *call, int64_t i, double *room, double *to)
{
    const int64_t n = moe_last(&call->ins[0]);
    score_token(&call->ins[0], i, score_of(call), room);
    for (int64_t x = 0; x < n; x++)
        room[x] = choice(room[x], NULL, x);
    for (int64_t j = 0; j < k_of(call); j++)
        to[take_largest(room, n)] += 1;
}

/* Sums in f64, whatever the result's dtype. */
static weft_status sum_tokens(const weft_call *call,
                              void (*add)(const weft_call *, int64_t, double *, double *),
                              weft_error *err)
{
    const int64_t n = weft_tensor_count(&call->outs[0]);
    double *sum = weft_alloc_zero((size_t)(n + 2 * moe_last(&call->ins[0])), sizeof *sum);
    if (!sum)
        return weft_fail_memory(err);
    for (int64_t i = 0; i < tokens_of(&call->ins[0]); i++)
        add(call, i, sum + n, sum + sum_at(call, i));
    for (int64_t i = 0; i < n; i++)
        moe_put(call, i, sum[i]);
    weft_free(sum);
    return WEFT_OK;
}

static weft_status router_mean_plain(const weft_call *call, weft_error *err)
{
    return sum_tokens(call, add_part, err);
}

static weft_status router_share_plain(const weft_call *call, weft_error *err)
{
    return sum_tokens(call, add_share, err);
}

/* logits, dy -> dlogits */
static void mean_tokens_dx(const weft_call *call, int64_t from, int64_t to, double *room)
{
    const weft_tensor *dy = &call->ins[1];
    const int64_t n = moe_last(&call->ins[0]);
    const double *s = room, *part = room + n;
    for (int64_t i = from; i < to; i++) {
        const int64_t at = sum_at(call, i);
        double dot = 0;
        parts_of(call, i, room, room + n);
        for (int64_t x = 0; x < n; x++)
            dot += part[x] * weft_tensor_get(dy, at + x);
        for (int64_t x = 0; x < n; x++) {
            const double d = part[x] * (weft_tensor_get(dy, at + x) - dot);
            moe_put(call, i * n + x, score_of(call) == MOE_SIGMOID ? d * (1 - s[x]) : d);
        }
    }
}

static weft_status router_mean_dx_plain(const weft_call *call, weft_error *err)
{
    return route_all(call, mean_tokens_dx, err);
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

/* The log of the sum of exp. */
static double log_sum(const weft_tensor *logits, int64_t i)
{
    const int64_t n = moe_last(logits);
    double most = -INFINITY, sum = 0;
    for (int64_t x = i * n; x < (i + 1) * n; x++)
        most = fmax(most, weft_tensor_get(logits, x));
    for (int64_t x = i * n; x < (i + 1) * n; x++)
        sum += exp(weft_tensor_get(logits, x) - most);
    return most + log(sum);
}

static weft_status router_z_plain(const weft_call *call, weft_error *err)
{
    double sum = 0;
    (void)err;
    for (int64_t i = 0; i < tokens_of(&call->ins[0]); i++)
        sum += pow(log_sum(&call->ins[0], i), 2);
    moe_put(call, 0, sum);
    return WEFT_OK;
}

static weft_status router_z_dx_plain(const weft_call *call, weft_error *err)
{
    const weft_tensor *logits = &call->ins[0];
    const int64_t n = moe_last(logits);
    const double dy = weft_tensor_get(&call->ins[1], 0);
    (void)err;
    for (int64_t i = 0; i < tokens_of(logits); i++) {
        const double z = log_sum(logits, i);
        for (int64_t x = i * n; x < (i + 1) * n; x++)
            moe_put(call, x, 2 * z * exp(weft_tensor_get(logits, x) - z) * dy);
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
