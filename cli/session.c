/* SPDX-License-Identifier: Apache-2.0 */
#include "session.h"
#include "processors.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* $XDG_CACHE_HOME/weft, ~/.cache/weft; in a pinch a folder of this user's in /tmp. */
char *weft_cli_cache_dir(void)
{
    const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    if (xdg && xdg[0] == '/')
        return weft_format("%s/weft", xdg);
    if (home && home[0] == '/')
        return weft_format("%s/.cache/weft", home);
    return weft_format("/tmp/weft-cache-%ld", (long)getuid());
}

/* Ranks that are processes may have processors of their own, or share them: how many share mine? */
static weft_status count_sharers(weft_control *control, int rank, int ranks, uint64_t mine, int *n,
                                 weft_error *err)
{
    uint64_t *all = weft_alloc_zero((size_t)ranks, sizeof *all);
    if (!all)
        return weft_fail_memory(err);
    weft_status s = weft_control_exchange(control, rank, &mine, sizeof mine, all, err);
    *n = 0;
    for (int r = 0; r < ranks; r++)
        *n += all[r] == mine;
    weft_free(all);
    return s;
}

/* This rank's share of the processors. */
static weft_status count_threads(weft_session *s, weft_control *control,
                                 const weft_cli_options *options, weft_error *err)
{
    weft_processors p = weft_cli_processors();
    int sharers = s->host.ranks; /* threads of this process */
    weft_status status = WEFT_OK;
    if (options->local_ranks && control)
        status = count_sharers(control, s->host.rank, s->host.ranks, p.id, &sharers, err);
    else if (options->local_ranks)
        sharers = options->local_ranks;
    if (!weft_params_is(s->run, "threads", "auto"))
        s->host.threads = (int)weft_params_int(s->run, "threads");
    else
        s->host.threads = p.n > sharers ? p.n / sharers : 1;
    return status;
}

static weft_status load(weft_session *s, const weft_cli_options *options, bool add_local,
                        weft_error *err)
{
    weft_status status = weft_cli_settings(options, &s->settings, err);
    if (!status && add_local)
        status = weft_settings_with(s->settings, "local@first", err);
    return status ? status : weft_plugins_load(s->settings, &s->log, &s->plugins, err);
}

static bool has_transport(const weft_session *s)
{
    void *self;
    return weft_plugins_service(s->plugins, "transport", &self) != NULL;
}

weft_status weft_session_init(weft_session *s, const weft_cli_options *options, int rank,
                              weft_control *control, bool quiet, weft_error *err)
{
    memset(s, 0, sizeof *s);
    s->log = weft_cli_log_init(&s->sink, quiet ? WEFT_LOG_WARN : WEFT_LOG_INFO);
    weft_status status = load(s, options, false, err);
    if (!status && options->ranks > 1 && !options->local_ranks && !has_transport(s)) {
        weft_plugins_destroy(s->plugins);
        weft_settings_destroy(s->settings);
        s->plugins = NULL;
        s->settings = NULL;
        status = load(s, options, true, err);
    }
    if (!status)
        status = weft_settings_section(s->settings, "weft", weft_core_params("weft"), &s->run, err);
    if (status)
        return status;
    if (!quiet)
        s->sink.least = weft_cli_log_level(weft_params_text(s->run, "log"));
    s->cache_dir = weft_cli_cache_dir();
    if (!s->cache_dir)
        return weft_fail_memory(err);
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
    };
    status = count_threads(s, control, options, err);
    if (status)
        return status;
    s->plugins->control = control;
    return weft_plugins_create(s->plugins, &s->host, err);
}

void weft_session_release(weft_session *s)
{
    weft_plugins_destroy(s->plugins);
    weft_settings_destroy(s->settings);
    weft_free(s->cache_dir);
    weft_cli_log_release(&s->sink);
    memset(s, 0, sizeof *s);
}
