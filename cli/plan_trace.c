/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_trace.h"
#include "run/run.h"

#include <weft/files.h>

enum { TASKS, INSTRUCTIONS }; /* rows of a rank */

static void name(weft_text *text, const char *what, int rank, int row, const char *is)
{
    weft_text_print(text,
                    "%s{\"ph\": \"M\", \"name\": \"%s\", \"pid\": %d, \"tid\": %d, \"args\": "
                    "{\"name\": \"%s\"}}",
                    weft_text_get(text)[text->size ? text->size - 1 : 0] == '[' ? "\n" : ",\n",
                    what, rank, row, is);
}

static void begin_slice(weft_text *text, int rank, int row, const char *kind, double start_s,
                        double end_s)
{
    weft_text_print(text,
                    ",\n{\"ph\": \"X\", \"cat\": \"%s\", \"pid\": %d, \"tid\": %d, "
                    "\"ts\": %.6f, \"dur\": %.6f, \"name\": ",
                    kind, rank, row, 1e6 * start_s, 1e6 * (end_s - start_s));
}

static void add_task(const weft_task *task, const weft_task_time *when, int rank, weft_text *text)
{
    begin_slice(text, rank, TASKS, "task", when->start, when->end);
    weft_text_add(text, "\"");
    weft_task_print(task, text);
    weft_text_print(text,
                    "\", \"args\": {\"program\": \"%s\", \"stage\": %d, \"micro_batch\": %lld}}",
                    weft_part_name(task->part), task->stage, (long long)task->micro_batch);
}

/* ---- the planned rank's instructions ---- */

static double seconds_of(const weft_lowered *l, const weft_instruction *in, const weft_rates *rates)
{
    int64_t sent =
        in->kind == WEFT_COLLECTIVE ? weft_instruction_bytes(&l->graph->config.mesh, in) : 0;
    return in->flops / rates->flops_per_s + (double)sent / rates->bytes_per_s;
}

static const char *name_of(const weft_instruction *in)
{
    const weft_node *n = in->node;
    if (in->kind == WEFT_ZERO_FILL)
        return "zero";
    if (in->kind == WEFT_COPY)
        return "copy";
    for (int i = 0; in->kind == WEFT_COLLECTIVE && i < n->n_steps; i++)
        if (weft_step_communicates(&n->steps[i]))
            return weft_move_name(n->steps[i].move);
    return n->n_steps ? weft_move_name(n->steps[0].move) : n->op->name;
}

static void add_instruction(const weft_lowered *l, const weft_instruction *in, int rank,
                            double start_s, double end_s, weft_text *text)
{
    const weft_node *n = in->node;
    begin_slice(text, rank, INSTRUCTIONS,
                in->kind == WEFT_COMPUTE      ? "compute"
                : in->kind == WEFT_COLLECTIVE ? "collective"
                                              : "other",
                start_s, end_s);
    weft_text_add_json(text, name_of(in));
    weft_text_print(text,
                    ", \"args\": {\"block\": %d, \"queue\": %d, \"flops\": %.17g, "
                    "\"bytes\": %lld, \"plugin\": ",
                    n->block, in->queue, in->flops,
                    (long long)weft_instruction_bytes(&l->graph->config.mesh, in));
    weft_text_add_json(text, n->by ? n->by : "");
    weft_text_add(text, ", \"value\": ");
    weft_text_add_json(text, n->n_outs ? n->outs[0]->name : "");
    weft_text_add(text, "}}");
}

static void add_instructions(const weft_lowered *l, const weft_task *task,
                             const weft_task_time *when, const weft_rates *rates, int rank,
                             weft_text *text)
{
    const weft_program *p = weft_lowered_program(l, task->part, task->stage);
    double all = 0, at = when->start;
    for (int i = 0; i < p->n; i++)
        all += seconds_of(l, &p->list[i], rates);
    const double scale = all > 0 ? (when->end - when->start) / all : 0;
    for (int i = 0; i < p->n; i++) {
        double end = at + scale * seconds_of(l, &p->list[i], rates);
        if (end > at)
            add_instruction(l, &p->list[i], rank, at, end, text);
        at = end;
    }
}

weft_status weft_cli_write_trace(const weft_plan *plan, const weft_timeline *t,
                                 const weft_rates *rates, const char *path, weft_error *err)
{
    const weft_lowered *l = plan->lowered[WEFT_MODE_TRAIN];
    const int mine = (int)(l->tasks - t->tasks->of);
    weft_text text = {0};
    weft_text_add(&text, "{\"displayTimeUnit\": \"ms\", \"otherData\": {\"weft\": \"" WEFT_VERSION
                         "\", \"planned\": true},\n\"traceEvents\": [");
    for (int r = 0; r < t->tasks->ranks && !text.out_of_memory; r++) {
        char *title = r == mine ? weft_format("rank %d of the pipeline: rank %d", r, plan->rank)
                                : weft_format("rank %d of the pipeline", r);
        name(&text, "process_name", r, TASKS, title ? title : "");
        weft_free(title);
        name(&text, "thread_name", r, TASKS, "tasks");
        if (r == mine)
            name(&text, "thread_name", r, INSTRUCTIONS, "instructions");
        for (int i = 0; i < t->tasks->of[r].n; i++) {
            const weft_task *task = &t->tasks->of[r].list[i];
            add_task(task, &t->of[r][i], r, &text);
            if (r == mine)
                add_instructions(l, task, &t->of[r][i], rates, r, &text);
        }
    }
    weft_text_add(&text, "\n]}\n");
    weft_status s = text.out_of_memory ? weft_fail_memory(err)
                                       : weft_write_file(path, text.data, text.size, err);
    weft_text_release(&text);
    return s;
}
