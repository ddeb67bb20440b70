/* SPDX-License-Identifier: Apache-2.0 */
#include "lower/plan.h"
#include "graph/ops/ops.h"
#include "mesh/plan.h"

#include <string.h>
#include <time.h>

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

/* ---- sizes, services, ops, kernels ---- */

/* Samples and tokens are counted in 64 bits, over the whole run. */
static weft_status check_counts(const weft_plan *p, weft_error *err)
{
    int64_t most = WEFT_MAX_ELEMENTS / p->seq_len;
    if (p->global_batch > most)
        return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p->train, "global_batch"),
                         "[train] global_batch %lld of %lld tokens each is more than can be counted; at most %lld", (long long)p->global_batch,
                         (long long)p->seq_len, (long long)most);
    most = INT64_MAX / (p->global_batch * p->seq_len);
    if (p->steps > most)
        return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p->train, "steps"),
                         "[train] steps %lld: their tokens are more than can be counted; at most %lld", (long long)p->steps, (long long)most);
    return WEFT_OK;
}

static weft_status read_sections(weft_plan *p, weft_settings *settings, weft_error *err)
{
    weft_status s = weft_settings_section(settings, "train", weft_core_params("train"), &p->train, err);
    s = s ? s : weft_settings_section(settings, "weft", weft_core_params("weft"), &p->weft, err);
    s = s ? s : weft_settings_section(settings, "mesh", weft_core_params("mesh"), &p->mesh_params, err);
    if (s)
        return s;
    p->steps = weft_params_int(p->train, "steps");
    p->seq_len = weft_params_int(p->train, "seq_len");
    p->global_batch = weft_params_int(p->train, "global_batch");
    p->micro_batch = weft_params_is(p->train, "micro_batch", "auto") ? p->global_batch : weft_params_int(p->train, "micro_batch");
    if (p->global_batch % p->micro_batch)
        return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p->train, "micro_batch"),
                         "[train] micro_batch %lld does not divide global_batch %lld; every micro-batch must be of the same size",
                         (long long)p->micro_batch, (long long)p->global_batch);
    p->micro_batches = p->global_batch / p->micro_batch;
    return check_counts(p, err);
}

static bool is_standard(const char *name)
{
    for (const weft_op *const *op = weft_standard_ops(); *op; op++)
        if (strcmp((*op)->name, name) == 0)
            return true;
    return false;
}

static weft_status gather_ops(weft_plan *p, weft_error *err)
{
    size_t n = (size_t)p->plugins->n;
    const weft_op *const **ops = weft_alloc_zero(n + 1, sizeof *ops);
    const weft_kernel **tables = weft_alloc_zero(n + 1, sizeof *tables);
    const char **names = weft_alloc_zero(n + 1, sizeof *names);
    weft_status s = ops && tables && names ? weft_plugins_check_kernels(p->plugins, is_standard, err) : weft_fail_memory(err);
    for (size_t i = 0; !s && i < n; i++) {
        ops[i] = p->plugins->list[i].module.plugin->ops;
        tables[i] = p->plugins->list[i].module.plugin->kernels;
        names[i] = p->plugins->list[i].module.plugin->name;
    }
    s = s ? s : weft_ops_init(&p->ops, ops, (int)n, err);
    bool plain = p->device->plain && p->device->plain(p->device_self);
    s = s ? s : weft_kernels_init(&p->kernels, p->device->name, tables, names, (int)n, plain, err);
    weft_free(ops);
    weft_free(tables);
    weft_free(names);
    return s;
}

static weft_status find_services(weft_plan *p, weft_error *err)
{
    p->device = weft_plugins_service(p->plugins, "device", &p->device_self);
    p->generator = weft_plugins_service(p->plugins, "generator", &p->generator_self);
    return p->device ? WEFT_OK : weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "no listed plugin is a device; list one, as cpu");
}

/* ---- the mesh ---- */

static weft_status collect_axes(const weft_plugins *plugins, weft_mesh_plan *mesh, weft_error *err)
{
    const weft_loaded *loaded;
    const weft_contribution *c;
    for (int i = 0, k = 0; weft_plugins_next(plugins, WEFT_PASS, &i, &k, &loaded, &c);) {
        if (c->stage != WEFT_STAGE_MESH || !c->mesh)
            continue;
        mesh->by = loaded->module.plugin->name;
        weft_blame before = weft_blame_set((weft_blame){mesh->by, "mesh"});
        weft_status s = c->mesh(loaded->self, mesh, err);
        weft_blame_set(before);
        if (s)
            return s;
    }
    return WEFT_OK;
}

