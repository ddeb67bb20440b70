/* SPDX-License-Identifier: Apache-2.0 */
/* Two models with different parameters: what both have is compared, and the others are named. */
#include "oracle.h"

#include <math.h>
#include <string.h>

/* Parameters of one shape; of another one elements begin otherwise. */
static bool has_like(const oracle_record *r, const oracle_tensor *t)
{
    const oracle_tensor *other = oracle_find(r, 0, t->name);
    return other && other->count == t->count;
}

static int count_common(const oracle_record *r, const oracle_record *other)
{
    int n = 0;
    for (int i = 0; i < r->n_tensors; i++)
        n += has_like(other, &r->steps[0].tensors[i]);
    return n;
}

static void print_own(const oracle_record *r, const oracle_record *other, const char *which,
                      weft_text *out)
{
    int own = r->n_tensors - count_common(r, other), shown = 0;
    for (int i = 0; own && i < r->n_tensors && shown < 8; i++) {
        const oracle_tensor *t = &r->steps[0].tensors[i], *same = oracle_find(other, 0, t->name);
        if (has_like(other, t))
            continue;
        weft_text_print(out, "%s%s%s", shown ? ", " : "", t->name,
                        same ? " (of another size)" : "");
        shown++;
    }
    if (own > shown)
        weft_text_print(out, " and %d more", own - shown);
    if (own)
        weft_text_print(out, ": the %s run alone has %s\n", which, own == 1 ? "it" : "them");
}

/* Those at the front, in their order; the others are left where nobody looks. */
static void keep_common(oracle_record *r, const bool *keep)
{
    int n = 0;
    for (int i = 0; i < r->n_tensors; i++)
        n += keep[i];
    for (int64_t s = 0; s < r->n_steps; s++) {
        int to = 0;
        for (int i = 0; r->steps[s].tensors && i < r->n_tensors; i++)
            if (keep[i])
                r->steps[s].tensors[to++] = r->steps[s].tensors[i];
    }
    r->n_tensors = n;
}

/* The norm of what both have: that of all is of other gradients. */
static void take_norms(oracle_record *r)
{
    for (int64_t s = 0; s < r->n_steps; s++) {
        r->steps[s].norm = NAN;
        r->steps[s].loss = r->steps[s].head;
    }
    oracle_complete(r);
}

static weft_status mark(const oracle_record *r, const oracle_record *other, bool **keep,
                        weft_error *err)
{
    *keep = weft_alloc_zero((size_t)r->n_tensors + 1, sizeof **keep);
    if (!*keep)
        return weft_fail_memory(err);
    for (int i = 0; i < r->n_tensors; i++)
        (*keep)[i] = has_like(other, &r->steps[0].tensors[i]);
    return WEFT_OK;
}

weft_status oracle_take_common(oracle_record *a, oracle_record *b, weft_text *out, weft_error *err)
{
    const int n = count_common(a, b);
    bool *keep[2] = {NULL, NULL};
    const bool terms = a->terms != b->terms;
    if (n == a->n_tensors && n == b->n_tensors && !terms)
        return WEFT_OK;
    if (n == 0)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "the two models have no parameter of the same name and size");
    weft_status s = mark(a, b, &keep[0], err);
    s = s ? s : mark(b, a, &keep[1], err);
    if (!s && out) {
        print_own(a, b, "first", out);
        print_own(b, a, "second", out);
        weft_text_print(out,
                        "what both have is compared: %d of %d and %d parameters, %sthe norm "
                        "of their gradients\n",
                        n, a->n_tensors, b->n_tensors,
                        terms ? "the head's loss (loss.head), " : "");
    }
    if (!s) {
        keep_common(a, keep[0]);
        keep_common(b, keep[1]);
        take_norms(a);
        take_norms(b);
    }
    weft_free(keep[0]);
    weft_free(keep[1]);
    return s;
}
