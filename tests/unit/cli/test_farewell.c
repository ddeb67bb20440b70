/* SPDX-License-Identifier: Apache-2.0 */
/* What a launcher's ranks tell it at their end: nothing secret, and nobody else may. */
#include "launch/job.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
/* last: it needs the headers above */
#include <cmocka.h>

enum { NOBODY = 65534 };

static int set_up(void **state)
{
    char name[64];
    (void)state;
    snprintf(name, sizeof name, "weft-test-farewell-%ld", (long)getpid());
    return setenv("WEFT_LAUNCHER", name, 1) || setenv("WEFT_TOKEN", "not for the launcher", 1);
}

static void test_codes_are_counted(void **state)
{
    (void)state;
    weft_farewells f = {.fd = -1};
    weft_error err = {0};
    assert_int_equal(weft_farewells_listen(&f.fd, &err), WEFT_OK);
    weft_farewells_take(&f);
    assert_int_equal(f.n, 0);
    weft_job_tell(0);
    weft_job_tell(3);
    weft_job_tell(2);
    weft_farewells_take(&f);
    assert_int_equal(f.n, 3);
    assert_int_equal(f.code, 3);
    close(f.fd);
}

/* Somebody has taken the launcher's name. */
static void test_no_token_is_told(void **state)
{
    (void)state;
    char bytes[256];
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    const char *name = getenv("WEFT_LAUNCHER");
    int32_t code;
    memcpy(at.sun_path + 1, name, strlen(name));
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&at,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name))),
                     0);
    weft_job_tell(3);
    assert_int_equal(recv(fd, bytes, sizeof bytes, MSG_DONTWAIT), sizeof code);
    memcpy(&code, bytes, sizeof code);
    assert_int_equal(code, 3);
    close(fd);
}

static void test_others_do_not_count(void **state)
{
    (void)state;
    int status;
    weft_farewells f = {.fd = -1};
    weft_error err = {0};
    if (geteuid() != 0)
        return;
    assert_int_equal(weft_farewells_listen(&f.fd, &err), WEFT_OK);
    pid_t child = fork();
    if (child == 0) {
        int code = setuid(NOBODY);
        weft_job_tell(3);
        _exit(code ? 1 : 0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    weft_job_tell(0);
    weft_farewells_take(&f);
    assert_int_equal(f.n, 1);
    assert_int_equal(f.code, 0);
    close(f.fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_codes_are_counted),
        cmocka_unit_test(test_no_token_is_told),
        cmocka_unit_test(test_others_do_not_count),
    };
    alarm(60);
    return cmocka_run_group_tests(tests, set_up, NULL);
}
