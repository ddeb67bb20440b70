/* SPDX-License-Identifier: Apache-2.0 */
/* What observers of instructions are shown: the plan's own words, and where operands lie. */
#include "base/array.h"
#include "execute/run.h"

int64_t weft_instruction_bytes(const weft_graph *g, const weft_instruction *in)
{
    int64_t bytes = 0;
    for (int i = 0; i < (in->parts ? in->n_ins : 1) && in->kind == WEFT_COLLECTIVE; i++)
        bytes += weft_part_sent_bytes(g, in, i);
    for (int i = 0; i < in->n_ins + in->n_outs && in->kind != WEFT_COLLECTIVE; i++)
        bytes +=
            weft_tensor_count(&in->tensors[i]) * (int64_t)weft_dtype_size(in->tensors[i].dtype);
    return bytes;
}

static const weft_program *program_of(const weft_lowered *l, const weft_instruction *in)
{
    const weft_program *p = l->programs;
    while (in < p->list || in >= p->list + p->n)
        p++;
    return p;
}

weft_status weft_run_operands(weft_run *run, int n, weft_error *err)
{
    return weft_array_reserve(&run->operands, &run->operands_capacity, (size_t)n,
                              sizeof *run->operands, err);
}

/* Operand or result i; room to work in behind them. What is observed is read where it lies; what
 * was received is there by itself. */
static weft_operand describe_operand(const weft_run *run, const weft_lowered *l,
                                     const weft_instruction *in, int i, int64_t micro)
{
    const int n = in->n_ins + in->n_outs, buffer = i < n ? in->buffers[i] : in->workspace;
    const bool result = i >= in->n_ins && i < n;
    const weft_buffer *b = buffer >= 0 ? &l->buffers[buffer] : NULL;
    weft_operand o = {.buffer = buffer, .last = -1};
    o.read = i < in->n_ins ||
             (result &&
              (in->kind == WEFT_OBSERVE || in->kind == WEFT_AWAIT || in->kind == WEFT_ARRIVE)) ||
             (in->accumulate && result && (i == in->n_ins || in->node->op->flags & WEFT_OP_PAIR));
    o.written = i >= in->n_ins && in->kind != WEFT_OBSERVE;
    if (i < n) {
        o.value = result ? weft_instruction_out(in, i - in->n_ins) : weft_instruction_in(in, i);
        o.tensor = in->tensors[i];
        o.bytes = (size_t)weft_tensor_count(&o.tensor) * weft_dtype_size(o.tensor.dtype);
    } else {
        o.bytes = (size_t)b->bytes;
    }
    o.tensor.data = weft_run_address(run, l, buffer, micro);
    if (b && b->base == WEFT_BASE_SLOT && micro > 0)
        o.slot = micro;
    if (b && b->base == WEFT_BASE_ARENA) {
        o.first = b->first;
        o.last = b->last;
    }
    return o;
}

weft_status weft_instruction_describe(weft_run *run, const weft_lowered *l,
                                      const weft_instruction *in, int64_t micro,
                                      weft_instruction_view *view, weft_error *err)
{
    const weft_program *p = program_of(l, in);
    const int n = in->n_ins + in->n_outs + (in->workspace >= 0);
    weft_status s = weft_run_operands(run, n, err);
    for (int i = 0; i < n && !s; i++)
        run->operands[i] = describe_operand(run, l, in, i, micro);
    *view = (weft_instruction_view){.mode = l->graph->config.mode,
                                    .program = weft_part_name(p->part),
                                    .index = (int)(in - p->list),
                                    .n = p->n,
                                    .kind = in->kind,
                                    .nodes = in->parts ? in->parts : &in->node,
                                    .n_nodes = in->parts ? in->n_ins : 1,
                                    .mesh = &l->graph->config.mesh,
                                    .flops = in->flops,
                                    .bytes = weft_instruction_bytes(l->graph, in),
                                    .queue = in->queue,
                                    .position = in->position,
                                    .early = in->early,
                                    .stretch = run->stretch,
                                    .operands = run->operands,
                                    .n_ins = in->n_ins,
                                    .n_outs = in->n_outs,
                                    .n_operands = s ? 0 : n};
    if (in->kind == WEFT_COMPUTE) {
        view->kernel = in->kernel ? in->kernel->name : "plain";
        view->by = in->owner;
    }
    return s;
}

weft_status weft_observe_instruction(weft_run *run, const weft_instruction_view *view,
                                     int64_t micro, weft_event event, weft_error *err)
{
    const weft_run_view outer = run->view; /* of the one that is looked at meanwhile, if any */
    run->view.instruction = view;
    run->view.micro_batch = micro;
    weft_status s = weft_observe(run, event, err);
    run->view.instruction = outer.instruction;
    run->view.micro_batch = outer.instruction ? outer.micro_batch : micro;
    return s;
}

/* Where the host can read it. buffer: where it lies. */
static weft_status take_to_host(weft_run *run, const weft_lowered *l, int buffer, weft_tensor *t,
                                weft_error *err)
{
    const size_t bytes = (size_t)weft_tensor_count(t) * weft_dtype_size(t->dtype);
    const weft_buffer *b = buffer >= 0 ? &l->buffers[buffer] : NULL;
    const bool far = b && b->base == WEFT_BASE_FAR;
    if ((!t->data && !far) || bytes == 0)
        return WEFT_OK;
    if (run->plan->device->host_memory && !far)
        return weft_run_wait(run, err);
    weft_status s = weft_array_reserve(&run->host_copy, &run->host_copy_bytes, bytes, 1, err);
    if (!s)
        s = far ? weft_far_move(run, weft_buffer_offset(l, b, run->view.micro_batch),
                                (int64_t)bytes, run->host_copy, NULL, err)
                : weft_run_download(run, run->host_copy, t->data, bytes, err);
    t->data = run->host_copy;
    return s;
}

weft_status weft_run_value(weft_run *run, weft_mode mode, const weft_value *v, weft_tensor *out,
                           weft_error *err)
{
    const weft_lowered *l = run->plan->lowered[mode];
    const int buffer = l->buffer_of[v->id];
    weft_local_tensor(l->graph, v, l->coord, out);
    out->data = weft_run_address(run, l, buffer, run->view.micro_batch);
    return take_to_host(run, l, buffer, out, err);
}

const weft_graph *weft_run_graph(const weft_run *run, weft_mode mode)
{
    return run->plan->graphs[mode];
}

const weft_value *weft_run_output(const weft_run *run, weft_mode mode)
{
    return run->plan->graphs[mode]->logits;
}

weft_status weft_run_tensor(const weft_run_view *view, int i, weft_tensor *out, weft_error *err)
{
    weft_run *run = view->core;
    const weft_instruction_view *in = view->instruction;
    const int n = in ? in->n_operands : view->n_operands;
    if (i < 0 || i >= n)
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                         "an observer asks for operand %d of %d", i, n);
    const weft_operand *o = &(in ? in->operands : view->operands)[i];
    *out = o->tensor;
    return take_to_host(run, run->plan->lowered[in ? in->mode : WEFT_MODE_TRAIN], o->buffer, out,
                        err);
}
