/* SPDX-License-Identifier: Apache-2.0 */
/* Offsets in the arena by liveness. Two ways are tried, and the smaller arena is taken: best fit in
 * order of time, and, for graphs small enough to afford it, largest first. */
#include "lower/lower.h"

#include <stdlib.h>
#include <string.h>

enum { ALIGN = 64, LARGEST_FIRST_LIMIT = 6000 };

typedef struct hole {
    int64_t offset, bytes;
} hole;

typedef struct planner {
    weft_buffer **by_first, **by_last; /* arena buffers, sorted */
    int n;
    hole *holes; /* sorted by offset; never adjacent */
    int n_holes;
    int64_t top;
} planner;

static int64_t round_up(int64_t n)
{
    return (n + ALIGN - 1) / ALIGN * ALIGN;
}

/* Buffers lie in one array: where all else is equal its order decides, so that a plan is the same
 * everywhere. */
static int compare_address(const weft_buffer *x, const weft_buffer *y)
{
    return (x > y) - (x < y);
}

static int compare_first(const void *a, const void *b)
{
    const weft_buffer *x = *(weft_buffer *const *)a, *y = *(weft_buffer *const *)b;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return x->bytes != y->bytes ? (x->bytes < y->bytes) - (x->bytes > y->bytes)
                                : compare_address(x, y);
}

static int compare_last(const void *a, const void *b)
{
    const weft_buffer *x = *(weft_buffer *const *)a, *y = *(weft_buffer *const *)b;
    return x->last != y->last ? (x->last > y->last) - (x->last < y->last) : compare_address(x, y);
}

static int compare_size(const void *a, const void *b)
{
    const weft_buffer *x = *(weft_buffer *const *)a, *y = *(weft_buffer *const *)b;
    return x->bytes != y->bytes ? (x->bytes < y->bytes) - (x->bytes > y->bytes)
                                : compare_first(a, b);
}

