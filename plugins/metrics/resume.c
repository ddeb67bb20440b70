/* SPDX-License-Identifier: Apache-2.0 */
/* A run that goes on from a checkpoint: lines of later steps, which will be made again, go
 * elsewhere. */
#include "metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/files.h>

/* Where the lines at the end begin that are of later steps; -1: there are none. */
static int64_t find_later(FILE *f, int64_t step)
{
    char *line = NULL;
    size_t capacity = 0;
    int64_t at = 0, later = -1, of;
    for (ssize_t n; (n = getline(&line, &capacity, f)) > 0; at += n) {
        if (sscanf(line, "{\"step\": %" SCNd64, &of) != 1)
            continue;
        if (of <= step)
            later = -1; /* an earlier run in this folder went further */
        else if (later < 0)
            later = at;
    }
    free(line);
    return later;
}

static weft_status add(weft_journal *j, const char *data, size_t n, weft_error *err)
{
    weft_text text = {0};
    weft_text_add_bytes(&text, data, n);
    weft_status s = weft_journal_add(j, &text, err);
    weft_text_release(&text);
    return s ? s : weft_journal_write(j, err);
}

/* Whole, or not at all. */
static weft_status keep(int fd, const char *path, const char *to, int64_t from, weft_error *err)
{
    char piece[1 << 14], last = '\n';
    weft_journal j;
    weft_status s = weft_journal_init(&j, to, err);
    s = s ? s : weft_journal_open(&j, err);
    const off_t before = s ? -1 : lseek(j.fd, 0, SEEK_END);
    for (ssize_t n = 1; !s && n > 0; from += n) {
        n = pread(fd, piece, sizeof piece, from);
        if (n < 0)
            s = weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "%s: cannot read: %s", path,
                          strerror(errno));
        else if (n > 0)
            s = add(&j, piece, (size_t)n, err);
        last = n > 0 ? piece[n - 1] : last;
    }
    if (!s && last != '\n') /* of a run that was killed */
        s = add(&j, "\n", 1, err);
    if (s && before >= 0 && ftruncate(j.fd, before) != 0)
        weft_fail(err, s, WEFT_NOWHERE, "%s: cannot be cut back: %s", to, strerror(errno));
    weft_journal_release(&j);
    return s;
}

weft_status metrics_move(int fd, const char *path, const char *to, int64_t step, bool *moved,
                         weft_error *err)
{
    int own = fcntl(fd, F_DUPFD_CLOEXEC, 0); /* the stream closes it */
    FILE *f = own >= 0 ? fdopen(own, "r") : NULL;
    if (!f && own >= 0)
        close(own);
    if (!f)
        return weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "%s: cannot read: %s", path,
                         strerror(errno));
    rewind(f);
    int64_t later = find_later(f, step);
    bool failed = ferror(f) != 0;
    fclose(f);
    weft_status s = failed || later < 0 ? WEFT_OK : keep(fd, path, to, later, err);
    if (!s && (failed || (later >= 0 && ftruncate(fd, later) != 0)))
        return weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE,
                         "%s: cannot be cut back to step %" PRId64 ": %s", path, step,
                         strerror(errno));
    *moved = !s && later >= 0;
    return s;
}
