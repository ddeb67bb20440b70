/* SPDX-License-Identifier: Apache-2.0 */
/* For which micro-batches does a program touch the same memory? For those whose values lie in the
 * same slots. What a device has captured for one of them it may replay for the others. */
#include "compile/program/compiler.h"

/* By number, the inputs' behind all others: does the program touch something in these slots? */
static void find_touched(const weft_lowered *l, const weft_program *p, bool *touched)
{
    for (int i = 0; i < l->n_slots + 1; i++)
        touched[i] = false;
    for (int i = 0; i < p->n; i++) {
        const weft_instruction *in = &p->list[i];
        for (int k = 0; k < in->n_ins + in->n_outs; k++) {
            const weft_buffer *b = in->buffers[k] < 0 ? NULL : &l->buffers[in->buffers[k]];
            if (b && b->base == WEFT_BASE_SLOT)
                touched[b->slots] = true;
            if (b && b->base == WEFT_BASE_INPUT)
                touched[l->n_slots] = true;
        }
    }
}

static int list_slots(const weft_lowered *l, const bool *touched, int64_t micro, int *slots)
{
    int n = 0;
    for (int i = 0; i < l->n_slots + 1; i++)
        if (touched[i])
            slots[n++] = (i < l->n_slots ? &l->slots[i] : &l->inputs)->slot_of[micro];
    return n;
}

static weft_status find_like(weft_compiler *c, weft_program *p, const bool *touched, int *slots)
{
    const int64_t micro_batches = c->g->config.sizes.micro_batches;
    weft_map first = {0}; /* by slots: the first micro-batch's place in the list */
    p->like = weft_pool_alloc(&c->l->pool, (size_t)micro_batches * sizeof *p->like);
    weft_status s = p->like ? WEFT_OK : weft_fail_memory(c->err);
    for (int64_t m = 0; m < micro_batches && !s; m++) {
        size_t bytes = (size_t)list_slots(c->l, touched, m, slots) * sizeof *slots;
        const int *known = weft_map_get(&first, slots, bytes);
        p->like[m] = known ? *known : (int)m;
        if (!known && !weft_map_set(&first, &c->pool, slots, bytes, &p->like[m]))
            s = weft_fail_memory(c->err);
    }
    return s;
}

weft_status weft_compile_alike(weft_compiler *c)
{
    weft_lowered *l = c->l;
    size_t n = (size_t)l->n_slots + 1;
    bool *touched = weft_pool_alloc(&c->pool, n * sizeof *touched);
    int *slots = weft_pool_alloc(&c->pool, n * sizeof *slots);
    weft_status s = touched && slots ? WEFT_OK : weft_fail_memory(c->err);
    for (int i = 0; i < l->n_programs && !s; i++) {
        weft_program *p = &l->programs[i];
        if (!weft_part_is_micro(p->part))
            continue;
        find_touched(l, p, touched);
        s = find_like(c, p, touched, slots);
    }
    return s;
}

int64_t weft_program_like(const weft_program *p, int64_t micro)
{
    return p->like && micro >= 0 ? p->like[micro] : micro;
}
