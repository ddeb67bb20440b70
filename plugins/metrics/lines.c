/* SPDX-License-Identifier: Apache-2.0 */
/* What is written: JSON for programs, lines and a bar for people. */
#include "metrics.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- numbers ---- */

void metrics_add_count(weft_text *text, double x)
{
    static const char units[] = {0, 'k', 'M', 'G', 'T', 'P'};
    if (!isfinite(x)) {
        weft_text_add(text, "?");
        return;
    }
    size_t unit = 0;
    while (fabs(x) >= 999.5 && unit + 1 < sizeof units) {
        x /= 1000;
        unit++;
    }
    weft_text_print(text, unit == 0 && x == floor(x) ? "%.0f" : "%.3g", x);
    if (units[unit])
        weft_text_add_bytes(text, &units[unit], 1);
}

static void add_bytes(weft_text *text, double x)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    size_t unit = 0;
    while (x >= 1023.5 && unit + 1 < sizeof units / sizeof units[0]) {
        x /= 1024;
        unit++;
    }
    weft_text_print(text, x < 99.95 && unit > 0 ? "%.1f %s" : "%.0f %s", x, units[unit]);
}

void metrics_add_time(weft_text *text, double seconds)
{
    if (!isfinite(seconds) || seconds < 0 || seconds > 1e9) {
        weft_text_add(text, "?");
        return;
    }
    int64_t s = (int64_t)(seconds + 0.5);
    weft_text_print(text, "%" PRId64 ":%02d:%02d", s / 3600, (int)(s / 60 % 60), (int)(s % 60));
}

/* ---- JSON ---- */

static void add_key(weft_text *text, const char *key)
{
    weft_text_add(text, weft_text_get(text)[0] == '{' && text->size > 1 ? ", " : "");
    weft_text_add_json(text, key);
    weft_text_add(text, ": ");
}

static void add_number(weft_text *text, const char *key, int digits, double x)
{
    add_key(text, key);
    if (isfinite(x))
        weft_text_print(text, "%.*g", digits, x);
    else
        weft_text_add(text, "null");
}

/* Measured: six digits say all there is. */
static void add_measured(weft_text *text, const char *key, double x)
{
    add_number(text, key, 6, x);
}

/* Computed: as many digits as bring back the same bits, so that runs can be compared by their
 * files. */
static void add_exact(weft_text *text, const char *key, double x)
{
    add_number(text, key, (double)(float)x == x ? 9 : 17, x);
}

static void add_int(weft_text *text, const char *key, int64_t x)
{
    add_key(text, key);
    weft_text_print(text, "%" PRId64, x);
}

/* A key that has the unit in it: before, and behind it. */
static const char *key_of(const weft_run_view *run, char key[64], const char *before,
                          const char *behind)
{
    snprintf(key, 64, "%s%s%s", before, run->unit, behind);
    return key;
}

static void add_time(weft_text *text)
{
    add_key(text, "time");
    weft_text_add(text, "\"");
    weft_text_add_utc(text, weft_utc());
    weft_text_add(text, "\"");
}

/* As a text: numbers of JSON lose bits. */
static void add_hash(weft_text *text, const char *key, uint64_t x)
{
    add_key(text, key);
    weft_text_print(text, "\"%016" PRIx64 "\"", x);
}

/* Reports that have a field of their own are not repeated. */
static bool has_field(const char *name)
{
    static const char *const fields[] = {
        "step",          "loss",         "grad_norm",     "lr",        "tokens",
        "total_tokens",  "tokens_per_s", "step_s",        "data_s",    "mfu",
        "peak_bytes",    "base_bytes",   "planned_bytes", "eval_loss", "eval_tokens",
        "parts",         "time",         "skipped",       "samples",   "total_samples",
        "samples_per_s", "eval_samples", "slowest_rank",  "slowest_s", "median_s",
        "hash",          "state_hash"};
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++)
        if (strcmp(fields[i], name) == 0)
            return true;
    return false;
}

/* As weft plan --times reads them. */
static void add_parts(weft_text *text, const weft_run_view *run)
{
    if (!run->n_parts)
        return;
    add_key(text, "parts");
    for (int i = 0; i < run->n_parts; i++) {
        const weft_part_time *p = &run->parts[i];
        bool of_stage = weft_part_is_micro(p->part);
        weft_text_print(text, "%s{\"part\": \"%s\", \"%s\": %d, \"ms\": %.6g}", i ? ", " : "[",
                        weft_part_name(p->part), of_stage ? "stage" : "rank", p->place,
                        1000 * p->seconds);
    }
    weft_text_add(text, "]");
}

