/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels against the plain one: every dtype that they accept, memory of the device with guards
 * around it, exactly the workspace that they ask for, and that full of NaN. */
#include "conform.h"

#include "plugin/enter.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { GUARD = 256 };
static const unsigned char guard_byte = 0x5a, poison_byte = 0xff;

typedef struct buffer {
    unsigned char *memory; /* of the device: guard, data, guard */
    size_t bytes;
} buffer;

/* One kernel, one use of its op, one choice of dtypes. */
typedef struct trial {
    const conform *c;
    const conform_use *u;
    const conform_plan *p;
    const weft_kernel *kernel;
    const char *as; /* "bf16" */
    weft_pool pool;
    weft_tensor ins[WEFT_RULE_MAX_PARTS],
        outs[WEFT_RULE_MAX_PARTS]; /* host: what goes in, comes out */
    weft_tensor want[WEFT_RULE_MAX_PARTS];
    weft_tensor on_device[2 * WEFT_RULE_MAX_PARTS];
    buffer buffers[2 * WEFT_RULE_MAX_PARTS + 1]; /* ins, outs, workspace */
    int n_buffers;
    bool accumulate;
} trial;

static void complain(const trial *t, const char *format, ...) WEFT_PRINTF(2, 3);

static void complain(const trial *t, const char *format, ...)
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

/* Operands rounded to the dtypes, and what the plain kernel makes of exactly these. */
static bool make(trial *t, weft_dtype dtype)
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
        if (t->accumulate && r == 0)
            conform_randomise(&t->outs[0], 3);
        else
            memset(t->outs[r].data, poison_byte, bytes_of(&t->outs[r]));
        t->want[r] = cast(&t->outs[r], WEFT_F64, &t->pool);
        if (!t->outs[r].data || !t->want[r].data)
            return false;
    }
    weft_error err = {0};
    weft_status s = conform_run(u, wide, t->want, t->accumulate, &err);
    weft_error_release(&err); /* the op's own checks have said it */
    return s == WEFT_OK;
}

/* ---- memory of the device ---- */

