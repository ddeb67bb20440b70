/* SPDX-License-Identifier: Apache-2.0 */
/* Which choices are planned. Few are planned all; of many the degrees are tried in every way, by a
 * part of the model's blocks, and beside the best of them what else may be chosen, key after key.
 * What is printed was planned whole. Effort is counted in plans, so that the answer is the same on
 * every machine. */
#include "base/array.h"
#include "tune.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* How many of the best are gone round, and planned whole. */
enum { KEPT = 8, WHOLE = 24 };

typedef struct estimates {
    tune_result *list;
    int n, capacity;
} estimates;

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool is_over(tune_search *s, double until)
{
    s->cut = s->cut || (s->limit_s > 0 && now_s() > until);
    return s->cut;
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

/* Into a sorted list. */
static weft_status put(const tune_search *s, estimates *e, const tune_result *r, weft_error *err)
{
    if (!weft_array_push(&e->list, &e->n, &e->capacity, sizeof *e->list))
        return weft_fail_memory(err);
    int i = e->n - 1;
    for (; i > 0 && order(s, r, &e->list[i - 1]) < 0; i--)
        e->list[i] = e->list[i - 1];
    e->list[i] = *r;
    return WEFT_OK;
}

static bool has(const estimates *e, const tune_choice *c)
{
    for (int i = 0; i < e->n; i++)
        if (memcmp(&e->list[i].choice, c, sizeof *c) == 0)
            return true;
    return false;
}

static weft_status look(tune_search *s, estimates *e, const tune_choice *c, bool whole,
                        weft_error *err)
{
    tune_result r;
    weft_text why = {0};
    weft_status status =
        whole ? tune_plan(s->space, c, &r, &why, err) : tune_estimate(s->space, c, &r, &why, err);
    s->planned++;
    if (!status && !r.refused && s->room <= 0)
        s->room = r.room;
    if (!status && r.refused) {
        s->refused++;
        if (why.size) {
            weft_text_clear(&s->refusal);
            weft_text_add(&s->refusal, weft_text_get(&why));
        }
    } else if (!status) {
        status = put(s, e, &r, err);
    }
    weft_text_release(&why);
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

static weft_status plan_all(tune_search *s, const bool *moves, double until, weft_error *err)
{
    estimates e = {0};
    tune_choice c = {{0}};
    weft_status status = WEFT_OK;
    do
        if (is_worth(s->space, &c))
            status = look(s, &e, &c, true, err);
    while (!status && !is_over(s, until) && next(s->space, moves, &c));
    s->results = e.list;
    s->n = e.n;
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

/* Every way to divide the ranks. */
static weft_status try_degrees(tune_search *s, estimates *e, double until, weft_error *err)
{
    const tune_space *space = s->space;
    bool moves[TUNE_MOST_KEYS] = {false};
    for (int i = 0; i < space->n_keys; i++)
        moves[i] = space->keys[i].kind == TUNE_RANKS;
    tune_choice c = from_ini(space);
    weft_status status = WEFT_OK;
    do {
        tune_choice one = c;
        suit_batch(space, &one);
        settle(space, &one);
        if (tune_choice_fits(space, &one) && !has(e, &one))
            status = look(s, e, &one, false, err);
    } while (!status && !is_over(s, until) && s->planned < s->most_plans && next(space, moves, &c));
    return status;
}

/* Around one choice every other value of one key. */
static weft_status try_keys(tune_search *s, estimates *e, const tune_choice *around, double until,
                            weft_error *err)
{
    const tune_space *space = s->space;
    weft_status status = WEFT_OK;
    for (int i = 0; i < space->n_keys; i++)
        for (int v = 0; v < space->keys[i].n && !status; v++) {
            tune_choice one = *around;
            if (!tune_key_counts(space, around, i))
                continue;
            one.at[i] = v;
            settle(space, &one);
            if (!tune_choice_fits(space, &one) || has(e, &one))
                continue;
            if (is_over(s, until) || s->planned >= s->most_plans)
                return WEFT_OK;
            status = look(s, e, &one, false, err);
        }
    return status;
}

/* The best that were not gone round yet, until none is new. */
static weft_status improve(tune_search *s, estimates *e, double until, weft_error *err)
{
    estimates done = {0};
    weft_status status = WEFT_OK;
    for (bool more = true; more && !status;) {
        more = false;
        for (int i = 0; i < e->n && i < KEPT && !more; i++) {
            if (has(&done, &e->list[i].choice))
                continue;
            more = !s->cut && s->planned < s->most_plans;
            const tune_result best = e->list[i];
            status = put(s, &done, &best, err);
            status = status || !more ? status : try_keys(s, e, &best.choice, until, err);
        }
    }
    weft_free(done.list);
    return status;
}

static weft_status plan_some(tune_search *s, double until, weft_error *err)
{
    estimates e = {0}, whole = {0};
    weft_status status = try_degrees(s, &e, until, err);
    status = status ? status : improve(s, &e, until, err);
    for (int i = 0; i < e.n && i < WHOLE && !status; i++)
        status = e.list[i].whole                  ? put(s, &whole, &e.list[i], err)
                 : i < KEPT || !is_over(s, until) ? look(s, &whole, &e.list[i].choice, true, err)
                                                  : WEFT_OK;
    weft_free(e.list);
    s->results = whole.list;
    s->n = whole.n;
    return status;
}

weft_status tune_run(tune_search *s, weft_error *err)
{
    bool moves[TUNE_MOST_KEYS];
    for (int i = 0; i < TUNE_MOST_KEYS; i++)
        moves[i] = true;
    const double until = now_s() + s->limit_s;
    if (count(s->space, moves, s->most_plans) <= s->most_plans)
        return plan_all(s, moves, until, err);
    return plan_some(s, until, err);
}

void tune_search_release(tune_search *s)
{
    weft_free(s->results);
    weft_text_release(&s->refusal);
    s->results = NULL;
}
