/* SPDX-License-Identifier: Apache-2.0 */
/* weft as a process of its own, so that what crashes or hangs is a verdict like others. */
#include "random.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A run takes a tenth of a second; one whose memory is checked a minute, sanitizers and a machine
 * that has much to do make it a hundred times as long. So it is not the time that shows one that
 * hangs: it uses no processor, or more than any other does. */
static const random_limits limits = {.idle_s = 120, .busy_s = 900};

static void become(const char *const arguments[], const char *out)
{
    const char *weft = getenv("WEFT");
    const char *words[RANDOM_ARGUMENTS + 2] = {weft ? weft : "./weft"};
    int n = 0, file = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    for (; arguments[n] && n < RANDOM_ARGUMENTS; n++)
        words[n + 1] = arguments[n];
    if (file < 0 || dup2(file, 1) < 0 || dup2(file, 2) < 0)
        _exit(99);
    execv(words[0], (char *const *)words);
    _exit(99);
}

/* Seconds of a processor that a process has used, all its threads; 0 where there is no /proc. */
static double used_by(pid_t process)
{
    char path[64], text[1024];
    unsigned long long user = 0, system = 0;
    snprintf(path, sizeof path, "/proc/%ld/stat", (long)process);
    random_tail(path, text, sizeof text);
    const char *fields = strrchr(text, ')'); /* the name before may hold anything */
    if (!fields || sscanf(fields, ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user,
                          &system) != 2)
        return 0;
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

static void nothing(int number)
{
    (void)number;
}

/* Waiting ends each second, or does not: what a test did with SIGALRM before holds again. */
static void each_second(bool on)
{
    const struct itimerval second = {.it_interval.tv_sec = on, .it_value.tv_sec = on};
    const struct sigaction action = {.sa_handler = on ? nothing : SIG_DFL};
    if (on)
        sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &second, NULL);
    if (!on)
        sigaction(SIGALRM, &action, NULL);
}

static int await(pid_t child, const random_limits *most)
{
    const double little = most->idle_s / 60.0; /* of a processor: threads that wait look around */
    double before = 0;
    time_t since = time(NULL);
    int status = 0;
    while (waitpid(child, &status, 0) != child) {
        if (errno != EINTR)
            return 99;
        const double used = used_by(child);
        if (used - before >= little)
            before = used, since = time(NULL);
        if (used > most->busy_s || difftime(time(NULL), since) > most->idle_s)
            kill(child, SIGALRM);
    }
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

int random_run_within(const char *const arguments[], const char *out, const random_limits *most)
{
    fflush(stdout);
    pid_t child = fork();
    if (child == 0)
        become(arguments, out);
    if (child < 0)
        return 99;
    each_second(true);
    const int code = await(child, most);
    each_second(false);
    return code;
}

int random_run(const char *const arguments[], const char *out)
{
    return random_run_within(arguments, out, &limits);
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
