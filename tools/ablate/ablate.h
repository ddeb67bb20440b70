/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of `weft ablate` share. */
#ifndef WEFT_TOOLS_ABLATE_ABLATE_H
#define WEFT_TOOLS_ABLATE_ABLATE_H

#include "stats.h"
#include "study.h"
#include "study/plan.h"

#include <sys/types.h>

typedef enum ablate_state {
    ABLATE_WAITS,
    ABLATE_RUNS,
    ABLATE_DONE,
    ABLATE_FAILED,
    ABLATE_STOPPED
} ablate_state;

/* One variant with one seed. */
typedef struct ablate_cell {
    int variant; /* number of its line, from 0 */
    int64_t seed, steps;
    char *dir, *note, *out; /* run folder; what is noted of it; what it says */
    char identity[17];
    bool known;   /* made before, and not to be made again */
    bool changed; /* made before, as another run */
    ablate_state state;
    pid_t pid;
    json_t *lines; /* of a cell that is done */
} ablate_cell;

typedef struct ablation {
    const weft_cli_options *options; /* INI, edits for all, ranks */
    ablate_study study;
    const char *dir;
    int64_t seeds[1000];
    int n_seeds;
    int jobs, threads;  /* threads: of a rank, where nobody says so; 0: as ever */
    json_t **plans;     /* by variant */
    bool *adds_metrics; /* by variant: it does not list them itself */
    ablate_cell *cells; /* by variant, then seed */
    int n_cells;
    const char *metric; /* what losses are compared by */
    double began_s;
    int64_t made_steps, left_steps; /* by this command; to be made */
} ablation;

/* ---- plan.c ---- */

/* Edits of a variant: those for all, and its own, with room for some more. weft_free(to->edits). */
weft_status ablate_options_of(const ablation *a, int variant, weft_cli_options *to,
                              weft_error *err);
/* Plans all variants; every error of each, with the line of the study. */
weft_status ablate_plan_all(ablation *a, weft_error *err);
/* What --plan prints. */
void ablate_print_plan(const ablation *a, weft_text *text);
/* Keys that do the same in two sections, of which a variant sets one. */
void ablate_warn(const ablation *a, weft_text *text);
/* A setting as the variant's plan has it; NULL. */
const char *ablate_setting(const json_t *plan, const char *section, const char *key);
bool ablate_lists(const json_t *plan, const char *plugin);
/* Of program, settings, seed and data files. */
weft_status ablate_identify(const ablation *a, ablate_cell *cell, weft_error *err);

/* ---- cells.c ---- */

weft_status ablate_make_cells(ablation *a, weft_error *err);
void ablate_release_cells(ablation *a);
/* Runs those that are not done; the number that failed. *stopped: somebody asked to stop. */
weft_status ablate_run_cells(ablation *a, int *failed, bool *stopped, weft_error *err);

/* ---- results.c ---- */

/* What a variant's seeds give, and against the baseline's of the same seeds. */
typedef struct ablate_result {
    ablate_sample value, difference;
    const char *bits; /* "equal", "from step", "same figures", "" */
    int64_t from;     /* the first step that differs */
    double rate, peak;
    char numerics[64]; /* did plugins keep what they declare? */
} ablate_result;

weft_status ablate_read_cells(ablation *a, weft_error *err);
ablate_result ablate_result_of(const ablation *a, int variant);
/* NULL: it is not done. seed: its place among the seeds. */
const ablate_cell *ablate_cell_of(const ablation *a, int variant, int seed);
/* Has some line the metric, finite or not? */
bool ablate_has(const ablation *a, const json_t *lines);
/* The metric's value in a line of metrics.jsonl; NaN. */
double ablate_value(const ablation *a, const json_t *line);

/* ---- tables.c ---- */

void ablate_print_table(const ablation *a, weft_text *text);
/* table.csv, runs.csv, index.html. */
weft_status ablate_write_tables(const ablation *a, weft_error *err);

#endif
