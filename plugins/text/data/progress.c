/* SPDX-License-Identifier: Apache-2.0 */
/* How far tokenising is: a status line on a terminal, a line now and then in a log. */
#include "build.h"

void text_progress_start(text_progress *p, const weft_host *host, int64_t total)
{
    *p = (text_progress){.host = host, .total = total, .start = weft_now()};
    p->shown = p->start;
}

void text_progress_update(text_progress *p, int64_t done)
{
    double t = weft_now(), elapsed = t - p->start;
    if (t - p->shown < (p->host->terminal ? 0.2 : 10) || elapsed <= 0 || done <= 0)
        return;
    p->shown = t;
    p->line = p->host->terminal;
    double rate = (double)done / elapsed;
    long left = done < p->total ? (long)((double)(p->total - done) / rate + 0.5) : 0;
    weft_log_print(p->host->log, WEFT_LOG_INFO,
                   "%stext: tokenising %.1f of %.1f MB (%.0f %%), %.1f MB/s, %ld:%02ld:%02ld left",
                   p->line ? "\r" : "", (double)done / 1e6, (double)p->total / 1e6,
                   100 * (double)done / (double)(p->total > done ? p->total : done), rate / 1e6,
                   left / 3600, left / 60 % 60, left % 60);
}

double text_progress_end(text_progress *p)
{
    if (p->line)
        weft_log_print(p->host->log, WEFT_LOG_INFO, "\r");
    p->line = false;
    return weft_now() - p->start;
}
