/* SPDX-License-Identifier: Apache-2.0 */
/* Of each block a point of its front, so that all together are as fast as their bytes allow. */
#include "ac.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_SUMS = 4096 };

static int compare(const void *a, const void *b)
{
    const ac_sum *x = a, *y = b;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    if (x->seconds != y->seconds)
        return x->seconds < y->seconds ? -1 : 1;
    return x->before != y->before ? (x->before > y->before) - (x->before < y->before)
                                  : (x->point > y->point) - (x->point < y->point);
}

/* Those that nothing beats. */
static int prune(ac_sum *list, int n)
{
    int kept = 0;
    qsort(list, (size_t)n, sizeof *list, compare);
    for (int i = 0; i < n; i++)
        if (kept == 0 || list[i].seconds < list[kept - 1].seconds)
            list[kept++] = list[i];
    return kept;
}

/* Of many the fastest of each 1/MOST_SUMS of all bytes, and the one with the fewest. */
static int thin(ac_sum *list, int n)
{
    int of[MOST_SUMS], kept = 0, least = 0;
    int64_t from = list[0].bytes, to = from;
    for (int i = 0; i < n; i++) {
        least = compare(&list[i], &list[least]) < 0 ? i : least;
        from = list[i].bytes < from ? list[i].bytes : from;
        to = list[i].bytes > to ? list[i].bytes : to;
    }
    const int64_t step = (to - from) / (MOST_SUMS - 1) + 1;
    memset(of, -1, sizeof of);
    for (int i = 0; i < n; i++) {
        int *best = &of[(list[i].bytes - from) / step];
        const bool better =
            *best < 0 || list[i].seconds < list[*best].seconds ||
            (list[i].seconds <= list[*best].seconds && list[i].bytes < list[*best].bytes);
        *best = better ? i : *best;
    }
    const ac_sum first = list[least];
    for (int i = 0, k = 0; i < n; i++) /* in place: those of list[0..i] alone are taken by then */
        if (of[(list[i].bytes - from) / step] == i)
            list[k++] = list[i], kept = k;
    if (kept == n)
        return n;
    list[kept++] = first;
    return kept;
}

static weft_status add_block(const ac_sums *s, int block, int64_t places, weft_error *err)
{
    static const ac_sum none;
    const ac_sum *before = block ? s->of[block - 1] : &none;
    const ac_front *f = s->fronts[block];
    const size_t n_before = block ? (size_t)s->n[block - 1] : 1, n = n_before * (size_t)f->n;
    ac_sum *list = weft_alloc((n + 1) * sizeof *list);
    s->of[block] = list;
    if (!list)
        return weft_fail_memory(err);
    for (size_t i = 0; i < n; i++) {
        const int b = (int)(i / (size_t)f->n), p = (int)(i % (size_t)f->n);
        list[i] = (ac_sum){before[b].bytes + places * f->points[p].bytes,
                           before[b].seconds + f->points[p].seconds, b, p};
    }
    s->n[block] = prune(list, n > 4 * MOST_SUMS ? thin(list, (int)n) : (int)n);
    ac_sum *less = weft_realloc(list, ((size_t)s->n[block] + 1) * sizeof *list);
    s->of[block] = less ? less : list;
    return WEFT_OK;
}

weft_status ac_sums_make(int n, const ac_front *const *fronts, const int64_t *places, ac_sums *out,
                         weft_error *err)
{
    *out = (ac_sums){.n_blocks = n, .fronts = fronts};
    out->of = weft_alloc_zero((size_t)n + 1, sizeof *out->of);
    out->n = weft_alloc_zero((size_t)n + 1, sizeof *out->n);
    weft_status s = out->of && out->n ? WEFT_OK : weft_fail_memory(err);
    for (int i = 0; i < n && !s; i++)
        s = add_block(out, i, places[i], err);
    if (s)
        ac_sums_release(out);
    return s;
}

void ac_sums_release(ac_sums *s)
{
    for (int i = 0; s->of && i < s->n_blocks; i++)
        weft_free(s->of[i]);
    weft_free(s->of);
    weft_free(s->n);
    *s = (ac_sums){0};
}

int ac_sums_find(const ac_sums *s, int64_t bytes)
{
    const int last = s->n_blocks - 1;
    int i = (last < 0 ? 0 : s->n[last]) - 1;
    while (i >= 0 && s->of[last][i].bytes > bytes)
        i--;
    return i;
}

void ac_sums_choice(const ac_sums *s, int i, int *points)
{
    for (int b = s->n_blocks - 1; b >= 0; i = s->of[b][i].before, b--)
        points[b] = s->of[b][i].point;
}
