/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/driver/plan.h"
#include "compile/mesh/axes.h"
#include "host/enter.h"

#include <stdio.h>
#include <string.h>
#include <weft/marks.h>

/* ---- sizes, services, ops, kernels ---- */

/* Samples and tokens are counted in 64 bits, over the whole run. */
static weft_status check_counts(const weft_plan *p, weft_error *err)
{
    int64_t most = WEFT_MAX_ELEMENTS / p->seq_len;
    if (p->global_batch > most)
        return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p->train, "global_batch"),
                         "[train] global_batch %lld of %lld tokens each is more than can be "
                         "counted; at most %lld",
                         (long long)p->global_batch, (long long)p->seq_len, (long long)most);
    most = INT64_MAX / (p->global_batch * p->seq_len);
    if (p->steps > most)
        return weft_fail(
            err, WEFT_ERR_INPUT, weft_params_where(p->train, "steps"),
            "[train] steps %lld: their tokens are more than can be counted; at most %lld",
            (long long)p->steps, (long long)most);
    return WEFT_OK;
}

static weft_status read_sections(weft_plan *p, weft_settings *settings, weft_error *err)
{
    weft_status s =
        weft_settings_section(settings, "train", weft_core_params("train"), &p->train, err);
    s = s ? s : weft_settings_section(settings, "weft", weft_core_params("weft"), &p->weft, err);
    s = s ? s
          : weft_settings_section(settings, "mesh", weft_core_params("mesh"), &p->mesh_params, err);
    if (s)
        return s;
    p->steps = weft_params_int(p->train, "steps");
    p->seq_len = weft_params_int(p->train, "seq_len");
    p->global_batch = weft_params_int(p->train, "global_batch");
    p->micro_batch = weft_params_is(p->train, "micro_batch", "auto")
                         ? p->global_batch
                         : weft_params_int(p->train, "micro_batch");
    if (p->global_batch % p->micro_batch)
        return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p->train, "micro_batch"),
                         "[train] micro_batch %lld does not divide global_batch %lld; every "
                         "micro-batch must be of the same size",
                         (long long)p->micro_batch, (long long)p->global_batch);
    p->micro_batches = p->global_batch / p->micro_batch;
    return check_counts(p, err);
}

weft_status weft_plan_check_ops(const weft_ops *ops, const weft_plugin *plugin, weft_where where,
                                weft_error *err)
{
    weft_error own = {0};
    weft_status s = weft_ops_check_texts(ops, plugin->ops, &own);
    s = s == WEFT_ERR_INTERNAL ? WEFT_ERR_PLUGIN : s;
    weft_error_move(err, &own, s, where, "plugin '%s': ", plugin->name);
    return s;
}

/* Every kernel must be for an op that weft or a listed plugin has. */
static weft_status check_kernels(const weft_plan *p, const weft_module *m, weft_error *err)
{
    const weft_kernel *first = NULL;
    char others[48] = "";
    int more = -1;
    for (const weft_kernel *k = m->plugin->kernels; k && k->op; k++)
        if (!k->optional && !weft_ops_find(&p->ops, k->op)) {
            first = first ? first : k;
            more++;
        }
    if (more > 0)
        snprintf(others, sizeof others, ", and %d more like it", more);
    return !first ? WEFT_OK
                  : weft_fail(err, WEFT_ERR_INPUT, m->where,
                              "plugin '%s' has a kernel '%s' for op '%s', which neither weft nor a "
                              "plugin of this run has%s; list the plugin that brings the op, or "
                              "leave '%s' out",
                              m->plugin->name, first->name, first->op, others, m->plugin->name);
}

/* Before any graph, so that whoever wrote them hears of it. */
static weft_status check_modules(const weft_plan *p, weft_error *err)
{
    weft_status s = WEFT_OK;
    for (int i = 0; i < p->plugins->n; i++) {
        const weft_module *m = &p->plugins->list[i].module;
        weft_status texts = weft_plan_check_ops(&p->ops, m->plugin, m->where, err),
                    kernels = check_kernels(p, m, err);
        s = s ? s : texts ? texts : kernels;
    }
    return s;
}

