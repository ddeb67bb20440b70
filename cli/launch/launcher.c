/* SPDX-License-Identifier: Apache-2.0 */
/* Open MPI's mpirun, and its daemons on other hosts, where a host is gone: they tell each other of
 * the end, over connections that nobody answers, and wait as long as TCP tries, a quarter of an
 * hour. So a rank that has failed leaves a process behind that ends its own. */
#include "job.h"

#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_ABOVE = 8 };
/* Other ranks of the host end by then, and an mpirun that can. One that is asked twice within 5 s
 * asks nobody else. */
enum { LEAVE_MS = (WEFT_RANK_GRACE_S + 5) * 1000, AGAIN_MS = 2000, KILL_MS = 3000 };

static bool is_launcher(const char *program)
{
    static const char *const names[] = {"mpirun", "orterun", "orted", "prterun", "prted"};
    const char *slash = strrchr(program, '/'), *name = slash ? slash + 1 : program;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

/* The nearest above this process, which a script may have started; -1: there is none of this
 * user's. The process itself, and none that gets its number later. */
static int open_launcher(void)
{
    char program[WEFT_MOST_PROGRAM];
    long pid = (long)getppid();
    for (int i = 0; i < MOST_ABOVE && pid > 1; i++, pid = weft_job_find_parent(pid)) {
        weft_job_find_program(pid, program);
        if (is_launcher(program))
            return (int)syscall(SYS_pidfd_open, (pid_t)pid, 0);
    }
    return -1;
}

/* Is it still there after that time? */
static bool outlasts(int launcher, int ms)
{
    struct pollfd p = {.fd = launcher, .events = POLLIN};
    return poll(&p, 1, ms) == 0;
}

static void ask(int launcher, int number)
{
    syscall(SYS_pidfd_send_signal, launcher, number, NULL, 0);
}

/* In a child of a process with threads: system calls only. It is nobody's child, and holds nothing
 * open whose end somebody waits for. */
static void end_launcher(int launcher)
{
    if (setsid() < 0 || fork() != 0 || dup2(launcher, 0) != 0)
        _exit(0);
    syscall(SYS_close_range, 1U, ~0U, 0U);
    if (outlasts(0, LEAVE_MS)) {
        ask(0, SIGTERM);
        if (outlasts(0, AGAIN_MS))
            ask(0, SIGTERM);
        if (outlasts(0, KILL_MS))
            ask(0, SIGKILL);
    }
    _exit(0);
}

/* On one host nothing keeps mpirun, and weft train -n looks after its own. */
static bool is_on_hosts(void)
{
    const char *here = getenv("OMPI_COMM_WORLD_LOCAL_SIZE"), *all = getenv("OMPI_COMM_WORLD_SIZE");
    return here && all && strcmp(here, all) != 0 && !getenv("WEFT_LAUNCHER");
}

void weft_job_end(int code)
{
    weft_job_tell(code);
    int launcher = (code == 1 || code == 4) && is_on_hosts() ? open_launcher() : -1;
    if (launcher < 0)
        return;
    pid_t child = fork();
    if (child == 0)
        end_launcher(launcher);
    if (child > 0)
        waitpid(child, NULL, 0);
    close(launcher);
}