void metrics_add_step_json(weft_text *text, const weft_run_view *run, const metrics_hash *hash)
{
    char key[64];
    weft_text_add(text, "{");
    add_int(text, "step", run->step);
    add_exact(text, "loss", run->loss);
    add_exact(text, "grad_norm", run->grad_norm);
    add_exact(text, "lr", metrics_report(run, "lr"));
    add_int(text, run->unit, run->tokens);
    add_int(text, key_of(run, key, "total_", ""), run->total_tokens);
    add_int(text, "skipped", run->skipped);
    add_measured(text, key_of(run, key, "", "_per_s"), metrics_rate(run));
    add_measured(text, "step_s", run->step_s);
    add_measured(text, "data_s", run->data_s);
    if (run->slowest_s > 0) {
        add_int(text, "slowest_rank", run->slowest_rank);
        add_measured(text, "slowest_s", run->slowest_s);
        add_measured(text, "median_s", run->median_s);
    }
    add_measured(text, "mfu", metrics_mfu(run));
    add_int(text, "peak_bytes", (int64_t)run->peak_bytes);
    add_int(text, "base_bytes", (int64_t)run->base_bytes);
    add_int(text, "planned_bytes", (int64_t)run->planned_bytes);
    for (int i = 0; i < run->n_reports; i++)
        if (!has_field(run->reports[i].name))
            add_exact(text, run->reports[i].name, run->reports[i].value);
    if (hash->known) {
        add_hash(text, "hash", hash->parameters);
        add_hash(text, "state_hash", hash->states);
    }
    add_time(text);
    add_parts(text, run);
    weft_text_add(text, "}");
}

void metrics_add_eval_json(weft_text *text, const weft_run_view *run)
{
    char key[64];
    weft_text_add(text, "{");
    add_int(text, "step", run->step);
    add_exact(text, "eval_loss", run->eval_loss);
    add_int(text, key_of(run, key, "eval_", ""), run->eval_tokens);
    add_time(text);
    weft_text_add(text, "}");
}

/* ---- lines for people ---- */

static void add_rates(weft_text *text, const weft_run_view *run, const metrics_window *window)
{
    double mfu = metrics_median(window, window->mfu);
    metrics_add_count(text, metrics_median(window, window->rate));
    weft_text_print(text, " %s/s", run->unit);
    if (isfinite(mfu))
        weft_text_print(text, "  MFU %.1f%%", 100 * mfu);
}

static double time_left(const weft_run_view *run, const metrics_window *window)
{
    return (double)(run->steps - run->step) * metrics_median(window, window->step_s);
}

/* What the loss is the sum of, if that is more than one. */
static void add_terms(weft_text *text, const weft_run_view *run)
{
    const char *before = " (";
    for (int i = 0; i < run->n_reports; i++) {
        if (strncmp(run->reports[i].name, "loss.", 5) != 0)
            continue;
        weft_text_print(text, "%s%s %.4f", before, run->reports[i].name + 5, run->reports[i].value);
        before = ", ";
    }
    if (*before == ',')
        weft_text_add(text, ")");
}

enum { TERMS, GRAD_NORM, LR, RATE, MFU, LEFT, PARTS };

static void add_part(weft_text *text, int part, const weft_run_view *run,
                     const metrics_window *window)
{
    double lr = metrics_report(run, "lr"), mfu = metrics_median(window, window->mfu);
    if (part == TERMS)
        add_terms(text, run);
    else if (part == GRAD_NORM && /* an optimizer of somebody else need not make one */
             (isfinite(run->grad_norm) || metrics_find_report(run, "grad_norm")))
        weft_text_print(text, "  grad_norm %.4g", run->grad_norm);
    else if (part == LR && isfinite(lr))
        weft_text_print(text, "  lr %.3g", lr);
    else if (part == MFU && isfinite(mfu))
        weft_text_print(text, "  MFU %.1f%%", 100 * mfu);
    if (part == RATE) {
        weft_text_add(text, "  ");
        metrics_add_count(text, metrics_median(window, window->rate));
        weft_text_print(text, " %s/s", run->unit);
    } else if (part == LEFT) {
        weft_text_add(text, "  left ");
        metrics_add_time(text, time_left(run, window));
    }
}

void metrics_add_step_line(weft_text *text, const weft_run_view *run, const metrics_window *window,
                           int width)
{
    static const int least_important[PARTS] = {LR, MFU, TERMS, GRAD_NORM, LEFT, RATE};
    bool without[PARTS] = {false};
    weft_text line = {0};
    for (int out = 0; out <= PARTS; out++) {
        weft_text_clear(&line);
        weft_text_print(&line, "step %" PRId64 "/%" PRId64 "  loss %.4f", run->step, run->steps,
                        run->loss);
        for (int part = 0; part < PARTS; part++)
            if (!without[part])
                add_part(&line, part, run, window);
        if (line.size <= (size_t)(width > 0 ? width : 0) || out == PARTS)
            break;
        without[least_important[out]] = true;
    }
    weft_text_add(text, weft_text_get(&line));
    text->out_of_memory |= line.out_of_memory;
    weft_text_release(&line);
}

