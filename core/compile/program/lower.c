/* SPDX-License-Identifier: Apache-2.0 */
/* Programs from an ordered graph: the instructions themselves. */
#include "compile/program/lower.h"
#include "base/array.h"
#include "compile/program/compiler.h"
#include "host/enter.h"

#include <string.h>

const weft_value *weft_instruction_in(const weft_instruction *in, int i)
{
    return in->parts ? in->parts[i]->ins[0] : in->node->ins[i];
}

const weft_value *weft_instruction_out(const weft_instruction *in, int i)
{
    return in->parts ? in->parts[i]->outs[0] : in->node->outs[i];
}

void weft_compile_call(const weft_compiler *c, const weft_node *n, bool accumulate,
                       weft_tensor *tensors, weft_call *call)
{
    for (int i = 0; i < n->n_ins; i++)
        weft_local_tensor(c->g, n->ins[i], c->l->coord, &tensors[i]);
    for (int i = 0; i < n->n_outs; i++)
        weft_local_tensor(c->g, n->outs[i], c->l->coord, &tensors[n->n_ins + i]);
    *call = (weft_call){.op = n->op,
                        .attrs = n->attrs,
                        .n_attrs = n->n_attrs,
                        .n_ins = n->n_ins,
                        .n_outs = n->n_outs,
                        .ins = tensors,
                        .outs = tensors + n->n_ins,
                        .accumulate = accumulate};
    weft_kernels_address(c->options->kernels, 0, call);
}

static weft_instruction *append(weft_compiler *c, weft_program *p, int position,
                                weft_instruction_kind kind)
{
    weft_instruction *in = weft_array_push(&p->list, &p->n, &p->capacity, sizeof *in);
    if (!in) {
        weft_fail_memory(c->err);
        return NULL;
    }
    in->kind = kind;
    in->workspace = in->event = -1;
    in->position = position;
    in->every = 1;
    return in;
}

static weft_status fill(weft_compiler *c, weft_instruction *in, const weft_node *n, int n_ins,
                        weft_value *const *ins, int n_outs, weft_value *const *outs)
{
    size_t count = (size_t)(n_ins + n_outs);
    in->node = n;
    in->every = n->every;
    in->n_ins = n_ins;
    in->n_outs = n_outs;
    in->tensors = weft_pool_alloc(&c->l->pool, (count + 1) * sizeof *in->tensors);
    in->buffers = weft_pool_alloc(&c->l->pool, (count + 1) * sizeof *in->buffers);
    if (!in->tensors || !in->buffers)
        return weft_fail_memory(c->err);
    for (int i = 0; i < n_ins + n_outs; i++) {
        const weft_value *v = i < n_ins ? ins[i] : outs[i - n_ins];
        weft_local_tensor(c->g, v, c->l->coord, &in->tensors[i]);
        const int b = in->buffers[i] = c->l->buffer_of[v->id];
        if (b >= 0 && c->l->buffers[b].base == WEFT_BASE_FAR && !weft_node_is_far(n))
            return weft_fail(c->err, WEFT_ERR_PLUGIN, WEFT_NOWHERE,
                             "plugin %s: %s lies in far memory in training, and is read without a "
                             "fetch in the %s graph",
                             v->node->by, v->name, weft_mode_name(c->g->config.mode));
    }
    return WEFT_OK;
}

static weft_status add_workspace(weft_compiler *c, weft_instruction *in, int64_t bytes,
                                 int position)
{
    bool beside = in->kind == WEFT_COLLECTIVE && weft_compile_goes_beside(c, in->node);
    int last = beside ? weft_compile_beside_until(c, in->node) : position;
    if (bytes == 0)
        return WEFT_OK;
    in->workspace = weft_compile_add_buffer(c, (weft_buffer){.base = WEFT_BASE_ARENA,
                                                             .bytes = bytes,
                                                             .first = position,
                                                             .last = last,
                                                             .kind = WEFT_CLASS_WORKSPACE});
    return in->workspace < 0 ? WEFT_ERR_MEMORY : WEFT_OK;
}

