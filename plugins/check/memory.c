/* SPDX-License-Identifier: Apache-2.0 */
/* [weft] check = memory. A copy of all memory is kept. After each instruction everything but its
 * results must still be as in the copy. Memory that holds nothing is filled with a pattern, a NaN
 * that no computation makes: results that were not written and operands that nobody wrote show it.
 * Of each line of the arena it is kept what was written there last: an operand must lie there
 * still, whatever the plan says about how long it does. */
#include "check.h"

#include <string.h>

enum { NOTHING = 0xff };

typedef struct region {
    const char *name;
    char *at, *copy;
    size_t bytes; /* with the margin behind */
} region;

/* A piece of memory that an instruction may write. */
typedef struct span {
    char *lo, *hi;
} span;

/* What lies in a line of the arena, which is as long as buffers are aligned. */
typedef struct holder {
    int buffer;   /* -1: nothing */
    bool is_kept; /* else what an instruction leaves there is for nobody */
    int64_t slot;
    const weft_value *value;
} holder;

/* A buffer of the arena that something was written to. */
typedef struct kept {
    int buffer, first, last;
    size_t offset, bytes;
} kept;

struct check_memory {
    region *regions; /* the arena first */
    int n_regions;
    holder *holders;
    size_t line;
    kept *list;
    int n, capacity;
    span *posted; /* what is being received: it changes at any time */
    int n_posted, posted_capacity;
    span *spans;
    int n_spans, spans_capacity;
    bool begun;
    weft_mode mode;  /* whose values the arena holds */
    int64_t stretch; /* of the last instruction */
    int position;
    bool in_order; /* else liveness says nothing about what is alive now */
};

/* Room for one more. */
static weft_status grow(void **list, size_t size, int n, int *capacity, weft_error *err)
{
    if (n < *capacity)
        return WEFT_OK;
    void *more = weft_realloc(*list, (size_t)(2 * n + 8) * size);
    if (!more)
        return weft_fail_memory(err);
    *list = more;
    *capacity = 2 * n + 8;
    return WEFT_OK;
}

static weft_status fill_region(region *r, const weft_memory *piece, weft_error *err)
{
    *r = (region){piece->name, piece->at, NULL, piece->bytes + WEFT_MARGIN_BYTES};
    memset(r->at + piece->bytes, NOTHING, WEFT_MARGIN_BYTES);
    r->copy = weft_alloc(r->bytes);
    return r->copy ? WEFT_OK : weft_fail_memory(err);
}

weft_status check_memory_create(const weft_host *host, const weft_run_view *run, check_memory **out,
                                weft_error *err)
{
    void *self;
    const weft_device *device = host->service(host, "device", &self);
    *out = NULL;
    if (!device->host_memory || device->record)
        return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(host->weft, "check"),
                         "[weft] check = memory needs a device that computes at once and whose "
                         "memory the host can read, as cpu; %s is not one",
                         device->name);
    check_memory *g = weft_alloc_zero(1, sizeof *g);
    if (!g)
        return weft_fail_memory(err);
    g->in_order = !device->adversary || device->adversary(self) == 0;
    g->line = device->alignment > 64 ? (size_t)device->alignment : 64;
    g->regions = weft_alloc_zero((size_t)run->n_memory, sizeof *g->regions);
    weft_status s = g->regions ? WEFT_OK : weft_fail_memory(err);
    for (; g->n_regions < run->n_memory && !s; g->n_regions++)
        s = fill_region(&g->regions[g->n_regions], &run->memory[g->n_regions], err);
    if (!s && !(g->holders = weft_alloc((g->regions[0].bytes / g->line + 1) * sizeof *g->holders)))
        s = weft_fail_memory(err);
    if (!s)
        *out = g;
    else
        check_memory_destroy(g);
    return s;
}

void check_memory_destroy(check_memory *g)
{
    if (!g)
        return;
    for (int i = 0; i < g->n_regions; i++)
        weft_free(g->regions[i].copy);
    weft_free(g->regions);
    weft_free(g->holders);
    weft_free(g->list);
    weft_free(g->posted);
    weft_free(g->spans);
    weft_free(g);
}

/* ---- what lies where ---- */