void metrics_add_eval_line(weft_text *text, const weft_run_view *run)
{
    weft_text_print(text, "step %" PRId64 "/%" PRId64 "  validation loss %.4f over ", run->step,
                    run->steps, run->eval_loss);
    metrics_add_count(text, (double)run->eval_tokens);
    weft_text_print(text, " %s", run->unit);
}

static const char *ending(weft_status status)
{
    return status == WEFT_OK            ? "done after"
           : status == WEFT_ERR_STOPPED ? "stopped after"
                                        : "failed in";
}

void metrics_add_summary(weft_text *text, const weft_run_view *run, const metrics_window *window,
                         double loss, const metrics_memory *memory)
{
    weft_text_print(text, "%s step %" PRId64 "/%" PRId64 ", ", ending(run->status), run->step,
                    run->steps);
    metrics_add_time(text, run->elapsed_s);
    if (window->n == 0)
        return;
    weft_text_add(text, ": ");
    metrics_add_count(text, (double)run->total_tokens);
    weft_text_print(text, " %s, loss %.4f, ", run->unit, loss);
    if (run->skipped > 0)
        weft_text_print(text, "%" PRId64 " update%s skipped, ", run->skipped,
                        run->skipped == 1 ? "" : "s");
    add_rates(text, run, window);
    weft_text_add(text, ", peak memory ");
    add_bytes(text, (double)memory->peak);
    weft_text_add(text, " (weft itself and data ");
    add_bytes(text, (double)memory->base);
    weft_text_add(text, ", planned ");
    add_bytes(text, (double)memory->planned);
    if (run->ranks > 1) /* several may be one process, whose peak is all of theirs */
        weft_text_print(text, " for rank %d", run->rank);
    weft_text_add(text, ")");
}

/* ---- the bar ---- */

enum { BAR_FIELDS = 4, BAR_LEAST = 10, BAR_MOST = 40 };

static void add_field(weft_text *text, int which, const weft_run_view *run,
                      const metrics_window *window)
{
    double mfu = metrics_median(window, window->mfu);
    switch (which) {
    case 0:
        weft_text_print(text, "  loss %.4f", run->loss);
        break;
    case 1:
        weft_text_add(text, "  ");
        metrics_add_time(text, time_left(run, window));
        weft_text_add(text, " left");
        break;
    case 2:
        weft_text_add(text, "  ");
        metrics_add_count(text, metrics_median(window, window->rate));
        weft_text_print(text, " %s/s", run->unit);
        break;
    case 3:
        if (isfinite(mfu))
            weft_text_print(text, "  MFU %.1f%%", 100 * mfu);
        break;
    }
}

static void add_repeated(weft_text *text, char c, int n)
{
    for (int i = 0; i < n; i++)
        weft_text_add_bytes(text, &c, 1);
}

static void add_gauge(weft_text *text, double part, int cells)
{
    int full = (int)(part * cells);
    weft_text_add(text, "  [");
    add_repeated(text, '=', full);
    if (full < cells)
        weft_text_add(text, ">");
    add_repeated(text, ' ', cells - full - 1);
    weft_text_add(text, "]");
}

void metrics_add_bar(weft_text *text, const weft_run_view *run, const metrics_window *window,
                     int width)
{
    weft_text head = {0}, tail = {0}, field = {0};
    double part = run->steps > 0 ? (double)run->step / (double)run->steps : 0;
    part = part < 0 ? 0 : part > 1 ? 1 : part;
    weft_text_print(&head, "step %" PRId64 "/%" PRId64, run->step, run->steps);
    for (int i = 0; i < BAR_FIELDS; i++) {
        weft_text_clear(&field);
        add_field(&field, i, run, window);
        if (head.size + tail.size + field.size > (size_t)(width > 0 ? width : 0))
            break;
        weft_text_add(&tail, weft_text_get(&field));
    }
    int room = width - (int)(head.size + tail.size) - 4; /* "  [" and "]" */
    if (head.size <= (size_t)(width > 0 ? width : 0))
        weft_text_add(text, weft_text_get(&head));
    if (room >= BAR_LEAST)
        add_gauge(text, part, room < BAR_MOST ? room : BAR_MOST);
    weft_text_add(text, weft_text_get(&tail));
    text->out_of_memory |= head.out_of_memory || tail.out_of_memory || field.out_of_memory;
    weft_text_release(&head);
    weft_text_release(&tail);
    weft_text_release(&field);
}
