/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of `weft bisect` share. */
#ifndef WEFT_TOOLS_BISECT_BISECT_H
#define WEFT_TOOLS_BISECT_BISECT_H

#include "study/plan.h"

enum { BISECT_MOST = 1000 };

/* Two runs as plans, and what would have to be done to the first to have the second. */
typedef struct bisection {
    const json_t *a, *b; /* weft_plan_to_json */
    json_t *list;        /* weft_differ_settings, those of [weft] left out */
    int n;
    char *dir; /* where runs write: of this process alone */
    int64_t steps, ranks;
    /* what makes a run bad: NULL: other bits than the first run's */
    char metric[64];
    char relation[3];
    double limit;
    json_t *first; /* the first run's metrics */
    int runs;      /* made so far */
} bisection;

typedef enum bisect_outcome {
    BISECT_GOOD,
    BISECT_BAD,
    BISECT_REFUSED /* it does not plan, or does not run */
} bisect_outcome;

/* ---- differences.c ---- */

weft_status bisect_find_differences(bisection *b, weft_error *err);
/* "[adamw] lr = 0.01", "bf16 behind cpu". */
void bisect_print_difference(const bisection *b, int i, weft_text *text);
/* The INI of the first run with these differences: has[n]. */
weft_status bisect_write_ini(const bisection *b, const bool *has, const char *path,
                             weft_error *err);

/* ---- trial.c ---- */

/* Runs the first run with these differences. *lines: its metrics; NULL after REFUSED. why: what is
 * said of a run that is refused; may be NULL. */
weft_status bisect_try(bisection *b, const bool *has, bisect_outcome *outcome, json_t **lines,
                       weft_text *why, weft_error *err);
/* The first step and figure that differ from the first run's, as text. */
void bisect_print_first(const bisection *b, const json_t *lines, weft_text *text);

#endif
