/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "trial_attention.h"

#include <math.h>
#include <string.h>

#include <weft/random.h>

static void set(weft_tensor *t, int64_t i, int64_t x)
{
    ((int32_t *)t->data)[i] = (int32_t)x;
}

/* Places from `first` on; the second half is `later` places further on. */
static void count_up(weft_tensor *t, int64_t first, int64_t later)
{
    const int64_t n = t->size[0], half = n / 2;
    for (int64_t i = 0; i < n; i++)
        set(t, i, first + i + (i >= half ? later : 0));
    t->facts.runs = later && half > 0 ? 2 : 1;
    t->facts.first[0] = first;
    if (t->facts.runs == 2) {
        t->facts.second = half;
        t->facts.first[1] = first + half + later;
    }
}

static void fill_masks(const attention_case *c, weft_tensor *iq, weft_tensor *ik, weft_tensor *sq,
                       weft_tensor *sk)
{
    int64_t m = c->queries, n = c->keys;
    if (c->mask == MASK_PERMUTED) {
        for (int64_t i = 0; i < m; i++)
            set(iq, i, (int64_t)weft_permute(1, 2, (uint64_t)m, (uint64_t)i));
        for (int64_t j = 0; j < n; j++)
            set(ik, j, (int64_t)weft_permute(1, 2, (uint64_t)n, (uint64_t)j));
    } else {
        const bool later = c->mask == MASK_HALF_KEYS;
        count_up(iq,
                 c->mask == MASK_LATE ? n
                 : later              ? n / 2
                                      : c->first,
                 c->mask == MASK_HALF ? n : 0);
        count_up(ik, c->mask == MASK_HALF ? m / 2 : 0, later ? m : 0);
    }
    sq->facts.alike = sk->facts.alike =
        c->mask != MASK_DOCUMENTS && c->mask != MASK_SCATTERED && c->mask != MASK_NOTHING;
    for (int64_t i = 0; i < c->batch * m; i++)
        set(sq, i,
            c->mask == MASK_DOCUMENTS   ? i % m * 3 / m
            : c->mask == MASK_SCATTERED ? (int64_t)(weft_random_bits(5, 6, (uint64_t)i) % 4)
            : c->mask == MASK_NOTHING   ? 1
                                        : 0);
    for (int64_t j = 0; j < c->batch * n; j++)
        set(sk, j,
            c->mask == MASK_DOCUMENTS   ? j % n * 3 / n
            : c->mask == MASK_SCATTERED ? (int64_t)(weft_random_bits(7, 8, (uint64_t)j) % 3)
            : c->mask == MASK_NOTHING   ? j % 2 * 2
                                        : 0);
}

void attention_heads(weft_tensor *t, const attention_case *c, bool kv)
{
    int64_t lo = kv ? c->kv_lo : c->lo, whole = kv ? c->kv_whole : c->whole,
            here = kv ? c->kv_heads : c->heads;
    tensor_heads(t, c->d, lo * c->d, (whole ? whole : here) * c->d);
}

void attention_forward(trial *t, const attention_case *c, const char *op)
{
    const bool full = c->mask == MASK_FULL;
    trial_init(t, !full ? op : strcmp(op, "attention") ? "full_attention_dx" : "full_attention");
    if (!full)
        trial_int(t, "causal", c->mask <= MASK_DOCUMENTS || c->mask >= MASK_LATE);
    trial_real(t, "scale", c->scale);
    if (c->mask == MASK_HALF || c->mask == MASK_HALF_KEYS)
        trial_int(t, "ring", 1);
    t->tolerance = c->tolerance > 0.0 ? c->tolerance : 2e-5;
    t->size = 1.0; /* of the operands: a gradient that is 0 comes from sums of that size */
    attention_heads(trial_in(t, c->dtype, 1, SIZES(c->batch, c->queries, c->heads * c->d)), c,
                    false);
    attention_heads(trial_in(t, c->dtype, 2, SIZES(c->batch, c->keys, c->kv_heads * c->d)), c,
                    true);
    attention_heads(trial_in(t, c->dtype, 3, SIZES(c->batch, c->keys, c->kv_heads * c->d)), c,
                    true);
    if (full)
        return;
    weft_tensor *iq = trial_in(t, WEFT_I32, 1, SIZES(c->queries)),
                *ik = trial_in(t, WEFT_I32, 1, SIZES(c->keys));
    weft_tensor *sq = trial_in(t, WEFT_I32, 1, SIZES(c->batch, c->queries)),
                *sk = trial_in(t, WEFT_I32, 1, SIZES(c->batch, c->keys));
    fill_masks(c, iq, ik, sq, sk);
}

void attention_backward(trial *t, const attention_case *c)
{
    attention_forward(t, c, "attention_dx");
    attention_heads(trial_in(t, c->dtype, 1, SIZES(c->batch, c->queries, c->heads * c->d)), c,
                    false);
    trial_in(t, WEFT_F32, 1, SIZES(c->batch, c->queries, c->heads));
    attention_heads(trial_in(t, c->dtype, 4, SIZES(c->batch, c->queries, c->heads * c->d)), c,
                    false);
    attention_heads(trial_out(t, c->dtype, SIZES(c->batch, c->queries, c->heads * c->d)), c, false);
    for (int i = 0; i < 2; i++)
        attention_heads(trial_out(t, c->sums ? WEFT_F32 : c->dtype,
                                  SIZES(c->batch, c->keys, c->kv_heads * c->d)),
                        c, true);
}

