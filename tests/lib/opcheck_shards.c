/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "opcheck.h"

static opcheck_use *new_use(weft_pool *pool)
{
    opcheck_use *u = weft_pool_alloc(pool, sizeof(*u));
    assert_non_null(u);
    return u;
}

/* The part [lo, hi) of rank r of n: nested ceil in grains. */
static void part_of(const weft_tensor *t, int d, int r, int n, int64_t *lo, int64_t *hi)
{
    int64_t units = t->size[d] / t->grain[d], each = (units + n - 1) / n * t->grain[d];
    *lo = r * each < t->size[d] ? r * each : t->size[d];
    *hi = *lo + each < t->size[d] ? *lo + each : t->size[d];
}

/* A letter with two sizes (in grains) can be cut only where all of them divide. */
static bool can_cut(const opcheck_use *u, int letter, int n)
{
    int64_t units = -1;
    bool equal = true, divide = true;
    for (int i = 0; i < u->rule.n_ins + u->n_outs; i++) {
        bool in = i < u->rule.n_ins;
        const weft_tensor *t = in ? &u->ins[i] : &u->outs[i - u->rule.n_ins];
        int d = weft_rule_dim(in ? &u->rule.in[i] : &u->rule.out[i - u->rule.n_ins], letter);
        if (d < 0)
            continue;
        equal = equal && (units < 0 || units == t->size[d] / t->grain[d]);
        units = t->size[d] / t->grain[d];
        divide = divide && units % n == 0;
    }
    return equal || divide;
}

static void combine(weft_tensor *total, const weft_tensor *part, bool max, bool first)
{
    for (int64_t i = 0; i < weft_tensor_count(total); i++) {
        double a = weft_tensor_get(total, i), b = weft_tensor_get(part, i);
        weft_tensor_set(total, i, first ? b : max ? fmax(a, b) : a + b);
    }
}

/* Result r of all ranks together: compares what concatenates, adds up the rest and compares at the
 * end. */
static void check_result(const opcheck_use *u, const opcheck_use *shard, int r, int letter,
                         int rank, int n, weft_tensor *total, weft_pool *pool)
{
    int d = letter < 0 ? -1 : weft_rule_dim(&u->rule.out[r], letter);
    char what[96];
    snprintf(what, sizeof(what), "index %s on rank %d of %d, result %d",
             letter < 0 ? "(linear)" : u->rule.name[letter], rank, n, r);
    if (d >= 0) {
        weft_tensor want = opcheck_slice(&u->outs[r], d, shard->outs[r].lo[d],
                                         shard->outs[r].lo[d] + shard->outs[r].size[d], pool);
        opcheck_same(&want, &shard->outs[r], 1e-11, what, u->op->name);
        return;
    }
    combine(total, &shard->outs[r], letter >= 0 && u->op->flags & WEFT_OP_MAX, rank == 0);
    if (rank == n - 1)
        opcheck_same(&u->outs[r], total, 1e-11, what, u->op->name);
}

static void cut_letter(const opcheck_use *u, int letter, int n, weft_pool *pool)
{
    opcheck_use *shard = new_use(pool);
    weft_tensor total[OPCHECK_OUTS];
    for (int r = 0; r < u->n_outs; r++)
        total[r] = opcheck_new(&u->outs[r], pool);
    for (int rank = 0; rank < n; rank++) {
        int64_t lo, hi;
        *shard = *u;
        for (int i = 0; i < u->rule.n_ins; i++) {
            int d = weft_rule_dim(&u->rule.in[i], letter);
            if (d < 0 || !u->ins[i].data) /* like has no data */
                continue;
            part_of(&u->ins[i], d, rank, n, &lo, &hi);
            shard->ins[i] = opcheck_slice(&u->ins[i], d, lo, hi, pool);
        }
        for (int r = 0; r < u->n_outs; r++) {
            int d = weft_rule_dim(&u->rule.out[r], letter);
            lo = hi = 0;
            if (d >= 0)
                part_of(&u->outs[r], d, rank, n, &lo, &hi);
            shard->outs[r] = d >= 0 ? opcheck_slice(&u->outs[r], d, lo, hi, pool)
                                    : opcheck_copy(&u->outs[r], pool);
            for (int64_t i = 0; i < weft_tensor_count(&shard->outs[r]); i++)
                weft_tensor_set(&shard->outs[r], i, NAN);
        }
        opcheck_run(shard, false);
        for (int r = 0; r < u->n_outs; r++)
            check_result(u, shard, r, letter, rank, n, &total[r], pool);
    }
}

/* Operands of a linear group fall into n random terms. */
static void split_group(const opcheck_use *u, uint64_t group, int n, weft_pool *pool)
{
    opcheck_use *term = new_use(pool), *rest = new_use(pool);
    weft_tensor total[OPCHECK_OUTS];
    *rest = *u;
    for (int i = 0; i < u->n_ins; i++)
        rest->ins[i] = opcheck_copy(&u->ins[i], pool);
    for (int r = 0; r < u->n_outs; r++)
        total[r] = opcheck_new(&u->outs[r], pool);
    for (int rank = 0; rank < n; rank++) {
        *term = *u;
        for (int i = 0; i < u->n_ins; i++) {
            if (!(group >> i & 1))
                continue;
            term->ins[i] = rank < n - 1
                               ? opcheck_random(&u->ins[i], 23, (uint64_t)(8 * rank + i), pool)
                               : rest->ins[i];
            for (int64_t k = 0; rank < n - 1 && k < weft_tensor_count(&u->ins[i]); k++)
                weft_tensor_set(&rest->ins[i], k,
                                weft_tensor_get(&rest->ins[i], k) -
                                    weft_tensor_get(&term->ins[i], k));
        }
        for (int r = 0; r < u->n_outs; r++)
            term->outs[r] = opcheck_new(&u->outs[r], pool);
        opcheck_run(term, false);
        for (int r = 0; r < u->n_outs; r++)
            check_result(u, term, r, -1, rank, n, &total[r], pool);
    }
}

int opcheck_shards(const opcheck_use *u, weft_pool *pool)
{
    int ways = 0;
    for (int n = 2; n <= 3; n++) {
        for (int letter = 0; letter < u->rule.n_letters; letter++) {
            if (u->rule.whole >> letter & 1 || !can_cut(u, letter, n))
                continue;
            cut_letter(u, letter, n, pool);
            ways++;
        }
        for (int g = 0; g < u->rule.n_groups; g++, ways++)
            split_group(u, u->rule.group[g], n, pool);
    }
    return ways;
}
