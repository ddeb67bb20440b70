/* SPDX-License-Identifier: Apache-2.0 */
/* schedule = auto: what it finds is never worse than a schedule with a name, by a simulation that
 * shares no code with it, and holds no more than it may. */
#include "plugins/pp/search.h"

#include "forecast/timeline.h"
#include "kit/task_lists.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/random.h>
/* last: it needs the headers above */
#include <cmocka.h>

enum { MOST_RANKS = 8, MOST_STAGES = 3 * MOST_RANKS };

typedef struct random_case {
    pp_pipeline p;
    pp_stage stages[MOST_STAGES];
    int rank_of[MOST_STAGES];
    bool v;
} random_case;

typedef struct dice {
    uint64_t seed, at;
} dice;

static int below(dice *d, int n)
{
    return (int)(weft_random_bits(d->seed, 5, d->at++) % (uint64_t)n);
}

static void set_view(random_case *c, int ranks, int turns, int micro, bool v)
{
    c->v = v;
    c->p = (pp_pipeline){.view = {ranks, ranks * turns, micro, c->rank_of}, .stages = c->stages};
    for (int s = 0; s < ranks * turns; s++)
        c->rank_of[s] = v && s / ranks % 2 ? ranks - 1 - s % ranks : s % ranks;
}

/* By other code than pp's: the bytes of one micro-batch on a rank. */
static int64_t unit_of(const random_case *c, int rank)
{
    int64_t unit = 0;
    for (int s = 0; s < c->p.view.stages; s++) {
        const pp_stage *k = &c->stages[s];
        unit += c->rank_of[s] != rank ? 0 : k->kept > k->held ? k->kept : k->held;
    }
    return unit ? unit : 1;
}

static void make(random_case *c, uint64_t seed)
{
    dice d = {seed, 0};
    const int ranks = 2 + below(&d, MOST_RANKS - 1), turns = 1 + below(&d, 3);
    const bool even = below(&d, 2);
    set_view(c, ranks, turns, 1 + below(&d, 16), turns > 1 && below(&d, 2));
    c->p.alive = 1 + below(&d, 2 * ranks);
    for (int s = 0; s < c->p.view.stages; s++) {
        pp_stage *k = &c->stages[s];
        for (int i = 0; i < PP_KINDS; i++)
            k->takes[i] = below(&d, 4) ? 1 + below(&d, 1000) : below(&d, 3);
        for (int way = 0; way < 2; way++)
            k->sends[way] = below(&d, 2) ? below(&d, 300) : 0;
        k->kept = below(&d, 100);
        k->held = below(&d, 120);
        if (even && s > 0)
            *k = c->stages[0];
    }
    if (below(&d, 2)) {
        int64_t most = 1;
        for (int r = 0; r < ranks; r++)
            most = unit_of(c, r) > most ? unit_of(c, r) : most;
        c->p.bytes = most + below(&d, 300);
    }
}

/* ---- by other code ---- */

static int64_t count_thousand(const random_case *c, const weft_tasks *t, bool *fits)
{
    int64_t most = 0;
    *fits = true;
    for (int r = 0; r < t->ranks; r++) {
        int64_t now = 0, peak = 0;
        const int64_t unit = unit_of(c, r);
        for (int i = 0; i < t->of[r].n; i++) {
            const weft_task *k = &t->of[r].list[i];
            const pp_stage *s = &c->stages[k->stage];
            now += k->part == WEFT_PART_F   ? s->kept
                   : k->part == WEFT_PART_B ? (t->split[k->stage] ? s->held : 0) - s->kept
                   : k->part == WEFT_PART_W ? -s->held
                                            : 0;
            peak = now > peak ? now : peak;
        }
        assert_int_equal(now, 0);
        most = peak * 1000 / unit > most ? peak * 1000 / unit : most;
        *fits = *fits && peak <= (c->p.bytes ? c->p.bytes : c->p.alive * unit);
    }
    return most;
}

/* How long the step takes; consumes the tasks' lists. */
static double simulate(const random_case *c, weft_tasks *t)
{
    weft_costs costs;
    weft_timeline *line;
    weft_error err = {0};
    assert_int_equal(weft_costs_init(&costs, t->ranks, t->stages, NULL), WEFT_OK);
    for (int s = 0; s < t->stages; s++) {
        const pp_stage *k = &c->stages[s];
        const double weights = (double)k->takes[PP_W];
        costs.seconds[WEFT_PART_F][s] = (double)k->takes[PP_F];
        costs.seconds[WEFT_PART_B][s] = (double)k->takes[PP_I] + (t->split[s] ? 0 : weights);
        costs.seconds[WEFT_PART_W][s] = weights;
        costs.bytes[0][s] = (double)k->sends[0];
        costs.bytes[1][s] = (double)k->sends[1];
    }
    costs.bytes_per_s = 1;
    if (weft_tasks_verify(t, 0, NULL, &err) || weft_timeline_create(t, &costs, 0, &line, &err))
        fail_msg("%s", weft_error_text(&err));
    const double step = line->step_s;
    weft_timeline_destroy(line);
    weft_costs_release(&costs);
    return step;
}

