/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs, pass by pass: the plugins' and the core's own, each verified, timed and blamed. */
#include "base/array.h"
#include "compile/driver/plan.h"
#include "host/enter.h"

#include <string.h>

weft_status weft_plan_record(weft_plan *p, weft_pass_record record, double start, weft_error *err)
{
    weft_pass_record *r =
        weft_array_push(&p->records, &p->n_records, &p->records_capacity, sizeof *r);
    if (!r)
        return weft_fail_memory(err);
    *r = record;
    r->ms = 1e3 * (weft_now() - start);
    return WEFT_OK;
}

/* Moves the graph's errors to err, naming who caused them, and where. */
static weft_status hand_over(weft_graph *g, const char *plugin, const char *stage, weft_error *err)
{
    weft_error *from = weft_graph_error(g);
    weft_status first = WEFT_OK;
    for (int i = 0; i < from->n_items; i++) {
        const bool broken = from->items[i].status == WEFT_ERR_INTERNAL;
        const weft_status s = weft_fail(
            err, broken ? WEFT_ERR_PLUGIN : from->items[i].status, WEFT_NOWHERE,
            broken && strcmp(plugin, "core") != 0 ? "plugin %s left a broken graph (stage %s): %s"
                                                  : "%.0s%.0s%s",
            plugin, stage, from->items[i].text);
        first = first ? first : s;
    }
    return first || !from->out_of_memory ? first : weft_fail_memory(err);
}

/* What a pass has left: sound, and, where there is a loss, with a gradient for every parameter. */
static void check(weft_graph *g, weft_pass_stage stage)
{
    weft_error *err = weft_graph_error(g);
    if (!weft_graph_verify(g, err) && stage == WEFT_STAGE_GRAPH)
        weft_graph_check_reach(g, err);
}

static weft_status run_pass(weft_plan *p, weft_graph *g, const weft_loaded *loaded,
                            const weft_contribution *c, weft_error *err)
{
    const char *name = loaded->module.plugin->name;
    int before = g->n_nodes;
    double start = weft_now();
    weft_phase phase = g->spot.phase;
    g->by = name;
    g->spot = (weft_spot){NULL, WEFT_BLOCK_NONE, -1, phase, WEFT_SCOPE_NONE};
    g->prefix = g->parameter_prefix = NULL;
    const weft_entry entry = weft_enter(name, weft_stage_name(c->stage), loaded->module.where, err);
    c->graph(loaded->self, g);
    if (g->has_parts)
        weft_graph_assign_parts(g);         /* of what is new, too */
    if (!weft_graph_status(g) && !p->rough) /* rough plans are, where all is placed and ordered */
        check(g, c->stage);
    weft_status s = hand_over(g, name, weft_stage_name(c->stage), err);
    g->by = "core";
    g->spot = (weft_spot){NULL, WEFT_BLOCK_NONE, -1, phase, WEFT_SCOPE_NONE};
    g->prefix = g->parameter_prefix = NULL;
    s = weft_leave(&entry, s);
    const weft_pass_record record = {name, weft_stage_name(c->stage), c->after, before, g->n_nodes,
                                     0};
    return s ? s : weft_plan_record(p, record, start, err);
}

/* How far to go, and how far it went. */
typedef struct limit {
    const char *after; /* stop behind this plugin's last pass before the backward; NULL: go on */
    bool passed;       /* it */
    const weft_contribution *before; /* stop before this pass; NULL: go on */
    bool reached;                    /* `before` */
    const weft_contribution *failed; /* the pass that failed */
    const char *failed_by;
} limit;

/* Has the plugin of pass i no other before the backward? */
static bool is_last(const weft_plugins *plugins, int i)
{
    for (int k = i + 1; k < plugins->n_passes; k++)
        if (plugins->passes[k].plugin == plugins->passes[i].plugin &&
            plugins->passes[k].item->stage <= WEFT_STAGE_PLACED)
            return false;
    return true;
}

static weft_status run_stage(weft_plan *p, weft_graph *g, weft_pass_stage stage, limit *l,
                             weft_error *err)
{
    for (int i = 0; i < p->plugins->n_passes; i++) {
        const weft_contribution *c = p->plugins->passes[i].item;
        const char *name = p->plugins->list[p->plugins->passes[i].plugin].module.plugin->name;
        if (c->stage != stage || (c->modes && !(c->modes >> g->config.mode & 1u)))
            continue;
        l->reached = c == l->before;
        if (l->reached)
            return WEFT_OK;
        weft_status s = run_pass(p, g, &p->plugins->list[p->plugins->passes[i].plugin], c, err);
        if (s) {
            l->failed = c;
            l->failed_by = name;
            return s;
        }
        l->passed = l->after && strcmp(name, l->after) == 0 && is_last(p->plugins, i);
        if (l->passed)
            return WEFT_OK;
    }
    return WEFT_OK;
}

