/* SPDX-License-Identifier: Apache-2.0 */
/* Which choices are planned. Few are planned all; of many the degrees are tried in every way, by a
 * part of the model's blocks, and beside the best of them what else may be chosen, key after key.
 * What is printed was planned whole. Effort is counted in plans, so that the answer is the same on
 * every machine. */
#include "base/array.h"
#include "compile/graph/map.h"
#include "tune.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* How many of the best are gone round, and planned whole at least. */
enum { KEPT = 8 };

/* Keys of maps are bytes of choices and identities of plans; what is looked up is in the pool. */
typedef struct estimates {
    weft_pool pool;
    weft_map seen;      /* choices that were looked at, or that were gone round */
    weft_map by_plan;   /* results by identity */
    weft_map overdone;  /* ways to divide the ranks, and by which keys: bits, as a pointer */
    tune_result **list; /* sorted, and no two of one plan */
    int n, capacity;
} estimates;

static void release(estimates *e)
{
    weft_free(e->list);
    weft_pool_release(&e->pool);
    *e = (estimates){0};
}

/* So many are planned whole in the end. */
static int rows(const tune_search *s)
{
    return s->top > KEPT ? s->top : KEPT;
}

/* --limit: nothing is begun that would not be done in time, if it takes as long as the longest so
 * far. A search leaves what its rows will take, to half of the limit where they are many. */
static bool is_over(tune_search *s, double until, bool whole)
{
    if (s->limit_s <= 0)
        return false;
    const double one = s->longest_s[true], all = one * ((rows(s) + s->threads - 1) / s->threads),
                 half = s->limit_s / 2, some = all < half ? all : half,
                 left = some > one ? some : one;
    const bool over = weft_now() + s->longest_s[whole] + (whole ? 0 : left) > until;
    s->cut = s->cut || over;
    return over;
}

bool tune_fits(const tune_search *s, const tune_result *r)
{
    return !r->refused && (s->room <= 0 || r->bytes <= s->room);
}

/* What fits before what does not; then what is wanted; at last the order of choices, so that no two
 * are equal. */
static int order(const tune_search *s, const tune_result *a, const tune_result *b)
{
    const bool fits = tune_fits(s, a), other = tune_fits(s, b);
    if (fits != other)
        return fits ? -1 : 1;
    const double x = fits && !s->for_memory ? a->step_s : a->bytes,
                 y = fits && !s->for_memory ? b->step_s : b->bytes;
    if (x != y)
        return x < y ? -1 : 1;
    return memcmp(&a->choice, &b->choice, sizeof a->choice);
}

/* Where in the sorted list it belongs. */
static int place_of(const tune_search *s, const estimates *e, const tune_result *r)
{
    int from = 0, to = e->n;
    while (from < to) {
        const int mid = (from + to) / 2;
        if (order(s, e->list[mid], r) < 0)
            from = mid + 1;
        else
            to = mid;
    }
    return from;
}

/* Into the list. Keys that do nothing here make no other plan: of equal plans the choice that
 * changes less of the INI stays. */
static weft_status put(const tune_search *s, estimates *e, const tune_result *r, weft_error *err)
{
    tune_result *same = weft_map_get(&e->by_plan, &r->identity, sizeof r->identity);
    if (same) {
        if (tune_choice_changes(s->space, &r->choice) <
            tune_choice_changes(s->space, &same->choice))
            same->choice = r->choice;
        return WEFT_OK;
    }
    const int at = place_of(s, e, r);
    tune_result *own = weft_pool_alloc(&e->pool, sizeof *own);
    if (!own || !weft_map_set(&e->by_plan, &e->pool, &r->identity, sizeof r->identity, own) ||
        !weft_array_push(&e->list, &e->n, &e->capacity, sizeof *e->list))
        return weft_fail_memory(err);
    *own = *r;
    memmove(&e->list[at + 1], &e->list[at], (size_t)(e->n - 1 - at) * sizeof *e->list);
    e->list[at] = own;
    return WEFT_OK;
}

static bool has(const estimates *e, const tune_choice *c)
{
    return weft_map_get(&e->seen, c, sizeof *c) != NULL;
}

/* What choices that were looked at have in place of a result. */
static const char looked_at, refused;

