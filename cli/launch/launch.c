/* SPDX-License-Identifier: Apache-2.0 */
/* weft train -n N with mpi: the ranks, started by mpirun. */
#include "job.h"
#include "net/token.h"
#include "stop.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

/* Cores are shared out by weft itself, so mpirun must not bind; ranks end each other over the
 * control channel, so mpirun need not, and says nothing.
 */
static const char *const mpirun[] = {
    "mpirun",
    "--quiet",
    "--bind-to",
    "none",
    "--oversubscribe",
    "--enable-recovery",
    "--mca",
    "orte_abort_on_non_zero_status",
    "0",
};
enum { N_MPIRUN = sizeof mpirun / sizeof mpirun[0], MOST_PATH = 4096 };

/* ---- mpirun ---- */

/* Where the ranks meet, and who may come: both new for every run. Kept out of the command line,
 * which everybody on the host can read. */
static weft_status set_environment(weft_error *err)
{
    unsigned char bytes[32];
    char hex[2 * sizeof bytes + 1], *master, *launcher;
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "no random bytes: %s", strerror(errno));
    for (size_t i = 0; i < sizeof bytes; i++) {
        hex[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
        hex[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
    }
    hex[2 * sizeof bytes] = '\0';
    master = weft_format("@weft-%ld-%.16s", (long)getpid(), hex + 48);
    launcher = weft_format("weft-%ld-%.16s-codes", (long)getpid(), hex + 48);
    if (!master || !launcher) {
        weft_free(master);
        weft_free(launcher);
        return weft_fail_memory(err);
    }
    hex[48] = '\0';
    const char *const pairs[][2] = {{"WEFT_MASTER", master},
                                    {"WEFT_LAUNCHER", launcher},
                                    {"WEFT_TOKEN", hex},
                                    {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
                                    {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
    int code = 0;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0] && !code; i++)
        code = setenv(pairs[i][0], pairs[i][1], 1);
    code = code ? code : unsetenv("WEFT_TOKEN_FILE");
    explicit_bzero(bytes, sizeof bytes);
    explicit_bzero(hex, sizeof hex);
    weft_free(master);
    weft_free(launcher);
    return code ? weft_fail_memory(err) : WEFT_OK;
}

/* The caller frees the array; the strings belong to others. */
static const char **command(int argc, char **argv, const char *program, const char *ranks)
{
    const char **line = weft_alloc_zero((size_t)(N_MPIRUN + argc + 4), sizeof *line);
    int n = N_MPIRUN;
    if (!line)
        return NULL;
    memcpy(line, mpirun, sizeof mpirun);
    line[n++] = "-n";
    line[n++] = ranks;
    line[n++] = program;
    memcpy(line + n, argv, (size_t)argc * sizeof *argv);
    return line;
}

/* In the child: becomes mpirun, which ends with its parent. A signal that asks for an end may be
 * sent to every process of a job, as Slurm does at its limit, and mpirun's answer would be to kill
 * the ranks a second later, which are saving: it is in a process group of its own, so that a
 * terminal's SIGINT does not reach it, and these signals stay blocked in it (the ranks get none of
 * that). What this launcher wants of it is told with SIGHUP. */
static void become(const char **line, int report, pid_t parent)
{
    sigset_t deaf;
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    sigemptyset(&deaf);
    sigaddset(&deaf, SIGINT);
    sigaddset(&deaf, SIGTERM);
    if (setpgid(0, 0) == 0 && null >= 0 && dup2(null, STDIN_FILENO) >= 0 &&
        prctl(PR_SET_PDEATHSIG, SIGHUP) == 0 && getppid() == parent &&
        sigprocmask(SIG_SETMASK, &deaf, NULL) == 0)
        execvp(line[0], (char *const *)line);
    int code = errno;
    if (write(report, &code, sizeof code) != sizeof code)
        _exit(126);
    _exit(127);
}

static weft_status start(const char **line, pid_t *child, weft_error *err)
{
    int ends[2], code = 0;
    pid_t parent = getpid();
    if (pipe2(ends, O_CLOEXEC) != 0)
        return weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "cannot make a pipe: %s", strerror(errno));
    *child = fork();
    if (*child == 0)
        become(line, ends[1], parent);
    int forked = errno;
    close(ends[1]);
    ssize_t got = *child > 0 ? read(ends[0], &code, sizeof code) : 0;
    close(ends[0]);
    if (*child < 0)
        return weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "cannot start a process: %s",
                         strerror(forked));
    if (got == 0)
        return WEFT_OK;
    waitpid(*child, NULL, 0);
    if (got == sizeof code && code == ENOENT)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "mpi is listed, and mpirun, which starts its ranks, is not in PATH; "
                         "install Open MPI (openmpi-bin), or list local instead");
    return weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "cannot start mpirun: %s", strerror(code));
}

/* ---- until the end ---- */

/* Ranks end each other within WEFT_RANK_GRACE_S once one has failed; who has not by then is
 * stopped, or worse. */
enum { FAILED_S = WEFT_RANK_GRACE_S + 2, KILLED_S = 3, AGAIN_S = 1 };

