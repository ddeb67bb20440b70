/* SPDX-License-Identifier: Apache-2.0 */
/* The parameters of a checkpoint, or of any folder of .safetensors files with their names, or those
 * that a listed plugin loads. */
#include "base/array.h"
#include "execute/run.h"
#include "generate.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <weft/store.h>

/* has NULL: there is none. */
static weft_status check(const weft_stored *has, const weft_state_entry *e, const weft_tensor *t,
                         const char *path, weft_error *err)
{
    char there[WEFT_SIZES_TEXT], here[WEFT_SIZES_TEXT];
    if (!has)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "the model has a parameter '%s', which %s has not", e->name, path);
    if (weft_sizes_are_same(has->size, has->n_dims, t->whole, t->n_dims))
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "'%s' is %s in %s, but %s in this model",
                     e->name, weft_sizes_print(there, has->size, has->n_dims), path,
                     weft_sizes_print(here, t->whole, t->n_dims));
}

/* What the checkpoint's settings, by sections, say of the model that the run's do not: why tensors
 * do not fit, or that the numbers are another model's though they do. */
static void name_settings(const weft_plan *plan, const json_t *settings, const char *path,
                          weft_error *err)
{
    weft_pool pool = {0};
    for (int i = 0; i < plan->plugins->n; i++) {
        const weft_loaded *p = &plan->plugins->list[i];
        const char *name = p->module.plugin->name;
        const json_t *section = json_object_get(settings, name);
        const weft_param *q = p->module.plugin->params;
        for (; weft_plugin_gives(p->module.plugin, "model") && q && q->name; q++) {
            const char *has = json_string_value(json_object_get(section, q->name)),
                       *is = weft_keeper_text(&pool, p, q);
            if (has && is && !weft_param_is_same(q, has, is))
                weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p->params, q->name),
                          "[%s] %s = %s, but %s is of a model with %s", name, q->name, is, path,
                          has);
        }
    }
    weft_pool_release(&pool);
}

static weft_status read_box(void *folder, const weft_state_tensor *t, const int64_t *lo,
                            const int64_t *size, void *to, weft_error *err)
{
    return weft_folder_read(folder, t->name, lo, size, t->tensor.dtype, to, err);
}

static bool is_there(const weft_io *io, const char *path)
{
    int fd = io->open(io->ctx, path, O_RDONLY, 0);
    if (fd >= 0)
        io->close(io->ctx, fd);
    return fd >= 0 || (errno != ENOENT && errno != ENOTDIR);
}

/* A checkpoint of weft's knows the sums of its files, and what is read of them is compared; other
 * folders know none. */
static weft_status open_weights(const char *path, weft_manifest *manifest, weft_folder **out,
                                weft_error *err)
{
    const weft_io *io = weft_io_system();
    char *name = weft_format("%s/manifest.json", path);
    if (!name)
        return weft_fail_memory(err);
    bool known = is_there(io, name);
    weft_free(name);
    if (!known)
        return weft_folder_open(io, path, out, err);
    weft_status s = weft_manifest_read(io, path, manifest, err);
    return s ? s : weft_manifest_open(io, manifest, false, out, err);
}

weft_status generate_read_weights(weft_run *run, const char *path, weft_error *err)
{
    const weft_states *states = &run->plan->states;
    weft_folder *folder = NULL;
    weft_manifest manifest = {0};
    weft_error differ = {0};
    weft_state_tensor *tensors;
    weft_state_view view;
    weft_status s = weft_run_state(run, NULL, &view, &tensors, err);
    s = s ? s : open_weights(path, &manifest, &folder, err);
    for (int i = 0, n = s ? 0 : states->n; i < n; i++) {
        const weft_state_entry *e = &states->list[i];
        weft_status one =
            check(weft_folder_find(folder, e->name), e, &tensors[i].tensor, path, err);
        s = s ? s : one;
    }
    if (folder)
        name_settings(run->plan, json_object_get(manifest.json, "settings"), path,
                      s ? err : &differ);
    for (int i = 0; i < differ.n_items && view.rank == 0; i++)
        weft_log_print(run->log, WEFT_LOG_WARN, "%s", differ.items[i].text);
    for (int i = 0; i < states->n && !s; i++)
        s = weft_state_fill(&view, i, read_box, folder, err);
    weft_error_release(&differ);
    weft_folder_destroy(folder);
    weft_manifest_release(&manifest);
    weft_free(tensors);
    return s;
}

/* ---- the service `weights` ---- */

/* The settings as they are, by which a plugin sees whether what it loads is the same model. */
static weft_status add_settings(const weft_plan *plan, weft_pool *pool, weft_state_view *view,
                                weft_error *err)
{
    weft_setting *list = NULL;
    int capacity = 0;
    for (int i = 0; i < plan->plugins->n; i++) {
        const weft_loaded *p = &plan->plugins->list[i];
        const weft_param *table = p->module.plugin->params;
        const char *name = p->module.plugin->name;
        view->model = weft_plugin_gives(p->module.plugin, "model") ? name : view->model;
        for (const weft_param *q = table; q && q->name; q++) {
            weft_setting *s = weft_pool_push(pool, &list, &view->n_settings, &capacity, sizeof *s);
            if (s)
                *s = (weft_setting){name, q->name, weft_keeper_text(pool, p, q), table};
        }
    }
    view->settings = list;
    return pool->out_of_memory ? weft_fail_memory(err) : WEFT_OK;
}

weft_status generate_take_weights(weft_run *run, weft_error *err)
{
    const weft_plan *plan = run->plan;
    void *self;
    const weft_weights *weights = weft_plugins_service(plan->plugins, "weights", &self);
    weft_pool pool = {0};
    weft_state_tensor *tensors;
    weft_state_view view;
    bool loaded = false;
    weft_status s = weft_run_state(run, NULL, &view, &tensors, err);
    s = s ? s : add_settings(plan, &pool, &view, err);
    if (!s && weights)
        s = weights->load(self, &view, &loaded, err);
    if (!s && !loaded)
        s = weft_fail(err, WEFT_ERR_INPUT, weft_params_where(plan->weft, "plugins"),
                      "no listed plugin loads weights; list hf and set [hf] load");
    weft_free(tensors);
    weft_pool_release(&pool);
    return s;
}
