/* SPDX-License-Identifier: Apache-2.0 */
/* The listed set: its modules, sections, order and capabilities, all errors at once; then its
 * hooks, each under its plugin's name. */
#include "host/enter.h"
#include "host/host.h"
#include "host/wrap.h"

#include <stdio.h>
#include <string.h>

static weft_status keep(weft_status first, weft_status next)
{
    return first != WEFT_OK ? first : next;
}

/* ---- load ---- */

typedef struct loading {
    weft_settings *settings;
    const weft_log *log;
    weft_plugins *plugins;
    const weft_params *weft, *train, *mesh;
    weft_error *err;
    bool incomplete; /* a listed plugin could not be opened: nothing can be said of the set as a
                        whole */
} loading;

static weft_status claim_core(loading *l, const char *name, const weft_params **out)
{
    return weft_settings_section(l->settings, name, weft_core_params(name), out, l->err);
}

/* A section whose plugin is not there has no table to be checked against; it is not unknown either.
 */
static weft_status ignore_section(loading *l, const char *name)
{
    static const weft_param nothing[] = {{0}};
    weft_error unread = {0};
    const weft_params *params;
    weft_settings_section(l->settings, name, nothing, &params, &unread);
    bool out_of_memory = unread.out_of_memory;
    weft_error_release(&unread);
    return out_of_memory ? weft_fail_memory(l->err) : WEFT_OK;
}

static weft_status open_module(loading *l, const char *name, weft_where where, bool optional)
{
    weft_module module;
    weft_status status = weft_module_open(l->plugins->search, name, where, &module, l->err);
    if (status != WEFT_OK) {
        l->incomplete = true;
        return keep(status, ignore_section(l, name));
    }
    l->plugins->list[l->plugins->n++] = (weft_loaded){.module = module, .optional = optional};
    return WEFT_OK;
}

static weft_status open_listed(loading *l, const weft_listed *listed)
{
    weft_found found;
    const char *path;
    if (listed->optional &&
        weft_search_locate(l->plugins->search, listed->name, listed->where, &found, &path, NULL) ==
            WEFT_OK &&
        found == WEFT_FOUND_NONE) {
        weft_log_print(l->log, WEFT_LOG_INFO, "plugin ?%s is not there and left out", listed->name);
        return ignore_section(l, listed->name);
    }
    return open_module(l, listed->name, listed->where, listed->optional);
}

/* What can be said of them without opening one. */
static weft_status find_all(loading *l)
{
    const char *path;
    const weft_listed *listed;
    weft_status status = WEFT_OK;
    const int n = weft_settings_plugins(l->settings, &listed);
    for (int i = 0; i < n; i++)
        if (!listed[i].optional)
            status = keep(status, weft_module_find(l->plugins->search, listed[i].name,
                                                   listed[i].where, &path, l->err));
    return status;
}

static bool is_open(const weft_plugins *p, const char *name)
{
    for (int i = 0; i < p->n; i++)
        if (strcmp(p->list[i].module.plugin->name, name) == 0)
            return true;
    return false;
}

bool weft_default_get(const weft_params *weft, int i, weft_default *out)
{
    const char *word = weft_params_word(weft, "defaults", i);
    const char *colon = word ? strchr(word, ':') : NULL;
    if (!word)
        return false;
    *out = (weft_default){.word = word,
                          .name = colon ? colon + 1 : word,
                          .where = weft_params_word_where(weft, "defaults", i)};
    if (colon)
        snprintf(out->service, sizeof out->service, "%.*s", (int)(colon - word), word);
    return true;
}

static weft_status open_default(loading *l, const weft_default *d)
{
    void *self;
    const bool lacking = strchr(d->word, ':') != NULL;
    if (lacking && !weft_service_kind_find(d->service))
        return weft_fail(l->err, WEFT_ERR_INPUT, d->where,
                         "[weft] defaults: '%s' is not a service; write the name of a plugin, or "
                         "SERVICE:NAME, as device:cpu",
                         d->word);
    if (weft_listed_find(l->settings, d->name) >= 0 || is_open(l->plugins, d->name) ||
        (lacking && l->incomplete) ||
        (lacking && weft_plugins_service(l->plugins, d->service, &self)))
        return WEFT_OK;
    weft_status status = open_module(l, d->name, d->where, false);
    if (status == WEFT_OK)
        l->plugins->list[l->plugins->n - 1].is_default = true;
    if (status != WEFT_OK && lacking)
        return weft_fail(l->err, status, d->where,
                         "no listed plugin gives a %s, and the default, %s, cannot be used; list "
                         "one in [weft] plugins",
                         d->service, d->name);
    if (status == WEFT_OK && lacking && !weft_plugins_service(l->plugins, d->service, &self))
        return weft_fail(l->err, WEFT_ERR_INPUT, d->where,
                         "[weft] defaults: plugin '%s' gives no %s; name one that does", d->name,
                         d->service);
    if (status == WEFT_OK && lacking)
        weft_log_print(l->log, WEFT_LOG_INFO, "no listed plugin gives a %s: using %s", d->service,
                       d->name);
    return status;
}