void attention_check(const attention_case *c)
{
    trial f, b;
    attention_forward(&f, c, "attention");
    weft_tensor *out = trial_out(&f, c->dtype, SIZES(c->batch, c->queries, c->heads * c->d));
    attention_heads(out, c, false);
    weft_tensor *lse = trial_out(&f, WEFT_F32, SIZES(c->batch, c->queries, c->heads));

    trial_run(&f, 0, 0, false);
    attention_backward(&b, c);
    memcpy(b.ins[b.n_ins - 3].data, out->data,
           (size_t)weft_tensor_count(out) * weft_dtype_size(out->dtype));
    memcpy(b.ins[b.n_ins - 2].data, lse->data, (size_t)weft_tensor_count(lse) * sizeof(float));
    trial_check(&f);
    trial_check(&b);
}

/* ---- pairs ---- */

static int64_t at_int(const weft_tensor *t, int64_t i)
{
    return ((const int32_t *)t->data)[i];
}

/* Whether any query sees key j. */
static bool is_seen(const trial *t, const attention_case *c, int64_t j)
{
    bool causal = t->attrs[0].i != 0;
    for (int64_t i = 0; i < c->queries; i++)
        if ((!causal || at_int(&t->ins[4], j) <= at_int(&t->ins[3], i)) &&
            at_int(&t->ins[5], i) == at_int(&t->ins[6], j))
            return true;
    return false;
}

/* Row i of every head points in direction i. */
static void point(weft_tensor *t, int64_t d)
{
    for (int64_t i = 0; i < t->size[1]; i++)
        for (int64_t e = 0; e < t->size[2]; e++)
            weft_tensor_set(t, i * t->size[2] + e, e % d == i % d);
}

static void set_row(weft_tensor *t, int64_t i, double x)
{
    for (int64_t e = 0; e < t->size[2]; e++)
        weft_tensor_set(t, i * t->size[2] + e, x);
}

/* Queries or keys are 0, and with them all scores. A weight of 0 times NaN is NaN: `poison` is what
 * may meet such. */
static void fill_pairs(trial *t, const attention_case *c, bool keys, double poison)
{
    weft_tensor *q = &t->ins[0], *k = &t->ins[1], *v = &t->ins[2];
    point(keys ? k : q, c->d);
    for (int64_t i = 0; i < (keys ? q : k)->size[1]; i++)
        set_row(keys ? q : k, i, 0);
    point(v, c->d);
    for (int64_t j = 0; j < c->keys; j++)
        if (!is_seen(t, c, j)) {
            set_row(k, j, poison);
            set_row(v, j, 1e30);
        }
}

static attention_case one_row(const attention_case *c, double tolerance)
{
    attention_case one = *c;
    one.batch = 1;
    one.scale = 64; /* so that gradients of queries and keys are not small */
    one.tolerance = tolerance;
    return one;
}

void attention_forward_pairs(trial *t, const attention_case *c, const char *op)
{
    const attention_case one = one_row(c, 0);
    attention_forward(t, &one, op);
    fill_pairs(t, &one, true, NAN);
}

void attention_check_pairs(const attention_case *c)
{
    /* Terms of 16 and less, each rounded to bf16, can cancel to a small element. */
    const attention_case one = one_row(c, 1e-3);
    trial f;
    weft_tensor made[MOST_TENSORS];
    attention_forward_pairs(&f, c, "attention");
    attention_heads(trial_out(&f, c->dtype, SIZES(1, c->queries, c->heads * c->d)), c, false);
    trial_out(&f, WEFT_F32, SIZES(1, c->queries, c->heads));
    trial_plain(&f, false, made);
    for (int keys = 0; keys < 2; keys++) {
        trial b;
        attention_forward(&b, &one, "attention_dx");
        fill_pairs(&b, &one, keys, 1e30);
        b.alone = true;
        weft_tensor *out = trial_in(&b, c->dtype, 1, SIZES(1, c->queries, c->heads * c->d)),
                    *lse = trial_in(&b, WEFT_F32, 1, SIZES(1, c->queries, c->heads)),
                    *dout = trial_in(&b, c->dtype, 4, SIZES(1, c->queries, c->heads * c->d));
        attention_heads(out, c, false);
        attention_heads(dout, c, false);
        for (int64_t i = 0; i < weft_tensor_count(out); i++)
            weft_tensor_set(out, i, weft_tensor_get(&made[0], i));
        for (int64_t i = 0; i < weft_tensor_count(lse); i++)
            weft_tensor_set(lse, i, weft_tensor_get(&made[1], i));
        point(dout, c->d);
        attention_heads(trial_out(&b, c->dtype, SIZES(1, c->queries, c->heads * c->d)), c, false);
        attention_heads(trial_out(&b, c->dtype, SIZES(1, c->keys, c->kv_heads * c->d)), c, true);
        attention_heads(trial_out(&b, c->dtype, SIZES(1, c->keys, c->kv_heads * c->d)), c, true);
        trial_check(&b);
    }
    trial_free_outs(&f, made);
    trial_check(&f);
}
