/* SPDX-License-Identifier: Apache-2.0 */
/* The training loop. */
#include "base/blame.h"
#include "execute/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static weft_lowered *train_of(const weft_run *run)
{
    return run->plan->lowered[WEFT_MODE_TRAIN];
}

/* Observers see what the step begins with, and the inputs of a micro-batch before its first task.
 */
static weft_status show_sources(void *self, const weft_task *task, weft_error *err)
{
    weft_run *run = self;
    const weft_lowered *l = train_of(run);
    if (task->part == WEFT_PART_BEGIN)
        return weft_observe_sources(run, l, -1, err);
    bool first = task->part == WEFT_PART_F && task->stage == weft_lowered_first_stage(l);
    return first ? weft_observe_sources(run, l, task->micro_batch, err) : WEFT_OK;
}

/* All that must be known before the update. */
static weft_status compute(weft_run *run, weft_error *err)
{
    const weft_task_hooks hooks = {.before = show_sources, .self = run};
    return weft_run_parts(run, WEFT_MODE_TRAIN, WEFT_PART_BEGIN, WEFT_PART_STEP_END, &hooks, err);
}

/* What a service counts stands behind what there is of reports. */
static weft_status add_counts(weft_run *run, const void *service, int n, weft_error *err)
{
    for (int i = 0; i < n && i < WEFT_MOST_COUNTS; i++)
        n = run->reports[run->view.n_reports + i].name ? n : -1;
    if (n < 0 || n > WEFT_MOST_COUNTS)
        return weft_fail(err, WEFT_ERR_RUN, WEFT_NOWHERE,
                         "plugin '%s': its counts are from 0 to %d, each with a name",
                         weft_plugins_giver(run->plan->plugins, service), WEFT_MOST_COUNTS);
    run->view.n_reports += n;
    return WEFT_OK;
}

static weft_status read_reports(weft_run *run, weft_error *err)
{
    weft_lowered *l = train_of(run);
    const weft_graph *g = l->graph;
    run->scalars[0] = g->loss_report;
    run->scalars[1] = g->tokens;
    for (int i = 0; i < g->n_reports; i++)
        run->scalars[2 + i] = g->reports[i].value;
    double *read = run->scalars_read;
    weft_status s = weft_run_scalars(run, l, run->scalars, 2 + g->n_reports, read, err);
    if (s)
        return s;
    run->view.tokens = read[1] > 0 && g->counted ? run->plan->global_batch : (int64_t)read[1];
    run->view.loss = run->view.tokens == 0 ? NAN : read[0]; /* of nothing there is no mean */
    run->view.grad_norm = NAN;
    run->view.n_reports = g->n_reports;
    for (int i = 0; i < g->n_reports; i++) {
        run->reports[i].name = g->reports[i].name;
        run->reports[i].value = read[2 + i];
        run->most[i] = fmax(run->most[i], read[2 + i]);
        if (strcmp(g->reports[i].name, "grad_norm") == 0)
            run->view.grad_norm = run->reports[i].value;
    }
    const weft_device *d = run->plan->device;
    int n = d->counts ? d->counts(run->plan->device_self, run->reports + g->n_reports) : 0;
    return add_counts(run, d, n, err);
}

/* What the update has moved is of this step, too. */
static weft_status count_far(weft_run *run, weft_error *err)
{
    const weft_far *f = run->plan->far;
    weft_report *list = run->reports + run->view.n_reports;
    return add_counts(run, f, f && f->counts ? f->counts(run->plan->far_self, list) : 0, err);
}

static bool has_report(const weft_run *run, const char *name)
{
    const weft_graph *g = train_of(run)->graph;
    for (int i = 0; i < g->n_reports; i++)
        if (strcmp(g->reports[i].name, name) == 0)
            return true;
    return false;
}

/* The report that refuses the step; -1: none does. */
static int find_refusal(const weft_run *run)
{
    const weft_graph *g = train_of(run)->graph;
    for (int i = 0; i < g->n_reports; i++)
        if (g->reports[i].why && run->reports[i].value != 0)
            return i;
    return -1;
}

static weft_status explain_refusal(const weft_run *run, int r, weft_error *err)
{
    const weft_graph *g = train_of(run)->graph;
    const weft_report_value *by = &g->reports[r];
    weft_text other = {0};
    for (int i = 0; by->other && i < g->n_reports; i++)
        if (strcmp(g->reports[i].name, by->other) == 0)
            weft_text_print(&other, " %g", run->most[i]);
    weft_fail(err, WEFT_ERR_REPEATS, WEFT_NOWHERE, "step %lld: %g %s%s", (long long)run->view.step,
              run->reports[r].value, by->why, weft_text_get(&other));
    weft_text_release(&other);
    return WEFT_ERR_REPEATS;
}

