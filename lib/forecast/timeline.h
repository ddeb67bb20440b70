/* SPDX-License-Identifier: Apache-2.0 */
/* When each task of a schedule runs, if tasks take what they are said to; as text and as a picture.
 */
#ifndef WEFT_LIB_FORECAST_TIMELINE_H
#define WEFT_LIB_FORECAST_TIMELINE_H

#include "compile/schedule/schedule.h"

/* ---- costs.c ---- */

/* What tasks take, and what they send to other ranks. Zero at first. */
typedef struct weft_costs {
    int ranks, stages;
    double *seconds[WEFT_PARTS]; /* F, B and W by stage, the others by rank; without waits */
    const bool *split;           /* by stage: it has W; not owned. NULL: none has */
    double **of;                 /* by rank, by place in its list, where tasks of a part differ;
                                    NULL: they do not, or nobody knows */
    double *bytes[2];            /* by stage: what its F sends on, what its B sends back */
    double bytes_per_s;          /* from one rank to another; 0: sending takes no time */
    double latency_s;            /* of one transfer, beside its bytes */
} weft_costs;

weft_status weft_costs_init(weft_costs *costs, int ranks, int stages, weft_error *err);
void weft_costs_release(weft_costs *costs);
/* Tasks of a part take the same from now on. */
void weft_costs_level(weft_costs *costs);
/* Reads times of tasks that were measured: of every line of metrics.jsonl that has them
 * ("parts": [{"part": "forward", "stage": 0, "ms": 1.2}, ...]) the median of each. `name`, of the
 * file, and lines are for errors. Times of forwards and backwards that no line has are an error;
 * other lines are left out. */
weft_status weft_costs_parse(weft_costs *costs, const char *name, const char *text,
                             weft_error *err);

/* ---- simulate.c ---- */

typedef struct weft_task_time {
    double start, end; /* seconds from the step's beginning; waits lie before the start */
} weft_task_time;

typedef struct weft_timeline {
    const weft_tasks *tasks; /* not owned */
    weft_task_time **of;     /* by rank, by place in its list */
    double step_s;           /* until the last rank is through */
    double *idle_s;          /* by rank: between its first and its last F, B or W, in none */
    int64_t *alive;          /* by rank: of all its stages, the most micro-batches at a time that
                                are behind their F and not behind their B */
    int64_t *held;           /* by rank: the same, behind their B and not behind their W */
    double idle_most_s;      /* of all ranks */
    double bubble; /* the share of all ranks' time between the first and the last F, B or W of
                      the pipeline in which they compute none */
    double end;    /* of the step: the share behind the last of these */
} weft_timeline;

/* Lists that are proved (weft_tasks_verify) with such a limit; sending as there. A
 * send begins at its task's end, a receive when its rank comes to the task before its own; a
 * transfer, when both have begun and the one before it in its channel is done. Transfers do not
 * slow down tasks. No rank updates before all are through step_end: they share a norm. */
weft_status weft_timeline_create(const weft_tasks *tasks, const weft_costs *costs, int64_t sending,
                                 weft_timeline **out, weft_error *err);
void weft_timeline_destroy(weft_timeline *timeline);
/* For who knows of each task when it runs, and fills in `of`; and what follows from that. */
weft_status weft_timeline_reserve(const weft_tasks *tasks, weft_timeline **out, weft_error *err);
void weft_timeline_sum_up(weft_timeline *timeline);

/* ---- timeline.c, svg.c ---- */

/* "step 1.2 s, ..." and a line a rank: how long it waits, how many micro-batches are alive. */
void weft_timeline_print_summary(const weft_timeline *timeline, weft_text *text);
/* A row a rank, `width` columns in all (at least 40), of equal lengths of time. */
void weft_timeline_print(const weft_timeline *timeline, int width, weft_text *text);
/* An SVG file that needs nothing else: a row a rank, a box a task. */
void weft_timeline_print_svg(const weft_timeline *timeline, weft_text *text);
/* Of a rank's stages, from 0 on. */
int weft_timeline_turn(const weft_tasks *tasks, int stage);
/* "1.23 ms". */
void weft_print_seconds(weft_text *text, double seconds);

#endif
