/* SPDX-License-Identifier: Apache-2.0 */
/* [weft] check = memory. A copy of all memory is kept. After each instruction everything but its
 * results must still be as in the copy. Memory that holds nothing is filled with a pattern, a NaN
 * that no computation makes: results that were not written and operands that nobody wrote show it.
 * Of each line of the arena it is kept what was written there last: an operand must lie there
 * still, whatever the plan says about how long it does. */
#include "execute/run.h"

#include <string.h>

enum { NOTHING = 0xff };

typedef struct region {
    const char *name;
    char *at, *copy;
    size_t bytes; /* with the guard behind */
} region;

enum { ARENA, STATE, INPUTS, STEP_INPUTS, CACHE, REGIONS };

/* A piece of memory that an instruction may write. */
typedef struct span {
    char *lo, *hi;
} span;

/* What lies in a line of the arena, which is as long as buffers are aligned. */
typedef struct holder {
    int buffer;    /* -1: nothing that may be read */
    int64_t micro; /* of what lies in slots */
} holder;

struct weft_guard {
    region regions[REGIONS];
    holder *holders;
    size_t line;
    const weft_lowered *l; /* whose values the arena holds */
    span *posted;          /* what is being received: it changes at any time */
    int n_posted, posted_capacity;
    int position;  /* of the last instruction */
    bool in_order; /* else liveness says nothing about what is alive now */
};

weft_status weft_guard_create(weft_run *run, weft_error *err)
{
    const weft_plan *plan = run->plan;
    if (!plan->device->host_memory || weft_device_is_async(plan))
        return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(plan->weft, "check"),
                         "[weft] check = memory needs a device that computes at once and whose "
                         "memory the host can read, as cpu; %s is none",
                         plan->device->name);
    struct weft_guard *g = run->guard = weft_alloc_zero(1, sizeof *g);
    if (!g)
        return weft_fail_memory(err);
    g->in_order = weft_device_adversary(plan) == 0;
    const region regions[REGIONS] = {
        {"arena", run->arena, NULL, run->arena_bytes},
        {"state", run->state, NULL, (size_t)plan->states.bytes},
        {"inputs", run->inputs, NULL, run->inputs_bytes},
        {"step inputs", run->step_inputs, NULL, run->step_inputs_bytes},
        {"key-value cache", run->cache, NULL, (size_t)plan->caches.bytes}};
    for (int i = 0; i < REGIONS; i++) {
        region *r = &g->regions[i];
        *r = regions[i];
        if (!r->at)
            continue;
        memset(r->at + r->bytes, NOTHING, WEFT_GUARD_BYTES);
        r->bytes += WEFT_GUARD_BYTES;
        if (!(r->copy = weft_alloc(r->bytes)))
            return weft_fail_memory(err);
    }
    g->line = (size_t)weft_device_alignment(plan->device);
    g->holders = weft_alloc((g->regions[ARENA].bytes / g->line + 1) * sizeof *g->holders);
    return g->holders ? WEFT_OK : weft_fail_memory(err);
}

void weft_guard_destroy(weft_run *run)
{
    for (int i = 0; run->guard && i < REGIONS; i++)
        weft_free(run->guard->regions[i].copy);
    if (run->guard) {
        weft_free(run->guard->posted);
        weft_free(run->guard->holders);
    }
    weft_free(run->guard);
    run->guard = NULL;
}

/* ---- what lies where ---- */

static void hold(struct weft_guard *g, size_t offset, size_t bytes, holder h)
{
    for (size_t i = offset / g->line; i * g->line < offset + bytes; i++)
        g->holders[i] = h;
}

static void forget(struct weft_guard *g, size_t offset, size_t bytes)
{
    memset(g->regions[ARENA].at + offset, NOTHING, bytes);
    memset(g->regions[ARENA].copy + offset, NOTHING, bytes);
    hold(g, offset, bytes, (holder){-1, 0});
}

static bool is_in_arena(const weft_buffer *b)
{
    return b->base == WEFT_BASE_ARENA || b->base == WEFT_BASE_SLOT;
}

