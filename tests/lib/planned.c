/* SPDX-License-Identifier: Apache-2.0 */
#include "planned.h"

#include "created.h"
#include "mesh_passes.h"
#include "standard_ops.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

extern const weft_plugin ac_LTX_plugin, adamw_LTX_plugin, bf16_LTX_plugin, fsdp_LTX_plugin,
    llama3_LTX_plugin, tp_LTX_plugin;

const char planned_tiny[] = "n_layers = 2\ndim = 12\nn_heads = 12\nn_kv_heads = 6\nhead_dim = "
                            "4\nffn_dim = 26\nvocab_size = 50\n";

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e3 * (double)t.tv_sec + 1e-6 * (double)t.tv_nsec;
}

static const char *axis_owner(const char *axis)
{
    return strncmp(axis, "dp_", 3) == 0 ? "fsdp" : strcmp(axis, "cp") == 0 ? "cp" : "tp";
}

static const char *cut_by(const char *axis)
{
    return strncmp(axis, "cp", 2) == 0 ? "seq" : strncmp(axis, "dp_", 3) == 0 ? "batch" : NULL;
}

static weft_status read_mesh(const char *axes, bool cuts, weft_mesh *mesh, weft_error *err)
{
    char name[24];
    int size, used;
    for (const char *p = axes; sscanf(p, " %23[^=]=%d%n", name, &size, &used) == 2; p += used) {
        if (size == 1)
            continue;
        if (mesh->n_axes == WEFT_MAX_AXES)
            return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "too many axes: %s", axes);
        weft_axis *a = &mesh->axis[mesh->n_axes++];
        snprintf(a->name, sizeof a->name, "%s", name);
        a->size = size;
        a->by = axis_owner(name);
        if (cuts)
            a->cuts = cut_by(name);
    }
    return WEFT_OK;
}

/* ---- the plugins and their settings ---- */

static const weft_plugin *find(const char *name, size_t size)
{
    static const weft_plugin *const known[] = {&ac_LTX_plugin, &bf16_LTX_plugin, &mesh_cp,
                                               &fsdp_LTX_plugin, &tp_LTX_plugin};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (strlen(known[i]->name) == size && strncmp(known[i]->name, name, size) == 0)
            return known[i];
    return NULL;
}

static weft_status add(planned *p, const weft_plugin *plugin)
{
    if (!plugin || p->n == PLANNED_MAX_PLUGINS)
        return weft_fail(&p->err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         plugin ? "too many plugins" : "no such plugin");
    p->list[p->n++].plugin = plugin;
    return WEFT_OK;
}

/* "tp fsdp:zero=2:reshard=no": lists the plugins, and writes their sections. */
static weft_status read_passes(planned *p, const planned_spec *spec, weft_text *ini)
{
    char word[96];
    int used;
    weft_status s = WEFT_OK;
    for (const char *text = spec->passes; !s && sscanf(text, " %95s%n", word, &used) == 1;
         text += used) {
        size_t n = strcspn(word, ":");
        s = add(p, find(word, n));
        weft_text_print(ini, "[%.*s]\n", (int)n, word);
        if (n == 2 && strncmp(word, "tp", n) == 0) {
            const char *axis = strstr(spec->axes, "tp=");
            weft_text_print(ini, "degree = %.*s\n", axis ? (int)strcspn(axis + 3, " ") : 1,
                            axis ? axis + 3 : "1");
        }
        for (const char *key = word + n; *key == ':'; key += n) {
            n = strcspn(++key, ":");
            weft_text_print(ini, "%.*s\n", (int)n, key);
        }
    }
    return s;
}

static weft_status create(planned *p, planned_plugin *q)
{
    const weft_plugin *plugin = q->plugin;
    q->host.ranks = 1;
    weft_status s =
        weft_settings_section(p->settings, plugin->name, plugin->params, &q->host.params, &p->err);
    s = s ? s
          : weft_settings_section(p->settings, "train", weft_core_params("train"), &q->host.train,
                                  &p->err);
    return s ? s : created_init(plugin, &q->host, &q->self, &p->err);
}

static weft_status create_all(planned *p, const planned_spec *spec)
{
    weft_text ini = {0};
    weft_status s = add(p, spec->model ? spec->model : &llama3_LTX_plugin);
    weft_text_print(&ini, "[train]\nsteps = 100\nseq_len = %d\n[%s]\n%s",
                    spec->seq ? (int)spec->seq : 8, p->list[0].plugin->name,
                    spec->ini ? spec->ini : planned_tiny);
    s = s ? s : read_passes(p, spec, &ini);
    s = s ? s : add(p, &adamw_LTX_plugin);
    weft_text_add(&ini, "[adamw]\nlr = 0.01\nwarmup_steps = 0\nmax_norm = 1\neps = 1e-4\n");
    s = s ? s
          : weft_settings_read_text("test.ini", weft_text_get(&ini), ini.size, &p->settings,
                                    &p->err);
    for (int i = 0; i < p->n && !s; i++)
        s = create(p, &p->list[i]);
    weft_text_release(&ini);
    return s;
}