weft_status weft_plan_ranks(const weft_plugins *plugins, int *ranks, weft_error *err)
{
    weft_mesh_plan mesh;
    weft_mesh_plan_init(&mesh, 1);
    weft_status s = collect_axes(plugins, &mesh, err);
    int64_t product = 1;
    for (int i = 0; i < mesh.n && !s; i++)
        product *= mesh.entry[i].degree > 0 ? mesh.entry[i].degree : 1;
    *ranks = (int)product;
    return s;
}

static weft_status make_mesh(weft_plan *p, weft_error *err)
{
    weft_mesh_plan mesh;
    weft_mesh_plan_init(&mesh, p->ranks);
    weft_status s = collect_axes(p->plugins, &mesh, err);
    if (s)
        return s;
    const char *order[WEFT_MAX_AXES];
    int n = 0;
    while (n < WEFT_MAX_AXES && (order[n] = weft_params_word(p->mesh_params, "order", n)))
        n++;
    return weft_mesh_plan_finish(&mesh, order, n, weft_params_where(p->mesh_params, "order"), &p->mesh, err);
}

/* ---- graphs ---- */

static weft_status record(weft_plan *p, const char *plugin, weft_pass_stage stage, int before, int after, double ms, weft_error *err)
{
    if (p->n_records == p->records_capacity) {
        int more = p->records_capacity ? 2 * p->records_capacity : 16;
        weft_pass_record *fresh = weft_realloc(p->records, (size_t)more * sizeof *fresh);
        if (!fresh)
            return weft_fail_memory(err);
        p->records = fresh;
        p->records_capacity = more;
    }
    p->records[p->n_records++] = (weft_pass_record){plugin, stage, before, after, ms};
    return WEFT_OK;
}

/* Moves the graph's errors to err, naming who caused them. */
static weft_status hand_over(weft_graph *g, const char *plugin, weft_error *err)
{
    weft_error *from = weft_graph_error(g);
    weft_status s = weft_error_status(from);
    for (int i = 0; i < from->n_items; i++) {
        bool internal = from->items[i].status == WEFT_ERR_INTERNAL;
        weft_fail(err, from->items[i].status, WEFT_NOWHERE, internal ? "plugin %s left a broken graph: %s" : "%.0s%s", plugin, from->items[i].text);
    }
    if (s && from->n_items == 0)
        return weft_fail_memory(err);
    return s;
}

static weft_status run_pass(weft_plan *p, weft_graph *g, const weft_loaded *loaded, const weft_contribution *c, weft_error *err)
{
    const char *name = loaded->module.plugin->name;
    int before = g->n_nodes;
    double start = now_ms();
    g->by = name;
    g->block = WEFT_BLOCK_NONE;
    g->chunk = -1;
    weft_blame blame = weft_blame_set((weft_blame){name, c->stage == WEFT_STAGE_GRAPH ? "graph" : "joint"});
    weft_status s = c->graph(loaded->self, g, err);
    weft_blame_set(blame);
    if (!s && !weft_graph_status(g))
        weft_graph_verify(g, weft_graph_error(g));
    weft_status broken = hand_over(g, name, err);
    g->by = "core";
    s = s ? s : broken;
    return s ? s : record(p, name, c->stage, before, g->n_nodes, now_ms() - start, err);
}

static weft_status run_stage(weft_plan *p, weft_graph *g, weft_pass_stage stage, const char *stop_after, weft_error *err)
{
    const weft_loaded *loaded;
    const weft_contribution *c;
    for (int i = 0, k = 0; weft_plugins_next(p->plugins, WEFT_PASS, &i, &k, &loaded, &c);) {
        bool stop = stop_after && strcmp(loaded->module.plugin->name, stop_after) == 0;
        if (c->stage == stage && c->graph) {
            weft_status s = run_pass(p, g, loaded, c, err);
            if (s)
                return s;
        }
        if (stop)
            return WEFT_OK;
    }
    return WEFT_OK;
}

/* The core's own steps are passes, too: they are recorded and their graphs verified. */
static weft_status core_step(weft_plan *p, weft_graph *g, const char *name, weft_status (*step)(weft_graph *), weft_error *err)
{
    int before = g->n_nodes;
    double start = now_ms();
    weft_status s = step(g), broken = hand_over(g, "core", err);
    s = s ? s : broken;
    return s ? s : record(p, name, WEFT_STAGE_JOINT, before, g->n_nodes, now_ms() - start, err);
}

/* What the host reads must be whole on every rank. */
static weft_status close_roots(weft_graph *g)
{
    weft_value **const roots[] = {&g->loss_sum, &g->tokens, &g->logits};
    for (int i = 0; i < 3; i++)
        if (*roots[i])
            *roots[i] = weft_move_to(g, *roots[i], (weft_layout){0}, NULL, WEFT_FORWARD, "read by the host", NULL);
    for (int i = 0; i < g->n_reports; i++)
        g->reports[i].value = weft_move_to(g, g->reports[i].value, (weft_layout){0}, NULL, WEFT_UPDATE, "reported", NULL);
    return weft_graph_status(g);
}

