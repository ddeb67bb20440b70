/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/program/lower.h"
#include "host/enter.h"

#include <string.h>

weft_status weft_kernels_init(weft_kernels *kernels, const weft_device *device, void *device_self,
                              const weft_kernel *const *tables, const char *const *owners,
                              int n_tables, weft_error *err)
{
    *kernels = (weft_kernels){.device = device, .device_self = device_self};
    kernels->plain = device->plain && device->plain(device_self);
    int n = 0;
    for (int i = 0; i < n_tables; i++)
        for (const weft_kernel *k = tables[i]; k && k->op; k++)
            n++;
    kernels->list = weft_alloc(((size_t)n + 1) * sizeof *kernels->list);
    kernels->owners = weft_alloc(((size_t)n + 1) * sizeof *kernels->owners);
    if (!kernels->list || !kernels->owners)
        return weft_fail_memory(err);
    for (int i = 0; i < n_tables; i++)
        for (const weft_kernel *k = tables[i]; k && k->op; k++)
            if (strcmp(k->device, device->name) == 0) {
                kernels->owners[kernels->n] = owners[i];
                kernels->list[kernels->n++] = k;
            }
    return WEFT_OK;
}

void weft_kernels_release(weft_kernels *kernels)
{
    weft_free(kernels->list);
    weft_free(kernels->owners);
    memset(kernels, 0, sizeof *kernels);
}

const weft_kernel *weft_kernels_find(const weft_kernels *kernels, const weft_call *call)
{
    const weft_kernel *best = NULL;
    for (int i = 0; i < kernels->n && !kernels->plain; i++) {
        const weft_kernel *k = kernels->list[i];
        if (strcmp(k->op, call->op->name) != 0 || (best && best->priority >= k->priority))
            continue;
        if (call->accumulate && !k->accumulates)
            continue;
        const weft_entry entry = weft_enter_op(kernels->owners[i], "accepts", k->op, NULL);
        if (weft_kernel_accepts(k, call))
            best = k;
        weft_leave(&entry, WEFT_OK);
    }
    return best;
}

const char *weft_kernels_owner(const weft_kernels *kernels, const weft_kernel *kernel)
{
    for (int i = 0; i < kernels->n; i++)
        if (kernels->list[i] == kernel)
            return kernels->owners[i];
    return NULL;
}

int64_t weft_device_alignment(const weft_device *d)
{
    return d->alignment > 64 ? d->alignment : 64;
}

void weft_kernels_address(const weft_kernels *kernels, int queue, weft_call *call)
{
    const weft_device *d = kernels->device;
    call->queue = d->queue ? d->queue(kernels->device_self, queue) : NULL;
    call->threads = d->threads ? d->threads(kernels->device_self) : 1;
}

weft_call weft_instruction_call(const weft_instruction *in, const weft_kernels *kernels)
{
    weft_call call = {.op = in->node->op,
                      .attrs = in->node->attrs,
                      .n_attrs = in->node->n_attrs,
                      .n_ins = in->n_ins,
                      .n_outs = in->n_outs,
                      .ins = in->tensors,
                      .outs = in->tensors + in->n_ins,
                      .accumulate = in->accumulate};
    weft_kernels_address(kernels, in->queue, &call);
    return call;
}

/* ---- prepared ---- */

struct weft_prepared_item {
    const weft_kernel *kernel;
    void *state;
    size_t workspace;
    const char *owner; /* of the kernel */
    struct weft_prepared_item *next;
};

/* Everything that `prepare` may look at, as bytes. */
static void call_key(const weft_instruction *in, weft_text *key)
{
    weft_text_add_bytes(key, &in->kernel, sizeof in->kernel);
    weft_text_add_bytes(key, &in->accumulate, sizeof in->accumulate);
    for (int i = 0; i < in->node->n_attrs; i++) {
        const weft_attr *a = &in->node->attrs[i];
        weft_text_print(key, "%s=%d,%lld,%.17g,%s;", a->key, (int)a->kind, (long long)a->i, a->r,
                        a->text ? a->text : "");
    }
    for (int i = 0; i < in->n_ins + in->n_outs; i++) {
        const weft_tensor *t = &in->tensors[i];
        weft_text_print(key, "|%d:%d", (int)t->dtype, t->n_dims);
        weft_text_add_bytes(key, t->size, sizeof *t - offsetof(weft_tensor, size));
    }
}

/* The item of calls like this one; NULL: out of memory. */
static struct weft_prepared_item *find_item(weft_prepared *p, const weft_instruction *in,
                                            bool *fresh)
{
    weft_text key = {0};
    call_key(in, &key);
    struct weft_prepared_item *item = weft_map_get(&p->by_call, key.data, key.size);
    *fresh = !item && !key.out_of_memory;
    if (*fresh) {
        item = weft_pool_alloc(&p->pool, sizeof *item);
        if (item && !weft_map_set(&p->by_call, &p->pool, key.data, key.size, item))
            item = NULL;
    }
    weft_text_release(&key);
    return item;
}

static weft_status prepare_one(weft_prepared *p, weft_lowered *l, weft_instruction *in,
                               weft_error *err)
{
    const weft_kernel *k = in->kernel;
    bool fresh;
    struct weft_prepared_item *item = find_item(p, in, &fresh);
    if (!item)
        return weft_fail_memory(err);
    if (fresh) {
        const weft_entry entry = weft_enter_op(in->owner, "prepare", k->op, err);
        weft_status s = k->prepare ? k->prepare(&in->call, &item->state, err) : WEFT_OK;
        if (!s && k->workspace)
            item->workspace = k->workspace(&in->call);
        if ((s = weft_leave(&entry, s)))
            return s;
        item->kernel = k;
        item->owner = in->owner;
        item->next = p->items;
        p->items = item;
    }
    in->call.state = item->state;
    size_t planned = in->workspace >= 0 ? (size_t)l->buffers[in->workspace].bytes : 0;
    if (item->workspace <= planned)
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                     "kernel %s of %s was planned with %zu bytes of workspace and needs %zu now",
                     k->name, in->owner ? in->owner : "the core", planned, item->workspace);
}

weft_status weft_prepare(weft_prepared *prepared, const weft_kernels *kernels, weft_lowered *l,
                         weft_error *err)
{
    for (int a = 0; a < l->n_programs + l->n_variants; a++) {
        for (int i = 0; i < l->programs[a].n; i++) {
            weft_instruction *in = &l->programs[a].list[i];
            if (in->kind == WEFT_COMPUTE)
                in->call = weft_instruction_call(in, kernels);
            bool asks = in->kind == WEFT_COMPUTE && in->kernel &&
                        (in->kernel->prepare || in->kernel->workspace);
            weft_status s = asks ? prepare_one(prepared, l, in, err) : WEFT_OK;
            if (s)
                return s;
        }
    }
    return WEFT_OK;
}

void weft_prepared_release(weft_prepared *prepared)
{
    for (struct weft_prepared_item *i = prepared->items; i; i = i->next)
        if (i->kernel->prepare && i->kernel->release) {
            const weft_entry entry = weft_enter_op(i->owner, "release", i->kernel->op, NULL);
            i->kernel->release(i->state);
            weft_leave(&entry, WEFT_OK);
        }
    weft_pool_release(&prepared->pool);
    memset(prepared, 0, sizeof *prepared);
}
