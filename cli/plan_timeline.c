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
                         "--%s: '%s' is not a rate; a rate is a number above 0, as 3e12", option,
                         text);
    *rate = given;
    return WEFT_OK;
}

/* What the device does not say, or is not asked. */
static weft_status read_rates(const weft_cli_timeline *w, weft_roofline *r, weft_error *err)
{
    double flops_per_s = 0, bytes_per_s = 0;
    weft_status flops = read_rate("flops-per-s", w->flops_per_s, &flops_per_s, err);
    weft_status bytes = read_rate("bytes-per-s", w->bytes_per_s, &bytes_per_s, err);
    weft_roofline_assume(r, flops_per_s, bytes_per_s);
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

/* What times were made of, and of that what nobody has said. */
static void print_rates(const weft_cli_timeline *w, const weft_roofline *r, bool known,
                        const weft_costs *costs, weft_text *text)
{
    const bool assumed[] = {!known && !w->times && !w->flops_per_s,
                            !known && !w->times && !w->bytes_per_s};
    if (w->times)
        weft_text_print(text, "tasks take what %s says; a rank ", w->times);
    else if (known && !w->flops_per_s)
        weft_text_print(text, "predicted by a roofline of %s; a rank ", r->rates.name);
    else
        weft_text_print(text, "a rank computes %g flop/s and ", r->rates.other);
    weft_text_print(text, "sends %g byte/s", costs->bytes_per_s);
    if (assumed[0] || assumed[1])
        weft_text_print(text, " (assumed: see %s%s--times)", assumed[0] ? "--flops-per-s, " : "",
                        assumed[1] ? "--bytes-per-s, " : "");
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

/* measured: tasks take what somebody says; NULL: as predicted. */
static weft_status print(const weft_plan *plan, const weft_cli_timeline *w, const weft_roofline *r,
                         bool known, const weft_forecast *f, const weft_timeline *measured,
                         weft_text *text, weft_error *err)
{
    const weft_timeline *timeline = measured ? measured : f->timeline;
    weft_status s = WEFT_OK;
    weft_timeline_print_summary(timeline, text);
    weft_plan_print_costs(&f->costs, plan->tasks[WEFT_MODE_TRAIN]->rank_of, text);
    print_rates(w, r, known, &f->costs, text);
    if (w->rows)
        weft_timeline_print(timeline, (int)w->width, text);
    if (w->svg)
        s = write_svg(timeline, w->svg, err);
    if (!s && w->trace)
        s = weft_cli_write_trace(plan, &(weft_cli_steps){r, f, measured}, w->trace, err);
    return s;
}

weft_status weft_cli_print_timeline(const weft_plan *plan, const weft_cli_timeline *w,
                                    weft_text *text, weft_error *err)
{
    weft_roofline roofline;
    weft_forecast f;
    weft_timeline *measured = NULL;
    const bool known = weft_plan_roofline(plan, &roofline);
    weft_status s = read_rates(w, &roofline, err);
    s = s ? s : weft_plan_forecast(plan, &roofline, &f, err);
    if (s)
        return s;
    if (w->times)
        s = read_times(w->times, &f.costs, err);
    if (!s && w->times)
        s = weft_timeline_create(plan->tasks[WEFT_MODE_TRAIN], &f.costs,
                                 plan->tasks[WEFT_MODE_TRAIN]->sending, &measured, err);
    s = s ? s : print(plan, w, &roofline, known, &f, measured, text, err);
    weft_timeline_destroy(measured);
    weft_forecast_release(plan, &f);
    return s;
}
