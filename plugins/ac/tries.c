/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank tries: a choice that should fit, until the best that does is known. */
#include "budget.h"

#include <math.h>
#include <string.h>

enum {
    MOST_TRIES = 14,  /* by the model */
    MOST_POLISH = 29, /* and by the planner alone: small steps from the best */
    FEW = 20000,      /* choices, which are all looked at */
    SMALL = 300,  /* values, times ranks: plans that take no time. Steps are always made there, */
    SLOW = 4000,  /* of plans that take half a second 99 % used is enough, */
    LARGE = 20000 /* and in those that take several no steps are made */
};

/* ---- a choice, and what it should take ---- */

/* Bytes that were held with all kept, and are not now: in the head, and in the tight backward. */
static void count_gone(const ac_budget *a, const ac_stage *st, const int *points, int64_t *head,
                       int64_t *own)
{
    *head = *own = 0;
    for (int i = 0; i < st->n; i++) {
        const ac_layer *l = st->layers[i];
        const ac_point *full = ac_full_of(a, l), *p = &ac_front_of(a, l)->points[points[i]];
        const int64_t gone = l->places * (full->bytes - p->bytes);
        *head += gone;
        *own += gone - (i == st->tight ? full->one - p->one : 0);
    }
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

void ac_choice_weigh(const ac_budget *a, const ac_stage *st, ac_choice *c)
{
    int64_t head, own;
    count_gone(a, st, c->points, &head, &own);
    c->model = st->rest + larger(st->other, larger(st->head - head, st->own - own));
    c->seconds = 0;
    c->known = true;
    for (int i = 0; i < st->n; i++)
        c->seconds += ac_front_of(a, st->layers[i])->points[c->points[i]].seconds;
}

/* Of layers that are alike the first ones keep the least: the sum is the same, and the words are
 * fewer. */
static void sort_alike(const ac_stage *st, int *points)
{
    for (int i = 0; i < st->n; i++)
        for (int k = i + 1; k < st->n; k++) {
            const ac_layer *a = st->layers[i], *b = st->layers[k];
            const bool alike =
                a->front == b->front && a->places == b->places && i != st->tight && k != st->tight;
            if (!alike || points[i] <= points[k])
                continue;
            const int more = points[i];
            points[i] = points[k];
            points[k] = more;
        }
}

bool ac_choose(const ac_budget *a, const ac_stage *st, int64_t most, double share, ac_choice *out)
{
    const ac_layer *tight = st->layers[st->tight];
    int64_t all = 0, best_bytes = 0;
    int best = -1, best_sum = -1;
    double seconds = INFINITY;
    for (int i = 0; i < st->n; i++)
        all += st->layers[i]->places * ac_full_of(a, st->layers[i])->bytes;
    int64_t head = most - st->rest - st->head + all,
            own = most - st->rest - st->own + all - ac_full_of(a, tight)->one;
    if (share >= 0) {
        head = (int64_t)(share * (double)all);
        own = INT64_MAX / 2;
    } else if (most < st->rest + st->other) {
        return false;
    }
    const ac_front *f = ac_front_of(a, tight);
    for (int k = 0; k < f->n; k++) {
        const int64_t mine = tight->places * f->points[k].bytes, left = head - mine,
                      left_own = own - (mine - f->points[k].one),
                      room = left < left_own ? left : left_own;
        const int sum = st->sums.n_blocks ? ac_sums_find(&st->sums, room) : -1;
        if (room < 0 || (st->sums.n_blocks && sum < 0))
            continue;
        const ac_sum *of = sum < 0 ? NULL : &st->sums.of[st->sums.n_blocks - 1][sum];
        const double takes = f->points[k].seconds + (of ? of->seconds : 0);
        const int64_t bytes = mine + (of ? of->bytes : 0);
        if (takes < seconds || (takes <= seconds && bytes < best_bytes)) {
            seconds = takes;
            best_bytes = bytes;
            best = k;
            best_sum = sum;
        }
    }
    if (best < 0)
        return false;
    int *points = out->points;
    if (best_sum >= 0)
        ac_sums_choice(&st->sums, best_sum, points);
    memmove(points + st->tight + 1, points + st->tight,
            (size_t)(st->n - 1 - st->tight) * sizeof *points);
    points[st->tight] = best;
    sort_alike(st, points);
    ac_choice_weigh(a, st, out);
    return true;
}

void ac_choose_least(const ac_budget *a, const ac_stage *st, ac_choice *out)
{
    memset(out->points, 0, (size_t)st->n * sizeof(int));
    ac_choice_weigh(a, st, out);
}

static bool is_same(const ac_stage *st, const ac_choice *a, const ac_choice *b)
{
    return a->known && b->known && memcmp(a->points, b->points, (size_t)st->n * sizeof(int)) == 0;
}

static void copy(const ac_stage *st, const ac_choice *from, ac_choice *to)
{
    int *points = to->points;
    memcpy(points, from->points, (size_t)st->n * sizeof(int));
    *to = *from;
    to->points = points;
}

/* ---- rounds ---- */

/* By what is kept: two lists may keep the same, and what is asked for twice is not planned again.
 */
static uint64_t mark_of(const ac_budget *a, const ac_stage *st, const int *points)
{
    uint64_t mark = 0;
    for (int i = 0; i < st->n; i++) {
        const ac_set *kept = &ac_front_of(a, st->layers[i])->points[points[i]].kept;
        mark = weft_hash_bytes(mark, kept, sizeof *kept);
    }
    return mark;
}

static bool was_tried(const ac_stage *st, uint64_t mark)
{
    for (int i = 0; i < st->n_tried; i++)
        if (st->tried[i] == mark)
            return true;
    return false;
}

/* Is something kept that could be computed again? What a front begins with keeps next to nothing,
 * unless all that is computed again waits. */
static bool keeps_something(const ac_stage *st)
{
    for (int i = 0; i < st->n; i++)
        if (st->now.points[i] > 0 || st->layers[i]->block.all)
            return true;
    return false;
}

void ac_learn(const ac_budget *a, ac_stage *st)
{
    const uint64_t mark = mark_of(a, st, st->now.points);
    if (!was_tried(st, mark) && st->n_tried < WEFT_MOST_ROUNDS)
        st->tried[st->n_tried++] = mark;
    if (st->least == 0 || st->planned < st->least ||
        (st->planned == st->least && !keeps_something(st))) {
        st->least = st->planned;
        st->least_arena = st->arena;
        st->least_keeps = keeps_something(st);
    }
    if (st->n > 0)
        st->off[st->now.points[st->tight]] = st->planned - st->now.model;
    if (st->planned <= st->limit) {
        st->fits = larger(st->fits, st->now.model);
        if (!st->best.known || st->now.seconds < st->best.seconds) {
            copy(st, &st->now, &st->best);
            st->best_planned = st->planned;
        }
    } else {
        st->exceeds = st->now.model < st->exceeds ? st->now.model : st->exceeds;
        if (is_same(st, &st->now, &st->best))
            st->best.known = false;
    }
}

/* Beside the best choice: another that is faster, and should fit. */
typedef struct beside {
    int *points;
    int64_t bytes; /* that it should take */
    double seconds;
    bool known, fits;
} beside;

/* By the model, and by how far it was off with this point of the tight layer; as little as it ever
 * was, where that was not tried. */
static int64_t foresee(const ac_stage *st, const ac_choice *c)
{
    const int64_t off = st->off[c->points[st->tight]];
    int64_t least = INT64_MAX;
    for (int k = 0; k < st->n_off && off == INT64_MAX; k++)
        least = st->off[k] < least ? st->off[k] : least;
    return c->model + (off < INT64_MAX ? off : least < INT64_MAX ? least : 0);
}

/* The fastest that should fit; of those that should not, the smallest. */
static void consider(const ac_budget *a, ac_stage *st, beside *best)
{
    ac_choice *now = &st->now;
    ac_choice_weigh(a, st, now);
    const int64_t bytes = foresee(st, now);
    const bool fits = st->best.known && bytes <= st->limit, fit = best->fits,
               faster = now->seconds < best->seconds, same = now->seconds <= best->seconds;
    const bool better =
        !best->known || (fits && !fit) ||
        (fits == fit && (fits ? faster || (same && bytes < best->bytes) : bytes < best->bytes));
    if (!better || (st->best.known && now->seconds >= st->best.seconds) ||
        was_tried(st, mark_of(a, st, now->points)))
        return;
    memcpy(best->points, now->points, (size_t)st->n * sizeof(int));
    best->bytes = bytes;
    best->seconds = now->seconds;
    best->known = true;
    best->fits = fits;
}

/* All choices of the layers from i on, as far as they are few; else those that differ from the one
 * there is in layer i and the tight one. */
static void look_beside(const ac_budget *a, ac_stage *st, int i, bool all, beside *best)
{
    int *points = st->now.points;
    const int was = points[i], tight = points[st->tight];
    const int n = ac_front_of(a, st->layers[i])->n;
    for (points[i] = 0; points[i] < n; points[i]++)
        if (all && i + 1 < st->n)
            look_beside(a, st, i + 1, true, best);
        else if (all || i == st->tight)
            consider(a, st, best);
        else
            for (points[st->tight] = 0; points[st->tight] < st->n_off; points[st->tight]++)
                consider(a, st, best);
    points[i] = was;
    points[st->tight] = all ? points[st->tight] : tight;
}

/* The model does not know which values of a layer are held at once in its own backward. So in plans
 * that are small enough choices beside the best are tried, too. false: nothing is left. */
static bool try_beside(const ac_budget *a, ac_stage *st, int tries)
{
    beside best = {.points = st->next};
    const int64_t size = (int64_t)a->n_values * a->n_stages;
    const bool used = st->best.known && st->best_planned > st->limit - st->limit / 33;
    double all = 1;
    if (size > (used ? SMALL : LARGE) || tries >= MOST_POLISH)
        return false;
    if (st->best.known)
        copy(st, &st->best, &st->now);
    else
        ac_choose_least(a, st, &st->now);
    for (int i = 0; i < st->n; i++)
        all *= ac_front_of(a, st->layers[i])->n;
    for (int i = 0; i < (all <= FEW ? 1 : st->n); i++)
        look_beside(a, st, i, all <= FEW, &best);
    if (best.known)
        memcpy(st->now.points, best.points, (size_t)st->n * sizeof(int));
    ac_choice_weigh(a, st, &st->now);
    return best.known;
}

/* What a list of ops keeps is tried where it is faster than the best that is known: the model may
 * have passed it by. Of large plans only if it is not far from fitting. */
static bool try_list(const ac_budget *a, ac_stage *st)
{
    const bool small = (int64_t)a->n_values * a->n_stages <= SLOW;
    for (int list = 0; list < AC_LISTS; list++) {
        for (int i = 0; i < st->n; i++)
            st->now.points[i] = ac_front_of(a, st->layers[i])->n + list;
        ac_choice_weigh(a, st, &st->now);
        const bool faster = !st->best.known || st->now.seconds < st->best.seconds;
        if (faster && (small || foresee(st, &st->now) <= st->limit + st->limit / 16) &&
            !was_tried(st, mark_of(a, st, st->now.points)))
            return true;
    }
    return false;
}

/* Is nothing left below the least that did not fit that computes a thousandth less again? Only the
 * model is asked: where plans take long. Spoils what is tried now. */
static bool is_exhausted(const ac_budget *a, ac_stage *st)
{
    return st->best.known && st->exceeds < INT64_MAX &&
           (!ac_choose(a, st, st->exceeds - 1, -1, &st->now) ||
            st->now.seconds >= st->best.seconds * 0.999);
}

void ac_try_next(const ac_budget *a, ac_stage *st, int tries)
{
    const int64_t off = st->planned - st->now.model;
    int64_t aim = st->limit - off;
    const bool both = st->fits >= 0 && st->exceeds < INT64_MAX;
    if (aim >= st->exceeds || (both && aim <= st->fits))
        aim = both ? st->fits + (st->exceeds - st->fits) / 2 : st->exceeds - 1;
    const bool slow = (int64_t)a->n_values * a->n_stages > SLOW,
               used = slow && st->best.known && st->limit - st->best_planned <= st->limit / 100,
               close = used || (both && st->exceeds - st->fits <= st->limit / 2000) ||
                       (slow && is_exhausted(a, st));
    if (!close && tries < MOST_TRIES && ac_choose(a, st, aim, -1, &st->now)) {
        for (int64_t up = aim; both && st->now.model <= st->fits && up < st->exceeds - 1;) {
            up += (st->exceeds - up) / 2;
            ac_choose(a, st, up, -1, &st->now);
        }
        if (!was_tried(st, mark_of(a, st, st->now.points)))
            return;
    }
    ac_choose_least(a, st, &st->now);
    if (!st->best.known && !was_tried(st, mark_of(a, st, st->now.points)))
        return;
    st->settled = !try_list(a, st) && !try_beside(a, st, tries);
    if (!st->settled || !st->best.known)
        return;
    copy(st, &st->best, &st->now);
    st->planned = st->best_planned;
}

void ac_settle_shared(const ac_budget *a, ac_stage *st, bool over)
{
    if (over && !st->settled && st->best.known) {
        copy(st, &st->best, &st->now);
        st->planned = st->best_planned;
        st->settled = true;
    }
    if ((over || st->settled) && !st->best.known)
        ac_choose_least(a, st, &st->now);
}
