/* SPDX-License-Identifier: Apache-2.0 */
/* What `weft plan` says of a step's time, where the device says what it reaches. */
#include "forecast/forecast.h"

#include <inttypes.h>
#include <string.h>

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

/* The same as it may be and, where rates are unsure, as it may be at worst; else both are equal. */
typedef struct outlook {
    const weft_roofline *r;
    weft_forecast best, worst;
} outlook;

static void print_range(weft_text *text, double from, double to,
                        void (*print)(weft_text *text, double x))
{
    weft_text a = {0}, b = {0};
    print(&a, from);
    print(&b, to);
    weft_text_add(text, weft_text_get(&a));
    if (strcmp(weft_text_get(&a), weft_text_get(&b)) != 0)
        weft_text_print(text, " to %s", weft_text_get(&b));
    text->out_of_memory = text->out_of_memory || a.out_of_memory || b.out_of_memory;
    weft_text_release(&a);
    weft_text_release(&b);
}

static void print_share(weft_text *text, double x)
{
    weft_text_print(text, "%.1f", 100 * x);
}

static void print_mfu(const weft_plan *plan, const outlook *o, weft_text *text)
{
    const weft_forecast *f = &o->best;
    const weft_dtype dtype = product_dtype(plan, f);
    const double peak = o->r->rates.peak[dtype], all = f->step_s * peak,
                 most = o->worst.step_s * peak, half = f->model_flops - f->model_attention / 2;
    if (all <= 0)
        return;
    weft_text_print(text, ", MFU %s", f->n_unknown ? "at most " : "");
    print_range(text, half / most, half / all, print_share);
    weft_text_add(text, " % counting attention half, ");
    print_range(text, f->model_flops / most, f->model_flops / all, print_share);
    weft_text_print(text, " %% whole (of %.4g %s flop/s)",
                    o->r->sharers > 1 ? o->r->sharers * peak : peak, weft_dtype_name(dtype));
}

static void print_work(const weft_plan *plan, const outlook *o, weft_text *text)
{
    const weft_forecast *f = &o->best;
    const weft_timeline *t = f->timeline;
    static const char *const names[] = {"products", "attention", "all else", "sending"};
    weft_text_print(text, "  rank %d:", plan->rank);
    for (int w = 0; w < WEFT_WORKS; w++) {
        weft_text_print(text, "%s %s ", w ? "," : "", names[w]);
        print_range(text, f->work_s[w], o->worst.work_s[w], weft_print_seconds);
    }
    weft_text_add(text, "; waits for what is sent ");
    print_range(text, o->worst.waits_s, f->waits_s, weft_print_seconds);
    if (f->host_s > 0) {
        weft_text_add(text, ", for the host ");
        weft_print_seconds(text, f->host_s);
    }
    if (t->tasks->ranks > 1) {
        weft_text_add(text, ", for other stages ");
        weft_print_seconds(text, t->idle_s[plan->lowered[WEFT_MODE_TRAIN]->tasks - t->tasks->of]);
    }
    weft_text_add(text, "\n");
}

static void print_forecast(const weft_plan *plan, const outlook *o, weft_text *text)
{
    const weft_roofline *r = o->r;
    const weft_forecast *f = &o->best;
    const double tokens = (double)plan->units;
    weft_text_print(text, "predicted, by a roofline of %s: step %s", r->rates.name,
                    f->n_unknown ? "at least " : "");
    print_range(text, f->step_s, o->worst.step_s, weft_print_seconds);
    weft_text_add(text, f->n_unknown ? ", at most " : ", ");
    print_range(text, tokens / o->worst.step_s, tokens / f->step_s, print_count);
    weft_text_print(text, " %s/s (", plan->unit);
    print_range(text, tokens / o->worst.step_s / plan->ranks, tokens / f->step_s / plan->ranks,
                print_count);
    weft_text_add(text, " a rank)");
    print_mfu(plan, o, text);
    weft_text_add(text, "\n");
    if (plan->lowered[WEFT_MODE_TRAIN]->n_periods) {
        weft_text_add(text, "  on average; a step in which no more runs than in all of them ");
        print_range(text, f->timeline->step_s, o->worst.timeline->step_s, weft_print_seconds);
        weft_text_add(text, ", the longest ");
        print_range(text, f->longest_s, o->worst.longest_s, weft_print_seconds);
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
    print_work(plan, o, text);
    if (r->rates.hash)
        weft_text_print(text, "  by the GPU's profile %016" PRIx64 "\n", r->rates.hash);
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

/* Attention as slow as it may be. */
weft_roofline weft_roofline_slowest(const weft_roofline *r)
{
    weft_roofline slow = *r;
    slow.slow = r->rates.unsure > 1;
    return slow;
}

void weft_plan_print_forecast(const weft_plan *plan, weft_text *text)
{
    weft_roofline r;
    outlook o = {.r = &r};
    if (!weft_plan_roofline(plan, &r))
        return;
    const weft_roofline slow = weft_roofline_slowest(&r);
    if (weft_plan_forecast(plan, &r, &o.best, NULL)) {
        text->out_of_memory = true;
        return;
    }
    if (weft_plan_forecast_like(plan, o.best.n_unknown ? &r : &slow, &o.best, &o.worst, NULL))
        text->out_of_memory = true;
    else if (o.best.unknown_flops > o.best.flops / 2)
        print_unknown(&r, &o.best, text);
    else if (o.best.timeline->step_s > 0)
        print_forecast(plan, &o, text);
    weft_forecast_release(plan, &o.worst);
    weft_forecast_release(plan, &o.best);
}