static weft_status note_seen(estimates *e, const tune_choice *c, const void *how, weft_error *err)
{
    return weft_map_set(&e->seen, &e->pool, c, sizeof *c, (void *)how) ? WEFT_OK
                                                                       : weft_fail_memory(err);
}

/* The most frequent comes first. */
static weft_status note_reason(tune_search *s, const char *text, weft_error *err)
{
    int i = 0;
    s->refused++;
    while (i < s->n_reasons && strcmp(s->reasons[i].text, text) != 0)
        i++;
    if (i == s->n_reasons) {
        char *copy = weft_strdup(text);
        tune_reason *fresh =
            copy ? weft_array_push(&s->reasons, &s->n_reasons, &s->reason_capacity, sizeof *fresh)
                 : NULL;
        if (!fresh) {
            weft_free(copy);
            return weft_fail_memory(err);
        }
        *fresh = (tune_reason){copy, 0};
    }
    s->reasons[i].n++;
    for (; i > 0 && s->reasons[i].n > s->reasons[i - 1].n; i--) {
        const tune_reason more = s->reasons[i];
        s->reasons[i] = s->reasons[i - 1];
        s->reasons[i - 1] = more;
    }
    return WEFT_OK;
}

/* ---- looking at choices, several at a time ---- */

/* So many before --limit is asked for again. */
enum { TOGETHER = 16 };

typedef struct batch {
    tune_choice *list;
    int n, capacity;
} batch;

static weft_status wish(batch *b, const tune_choice *c, weft_error *err)
{
    tune_choice *added = weft_array_push(&b->list, &b->n, &b->capacity, sizeof *added);
    if (!added)
        return weft_fail_memory(err);
    *added = *c;
    return WEFT_OK;
}

typedef struct look {
    const tune_space *space;
    const tune_choice *choices;
    bool whole;
    int n;
    atomic_int next;
    tune_result results[TOGETHER];
    weft_text why[TOGETHER];
    weft_error errors[TOGETHER];
    weft_status status[TOGETHER];
} look;

/* Nothing of a plan is global: threads plan beside each other. */
static void *plan_next(void *arg)
{
    look *l = arg;
    for (int i; (i = atomic_fetch_add(&l->next, 1)) < l->n;)
        l->status[i] = (l->whole ? tune_plan : tune_estimate)(
            l->space, &l->choices[i], &l->results[i], &l->why[i], &l->errors[i]);
    return NULL;
}

static void plan_together(look *l, int threads)
{
    pthread_t others[TOGETHER];
    int n = 0;
    while (n + 1 < threads && n + 1 < l->n && n < TOGETHER &&
           pthread_create(&others[n], NULL, plan_next, l) == 0)
        n++;
    plan_next(l);
    for (int i = 0; i < n; i++)
        pthread_join(others[i], NULL);
}

static weft_status take(tune_search *s, estimates *e, look *l, int i, weft_error *err)
{
    const tune_result *r = &l->results[i];
    if (l->status[i])
        return weft_fail(err, l->status[i], WEFT_NOWHERE, "%s", weft_error_text(&l->errors[i]));
    s->planned++;
    s->effort += r->rounds;
    if (!r->refused && s->room <= 0)
        s->room = r->room;
    if (!r->refused) {
        const weft_status status = put(s, e, r, err);
        const void *own = weft_map_get(&e->by_plan, &r->identity, sizeof r->identity);
        return status ? status : note_seen(e, &r->choice, own, err);
    }
    const weft_status status = r->waiting ? WEFT_OK : note_seen(e, &r->choice, &refused, err);
    return status ? status : note_reason(s, weft_text_get(&l->why[i]), err);
}

/* In the order of the choices, whoever is done first. */
static weft_status look_at(tune_search *s, estimates *e, const tune_choice *choices, int n,
                           bool whole, weft_error *err)
{
    const double from = weft_now();
    look *l = weft_alloc_zero(1, sizeof *l);
    if (!l)
        return weft_fail_memory(err);
    l->space = s->space;
    l->choices = choices;
    l->whole = whole;
    l->n = n;
    plan_together(l, s->threads);
    s->longest_s[whole] = fmax(s->longest_s[whole], weft_now() - from);
    weft_status status = WEFT_OK;
    for (int i = 0; i < n; i++) {
        status = status ? status : take(s, e, l, i, err);
        weft_text_release(&l->why[i]);
        weft_error_release(&l->errors[i]);
    }
    weft_free(l);
    return status;
}

