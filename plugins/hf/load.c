/* SPDX-License-Identifier: Apache-2.0 */
/* [hf] load: parameters begin as a Hugging Face folder has them. Each rank reads its own parts
 * alone. */
#include "hf.h"

#include <string.h>

/* ---- is it the same model? ---- */

static const char *setting(const weft_state_view *state, const char *section, const char *key)
{
    for (int i = 0; i < state->n_settings; i++)
        if (strcmp(state->settings[i].section, section) == 0 &&
            strcmp(state->settings[i].key, key) == 0)
            return state->settings[i].value;
    return NULL;
}

/* Words ("flavor") say nothing here. */
static weft_status compare_value(const hf_source *v, const weft_state_view *state,
                                 const hf_value *value, weft_error *err)
{
    const char *key = value->param->name, *plugin = v->model.table->plugin,
               *has = setting(state, plugin, key);
    hf_value run = {.param = value->param};
    char of_run[512], of_folder[512];
    double x;
    snprintf(run.text, sizeof run.text, "%s", has ? has : "");
    if (!has || (hf_value_number(value, &x) && !hf_value_number(&run, &x)))
        return WEFT_OK;
    hf_model_text(&v->model, &run, of_run);
    hf_model_text(&v->model, value, of_folder);
    if (weft_param_is_same(value->param, of_run, of_folder))
        return WEFT_OK;
    return hf_refuse(err, NULL, "[%s] %s = %s, but config.json in %s says %s: set [%s] %s = %s",
                     plugin, key, of_run, v->path, of_folder, plugin, key, of_folder);
}

static weft_status compare_settings(const hf_source *v, const weft_state_view *state,
                                    weft_error *err)
{
    weft_status s = WEFT_OK;
    for (int i = 0; i < v->model.n; i++)
        if (v->model.values[i].said && compare_value(v, state, &v->model.values[i], err))
            s = WEFT_ERR_INPUT;
    return s;
}

/* A parameter, or a buffer that files have, too. */
static const hf_tensor *in_files(const hf_source *v, const weft_state_tensor *t)
{
    return t->moment && !t->buffer ? NULL : hf_map_find(&v->map, t->name);
}

/* has NULL: the folder's model has no such parameter. */
static weft_status does_not_fit(const weft_state_tensor *t, const hf_tensor *has,
                                const hf_source *v, weft_error *err)
{
    char run[WEFT_SIZES_TEXT], folder[WEFT_SIZES_TEXT];
    if (!has)
        return hf_refuse(err, NULL,
                         "the run has a parameter '%s', and %s none of this name, by the table of "
                         "plugin %s",
                         t->name, v->path, v->model.table->plugin);
    return hf_refuse(err, NULL,
                     "'%s' is %s in the run and %s in %s, by the table of plugin %s ([%s])",
                     t->name, weft_sizes_print(run, t->tensor.whole, t->tensor.n_dims),
                     weft_sizes_print(folder, has->size, has->n_dims), v->path,
                     v->model.table->plugin, has->row->shape);
}

/* Has the run blocks behind the folder's last? */
static bool has_behind(const hf_source *v, const weft_state_view *state)
{
    bool has = false;
    for (int i = 0; i < state->n_tensors && !has; i++)
        has = !state->tensors[i].moment && hf_is_behind(&v->model, state->tensors[i].name);
    return has;
}

/* Of the folder's parameters those that the run has not, but all that are behind the last. has: of
 * each, whether the run does. */
static weft_status name_others(const hf_source *v, const weft_state_view *state, const bool *has,
                               weft_error *err)
{
    weft_status s = WEFT_OK;
    const bool behind = has_behind(v, state);
    int named = 0;
    for (int i = 0; i < v->map.n; i++) {
        const char *name = v->map.list[i].name;
        if (!has[i] && (behind || !hf_is_behind(&v->model, name)) && named++ < HF_MOST_NAMED)
            s = hf_refuse(err, NULL, "%s has a parameter '%s', and the run none of this name",
                          v->path, name);
    }
    hf_say_more(err, v->path, named, "parameters that the run does not have");
    return s;
}