/* ---- the graph ---- */

/* The graph's own errors become the plan's. */
static weft_status checked(planned *p, weft_status s)
{
    weft_status own = weft_graph_status(p->g);
    if (own)
        weft_fail(&p->err, own, WEFT_NOWHERE, "%s", weft_error_text(weft_graph_error(p->g)));
    return s ? s : own;
}

/* Whatever a pass leaves must verify. */
static weft_status pass_done(planned *p, const char *name, weft_status s)
{
    s = checked(p, s);
    if (!s && (s = weft_graph_verify(p->g, &p->err)))
        weft_fail(&p->err, s, WEFT_NOWHERE, "after %s", name);
    p->g->by = "core";
    p->g->spot = (weft_spot){NULL, WEFT_BLOCK_NONE, -1, p->g->spot.phase, WEFT_SCOPE_NONE};
    return s;
}

static weft_status run_passes(planned *p, weft_pass_stage stage)
{
    weft_status s = WEFT_OK;
    for (int i = 0; i < p->n && !s; i++) {
        const weft_plugin *plugin = p->list[i].plugin;
        p->g->by = plugin->name;
        p->g->spot.block = WEFT_BLOCK_NONE;
        for (const weft_contribution *c = plugin->contributions; c->kind != WEFT_END && !s; c++)
            if (c->kind == WEFT_PASS && c->stage == stage &&
                (!c->modes || c->modes >> p->g->config.mode & 1u)) {
                p->g->by = plugin->name;
                c->graph(p->list[i].self, p->g);
                s = pass_done(p, plugin->name, WEFT_OK);
            }
    }
    return s;
}

static weft_status build(planned *p, const planned_spec *spec)
{
    const weft_op *const *more[PLANNED_MAX_PLUGINS];
    weft_graph_config config = {
        .mode = spec->mode, .ops = &p->ops, .dtype = WEFT_F32, .dice = spec->dice};
    config.sizes = (weft_sizes){spec->batch ? spec->batch : 4, spec->seq ? spec->seq : 8,
                                spec->micro ? spec->micro : 1, spec->chunk};
    for (int i = 0; i < p->n; i++)
        more[i] = p->list[i].plugin->ops;
    weft_status s = standard_ops_init(&p->ops, more, NULL, p->n, &p->err);
    const weft_op *op = spec->instead;
    if (!s && op &&
        !weft_map_set(&p->ops.by_name, &p->ops.pool, op->name, strlen(op->name),
                      (void *)(uintptr_t)op))
        s = weft_fail_memory(&p->err);
    s = s ? s : read_mesh(spec->axes, spec->cuts, &config.mesh, &p->err);
    s = s ? s : weft_graph_create(&config, &p->g, &p->err);
    return s ? s : run_passes(p, WEFT_STAGE_GRAPH);
}

weft_status planned_init(planned *p, const planned_spec *spec)
{
    memset(p, 0, sizeof *p);
    double t[5] = {now_ms()};
    weft_status s = create_all(p, spec);
    s = s ? s : build(p, spec);
    t[1] = now_ms();
    s = s ? s : pass_done(p, "place", weft_graph_place(p->g));
    s = s ? s : run_passes(p, WEFT_STAGE_PLACED);
    t[2] = now_ms();
    if (s || spec->placed_only)
        return s;
    s = pass_done(p, "differentiate", weft_graph_differentiate(p->g));
    t[3] = now_ms();
    s = s ? s : run_passes(p, WEFT_STAGE_JOINT);
    s = s ? s : pass_done(p, "order", weft_graph_order(p->g));
    t[4] = now_ms();
    for (int i = 0; i < 4; i++)
        p->ms[i] = t[i + 1] - t[i];
    return s;
}

void planned_release(planned *p)
{
    for (int i = 0; i < p->n; i++)
        created_release(p->list[i].plugin, &p->list[i].host, p->list[i].self);
    weft_graph_destroy(p->g);
    weft_ops_release(&p->ops);
    weft_settings_destroy(p->settings);
    weft_error_release(&p->err);
    memset(p, 0, sizeof *p);
}

const weft_value *planned_report(const planned *p, const char *name)
{
    for (int i = 0; i < p->g->n_reports; i++)
        if (strcmp(p->g->reports[i].name, name) == 0)
            return p->g->reports[i].value;
    return NULL;
}
