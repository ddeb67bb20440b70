/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/program/exchange_boxes.h"

#include <string.h>

static void *grow(weft_exchange_maker *m, void *list, int n, int *capacity, size_t size)
{
    if (n < *capacity)
        return list;
    int more = *capacity ? 2 * *capacity : 8;
    void *fresh = weft_realloc(list, (size_t)more * size);
    m->failed = m->failed || !fresh;
    *capacity = fresh ? more : *capacity;
    return fresh ? fresh : list;
}

void weft_exchange_add_part(weft_exchange_maker *m, weft_exchange_part part)
{
    weft_exchange *x = &m->x;
    x->parts = grow(m, x->parts, x->n_parts, &m->parts_capacity, sizeof *x->parts);
    part.first = x->n_boxes;
    if (!m->failed)
        x->parts[x->n_parts++] = part;
}

void weft_exchange_begin_boxes(weft_exchange_maker *m, const weft_step *step)
{
    const weft_exchange *x = &m->x;
    bool empty = x->n_parts && !x->parts[x->n_parts - 1].sends && !x->parts[x->n_parts - 1].n;
    if (!empty)
        weft_exchange_add_part(m, (weft_exchange_part){.step = step});
}

static bool same_but_place(const weft_box *a, const weft_box *b)
{
    for (int d = 1; d < WEFT_BOX_DIMS; d++)
        if (a->n[d] != b->n[d] || a->to_stride[d] != b->to_stride[d] ||
            a->from_stride[d] != b->from_stride[d])
            return false;
    return a->bytes == b->bytes;
}

/* Boxes that differ in their places alone, each as far from the one before as that from its own,
 * are one: of members of a group nearly all are. The first dim is kept for this. */
static bool joins(weft_place_box *last, const weft_place_box *next)
{
    weft_box *b = &last->box;
    bool zeros = last->from.of == WEFT_PLACE_ZEROS;
    if (last->to.of != next->to.of || last->from.of != next->from.of ||
        !same_but_place(b, &next->box))
        return false;
    int64_t to = next->to.at - last->to.at, from = zeros ? 0 : next->from.at - last->from.at;
    if (b->n[0] > 1 && (to != b->n[0] * b->to_stride[0] || from != b->n[0] * b->from_stride[0]))
        return false;
    if (b->n[0] == 1) {
        b->to_stride[0] = to;
        b->from_stride[0] = from;
    }
    b->n[0]++;
    return true;
}

void weft_exchange_add_boxes(weft_exchange_maker *m, weft_place to, weft_place from, weft_box box,
                             weft_times t)
{
    weft_exchange *x = &m->x;
    for (int d = 1; d < WEFT_BOX_DIMS; d++)
        if (box.n[d] <= 0)
            return;
    if (box.bytes <= 0 || m->failed)
        return;
    box.n[0] = t.n;
    box.to_stride[0] = t.n > 1 ? t.to : 0;
    box.from_stride[0] = t.n > 1 ? t.from : 0;
    const weft_place_box next = {to, from, box};
    weft_exchange_part *part = &x->parts[x->n_parts - 1];
    if (part->n && t.n == 1 && joins(&x->boxes[x->n_boxes - 1], &next))
        return;
    x->boxes = grow(m, x->boxes, x->n_boxes, &m->boxes_capacity, sizeof *x->boxes);
    if (m->failed)
        return;
    x->boxes[x->n_boxes++] = next;
    part->n++;
}

weft_status weft_exchange_keep(weft_compiler *c, weft_exchange_maker *m, weft_exchange **out)
{
    weft_exchange *x = &m->x;
    int n = 0;
    for (int i = 0; i < x->n_parts; i++)
        if (x->parts[i].sends || x->parts[i].n)
            x->parts[n++] = x->parts[i];
    x->n_parts = n;
    weft_exchange *kept = *out = weft_pool_alloc(&c->l->pool, sizeof *kept);
    if (!kept)
        return weft_fail_memory(c->err);
    *kept = *x;
    kept->parts = weft_pool_alloc(&c->l->pool, ((size_t)n + 1) * sizeof *kept->parts);
    kept->boxes = weft_pool_alloc(&c->l->pool, ((size_t)x->n_boxes + 1) * sizeof *kept->boxes);
    if (!kept->parts || !kept->boxes)
        return weft_fail_memory(c->err);
    if (n)
        memcpy(kept->parts, x->parts, (size_t)n * sizeof *kept->parts);
    if (x->n_boxes)
        memcpy(kept->boxes, x->boxes, (size_t)x->n_boxes * sizeof *kept->boxes);
    return WEFT_OK;
}

void weft_exchange_release(weft_exchange_maker *m)
{
    weft_free(m->x.parts);
    weft_free(m->x.boxes);
}
