/* SPDX-License-Identifier: Apache-2.0 */
/* Whatever runs can be compared by: a run folder, an INI, a plan as JSON, a checkpoint. */
#ifndef WEFT_CLI_STUDY_SUBJECT_H
#define WEFT_CLI_STUDY_SUBJECT_H

#include "study/plan.h"

typedef enum weft_subject_kind {
    WEFT_SUBJECT_RUN,
    WEFT_SUBJECT_INI,
    WEFT_SUBJECT_PLAN,
    WEFT_SUBJECT_CHECKPOINT
} weft_subject_kind;

/* JSON members that it does not have are NULL. */
typedef struct weft_subject {
    const char *name; /* the caller's */
    weft_subject_kind kind;
    json_t *plan;    /* weft_plan_to_json; of a checkpoint plugins and settings alone */
    char *no_plan;   /* why there is none */
    json_t *about;   /* run.json */
    json_t *lines;   /* metrics.jsonl */
    bool finished;   /* all steps are made */
    bool damaged;    /* it was done, and its metrics.jsonl lacks last steps */
    json_t *tensors; /* {name: "f32 [4, 2] 16 hex digits"} */
} weft_subject;

/* options: edits and ranks for INIs, ini_trust for run folders. Release in every case. */
weft_status weft_subject_read(weft_subject *to, const char *name, const weft_cli_options *options,
                              weft_error *err);
/* Several, with what is wrong with each, once. "A:" in front of an edit makes it the first one's
 * alone, "B:" the second's, as in -o B:train.seed=7; that one is an INI. to[n] is released by the
 * caller in every case. */
weft_status weft_subjects_read(weft_subject *to, const char *const *names, int n,
                               const weft_cli_options *options, weft_error *err);
void weft_subject_release(weft_subject *subject);

/* Was the last start of a run.json done? */
bool weft_about_is_done(const json_t *about);

/* ---- series of runs ---- */

/* Sorts them; NaN: there are none. */
double weft_median(double *list, size_t n);
/* The median of what steps have of `key`, the first one left out where there are more; NaN: none
 * has it. */
double weft_lines_median(const json_t *lines, const char *key);
/* Of the last step that has it; NaN. *step: which; may be NULL. */
double weft_lines_last(const json_t *lines, const char *key, int64_t *step);
/* Does a step have it as a number, or as null, which is one that is not finite? */
bool weft_lines_have(const json_t *lines, const char *key);
/* "loss, grad_norm, ...": of which that holds, but for the step. */
void weft_lines_names(const json_t *lines, weft_text *text);
/* The most of any step; NaN. */
double weft_lines_most(const json_t *lines, const char *key);

#endif