/* What it writes is alive since the task before. It moves before what does not begin so. */
static void begin_early(const weft_compiler *c, weft_program *program, weft_instruction *in)
{
    in->early = true;
    for (int i = 0; i < in->n_outs; i++)
        c->l->buffers[in->buffers[in->n_ins + i]].early = true;
    if (in->workspace >= 0)
        c->l->buffers[in->workspace].early = true;
    const weft_instruction early = *in;
    weft_instruction *to = &program->list[program->n_prologue++];
    memmove(to + 1, to, (size_t)(in - to) * sizeof *to);
    *to = early;
}

/* The nodes from order[p] on that run as one with it. */
static weft_status add_collective(weft_compiler *c, weft_instruction *in, int p)
{
    int n = 1;
    while (p + n < c->n && c->position[c->order[p + n]->id] == p)
        n++;
    weft_value **values = weft_pool_alloc(&c->l->pool, 2 * (size_t)n * sizeof(weft_value *));
    if (!values)
        return weft_fail_memory(c->err);
    for (int i = 0; i < n; i++) {
        values[i] = c->order[p + i]->ins[0];
        values[n + i] = c->order[p + i]->outs[0];
        in->fetch = in->fetch || values[n + i]->fetch;
    }
    weft_status s = fill(c, in, c->order[p], n, values, n, values + n);
    if (n > 1 && !s) {
        in->parts = weft_pool_alloc(&c->l->pool, (size_t)n * sizeof *in->parts);
        for (int i = 0; in->parts && i < n; i++)
            in->parts[i] = c->order[p + i];
        s = in->parts ? WEFT_OK : weft_fail_memory(c->err);
    }
    if (s)
        return s;
    int64_t workspace;
    s = weft_compile_exchange(c, in, &workspace);
    return s ? s : add_workspace(c, in, workspace, in->position);
}

/* The sender copies what it sends to places of its own, in turn, which nothing else uses before it
 * is there; so its own memory is free at once. */
static weft_status add_send(weft_compiler *c, weft_instruction *in, weft_node *n)
{
    in->kind = WEFT_POST_SEND;
    weft_status s = fill(c, in, n, 1, n->ins, 0, NULL);
    const int64_t bytes = weft_nominal_bytes(c->g, n->ins[0]),
                  others = weft_part_is_micro(n->part) ? c->l->sending - 1 : 0,
                  all = others * weft_align(bytes, c->l->alignment) + bytes;
    in->workspace = weft_compile_add_buffer(c, (weft_buffer){.base = WEFT_BASE_ARENA,
                                                             .bytes = all,
                                                             .first = 0,
                                                             .last = c->n,
                                                             .kind = WEFT_CLASS_SENT});
    return s ? s : in->workspace < 0 ? WEFT_ERR_MEMORY : WEFT_OK;
}

static bool receives(const weft_compiler *c, const weft_node *n)
{
    return weft_node_shifts(n) || weft_node_is(n, WEFT_OP_FETCH) ||
           (weft_node_sends(n) && !weft_compile_is_sender(c, n));
}

/* Puts the wait for what n reads, if it is received in this program and nobody has waited yet. */
static weft_status add_await(weft_compiler *c, weft_program *program, const weft_node *sent,
                             int position)
{
    if (c->awaited[sent->id])
        return WEFT_OK;
    const bool far = weft_node_is_far(sent);
    weft_instruction *in = append(c, program, position, far ? WEFT_ARRIVE : WEFT_AWAIT);
    if (!in)
        return WEFT_ERR_MEMORY;
    c->awaited[sent->id] = true;
    in->transfer = c->transfer[sent->id];
    in->fetch = sent->outs[0]->fetch;
    return fill(c, in, sent, far || weft_node_shifts(sent), sent->ins, 1, sent->outs);
}

static weft_status add_await_of(weft_compiler *c, weft_program *program, const weft_value *v,
                                int position)
{
    const weft_node *m = v->node;
    bool comes = receives(c, m) && c->position[m->id] >= program->from;
    if (comes && c->position[m->id] > position)
        return weft_fail(c->err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                         "%s is read before it is sent for", v->name);
    return comes ? add_await(c, program, m, position) : WEFT_OK;
}

