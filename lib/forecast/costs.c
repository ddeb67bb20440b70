/* SPDX-License-Identifier: Apache-2.0 */
/* What the tasks of a training step take, by a roofline of all that the ranks of a pipeline do. */
#include "compile/program/compiler.h"
#include "forecast/forecast.h"

#include <string.h>

/* Of all steps, those that end at least these. */
static double share_of(const weft_lowered *l, unsigned set)
{
    double share = 1;
    for (int i = 0; i < l->n_periods; i++) {
        if (!(set >> i & 1u))
            continue;
        int64_t common = 1; /* with the least common multiple of those before */
        for (int k = 0; k < i; k++) {
            const int64_t with = set >> k & 1u ? weft_gcd(l->periods[i], l->periods[k]) : 1;
            common = common / weft_gcd(common, with) * with;
        }
        share *= (double)common / (double)l->periods[i];
    }
    return share;
}

double weft_lowered_share(const weft_lowered *l, unsigned runs)
{
    double share = 0;
    for (unsigned set = 0; set < 1u << l->n_periods; set++) {
        unsigned more = set & ~runs;
        int sign = 1;
        for (; more; more &= more - 1)
            sign = -sign;
        if ((set & runs) == runs)
            share += sign * share_of(l, set);
    }
    return share;
}

/* Does a node read, in its own part, what another stage has made? Inputs are every rank's own. */
static bool is_sent(const weft_node *n, const weft_value *v)
{
    return weft_part_is_micro(n->part) && !weft_node_is(v->node, WEFT_OP_SOURCE) &&
           v->node->part == n->part && v->node->stage != n->stage;
}

/* What goes to another stage counts once, however many read it there. */
static void count_boundary(const weft_graph *g, const weft_node *n, bool *seen, weft_costs *out)
{
    for (int i = 0; i < n->n_ins; i++) {
        const weft_value *v = n->ins[i];
        if (!is_sent(n, v) || seen[v->id])
            continue;
        seen[v->id] = true;
        out->bytes[n->part == WEFT_PART_B][v->node->stage] += (double)weft_value_part_bytes(g, v);
    }
}

/* ---- programs ---- */

/* How often a program runs in a step. */
static double repeats(const weft_plan *plan, const weft_program *p)
{
    return weft_part_is_micro(p->part) ? (double)plan->micro_batches : 1;
}

static void count_computed(const weft_lowered *l, const weft_instruction *in,
                           const weft_work_cost *cost, double times, weft_forecast *f)
{
    const double flops = in->kind == WEFT_COMPUTE ? times * in->flops : 0;
    f->flops += flops;
    if (flops > 0 && (in->node->op->flags & WEFT_OP_MATMUL))
        f->products[weft_roofline_dtype(l, in)] += flops;
    if (cost->known)
        return;
    f->unknown_flops += flops;
    if (f->n_unknown++ == 0)
        f->unknown = in->node->op->name;
}

/* Of the planned rank: what its time goes to, of which these are the program's seconds. */
static void sum_up(const weft_roofline *r, const weft_lowered *l, const weft_program *p,
                   double seconds, double times, weft_forecast *f)
{
    double busy = 0;
    for (int i = 0; i < p->n; i++) {
        const weft_work_cost cost = weft_roofline_cost(r, l, &p->list[i]);
        f->work_s[cost.work] += times * cost.seconds;
        if (r->in_turn || p->list[i].queue == WEFT_QUEUE_COMPUTE)
            busy += cost.work == WEFT_WORK_SENT ? 0 : cost.seconds;
        count_computed(l, &p->list[i], &cost, times, f);
    }
    f->waits_s += seconds - times * busy;
}

/* Seconds of the tasks of each program, together. */
static double seconds_of(const weft_lowered *l, const weft_program *p, const weft_task_time *times)
{
    double seconds = 0;
    for (int t = 0; t < l->tasks->n; t++) {
        const weft_task *task = &l->tasks->list[t];
        if (task->part == p->part && task->stage == p->stage)
            seconds += times[t].end - times[t].start;
    }
    return seconds;
}

/* Where there is but one, it is alone already. */
static weft_status run_alone(const weft_plan *plan, const weft_roofline *r, weft_lowered *l,
                             const weft_forecast *f, weft_task_time *times, weft_error *err)
{
    if (plan->tasks[WEFT_MODE_TRAIN]->ranks > 1 || l->n_periods)
        return weft_roofline_course(r, l, NULL, times, err);
    memcpy(times, f->timeline->of[0], (size_t)l->tasks->n * sizeof *times);
    return WEFT_OK;
}

