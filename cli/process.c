/* SPDX-License-Identifier: Apache-2.0 */
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static _Noreturn void become(const char *const *argv, const char *folder, int out, int seconds)
{
    const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    signal(SIGINT, SIG_DFL); /* whatever the command does of these */
    signal(SIGTERM, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    alarm((unsigned)seconds);
    if (nothing >= 0 && dup2(nothing, STDIN_FILENO) >= 0 && dup2(out, STDOUT_FILENO) >= 0 &&
        dup2(out, STDERR_FILENO) >= 0 && (!folder || chdir(folder) == 0))
        execv("/proc/self/exe", (char *const *)(uintptr_t)argv);
    _exit(1);
}

weft_status weft_process_start(const char *const *argv, const char *folder, int out, int seconds,
                               pid_t *child, weft_error *err)
{
    *child = fork();
    if (*child == 0)
        become(argv, folder, out, seconds);
    return *child > 0 ? WEFT_OK
                      : weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "no process for weft %s: %s",
                                  argv[1], strerror(errno));
}

int weft_process_code(int state)
{
    return WIFEXITED(state) ? WEXITSTATUS(state) : 128 + WTERMSIG(state);
}

int weft_process_wait(pid_t child)
{
    int state = 0;
    while (waitpid(child, &state, 0) < 0 && errno == EINTR)
        ;
    return weft_process_code(state);
}

int weft_process_call(const char *const *argv, const char *folder, int seconds, weft_text *text)
{
    char piece[4096];
    pid_t child = 0;
    const int said = memfd_create("said", MFD_CLOEXEC);
    const weft_status s =
        said < 0 ? WEFT_ERR_IO : weft_process_start(argv, folder, said, seconds, &child, NULL);
    const int code = s ? 1 : weft_process_wait(child);
    ssize_t n = 0;
    for (off_t at = 0; !s && (n = pread(said, piece, sizeof piece, at)) > 0; at += n)
        weft_text_add_bytes(text, piece, (size_t)n);
    if (said >= 0)
        close(said);
    return code;
}
