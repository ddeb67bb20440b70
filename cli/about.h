/* SPDX-License-Identifier: Apache-2.0 */
/* What runs, and where: the first line of the log, and run.json. */
#ifndef WEFT_CLI_ABOUT_H
#define WEFT_CLI_ABOUT_H

#include "launch/ranks.h"

/* Where a rank runs. */
typedef struct weft_about_rank {
    char host[65];
    int64_t pid;
} weft_about_rank;

/* Zero-initialised but for the steps is valid. */
typedef struct weft_about {
    weft_about_rank *ranks;
    int n;
    int64_t steps;      /* of the run, in all */
    int64_t started_ns; /* since 1970 */
    const weft_plan *plan;
    uint64_t data_id; /* of the run's data; 0: not known */
} weft_about;

/* Of the placed graphs of all modes: two runs with equal hashes, settings and data compute the
 * same. */
weft_status weft_about_program(const weft_plan *plan, uint64_t *out, weft_error *err);

/* All ranks call it: they tell each other where they are. */
weft_status weft_about_init(weft_about *about, weft_rank *rank);
void weft_about_release(weft_about *about);
/* The job that a scheduler has given this run a name as, as "slurm 4711"; false: none has. */
bool weft_about_job(weft_text *text);
/* "TIME weft 0.1.0 (commit 1234), job slurm 4711, 8 ranks: 0-3 on a, 4-7 on b\n". */
void weft_about_print_line(const weft_about *about, weft_text *text);
/* The same as the beginning of a JSON object, with processes; more members follow. */
void weft_about_print_json(const weft_about *about, weft_text *text);

#endif