static weft_status gather_ops(weft_plan *p, weft_error *err)
{
    size_t n = (size_t)p->plugins->n;
    const weft_op *const **ops = weft_alloc_zero(n + 1, sizeof *ops);
    const weft_kernel **tables = weft_alloc_zero(n + 1, sizeof *tables);
    const char **names = weft_alloc_zero(n + 1, sizeof *names);
    weft_status s = ops && tables && names ? WEFT_OK : weft_fail_memory(err);
    for (size_t i = 0; !s && i < n; i++) {
        ops[i] = p->plugins->list[i].module.plugin->ops;
        tables[i] = p->plugins->list[i].module.plugin->kernels;
        names[i] = p->plugins->list[i].module.plugin->name;
    }
    s = s ? s : weft_ops_init(&p->ops, ops, names, (int)n, err);
    s = s ? s : check_modules(p, err);
    s = s ? s
          : weft_kernels_init(&p->kernels, p->device, p->device_self, tables, names, (int)n, err);
    weft_free(ops);
    weft_free(tables);
    weft_free(names);
    return s;
}

static weft_status find_services(weft_plan *p, weft_error *err)
{
    p->device = weft_plugins_service(p->plugins, "device", &p->device_self);
    p->generator = weft_plugins_service(p->plugins, "generator", &p->generator_self);
    return p->device ? WEFT_OK
                     : weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                                 "no listed plugin is a device; list one, as cpu");
}

/* ---- the mesh ---- */

/* A word, as auto, gives 0. */
static weft_status declare_axis(const weft_loaded *loaded, const weft_contribution *c,
                                weft_mesh_plan *mesh, weft_error *err)
{
    weft_status s = weft_mesh_plan_axis(mesh, c->axis, weft_params_int(loaded->params, c->degree),
                                        weft_params_where(loaded->params, c->degree), err);
    return s || !c->cuts ? s : weft_mesh_plan_cuts(mesh, c->axis, c->cuts, err);
}

weft_status weft_declare_axes(const weft_loaded *loaded, const weft_contribution *c,
                              weft_mesh_plan *mesh, weft_error *err)
{
    const char *name = loaded->module.plugin->name;
    const bool pass = c->kind == WEFT_PASS && c->stage == WEFT_STAGE_MESH;
    if (!pass && c->kind != WEFT_AXIS)
        return WEFT_OK;
    mesh->by = name;
    const weft_entry entry = weft_enter(name, "mesh", loaded->module.where, err);
    return weft_leave(&entry,
                      pass ? c->mesh(loaded->self, mesh, err) : declare_axis(loaded, c, mesh, err));
}

static weft_status collect_axes(const weft_plugins *plugins, weft_mesh_plan *mesh, weft_error *err)
{
    for (int i = 0; i < plugins->n_passes; i++) {
        const weft_loaded *loaded = &plugins->list[plugins->passes[i].plugin];
        weft_status s = weft_declare_axes(loaded, plugins->passes[i].item, mesh, err);
        if (s)
            return s;
    }
    return WEFT_OK;
}

/* Behind the model, and behind copies in fewer bits, which it then gathers. */
static void suggest_spread(const weft_plugins *plugins, const char *name, weft_mesh_plan *mesh)
{
    if (!name)
        return;
    snprintf(mesh->spread, sizeof mesh->spread, "%s", name);
    for (int i = 0; i < plugins->n; i++) {
        const weft_plugin *plugin = plugins->list[i].module.plugin;
        if (weft_plugin_gives(plugin, "model") || weft_plugin_gives(plugin, "low_precision"))
            snprintf(mesh->spread, sizeof mesh->spread, "%s@after:%s", name, plugin->name);
    }
}

static weft_status make_mesh(weft_plan *p, const char *spread, weft_error *err)
{
    weft_mesh_plan mesh;
    weft_mesh_plan_init(&mesh, p->ranks);
    suggest_spread(p->plugins, spread, &mesh);
    weft_status s = collect_axes(p->plugins, &mesh, err);
    if (s)
        return s;
    for (p->n_axes = 0; p->n_axes < mesh.n; p->n_axes++)
        memcpy(p->axes[p->n_axes], mesh.entry[p->n_axes].name, sizeof p->axes[0]);
    const char *order[WEFT_MAX_AXES];
    int n = 0;
    while (n < WEFT_MAX_AXES && (order[n] = weft_params_word(p->mesh_params, "order", n)))
        n++;
    s = weft_mesh_plan_finish(&mesh, order, n, weft_params_where(p->mesh_params, "order"), &p->mesh,
                              err);
    if (!s)
        weft_mesh_coord(&p->mesh, p->rank, p->coord);
    return s;
}

