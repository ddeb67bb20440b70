/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "trial_attention.h"

#include <string.h>

#include <weft/random.h>

static void set(weft_tensor *t, int64_t i, int64_t x)
{
    ((int32_t *)t->data)[i] = (int32_t)x;
}

static void fill_masks(const attention_case *c, weft_tensor *iq, weft_tensor *ik, weft_tensor *sq,
                       weft_tensor *sk)
{
    int64_t m = c->queries, n = c->keys;
    for (int64_t i = 0; i < m; i++)
        set(iq, i,
            c->mask == MASK_PERMUTED ? (int64_t)weft_permute(1, 2, (uint64_t)m, (uint64_t)i)
            : c->mask == MASK_LATE   ? i + n
                                     : i);
    for (int64_t j = 0; j < n; j++)
        set(ik, j,
            c->mask == MASK_PERMUTED ? (int64_t)weft_permute(1, 2, (uint64_t)n, (uint64_t)j) : j);
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
    trial_init(t, op);
    trial_int(t, "causal", c->mask <= MASK_DOCUMENTS || c->mask == MASK_LATE);
    trial_real(t, "scale", c->scale);
    t->tolerance = c->tolerance > 0.0 ? c->tolerance : 2e-5;
    t->size = 1.0; /* of the operands: a gradient that is 0 comes from sums of that size */
    attention_heads(trial_in(t, c->dtype, 1, SIZES(c->batch, c->queries, c->heads * c->d)), c,
                    false);
    attention_heads(trial_in(t, c->dtype, 2, SIZES(c->batch, c->keys, c->kv_heads * c->d)), c,
                    true);
    attention_heads(trial_in(t, c->dtype, 3, SIZES(c->batch, c->keys, c->kv_heads * c->d)), c,
                    true);
    weft_tensor *iq = trial_in(t, WEFT_I32, 1, SIZES(c->queries)),
                *ik = trial_in(t, WEFT_I32, 1, SIZES(c->keys));
    weft_tensor *sq = trial_in(t, WEFT_I32, 1, SIZES(c->batch, c->queries)),
                *sk = trial_in(t, WEFT_I32, 1, SIZES(c->batch, c->keys));
    fill_masks(c, iq, ik, sq, sk);
}

void attention_check(const attention_case *c)
{
    trial f, b;
    attention_forward(&f, c, "attention");
    weft_tensor *out = trial_out(&f, c->dtype, SIZES(c->batch, c->queries, c->heads * c->d));
    attention_heads(out, c, false);
    weft_tensor *lse = trial_out(&f, WEFT_F32, SIZES(c->batch, c->queries, c->heads));

    trial_run(&f, 0, 0, false);
    attention_forward(&b, c, "attention_dx");
    attention_heads(trial_in(&b, c->dtype, 1, SIZES(c->batch, c->queries, c->heads * c->d)), c,
                    false);
    trial_in(&b, WEFT_F32, 1, SIZES(c->batch, c->queries, c->heads));
    attention_heads(trial_in(&b, c->dtype, 4, SIZES(c->batch, c->queries, c->heads * c->d)), c,
                    false);
    memcpy(b.ins[7].data, out->data, (size_t)weft_tensor_count(out) * weft_dtype_size(out->dtype));
    memcpy(b.ins[8].data, lse->data, (size_t)weft_tensor_count(lse) * sizeof(float));
    attention_heads(trial_out(&b, c->dtype, SIZES(c->batch, c->queries, c->heads * c->d)), c,
                    false);
    attention_heads(trial_out(&b, c->dtype, SIZES(c->batch, c->keys, c->kv_heads * c->d)), c, true);
    attention_heads(trial_out(&b, c->dtype, SIZES(c->batch, c->keys, c->kv_heads * c->d)), c, true);
    trial_check(&f);
    trial_check(&b);
}