/* The core's own steps are passes, too: they are recorded and their graphs verified. */
static weft_status core_step(weft_plan *p, weft_graph *g, const char *name,
                             weft_status (*step)(weft_graph *), weft_error *err)
{
    int before = g->n_nodes;
    double start = weft_now();
    weft_status s = step(g), told = hand_over(g, "core", name, err);
    s = told ? told : s;
    const weft_pass_record record = {name, "joint", NULL, before, g->n_nodes, 0};
    return s ? s : weft_plan_record(p, record, start, err);
}

/* What the host reads must be whole on every rank. */
static weft_status close_roots(weft_graph *g)
{
    weft_value **const roots[] = {&g->loss_sum, &g->tokens, &g->logits};
    for (int i = 0; i < 3; i++)
        if (*roots[i])
            *roots[i] = weft_move_to(g, *roots[i], (weft_layout){0}, NULL, WEFT_FORWARD,
                                     "read by the host", NULL);
    if (g->config.mode == WEFT_MODE_TRAIN && weft_graph_check_reports(g))
        return weft_graph_status(g);
    for (int i = 0; i < g->n_reports; i++)
        g->reports[i].value = weft_move_to(g, g->reports[i].value, (weft_layout){0}, NULL,
                                           WEFT_UPDATE, "reported", NULL);
    return g->config.mode == WEFT_MODE_TRAIN && !weft_graph_status(g) ? weft_graph_check_updates(g)
                                                                      : weft_graph_status(g);
}

/* What nobody makes steps of would be computed of a rank's own shard alone. */
static weft_status check_rings(const weft_plan *p, const weft_graph *g, weft_error *err)
{
    const weft_node *n = g->first;
    while (n && !weft_node_rings(n))
        n = n->next;
    for (int i = 0; n && i < p->plugins->n_passes; i++)
        if (p->plugins->passes[i].item->stage == WEFT_STAGE_CLOSED)
            return WEFT_OK;
    return !n ? WEFT_OK
              : weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p->weft, "plugins"),
                          "%s is to be computed in a ring, and no listed plugin has a pass of the "
                          "stage closed, which would make its steps; list one, as cp",
                          n->outs[0]->name);
}

static weft_status verify(weft_graph *g)
{
    return weft_graph_verify(g, weft_graph_error(g));
}

/* Prompts are read this many tokens at a time: enough for products to be fast, few enough for short
 * prompts. */
enum { PROMPT_PART = 64 };

static void size_writing(const weft_writing *w, weft_graph_config *config)
{
    int64_t part = w->places < PROMPT_PART ? w->places : PROMPT_PART;
    config->sizes.micro_batch = w->rows;
    config->sizes.micro_batches = 1;
    config->sizes.seq_len = !w->cache ? w->places : config->mode == WEFT_MODE_DECODE ? 1 : part;
    config->context = w->context;
    config->places = w->cache ? w->places : 0;
}

static weft_status new_graph(const weft_plan *p, weft_mode mode, const weft_plan_options *options,
                             weft_graph **g, weft_error *err)
{
    weft_graph_config config = {.mode = mode,
                                .mesh = p->mesh,
                                .ops = &p->ops,
                                .kernels = &p->kernels,
                                .dice = options->dice};
    void *data_self = NULL;
    const weft_data *data = weft_plugins_service(p->plugins, "data", &data_self);
    config.one_document = data && data->one_document && data->one_document(data_self);
    config.fields = data && data->fields ? data->fields(data_self) : NULL;
    const void *inner = data;
    while (inner && weft_plugins_inner(p->plugins, &inner, &data_self))
        continue;
    config.fields_by = inner ? weft_plugins_giver(p->plugins, inner) : NULL;
    config.axes = p->axes;
    config.n_axes = p->n_axes;
    config.partial = options->stop_after != NULL;
    config.dtype = weft_params_is(p->train, "dtype", "f64") ? WEFT_F64 : WEFT_F32;
    config.sizes = (weft_sizes){p->micro_batch, p->seq_len, p->micro_batches,
                                weft_params_int(p->train, "loss_chunk")};
    config.head_tokens = p->device->head_tokens;
    config.training = mode == WEFT_MODE_TRAIN ? NULL : p->graphs[WEFT_MODE_TRAIN];
    if (mode == WEFT_MODE_GENERATE || mode == WEFT_MODE_DECODE)
        size_writing(&p->writing, &config);
    if (mode == WEFT_MODE_GENERATE && p->generator && p->generator->fields) {
        config.fields = p->generator->fields(p->generator_self);
        config.fields_by = weft_plugins_giver(p->plugins, p->generator);
    }
    return weft_graph_create(&config, g, err);
}