static bool is_in(const region *r, const char *at)
{
    return at >= r->at && at < r->at + r->bytes;
}

static void hold(check_memory *g, size_t offset, size_t bytes, holder h)
{
    for (size_t i = offset / g->line; i * g->line < offset + bytes; i++)
        g->holders[i] = h;
}

static void forget(check_memory *g, size_t offset, size_t bytes)
{
    memset(g->regions[0].at + offset, NOTHING, bytes);
    memset(g->regions[0].copy + offset, NOTHING, bytes);
    hold(g, offset, bytes, (holder){.buffer = -1});
}

static kept *find_kept(const check_memory *g, int buffer)
{
    for (int i = 0; i < g->n; i++)
        if (g->list[i].buffer == buffer)
            return &g->list[i];
    return NULL;
}

static weft_status keep(check_memory *g, const weft_operand *o, weft_error *err)
{
    char *at = o->tensor.data;
    if (!at || !is_in(&g->regions[0], at))
        return WEFT_OK;
    const size_t offset = (size_t)(at - g->regions[0].at);
    hold(g, offset, o->bytes, (holder){o->buffer, o->value != NULL, o->slot, o->value});
    if (o->last < o->first || find_kept(g, o->buffer))
        return WEFT_OK;
    weft_status s = grow((void **)&g->list, sizeof *g->list, g->n, &g->capacity, err);
    if (!s)
        g->list[g->n++] = (kept){o->buffer, o->first, o->last, offset, o->bytes};
    return s;
}

/* What else than the operand lies in its memory; NULL: nothing. */
static const holder *find_other(const check_memory *g, const weft_operand *o)
{
    const char *at = o->tensor.data;
    if (!is_in(&g->regions[0], at))
        return NULL;
    const size_t offset = (size_t)(at - g->regions[0].at);
    for (size_t i = offset / g->line; i * g->line < offset + o->bytes; i++) {
        const holder *h = &g->holders[i];
        if (h->buffer != o->buffer || h->slot != o->slot || !h->is_kept)
            return h;
    }
    return NULL;
}

static bool is_alive(const kept *k, int position)
{
    return k->first <= position && position <= k->last;
}

/* Where others have not come since. */
static void forget_buffer(check_memory *g, const kept *k)
{
    const size_t line = g->line, end = k->offset + k->bytes;
    for (size_t at = k->offset / line * line, to = at; at < end; at = to) {
        while (to < end && g->holders[to / line].buffer == k->buffer)
            to += line;
        if (to > at)
            forget(g, at, (to < end ? to : end) - at);
        else
            to += line;
    }
}

/* What was alive at the last instruction and is not any more holds nothing now. */
static void bury(check_memory *g, int position)
{
    for (int i = 0; i < g->n;) {
        const kept k = g->list[i];
        if (!is_alive(&k, g->position) || is_alive(&k, position)) {
            i++;
            continue;
        }
        forget_buffer(g, &k);
        g->list[i] = g->list[--g->n];
    }
    g->position = position;
}

/* The host has written inputs and state; another mode's values are others. */
static void begin_stretch(check_memory *g, const weft_instruction_view *in)
{
    if (!g->begun || g->mode != in->mode) {
        forget(g, 0, g->regions[0].bytes);
        g->n = 0;
        g->position = -1;
    }
    g->begun = true;
    g->mode = in->mode;
    g->stretch = in->stretch;
    for (int i = 1; i < g->n_regions; i++)
        memcpy(g->regions[i].copy, g->regions[i].at, g->regions[i].bytes);
}

/* ---- before ---- */

/* The first element that holds the pattern; -1: none, or in this dtype it would be a number like
 * others. */
static int64_t find_nothing(const weft_operand *o)
{
    const weft_tensor *t = &o->tensor;
    bool seen = weft_dtype_is_float(t->dtype) && !weft_dtype_is_f8(t->dtype);
    int64_t n = seen ? weft_tensor_count(t) : 0, i = 0;
    switch (weft_dtype_size(t->dtype)) {
    case 2:
        while (i < n && ((const uint16_t *)t->data)[i] != UINT16_MAX)
            i++;
        break;
    case 4:
        while (i < n && ((const uint32_t *)t->data)[i] != UINT32_MAX)
            i++;
        break;
    default:
        while (i < n && ((const uint64_t *)t->data)[i] != UINT64_MAX)
            i++;
    }
    return i < n ? i : -1;
}

