/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of tasks, and the one that everybody has who lists no schedule. */
#include "base/array.h"
#include "compile/schedule/schedule.h"

#include <string.h>

weft_status weft_tasks_create(int ranks, int stages, int64_t micro_batches, bool backward,
                              weft_tasks **out, weft_error *err)
{
    *out = NULL;
    if (ranks < 1 || stages < 1 || micro_batches < 1 || ranks > WEFT_MAX_STAGES ||
        stages > WEFT_MAX_STAGES || micro_batches > WEFT_MAX_TASKS / stages / 2)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "a pipeline of %d ranks and %d stages with %lld micro-batches a step is "
                         "not possible",
                         ranks, stages, (long long)micro_batches);
    weft_tasks *t = weft_alloc_zero(1, sizeof *t);
    if (!t)
        return weft_fail_memory(err);
    *t = (weft_tasks){.ranks = ranks,
                      .stages = stages,
                      .micro_batches = micro_batches,
                      .backward = backward,
                      .sending = 1};
    t->of = weft_pool_alloc(&t->pool, (size_t)ranks * sizeof *t->of);
    t->rank_of = weft_pool_alloc(&t->pool, (size_t)stages * sizeof *t->rank_of);
    t->split = weft_pool_alloc(&t->pool, (size_t)stages * sizeof *t->split);
    if (t->pool.out_of_memory) {
        weft_tasks_destroy(t);
        return weft_fail_memory(err);
    }
    for (int s = 0; s < stages; s++)
        t->rank_of[s] = s % ranks;
    *out = t;
    return WEFT_OK;
}

void weft_tasks_destroy(weft_tasks *t)
{
    if (!t)
        return;
    for (int r = 0; t->of && r < t->ranks; r++)
        weft_free(t->of[r].list);
    weft_pool_release(&t->pool);
    weft_free(t);
}

weft_status weft_tasks_add(weft_tasks *t, int rank, weft_part part, int stage, int64_t micro_batch,
                           weft_error *err)
{
    if (rank < 0 || rank >= t->ranks)
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                         "a task for rank %d of a pipeline of %d ranks", rank, t->ranks);
    weft_task_list *l = &t->of[rank];
    if (l->n >= 2 * WEFT_MAX_TASKS)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "rank %d has too many tasks", rank);
    weft_task *task = weft_array_push(&l->list, &l->n, &l->capacity, sizeof *task);
    if (!task)
        return weft_fail_memory(err);
    *task = (weft_task){part, stage, micro_batch, t->at};
    if (part == WEFT_PART_W && stage >= 0 && stage < t->stages)
        t->split[stage] = true;
    return WEFT_OK;
}

void weft_tasks_set_where(weft_tasks *t, weft_where at)
{
    t->at = at;
}

static bool has(const weft_task_list *l, weft_part part)
{
    for (int i = 0; i < l->n; i++)
        if (l->list[i].part == part)
            return true;
    return false;
}

static weft_status add_first(weft_tasks *t, int rank, weft_part part, weft_error *err)
{
    weft_task_list *l = &t->of[rank];
    weft_status s = weft_tasks_add(t, rank, part, 0, -1, err);
    if (s)
        return s;
    const weft_task task = l->list[l->n - 1];
    memmove(l->list + 1, l->list, (size_t)(l->n - 1) * sizeof task);
    l->list[0] = task;
    return WEFT_OK;
}

weft_status weft_tasks_frame(weft_tasks *t, weft_error *err)
{
    weft_status s = WEFT_OK;
    for (int r = 0; r < t->ranks && !s; r++) {
        weft_task_list *l = &t->of[r];
        if (!has(l, WEFT_PART_BEGIN))
            s = add_first(t, r, WEFT_PART_BEGIN, err);
        if (!s && !has(l, WEFT_PART_STEP_END))
            s = weft_tasks_add(t, r, WEFT_PART_STEP_END, 0, -1, err);
        if (!s && t->backward && !has(l, WEFT_PART_UPDATE))
            s = weft_tasks_add(t, r, WEFT_PART_UPDATE, 0, -1, err);
    }
    return s;
}

weft_status weft_tasks_trivial(weft_tasks *t, weft_error *err)
{
    weft_status s = WEFT_OK;
    for (int64_t m = 0; m < t->micro_batches && !s; m++) {
        for (int i = 0; i < t->stages && !s; i++)
            s = weft_tasks_add(t, t->rank_of[i], WEFT_PART_F, i, m, err);
        for (int i = t->stages - 1; t->backward && i >= 0 && !s; i--)
            s = weft_tasks_add(t, t->rank_of[i], WEFT_PART_B, i, m, err);
    }
    return s ? s : weft_tasks_frame(t, err);
}

void weft_task_print(const weft_tasks *t, const weft_task *task, weft_text *text)
{
    static const char *const names[] = {"begin", "F", "B", "W", "step_end", "update"};
    bool split = task->part == WEFT_PART_B && task->stage >= 0 && task->stage < t->stages &&
                 t->split[task->stage];
    if (weft_part_is_micro(task->part))
        weft_text_print(text, "%d%s%lld", task->stage, split ? "I" : names[task->part],
                        (long long)task->micro_batch);
    else
        weft_text_add(text, names[task->part]);
}
