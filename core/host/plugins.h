/* SPDX-License-Identifier: Apache-2.0 */
/* The plugins of one rank: found, opened, checked, ordered, created. Internal to weft (core and
 * cli). */
#ifndef WEFT_HOST_PLUGINS_H
#define WEFT_HOST_PLUGINS_H

#include "settings/settings.h"
#include <weft/plugin.h>

/* ---- loading a shared object (loader.c) ---- */

/* Which bytes a file holds: hex digits; build_id "": none. */
typedef struct weft_file_id {
    char sha256[65], build_id[65];
} weft_file_id;

typedef struct weft_module {
    const weft_plugin *plugin;
    const char *path; /* real path of the .so; NULL: built in */
    weft_where where; /* the INI line that listed it */
    weft_file_id id;  /* of the .so; built in: empty */
} weft_module;

/* Where plugins are looked for, in this order: `extra` (NULL-ended, may be NULL; [weft]
 * plugin_path), WEFT_PLUGIN_PATH (colon-separated) from the environment, the build tree's plugins
 * if the program runs uninstalled, else the installed folder. Plugins linked into the program come
 * after the user's folders. Trusted dirs are these; a plugin's real path must lie in one. */
typedef struct weft_search weft_search;
/* Letters, digits and '_', a letter first: what a section, a file name and a symbol can all carry.
 */
bool weft_plugin_name_ok(const char *name);
weft_status weft_search_create(const char *const *extra, weft_search **out, weft_error *err);
/* With the folders of [weft] plugin_path, and its lock: it then opens only what that knows. weft:
 * that section, NULL: none. closed: it only finds, and opens nothing, so no lock is asked. The
 * system's own lock, if there is one, holds for every search that opens. */
weft_status weft_search_create_for(const weft_params *weft, bool closed, weft_search **out,
                                   weft_error *err);
void weft_search_destroy(weft_search *search);
/* The file of the i-th lock that holds, from 0; NULL past the end. */
const char *weft_search_locked_by(const weft_search *search, int i);
/* Holds what is part of the process by now against every lock, once plugins are opened. */
weft_status weft_search_check_mapped(const weft_search *search, weft_error *err);
/* Names of all plugins that could be listed, sorted (looks at file names only, opens nothing).
 * NULL-ended array owned by search; NULL when out of memory. */
const char *const *weft_search_names(weft_search *search);
/* The build tree's folder of plugins, if the program runs uninstalled; else NULL. */
const char *weft_search_build(const weft_search *search);
/* Finds, opens (RTLD_NOW|LOCAL|NODELETE through our loader in libltdl) and checks one plugin's
 * descriptor. */
weft_status weft_module_open(weft_search *search, const char *name, weft_where where,
                             weft_module *out, weft_error *err);

/* The same without opening it. *path: the real path, owned by search; NULL: built in. */
weft_status weft_module_find(weft_search *search, const char *name, weft_where where,
                             const char **path, weft_error *err);

/* ---- the listed set ---- */

typedef struct weft_loaded {
    weft_module module;
    bool optional;   /* listed as ?name */
    bool is_default; /* of [weft] defaults, and not listed */
    const weft_params *params;
    weft_host host;
    void *self;
    bool created, opened, failed; /* failed: in create */
} weft_loaded;

/* One contribution of the set. */
typedef struct weft_slot {
    int plugin;
    const weft_contribution *item;
} weft_slot;

/* A line that the user was shown. */
typedef struct weft_said {
    const char *line;
    const struct weft_said *next;
} weft_said;

/* What a plugin keeps from step to step (kept.c). */
typedef struct weft_kept_bytes {
    const char *by, *name;
    int64_t bytes, offset; /* in the memory of states */
    const char *file_name; /* in checkpoints */
    unsigned flags;
    void *at; /* while the run lasts */
    struct weft_kept_bytes *next;
} weft_kept_bytes;

/* What a review has asked for (weft_plan_ask). */
typedef struct weft_request {
    const char *by, *what, *value;
    struct weft_request *next;
} weft_request;

