/* SPDX-License-Identifier: Apache-2.0 */
/* A checkpoint of many ranks writes on one, if nobody asks for more. Plugins that cut the model
 * over ranks stay, for they may change it as well, with axes of one rank; one that cannot do so is
 * left out, and that is said. */
#include "compile/mesh/axes.h"
#include "compile/driver/plan.h"
#include "execute/control.h"
#include "forecast/forecast.h"
#include "generate.h"
#include "host/enter.h"

#include <stdlib.h>
#include <string.h>

/* ---- which settings hold degrees ---- */

static bool is_taken(const generate_axes *a, const char *plugin, const char *key)
{
    size_t n = strlen(plugin);
    for (int i = 0; i < a->n; i++)
        if (a->list[i].set && strcmp(a->list[i].plugin, plugin) == 0 &&
            strncmp(a->list[i].set + n + 1, key, strlen(key)) == 0 &&
            a->list[i].set[n + 1 + strlen(key)] == '=')
            return true;
    return false;
}

static bool is_where(weft_where a, weft_where b)
{
    return a.line == b.line && (a.file == b.file || (a.file && b.file && !strcmp(a.file, b.file)));
}

/* The number that an axis has its degree from: where the plugin says that it was set. */
static const char *find_key(const generate_axes *a, const weft_loaded *p, const weft_mesh_entry *e)
{
    for (const weft_param *k = p->module.plugin->params; k && k->name; k++)
        if (k->type == WEFT_PARAM_INT && k->min <= 1 &&
            weft_params_int(p->params, k->name) == e->degree &&
            is_where(weft_params_where(p->params, k->name), e->at) &&
            !is_taken(a, p->module.plugin->name, k->name))
            return k->name;
    return NULL;
}

static weft_status note_axis(generate_axes *a, const weft_loaded *p, const weft_mesh_entry *e,
                             weft_error *err)
{
    const char *name = p->module.plugin->name, *key = find_key(a, p, e);
    if (e->degree <= 1)
        return WEFT_OK;
    if (a->n == GENERATE_MOST_AXES)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "more than %d axes",
                         GENERATE_MOST_AXES);
    generate_axis *axis = &a->list[a->n++];
    *axis = (generate_axis){.plugin = weft_strdup(name), .out = !key};
    if (key)
        axis->set = weft_format("%s.%s=1", name, key);
    else
        axis->why = weft_format("no key of [%s] is the degree %lld of its axis %s", name,
                                (long long)e->degree, e->name);
    return axis->plugin && (axis->set || axis->why) ? WEFT_OK : weft_fail_memory(err);
}

static weft_status declare_axes(const weft_loaded *p, weft_mesh_plan *mesh, weft_error *err)
{
    const weft_plugin *plugin = p->module.plugin;
    weft_status s = WEFT_OK;
    weft_mesh_plan_init(mesh, 1);
    for (const weft_contribution *c = plugin->contributions; c && c->kind != WEFT_END; c++)
        s = s ? s : weft_declare_axes(p, c, mesh, err);
    return s;
}

static weft_status note_axes(generate_axes *a, const weft_loaded *p, weft_error *err)
{
    weft_mesh_plan mesh;
    weft_status s = declare_axes(p, &mesh, err);
    int first = a->n;
    bool out = false;
    for (int i = 0; i < mesh.n && !s; i++)
        s = note_axis(a, p, &mesh.entry[i], err);
    for (int i = first; i < a->n; i++)
        out = out || a->list[i].out;
    for (int i = first; i < a->n; i++) /* one axis is enough */
        a->list[i].out = out;
    return s;
}

/* Settings and created plugins of one rank, that say nothing: the run will. */
typedef struct draft {
    weft_log log;
    weft_host host;
    weft_settings *settings;
    weft_plugins *plugins;
} draft;

/* Plugins point into it. Release in every case. */
static weft_status draft_init(draft *d, const weft_cli_options *options, weft_error *err)
{
    *d = (draft){.host = {.ranks = 1,
                          .threads = 1,
                          .no_data = true,
                          .exchange = weft_host_exchange,
                          .exchange_within = weft_host_exchange_within,
                          .waiting = weft_host_waiting}};
    d->host.log = &d->log;
    weft_status s = weft_cli_settings(options, &d->settings, err);
    s = s ? s : weft_plugins_load(d->settings, &d->log, &d->plugins, err);
    return s ? s : weft_plugins_create(d->plugins, &d->host, err);
}

static void draft_release(draft *d)
{
    weft_plugins_destroy(d->plugins);
    weft_settings_destroy(d->settings);
}

