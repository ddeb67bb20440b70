/* SPDX-License-Identifier: Apache-2.0 */
/* Far memory: what programs fetch and evict, and what the host reads and writes of it. */
#include "execute/run.h"

weft_status weft_far_open(weft_run *run, weft_error *err)
{
    const weft_plan *plan = run->plan;
    const weft_status s = weft_plan_reach_far(plan, err);
    if (s || !plan->far)
        return s;
    run->far = plan->far;
    return plan->far->reserve(plan->far_self, plan->states.far_bytes, err);
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

weft_status weft_far_move(const weft_run *run, int64_t at, int64_t n, void *to, const void *from,
                          weft_error *err)
{
    weft_request *request;
    weft_status s = begin(run, at, n, to, from, &request, err);
    return s ? s : run->plan->far->wait(run->plan->far_self, request, err);
}