/* Is there what the mode computes? */
static weft_status check_model(const weft_plan *p, const weft_graph *g, weft_error *err)
{
    const bool trains = g->config.mode == WEFT_MODE_TRAIN;
    const weft_loaded *by = weft_plugins_that_gives(p->plugins, "model");
    if (g->loss || g->loss_sum || (g->logits && !trains))
        return WEFT_OK;
    if (!by)
        return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p->weft, "plugins"),
                         "no listed plugin builds a model; list one, as llama3, in [weft] plugins");
    const bool mute = !trains && (g->n_nodes || g->config.mode != WEFT_MODE_EVALUATE);
    return weft_fail(err, mute ? WEFT_ERR_INPUT : WEFT_ERR_PLUGIN, by->module.where,
                     mute ? "the model of plugin '%s' writes no text: it has no logits of ids"
                          : "plugin '%s' gives a model, and its hook graph has returned without "
                            "building one: there is no loss, as weft_add_head makes it",
                     by->module.plugin->name);
}

static weft_status run_passes(weft_plan *p, weft_graph *g, limit *l, weft_error *err)
{
    weft_mode mode = g->config.mode;
    weft_status s = run_stage(p, g, WEFT_STAGE_GRAPH, l, err);
    if (s || l->reached)
        return s;
    if (!l->after && (s = check_model(p, g, err)))
        return s;
    const bool passed = l->passed; /* what the table says counts all the same */
    s = run_stage(p, g, WEFT_STAGE_TABLE, l, err);
    l->passed = l->passed || passed;
    if (s || l->reached)
        return s;
    s = core_step(p, g, "place", weft_graph_place, err);
    if (s || l->passed)
        return s;
    s = run_stage(p, g, WEFT_STAGE_PLACED, l, err);
    if (s || l->reached || l->after)
        return s;
    if (mode == WEFT_MODE_TRAIN) {
        s = core_step(p, g, "differentiate", weft_graph_differentiate, err);
        s = s ? s : run_stage(p, g, WEFT_STAGE_JOINT, l, err);
    }
    if (s || l->reached)
        return s;
    s = core_step(p, g, "close", close_roots, err);
    s = s ? s : check_rings(p, g, err);
    s = s ? s : run_stage(p, g, WEFT_STAGE_CLOSED, l, err);
    if (s || l->reached)
        return s;
    if (mode == WEFT_MODE_TRAIN)
        s = core_step(p, g, "order", weft_graph_order, err);
    if (s)
        return s;
    weft_graph_assign_parts(g);
    s = run_stage(p, g, WEFT_STAGE_ORDERED, l, err);
    return s || l->reached ? s : core_step(p, g, "verify", verify, err);
}

/* Builds the graph once more, up to the pass that broke it. */
static void show_before(weft_plan *p, weft_mode mode, const weft_plan_options *options,
                        const limit *broken, weft_error *err)
{
    limit l = {.before = broken->failed};
    weft_graph *g = NULL;
    weft_error why = {0};
    weft_status s = new_graph(p, mode, options, &g, &why);
    s = s ? s : run_passes(p, g, &l, &why);
    if (s)
        weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                  "the graph before %s's pass could not be written: %s", broken->failed_by,
                  weft_error_text(&why));
    else
        options->broken(p, broken->failed_by, g, err);
    weft_error_release(&why);
    weft_graph_destroy(g);
}

weft_status weft_plan_graph(weft_plan *p, weft_mode mode, const weft_plan_options *options,
                            weft_error *err)
{
    limit l = {.after = options->stop_after};
    weft_status s = new_graph(p, mode, options, &p->graphs[mode], err);
    s = s ? s : run_passes(p, p->graphs[mode], &l, err);
    if (s == WEFT_ERR_PLUGIN && l.failed && p->rank == 0 && options->broken)
        show_before(p, mode, options, &l, err);
    return s;
}
