/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics.h"

#include <math.h>
#include <string.h>

double metrics_rate(const weft_run_view *run)
{
    return run->step_s > 0 ? (double)run->tokens / run->step_s : NAN;
}

/* The core keeps the peak at or above what steps reach; what is left to catch is rounding. */
double metrics_mfu(const weft_run_view *run)
{
    if (!(run->step_s > 0 && run->peak_flops > 0))
        return NAN;
    return fmin(1.0, run->flops / (run->step_s * run->peak_flops));
}

const weft_report *metrics_find_report(const weft_run_view *run, const char *name)
{
    for (int i = 0; i < run->n_reports; i++)
        if (strcmp(run->reports[i].name, name) == 0)
            return &run->reports[i];
    return NULL;
}

double metrics_report(const weft_run_view *run, const char *name)
{
    const weft_report *report = metrics_find_report(run, name);
    return report ? report->value : NAN;
}

void metrics_window_add(metrics_window *window, const weft_run_view *run)
{
    int i = (int)(window->n++ % METRICS_WINDOW);
    window->step_s[i] = run->step_s;
    window->rate[i] = metrics_rate(run);
    window->mfu[i] = metrics_mfu(run);
}

double metrics_median(const metrics_window *window, const double *values)
{
    double sorted[METRICS_WINDOW];
    int n = 0, have = window->n < METRICS_WINDOW ? (int)window->n : METRICS_WINDOW;
    for (int i = 0; i < have; i++) {
        if (!isfinite(values[i]))
            continue;
        int at = n++;
        for (; at > 0 && sorted[at - 1] > values[i]; at--)
            sorted[at] = sorted[at - 1];
        sorted[at] = values[i];
    }
    if (n == 0)
        return NAN;
    return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}
