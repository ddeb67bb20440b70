/* SPDX-License-Identifier: Apache-2.0 */
/* Far memory: what programs fetch and evict, and what the host reads and writes of it. */
#include "execute/run.h"

#include <string.h>

static size_t bytes_of(const weft_run *run)
{
    return (size_t)run->plan->states.far_bytes;
}

weft_status weft_far_open(weft_run *run, weft_error *err)
{
    const weft_plan *plan = run->plan;
    const weft_status s = weft_plan_reach_far(plan, err);
    if (s || !plan->far)
        return s;
    if (plan->far->in_host_memory) {
        void *memory = NULL;
        weft_status given = weft_device_alloc_host(plan, bytes_of(run), &memory, err);
        if (!given)
            memset(memory, 0, bytes_of(run));
        run->far_memory = memory;
        return given;
    }
    run->far = plan->far;
    return plan->far->reserve(plan->far_self, plan->states.far_bytes, err);
}

void weft_far_close(weft_run *run)
{
    if (run->far)
        run->far->drain(run->plan->far_self);
    if (run->far_memory)
        weft_device_free_host(run->plan, run->far_memory, bytes_of(run));
}

weft_status weft_far_blame(const weft_run *run, const weft_instruction *in, weft_status s,
                           weft_error *err)
{
    const weft_node *n = in->node;
    return s ? weft_fail(err, s, WEFT_NOWHERE, "in %s = %s of %s%s, step %lld", n->outs[0]->name,
                         n->op->name, n->ins[0]->name, weft_block_describe(", ", n->block).text,
                         (long long)run->view.step)
             : WEFT_OK;
}

/* Of `to` and `from` one, the host's. */
static weft_status begin(const weft_run *run, int64_t at, int64_t n, void *to, const void *from,
                         weft_request **request, weft_error *err)
{
    const weft_plan *p = run->plan;
    return to ? p->far->read(p->far_self, at, n, to, request, err)
              : p->far->write(p->far_self, at, n, from, request, err);
}

weft_status weft_far_begin(const weft_run *run, const weft_lowered *l, const weft_instruction *in,
                           weft_request **request, weft_error *err)
{
    const int here = in->kind == WEFT_FETCH; /* the one that has an address */
    const weft_tensor *t = &in->tensors[here];
    const int64_t n = weft_tensor_count(t) * (int64_t)weft_dtype_size(t->dtype),
                  at = weft_buffer_offset(l, &l->buffers[in->buffers[!here]],
                                          run->plan->plugins->running.micro_batch);
    return weft_far_blame(run, in, begin(run, at, n, here ? t->data : NULL, t->data, request, err),
                          err);
}

/* In the order of its queue, as all that reads and writes what is copied. */
weft_status weft_far_copy(const weft_run *run, const weft_instruction *in, size_t bytes,
                          weft_error *err)
{
    void *const to = in->tensors[1].data;
    const void *const from = in->tensors[0].data;
    return weft_far_blame(run, in,
                          in->kind == WEFT_FETCH
                              ? weft_device_upload(run->plan, in->queue, to, from, bytes, err)
                              : weft_device_download(run->plan, in->queue, to, from, bytes, err),
                          err);
}

weft_status weft_far_move(weft_run *run, int64_t at, int64_t n, void *to, const void *from,
                          weft_error *err)
{
    weft_request *request;
    char *const place = run->far_memory ? run->far_memory + at : NULL;
    weft_status s = place && weft_device_is_async(run->plan) ? weft_run_wait(run, err) : WEFT_OK;
    if (place && !s)
        memcpy(to ? to : place, to ? place : from, (size_t)n);
    if (place)
        return s;
    s = begin(run, at, n, to, from, &request, err);
    return s ? s : run->plan->far->wait(run->plan->far_self, request, err);
}
