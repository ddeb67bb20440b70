/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for values that live from one program to another while the schedule runs others. Where one
 * micro-batch at a time is on its way between them, a value has a place as any other; it may only
 * have to live longer, through programs that the list runs in between and that stand elsewhere.
 * Else all such values lie together, in as many slots as there are micro-batches on their way;
 * inputs always do. What a prologue writes lives from the task before on, whose body runs
 * meanwhile. Which of several readers is the last one, the list alone says. */
#include "compile/program/compiler.h"

#include <string.h>

/* Where values live: made in one program or early for it, read last in others; and what the list
 * does meanwhile, both ends included. */
typedef struct way {
    int maker;
    bool early; /* in its prologue */
    bool *ends; /* by program: in some micro-batch it is the last to read */
    int reader; /* the last of these by position */
    int most;   /* micro-batches on it at once */
    int lo, hi; /* positions of all programs that run meanwhile */
    int slots;  /* in weft_lowered; -1: none */
    struct way *next;
} way;

typedef struct finder {
    weft_compiler *c;
    int n;          /* programs */
    int64_t micro;  /* micro-batches */
    weft_pool pool; /* of what follows */
    int *program;   /* by task */
    int *at;        /* [program * micro + micro-batch] its task; -1: none */
    bool *touched;  /* [buffer * n + program] */
    way *ways;
    bool *ends, *taken; /* of the way at hand; by slot: some micro-batch has it */
    int *end;           /* by micro-batch: the last task of the way at hand */
} finder;

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

/* What runs once a step counts as of the first micro-batch. */
static int64_t micro_of(const weft_task *task)
{
    return task->micro_batch > 0 ? task->micro_batch : 0;
}

/* ---- the list ---- */

static void find_tasks(const finder *f)
{
    const weft_lowered *l = f->c->l;
    for (int64_t i = 0; i < f->n * f->micro; i++)
        f->at[i] = -1;
    for (int i = 0; i < l->tasks->n; i++) {
        const weft_task *task = &l->tasks->list[i];
        const int p = index_of(l, weft_lowered_program(l, task->part, task->stage));
        f->program[i] = p;
        f->at[p * f->micro + micro_of(task)] = i;
    }
}

/* By instructions; the last position of a buffer counts in any case. */
static void find_touched(const finder *f)
{
    const weft_lowered *l = f->c->l;
    for (int p = 0; p < f->n; p++)
        for (int i = 0; i < l->programs[p].n; i++) {
            const weft_instruction *in = &l->programs[p].list[i];
            for (int k = 0; k < in->n_ins + in->n_outs; k++)
                if (in->buffers[k] >= 0)
                    f->touched[(int64_t)in->buffers[k] * f->n + p] = true;
        }
    for (int b = 0; b < l->n_buffers; b++)
        if (l->buffers[b].last < f->c->n)
            f->touched[(int64_t)b * f->n +
                       index_of(l, weft_compiler_program(f->c, l->buffers[b].last))] = true;
}

static weft_status begin(finder *f)
{
    weft_lowered *l = f->c->l;
    const size_t n = (size_t)f->n, micro = (size_t)f->micro, buffers = (size_t)l->n_buffers + 1;
    f->program = weft_pool_alloc(&f->pool, (size_t)l->tasks->n * sizeof *f->program);
    f->at = weft_pool_alloc(&f->pool, n * micro * sizeof *f->at);
    f->touched = weft_pool_alloc(&f->pool, buffers * n * sizeof *f->touched);
    f->ends = weft_pool_alloc(&f->pool, n * sizeof *f->ends);
    f->end = weft_pool_alloc(&f->pool, micro * sizeof *f->end);
    f->taken = weft_pool_alloc(&f->pool, (micro + 2) * sizeof *f->taken);
    l->slots = weft_pool_alloc(&l->pool, buffers * sizeof *l->slots);
    if (f->pool.out_of_memory || !l->slots)
        return weft_fail_memory(f->c->err);
    find_tasks(f);
    find_touched(f);
    return WEFT_OK;
}

/* ---- ways ---- */

/* Of each micro-batch the last task of these programs, and which programs' these are. */
static void find_ends(const finder *f, const bool *programs)
{
    for (int64_t m = 0; m < f->micro; m++)
        f->end[m] = -1;
    for (int p = 0; p < f->n; p++)
        for (int64_t m = 0; programs[p] && m < f->micro; m++)
            f->end[m] = f->at[p * f->micro + m] > f->end[m] ? f->at[p * f->micro + m] : f->end[m];
    memset(f->ends, 0, (size_t)f->n * sizeof *f->ends);
    for (int64_t m = 0; m < f->micro; m++)
        if (f->end[m] >= 0)
            f->ends[f->program[f->end[m]]] = true;
}