typedef struct launch {
    pid_t mpirun;
    weft_farewells codes;
    double asked_at; /* when an end was asked for; 0: it was not */
    double ask_at;   /* when the ranks are asked again */
    int ended_by;    /* the signal that asked for it at once; 0: none did */
    double kill_at;  /* when ranks are killed, 0: they need not be; each time mpirun has not ended
                        after it, it is treated worse */
    int kills;
} launch;

/* Whoever has stopped mpirun has stopped what it passes on, too. */
static void ask(launch *l)
{
    l->ask_at = weft_now() + AGAIN_S;
    kill(l->mpirun, SIGUSR1);
    kill(l->mpirun, SIGCONT);
}

/* The first asks the ranks to stop after this step, again and again, for mpirun may not have
 * started them yet; one that ends everything does not ask. */
static void pass_on(launch *l, int number)
{
    if (number == SIGUSR2)
        kill(l->mpirun, SIGUSR2);
    if (l->asked_at > 0 && !l->ended_by && weft_now() >= l->ask_at)
        ask(l);
    if (number <= 0 || number == SIGCHLD || number == SIGUSR2)
        return;
    if (l->asked_at == 0) {
        l->asked_at = weft_now();
        ask(l);
    } else if (weft_stop_ends(number, weft_now() - l->asked_at)) {
        l->ended_by = number;
        l->kill_at = weft_now();
    }
}

/* mpirun ends by itself when its ranks have; it is asked as well, for it may have ranks elsewhere.
 */
static void kill_ranks(launch *l)
{
    if (l->kill_at == 0 && l->codes.code && l->codes.code != weft_cli_exit_code(WEFT_ERR_STOPPED))
        l->kill_at = weft_now() + FAILED_S;
    if (l->kill_at == 0 || weft_now() < l->kill_at)
        return;
    weft_job_kill_ranks(l->mpirun);
    if (l->ended_by || l->kills > 0)
        kill(l->mpirun, l->kills > 1 ? SIGKILL : SIGHUP);
    l->kills++;
    l->kill_at = weft_now() + KILLED_S;
}

/* Ranks whose mpirun has gone are this process's own children then. */
static void kill_orphans(void)
{
    while (weft_job_kill_ranks(getpid()) > 0)
        while (waitpid(-1, NULL, 0) > 0)
            continue;
}

/* Passes signals on until mpirun ends. */
static int attend(pid_t child, const sigset_t *signals, int ranks, int fd)
{
    const struct timespec often = {.tv_nsec = 200000000};
    launch l = {.mpirun = child, .codes = {.fd = fd}};
    int status;
    pid_t ended;
    do {
        pass_on(&l, sigtimedwait(signals, NULL, &often));
        weft_farewells_take(&l.codes);
        kill_ranks(&l);
        ended = waitpid(child, &status, WNOHANG);
    } while (ended == 0 || (ended < 0 && errno == EINTR));
    weft_farewells_take(&l.codes);
    kill_orphans();
    if (l.ended_by)
        weft_stop_end_by(l.ended_by);
    if (l.codes.code)
        return l.codes.code;
    if (l.codes.n == ranks)
        return 0;
    if (l.asked_at > 0 && l.codes.n == 0) { /* nobody was there yet to say so */
        fputs("stopped by a signal before the first step\n", stderr);
        return weft_cli_exit_code(WEFT_ERR_STOPPED);
    }
    fprintf(stderr, "error: %d of %d ranks ended without a message\n", ranks - l.codes.n, ranks);
    return 1;
}

int weft_job_launch(int argc, char **argv, const weft_cli_options *options)
{
    char program[MOST_PATH];
    weft_error err = {0};
    pid_t child = 0;
    int fd = -1;
    sigset_t signals = *weft_stop_signals();
    sigaddset(&signals, SIGCHLD);
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 1);
    char *ranks = weft_format("%d", options->ranks);
    program[n > 0 ? n : 0] = '\0';
    const char **line = ranks ? command(argc, argv, program, ranks) : NULL;
    weft_status s = line ? set_environment(&err) : weft_fail_memory(&err);
    if (!s && n <= 0)
        s = weft_fail(&err, WEFT_ERR_IO, WEFT_NOWHERE, "cannot find this program's own file: %s",
                      strerror(errno));
    if (!s && (signal(SIGCHLD, SIG_DFL) == SIG_ERR || sigprocmask(SIG_BLOCK, &signals, NULL) != 0 ||
               prctl(PR_SET_CHILD_SUBREAPER, 1) != 0))
        s = weft_fail(&err, WEFT_ERR_IO, WEFT_NOWHERE, "cannot wait for signals: %s",
                      strerror(errno));
    s = s ? s : weft_farewells_listen(&fd, &err);
    s = s ? s : start(line, &child, &err);
    weft_token_forget(); /* the ranks have it */
    int code = s ? weft_cli_conclude(s, &err) : attend(child, &signals, options->ranks, fd);
    if (fd >= 0)
        close(fd);
    weft_free(line);
    weft_free(ranks);
    weft_error_release(&err);
    return code;
}
