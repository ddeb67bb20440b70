/* SPDX-License-Identifier: Apache-2.0 */
#include "lower/lower.h"

#include <string.h>

weft_status weft_kernels_init(weft_kernels *kernels, const char *device,
                              const weft_kernel *const *tables, const char *const *owners,
                              int n_tables, bool plain, weft_error *err)
{
    memset(kernels, 0, sizeof *kernels);
    kernels->plain = plain;
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
            if (strcmp(k->device, device) == 0) {
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
        if (!k->accepts || k->accepts(call))
            best = k;
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

/* ---- prepared ---- */

struct weft_prepared_item {
    const weft_kernel *kernel;
    void *state;
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
        weft_text_add_bytes(key, t->size, sizeof t->size[0] * (size_t)t->n_dims);
        weft_text_add_bytes(key, t->lo, sizeof t->lo[0] * (size_t)t->n_dims);
        weft_text_add_bytes(key, t->whole, sizeof t->whole[0] * (size_t)t->n_dims);
        weft_text_add_bytes(key, t->grain, sizeof t->grain[0] * (size_t)t->n_dims);
    }
}

static weft_status prepare_one(weft_prepared *p, weft_instruction *in, weft_error *err)
{
    weft_text key = {0};
    call_key(in, &key);
    struct weft_prepared_item *item = weft_map_get(&p->by_call, key.data, key.size);
    weft_status s = WEFT_OK;
    if (!item) {
        item = weft_pool_alloc(&p->pool, sizeof *item);
        if (!item || key.out_of_memory ||
            !weft_map_set(&p->by_call, &p->pool, key.data, key.size, item)) {
            s = weft_fail_memory(err);
        } else {
            const weft_tensor *t = in->tensors;
            weft_call call = {in->node->op,
                              in->node->attrs,
                              in->node->n_attrs,
                              in->n_ins,
                              in->n_outs,
                              t,
                              t + in->n_ins,
                              in->accumulate,
                              NULL,
                              NULL,
                              NULL};
            s = in->kernel->prepare(&call, &item->state, err);
            if (!s) {
                item->kernel = in->kernel;
                item->next = p->items;
                p->items = item;
            }
        }
    }
    if (!s)
        in->state = item->state;
    weft_text_release(&key);
    return s;
}

weft_status weft_prepare(weft_prepared *prepared, weft_lowered *l, weft_error *err)
{
    for (int a = 0; a < WEFT_ACTIONS; a++) {
        for (int i = 0; i < l->programs[a].n; i++) {
            weft_instruction *in = &l->programs[a].list[i];
            if (in->kind != WEFT_COMPUTE || !in->kernel || !in->kernel->prepare)
                continue;
            weft_status s = prepare_one(prepared, in, err);
            if (s)
                return s;
        }
    }
    return WEFT_OK;
}

void weft_prepared_release(weft_prepared *prepared)
{
    for (struct weft_prepared_item *i = prepared->items; i; i = i->next)
        if (i->kernel->release)
            i->kernel->release(i->state);
    weft_pool_release(&prepared->pool);
    memset(prepared, 0, sizeof *prepared);
}
