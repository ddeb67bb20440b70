/* SPDX-License-Identifier: Apache-2.0 */
/* What a run folder says of the runs in it: config.ini and plan.txt of the last one, run.json with
 * every start and how it ended, progress.jsonl with how far the last one is. Rank 0 writes them. */
#ifndef WEFT_CLI_RECORD_H
#define WEFT_CLI_RECORD_H

#include "about.h"

#include <jansson.h>

/* The one run of this process that has a folder. */
typedef struct weft_record weft_record;

/* Has anybody run in this folder? */
bool weft_record_exists(const char *dir);
/* A start that has finished `from` steps before. The folder is locked. What earlier starts had
 * otherwise keeps its text under another name. */
weft_status weft_record_begin(const weft_session *session, const weft_plan *plan,
                              const weft_about *about, int64_t from, weft_record **out,
                              weft_error *err);
/* A step is done. In place: a full disk does not keep it from being noted. */
void weft_record_step(void *record, const weft_run_view *run);
/* How this process' run ends, whoever learns it first; from any thread. Without a run: nothing. */
void weft_record_end(int code, const char *why);
/* Puts the end into run.json. NULL is fine. */
void weft_record_close(weft_record *record, const weft_log *log);

#endif