static weft_status add_awaits(weft_compiler *c, weft_program *program, const weft_node *n,
                              int position)
{
    weft_status s = WEFT_OK;
    for (int i = 0; i < n->n_ins && !s; i++)
        s = add_await_of(c, program, n->ins[i], position);
    const weft_node *sum = c->adds[n->id] ? n->outs[0]->uses[0].node : NULL;
    if (sum && weft_node_is(sum, WEFT_OP_ADD)) /* it adds to what comes */
        s = s ? s : add_await_of(c, program, sum->ins[weft_compile_total(c, sum)], position);
    while (sum && weft_node_is(sum, WEFT_OP_ADD) && c->fused[sum->id] && sum->outs[0]->n_uses)
        sum = sum->outs[0]->uses[0].node;
    if (sum && c->fused[sum->id] && weft_node_accumulates(sum) && sum->n_ins > 1)
        s = s ? s : add_await_of(c, program, sum->ins[1], position);
    return s;
}

/* What other programs read first, or only an observer, is awaited at the end; it comes until then.
 */
static weft_status end_awaits(weft_compiler *c)
{
    weft_status s = WEFT_OK;
    for (int i = 0; i < c->l->n_programs; i++) {
        weft_program *p = &c->l->programs[i];
        for (int at = p->from; at < p->to && !s; at++) {
            const weft_node *n = c->order[at];
            if ((!receives(c, n) && !weft_node_is(n, WEFT_OP_EVICT)) || c->awaited[n->id])
                continue;
            weft_buffer *b = &c->l->buffers[c->l->buffer_of[n->outs[0]->id]];
            b->last = b->last > p->to - 1 ? b->last : p->to - 1;
            s = add_await(c, p, n, p->to - 1);
        }
    }
    return s;
}

static weft_status add_transfer(weft_compiler *c, weft_program *program, weft_instruction *in,
                                weft_node *n)
{
    in->transfer = c->transfer[n->id] = c->l->n_transfers++;
    if (weft_compile_is_sender(c, n))
        return add_send(c, in, n);
    in->kind = WEFT_POST_RECV;
    weft_status s = fill(c, in, n, 0, NULL, 1, n->outs);
    if (!s)
        begin_early(c, program, in);
    return s;
}

/* Sent from where it lies, which nothing else uses before both ways are awaited. */
static weft_status add_shift(weft_compiler *c, weft_program *program, weft_instruction *in,
                             weft_node *n)
{
    in->kind = WEFT_POST_RECV;
    in->transfer = c->transfer[n->id] = c->l->n_transfers++;
    weft_status s = fill(c, in, n, 0, NULL, 1, n->outs);
    in = s ? NULL : append(c, program, in->position, WEFT_POST_SEND);
    if (!in)
        return s ? s : WEFT_ERR_MEMORY;
    in->transfer = c->l->n_transfers++;
    return fill(c, in, n, 1, n->ins, 0, NULL);
}

/* Evictions of other blocks end before one of this block begins. */
static weft_status add_far(weft_compiler *c, weft_program *program, const weft_node *n,
                           int position)
{
    const bool evicts = weft_node_is(n, WEFT_OP_EVICT);
    const bool others = evicts && c->evicting && c->evicting->block != n->block;
    weft_status s = WEFT_OK;
    for (int at = program->from; at < position && others && !s; at++)
        if (weft_node_is(c->order[at], WEFT_OP_EVICT) && c->order[at]->block != n->block)
            s = add_await(c, program, c->order[at], position);
    c->evicting = evicts ? n : c->evicting;
    weft_instruction *in =
        s ? NULL : append(c, program, position, evicts ? WEFT_EVICT : WEFT_FETCH);
    if (!in)
        return s ? s : WEFT_ERR_MEMORY;
    in->transfer = c->transfer[n->id] = c->l->n_transfers++;
    return fill(c, in, n, 1, n->ins, 1, n->outs);
}

