/* SPDX-License-Identifier: Apache-2.0 */
/* How far two runs may part by rounding. Two values an error apart round to neighbours of 8 bits if
 * a halfway point lies between them: a value that was rounded otherwise must have been within the
 * error of one, and what it differs by is added to the error of all that comes after.
 * docs/oracle.md has the formulas. */
#include "rounding_f8.h"

#include <math.h>
#include <stdlib.h>

static int in_order(const void *a, const void *b)
{
    const oracle_rounding *x = *(oracle_rounding *const *)a, *y = *(oracle_rounding *const *)b;
    if (x->step != y->step)
        return x->step < y->step ? -1 : 1;
    if (x->micro != y->micro)
        return x->micro < y->micro ? -1 : 1;
    return (x->place > y->place) - (x->place < y->place);
}

/* Where runs cannot be compared, all that are within the error of a halfway point may have turned.
 */
static double may_turn(const oracle_rounding *x, double error)
{
    double squares = 0;
    for (int64_t i = 0; i < x->count; i++)
        if ((double)x->distance[i] <= error)
            squares += (double)x->gap[i] * (double)x->gap[i];
    return squares;
}

/* Adds what one rounding does to the errors. */
static void pass(const oracle_rounding *x, const oracle_rounding *other, bool checks,
                 oracle_errors *e)
{
    bool compared = other && other->compared == x->count;
    if (compared && checks && other->turned && !(other->farthest <= e->element) && !e->at) {
        e->at = x->name;
        e->farthest = other->farthest;
        e->allowed = e->element;
    }
    double squares = compared ? other->difference : may_turn(x, e->element);
    double share = x->size > 0 ? 16 * squares / x->size : 0;
    e->whole = sqrt(e->whole * e->whole + share);
    e->element = sqrt(e->element * e->element + share * (double)x->rows);
}

/* Do the runs round the same values, but for a few? */
static bool are_alike(const oracle_record *a, const oracle_record *b)
{
    int missing = 0;
    for (int i = 0; i < a->n_roundings; i++)
        missing += !oracle_find_rounding(b, a->roundings[i]->name, a->roundings[i]->step,
                                         a->roundings[i]->micro);
    return 8 * missing < a->n_roundings;
}

static oracle_errors pass_all(oracle_record *a, const oracle_record *b, int64_t step, double error,
                              double parameters)
{
    oracle_errors begun = {.whole = parameters, .element = parameters}, now = {0}, worst = {0};
    int64_t micro = -1;
    qsort(a->roundings, (size_t)a->n_roundings, sizeof(void *), in_order);
    for (int i = 0; i < a->n_roundings; i++) {
        const oracle_rounding *x = a->roundings[i],
                              *other = oracle_find_rounding(b, x->name, x->step, x->micro);
        if (x->step != step)
            continue;
        if (x->micro < 0) { /* behind the first step parameters are compared themselves */
            pass(x, other, step == 0, &begun);
            continue;
        }
        if (x->micro != micro) {
            now = begun;
            now.whole += error;
            now.element += error;
        }
        micro = x->micro;
        pass(x, other, true, &now);
        if (now.whole > worst.whole || (now.at && !worst.at))
            worst = now;
    }
    return worst;
}

/* How far single elements of parameters have parted before a step. */
static double parted(const oracle_record *a, const oracle_record *b, int64_t step)
{
    double most = 0;
    for (int i = 0; i < a->n_tensors && step > 0; i++) {
        const oracle_tensor *x = &a->steps[step - 1].tensors[i],
                            *y = oracle_find(b, step - 1, x->name);
        double squares = 0, apart = 0;
        for (int64_t k = 0; k < x->count; k++) {
            squares += x->parameter[k] * x->parameter[k];
            apart = fmax(apart, fabs(x->parameter[k] - y->parameter[k]));
        }
        if (apart > 0)
            most = fmax(most, apart / sqrt(squares / (double)x->count));
    }
    return most;
}

double oracle_epsilon(const oracle_record *a, const oracle_record *b)
{
    return ldexp(1, a->wide && b->wide ? -53 : -24);
}

double oracle_gradient_scale(const oracle_errors *e)
{
    return e->scale < e->whole ? 2 * e->scale : e->scale;
}

static double depth_of(const oracle_record *a)
{
    return sqrt(10.0 * (a->blocks + 1));
}

static double sums_of(const oracle_record *a, const oracle_record *b)
{
    return oracle_epsilon(a, b) * 4 * sqrt((double)a->tokens);
}

double oracle_plain_bound(const oracle_record *a, const oracle_record *b)
{
    return 4 * oracle_epsilon(a, b) * depth_of(a) + sums_of(a, b);
}

oracle_errors oracle_bound(oracle_record *a, const oracle_record *b, int64_t step)
{
    bool wide = a->wide && b->wide, half = a->half || b->half, eighth = a->eighth || b->eighth;
    double later = (double)(1 + (half ? 3 : 15) * step), drift = oracle_drift(a, b, step);
    double bound = half ? (eighth ? 4 : 1) * ldexp(1, -8) * depth_of(a) + sums_of(a, b)
                        : oracle_plain_bound(a, b);
    oracle_errors e = {.whole = bound * later + drift};
    if (!wide && a->n_roundings && are_alike(a, b))
        e = pass_all(a, b, step, bound, parted(a, b, step) + (half ? ldexp(1, -8) : 0));
    /* after the first step parameters have parted by rounding, and gradients follow them */
    e.scale =
        half && !eighth ? (a->half && b->half ? 1 : 1.5) * ldexp(1, -8) * later + drift : e.whole;
    return e;
}
