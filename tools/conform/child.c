/* SPDX-License-Identifier: Apache-2.0 */
/* Processes that look for findings, and how these come back. */
#include "conform.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

/* One write a line: processes share the pipe. */
static void send_line(const conform *c, const char *word, const char *format, va_list args)
{
    char line[2000];
    int n = snprintf(line, sizeof line, "%s ", word);
    n += vsnprintf(line + n, sizeof line - (size_t)n - 1, format, args);
    n = n < (int)sizeof line - 2 ? n : (int)sizeof line - 2;
    for (int i = 0; i < n; i++)
        line[i] = line[i] == '\n' ? ' ' : line[i];
    line[n++] = '\n';
    ssize_t sent = write(c->out, line, (size_t)n);
    (void)sent; /* nobody listens: there is nobody to tell */
}

void conform_fail(const conform *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    send_line(c, "FAIL", format, args);
    va_end(args);
}

void conform_skip(const conform *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    send_line(c, "SKIP", format, args);
    va_end(args);
}

static void send_count(const conform *c, const char *format, ...) WEFT_PRINTF(2, 3);

static void send_count(const conform *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    send_line(c, "COUNT", format, args);
    va_end(args);
}

void conform_count(const conform *c, const char *kind, int n)
{
    if (n)
        send_count(c, "%d %s", n, kind);
}

void conform_now(const conform *c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(c->now, CONFORM_NOW, format, args);
    va_end(args);
}

void *conform_share(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

void conform_check_output(const conform *c, const char *who)
{
    char text[200];
    fflush(stdout);
    ssize_t n = pread(c->printed, text, sizeof text - 1, 0);
    if (n <= 0)
        return;
    text[n] = '\0';
    text[strcspn(text, "\n")] = '\0';
    conform_fail(c, "%s: output: prints \"%s\"; a plugin prints nothing: words go to host->log",
                 who, text);
    if (ftruncate(c->printed, 0) == 0)
        lseek(c->printed, 0, SEEK_SET);
}

/* ---- the process ---- */

static char *now_shared; /* of this process */

/* Whose hook it was in, behind what is being done. */
static void note_hook(int number)
{
    const weft_blame blame = weft_blame_get();
    const char *const words[] = {", in hook ", blame.hook, blame.op ? " of op " : "",
                                 blame.op ? blame.op : ""};
    for (size_t i = 0; blame.plugin && blame.hook && i < sizeof words / sizeof words[0]; i++)
        strncat(now_shared, words[i], CONFORM_NOW - 1 - strlen(now_shared));
    signal(number, SIG_DFL);
    raise(number);
}

static _Noreturn void begin(const conform *c, int printed, double seconds,
                            void (*part)(const conform *c, void *self), void *self)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    const struct rlimit no_core = {0, 0};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        signal(signals[i], SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setrlimit(RLIMIT_CORE, &no_core);
    dup2(printed, STDOUT_FILENO);
    dup2(printed, STDERR_FILENO);
    now_shared = c->now;
    signal(SIGALRM, note_hook);
    alarm((unsigned)seconds);
    conform own = *c;
    own.printed = printed;
    part(&own, self);
    fflush(stdout);
    conform_now(c, "%s", "");
    _exit(0);
}

static void tell_end(const conform *c, int state, const char *now)
{
    int signal = WIFSIGNALED(state) ? WTERMSIG(state) : 0;
    if (signal == SIGALRM)
        conform_fail(c, "%s: time: does not end", now);
    else if (signal)
        conform_fail(c, "%s: crash: crashed (signal %d, %s)", now, signal, strsignal(signal));
    else
        conform_fail(c, "%s: exit: ended the process (exit code %d); return an error instead", now,
                     WEXITSTATUS(state));
}

bool conform_isolate(const conform *c, double seconds, void (*part)(const conform *c, void *self),
                     void *self)
{
    char first[CONFORM_NOW];
    int state = 0, printed = memfd_create("printed", MFD_CLOEXEC);
    snprintf(first, sizeof first, "%s", c->now);
    fflush(stdout);
    pid_t child = printed < 0 ? -1 : fork();
    if (child == 0)
        begin(c, printed, seconds, part, self);
    if (child < 0) {
        conform_fail(c, "%s: no process for it: %s", first, strerror(errno));
        if (printed >= 0)
            close(printed);
        return false;
    }
    while (waitpid(child, &state, 0) < 0 && errno == EINTR)
        ;
    bool ended = WIFEXITED(state) && WEXITSTATUS(state) == 0 && !*c->now;
    conform own = *c;
    own.printed = printed;
    conform_check_output(&own, ended ? first : c->now);
    if (!ended)
        tell_end(c, state, c->now);
    conform_now(c, "%s", first);
    close(printed);
    return ended;
}