/* Of the batch those that were not seen yet, as many as may be planned; then it is empty. At least
 * `least` of them, whatever the clock says. */
static weft_status look_through(tune_search *s, estimates *e, batch *b, bool whole, int least,
                                double until, weft_error *err)
{
    weft_status status = WEFT_OK;
    const int most = s->limit_s > 0 && s->threads < TOGETHER ? s->threads : TOGETHER;
    for (int i = 0; i < b->n && !status && (i < least || !is_over(s, until, whole));) {
        int n = b->n - i < most ? b->n - i : most;
        if (!whole && s->effort + n > s->most_plans)
            n = (int)(s->most_plans - s->effort);
        if (n <= 0)
            break;
        status = look_at(s, e, &b->list[i], n, whole, err);
        i += n;
    }
    b->n = 0;
    return status;
}

/* ---- all choices, one after the other ---- */

/* The next of those in which only keys that `moves` may differ; false: there is none. */
static bool next(const tune_space *space, const bool *moves, tune_choice *c)
{
    for (int i = 0; i < space->n_keys; i++) {
        if (!moves[i])
            continue;
        if (++c->at[i] < space->keys[i].n)
            return true;
        c->at[i] = 0;
    }
    return false;
}

/* Of choices that plan alike one is looked at: that in which what has no meaning is the first. */
static bool is_first(const tune_space *space, const tune_choice *c)
{
    for (int i = 0; i < space->n_keys; i++)
        if (c->at[i] > 0 && !tune_key_counts(space, c, i))
            return false;
    return true;
}

static bool is_worth(const tune_space *space, const tune_choice *c)
{
    return tune_choice_fits(space, c) && is_first(space, c);
}

static int64_t count(const tune_space *space, const bool *moves, int64_t most)
{
    tune_choice c = {{0}};
    int64_t n = 0, seen = 0;
    do
        n += is_worth(space, &c);
    while (n <= most && ++seen < 2000000 && next(space, moves, &c));
    return seen < 2000000 ? n : most + 1;
}

/* The list is what is printed. */
static void show(tune_search *s, estimates *e)
{
    s->results = e->list;
    s->n = e->n;
    s->pool = e->pool;
}

static weft_status plan_all(tune_search *s, const bool *moves, double until, weft_error *err)
{
    estimates e = {0};
    batch b = {0};
    tune_choice c = {{0}};
    weft_status status = WEFT_OK;
    do
        if (is_worth(s->space, &c))
            status = wish(&b, &c, err);
    while (!status && next(s->space, moves, &c));
    status = status ? status : look_through(s, &e, &b, true, 1, until, err);
    weft_free(b.list);
    show(s, &e);
    s->all = !s->cut;
    return status;
}

/* ---- some of them ---- */

/* What the INI says, or the first. */
static tune_choice from_ini(const tune_space *space)
{
    tune_choice c = {{0}};
    for (int i = 0; i < space->n_keys; i++)
        if (space->keys[i].kind != TUNE_RANKS && space->keys[i].base > 0)
            c.at[i] = space->keys[i].base;
    return c;
}

static void settle(const tune_space *space, tune_choice *c)
{
    for (int i = 0; i < space->n_keys; i++)
        if (!tune_key_counts(space, c, i))
            c->at[i] = 0;
}

/* A pipeline wants some micro-batches for each of its stages, and every rank that shares a
 * micro-batch a sample of it. */
static void suit_batch(const tune_space *space, tune_choice *c)
{
    int64_t stages = 1, shares = space->ranks;
    for (int i = 0; i < space->n_keys; i++) {
        const tune_key *k = &space->keys[i];
        const int64_t degree = k->kind == TUNE_RANKS ? strtoll(k->values[c->at[i]], NULL, 10) : 1;
        stages = i == space->pp ? degree : stages;
        shares /= strcmp(k->section, "fsdp") == 0 ? 1 : degree;
    }
    for (int i = 0; i < space->n_keys; i++) {
        const tune_key *k = &space->keys[i];
        if (k->kind != TUNE_BATCH)
            continue;
        while (stages > 1 && c->at[i] + 1 < k->n && 1LL << c->at[i] < 4 * stages)
            c->at[i]++;
        while (c->at[i] > 0 && strtoll(k->values[c->at[i]], NULL, 10) < shares)
            c->at[i]--;
    }
}

