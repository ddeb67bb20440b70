/* SPDX-License-Identifier: Apache-2.0 */
/* Dynamic storage allocation where everything is known beforehand. No order of placing is good for
 * every plan, so several are tried and the best result is kept: a sweep through time, which is
 * cheap at any size, then orders in which each block goes to the lowest offset that is free during
 * all of its life; at last, orders near the best one. */
#include "compile/program/pack.h"

#include <stdlib.h>
#include <string.h>
#include <weft/random.h>

/* Steps of the innermost loop: about a quarter of a second in all. A few thousand blocks need far
 * less; where the limit ends an order before all is placed, the others' best is kept. */
static const int64_t work_limit = 300000000, search_limit = 40000000;
/* And what the search may take for each byte that it could gain: a second for some 160 MiB, so that
 * small runs begin at once; for the first 8 KiB 16 times as much. */
static const int64_t steps_a_byte = 4, first_bytes = 8192;

typedef struct block {
    int64_t bytes; /* rounded up to the alignment */
    int64_t load;  /* the most that is in use at once during its life */
    int first, last, piece;
} block;

typedef struct placed {
    int64_t offset, end;
    int first, last, rank; /* rank: where it is in the order */
} placed;

typedef struct hole {
    int64_t offset, bytes;
} hole;

typedef int comparison(const void *a, const void *b);

typedef struct packer {
    weft_lifetime *pieces;
    int64_t alignment, best, peak; /* best: of the offsets that the pieces have now */
    int n, instants;
    block *order, *spare;
    const block **by_last;
    hole *holes; /* sorted by offset; never adjacent */
    int n_holes;
    placed *placed; /* sorted by offset */
    int n_placed;
    int64_t work;
    int64_t *loads; /* [k * instants + i]: the most in use at 2^k instants from i on */
} packer;

/* ---- orders ---- */

/* Where all else is equal the order given decides, so that a plan is the same everywhere. */
static int compare_pieces(const block *x, const block *y)
{
    return (x->piece > y->piece) - (x->piece < y->piece);
}

static int compare_first(const void *a, const void *b)
{
    const block *x = a, *y = b;
    if (x->first != y->first)
        return x->first < y->first ? -1 : 1;
    return x->bytes != y->bytes ? (x->bytes < y->bytes) - (x->bytes > y->bytes)
                                : compare_pieces(x, y);
}

static int compare_last(const void *a, const void *b)
{
    const block *x = *(const block *const *)a, *y = *(const block *const *)b;
    return x->last != y->last ? (x->last > y->last) - (x->last < y->last) : compare_pieces(x, y);
}

static int compare_size(const void *a, const void *b)
{
    const block *x = a, *y = b;
    return x->bytes != y->bytes ? (x->bytes < y->bytes) - (x->bytes > y->bytes)
                                : compare_first(a, b);
}

/* Fullest instants first, and of what lives there the longest lives first: what lasts lies at the
 * bottom, what comes and goes above it. */
static int compare_load(const void *a, const void *b)
{
    const block *x = a, *y = b;
    int x_life = x->last - x->first, y_life = y->last - y->first;
    if (x->load != y->load)
        return (x->load < y->load) - (x->load > y->load);
    return x_life != y_life ? (x_life < y_life) - (x_life > y_life) : compare_size(a, b);
}

static int magnitude(int64_t n)
{
    return n > 1 ? 63 - __builtin_clzll((unsigned long long)n) : 0;
}

/* Sizes of one power of two together, those that are freed last at the bottom. */
static int compare_magnitude(const void *a, const void *b)
{
    const block *x = a, *y = b;
    int x_bits = magnitude(x->bytes), y_bits = magnitude(y->bytes);
    if (x_bits != y_bits)
        return y_bits - x_bits;
    return x->last != y->last ? (x->last < y->last) - (x->last > y->last) : compare_size(a, b);
}

/* The same, the longest lives at the bottom. */
static int compare_magnitude_life(const void *a, const void *b)
{
    const block *x = a, *y = b;
    int x_bits = magnitude(x->bytes), y_bits = magnitude(y->bytes);
    if (x_bits != y_bits)
        return y_bits - x_bits;
    int x_life = x->last - x->first, y_life = y->last - y->first;
    return x_life != y_life ? (x_life < y_life) - (x_life > y_life) : compare_size(a, b);
}

/* ---- loads ---- */

static int n_levels(int instants)
{
    return magnitude(instants) + 1;
}