static bool is_finite(const weft_run *run)
{
    return isfinite(run->view.loss) &&
           (!has_report(run, "grad_norm") || isfinite(run->view.grad_norm));
}

/* Why nothing is to be learnt from this step. */
static weft_status explain(weft_run *run, weft_error *err)
{
    const int refusal = find_refusal(run);
    if (is_finite(run) && refusal >= 0)
        return explain_refusal(run, refusal, err);
    if (run->view.tokens > 0) {
        weft_status s = weft_observe_step(run, WEFT_EVENT_NOT_FINITE, err);
        return s ? s
                 : weft_fail(err, WEFT_ERR_REPEATS, WEFT_NOWHERE,
                             "step %lld is not finite: loss %g, gradient norm %g",
                             (long long)run->view.step, run->view.loss, run->view.grad_norm);
    }
    return weft_fail(err, WEFT_ERR_REPEATS, WEFT_NOWHERE,
                     "step %lld has nothing to learn from: not one of its %lld %s has a label",
                     (long long)run->view.step, (long long)run->plan->units, run->plan->unit);
}

static weft_status update(weft_run *run, weft_error *err)
{
    const weft_params *train = run->plan->train;
    if (run->view.tokens > 0 && is_finite(run) && find_refusal(run) < 0) {
        run->view.in_a_row = 0;
        weft_status ready = weft_keeper_before_update(run, err);
        return ready ? ready
                     : weft_run_parts(run, WEFT_MODE_TRAIN, WEFT_PART_UPDATE, WEFT_PART_UPDATE,
                                      NULL, err);
    }
    weft_error why = {0};
    weft_status s = explain(run, &why);
    const int64_t limit = weft_params_int(train, "nonfinite_limit"), n = run->view.in_a_row + 1;
    const bool may = weft_params_is(train, "nonfinite", "skip");
    const bool skip = may && s == WEFT_ERR_REPEATS && (limit == 0 || n <= limit);
    if (skip) {
        run->view.skipped++;
        run->view.in_a_row = n;
        if (run->plan->rank == 0)
            weft_log_print(run->log, WEFT_LOG_WARN, "%s; the update is skipped (%lld so far)",
                           weft_error_text(&why), (long long)run->view.skipped);
    } else {
        weft_fail(
            err, s, WEFT_NOWHERE,
            may ? "%s; parameters are those of step %lld: it is one more in a row than may be "
                  "skipped ([train] nonfinite_limit = %lld)"
                : "%s; parameters are those of step %lld. [train] nonfinite = skip goes on "
                  "without the update",
            weft_error_text(&why), (long long)(run->view.step - n), (long long)limit);
        weft_keeper_finish(run);
    }
    weft_error_release(&why);
    return skip ? WEFT_OK : s;
}

/* Ranks may be slow without fault in the first step, and while they still have to do with a save.
 */
static void watch_step(weft_run *run)
{
    weft_control_set_moment(run->plan->plugins->control, run->watch,
                            (weft_moment){.step = run->view.step});
    run->watch->started = true;
    run->watch->patient = run->step == run->first_step || run->saved;
}

static weft_status one_step(weft_run *run, weft_error *err)
{
    double start = weft_now();
    const weft_batch *batch;
    run->view.step = run->step + 1;
    run->sent_s = 0;
    weft_blame_set_step(run->view.step);
    watch_step(run);
    weft_status s = weft_observe(run, WEFT_EVENT_STEP_BEGIN, err);
    s = s ? s : weft_times_begin(run, err);
    s = s ? s : weft_loader_get(run, &batch, err);
    if (s)
        return s;
    run->view.data_s = weft_now() - start;
    run->consumed += run->plan->global_batch;
    if (run->view.step < run->plan->steps)
        weft_loader_want(run, run->consumed);
    weft_fill_step(batch, run->view.step);
    for (int64_t k = 0; k < run->plan->micro_batches; k++)
        weft_fill_micro_batch(batch, k, k);
    s = weft_run_feed(run, batch, err);
    s = s ? s : compute(run, err);
    s = s ? s : read_reports(run, err);
    s = s ? s : weft_observe_step(run, WEFT_EVENT_GRADIENTS, err);
    s = !s && run->probe ? run->probe->gradients(run->probe, run, err) : s;
    s = s ? s : update(run, err);
    s = s ? s : weft_observe_step(run, WEFT_EVENT_UPDATED, err);
    s = !s && run->probe ? run->probe->updated(run->probe, run, err) : s;
    s = s ? s : count_far(run, err);
    if (s)
        return s;
    run->step++;
    run->view.samples = run->consumed;
    run->view.waits = run->watch->waits;
    run->view.total_tokens += run->view.tokens;
    run->view.step_s = weft_now() - start;
    size_t device_peak = weft_device_peak_bytes(run->plan);
    run->view.peak_bytes = device_peak ? device_peak : weft_peak_bytes();
    return WEFT_OK;
}

