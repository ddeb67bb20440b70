/* SPDX-License-Identifier: Apache-2.0 */
/* Why a step is not finite: its state is still whole, so the step is simply run again, looking. */
#include "execute/run.h"

#include <math.h>
#include <string.h>

static weft_status is_finite(weft_run *run, const weft_lowered *l, const weft_value *v,
                             bool *finite, weft_error *err)
{
    weft_tensor t;
    weft_local_tensor(l->graph, v, l->coord, &t);
    int64_t n = weft_tensor_count(&t);
    size_t bytes = (size_t)n * weft_dtype_size(t.dtype);
    t.data = weft_alloc(bytes);
    if (!t.data)
        return weft_fail_memory(err);
    const weft_plan *plan = run->plan;
    weft_status s = weft_device_download(
        plan, WEFT_NOW, t.data, weft_run_address(run, l, l->buffer_of[v->id], 0), bytes, err);
    *finite = true;
    for (int64_t i = 0; i < n && *finite && !s; i++)
        *finite = isfinite(weft_tensor_get(&t, i));
    weft_free(t.data);
    return s;
}

/* What is known of a total after every micro-batch: its sum so far, before collectives at the
 * step's end, and before transforms. */
static const weft_value *sum_so_far(const weft_value *v)
{
    while (v && v->node->steps && v->node->scope == WEFT_STEP_END)
        v = v->node->ins[0];
    return v;
}

/* parameter: the first whose gradient is not finite; -1: none. */
static weft_status bad_gradient(weft_run *run, const weft_lowered *l, int64_t *parameter,
                                weft_error *err)
{
    const weft_graph *g = l->graph;
    weft_status s = WEFT_OK;
    *parameter = -1;
    for (int i = 0; i < g->n_parameters && !s && *parameter < 0; i++) {
        const weft_value *gradient = sum_so_far(g->parameters[i]->summed);
        bool finite = true;
        if (gradient && l->buffer_of[gradient->id] >= 0)
            s = is_finite(run, l, gradient, &finite, err);
        if (!finite)
            *parameter = i;
    }
    return s;
}

/* The same on every rank, so that they may be compared. */
typedef struct finding {
    int64_t micro_batch; /* -1: none was found */
    int64_t parameter;   /* -1: none */
} finding;

typedef struct search {
    weft_run *run;
    const weft_lowered *l;
    finding first;
} search;

/* What is accumulated can be read after each backward. */
static weft_status look(void *self, const weft_task *task, weft_error *err)
{
    search *f = self;
    const weft_value *loss_so_far = sum_so_far(f->l->graph->loss_report);
    double loss = 0;
    weft_status s = WEFT_OK;
    if (task->part != WEFT_PART_B)
        return WEFT_OK;
    if (f->l->buffer_of[loss_so_far->id] >= 0)
        s = weft_run_scalars(f->run, f->l, &loss_so_far, 1, &loss, err);
    if (s || f->first.micro_batch >= 0)
        return s;
    s = bad_gradient(f->run, f->l, &f->first.parameter, err);
    if (!isfinite(loss) || f->first.parameter >= 0)
        f->first.micro_batch = task->micro_batch;
    return s;
}

static bool is_sooner(const finding *a, const finding *b)
{
    if (a->micro_batch < 0 || b->micro_batch < 0 || a->micro_batch != b->micro_batch)
        return a->micro_batch >= 0 && (b->micro_batch < 0 || a->micro_batch < b->micro_batch);
    return a->parameter >= 0 && (b->parameter < 0 || a->parameter < b->parameter);
}

/* It may be on other ranks alone: on those of one stage, or of some samples. */
static weft_status find_first(const weft_run *run, finding *first, weft_error *err)
{
    const weft_plan *plan = run->plan;
    weft_control *control = plan->plugins->control;
    if (!control)
        return WEFT_OK;
    finding *all = weft_alloc((size_t)plan->ranks * sizeof *all);
    if (!all)
        return weft_fail_memory(err);
    weft_status s = weft_control_exchange(control, plan->rank, first, sizeof *first, all, err);
    for (int r = 0; r < plan->ranks && !s; r++)
        if (is_sooner(&all[r], first))
            *first = all[r];
    weft_free(all);
    return s;
}

static void print_finding(const search *f, weft_text *text)
{
    const weft_graph *g = f->l->graph;
    if (f->first.micro_batch >= 0)
        weft_text_print(text, "; first in micro-batch %lld of %lld",
                        (long long)f->first.micro_batch + 1,
                        (long long)f->run->plan->micro_batches);
    if (f->first.parameter < 0)
        return;
    const weft_value *parameter = g->parameters[f->first.parameter];
    weft_text_print(text, "; first bad gradient: %s", parameter->name);
    if (weft_graph_stages(g) > 1)
        weft_text_print(text, " (stage %d)", weft_graph_stage_of(g, parameter->node->block));
}

weft_status weft_diagnose(weft_run *run, double loss, double norm, weft_error *err)
{
    const weft_lowered *l = run->plan->lowered[WEFT_MODE_TRAIN];
    search f = {.run = run, .l = l, .first = {-1, -1}};
    run->runs_again = true;
    /* all ranks run all of it, wherever theirs is */
    const weft_task_hooks hooks = {.after = look, .self = &f};
    weft_status s = weft_run_parts(run, WEFT_MODE_TRAIN, WEFT_PART_BEGIN, WEFT_PART_B, &hooks, err);
    run->runs_again = false;
    s = s ? s : find_first(run, &f.first, err);
    if (s)
        return s;
    weft_text text = {0};
    weft_text_print(&text, "step %lld is not finite: loss %g, gradient norm %g",
                    (long long)run->view.step, loss, norm);
    print_finding(&f, &text);
    s = weft_fail(err, WEFT_ERR_REPEATS, WEFT_NOWHERE, "%s", weft_text_get(&text));
    weft_text_release(&text);
    return s;
}
