/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_trace.h"
#include "run/run.h"

#include <weft/files.h>

enum { TASKS, INSTRUCTIONS }; /* rows of a rank; further queues have the next ones */

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

/* What is on its way to the next rank of a ring lets its queue go on. */
static int row_of(const weft_instruction *in)
{
    return in->kind == WEFT_POST_SEND ? WEFT_QUEUE_TRANSFERS : in->queue;
}

static void add_instruction(const weft_lowered *l, const weft_instruction *in, int rank,
                            double start_s, double end_s, weft_text *text)
{
    const weft_node *n = in->node;
    begin_slice(text, rank, INSTRUCTIONS + row_of(in),
                in->kind == WEFT_COMPUTE      ? "compute"
                : in->kind == WEFT_COLLECTIVE ? "collective"
                                              : "other",
                start_s, end_s);
    weft_text_add_json(text, name_of(in));
    weft_text_print(text,
                    ", \"args\": {\"block\": %d, \"queue\": %d, \"flops\": %.17g, "
                    "\"bytes\": %lld, \"plugin\": ",
                    n->block, in->queue, in->flops,
                    (long long)weft_instruction_bytes(l->graph, in));
    weft_text_add_json(text, n->by ? n->by : "");
    weft_text_add(text, ", \"value\": ");
    weft_text_add_json(text, n->n_outs ? n->outs[0]->name : "");
    weft_text_add(text, "}}");
}

static void add_instructions(const weft_lowered *l, const weft_task *task,
                             const weft_task_time *when, const weft_roofline *r, int rank,
                             weft_task_time *times, weft_text *text)
{
    const weft_program *p = weft_lowered_program(l, task->part, task->stage);
    const double all = weft_roofline_run(r, l, p, times);
    const double scale = all > 0 ? (when->end - when->start) / all : 0;
    for (int i = 0; i < p->n; i++)
        if (times[i].end > times[i].start)
            add_instruction(l, &p->list[i], rank, when->start + scale * times[i].start,
                            when->start + scale * times[i].end, text);
}

/* Room for the instructions of the longest program. */
static weft_task_time *room_for(const weft_lowered *l)
{
    int longest = 1;
    for (int i = 0; i < l->n_programs; i++)
        longest = l->programs[i].n > longest ? l->programs[i].n : longest;
    return weft_alloc((size_t)longest * sizeof(weft_task_time));
}

static void name_rows(const weft_lowered *l, int rank, weft_text *text)
{
    static const char *const titles[] = {"instructions", "collectives", "transfers"};
    bool used[WEFT_MOST_QUEUES] = {true};
    for (int p = 0; p < l->n_programs; p++)
        for (int i = 0; i < l->programs[p].n; i++)
            used[row_of(&l->programs[p].list[i])] = true;
    for (int q = 0; q < WEFT_MOST_QUEUES; q++)
        if (used[q])
            name(text, "thread_name", rank, INSTRUCTIONS + q, titles[q]);
}

static void add_rank(const weft_plan *plan, const weft_timeline *t, const weft_roofline *roofline,
                     int r, weft_task_time *times, weft_text *text)
{
    const weft_lowered *l = plan->lowered[WEFT_MODE_TRAIN];
    const bool mine = r == (int)(l->tasks - t->tasks->of);
    char *title = mine ? weft_format("rank %d of the pipeline: rank %d", r, plan->rank)
                       : weft_format("rank %d of the pipeline", r);
    name(text, "process_name", r, TASKS, title ? title : "");
    weft_free(title);
    name(text, "thread_name", r, TASKS, "tasks");
    if (mine)
        name_rows(l, r, text);
    for (int i = 0; i < t->tasks->of[r].n; i++) {
        const weft_task *task = &t->tasks->of[r].list[i];
        add_task(task, &t->of[r][i], r, text);
        if (mine)
            add_instructions(l, task, &t->of[r][i], roofline, r, times, text);
    }
}

weft_status weft_cli_write_trace(const weft_plan *plan, const weft_timeline *t,
                                 const weft_roofline *roofline, const char *path, weft_error *err)
{
    weft_task_time *times = room_for(plan->lowered[WEFT_MODE_TRAIN]);
    weft_text text = {.out_of_memory = !times};
    weft_text_add(&text, "{\"displayTimeUnit\": \"ms\", \"otherData\": {\"weft\": \"" WEFT_VERSION
                         "\", \"planned\": true},\n\"traceEvents\": [");
    for (int r = 0; r < t->tasks->ranks && !text.out_of_memory; r++)
        add_rank(plan, t, roofline, r, times, &text);
    weft_text_add(&text, "\n]}\n");
    weft_status s = text.out_of_memory ? weft_fail_memory(err)
                                       : weft_write_file(path, text.data, text.size, err);
    weft_text_release(&text);
    weft_free(times);
    return s;
}