/* The device's own rate is measured if anybody will see it, and not before the run has taken some
 * time, for measuring would be most of a short one; unless instructions' times are held against it.
 * A step that is faster shows that it was measured badly: it is looked at again, and never below
 * what was done. */
static void measure_peak(weft_run *run, double elapsed_s)
{
    static const double soonest_s = 2;
    const weft_plan *plan = run->plan;
    weft_run_view *view = &run->view;
    double reached = view->step_s > 0 ? view->flops / view->step_s : 0;
    bool due = !run->peak_asked && (elapsed_s >= soonest_s || run->shows_times),
         wrong = view->peak_flops > 0 && reached > view->peak_flops;
    if (!plan->device->peak || !weft_is_observed(run, WEFT_EVENT_STEP_END) || (!due && !wrong))
        return;
    run->peak_asked = true;
    view->peak_flops = plan->device->peak(plan->device_self,
                                          plan->lowered[WEFT_MODE_TRAIN]->product_dtype, reached);
    if (view->peak_flops > 0 && view->peak_flops < reached)
        view->peak_flops = reached;
}

static bool wants_text(const weft_run *run, bool last)
{
    const weft_plan *plan = run->plan;
    return run->write_texts && plan->generator &&
           plan->generator->want(plan->generator_self, run->step, last);
}

static weft_status after_step(weft_run *run, weft_error *err)
{
    bool last = run->step == run->plan->steps;
    int64_t every = weft_params_int(run->plan->train, "eval_every");
    weft_status s = WEFT_OK;
    if (every > 0 && (run->step % every == 0 || last))
        s = weft_run_evaluate(run, err);
    return s || !wants_text(run, last) ? s : run->write_texts(run, err);
}

static const char *plugin_name(const weft_run *run, int i)
{
    return run->plan->plugins->list[i].module.plugin->name;
}

/* What this rank wants: its signals, its store, its observers. */
static weft_wish wish_of(weft_run *run, bool stop, bool last)
{
    struct weft_asked *a = &run->asked;
    weft_wish mine = {.stop = stop || (a->what & WEFT_ASK_STOP), .by = stop ? -1 : a->stops};
    weft_keeper_wish(run, last, &mine);
    mine.save = mine.save || (a->what & WEFT_ASK_SAVE);
    mine.times = a->what & WEFT_ASK_TIMES;
    mine.own_s = run->streams ? 0 : run->view.step_s - run->sent_s;
    if ((a->what & WEFT_ASK_SAVE) && !weft_keeper_keeps(run) && !a->told) {
        weft_log_print(run->log, WEFT_LOG_WARN,
                       "plugin '%s' asks to save, and no listed plugin keeps the state; list one, "
                       "as ckpt",
                       plugin_name(run, a->saves));
        a->told = true;
    }
    a->what = 0;
    return mine;
}

static int by_own(const void *a, const void *b)
{
    const double x = ((const weft_wish *)a)->own_s, y = ((const weft_wish *)b)->own_s;
    return (x > y) - (x < y);
}

/* Who holds the others up, if anybody does. Sorts the list, which nobody needs any more. */
static void find_slowest(weft_run *run, weft_wish *all, int n)
{
    weft_run_view *v = &run->view;
    for (int r = v->slowest_rank = 0; r < n; r++)
        if (all[r].own_s > all[v->slowest_rank].own_s)
            v->slowest_rank = r;
    qsort(all, (size_t)n, sizeof *all, by_own);
    const bool known = n > 1 && all[0].own_s > 0;
    v->slowest_s = known ? all[n - 1].own_s : 0;
    v->median_s = known ? (all[(n - 1) / 2].own_s + all[n / 2].own_s) / 2 : 0;
}

/* A signal reaches the ranks at different times, their clocks differ, and so may what their
 * observers ask for: they decide alike on what all of them know. */
