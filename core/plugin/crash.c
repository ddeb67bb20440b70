/* SPDX-License-Identifier: Apache-2.0 */
/* Everything the handler does is async-signal-safe: it reads thread-local words and calls write,
 * raise and sigaction only. */
#include "plugin/crash.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

static _Thread_local int rank_now = -1;
static _Thread_local int64_t step_now = -1;
static _Atomic int64_t latest_step;

typedef struct line {
    char text[512];
    size_t n;
} line;

static void put(line *l, const char *s)
{
    while (*s && l->n < sizeof l->text - 1)
        l->text[l->n++] = *s++;
}

static void put_number(line *l, int64_t n)
{
    char digits[24];
    size_t i = sizeof digits - 1;
    digits[i] = '\0';
    do {
        digits[--i] = (char)('0' + n % 10);
        n /= 10;
    } while (n > 0);
    put(l, digits + i);
}

static const char *signal_name(int number)
{
    switch (number) {
    case SIGSEGV:
        return "SIGSEGV, a wrong address";
    case SIGBUS:
        return "SIGBUS, a wrong address or a file that shrank";
    case SIGFPE:
        return "SIGFPE, a wrong division";
    case SIGILL:
        return "SIGILL, an instruction that this processor lacks";
    default:
        return "SIGABRT";
    }
}

static void report(int number)
{
    weft_blame blame = weft_blame_get();
    line l = {.n = 0};
    put(&l, "weft: crashed in ");
    put(&l, blame.plugin ? "plugin " : "the core");
    put(&l, blame.plugin ? blame.plugin : "");
    if (blame.hook) {
        put(&l, ", hook ");
        put(&l, blame.hook);
    }
    if (step_now >= 0) {
        put(&l, ", step ");
        put_number(&l, step_now);
    }
    if (rank_now >= 0) {
        put(&l, ", rank ");
        put_number(&l, rank_now);
    }
    put(&l, " (");
    put(&l, signal_name(number));
    put(&l, ")\n");
    ssize_t written = write(STDERR_FILENO, l.text, l.n);
    (void)written; /* nothing is left to be done about it */
}

/* SA_RESETHAND has put the default action back: raising again ends the process as if nobody had
 * looked, core dump included. */
static void handle(int number)
{
    int saved = errno;
    report(number);
    errno = saved;
    raise(number);
}

weft_status weft_crash_install(weft_error *err)
{
    static const int signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    static char stack_memory[64 * 1024];
    stack_t stack = {.ss_sp = stack_memory, .ss_size = sizeof stack_memory};
    if (sigaltstack(&stack, NULL) != 0)
        return weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "no signal stack for crash reports: %s",
                         strerror(errno));
    struct sigaction action = {.sa_handler = handle,
                               .sa_flags = (int)(SA_RESETHAND | SA_NODEFER | SA_ONSTACK)};
    sigemptyset(&action.sa_mask);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        if (sigaction(signals[i], &action, NULL) != 0)
            return weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "no crash reports: %s",
                             strerror(errno));
    return WEFT_OK;
}

void weft_crash_set_rank(int rank)
{
    rank_now = rank;
}

void weft_crash_set_step(int64_t step)
{
    step_now = step;
    if (step >= 0)
        atomic_store_explicit(&latest_step, step, memory_order_relaxed);
}

int64_t weft_crash_latest_step(void)
{
    return atomic_load_explicit(&latest_step, memory_order_relaxed);
}