static weft_status blame(const weft_run_view *run, weft_error *err, const char *what)
{
    const weft_instruction_view *in = run->instruction;
    const weft_node *n = in->nodes[0];
    return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                     "[weft] check = memory: kernel %s of %s, in %s = %s%s, step %lld, %s",
                     in->kernel ? in->kernel : "plain", in->by ? in->by : "core",
                     n->n_outs ? n->outs[0]->name : "?", n->op->name,
                     weft_block_describe(", ", n->block).text, (long long)run->step, what);
}

static weft_status blame_element(const weft_run_view *run, const char *what, int i, int64_t element,
                                 weft_error *err)
{
    const int n_ins = run->instruction->n_ins;
    char *text = weft_format("%s element %lld of %s %d", what, (long long)element,
                             i < n_ins ? "operand" : "result", i < n_ins ? i : i - n_ins);
    weft_status s = text ? blame(run, err, text) : weft_fail_memory(err);
    weft_free(text);
    return s;
}

/* Is it what was written there last? */
static weft_status check_holder(const check_memory *g, const weft_run_view *run,
                                const weft_operand *o, weft_error *err)
{
    const holder *h = find_other(g, o);
    if (!h)
        return WEFT_OK;
    char *text =
        weft_format("reads %s, in whose memory there is %s", o->value ? o->value->name : "a value",
                    h->buffer < 0 || !h->is_kept ? "nothing that was kept"
                    : h->buffer == o->buffer     ? "that of another micro-batch"
                    : h->value                   ? h->value->name
                                                 : "another value");
    weft_status s = text ? blame(run, err, text) : weft_fail_memory(err);
    weft_free(text);
    return s;
}

static bool is_operand(const weft_instruction_view *in, int buffer)
{
    for (int i = 0; i < in->n_ins; i++)
        if (in->operands[i].buffer == buffer)
            return true;
    return false;
}

/* What it awaits changes by itself until it is over. */
static bool awaits(const weft_instruction_view *in)
{
    return in->kind == WEFT_AWAIT || in->kind == WEFT_ARRIVE;
}

weft_status check_memory_before(check_memory *g, const weft_run_view *run, weft_error *err)
{
    const weft_instruction_view *in = run->instruction;
    if (!g->begun || g->stretch != in->stretch || g->mode != in->mode)
        begin_stretch(g, in);
    if (g->in_order && !in->early) /* which runs ahead of its program */
        bury(g, in->position);
    for (int i = 0; i < in->n_ins + in->n_outs && !awaits(in); i++) {
        const weft_operand *o = &in->operands[i];
        int64_t element;
        if (!o->tensor.data) /* another stage's */
            continue;
        if (o->read && (element = find_nothing(o)) >= 0)
            return blame_element(run, "reads what nobody wrote:", i, element, err);
        weft_status s = o->read ? check_holder(g, run, o, err) : WEFT_OK;
        if (s)
            return s;
        if (!o->read && !is_operand(in, o->buffer))
            memset(o->tensor.data, NOTHING, o->bytes);
    }
    return WEFT_OK;
}

/* ---- after ---- */

/* Keeps the spans in order of address. */
static weft_status add_span(check_memory *g, span s, weft_error *err)
{
    weft_status status =
        grow((void **)&g->spans, sizeof *g->spans, g->n_spans, &g->spans_capacity, err);
    if (status)
        return status;
    int k = g->n_spans++;
    for (; k > 0 && g->spans[k - 1].lo > s.lo; k--)
        g->spans[k] = g->spans[k - 1];
    g->spans[k] = s;
    return WEFT_OK;
}

static span span_of(const weft_operand *o)
{
    char *at = o->tensor.data;
    return (span){at, at + o->bytes};
}

