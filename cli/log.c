/* SPDX-License-Identifier: Apache-2.0 */
/* The log's sink: lines on stderr, and in the run folder's log.txt once there is one. */
#include "cli.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

static void write_line(void *self, weft_log_level level, const char *line)
{
    static const char *const label[] = {"debug: ", "", "warning: ", "error: "};
    static const char erase[] = "\r\033[K";
    weft_cli_log *log = self;

    if (level < log->least)
        return;
    flockfile(stderr);
    if (log->transient)
        fputs(erase, stderr);
    log->transient = *line == '\r' && line[1];
    if (log->transient)
        fputs(line + 1, stderr); /* a status line: stays until the next one */
    else if (*line != '\r')
        fprintf(stderr, "%s%s\n", label[level], line);
    fflush(stderr);
    if (log->early && *line != '\r')
        weft_text_print(&log->before, "%s%s\n", label[level], line);
    if (log->file && *line != '\r') {
        fprintf(log->file, "%s%s\n", label[level], line);
        fflush(log->file);
    }
    funlockfile(stderr);
}

weft_log weft_cli_log_init(weft_cli_log *log, weft_log_level least)
{
    *log = (weft_cli_log){.least = least, .early = true};
    return (weft_log){write_line, log};
}

weft_status weft_cli_log_file(weft_cli_log *log, const char *path, weft_error *err)
{
    FILE *file = path ? fopen(path, "ae") : NULL;
    if (path && !file)
        return weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "cannot write %s: %s", path,
                         strerror(errno));
    flockfile(stderr);
    if (file) {
        fputs(weft_text_get(&log->before), file);
        fflush(file);
    }
    weft_text_release(&log->before);
    log->early = false;
    log->file = file;
    funlockfile(stderr);
    return WEFT_OK;
}

void weft_cli_log_release(weft_cli_log *log)
{
    if (log->file)
        fclose(log->file);
    log->file = NULL;
    weft_text_release(&log->before);
}

weft_log_level weft_cli_log_level(const char *name)
{
    if (strcmp(name, "debug") == 0)
        return WEFT_LOG_DEBUG;
    return strcmp(name, "warn") == 0 ? WEFT_LOG_WARN : WEFT_LOG_INFO;
}