static int compare_offset(const void *a, const void *b)
{
    const weft_buffer *x = *(weft_buffer *const *)a, *y = *(weft_buffer *const *)b;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

static void take(planner *p, weft_buffer *b)
{
    int64_t bytes = round_up(b->bytes);
    int best = -1;
    for (int i = 0; i < p->n_holes; i++)
        if (p->holes[i].bytes >= bytes && (best < 0 || p->holes[i].bytes < p->holes[best].bytes))
            best = i;
    if (best < 0) {
        hole *last = p->n_holes ? &p->holes[p->n_holes - 1] : NULL;
        if (last && last->offset + last->bytes == p->top) { /* the hole at the end grows */
            b->offset = last->offset;
            p->n_holes--;
        } else {
            b->offset = p->top;
        }
        p->top = b->offset + bytes;
        return;
    }
    b->offset = p->holes[best].offset;
    p->holes[best].offset += bytes;
    p->holes[best].bytes -= bytes;
    if (p->holes[best].bytes == 0)
        memmove(&p->holes[best], &p->holes[best + 1], sizeof(hole) * (size_t)(--p->n_holes - best));
}

static void give(planner *p, const weft_buffer *b)
{
    hole h = {b->offset, round_up(b->bytes)};
    int i = 0, end = p->n_holes;
    while (i < end) { /* the first hole behind it */
        int mid = (i + end) / 2;
        if (p->holes[mid].offset < h.offset)
            i = mid + 1;
        else
            end = mid;
    }
    bool before = i > 0 && p->holes[i - 1].offset + p->holes[i - 1].bytes == h.offset;
    bool after = i < p->n_holes && h.offset + h.bytes == p->holes[i].offset;
    if (before && after) {
        p->holes[i - 1].bytes += h.bytes + p->holes[i].bytes;
        memmove(&p->holes[i], &p->holes[i + 1], sizeof h * (size_t)(--p->n_holes - i));
    } else if (before) {
        p->holes[i - 1].bytes += h.bytes;
    } else if (after) {
        p->holes[i].offset = h.offset;
        p->holes[i].bytes += h.bytes;
    } else {
        memmove(&p->holes[i + 1], &p->holes[i], sizeof h * (size_t)(p->n_holes++ - i));
        p->holes[i] = h;
    }
}

static int64_t best_fit(planner *p)
{
    int freed = 0;
    p->n_holes = 0;
    p->top = 0;
    for (int i = 0; i < p->n; i++) {
        while (freed < p->n && p->by_last[freed]->last < p->by_first[i]->first)
            give(p, p->by_last[freed++]);
        take(p, p->by_first[i]);
    }
    return p->top;
}

/* Largest first, each at the lowest offset that no placed buffer alive at the same time occupies.
 */
static int64_t largest_first(weft_buffer **list, int n, weft_buffer **near)
{
    int64_t top = 0;
    qsort(list, (size_t)n, sizeof *list, compare_size);
    for (int i = 0; i < n; i++) {
        int n_near = 0;
        for (int k = 0; k < i; k++)
            if (list[k]->first <= list[i]->last && list[i]->first <= list[k]->last)
                near[n_near++] = list[k];
        qsort(near, (size_t)n_near, sizeof *near, compare_offset);
        int64_t at = 0, bytes = round_up(list[i]->bytes);
        for (int k = 0; k < n_near; k++) {
            if (near[k]->offset >= at + bytes)
                break;
            int64_t end = near[k]->offset + round_up(near[k]->bytes);
            if (end > at)
                at = end;
        }
        list[i]->offset = at;
        if (at + bytes > top)
            top = at + bytes;
    }
    return top;
}

static int64_t most_alive(const planner *p, int *position)
{
    int64_t alive = 0, most = 0;
    int freed = 0;
    *position = 0;
    for (int i = 0; i < p->n; i++) {
        while (freed < p->n && p->by_last[freed]->last < p->by_first[i]->first)
            alive -= round_up(p->by_last[freed++]->bytes);
        alive += round_up(p->by_first[i]->bytes);
        if (alive > most) {
            most = alive;
            *position = p->by_first[i]->first;
        }
    }
    return most;
}

weft_status weft_plan_memory(weft_buffer *buffers, int n, int n_positions, int64_t *arena_bytes,
                             int64_t *live_peak, int *peak_position, weft_error *err)
{
    (void)n_positions;
    planner p = {0};
    size_t count = (size_t)n + 1;
    p.by_first = weft_alloc(count * sizeof *p.by_first);
    p.by_last = weft_alloc(count * sizeof *p.by_last);
    p.holes = weft_alloc(count * sizeof *p.holes);
    weft_buffer **list = weft_alloc(count * sizeof *list),
                **near = weft_alloc(count * sizeof *near);
    int64_t *kept = weft_alloc(count * sizeof *kept);
    weft_status s = WEFT_OK;
    if (!p.by_first || !p.by_last || !p.holes || !list || !near || !kept) {
        s = weft_fail_memory(err);
        goto done;
    }
    for (int i = 0; i < n; i++)
        if (buffers[i].base == WEFT_BASE_ARENA && buffers[i].bytes > 0)
            p.by_first[p.n++] = &buffers[i];
    memcpy(p.by_last, p.by_first, sizeof *p.by_last * (size_t)p.n);
    memcpy(list, p.by_first, sizeof *list * (size_t)p.n);
    qsort(p.by_first, (size_t)p.n, sizeof *p.by_first, compare_first);
    qsort(p.by_last, (size_t)p.n, sizeof *p.by_last, compare_last);
    *live_peak = most_alive(&p, peak_position);
    *arena_bytes = best_fit(&p);
    if (p.n <= LARGEST_FIRST_LIMIT && *arena_bytes > *live_peak) {
        for (int i = 0; i < p.n; i++)
            kept[i] = p.by_first[i]->offset;
        int64_t other = largest_first(list, p.n, near);
        if (other < *arena_bytes)
            *arena_bytes = other;
        else
            for (int i = 0; i < p.n; i++)
                p.by_first[i]->offset = kept[i];
    }
done:
    weft_free(p.by_first);
    weft_free(p.by_last);
    weft_free(p.holes);
    weft_free(list);
    weft_free(near);
    weft_free(kept);
    return s;
}
