/* SPDX-License-Identifier: Apache-2.0 */
/* weft as a process of its own, so that what crashes or hangs is a verdict like others. */
#include "random.h"

#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* A run takes a tenth of a second; sanitizers and a machine that has much to do a hundred times as
 * long. */
enum { LIMIT_S = 120 };

static void become(const char *const arguments[], const char *out)
{
    const char *weft = getenv("WEFT");
    const char *words[RANDOM_ARGUMENTS + 2] = {weft ? weft : "./weft"};
    int n = 0, file = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    for (; arguments[n] && n < RANDOM_ARGUMENTS; n++)
        words[n + 1] = arguments[n];
    if (file < 0 || dup2(file, 1) < 0 || dup2(file, 2) < 0)
        _exit(99);
    alarm(LIMIT_S); /* stays behind exec */
    execv(words[0], (char *const *)words);
    _exit(99);
}

int random_run(const char *const arguments[], const char *out)
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        become(arguments, out);
    if (child < 0 || waitpid(child, &status, 0) != child)
        return 99;
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void random_tail(const char *path, char *out, size_t most)
{
    FILE *file = fopen(path, "rb");
    out[0] = '\0';
    if (!file)
        return;
    if (fseek(file, -(long)(most - 1), SEEK_END) != 0)
        rewind(file);
    out[fread(out, 1, most - 1, file)] = '\0';
    fclose(file);
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *where)
{
    (void)info, (void)kind, (void)where;
    return remove(path);
}

void random_remove(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
