/* SPDX-License-Identifier: Apache-2.0 */
/* Are two recorded runs the same, within what the dtypes allow or bit for bit? */
#include "oracle.h"

#include <math.h>
#include <string.h>

static void judge(oracle_verdict *v, double error, double bound, const char *what, int64_t s,
                  const char *name)
{
    bool parted = !(error <= bound);
    double excess = bound > 0 ? error / bound : parted ? INFINITY : 0;
    if (parted && v->first < 0)
        v->first = s;
    if (v->text[0] && !(excess > v->worst) && error == error)
        return;
    v->worst = excess;
    weft_text text = {0};
    weft_text_print(&text, "step %lld, %s%s%s: %.3g, bound %.3g", (long long)s + 1, what,
                    *name ? " of " : "", name, error, bound);
    strncpy(v->text, weft_text_get(&text), sizeof v->text - 1);
    weft_text_release(&text);
}

double oracle_relative(const double *a, const double *b, int64_t n, double least, double *cosine,
                       double *size)
{
    double difference = 0, aa = 0, bb = 0, ab = 0;
    for (int64_t i = 0; i < n; i++) {
        difference += (a[i] - b[i]) * (a[i] - b[i]);
        aa += a[i] * a[i];
        bb += b[i] * b[i];
        ab += a[i] * b[i];
    }
    if (size)
        *size = sqrt(aa);
    if (cosine)
        *cosine = aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 1;
    double scale = sqrt(aa) > least ? sqrt(aa) : least;
    return difference == 0 ? 0 : scale > 0 ? sqrt(difference) / scale : INFINITY;
}

const oracle_tensor *oracle_find(const oracle_record *r, int64_t step, const char *name)
{
    for (int i = 0; i < r->n_tensors; i++)
        if (strcmp(r->steps[step].tensors[i].name, name) == 0)
            return &r->steps[step].tensors[i];
    return NULL;
}

static int64_t elements(const oracle_record *r)
{
    int64_t n = 0;
    for (int i = 0; i < r->n_tensors; i++)
        n += r->steps[0].tensors[i].count;
    return n;
}

/* A gradient that is zero but for rounding (a key's bias: softmax does not see it) is measured
 * against its share of the gradient norm; the optimizer makes steps of full size from such noise,
 * so the parameter says nothing then. */
double oracle_gradient_error(const oracle_record *a, const oracle_tensor *x, const oracle_tensor *y,
                             int64_t step, double bound, double *cosine, bool *noise)
{
    double size, share = a->steps[step].norm * sqrt((double)x->count / (double)elements(a));
    double error = oracle_relative(x->gradient, y->gradient, x->count, share, cosine, &size);
    *noise = size < 10 * bound * share;
    return error;
}

/* ---- within rounding ---- */

/* The worst of one step, for its line of the report. */
typedef struct extremes {
    double gradient, parameter, cosine;
} extremes;

static void compare_tensor(const oracle_record *a, const oracle_tensor *x, const oracle_tensor *y,
                           int64_t s, double bound, oracle_verdict *v, extremes *e)
{
    double cosine;
    bool noise;
    double gradient = oracle_gradient_error(a, x, y, s, bound, &cosine, &noise);
    judge(v, gradient, bound, "gradient", s, x->name);
    e->gradient = gradient > e->gradient ? gradient : e->gradient;
    if (noise && !x->frozen)
        return;
    e->cosine = !x->frozen && cosine < e->cosine ? cosine : e->cosine;
    double parameter = oracle_relative(x->parameter, y->parameter, x->count, 0, NULL, NULL);
    judge(v, parameter, 4 * bound, "parameter", s, x->name); /* Adam divides by what it rounds */
    e->parameter = parameter > e->parameter ? parameter : e->parameter;
}

