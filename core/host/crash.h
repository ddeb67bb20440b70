/* SPDX-License-Identifier: Apache-2.0 */
/* Crash reports: which plugin, hook, step and rank. Installed by the cli only; a library never
 * touches its process' signals. */
#ifndef WEFT_PLUGIN_CRASH_H
#define WEFT_PLUGIN_CRASH_H

#include <weft/base.h>

/* From now on SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT print one line to stderr, "weft: crashed
 * in plugin X, hook Y, step N, rank R", and then do what they would have done. Call once, from the
 * main thread, which also gets a signal stack of its own (a stack overflow is reported too). */
weft_status weft_crash_install(weft_error *err);
/* Where code of this plugin is: in the shared object that has this address in it. The name must
 * last for ever. */
void weft_crash_note_plugin(const char *name, const void *inside);
/* The calling thread's rank and step, for its crash report; negative (as at first): not known, left
 * out. */
void weft_crash_set_rank(int rank);
void weft_crash_set_step(int64_t step);
/* The report goes to this open file, too, to that place of it; -1: to none. */
void weft_crash_set_record(int fd, int64_t at);
/* The step that any thread has set last; 0: none yet. For signal handlers. */
int64_t weft_crash_latest_step(void);

#endif
