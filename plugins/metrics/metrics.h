/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the metrics plugin: what is kept between steps, and the lines that are made of it.
 */
#ifndef WEFT_METRICS_H
#define WEFT_METRICS_H

#include <weft/files.h>
#include <weft/plugin.h>

enum { METRICS_WINDOW = 20 }; /* steps that rates are smoothed over */

/* The last steps' times and rates. Zero-initialised is valid and empty. */
typedef struct metrics_window {
    double step_s[METRICS_WINDOW], rate[METRICS_WINDOW], mfu[METRICS_WINDOW];
    int64_t n; /* steps ever noted */
} metrics_window;

/* NaN where a figure cannot be known: no time passed, no peak rate. */
double metrics_rate(const weft_run_view *run);
double metrics_mfu(const weft_run_view *run);
/* The report called `name`, NULL if there is none; and its value, NaN then. */
const weft_report *metrics_find_report(const weft_run_view *run, const char *name);
double metrics_report(const weft_run_view *run, const char *name);

void metrics_window_add(metrics_window *window, const weft_run_view *run);
/* Median of the known values of one of the window's arrays; NaN if there is none. */
double metrics_median(const metrics_window *window, const double *values);

/* ---- hashes of the state (hash.c) ---- */

/* Of all parameters, and of all that is state beside them. */
typedef struct metrics_hash {
    uint64_t parameters, states;
    bool known;
} metrics_hash;

/* At UPDATED, all ranks together: the same bits give the same hash on any mesh. */
weft_status metrics_hash_state(const weft_host *host, const weft_run_view *run, metrics_hash *out,
                               weft_error *err);
/* What a part of a tensor adds to its hash; the whole's is the sum of its parts'. */
uint64_t metrics_hash_part(const char *name, const weft_tensor *t);

/* ---- lines (lines.c); all append to text ---- */

/* JSON objects without newline; numbers that are not finite are null, and a hash that is not known
 * is left out. */
void metrics_add_step_json(weft_text *text, const weft_run_view *run, const metrics_hash *hash);
void metrics_add_eval_json(weft_text *text, const weft_run_view *run);
/* At most width columns, if step and loss alone are not more: what does not fit is left out, the
 * least important first. */
void metrics_add_step_line(weft_text *text, const weft_run_view *run, const metrics_window *window,
                           int width);
void metrics_add_eval_line(weft_text *text, const weft_run_view *run);
/* Bytes, as the last step said. */
typedef struct metrics_memory {
    size_t peak, base, planned;
} metrics_memory;
void metrics_add_summary(weft_text *text, const weft_run_view *run, const metrics_window *window,
                         double loss, const metrics_memory *memory);
/* One line of at most width columns: what does not fit is left out, the least important first. */
void metrics_add_bar(weft_text *text, const weft_run_view *run, const metrics_window *window,
                     int width);

/* Moves the lines of steps after `step` from the end of the open file to that of another. *moved:
 * there were any. */
weft_status metrics_move(int fd, const char *path, const char *to, int64_t step, bool *moved,
                         weft_error *err);

/* 12345 -> "12.3k"; "?" if not finite. */
void metrics_add_count(weft_text *text, double x);
/* 3723 s -> "1:02:03"; "?" if not finite. */
void metrics_add_time(weft_text *text, double seconds);

#endif
