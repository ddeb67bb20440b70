/* SPDX-License-Identifier: Apache-2.0 */
/* A run as `weft oracle` sees it: gradients and parameters of every step, assembled over all ranks.
 */
#include "oracle.h"

#include "forecast/forecast.h"
#include "net/agree.h"
#include "room.h"

#include <weft/random.h>

#include <math.h>
#include <string.h>

static void find_dtypes(oracle_record *r, const weft_graph *g)
{
    r->wide = g->config.dtype == WEFT_F64;
    for (const weft_node *n = weft_graph_first(g); n; n = n->next)
        for (int i = 0; weft_node_is(n, WEFT_OP_MATMUL) && i < n->n_ins + n->n_outs; i++) {
            const weft_value *v = i < n->n_ins ? n->ins[i] : n->outs[i - n->n_ins];
            r->half = r->half || v->dtype == WEFT_BF16;
            r->eighth = r->eighth || weft_dtype_is_f8(v->dtype);
        }
}

static weft_status reserve(oracle_record *r, const weft_run *run, weft_error *err)
{
    const weft_graph *g = run->plan->graphs[WEFT_MODE_TRAIN];
    oracle_step *s = &r->steps[run->step];
    if (s->tensors)
        return WEFT_OK;
    r->n_tensors = g->n_parameters;
    r->blocks = weft_graph_blocks(g);
    r->tokens = run->plan->units;
    r->micro_batch = g->config.sizes.micro_batch;
    r->writes = run->plan->generator && run->tokenizer;
    r->ranks = run->plan->ranks;
    s->tensors = weft_pool_alloc(&r->pool, (size_t)g->n_parameters * sizeof *s->tensors);
    for (int i = 0; s->tensors && i < g->n_parameters; i++) {
        const weft_value *v = g->parameters[i];
        oracle_tensor *t = &s->tensors[i];
        t->count = 1;
        for (int d = 0; d < v->n_dims; d++)
            t->count *= v->dims[d].size;
        t->name = weft_pool_strdup(&r->pool, v->name);
        t->frozen = v->frozen;
        t->gradient_name = weft_pool_strdup(&r->pool, v->frozen ? v->name : v->gradient->name);
        t->gradient = weft_pool_alloc(&r->pool, (size_t)t->count * sizeof(double));
        t->parameter = weft_pool_alloc(&r->pool, (size_t)t->count * sizeof(double));
        t->before = run->step ? NULL : weft_pool_alloc(&r->pool, (size_t)t->count * sizeof(double));
        if (!t->name || !t->gradient_name || !t->gradient || !t->parameter ||
            (!t->before && !run->step))
            return weft_fail_memory(err);
    }
    return s->tensors ? oracle_find_rounding_of_updates(g, s->tensors, err) : weft_fail_memory(err);
}

typedef enum oracle_kind { BEFORE, GRADIENT, PARAMETER } oracle_kind;

static const char *const kind_names[] = {"initial parameter", "gradient", "parameter"};

static double *whole_of(const oracle_tensor *t, oracle_kind kind)
{
    return kind == BEFORE ? t->before : kind == GRADIENT ? t->gradient : t->parameter;
}

/* A rank's part of a gradient; a sum that is still open says nothing by itself. */
static weft_status measure(oracle_record *r, int64_t step, oracle_tensor *to, const weft_value *v,
                           const weft_tensor *t, weft_error *err)
{
    if (r->fed && !weft_layout_open_axes(v->layout) && !oracle_add_part(&r->pool, &to->parts, t))
        return weft_fail_memory(err);
    const oracle_tensor *x = r->reference && !weft_layout_open_axes(v->layout)
                                 ? oracle_find(r->reference, step, to->name)
                                 : NULL;
    if (!x || x->count != to->count || x->frozen)
        return WEFT_OK;
    double part = (double)weft_tensor_count(t) / (double)x->count, size = 0;
    for (int64_t i = 0; i < x->count; i++)
        size += x->gradient[i] * x->gradient[i];
    double share = oracle_gradient_share(r->reference, r, x, step);
    oracle_measure(x->gradient, t, sqrt(part) * fmax(sqrt(size), share), &to->part);
    return WEFT_OK;
}