static weft_status put(trial *t, const void *data, size_t bytes, void **at, weft_error *err)
{
    buffer *b = &t->buffers[t->n_buffers];
    void *memory = NULL;
    unsigned char *host = weft_alloc(bytes + 2 * GUARD);
    weft_status s = host ? weft_device_alloc(t->p->plan, bytes + 2 * GUARD, &memory, err)
                         : weft_fail_memory(err);
    if (!s) {
        t->n_buffers++;
        *b = (buffer){memory, bytes};
        memset(host, guard_byte, bytes + 2 * GUARD);
        if (data)
            memcpy(host + GUARD, data, bytes);
        else
            memset(host + GUARD, poison_byte, bytes);
        *at = b->memory + GUARD;
        s = weft_device_upload(t->p->plan, memory, host, bytes + 2 * GUARD, err);
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
static weft_status get(const trial *t, int i, const char *what, void *data, weft_error *err)
{
    const buffer *b = &t->buffers[i];
    unsigned char *host = weft_alloc(b->bytes + 2 * GUARD);
    weft_status s =
        host ? weft_device_download(t->p->plan, host, b->memory, b->bytes + 2 * GUARD, err)
             : weft_fail_memory(err);
    if (!s && !sound(host))
        complain(t, "guard: writes before the beginning of %s", what);
    if (!s && !sound(host + GUARD + b->bytes))
        complain(t, "guard: writes past the end of %s, %zu bytes", what, b->bytes);
    if (!s && data)
        memcpy(data, host + GUARD, b->bytes);
    weft_free(host);
    return s;
}

static void release(trial *t)
{
    for (int i = 0; i < t->n_buffers; i++)
        weft_device_free(t->p->plan, t->buffers[i].memory, t->buffers[i].bytes + 2 * GUARD);
    t->n_buffers = 0;
    weft_pool_release(&t->pool);
}

/* ---- one launch ---- */

static weft_status launch(const trial *t, weft_call *call, weft_error *err)
{
    const weft_kernel *k = t->kernel;
    const weft_entry entry = weft_enter_op(t->c->plugin, "launch", k->op, err);
    weft_status s = k->prepare ? k->prepare(call, &call->state, err) : WEFT_OK;
    bool prepared = k->prepare && !s;
    s = s ? s : k->launch(call, err);
    s = s ? s : weft_device_wait(t->p->plan, err);
    if (prepared && k->release)
        k->release(call->state);
    return weft_leave(&entry, s);
}

static weft_status fill(trial *t, weft_call *call, size_t workspace, weft_error *err)
{
    const weft_node *n = t->u->node;
    weft_status s = WEFT_OK;
    for (int i = 0; !s && i < n->n_ins + n->n_outs; i++) {
        weft_tensor *on = &t->on_device[i],
                    *host = i < n->n_ins ? &t->ins[i] : &t->outs[i - n->n_ins];
        *on = *host;
        s = put(t, host->data, bytes_of(host), &on->data, err);
    }
    s = s ? s : put(t, NULL, workspace, &call->workspace, err);
    call->workspace_bytes = workspace;
    return s;
}

static weft_status fetch(trial *t, weft_error *err)
{
    const weft_node *n = t->u->node;
    weft_status s = WEFT_OK;
    for (int i = 0; !s && i < n->n_ins; i++) {
        char what[32];
        weft_tensor now = conform_new(&t->ins[i], &t->pool);
        snprintf(what, sizeof what, "operand %d", i);
        s = now.data ? get(t, i, what, now.data, err) : weft_fail_memory(err);
        if (!s && memcmp(now.data, t->ins[i].data, bytes_of(&now)) != 0)
            complain(t, "guard: changes its operand %d", i);
    }
    for (int r = 0; !s && r < n->n_outs; r++) {
        char what[32];
        snprintf(what, sizeof what, "result %d", r);
        s = get(t, n->n_ins + r, what, t->outs[r].data, err);
    }
    return s ? s : get(t, n->n_ins + n->n_outs, "its workspace", NULL, err);
}

/* Of a dtype's rounding, and of a sum of some hundred terms. */
static double tolerance_of(const weft_tensor *t, weft_dtype dtype)
{
    if (t->dtype == WEFT_BF16 || dtype == WEFT_BF16)
        return 1.0 / 64;
    return t->dtype == WEFT_F64 && dtype == WEFT_F64 ? 1e-11 : 2e-5;
}

static void compare(const trial *t, weft_dtype dtype, int threads)
{
    for (int r = 0; r < t->u->node->n_outs; r++) {
        int64_t at = conform_differ(&t->want[r], &t->outs[r], tolerance_of(&t->outs[r], dtype));
        if (at < 0)
            continue;
        weft_text what = {0};
        conform_print_difference(&t->want[r], &t->outs[r], r, at, &what);
        complain(t, "%s: unlike the plain kernel's: %s, on %d thread%s%s",
                 isnan(weft_tensor_get(&t->outs[r], at)) ? "nan" : "values", weft_text_get(&what),
                 threads, threads > 1 ? "s" : "",
                 isnan(weft_tensor_get(&t->outs[r], at))
                     ? "; a result was not written, or workspace read that was not"
                     : "");
        weft_text_release(&what);
        return;
    }
}

static bool accepts(const trial *t, const weft_call *call)
{
    const weft_entry entry = weft_enter_op(t->c->plugin, "accepts", t->kernel->op, NULL);
    bool yes = !t->kernel->accepts || t->kernel->accepts(call);
    weft_leave(&entry, WEFT_OK);
    return yes;
}

static size_t ask_workspace(const trial *t, const weft_call *call)
{
    const weft_entry entry = weft_enter_op(t->c->plugin, "workspace", t->kernel->op, NULL);
    size_t bytes = t->kernel->workspace ? t->kernel->workspace(call) : 0;
    weft_leave(&entry, WEFT_OK);
    return bytes;
}

/* Returns whether the kernel took the call. */
static bool try_dtype(trial *t, weft_dtype dtype, int threads)
{
    const weft_node *n = t->u->node;
    weft_error err = {0};
    weft_tensor shapes[2 * WEFT_RULE_MAX_PARTS];
    if (!make(t, dtype)) {
        release(t);
        return false;
    }
    for (int i = 0; i < n->n_ins + n->n_outs; i++) {
        shapes[i] = i < n->n_ins ? t->ins[i] : t->outs[i - n->n_ins];
        shapes[i].data = NULL;
    }
    weft_call call = {.op = n->op,
                      .attrs = n->attrs,
                      .n_attrs = n->n_attrs,
                      .n_ins = n->n_ins,
                      .n_outs = n->n_outs,
                      .ins = shapes,
                      .outs = shapes + n->n_ins,
                      .accumulate = t->accumulate};
    weft_kernels_address(&t->p->plan->kernels, 0, &call);
    call.threads = threads;
    bool taken = accepts(t, &call);
    if (taken) {
        size_t workspace = ask_workspace(t, &call);
        weft_status s = fill(t, &call, workspace, &err);
        call.ins = t->on_device;
        call.outs = t->on_device + n->n_ins;
        s = s ? s : launch(t, &call, &err);
        s = s ? s : fetch(t, &err);
        if (s)
            complain(t, "fails: %s", weft_error_text(&err));
        else
            compare(t, dtype, threads);
    }
    weft_error_release(&err);
    release(t);
    return taken;
}

static void check_kernel(const conform *c, const conform_use *u, const conform_plan *p,
                         const weft_kernel *k)
{
    static const weft_dtype dtypes[] = {WEFT_DTYPES, WEFT_F32, WEFT_BF16, WEFT_F64};
    static const char *const names[] = {"the run's dtypes", "f32", "bf16", "f64"};
    trial *t = weft_alloc_zero(1, sizeof *t);
    int taken = 0;
    for (int i = 0; t && i < 8; i++) {
        *t = (trial){.c = c, .u = u, .p = p, .kernel = k, .as = names[i % 4], .accumulate = i / 4};
        if (t->accumulate && !k->accumulates)
            continue;
        conform_now(c, "kernel %s of op %s (%s)", k->name, k->op, t->as);
        taken += try_dtype(t, dtypes[i % 4], p->host.threads);
    }
    weft_free(t);
    conform_count(c, "kernel launches", taken);
    if (taken == 0 && c->whole)
        conform_count(c, "uses that a kernel does not accept", 1);
}

void conform_check_kernels(const conform *c, const conform_use *u, const conform_plan *p)
{
    for (int i = 0; i < p->plugins->n; i++) {
        const weft_plugin *plugin = p->plugins->list[i].module.plugin;
        if (!c->plugin || strcmp(plugin->name, c->plugin) != 0)
            continue;
        for (const weft_kernel *k = plugin->kernels; k && k->op; k++)
            if (strcmp(k->op, u->node->op->name) == 0 &&
                strcmp(k->device, p->plan->device->name) == 0)
                check_kernel(c, u, p, k);
    }
}
