/* SPDX-License-Identifier: Apache-2.0 */
#include "sample.h"

#include <math.h>
#include <stdlib.h>

/* Likeliest first; equal ones by id, so that no order depends on the sort. */
static int compare(const void *a_, const void *b_)
{
    const sample_candidate *a = a_, *b = b_;
    if (a->logit != b->logit)
        return a->logit > b->logit ? -1 : 1;
    return a->id < b->id ? -1 : a->id > b->id;
}

static int32_t likeliest(const float *logits, int64_t n)
{
    int32_t best = -1;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(logits[i]) && (best < 0 || logits[i] > logits[best]))
            best = (int32_t)i;
    return best;
}

static int64_t collect(const float *logits, int64_t n, sample_candidate *list)
{
    int64_t k = 0;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(logits[i]))
            list[k++] = (sample_candidate){logits[i], (int32_t)i};
    return k;
}

/* Relative to the likeliest one's. */
static double weight(const sample_how *how, const sample_candidate *list, int64_t i)
{
    return exp(((double)list[i].logit - (double)list[0].logit) / how->temperature);
}

int32_t sample_choose(const sample_how *how, const float *logits, int64_t n, double u,
                      sample_candidate *list)
{
    if (how->temperature == 0)
        return likeliest(logits, n);
    n = collect(logits, n, list);
    if (n == 0)
        return -1;
    qsort(list, (size_t)n, sizeof *list, compare);
    if (how->top_k > 0 && n > how->top_k)
        n = how->top_k;
    double sum = 0, kept = 0;
    for (int64_t i = 0; i < n; i++)
        sum += weight(how, list, i);
    int64_t m = 0;
    while (m < n && (m == 0 || kept < how->top_p * sum))
        kept += weight(how, list, m++);
    double at = u * kept, before = 0;
    for (int64_t i = 0; i < m; i++) {
        before += weight(how, list, i);
        if (at < before)
            return list[i].id;
    }
    return list[m - 1].id;
}