static weft_tasks *tasks_of(const random_case *c)
{
    weft_tasks *t;
    const weft_pipeline_view *v = &c->p.view;
    assert_int_equal(weft_tasks_create(v->ranks, v->stages, v->micro_batches, true, &t, NULL),
                     WEFT_OK);
    memcpy(t->rank_of, c->rank_of, (size_t)v->stages * sizeof(int));
    return t;
}

/* Of each stage forwards, backwards and weights are those of micro-batch after micro-batch. */
static void check_order(const weft_tasks *t)
{
    int64_t next[WEFT_PARTS][MOST_STAGES] = {{0}};
    for (int r = 0; r < t->ranks; r++)
        for (int i = 0; i < t->of[r].n; i++) {
            const weft_task *k = &t->of[r].list[i];
            if (weft_part_is_micro(k->part))
                assert_int_equal(k->micro_batch, next[k->part][k->stage]++);
        }
}

/* The step by a schedule's name; below 0: it is none for this pipeline, or holds too much. */
static double named(const random_case *c, const char *name)
{
    const pp_schedule *schedule = pp_find_schedule(name);
    const int turns = c->p.view.stages / c->p.view.ranks, want = pp_schedule_turns(schedule);
    if ((want && want != turns) || (c->v && pp_schedule_is_loop(schedule)) ||
        (!c->v && turns > 1 && pp_schedule_is_v(schedule)))
        return -1;
    weft_tasks *t = tasks_of(c);
    bool fits;
    assert_int_equal(pp_fill(schedule, &c->p.view, t, NULL), WEFT_OK);
    assert_int_equal(weft_tasks_frame(t, NULL), WEFT_OK);
    count_thousand(c, t, &fits);
    const double step = fits ? simulate(c, t) : -1;
    weft_tasks_destroy(t);
    return step;
}

static void choose(const random_case *c, pp_choice *out)
{
    weft_error err = {0};
    *out = (pp_choice){0};
    if (pp_choose(&c->p, c->v, out, &err) || pp_improve(&c->p, out, &err))
        fail_msg("%s", weft_error_text(&err));
}

/* The same, task by task. */
static void check_again(const random_case *c, const pp_choice *best)
{
    pp_choice again;
    choose(c, &again);
    assert_int_equal(best->lists.n, again.lists.n);
    for (size_t i = 0; i < again.lists.n; i++)
        assert_true(best->lists.items[i].stage == again.lists.items[i].stage &&
                    best->lists.items[i].letter == again.lists.items[i].letter &&
                    best->lists.items[i].micro == again.lists.items[i].micro);
    pp_choice_release(&again);
}

static void check(const random_case *c, uint64_t seed)
{
    pp_choice best;
    bool fits;
    choose(c, &best);
    if (seed % 8 == 0)
        check_again(c, &best);
    weft_tasks *t = tasks_of(c);
    assert_int_equal(pp_lists_fill(&best.lists, t, NULL), WEFT_OK);
    assert_int_equal(weft_tasks_frame(t, NULL), WEFT_OK);
    check_order(t);
    const int64_t thousand = count_thousand(c, t, &fits);
    const double step = simulate(c, t);
    if (step != (double)best.best.length.ends || thousand != best.best.length.thousand ||
        fits != best.best.length.fits || !fits)
        fail_msg("case %d: %s takes %g, holds %d, %s; it was said to take %lld, hold %d, %s",
                 (int)seed, best.best.name, step, (int)thousand, fits ? "fits" : "does not fit",
                 (long long)best.best.length.ends, (int)best.best.length.thousand,
                 best.best.length.fits ? "fit" : "not to fit");
    for (int i = 0; pp_schedule_name(i); i++) {
        const double other = named(c, pp_schedule_name(i));
        if (other >= 0 && other < step)
            fail_msg("case %d: %s takes %g, and %s %g", (int)seed, best.best.name, step,
                     pp_schedule_name(i), other);
    }
    weft_tasks_destroy(t);
    pp_choice_release(&best);
}

static void test_never_worse(void **state)
{
    (void)state;
    const int n = getenv("WEFT_LONG") ? 2000 : 60;
    for (int seed = 0; seed < n; seed++) {
        random_case c;
        make(&c, (uint64_t)seed);
        check(&c, (uint64_t)seed);
    }
}

/* ---- figures ---- */

/* Forward, gradients of activations and of weights of a Llama of 8 billion parameters; what is held
 * for weights is half of what was kept, or all of it. */
static double idle_of(int ranks, int micro, int64_t alive, int64_t held)
{
    random_case c;
    pp_choice best;
    set_view(&c, ranks, 2, micro, true);
    c.p.alive = alive;
    for (int s = 0; s < 2 * ranks; s++)
        c.stages[s] = (pp_stage){{503, 604, 436}, {20, 20}, 2, held};
    choose(&c, &best);
    const double idle = best.best.idle;
    print_message("%d ranks, %d micro-batches, %d alive: %s, idle %.2f %%\n", ranks, micro,
                  (int)alive, best.best.name, 100 * idle);
    pp_choice_release(&best);
    return idle;
}

static void test_figures(void **state)
{
    (void)state;
    assert_true(idle_of(8, 32, 8, 1) <= 0.0475);
    assert_true(idle_of(8, 32, 12, 1) <= 0.042);
    assert_true(idle_of(8, 32, 12, 2) <= 0.042);
    assert_true(idle_of(8, 32, 16, 1) <= 0.037);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_never_worse),
                                       cmocka_unit_test(test_figures)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