static weft_status verify(weft_graph *g)
{
    return weft_graph_verify(g, weft_graph_error(g));
}

static weft_status build_graph(weft_plan *p, weft_mode mode, const weft_plan_options *options, weft_error *err)
{
    weft_graph_config config = {.mode = mode, .mesh = p->mesh, .ops = &p->ops, .dice = options->dice};
    config.dtype = weft_params_is(p->train, "dtype", "f64") ? WEFT_F64 : WEFT_F32;
    config.sizes = (weft_sizes){p->micro_batch, p->seq_len, p->micro_batches, weft_params_int(p->train, "loss_chunk")};
    if (mode == WEFT_MODE_GENERATE) {
        config.sizes.micro_batch = config.sizes.micro_batches = 1;
        config.sizes.seq_len = p->generator->context(p->generator_self);
    }
    weft_graph *g;
    weft_status s = weft_graph_create(&config, &g, err);
    if (s)
        return s;
    p->graphs[mode] = g;
    s = run_stage(p, g, WEFT_STAGE_GRAPH, options->stop_after, err);
    if (!s && !options->stop_after && mode != WEFT_MODE_GENERATE && !g->loss && !g->loss_sum)
        s = weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p->weft, "plugins"),
                      "no listed plugin builds a model; list one, as llama3, in [weft] plugins");
    s = s ? s : core_step(p, g, "place", weft_graph_place, err);
    if (s || options->stop_after)
        return s;
    if (mode == WEFT_MODE_TRAIN) {
        s = core_step(p, g, "differentiate", weft_graph_differentiate, err);
        s = s ? s : run_stage(p, g, WEFT_STAGE_JOINT, NULL, err);
    }
    s = s ? s : core_step(p, g, "close", close_roots, err);
    if (mode == WEFT_MODE_TRAIN)
        s = s ? s : core_step(p, g, "order", weft_graph_order, err);
    return s ? s : core_step(p, g, "verify", verify, err);
}

static weft_status lower(weft_plan *p, weft_mode mode, weft_error *err)
{
    uint64_t adversary = p->device->adversary ? p->device->adversary(p->device_self) : 0;
    weft_lower_options options = {&p->kernels, &p->states, p->rank, adversary ? 2 : p->device->n_queues, adversary};
    double start = now_ms();
    weft_status s = weft_lower(p->graphs[mode], &options, &p->lowered[mode], err);
    int n = p->graphs[mode]->n_nodes;
    return s ? s : record(p, "lower", WEFT_STAGE_PROGRAM, n, n, now_ms() - start, err);
}

static weft_status build(weft_plan *p, weft_settings *settings, const weft_plan_options *options, weft_error *err)
{
    weft_status s = read_sections(p, settings, err);
    s = s ? s : find_services(p, err);
    s = s ? s : gather_ops(p, err);
    s = s ? s : make_mesh(p, err);
    s = s ? s : build_graph(p, WEFT_MODE_TRAIN, options, err);
    if (s || options->stop_after)
        return s;
    int coord[WEFT_MAX_AXES];
    weft_mesh_coord(&p->mesh, p->rank, coord);
    s = weft_states_init(&p->states, p->graphs[WEFT_MODE_TRAIN], coord, err);
    s = s ? s : lower(p, WEFT_MODE_TRAIN, err);
    bool wanted[WEFT_MODES] = {[WEFT_MODE_EVALUATE] = weft_params_int(p->train, "eval_every") > 0, [WEFT_MODE_GENERATE] = p->generator != NULL};
    for (int m = 0; m < WEFT_MODES && !s; m++) {
        if (!wanted[m] || options->train_only)
            continue;
        s = build_graph(p, (weft_mode)m, options, err);
        s = s ? s : lower(p, (weft_mode)m, err);
    }
    return s;
}

weft_status weft_plan_create(weft_plugins *plugins, weft_settings *settings, const weft_plan_options *options, weft_plan **out, weft_error *err)
{
    weft_plan *p = weft_alloc_zero(1, sizeof *p);
    *out = p;
    if (!p)
        return weft_fail_memory(err);
    p->plugins = plugins;
    p->rank = options->rank;
    p->ranks = options->ranks;
    weft_status s = build(p, settings, options, err);
    if (!s)
        return WEFT_OK;
    weft_plan_destroy(p);
    *out = NULL;
    return s;
}

void weft_plan_destroy(weft_plan *p)
{
    if (!p)
        return;
    for (int m = 0; m < WEFT_MODES; m++) {
        weft_lowered_destroy(p->lowered[m]);
        weft_graph_destroy(p->graphs[m]);
    }
    weft_states_release(&p->states);
    weft_kernels_release(&p->kernels);
    weft_ops_release(&p->ops);
    weft_free(p->records);
    weft_free(p);
}
