/* SPDX-License-Identifier: Apache-2.0 */
/* The results as text, as CSV and as a page. */
#include "ablate.h"

#include "console/columns.h"
#include "folder.h"
#include "study/csv.h"
#include "study/page.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { POINTS = 400 };

static const char *const heads[] = {
    "variant",       "seeds",    "loss", "spread",   "difference", "spread", "sign",
    "95 % interval", "can tell", "bits", "numerics", "tokens/s",   "peak",   "sent a step"};
enum { COLUMNS = sizeof heads / sizeof *heads };

/* The lines of the first cell that is done; NULL: none is. */
static const json_t *some_lines(const ablation *a)
{
    int i = 0;
    while (i < a->n_cells - 1 && !a->cells[i].lines)
        i++;
    return a->n_cells ? a->cells[i].lines : NULL;
}

static const char *head_of(const ablation *a, int i)
{
    const bool samples = strcmp(weft_lines_unit(some_lines(a)), "samples") == 0;
    return i == 2 ? a->metric : i == 11 && samples ? "samples/s" : heads[i];
}

/* The cells of a variant's line, as texts. */
typedef struct row {
    char cell[COLUMNS][80];
} row;

static void put(char *cell, const char *format, double x)
{
    if (isfinite(x))
        snprintf(cell, 80, format, x);
    else
        snprintf(cell, 80, "-");
}

static void put_bytes(char *cell, double bytes)
{
    weft_text text = {0};
    if (bytes > 0)
        weft_print_bytes(&text, bytes);
    snprintf(cell, 80, "%s", bytes > 0 ? weft_text_get(&text) : "-");
    weft_text_release(&text);
}

static void fill_difference(row *out, const ablate_result *r)
{
    const ablate_sample *d = &r->difference;
    put(out->cell[4], "%+.3g", d->mean);
    put(out->cell[5], "%.2g", d->sd);
    if (d->n)
        snprintf(out->cell[6], 80, "%d-, %d+", d->below, d->above);
    if (isfinite(d->low))
        snprintf(out->cell[7], 80, "%+.3g to %+.3g", d->low, d->high);
    put(out->cell[8], "%.2g", d->least);
    snprintf(out->cell[9], 80, r->from ? "%s %" PRId64 : "%s", r->bits, r->from);
}

static row row_of(const ablation *a, int variant)
{
    const ablate_result r = ablate_result_of(a, variant);
    row out = {0};
    for (int i = 0; i < COLUMNS; i++)
        snprintf(out.cell[i], 80, "-");
    snprintf(out.cell[0], 80, "%s", a->study.variants[variant].name);
    snprintf(out.cell[1], 80, "%d", r.value.n);
    put(out.cell[2], "%.6f", r.value.mean);
    put(out.cell[3], "%.6f", r.value.sd);
    if (variant)
        fill_difference(&out, &r);
    else
        snprintf(out.cell[9], 80, "baseline");
    if (*r.numerics)
        snprintf(out.cell[10], 80, "%s", r.numerics);
    put(out.cell[11], "%.4g", r.rate);
    put_bytes(out.cell[12], r.peak);
    put_bytes(out.cell[13], (double)json_integer_value(json_object_get(a->plans[variant], "sent")));
    return out;
}

/* What the words of the table mean, in one line. */
static void print_words(const ablation *a, weft_text *text)
{
    weft_text_print(
        text,
        "%s at the last step it has, mean and spread over seeds; the difference from %s is of "
        "runs with the same seed; it can tell what it would tell four times of five\n",
        a->metric, a->study.variants[0].name);
}

void ablate_print_table(const ablation *a, weft_text *text)
{
    weft_columns c;
    weft_columns_init(&c, "lrrrrrrrrllrrr");
    for (int i = 0; i < COLUMNS; i++)
        weft_columns_add(&c, head_of(a, i));
    for (int v = 0; v < a->study.n; v++) {
        const row r = row_of(a, v);
        for (int i = 0; i < COLUMNS; i++)
            weft_columns_add(&c, r.cell[i]);
    }
    weft_columns_print(&c, text);
    weft_columns_release(&c);
    print_words(a, text);
}

/* ---- CSV ---- */

