/* SPDX-License-Identifier: Apache-2.0 */
/* The schedules that everybody knows. They use nothing but weft_tasks_add. */
#include "compile/schedule/schedule.h"

const char *weft_schedule_name(weft_schedule_kind kind)
{
    static const char *const names[] = {"gpipe", "1f1b", "interleaved"};
    return names[kind];
}

/* Micro-batches go in groups, each through all the rank's stages before the next: as many as there
 * are ranks, so that the first of a group comes round when the last has left, and nobody need keep
 * what the next rank has no time for. If the last group is not whole its tasks are those of a whole
 * one, less those of the micro-batches that are not there: what had an order before has it still.
 */
static int64_t whole_groups(const weft_tasks *t)
{
    return (t->micro_batches + t->ranks - 1) / t->ranks * t->ranks;
}

/* How many forwards a rank is ahead of its backwards. With several stages a rank a group must have
 * been through all but the last of them before a backward can begin. */
static int64_t warm_up(weft_schedule_kind kind, const weft_tasks *t, int rank)
{
    int64_t virtual_stages = t->stages / t->ranks, behind = t->ranks - 1 - rank;
    if (kind == WEFT_SCHEDULE_GPIPE)
        return virtual_stages * whole_groups(t);
    return virtual_stages == 1 ? behind : (virtual_stages - 1) * t->ranks + 2 * behind;
}

/* Number i of a rank's forwards, or of its backwards. */
static weft_status add(weft_tasks *t, int rank, weft_part part, int64_t i, weft_error *err)
{
    int64_t virtual_stages = t->stages / t->ranks, turn = i / t->ranks % virtual_stages;
    int64_t micro = i / (t->ranks * virtual_stages) * t->ranks + i % t->ranks;
    if (part == WEFT_PART_B)
        turn = virtual_stages - 1 - turn;
    if (micro >= t->micro_batches)
        return WEFT_OK;
    return weft_tasks_add(t, rank, part, (int)(turn * t->ranks) + rank, micro, err);
}

static weft_status fill_rank(weft_schedule_kind kind, weft_tasks *t, int rank, weft_error *err)
{
    int64_t n = t->stages / t->ranks * whole_groups(t), ahead = warm_up(kind, t, rank);
    weft_status s = WEFT_OK;
    ahead = ahead < n ? ahead : n;
    for (int64_t i = 0; i < ahead && !s; i++)
        s = add(t, rank, WEFT_PART_F, i, err);
    for (int64_t i = 0; i < n && !s; i++) {
        if (i + ahead < n)
            s = add(t, rank, WEFT_PART_F, i + ahead, err);
        s = s ? s : add(t, rank, WEFT_PART_B, i, err);
    }
    return s;
}

weft_status weft_schedule_fill(weft_schedule_kind kind, weft_tasks *t, weft_error *err)
{
    if (t->stages % t->ranks || (kind == WEFT_SCHEDULE_1F1B && t->stages > t->ranks))
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "schedule %s cannot have %d stages on %d ranks; it needs %s%d",
                         weft_schedule_name(kind), t->stages, t->ranks,
                         kind == WEFT_SCHEDULE_1F1B ? "" : "a multiple of ", t->ranks);
    weft_status s = WEFT_OK;
    for (int r = 0; r < t->ranks && !s; r++)
        s = fill_rank(kind, t, r, err);
    return s;
}