/* What a rank of the pipeline takes for its tasks: each by itself, and on average. */
static weft_status count_rank(const weft_plan *plan, const weft_roofline *r, weft_lowered *l,
                              int rank, weft_forecast *f, weft_error *err)
{
    weft_task_time *times = weft_alloc(((size_t)l->tasks->n + 1) * sizeof *times);
    f->costs.of[rank] = weft_alloc(((size_t)l->tasks->n + 1) * sizeof **f->costs.of);
    weft_status s = times && f->costs.of[rank] ? WEFT_OK : weft_fail_memory(err);
    s = s ? s : run_alone(plan, r, l, f, times, err);
    for (int t = 0; t < l->tasks->n && !s; t++)
        f->costs.of[rank][t] = times[t].end - times[t].start;
    for (int i = 0; i < l->n_programs && !s; i++) {
        const weft_task task = {.part = l->programs[i].part, .stage = l->programs[i].stage};
        const weft_program *p = weft_lowered_pick(l, &task, r->runs);
        double seconds = seconds_of(l, p, times);
        f->costs.seconds[p->part][weft_part_is_micro(p->part) ? p->stage : rank] +=
            seconds / repeats(plan, p);
        if (l == plan->lowered[WEFT_MODE_TRAIN])
            sum_up(r, l, p, seconds, repeats(plan, p), f);
    }
    weft_free(times);
    return s;
}

/* What masks leave of attention, before anything is timed. */
static weft_status see_ranks(const weft_plan *plan, weft_forecast *f, weft_error *err)
{
    weft_status s = WEFT_OK;
    for (int i = 0; i < plan->tasks[WEFT_MODE_TRAIN]->ranks && !s; i++) {
        weft_causal seen = {0};
        s = weft_forecast_see(f->ranks[i], &seen, err);
        f->model_flops += f->ranks[i]->model_flops / f->costs.ranks;
        f->model_attention += seen.model / f->costs.ranks;
    }
    return s;
}

/* For a plan that is not rough each plans its own; the planned rank does. */
static weft_status find_like(const weft_plan *plan, int here, int *like, weft_error *err)
{
    const int ranks = plan->tasks[WEFT_MODE_TRAIN]->ranks;
    weft_status s = plan->rough ? weft_forecast_alike(plan, like, err) : WEFT_OK;
    for (int i = 0; i < ranks; i++)
        like[i] = plan->rough && i != here ? like[i] : i;
    return s;
}

/* Other ranks of the pipeline are planned for this alone; or a forecast has done so. */
static weft_status lower_ranks(const weft_plan *plan, const weft_forecast *like, weft_forecast *f,
                               weft_error *err)
{
    const weft_tasks *tasks = plan->tasks[WEFT_MODE_TRAIN];
    const int axis = weft_graph_stage_axis(plan->graphs[WEFT_MODE_TRAIN]);
    const int stride = axis < 0 ? 0 : weft_mesh_stride(&plan->mesh, axis);
    const int here = (int)(plan->lowered[WEFT_MODE_TRAIN]->tasks - tasks->of);
    f->borrows = like != NULL;
    if (like) {
        f->ranks = like->ranks;
        f->like = like->like;
        return WEFT_OK;
    }
    f->ranks = weft_alloc_zero((size_t)tasks->ranks, sizeof(weft_lowered *));
    f->others = weft_alloc_zero((size_t)tasks->ranks, sizeof *f->others);
    f->like = weft_alloc_zero((size_t)tasks->ranks, sizeof *f->like);
    weft_status s = f->ranks && f->others && f->like ? find_like(plan, here, f->like, err)
                                                     : weft_fail_memory(err);
    for (int i = 0; i < tasks->ranks && !s; i++) {
        const int of = f->like[i];
        if (of == i && i != here)
            s = weft_plan_other(plan, plan->rank + (i - here) * stride, true, &f->others[i], err);
        f->ranks[i] = of != i     ? weft_lowered_borrow(f->ranks[of], &tasks->of[i], i - of)
                      : i == here ? plan->lowered[WEFT_MODE_TRAIN]
                                  : f->others[i].lowered[WEFT_MODE_TRAIN];
        if (!s && !f->ranks[i])
            s = weft_fail_memory(err);
    }
    return s;
}

