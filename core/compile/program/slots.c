/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for values that live from one program to another while the schedule runs others. Where one
 * micro-batch at a time is on its way between the two, a value has a place as any other; it may
 * only have to live longer, through programs that the list runs in between and that stand
 * elsewhere. Else all such values lie together, in as many slots as there are micro-batches on
 * their way; inputs always do. What a prologue writes lives from the task before on, whose body
 * runs meanwhile. */
#include "compile/program/compiler.h"

#include <string.h>

enum { UNKNOWN = -1 };

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
    way *ways;   /* [early * n * n + maker * n + reader] */
    bool *taken; /* by slot: some micro-batch has it */
} finder;

/* Where values live: made in one program or early for it, last read in another. */
typedef struct route {
    int maker, reader;
    bool early; /* in its prologue */
} route;

static int index_of(const weft_lowered *l, const weft_program *p)
{
    return (int)(p - l->programs);
}

static void widen(int *lo, int *hi, const weft_program *p)
{
    if (p->from == p->to)
        return;
    *lo = p->from < *lo ? p->from : *lo;
    *hi = p->to - 1 > *hi ? p->to - 1 : *hi;
}

static const weft_program *program_at(const finder *f, int i)
{
    const weft_task *task = &f->c->l->tasks->list[i];
    return weft_lowered_program(f->c->l, task->part, task->stage);
}

/* The task whose values of a route begin to live when task i runs; NULL: none. What is
 * early does so with the task before; the first task of all is not too late for its own. */
static const weft_task *begins(const finder *f, const route *r, int i)
{
    const weft_task_list *list = f->c->l->tasks;
    int of = r->early ? i + 1 : i;
    return of < list->n && index_of(f->c->l, program_at(f, of)) == r->maker ? &list->list[of]
                                                                            : NULL;
}

/* Walks the list. slot_of: NULL, or receives each micro-batch's slot, the lowest that is free. */
static void walk(const finder *f, const route *r, way *w, int *slot_of)
{
    const weft_lowered *l = f->c->l;
    int on = 0;
    for (int i = r->early ? -1 : 0; i < l->tasks->n; i++) {
        const weft_task *made = begins(f, r, i);
        int slot = 0;
        if (made) {
            while (slot_of && f->taken[slot])
                slot++;
            if (slot_of)
                f->taken[slot_of[made->micro_batch] = slot] = true;
            on++;
        }
        w->most = on > w->most ? on : w->most;
        if (i < 0)
            continue;
        const weft_program *p = program_at(f, i);
        if (on > 0)
            widen(&w->lo, &w->hi, p);
        if (index_of(l, p) != r->reader)
            continue;
        if (slot_of)
            f->taken[slot_of[l->tasks->list[i].micro_batch]] = false;
        on--;
    }
}

static way *find_way(const finder *f, const route *r)
{
    way *w = &f->ways[(r->early * f->n + r->maker) * f->n + r->reader];
    if (w->known)
        return w;
    *w = (way){.known = true, .lo = f->c->n, .hi = -1, .slots = UNKNOWN};
    walk(f, r, w, NULL);
    return w;
}

