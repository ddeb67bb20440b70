/* SPDX-License-Identifier: Apache-2.0 */
/* weft oracle: two INIs, the same weights and data, k steps; are losses, gradient norms, every gradient before clipping and every parameter the same
 * within what the dtypes allow? */
#include "ranks.h"
#include "run/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One trained tensor of one step, assembled over all ranks. */
typedef struct tensor {
    const char *name;
    int64_t count;
    double *gradient, *parameter;
} tensor;

typedef struct step {
    double loss, norm;
    tensor *tensors;
} step;

/* What one run was like. Filled by its ranks under the lock. */
typedef struct record {
    weft_probe probe;
    pthread_mutex_t lock;
    weft_pool pool;
    int64_t n_steps;
    step *steps;
    int n_tensors, ranks, blocks;
    int64_t tokens;       /* of a step: the longest sum */
    bool wide;            /* everything in f64 */
    bool half;            /* products in bf16 */
    double replica_error; /* the largest difference between ranks that should hold the same */
    const char *replica_name;
} record;

/* ---- recording ---- */

static weft_status reserve(record *r, const weft_run *run, weft_error *err)
{
    const weft_graph *g = run->plan->graphs[WEFT_MODE_TRAIN];
    step *s = &r->steps[run->step];
    if (s->tensors)
        return WEFT_OK;
    r->n_tensors = g->n_parameters;
    r->blocks = weft_graph_blocks(g);
    r->tokens = run->plan->global_batch * run->plan->seq_len;
    r->half = run->product_dtype == WEFT_BF16;
    r->wide = g->config.dtype == WEFT_F64;
    r->ranks = run->plan->ranks;
    s->tensors = weft_pool_alloc(&r->pool, (size_t)g->n_parameters * sizeof *s->tensors);
    for (int i = 0; s->tensors && i < g->n_parameters; i++) {
        const weft_value *v = g->parameters[i];
        tensor *t = &s->tensors[i];
        t->count = 1;
        for (int d = 0; d < v->n_dims; d++)
            t->count *= v->dims[d].size;
        t->name = weft_pool_strdup(&r->pool, v->name);
        t->gradient = weft_pool_alloc(&r->pool, (size_t)t->count * sizeof(double));
        t->parameter = weft_pool_alloc(&r->pool, (size_t)t->count * sizeof(double));
        if (!t->name || !t->gradient || !t->parameter)
            return weft_fail_memory(err);
    }
    return s->tensors ? WEFT_OK : weft_fail_memory(err);
}

/* Of ranks that hold the same, the first one speaks; terms of open sums are added up. */
static bool speaks(const weft_run *run, const weft_value *v)
{
    const weft_lowered *l = run->plan->lowered[WEFT_MODE_TRAIN];
    for (int a = 0; a < run->plan->mesh.n_axes; a++)
        if (weft_layout_byte(v->layout, a) == 0 && l->coord[a] != 0)
            return false;
    return true;
}

static weft_status add(record *r, weft_run *run, const weft_value *v, double *whole, bool again, weft_error *err)
{
    const weft_plan *plan = run->plan;
    const weft_lowered *l = plan->lowered[WEFT_MODE_TRAIN];
    weft_tensor t;
    weft_local_tensor(l->graph, v, l->coord, &t);
    int64_t n = weft_tensor_count(&t);
    size_t bytes = (size_t)n * weft_dtype_size(t.dtype);
    t.data = weft_alloc(bytes);
    weft_status s = t.data ? plan->device->download(plan->device_self, t.data, weft_run_address(run, l, l->buffer_of[v->id], 0), bytes, err)
                           : weft_fail_memory(err);
    for (int64_t i = 0; i < n && !s; i++) {
        double x = weft_tensor_get(&t, i), *at = &whole[weft_global_index(&t, i)];
        if (!again)
            *at += x;
        else if (fabs(*at - x) > r->replica_error || x != x) {
            r->replica_error = x != x ? INFINITY : fabs(*at - x);
            r->replica_name = v->name;
        }
    }
    weft_free(t.data);
    return s;
}

