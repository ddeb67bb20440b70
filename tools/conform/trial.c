/* SPDX-License-Identifier: Apache-2.0 */
#include "trial.h"

#include "host/enter.h"

#include <stdio.h>
#include <string.h>

enum { GUARD = 256 };
static const unsigned char guard_byte = 0x5a, poison_byte = 0xff;

void conform_trial_fail(const conform_trial *t, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *what = weft_vformat(format, args);
    va_end(args);
    conform_fail(t->c, "kernel %s of op %s: %s (%s%s)", t->kernel->name, t->u->node->op->name,
                 what ? what : "out of memory", t->as, t->accumulate ? ", accumulating" : "");
    weft_free(what);
}

static size_t bytes_of(const weft_tensor *t)
{
    return (size_t)weft_tensor_count(t) * weft_dtype_size(t->dtype);
}

/* ---- dtypes ---- */

static weft_tensor cast(const weft_tensor *from, weft_dtype dtype, weft_pool *pool)
{
    weft_tensor shape = *from, to;
    shape.dtype = weft_dtype_is_float(from->dtype) ? dtype : from->dtype;
    to = conform_new(&shape, pool);
    for (int64_t i = 0; to.data && from->data && i < weft_tensor_count(from); i++)
        weft_tensor_set(&to, i, weft_tensor_get(from, i));
    return to;
}

/* dtype WEFT_DTYPES: as the graph has it. */
static weft_dtype result_dtype(const conform_use *u, int r, weft_dtype dtype)
{
    const weft_node *n = u->node;
    if (dtype == WEFT_DTYPES || !weft_dtype_is_float(n->outs[r]->dtype))
        return n->outs[r]->dtype;
    bool statistic = n->op->flags & WEFT_OP_STAT && !(n->op->flags & WEFT_OP_HALF && r == 0);
    return statistic && dtype == WEFT_BF16 ? WEFT_F32 : dtype;
}

bool conform_trial_make(conform_trial *t, weft_dtype dtype)
{
    const conform_use *u = t->u;
    weft_tensor wide[WEFT_RULE_MAX_PARTS];
    for (int i = 0; i < u->node->n_ins; i++) {
        t->ins[i] =
            cast(&u->ins[i], dtype == WEFT_DTYPES ? u->node->ins[i]->dtype : dtype, &t->pool);
        wide[i] = cast(&t->ins[i], WEFT_F64, &t->pool);
        if (!t->ins[i].data || !wide[i].data)
            return false;
    }
    for (int r = 0; r < u->node->n_outs; r++) {
        t->outs[r] = cast(&u->outs[r], result_dtype(u, r, dtype), &t->pool);
        if (t->accumulate && (r == 0 || u->node->op->flags & WEFT_OP_PAIR))
            conform_randomise(&t->outs[r], (uint64_t)r + 3);
        else
            memset(t->outs[r].data, poison_byte, bytes_of(&t->outs[r]));
        t->want[r] = cast(&t->outs[r], WEFT_F64, &t->pool);
        if (!t->outs[r].data || !t->want[r].data)
            return false;
    }
    for (int i = 0; i < u->node->n_ins + u->node->n_outs; i++) {
        t->shapes[i] = i < u->node->n_ins ? t->ins[i] : t->outs[i - u->node->n_ins];
        t->shapes[i].data = NULL;
    }
    weft_error err = {0};
    weft_status s = conform_run(u, wide, t->want, t->accumulate, &err);
    weft_error_release(&err); /* the op's own checks have said it */
    return s == WEFT_OK;
}

/* ---- memory of the device ---- */

weft_status conform_trial_put(conform_trial *t, const void *data, size_t bytes, void **at,
                              weft_error *err)
{
    conform_buffer *b = &t->buffers[t->n_buffers];
    void *memory = NULL;
    unsigned char *host = weft_alloc(bytes + 2 * GUARD);
    weft_status s =
        host ? t->p->plan->device->alloc(t->p->plan->device_self, bytes + 2 * GUARD, &memory, err)
             : weft_fail_memory(err);
    if (!s) {
        t->n_buffers++;
        *b = (conform_buffer){memory, bytes};
        memset(host, guard_byte, bytes + 2 * GUARD);
        if (data)
            memcpy(host + GUARD, data, bytes);
        else
            memset(host + GUARD, poison_byte, bytes);
        *at = b->memory + GUARD;
        s = weft_device_upload(t->p->plan, WEFT_NOW, memory, host, bytes + 2 * GUARD, err);
    }
    weft_free(host);
    return s;
}

static bool sound(const unsigned char *guard)
{
    for (int i = 0; i < GUARD; i++)
        if (guard[i] != guard_byte)
            return false;
    return true;
}