/* workspace: what an instruction leaves there is for nobody. */
static void hold_buffer(struct weft_guard *g, int buffer, size_t bytes, int64_t micro,
                        bool workspace)
{
    const weft_buffer *b = &g->l->buffers[buffer];
    const holder h = {workspace ? -1 : buffer, b->base == WEFT_BASE_SLOT && micro > 0 ? micro : 0};
    if (is_in_arena(b))
        hold(g, (size_t)weft_buffer_offset(g->l, b, micro), bytes, h);
}

/* What else than the buffer's value lies in its memory; NULL: nothing. */
static const holder *find_other(const struct weft_guard *g, int buffer, size_t bytes, int64_t micro)
{
    const weft_buffer *b = &g->l->buffers[buffer];
    if (!is_in_arena(b))
        return NULL;
    const size_t offset = (size_t)weft_buffer_offset(g->l, b, micro);
    const int64_t of = b->base == WEFT_BASE_SLOT && micro > 0 ? micro : 0;
    for (size_t i = offset / g->line; i * g->line < offset + bytes; i++) {
        const holder *h = &g->holders[i];
        if (h->buffer != buffer || h->micro != of)
            return h;
    }
    return NULL;
}

void weft_guard_begin(weft_run *run, const weft_lowered *l)
{
    struct weft_guard *g = run->guard;
    if (g->l != l)
        forget(g, 0, g->regions[ARENA].bytes);
    if (g->l != l)
        g->position = -1;
    g->l = l;
    for (int i = STATE; i < REGIONS; i++) /* the host has written there */
        if (g->regions[i].at)
            memcpy(g->regions[i].copy, g->regions[i].at, g->regions[i].bytes);
}

/* ---- before ---- */

static bool alive(const weft_buffer *b, int position)
{
    return b->base == WEFT_BASE_ARENA && b->first <= position && position <= b->last;
}

/* What was alive at the last instruction and is not any more holds nothing now. */
static void bury(struct weft_guard *g, int position)
{
    for (int i = 0; i < g->l->n_buffers; i++) {
        const weft_buffer *b = &g->l->buffers[i];
        if (alive(b, g->position) && !alive(b, position))
            forget(g, (size_t)b->offset, (size_t)b->bytes);
    }
    g->position = position;
}

void weft_guard_enter(weft_run *run, const weft_lowered *l, const weft_task *task)
{
    const weft_program *p = weft_lowered_program(l, task->part, task->stage);
    if (!run->guard || p->from == p->to)
        return;
    weft_guard_begin(run, l);
    if (run->guard->in_order)
        bury(run->guard, p->from);
}

static size_t tensor_bytes(const weft_tensor *t)
{
    return (size_t)weft_tensor_count(t) * weft_dtype_size(t->dtype);
}

/* The first element that holds the pattern; -1: none, or in this dtype it would be a number like
 * others. */
static int64_t find_nothing(const weft_tensor *t, const void *data)
{
    bool seen = weft_dtype_is_float(t->dtype) && !weft_dtype_is_f8(t->dtype);
    int64_t n = seen ? weft_tensor_count(t) : 0, i = 0;
    switch (weft_dtype_size(t->dtype)) {
    case 2:
        while (i < n && ((const uint16_t *)data)[i] != UINT16_MAX)
            i++;
        break;
    case 4:
        while (i < n && ((const uint32_t *)data)[i] != UINT32_MAX)
            i++;
        break;
    default:
        while (i < n && ((const uint64_t *)data)[i] != UINT64_MAX)
            i++;
    }
    return i < n ? i : -1;
}

static weft_status blame(const weft_run *run, const weft_instruction *in, weft_error *err,
                         const char *what)
{
    const weft_node *n = in->node;
    return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                     "[weft] check = memory: kernel %s of %s, in %s = %s%s, step %lld, %s",
                     in->kernel ? in->kernel->name : "plain", in->owner ? in->owner : "core",
                     n->n_outs ? n->outs[0]->name : "?", n->op->name,
                     weft_block_describe(", ", n->block).text, (long long)run->view.step, what);
}

static weft_status blame_element(const weft_run *run, const weft_instruction *in, const char *what,
                                 int tensor, int64_t element, weft_error *err)
{
    bool operand = tensor < in->n_ins;
    char *text = weft_format("%s element %lld of %s %d", what, (long long)element,
                             operand ? "operand" : "result", operand ? tensor : tensor - in->n_ins);
    weft_status s = text ? blame(run, in, err, text) : weft_fail_memory(err);
    weft_free(text);
    return s;
}