static weft_status write_text(const ablation *a, const char *name, const weft_text *text,
                              weft_error *err)
{
    char *path = weft_format("%s/%s", a->dir, name);
    weft_status s = path && !text->out_of_memory
                        ? weft_write_file(path, weft_text_get(text), text->size, err)
                        : weft_fail_memory(err);
    weft_free(path);
    return s;
}

static void add_numbers(weft_text *text, const double *x, int n)
{
    for (int i = 0; i < n; i++) {
        weft_text_add(text, ",");
        weft_csv_add_real(text, x[i]);
    }
}

static weft_status write_table(const ablation *a, weft_error *err)
{
    weft_text text = {0};
    weft_text_print(&text,
                    "variant,metric,seeds,mean,sd,pairs,difference,difference_sd,below,above,"
                    "low,high,p,least,bits,from_step,numerics,%s,peak_bytes,"
                    "sent_bytes,program,parameters,planned_bytes\n",
                    weft_lines_rate(some_lines(a)));
    for (int v = 0; v < a->study.n; v++) {
        const ablate_result r = ablate_result_of(a, v);
        const ablate_sample *d = &r.difference;
        const json_t *plan = a->plans[v];
        weft_csv_add(&text, a->study.variants[v].name);
        weft_text_print(&text, ",%s,%d", a->metric, r.value.n);
        add_numbers(&text, (const double[]){r.value.mean, r.value.sd}, 2);
        weft_text_print(&text, ",%d", d->n);
        add_numbers(
            &text,
            (const double[]){d->mean, d->sd, d->below, d->above, d->low, d->high, d->p, d->least},
            8);
        weft_text_print(&text, ",%s,", v ? r.bits : "baseline");
        if (r.from)
            weft_text_print(&text, "%" PRId64, r.from);
        weft_text_add(&text, ",");
        weft_csv_add(&text, r.numerics);
        add_numbers(&text, (const double[]){r.rate, r.peak}, 2);
        weft_text_print(&text, ",%lld,%s,%lld,%lld\n",
                        (long long)json_integer_value(json_object_get(plan, "sent")),
                        json_string_value(json_object_get(plan, "program")),
                        (long long)json_integer_value(json_object_get(plan, "parameters")),
                        (long long)json_integer_value(
                            json_object_get(json_object_get(plan, "memory"), "total")));
    }
    weft_status s = write_text(a, "table.csv", &text, err);
    weft_text_release(&text);
    return s;
}

static void add_line(weft_text *text, const ablation *a, const ablate_cell *cell,
                     const json_t *line)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)line, key, value) {
        if (!json_is_number(value) || strcmp(key, "step") == 0)
            continue;
        weft_csv_add(text, a->study.variants[cell->variant].name);
        weft_text_print(text, ",%" PRId64 ",%" PRId64 ",", cell->seed,
                        (int64_t)json_integer_value(json_object_get(line, "step")));
        weft_csv_add(text, key);
        weft_text_add(text, ",");
        weft_csv_add_real(text, json_number_value(value));
        weft_text_add(text, "\n");
    }
}

static weft_status write_runs(const ablation *a, weft_error *err)
{
    weft_text text = {0};
    weft_text_add(&text, "variant,seed,step,metric,value\n");
    for (int i = 0; i < a->n_cells; i++)
        for (size_t k = 0; k < json_array_size(a->cells[i].lines); k++)
            add_line(&text, a, &a->cells[i], json_array_get(a->cells[i].lines, k));
    weft_status s = write_text(a, "runs.csv", &text, err);
    weft_text_release(&text);
    return s;
}

/* ---- the page ---- */

/* The step's value of a cell; *at goes on from where it was. */
static double value_at(const ablation *a, const ablate_cell *cell, json_int_t step, size_t *at)
{
    for (; cell && *at < json_array_size(cell->lines); ++*at) {
        const json_t *line = json_array_get(cell->lines, *at);
        const json_int_t now = json_integer_value(json_object_get(line, "step"));
        const double x = ablate_value(a, line);
        if (now > step)
            return NAN;
        if (now == step && isfinite(x))
            return x;
    }
    return NAN;
}

static ablate_sample differences_at(const ablation *a, int variant, json_int_t step, size_t *at)
{
    double x[1000];
    int n = 0;
    for (int k = 0; k < a->n_seeds; k++) {
        const double mine = value_at(a, ablate_cell_of(a, variant, k), step, &at[2 * k]),
                     base = value_at(a, ablate_cell_of(a, 0, k), step, &at[2 * k + 1]);
        if (isfinite(mine) && isfinite(base))
            x[n++] = mine - base;
    }
    return ablate_describe(x, n);
}