typedef struct weft_plugins {
    int n;
    weft_loaded *list; /* in listed order */
    weft_slot *passes; /* as they run: by stage, then in listed order, but for those that wait for a
                          capability (`after`) */
    int n_passes;
    weft_search *search;
    const struct weft_service_link
        *links; /* of services that plugins stand around, newest first; see wrap.h */
    weft_pool link_pool;
    void *control; /* the control channel to other ranks, for host->exchange; NULL: one rank. Set
                      before create. */
    weft_kept_bytes *kept; /* in the order of asking */
    weft_request *asked;   /* of the run that is planned, the last first */
    weft_running running;  /* nodes NULL: nothing */
    struct weft_run *run;  /* that lasts, for weft_event_wait; NULL: none */
    const weft_said *said; /* by weft_warn and weft_inform, the last first */
    bool unmet;            /* a plugin has asked for the service of one that could not be created */
} weft_plugins;

/* One word of [weft] defaults. */
typedef struct weft_default {
    const char *word;
    char service[32]; /* it is for runs where no listed plugin gives this; "": for all */
    const char *name;
    weft_where where;
} weft_default;
/* The i-th, from 0; false past the end. weft: that section. */
bool weft_default_get(const weft_params *weft, int i, weft_default *out);

/* What can be wrong before one is opened; *search finds and opens them. */
weft_status weft_plugins_check(weft_settings *settings, weft_search **search, weft_error *err);
/* Opens every listed plugin, and before them those of [weft] defaults, checks all descriptors,
 * claims and checks all sections (also [weft], [train], [mesh] and, through weft_settings_finish,
 * unknown ones), then checks capabilities and order. Every error at once. */
weft_status weft_plugins_load(weft_settings *settings, const weft_log *log, weft_plugins **out,
                              weft_error *err);
/* Calls create in listed order; host gives rank, ranks, threads, dir, log, ... and is completed per
 * plugin. What is wrong with several is noted of all. On error destroys what was created. */
weft_status weft_plugins_create(weft_plugins *plugins, const weft_host *host, weft_error *err);
weft_status weft_plugins_open(weft_plugins *plugins, weft_error *err);
/* One of them. */
weft_status weft_loaded_open(weft_loaded *loaded, weft_error *err);
/* Undo, in reverse order; safe in any state. destroy also releases the set. */
void weft_plugins_close(weft_plugins *plugins);
void weft_plugins_destroy(weft_plugins *plugins);

/* Does one of its contributions say that it gives this? */
bool weft_plugin_gives(const weft_plugin *plugin, const char *capability);
/* The first plugin of which one does; NULL: none. */
const weft_loaded *weft_plugins_that_gives(const weft_plugins *plugins, const char *capability);
/* The first service of this name and its instance, as its outermost wrap shows it once plugins are
 * created; NULL if nobody gives it. */
const void *weft_plugins_service(const weft_plugins *plugins, const char *name, void **self);
/* The plugin whose service, or wrap, has this table; NULL: none, or table is NULL. */
const char *weft_plugins_giver(const weft_plugins *plugins, const void *table);
/* Has every service what a run cannot do without, and what belongs together whole or not at all?
 * runs: a device, too, of which a plan asks for less. */
weft_status weft_services_check(const weft_plugins *plugins, bool runs, weft_error *err);
/* n, which a function of the service has said, is no less than `least`? right: what it is to be. */
weft_status weft_service_check_count(const weft_plugins *plugins, const char *service,
                                     const char *function, int64_t n, int64_t least,
                                     const char *right, weft_error *err);
/* Can it send from one rank to another? An error if not, for a run that must. by: the plugin that
 * gives it. */
weft_status weft_transport_check_send(const weft_transport *transport, const char *by,
                                      weft_error *err);
/* Of an observer, for messages: "step_end"; NULL: there is no such event. */
const char *weft_event_name(weft_event event);
/* Of a pass, for messages: "mesh", "graph", "placed", "joint"; "?" for a value out of range. */
const char *weft_stage_name(weft_pass_stage stage);
/* From a service as a wrap shows it to what that wrap stands around; false: no wrap does. */
bool weft_plugins_inner(const weft_plugins *plugins, const void **table, void **self);
/* Walks contributions of one kind in listed order: start with *plugin = *item = 0; false at the
 * end. */
bool weft_plugins_next(const weft_plugins *plugins, weft_kind kind, int *plugin, int *item,
                       const weft_loaded **loaded, const weft_contribution **contribution);

#endif
