/* SPDX-License-Identifier: Apache-2.0 */
/* Which files an object's libraries are. Only the dynamic linker knows: it is asked, as a program
 * of its own, to list what it would map. It runs nothing of what it lists. */
#include "vet.h"

#include "plugin/elf.h"

#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The linker that this program was started by. */
static const char *find_linker(void)
{
    static const char *const usual[] = {"/lib64/ld-linux-x86-64.so.2",
                                        "/lib/ld-linux-aarch64.so.1"};
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (access(usual[i], X_OK) == 0)
            return usual[i];
    return NULL;
}

/* "libm.so.6 => /lib/libm.so.6 (0x7f...)" or "/lib64/ld-linux.so.2 (0x7f...)": the path, NULL for
 * what is no file. */
static char *path_of(char *line, bool *missing)
{
    char *arrow = strstr(line, " => "), *p = arrow ? arrow + 4 : line + strspn(line, " \t");
    char *end = strstr(p, " (0x");
    *missing = strncmp(p, "not found", 9) == 0;
    if (end)
        *end = '\0';
    return end && *p == '/' ? p : NULL;
}

static _Noreturn void run_linker(const char *linker, const char *path, int out)
{
    char *const arguments[] = {(char *)(uintptr_t)linker, (char *)(uintptr_t) "--list",
                               (char *)(uintptr_t)path, NULL};
    char *const nothing[] = {NULL}; /* as a run under a lock is started */
    if (dup2(out, STDOUT_FILENO) >= 0)
        execve(linker, arguments, nothing);
    _exit(127);
}

typedef struct listing {
    weft_status (*each)(void *self, const char *real, weft_error *err);
    void *self;
    const char *of;
    weft_error *err;
} listing;

static weft_status read_listing(const listing *l, FILE *from)
{
    char *line = NULL, real[PATH_MAX];
    size_t room = 0;
    weft_status s = WEFT_OK;
    while (!s && getline(&line, &room, from) >= 0) {
        bool missing;
        const char *path = path_of(line, &missing);
        if (missing)
            s = weft_fail(l->err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                          "%s needs a library that is not there: %s", l->of,
                          line + strspn(line, " \t"));
        else if (path && !realpath(path, real))
            s = weft_fail(l->err, WEFT_ERR_INPUT, WEFT_NOWHERE, "%s: %s", path, strerror(errno));
        else if (path)
            s = l->each(l->self, real, l->err);
    }
    free(line); /* getline's */
    return s;
}

static weft_status list(const listing *l, const char *linker)
{
    int ends[2], state = 0;
    if (pipe(ends) != 0)
        return weft_fail(l->err, WEFT_ERR_IO, WEFT_NOWHERE, "no pipe to the dynamic linker: %s",
                         strerror(errno));
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        run_linker(linker, l->of, ends[1]);
    }
    close(ends[1]);
    FILE *from = child > 0 ? fdopen(ends[0], "r") : NULL;
    weft_status s = from ? read_listing(l, from) : WEFT_OK;
    if (from)
        fclose(from);
    else
        close(ends[0]);
    while (child > 0 && waitpid(child, &state, 0) < 0 && errno == EINTR)
        ;
    if (child < 0 || !from)
        return weft_fail(l->err, WEFT_ERR_IO, WEFT_NOWHERE, "no process for the dynamic linker: %s",
                         strerror(errno));
    if (!s && (!WIFEXITED(state) || WEXITSTATUS(state) != 0))
        s = weft_fail(l->err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                      "the dynamic linker cannot say which libraries %s needs", l->of);
    return s;
}

weft_status weft_vet_libraries(const char *path,
                               weft_status (*each)(void *self, const char *real, weft_error *err),
                               void *self, weft_error *err)
{
    const char *linker = find_linker();
    const listing l = {each, self, path, err};
    if (!linker)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "the dynamic linker of this system is not where it usually is, so the "
                         "libraries that plugins need cannot be told");
    return list(&l, linker);
}
