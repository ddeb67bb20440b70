/* SPDX-License-Identifier: Apache-2.0 */
/* What each rank of a pipeline runs, and in which order: lists of tasks, which are data. */
#ifndef WEFT_SCHEDULE_SCHEDULE_H
#define WEFT_SCHEDULE_SCHEDULE_H

#include <weft/service.h>

typedef struct weft_task_list {
    weft_task *list;
    int n, capacity;
} weft_task_list;

/* Of a pipeline of `ranks` ranks. */
struct weft_tasks {
    int ranks, stages;
    int64_t micro_batches;
    weft_pool pool;     /* of all that follows, but the tasks */
    bool backward;      /* training: F and B; else F alone */
    weft_task_list *of; /* by rank */
    weft_where at;      /* of what is added next */
    int *rank_of;       /* by stage: the rank that it belongs to; s mod ranks at first */
    bool *split;        /* by stage: there is a W of it, and B leaves to it what can wait */
    int64_t sending;    /* places for results of one stage and part that are on their way: the next
                           waits for one; 1 at first */
};

/* Limits that no pipeline reaches, so that products of them can be counted. */
enum { WEFT_MAX_STAGES = 1 << 16 };
#define WEFT_MAX_TASKS ((int64_t)1 << 24) /* of all ranks together */

/* Lists without tasks. */
weft_status weft_tasks_create(int ranks, int stages, int64_t micro_batches, bool backward,
                              weft_tasks **out, weft_error *err);
void weft_tasks_destroy(weft_tasks *tasks);

/* Puts BEGIN before what a schedule has made, STEP_END and UPDATE behind it, where they are not
 * there. */
weft_status weft_tasks_frame(weft_tasks *tasks, weft_error *err);
/* The order of those who have no schedule: micro-batch after micro-batch, all stages forward, all
 * stages backward. Framed. */
weft_status weft_tasks_trivial(weft_tasks *tasks, weft_error *err);

/* "begin", "3F12" (stage, part, micro-batch), "step_end"; "3I12": the B of a stage that is split.
 */
void weft_task_print(const weft_tasks *tasks, const weft_task *task, weft_text *text);

/* ---- proof (proof.c) ---- */

/* Will these lists run to their end? Every F and B, and where a stage has one W, every W there once
 * and on its stage's rank, nothing before what it reads, no ranks that wait for each other in a
 * circle, what is received in the order in which it is sent.
 * A send is posted at the end of its task, a receive when the task before its own begins; a
 * transfer is done when both are posted, in order, for each pair of ranks, direction and kind
 * (activations, gradients). Errors name rank and task. sending: how many results of one stage and
 * part may be on their way to another rank while the next is made; 0: any number. span: of the
 * step, if all forwards and halves of backwards took 1 and transfers nothing; may be NULL. */
weft_status weft_tasks_verify(const weft_tasks *tasks, int64_t sending, int64_t *span,
                              weft_error *err);
/* Gives tasks->sending the least with which that is proved, and with which, were all forwards and
 * halves of backwards equally long, the step would take within a thousandth of what it takes with
 * any number. */
weft_status weft_tasks_find_sending(weft_tasks *tasks, weft_error *err);

#endif
