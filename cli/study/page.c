/* SPDX-License-Identifier: Apache-2.0 */
#include "study/page.h"

#include "folder.h"
#include "templates.h"

#include <stdlib.h>
#include <string.h>

enum { POINTS = 1000 };

json_t *weft_page_create(const char *title, const char *facts)
{
    return json_pack("{s:s%, s:s%, s:[], s:[], s:[]}", "title", title, strlen(title), "facts",
                     facts, strlen(facts), "runs", "paired", "tables");
}

/* Of long runs the mean of neighbouring steps. */
static void add_series(json_t *to, const json_t *lines, const char *key, const char *name)
{
    json_t *steps = json_array(), *values = json_array(), *line;
    size_t i, n = 0;
    json_array_foreach(lines, i, line)
        n += json_is_number(json_object_get(line, key));
    const size_t every = n / POINTS + 1;
    double sum = 0;
    size_t count = 0;
    json_array_foreach(lines, i, line) {
        const json_t *x = json_object_get(line, key);
        if (!json_is_number(x))
            continue;
        sum += json_number_value(x);
        if (++count < every && --n > 0)
            continue;
        json_array_append(steps, json_object_get(line, "step"));
        json_array_append_new(values, json_real(sum / (double)count));
        sum = 0;
        count = 0;
    }
    json_object_set_new(to, name, json_pack("{s:o, s:o}", "x", steps, "y", values));
}

void weft_page_add_run(json_t *page, const char *name, const char *group, const json_t *lines)
{
    json_t *run = json_pack("{s:s, s:s}", "name", name, "group", group);
    add_series(run, lines, "loss", "loss");
    add_series(run, lines, "eval_loss", "validation");
    add_series(run, lines, weft_lines_rate(lines), "rate");
    add_series(run, lines, "grad_norm", "norm");
    json_array_append_new(json_object_get(page, "runs"), run);
}

void weft_page_add_table(json_t *page, const char *title, json_t *heads, json_t *rows)
{
    json_array_append_new(
        json_object_get(page, "tables"),
        json_pack("{s:s, s:o, s:o}", "title", title, "heads", heads, "rows", rows));
}

void weft_page_add_band(json_t *page, const char *group, json_t *steps, json_t *mean, json_t *low,
                        json_t *high)
{
    json_array_append_new(json_object_get(page, "paired"),
                          json_pack("{s:s, s:o, s:o, s:o, s:o}", "group", group, "x", steps, "y",
                                    mean, "low", low, "high", high));
}

weft_status weft_page_write(json_t *page, const char *path, weft_error *err)
{
    static const char mark[] = "@DATA@";
    const char *at = strstr(weft_template_study_html, mark);
    char *data = page && at ? json_dumps(page, JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(9)) : NULL;
    weft_text out = {0};
    json_decref(page);
    if (!data)
        return weft_fail_memory(err);
    weft_text_add_bytes(&out, weft_template_study_html, (size_t)(at - weft_template_study_html));
    for (const char *c = data; *c; c++) /* no name ends the page's script */
        weft_text_add_bytes(&out, *c == '<' ? "\\u003c" : c, *c == '<' ? 6 : 1);
    weft_text_add(&out, at + sizeof mark - 1);
    free(data); /* jansson's */
    weft_status s =
        out.out_of_memory ? weft_fail_memory(err) : weft_write_file(path, out.data, out.size, err);
    weft_text_release(&out);
    return s;
}
