/* SPDX-License-Identifier: Apache-2.0 */
/* Running programs: every operand is (base, offset), every kernel was chosen and prepared before.
 */
#include "execute/run.h"
#include "host/enter.h"

#include <weft/random.h>

void *weft_run_address(const weft_run *run, const weft_lowered *l, int buffer, int64_t micro)
{
    if (buffer < 0) /* held by another stage, or none */
        return NULL;
    const weft_buffer *b = &l->buffers[buffer];
    const int64_t at = weft_buffer_offset(l, b, micro);
    switch (b->base) {
    case WEFT_BASE_ARENA:
    case WEFT_BASE_SLOT:
        return (char *)run->arena + at;
    case WEFT_BASE_STATE:
        return (char *)run->state + at;
    case WEFT_BASE_INPUT:
        return (char *)run->inputs + at;
    case WEFT_BASE_STEP_INPUT:
        return (char *)run->step_inputs + at;
    case WEFT_BASE_CACHE:
        return (char *)run->cache + at;
    case WEFT_BASE_FAR:
        return run->far_memory ? run->far_memory + at : NULL;
    default:
        return NULL;
    }
}

/* from NULL: zeros. */
static weft_status move_all(const weft_run *run, const weft_instruction *in, void *to,
                            const void *from, size_t bytes, weft_error *err)
{
    const weft_box box = weft_box_of(to, from, (int64_t)bytes);
    const weft_node *n = in->node;
    weft_status s = weft_device_move(run->plan, in->queue, &box, 1, err);
    if (s && n)
        weft_fail(err, s, WEFT_NOWHERE, "in %s = %s, %s%s, step %lld",
                  n->n_outs ? n->outs[0]->name : "?", n->op->name, from ? "copied" : "zeroed",
                  weft_block_describe(", ", n->block).text, (long long)run->view.step);
    return s;
}

static weft_status launch(weft_run *run, const weft_lowered *l, const weft_instruction *in,
                          int64_t micro, weft_error *err)
{
    weft_tensor *t = in->tensors;
    for (int i = 0; i < in->n_ins + in->n_outs; i++)
        t[i].data = weft_run_address(run, l, in->buffers[i], micro);
    const weft_tensor *first = in->n_outs ? &t[in->n_ins] : t;
    size_t bytes = (size_t)weft_tensor_count(first) * weft_dtype_size(first->dtype);
    switch (in->kind) {
    case WEFT_ZERO_FILL:
        return move_all(run, in, t[0].data, NULL, bytes, err);
    case WEFT_COPY:
        return move_all(run, in, t[1].data, t[0].data, bytes, err);
    case WEFT_OBSERVE:
        return WEFT_OK;
    case WEFT_COLLECTIVE:
        return weft_collective(run, in, weft_run_address(run, l, in->workspace, micro), err);
    case WEFT_POST_SEND:
        return weft_transfer_send(run, l, in, bytes, weft_run_address(run, l, in->workspace, micro),
                                  err);
    case WEFT_POST_RECV:
        return weft_transfer_recv(run, l, in, err);
    case WEFT_FETCH:
    case WEFT_EVICT:
        if (in->kind == WEFT_FETCH && weft_transfer_is_zero(run, l, in))
            return move_all(run, in, first->data, NULL, bytes, err);
        return run->far_memory ? weft_far_copy(run, in, bytes, err)
                               : weft_transfer_far(run, l, in, err);
    case WEFT_AWAIT:
    case WEFT_ARRIVE:
        return weft_transfer_await(run, l, in, err);
    case WEFT_COMPUTE:
        break;
    }
    weft_call call = in->call;
    if (in->workspace >= 0) {
        call.workspace = weft_run_address(run, l, in->workspace, micro);
        call.workspace_bytes = (size_t)l->buffers[in->workspace].bytes;
    }
    if (!in->kernel && (run->streams || !run->plan->device->host_memory))
        return weft_run_staged(run, &call, in->owner, err);
    const weft_entry entry =
        weft_enter_op(in->owner, in->kernel ? "launch" : "plain", call.op->name, err);
    weft_status s = weft_leave(&entry, in->kernel ? in->kernel->launch(&call, err)
                                                  : call.op->plain(&call, err));
    if (s)
        weft_fail(err, s, WEFT_NOWHERE, "in %s = %s%s, step %lld",
                  in->node->n_outs ? in->node->outs[0]->name : "?", in->node->op->name,
                  weft_block_describe(", ", in->node->block).text, (long long)run->view.step);
    return s;
}

static weft_status launch_shown(weft_run *run, const weft_lowered *l, const weft_instruction *in,
                                int64_t micro, weft_error *err)
{
    weft_instruction_view view;
    double began = 0;
    weft_status s = weft_instruction_describe(run, l, in, micro, &view, err);
    s = s ? s : weft_observe_instruction(run, &view, micro, WEFT_EVENT_INSTRUCTION_BEGIN, err);
    s = s ? s : weft_timing_begin(run, &view, micro, &began, err);
    s = s ? s : launch(run, l, in, micro, err);
    s = s ? s : weft_timing_end(run, &view, micro, began, err);
    return s ? s : weft_observe_instruction(run, &view, micro, WEFT_EVENT_INSTRUCTION_END, err);
}

