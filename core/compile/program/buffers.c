/* SPDX-License-Identifier: Apache-2.0 */
/* A buffer for every live value: shared where a result may lie where an operand lay. */
#include "base/array.h"
#include "compile/program/compiler.h"
#include "compile/program/pack.h"

#include <string.h>

int weft_compile_add_buffer(weft_compiler *c, weft_buffer b)
{
    weft_lowered *l = c->l;
    weft_buffer *fresh =
        weft_array_push(&l->buffers, &l->n_buffers, &l->buffers_capacity, sizeof *fresh);
    if (!fresh) {
        weft_fail_memory(c->err);
        return -1;
    }
    *fresh = b;
    return l->n_buffers - 1;
}

weft_buffer_class weft_class_between(weft_part made, weft_part read)
{
    if (made == WEFT_PART_F && (read == WEFT_PART_B || read == WEFT_PART_W))
        return WEFT_CLASS_SAVED;
    return made == WEFT_PART_B && read == WEFT_PART_W ? WEFT_CLASS_HELD : WEFT_CLASS_TEMPORARY;
}

static void share(weft_compiler *c, const weft_value *v, int buffer)
{
    weft_buffer *b = &c->l->buffers[buffer];
    c->l->buffer_of[v->id] = buffer;
    if (c->last_use[v->id] > b->last)
        b->last = c->last_use[v->id];
    if (b->kind == WEFT_CLASS_TEMPORARY && weft_node_accumulates(v->node) && v->n_dims > 0)
        b->kind = WEFT_CLASS_GRADIENT;
}

static weft_buffer_class class_of(const weft_compiler *c, const weft_value *v, int first)
{
    if (v->weight)
        return WEFT_CLASS_WEIGHT;
    int last = c->last_use[v->id] < c->n ? c->last_use[v->id] : c->n - 1;
    weft_part made = weft_compiler_part(c, first), used = weft_compiler_part(c, last);
    if (v->node->phase == WEFT_BACKWARD && v->n_dims > 0 &&
        (used > WEFT_PART_W || weft_node_accumulates(v->node)))
        return WEFT_CLASS_GRADIENT;
    return weft_class_between(made, used);
}

/* What a head that is not validated would read, and nothing else does: how it is stored follows
 * from its readers in training. */
static bool is_unread(const weft_graph *g, const weft_value *v)
{
    return g->config.mode != WEFT_MODE_TRAIN && weft_node_is(v->node, WEFT_OP_PARAMETER) &&
           v->n_uses == 0 && !v->fetch;
}

/* e: it in the graph that gives states their places; NULL: it is not there. */
static weft_status fail_stored(weft_compiler *c, const weft_value *v, const weft_state_entry *e)
{
    const char *mode = weft_mode_name(c->g->config.mode), *by = v->node->by;
    weft_text here = {0}, there = {0};
    if (!e)
        return weft_fail(c->err, WEFT_ERR_PLUGIN, WEFT_NOWHERE,
                         "plugin %s: %s of the %s graph is not in the training graph; what a model "
                         "reads is added in every mode",
                         by, v->name, mode);
    weft_value_print_shape(v, &here);
    weft_value_print_shape(e->value, &there);
    weft_status s = weft_fail(c->err, WEFT_ERR_PLUGIN, WEFT_NOWHERE,
                              "plugin %s: in the %s graph there is %s %s, and in training %s %s; "
                              "what a model reads has the same dims and dtype in every mode",
                              by, mode, weft_dtype_name(v->dtype), weft_text_get(&here),
                              weft_dtype_name(e->value->dtype), weft_text_get(&there));
    weft_text_release(&here);
    weft_text_release(&there);
    return s;
}

static weft_status add_source(weft_compiler *c, const weft_value *v)
{
    weft_lowered *l = c->l;
    if (is_unread(c->g, v))
        return WEFT_OK;
    weft_buffer b = {.bytes = weft_nominal_bytes(c->g, v), .first = 0, .last = c->n, .value = v};
    if (weft_node_is(v->node, WEFT_OP_INPUT)) {
        bool micro = v->node->scope == WEFT_MICRO_BATCH;
        int64_t *end = micro ? &l->input_bytes : &l->step_input_bytes;
        b.kind = WEFT_CLASS_INPUT;
        b.base = micro ? WEFT_BASE_INPUT : WEFT_BASE_STEP_INPUT;
        b.offset = *end;
        *end += weft_align(b.bytes, l->alignment);
    } else {
        bool cache = v->kind == WEFT_STATE_CACHE;
        const weft_state_entry *e =
            weft_states_find(cache ? c->options->caches : c->options->states, v->name);
        if (!e || e->bytes != b.bytes || !weft_same_shape(v, e->value))
            return fail_stored(c, v, e);
        b.kind = cache ? WEFT_CLASS_CACHE : WEFT_CLASS_STATE;
        b.base = cache ? WEFT_BASE_CACHE : e->far ? WEFT_BASE_FAR : WEFT_BASE_STATE;
        b.offset = e->offset;
    }
    int i = weft_compile_add_buffer(c, b);
    l->buffer_of[v->id] = i;
    return i < 0 ? WEFT_ERR_MEMORY : WEFT_OK;
}

