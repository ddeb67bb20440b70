/* SPDX-License-Identifier: Apache-2.0 */
/* weft compare A B ...: what differs? */
#include "folder.h"
#include "study/csv.h"
#include "study/differ.h"
#include "study/page.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Subjects, and for each but the first how it differs from that. */
typedef struct comparison {
    weft_subject *subjects;
    json_t **differences; /* [n], the first NULL */
    int n;
} comparison;

/* ---- reading ---- */

static weft_status read_all(comparison *c, const weft_cli_options *options, weft_error *err)
{
    c->subjects = weft_alloc_zero((size_t)options->n_arguments, sizeof *c->subjects);
    c->differences = weft_alloc_zero((size_t)options->n_arguments, sizeof *c->differences);
    if (!c->subjects || !c->differences)
        return weft_fail_memory(err);
    c->n = options->n_arguments;
    weft_status status = weft_subjects_read(c->subjects, options->arguments, c->n, options, err);
    for (int i = 1; !status && i < c->n; i++)
        status = weft_differ(&c->subjects[0], &c->subjects[i], &c->differences[i], err);
    return status;
}

static void release(comparison *c)
{
    for (int i = 0; i < c->n; i++) {
        weft_subject_release(&c->subjects[i]);
        json_decref(c->differences[i]);
    }
    weft_free(c->subjects);
    weft_free((void *)c->differences);
}

/* ---- what they are ---- */

static const char *kind_of(const weft_subject *s)
{
    static const char *const words[] = {"run", "INI", "plan", "checkpoint"};
    return words[s->kind];
}

/* Have both the same bits, by the last hash and all that was computed before? NULL: nothing that
 * has ended is compared. */
static const char *bits_of(const weft_subject *a, const weft_subject *b)
{
    if (a->kind == WEFT_SUBJECT_CHECKPOINT && b->kind == a->kind)
        return json_equal(a->tensors, b->tensors) ? "equal" : "differ";
    if (!a->finished || !b->finished)
        return NULL;
    json_t *values = json_array();
    bool same = false;
    weft_differ_values(a->lines, b->lines, values, &same);
    const bool apart = weft_differ_parting(values) != NULL;
    json_decref(values);
    return apart ? "differ" : same ? "equal" : "not known";
}

/* Is all of it here that would be compared? Else nobody knows that nothing differs. */
static bool is_told(const weft_subject *s)
{
    return !s->damaged && !s->no_plan;
}

typedef struct figures {
    int64_t step;
    double loss, validation, rate, step_s, peak;
} figures;

static figures figures_of(const weft_subject *s)
{
    figures f = {.step = 0};
    f.loss = weft_lines_last(s->lines, "loss", &f.step);
    f.validation = weft_lines_last(s->lines, "eval_loss", NULL);
    f.rate = weft_lines_median(s->lines, weft_lines_rate(s->lines));
    f.step_s = weft_lines_median(s->lines, "step_s");
    f.peak = weft_lines_most(s->lines, "peak_bytes");
    return f;
}

static bool has_runs(const comparison *c)
{
    for (int i = 0; i < c->n; i++)
        if (c->subjects[i].lines)
            return true;
    return false;
}

/* What runs count, tokens or samples: as the first of them does. */
static const char *unit_of(const comparison *c)
{
    int i = 0;
    while (i < c->n - 1 && !c->subjects[i].lines)
        i++;
    return weft_lines_unit(c->subjects[i].lines);
}

/* ---- text ---- */

static void print_cell(weft_text *text, int width, int digits, double x)
{
    if (isfinite(x))
        weft_text_print(text, " %*.*g", width, digits, x);
    else
        weft_text_print(text, " %*s", width, "-");
}

static void print_figures(const comparison *c, weft_text *text)
{
    if (!has_runs(c))
        return;
    weft_text_print(text, "runs%*s %8s %10s %10s %8s/s %10s %9s\n", 24, "", "steps", "loss",
                    "validation", unit_of(c), "s a step", "peak MiB");
    for (int i = 0; i < c->n; i++) {
        const figures f = figures_of(&c->subjects[i]);
        if (!c->subjects[i].lines)
            continue;
        weft_text_print(text, "  %-26s %8" PRId64, c->subjects[i].name, f.step);
        print_cell(text, 10, 6, f.loss);
        print_cell(text, 10, 6, f.validation);
        print_cell(text, 10, 4, f.rate);
        print_cell(text, 10, 4, f.step_s);
        print_cell(text, 9, 4, f.peak / (1 << 20));
        weft_text_add(text, "\n");
    }
}