/* Whatever is wished counts as seen: it will be looked at, or the search is over. */
static weft_status wish_new(const tune_search *s, estimates *e, batch *b, tune_choice c,
                            weft_error *err)
{
    settle(s->space, &c);
    if (!tune_choice_fits(s->space, &c) || has(e, &c))
        return WEFT_OK;
    const weft_status status = note_seen(e, &c, &looked_at, err);
    return status ? status : wish(b, &c, err);
}

/* What was found of a choice; NULL: it was refused, or not looked at. */
static const tune_result *found(const estimates *e, const tune_choice *c)
{
    const void *what = weft_map_get(&e->seen, c, sizeof *c);
    return what == &looked_at || what == &refused ? NULL : what;
}

static tune_choice suited(const tune_space *space, const tune_choice *degrees)
{
    tune_choice one = *degrees;
    suit_batch(space, &one);
    settle(space, &one);
    return one;
}

/* Does it take so many times as long as one that fits? */
static bool is_behind(const tune_search *s, const estimates *e, const tune_result *r, double times)
{
    return !s->for_memory && e->n && tune_fits(s, e->list[0]) &&
           r->step_s > times * e->list[0]->step_s;
}

/* Bytes that it spares are wanted for nothing: what they could be spent on, activations and weights
 * that are kept, does not halve a step. */
static bool is_slow(const tune_search *s, const estimates *e, const tune_result *r)
{
    return is_behind(s, e, r, 2);
}

static bool was_overdone(const estimates *e, const tune_choice *c, int key)
{
    return (uintptr_t)weft_map_get(&e->overdone, c, sizeof *c) >> key & 1;
}

/* Of degrees that were looked at, the next lesser one was neither faster than the one before nor
 * smaller by a tenth: larger ones are worse, and long to plan. So are those behind these. */
static bool is_overdone(const tune_search *s, const estimates *e, const tune_choice *c, int key)
{
    const tune_space *space = s->space;
    const tune_result *last = NULL;
    tune_choice lesser = *c;
    while (lesser.at[key]-- > 0) {
        const tune_choice one = suited(space, &lesser);
        const tune_result *r = found(e, &one);
        if (was_overdone(e, &one, key))
            return true;
        if (r && last)
            return last->step_s >= r->step_s &&
                   (last->bytes > 0.9 * r->bytes || is_slow(s, e, last));
        last = r ? r : last;
    }
    return false;
}

/* Of each degree that could be less, the next lesser one that was looked at takes four times as
 * long as one that fits: other keys save less, and what is behind is the longest to plan. */
static bool is_hopeless(const tune_search *s, const estimates *e, const tune_choice *c,
                        const bool *moves)
{
    bool any = false;
    for (int i = 0; i < s->space->n_keys; i++) {
        const tune_result *r = NULL;
        tune_choice lesser = *c;
        while (moves[i] && !r && lesser.at[i]-- > 0) {
            const tune_choice one = suited(s->space, &lesser);
            r = found(e, &one);
        }
        if (r && !is_behind(s, e, r, 4))
            return false;
        any = any || r;
    }
    return any;
}

/* Degrees as steps from 1 on, all of them together. */
static int steps_of(const tune_choice *c, const bool *moves)
{
    int steps = 0;
    for (int i = 0; i < TUNE_MOST_KEYS; i++)
        steps += moves[i] ? c->at[i] : 0;
    return steps;
}