static void compare_replica(oracle_record *r, const oracle_tensor *to, oracle_kind kind,
                            const double *whole, const weft_tensor *t)
{
    for (oracle_row row = {0}; oracle_next_row(t, &row);)
        for (int64_t k = 0; k < row.n; k++) {
            const double x = weft_tensor_get(t, row.i + k),
                         apart = fabs(whole[row.at + (uint64_t)k] - x);
            if (apart > r->replica_error || x != x) {
                r->replica_error = x != x ? INFINITY : apart;
                r->replica_name = to->name;
                r->replica_of = kind_names[kind];
            }
        }
}

static weft_status add(oracle_record *r, weft_run *run, const weft_value *v, oracle_tensor *to,
                       oracle_kind kind, bool again, weft_error *err)
{
    double *whole = whole_of(to, kind);
    weft_tensor t;
    weft_status s = weft_run_value(run, WEFT_MODE_TRAIN, v, &t, err);
    const int64_t n = t.data ? weft_tensor_count(&t) : 0;
    if (!s && n > 0 && again)
        compare_replica(r, to, kind, whole, &t);
    else if (!s && n > 0)
        oracle_add(whole, &t);
    if (!s && !again && n > 0 && kind == GRADIENT)
        s = measure(r, run->step, to, v, &t, err);
    return s;
}

static void take_loss(oracle_record *r, const weft_run *run)
{
    oracle_step *s = &r->steps[run->step];
    s->loss = s->head = run->view.loss;
    for (int i = 0; i < run->view.n_reports; i++)
        if (strcmp(run->view.reports[i].name, "loss.head") == 0) {
            s->head = run->view.reports[i].value;
            r->terms = true;
        }
}

/* In two rounds: first those who speak, then their replicas compare. */
static weft_status gather(oracle_record *r, weft_run *run, oracle_kind kind, weft_error *err)
{
    const weft_graph *g = run->plan->graphs[WEFT_MODE_TRAIN];
    weft_control *control = run->plan->plugins->control;
    weft_status s = WEFT_OK;
    for (int round = 0; round < 2 && !s; round++) {
        pthread_mutex_lock(&r->lock);
        s = reserve(r, run, err);
        for (int i = 0; i < g->n_parameters && !s; i++) {
            const weft_value *v = kind == GRADIENT ? g->parameters[i]->gradient : g->parameters[i];
            oracle_tensor *t = &r->steps[run->step].tensors[i];
            if (v && weft_layout_held(v->layout, run->plan->lowered[WEFT_MODE_TRAIN]->coord) &&
                oracle_speaks(run, v) == (round == 0) &&
                (round == 0 || !weft_layout_open_axes(v->layout)))
                s = add(r, run, v, t, kind, round == 1, err);
            if (v && kind == GRADIENT && r->feeds)
                t->fed = oracle_is_fed(r, v);
        }
        take_loss(r, run);
        r->steps[run->step].norm = run->view.grad_norm;
        pthread_mutex_unlock(&r->lock);
        if (control)
            s = weft_control_agree(control, run->plan->rank, "recording", s, err);
    }
    return s;
}

/* Of a gradient, every element changed by no more than so much of itself. */
static weft_status replace_shaken(weft_run *run, const weft_value *v, const oracle_tensor *from,
                                  double most, weft_error *err)
{
    double *by = weft_alloc((size_t)from->count * sizeof *by + 1);
    if (!by)
        return weft_fail_memory(err);
    for (int64_t i = 0; i < from->count; i++) {
        double u = weft_random_uniform((uint64_t)run->step, weft_hash_name(v->name), (uint64_t)i);
        by[i] = from->gradient[i] * (1 + most * (2 * u - 1));
    }
    weft_status s = oracle_replace(run, v, 0, by, err);
    weft_free(by);
    return s;
}

/* Another run's gradients, and their norm, in place of its own, before an update reads them. A sum
 * that is still open stays. */
static weft_status replace_gradients(const oracle_record *r, weft_run *run, weft_error *err)
{
    const weft_graph *g = run->plan->graphs[WEFT_MODE_TRAIN];
    const oracle_step *other = &r->learns_from->steps[run->step];
    weft_status s =
        g->grad_norm ? oracle_replace(run, g->grad_norm, 0, &other->norm, err) : WEFT_OK;
    for (int i = 0; i < g->n_parameters && !s; i++) {
        const weft_value *p = g->parameters[i], *v = p->gradient;
        const oracle_tensor *from = oracle_find(r->learns_from, run->step, p->name);
        if (v && from && !weft_layout_open_axes(v->layout) &&
            weft_layout_held(v->layout, run->plan->lowered[WEFT_MODE_TRAIN]->coord))
            s = r->shaken
                    ? replace_shaken(
                          run, v, from,
                          oracle_update_rounding(r->learns_from, &r->steps[0].tensors[i]), err)
                    : oracle_replace(run, v, 0, from->gradient, err);
    }
    return s;
}