static void fill_loads(packer *p, weft_packed *out)
{
    int64_t *at = p->loads, alive = 0;
    memset(at, 0, (size_t)p->instants * sizeof *at);
    for (int i = 0; i < p->n; i++) {
        at[p->order[i].first] += p->order[i].bytes;
        if (p->order[i].last + 1 < p->instants)
            at[p->order[i].last + 1] -= p->order[i].bytes;
    }
    for (int i = 0; i < p->instants; i++) {
        at[i] = alive += at[i];
        if (alive > out->peak) {
            out->peak = alive;
            out->peak_at = i;
        }
    }
    for (int k = 1; k < n_levels(p->instants); k++) {
        const int64_t *half = at;
        at += p->instants;
        for (int i = 0, step = 1 << (k - 1); i + 2 * step <= p->instants; i++)
            at[i] = half[i] > half[i + step] ? half[i] : half[i + step];
    }
    for (int i = 0; i < p->n; i++) {
        block *b = &p->order[i];
        int k = magnitude(b->last - b->first + 1);
        const int64_t *level = p->loads + (size_t)k * (size_t)p->instants;
        int64_t one = level[b->first], other = level[b->last + 1 - (1 << k)];
        b->load = one > other ? one : other;
    }
}

/* ---- best fit, in order of time ---- */

static int64_t take(packer *p, int64_t bytes, int64_t *top)
{
    int best = -1;
    for (int i = 0; i < p->n_holes; i++)
        if (p->holes[i].bytes >= bytes && (best < 0 || p->holes[i].bytes < p->holes[best].bytes))
            best = i;
    if (best < 0) {
        const hole *last = p->n_holes ? &p->holes[p->n_holes - 1] : NULL;
        int64_t offset = *top;
        if (last && last->offset + last->bytes == *top) { /* the hole at the end grows */
            offset = last->offset;
            p->n_holes--;
        }
        *top = offset + bytes;
        return offset;
    }
    int64_t offset = p->holes[best].offset;
    p->holes[best].offset += bytes;
    p->holes[best].bytes -= bytes;
    if (p->holes[best].bytes == 0)
        memmove(&p->holes[best], &p->holes[best + 1], sizeof(hole) * (size_t)(--p->n_holes - best));
    return offset;
}