static weft_status agree(weft_run *run, bool stop, bool last, bool *leave, weft_error *err)
{
    weft_control *control = run->plan->plugins->control;
    weft_wish mine = wish_of(run, stop, last);
    weft_wish *all = weft_alloc((size_t)run->plan->ranks * sizeof *all);
    if (!all)
        return weft_fail_memory(err);
    weft_status s = weft_control_exchange(control, run->plan->rank, &mine, sizeof mine, all, err);
    int n = control ? run->plan->ranks : 1;
    *leave = run->wants_times = false;
    for (int r = 0; r < n && !s; r++) {
        if (all[r].stop && !*leave)
            run->stopped_by = all[r].by;
        *leave = *leave || all[r].stop;
        run->wants_times = run->wants_times || all[r].times;
    }
    s = s ? s : weft_keeper_act(run, all, n, *leave, last, err);
    if (!s)
        find_slowest(run, all, n);
    weft_free(all);
    return s;
}

static weft_status stopped(const weft_run *run, weft_error *err)
{
    bool asked = run->stopped_by >= 0;
    return weft_fail(
        err, WEFT_ERR_STOPPED, WEFT_NOWHERE, "stopped by %s%s%s after step %lld%s",
        asked ? "plugin '" : "a signal", asked ? plugin_name(run, run->stopped_by) : "",
        asked ? "'" : "", (long long)run->step,
        weft_keeper_saves(run) ? "; it is saved, and the same command goes on from here" : "");
}

static weft_status loop(weft_run *run, const volatile sig_atomic_t *stop, double start,
                        weft_error *err)
{
    weft_status s = WEFT_OK;
    int64_t end = run->stop_after > 0 && run->stop_after < run->plan->steps ? run->stop_after
                                                                            : run->plan->steps;
    bool leave = false;
    if (run->step >= end) /* what came from elsewhere is kept here, too */
        return agree(run, false, true, &leave, err);
    while (!s && run->step < end) {
        s = one_step(run, err);
        if (s)
            return s;
        measure_peak(run, weft_now() - start);
        s = weft_timing_finish(run, err);
        if ((s = s ? s : weft_times_end(run, err)))
            return s;
        run->view.elapsed_s = weft_now() - start;
        if ((s = weft_observe(run, WEFT_EVENT_STEP_END, err)))
            return s;
        if (run->step_made)
            run->step_made(run->step_made_ctx, &run->view);
        run->view.parts = NULL;
        run->view.n_parts = 0;
        if ((s = agree(run, *stop != 0, run->step == end, &leave, err)))
            return s;
        if (leave && run->step < end)
            return stopped(run, err);
        s = after_step(run, err);
    }
    run->watch->patient = true;
    s = s ? s : weft_run_wait(run, err);
    return s ? s : weft_keeper_end(run, err);
}

/* Stages of a pipeline have different shares of the operations; MFU is that of all ranks. */
static weft_status average_flops(weft_run *run, weft_error *err)
{
    const weft_plan *plan = run->plan;
    weft_control *control = plan->plugins->control;
    if (!control || weft_graph_stage_axis(plan->graphs[WEFT_MODE_TRAIN]) < 0)
        return WEFT_OK;
    double *all = weft_alloc((size_t)plan->ranks * sizeof *all), sum = 0;
    weft_status s =
        all ? weft_control_exchange(control, plan->rank, &run->view.flops, sizeof *all, all, err)
            : weft_fail_memory(err);
    for (int r = 0; r < plan->ranks && !s; r++)
        sum += all[r];
    run->view.flops = s ? run->view.flops : sum / plan->ranks;
    weft_free(all);
    return s;
}

weft_status weft_run_train(weft_run *run, const volatile sig_atomic_t *stop, weft_error *err)
{
    double start = weft_now();
    weft_status averaged = average_flops(run, err);
    if (averaged)
        return averaged;
    run->first_step = run->step;
    const bool steps = run->step < run->plan->steps; /* else there is nothing to observe */
    if (steps)
        weft_loader_want(run, run->consumed);
    else if (run->plan->rank == 0)
        weft_log_print(run->log, WEFT_LOG_INFO,
                       "nothing is left to do: [train] steps = %lld is the total, and all are "
                       "done; a greater one goes on",
                       (long long)run->plan->steps);
    weft_status s = steps ? weft_observe(run, WEFT_EVENT_START, err) : WEFT_OK;
    s = s ? s : loop(run, stop, start, err);
    weft_blame_set_step(-1);
    weft_control_set_moment(run->plan->plugins->control, run->watch, (weft_moment){.step = 0});
    run->watch->patient = true;
    if (s)
        weft_keeper_abandon(run);
    run->view.status = s;
    run->view.elapsed_s = weft_now() - start;
    weft_status stopped = steps ? weft_observe(run, WEFT_EVENT_STOP, err) : WEFT_OK;
    return s ? s : stopped;
}
