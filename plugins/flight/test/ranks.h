/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks driven by hand over a transport that does nothing. */
#ifndef WEFT_FLIGHT_TEST_RANKS_H
#define WEFT_FLIGHT_TEST_RANKS_H

#include "../flight.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sys/types.h>

enum { RANKS = 4 };

typedef struct fixture {
    struct weft_settings *settings;
    weft_host host[RANKS];
    weft_command_host command;
    weft_log log;
    weft_text lines, out;
    weft_error err;
    flight *rank[RANKS];
    void *all[RANKS], *pair[RANKS]; /* groups: everybody; 0 and 1, 2 and 3 */
    char dir[64];
} fixture;

extern weft_status result; /* of what the transport does next */

const weft_transport *wrapped(void);
void event(fixture *f, int rank, weft_event which, weft_run_view run);
/* All of them, in step 7. */
void begin(fixture *f, const char *ini);
void end_rank(fixture *f, int rank);
int setup(void **state);
int teardown(void **state);
/* The rank computes in this block. */
void at(fixture *f, int rank, const char *op, int block);
void collective(fixture *f, int rank, void *of, int64_t count);
/* The rank is inside it and stays there: as if the call had not come back. */
void enters(fixture *f, int rank, void *of, int64_t count);
/* weft flight, with this option; it looks once. */
weft_status command(fixture *f, const char *word, const char *value);
void says(fixture *f, const char *words);
void says_not(fixture *f, const char *words);
void warns(fixture *f, const char *words);
void path_of(fixture *f, int rank, char *path, size_t size);
/* The record says that it is this process. */
void becomes(fixture *f, int rank, int64_t pid);
void is_gone(fixture *f, int rank);
void ends_with(fixture *f, int rank, weft_status status);
/* As enters(), of a transfer that is waited for. */
void receives(fixture *f, int rank, int from);
/* As fork(), which does not fail; the child ends with its parent. */
pid_t forked(void);
/* A process that does nothing, and is stopped. */
pid_t stopped_process(void);
void end_process(pid_t pid);

#endif