static void print_pair(const comparison *c, int i, weft_text *text)
{
    const weft_subject *a = &c->subjects[0], *b = &c->subjects[i];
    const char *bits = bits_of(a, b);
    if (c->n > 2)
        weft_text_print(text, "%s%s | %s\n", i > 1 ? "\n" : "", a->name, b->name);
    weft_differ_print(c->differences[i], text);
    for (int k = 0; k < 2; k++)
        if ((k ? b : a)->no_plan)
            weft_text_print(text, "plan: none of %s, so settings are not compared: %s\n",
                            (k ? b : a)->name, (k ? b : a)->no_plan);
    for (int k = 0; k < 2; k++)
        if ((k ? b : a)->damaged)
            weft_text_print(text,
                            "damaged: %s was done, and its metrics.jsonl lacks the last steps\n",
                            (k ? b : a)->name);
    if (bits && strcmp(bits, "not known") == 0)
        weft_text_add(text, "bits: all figures are equal; whether the bits are, [metrics] hash "
                            "would say\n");
    else if (bits)
        weft_text_print(text, "bits: %s\n", bits);
    if (json_array_size(c->differences[i]) == 0 && is_told(a) && is_told(b))
        weft_text_add(text, "nothing differs\n");
}

static void print_text(const comparison *c, weft_text *text)
{
    for (int i = 1; i < c->n; i++)
        print_pair(c, i, text);
    print_figures(c, text);
}

/* ---- JSON ---- */

static json_t *real(double x)
{
    return isfinite(x) ? json_real(x) : json_null();
}

static json_t *subject_to_json(const weft_subject *s)
{
    const figures f = figures_of(s);
    if (!s->lines)
        return json_pack("{s:s, s:s, s:s*}", "name", s->name, "kind", kind_of(s), "no_plan",
                         s->no_plan);
    return json_pack("{s:s, s:s, s:s*, s:I, s:o, s:o, s:o, s:o, s:o}", "name", s->name, "kind",
                     kind_of(s), "no_plan", s->no_plan, "steps", (json_int_t)f.step, "loss",
                     real(f.loss), "eval_loss", real(f.validation), weft_lines_rate(s->lines),
                     real(f.rate), "step_s", real(f.step_s), "peak_bytes", real(f.peak));
}

static weft_status print_json(const comparison *c, weft_text *text, weft_error *err)
{
    json_t *subjects = json_array(), *pairs = json_array();
    for (int i = 0; i < c->n; i++)
        json_array_append_new(subjects, subject_to_json(&c->subjects[i]));
    for (int i = 1; i < c->n; i++)
        json_array_append_new(pairs, json_pack("{s:s, s:s, s:s?, s:O}", "a", c->subjects[0].name,
                                               "b", c->subjects[i].name, "bits",
                                               bits_of(&c->subjects[0], &c->subjects[i]),
                                               "differences", c->differences[i]));
    json_t *all = json_pack("{s:o, s:o}", "subjects", subjects, "pairs", pairs);
    char *words =
        all ? json_dumps(all, JSON_INDENT(1) | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(17))
            : NULL;
    weft_status s = words ? WEFT_OK : weft_fail_memory(err);
    if (words)
        weft_text_print(text, "%s\n", words);
    free(words); /* jansson's */
    json_decref(all);
    return s;
}

/* ---- CSV ---- */

static void add_cell(weft_text *text, const json_t *x)
{
    char *words = x && !json_is_null(x) && !json_is_string(x)
                      ? json_dumps(x, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17))
                      : NULL;
    weft_csv_add(text, words ? words : json_is_string(x) ? json_string_value(x) : "");
    free(words); /* jansson's */
}

static void print_csv(const comparison *c, weft_text *text)
{
    weft_text_add(text, "a,b,kind,what,step,value_a,value_b\n");
    for (int i = 1; i < c->n; i++) {
        size_t k;
        const json_t *o;
        json_array_foreach(c->differences[i], k, o) {
            static const char *const keys[] = {"kind", "what", "step", "a", "b"};
            weft_csv_add(text, c->subjects[0].name);
            weft_text_add(text, ",");
            weft_csv_add(text, c->subjects[i].name);
            for (int m = 0; m < 5; m++) {
                weft_text_add(text, ",");
                add_cell(text, json_object_get(o, keys[m]));
            }
            weft_text_add(text, "\n");
        }
    }
}

/* ---- a page ---- */

