/* SPDX-License-Identifier: Apache-2.0 */
/* An op for which the device has no kernel: its operands come to the host, the plain kernel
 * computes there, and its results go back. It is slow, for everything waits for it. */
#include "execute/run.h"
#include "host/enter.h"

static size_t bytes_of(const weft_tensor *t)
{
    return (size_t)weft_tensor_count(t) * weft_dtype_size(t->dtype);
}

static void say_once(weft_run *run, const weft_op *op)
{
    for (int i = 0; i < run->n_staged; i++)
        if (run->staged[i] == op)
            return;
    if (run->n_staged == WEFT_STAGED_OPS)
        return;
    run->staged[run->n_staged++] = op;
    if (run->plan->rank == 0)
        weft_log_print(run->log, WEFT_LOG_WARN,
                       "%s has no kernel for %s; it is computed by the host, and everything waits "
                       "for it",
                       run->plan->device->name, op->name);
}

weft_status weft_run_staged(weft_run *run, const weft_call *call, const char *owner,
                            weft_error *err)
{
    int n = call->n_ins + call->n_outs;
    weft_tensor *host = weft_alloc_zero((size_t)n + 1, sizeof *host);
    weft_status s = host ? WEFT_OK : weft_fail_memory(err);
    say_once(run, call->op);
    for (int i = 0; i < n && !s; i++) {
        const weft_tensor *t = i < call->n_ins ? &call->ins[i] : &call->outs[i - call->n_ins];
        host[i] = *t;
        host[i].data = t->data ? weft_alloc(bytes_of(t) + 1) : NULL;
        if (t->data && !host[i].data)
            s = weft_fail_memory(err);
        bool read = i < call->n_ins ||
                    (call->accumulate && (i == call->n_ins || call->op->flags & WEFT_OP_PAIR));
        if (!s && read && t->data && bytes_of(t))
            s = weft_run_download(run, host[i].data, t->data, bytes_of(t), err);
    }
    weft_call here = *call;
    here.ins = host;
    here.outs = host ? host + call->n_ins : NULL;
    if (!s) {
        const weft_entry entry = weft_enter_op(owner, "plain", call->op->name, err);
        s = weft_leave(&entry, call->op->plain(&here, err));
    }
    for (int i = 0; i < call->n_outs && !s; i++)
        if (call->outs[i].data && bytes_of(&call->outs[i]))
            s = weft_device_upload(run->plan, WEFT_NOW, call->outs[i].data, here.outs[i].data,
                                   bytes_of(&call->outs[i]), err);
    for (int i = 0; host && i < n; i++)
        weft_free(host[i].data);
    weft_free(host);
    return s;
}
