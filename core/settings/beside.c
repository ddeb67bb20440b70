/* SPDX-License-Identifier: Apache-2.0 */
/* Paths that mean the folder of the file that names them. */
#include "settings/internal.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

/* An absolute path, so that the effective INI says the same wherever it is read again. */
const char *weft_path_beside(weft_pool *pool, const char *path, weft_where at)
{
    char here[PATH_MAX];
    const char *slash = at.line > 0 && at.file ? strrchr(at.file, '/') : NULL;
    int n = slash ? (int)(slash - at.file) + 1 : 0;
    if (path[0] == '/')
        return path;
    if (n > 0 && at.file[0] == '/')
        return weft_pool_format(pool, "%.*s%s", n, at.file, path);
    if (!getcwd(here, sizeof here))
        return path; /* a folder that has gone: whoever opens it will say so */
    return weft_pool_format(pool, "%s/%.*s%s", here, n, n ? at.file : "", path);
}
