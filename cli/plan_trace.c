/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_trace.h"
#include "execute/run.h"

#include <weft/files.h>

#include <math.h>

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

static void add_task(const weft_tasks *tasks, const weft_task *task, const weft_task_time *when,
                     int rank, weft_text *text)
{
    begin_slice(text, rank, TASKS, "task", when->start, when->end);
    weft_text_add(text, "\"");
    weft_task_print(tasks, task, text);
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
    const bool beside = in->kind == WEFT_POST_SEND && weft_node_shifts(in->node);
    return beside ? WEFT_QUEUE_TRANSFERS : in->queue;
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

/* The planned rank's instructions, as its tasks are shown. */
typedef struct shown {
    const weft_lowered *l;
    const weft_task_time *alone, *tasks; /* its tasks, as instructions are seen and as shown */
    int rank;
    double done[WEFT_MOST_QUEUES]; /* of each row */
    weft_text *text;
} shown;

/* With its task, which was seen at another time or shorter if its time was measured. */
static void add_seen(void *self, int task, const weft_instruction *in, const weft_task_time *when)
{
    shown *s = self;
    const weft_task_time *alone = &s->alone[task], *there = &s->tasks[task];
    const double took = alone->end - alone->start, takes = there->end - there->start;
    const double scale = took > 0 ? takes / took : 1;
    double *done = &s->done[row_of(in)], start = there->end - scale * (alone->end - when->start);
    start = fmax(start, *done);
    if (when->end <= when->start)
        return;
    *done = start + scale * (when->end - when->start);
    add_instruction(s->l, in, s->rank, start, *done, s->text);
}

static weft_status add_measured(const weft_cli_steps *steps, shown *s, weft_error *err)
{
    weft_task_time *alone = weft_alloc(((size_t)s->l->tasks->n + 1) * sizeof *alone);
    const weft_course_watch watch = {.self = s, .see = add_seen};
    weft_status status = alone ? weft_roofline_course(steps->roofline, s->l, NULL, alone, err)
                               : weft_fail_memory(err);
    s->alone = alone;
    if (!status) /* once more, now that it is known when tasks end */
        status = weft_roofline_course(steps->roofline, s->l, &watch, alone, err);
    weft_free(alone);
    return status;
}

static weft_status add_instructions(const weft_cli_steps *steps, const weft_lowered *l, int rank,
                                    weft_text *text, weft_error *err)
{
    const weft_timeline *t = steps->measured ? steps->measured : steps->forecast->timeline;
    shown s = {.l = l, .alone = t->of[rank], .tasks = t->of[rank], .rank = rank, .text = text};
    const weft_course_watch watch = {.self = &s, .see = add_seen};
    return steps->measured
               ? add_measured(steps, &s, err)
               : weft_roofline_pipeline(steps->roofline, steps->forecast->ranks, t->tasks->ranks,
                                        rank, &watch, t->of, NULL, err);
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

static weft_status add_rank(const weft_plan *plan, const weft_cli_steps *steps, int r,
                            weft_text *text, weft_error *err)
{
    const weft_timeline *t = steps->measured ? steps->measured : steps->forecast->timeline;
    const weft_lowered *l = plan->lowered[WEFT_MODE_TRAIN];
    const bool mine = r == (int)(l->tasks - t->tasks->of);
    char *title = mine ? weft_format("rank %d of the pipeline: rank %d", r, plan->rank)
                       : weft_format("rank %d of the pipeline", r);
    name(text, "process_name", r, TASKS, title ? title : "");
    weft_free(title);
    name(text, "thread_name", r, TASKS, "tasks");
    if (mine)
        name_rows(l, r, text);
    for (int i = 0; i < t->tasks->of[r].n; i++)
        add_task(t->tasks, &t->tasks->of[r].list[i], &t->of[r][i], r, text);
    return mine ? add_instructions(steps, l, r, text, err) : WEFT_OK;
}

weft_status weft_cli_write_trace(const weft_plan *plan, const weft_cli_steps *steps,
                                 const char *path, weft_error *err)
{
    weft_text text = {0};
    weft_status s = WEFT_OK;
    weft_text_add(&text, "{\"displayTimeUnit\": \"ms\", \"otherData\": {\"weft\": \"" WEFT_VERSION
                         "\", \"planned\": true},\n\"traceEvents\": [");
    for (int r = 0; r < plan->tasks[WEFT_MODE_TRAIN]->ranks && !text.out_of_memory && !s; r++)
        s = add_rank(plan, steps, r, &text, err);
    weft_text_add(&text, "\n]}\n");
    s = s                    ? s
        : text.out_of_memory ? weft_fail_memory(err)
                             : weft_write_file(path, text.data, text.size, err);
    weft_text_release(&text);
    return s;
}