/* Fetches buffer i into data, and looks at its guards. */
static weft_status get(const conform_trial *t, int i, const char *what, void *data, weft_error *err)
{
    const conform_buffer *b = &t->buffers[i];
    unsigned char *host = weft_alloc(b->bytes + 2 * GUARD);
    weft_status s = host ? weft_device_download(t->p->plan, WEFT_NOW, host, b->memory,
                                                b->bytes + 2 * GUARD, err)
                         : weft_fail_memory(err);
    if (!s && !sound(host))
        conform_trial_fail(t, "guard: writes before the beginning of %s", what);
    if (!s && !sound(host + GUARD + b->bytes))
        conform_trial_fail(t, "guard: writes past the end of %s, %zu bytes", what, b->bytes);
    if (!s && data)
        memcpy(data, host + GUARD, b->bytes);
    weft_free(host);
    return s;
}

void conform_trial_release(conform_trial *t)
{
    for (int i = 0; i < t->n_buffers; i++)
        t->p->plan->device->free(t->p->plan->device_self, t->buffers[i].memory,
                                 t->buffers[i].bytes + 2 * GUARD);
    t->n_buffers = 0;
    weft_pool_release(&t->pool);
}

/* ---- calls ---- */

weft_call conform_trial_call(conform_trial *t, int threads)
{
    const weft_node *n = t->u->node;
    weft_call call = {.op = n->op,
                      .attrs = n->attrs,
                      .n_attrs = n->n_attrs,
                      .n_ins = n->n_ins,
                      .n_outs = n->n_outs,
                      .ins = t->shapes,
                      .outs = t->shapes + n->n_ins,
                      .accumulate = t->accumulate};
    weft_kernels_address(&t->p->plan->kernels, 0, &call);
    call.threads = threads;
    return call;
}

bool conform_trial_accepts(const conform_trial *t, const weft_call *call)
{
    const weft_entry entry = weft_enter_op(t->c->plugin, "accepts", t->kernel->op, NULL);
    bool yes = weft_kernel_accepts(t->kernel, call);
    weft_leave(&entry, WEFT_OK);
    return yes;
}

static size_t ask_workspace(const conform_trial *t, const weft_call *call)
{
    const weft_entry entry = weft_enter_op(t->c->plugin, "workspace", t->kernel->op, NULL);
    size_t bytes = t->kernel->workspace ? t->kernel->workspace(call) : 0;
    weft_leave(&entry, WEFT_OK);
    return bytes;
}

weft_status conform_trial_launch(const conform_trial *t, weft_call *call, weft_error *err)
{
    const weft_kernel *k = t->kernel;
    const weft_entry entry = weft_enter_op(t->c->plugin, "launch", k->op, err);
    weft_attr_watch watch = {""};
    call->watch = &watch;
    weft_call shapes = *call; /* as a run prepares it, before there are data */
    shapes.ins = t->shapes;
    shapes.outs = t->shapes + call->n_ins;
    shapes.workspace = NULL;
    weft_status s = k->prepare ? k->prepare(&shapes, &call->state, err) : WEFT_OK;
    bool prepared = k->prepare && !s;
    s = s ? s : k->launch(call, err);
    s = s ? s : t->p->plan->device->wait(t->p->plan->device_self, err);
    if (prepared && k->release)
        k->release(call->state);
    call->watch = NULL;
    return weft_leave(&entry, s ? s : conform_watched(&watch, err));
}

weft_status conform_trial_upload(conform_trial *t, weft_call *call, weft_error *err)
{
    const weft_node *n = t->u->node;
    weft_status s = WEFT_OK;
    call->workspace_bytes = ask_workspace(t, call);
    for (int i = 0; !s && i < n->n_ins + n->n_outs; i++) {
        const weft_tensor *host = i < n->n_ins ? &t->ins[i] : &t->outs[i - n->n_ins];
        weft_tensor *on = &t->on_device[i];
        *on = t->shapes[i];
        s = conform_trial_put(t, host->data, bytes_of(host), &on->data, err);
    }
    s = s ? s : conform_trial_put(t, NULL, call->workspace_bytes, &call->workspace, err);
    call->ins = t->on_device;
    call->outs = t->on_device + n->n_ins;
    return s;
}

weft_status conform_trial_download(conform_trial *t, weft_error *err)
{
    const weft_node *n = t->u->node;
    weft_status s = WEFT_OK;
    for (int i = 0; !s && i < n->n_ins; i++) {
        char what[32];
        weft_tensor now = conform_new(&t->ins[i], &t->pool);
        snprintf(what, sizeof what, "operand %d", i);
        s = now.data ? get(t, i, what, now.data, err) : weft_fail_memory(err);
        if (!s && memcmp(now.data, t->ins[i].data, bytes_of(&now)) != 0)
            conform_trial_fail(t, "guard: changes its operand %d", i);
    }
    for (int r = 0; !s && r < n->n_outs; r++) {
        char what[32];
        snprintf(what, sizeof what, "result %d", r);
        s = get(t, n->n_ins + r, what, t->outs[r].data, err);
    }
    return s ? s : get(t, n->n_ins + n->n_outs, "its workspace", NULL, err);
}

/* Of a dtype's rounding, and of a sum of some hundred terms. */
double conform_trial_tolerance(const weft_tensor *t, weft_dtype dtype)
{
    if (t->dtype == WEFT_BF16 || dtype == WEFT_BF16)
        return 1.0 / 64;
    return t->dtype == WEFT_F64 && dtype == WEFT_F64 ? 1e-11 : 2e-5;
}