/* And gives it what it needs. */
static weft_status choose_kernel(weft_compiler *c, weft_instruction *in, weft_call *call)
{
    const weft_op *op = in->node->op;
    int64_t workspace = 0;
    *call = weft_instruction_call(in, c->options->kernels);
    in->kernel = weft_kernels_find(c->options->kernels, call);
    in->owner = in->kernel ? weft_kernels_owner(c->options->kernels, in->kernel)
                           : weft_ops_owner(c->g->config.ops, op);
    if (!in->kernel && !op->plain)
        return weft_fail(c->err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                         "op '%s' has neither a plain kernel nor one for this device", op->name);
    weft_status s = weft_compile_workspace(c, in, &workspace);
    return s ? s : add_workspace(c, in, workspace, in->position);
}

/* What a kernel says of itself beside its workspace. */
static void say_more(const weft_compiler *c, weft_instruction *in, const weft_call *call)
{
    if (!in->kernel || (!in->kernel->work && !in->kernel->loads))
        return;
    const weft_entry entry = weft_enter_op(in->owner, "work", in->node->op->name, NULL);
    const int64_t bytes = in->kernel->loads ? (int64_t)in->kernel->loads(call) : 0;
    if (in->kernel->work)
        in->work = in->kernel->work(call);
    weft_leave(&entry, WEFT_OK);
    c->l->load_bytes = bytes > c->l->load_bytes ? bytes : c->l->load_bytes;
}

static weft_status add_compute(weft_compiler *c, weft_node *n, int position)
{
    weft_program *program = weft_compiler_program(c, position);
    weft_status waits = WEFT_OK;
    for (int p = position; p < c->n && c->position[c->order[p]->id] == position && !waits; p++)
        waits = add_awaits(c, program, c->order[p], position); /* of all that run as one */
    if (!waits && weft_node_is_far(n))
        return add_far(c, program, n, position);
    weft_instruction *in =
        waits ? NULL : append(c, program, position, n->steps ? WEFT_COLLECTIVE : WEFT_COMPUTE);
    if (!in)
        return waits ? waits : WEFT_ERR_MEMORY;
    if (weft_node_sends(n))
        return add_transfer(c, program, in, n);
    if (weft_node_shifts(n))
        return add_shift(c, program, in, n);
    if (n->steps) {
        weft_status s = add_collective(c, in, position);
        if (!s && c->early[n->id])
            begin_early(c, program, in);
        return s;
    }
    in->accumulate = c->adds[n->id] || (c->repeats && weft_node_accumulates(n));
    const int n_ins = weft_node_accumulates(n) ? 1 : n->n_ins; /* the second is where it adds */
    weft_status s = fill(c, in, n, n_ins, n->ins, n->n_outs, n->outs);
    for (int i = 0; i < n->n_outs; i++)
        in->fetch = in->fetch || (n->outs[i]->fetch && !weft_node_accumulates(n));
    if (s)
        return s;
    weft_call call;
    s = choose_kernel(c, in, &call);
    if (s)
        return s;
    weft_compile_count(c, in, &call, program->part);
    say_more(c, in, &call);
    return WEFT_OK;
}

/* A maximum begins with the least number there is. */
static weft_status add_lowest(weft_compiler *c, weft_instruction *in, const weft_node *n)
{
    weft_node *lowest = weft_pool_alloc(&c->l->pool, sizeof *lowest);
    if (!lowest)
        return weft_fail_memory(c->err);
    *lowest = *n;
    lowest->op = weft_ops_find(c->g->config.ops, "lowest");
    lowest->n_ins = 0;
    lowest->n_attrs = 0;
    in->kind = WEFT_COMPUTE;
    weft_status s = fill(c, in, lowest, 0, NULL, 1, n->outs);
    weft_call call;
    return s ? s : choose_kernel(c, in, &call);
}

/* What totals over micro-batches begin with. */
static weft_status begin_totals(weft_compiler *c)
{
    weft_status s = WEFT_OK;
    weft_program *begin = weft_lowered_program(c->l, WEFT_PART_BEGIN, 0);
    for (int p = 0; p < c->n && !s && c->repeats; p++) {
        weft_node *n = c->order[p];
        if (!weft_node_accumulates(n) || n->n_ins > 1)
            continue;
        weft_instruction *in = append(c, begin, begin->to > 0 ? begin->to - 1 : 0, WEFT_ZERO_FILL);
        if (!in)
            return WEFT_ERR_MEMORY;
        s = n->op->flags & WEFT_OP_MAX ? add_lowest(c, in, n) : fill(c, in, n, 0, NULL, 1, n->outs);
    }
    return s;
}

