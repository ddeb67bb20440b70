/* SPDX-License-Identifier: Apache-2.0 */
/* How far what one rank holds of a tensor is from the reference: a fault of one rank is large there
 * and small in the whole. */
#include "oracle.h"

#include <math.h>

/* Of a tensor of few elements a single rounding is much. */
static double tolerance(int64_t n)
{
    return 1 + 4 / sqrt((double)n);
}

/* What is rounded up and down is as large as before, but for as much as chance leaves of what is
 * not along the reference. */
static double beyond_chance(double scale, double error, int64_t n)
{
    double across = error > scale ? sqrt(error * error - scale * scale) : 0,
           chance = 4 * across / sqrt((double)n);
    return scale > chance ? scale - chance : 0;
}

/* Sums over the elements of a part. */
typedef struct sums {
    int64_t n;
    double apart, size, along;
} sums;

static void add(sums *to, double a, double b)
{
    to->n++;
    to->size += isfinite(a) ? a * a : 0;
    if (a == b || (a != a && b != b))
        return;
    to->apart += (b - a) * (b - a);
    to->along += (b - a) * a;
}

static void judge(const sums *s, double least, oracle_part *worst)
{
    double size = fmax(sqrt(s->size), least);
    if (s->apart == 0)
        return;
    double error = size > 0 && s->apart == s->apart ? sqrt(s->apart) / size : INFINITY;
    double scale = size > 0 && isfinite(error) ? fabs(s->along) / (size * size) : INFINITY;
    worst->error = fmax(worst->error, error / tolerance(s->n));
    worst->scale =
        fmax(worst->scale, isfinite(scale) ? beyond_chance(scale, error, s->n) : INFINITY);
}

void oracle_measure(const double *reference, const weft_tensor *t, double least, oracle_part *worst)
{
    sums s = {0, 0, 0, 0};
    int64_t n = weft_tensor_count(t);
    for (int64_t i = 0; i < n; i++)
        add(&s, reference[weft_global_index(t, i)], weft_tensor_get(t, i));
    judge(&s, least, worst);
}

void oracle_measure_whole(const double *reference, const double *other, int64_t n,
                          oracle_part *worst)
{
    sums s = {0, 0, 0, 0};
    for (int64_t i = 0; i < n; i++)
        add(&s, reference[i], other[i]);
    judge(&s, 0, worst);
}

void oracle_measure_parts(const double *reference, const double *other, int64_t n,
                          const oracle_parts *parts, double least, oracle_part *worst)
{
    sums s = {0, 0, 0, 0};
    for (int64_t i = 0; i < n; i++)
        add(&s, reference[i], other[i]);
    double size = fmax(sqrt(s.size), least);
    judge(&s, size, worst);
    for (int k = 0; k < parts->n; k++) {
        const weft_tensor *t = &parts->list[k];
        int64_t elements = weft_tensor_count(t);
        s = (sums){0, 0, 0, 0};
        for (int64_t i = 0; i < elements; i++) {
            int64_t at = weft_global_index(t, i);
            add(&s, reference[at], other[at]);
        }
        judge(&s, size / 8 * sqrt((double)elements / (double)n), worst);
    }
}