/* The task whose values begin to live when task i runs; NULL: none. What is early does so with the
 * task before; the first task of all is not too late for its own. */
static const weft_task *begins(const finder *f, const way *w, int i)
{
    const weft_task_list *list = f->c->l->tasks;
    int of = w->early ? i + 1 : i;
    return of < list->n && f->program[of] == w->maker ? &list->list[of] : NULL;
}

/* Walks the list. slot_of: NULL, or receives each micro-batch's slot, the lowest that is free. */
static void walk(const finder *f, way *w, int *slot_of)
{
    const weft_lowered *l = f->c->l;
    int on = 0;
    for (int i = w->early ? -1 : 0; i < l->tasks->n; i++) {
        const weft_task *made = begins(f, w, i);
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
        if (on > 0)
            widen(&w->lo, &w->hi, &l->programs[f->program[i]]);
        if (i != f->end[micro_of(&l->tasks->list[i])])
            continue;
        if (slot_of)
            f->taken[slot_of[l->tasks->list[i].micro_batch]] = false;
        on--;
    }
}

/* From a maker to the last of these programs. NULL: out of memory. */
static way *find_way(finder *f, int maker, bool early, const bool *programs)
{
    const size_t bytes = (size_t)f->n * sizeof *f->ends;
    find_ends(f, programs);
    way *w = f->ways;
    while (w && (w->maker != maker || w->early != early || memcmp(w->ends, f->ends, bytes) != 0))
        w = w->next;
    if (w)
        return w;
    w = weft_pool_alloc(&f->pool, sizeof *w);
    bool *ends = weft_pool_alloc(&f->pool, bytes);
    if (!w || !ends)
        return NULL;
    memcpy(ends, f->ends, bytes);
    *w = (way){maker, early, ends, .lo = f->c->n, .hi = -1, .slots = -1, .next = f->ways};
    for (int p = 0; p < f->n; p++)
        w->reader = ends[p] ? p : w->reader;
    walk(f, w, NULL);
    return f->ways = w;
}

/* ---- places ---- */

/* The slots of a way: made when the first value needs them. */
static weft_status make_slots(const finder *f, way *w, const weft_value *v)
{
    weft_lowered *l = f->c->l;
    weft_slots *s = &l->slots[l->n_slots];
    *s = (weft_slots){.maker = w->maker, .reader = w->reader, .n = w->most};
    s->slot_of = weft_pool_alloc(&l->pool, (size_t)f->micro * sizeof *s->slot_of);
    if (!s->slot_of)
        return weft_fail_memory(f->c->err);
    memset(f->taken, 0, (size_t)w->most);
    walk(f, w, s->slot_of);
    s->buffer = weft_compile_add_buffer(
        f->c, (weft_buffer){.base = WEFT_BASE_ARENA,
                            .first = w->lo,
                            .last = w->hi,
                            .kind = weft_class_between(l->programs[w->maker].part,
                                                       l->programs[w->reader].part),
                            .value = v});
    if (s->buffer < 0)
        return WEFT_ERR_MEMORY;
    w->slots = l->n_slots++;
    return WEFT_OK;
}

/* All that runs between, not the two themselves; but for what begins early, and where others than
 * the reader of the last position may come behind it. */
static void lengthen(const finder *f, weft_buffer *b, const way *w, const weft_program *read)
{
    const weft_program *made = &f->c->l->programs[w->maker];
    bool alone = w->reader == index_of(f->c->l, read);
    for (int p = 0; p < w->reader; p++)
        alone = alone && !w->ends[p];
    int lo = b->early || w->lo < made->from ? w->lo : made->to;
    int hi = !alone || w->hi >= read->to ? w->hi : read->from - 1;
    b->first = lo < b->first ? lo : b->first;
    b->last = hi > b->last ? hi : b->last;
}

/* From its maker's task to that of its last reader: programs that run between stand elsewhere. */
static void keep(const finder *f, weft_buffer *b, int maker, int end)
{
    for (int i = f->at[maker] + 1; i < end; i++)
        widen(&b->first, &b->last, &f->c->l->programs[f->program[i]]);
}

