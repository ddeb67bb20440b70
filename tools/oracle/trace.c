/* SPDX-License-Identifier: Apache-2.0 */
/* Where two runs part first, and whose doing it is. */
#include "oracle.h"

#include <math.h>
#include <string.h>

static oracle_errors bound_for(oracle_record *a, const oracle_record *b, oracle_exactness exact)
{
    oracle_errors bound = oracle_bound(a, b, a->n_steps - 1);
    if (exact != ORACLE_ROUNDING)
        return (oracle_errors){0};
    if (a->eighth || b->eighth) { /* each rounding was looked at */
        bound.whole *= 4;
        bound.scale *= 4;
    }
    return bound;
}

static void print_place(weft_text *out, int block)
{
    const weft_block_words words = weft_block_describe(" (", block);
    if (*words.text)
        weft_text_print(out, "%s)", words.text);
}

void oracle_print_value(weft_text *out, const oracle_value *v)
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
    oracle_print_value(out, v->cause);
}

/* How far a value is apart that both runs have: the whole, or a rank's part. false: it cannot be
 * compared. */
static bool compare_value(const oracle_record *a, const oracle_value *v, oracle_part *apart)
{
    const oracle_value *other =
        v->whole ? weft_map_get(&a->by_name, v->name, strlen(v->name)) : NULL;
    if (!other || !other->whole || other->count != v->count)
        return false;
    *apart = v->part;
    oracle_measure_whole(other->whole, v->whole, v->count, apart);
    return true;
}

/* Of a value: a gradient of attention's is a small difference of large numbers. */
static oracle_errors bound_of(const oracle_value *v, oracle_errors bound)
{
    if (!v->backward)
        return bound;
    bool half = bound.scale < bound.whole;
    return (oracle_errors){.whole = ORACLE_CANCELS * bound.whole,
                           .scale = (half ? 2 : ORACLE_CANCELS) * bound.scale};
}

/* In the second run's order, backward: of its gradients. */
static const oracle_value *first_parted(const oracle_record *a, const oracle_record *b,
                                        oracle_errors bounds, bool backward, oracle_part *apart,
                                        int *compared)
{
    for (int i = 0; i < b->n_values; i++) {
        const oracle_value *v = &b->values[i];
        if (v->backward != backward || !compare_value(a, v, apart))
            continue;
        const oracle_errors bound = bound_of(v, bounds);
        ++*compared;
        if (!(apart->error <= bound.whole) || !(apart->scale <= bound.scale))
            return v;
    }
    return NULL;
}

void oracle_compare_values(oracle_record *a, const oracle_record *b, oracle_verdict *v,
                           weft_text *out)
{
    static const char *const kinds[2] = {"value", "gradient of value"};
    const oracle_errors bounds = bound_for(a, b, ORACLE_ROUNDING);
    oracle_part worst[2] = {{0, 0}, {0, 0}}, apart;
    int compared[2] = {0};
    for (int i = 0; i < b->n_values; i++) {
        const oracle_value *value = &b->values[i];
        if (!compare_value(a, value, &apart))
            continue;
        const oracle_errors bound = bound_of(value, bounds);
        oracle_part *most = &worst[value->backward];
        compared[value->backward]++;
        oracle_judge_part(v, &apart, &bound, kinds[value->backward], a->n_steps - 1, value->name);
        most->error = fmax(most->error, apart.error);
        most->scale = fmax(most->scale, apart.scale);
    }
    if (compared[0])
        weft_text_print(out,
                        "values: %d of the forward up to %.2g apart, in scale %.2g; %d of the "
                        "backward up to %.2g, %.2g\n",
                        compared[0], worst[0].error, worst[0].scale, compared[1], worst[1].error,
                        worst[1].scale);
    else
        weft_text_add(out, "values: not compared, for the micro-batches differ in size\n");
}

/* Backward order: the last parameter's gradient is known first. */
static const oracle_tensor *first_gradient(const oracle_record *a, const oracle_record *b,
                                           const oracle_errors *bound, oracle_part *apart)
{
    int64_t step = a->n_steps - 1;
    for (int i = a->n_tensors - 1; i >= 0; i--) {
        const oracle_tensor *x = &a->steps[step].tensors[i];
        const oracle_tensor *y = oracle_find(b, step, x->name);
        bool noise;
        *apart = y->part;
        double whole = oracle_gradient_error(a, b, x, y, step, bound->whole, NULL, &noise);
        if (!(whole <= apart->error))
            apart->error = whole;
        if (!(apart->error <= bound->whole) || !(apart->scale <= oracle_gradient_scale(bound)))
            return y;
    }
    return NULL;
}

void oracle_print_apart(weft_text *out, const oracle_part *apart, const oracle_errors *bound)
{
    bool scaled = apart->error <= bound->whole;
    weft_text_print(out, "%s%.3g, bound %.3g", scaled ? "in scale by " : "",
                    scaled ? apart->scale : apart->error, scaled ? bound->scale : bound->whole);
}

/* What does not show in any parameter's gradient. */
static void explain_values(const oracle_record *a, const oracle_record *b,
                           const oracle_errors *bounds, weft_text *out)
{
    oracle_part apart;
    int compared = 0;
    const oracle_value *v = first_parted(a, b, *bounds, true, &apart, &compared);
    if (!v) {
        weft_text_add(
            out, "no gradient parts: look at what comes after them, the norm and the update\n");
        return;
    }
    const oracle_errors bound = bound_of(v, *bounds);
    weft_text_add(out, "no parameter's gradient parts; the first in the backward that does is ");
    oracle_print_value(out, v);
    weft_text_add(out, ": ");
    oracle_print_apart(out, &apart, &bound);
    print_cause(out, v);
    weft_text_add(out, "\n");
}

static void explain_backward(const oracle_record *a, const oracle_record *b,
                             const oracle_errors *bound, int compared, weft_text *out)
{
    oracle_part apart;
    const oracle_tensor *x = first_gradient(a, b, bound, &apart);
    if (compared)
        weft_text_print(out, "the forward does not part (%d values of micro-batch 0)\n", compared);
    else
        weft_text_add(
            out, "no value of the forward can be compared: the micro-batches differ in size\n");
    if (!x) {
        explain_values(a, b, bound, out);
        return;
    }
    weft_text_print(out,
                    "first parted at the gradient of %s (in the order of the backward): ", x->name);
    oracle_print_apart(out, &apart, bound);
    const oracle_value *v = weft_map_get(&b->by_name, x->gradient_name, strlen(x->gradient_name));
    if (v) {
        weft_text_add(out, "\n        ");
        oracle_print_value(out, v);
        print_cause(out, v);
    }
    weft_text_add(out, "\n");
}

void oracle_explain(oracle_record *a, const oracle_record *b, oracle_exactness exact,
                    weft_text *out)
{
    const oracle_errors bounds = bound_for(a, b, exact);
    oracle_part apart;
    int compared = 0;
    const oracle_value *v = first_parted(a, b, bounds, false, &apart, &compared);
    if (!v) {
        explain_backward(a, b, &bounds, compared, out);
        return;
    }
    const oracle_errors bound = bound_of(v, bounds);
    weft_text_add(out, "first parted at ");
    oracle_print_value(out, v);
    weft_text_print(out, ", step %lld: ", (long long)a->n_steps);
    oracle_print_apart(out, &apart, &bound);
    print_cause(out, v);
    weft_text_add(out, "\n");
}
