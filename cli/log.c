/* SPDX-License-Identifier: Apache-2.0 */
/* The log's sink: lines on stderr. */
#include "cli.h"

#include <stdio.h>
#include <string.h>

static void write_line(void *self, weft_log_level level, const char *line)
{
    static const char *const label[] = {"debug: ", "", "warning: ", "error: "};

    if (level < *(const weft_log_level *)self)
        return;
    flockfile(stderr);
    fprintf(stderr, "%s%s\n", label[level], line);
    funlockfile(stderr);
}

weft_log weft_cli_log(weft_log_level least)
{
    static const weft_log_level levels[] = {WEFT_LOG_DEBUG, WEFT_LOG_INFO, WEFT_LOG_WARN, WEFT_LOG_ERROR};

    return (weft_log){write_line, (void *)&levels[least]};
}

weft_log_level weft_cli_log_level(const char *name)
{
    if (strcmp(name, "debug") == 0)
        return WEFT_LOG_DEBUG;
    return strcmp(name, "warn") == 0 ? WEFT_LOG_WARN : WEFT_LOG_INFO;
}
