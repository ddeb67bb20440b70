/* SPDX-License-Identifier: Apache-2.0 */
/* Why a step is not finite: its state is still whole, so the step is simply run again, looking. */
#include "check.h"

#include <math.h>
#include <string.h>

/* The same on every rank, so that they may be compared. */
typedef struct finding {
    int64_t micro_batch; /* -1: none was found */
    int64_t parameter;   /* -1: none */
    int64_t sample;      /* of the step, the first in which an input is not finite; -1: none is */
    int64_t input;       /* which one: how many inputs of the graph are before it */
} finding;

typedef struct search {
    weft_run *run;
    const weft_graph *g;
    const weft_value *loss;
    finding first;
} search;

/* What is known of a total after every micro-batch: its sum so far, before collectives at the
 * step's end, and before transforms. */
static const weft_value *sum_so_far(const weft_value *v)
{
    while (v && ((v->node->steps && v->node->scope == WEFT_STEP_END) ||
                 weft_node_is(v->node, WEFT_OP_FETCH) ||
                 (weft_node_is(v->node, WEFT_OP_EVICT) && v->node->part == WEFT_PART_STEP_END)))
        v = v->node->ins[0];
    return v;
}

/* So is what this rank does not hold. */
static weft_status is_finite(const search *f, const weft_value *v, bool *finite, weft_error *err)
{
    weft_tensor t;
    weft_status s = weft_run_value(f->run, WEFT_MODE_TRAIN, v, &t, err);
    const int64_t n = s || !t.data ? 0 : weft_tensor_count(&t);
    *finite = true;
    for (int64_t i = 0; i < n && *finite; i++)
        *finite = isfinite(weft_tensor_get(&t, i));
    return s;
}

/* What lies far is there when it is evicted; before, it is another step's. */
static bool is_there(const weft_value *v, const weft_task *task)
{
    return v && (!weft_node_is(v->node, WEFT_OP_EVICT) ||
                 (v->node->part == task->part && v->node->stage == task->stage));
}

/* parameter: the first whose gradient is not finite; -1: none. */
static weft_status bad_gradient(const search *f, const weft_task *task, int64_t *parameter,
                                weft_error *err)
{
    const weft_value *p;
    weft_status s = WEFT_OK;
    *parameter = -1;
    for (int i = 0; (p = weft_graph_parameter(f->g, i)) && !s && *parameter < 0; i++) {
        const weft_value *gradient = sum_so_far(p->summed);
        bool finite = true;
        if (is_there(gradient, task))
            s = is_finite(f, gradient, &finite, err);
        if (!finite)
            *parameter = i;
    }
    return s;
}

/* Input number i. */
static const weft_node *input_at(const weft_graph *g, int64_t i)
{
    const weft_node *n = weft_graph_first(g);
    while (n && (!weft_node_in(n, "input") || i-- > 0))
        n = n->next;
    return n;
}

/* The first sample of a part of a micro-batch with an element that is not finite; -1: none. */
static int64_t bad_sample(const weft_tensor *t)
{
    const int64_t n = t->data ? weft_tensor_count(t) : 0;
    int64_t i = 0;
    while (i < n && isfinite(weft_tensor_get(t, i)))
        i++;
    return i < n ? t->lo[0] + i / (n / t->size[0]) : -1;
}

/* What the data gave: whatever is made of it, it began there. */
static weft_status look_at_inputs(search *f, int64_t micro_batch, weft_error *err)
{
    weft_status s = WEFT_OK;
    const weft_node *n;
    for (int64_t i = 0; !s && (n = input_at(f->g, i)); i++) {
        const weft_value *v = n->outs[0];
        weft_tensor t = {0};
        if (v->n_dims == 0 || strcmp(v->dims[0].name, "batch") != 0 ||
            !weft_dtype_is_float(v->dtype))
            continue;
        s = weft_run_value(f->run, WEFT_MODE_TRAIN, v, &t, err);
        const int64_t row = s ? -1 : bad_sample(&t), sample = micro_batch * v->dims[0].size + row;
        if (row < 0 || (f->first.sample >= 0 && f->first.sample <= sample))
            continue;
        f->first.sample = sample;
        f->first.input = i;
    }
    return s;
}

/* What is accumulated can be read after each backward, and after each W; inputs, while they are
 * there. */
static weft_status look(void *self, const weft_task *task, weft_error *err)
{
    search *f = self;
    bool finite = true;
    if (task->part == WEFT_PART_F)
        return look_at_inputs(f, task->micro_batch, err);
    if ((task->part != WEFT_PART_B && task->part != WEFT_PART_W) || f->first.micro_batch >= 0)
        return WEFT_OK;
    weft_status s = is_finite(f, sum_so_far(f->loss), &finite, err);
    s = s ? s : bad_gradient(f, task, &f->first.parameter, err);
    if (!finite || f->first.parameter >= 0)
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
static weft_status find_first(const weft_host *host, finding *first, weft_error *err)
{
    finding *all = weft_alloc((size_t)host->ranks * sizeof *all);
    if (!all)
        return weft_fail_memory(err);
    weft_status s = host->exchange(host, first, sizeof *first, all, err);
    for (int r = 0; r < host->ranks && !s; r++) {
        const bool bad = all[r].sample >= 0;
        if (is_sooner(&all[r], first)) {
            first->micro_batch = all[r].micro_batch;
            first->parameter = all[r].parameter;
        }
        if (bad && (first->sample < 0 || all[r].sample < first->sample)) {
            first->sample = all[r].sample;
            first->input = all[r].input;
        }
    }
    weft_free(all);
    return s;
}

static void print_finding(const search *f, int64_t micro_batches, weft_text *text)
{
    if (f->first.micro_batch >= 0)
        weft_text_print(text, "; first in micro-batch %lld of %lld",
                        (long long)f->first.micro_batch + 1, (long long)micro_batches);
    if (f->first.sample >= 0)
        weft_text_print(text, "; the data's %s is not finite in sample %lld of the step",
                        input_at(f->g, f->first.input)->outs[0]->name,
                        (long long)f->first.sample + 1);
    if (f->first.parameter < 0)
        return;
    const weft_value *parameter = weft_graph_parameter(f->g, (int)f->first.parameter);
    weft_text_print(text, "; first bad gradient: %s", parameter->name);
    if (weft_graph_stages(f->g) > 1)
        weft_text_print(text, " (stage %d)", weft_graph_stage_of(f->g, parameter->node->block));
}

weft_status check_diagnose(const weft_host *host, const weft_run_view *run, weft_error *err)
{
    search f = {.run = run->core,
                .g = weft_run_graph(run->core, WEFT_MODE_TRAIN),
                .loss = run->operands[0].value,
                .first = {.micro_batch = -1, .parameter = -1, .sample = -1}};
    /* all ranks run all of it, wherever theirs is */
    const weft_task_hooks hooks = {.after = look, .self = &f};
    weft_status s =
        weft_run_parts(f.run, WEFT_MODE_TRAIN, WEFT_PART_BEGIN, WEFT_PART_W, &hooks, err);
    s = s ? s : find_first(host, &f.first, err);
    if (s)
        return s;
    weft_text text = {0};
    weft_text_print(&text, "step %lld is not finite: loss %g, gradient norm %g",
                    (long long)run->step, run->loss, run->grad_norm);
    print_finding(&f, run->micro_batches, &text);
    s = weft_fail(err, WEFT_ERR_REPEATS, WEFT_NOWHERE, "%s", weft_text_get(&text));
    weft_text_release(&text);
    return s;
}