static bool wraps(const weft_plugin *plugin)
{
    for (const weft_contribution *c = plugin->contributions; c && c->kind != WEFT_END; c++)
        if (c->kind == WEFT_WRAP)
            return true;
    return false;
}

/* Puts the defaults, which are behind those that are listed, before them; but one that stands
 * around a service stays there, outermost. */
static void move_to_front(weft_plugins *p, int n_listed)
{
    int to = 0;
    for (int i = n_listed; i < p->n; i++) {
        const weft_loaded moved = p->list[i];
        if (wraps(moved.module.plugin))
            continue;
        memmove(p->list + to + 1, p->list + to, (size_t)(i - to) * sizeof *p->list);
        p->list[to++] = moved;
    }
}

static weft_status open_all(loading *l)
{
    int n_defaults = 0;
    const weft_listed *listed;
    weft_default d;
    weft_status status = WEFT_OK;
    const int n = weft_settings_plugins(l->settings, &listed);
    while (weft_default_get(l->weft, n_defaults, &d))
        n_defaults++;
    l->plugins->list =
        weft_alloc_zero((size_t)n + (size_t)n_defaults + 1, sizeof *l->plugins->list);
    if (!l->plugins->list)
        return weft_fail_memory(l->err);
    for (int i = 0; i < n; i++)
        status = keep(status, open_listed(l, &listed[i]));
    const int n_listed = l->plugins->n;
    for (int i = 0; weft_default_get(l->weft, i, &d); i++)
        status = keep(status, open_default(l, &d));
    move_to_front(l->plugins, n_listed);
    return status;
}

static weft_status claim_sections(loading *l)
{
    static const weft_param nothing[] = {{0}};
    weft_status status = WEFT_OK;
    for (int i = 0; i < l->plugins->n; i++) {
        weft_loaded *loaded = &l->plugins->list[i];
        const weft_plugin *plugin = loaded->module.plugin;
        status = keep(status, weft_settings_section(l->settings, plugin->name,
                                                    plugin->params ? plugin->params : nothing,
                                                    &loaded->params, l->err));
        loaded->host.params = loaded->params;
        loaded->host.weft = l->weft;
        loaded->host.train = l->train;
        loaded->host.mesh = l->mesh;
    }
    return status;
}

/* Sections that nobody claimed; those of plugins that exist are told to be listed. */
static weft_status check_sections(loading *l, bool early)
{
    const char *const *names = weft_search_names(l->plugins->search);
    int n = 0, kept = 0;
    if (!names)
        return weft_fail_memory(l->err);
    while (names[n])
        n++;
    const char **unlisted = weft_alloc_zero((size_t)n + 1, sizeof *unlisted);
    if (!unlisted)
        return weft_fail_memory(l->err);
    for (int i = 0; i < n; i++)
        if (weft_listed_find(l->settings, names[i]) < 0)
            unlisted[kept++] = names[i];
    weft_status status = weft_settings_finish(l->settings, unlisted, early, l->err);
    weft_free(unlisted);
    return status;
}

/* All that can be said before a plugin is opened. stop: none may be. */
static weft_status prepare(loading *l, bool *stop)
{
    weft_status named = claim_core(l, "weft", &l->weft);
    /* With [weft] wrong nobody knows whether it names a lock: folders are looked into, and nothing
     * is opened. */
    weft_status found = weft_search_create_for(l->weft, !l->weft, &l->plugins->search, l->err);
    /* Without folders every plugin would be missing: those errors would only hide this one. */
    named = keep(named, found ? found : check_sections(l, true));
    weft_status status = claim_core(l, "train", &l->train);
    status = keep(status, claim_core(l, "mesh", &l->mesh));
    /* What is misspelt in [weft], or a section, may have been a lock; under one nothing is opened
     * for the sake of more errors. */
    bool locked = !named && weft_search_locked_by(l->plugins->search, 0);
    if (locked)
        status = keep(status, check_sections(l, true)); /* keys of [train] and [mesh] */
    *stop = named || (status && locked);
    return *stop ? keep(keep(named, status), found ? found : find_all(l)) : status;
}