/* ---- the whole ---- */

/* This rank's place in the pipeline. */
static int stage_rank(const weft_plan *p, weft_mode mode)
{
    const int axis = weft_graph_stage_axis(p->graphs[mode]);
    return axis < 0 ? 0 : p->coord[axis];
}

weft_status weft_plan_lower(const weft_plan *p, weft_mode mode, weft_lowered **out, weft_error *err)
{
    uint64_t adversary = weft_device_adversary(p);
    weft_lower_options options = {.kernels = &p->kernels,
                                  .states = &p->states,
                                  .tasks = &p->tasks[mode]->of[stage_rank(p, mode)],
                                  .rank = p->rank,
                                  .rough = p->rough,
                                  .sending = p->tasks[mode]->sending,
                                  .n_queues = adversary ? 2 : p->device->n_queues,
                                  .adversary = adversary};
    options.caches = weft_graph_writes(p->graphs[mode]) ? &p->caches : NULL;
    return weft_lower(p->graphs[mode], &options, out, err);
}

static weft_status lower(weft_plan *p, weft_mode mode, weft_error *err)
{
    weft_status s = weft_plan_schedule(p, mode, err);
    double start = weft_now();
    s = s ? s : weft_plan_lower(p, mode, &p->lowered[mode], err);
    int n = p->graphs[mode]->n_nodes;
    return s ? s
             : weft_plan_record(p, (weft_pass_record){"lower", "program", NULL, n, n, 0}, start,
                                err);
}

static void fetch(weft_graph *g, const weft_plan_options *o)
{
    const bool any = o->fetch_computed || o->fetch_rounded;
    for (weft_node *n = any ? g->first : NULL; n; n = n->next)
        for (int i = 0; i < n->n_outs && n->n_ins; i++) {
            weft_value *v = n->outs[i];
            const bool is8 = weft_dtype_is_f8(v->dtype) && !weft_dtype_is_f8(n->ins[0]->dtype);
            if (o->fetch_computed && !weft_node_accumulates(n))
                v->fetch = n->scope == WEFT_MICRO_BATCH;
            if (o->fetch_rounded && (is8 || weft_get_mark(n, WEFT_MARK_CHOOSES)))
                v->fetch = true;
        }
}

weft_status weft_plan_reach_far(const weft_plan *p, weft_error *err)
{
    const bool reads = p->device->host_memory && !weft_device_is_async(p);
    if (!p->states.far_bytes || (p->far && (reads || p->far->in_host_memory)))
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p->weft, "plugins"),
                     p->far ? "state lies in far memory, which device '%s' cannot reach: only one "
                              "that computes at once, in the host's memory, can; list hostmem "
                              "in that plugin's place"
                            : "state lies in far memory, and no listed plugin gives device '%s' "
                              "any; list one, as disk",
                     p->device->name);
}

/* Where parameters and state lie: all of them are in the graph. */
static weft_status place_state(weft_plan *p, weft_mode mode, weft_error *err)
{
    weft_status s = weft_states_init(&p->states, p->graphs[mode], p->coord, false,
                                     weft_device_alignment(p->device), err);
    if (!s && p->states.far_bytes)
        p->far = weft_plugins_service(p->plugins, "far", &p->far_self);
    return s;
}

static weft_status build_training(weft_plan *p, const weft_plan_options *options, weft_error *err)
{
    weft_status s = weft_plan_graph(p, WEFT_MODE_TRAIN, options, err);
    if (s || options->stop_after)
        return s;
    const bool tokens = weft_graph_has_tokens(p->graphs[WEFT_MODE_TRAIN]);
    p->unit = tokens ? "tokens" : "samples";
    p->units = p->global_batch * (tokens ? p->seq_len : 1);
    fetch(p->graphs[WEFT_MODE_TRAIN], options);
    s = place_state(p, WEFT_MODE_TRAIN, err);
    s = s ? s : lower(p, WEFT_MODE_TRAIN, err);
    if (s || options->train_only || weft_params_int(p->train, "eval_every") == 0)
        return s;
    s = weft_plan_graph(p, WEFT_MODE_EVALUATE, options, err);
    return s ? s : lower(p, WEFT_MODE_EVALUATE, err);
}

