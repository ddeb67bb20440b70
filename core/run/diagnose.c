/* SPDX-License-Identifier: Apache-2.0 */
/* Why a step is not finite: its state is still whole, so the step is simply run again, looking. */
#include "run/run.h"

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

static weft_status bad_gradient(weft_run *run, const weft_lowered *l, const char **name,
                                weft_error *err)
{
    const weft_graph *g = l->graph;
    weft_status s = WEFT_OK;
    for (int i = 0; i < g->n_parameters && !s && !*name; i++) {
        const weft_value *gradient = sum_so_far(g->parameters[i]->summed);
        bool finite = true;
        if (gradient && l->buffer_of[gradient->id] >= 0)
            s = is_finite(run, l, gradient, &finite, err);
        if (!finite)
            *name = g->parameters[i]->name;
    }
    return s;
}

typedef struct search {
    weft_run *run;
    const weft_lowered *l;
    int64_t micro_batch; /* -1: none was found */
    const char *name;    /* of a parameter; NULL: none */
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
    if (s || f->micro_batch >= 0)
        return s;
    s = bad_gradient(f->run, f->l, &f->name, err);
    if (!isfinite(loss) || f->name)
        f->micro_batch = task->micro_batch;
    return s;
}

weft_status weft_diagnose(weft_run *run, const weft_batch *batch, double loss, double norm,
                          weft_error *err)
{
    const weft_lowered *l = run->plan->lowered[WEFT_MODE_TRAIN];
    search f = {.run = run, .l = l, .micro_batch = -1};
    (void)batch; /* its inputs are still on the device */
    int n = run->n_watchers;
    run->n_watchers = 0; /* observers saw this step already */
    /* all ranks run all of it, wherever theirs is */
    const weft_task_hooks hooks = {.after = look, .self = &f};
    weft_status s = weft_run_tasks(run, l, WEFT_PART_BEGIN, WEFT_PART_B, &hooks, err);
    run->n_watchers = n;
    if (s)
        return s;
    weft_text text = {0};
    weft_text_print(&text, "step %lld is not finite: loss %g, gradient norm %g",
                    (long long)run->view.step, loss, norm);
    if (f.micro_batch >= 0)
        weft_text_print(&text, "; first in micro-batch %lld of %lld", (long long)f.micro_batch + 1,
                        (long long)run->plan->micro_batches);
    if (f.name)
        weft_text_print(&text, "; first bad gradient: %s", f.name);
    s = weft_fail(err, WEFT_ERR_RUN, WEFT_NOWHERE, "%s", weft_text_get(&text));
    weft_text_release(&text);
    return s;
}
