/* SPDX-License-Identifier: Apache-2.0 */
/* What the rule says: every index that is not in brackets may be cut, and what the shards give
 * makes the whole. */
#include "conform.h"

#include <math.h>
#include <string.h>

/* One way to cut. */
typedef struct cut {
    const conform *c;
    const conform_use *u;
    int letter, n;
    bool more; /* only the dims that are marked x+ */
    weft_pool *pool;
} cut;

/* The dim of a part that is cut, -1 if none. */
static int cut_dim(const cut *k, const weft_rule_part *part)
{
    int d = weft_rule_dim(part, k->letter);
    return d >= 0 && k->more && !part->more[d] ? -1 : d;
}

/* The part of rank r: nested ceil in grains, so that the last ones are short or empty. */
static void part_of(const weft_tensor *t, int d, int r, int n, int64_t *lo, int64_t *hi)
{
    int64_t units = t->size[d] / t->grain[d], each = (units + n - 1) / n * t->grain[d];
    *lo = r * each < t->size[d] ? r * each : t->size[d];
    *hi = *lo + each < t->size[d] ? *lo + each : t->size[d];
}

static const weft_tensor *part(const conform_use *u, int i, const weft_rule_part **rule)
{
    bool in = i < u->rule.n_ins;
    *rule = in ? &u->rule.in[i] : &u->rule.out[i - u->rule.n_ins];
    return in ? &u->ins[i] : &u->outs[i - u->rule.n_ins];
}

/* A letter with two sizes (in grains) can be cut only where all of them divide. */
static bool can_cut(const conform_use *u, int letter, int n)
{
    int64_t units = -1;
    bool equal = true, divide = true;
    for (int i = 0; i < u->rule.n_ins + u->rule.n_outs; i++) {
        const weft_rule_part *rule;
        const weft_tensor *t = part(u, i, &rule);
        int d = weft_rule_dim(rule, letter);
        if (d < 0)
            continue;
        equal = equal && (units < 0 || units == t->size[d] / t->grain[d]);
        units = t->size[d] / t->grain[d];
        divide = divide && units % n == 0;
    }
    return equal || divide;
}

static void complain(const cut *k, int rank, int r, const weft_tensor *want, const weft_tensor *got,
                     int64_t at)
{
    weft_text what = {0};
    const weft_op *op = k->u->node->op;
    bool contracted = cut_dim(k, &k->u->rule.out[r]) < 0;
    if (rank >= 0)
        weft_text_print(&what, "on rank %d of %d, ", rank, k->n);
    conform_print_difference(want, got, r, at, &what);
    conform_fail(
        k->c,
        "op %s: shards: cut at index %s%s in %d, %s of what the shards give is not what the "
        "whole gives: %s; mark the index [%s] in the rule, or mend how the kernel uses lo "
        "and whole",
        op->name, k->u->rule.name[k->letter], k->more ? "+" : "", k->n,
        !contracted               ? "the concatenation"
        : op->flags & WEFT_OP_MAX ? "the maximum"
                                  : "the sum",
        weft_text_get(&what), k->u->rule.name[k->letter]);
    weft_text_release(&what);
}

static void combine(const cut *k, weft_tensor *total, const weft_tensor *part, bool first)
{
    bool max = k->u->node->op->flags & WEFT_OP_MAX;
    for (int64_t i = 0; i < weft_tensor_count(total); i++) {
        double a = weft_tensor_get(total, i), b = weft_tensor_get(part, i);
        weft_tensor_set(total, i, first ? b : max ? fmax(a, b) : a + b);
    }
}

static void poison(weft_tensor *t)
{
    for (int64_t i = 0; t->data && i < weft_tensor_count(t); i++)
        weft_tensor_set(t, i, weft_dtype_is_float(t->dtype) ? NAN : -77);
}