/* Totals over micro-batches that observers want are whole when the last micro-batch is done. */
static weft_status add_observations(weft_compiler *c)
{
    weft_status s = WEFT_OK;
    for (int p = 0; p < c->n && !s; p++) {
        weft_node *n = c->order[p];
        if (!weft_node_accumulates(n) || !n->outs[0]->fetch)
            continue;
        weft_buffer *b = &c->l->buffers[c->l->buffer_of[n->outs[0]->id]];
        int end = weft_compiler_end(c, WEFT_PART_W);
        b->last = b->last > end ? b->last : end;
        weft_program *step_end = weft_lowered_program(c->l, WEFT_PART_STEP_END, 0);
        weft_instruction *in = append(c, step_end, end, WEFT_OBSERVE);
        if (!in)
            return WEFT_ERR_MEMORY;
        in->fetch = true;
        s = fill(c, in, n, 0, NULL, 1, n->outs);
    }
    return s;
}

static weft_status add_copy(weft_compiler *c, weft_value *v)
{
    weft_program *update = weft_lowered_program(c->l, WEFT_PART_UPDATE, 0);
    weft_instruction *in = append(c, update, c->n, WEFT_COPY);
    if (!in)
        return WEFT_ERR_MEMORY;
    weft_status s = fill(c, in, v->node, 1, &v, 1, &v->update_of);
    in->every = weft_value_every(v);
    return s;
}

/* In the steps in which n does not run its result is an operand, where it does not lie there. */
static weft_status add_otherwise(weft_compiler *c, weft_node *n, int position)
{
    const int kept = weft_node_otherwise(n);
    if (kept < 0 || c->l->buffer_of[n->ins[kept]->id] == c->l->buffer_of[n->outs[0]->id])
        return WEFT_OK;
    weft_instruction *in = append(c, weft_compiler_program(c, position), position, WEFT_COPY);
    if (!in)
        return WEFT_ERR_MEMORY;
    weft_status s = fill(c, in, n, 1, &n->ins[kept], 1, n->outs);
    in->every = -n->every;
    return s;
}

/* The next contents that are not where they belong yet. */
static int find_copies(const weft_compiler *c, weft_value **list)
{
    int n = 0;
    for (int p = 0; p < c->n; p++)
        for (int r = 0; r < c->order[p]->n_outs; r++) {
            weft_value *v = c->order[p]->outs[r], *to = v->update_of;
            if (to && c->l->buffer_of[v->id] != c->l->buffer_of[to->id])
                list[n++] = v;
        }
    return n;
}

/* What could not be updated in place is copied at the very end; a state that goes elsewhere itself,
 * before it is overwritten. */
static weft_status add_copies(weft_compiler *c)
{
    size_t n_values = (size_t)c->g->n_values + 1;
    weft_value **list = weft_pool_alloc(&c->pool, n_values * sizeof *list);
    bool *leaves = weft_pool_alloc(
        &c->pool, n_values * sizeof *leaves); /* by value id: has still to be copied */
    weft_status s = c->pool.out_of_memory ? weft_fail_memory(c->err) : WEFT_OK;
    int n = s ? 0 : find_copies(c, list);
    for (int i = 0; i < n; i++)
        leaves[list[i]->id] = true;
    while (n > 0 && !s) {
        int left = 0;
        for (int i = 0; i < n && !s; i++) {
            if (leaves[list[i]->update_of->id]) {
                list[left++] = list[i];
                continue;
            }
            leaves[list[i]->id] = false;
            s = add_copy(c, list[i]);
        }
        if (left == n && !s)
            s = weft_fail(c->err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                          "%s and %s would become each other; put a node between them",
                          list[0]->name, list[0]->update_of->name);
        n = left;
    }
    return s;
}

/* The arena is at most as large as all buffers side by side: sums of sizes cannot overflow behind
 * this. */
