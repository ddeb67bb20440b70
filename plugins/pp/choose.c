/* SPDX-License-Identifier: Apache-2.0 */
/* The best lists of all that are known, and a little better. */
#include "search.h"

#include <stdio.h>
#include <string.h>

enum {
    MOST_TRIES = 4000,   /* small changes of the best */
    MOST_TASKS = 4000000 /* that all of them may run, so that large pipelines take no longer */
};

void pp_choice_release(pp_choice *c)
{
    weft_free(c->list);
    pp_lists_release(&c->lists);
    *c = (pp_choice){0};
}

/* What fits first, then what ends first, then what holds least; else whoever came first. */
static bool is_better(const pp_length *a, const pp_length *b)
{
    if (a->fits != b->fits)
        return a->fits;
    if (!a->fits && a->thousand != b->thousand)
        return a->thousand < b->thousand;
    return a->ends != b->ends ? a->ends < b->ends : a->thousand < b->thousand;
}

static weft_status remember(pp_choice *c, const pp_candidate *candidate, weft_error *err)
{
    if (c->n == c->capacity) {
        const int more = 2 * c->capacity + 16;
        pp_candidate *fresh = weft_realloc(c->list, (size_t)more * sizeof *fresh);
        if (!fresh)
            return weft_fail_memory(err);
        c->list = fresh;
        c->capacity = more;
    }
    c->list[c->n++] = *candidate;
    return WEFT_OK;
}

static double idle_of(const pp_pipeline *p, const pp_length *length)
{
    double busy = 0;
    for (int s = 0; s < p->view.stages; s++)
        for (int k = 0; k < PP_KINDS; k++)
            busy += (double)(p->stages[s].takes[k] * p->view.micro_batches);
    return length->ends ? 1 - busy / (double)length->ends / p->view.ranks : 0;
}

/* Takes the lists, or releases them. Lists that do not end are none. */
static weft_status consider(const pp_pipeline *p, pp_clock *clock, pp_candidate candidate,
                            pp_lists *lists, pp_choice *c, weft_error *err)
{
    weft_status s = WEFT_OK;
    if (lists->n && pp_clock_run(clock, lists, INT64_MAX, &candidate.length)) {
        candidate.idle = idle_of(p, &candidate.length);
        s = remember(c, &candidate, err);
        if (!s && (!c->lists.n || is_better(&candidate.length, &c->best.length))) {
            pp_lists_release(&c->lists);
            c->lists = *lists;
            c->best = candidate;
            return WEFT_OK;
        }
    }
    pp_lists_release(lists);
    return s;
}

/* Is it made for such a placement, and no other's double there? */
static bool suits(const char *name, const pp_schedule *schedule, int turns, bool v)
{
    const int want = pp_schedule_turns(schedule);
    const bool loop = pp_schedule_is_loop(schedule), first = strcmp(name, "1f1b") == 0;
    if ((want && want != turns) || (v && loop) || (!v && pp_schedule_is_v(schedule)))
        return false;
    return !loop || first == (turns == 1);
}

static weft_status choose_named(const pp_pipeline *p, pp_clock *clock, pp_candidate candidate,
                                pp_choice *c, weft_error *err)
{
    weft_status s = WEFT_OK;
    for (int i = 0; pp_schedule_name(i) && !s; i++) {
        const char *name = pp_schedule_name(i);
        const pp_schedule *schedule = pp_find_schedule(name);
        pp_lists lists = {0};
        if (!suits(name, schedule, candidate.turns, candidate.v))
            continue;
        snprintf(candidate.name, sizeof candidate.name, "%s", name);
        s = pp_fill_lists(schedule, &p->view, &lists, err);
        if (s)
            pp_lists_release(&lists);
        s = s ? s : consider(p, clock, candidate, &lists, c, err);
    }
    return s;
}