static weft_status run_one(weft_run *run, const weft_lowered *l, const weft_program *p,
                           const weft_instruction *in, int64_t micro, weft_error *err)
{
    weft_running *now = &run->plan->plugins->running;
    *now = (weft_running){.mode = l->graph->config.mode,
                          .step = run->view.step,
                          .micro_batch = micro,
                          .kind = in->kind,
                          .nodes = in->parts ? in->parts : &in->node,
                          .n_nodes = in->parts ? in->n_ins : 1,
                          .tensors = in->tensors,
                          .n_ins = in->n_ins,
                          .n_outs = in->n_outs};
    weft_status s = weft_streams_before(run, l, p, in, micro, err);
    if (!s)
        s = run->shows_instructions ? launch_shown(run, l, in, micro, err)
                                    : launch(run, l, in, micro, err);
    s = s ? s : weft_streams_after(run, l, in, err);
    *now = (weft_running){0};
    if (s)
        weft_streams_explain(run, s, err);
    for (int i = 0; in->fetch && !s && i < in->n_outs; i++)
        if (weft_instruction_out(in, i)->fetch)
            s = weft_observe_value(run, l, weft_instruction_out(in, i), micro, err);
    return s;
}

static bool may_run(const weft_instruction *in, const bool *done)
{
    for (int i = 0; i < in->n_waits; i++)
        if (!done[in->waits[i]])
            return false;
    return true;
}

/* A stretch of a program, and the seed of its order. */
typedef struct span {
    int from, to;
    uint64_t seed;
} span;

/* Two queues in the worst order that the waits allow: one runs ahead as far as it can, then the
 * other, by dice. */
static weft_status run_adversarial(weft_run *run, const weft_lowered *l, const weft_program *p,
                                   span of, int64_t micro, weft_error *err)
{
    bool *done = weft_alloc_zero((size_t)p->n + 1, sizeof *done);
    if (!done)
        return weft_fail_memory(err);
    weft_status s = WEFT_OK;
    int next[2] = {of.from, of.from}, left = of.to - of.from, ahead = 0;
    for (int i = 0; i < of.from; i++)
        done[i] = true;
    for (uint64_t roll = 0; left > 0 && !s; roll++) {
        bool moved = false;
        for (int k = 0; k < 2 && !moved && !s; k++) {
            int q = ahead ^ k;
            while (next[q] < of.to && p->list[next[q]].queue != q)
                next[q]++;
            if (next[q] == of.to || !may_run(&p->list[next[q]], done))
                continue;
            s = run_one(run, l, p, &p->list[next[q]], micro, err);
            done[next[q]++] = true;
            left--;
            moved = true;
        }
        if (!moved && !s)
            s = weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                          "the waits between queues form a circle");
        if (weft_random_bits(of.seed, 2, roll) % 8 == 0)
            ahead ^= 1;
    }
    weft_free(done);
    return s;
}

/* Instructions [from, to) of a task's program. */
static weft_status run_some(weft_run *run, const weft_lowered *l, const weft_task *task, int from,
                            int to, weft_error *err)
{
    const weft_plan *plan = run->plan;
    const weft_program *p = weft_lowered_pick(l, task, weft_lowered_runs(l, run->view.step));
    uint64_t adversary = weft_device_adversary(plan);
    weft_status s = WEFT_OK;
    if (from == to)
        return WEFT_OK;
    run->stretch++;
    if (adversary)
        s = run_adversarial(run, l, p, (span){from, to, adversary + (uint64_t)task->part},
                            task->micro_batch, err);
    for (int i = from; i < to && !adversary && !s; i++)
        s = run_one(run, l, p, &p->list[i], task->micro_batch, err);
    return s;
}

weft_status weft_execute_prologue(weft_run *run, const weft_lowered *l, const weft_task *task,
                                  weft_error *err)
{
    const weft_program *p = weft_lowered_pick(l, task, weft_lowered_runs(l, run->view.step));
    weft_status s = WEFT_OK;
    if (weft_lowered_uploads(l, p))
        s = weft_upload_micro_batch(run, l, task->micro_batch, err);
    if (!s && p->n_prologue)
        s = weft_streams_enter(run, err);
    return s ? s : run_some(run, l, task, 0, p->n_prologue, err);
}

weft_status weft_execute(weft_run *run, const weft_lowered *l, const weft_task *task,
                         weft_error *err)
{
    const weft_program *p = weft_lowered_pick(l, task, weft_lowered_runs(l, run->view.step));
    weft_status s = weft_streams_enter(run, err);
    for (int from = p->n_prologue, to = p->n; from < p->n && !s; from = to) {
        bool replayed = false;
        s = weft_streams_begin(run, l, task, from, &to, &replayed, err);
        if (!s && !replayed)
            s = run_some(run, l, task, from, to, err);
        s = s ? s : weft_streams_end(run, l, replayed, err);
    }
    return s ? s : weft_streams_leave(run, err);
}