/* Without training, parameters have their places from here. */
static weft_status build_writing(weft_plan *p, const weft_plan_options *options, weft_error *err)
{
    weft_status s = weft_plan_graph(p, WEFT_MODE_GENERATE, options, err);
    if (!s && options->write)
        s = place_state(p, WEFT_MODE_GENERATE, err);
    s = s ? s
          : weft_states_init(&p->caches, p->graphs[WEFT_MODE_GENERATE], p->coord, true,
                             weft_device_alignment(p->device), err);
    s = s ? s : lower(p, WEFT_MODE_GENERATE, err);
    if (s || !p->writing.cache)
        return s;
    s = weft_plan_graph(p, WEFT_MODE_DECODE, options, err);
    return s ? s : lower(p, WEFT_MODE_DECODE, err);
}

static weft_status build(weft_plan *p, weft_settings *settings, const weft_plan_options *options,
                         weft_error *err)
{
    weft_status s = read_sections(p, settings, err);
    s = s ? s : weft_services_check(p->plugins, false, err);
    s = s ? s : find_services(p, err);
    s = s ? s : gather_ops(p, err);
    s = s ? s : make_mesh(p, options->spread, err);
    if (!s && !options->write)
        s = build_training(p, options, err);
    if (s || options->stop_after || options->train_only || (!options->write && !p->generator))
        return s;
    const weft_generator *by = p->generator;
    const bool text = !by || !by->fields;
    int64_t context = text && by ? by->context(p->generator_self) : p->seq_len;
    p->writing = !text ? (weft_writing){by->rows(p->generator_self), context, context, false}
                 : options->write ? *options->write
                                  : (weft_writing){1, context, context, true};
    return build_writing(p, options, err);
}

const weft_graph *weft_plan_model(const weft_plan *plan)
{
    return plan->graphs[WEFT_MODE_TRAIN] ? plan->graphs[WEFT_MODE_TRAIN]
                                         : plan->graphs[WEFT_MODE_GENERATE];
}

static weft_status create(weft_plugins *plugins, weft_settings *settings,
                          const weft_plan_options *options, int round, weft_plan **out,
                          weft_error *err)
{
    weft_plan *p = weft_alloc_zero(1, sizeof *p);
    *out = p;
    if (!p)
        return weft_fail_memory(err);
    p->plugins = plugins;
    p->rank = options->rank;
    p->ranks = options->ranks;
    p->round = round;
    p->rough = options->rough;
    weft_status s = build(p, settings, options, err);
    s = s ? s : weft_plan_sending(p, err);
    s = s ? s : weft_plan_keep(p, err);
    s = s || options->stop_after ? s : weft_plan_check_held(p, err);
    return s || options->stop_after || options->write ? s : weft_plan_review(p, err);
}

weft_status weft_plan_create(weft_plugins *plugins, weft_settings *settings,
                             const weft_plan_options *options, weft_plan **out, weft_error *err)
{
    plugins->asked = NULL;
    for (int round = 0;; round++) { /* weft_plan_review ends it */
        weft_status s = create(plugins, settings, options, round, out, err);
        if (!s && !(*out)->again)
            return WEFT_OK;
        weft_plan_destroy(*out);
        *out = NULL;
        if (s)
            return s;
    }
}

void weft_plan_destroy(weft_plan *p)
{
    if (!p)
        return;
    for (int m = 0; m < WEFT_MODES; m++) {
        weft_lowered_destroy(p->lowered[m]);
        weft_tasks_destroy(p->tasks[m]);
        weft_graph_destroy(p->graphs[m]);
    }
    weft_states_release(&p->states);
    weft_states_release(&p->caches);
    weft_kernels_release(&p->kernels);
    weft_ops_release(&p->ops);
    weft_free(p->records);
    weft_free(p);
}