/* Is operand or result i what was written there last? */
static weft_status check_holder(const weft_run *run, const weft_instruction *in, int i,
                                int64_t micro, weft_error *err)
{
    const struct weft_guard *g = run->guard;
    const holder *h = find_other(g, in->buffers[i], tensor_bytes(&in->tensors[i]), micro);
    if (!h)
        return WEFT_OK;
    const weft_value *mine = g->l->buffers[in->buffers[i]].value;
    const weft_value *other = h->buffer >= 0 ? g->l->buffers[h->buffer].value : NULL;
    char *text = weft_format("reads %s, in whose memory there is %s", mine ? mine->name : "a value",
                             h->buffer < 0                 ? "nothing that was kept"
                             : h->buffer == in->buffers[i] ? "that of another micro-batch"
                             : other                       ? other->name
                                                           : "another value");
    weft_status s = text ? blame(run, in, err, text) : weft_fail_memory(err);
    weft_free(text);
    return s;
}

static bool is_operand(const weft_instruction *in, int buffer)
{
    for (int i = 0; i < in->n_ins; i++)
        if (in->buffers[i] == buffer)
            return true;
    return false;
}

/* An observed value is read where it lies; what was received is there by itself. */
static bool is_read(const weft_instruction *in, int tensor)
{
    return tensor < in->n_ins || in->kind == WEFT_OBSERVE || in->kind == WEFT_AWAIT ||
           (in->accumulate && tensor == in->n_ins);
}

weft_status weft_guard_before(weft_run *run, const weft_lowered *l, const weft_instruction *in,
                              int64_t micro, weft_error *err)
{
    struct weft_guard *g = run->guard;
    if (g->in_order && !in->early) /* which runs ahead of its program */
        bury(g, in->position);
    for (int i = 0; i < in->n_ins + in->n_outs && in->kind != WEFT_AWAIT; i++) {
        const weft_tensor *t = &in->tensors[i];
        char *at = weft_run_address(run, l, in->buffers[i], micro);
        int64_t element;
        if (!at) /* another stage's */
            continue;
        if (is_read(in, i) && (element = find_nothing(t, at)) >= 0)
            return blame_element(run, in, "reads what nobody wrote:", i, element, err);
        weft_status s = is_read(in, i) ? check_holder(run, in, i, micro, err) : WEFT_OK;
        if (s)
            return s;
        if (!is_read(in, i) && !is_operand(in, in->buffers[i]))
            memset(at, NOTHING, tensor_bytes(t));
    }
    return WEFT_OK;
}

/* ---- after ---- */

/* Keeps the spans in order of address. */
static int add_span(span *spans, int n, span s)
{
    int k = n++;
    for (; k > 0 && spans[k - 1].lo > s.lo; k--)
        spans[k] = spans[k - 1];
    spans[k] = s;
    return n;
}

/* Where it may have written, in order of address. */
static int find_spans(weft_run *run, const weft_lowered *l, const weft_instruction *in,
                      int64_t micro, span *spans)
{
    int n = 0;
    for (int i = 0; i < run->guard->n_posted; i++)
        n = add_span(spans, n, run->guard->posted[i]);
    for (int i = in->n_ins; i <= in->n_ins + in->n_outs; i++) {
        bool workspace = i == in->n_ins + in->n_outs;
        int buffer = workspace ? in->workspace : in->buffers[i];
        if (buffer < 0 || in->kind == WEFT_OBSERVE)
            continue;
        char *at = weft_run_address(run, l, buffer, micro);
        size_t bytes = workspace ? (size_t)l->buffers[buffer].bytes : tensor_bytes(&in->tensors[i]);
        n = add_span(spans, n, (span){at, at + bytes});
    }
    return n;
}

static weft_status post(struct weft_guard *g, span s, weft_error *err)
{
    if (g->n_posted == g->posted_capacity) {
        int more = 2 * g->posted_capacity + 8;
        span *fresh = weft_realloc(g->posted, (size_t)more * sizeof *fresh);
        if (!fresh)
            return weft_fail_memory(err);
        g->posted = fresh;
        g->posted_capacity = more;
    }
    g->posted[g->n_posted++] = s;
    return WEFT_OK;
}

