/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_timeline.h"
#include "plan_trace.h"

#include <weft/files.h>

#include <math.h>
#include <stdlib.h>

bool weft_cli_wants_timeline(const weft_cli_timeline *w)
{
    return w->simulate || w->rows || w->svg || w->trace || w->times || w->flops_per_s ||
           w->bytes_per_s;
}

static weft_status read_rate(const char *option, const char *text, double *rate, weft_error *err)
{
    char *end;
    if (!text)
        return WEFT_OK;
    double given = strtod(text, &end);
    if (end == text || *end || !isfinite(given) || given <= 0)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "--%s: '%s' is no rate; it is a number above 0, as 3e12", option, text);
    *rate = given;
    return WEFT_OK;
}

static weft_status read_rates(const weft_cli_timeline *w, weft_rates *rates, weft_error *err)
{
    weft_status flops = read_rate("flops-per-s", w->flops_per_s, &rates->flops_per_s, err);
    weft_status bytes = read_rate("bytes-per-s", w->bytes_per_s, &rates->bytes_per_s, err);
    if (!flops && !bytes && w->times && w->flops_per_s)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "--times and --flops-per-s both say what tasks take; give one of them");
    return flops ? flops : bytes;
}

static weft_status read_times(const char *path, weft_costs *costs, weft_error *err)
{
    char *data;
    size_t size;
    weft_status s = weft_read_file(path, &data, &size, err);
    if (s)
        return s;
    s = weft_costs_parse(costs, path, data, err);
    weft_free(data);
    return s;
}

static void print_rates(const weft_cli_timeline *w, const weft_rates *rates, weft_text *text)
{
    if (w->times)
        weft_text_print(text, "tasks take what %s says; ", w->times);
    else
        weft_text_print(text, "a rank computes %g flop/s and ", rates->flops_per_s);
    weft_text_print(text, "%s %g byte/s", w->times ? "a rank sends" : "sends", rates->bytes_per_s);
    if (!w->times && (!w->flops_per_s || !w->bytes_per_s))
        weft_text_print(text, " (assumed: see %s%s--times)",
                        w->flops_per_s ? "" : "--flops-per-s, ",
                        w->bytes_per_s ? "" : "--bytes-per-s, ");
    weft_text_add(text, "\n");
}

static weft_status write_svg(const weft_timeline *timeline, const char *path, weft_error *err)
{
    weft_text svg = {0};
    weft_timeline_print_svg(timeline, &svg);
    weft_status s = svg.out_of_memory ? weft_fail_memory(err)
                                      : weft_write_file(path, weft_text_get(&svg), svg.size, err);
    weft_text_release(&svg);
    return s;
}

static weft_status print(const weft_plan *plan, const weft_cli_timeline *w, const weft_rates *rates,
                         const weft_costs *costs, weft_text *text, weft_error *err)
{
    weft_timeline *timeline;
    weft_status s = weft_timeline_create(plan->tasks[WEFT_MODE_TRAIN], costs, WEFT_TASKS_SENDING,
                                         &timeline, err);
    if (s)
        return s;
    weft_timeline_print_summary(timeline, text);
    weft_plan_print_costs(costs, text);
    print_rates(w, rates, text);
    if (w->rows)
        weft_timeline_print(timeline, (int)w->width, text);
    if (w->svg)
        s = write_svg(timeline, w->svg, err);
    if (!s && w->trace)
        s = weft_cli_write_trace(plan, timeline, rates, w->trace, err);
    weft_timeline_destroy(timeline);
    return s;
}

weft_status weft_cli_print_timeline(const weft_plan *plan, const weft_cli_timeline *w,
                                    weft_text *text, weft_error *err)
{
    weft_rates rates = {.flops_per_s = 1e12, .bytes_per_s = 1e10};
    weft_costs costs;
    weft_status s = read_rates(w, &rates, err);
    s = s ? s : weft_plan_costs(plan, &rates, &costs, err);
    if (s)
        return s;
    if (w->times)
        s = read_times(w->times, &costs, err);
    s = s ? s : print(plan, w, &rates, &costs, text, err);
    weft_costs_release(&costs);
    return s;
}