/* This rank's operands and places for results. */
static void make_shard(const cut *k, int rank, weft_tensor *ins, weft_tensor *outs)
{
    const conform_use *u = k->u;
    int64_t lo, hi;
    for (int i = 0; i < u->node->n_ins; i++) {
        int d = cut_dim(k, &u->rule.in[i]);
        ins[i] = u->ins[i];
        if (d < 0)
            continue;
        part_of(&u->ins[i], d, rank, k->n, &lo, &hi);
        ins[i] = conform_slice(&u->ins[i], d, lo, hi, k->pool);
    }
    for (int r = 0; r < u->rule.n_outs; r++) {
        int d = cut_dim(k, &u->rule.out[r]);
        if (d < 0) {
            outs[r] = conform_new(&u->outs[r], k->pool);
        } else {
            part_of(&u->outs[r], d, rank, k->n, &lo, &hi);
            outs[r] = conform_slice(&u->outs[r], d, lo, hi, k->pool);
        }
        poison(&outs[r]);
    }
}

/* False: the rest of this cut would say the same. */
static bool check_rank(const cut *k, int rank, const weft_tensor *outs, weft_tensor *total)
{
    const conform_use *u = k->u;
    for (int r = 0; r < u->rule.n_outs; r++) {
        int d = cut_dim(k, &u->rule.out[r]);
        if (d < 0) {
            combine(k, &total[r], &outs[r], rank == 0);
            continue;
        }
        weft_tensor want =
            conform_slice(&u->outs[r], d, outs[r].lo[d], outs[r].lo[d] + outs[r].size[d], k->pool);
        int64_t at = conform_differ(&want, &outs[r], 1e-9);
        if (at >= 0) {
            complain(k, rank, r, &want, &outs[r], at);
            return false;
        }
    }
    return true;
}

static void check_cut(const cut *k)
{
    weft_tensor ins[WEFT_RULE_MAX_PARTS], outs[WEFT_RULE_MAX_PARTS], total[WEFT_RULE_MAX_PARTS];
    const conform_use *u = k->u;
    for (int r = 0; r < u->rule.n_outs; r++)
        total[r] = conform_new(&u->outs[r], k->pool);
    for (int rank = 0; rank < k->n; rank++) {
        make_shard(k, rank, ins, outs);
        if (!conform_ran(k->c, u, "shards", ins, outs) || !check_rank(k, rank, outs, total))
            return;
    }
    for (int r = 0; r < u->rule.n_outs; r++) {
        int64_t at = conform_differ(&u->outs[r], &total[r], 1e-9);
        if (cut_dim(k, &u->rule.out[r]) >= 0 || at < 0)
            continue;
        complain(k, -1, r, &u->outs[r], &total[r], at);
        return;
    }
}

/* One more part than there are units: the last one is empty. */
static int most_parts(const conform_use *u, int letter)
{
    int64_t most = 3;
    for (int i = 0; i < u->rule.n_ins + u->rule.n_outs; i++) {
        const weft_rule_part *rule;
        const weft_tensor *t = part(u, i, &rule);
        int d = weft_rule_dim(rule, letter);
        if (d >= 0 && t->size[d] / t->grain[d] < 8)
            most = t->size[d] / t->grain[d] + 1 > most ? t->size[d] / t->grain[d] + 1 : most;
    }
    return (int)most;
}

static bool check_parts(const conform *c, const conform_use *u, int letter, int n, bool more)
{
    weft_pool pool = {0};
    const cut k = {c, u, letter, n, more, &pool};
    if (!more && !can_cut(u, letter, n))
        return false;
    conform_now(c, "op %s: shards, index %s%s cut in %d", u->node->op->name, u->rule.name[letter],
                more ? "+" : "", n);
    check_cut(&k);
    weft_pool_release(&pool);
    return true;
}

void conform_check_shards(const conform *c, const conform_use *u)
{
    int ways = 0;
    for (int letter = 0; letter < u->rule.n_letters; letter++) {
        if (u->rule.whole >> letter & 1)
            continue;
        int most = most_parts(u, letter), parts[] = {2, 3, most};
        for (int i = 0; i < 2 + (most > 3); i++) {
            ways += check_parts(c, u, letter, parts[i], false);
            if (u->rule.more >> letter & 1)
                ways += check_parts(c, u, letter, parts[i], true);
        }
    }
    conform_count(c, "ways to cut", ways);
}