/* Of all ways to divide the ranks those of so many steps. */
static weft_status wish_degrees(const tune_search *s, estimates *e, const bool *moves, int steps,
                                batch *b, bool *more, weft_error *err)
{
    const tune_space *space = s->space;
    weft_status status = WEFT_OK;
    tune_choice c = from_ini(space);
    do {
        const int own = steps_of(&c, moves);
        *more = *more || own > steps;
        if (own != steps || !tune_choice_fits(space, &c) || is_hopeless(s, e, &c, moves))
            continue;
        const tune_choice one = suited(space, &c);
        uintptr_t over = 0;
        for (int i = 0; i < space->n_keys; i++)
            over |= (uintptr_t)(moves[i] && is_overdone(s, e, &c, i)) << i;
        if (!over)
            status = wish_new(s, e, b, one, err);
        else if (!weft_map_set(&e->overdone, &e->pool, &one, sizeof one, (void *)over))
            status = weft_fail_memory(err);
    } while (!status && next(space, moves, &c));
    return status;
}

/* A degree that is refused with no other beside it, but for a want of samples, is so beside any;
 * unless none at all is refused, too. */
static void note_refused(tune_space *space, const estimates *e, const bool *moves, int value)
{
    const tune_choice first = from_ini(space), none = suited(space, &first);
    if (weft_map_get(&e->seen, &none, sizeof none) == &refused)
        return;
    for (int i = 0; i < space->n_keys; i++) {
        tune_choice one = first;
        one.at[i] = value;
        if (!moves[i] || value >= space->keys[i].n)
            continue;
        one = suited(space, &one);
        if (weft_map_get(&e->seen, &one, sizeof one) == &refused)
            space->keys[i].refused[value] = true;
    }
}

/* Ways to divide the ranks, from small degrees to large ones, for a third of what may be
 * planned, or until one can be; copies of what is shared are tried around the best. */
static weft_status try_degrees(tune_search *s, estimates *e, double until, weft_error *err)
{
    tune_space *space = s->space;
    bool moves[TUNE_MOST_KEYS] = {false}, more = true;
    batch b = {0};
    weft_status status = WEFT_OK;
    for (int i = 0; i < space->n_keys; i++)
        moves[i] =
            space->keys[i].kind == TUNE_RANKS && !tune_takes_rest(space, space->keys[i].section);
    for (int steps = 0; more && !status && (s->effort < s->most_plans / 3 || e->n == 0); steps++) {
        more = false;
        status = wish_degrees(s, e, moves, steps, &b, &more, err);
        status = status ? status : look_through(s, e, &b, false, steps == 0, until, err);
        if (steps > 0 && steps < TUNE_MOST_VALUES)
            note_refused(space, e, moves, steps);
    }
    weft_free(b.list);
    return status;
}

/* Is it worth a look beside `from`? Of numbers the next ones are. */
static bool is_near(const tune_key *k, int from, int to)
{
    return from != to && (k->kind == TUNE_VALUES || abs(from - to) == 1);
}

/* Around one choice every other value of one key, or of every two. */
static weft_status try_keys(tune_search *s, estimates *e, const tune_choice *around, bool two,
                            double until, weft_error *err)
{
    const tune_space *space = s->space;
    weft_status status = WEFT_OK;
    batch b = {0};
    for (int i = 0; i < space->n_keys; i++)
        for (int v = 0; v < space->keys[i].n && !status; v++) {
            tune_choice one = *around;
            if (!is_near(&space->keys[i], one.at[i], v) || !tune_key_counts(space, around, i))
                continue;
            one.at[i] = v;
            if (!two)
                status = wish_new(s, e, &b, one, err);
            for (int j = i + 1; two && j < space->n_keys; j++)
                for (int w = 0; w < space->keys[j].n && !status; w++) {
                    tune_choice other = one;
                    other.at[j] = w;
                    if (is_near(&space->keys[j], one.at[j], w))
                        status = wish_new(s, e, &b, other, err);
                }
        }
    status = status ? status : look_through(s, e, &b, false, 0, until, err);
    weft_free(b.list);
    return status;
}

/* ---- down from the best of each kind ---- */

/* Which axes divide the ranks: what suits one such kind, of schedules or shards, says little of
 * another. */
static uint32_t kind_of(const tune_space *space, const tune_choice *c)
{
    uint32_t kind = 0;
    for (int i = 0; i < space->n_keys; i++)
        if (space->keys[i].kind == TUNE_RANKS && !tune_takes_rest(space, space->keys[i].section))
            kind |= (uint32_t)(c->at[i] > 0) << i;
    return kind;
}

