/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline_lists.h"
#include "kit/task_lists.h"
#include "plugins/pp/pp.h"

#include <setjmp.h>
#include <string.h>
#include <weft/random.h>
/* last: it needs the headers above */
#include <cmocka.h>

static weft_tasks *create(int ranks, int stages, int64_t micro)
{
    weft_tasks *t;
    assert_int_equal(weft_tasks_create(ranks, stages, micro, true, &t, NULL), WEFT_OK);
    return t;
}

typedef struct dice {
    uint64_t seed, n;
} dice;

static int roll(dice *d, int sides)
{
    return (int)(weft_random_bits(d->seed, 3, d->n++) % (uint64_t)sides);
}

weft_tasks *pipeline_schedule(const char *name, int ranks, int stages, int64_t micro)
{
    weft_tasks *t = create(ranks, stages, micro);
    const pp_schedule *schedule = pp_find_schedule(name);
    for (int s = 0; s < stages && pp_schedule_is_v(schedule); s++)
        t->rank_of[s] = s / ranks % 2 ? ranks - 1 - s % ranks : s % ranks;
    const weft_pipeline_view view = {ranks, stages, micro, t->rank_of};
    assert_int_equal(pp_fill(schedule, &view, t, NULL), WEFT_OK);
    assert_int_equal(weft_tasks_frame(t, NULL), WEFT_OK);
    return t;
}

weft_status pipeline_parse(weft_tasks *t, const char *text, weft_error *err)
{
    static const char name[] = "x";
    pp_lists lists;
    weft_status s = pp_lists_read(name, text, strlen(text), &lists, err);
    s = s ? s : pp_lists_fill(&lists, t, err);
    /* a plugin's lists live as long as the tasks; of these the name alone does */
    for (int r = 0; r < t->ranks; r++)
        for (int i = 0; i < t->of[r].n; i++)
            t->of[r].list[i].at.file = t->of[r].list[i].at.file ? name : NULL;
    t->at = WEFT_NOWHERE;
    pp_lists_release(&lists);
    return s;
}

enum { WAYS = 3 };

/* A task that its rank could run now, whatever the channels say. */
static bool try_random(weft_tasks *t, dice *d, char *done[WAYS], const bool *split, bool in_order)
{
    static const weft_part parts[WAYS] = {WEFT_PART_F, WEFT_PART_B, WEFT_PART_W};
    int stage = roll(d, t->stages), of = roll(d, 9), way = of < 5 ? 0 : of < 7 ? 1 : 2;
    int64_t m = roll(d, (int)t->micro_batches), at = stage * t->micro_batches + m;
    if ((in_order && m > 0 && !done[way][at - 1]) || done[way][at] || (way == 2 && !split[stage]))
        return false;
    int64_t before = way == 1 ? at + t->micro_batches : at - t->micro_batches;
    bool first = way == 2 || (way ? stage == t->stages - 1 : stage == 0);
    if ((way && !done[way - 1][at]) || (!first && !done[way][before]))
        return false;
    done[way][at] = 1;
    return !weft_tasks_add(t, t->rank_of[stage], parts[way], stage, m, NULL);
}

/* Tasks in any order that one machine alone could run; in_order: each stage's micro-batches in
 * theirs, so that what stops it is room, or several stages in one channel. Some stages have W. */
static void fill_randomly(weft_tasks *t, dice *d, bool in_order)
{
    size_t n = (size_t)(t->stages * t->micro_batches), left = 2 * n;
    char *done[WAYS];
    bool split[PIPELINE_MOST_STAGES];
    int often = roll(d, 3);
    for (int way = 0; way < WAYS; way++)
        done[way] = weft_alloc_zero(n, 1);
    for (int s = 0; s < t->stages; s++) {
        split[s] = often && (often == 2 || roll(d, 2));
        left += split[s] ? (size_t)t->micro_batches : 0;
    }
    while (left > 0)
        left -= try_random(t, d, done, split, in_order);
    for (int way = 0; way < WAYS; way++)
        weft_free(done[way]);
}

/* Every stage anywhere. */
static void place_randomly(weft_tasks *t, dice *d)
{
    for (int s = 0; s < t->stages; s++)
        t->rank_of[s] = roll(d, t->ranks);
}

static weft_tasks *random_lists(dice *d)
{
    static const struct {
        const char *name;
        int turns;
    } known[] = {{"gpipe", 0},          {"1f1b", 1}, {"interleaved", 0}, {"bfs", 0},  {"zb_h1", 1},
                 {"interleaved_zb", 0}, {"zbv", 2},  {"dualpipev", 2},   {"zb_h2", 1}};
    int p = 1 + roll(d, 4), v = 1 + roll(d, 3), kind = roll(d, 24), n = 9;
    int64_t micro = 1 + roll(d, 6);
    if (kind < n)
        return pipeline_schedule(known[kind].name, p,
                                 p * (known[kind].turns ? known[kind].turns : v), micro);
    weft_tasks *t = create(p, p * v, micro);
    if (roll(d, 3) == 0)
        place_randomly(t, d);
    if (kind == n)
        assert_int_equal(weft_tasks_trivial(t, NULL), WEFT_OK);
    else
        fill_randomly(t, d, kind > n + 3);
    if (kind != n)
        assert_int_equal(weft_tasks_frame(t, NULL), WEFT_OK);
    return t;
}

static void move_task(weft_task_list *l, int i, int to)
{
    weft_task task = l->list[i];
    memmove(&l->list[i], &l->list[i + 1], (size_t)(l->n - i - 1) * sizeof task);
    memmove(&l->list[to + 1], &l->list[to], (size_t)(l->n - 1 - to) * sizeof task);
    l->list[to] = task;
}

static void change(weft_tasks *t, dice *d)
{
    int rank = roll(d, t->ranks);
    weft_task_list *l = &t->of[rank];
    int i = roll(d, l->n), k = roll(d, l->n);
    switch (roll(d, 10)) {
    case 0: { /* one less */
        memmove(&l->list[i], &l->list[i + 1], (size_t)(l->n - i - 1) * sizeof *l->list);
        l->n--;
        break;
    }
    case 1: /* one twice */
        assert_int_equal(weft_tasks_add(t, rank, l->list[i].part, l->list[i].stage,
                                        l->list[i].micro_batch, NULL),
                         WEFT_OK);
        move_task(l, l->n - 1, k);
        break;
    case 2:
        l->list[i].micro_batch = roll(d, (int)t->micro_batches + 1);
        break;
    case 3:
        l->list[i].stage = roll(d, t->stages + 1);
        break;
    case 4:
        l->list[i].part = (weft_part)roll(d, WEFT_PARTS);
        break;
    case 5:
    case 6: /* any two */
        move_task(l, i, k);
        break;
    default: /* neighbours */
        i = 1 + roll(d, l->n - 3 > 0 ? l->n - 3 : 1);
        move_task(l, i, i > 1 ? i - 1 : i);
    }
}

void pipeline_case_init(pipeline_case *c, uint64_t seed)
{
    dice d = {seed, 0};
    *c = (pipeline_case){.tasks = random_lists(&d)};
    for (int i = roll(&d, 3); i > 0; i--)
        change(c->tasks, &d);
    c->sending = roll(&d, 3);
}

void pipeline_case_release(pipeline_case *c)
{
    weft_tasks_destroy(c->tasks);
}

void pipeline_case_print(const pipeline_case *c, weft_text *text)
{
    weft_tasks_print(c->tasks, text);
    weft_text_print(text, "(%d stages, %d micro-batches, %d sent at a time)", c->tasks->stages,
                    (int)c->tasks->micro_batches, (int)c->sending);
}