static weft_status run_ranks(const weft_plan *plan, const weft_roofline *r, weft_forecast *f,
                             weft_error *err)
{
    const weft_tasks *tasks = plan->tasks[WEFT_MODE_TRAIN];
    double *starved = weft_alloc_zero((size_t)tasks->ranks, sizeof *starved);
    weft_status s =
        starved ? weft_timeline_reserve(tasks, &f->timeline, err) : weft_fail_memory(err);
    s = s ? s
          : weft_roofline_pipeline(r, f->ranks, tasks->ranks, 0, NULL, f->timeline->of, starved,
                                   err);
    if (!s) {
        f->host_s = starved[plan->lowered[WEFT_MODE_TRAIN]->tasks - tasks->of];
        weft_timeline_sum_up(f->timeline);
    }
    weft_free(starved);
    return s;
}

/* On average over steps of all kinds, and at most; the timeline is of those in which only that runs
 * which runs in all. */
static weft_status run_kinds(const weft_plan *plan, const weft_roofline *r, weft_forecast *f,
                             weft_error *err)
{
    const weft_lowered *l = plan->lowered[WEFT_MODE_TRAIN];
    weft_status s = WEFT_OK;
    for (int runs = WEFT_ALL_PERIODS + 1; runs >= 0 && !s; runs--) {
        weft_roofline kind = *r;
        kind.runs = (unsigned)runs;
        if (weft_lowered_next_runs(l, runs - 1) != runs)
            continue;
        weft_timeline_destroy(f->timeline);
        f->timeline = NULL;
        s = run_ranks(plan, &kind, f, err);
        f->step_s += s ? 0 : weft_lowered_share(l, kind.runs) * f->timeline->step_s;
        f->longest_s =
            !s && f->timeline->step_s > f->longest_s ? f->timeline->step_s : f->longest_s;
    }
    f->step_s += r->rates.step_s;
    f->longest_s += r->rates.step_s;
    return s;
}

/* From a stage to the next: to another host, if any two that follow each other are on two. */
static void set_link(const weft_plan *plan, const weft_device_rates *rates, weft_costs *costs)
{
    const int axis = weft_graph_stage_axis(plan->graphs[WEFT_MODE_TRAIN]);
    const bool far = axis >= 0 && weft_reach_of(rates, &plan->mesh, &axis, 1).hosts > 1;
    costs->bytes_per_s = far ? rates->net : rates->link;
    costs->latency_s = rates->launch_s + (far ? rates->net_s : rates->link_s);
}

static weft_status count_boundaries(const weft_plan *plan, weft_costs *out, weft_error *err)
{
    weft_graph *g = plan->graphs[WEFT_MODE_TRAIN];
    bool *seen = weft_alloc_zero((size_t)weft_graph_values(g) + 1, sizeof *seen);
    if (!seen)
        return weft_fail_memory(err);
    weft_graph_mark_live(g);
    for (const weft_node *n = g->first; n; n = n->next)
        if (n->mark)
            count_boundary(g, n, seen, out);
    weft_free(seen);
    return WEFT_OK;
}

/* ---- the whole ---- */

bool weft_device_find_rates(const weft_plan *p, weft_device_rates *rates)
{
    *rates = (weft_device_rates){0};
    return p->device->rates && p->device->rates(p->device_self, rates);
}

int weft_device_sharers(const weft_plan *p, const weft_device_rates *rates)
{
    void *self;
    const weft_transport *t = weft_plugins_service(p->plugins, "transport", &self);
    return rates->one_a_process && t && t->ranks == WEFT_RANKS_THREADS ? p->ranks : 1;
}

bool weft_plan_sends_terms(const weft_plan *plan, weft_reduce op)
{
    void *self;
    const weft_transport *t = weft_plugins_service(plan->plugins, "transport", &self);
    return t && t->sends_terms && t->sends_terms(self, op);
}

/* Does the transport carry the host's memory alone, beside a device that has its own, whatever
 * stands around it? */
static bool goes_through_host(const weft_plan *plan)
{
    void *self;
    const weft_plugins *plugins = plan->plugins;
    const void *t = weft_plugins_service(plugins, "transport", &self);
    while (t && weft_plugins_inner(plugins, &t, &self))
        continue;
    const bool host_only = t && !((const weft_transport *)t)->device_memory;
    return host_only && plan->ranks > 1 &&
           !(plan->device->host_memory && !weft_device_is_async(plan));
}