static weft_status compare_tensors(const hf_source *v, const weft_state_view *state,
                                   weft_error *err)
{
    weft_status s = WEFT_OK;
    int wrong = 0;
    bool *taken = weft_alloc_zero((size_t)v->map.n + 1, sizeof *taken);
    if (!taken)
        return weft_fail_memory(err);
    for (int i = 0; i < state->n_tensors; i++) {
        const weft_state_tensor *t = &state->tensors[i];
        const hf_tensor *has = in_files(v, t);
        if (has)
            taken[has - v->map.list] = true;
        const bool fits =
            has ? weft_sizes_are_same(has->size, has->n_dims, t->tensor.whole, t->tensor.n_dims)
                : t->moment || hf_is_behind(&v->model, t->name);
        if (!fits && wrong++ < HF_MOST_NAMED)
            s = does_not_fit(t, has, v, err);
    }
    hf_say_more(err, v->path, wrong, "parameters of the run that do not fit");
    s = s ? s : name_others(v, state, taken, err);
    weft_free(taken);
    return s;
}

/* Blocks behind the last, as modules of multi-token prediction, which a run may leave out, as one
 * does that only writes text, and a folder may have none of. */
static weft_status settle_behind(hf_source *v, const weft_state_view *state, bool new,
                                 weft_error *err)
{
    const hf_model *m = &v->model;
    const char *key = m->form->behind;
    hf_value *value = hf_model_find(m, key);
    const bool has = has_behind(v, state);
    if (!value || (has && hf_model_int(m, key) > 0))
        return WEFT_OK;
    value->said = false; /* the two need not agree */
    hf_value_set_number(value, 0);
    v->map.n_copies = 0; /* of theirs */
    if (!has || new)
        return WEFT_OK;
    return hf_refuse(err, NULL,
                     "[%s] %s = %s, but %s has no such blocks: set [%s] %s = 0, or [hf] "
                     "missing_modules = new, and they begin as those of a new run",
                     m->table->plugin, key, setting(state, m->table->plugin, key), v->path,
                     m->table->plugin, key);
}

static weft_status check(hf_source *v, const weft_state_view *state, bool new, weft_error *err)
{
    weft_status behind = settle_behind(v, state, new, err),
                settings = compare_settings(v, state, err),
                tensors = compare_tensors(v, state, err);
    return behind ? behind : settings ? settings : tensors;
}

/* ---- loading ---- */

static weft_status read_box(void *view, const weft_state_tensor *t, const int64_t *lo,
                            const int64_t *size, void *to, weft_error *err)
{
    const hf_source *v = view;
    return hf_source_read(v, hf_map_find(&v->map, t->name), lo, size, t->tensor.dtype, to, err);
}

static weft_status load(void *self, const weft_state_view *state, bool *loaded, weft_error *err)
{
    const hf_plugin *plugin = self;
    const char *folder = weft_params_text(plugin->host->params, "load");
    hf_source v;
    *loaded = false;
    if (!*folder)
        return WEFT_OK;
    const hf_tables tables = hf_run_tables(plugin->host);
    if (!tables.own)
        return hf_refuse(
            err, NULL,
            "[hf] load: the run's model%s%s does not say how it lies in Hugging Face's "
            "files (<weft/hf.h>), so none can be read",
            state->model ? ", of the plugin " : "", state->model ? state->model : "");
    weft_status s = hf_folder_open(&v, folder, &tables, HF_EXTRA_REFUSE, err);
    s = s ? s
          : check(&v, state, weft_params_is(plugin->host->params, "missing_modules", "new"), err);
    int n = 0;
    for (int i = 0; i < state->n_tensors && !s; i++)
        if (in_files(&v, &state->tensors[i])) {
            s = weft_state_fill(state, i, read_box, &v, err);
            n++;
        }
    if (!s && state->rank == 0) {
        hf_print_notes(&v.model, plugin->host->log);
        weft_log_print(plugin->host->log, WEFT_LOG_INFO, "loaded %d parameters from %s", n, folder);
    }
    *loaded = !s;
    hf_source_close(&v);
    return s;
}

const weft_weights hf_weights = {.size = sizeof(weft_weights), .load = load};
