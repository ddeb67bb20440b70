/* SPDX-License-Identifier: Apache-2.0 */
/* A program that runs where it was built. configure leaves a file .weft-build at the top of the
 * tree, whose one line is the tree's real path: so no path is compiled in, and a build gives the
 * same bytes wherever it is made. */
#include "host/internal.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Is this folder the top of the tree that the program was built in? A marker of somebody else's, or
 * one that was made elsewhere and linked here, is none. */
static bool is_build_tree(const char *folder, uid_t owner)
{
    char line[PATH_MAX + 1] = "", path[PATH_MAX + 16];
    struct stat st;
    snprintf(path, sizeof path, "%s/.weft-build", folder);
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0)
        return false;
    ssize_t n = fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == owner
                    ? read(fd, line, sizeof line - 1)
                    : 0;
    close(fd);
    return n > 1 && line[n - 1] == '\n' && (line[n - 1] = '\0', strcmp(line, folder) == 0);
}

bool weft_find_build_folder(char plugins[PATH_MAX])
{
    char program[PATH_MAX], path[PATH_MAX + 16], *slash;
    struct stat st;
    if (!realpath("/proc/self/exe", program) || stat(program, &st) != 0)
        return false;
    while ((slash = strrchr(program, '/')) && slash > program) {
        *slash = '\0';
        if (!is_build_tree(program, st.st_uid))
            continue;
        snprintf(path, sizeof path, "%s/plugins", program);
        return realpath(path, plugins) != NULL;
    }
    return false;
}
