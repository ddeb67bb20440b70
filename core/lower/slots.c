/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for values that live from one program to another while the schedule runs others. Where one
 * micro-batch at a time is on its way between the two, a value has a place as any other; it may
 * only have to live longer, through programs that the list runs in between and that stand
 * elsewhere. Else all such values lie together, in as many slots as there are micro-batches on
 * their way. */
#include "lower/compile.h"

#include <string.h>

enum { ALIGN = 64, UNKNOWN = -1 };

/* What the list does between two programs of one micro-batch, both included. */
typedef struct way {
    bool known;
    int most;   /* micro-batches on it at once */
    int lo, hi; /* positions of all programs that run meanwhile */
    int slots;  /* in weft_lowered; UNKNOWN: none */
} way;

typedef struct finder {
    weft_compiler *c;
    int n;       /* programs */
    way *ways;   /* [maker * n + reader] */
    bool *taken; /* by slot: some micro-batch has it */
} finder;

static int index_of(const weft_lowered *l, const weft_program *p)
{
    return (int)(p - l->programs);
}

static bool is_micro(const weft_program *p)
{
    return p->part == WEFT_PART_F || p->part == WEFT_PART_B;
}

static void widen(int *lo, int *hi, const weft_program *p)
{
    if (p->from == p->to)
        return;
    *lo = p->from < *lo ? p->from : *lo;
    *hi = p->to - 1 > *hi ? p->to - 1 : *hi;
}

/* Walks the list. slot_of: NULL, or receives each micro-batch's slot, the lowest that is free. */
static void walk(const finder *f, int maker, int reader, way *w, int *slot_of)
{
    const weft_lowered *l = f->c->l;
    int on = 0;
    for (int i = 0; i < l->tasks->n; i++) {
        const weft_task *task = &l->tasks->list[i];
        const weft_program *p = weft_lowered_program(l, task->part, task->stage);
        int at = index_of(l, p), slot = 0;
        if (at == maker) {
            while (slot_of && f->taken[slot])
                slot++;
            if (slot_of)
                f->taken[slot_of[task->micro_batch] = slot] = true;
            on++;
        }
        w->most = on > w->most ? on : w->most;
        if (on > 0)
            widen(&w->lo, &w->hi, p);
        if (at != reader)
            continue;
        if (slot_of)
            f->taken[slot_of[task->micro_batch]] = false;
        on--;
    }
}

static way *find_way(const finder *f, int maker, int reader)
{
    way *w = &f->ways[maker * f->n + reader];
    if (w->known)
        return w;
    *w = (way){.known = true, .lo = f->c->n, .hi = -1, .slots = UNKNOWN};
    walk(f, maker, reader, w, NULL);
    return w;
}

/* The slots of a way: made when the first value needs them. */
static weft_status make_slots(const finder *f, way *w, int maker, int reader, const weft_value *v)
{
    weft_lowered *l = f->c->l;
    if (w->slots != UNKNOWN)
        return WEFT_OK;
    int64_t micro_batches = f->c->g->config.sizes.micro_batches;
    weft_slots *s = &l->slots[l->n_slots];
    *s = (weft_slots){.maker = maker, .reader = reader, .n = w->most};
    s->slot_of = weft_pool_alloc(&l->pool, (size_t)micro_batches * sizeof *s->slot_of);
    if (!s->slot_of)
        return weft_fail_memory(f->c->err);
    memset(f->taken, 0, (size_t)w->most);
    walk(f, maker, reader, w, s->slot_of);
    bool saved = l->programs[maker].part == WEFT_PART_F && l->programs[reader].part == WEFT_PART_B;
    s->buffer = weft_compile_add_buffer(
        f->c, (weft_buffer){.base = WEFT_BASE_ARENA,
                            .first = w->lo,
                            .last = w->hi,
                            .kind = saved ? WEFT_CLASS_SAVED : WEFT_CLASS_TEMPORARY,
                            .value = v});
    if (s->buffer < 0)
        return WEFT_ERR_MEMORY;
    w->slots = l->n_slots++;
    return WEFT_OK;
}

static weft_status place(const finder *f, int buffer)
{
    weft_lowered *l = f->c->l;
    weft_buffer *b = &l->buffers[buffer];
    if (b->base != WEFT_BASE_ARENA || !b->value || b->last >= f->c->n)
        return WEFT_OK;
    const weft_program *made = weft_compiler_program(f->c, b->first),
                       *read = weft_compiler_program(f->c, b->last);
    if (made == read || !is_micro(made) || !is_micro(read))
        return WEFT_OK;
    int maker = index_of(l, made), reader = index_of(l, read);
    way *w = find_way(f, maker, reader);
    if (w->most <= 1) {
        int lo = made->to,
            hi = read->from - 1; /* all that runs between, not these two themselves */
        lo = w->lo < made->from ? w->lo : lo;
        hi = w->hi >= read->to ? w->hi : hi;
        b->first = lo < b->first ? lo : b->first;
        b->last = hi > b->last ? hi : b->last;
        return WEFT_OK;
    }
    weft_status s = make_slots(f, w, maker, reader, b->value);
    if (s)
        return s;
    b = &l->buffers[buffer]; /* there may be more of them now, elsewhere */
    b->base = WEFT_BASE_SLOT;
    b->slots = w->slots;
    b->offset = l->slots[w->slots].bytes;
    l->slots[w->slots].bytes += (b->bytes + ALIGN - 1) / ALIGN * ALIGN;
    return WEFT_OK;
}

weft_status weft_compile_slots(weft_compiler *c)
{
    weft_lowered *l = c->l;
    size_t n = (size_t)l->n_programs, micro = (size_t)c->g->config.sizes.micro_batches;
    if (c->g->config.mode != WEFT_MODE_TRAIN || micro == 1)
        return WEFT_OK;
    finder f = {.c = c, .n = l->n_programs};
    f.ways = weft_alloc_zero(n * n, sizeof *f.ways);
    f.taken = weft_alloc_zero(micro + 1, sizeof *f.taken);
    l->slots = weft_pool_alloc(&l->pool, n * n * sizeof *l->slots);
    weft_status s = f.ways && f.taken && l->slots ? WEFT_OK : weft_fail_memory(c->err);
    for (int i = 0, end = l->n_buffers; i < end && !s; i++)
        s = place(&f, i);
    for (int i = 0; i < l->n_slots && !s; i++) {
        const weft_slots *k = &l->slots[i];
        if (k->bytes > WEFT_MAX_BYTES / k->n)
            s = weft_fail(c->err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                          "what waits for the backward is more than 2^60 bytes in %d micro-batches",
                          k->n);
        else
            l->buffers[k->buffer].bytes = k->n * k->bytes;
    }
    weft_free(f.ways);
    weft_free(f.taken);
    return s;
}

int64_t weft_buffer_arena_offset(const weft_lowered *l, const weft_buffer *b, int64_t micro)
{
    if (b->base != WEFT_BASE_SLOT)
        return b->offset;
    const weft_slots *s = &l->slots[b->slots];
    int64_t slot = micro > 0 ? s->slot_of[micro] : s->slot_of[0];
    return l->buffers[s->buffer].offset + slot * s->bytes + b->offset;
}
