/* SPDX-License-Identifier: Apache-2.0 */
/* Which files an object's libraries are. Only the dynamic linker knows: it is asked, as a program
 * of its own, to list what it would map. It runs nothing of what it lists. */
#include "vet.h"

#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
static char *path_of(char *line, const char **name, bool *bare, bool *missing)
{
    char *begin = line + strspn(line, " \t"), *arrow = strstr(begin, " => "),
         *p = arrow ? arrow + 4 : begin, *end = strstr(p, " (0x");
    *missing = strncmp(p, "not found", 9) == 0;
    if (end)
        *end = '\0';
    if (arrow)
        *arrow = '\0';
    const char *slash = strrchr(begin, '/');
    *bare = arrow;
    *name = arrow || !slash ? begin : slash + 1;
    return end && *p == '/' ? p : NULL;
}

typedef struct listing {
    weft_vet_library *each;
    void *self;
    const char *of, *more;
    weft_error *err;
} listing;

/* In an environment like that in which a run under a lock is started, but for what is asked for. */
static _Noreturn void run_linker(const char *linker, const listing *l, int out)
{
    char *const arguments[] = {(char *)(uintptr_t)linker, (char *)(uintptr_t) "--list",
                               (char *)(uintptr_t)l->of, NULL};
    char *preload = l->more ? weft_format("LD_PRELOAD=%s", l->more) : NULL;
    char *const environment[] = {preload, NULL};
    const int null = l->more ? open("/dev/null", O_WRONLY) : -1;
    if (null >= 0)
        dup2(null, STDERR_FILENO); /* that it is not there is no error */
    if (dup2(out, STDOUT_FILENO) >= 0)
        execve(linker, arguments, environment);
    _exit(127);
}

static weft_status read_listing(const listing *l, FILE *from)
{
    char *line = NULL, real[PATH_MAX];
    size_t room = 0;
    weft_status s = WEFT_OK;
    while (!s && getline(&line, &room, from) >= 0) {
        bool bare, missing;
        const char *name, *path = path_of(line, &name, &bare, &missing);
        if (missing)
            s = weft_fail(l->err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                          "%s needs the library %s, which is not there", l->of, name);
        else if (path && !realpath(path, real))
            s = weft_fail(l->err, WEFT_ERR_INPUT, WEFT_NOWHERE, "%s: %s", path, strerror(errno));
        else if (path)
            s = l->each(l->self, name, bare, real, l->err);
    }
    free(line); /* getline's */
    return s;
}

static weft_status list(const listing *l, const char *linker)
{
    int ends[2];
    if (pipe(ends) != 0)
        return weft_fail(l->err, WEFT_ERR_IO, WEFT_NOWHERE, "no pipe to the dynamic linker: %s",
                         strerror(errno));
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        run_linker(linker, l, ends[1]);
    }
    close(ends[1]);
    FILE *from = child > 0 ? fdopen(ends[0], "r") : NULL;
    weft_status s = from ? read_listing(l, from) : WEFT_OK;
    if (from)
        fclose(from);
    else
        close(ends[0]);
    const int code = child > 0 ? weft_process_wait(child) : 0;
    if (child < 0 || !from)
        return weft_fail(l->err, WEFT_ERR_IO, WEFT_NOWHERE, "no process for the dynamic linker: %s",
                         strerror(errno));
    if (!s && code != 0)
        s = weft_fail(l->err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                      "the dynamic linker cannot say which libraries %s needs", l->of);
    return s;
}

weft_status weft_vet_libraries(const char *path, const char *more, weft_vet_library *each,
                               void *self, weft_error *err)
{
    const char *linker = find_linker();
    const listing l = {each, self, path, more, err};
    if (!linker)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "the dynamic linker of this system is not where it usually is, so the "
                         "libraries that plugins need cannot be told");
    return list(&l, linker);
}