/* The slots of a way: made when the first value needs them. */
static weft_status make_slots(const finder *f, way *w, const route *r, const weft_value *v)
{
    weft_lowered *l = f->c->l;
    if (w->slots != UNKNOWN)
        return WEFT_OK;
    int64_t micro_batches = f->c->g->config.sizes.micro_batches;
    weft_slots *s = &l->slots[l->n_slots];
    *s = (weft_slots){.maker = r->maker, .reader = r->reader, .n = w->most};
    s->slot_of = weft_pool_alloc(&l->pool, (size_t)micro_batches * sizeof *s->slot_of);
    if (!s->slot_of)
        return weft_fail_memory(f->c->err);
    memset(f->taken, 0, (size_t)w->most);
    walk(f, r, w, s->slot_of);
    bool saved =
        l->programs[r->maker].part == WEFT_PART_F && l->programs[r->reader].part == WEFT_PART_B;
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

/* All that runs between, not the two themselves, but for what begins early. */
static void lengthen(weft_buffer *b, const way *w, const weft_program *made,
                     const weft_program *read)
{
    int lo = b->early ? w->lo : made->to, hi = read->from - 1;
    lo = w->lo < made->from ? w->lo : lo;
    hi = w->hi >= read->to ? w->hi : hi;
    b->first = lo < b->first ? lo : b->first;
    b->last = hi > b->last ? hi : b->last;
}

static weft_status place(const finder *f, int buffer, bool several)
{
    weft_lowered *l = f->c->l;
    weft_buffer *b = &l->buffers[buffer];
    if (b->base != WEFT_BASE_ARENA || (!b->early && (!b->value || !several || b->last >= f->c->n)))
        return WEFT_OK;
    const weft_program *made = weft_compiler_program(f->c, b->first),
                       *read = b->last < f->c->n ? weft_compiler_program(f->c, b->last) : made;
    if (!b->early &&
        (made == read || !weft_part_is_micro(made->part) || !weft_part_is_micro(read->part)))
        return WEFT_OK;
    if (!weft_part_is_micro(made->part) ||
        !weft_part_is_micro(read->part)) /* once a step; it is read when it is */
        read = made;
    route r = {index_of(l, made), index_of(l, read), b->early};
    way *w = find_way(f, &r);
    if (!b->value) { /* early workspaces: one queue uses them in turn */
        b->first = w->lo < b->first ? w->lo : b->first;
        b->last = w->hi > b->last ? w->hi : b->last;
        return WEFT_OK;
    }
    if (w->most <= 1) {
        lengthen(b, w, made, read);
        return WEFT_OK;
    }
    weft_status s = make_slots(f, w, &r, b->value);
    if (s)
        return s;
    b = &l->buffers[buffer]; /* there may be more of them now, elsewhere */
    b->base = WEFT_BASE_SLOT;
    b->slots = w->slots;
    b->offset = l->slots[w->slots].bytes;
    l->slots[w->slots].bytes += weft_align(b->bytes, l->alignment);
    return WEFT_OK;
}

/* The program that reads an input of a micro-batch last. */
static int last_reader(const weft_compiler *c)
{
    int last = 0;
    for (int i = 0; i < c->g->n_inputs; i++) {
        const weft_value *v = c->g->inputs_list[i];
        bool here = c->l->buffer_of[v->id] >= 0 && v->node->scope == WEFT_MICRO_BATCH;
        if (here && c->last_use[v->id] < c->n)
            last = c->last_use[v->id] > last ? c->last_use[v->id] : last;
    }
    return index_of(c->l, weft_compiler_program(c, last));
}

/* All inputs of a micro-batch come at once, early for its first task here, and stay until the last
 * of them is read. */
static weft_status place_inputs(const finder *f)
{
    weft_lowered *l = f->c->l;
    if (l->input_bytes == 0)
        return WEFT_OK;
    const weft_program *first = weft_lowered_program(l, WEFT_PART_F, weft_lowered_first_stage(l));
    route r = {index_of(l, first), last_reader(f->c), true};
    way w = {.lo = f->c->n, .hi = -1};
    if (!weft_part_is_micro(l->programs[r.reader].part)) /* nobody reads any */
        r.reader = r.maker;
    size_t micro_batches = (size_t)f->c->g->config.sizes.micro_batches;
    weft_slots *s = &l->inputs;
    *s = (weft_slots){.maker = r.maker, .reader = r.reader, .bytes = l->input_bytes, .buffer = -1};
    s->slot_of = weft_pool_alloc(&l->pool, micro_batches * sizeof *s->slot_of);
    if (!s->slot_of)
        return weft_fail_memory(f->c->err);
    memset(s->slot_of, 0, micro_batches * sizeof *s->slot_of);
    walk(f, &r, &w, s->slot_of);
    s->n = w.most;
    memset(f->taken, 0, micro_batches);
    return WEFT_OK;
}

weft_status weft_compile_slots(weft_compiler *c)
{
    weft_lowered *l = c->l;
    size_t n = (size_t)l->n_programs, micro = (size_t)c->g->config.sizes.micro_batches;
    bool several = c->g->config.mode == WEFT_MODE_TRAIN && micro > 1;
    finder f = {.c = c, .n = l->n_programs};
    f.ways = weft_alloc_zero(2 * n * n, sizeof *f.ways);
    f.taken = weft_alloc_zero(micro + 2, sizeof *f.taken);
    l->slots = weft_pool_alloc(&l->pool, 2 * n * n * sizeof *l->slots);
    weft_status s = f.ways && f.taken && l->slots ? place_inputs(&f) : weft_fail_memory(c->err);
    bool early = weft_graph_stages(c->g) > 1;
    for (int i = 0, end = l->n_buffers; i < end && !s && (several || early); i++)
        s = place(&f, i, several);
    for (int i = 0; i < l->n_slots && !s; i++) {
        const weft_slots *k = &l->slots[i];
        if (k->bytes > WEFT_MAX_BYTES / k->n)
            s = weft_fail(c->err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                          "the values that wait for the backward are more than 2^60 bytes in %d "
                          "micro-batches",
                          k->n);
        else
            l->buffers[k->buffer].bytes = k->n * k->bytes;
    }
    weft_free(f.ways);
    weft_free(f.taken);
    return s;
}

int64_t weft_buffer_offset(const weft_lowered *l, const weft_buffer *b, int64_t micro)
{
    if (b->base != WEFT_BASE_SLOT && b->base != WEFT_BASE_INPUT)
        return b->offset;
    const weft_slots *s = b->base == WEFT_BASE_SLOT ? &l->slots[b->slots] : &l->inputs;
    int64_t slot = s->slot_of[micro > 0 ? micro : 0], at = slot * s->bytes + b->offset;
    return b->base == WEFT_BASE_SLOT ? l->buffers[s->buffer].offset + at : at;
}

bool weft_lowered_uploads(const weft_lowered *l, const weft_program *p)
{
    return l->inputs.n > 0 && p == &l->programs[l->inputs.maker];
}

int64_t weft_lowered_inputs(const weft_lowered *l)
{
    return l->inputs.n * l->inputs.bytes;
}

weft_batch_bytes weft_lowered_batch(const weft_lowered *l, int64_t micro_batches)
{
    const size_t some = 64;
    return (weft_batch_bytes){.step = (size_t)l->step_input_bytes + some,
                              .micro = (size_t)(micro_batches * l->input_bytes) + some};
}