weft_status weft_plugins_check(weft_settings *settings, weft_search **search, weft_error *err)
{
    bool stop;
    weft_plugins none = {0};
    loading l = {.settings = settings, .plugins = &none, .err = err};
    weft_status status = prepare(&l, &stop);
    if (status) {
        weft_search_destroy(none.search);
        none.search = NULL;
    }
    *search = none.search;
    return status;
}

bool weft_plugin_gives(const weft_plugin *plugin, const char *capability)
{
    for (const weft_contribution *c = plugin->contributions; c && c->kind != WEFT_END; c++)
        for (int i = 0; c->gives && c->gives[i]; i++)
            if (strcmp(c->gives[i], capability) == 0)
                return true;
    return false;
}

const weft_loaded *weft_plugins_that_gives(const weft_plugins *p, const char *capability)
{
    for (int i = 0; i < p->n; i++)
        if (weft_plugin_gives(p->list[i].module.plugin, capability))
            return &p->list[i];
    return NULL;
}

/* A key that nobody reads would be ignored without a word. */
static weft_status check_served(const loading *l, const char *section, const weft_params *params)
{
    weft_status status = WEFT_OK;
    for (const weft_param *p = weft_core_params(section); params && p->name; p++) {
        const char *text = weft_params_text(params, p->name);
        if (!(p->flags & WEFT_PARAM_SERVED) || weft_plugins_that_gives(l->plugins, p->name) ||
            strcmp(text, p->value ? p->value : "") == 0)
            continue;
        status = keep(status, weft_fail(l->err, WEFT_ERR_INPUT, weft_params_where(params, p->name),
                                        "[%s] %s is read by a plugin that is neither listed nor "
                                        "among [weft] defaults; list one that gives '%s'",
                                        section, p->name, p->name));
    }
    return status;
}

weft_status weft_plugins_load(weft_settings *settings, const weft_log *log, weft_plugins **out,
                              weft_error *err)
{
    *out = NULL;
    loading l = {.settings = settings, .log = log, .err = err};
    l.plugins = weft_alloc_zero(1, sizeof *l.plugins);
    if (!l.plugins)
        return weft_fail_memory(err);
    bool stop;
    weft_status status = prepare(&l, &stop);
    if (stop)
        goto fail;
    status = keep(status, open_all(&l));
    if (!l.plugins->list)
        goto fail;
    status = keep(status, weft_search_check_mapped(l.plugins->search, err));
    status = keep(status, claim_sections(&l));
    status = keep(status, check_sections(&l, false));
    if (!l.incomplete) {
        status = keep(status, check_served(&l, "weft", l.weft));
        status = keep(status, check_served(&l, "mesh", l.mesh));
        status = keep(status, weft_order_check(l.plugins, err));
    }
    if (status != WEFT_OK)
        goto fail;
    *out = l.plugins;
    return WEFT_OK;

fail:
    weft_plugins_destroy(l.plugins);
    return status;
}

/* ---- hooks ---- */

static weft_entry enter(const weft_loaded *loaded, const char *hook, weft_error *err)
{
    return weft_enter(loaded->module.plugin->name, hook, loaded->module.where, err);
}

/* What is wrong with input or a file is said in full; of other faults this says in whose hook. */
static weft_status leave(const weft_entry *entry, weft_status s)
{
    const bool silent = weft_entry_is_silent(entry);
    weft_status status = weft_leave(entry, s);
    if (status && status != WEFT_ERR_INPUT && status != WEFT_ERR_IO && !silent)
        weft_fail(entry->err, status, entry->where, "plugin '%s' failed in %s", entry->in.plugin,
                  entry->in.hook);
    return status;
}

/* Plans need a tokenizer's size. */
static bool is_ready(const weft_loaded *loaded, const char *service)
{
    return loaded->opened || (loaded->created && strcmp(service, "tokenizer") == 0);
}