static int64_t number_of(const tune_key *k, int value)
{
    return strtoll(k->values[value], NULL, 10);
}

/* What differs from a choice in one key alone. A degree that grows takes its ranks from those that
 * share the samples: micro-batches of as many samples a rank as before are another choice. */
static int beside(const tune_space *space, const tune_choice *at, int key, tune_choice *out)
{
    const tune_key *k = &space->keys[key];
    int n = 0;
    for (int v = 0; v < k->n; v++) {
        tune_choice one = *at;
        one.at[key] = v;
        if (!is_near(k, at->at[key], v) || k->costly[v])
            continue;
        out[n++] = one;
        for (int i = 0; i < space->n_keys && k->kind == TUNE_RANKS; i++) {
            const tune_key *samples = &space->keys[i];
            const int64_t now = number_of(samples, at->at[i]) * number_of(k, at->at[key]);
            for (int w = 0; w < samples->n && samples->kind == TUNE_BATCH; w++)
                if (number_of(samples, w) * number_of(k, v) == now) {
                    one.at[i] = w;
                    out[n++] = one;
                }
        }
    }
    for (int i = 0; i < n; i++)
        settle(space, &out[i]);
    return n;
}

/* The best of a choice and what stands beside it. What plugins look at again is not gone on from:
 * each of its plans is several. */
static weft_status try_key(tune_search *s, estimates *e, tune_choice *at, int key, bool *moved,
                           double until, weft_error *err)
{
    tune_choice others[2 * TUNE_MOST_VALUES];
    const int n = beside(s->space, at, key, others);
    weft_status status = WEFT_OK;
    batch b = {0};
    for (int i = 0; i < n && !status; i++)
        status = wish_new(s, e, &b, others[i], err);
    status = status ? status : look_through(s, e, &b, false, 0, until, err);
    weft_free(b.list);
    *moved = false;
    for (int i = 0; i < n && !status; i++) {
        const tune_result *r = found(e, &others[i]), *now = found(e, at);
        if (r && now && r->rounds > now->rounds)
            s->space->keys[key].costly[others[i].at[key]] = true;
        else if (r && now && order(s, r, now) < 0) {
            *at = others[i];
            *moved = true;
        }
    }
    return status;
}

/* Key by key, each time on from the better one, until a round changes nothing. */
static weft_status descend(tune_search *s, estimates *e, tune_choice at, double until,
                           weft_error *err)
{
    const tune_space *space = s->space;
    weft_status status = WEFT_OK;
    for (bool more = true; more && !status;) {
        more = false;
        for (int i = 0; i < space->n_keys && !status; i++)
            for (bool moved = true; moved && !status && !s->cut && s->effort < s->most_plans;) {
                moved = false;
                if (tune_key_counts(space, &at, i))
                    status = try_key(s, e, &at, i, &moved, until, err);
                more = more || moved;
                moved = moved && space->keys[i].kind != TUNE_VALUES;
            }
    }
    return status;
}

/* Degrees were judged by what the INI says of all else. From the best of each kind down, the
 * fastest kind first. */
static weft_status descend_all(tune_search *s, estimates *e, double until, weft_error *err)
{
    tune_choice best[1 << 6];
    int n = 0;
    weft_status status = WEFT_OK;
    for (int i = 0; i < e->n && n < (int)(sizeof best / sizeof *best); i++) {
        const uint32_t kind = kind_of(s->space, &e->list[i]->choice);
        int same = 0;
        while (same < n && kind_of(s->space, &best[same]) != kind)
            same++;
        if (same == n)
            best[n++] = e->list[i]->choice;
    }
    for (int i = 0; i < n && !status && s->effort < s->most_plans; i++) {
        const tune_result *r = found(e, &best[i]);
        if (r && !is_behind(s, e, r, 8))
            status = descend(s, e, best[i], until, err);
    }
    return status;
}

/* Of those that are faster than all that fit, and do not: what some key spares may be enough. The
 * fastest that is not done yet, of as many as are kept; NULL: there is none. */
