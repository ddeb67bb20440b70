/* SPDX-License-Identifier: Apache-2.0 */
/* What `weft plan` says of a step's time, where the device says what it reaches. */
#include "forecast/forecast.h"

/* Of what is counted in large numbers. */
static void print_count(weft_text *text, double n)
{
    static const char *const units[] = {"", " k", " M", " G", " T"};
    int u = 0;
    for (; n >= 1e4 && u < 4; u++)
        n /= 1000;
    weft_text_print(text, "%.0f%s", n, units[u]);
}

/* What most products run in, widened ones in what they are widened to. */
static weft_dtype product_dtype(const weft_plan *plan, const weft_forecast *f)
{
    weft_dtype most = plan->lowered[WEFT_MODE_TRAIN]->product_dtype;
    for (int i = 0; i < WEFT_DTYPES; i++)
        if (f->products[i] > f->products[most])
            most = (weft_dtype)i;
    return most;
}

static void print_mfu(const weft_plan *plan, const weft_roofline *r, const weft_forecast *f,
                      double step_s, weft_text *text)
{
    const weft_dtype dtype = product_dtype(plan, f);
    const double peak = r->rates.peak[dtype], all = step_s * peak;
    if (all <= 0)
        return;
    weft_text_print(
        text, ", MFU %s%.1f %% counting attention half, %.1f %% whole (of %.4g %s flop/s)",
        f->n_unknown ? "at most " : "", 100 * (f->model_flops - f->model_attention / 2) / all,
        100 * f->model_flops / all, r->sharers > 1 ? r->sharers * peak : peak,
        weft_dtype_name(dtype));
}

static void print_work(const weft_plan *plan, const weft_forecast *f, const weft_timeline *t,
                       weft_text *text)
{
    static const char *const names[] = {"products", "attention", "all else", "sending"};
    weft_text_print(text, "  rank %d:", plan->rank);
    for (int w = 0; w < WEFT_WORKS; w++) {
        weft_text_print(text, "%s %s ", w ? "," : "", names[w]);
        weft_print_seconds(text, f->work_s[w]);
    }
    weft_text_add(text, "; waits for what is sent ");
    weft_print_seconds(text, f->waits_s);
    if (t->tasks->ranks > 1) {
        weft_text_add(text, ", for other stages ");
        weft_print_seconds(text, t->idle_s[plan->lowered[WEFT_MODE_TRAIN]->tasks - t->tasks->of]);
    }
    weft_text_add(text, "\n");
}

static void print_forecast(const weft_plan *plan, const weft_roofline *r, const weft_forecast *f,
                           const weft_timeline *t, weft_text *text)
{
    const double tokens = (double)plan->global_batch * (double)plan->seq_len / f->step_s;
    weft_text_print(text, "predicted, by a roofline of %s: step %s", r->rates.name,
                    f->n_unknown ? "at least " : "");
    weft_print_seconds(text, f->step_s);
    weft_text_add(text, f->n_unknown ? ", at most " : ", ");
    print_count(text, tokens);
    weft_text_add(text, " tokens/s (");
    print_count(text, tokens / plan->ranks);
    weft_text_add(text, " a rank)");
    print_mfu(plan, r, f, f->step_s, text);
    weft_text_add(text, "\n");
    if (plan->lowered[WEFT_MODE_TRAIN]->n_periods) {
        weft_text_add(text, "  on average; a step in which no more runs than in all of them ");
        weft_print_seconds(text, t->step_s);
        weft_text_add(text, ", the longest ");
        weft_print_seconds(text, f->longest_s);
        weft_text_add(text, "\n");
    }
    if (r->sharers > 1)
        weft_text_print(text, "  the %d ranks share one device and take it in turn\n", r->sharers);
    if (r->through_host) {
        weft_text_add(text, "  what ranks send goes through the host");
        if (r->rates.host_link > 0)
            weft_text_print(text, ", at %.4g byte/s each way", r->rates.host_link);
        weft_text_add(text, "\n");
    }
    print_work(plan, f, t, text);
    if (f->n_unknown)
        weft_text_print(text,
                        "  %d instructions (%s%s) have no kernel or no rate there: the host would "
                        "compute that, and the time is far too short\n",
                        f->n_unknown, f->unknown, f->n_unknown > 1 ? ", ..." : "");
}

static void print_unknown(const weft_roofline *r, const weft_forecast *f, weft_text *text)
{
    weft_text_print(text,
                    "not predicted: %d instructions (%s, ...), %.0f %% of all that is computed, "
                    "have no kernel or no rate on %s: the host would compute that\n",
                    f->n_unknown, f->unknown, 100 * f->unknown_flops / f->flops, r->rates.name);
}

void weft_plan_print_forecast(const weft_plan *plan, weft_text *text)
{
    weft_roofline r;
    weft_forecast f;
    if (!weft_plan_roofline(plan, &r))
        return;
    if (weft_plan_forecast(plan, &r, &f, NULL)) {
        text->out_of_memory = true;
        return;
    }
    if (f.unknown_flops > f.flops / 2)
        print_unknown(&r, &f, text);
    else if (f.timeline->step_s > 0)
        print_forecast(plan, &r, &f, f.timeline, text);
    weft_forecast_release(plan, &f);
}
