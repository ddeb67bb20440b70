/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of schedule = auto share. All that is compared is whole numbers, so that every
 * rank of a run, on whatever machine, finds the same lists. */
#ifndef WEFT_PP_SEARCH_H
#define WEFT_PP_SEARCH_H

#include "pp.h"

enum { PP_F, PP_I, PP_W, PP_KINDS };

/* What a stage takes for a micro-batch; times are whole numbers of one unit. */
typedef struct pp_stage {
    int64_t takes[PP_KINDS]; /* a whole backward takes I and W */
    int64_t sends[2];        /* what F sends on, what I sends back, if that is another rank's */
    int64_t kept, held;      /* bytes: from F to the end of I; from there to the end of W */
} pp_stage;

typedef struct pp_pipeline {
    weft_pipeline_view view;
    const pp_stage *stages;
    int64_t alive; /* micro-batches of which a rank may hold the bytes at once */
    int64_t bytes; /* 0, or what it may hold instead of that */
} pp_pipeline;

/* Bytes of one micro-batch in all stages of a rank, whether kept for I or held for W; at least 1.
 */
int64_t pp_unit(const pp_pipeline *p, int rank);
/* Bytes that a rank may hold. */
int64_t pp_room(const pp_pipeline *p, int rank);

/* ---- length.c: what lists take ---- */

/* Of a pipeline, to run many lists in. */
typedef struct pp_clock pp_clock;
weft_status pp_clock_create(const pp_pipeline *p, pp_clock **out, weft_error *err);
void pp_clock_destroy(pp_clock *clock);

typedef struct pp_length {
    int64_t ends;     /* the last task */
    int64_t thousand; /* thousandths of micro-batches that are held at most, of all ranks */
    bool fits;        /* no rank holds more than it may */
} pp_length;

/* Items stand rank after rank. A send begins when its task ends, a receive when its rank comes to
 * the task before its own; transfers of a channel go one after the other, and beside tasks. false:
 * they do not end, or later than `most`, or are received in another order than they are sent. */
bool pp_clock_run(pp_clock *clock, const pp_lists *lists, int64_t most, pp_length *out);

/* ---- greedy.c ---- */

/* A rank that is free does what it can: a backward, else a forward for which there is room, else
 * weights; these before forwards where more than `late` is held for them. room: eighths of what a
 * rank may hold; late: sixteenths of the room. reserve: a micro-batch comes in only if there is
 * room for it in all stages of the rank. Without items: it got stuck. */
weft_status pp_greedy(const pp_pipeline *p, int room, int late, bool reserve, pp_lists *out,
                      weft_error *err);

/* ---- choose.c ---- */

/* Lists that were looked at. */
typedef struct pp_candidate {
    char name[120];
    int turns;   /* stages a rank */
    bool v;      /* they are on a V */
    double idle; /* the share of all ranks' time in which they do nothing */
    pp_length length;
} pp_candidate;

typedef struct pp_choice {
    pp_candidate *list; /* each by itself, before anything is improved */
    int n, capacity;
    pp_candidate best; /* no other is better */
    pp_lists lists;    /* of the best; rank_of and split are there */
} pp_choice;

void pp_choice_release(pp_choice *choice);
/* Looks at all schedules and greedy lists on this placement. choice: zeros. */
weft_status pp_choose(const pp_pipeline *p, bool v, pp_choice *choice, weft_error *err);
/* Tries to make the best of it better: a fixed number of small changes. */
weft_status pp_improve(const pp_pipeline *p, pp_choice *choice, weft_error *err);
/* Of both the better one. one: is released. */
weft_status pp_choice_add(pp_choice *all, pp_choice *one, weft_error *err);

#endif
