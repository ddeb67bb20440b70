/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank holds: the memory that a run asks for, all modes together. */
#include "compile/driver/plan.h"

/* One of them at a time is used, so they share it. */
static int64_t most(const weft_plan *plan, int64_t (*of)(const weft_lowered *))
{
    int64_t bytes = 0;
    for (int m = 0; m < WEFT_MODES; m++) {
        const int64_t mine = plan->lowered[m] ? of(plan->lowered[m]) : 0;
        bytes = mine > bytes ? mine : bytes;
    }
    return bytes;
}

static int64_t arena_of(const weft_lowered *l)
{
    return l->arena_bytes;
}

static int64_t step_inputs_of(const weft_lowered *l)
{
    return l->step_input_bytes;
}

static int64_t batch_of(const weft_lowered *l, int64_t micro_batches)
{
    if (!l)
        return 0;
    const weft_batch_bytes b = weft_lowered_batch(l, micro_batches);
    return (int64_t)(b.step + b.micro);
}

/* Of training this step's and the next one's, which the loader fills; beside them those of what is
 * validated, or of texts that are written. */
static int64_t batches_of(const weft_plan *plan)
{
    const int64_t evaluated = batch_of(plan->lowered[WEFT_MODE_EVALUATE], 1),
                  written = batch_of(plan->lowered[WEFT_MODE_GENERATE], 1) +
                            batch_of(plan->lowered[WEFT_MODE_DECODE], 1);
    return 2 * batch_of(plan->lowered[WEFT_MODE_TRAIN], plan->micro_batches) +
           (evaluated > written ? evaluated : written);
}

weft_held weft_plan_held(const weft_plan *plan)
{
    weft_held held = {.arena = most(plan, arena_of),
                      .state = plan->states.bytes,
                      .caches = plan->caches.bytes,
                      .micro_inputs = most(plan, weft_lowered_inputs),
                      .step_inputs = most(plan, step_inputs_of),
                      .store = weft_plan_store_bytes(plan)};
    const weft_far *far = plan->far;
    held.far = plan->states.far_bytes;
    held.moving = far && far->buffer_bytes ? far->buffer_bytes(plan->far_self, held.far) : 0;
    held.inputs = held.micro_inputs + held.step_inputs;
    *(plan->device->host_memory ? &held.inputs : &held.host_inputs) += batches_of(plan);
    return held;
}

weft_status weft_plan_check_held(const weft_plan *plan, weft_error *err)
{
    static const char right[] = "bytes are 0 or more";
    const weft_held held = weft_plan_held(plan);
    weft_status s =
        weft_service_check_count(plan->plugins, "store", "buffer_bytes", held.store, 0, right, err);
    return s ? s
             : weft_service_check_count(plan->plugins, "far", "buffer_bytes", held.moving, 0, right,
                                        err);
}

size_t weft_plan_bytes(const weft_plan *plan)
{
    const weft_held held = weft_plan_held(plan);
    return (size_t)(held.arena + held.state + held.caches + held.inputs + held.store + held.moving);
}
