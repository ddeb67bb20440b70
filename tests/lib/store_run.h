/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of lib/io share: a disk in memory per test, and calls that must work or must
 * be refused in certain words. */
#ifndef STORE_RUN_H
#define STORE_RUN_H

#include <weft/store.h>

#include "fault_io.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* last: it needs the headers above */
#include <cmocka.h>

static fault_fs *disk;
static const weft_io *io;

static inline int start(void **state)
{
    (void)state;
    disk = fault_fs_create();
    io = fault_fs_io(disk);
    return 0;
}

static inline int stop(void **state)
{
    (void)state;
    int open = fault_fs_open_files(disk);
    fault_fs_destroy(disk);
    return open; /* nobody forgot to close */
}

/* The expression says err where it hands the error on. */
#define ok(expression)                                                                             \
    do {                                                                                           \
        weft_error fine_ = {0};                                                                    \
        weft_error *err = &fine_;                                                                  \
        if ((expression) != WEFT_OK)                                                               \
            fail_msg("%s: %s", #expression, weft_error_text(&fine_));                              \
        weft_error_release(&fine_);                                                                \
    } while (0)

#define refused(expression, words)                                                                 \
    do {                                                                                           \
        weft_error bad_ = {0};                                                                     \
        weft_error *err = &bad_;                                                                   \
        assert_int_not_equal((expression), WEFT_OK);                                               \
        if (!strstr(weft_error_text(&bad_), words))                                                \
            fail_msg("\"%s\" does not say \"%s\"", weft_error_text(&bad_), words);                 \
        weft_error_release(&bad_);                                                                 \
    } while (0)

/* cmocka's entry of a test with a disk of its own. */
#define with_disk(test) cmocka_unit_test_setup_teardown(test, start, stop)

#endif