static bool read_twice(const weft_compiler *c, const weft_node *n, int buffer)
{
    int times = 0;
    for (int i = 0; i < n->n_ins; i++)
        times += c->l->buffer_of[n->ins[i]->id] == buffer;
    return times > 1;
}

/* The parameter or state that v is the next content of, in all steps or in some. */
static const weft_value *becomes(const weft_value *v)
{
    const weft_value *to = v->update_of;
    for (int i = 0; i < v->n_uses && !to; i++)
        if (weft_node_otherwise(v->uses[i].node) == v->uses[i].operand)
            to = becomes(v->uses[i].node->outs[0]);
    return to;
}

/* Result r of n may take operand r's memory: element-wise, and nobody needs the operand (or what
 * shares its memory) any more. State changes in the update alone, which the host may leave out;
 * caches grow whenever they are written. */
static bool in_place(const weft_compiler *c, const weft_node *n, int r, int p)
{
    if (!(n->op->flags & WEFT_OP_INPLACE) || r >= n->n_ins || c->adds[n->id])
        return false;
    const weft_value *from = n->ins[r], *to = n->outs[r];
    int buffer = c->l->buffer_of[from->id];
    if (buffer < 0)
        return false;
    const weft_buffer *b = &c->l->buffers[buffer];
    if (weft_nominal_bytes(c->g, from) != weft_nominal_bytes(c->g, to) ||
        b->bytes != weft_nominal_bytes(c->g, to) || read_twice(c, n, buffer))
        return false;
    if (b->base == WEFT_BASE_CACHE)
        return to->update_of == from && from->n_uses == 1;
    if (b->base == WEFT_BASE_STATE)
        return becomes(to) == b->value && c->last_use[from->id] == p &&
               weft_compiler_part(c, p) == WEFT_PART_UPDATE;
    return b->base == WEFT_BASE_ARENA && b->last == p && !to->update_of &&
           (weft_compiler_part(c, p) != WEFT_PART_W ||
            b->first >= weft_compiler_program(c, p)->from); /* else a B may read it behind this */
}

static weft_status add_result(weft_compiler *c, weft_node *n, int r, int p)
{
    weft_value *v = n->outs[r];
    if (weft_node_is(n, WEFT_OP_EVICT)) { /* it goes where it belongs */
        c->l->buffer_of[v->id] = c->l->buffer_of[v->update_of->id];
        return WEFT_OK;
    }
    if (c->l->buffer_of[v->id] >= 0) { /* an accumulator's, given before */
        share(c, v, c->l->buffer_of[v->id]);
        return WEFT_OK;
    }
    if (in_place(c, n, r, p)) {
        share(c, v, c->l->buffer_of[n->ins[r]->id]);
        return WEFT_OK;
    }
    if (v->update_of &&
        v->update_of->kind == WEFT_STATE_CACHE) /* there is no update that could copy it */
        return weft_fail(c->err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                         "%s cannot be written in place: something else reads %s", v->name,
                         v->update_of->name);
    weft_buffer b = {.base = WEFT_BASE_ARENA,
                     .bytes = weft_nominal_bytes(c->g, v),
                     .first = p,
                     .last = c->last_use[v->id],
                     .kind = class_of(c, v, p),
                     .value = v};
    int i = weft_compile_add_buffer(c, b);
    if (i < 0)
        return WEFT_ERR_MEMORY;
    c->l->buffer_of[v->id] = i;
    return WEFT_OK;
}

/* The accumulator lives from before the first micro-batch on, and is read when all are done; in far
 * memory between them, from where it is fetched on. The chain of sums that grows in it shares it.
 */
