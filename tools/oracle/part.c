/* SPDX-License-Identifier: Apache-2.0 */
/* How far what one rank holds of a tensor is from the reference: a fault of one rank is large there
 * and small in the whole. */
#include "oracle.h"

#include <math.h>

bool oracle_next_row(const weft_tensor *part, oracle_row *row)
{
    row->i += row->n;
    if (row->i >= weft_tensor_count(part))
        return false;
    row->n = weft_elements_in_row(part, row->i);
    row->at = weft_global_index(part, row->i);
    return true;
}

void oracle_add(double *whole, const weft_tensor *part)
{
    for (oracle_row row = {0}; oracle_next_row(part, &row);)
        for (int64_t k = 0; k < row.n; k++)
            whole[row.at + (uint64_t)k] += weft_tensor_get(part, row.i + k);
}

/* Sums over the elements of a part. */
typedef struct sums {
    int64_t n;
    double apart, size, along, fourth;
} sums;

static void add(sums *to, double a, double b)
{
    double square = isfinite(a) ? a * a : 0;
    to->n++;
    to->size += square;
    to->fourth += square * square;
    if (a == b || (a != a && b != b))
        return;
    to->apart += (b - a) * (b - a);
    to->along += (b - a) * a;
}

/* How many elements its size is of: all of them if they are alike, one if that dwarfs the others.
 */
static double carriers(const sums *s)
{
    return s->fourth > 0 ? s->size * s->size / s->fourth : (double)s->n;
}

/* Where few elements are all of it, one that is rounded by more than others is much: the mean of
 * the squares has at most this deviation, and up to four of it are allowed. */
static double tolerance(const sums *s)
{
    return sqrt(1 + 4 / sqrt(carriers(s)));
}

double oracle_tolerance(const double *reference, int64_t n)
{
    sums s = {.n = 0};
    for (int64_t i = 0; i < n; i++)
        add(&s, reference[i], reference[i]);
    return tolerance(&s);
}

/* Each element is rounded up or down, whatever the others are. So what is off, but across the
 * reference, says how much of it chance leaves along it: the bound is that of Student's
 * distribution, which four times the deviation has for many elements; 4 exp(5 / n) is within a
 * tenth of it from 5 on. Of fewer nothing can be said. */
static double beyond_chance(const sums *s, double scale, double error)
{
    double free = carriers(s) - 1, across = sqrt(fmax(error * error - scale * scale, 0));
    double chance = free < 4 ? INFINITY : 4 * exp(5 / free) * across / sqrt(free);
    return scale > chance ? scale - chance : 0;
}

static void judge(const sums *s, double least, oracle_part *worst)
{
    double size = fmax(sqrt(s->size), least);
    if (s->apart == 0)
        return;
    double error = size > 0 && s->apart == s->apart ? sqrt(s->apart) / size : INFINITY;
    double scale = size > 0 && isfinite(error) ? fabs(s->along) / (size * size) : INFINITY;
    worst->error = fmax(worst->error, error / tolerance(s));
    worst->scale = fmax(worst->scale, isfinite(scale) ? beyond_chance(s, scale, error) : INFINITY);
}

void oracle_measure(const double *reference, const weft_tensor *t, double least, oracle_part *worst)
{
    sums s = {.n = 0};
    for (oracle_row row = {0}; oracle_next_row(t, &row);)
        for (int64_t k = 0; k < row.n; k++)
            add(&s, reference[row.at + (uint64_t)k], weft_tensor_get(t, row.i + k));
    judge(&s, least, worst);
}

void oracle_measure_whole(const double *reference, const double *other, int64_t n,
                          oracle_part *worst)
{
    sums s = {.n = 0};
    for (int64_t i = 0; i < n; i++)
        add(&s, reference[i], other[i]);
    judge(&s, 0, worst);
}

void oracle_measure_parts(const double *reference, const double *other, int64_t n,
                          const oracle_parts *parts, double least, oracle_part *worst)
{
    sums s = {.n = 0};
    for (int64_t i = 0; i < n; i++)
        add(&s, reference[i], other[i]);
    double size = fmax(sqrt(s.size), least);
    judge(&s, size, worst);
    for (int k = 0; k < parts->n; k++) {
        const weft_tensor *t = &parts->list[k];
        int64_t elements = weft_tensor_count(t);
        s = (sums){.n = 0};
        for (oracle_row row = {0}; oracle_next_row(t, &row);)
            for (uint64_t at = row.at; at < row.at + (uint64_t)row.n; at++)
                add(&s, reference[at], other[at]);
        judge(&s, size / 8 * sqrt((double)elements / (double)n), worst);
    }
}
