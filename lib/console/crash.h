/* SPDX-License-Identifier: Apache-2.0 */
/* Crash reports: which plugin, hook, step and rank. Installed by the cli only; a library never
 * touches its process' signals. */
#ifndef WEFT_LIB_CONSOLE_CRASH_H
#define WEFT_LIB_CONSOLE_CRASH_H

#include "host/plugins.h"

#include <pthread.h>

/* From now on SIGSEGV, SIGBUS, SIGFPE, SIGILL and SIGABRT print one line to stderr, "weft: crashed
 * in plugin X, hook Y, step N, rank R", and then do what they would have done. Call once, from the
 * main thread, which also gets a signal stack of its own (a stack overflow is reported too). SIGINT
 * and SIGTERM, unless they are ignored, do the same, with "weft: ended in plugin X, hook Y", where
 * the thread that gets them is in a plugin. */
weft_status weft_crash_install(weft_error *err);
/* For whoever is about to end the process from another thread: prints that line of a thread, where
 * that is in a plugin; of the main one. */
void weft_crash_show(pthread_t thread);
void weft_crash_show_main(void);
/* Where code of this plugin is: in the shared object that has its descriptor in it, which stays
 * mapped for ever. A crash in a thread that the plugin has started names it then. */
void weft_crash_note_plugin(const weft_module *module);
void weft_crash_note_plugins(const weft_plugins *plugins);
/* The report goes to this open file, too, to that place of it; -1: to none. */
void weft_crash_set_record(int fd, int64_t at);

#endif