/* In two rounds: first those who speak, then their replicas compare. */
static weft_status gather(record *r, weft_run *run, bool gradients, weft_error *err)
{
    const weft_graph *g = run->plan->graphs[WEFT_MODE_TRAIN];
    weft_control *control = run->plan->plugins->control;
    weft_status s = WEFT_OK;
    for (int round = 0; round < 2 && !s; round++) {
        pthread_mutex_lock(&r->lock);
        s = reserve(r, run, err);
        for (int i = 0; i < g->n_parameters && !s; i++) {
            const weft_value *v = gradients ? g->parameters[i]->gradient : g->parameters[i];
            tensor *t = &r->steps[run->step].tensors[i];
            if (speaks(run, v) == (round == 0) && (round == 0 || !weft_layout_open_axes(v->layout)))
                s = add(r, run, v, gradients ? t->gradient : t->parameter, round == 1, err);
        }
        r->steps[run->step].loss = run->view.loss;
        r->steps[run->step].norm = run->view.grad_norm;
        pthread_mutex_unlock(&r->lock);
        if (control)
            s = weft_control_agree(control, run->plan->rank, "recording", s, err);
    }
    return s;
}

static weft_status probe_gradients(weft_probe *probe, weft_run *run, weft_error *err)
{
    return gather((record *)probe, run, true, err);
}

static weft_status probe_updated(weft_probe *probe, weft_run *run, weft_error *err)
{
    return gather((record *)probe, run, false, err);
}

static weft_status run_recorded(weft_rank *rank, void *ctx)
{
    static const volatile sig_atomic_t never;
    record *r = ctx;
    weft_session *session = &rank->session;
    weft_plan *plan = NULL;
    weft_run *run = NULL;
    session->host.dir = NULL; /* an oracle leaves nothing behind */
    const weft_plan_options options = {.rank = session->host.rank, .ranks = session->host.ranks, .train_only = true};
    weft_status s = weft_rank_agree(rank, "planning", weft_plan_create(session->plugins, session->settings, &options, &plan, &rank->err));
    s = s ? s : weft_rank_agree(rank, "opening plugins", weft_plugins_open(session->plugins, &rank->err));
    s = s ? s : weft_rank_agree(rank, "preparing the run", weft_run_create(plan, &session->host, &run, &rank->err));
    if (!s) {
        run->probe = &r->probe;
        run->stop_after = r->n_steps;
        run->n_watchers = 0;
        s = weft_run_train(run, &never, &rank->err);
    }
    weft_run_destroy(run);
    weft_plan_destroy(plan);
    return s;
}

static void record_init(record *r, int64_t n_steps)
{
    memset(r, 0, sizeof *r);
    r->probe = (weft_probe){probe_gradients, probe_updated};
    r->n_steps = n_steps;
    r->steps = weft_alloc_zero((size_t)n_steps, sizeof *r->steps);
    pthread_mutex_init(&r->lock, NULL);
}

static void record_release(record *r)
{
    pthread_mutex_destroy(&r->lock);
    weft_pool_release(&r->pool);
    weft_free(r->steps);
}

/* ---- comparing ---- */

typedef struct verdict {
    double worst; /* the largest error over its bound */
    char text[256];
    bool parted;
} verdict;

/* Rounding of what passes through the blocks, and of sums over the tokens of a step; see docs/oracle.md. */
static double bound_of(const record *a, const record *b)
{
    double depth = sqrt(10.0 * (a->blocks + 1)), sum = sqrt((double)a->tokens), eps = ldexp(1, a->wide && b->wide ? -53 : -24);
    double activations = (a->half || b->half ? ldexp(1, -8) : eps) * depth;
    return 4 * (activations + eps * sum);
}

