/* SPDX-License-Identifier: Apache-2.0 */
#include <weft/base.h>

void weft_log_print(const weft_log *log, weft_log_level level, const char *format, ...)
{
    if (!log || !log->write)
        return;
    va_list args;
    va_start(args, format);
    char *line = weft_vformat(format, args);
    va_end(args);
    log->write(log->self, level, line ? line : "(out of memory while formatting a log line)");
    weft_free(line);
}
