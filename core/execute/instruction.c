/* SPDX-License-Identifier: Apache-2.0 */
/* What observers of instructions are shown: the plan's own words. */
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

weft_instruction_view weft_instruction_describe(const weft_lowered *l, const weft_instruction *in)
{
    const weft_program *p = program_of(l, in);
    weft_instruction_view view = {.mode = l->graph->config.mode,
                                  .program = weft_part_name(p->part),
                                  .index = (int)(in - p->list),
                                  .n = p->n,
                                  .kind = in->kind,
                                  .nodes = in->parts ? in->parts : &in->node,
                                  .n_nodes = in->parts ? in->n_ins : 1,
                                  .mesh = &l->graph->config.mesh,
                                  .flops = in->flops,
                                  .bytes = weft_instruction_bytes(l->graph, in),
                                  .queue = in->queue};
    if (in->kind == WEFT_COMPUTE) {
        view.kernel = in->kernel ? in->kernel->name : "plain";
        view.by = in->owner;
    }
    return view;
}

void weft_observe_instruction(weft_run *run, const weft_instruction_view *view, int64_t micro,
                              weft_event event)
{
    run->view.instruction = view;
    run->view.micro_batch = micro;
    weft_observe(run, event);
    run->view.instruction = NULL;
}