static weft_status add_accumulator(weft_compiler *c, weft_node *n)
{
    weft_value *v = n->outs[0];
    int begun = weft_compiler_end(c, WEFT_PART_BEGIN), first = begun > 0 ? begun - 1 : 0;
    const bool comes = n->n_ins > 1;
    weft_buffer b = {.base = WEFT_BASE_ARENA,
                     .bytes = weft_nominal_bytes(c->g, v),
                     .first = comes ? c->position[n->ins[1]->node->id] : first,
                     .last = c->last_use[v->id],
                     .kind = v->n_dims ? WEFT_CLASS_GRADIENT : WEFT_CLASS_TEMPORARY,
                     .value = v};
    const int i = weft_compile_add_buffer(c, b);
    if (i < 0)
        return WEFT_ERR_MEMORY;
    c->l->buffer_of[v->id] = i;
    if (comes)
        c->l->buffer_of[n->ins[1]->id] = i;
    if (!c->fused[n->id])
        return WEFT_OK;
    weft_value *x = n->ins[0];
    while (c->fused[x->node->id] && weft_node_is(x->node, WEFT_OP_ADD)) {
        const int total = weft_compile_total(c, x->node);
        c->l->buffer_of[x->id] = i;
        c->l->buffer_of[x->node->ins[!total]->id] = i;
        x = x->node->ins[total];
    }
    c->l->buffer_of[x->id] = i;
    return WEFT_OK;
}

/* y of a fused add(total, y) lies in the total's memory. */
static void join_totals(weft_compiler *c, const weft_node *n)
{
    const weft_value *y = n->outs[0];
    if (!c->adds[n->id] || c->l->buffer_of[y->id] >= 0 || y->n_uses != 1)
        return;
    const weft_node *add = y->uses[0].node;
    if (weft_node_is(add, WEFT_OP_ADD))
        share(c, y, c->l->buffer_of[add->ins[weft_compile_total(c, add)]->id]);
}

/* Memory that values shared is what its whole life makes it. */
static void classify(weft_compiler *c)
{
    for (int i = 0; i < c->l->n_buffers; i++) {
        weft_buffer *b = &c->l->buffers[i];
        int last = b->last < c->n ? b->last : c->n - 1;
        if (b->kind == WEFT_CLASS_TEMPORARY)
            b->kind =
                weft_class_between(weft_compiler_part(c, b->first), weft_compiler_part(c, last));
    }
}

weft_status weft_compile_buffers(weft_compiler *c)
{
    weft_status s = WEFT_OK;
    for (int p = 0; p < c->n && !s && c->repeats; p++)
        if (weft_node_accumulates(c->order[p]))
            s = add_accumulator(c, c->order[p]);
    for (int p = 0; p < c->n && !s; p++) {
        weft_node *n = c->order[p];
        if (n->n_ins == 0 && (n->op->flags & WEFT_OP_SOURCE)) {
            s = add_source(c, n->outs[0]);
            continue;
        }
        bool alias = c->fused[n->id] || (weft_node_accumulates(n) && !c->repeats);
        if (alias) {
            const int of = n->n_ins == 2 ? weft_compile_total(c, n) : 0;
            if (c->l->buffer_of[n->outs[0]->id] < 0)
                share(c, n->outs[0], c->l->buffer_of[n->ins[of]->id]);
            continue;
        }
        join_totals(c, n);
        for (int r = 0; r < n->n_outs && !s; r++)
            if (weft_layout_held(n->outs[r]->layout, c->l->coord))
                s = add_result(c, n, r, c->position[n->id]);
    }
    classify(c);
    return s;
}

/* ---- the arena: every buffer there is a piece of memory with a lifetime ---- */

weft_status weft_plan_memory(weft_buffer *buffers, int n, int64_t alignment, bool rough,
                             int64_t *arena, int64_t *peak, int *peak_at, weft_error *err)
{
    weft_lifetime *pieces = weft_alloc(((size_t)n + 1) * sizeof *pieces);
    weft_packed packed;
    if (!pieces)
        return weft_fail_memory(err);
    int n_pieces = 0;
    for (int i = 0; i < n; i++)
        if (buffers[i].base == WEFT_BASE_ARENA)
            pieces[n_pieces++] = (weft_lifetime){
                .bytes = buffers[i].bytes, .first = buffers[i].first, .last = buffers[i].last};
    weft_status s = weft_pack(pieces, n_pieces, alignment, rough, &packed, err);
    for (int i = 0, k = 0; i < n && !s; i++)
        if (buffers[i].base == WEFT_BASE_ARENA)
            buffers[i].offset = pieces[k++].offset;
    *arena = packed.bytes;
    *peak = packed.peak;
    *peak_at = packed.peak_at;
    weft_free(pieces);
    return s;
}