/* Has the one that gives it failed? */
static bool failed_to_give(const weft_plugins *plugins, const char *service)
{
    int plugin = 0, item = 0;
    const weft_loaded *loaded;
    const weft_contribution *c;
    while (weft_plugins_next(plugins, WEFT_SERVICE, &plugin, &item, &loaded, &c))
        if (strcmp(c->service, service) == 0)
            return loaded->failed;
    return false;
}

/* Another plugin's service, for plugins: only once it is open, with the wraps that are; a tokenizer
 * as soon as it is created. */
static const void *host_service(const weft_host *host, const char *name, void **self)
{
    weft_plugins *plugins = host->core;
    const weft_service_link *l = weft_wraps_find(plugins, name);
    while (l && !is_ready(l->by, name))
        l = l->inner;
    plugins->unmet = plugins->unmet || (!l && failed_to_give(plugins, name));
    *self = l ? l->outside_self : NULL;
    return l ? l->outside : NULL;
}

static weft_status create_one(weft_plugins *plugins, weft_loaded *loaded, const weft_host *host,
                              weft_error *err)
{
    const weft_plugin *plugin = loaded->module.plugin;
    const weft_host claimed = loaded->host;
    loaded->host = *host;
    loaded->host.params = loaded->params;
    loaded->host.weft = claimed.weft;
    loaded->host.train = claimed.train;
    loaded->host.mesh = claimed.mesh;
    loaded->host.service = host_service;
    loaded->host.core = plugins;
    loaded->self = plugin->self_size ? weft_alloc_zero(1, plugin->self_size) : &loaded->host;
    if (!loaded->self)
        return weft_fail_memory(err);
    if (plugin->self_size) {
        const weft_host *own = &loaded->host;
        memcpy(loaded->self, &own, sizeof own);
        weft_params_fill(loaded->params, loaded->self);
    }
    loaded->created = true; /* to be destroyed, whatever create says */
    if (plugin->create) {
        const weft_entry entry = enter(loaded, "create", err);
        weft_status status = leave(&entry, plugin->create(loaded->self, err));
        loaded->failed = status != WEFT_OK;
        return status;
    }
    return WEFT_OK;
}

static void destroy_one(weft_loaded *loaded)
{
    const weft_entry entry = enter(loaded, "destroy", NULL); /* who has freed self, too, is named */
    if (loaded->created && loaded->module.plugin->destroy)
        loaded->module.plugin->destroy(loaded->self);
    if (loaded->self != &loaded->host)
        weft_free(loaded->self);
    leave(&entry, WEFT_OK);
    loaded->created = false;
    loaded->self = NULL;
}

/* After one that failed: only what is wrong with this one is noted, not what it misses. */
static weft_status create_more(weft_plugins *plugins, weft_loaded *loaded, const weft_host *host,
                               weft_error *err)
{
    weft_error mine = {0};
    weft_status status = create_one(plugins, loaded, host, &mine);
    status = status ? status : weft_wraps_add(plugins, loaded, &mine);
    if (status == WEFT_ERR_INPUT && !plugins->unmet)
        weft_error_move(err, &mine, WEFT_OK, WEFT_NOWHERE, "%s", "");
    plugins->unmet = false;
    weft_error_release(&mine);
    return status;
}

static void destroy_created(weft_plugins *plugins)
{
    for (int i = plugins->n - 1; i >= 0; i--)
        destroy_one(&plugins->list[i]);
    weft_wraps_release(plugins);
}

weft_status weft_plugins_create(weft_plugins *plugins, const weft_host *host, weft_error *err)
{
    weft_status status = WEFT_OK, more = WEFT_OK;
    for (int i = 0;
         i < plugins->n && (!status || status == WEFT_ERR_INPUT) && more != WEFT_ERR_MEMORY; i++) {
        weft_loaded *loaded = &plugins->list[i];
        if (status) {
            more = create_more(plugins, loaded, host, err);
            continue;
        }
        status = create_one(plugins, loaded, host, err);
        status = status ? status : weft_wraps_add(plugins, loaded, err);
    }
    if (status)
        destroy_created(plugins);
    return status;
}

weft_status weft_loaded_open(weft_loaded *loaded, weft_error *err)
{
    const weft_plugin *plugin = loaded->module.plugin;
    weft_status status = WEFT_OK;
    if (plugin->open) {
        const weft_entry entry = enter(loaded, "open", err);
        status = leave(&entry, plugin->open(loaded->self, err));
    }
    loaded->opened = status == WEFT_OK;
    return status;
}

