/* SPDX-License-Identifier: Apache-2.0 */
/* This program once more, in a process of its own, as a user calls it; and the ends of processes.
 */
#ifndef WEFT_CLI_PROCESS_H
#define WEFT_CLI_PROCESS_H

#include <sys/types.h>
#include <weft/base.h>

/* Starts it in a folder (NULL: this one) with words that NULL ends, the first of them "weft". It
 * reads nothing, all that it prints goes to `out`, it gets SIGTERM when its parent ends and SIGALRM
 * after so many seconds (0: never). */
weft_status weft_process_start(const char *const *argv, const char *folder, int out, int seconds,
                               pid_t *child, weft_error *err);
/* Waits until it ends. Returns its exit code, or 128 and the signal that ended it. */
int weft_process_wait(pid_t child);
/* The same of what waitpid() said. */
int weft_process_code(int state);
/* Starts it and waits. text: what it printed. Returns weft_process_wait's, 1 if no process could be
 * had. */
int weft_process_call(const char *const *argv, const char *folder, int seconds, weft_text *text);

#endif
