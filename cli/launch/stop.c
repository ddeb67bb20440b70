/* SPDX-License-Identifier: Apache-2.0 */
#include "stop.h"
#include "base/blame.h"
#include "cli.h"
#include "console/crash.h"
#include "launch/job.h"
#include "record.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const double same_interrupt_s = 1, same_request_s = 5;

static volatile sig_atomic_t asked, saves;
static sigset_t taken; /* what weft_stop_take has blocked */
static bool any;

/* What a thread does that has a limit: ranks may be threads, each with its own. */
typedef struct limited {
    double limit_s, from; /* 0: it does nothing of the kind */
    const char *what;
    pthread_t thread;
} limited;

enum { MAX_LIMITED = 1025 }; /* as many ranks as may be threads, and one more */

static pthread_mutex_t limits_lock = PTHREAD_MUTEX_INITIALIZER;
static limited limits[MAX_LIMITED];
static int n_limits; /* that have ever been used */

bool weft_stop_ends(int number, double after_s)
{
    if (number == SIGHUP)
        return false;
    return after_s > (number == SIGINT ? same_interrupt_s : same_request_s);
}

const volatile sig_atomic_t *weft_stop_asked(void)
{
    return &asked;
}

const volatile sig_atomic_t *weft_stop_saves(void)
{
    return &saves;
}

/* ---- */

weft_status weft_stop_take(weft_error *err)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGUSR1, SIGHUP, SIGUSR2};
    struct sigaction before;
    sigemptyset(&taken);
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++)
        if (signals[i] != SIGHUP || sigaction(SIGHUP, NULL, &before) != 0 ||
            before.sa_handler != SIG_IGN) /* nohup */
            sigaddset(&taken, signals[i]);
    signal(SIGPIPE, SIG_IGN); /* a run outlives whoever reads its messages */
    int code = pthread_sigmask(SIG_BLOCK, &taken, NULL);
    any = code == 0;
    return code == 0 ? WEFT_OK
                     : weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "cannot block signals: %s",
                                 strerror(code));
}

const sigset_t *weft_stop_signals(void)
{
    return &taken;
}

void weft_stop_end_by(int number)
{
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, number);
    weft_record_end(128 + number, "a second signal ended it at once");
    signal(number, SIG_DFL);
    raise(number);
    pthread_sigmask(SIG_UNBLOCK, &one, NULL);
}

static void acknowledge(void)
{
    long long step = (long long)weft_blame_latest_step();
    const char *begin = weft_cli_terminal() ? "\r\033[K" : "";
    char line[128];
    if (step > 0)
        snprintf(line, sizeof line, "%sstopping after this step (%lld); again to end at once\n",
                 begin, step);
    else
        snprintf(line, sizeof line, "%sstopping before the first step; again to end at once\n",
                 begin);
    fputs(line, stderr);
}

/* ---- before the first step, where there is nothing to lose ---- */

static bool is_starting(void)
{
    return weft_blame_latest_step() == 0;
}

/* Under the lock: this thread's, or one that nobody uses; NULL: there is none. */
static limited *find_limit(void)
{
    limited *unused = NULL;
    for (int i = 0; i < n_limits; i++) {
        if (limits[i].limit_s > 0 && pthread_equal(limits[i].thread, pthread_self()))
            return &limits[i];
        if (limits[i].limit_s <= 0)
            unused = &limits[i];
    }
    return unused || n_limits == MAX_LIMITED ? unused : &limits[n_limits++];
}

void weft_stop_limit(double limit_s, const char *what)
{
    pthread_mutex_lock(&limits_lock);
    limited *l = find_limit();
    if (l)
        *l = (limited){limit_s, weft_now(), what, pthread_self()};
    pthread_mutex_unlock(&limits_lock);
}

/* What waits in a hook for another rank is to be ended by who finds that rank stopped, up to a
 * quarter after the limit (lib/net), and names it: this comes later. */
static bool is_over(const limited *l, double now)
{
    const double later_s = fmin(fmax(l->limit_s / 2, 3), 240),
                 from = fmax(l->from, weft_cli_log_spoke());
    return l->limit_s > 0 && now > from + l->limit_s + later_s;
}

/* Of those that are over, the one that has begun first. */
static bool find_over(double now, limited *out)
{
    bool found = false;
    pthread_mutex_lock(&limits_lock);
    for (int i = 0; i < n_limits; i++)
        if (is_over(&limits[i], now) && (!found || limits[i].from < out->from)) {
            *out = limits[i];
            found = true;
        }
    pthread_mutex_unlock(&limits_lock);
    return found;
}

/* Whatever threads are in, and may be for ever. */
static _Noreturn void end_start(bool speaks, weft_status status, const char *why)
{
    const int code = weft_cli_exit_code(status);
    if (speaks)
        fprintf(stderr, "%s%s\n", status == WEFT_ERR_STOPPED ? "" : "error: ", why);
    weft_record_end(code, why);
    weft_job_end(code);
    _exit(code);
}

static void look_at_start(bool speaks, double asked_at, bool hung_up)
{
    char why[160];
    limited late = {0};
    const double now = weft_now();
    if (asked && !hung_up && now - asked_at > same_request_s) {
        weft_crash_show_main();
        end_start(speaks, WEFT_ERR_STOPPED, "stopped by a signal before the first step");
    }
    if (!find_over(now, &late))
        return;
    weft_crash_show(late.thread);
    snprintf(why, sizeof why,
             "%s is not done after %g s ([weft] start_timeout); a greater one waits longer",
             late.what, late.limit_s);
    end_start(speaks, WEFT_ERR_RUN, why);
}

static int await_signal(void)
{
    const struct timespec often = {.tv_nsec = 500000000};
    return is_starting() ? sigtimedwait(&taken, NULL, &often) : sigwaitinfo(&taken, NULL);
}

static void *attend(void *arg)
{
    const bool *speaks = arg, launched = getenv("WEFT_LAUNCHER") != NULL;
    double asked_at = 0;
    bool hung_up = false;
    for (;;) {
        int number = await_signal();
        if (is_starting())
            look_at_start(*speaks, asked_at, hung_up);
        if (number == SIGUSR2) {
            saves++;
        } else if (number > 0 && !asked) {
            asked_at = weft_now();
            hung_up = number == SIGHUP;
            asked = 1;
            if (*speaks && number != SIGHUP) /* the terminal is gone: nobody is left to be told */
                acknowledge();
        } else if (number > 0 && !launched && weft_stop_ends(number, weft_now() - asked_at)) {
            weft_crash_show_main();
            weft_stop_end_by(number);
        }
    }
    return NULL;
}

/* Signals end the process as they are; limits hold all the same. */
static void *watch(void *arg)
{
    const bool *speaks = arg;
    const struct timespec often = {.tv_nsec = 500000000};
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL); /* they are for who computes, and is named */
    for (;;) {
        nanosleep(&often, NULL);
        if (is_starting())
            look_at_start(*speaks, 0, false);
    }
    return NULL;
}

weft_status weft_stop_attend(bool speaks, weft_error *err)
{
    static bool said; /* the thread lives as long as the process */
    pthread_t thread;
    said = speaks;
    int code = pthread_create(&thread, NULL, any ? attend : watch, &said);
    if (code)
        return weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "cannot start a thread for signals: %s",
                         strerror(code));
    pthread_detach(thread);
    return WEFT_OK;
}