static void give(packer *p, hole h)
{
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

static void sweep(packer *p)
{
    int freed = 0;
    qsort(p->order, (size_t)p->n, sizeof *p->order, compare_first);
    for (int i = 0; i < p->n; i++)
        p->by_last[i] = &p->order[i];
    qsort(p->by_last, (size_t)p->n, sizeof *p->by_last, compare_last);
    for (int i = 0; i < p->n; i++) {
        const block *b = &p->order[i], *old;
        while ((old = p->by_last[freed])->last < b->first) { /* ends at b itself, at the latest */
            give(p, (hole){p->pieces[old->piece].offset, old->bytes});
            freed++;
        }
        p->pieces[b->piece].offset = take(p, b->bytes, &p->best);
    }
}

/* ---- lowest fit, in a given order ---- */

/* The lowest offset at which b meets nothing placed. */
static int64_t lowest(packer *p, const block *b)
{
    const placed *there = p->placed, *end = there + p->n_placed;
    int64_t at = 0;
    for (; there < end; there++) {
        if (there->first > b->last || b->first > there->last)
            continue;
        if (there->offset >= at + b->bytes)
            break;
        at = there->end > at ? there->end : at;
    }
    p->work += there - p->placed + 1;
    return at;
}

static void insert(packer *p, const block *b, int64_t at, int rank)
{
    int i = 0, end = p->n_placed;
    while (i < end) {
        int mid = (i + end) / 2;
        if (p->placed[mid].offset <= at)
            i = mid + 1;
        else
            end = mid;
    }
    memmove(&p->placed[i + 1], &p->placed[i], sizeof *p->placed * (size_t)(p->n_placed++ - i));
    p->placed[i] = (placed){at, at + b->bytes, b->first, b->last, rank};
}

/* Places the blocks from `rank` on; stops at the first one that would not end within `limit`.
 * Returns its rank, n: all are placed. */
static int place(packer *p, int rank, int64_t limit)
{
    for (; rank < p->n && p->work < work_limit; rank++) {
        const block *b = &p->order[rank];
        int64_t at = lowest(p, b);
        if (at + b->bytes > limit)
            break;
        insert(p, b, at, rank);
    }
    return rank;
}

/* Takes away what is placed from `rank` on. Returns where the rest ends. */
static int64_t take_back(packer *p, int rank)
{
    int kept = 0;
    int64_t top = 0;
    p->work += p->n_placed;
    for (int i = 0; i < p->n_placed; i++)
        if (p->placed[i].rank < rank) {
            top = p->placed[i].end > top ? p->placed[i].end : top;
            p->placed[kept++] = p->placed[i];
        }
    p->n_placed = kept;
    return top;
}

static void keep(packer *p)
{
    p->best = 0;
    for (int i = 0; i < p->n; i++) {
        const placed *there = &p->placed[i];
        p->pieces[p->order[there->rank].piece].offset = there->offset;
        p->best = there->end > p->best ? there->end : p->best;
    }
}

/* Is the order better than what we have? */
static bool try_order(packer *p, comparison *compare)
{
    qsort(p->order, (size_t)p->n, sizeof *p->order, compare);
    p->n_placed = 0;
    if (place(p, 0, p->best - 1) < p->n)
        return false;
    keep(p);
    return true;
}

static void move(block *order, int from, int to)
{
    block b = order[from];
    memmove(&order[to + 1], &order[to], sizeof b * (size_t)(from - to));
    order[to] = b;
}

/* Models repeat: of one size, and of lives about as long. */
static bool alike(const block *x, const block *y)
{
    return x->bytes == y->bytes &&
           magnitude(x->last - x->first + 1) == magnitude(y->last - y->first + 1);
}

static void move_alike(packer *p, int from, int to)
{
    block b = p->order[from];
    int n_spare = 0;
    for (int i = to; i < p->n; i++)
        if (alike(&p->order[i], &b))
            p->order[to++] = p->order[i];
        else
            p->spare[n_spare++] = p->order[i];
    memcpy(&p->order[to], p->spare, sizeof b * (size_t)n_spare);
    p->work += n_spare;
}

/* Whatever ends too high is placed earlier, alone or with all that are like it, and what follows
 * once more, until all end below a limit that is then lowered. */
static void search(packer *p, comparison *start, bool together, int64_t work)
{
    int64_t end = p->work + work, enough = p->peak + p->peak / 1024;
    uint64_t rolls = 0;
    int rank = 0;
    qsort(p->order, (size_t)p->n, sizeof *p->order, start);
    p->n_placed = 0;
    while (p->best > enough && p->work < end && p->work < work_limit) {
        int64_t step = (p->best - p->peak) / 8,
                limit = p->best - (step > p->alignment ? step : p->alignment);
        if (take_back(p, rank) > limit)
            take_back(p, rank = 0);
        int stuck = place(p, rank, limit);
        if (stuck == p->n) {
            keep(p);
            rank = stuck;
            continue;
        }
        if (stuck == 0)
            return;
        rank = (int)(weft_random_bits(1, 0, rolls++) % (uint64_t)stuck);
        if (together)
            move_alike(p, stuck, rank);
        else
            move(p->order, stuck, rank);
        p->work += stuck - rank;
    }
}

static int64_t search_work(const packer *p)
{
    const int64_t lost = p->best - p->peak, few = lost < first_bytes ? lost : first_bytes;
    return lost < search_limit / steps_a_byte ? lost * steps_a_byte + few * 60 : search_limit;
}

static void pack(packer *p, bool rough)
{
    static comparison *const orders[] = {compare_load, compare_magnitude, compare_magnitude_life,
                                         compare_size};
    enum { ORDERS = sizeof orders / sizeof orders[0] };
    sweep(p);
    if (rough)
        return;
    comparison *best = compare_size;
    for (int i = 0; i < ORDERS && p->best > p->peak; i++)
        if (try_order(p, orders[i]))
            best = orders[i];
    int64_t work = search_work(p);
    for (int i = 0; i < ORDERS; i++)
        search(p, orders[i], true, work / 12);
    search(p, best, false, work * 3 / 4);
}

weft_status weft_pack(weft_lifetime *pieces, int n, int64_t alignment, bool rough, weft_packed *out,
                      weft_error *err)
{
    packer p = {.pieces = pieces, .alignment = alignment, .instants = 1};
    *out = (weft_packed){0};
    for (int i = 0; i < n; i++)
        p.instants = pieces[i].last >= p.instants ? pieces[i].last + 1 : p.instants;
    size_t count = (size_t)n + 1;
    size_t loads = (size_t)n_levels(p.instants) * (size_t)p.instants;
    weft_pool pool = {0};
    p.order = weft_pool_alloc(&pool, count * sizeof *p.order);
    p.spare = weft_pool_alloc(&pool, count * sizeof *p.spare);
    p.by_last = weft_pool_alloc(&pool, count * sizeof *p.by_last);
    p.holes = weft_pool_alloc(&pool, count * sizeof *p.holes);
    p.placed = weft_pool_alloc(&pool, count * sizeof *p.placed);
    p.loads = weft_pool_alloc(&pool, loads * sizeof *p.loads);
    weft_status s = pool.out_of_memory ? weft_fail_memory(err) : WEFT_OK;
    for (int i = 0; i < n && !s; i++) {
        pieces[i].offset = 0;
        if (pieces[i].bytes > 0)
            p.order[p.n++] =
                (block){.bytes = (pieces[i].bytes + alignment - 1) / alignment * alignment,
                        .first = pieces[i].first,
                        .last = pieces[i].last,
                        .piece = i};
    }
    if (!s) {
        fill_loads(&p, out);
        p.peak = out->peak;
        pack(&p, rough);
        out->bytes = p.best;
    }
    weft_pool_release(&pool);
    return s;
}