static weft_status place(finder *f, int buffer, bool several)
{
    weft_lowered *l = f->c->l;
    weft_buffer *b = &l->buffers[buffer];
    if (b->base != WEFT_BASE_ARENA || (!b->early && (!b->value || !several)))
        return WEFT_OK;
    const weft_program *made = weft_compiler_program(f->c, b->first),
                       *read = b->last < f->c->n ? weft_compiler_program(f->c, b->last) : NULL;
    const int maker = index_of(l, made);
    bool *touched = &f->touched[(int64_t)buffer * f->n];
    if (!b->early && made == read)
        return WEFT_OK;
    if (!read || !weft_part_is_micro(made->part) || !weft_part_is_micro(read->part)) {
        find_ends(f, touched);
        if (!b->early && f->micro == 1)
            keep(f, b, maker, read ? f->end[0] : l->tasks->n);
        if (!b->early)
            return WEFT_OK;
        read = made; /* once a step; it is read when it is */
        memset(touched, 0, (size_t)f->n * sizeof *touched);
        touched[maker] = true;
    }
    way *w = find_way(f, maker, b->early, touched);
    if (!w)
        return weft_fail_memory(f->c->err);
    if (!b->value) { /* early workspaces: one queue uses them in turn */
        b->first = w->lo < b->first ? w->lo : b->first;
        b->last = w->hi > b->last ? w->hi : b->last;
        return WEFT_OK;
    }
    if (w->most <= 1) {
        lengthen(f, b, w, read);
        return WEFT_OK;
    }
    weft_status s = w->slots < 0 ? make_slots(f, w, b->value) : WEFT_OK;
    if (s)
        return s;
    b = &l->buffers[buffer]; /* there may be more of them now, elsewhere */
    b->base = WEFT_BASE_SLOT;
    b->slots = w->slots;
    b->offset = l->slots[w->slots].bytes;
    l->slots[w->slots].bytes += weft_align(b->bytes, l->alignment);
    return WEFT_OK;
}

/* All inputs of a micro-batch come at once, early for its first task here, and stay until the last
 * of them is read. */
static weft_status place_inputs(finder *f)
{
    weft_lowered *l = f->c->l;
    if (l->input_bytes == 0)
        return WEFT_OK;
    const int maker =
        index_of(l, weft_lowered_program(l, WEFT_PART_F, weft_lowered_first_stage(l)));
    bool *any = &f->touched[(int64_t)l->n_buffers * f->n];
    for (int64_t i = 0; i < (int64_t)l->n_buffers * f->n; i++)
        if (f->touched[i] && l->buffers[i / f->n].base == WEFT_BASE_INPUT)
            any[i % f->n] = weft_part_is_micro(l->programs[i % f->n].part);
    any[maker] = true; /* even if nobody reads any */
    way *w = find_way(f, maker, true, any);
    weft_slots *s = &l->inputs;
    s->slot_of = weft_pool_alloc(&l->pool, (size_t)f->micro * sizeof *s->slot_of);
    if (!w || !s->slot_of)
        return weft_fail_memory(f->c->err);
    *s = (weft_slots){maker, w->reader, w->most, l->input_bytes, s->slot_of, .buffer = -1};
    walk(f, w, s->slot_of);
    memset(f->taken, 0, (size_t)f->micro);
    return WEFT_OK;
}

/* Do the programs of one micro-batch run in the order of their positions? */
static bool is_in_order(const finder *f)
{
    int before = -1;
    for (int p = 0; p < f->n; p++) {
        const int at = weft_part_is_micro(f->c->l->programs[p].part) ? f->at[p * f->micro] : -1;
        if (at >= 0 && at < before)
            return false;
        before = at >= 0 ? at : before;
    }
    return true;
}

static weft_status place_all(finder *f)
{
    weft_lowered *l = f->c->l;
    bool several = f->c->g->config.mode == WEFT_MODE_TRAIN && (f->micro > 1 || !is_in_order(f));
    bool early = weft_graph_stages(f->c->g) > 1;
    weft_status s = place_inputs(f);
    for (int i = 0, end = l->n_buffers; i < end && !s && (several || early); i++)
        s = place(f, i, several);
    for (int i = 0; i < l->n_slots && !s; i++) {
        const weft_slots *k = &l->slots[i];
        if (k->bytes > WEFT_MAX_BYTES / k->n)
            s = weft_fail(f->c->err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                          "the values that wait for the backward are more than 2^60 bytes in %d "
                          "micro-batches",
                          k->n);
        else
            l->buffers[k->buffer].bytes = k->n * k->bytes;
    }
    return s;
}

weft_status weft_compile_slots(weft_compiler *c)
{
    finder f = {.c = c, .n = c->l->n_programs, .micro = c->g->config.sizes.micro_batches};
    weft_status s = begin(&f);
    s = s ? s : place_all(&f);
    weft_pool_release(&f.pool);
    return s;
}

int64_t weft_buffer_offset(const weft_lowered *l, const weft_buffer *b, int64_t micro)
{
    if (b->base == WEFT_BASE_FAR && weft_place_is_micro(b->value))
        return b->offset + (micro > 0 ? micro : 0) * weft_align(b->bytes, WEFT_FAR_ALIGNMENT);
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
