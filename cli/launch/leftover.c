/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that are left over: stopped, or deaf to everything else. */
#include "job.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void weft_job_find_program(long pid, char program[WEFT_MOST_PROGRAM])
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%ld/exe", pid);
    ssize_t n = readlink(path, program, WEFT_MOST_PROGRAM - 1);
    program[n > 0 ? n : 0] = '\0';
}

long weft_job_find_parent(long pid)
{
    char path[64], line[1024];
    snprintf(path, sizeof path, "/proc/%ld/stat", pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, line, sizeof line - 1) : 0;
    if (fd >= 0)
        close(fd);
    line[n > 0 ? n : 0] = '\0';
    const char *after = strrchr(line, ')'); /* the name before may hold anything */
    long parent = -1;
    return after && sscanf(after, ") %*c %ld", &parent) == 1 ? parent : -1;
}

int weft_job_kill_ranks(pid_t parent)
{
    char self[WEFT_MOST_PROGRAM], other[WEFT_MOST_PROGRAM];
    int n = 0;
    DIR *proc = opendir("/proc");
    weft_job_find_program((long)getpid(), self);
    for (const struct dirent *e; proc && *self && (e = readdir(proc));) {
        long pid = atol(e->d_name);
        if (!isdigit((unsigned char)e->d_name[0]) || weft_job_find_parent(pid) != (long)parent)
            continue;
        weft_job_find_program(pid, other);
        if (strcmp(self, other) == 0 && kill((pid_t)pid, SIGKILL) == 0)
            n++;
    }
    if (proc)
        closedir(proc);
    return n;
}