static void take(struct weft_guard *g, const char *lo)
{
    int i = 0;
    while (i < g->n_posted && g->posted[i].lo != lo)
        i++;
    if (i < g->n_posted)
        g->posted[i] = g->posted[--g->n_posted];
}

static const char *owner_of(const struct weft_guard *g, const region *r, size_t offset,
                            int position)
{
    if (offset >= r->bytes - WEFT_GUARD_BYTES)
        return "nothing, behind its end";
    for (int i = 0; r == &g->regions[ARENA] && i < g->l->n_buffers; i++) {
        const weft_buffer *b = &g->l->buffers[i];
        if (alive(b, position) && (int64_t)offset >= b->offset &&
            (int64_t)offset < b->offset + b->bytes)
            return b->value ? b->value->name : "a workspace";
    }
    return r == &g->regions[ARENA] ? "nothing" : "what is not its to write";
}

static weft_status compare(const weft_run *run, const weft_instruction *in, const region *r,
                           const char *lo, const char *hi, weft_error *err)
{
    size_t offset = (size_t)(lo - r->at), bytes = (size_t)(hi - lo);
    if (memcmp(lo, r->copy + offset, bytes) == 0)
        return WEFT_OK;
    while (r->at[offset] == r->copy[offset])
        offset++;
    char *what = weft_format("wrote outside its results: byte %zu of the %s, where there is %s",
                             offset, r->name, owner_of(run->guard, r, offset, in->position));
    weft_status s = what ? blame(run, in, err, what) : weft_fail_memory(err);
    weft_free(what);
    return s;
}

static weft_status check_region(const weft_run *run, const weft_instruction *in, region *r,
                                const span *spans, int n, weft_error *err)
{
    const char *from = r->at, *end = r->at + r->bytes;
    weft_status s = WEFT_OK;
    for (int i = 0; i < n && !s; i++) {
        if (spans[i].lo < r->at || spans[i].lo >= end)
            continue;
        if (spans[i].lo > from)
            s = compare(run, in, r, from, spans[i].lo, err);
        from = spans[i].hi > from ? spans[i].hi : from;
        memcpy(r->copy + (spans[i].lo - r->at), spans[i].lo, (size_t)(spans[i].hi - spans[i].lo));
    }
    return s ? s : compare(run, in, r, from, end, err);
}

static void keep_holders(struct weft_guard *g, const weft_instruction *in, int64_t micro)
{
    if (in->workspace >= 0)
        hold_buffer(g, in->workspace, (size_t)g->l->buffers[in->workspace].bytes, micro, true);
    for (int i = in->n_ins; i < in->n_ins + in->n_outs && in->kind != WEFT_OBSERVE; i++)
        if (in->buffers[i] >= 0)
            hold_buffer(g, in->buffers[i], tensor_bytes(&in->tensors[i]), micro, false);
}

weft_status weft_guard_after(weft_run *run, const weft_lowered *l, const weft_instruction *in,
                             int64_t micro, weft_error *err)
{
    struct weft_guard *g = run->guard;
    span *spans =
        weft_alloc(((size_t)(in->n_outs + g->n_posted) + 1) * sizeof *spans); /* a workspace, too */
    int n = spans ? find_spans(run, l, in, micro, spans) : 0;
    weft_status s = spans ? WEFT_OK : weft_fail_memory(err);
    for (int i = 0; i < REGIONS && !s; i++)
        if (g->regions[i].at)
            s = check_region(run, in, &g->regions[i], spans, n, err);
    weft_free(spans);
    const int place = in->kind == WEFT_AWAIT ? in->n_ins : 0;
    char *first = weft_run_address(run, l, in->buffers[place], micro);
    if (in->kind == WEFT_AWAIT) {
        take(g, first);
        s = s ? s : check_holder(run, in, place, micro, err);
    }
    keep_holders(g, in, micro);
    if (in->kind == WEFT_POST_RECV)
        return s ? s : post(g, (span){first, first + tensor_bytes(&in->tensors[0])}, err);
    for (int i = in->n_ins; i < in->n_ins + in->n_outs && !s; i++) {
        int64_t element =
            find_nothing(&in->tensors[i], weft_run_address(run, l, in->buffers[i], micro));
        if (element >= 0)
            s = blame_element(run, in, "did not write", i, element, err);
    }
    return s;
}