static json_t *text_cell(const json_t *x)
{
    weft_text text = {0};
    if (json_is_string(x))
        weft_text_add(&text, json_string_value(x));
    else if (x && !json_is_null(x)) {
        char *words = json_dumps(x, JSON_ENCODE_ANY | JSON_REAL_PRECISION(12));
        weft_text_add(&text, words ? words : "");
        free(words); /* jansson's */
    }
    json_t *cell = json_string(weft_text_get(&text));
    weft_text_release(&text);
    return cell;
}

static weft_status write_page(const comparison *c, const char *path, weft_error *err)
{
    json_t *page = weft_page_create("weft compare", "");
    for (int i = 0; i < c->n; i++)
        if (c->subjects[i].lines)
            weft_page_add_run(page, c->subjects[i].name, c->subjects[i].name, c->subjects[i].lines);
    for (int i = 1; i < c->n; i++) {
        json_t *rows = json_array(), *o;
        size_t k;
        json_array_foreach(c->differences[i], k, o)
            json_array_append_new(rows, json_pack("[o, o, o, o, o]",
                                                  text_cell(json_object_get(o, "what")),
                                                  text_cell(json_object_get(o, "kind")),
                                                  text_cell(json_object_get(o, "step")),
                                                  text_cell(json_object_get(o, "a")),
                                                  text_cell(json_object_get(o, "b"))));
        char *title = weft_format("%s and %s: %s", c->subjects[0].name, c->subjects[i].name,
                                  json_array_size(rows) ? "what differs" : "nothing differs");
        weft_page_add_table(page, title ? title : "",
                            json_pack("[s, s, s, s, s]", "what", "kind", "from step",
                                      c->subjects[0].name, c->subjects[i].name),
                            rows);
        weft_free(title);
    }
    return weft_page_write(page, path, err);
}

/* ---- the command ---- */

static int conclude(const comparison *c, bool json, bool csv, const char *html, weft_error *err)
{
    weft_text text = {0};
    weft_status s = WEFT_OK;
    if (json)
        s = print_json(c, &text, err);
    else if (csv)
        print_csv(c, &text);
    else
        print_text(c, &text);
    if (!s && html)
        s = write_page(c, html, err);
    int code = s ? weft_cli_conclude(s, err) : weft_cli_print(&text);
    for (int i = 1; !code && i < c->n; i++) {
        const char *bits = bits_of(&c->subjects[0], &c->subjects[i]);
        code = json_array_size(c->differences[i]) > 0 || (bits && strcmp(bits, "differ") == 0) ||
               !is_told(&c->subjects[0]) || !is_told(&c->subjects[i]);
    }
    weft_text_release(&text);
    return code;
}

static weft_status check(const weft_cli_options *o, bool json, bool csv, weft_error *err)
{
    if (o->n_arguments < 2)
        weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                  "compare takes two or more: weft compare A B; run folders, INIs, plans that weft "
                  "plan --json has printed, checkpoints");
    if (json && csv)
        weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "--json and --csv are two forms of one text");
    return weft_error_status(err);
}

int weft_cmd_compare(int argc, char **argv)
{
    bool json = false, csv = false, trust = false;
    const char *html = NULL;
    const weft_option extra[] = {
        {.name = "json", .help = "print one JSON object", .flag = &json},
        {.name = "csv", .help = "print a line for each difference", .flag = &csv},
        {.name = "html",
         .argument = "FILE",
         .help = "write curves and differences as one page, too",
         .text = &html},
        {.name = "trust",
         .help = "open plugins and libraries where run folders say: they are your own",
         .flag = &trust},
        {.name = NULL}};
    const weft_cli_usage usage = {
        .command = "compare",
        .arguments = "A B ...",
        .max_arguments = -1,
        .summary =
            "Says what differs between runs, INIs, plans and checkpoints: settings, what plans "
            "come "
            "to, the first values, rates. The others are held against the first. -o, --with, "
            "--without and -n are for INIs; A: or B: in front, as in -o B:train.seed=7, makes them "
            "that one's. Exit code 0: nothing differs; 1: something does; 2: bad input.",
        .accepts = WEFT_CLI_INI | WEFT_CLI_RANKS,
        .extra = extra,
    };
    weft_cli_options options;
    weft_error err = {0};
    comparison c = {0};
    int code = weft_cli_parse(&usage, argc, argv, &options);
    if (code == WEFT_CLI_GO) {
        options.ini_trust = trust ? WEFT_TRUST_ALL : WEFT_TRUST_FILES;
        weft_status s = check(&options, json, csv, &err);
        s = s ? s : read_all(&c, &options, &err);
        code = s ? weft_cli_report(&err) : conclude(&c, json, csv, html, &err);
    }
    release(&c);
    weft_error_release(&err);
    weft_cli_options_release(&options);
    return code;
}
