/* SPDX-License-Identifier: Apache-2.0 */
#include "session.h"
#include "console/counts.h"
#include "console/crash.h"
#include "forecast/forecast.h"
#include "launch/stop.h"
#include "print/wraps.h"
#include "processors.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* /tmp is everyone's: whoever else made the folder, or may write in it, could choose what is read
 * from it. */
static bool is_own(const char *path)
{
    struct stat info;
    if (mkdir(path, 0700) != 0 && errno != EEXIST)
        return false;
    return lstat(path, &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid() &&
           !(info.st_mode & (S_IWGRP | S_IWOTH));
}

weft_status weft_cli_cache_dir(const weft_log *log, char **out, weft_error *err)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    bool shared = false;
    if (xdg && xdg[0] == '/')
        *out = weft_format("%s/weft", xdg);
    else if (home && home[0] == '/')
        *out = weft_format("%s/.cache/weft", home);
    else {
        *out = weft_format("/tmp/weft-cache-%ld", (long)geteuid());
        shared = true;
    }
    if (!*out)
        return weft_fail_memory(err);
    if (!shared || is_own(*out))
        return WEFT_OK;
    weft_log_print(log, WEFT_LOG_WARN,
                   "%s is not used as weft's cache folder: it is not this user's, or others may "
                   "write in it; set HOME or XDG_CACHE_HOME",
                   *out);
    weft_free(*out);
    *out = NULL;
    return WEFT_OK;
}

/* Ranks that are processes may have processors of their own, or share them. */
static weft_status share_processors(weft_control *control, int rank, int ranks,
                                    const weft_processors *mine, int *threads, weft_error *err)
{
    weft_processors *all = weft_alloc_zero((size_t)ranks, sizeof *all);
    if (!all)
        return weft_fail_memory(err);
    weft_status s = weft_control_exchange(control, rank, mine, sizeof *mine, all, err);
    int by_mask = 0, by_quota = 0;
    for (int r = 0; r < ranks && !s; r++) {
        by_mask += all[r].mask_id == mine->mask_id;
        by_quota += all[r].quota_id == mine->quota_id;
    }
    weft_free(all);
    if (!s)
        *threads = weft_processors_share(mine, by_mask, by_quota, 1);
    return s;
}

/* This rank's share of the processors. */
static weft_status count_threads(weft_session *s, weft_control *control,
                                 const weft_cli_options *options, weft_error *err)
{
    const weft_processors p = weft_cli_processors();
    int ranks = s->host.ranks; /* threads of this process, unless they were started as processes */
    weft_status status = WEFT_OK;
    if (options->local_ranks && control)
        status = share_processors(control, s->host.rank, ranks, &p, &s->host.threads, err);
    else
        s->host.threads = weft_processors_share(&p, ranks, ranks, ranks);
    if (!weft_params_is(s->run, "threads", "auto"))
        s->host.threads = (int)weft_params_int(s->run, "threads");
    return status;
}

/* other: the plugin that local stands in for; NULL: nothing is changed; "": for none. */
static weft_status load(weft_session *s, const weft_cli_options *options, const char *other,
                        weft_error *err)
{
    weft_status status = weft_cli_settings(options, &s->settings, err);
    if (!status && other && *other)
        status = weft_settings_without(s->settings, other, err);
    if (!status && other)
        status = weft_settings_with(s->settings, "local@first", err);
    status = status ? status : weft_plugins_load(s->settings, &s->log, &s->plugins, err);
    if (!status)
        weft_crash_note_plugins(s->plugins);
    return status;
}

/* The plugin that gives the transport; NULL: none does. */
static const char *find_transport(const weft_session *s, bool *threads)
{
    int plugin = 0, item = 0;
    const weft_loaded *loaded;
    const weft_contribution *c;
    while (weft_plugins_next(s->plugins, WEFT_SERVICE, &plugin, &item, &loaded, &c))
        if (strcmp(c->service, "transport") == 0) {
            *threads = ((const weft_transport *)c->table)->ranks & WEFT_RANKS_THREADS;
            return loaded->module.plugin->name;
        }
    return NULL;
}

/* Ranks that are threads need a transport between threads. */
static weft_status add_local(weft_session *s, const weft_cli_options *options, int rank,
                             weft_error *err)
{
    bool threads = false;
    const char *transport = find_transport(s, &threads);
    if (transport && (threads || !options->threads))
        return WEFT_OK;
    char *other = weft_strdup(transport ? transport : "");
    if (!other)
        return weft_fail_memory(err);
    weft_plugins_destroy(s->plugins);
    weft_settings_destroy(s->settings);
    s->plugins = NULL;
    s->settings = NULL;
    weft_status status = load(s, options, other, err);
    if (!status && *other && rank == 0)
        weft_log_print(&s->log, WEFT_LOG_INFO,
                       "the ranks of this command are threads: local is used in place of %s",
                       other);
    weft_free(other);
    return status;
}

