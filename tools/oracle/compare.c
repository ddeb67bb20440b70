/* SPDX-License-Identifier: Apache-2.0 */
/* Are two recorded runs the same, within what the dtypes allow or bit for bit? */
#include "oracle.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void oracle_judge(oracle_verdict *v, double error, double bound, const char *what, int64_t s,
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

void oracle_join(oracle_verdict *to, const oracle_verdict *other)
{
    if (other->first >= 0 && (to->first < 0 || other->first < to->first))
        to->first = other->first;
    if (!other->text[0] || (to->text[0] && !(other->worst > to->worst)))
        return;
    to->worst = other->worst;
    memcpy(to->text, other->text, sizeof to->text);
}

void oracle_judge_part(oracle_verdict *v, const oracle_part *part, const oracle_errors *bound,
                       const char *what, int64_t s, const char *name)
{
    char scale[96];
    snprintf(scale, sizeof scale, "scale of a rank's part of %s", what);
    oracle_judge(v, part->error, bound->whole, what, s, name);
    oracle_judge(v, part->scale, bound->scale, scale, s, name);
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

double oracle_gradient_share(const oracle_record *a, const oracle_record *b, const oracle_tensor *x,
                             int64_t step)
{
    return (a->eighth || b->eighth ? 1 : 1.0 / 64) * a->steps[step].norm *
           sqrt((double)x->count / (double)elements(a));
}

/* A gradient that is zero but for rounding (a key's bias: softmax does not see it) is measured
 * against its share of the gradient norm; the optimizer makes steps of full size from such noise,
 * so the parameter says nothing then. */
double oracle_gradient_error(const oracle_record *a, const oracle_record *b, const oracle_tensor *x,
                             const oracle_tensor *y, int64_t step, double bound, double *cosine,
                             bool *noise)
{
    double size, share = oracle_gradient_share(a, b, x, step);
    double error = oracle_relative(x->gradient, y->gradient, x->count, share, cosine, &size);
    *noise = size < 10 * bound * share;
    return error / oracle_tolerance(x->gradient, x->count);
}

/* ---- within rounding ---- */

/* The worst of one step, for its line of the report. */
typedef struct extremes {
    double gradient, parameter, cosine, update;
} extremes;

/* What an update has done to one element. */
typedef struct moved {
    double by, apart; /* in the reference; the other run's less that */
} moved;

/* What is no number parts least, so that it counts. */
static double distance(const moved *m)
{
    return m->apart == m->apart ? fabs(m->apart) : -1;
}

/* Puts the `least` elements that part least first, by Hoare's selection. */
static void select_least(moved *list, int64_t n, int64_t least)
{
    int64_t lo = 0, hi = n - 1;
    while (lo < hi) {
        const double pivot = distance(&list[lo + (hi - lo) / 2]);
        int64_t i = lo, k = hi;
        while (i <= k) {
            while (distance(&list[i]) < pivot)
                i++;
            while (distance(&list[k]) > pivot)
                k--;
            if (i <= k) {
                const moved m = list[i];
                list[i++] = list[k];
                list[k--] = m;
            }
        }
        if (least <= k)
            hi = k;
        else if (least >= i)
            lo = i;
        else
            return;
    }
}

/* The optimizer makes much of little: it divides a gradient by its own size, and one that is next
 * to nothing may have either sign. So the tenth of the elements that parts most does not count, and
 * of the others the update shows settings that a parameter hides. */
static double update_distance(const oracle_record *a, const oracle_record *b,
                              const oracle_tensor *x, int64_t s, double *rounding)
{
    const oracle_tensor *y = oracle_find(b, s, x->name);
    const double *from = s ? a->steps[s - 1].tensors[x - a->steps[s].tensors].parameter : x->before;
    const double *other = s ? oracle_find(b, s - 1, x->name)->parameter : y->before;
    moved *list = weft_alloc((size_t)x->count * sizeof *list + 1);
    double by = 0, apart = 0, size = 0;
    int64_t kept = x->count - (x->count + 9) / 10;
    if (!list)
        return 0;
    for (int64_t i = 0; i < x->count; i++) {
        list[i].by = x->parameter[i] - from[i];
        list[i].apart = y->parameter[i] - other[i] - list[i].by;
    }
    select_least(list, x->count, kept);
    for (int64_t i = 0; i < kept; i++) {
        by += list[i].by * list[i].by;
        apart += list[i].apart * list[i].apart;
        size += x->parameter[i] * x->parameter[i];
    }
    weft_free(list);
    *rounding = 4 * oracle_epsilon(a, b) * sqrt(size / by);
    return apart == 0 ? 0 : sqrt(apart / by);
}

static void compare_update(const oracle_record *a, const oracle_record *b, const oracle_tensor *x,
                           int64_t s, double bound, oracle_verdict *v, extremes *e)
{
    double rounding, error = update_distance(a, b, x, s, &rounding);
    if (error == 0)
        return;
    oracle_judge(v, error, bound + rounding, "update", s, x->name);
    e->update = error > e->update ? error : e->update;
}

/* By how much the gradient of element i has parted so far, relative to itself, at most 1. */
static double gradient_parted(const oracle_record *a, const oracle_tensor *const *others,
                              int64_t tensor, int64_t i, int64_t steps)
{
    double most = 0;
    for (int64_t s = 0; s <= steps; s++) {
        double x = a->steps[s].tensors[tensor].gradient[i], y = others[s]->gradient[i];
        if (x != y)
            most = fmax(most, fabs(x - y) / fmax(fabs(x), fabs(y)));
    }
    return fmin(most, 1);
}

/* The optimizer divides a gradient by its own size, so what is next to nothing moves a parameter as
 * far as any other, one way or the other: an element may be as much of a step away as its gradients
 * were apart, relative to themselves. What is more than that is an error. */
static double parameter_error(const oracle_record *a, const oracle_record *b, int64_t tensor,
                              int64_t s)
{
    const oracle_tensor *x = &a->steps[s].tensors[tensor], **others;
    double step = 0, apart = 0, size = 0;
    others = weft_alloc((size_t)(s + 1) * sizeof *others);
    if (!others)
        return NAN;
    for (int64_t k = 0; k <= s; k++)
        others[k] = oracle_find(b, k, x->name);
    const double *before = s ? a->steps[s - 1].tensors[tensor].parameter : x->before;
    for (int64_t i = 0; i < x->count; i++)
        step = fmax(step, fabs(x->parameter[i] - before[i]));
    for (int64_t i = 0; i < x->count; i++) {
        double d = fabs(others[s]->parameter[i] - x->parameter[i]),
               excused = 4 * step * (double)(s + 1) * gradient_parted(a, others, tensor, i, s);
        d = d > excused ? d - excused : d == d ? 0 : NAN;
        apart += d * d;
        size += x->parameter[i] * x->parameter[i];
    }
    weft_free(others);
    return apart == 0 ? 0 : size > 0 ? sqrt(apart / size) : INFINITY;
}

static void compare_tensor(const oracle_record *a, const oracle_record *b, int tensor, int64_t s,
                           const oracle_errors *bounds, oracle_verdict *v, oracle_verdict *updates,
                           extremes *e)
{
    const oracle_tensor *x = &a->steps[s].tensors[tensor], *y = oracle_find(b, s, x->name);
    double cosine, bound = bounds->whole;
    bool noise;
    double after = bound + oracle_update_rounding(b, &a->steps[0].tensors[tensor]);
    double gradient = oracle_gradient_error(a, b, x, y, s, bound, &cosine, &noise);
    oracle_judge(v, gradient, bound, "gradient", s, x->name);
    e->gradient = gradient > e->gradient ? gradient : e->gradient;
    const oracle_errors of_gradient = {.whole = bound, .scale = oracle_gradient_scale(bounds)};
    oracle_judge_part(v, &y->part, &of_gradient, "gradient", s, x->name);
    if (s == 0 && x->before && y->before)
        oracle_judge(v, oracle_relative(x->before, y->before, x->count, 0, NULL, NULL),
                     4 * oracle_epsilon(a, b), "initial parameter", s, x->name);
    if (noise && !x->frozen)
        return;
    e->cosine = !x->frozen && cosine < e->cosine ? cosine : e->cosine;
    double parameter = parameter_error(a, b, tensor, s);
    oracle_judge(v, parameter, 4 * after, "parameter", s,
                 x->name); /* Adam divides by what it rounds */
    e->parameter = parameter > e->parameter ? parameter : e->parameter;
    if (!x->frozen)
        compare_update(a, b, x, s, after, updates, e);
}

static void compare_step(oracle_record *a, const oracle_record *b, int64_t s, oracle_verdict *v,
                         oracle_verdict *updates, weft_text *out)
{
    const oracle_errors errors = oracle_bound(a, b, s);
    const oracle_step *x = &a->steps[s], *y = &b->steps[s];
    const double summed = ldexp(sqrt((double)elements(a)), -53); /* the norm's own sum, in f64 */
    extremes e = {.cosine = 1};
    for (int i = 0; i < a->n_tensors; i++)
        compare_tensor(a, b, i, s, &errors, v, updates, &e);
    double loss = fabs(y->loss - x->loss) / fabs(x->loss),
           norm = fabs(y->norm - x->norm) / fabs(x->norm);
    oracle_judge(v, loss, errors.scale, "loss", s, "");
    oracle_judge(v, norm, errors.scale + summed, "gradient norm", s, "");
    if (errors.at)
        oracle_judge(v, errors.farthest, errors.allowed, "distance from a halfway point to 8 bits",
                     s, errors.at);
    weft_text_print(out, "step %lld: loss %.9g and %.9g, gradient norm %.9g and %.9g\n",
                    (long long)s + 1, x->loss, y->loss, x->norm, y->norm);
    weft_text_print(out,
                    "        relative errors: loss %.2g, norm %.2g, gradients up to %.2g (cosine "
                    "%.9f), parameters up to %.2g, updates up to %.2g\n",
                    loss, norm, e.gradient, e.cosine, e.parameter, e.update);
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
    oracle_judge(v, *differ == before ? 0 : most > 0 ? most : INFINITY, 0, what, s, name);
}

static void compare_bits(const oracle_record *a, const oracle_record *b, int64_t s,
                         oracle_exactness exact, oracle_verdict *v, weft_text *out)
{
    bool parameters = exact == ORACLE_ALL;
    const oracle_step *x = &a->steps[s], *y = &b->steps[s];
    int64_t scalars = 0, gradients = 0, updated = 0;
    judge_bits(v, &x->loss, &y->loss, 1, "loss", s, "", &scalars);
    if (exact == ORACLE_BACKWARD)
        oracle_judge(v, fabs(x->norm - y->norm), 1e-6 * fabs(x->norm), "gradient norm", s, "");
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

void oracle_compare(oracle_record *a, const oracle_record *b, oracle_exactness exact,
                    oracle_verdict *v, oracle_verdict *updates, weft_text *out)
{
    for (int64_t i = 0; i < a->n_steps; i++) {
        if (exact == ORACLE_ROUNDING)
            compare_step(a, b, i, v, updates, out);
        else
            compare_bits(a, b, i, exact, v, out);
    }
}

void oracle_compare_updates(const oracle_record *a, const oracle_record *shaken,
                            const oracle_record *b, oracle_verdict *v, weft_text *out)
{
    extremes e = {.update = 0};
    double most = 0, rounding;
    for (int64_t s = 0; s < a->n_steps; s++)
        for (int i = 0; i < a->n_tensors; i++) {
            const oracle_tensor *x = &a->steps[s].tensors[i];
            double goes = shaken ? update_distance(a, shaken, x, s, &rounding) : 0;
            double bound = oracle_plain_bound(a, b) +
                           oracle_update_rounding(b, &a->steps[0].tensors[i]) + goes;
            if (!x->frozen)
                compare_update(a, b, x, s, bound, v, &e);
            most = fmax(most, goes);
        }
    weft_text_print(out, "from the same gradients: updates up to %.2g apart", e.update);
    if (shaken)
        weft_text_print(out, ", and %.2g from gradients that are rounded", most);
    weft_text_add(out, "\n");
}
