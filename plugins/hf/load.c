/* SPDX-License-Identifier: Apache-2.0 */
/* [hf] load: parameters begin as a Hugging Face folder has them. Each rank reads its own parts
 * alone. */
#include "hf.h"

#include <math.h>
#include <stdlib.h>
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

typedef struct comparison {
    const weft_state_view *state;
    const char *section, *folder;
    weft_error *err;
    weft_status status;
} comparison;

static void refuse(comparison *c, const char *key, const char *has, const char *want)
{
    weft_status s = weft_fail(c->err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                              "[%s] %s = %s, but config.json in %s says %s: set [%s] %s = %s",
                              c->section, key, has, c->folder, want, c->section, key, want);
    c->status = c->status ? c->status : s;
}

/* Of numbers that no shape shows. Values that are words ("flavor") say nothing here. */
static void compare_number(comparison *c, const char *key, double want)
{
    char text[32], *end = NULL;
    const char *has = setting(c->state, c->section, key);
    double x = has ? strtod(has, &end) : 0;
    if (has && end != has && !*end && fabs(x - want) > 1e-12 * fabs(want))
        refuse(c, key, has, hf_number(text, want));
}

static bool says_yes(const char *text)
{
    static const char *const words[] = {"yes", "true", "on", "1"};
    for (size_t i = 0; text && i < sizeof words / sizeof words[0]; i++)
        if (strcmp(text, words[i]) == 0)
            return true;
    return false;
}

static void compare_switch(comparison *c, const char *key, bool want)
{
    const char *has = setting(c->state, c->section, key);
    if (has && says_yes(has) != want)
        refuse(c, key, has, want ? "yes" : "no");
}

static weft_status compare_settings(const hf_model *m, const weft_state_view *state,
                                    const char *folder, weft_error *err)
{
    comparison c = {state, hf_family_plugin(m->family), folder, err, WEFT_OK};
    compare_number(&c, "norm_eps", m->eps);
    compare_number(&c, "n_heads", (double)m->heads);
    compare_switch(&c, "tied", m->tied);
    if (m->family == HF_GPT2)
        return c.status;
    compare_number(&c, "n_kv_heads", (double)m->kv_heads);
    compare_number(&c, "head_dim", (double)m->head_dim);
    compare_number(&c, "rope_theta", m->theta);
    compare_switch(&c, "rope_scaling", m->scaling);
    if (m->scaling) {
        compare_number(&c, "rope_factor", m->factor);
        compare_number(&c, "rope_low", m->low);
        compare_number(&c, "rope_high", m->high);
        compare_number(&c, "rope_original", m->original);
    }
    return c.status;
}

static weft_status compare_tensors(const hf_view *v, const weft_state_view *state,
                                   const char *folder, weft_error *err)
{
    weft_status s = WEFT_OK;
    int parameters = 0;
    for (int i = 0; i < state->n_tensors; i++) {
        const weft_state_tensor *t = &state->tensors[i];
        const hf_tensor *has = t->moment ? NULL : hf_map_find(&v->map, t->name);
        if (t->moment)
            continue;
        parameters++;
        if (!has)
            s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                          "the run has a parameter '%s', which %s has not", t->name, folder);
        else if (has->n_dims != t->tensor.n_dims || has->size[0] != t->tensor.whole[0] ||
                 (has->n_dims > 1 && has->size[1] != t->tensor.whole[1]))
            s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                          "'%s' is [%lld%s%.0lld] in the run and [%lld%s%.0lld] in %s", t->name,
                          (long long)t->tensor.whole[0], t->tensor.n_dims > 1 ? ", " : "",
                          (long long)(t->tensor.n_dims > 1 ? t->tensor.whole[1] : 0),
                          (long long)has->size[0], has->n_dims > 1 ? ", " : "",
                          (long long)has->size[1], folder);
    }
    if (!s && parameters != v->map.n)
        s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "the run has %d parameters, %s has %d",
                      parameters, folder, v->map.n);
    return s;
}

static weft_status check(const hf_view *v, const weft_state_view *state, const char *folder,
                         weft_error *err)
{
    const char *plugin = hf_family_plugin(v->model.family);
    if (state->model && strcmp(state->model, plugin) != 0)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "%s holds a model of the plugin %s, but the run's is of %s; `weft convert "
                         "--settings %s` "
                         "prints an INI for it",
                         folder, plugin, state->model, folder);
    weft_status s = compare_settings(&v->model, state, folder, err),
                tensors = compare_tensors(v, state, folder, err);
    return s ? s : tensors;
}

/* ---- loading ---- */

static weft_status load_tensor(hf_view *v, const weft_state_view *state, const weft_state_tensor *t,
                               weft_error *err)
{
    const hf_tensor *entry = hf_map_find(&v->map, t->name);
    int64_t count = weft_tensor_count(&t->tensor);
    size_t bytes = (size_t)count * weft_dtype_size(t->tensor.dtype);
    if (count == 0 || t->elsewhere)
        return WEFT_OK;
    void *host = weft_alloc(bytes);
    if (!host)
        return weft_fail_memory(err);
    weft_status s = hf_view_read(v, (int)(entry - v->map.list), t->tensor.lo, t->tensor.size,
                                 t->tensor.dtype, host, err);
    s = s ? s : state->device->upload(state->device_self, NULL, t->tensor.data, host, bytes, err);
    weft_free(host);
    return s;
}

static weft_status load(void *self, const weft_state_view *state, bool *loaded, weft_error *err)
{
    const hf_plugin *plugin = self;
    const char *folder = weft_params_text(plugin->host->params, "load");
    hf_view v;
    *loaded = false;
    if (!*folder)
        return WEFT_OK;
    weft_status s = hf_view_open(&v, folder, HF_EXTRA_REFUSE, err);
    s = s ? s : check(&v, state, folder, err);
    for (int i = 0; i < state->n_tensors && !s; i++)
        if (!state->tensors[i].moment)
            s = load_tensor(&v, state, &state->tensors[i], err);
    if (!s && state->rank == 0) {
        if (v.model.notes.size > 0)
            weft_log_print(plugin->host->log, WEFT_LOG_WARN, "%.*s", (int)v.model.notes.size - 1,
                           weft_text_get(&v.model.notes));
        weft_log_print(plugin->host->log, WEFT_LOG_INFO, "loaded %d parameters from %s", v.map.n,
                       folder);
    }
    *loaded = !s;
    hf_view_close(&v);
    return s;
}

const weft_weights hf_weights = {.size = sizeof(weft_weights), .load = load};
