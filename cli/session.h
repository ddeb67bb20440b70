/* SPDX-License-Identifier: Apache-2.0 */
/* From options to created plugins: what train and plan do alike. */
#ifndef WEFT_CLI_SESSION_H
#define WEFT_CLI_SESSION_H

#include "cli.h"
#include "compile/driver/plan.h"
#include "execute/control.h"
#include "host/plugins.h"

typedef struct weft_session {
    weft_settings *settings;
    weft_plugins *plugins;
    const weft_params *run; /* [weft] */
    weft_cli_log sink;
    weft_log log;
    char *cache_dir;
    weft_host host;
} weft_session;

/* Reads the INI, loads and creates its plugins for one rank; nothing is opened. With more than one
 * rank as threads and no transport listed, `local` is added first; with options->threads it also
 * takes the place of one between processes. quiet: only warnings are logged,
 * whatever [weft] log says. control: to the other ranks, NULL for one. The session stays where it
 * is (plugins point into it). Release in every case. */
weft_status weft_session_init(weft_session *session, const weft_cli_options *options, int rank,
                              weft_control *control, bool quiet, weft_error *err);
void weft_session_release(weft_session *session);
/* The limit of waits at the start, by [weft]; 0: none. */
double weft_session_patience(const weft_params *run);
/* The watch of a rank keeps to what [weft] says. */
void weft_session_limit(const weft_session *session, weft_watch *watch);

/* Fails where no plugin updates a parameter. */
weft_status weft_session_check_updates(const weft_session *session, const weft_plan *plan,
                                       weft_error *err);
/* The same, or where an axis cuts what the model does not have, or fields of the data are wrong:
 * what weft_plan_check, too, says. */
weft_status weft_session_check_plan(const weft_session *session, const weft_plan *plan,
                                    weft_error *err);

/* The user's cache folder for weft, which may not exist: $XDG_CACHE_HOME/weft, ~/.cache/weft; in a
 * pinch a folder of this user's in /tmp, unless others can write there: then NULL, and a warning.
 * weft_free. */
weft_status weft_cli_cache_dir(const weft_log *log, char **out, weft_error *err);

#endif
