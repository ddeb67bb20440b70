/* SPDX-License-Identifier: Apache-2.0 */
/* weft curve RUN...: a figure of one or several runs by step, drawn in the terminal. It shows a
 * command of a plugin: options, files, results and errors. */
#include <weft/weft.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RUNS = 26, ROWS = 12 };

typedef struct chart {
    const char *key;
    int64_t width;
    double low, high, last_step;
    double *sum; /* by run and column: of all lines there, and how many they are */
    int *n;
} chart;

/* The number of a key in a line of metrics.jsonl; false: it has none. */
static bool find_number(const char *line, const char *key, double *x)
{
    char quoted[80], *end;
    snprintf(quoted, sizeof quoted, "\"%s\": ", key);
    const char *at = strstr(line, quoted);
    if (!at)
        return false;
    *x = strtod(at + strlen(quoted), &end);
    return end > at + strlen(quoted) && *x - *x == 0;
}

/* first: only looks how far the lines go; else adds them up by column, but for those that a run has
 * added meanwhile. false: there are none. */
static bool read_lines(chart *c, char *text, int run, bool first)
{
    bool any = false;
    for (char *line = text, *next; *line; line = next) {
        double step, x;
        next = line + strcspn(line, "\n");
        if (*next)
            *next++ = '\0';
        if (!find_number(line, "step", &step) || step < 1 || !find_number(line, c->key, &x))
            continue;
        any = true;
        c->last_step = first && step > c->last_step ? step : c->last_step;
        if (first || step > c->last_step)
            continue;
        const int64_t column = (int64_t)((step - 1) / c->last_step * (double)c->width);
        c->sum[run * c->width + column] += x;
        c->n[run * c->width + column]++;
    }
    return any;
}

static weft_status read_runs(chart *c, const char **names, int runs, bool first, weft_error *err)
{
    for (int i = 0; i < runs; i++) {
        size_t size;
        char *text = NULL, *path = weft_format("%s/metrics.jsonl", names[i]);
        weft_status s = path ? weft_read_file(path, &text, &size, err) : weft_fail_memory(err);
        weft_free(path);
        if (!s && !read_lines(c, text, i, first))
            s = weft_fail(err, WEFT_ERR_INPUT, (weft_where){names[i], 0},
                          "no line has a step and the number '%s'", c->key);
        weft_free(text);
        if (s)
            return s;
    }
    return WEFT_OK;
}

/* Means of columns, and what lies between the least and the largest. */
static void take_means(chart *c, int runs)
{
    bool any = false;
    for (int64_t i = 0; i < runs * c->width; i++) {
        if (c->n[i] == 0)
            continue;
        const double x = c->sum[i] /= c->n[i];
        c->low = !any || x < c->low ? x : c->low;
        c->high = !any || x > c->high ? x : c->high;
        any = true;
    }
}

static void draw(const chart *c, const char **names, int runs, weft_text *out)
{
    const double range = c->high > c->low ? c->high - c->low : 1;
    for (int row = ROWS - 1; row >= 0; row--) {
        weft_text_print(out, "%10.4g ", c->low + range * row / (ROWS - 1));
        for (int64_t column = 0; column < c->width; column++) {
            char mark = ' ';
            for (int i = runs - 1; i >= 0; i--)
                if (c->n[i * c->width + column] &&
                    (int)((c->sum[i * c->width + column] - c->low) / range * (ROWS - 1) + 0.5) ==
                        row)
                    mark = (char)('a' + i);
            weft_text_print(out, "%c", mark);
        }
        weft_text_print(out, "\n");
    }
    weft_text_print(out, "%10s of steps 1 to %g\n", c->key, c->last_step);
    for (int i = 0; i < runs; i++)
        weft_text_print(out, "%10c %s\n", 'a' + i, names[i]);
}

static weft_status run(const weft_command_host *host, int argc, char **argv, weft_error *err)
{
    chart c = {.key = "loss", .width = 60};
    const char *names[MOST_RUNS];
    int runs = 0;
    const weft_option list[] = {{.name = "key", .text = &c.key},
                                {.name = "width", .number = &c.width, .min = 10, .max = 500},
                                {.name = NULL}};
    const weft_options options = {"curve", list, names, MOST_RUNS, &runs};
    weft_status s = weft_options_parse(&options, argc, argv, err);
    if (!s && runs == 0)
        s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "weft curve takes the folder of a run");
    if (s)
        return s;
    weft_text out = {0};
    c.sum = weft_alloc_zero((size_t)(runs * c.width), sizeof *c.sum);
    c.n = weft_alloc_zero((size_t)(runs * c.width), sizeof *c.n);
    s = c.sum && c.n ? read_runs(&c, names, runs, true, err) : weft_fail_memory(err);
    s = s ? s : read_runs(&c, names, runs, false, err);
    if (!s) {
        take_means(&c, runs);
        draw(&c, names, runs, &out);
        s = out.out_of_memory ? weft_fail_memory(err)
                              : host->write(host, weft_text_get(&out), out.size, err);
    }
    weft_text_release(&out);
    weft_free(c.sum);
    weft_free(c.n);
    return s;
}

static const weft_command curve = {"curve", "draw a figure of runs by step",
                                   "usage: weft curve [--key NAME] [--width N] RUN...\n\nDraws a "
                                   "number of metrics.jsonl, the loss "
                                   "if no --key says another, of up to 26 runs.\n",
                                   run};
static const weft_contribution contributions[] = {{.kind = WEFT_COMMAND, .command = &curve}, {0}};

WEFT_PLUGIN(curve) = {WEFT_PLUGIN_HEAD,
                      .name = "curve",
                      .version = "1.0",
                      .licence = "Apache-2.0",
                      .summary = "the command curve: a figure of runs by step",
                      .contributions = contributions};
