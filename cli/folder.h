/* SPDX-License-Identifier: Apache-2.0 */
/* What a run has written into its folder, read while it goes on or later. */
#ifndef WEFT_CLI_FOLDER_H
#define WEFT_CLI_FOLDER_H

#include "cli.h"

#include <jansson.h>

/* DIR/run.json. */
weft_status weft_folder_read_about(const char *dir, json_t **out, weft_error *err);
/* Why a start has ended that has not said so itself. */
#define WEFT_FOLDER_LOST "it ended without a message: it was killed, or its host was lost"
/* DIR/progress.jsonl: what the last start has noted of its last step, and of its end if it has
 * ended; *out is NULL where there is no such file, or nothing can be read. */
weft_status weft_folder_read_progress(const char *dir, json_t **out, weft_error *err);
/* The objects of the lines of DIR/metrics.jsonl that lie in its last `most` bytes (0: all), as an
 * array; empty where there is no such file. A line that was not finished is left out, and so is
 * one of a step that a later line is of. */
weft_status weft_folder_read_metrics(const char *dir, size_t most, json_t **out, weft_error *err);
/* "2026-11-22T13:01:18.042Z" in nanoseconds since 1970; 0: it is no such time. */
/* What lines of metrics.jsonl or progress.jsonl count: "tokens" or "samples". */
const char *weft_lines_unit(const json_t *lines);
/* The key that they have their rate under. */
const char *weft_lines_rate(const json_t *lines);
int64_t weft_folder_time(const char *text);

#endif
