/* SPDX-License-Identifier: Apache-2.0 */
/* One run of the search: made, and judged. */
#include "bisect.h"

#include "folder.h"
#include "study/differ.h"
#include "study/steps.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include <weft/store.h>

/* Runs what `ini` says, in a process of its own; its exit code. */
static weft_status run_ini(const bisection *b, const char *ini, int *code, weft_error *err)
{
    weft_cli_edit edits[] = {{WEFT_CLI_WITH, "metrics", NULL},
                             {WEFT_CLI_SET, "metrics.hash=1", NULL},
                             {WEFT_CLI_SET, "metrics.jsonl=yes", NULL},
                             {WEFT_CLI_SET, "metrics.bar=no", NULL}};
    bool listed = false;
    const json_t *name;
    size_t i;
    json_array_foreach(json_object_get(b->a, "plugins"), i, name)
        listed = listed || strcmp(json_string_value(name), "metrics") == 0;
    const weft_cli_options options = {
        .ini = ini, .edits = edits + listed, .n_edits = 4 - listed, .ranks = (int)b->ranks};
    return weft_steps_run(&options, b->steps, b->dir, code, err);
}

/* ---- good or bad ---- */

static const json_t *first_difference(const bisection *b, const json_t *lines, json_t *values)
{
    bool same;
    weft_differ_values(b->first, lines, values, &same);
    return weft_differ_parting(values);
}

void bisect_print_first(const bisection *b, const json_t *lines, weft_text *text)
{
    json_t *values = json_array();
    const json_t *o = first_difference(b, lines, values), *x = json_object_get(o, "a"),
                 *y = json_object_get(o, "b");
    if (o && json_is_number(x) && json_is_number(y))
        weft_text_print(text, "from step %d on: %s %.9g | %.9g",
                        (int)json_integer_value(json_object_get(o, "step")),
                        json_string_value(json_object_get(o, "what")), json_number_value(x),
                        json_number_value(y));
    else if (o)
        weft_text_print(text, "from step %d on: %s",
                        (int)json_integer_value(json_object_get(o, "step")),
                        json_string_value(json_object_get(o, "what")));
    json_decref(values);
}

static bool holds(const bisection *b, const json_t *lines)
{
    double x = NAN;
    for (size_t i = json_array_size(lines); i > 0 && isnan(x); i--) {
        const json_t *value = json_object_get(json_array_get(lines, i - 1), b->metric);
        if (json_is_null(value))
            return true; /* it is not finite */
        if (json_is_number(value))
            x = json_number_value(value);
    }
    const bool or_equal = b->relation[1] == '=';
    return (b->relation[0] == '>' ? x > b->limit : x < b->limit) || (or_equal && x == b->limit);
}

static bisect_outcome judge(const bisection *b, const json_t *lines)
{
    if (*b->metric)
        return holds(b, lines) ? BISECT_BAD : BISECT_GOOD;
    if (!b->first)
        return BISECT_GOOD;
    json_t *values = json_array();
    const bool apart = first_difference(b, lines, values) != NULL;
    json_decref(values);
    return apart ? BISECT_BAD : BISECT_GOOD;
}

weft_status bisect_try(bisection *b, const bool *has, bisect_outcome *outcome, json_t **lines,
                       weft_text *why, weft_error *err)
{
    char *ini = weft_format("%s/run.ini", b->dir),
         *metrics = weft_format("%s/metrics.jsonl", b->dir),
         *saves = weft_format("%s/ckpt", b->dir);
    int code = 1;
    *outcome = BISECT_REFUSED;
    *lines = NULL;
    weft_status s =
        ini && metrics && saves ? bisect_write_ini(b, has, ini, err) : weft_fail_memory(err);
    if (!s) {
        unlink(metrics);
        s = weft_io_remove_tree(weft_io_system(), saves, err);
    }
    b->runs++;
    s = s ? s : run_ini(b, ini, &code, err);
    if (!s && code == 0)
        s = weft_folder_read_metrics(b->dir, 0, lines, err);
    if (!s && *lines)
        *outcome = judge(b, *lines);
    else if (!s && why)
        weft_steps_print_why(b->dir, why);
    weft_free(saves);
    weft_free(metrics);
    weft_free(ini);
    return s;
}