weft_status generate_axes_find(generate_axes *a, const weft_cli_options *options, weft_error *err)
{
    draft d;
    weft_status s = draft_init(&d, options, err);
    for (int i = 0; !s && i < d.plugins->n; i++)
        s = note_axes(a, &d.plugins->list[i], err);
    draft_release(&d);
    return s;
}

void generate_axes_release(generate_axes *a)
{
    for (int i = 0; i < a->n; i++) {
        weft_free(a->list[i].plugin);
        weft_free(a->list[i].set);
        weft_free(a->list[i].why);
    }
    *a = (generate_axes){.n = 0};
}

/* ---- does it stay? ---- */

static weft_status try_plan(const generate_options *o, weft_error *err)
{
    const weft_writing writing = {.rows = 1, .context = 2, .places = 2, .cache = true};
    const weft_plan_options how = {
        .rank = 0, .ranks = 1, .write = &writing, .broken = weft_plan_keep_broken};
    weft_plan *plan = NULL;
    draft d;
    weft_status s = draft_init(&d, &o->options, err);
    s = s ? s : weft_plan_create(d.plugins, d.settings, &how, &plan, err);
    weft_plan_destroy(plan);
    draft_release(&d);
    return s;
}

/* Leaves out what has several ranks all the same. */
static weft_status look_again(generate_axes *a, const weft_loaded *p, weft_error *err)
{
    const char *name = p->module.plugin->name;
    weft_mesh_plan mesh;
    weft_status s = declare_axes(p, &mesh, err);
    for (int i = 0; i < a->n && !s; i++)
        for (int k = 0; k < mesh.n && strcmp(a->list[i].plugin, name) == 0; k++)
            if (mesh.entry[k].degree > 1 && !a->list[i].out) {
                a->list[i].out = true;
                a->list[i].why =
                    weft_format("its axis %s has %lld ranks with %s, too", mesh.entry[k].name,
                                (long long)mesh.entry[k].degree, a->list[i].set);
                s = a->list[i].why ? WEFT_OK : weft_fail_memory(err);
            }
    return s;
}

static weft_status look_at_all_again(generate_axes *a, const generate_options *o, weft_error *err)
{
    draft d;
    weft_status s = draft_init(&d, &o->options, err);
    for (int i = 0; !s && i < d.plugins->n; i++)
        s = look_again(a, &d.plugins->list[i], err);
    draft_release(&d);
    return s;
}

/* Can it be planned without these? plugin NULL: without any. */
static bool works_without(generate_source *s, const char *plugin, const weft_cli_options *given,
                          const generate_wishes *w)
{
    bool before[GENERATE_MOST_AXES];
    generate_axes *a = &s->axes;
    generate_options o = {0};
    weft_error err = {0};
    for (int i = 0; i < a->n; i++) {
        before[i] = a->list[i].out;
        a->list[i].out = before[i] || !plugin || strcmp(a->list[i].plugin, plugin) == 0;
    }
    bool works = !generate_options_init(&o, given, w, s, &err) && !try_plan(&o, &err);
    for (int i = 0; i < a->n && !works; i++)
        a->list[i].out = before[i];
    generate_options_release(&o);
    weft_error_release(&err);
    return works;
}

static void tell(const generate_axes *a, const char *why)
{
    weft_cli_log sink;
    const weft_log log = weft_cli_log_init(&sink, WEFT_LOG_WARN);
    for (int i = 0; i < a->n; i++) {
        bool again = false;
        for (int k = 0; k < i; k++)
            again = again || strcmp(a->list[k].plugin, a->list[i].plugin) == 0;
        if (a->list[i].out && !again)
            weft_log_print(
                &log, WEFT_LOG_WARN,
                "%s is left out, with all that it does to the model: there is one rank to "
                "write on, and %s; start with -n 2 or more to keep it",
                a->list[i].plugin, a->list[i].why ? a->list[i].why : why);
    }
    weft_cli_log_release(&sink);
}

weft_status generate_axes_settle(generate_source *s, const weft_cli_options *given,
                                 const generate_wishes *w, weft_error *err)
{
    generate_options o = {0};
    weft_error why = {0};
    generate_axes *a = &s->axes;
    if (a->n == 0)
        return WEFT_OK;
    weft_status status = generate_options_init(&o, given, w, s, err);
    status = status ? status : look_at_all_again(a, &o, err);
    generate_options_release(&o);
    status = status ? status : generate_options_init(&o, given, w, s, err);
    if (!status && try_plan(&o, &why)) {
        bool works = false;
        for (int i = 0; i < a->n && !works; i++)
            works = works_without(s, a->list[i].plugin, given, w);
        if (!works)
            works_without(s, NULL, given, w); /* else the run says what is wrong */
    }
    if (!status)
        tell(a, weft_error_text(&why));
    weft_error_release(&why);
    generate_options_release(&o);
    return status;
}