/* Where it may have written, in order of address. */
static weft_status find_spans(check_memory *g, const weft_instruction_view *in, weft_error *err)
{
    weft_status s = WEFT_OK;
    g->n_spans = 0;
    for (int i = 0; i < g->n_posted && !s; i++)
        s = add_span(g, g->posted[i], err);
    for (int i = 0; i < in->n_operands && !s; i++)
        if (in->operands[i].written && in->operands[i].tensor.data)
            s = add_span(g, span_of(&in->operands[i]), err);
    return s;
}

static weft_status post(check_memory *g, span of, weft_error *err)
{
    weft_status s =
        grow((void **)&g->posted, sizeof *g->posted, g->n_posted, &g->posted_capacity, err);
    if (!s)
        g->posted[g->n_posted++] = of;
    return s;
}

static void take(check_memory *g, const char *lo)
{
    int i = 0;
    while (i < g->n_posted && g->posted[i].lo != lo)
        i++;
    if (i < g->n_posted)
        g->posted[i] = g->posted[--g->n_posted];
}

static const char *owner_of(const check_memory *g, const region *r, size_t offset)
{
    if (offset >= r->bytes - WEFT_MARGIN_BYTES)
        return "nothing, behind its end";
    if (r != g->regions)
        return "what is not its to write";
    const holder *h = &g->holders[offset / g->line];
    return h->buffer < 0 ? "nothing" : h->value ? h->value->name : "a workspace";
}

static weft_status compare(const check_memory *g, const weft_run_view *run, const region *r,
                           const char *lo, const char *hi, weft_error *err)
{
    size_t offset = (size_t)(lo - r->at), bytes = (size_t)(hi - lo);
    if (memcmp(lo, r->copy + offset, bytes) == 0)
        return WEFT_OK;
    while (r->at[offset] == r->copy[offset])
        offset++;
    char *what = weft_format("wrote outside its results: byte %zu of the %s, where there is %s",
                             offset, r->name, owner_of(g, r, offset));
    weft_status s = what ? blame(run, err, what) : weft_fail_memory(err);
    weft_free(what);
    return s;
}

static weft_status check_region(const check_memory *g, const weft_run_view *run, region *r,
                                weft_error *err)
{
    const char *from = r->at, *end = r->at + r->bytes;
    weft_status s = WEFT_OK;
    for (int i = 0; i < g->n_spans && !s; i++) {
        const span *at = &g->spans[i];
        if (!is_in(r, at->lo))
            continue;
        if (at->lo > from)
            s = compare(g, run, r, from, at->lo, err);
        from = at->hi > from ? at->hi : from;
        memcpy(r->copy + (at->lo - r->at), at->lo, (size_t)(at->hi - at->lo));
    }
    return s ? s : compare(g, run, r, from, end, err);
}

/* Room to work in first: a result may lie in it. */
static weft_status keep_results(check_memory *g, const weft_instruction_view *in, weft_error *err)
{
    weft_status s = WEFT_OK;
    for (int i = in->n_operands - 1; i >= in->n_ins + in->n_outs && !s; i--)
        s = keep(g, &in->operands[i], err);
    for (int i = in->n_ins; i < in->n_ins + in->n_outs && !s; i++)
        if (in->operands[i].written)
            s = keep(g, &in->operands[i], err);
    return s;
}

weft_status check_memory_after(check_memory *g, const weft_run_view *run, weft_error *err)
{
    const weft_instruction_view *in = run->instruction;
    weft_status s = find_spans(g, in, err);
    for (int i = 0; i < g->n_regions && !s; i++)
        s = check_region(g, run, &g->regions[i], err);
    if (awaits(in) && in->operands[in->n_ins].tensor.data) {
        take(g, in->operands[in->n_ins].tensor.data);
        s = s ? s : check_holder(g, run, &in->operands[in->n_ins], err);
    }
    s = s ? s : keep_results(g, in, err);
    if (in->kind == WEFT_POST_RECV || in->kind == WEFT_FETCH)
        return s ? s : post(g, span_of(&in->operands[in->n_ins]), err);
    for (int i = in->n_ins; i < in->n_ins + in->n_outs && !s; i++) {
        const weft_operand *o = &in->operands[i];
        int64_t element = o->tensor.data ? find_nothing(o) : -1;
        if (element >= 0)
            s = blame_element(run, "did not write", i, element, err);
    }
    return s;
}