/* With less room ranks may get on better together; with weights put off for less long, too. */
static weft_status choose_greedy(const pp_pipeline *p, pp_clock *clock, pp_candidate candidate,
                                 pp_choice *c, weft_error *err)
{
    enum { ROOMS = 5, LATES = 5 };
    weft_status s = WEFT_OK;
    for (int i = 0; i < 2 * ROOMS * LATES && !s; i++) {
        const int room = 8 - i / 2 % ROOMS, late = i / 2 / ROOMS ? LATES - i / 2 / ROOMS : 16;
        pp_lists lists = {0};
        snprintf(candidate.name, sizeof candidate.name, "greedy, room %d/8, weights %d/16%s", room,
                 late, i % 2 ? ", reserved" : "");
        s = pp_greedy(p, room, late, i % 2, &lists, err);
        if (s)
            pp_lists_release(&lists);
        s = s ? s : consider(p, clock, candidate, &lists, c, err);
    }
    return s;
}

weft_status pp_choose(const pp_pipeline *p, bool v, pp_choice *c, weft_error *err)
{
    const pp_candidate candidate = {.turns = p->view.stages / p->view.ranks, .v = v};
    pp_clock *clock;
    weft_status s = pp_clock_create(p, &clock, err);
    s = s ? s : choose_named(p, clock, candidate, c, err);
    s = s ? s : choose_greedy(p, clock, candidate, c, err);
    pp_clock_destroy(clock);
    return s;
}

weft_status pp_choice_add(pp_choice *all, pp_choice *one, weft_error *err)
{
    weft_status s = WEFT_OK;
    for (int i = 0; i < one->n && !s; i++)
        s = remember(all, &one->list[i], err);
    if (!s && one->lists.n && (!all->lists.n || is_better(&one->best.length, &all->best.length))) {
        pp_lists_release(&all->lists);
        all->lists = one->lists;
        all->best = one->best;
        one->lists = (pp_lists){0};
    }
    pp_choice_release(one);
    return s;
}

/* ---- small changes ---- */

/* Items from `from` to `to`, the first or the last of which moves to the other end. */
static void turn(pp_item *items, int from, int to)
{
    const pp_item moved = items[from];
    const size_t n = (size_t)(from < to ? to - from : from - to) * sizeof *items;
    if (from < to)
        memmove(&items[from], &items[from + 1], n);
    else
        memmove(&items[to + 1], &items[to], n);
    items[to] = moved;
}

/* Must one of a rank's items stay before the other whatever happens? Micro-batches of a stage go in
 * order, and each forward, back, and weights. */
static bool are_tied(const pp_item *a, const pp_item *b)
{
    return a->stage == b->stage && (a->letter == b->letter || a->micro == b->micro);
}

/* Where item i may go on its way to `to`. */
static int reach(const pp_lists *l, int i, int to)
{
    const int step = to < i ? -1 : 1;
    int at = i;
    while (at != to && at + step >= 0 && at + step < (int)l->n &&
           l->items[at + step].rank == l->items[i].rank &&
           !are_tied(&l->items[at + step], &l->items[i]))
        at += step;
    return at;
}

static int64_t below(uint64_t *at, int64_t n)
{
    return (int64_t)(weft_random_bits(33, 1, (*at)++) % (uint64_t)n);
}

weft_status pp_improve(const pp_pipeline *p, pp_choice *c, weft_error *err)
{
    pp_clock *clock;
    pp_length now = c->best.length;
    uint64_t at = 0;
    const int64_t n = (int64_t)c->lists.n, tries = n ? MOST_TASKS / n : 0;
    weft_status s = pp_clock_create(p, &clock, err);
    bool better = false;
    for (int64_t i = 0; i < tries && i < MOST_TRIES && !s; i++) {
        const int from = (int)below(&at, n), far = 1 + (int)below(&at, 1 + below(&at, 12)),
                  to = reach(&c->lists, from, below(&at, 2) ? from + far : from - far);
        pp_length length;
        if (to == from)
            continue;
        turn(c->lists.items, from, to);
        if (pp_clock_run(clock, &c->lists, now.fits ? now.ends : INT64_MAX, &length) &&
            !is_better(&now, &length)) {
            better = better || is_better(&length, &now);
            now = length;
        } else {
            turn(c->lists.items, to, from);
        }
    }
    if (better)
        snprintf(c->best.name + strlen(c->best.name), sizeof c->best.name - strlen(c->best.name),
                 ", improved");
    c->best.length = now;
    c->best.idle = idle_of(p, &now);
    pp_clock_destroy(clock);
    return s;
}
