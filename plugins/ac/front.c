/* SPDX-License-Identifier: Apache-2.0 */
/* What of a block to keep: all sets of its values that are worth it. A node is looked at behind all
 * that read it, so it is known whether it is needed; of what is needed, each is kept or computed
 * again from what it is made of. What is no better than a set that is known already is not
 * followed.
 */
#include "ac.h"

#include <string.h>

enum { MOST_STEPS = 4000000, MOST_POINTS = 4096, MOST_AROUND = 100000 };

typedef struct search {
    const ac_block *block;
    ac_front *front;
    int *wanted; /* by value: nodes computed again, and the backward, that read it */
    ac_set kept;
    int64_t steps;
    weft_error *err;
    weft_status status;
} search;

/* The first point with more bytes. */
static int find(const ac_front *f, int64_t bytes)
{
    int lo = 0, hi = f->n;
    while (lo < hi) {
        const int mid = lo + (hi - lo) / 2;
        if (f->points[mid].bytes <= bytes)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static bool is_beaten(const ac_front *f, int64_t bytes, double seconds)
{
    const int i = find(f, bytes);
    return i > 0 && f->points[i - 1].seconds <= seconds;
}

/* Takes out what the point beats. */
static weft_status enter(ac_front *f, const ac_point *p, weft_error *err)
{
    int at = find(f, p->bytes), end = at;
    while (at > 0 && f->points[at - 1].bytes == p->bytes)
        at--; /* slower, or it would be beaten */
    while (end < f->n && f->points[end].seconds >= p->seconds)
        end++;
    if (at == end && f->n == f->capacity) {
        const int more = 2 * f->capacity + 64;
        ac_point *fresh = weft_realloc(f->points, (size_t)more * sizeof *fresh);
        if (!fresh)
            return weft_fail_memory(err);
        f->points = fresh;
        f->capacity = more;
    }
    memmove(f->points + at + 1, f->points + end, (size_t)(f->n - end) * sizeof *f->points);
    f->n += 1 - (end - at);
    f->points[at] = *p;
    return WEFT_OK;
}

/* Of the results of a node that somebody reads. */
static int64_t bytes_of(const search *s, const ac_node *n)
{
    int64_t bytes = 0;
    for (int i = 0; i < n->n_outs; i++)
        bytes += s->wanted[n->outs[i]] ? s->block->values[n->outs[i]].bytes : 0;
    return bytes;
}

static bool is_needed(const search *s, const ac_node *n)
{
    for (int i = 0; i < n->n_outs; i++)
        if (s->wanted[n->outs[i]])
            return true;
    return false;
}

static bool is_kept(const search *s, int value)
{
    const int maker = s->block->values[value].maker;
    return maker < 0 || ac_has(&s->kept, maker);
}

/* Do gradients of weights that read a value that is made again wait until the backward is over, for
 * which it is held? If it is made of what is kept, and no larger; or all do. And if it is always
 * made again, but nothing else of it: then that waits, too, and what it is made of is held. */
static bool is_waited_with(const search *s, int value)
{
    const ac_node *n = &s->block->nodes[s->block->values[value].maker];
    const bool later = n->always && !s->wanted[value];
    int64_t room = 0;
    if (s->block->all)
        return true;
    for (int i = 0; i < n->n_ins; i++) {
        if (!is_kept(s, n->ins[i]) && !(later && is_waited_with(s, n->ins[i])))
            return false;
        room += s->block->values[n->ins[i]].one;
    }
    return later || s->block->values[value].one <= room;
}

/* When it is known what is kept: bytes that wait until the backward is over. */
static int64_t held_bytes(const search *s)
{
    const ac_block *b = s->block;
    int64_t held = 0;
    for (int i = 0; i < b->n_values; i++)
        if (b->values[i].held && s->wanted[i] && !is_kept(s, i) && is_waited_with(s, i))
            held += b->values[i].held;
    for (int i = 0; i < b->n_waits; i++) {
        const ac_wait *w = &b->waits[i];
        if (w->with < 0 || is_kept(s, w->with) || is_waited_with(s, w->with))
            held += w->host >= 0 && is_kept(s, w->host) ? w->there : w->alone;
    }
    return held;
}

static int64_t one_of(const search *s)
{
    int64_t one = 0;
    for (int i = 0; i < s->block->n_values; i++) {
        const ac_value *v = &s->block->values[i];
        const bool kept = v->maker < 0 ? v->bytes > 0 : ac_has(&s->kept, v->maker);
        one += kept && s->wanted[i] ? v->one : 0;
    }
    return one;
}

/* Operands of what is computed again; those that are there anyway must be kept for it. */
static int64_t want(search *s, const ac_node *n, int by)
{
    int64_t bytes = 0;
    for (int i = 0; i < n->n_ins; i++) {
        const ac_value *v = &s->block->values[n->ins[i]];
        int *wanted = &s->wanted[n->ins[i]];
        bytes += v->maker < 0 && *wanted == 0 && by > 0 ? v->bytes : 0;
        *wanted += by;
    }
    return bytes;
}

static void follow(search *s, int i, int64_t bytes, double seconds)
{
    while (i >= 0 && !is_needed(s, &s->block->nodes[i]))
        i--;
    if (s->status || is_beaten(s->front, bytes, seconds))
        return;
    if (i < 0) {
        const ac_point p = {bytes + held_bytes(s), seconds, s->kept, one_of(s)};
        if (!is_beaten(s->front, p.bytes, seconds))
            s->status = enter(s->front, &p, s->err);
        return;
    }
    if (s->steps++ > MOST_STEPS || s->front->n >= MOST_POINTS) {
        s->front->exact = false;
        return;
    }
    const ac_node *n = &s->block->nodes[i];
    if (!n->always) {
        ac_put(&s->kept, i, true);
        follow(s, i - 1, bytes + bytes_of(s, n), seconds);
        ac_put(&s->kept, i, false);
    }
    const int64_t more = want(s, n, 1);
    follow(s, i - 1, bytes + more, seconds + (n->always ? 0 : n->seconds));
    want(s, n, -1);
}

static void want_read(const ac_block *b, int *wanted)
{
    for (int i = 0; i < b->n_values; i++)
        wanted[i] = b->values[i].read;
}

/* What is left out in a search that is too long is at least all, and nothing. */
static weft_status add_ends(const ac_block *b, ac_front *f, weft_error *err)
{
    ac_set set = {{0}};
    for (int all = 0; all < 2; all++) {
        for (int i = 0; i < b->n_nodes; i++)
            ac_put(&set, i, all && !b->nodes[i].always);
        const ac_point p = ac_weigh(b, &set);
        weft_status s = is_beaten(f, p.bytes, p.seconds) ? WEFT_OK : enter(f, &p, err);
        if (s)
            return s;
    }
    return WEFT_OK;
}

weft_status ac_front_find(const ac_block *b, ac_front *out, weft_error *err)
{
    *out = (ac_front){.exact = true};
    search s = {.block = b, .front = out, .err = err};
    s.wanted = weft_alloc_zero((size_t)b->n_values + 1, sizeof *s.wanted);
    if (!s.wanted)
        return weft_fail_memory(err);
    want_read(b, s.wanted);
    weft_status status = add_ends(b, out, err);
    if (!status)
        follow(&s, b->n_nodes - 1, 0, 0);
    weft_free(s.wanted);
    status = status ? status : s.status;
    if (status)
        ac_front_release(out);
    return status;
}

static weft_status enter_set(const ac_block *b, const ac_set *set, ac_front *f, bool *better,
                             weft_error *err)
{
    const ac_point p = ac_weigh(b, set);
    if (f->n >= MOST_POINTS || is_beaten(f, p.bytes, p.seconds))
        return WEFT_OK;
    *better = true;
    return enter(f, &p, err);
}

/* Where not all sets were looked at: the lists, and what differs from the best by one node. */
static weft_status look_around(const ac_block *b, const ac_set *lists, ac_front *f, weft_error *err)
{
    bool better = true;
    int steps = 0;
    weft_status s = WEFT_OK;
    for (int i = 0; i < AC_LISTS && !s; i++)
        s = enter_set(b, &lists[i], f, &better, err);
    while (better && steps < MOST_AROUND && !s) {
        better = false;
        for (int i = 0; i < f->n && !s; i++)
            for (int k = 0; k < b->n_nodes && i < f->n && !s; k++, steps++) {
                ac_set set = f->points[i].kept;
                ac_put(&set, k, !ac_has(&set, k) && !b->nodes[k].always);
                s = enter_set(b, &set, f, &better, err);
            }
    }
    return s;
}

weft_status ac_front_add_lists(const ac_block *b, const ac_set *lists, ac_front *f, weft_error *err)
{
    const weft_status s = f->exact ? WEFT_OK : look_around(b, lists, f, err);
    if (s)
        return s;
    ac_point *fresh = weft_realloc(f->points, (size_t)(f->n + AC_LISTS) * sizeof *fresh);
    if (!fresh)
        return weft_fail_memory(err);
    f->points = fresh;
    f->capacity = f->n + AC_LISTS;
    for (int i = 0; i < AC_LISTS; i++)
        fresh[f->n + i] = ac_weigh(b, &lists[i]);
    return WEFT_OK;
}

void ac_front_release(ac_front *f)
{
    weft_free(f->points);
    *f = (ac_front){0};
}

ac_point ac_weigh(const ac_block *b, const ac_set *kept)
{
    ac_point p = {.kept = *kept};
    int *wanted = weft_alloc_zero((size_t)b->n_values + 1, sizeof *wanted);
    search s = {.block = b, .wanted = wanted};
    if (!wanted)
        return p;
    want_read(b, wanted);
    for (int i = b->n_nodes - 1; i >= 0; i--) {
        const ac_node *n = &b->nodes[i];
        if (!is_needed(&s, n)) {
            ac_put(&p.kept, i, false);
        } else if (ac_has(kept, i)) {
            p.bytes += bytes_of(&s, n);
        } else {
            p.bytes += want(&s, n, 1);
            p.seconds += n->always ? 0 : n->seconds;
        }
    }
    s.kept = p.kept;
    p.bytes += held_bytes(&s);
    p.one = one_of(&s);
    weft_free(wanted);
    return p;
}
