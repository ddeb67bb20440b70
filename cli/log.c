/* SPDX-License-Identifier: Apache-2.0 */
/* The log's sink: lines on stderr, and in the run folder's log.txt once there is one. */
#include "cli.h"

#include <string.h>
#include <unistd.h>
#include <weft/files.h>

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
    int fd = -1;
    weft_status s = path ? weft_create_file(path, WEFT_WRITE_APPEND, &fd, err) : WEFT_OK;
    FILE *file = fd >= 0 ? fdopen(fd, "a") : NULL;
    if (fd >= 0 && !file) {
        close(fd);
        s = weft_fail_memory(err);
    }
    if (s)
        return s;
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

void weft_cli_log_note(weft_cli_log *log, const weft_text *lines)
{
    if (!log->file)
        return;
    flockfile(stderr);
    fputs(weft_text_get(lines), log->file);
    fflush(log->file);
    funlockfile(stderr);
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
