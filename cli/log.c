/* SPDX-License-Identifier: Apache-2.0 */
/* The log's sink: lines on stderr, and in the run folder's log.txt once there is one. */
#include "cli.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>
#include <weft/files.h>

void weft_cli_write_error(const weft_text *text)
{
    const char *at = weft_text_get(text);
    size_t left = text->size;
    fflush(stderr);
    while (left > 0) {
        ssize_t n = write(STDERR_FILENO, at, left);
        if (n < 0 && errno != EINTR)
            return; /* nobody reads */
        at += n > 0 ? n : 0;
        left -= n > 0 ? (size_t)n : 0;
    }
}

/* The line as a file has it. */
static void add_line(weft_text *text, bool timed, weft_log_level level, const char *line)
{
    static const char *const label[] = {"debug: ", "", "warning: ", "error: "};
    if (timed) {
        weft_text_add_utc(text, weft_utc());
        weft_text_add(text, " ");
    }
    weft_text_add(text, label[level]);
    weft_cli_add_safely(text, line, strlen(line));
    weft_text_add(text, "\n");
}

static void show_line(weft_cli_log *log, weft_log_level level, const char *line)
{
    weft_text text = {0};
    if (log->transient)
        weft_text_add(&text, "\r\033[K");
    log->transient = *line == '\r' && line[1];
    if (log->transient)
        weft_cli_add_safely(&text, line + 1,
                            strlen(line + 1)); /* a status line: stays until the next one */
    else if (*line != '\r')
        add_line(&text, log->timed, level, line);
    weft_cli_write_error(&text);
    weft_text_release(&text);
}

/* On a disk that is full it comes later, behind the lines before it. */
static void keep(weft_cli_log *log, const weft_text *lines)
{
    weft_error unsaid = {0};
    if (weft_journal_add(&log->file, lines, &unsaid) == WEFT_OK)
        weft_journal_write(&log->file, &unsaid);
    weft_error_release(&unsaid);
}

static void keep_line(weft_cli_log *log, weft_log_level level, const char *line)
{
    weft_text text = {0};
    if (log->early) {
        add_line(&log->before, true, level, line);
        return;
    }
    add_line(&text, true, level, line);
    keep(log, &text);
    weft_text_release(&text);
}

static _Atomic double spoke;

double weft_cli_log_spoke(void)
{
    return spoke;
}

/* Under the lock. Is it a warning that was shown already? If not, it is noted. */
static bool was_said(weft_text *said, weft_log_level level, const char *line)
{
    weft_text whole = {0};
    if (!said || level != WEFT_LOG_WARN)
        return false;
    weft_text_print(&whole, "\n%s\n", line);
    const bool was = said->data && strstr(said->data, weft_text_get(&whole));
    if (!was && !whole.out_of_memory)
        weft_text_add(said, weft_text_get(&whole));
    weft_text_release(&whole);
    return was;
}

/* Several ranks may have one standard error: whole lines go there, each in one piece. */
static void write_line(void *self, weft_log_level level, const char *line)
{
    weft_cli_log *log = self;
    spoke = weft_now();
    const bool shows = level >= log->least,
               keeps = level >= log->least_kept && *line != '\r' && (log->early || log->file.path);
    if (!shows && !keeps)
        return;
    flockfile(stderr);
    if (shows && !was_said(log->said, level, line))
        show_line(log, level, line);
    if (keeps)
        keep_line(log, level, line);
    funlockfile(stderr);
}

weft_log weft_cli_log_init(weft_cli_log *log, weft_log_level least)
{
    *log = (weft_cli_log){.least = least, .least_kept = least, .early = true};
    return (weft_log){write_line, log};
}

weft_status weft_cli_log_file(weft_cli_log *log, const char *path, const char *first,
                              weft_error *err)
{
    weft_journal file = {0};
    weft_status s = path ? weft_journal_init(&file, path, err) : WEFT_OK;
    s = s || !path ? s : weft_journal_open(&file, err);
    if (s) {
        weft_journal_release(&file);
        return s;
    }
    flockfile(stderr);
    log->file = file;
    if (path) {
        weft_text text = {0};
        weft_text_add(&text, first);
        weft_text_add(&text, weft_text_get(&log->before));
        keep(log, &text);
        weft_text_release(&text);
    }
    weft_text_release(&log->before);
    log->early = false;
    funlockfile(stderr);
    return WEFT_OK;
}

void weft_cli_log_note(weft_cli_log *log, const weft_text *lines)
{
    if (!log->file.path)
        return;
    flockfile(stderr);
    keep(log, lines);
    funlockfile(stderr);
}

void weft_cli_log_release(weft_cli_log *log)
{
    weft_text nothing = {0};
    if (log->file.path)
        keep(log, &nothing);
    weft_journal_release(&log->file);
    weft_text_release(&log->before);
}

weft_log_level weft_cli_log_level(const char *name)
{
    if (strcmp(name, "debug") == 0)
        return WEFT_LOG_DEBUG;
    return strcmp(name, "warn") == 0 ? WEFT_LOG_WARN : WEFT_LOG_INFO;
}