static const tune_result *too_large(const tune_search *s, const estimates *e, const estimates *done)
{
    const tune_result *best = e->n ? e->list[0] : NULL, *next = NULL;
    double behind = 0;
    for (int n = 0; best && !s->for_memory && n < KEPT; n++) {
        const tune_result *found = NULL;
        for (int i = 0; i < e->n; i++) {
            const tune_result *r = e->list[i];
            if (!tune_fits(s, r) && r->step_s > behind && r->step_s < best->step_s &&
                (!found || r->step_s < found->step_s))
                found = r;
        }
        if (!found)
            break;
        behind = found->step_s;
        if (!next && !has(done, &found->choice))
            next = found;
    }
    return next;
}

static const tune_result *next_to_improve(const tune_search *s, const estimates *e,
                                          const estimates *done)
{
    for (int i = 0; i < e->n && i < KEPT; i++)
        if (!has(done, &e->list[i]->choice))
            return e->list[i];
    return too_large(s, e, done);
}

/* Around the best, until none of them is new: key by key, and where nothing is new by two of them,
 * for one alone may do harm; as long as more may be planned. */
static weft_status improve(tune_search *s, estimates *e, double until, weft_error *err)
{
    estimates done[2] = {{.n = 0}};
    weft_status status = WEFT_OK;
    while (!status && !s->cut && s->effort < s->most_plans) {
        const tune_result *next = next_to_improve(s, e, &done[0]);
        const bool two = !next;
        next = next ? next : next_to_improve(s, e, &done[1]);
        if (!next)
            break;
        const tune_choice around = next->choice;
        status = note_seen(&done[two], &around, &looked_at, err);
        status = status ? status : try_keys(s, e, &around, two, until, err);
    }
    release(&done[0]);
    release(&done[1]);
    return status;
}

/* With a limit what the INI has is planned whole at first: so the search knows what a row takes,
 * and has one. */
static weft_status plan_first(tune_search *s, estimates *whole, weft_error *err)
{
    const tune_choice first = from_ini(s->space), one = suited(s->space, &first);
    return s->limit_s > 0 ? look_at(s, whole, &one, 1, true, err) : WEFT_OK;
}

static bool has_fitting(const tune_search *s, const estimates *e)
{
    return e->n > 0 && tune_fits(s, e->list[0]);
}

/* That nothing fits is not said before so many plans were made again, four times as many in all:
 * of what does not fit the smallest comes first. */
static weft_status insist(tune_search *s, estimates *e, double until, weft_error *err)
{
    const int most = s->most_plans;
    weft_status status = WEFT_OK;
    for (int i = 0; i < 3 && !status && !s->cut && e->n && !has_fitting(s, e); i++) {
        s->most_plans += most;
        status = descend_all(s, e, until, err);
        status = status ? status : improve(s, e, until, err);
    }
    s->most_plans = most;
    return status;
}

static weft_status plan_some(tune_search *s, double until, weft_error *err)
{
    estimates e = {0}, whole = {0};
    batch b = {0};
    weft_status status = plan_first(s, &whole, err);
    status = status ? status : try_degrees(s, &e, until, err);
    status = status ? status : descend_all(s, &e, until, err);
    status = status ? status : improve(s, &e, until, err);
    status = status ? status : insist(s, &e, until, err);
    for (int i = 0; i < e.n && i < rows(s) && !status; i++)
        if (!has(&whole, &e.list[i]->choice))
            status = wish(&b, &e.list[i]->choice, err);
    status =
        status ? status : look_through(s, &whole, &b, true, !has_fitting(s, &whole), until, err);
    weft_free(b.list);
    release(&e);
    show(s, &whole);
    return status;
}

weft_status tune_run(tune_search *s, weft_error *err)
{
    bool moves[TUNE_MOST_KEYS];
    for (int i = 0; i < TUNE_MOST_KEYS; i++)
        moves[i] = true;
    const double until = s->from_s + s->limit_s;
    if (count(s->space, moves, s->most_plans) <= s->most_plans)
        return plan_all(s, moves, until, err);
    return plan_some(s, until, err);
}

void tune_search_release(tune_search *s)
{
    for (int i = 0; i < s->n_reasons; i++)
        weft_free(s->reasons[i].text);
    weft_free(s->reasons);
    weft_free(s->results);
    weft_pool_release(&s->pool);
    s->results = NULL;
    s->reasons = NULL;
}
