/* SPDX-License-Identifier: Apache-2.0 */
#include "base/blame.h"

#include <stdatomic.h>

static _Thread_local weft_blame current;
static _Thread_local int rank_now = -1;
static _Thread_local int64_t step_now = -1;
static _Atomic int64_t latest_step;

weft_blame weft_blame_set(weft_blame now)
{
    weft_blame before = current;
    current = now;
    return before;
}

weft_blame weft_blame_get(void)
{
    return current;
}

void weft_blame_set_rank(int rank)
{
    rank_now = rank;
}

int weft_blame_rank(void)
{
    return rank_now;
}

void weft_blame_set_step(int64_t step)
{
    step_now = step;
    if (step >= 0)
        atomic_store_explicit(&latest_step, step, memory_order_relaxed);
}

int64_t weft_blame_step(void)
{
    return step_now;
}

int64_t weft_blame_latest_step(void)
{
    return atomic_load_explicit(&latest_step, memory_order_relaxed);
}
