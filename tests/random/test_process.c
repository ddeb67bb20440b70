/* SPDX-License-Identifier: Apache-2.0 */
/* A run that hangs is ended, one that is at work is not, however long it takes. */
#include "random.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int shell(const char *script, random_limits most)
{
    char out[] = "/tmp/weft-process-XXXXXX";
    const int file = mkstemp(out);
    assert_true(file >= 0);
    close(file);
    assert_int_equal(setenv("WEFT", "/bin/sh", 1), 0);
    const int code = random_run_within((const char *const[]){"-c", script, NULL}, out, &most);
    unlink(out);
    return code;
}

static void what_waits_for_ever_is_ended(void **state)
{
    (void)state;
    assert_int_equal(shell("exec sleep 600", (random_limits){.idle_s = 1, .busy_s = 600}),
                     128 + SIGALRM);
}

static void what_never_ceases_is_ended(void **state)
{
    (void)state;
    assert_int_equal(shell("while :; do :; done", (random_limits){.idle_s = 600, .busy_s = 1}),
                     128 + SIGALRM);
}

/* Twice as long as it might be idle. */
static void what_is_at_work_goes_on(void **state)
{
    (void)state;
    assert_int_equal(shell("end=$(($(date +%s) + 5)); while [ $(date +%s) -lt $end ]; do "
                           "i=0; while [ $i -lt 20000 ]; do i=$((i + 1)); done; done; exit 7",
                           (random_limits){.idle_s = 2, .busy_s = 600}),
                     7);
}

static void how_it_ended_is_told(void **state)
{
    const random_limits most = {.idle_s = 600, .busy_s = 600};
    (void)state;
    assert_int_equal(shell("exit 3", most), 3);
    assert_int_equal(shell("kill -9 $$", most), 128 + SIGKILL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_waits_for_ever_is_ended),
        cmocka_unit_test(what_never_ceases_is_ended),
        cmocka_unit_test(what_is_at_work_goes_on),
        cmocka_unit_test(how_it_ended_is_told),
    };
    return cmocka_run_group_tests_name("process", tests, NULL, NULL);
}