static weft_status check_total(const weft_compiler *c)
{
    const weft_lowered *l = c->l;
    int64_t total = l->step_input_bytes;
    if (l->inputs.n > 0 && l->input_bytes > WEFT_MAX_BYTES / l->inputs.n)
        total = WEFT_MAX_BYTES + 1;
    for (int i = 0; i < l->n_buffers && total <= WEFT_MAX_BYTES; i++)
        total += l->buffers[i].base == WEFT_BASE_ARENA ? l->buffers[i].bytes + l->alignment : 0;
    if (total <= WEFT_MAX_BYTES)
        return WEFT_OK;
    const weft_buffer *largest = NULL;
    for (int i = 0; i < l->n_buffers; i++)
        if (l->buffers[i].value && (!largest || l->buffers[i].bytes > largest->bytes))
            largest = &l->buffers[i];
    weft_text shape = {0};
    if (largest)
        weft_value_print_shape(largest->value, &shape);
    weft_status s = weft_fail(
        c->err, WEFT_ERR_INPUT, WEFT_NOWHERE,
        "the values of a step are more than 2^60 bytes; choose smaller sizes; the largest is %s",
        weft_text_get(&shape));
    weft_text_release(&shape);
    return s;
}

/* Could b lie where o lies, of one size, if o went away? */
static bool fits_at(const weft_lowered *l, const weft_buffer *b, const weft_buffer *o)
{
    for (const weft_buffer *x = l->buffers; x < l->buffers + l->n_buffers; x++)
        if (x != b && x != o && x->base == WEFT_BASE_ARENA && x->first <= b->last &&
            b->first <= x->last && x->offset < o->offset + b->bytes &&
            o->offset < x->offset + x->bytes)
            return false;
    return true;
}

static bool change_places(const weft_lowered *l, weft_buffer *a, weft_buffer *b)
{
    const int64_t offset = a->offset;
    const bool can = a->base == WEFT_BASE_ARENA && b->base == WEFT_BASE_ARENA &&
                     a->bytes == b->bytes && fits_at(l, a, b) && fits_at(l, b, a);
    a->offset = can ? b->offset : offset;
    b->offset = can ? offset : b->offset;
    return can;
}

/* x v w -> y z: y lies before z where v lies before w, if results or operands can change places. */
static void order_pair(const weft_lowered *l, const weft_instruction *in)
{
    weft_buffer *of[5];
    bool pair = weft_node_is(in->node, WEFT_OP_PAIR) && in->n_ins == 3 && in->n_outs == 2;
    for (int i = 0; i < 5 && pair; i++) {
        pair = in->buffers[i] >= 0;
        of[i] = l->buffers + in->buffers[i];
    }
    if (pair && (of[1]->offset < of[2]->offset) != (of[3]->offset < of[4]->offset) &&
        !change_places(l, of[3], of[4]))
        change_places(l, of[1], of[2]);
}

static weft_status build(weft_compiler *c)
{
    weft_status s = weft_compile_order(c);
    s = s ? s : weft_compile_fuse(c);
    s = s ? s : weft_compile_buffers(c);
    s = s ? s : add_observations(c);
    for (int p = 0; p < c->n && !s; p++) {
        weft_node *n = c->order[p];
        if (c->fused[n->id] || (n->n_ins == 0 && (n->op->flags & WEFT_OP_SOURCE)) ||
            (!c->repeats && weft_node_accumulates(n)) ||
            c->position[n->id] != p) /* runs as one with an earlier one */
            continue;
        s = add_compute(c, n, p);
        s = s ? s : add_otherwise(c, n, p);
    }
    s = s ? s : end_awaits(c);
    weft_compile_find_product_dtype(c);
    s = s ? s : begin_totals(c);
    s = s ? s : add_copies(c);
    weft_lowered *l = c->l;
    l->n_positions = c->n;
    s = s ? s : weft_compile_variants(c);
    s = s ? s : weft_compile_slots(c);
    s = s ? s : weft_compile_alike(c);
    s = s ? s : check_total(c);
    s = s ? s
          : weft_plan_memory(l->buffers, l->n_buffers, l->alignment, c->options->rough,
                             &l->arena_bytes, &l->live_peak, &l->peak_position, c->err);
    for (int i = 0; i < l->n_programs && !s; i++)
        for (int k = 0; k < l->programs[i].n; k++)
            order_pair(l, &l->programs[i].list[k]);
    s = s ? s : weft_plan_waits(l, c->options->n_queues, c->options->adversary, c->err);
    if (s || !c->options->kernels->device->record) /* all is done when it is told */
        return s;
    return weft_plan_boundaries(l, c->options->n_queues, c->err);
}

