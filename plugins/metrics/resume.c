/* SPDX-License-Identifier: Apache-2.0 */
/* A run that goes on from a checkpoint: lines of later steps, which will be made again, go. */
#include "metrics.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

weft_status metrics_cut(int fd, const char *path, int64_t step, weft_error *err)
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
    if (failed || (later >= 0 && ftruncate(fd, later) != 0))
        return weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE,
                         "%s: cannot be cut back to step %" PRId64 ": %s", path, step,
                         strerror(errno));
    return WEFT_OK;
}
