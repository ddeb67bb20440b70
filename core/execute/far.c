/* SPDX-License-Identifier: Apache-2.0 */
/* Far memory: what programs fetch and evict, and what the host reads and writes of it. */
#include "execute/run.h"

weft_status weft_far_open(weft_run *run, weft_error *err)
{
    const weft_plan *plan = run->plan;
    if (!plan->states.far_bytes)
        return WEFT_OK;
    run->far = weft_plugins_service(plan->plugins, "far", &run->far_self);
    if (!run->far || !plan->device->host_memory || weft_device_is_async(plan))
        return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(plan->weft, "plugins"),
                         run->far ? "state lies in far memory, which device '%s' cannot reach: "
                                    "only one that computes at once, in the host's memory, can; "
                                    "take that plugin out"
                                  : "state lies in far memory, and no listed plugin gives device "
                                    "'%s' any; list one, as disk",
                         plan->device->name);
    return run->far->reserve(run->far_self, plan->states.far_bytes, err);
}

void weft_far_close(weft_run *run)
{
    if (run->far)
        run->far->drain(run->far_self);
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

weft_status weft_far_begin(weft_run *run, const weft_lowered *l, const weft_instruction *in,
                           weft_request **request, weft_error *err)
{
    const int here = in->kind == WEFT_FETCH; /* the one that has an address */
    const weft_tensor *t = &in->tensors[here];
    const int64_t n = weft_tensor_count(t) * (int64_t)weft_dtype_size(t->dtype),
                  at = l->buffers[in->buffers[!here]].offset;
    weft_status s = here ? run->far->read(run->far_self, at, n, t->data, request, err)
                         : run->far->write(run->far_self, at, n, t->data, request, err);
    return weft_far_blame(run, in, s, err);
}

weft_status weft_far_read(const weft_run *run, int64_t at, int64_t n, void *to, weft_error *err)
{
    weft_request *request;
    weft_status s = run->far->read(run->far_self, at, n, to, &request, err);
    return s ? s : run->far->wait(run->far_self, request, err);
}

weft_status weft_far_write(const weft_run *run, int64_t at, int64_t n, const void *from,
                           weft_error *err)
{
    weft_request *request;
    weft_status s = run->far->write(run->far_self, at, n, from, &request, err);
    return s ? s : run->far->wait(run->far_self, request, err);
}
