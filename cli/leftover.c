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

enum { MOST_PATH = 4096 };

/* The program of a process; "" if it is none of this user's, or has ended. */
static void find_program(const char *pid, char program[MOST_PATH])
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%.20s/exe", pid);
    ssize_t n = readlink(path, program, MOST_PATH - 1);
    program[n > 0 ? n : 0] = '\0';
}

static long find_parent(const char *pid)
{
    char path[64], line[1024];
    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
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
    char self[MOST_PATH], other[MOST_PATH];
    int n = 0;
    DIR *proc = opendir("/proc");
    find_program("self", self);
    for (const struct dirent *e; proc && *self && (e = readdir(proc));) {
        if (!isdigit((unsigned char)e->d_name[0]) || find_parent(e->d_name) != (long)parent)
            continue;
        find_program(e->d_name, other);
        if (strcmp(self, other) == 0 && kill((pid_t)atol(e->d_name), SIGKILL) == 0)
            n++;
    }
    if (proc)
        closedir(proc);
    return n;
}