static void compare_step(oracle_record *a, const oracle_record *b, int64_t s, oracle_verdict *v,
                         weft_text *out)
{
    const oracle_errors errors = oracle_bound(a, b, s);
    double bound = errors.whole;
    const oracle_step *x = &a->steps[s], *y = &b->steps[s];
    extremes e = {.cosine = 1};
    for (int i = 0; i < a->n_tensors; i++)
        compare_tensor(a, &x->tensors[i], oracle_find(b, s, x->tensors[i].name), s, bound, v, &e);
    double loss = fabs(y->loss - x->loss) / fabs(x->loss),
           norm = fabs(y->norm - x->norm) / fabs(x->norm);
    judge(v, loss, bound, "loss", s, "");
    judge(v, norm, bound, "gradient norm", s, "");
    if (errors.at)
        judge(v, errors.farthest, errors.allowed, "distance from a halfway point to 8 bits", s,
              errors.at);
    weft_text_print(out, "step %lld: loss %.9g and %.9g, gradient norm %.9g and %.9g\n",
                    (long long)s + 1, x->loss, y->loss, x->norm, y->norm);
    weft_text_print(out,
                    "        relative errors: loss %.2g, norm %.2g, gradients up to %.2g (cosine "
                    "%.9f), parameters up to %.2g\n",
                    loss, norm, e.gradient, e.cosine, e.parameter);
}

/* ---- bit for bit ---- */

static void judge_bits(oracle_verdict *v, const double *a, const double *b, int64_t n,
                       const char *what, int64_t s, const char *name, int64_t *differ)
{
    int64_t before = *differ;
    double most = 0;
    for (int64_t i = 0; i < n; i++) {
        *differ += memcmp(&a[i], &b[i], sizeof a[i]) != 0;
        most = fabs(a[i] - b[i]) > most ? fabs(a[i] - b[i]) : most;
    }
    /* differences that are none in value (-0 and 0, NaN) count, too */
    judge(v, *differ == before ? 0 : most > 0 ? most : INFINITY, 0, what, s, name);
}

static void compare_bits(const oracle_record *a, const oracle_record *b, int64_t s,
                         oracle_exactness exact, oracle_verdict *v, weft_text *out)
{
    bool parameters = exact == ORACLE_ALL;
    const oracle_step *x = &a->steps[s], *y = &b->steps[s];
    int64_t scalars = 0, gradients = 0, updated = 0;
    judge_bits(v, &x->loss, &y->loss, 1, "loss", s, "", &scalars);
    if (exact == ORACLE_BACKWARD)
        judge(v, fabs(x->norm - y->norm), 1e-6 * fabs(x->norm), "gradient norm", s, "");
    else
        judge_bits(v, &x->norm, &y->norm, 1, "gradient norm", s, "", &scalars);
    for (int i = 0; i < a->n_tensors; i++) {
        const oracle_tensor *t = &x->tensors[i], *other = oracle_find(b, s, t->name);
        judge_bits(v, t->gradient, other->gradient, t->count, "gradient", s, t->name, &gradients);
        if (parameters)
            judge_bits(v, t->parameter, other->parameter, t->count, "parameter", s, t->name,
                       &updated);
    }
    weft_text_print(out, "step %lld: loss %.17g and %.17g, gradient norm %.17g and %.17g\n",
                    (long long)s + 1, x->loss, y->loss, x->norm, y->norm);
    weft_text_print(out, "        elements that differ: %lld of gradients", (long long)gradients);
    if (parameters)
        weft_text_print(out, ", %lld of parameters", (long long)updated);
    weft_text_add(out, "\n");
}

/* ---- the whole ---- */

static weft_status check_models(const oracle_record *a, const oracle_record *b, weft_error *err)
{
    if (a->n_tensors != b->n_tensors)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "the two models differ: %d tensors and %d", a->n_tensors, b->n_tensors);
    for (int i = 0; i < a->n_tensors; i++) {
        const oracle_tensor *x = &a->steps[0].tensors[i], *y = oracle_find(b, 0, x->name);
        if (!y || y->count != x->count)
            return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "the two models differ at %s",
                             x->name);
    }
    return WEFT_OK;
}

weft_status oracle_compare(oracle_record *a, const oracle_record *b, oracle_exactness exact,
                           oracle_verdict *v, weft_text *out, weft_error *err)
{
    weft_status s = check_models(a, b, err);
    *v = (oracle_verdict){.first = -1};
    for (int64_t i = 0; i < a->n_steps && !s; i++) {
        if (exact == ORACLE_ROUNDING)
            compare_step(a, b, i, v, out);
        else
            compare_bits(a, b, i, exact, v, out);
    }
    return s;
}
