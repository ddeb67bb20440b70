/* SPDX-License-Identifier: Apache-2.0 */
/* Where two runs part first, and whose doing it is. */
#include "oracle.h"

#include <string.h>

static double bound_for(oracle_record *a, const oracle_record *b, oracle_exactness exact)
{
    return exact == ORACLE_ROUNDING ? oracle_bound(a, b, a->n_steps - 1).whole : 0;
}

static void print_place(weft_text *out, int block)
{
    const weft_block_words words = weft_block_describe(" (", block);
    if (*words.text)
        weft_text_print(out, "%s)", words.text);
}

static void print_value(weft_text *out, const oracle_value *v)
{
    weft_text_print(out, "%%%s = %s", v->name, v->op);
    print_place(out, v->block);
    weft_text_print(out, ", caused by %s", v->by);
}

static void print_cause(weft_text *out, const oracle_value *v)
{
    if (!v->cause)
        return;
    weft_text_add(out, v->cause->moves ? "; moved before in "
                       : v->cause == v ? "; made otherwise here: "
                                       : "; made otherwise before: ");
    print_value(out, v->cause);
}

/* In the second run's order. */
static const oracle_value *first_parted(const oracle_record *a, const oracle_record *b,
                                        double bound, double *error, int *compared)
{
    for (int i = 0; i < b->n_values; i++) {
        const oracle_value *v = &b->values[i];
        const oracle_value *other =
            v->whole ? weft_map_get(&a->by_name, v->name, strlen(v->name)) : NULL;
        if (!other || other->count != v->count)
            continue;
        ++*compared;
        *error = oracle_relative(other->whole, v->whole, v->count, 0, NULL, NULL);
        if (!(*error <= bound))
            return v;
    }
    return NULL;
}

/* Backward order: the last parameter's gradient is known first. */
static const oracle_tensor *first_gradient(const oracle_record *a, const oracle_record *b,
                                           double bound, double *error)
{
    int64_t step = a->n_steps - 1;
    for (int i = a->n_tensors - 1; i >= 0; i--) {
        const oracle_tensor *x = &a->steps[step].tensors[i];
        const oracle_tensor *y = oracle_find(b, step, x->name);
        bool noise;
        *error = oracle_gradient_error(a, x, y, step, bound, NULL, &noise);
        if (!(*error <= bound))
            return y;
    }
    return NULL;
}

static void explain_backward(const oracle_record *a, const oracle_record *b, double bound,
                             int compared, weft_text *out)
{
    double error;
    const oracle_tensor *x = first_gradient(a, b, bound, &error);
    if (compared)
        weft_text_print(out, "the forward does not part (%d values of micro-batch 0)\n", compared);
    else
        weft_text_add(
            out, "no value of the forward can be compared: the micro-batches differ in size\n");
    if (!x) {
        weft_text_add(
            out, "no gradient parts: look at what comes after them, the norm and the update\n");
        return;
    }
    weft_text_print(
        out, "first parted at the gradient of %s (in the order of the backward): %.3g, bound %.3g",
        x->name, error, bound);
    const oracle_value *v = weft_map_get(&b->by_name, x->gradient_name, strlen(x->gradient_name));
    if (v) {
        weft_text_add(out, "\n        ");
        print_value(out, v);
        print_cause(out, v);
    }
    weft_text_add(out, "\n");
}

void oracle_explain(oracle_record *a, const oracle_record *b, oracle_exactness exact,
                    weft_text *out)
{
    double bound = bound_for(a, b, exact), error = 0;
    int compared = 0;
    const oracle_value *v = first_parted(a, b, bound, &error, &compared);
    if (!v) {
        explain_backward(a, b, bound, compared, out);
        return;
    }
    weft_text_add(out, "first parted at ");
    print_value(out, v);
    weft_text_print(out, ", step %lld: %.3g, bound %.3g", (long long)a->n_steps, error, bound);
    print_cause(out, v);
    weft_text_add(out, "\n");
}