static void judge(verdict *v, double error, double bound, const char *what, int64_t s, const char *name)
{
    bool parted = !(error <= bound);
    if (parted)
        v->parted = true;
    if (v->text[0] && !(error / bound > v->worst) && error == error)
        return;
    v->worst = error / bound;
    weft_text text = {0};
    weft_text_print(&text, "step %lld, %s%s%s: %.3g, bound %.3g", (long long)s + 1, what, *name ? " of " : "", name, error, bound);
    strncpy(v->text, weft_text_get(&text), sizeof v->text - 1);
    weft_text_release(&text);
}

/* |a - b| over |a|, or over `least` where that is more. */
static double relative(const double *a, const double *b, int64_t n, double least, double *cosine, double *size)
{
    double difference = 0, aa = 0, bb = 0, ab = 0;
    for (int64_t i = 0; i < n; i++) {
        difference += (a[i] - b[i]) * (a[i] - b[i]);
        aa += a[i] * a[i];
        bb += b[i] * b[i];
        ab += a[i] * b[i];
    }
    *size = sqrt(aa);
    *cosine = aa > 0 && bb > 0 ? ab / sqrt(aa * bb) : 1;
    double scale = *size > least ? *size : least;
    return difference == 0 ? 0 : scale > 0 ? sqrt(difference) / scale : INFINITY;
}

static const tensor *find(const step *s, int n, const char *name)
{
    for (int i = 0; i < n; i++)
        if (strcmp(s->tensors[i].name, name) == 0)
            return &s->tensors[i];
    return NULL;
}

/* The worst of one step, for its line of the report. */
typedef struct extremes {
    double gradient, parameter, cosine;
} extremes;

static int64_t elements(const record *r)
{
    int64_t n = 0;
    for (int i = 0; i < r->n_tensors; i++)
        n += r->steps[0].tensors[i].count;
    return n;
}

/* A gradient that is zero but for rounding (a key's bias: softmax does not see it) is measured against its share of the gradient norm; the optimizer
 * makes steps of full size from such noise, so the parameter says nothing then. */
static void compare_tensor(const record *a, const tensor *x, const tensor *y, int64_t s, double bound, verdict *v, extremes *e)
{
    double cosine, size, ignored, share = a->steps[s].norm * sqrt((double)x->count / (double)elements(a));
    double gradient = relative(x->gradient, y->gradient, x->count, share, &cosine, &size);
    bool noise = size < 10 * bound * share;
    judge(v, gradient, bound, "gradient", s, x->name);
    e->gradient = gradient > e->gradient ? gradient : e->gradient;
    if (noise)
        return;
    e->cosine = cosine < e->cosine ? cosine : e->cosine;
    double parameter = relative(x->parameter, y->parameter, x->count, 0, &cosine, &ignored);
    judge(v, parameter, 4 * bound, "parameter", s, x->name); /* Adam divides by what it rounds */
    e->parameter = parameter > e->parameter ? parameter : e->parameter;
}

static weft_status compare_step(const record *a, const record *b, int64_t s, verdict *v, weft_text *out, weft_error *err)
{
    /* after the first step parameters have parted by rounding, and gradients follow them */
    double bound = bound_of(a, b) * (double)(1 + 3 * s);
    const step *x = &a->steps[s], *y = &b->steps[s];
    extremes e = {.cosine = 1};
    for (int i = 0; i < a->n_tensors; i++) {
        const tensor *other = find(y, b->n_tensors, x->tensors[i].name);
        if (!other || other->count != x->tensors[i].count)
            return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "the two models differ at %s", x->tensors[i].name);
        compare_tensor(a, &x->tensors[i], other, s, bound, v, &e);
    }
    double loss = fabs(y->loss - x->loss) / fabs(x->loss), norm = fabs(y->norm - x->norm) / fabs(x->norm);
    judge(v, loss, bound, "loss", s, "");
    judge(v, norm, bound, "gradient norm", s, "");
    weft_text_print(out, "step %lld: loss %.9g and %.9g, gradient norm %.9g and %.9g\n", (long long)s + 1, x->loss, y->loss, x->norm, y->norm);
    weft_text_print(out, "        relative errors: loss %.2g, norm %.2g, gradients up to %.2g (cosine %.9f), parameters up to %.2g\n", loss, norm,
                    e.gradient, e.cosine, e.parameter);
    return WEFT_OK;
}