/* What lies far is moved without a copy; unless it is so little that pages would take more. */
static int64_t alignment_of(const weft_graph *g, const weft_device *device)
{
    const int64_t own = weft_device_alignment(device);
    int64_t least = 0;
    for (const weft_node *n = g->first; n; n = n->next) {
        const int64_t bytes = weft_node_is_far(n) ? weft_nominal_bytes(g, n->outs[0]) : 0;
        least = bytes && (!least || bytes < least) ? bytes : least;
    }
    return least >= 16 * WEFT_FAR_ALIGNMENT && own < WEFT_FAR_ALIGNMENT ? WEFT_FAR_ALIGNMENT : own;
}

weft_status weft_lower(weft_graph *g, const weft_lower_options *options, weft_lowered **out,
                       weft_error *err)
{
    weft_lowered *l = weft_alloc_zero(1, sizeof *l);
    *out = l;
    if (!l)
        return weft_fail_memory(err);
    l->graph = g;
    l->tasks = options->tasks;
    l->sending = options->sending ? options->sending : 1;
    l->alignment = alignment_of(g, options->kernels->device);
    weft_mesh_coord(&g->config.mesh, options->rank, l->coord);
    size_t nodes = (size_t)g->n_nodes + 1, values = (size_t)g->n_values + 1;
    weft_compiler c = {.l = l, .g = g, .options = options, .err = err};
    c.repeats = g->config.mode != WEFT_MODE_TRAIN || g->config.sizes.micro_batches > 1;
    c.order = weft_pool_alloc(&c.pool, nodes * sizeof *c.order);
    c.position = weft_pool_alloc(&c.pool, nodes * sizeof *c.position);
    c.stage = weft_pool_alloc(&c.pool, nodes * sizeof *c.stage);
    c.transfer = weft_pool_alloc(&c.pool, nodes * sizeof *c.transfer);
    c.awaited = weft_pool_alloc(&c.pool, nodes * sizeof *c.awaited);
    c.fused = weft_pool_alloc(&c.pool, nodes * sizeof *c.fused);
    c.early = weft_pool_alloc(&c.pool, nodes * sizeof *c.early);
    c.adds = weft_pool_alloc(&c.pool, nodes * sizeof *c.adds);
    c.last_use = weft_pool_alloc(&c.pool, values * sizeof *c.last_use);
    c.root = weft_pool_alloc(&c.pool, values * sizeof *c.root);
    l->buffer_of = weft_pool_alloc(&l->pool, values * sizeof *l->buffer_of);
    weft_status s = c.pool.out_of_memory || l->pool.out_of_memory ? weft_fail_memory(err) : WEFT_OK;
    for (size_t i = 0; !s && i < values; i++)
        l->buffer_of[i] = -1;
    s = s ? s : build(&c);
    weft_pool_release(&c.pool);
    if (s) {
        weft_lowered_destroy(l);
        *out = NULL;
    }
    return s;
}

void weft_lowered_destroy(weft_lowered *l)
{
    if (!l)
        return;
    for (int i = 0; i < l->n_programs + l->n_variants; i++)
        weft_free(l->programs[i].list);
    weft_free(l->programs);
    weft_free(l->buffers);
    weft_free(l->boundaries);
    weft_pool_release(&l->pool);
    weft_free(l);
}

weft_program *weft_lowered_program(const weft_lowered *l, weft_part part, int stage)
{
    for (int i = 0; i < l->n_programs; i++)
        if (l->programs[i].part == part && l->programs[i].stage == stage)
            return &l->programs[i];
    return NULL;
}

int weft_lowered_first_stage(const weft_lowered *l)
{
    int i = 0;
    while (l->programs[i].part != WEFT_PART_F)
        i++;
    return l->programs[i].stage;
}
