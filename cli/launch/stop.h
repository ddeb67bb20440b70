/* SPDX-License-Identifier: Apache-2.0 */
/* How a run is asked to end, or to save, by signals. They are blocked in all threads but one, which
 * waits for them: computing threads must not be interrupted, for what a library computes with may
 * lie where a signal's handler has its stack (oneDNN's products of matrices do that). */
#ifndef WEFT_CLI_LAUNCH_STOP_H
#define WEFT_CLI_LAUNCH_STOP_H

#include <signal.h>
#include <weft/base.h>

/* Before any thread is started: SIGINT, SIGTERM, SIGUSR1, SIGUSR2 and, unless it is ignored, SIGHUP
 * are blocked, and wait for whoever takes them. */
weft_status weft_stop_take(weft_error *err);
/* Which of them were blocked. */
const sigset_t *weft_stop_signals(void);
/* Starts the thread that takes them: the first that asks for an end sets a flag, SIGUSR2 counts. A
 * further signal that ends everything at once does so, and names the plugin and hook that the main
 * thread is in; in a process that has a launcher of weft's that is the launcher's business. Before
 * the first step nothing is lost: there the first signal is enough, but for SIGHUP, however long
 * what runs would take. speaks: the first is acknowledged on standard error. Where
 * none are blocked it looks at limits alone. */
weft_status weft_stop_attend(bool speaks, weft_error *err);
/* Until it is told otherwise, nobody waits longer than this for the calling thread to be done with
 * what it does now ("planning"), of which nothing is lost, or for a line of the log: who says how
 * far it is does not hang. 0: for ever. Ranks that are threads have a limit each. Does nothing once
 * there was a step. what: lives as long as the process. */
void weft_stop_limit(double limit_s, const char *what);
/* Not 0: the run is to end. */
const volatile sig_atomic_t *weft_stop_asked(void);
/* How often it was asked to save. */
const volatile sig_atomic_t *weft_stop_saves(void);

/* What signal `number` means so long after the one that asked for the end: to end at once, without
 * waiting for anything? Launchers and schedulers send the same request several times, and to every
 * process there is, so what comes soon means nothing new. SIGHUP never does: a terminal that goes
 * may say so twice. */
bool weft_stop_ends(int number, double after_s);
/* Ends this process as if nobody had blocked that signal. */
void weft_stop_end_by(int number);

#endif