static weft_status compare(const record *a, const record *b, verdict *v, weft_text *out, weft_error *err)
{
    if (a->n_tensors != b->n_tensors)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "the two models differ: %d tensors and %d", a->n_tensors, b->n_tensors);
    weft_status s = WEFT_OK;
    for (int64_t i = 0; i < a->n_steps && !s; i++)
        s = compare_step(a, b, i, v, out, err);
    return s;
}

static int conclude(const record *a, const record *b, weft_error *err)
{
    verdict v = {0};
    weft_text out = {0};
    if (compare(a, b, &v, &out, err)) {
        weft_text_release(&out);
        return weft_cli_report(err);
    }
    const record *both[] = {a, b};
    for (int i = 0; i < 2; i++)
        if (both[i]->replica_error > 0) {
            v.parted = true;
            weft_text_print(&out, "replicas of %s differ by %.3g in the %s run\n", both[i]->replica_name, both[i]->replica_error,
                            i ? "second" : "first");
        }
    weft_text_print(&out, "%s: %d and %d rank%s; worst: %s\n", v.parted ? "PARTED" : "parity", a->ranks, b->ranks, b->ranks == 1 ? "" : "s", v.text);
    int code = weft_cli_print(&out);
    weft_text_release(&out);
    return code ? code : v.parted;
}

/* ---- the command ---- */

/* Ranks that an INI's mesh asks for. */
static weft_status count_ranks(weft_cli_options *options, weft_error *err)
{
    weft_session session;
    weft_status s = weft_session_init(&session, options, 0, NULL, true, err);
    s = s ? s : weft_plan_ranks(session.plugins, &options->ranks, err);
    weft_session_release(&session);
    return s;
}

static int run_both(weft_cli_options *options, int64_t steps, weft_error *err)
{
    record records[2];
    int code = 0, n = 0;
    for (; n < 2 && !code; n++) {
        weft_cli_options one = *options;
        one.ini = options->arguments[n];
        one.ranks = 0;
        record_init(&records[n], steps);
        if (!records[n].steps)
            weft_fail_memory(err);
        else
            count_ranks(&one, err);
        code = weft_error_status(err) ? weft_cli_report(err) : weft_ranks_run(&one, true, run_recorded, &records[n]);
    }
    if (!code)
        code = conclude(&records[0], &records[1], err);
    for (int i = 0; i < n; i++)
        record_release(&records[i]);
    return code;
}

int weft_cmd_oracle(int argc, char **argv)
{
    int64_t steps = 2;
    const weft_cli_option extra[] = {
        {.name = "steps", .argument = "N", .help = "compare so many steps (default 2)", .number = &steps},
        {.name = NULL},
    };
    const weft_cli_usage usage = {
        .command = "oracle",
        .arguments = "A.ini B.ini",
        .max_arguments = 2,
        .summary = "Runs two INI files for some steps from the same weights and data and compares losses, gradient norms, every gradient before "
                   "clipping and every "
                   "parameter. Each runs on as many ranks as its mesh asks for. Exit code 0 at parity, 1 where they part.",
        .accepts = WEFT_CLI_INI,
        .extra = extra,
    };
    weft_cli_options options;
    weft_error err = {0};
    int code = weft_cli_parse(&usage, argc, argv, &options);
    if (code == WEFT_CLI_GO && (options.n_arguments != 2 || steps < 1)) {
        weft_fail(&err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                  steps < 1 ? "--steps must be at least 1" : "oracle compares two INI files: weft oracle A.ini B.ini");
        code = weft_cli_report(&err);
    }
    if (code == WEFT_CLI_GO)
        code = run_both(&options, steps, &err);
    weft_error_release(&err);
    weft_cli_options_release(&options);
    return code;
}
