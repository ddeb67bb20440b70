/* SPDX-License-Identifier: Apache-2.0 */
/* A run's state as stores and who loads weights see it. */
#include "execute/run.h"

/* What plugins keep lies behind what the graph has. */
static void *place_of(const weft_run *run, int i)
{
    const weft_states *states = &run->plan->states;
    const weft_kept_bytes *k = run->plan->plugins->kept;
    for (int n = states->n; n < i; n++)
        k = k->next;
    return (char *)run->state + (i < states->n ? states->list[i].offset : k->offset);
}

static bool is_far(const weft_run *run, int i)
{
    return i < run->plan->states.n && run->plan->states.list[i].far;
}

static weft_status read_state(const weft_state_view *view, int i, int64_t at, int64_t n, void *to,
                              weft_error *err)
{
    weft_run *run = view->core;
    if (is_far(run, i))
        return weft_far_move(run, run->plan->states.list[i].offset + at, n, to, NULL, err);
    return weft_device_download(run->plan, WEFT_NOW, to, (char *)place_of(run, i) + at, (size_t)n,
                                err);
}

static weft_status write_state(const weft_state_view *view, int i, int64_t at, int64_t n,
                               const void *from, weft_error *err)
{
    weft_run *run = view->core;
    if (is_far(run, i))
        return weft_far_move(run, run->plan->states.list[i].offset + at, n, NULL, from, err);
    return weft_device_upload(run->plan, WEFT_NOW, (char *)place_of(run, i) + at, from, (size_t)n,
                              err);
}

weft_status weft_run_state(weft_run *run, const int64_t *kept, weft_state_view *view,
                           weft_state_tensor **tensors, weft_error *err)
{
    const weft_plan *plan = run->plan;
    weft_status s = weft_plan_state(plan, kept, tensors, err);
    *view = (weft_state_view){.rank = plan->rank,
                              .ranks = plan->ranks,
                              .tensors = *tensors,
                              .n_tensors = plan->states.n + plan->n_kept,
                              .read = read_state,
                              .write = write_state,
                              .any_thread = plan->device->host_memory,
                              .core = run};
    for (int i = 0; i < view->n_tensors && !s && plan->device->host_memory; i++)
        (*tensors)[i].tensor.data = is_far(run, i) ? NULL : place_of(run, i);
    return s;
}
