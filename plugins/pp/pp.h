/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of pp share. */
#ifndef WEFT_PP_H
#define WEFT_PP_H

#include <weft/weft.h>

/* ---- schedules.c: those that have a name ---- */

typedef struct pp_schedule pp_schedule;

/* By its name, or that of PyTorch's class in any case; NULL: there is none. */
const pp_schedule *pp_find_schedule(const char *name);
/* Of number i; NULL behind the last. */
const char *pp_schedule_name(int i);
/* How many stages a rank must have; 0: any number. */
int pp_schedule_turns(const pp_schedule *schedule);
/* Is its order made for stages on a loop, or on a V? */
bool pp_schedule_is_loop(const pp_schedule *schedule);
bool pp_schedule_is_v(const pp_schedule *schedule);
/* Has it tasks for the gradients of weights? */
bool pp_schedule_splits(const pp_schedule *schedule);
weft_status pp_fill(const pp_schedule *schedule, const weft_pipeline_view *view, weft_tasks *tasks,
                    weft_error *err);
typedef struct pp_lists pp_lists;
/* The same, as lists: rank after rank. */
weft_status pp_fill_lists(const pp_schedule *schedule, const weft_pipeline_view *view,
                          pp_lists *lists, weft_error *err);

/* ---- lists.c: those that a file says ---- */

/* A task as it is written; letter: F, B, I, W, or 0 of what is in no micro-batch. */
typedef struct pp_item {
    weft_part part;
    int rank, stage, line;
    int64_t micro;
    char letter;
} pp_item;

struct pp_lists {
    char *name; /* of the file */
    pp_item *items;
    size_t n, capacity;
    int ranks, stages; /* as many as it names */
    int64_t micro_batches;
    bool table;       /* PyTorch's */
    bool *split;      /* by stage: it has I or W */
    int *rank_of;     /* by stage; -1: it has no task */
    int left_out;     /* cells of what a plan sends and gathers itself */
    int overlapped;   /* cells of a forward and a backward at once */
    int out_of_order; /* a stage of which totals are summed in another order; -1: none */
};

/* Text as `weft plan --schedule` prints it, or a table. */
weft_status pp_lists_read(const char *name, const char *text, size_t size, pp_lists *out,
                          weft_error *err);
void pp_lists_release(pp_lists *lists);
/* For readers: another task. */
weft_status pp_lists_add(pp_lists *lists, pp_item item, weft_error *err);
/* What items say together: split, rank_of, out_of_order. */
weft_status pp_lists_sum_up(pp_lists *lists, weft_error *err);
weft_status pp_lists_fill(const pp_lists *lists, weft_tasks *tasks, weft_error *err);
/* Digits, as far as they go, of a number that tasks can have. */
bool pp_read_number(const char **at, const char *end, int64_t *number);

/* ---- csv.c ---- */

/* Does the text begin as a table does, and not as lists? */
bool pp_is_table(const char *text);
weft_status pp_table_read(pp_lists *lists, const char *text, weft_error *err);

/* ---- split.c, schedule.c ---- */

typedef struct pp {
    const weft_host *host;
    const weft_params *params;
    int64_t degree;
    const pp_schedule *schedule; /* NULL: auto, or a file */
    pp_lists lists;              /* of a file, once it was read; of auto, once they are found */
    int64_t alive,
        bytes; /* auto: micro-batches, or bytes of them, that a rank may hold; 0: no word */
    struct pp_auto *automatic; /* NULL: a schedule has a name, or is a file's */
    int trying; /* auto: stages a rank, of a plan that is made to see what they take; 0: another */
    /* Where each stage but the first begins: blocks, WEFT_BLOCK_HEAD behind all of them. Found in
     * the first graph, and the same in all others. */
    int *begins;
    int n_stages; /* 0: not known yet */
    int n_blocks; /* of that graph */
} pp;

/* Stages a rank: as the user says, or the schedule. */
int64_t pp_turns(const pp *self);
/* How many stages the user asks for; 0: as many as the split has. */
int pp_stages(const pp *self);
/* Says of every block of the graph in which stage it is, and of every stage on which rank. */
weft_status pp_split(pp *self, weft_graph *g, weft_error *err);
/* The rank of a stage. */
int pp_rank_of(const pp *self, int stage);
/* What the file says, if it is one; once. */
weft_status pp_load(pp *self, weft_error *err);
/* Where stages begin is found anew. */
void pp_forget_split(pp *self);
/* The service. */
weft_status pp_generate(void *self, const weft_pipeline_view *view, weft_tasks *tasks,
                        weft_error *err);

/* ---- auto.c: schedule = auto ---- */

/* Key alive, whatever the schedule is. */
weft_status pp_alive_read(pp *self, weft_error *err);
weft_status pp_auto_create(pp *self, weft_error *err);
void pp_auto_destroy(pp *self);
/* Before the first plan's graph: lists of the run folder, or none yet. */
weft_status pp_auto_begin(pp *self, weft_error *err);
/* While lists are looked for: micro-batch after micro-batch. */
weft_status pp_auto_fill(const weft_pipeline_view *view, weft_tasks *tasks, weft_error *err);
/* Notes what was chosen, and what the others would have cost. */
void pp_auto_note(const pp *self, weft_graph *g);
weft_status pp_auto_review(void *self, weft_plan *plan, weft_error *err);
/* Lists go to the run folder. */
unsigned pp_auto_wants(void *self);
weft_status pp_auto_observe(void *self, weft_event event, const weft_run_view *run,
                            weft_error *err);

#endif