static weft_status probe_gradients(weft_probe *probe, weft_run *run, weft_error *err)
{
    oracle_record *r = (oracle_record *)probe;
    weft_status s = run->step ? WEFT_OK : gather(r, run, BEFORE, err);
    s = s ? s : gather(r, run, GRADIENT, err);
    return s || !r->learns_from ? s : replace_gradients(r, run, err);
}

static weft_status probe_updated(weft_probe *probe, weft_run *run, weft_error *err)
{
    return gather((oracle_record *)probe, run, PARAMETER, err);
}

static weft_status start(weft_rank *rank, oracle_record *r, weft_plan *plan, weft_run **run)
{
    weft_status s = WEFT_OK;
    pthread_mutex_lock(&r->lock);
    find_dtypes(r, plan->graphs[WEFT_MODE_TRAIN]);
    s = oracle_list_values(r, plan->graphs[WEFT_MODE_TRAIN], plan->micro_batches, &rank->err);
    pthread_mutex_unlock(&r->lock);
    s = weft_rank_agree(rank, "listing values", s);
    s = s ? s : weft_cli_check_room(rank, plan);
    s = s ? s : weft_rank_open(rank);
    return s ? s : weft_rank_prepare(rank, plan, run);
}

weft_status oracle_run(weft_rank *rank, void *ctx)
{
    static const volatile sig_atomic_t never;
    oracle_record *r = ctx;
    weft_session *session = &rank->session;
    weft_plan *plan = NULL;
    weft_run *run = NULL;
    session->host.dir = NULL; /* an oracle leaves nothing behind */
    const weft_plan_options options = {.rank = session->host.rank,
                                       .ranks = session->host.ranks,
                                       .train_only = !r->evaluate && !r->generate,
                                       .fetch_computed = r->trace || r->feeds,
                                       .fetch_rounded = true,
                                       .broken = weft_plan_keep_broken};
    weft_status s =
        weft_plan_create(session->plugins, session->settings, &options, &plan, &rank->err);
    s = s ? s : weft_session_check_plan(session, plan, &rank->err);
    if (!s && r->n_steps > plan->steps)
        s = weft_fail(&rank->err, WEFT_ERR_INPUT, weft_params_where(plan->train, "steps"),
                      "[train] steps = %lld are fewer than the %lld that are to be compared "
                      "(--steps)",
                      (long long)plan->steps, (long long)r->n_steps);
    s = weft_rank_agree(rank, "planning", s);
    s = s ? s : start(rank, r, plan, &run);
    if (!s) {
        run->probe = &r->probe;
        run->stop_after = r->n_steps;
        run->n_watchers = 0;
        s = weft_run_train(run, &never, &rank->err);
    }
    s = s ? s : oracle_listen(r, run, &rank->err);
    weft_run_destroy(run);
    weft_plan_destroy(plan);
    return s;
}

bool oracle_record_init(oracle_record *r, int64_t n_steps)
{
    memset(r, 0, sizeof *r);
    r->probe = (weft_probe){probe_gradients, probe_updated, oracle_probe_value};
    r->n_steps = n_steps;
    r->steps = weft_alloc_zero((size_t)n_steps, sizeof *r->steps);
    pthread_mutex_init(&r->lock, NULL);
    return r->steps != NULL;
}

void oracle_complete(oracle_record *r)
{
    for (int64_t s = 0; s < r->n_steps; s++) {
        double sum = 0;
        if (!isnan(r->steps[s].norm))
            continue;
        for (int i = 0; i < r->n_tensors; i++)
            for (int64_t k = 0; k < r->steps[s].tensors[i].count; k++) {
                double x = r->steps[s].tensors[i].gradient[k];
                sum += x * x;
            }
        r->steps[s].norm = sqrt(sum);
    }
}

void oracle_record_release(oracle_record *r)
{
    pthread_mutex_destroy(&r->lock);
    weft_pool_release(&r->pool);
    weft_free(r->steps);
}