weft_status weft_plugins_open(weft_plugins *plugins, weft_error *err)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < plugins->n && !status; i++)
        status = weft_loaded_open(&plugins->list[i], err);
    if (status)
        weft_plugins_close(plugins);
    return status;
}

void weft_plugins_close(weft_plugins *plugins)
{
    for (int i = plugins ? plugins->n - 1 : -1; i >= 0; i--) {
        weft_loaded *loaded = &plugins->list[i];
        const weft_plugin *plugin = loaded->module.plugin;
        if (loaded->opened && plugin->close) {
            const weft_entry entry = enter(loaded, "close", NULL);
            plugin->close(loaded->self);
            leave(&entry, WEFT_OK);
        }
        loaded->opened = false;
    }
}

void weft_plugins_destroy(weft_plugins *plugins)
{
    if (!plugins)
        return;
    weft_plugins_close(plugins);
    destroy_created(plugins);
    weft_search_destroy(plugins->search);
    weft_free(plugins->passes);
    weft_free(plugins->list);
    weft_free(plugins);
}

/* ---- words to the user ---- */

/* Has the run this line already? Without a set, as in tests of one plugin, nobody knows. */
static bool is_said(weft_plugins *plugins, const char *line)
{
    if (!plugins)
        return false;
    for (const weft_said *said = plugins->said; said; said = said->next)
        if (strcmp(said->line, line) == 0)
            return true;
    weft_said *said = weft_pool_alloc(&plugins->link_pool, sizeof *said);
    if (!said)
        return false;
    *said = (weft_said){weft_pool_strdup(&plugins->link_pool, line), plugins->said};
    if (said->line)
        plugins->said = said;
    return false;
}

static void say(const weft_host *host, weft_log_level level, weft_where at, const char *format,
                va_list args)
{
    weft_text line = {0};
    char *text = host->rank == 0 ? weft_vformat(format, args) : NULL;
    if (!text)
        return;
    if (at.file)
        weft_text_print(&line, at.line ? "%s:%d: " : "%s: ", at.file, at.line);
    weft_text_add(&line, text);
    if (!is_said(host->core, weft_text_get(&line)))
        weft_log_print(host->log, level, "%s", weft_text_get(&line));
    weft_text_release(&line);
    weft_free(text);
}

void weft_warn(const weft_host *host, weft_where at, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(host, WEFT_LOG_WARN, at, format, args);
    va_end(args);
}

void weft_inform(const weft_host *host, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(host, WEFT_LOG_INFO, WEFT_NOWHERE, format, args);
    va_end(args);
}

/* ---- looking at the set ---- */

bool weft_plugins_next(const weft_plugins *plugins, weft_kind kind, int *plugin, int *item,
                       const weft_loaded **loaded, const weft_contribution **contribution)
{
    for (; *plugin < plugins->n; (*plugin)++, *item = 0) {
        const weft_contribution *table = plugins->list[*plugin].module.plugin->contributions;
        while (table && table[*item].kind != WEFT_END) {
            const weft_contribution *now = &table[(*item)++];
            if (now->kind != kind)
                continue;
            *loaded = &plugins->list[*plugin];
            *contribution = now;
            return true;
        }
    }
    return false;
}

const void *weft_plugins_service(const weft_plugins *plugins, const char *name, void **self)
{
    int plugin = 0, item = 0;
    const weft_loaded *loaded;
    const weft_contribution *contribution;
    const weft_service_link *l = weft_wraps_find(plugins, name);
    if (l) {
        *self = l->outside_self;
        return l->outside;
    }
    while (weft_plugins_next(plugins, WEFT_SERVICE, &plugin, &item, &loaded, &contribution)) {
        if (strcmp(contribution->service, name) != 0)
            continue;
        *self = loaded->self;
        return contribution->table;
    }
    *self = NULL;
    return NULL;
}

const char *weft_plugins_giver(const weft_plugins *plugins, const void *table)
{
    int plugin = 0, item = 0;
    const weft_loaded *loaded;
    const weft_contribution *c;
    const weft_service_link *l = table ? weft_wraps_find_table(plugins, table) : NULL;
    if (l)
        return l->by->module.plugin->name;
    while (table && weft_plugins_next(plugins, WEFT_SERVICE, &plugin, &item, &loaded, &c))
        if (c->table == table)
            return loaded->module.plugin->name;
    return NULL;
}