/* By whom and what ranks send each other. */
static void set_transport(const weft_plan *plan, weft_roofline *r)
{
    weft_roofline_share(r, weft_device_sharers(plan, &r->rates));
    if (goes_through_host(plan))
        weft_roofline_stage(r);
    r->terms[WEFT_REDUCE_SUM] = weft_plan_sends_terms(plan, WEFT_REDUCE_SUM);
    r->terms[WEFT_REDUCE_MAX] = weft_plan_sends_terms(plan, WEFT_REDUCE_MAX);
}

bool weft_plan_roofline(const weft_plan *plan, weft_roofline *out)
{
    *out = (weft_roofline){.in_turn = !weft_device_is_async(plan),
                           .transfers = plan->device->n_queues > WEFT_QUEUE_TRANSFERS,
                           .staged = !plan->device->host_memory,
                           .captures = weft_device_is_async(plan) && plan->device->begin,
                           .captures_sent = weft_plan_captures_sent(plan)};
    out->model = weft_plugins_service(plan->plugins, "costs", &out->model_self);
    const weft_far *far = plan->far;
    weft_device_find_rates(plan, &out->rates);
    if (far && (!far->rates || !far->rates(plan->far_self, &out->far))) {
        const double link = far->in_host_memory ? out->rates.host_link : 0;
        out->far = (weft_far_rates){.read = link, .write = link};
    }
    out->captures = out->captures && !out->rates.keeps_none;
    weft_roofline_ask(out);
    const bool known = out->rates.name != NULL;
    if (known)
        set_transport(plan, out);
    else
        weft_roofline_assume(out, 1e12, 1e10);
    return known;
}

weft_status weft_plan_forecast(const weft_plan *plan, const weft_roofline *r, weft_forecast *f,
                               weft_error *err)
{
    return weft_plan_forecast_like(plan, r, NULL, f, err);
}

weft_status weft_plan_forecast_like(const weft_plan *plan, const weft_roofline *r,
                                    const weft_forecast *like, weft_forecast *f, weft_error *err)
{
    const weft_tasks *t = plan->tasks[WEFT_MODE_TRAIN];
    memset(f, 0, sizeof *f);
    weft_status s = weft_costs_init(&f->costs, t->ranks, t->stages, err);
    if (s)
        return s;
    set_link(plan, &r->rates, &f->costs);
    f->costs.split = t->split;
    s = count_boundaries(plan, &f->costs, err);
    s = s ? s : lower_ranks(plan, like, f, err);
    s = s ? s : see_ranks(plan, f, err);
    s = s ? s : run_kinds(plan, r, f, err);
    for (int i = 0; i < t->ranks && !s; i++)
        s = count_rank(plan, r, f->ranks[i], i, f, err);
    f->waits_s = f->waits_s > f->host_s ? f->waits_s - f->host_s : 0;
    if (s)
        weft_forecast_release(plan, f);
    return s;
}

void weft_forecast_release(const weft_plan *plan, weft_forecast *f)
{
    for (int i = 0; f->others && f->ranks && i < plan->tasks[WEFT_MODE_TRAIN]->ranks; i++) {
        weft_plan_forget_other(&f->others[i]);
        if (f->like && f->like[i] != i)
            weft_lowered_return(f->ranks[i]);
    }
    weft_free(f->others);
    if (!f->borrows) {
        weft_free(f->ranks);
        weft_free(f->like);
    }
    weft_timeline_destroy(f->timeline);
    weft_costs_release(&f->costs);
    *f = (weft_forecast){0};
}

/* Neighbouring stages are of different ranks, if there are several. */
static void print_sent(const weft_costs *costs, double bytes, const char *where, weft_text *text)
{
    if (bytes <= 0 || costs->ranks == 1)
        return;
    weft_text_add(text, ", ");
    weft_print_bytes(text, bytes);
    weft_text_print(text, " %s", where);
}

void weft_plan_print_costs(const weft_costs *costs, const int *rank_of, weft_text *text)
{
    for (int s = 0; s < costs->stages; s++) {
        weft_text_print(text, "  stage %d, rank %d: forward ", s, rank_of[s]);
        weft_print_seconds(text, costs->seconds[WEFT_PART_F][s]);
        weft_text_add(text, ", backward ");
        weft_print_seconds(text, costs->seconds[WEFT_PART_B][s]);
        if (costs->split && costs->split[s]) {
            weft_text_add(text, ", weights ");
            weft_print_seconds(text, costs->seconds[WEFT_PART_W][s]);
        }
        print_sent(costs, costs->bytes[0][s], "sent on", text);
        print_sent(costs, costs->bytes[1][s], "sent back", text);
        weft_text_add(text, "\n");
    }
}
