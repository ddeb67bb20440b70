/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline_lists.h"
#include "kit/task_lists.h"

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

/* A task that its rank could run now, whatever the channels say. */
static bool try_random(weft_tasks *t, dice *d, char *done[2], bool in_order)
{
    int stage = roll(d, t->stages), way = roll(d, 3) == 0;
    int64_t m = roll(d, (int)t->micro_batches), at = stage * t->micro_batches + m;
    if (in_order && m > 0 && !done[way][at - 1])
        return false;
    int64_t before = way ? at + t->micro_batches : at - t->micro_batches;
    bool first = way ? stage == t->stages - 1 : stage == 0;
    if (done[way][at] || (way && !done[0][at]) || (!first && !done[way][before]))
        return false;
    done[way][at] = 1;
    return !weft_tasks_add(t, stage % t->ranks, way ? WEFT_PART_B : WEFT_PART_F, stage, m, NULL);
}

/* Tasks in any order that one machine alone could run; in_order: each stage's micro-batches in
 * theirs, so that what stops it is room, or several stages in one channel. */
static void fill_randomly(weft_tasks *t, dice *d, bool in_order)
{
    size_t n = (size_t)(t->stages * t->micro_batches);
    char *done[2] = {weft_alloc_zero(n, 1), weft_alloc_zero(n, 1)};
    for (size_t left = 2 * n; left > 0;)
        left -= try_random(t, d, done, in_order);
    weft_free(done[0]);
    weft_free(done[1]);
}

static weft_tasks *random_lists(dice *d)
{
    int p = 1 + roll(d, 4), v = 1 + roll(d, 3), kind = roll(d, 9);
    weft_tasks *t = create(p, kind == 1 ? p : p * v, 1 + roll(d, 6));
    if (kind == 3)
        assert_int_equal(weft_tasks_trivial(t, NULL), WEFT_OK);
    else if (kind >= 4)
        fill_randomly(t, d, kind > 4);
    else
        assert_int_equal(weft_schedule_fill((weft_schedule_kind)kind, t, NULL), WEFT_OK);
    if (kind != 3)
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
    for (int s = 0; s < c->tasks->stages; s++)
        c->waiting[s] = 1 + roll(&d, (int)c->tasks->micro_batches + 2);
    c->limits = (weft_tasks_limits){roll(&d, 3) ? NULL : c->waiting, roll(&d, 3)};
}

void pipeline_case_release(pipeline_case *c)
{
    weft_tasks_destroy(c->tasks);
}

void pipeline_case_print(const pipeline_case *c, weft_text *text)
{
    weft_tasks_print(c->tasks, text);
    weft_text_print(text, "(%d stages, %d micro-batches, %d sent at a time)", c->tasks->stages,
                    (int)c->tasks->micro_batches, (int)c->limits.sending);
}