static const ablate_cell *first_cell(const ablation *a, int variant)
{
    for (int k = 0; k < a->n_seeds; k++)
        if (ablate_cell_of(a, variant, k))
            return ablate_cell_of(a, variant, k);
    return NULL;
}

static void add_band(json_t *page, const ablation *a, int variant)
{
    const ablate_cell *cell = first_cell(a, variant);
    json_t *steps = json_array(), *mean = json_array(), *low = json_array(), *high = json_array();
    size_t at[2000] = {0};
    const size_t n = cell ? json_array_size(cell->lines) : 0, every = n / POINTS + 1;
    json_int_t before = 0;
    for (size_t i = 0; i < n; i++) {
        const json_t *line = json_array_get(cell->lines, i);
        const json_int_t step = json_integer_value(json_object_get(line, "step"));
        if (!isfinite(ablate_value(a, line)) || step == before || (i % every && i + 1 < n))
            continue;
        before = step;
        const ablate_sample d = differences_at(a, variant, step, at);
        if (!isfinite(d.mean))
            continue;
        json_array_append_new(steps, json_integer(step));
        json_array_append_new(mean, json_real(d.mean));
        json_array_append_new(low, json_real(isfinite(d.low) ? d.low : d.mean));
        json_array_append_new(high, json_real(isfinite(d.high) ? d.high : d.mean));
    }
    weft_page_add_band(page, a->study.variants[variant].name, steps, mean, low, high);
}

static void add_table(json_t *page, const ablation *a)
{
    json_t *names = json_array(), *rows = json_array();
    for (int i = 0; i < COLUMNS; i++)
        json_array_append_new(names, json_string(head_of(a, i)));
    for (int v = 0; v < a->study.n; v++) {
        const row r = row_of(a, v);
        json_t *cells = json_array();
        for (int i = 0; i < COLUMNS; i++)
            json_array_append_new(cells, json_string(r.cell[i]));
        json_array_append_new(rows, cells);
    }
    weft_page_add_table(page, "Variants", names, rows);
}

/* What each line of the study says. */
static void add_lines(json_t *page, const ablation *a)
{
    json_t *rows = json_array();
    for (int v = 0; v < a->study.n; v++) {
        const ablate_variant *variant = &a->study.variants[v];
        weft_text words = {0};
        for (int i = 0; i < variant->n_words; i++)
            weft_text_print(&words, "%s%s", i ? " " : "", variant->words[i]);
        json_array_append_new(
            rows, json_pack("[s, s, s]", variant->name, weft_text_get(&words),
                            json_string_value(json_object_get(a->plans[v], "program"))));
        weft_text_release(&words);
    }
    weft_page_add_table(page, "The study",
                        json_pack("[s, s, s]", "variant", "what one would type", "program"), rows);
}

static weft_status write_page(const ablation *a, weft_error *err)
{
    weft_text facts = {0};
    char *path = weft_format("%s/index.html", a->dir),
         *title = weft_format("%s on %s", a->study.file, a->options->ini);
    print_words(a, &facts);
    json_t *page = weft_page_create(title ? title : "", weft_text_get(&facts));
    for (int i = 0; i < a->n_cells; i++) {
        char name[120];
        const ablate_cell *cell = &a->cells[i];
        snprintf(name, sizeof name, "%s s%" PRId64, a->study.variants[cell->variant].name,
                 cell->seed);
        if (cell->lines)
            weft_page_add_run(page, name, a->study.variants[cell->variant].name, cell->lines);
    }
    for (int v = 1; v < a->study.n; v++)
        add_band(page, a, v);
    add_table(page, a);
    add_lines(page, a);
    weft_status s = path && title ? weft_page_write(page, path, err) : weft_fail_memory(err);
    weft_text_release(&facts);
    weft_free(title);
    weft_free(path);
    return s;
}

weft_status ablate_write_tables(const ablation *a, weft_error *err)
{
    weft_text text = {0};
    ablate_print_table(a, &text);
    weft_status s = write_text(a, "table.txt", &text, err);
    s = s ? s : write_table(a, err);
    s = s ? s : write_runs(a, err);
    s = s ? s : write_page(a, err);
    weft_text_release(&text);
    return s;
}