double weft_session_patience(const weft_params *run)
{
    double start_s = weft_params_real(run, "start_timeout"),
           step_s = weft_params_real(run, "rank_timeout");
    if (weft_params_given(run, "start_timeout"))
        return start_s;
    return step_s > 0 && start_s > step_s ? start_s : step_s;
}

void weft_session_limit(const weft_session *s, weft_watch *watch)
{
    watch->limit_s = weft_params_real(s->run, "rank_timeout");
    watch->patience_s = weft_session_patience(s->run);
}

static void log_wraps(const weft_session *s)
{
    weft_text text = {0};
    for (int i = 0; weft_print_wraps(s->plugins, &i, &text); weft_text_clear(&text))
        weft_log_print(&s->log, WEFT_LOG_INFO, "%s", weft_text_get(&text));
    weft_text_release(&text);
}

weft_status weft_session_init(weft_session *s, const weft_cli_options *options, int rank,
                              weft_control *control, bool quiet, weft_error *err)
{
    memset(s, 0, sizeof *s);
    s->log = weft_cli_log_init(&s->sink, quiet ? WEFT_LOG_WARN : WEFT_LOG_INFO);
    weft_status status = load(s, options, NULL, err);
    if (!status && options->ranks > 1 && !options->local_ranks)
        status = add_local(s, options, rank, err);
    if (!status)
        status = weft_settings_section(s->settings, "weft", weft_core_params("weft"), &s->run, err);
    if (status)
        return status;
    const weft_log_level least = weft_cli_log_level(weft_params_text(s->run, "log"));
    if (!quiet)
        s->sink.least = s->sink.least_kept = least;
    else if (weft_params_bool(s->run, "log_ranks"))
        s->sink.least_kept = least;
    s->sink.said = options->said;
    if (options->silent)
        s->sink.least = s->sink.least_kept = WEFT_LOG_ERROR;
    s->sink.timed = weft_params_is(s->run, "log_time", "all");
    status = weft_cli_cache_dir(rank == 0 ? &s->log : NULL, &s->cache_dir, err);
    if (status)
        return status;
    const char *dir = weft_params_text(s->run, "dir");
    s->host = (weft_host){
        .log = &s->log,
        .dir = *dir && !options->no_data ? dir : NULL,
        .no_data = options->no_data,
        .cache_dir = s->cache_dir,
        .rank = rank,
        .ranks = options->ranks > 0 ? options->ranks : 1,
        .terminal = weft_cli_terminal(),
        .exchange = weft_host_exchange,
        .exchange_within = weft_host_exchange_within,
        .waiting = weft_host_waiting,
    };
    s->plugins->control = control;
    if (control) {
        weft_watch *watch = weft_control_watch(control, rank);
        watch->log = &s->log;
        weft_session_limit(s, watch);
    }
    status = count_threads(s, control, options, err);
    if (status)
        return status;
    const weft_status keys = weft_settings_check_keys(s->settings, rank == 0 ? &s->log : NULL, err);
    weft_stop_limit(weft_session_patience(s->run), "creating plugins");
    status = weft_plugins_create(s->plugins, &s->host, err);
    weft_stop_limit(0, NULL);
    if (!status && rank == 0)
        log_wraps(s);
    return status ? status : keys;
}

/* On some rank: one of a pipeline may have frozen blocks alone. */
static bool learns(const weft_graph *g)
{
    for (const weft_node *n = weft_graph_first(g); n; n = n->next)
        for (int i = 0; i < n->n_outs; i++)
            if (n->outs[i]->update_of &&
                weft_node_is(n->outs[i]->update_of->node, WEFT_OP_PARAMETER))
                return true;
    return false;
}

weft_status weft_session_check_updates(const weft_session *s, const weft_plan *plan,
                                       weft_error *err)
{
    const weft_loaded *by = weft_plugins_that_gives(s->plugins, "optimizer");
    if (learns(plan->lowered[WEFT_MODE_TRAIN]->graph))
        return WEFT_OK;
    if (by)
        return weft_fail(err, WEFT_ERR_PLUGIN, by->module.where,
                         "plugin '%s' gives an optimizer, and its hook joint has returned without "
                         "an update of a parameter; weft_set_update says what one becomes",
                         by->module.plugin->name);
    return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(s->run, "plugins"),
                     "no listed plugin is an optimizer, so nothing would be learnt; list one, as "
                     "adamw, in [weft] plugins");
}

weft_status weft_session_check_plan(const weft_session *s, const weft_plan *plan, weft_error *err)
{
    weft_status status = weft_session_check_updates(s, plan, err);
    status = status ? status : weft_plan_check_axes(plan, err);
    return status ? status : weft_plan_check_fields(plan, err);
}

void weft_session_release(weft_session *s)
{
    weft_plugins_destroy(s->plugins);
    weft_settings_destroy(s->settings);
    weft_free(s->cache_dir);
    weft_cli_log_release(&s->sink);
    memset(s, 0, sizeof *s);
}
