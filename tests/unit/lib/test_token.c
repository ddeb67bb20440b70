/* SPDX-License-Identifier: Apache-2.0 */
/* Where the token comes from, when one is due, and where rank 0 listens. */
#include "../../lib/intruder.h"
#include "net/token.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
/* last: it needs the headers above */
#include <cmocka.h>

enum { NOBODY = 65534 };

static char folder[] = "/tmp/weft-token-XXXXXX", path[64];

static int make_folder(void **state)
{
    (void)state;
    unsetenv("WEFT_TOKEN");
    unsetenv("WEFT_TOKEN_FILE");
    if (!mkdtemp(folder))
        return -1;
    snprintf(path, sizeof path, "%s/token", folder);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static void write_file(const char *bytes, size_t n, mode_t mode)
{
    unlink(path);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(bytes, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(path, mode), 0);
}

/* reason NULL: it is read, and is `due`. */
static void assert_read(const char *due, const char *reason)
{
    char *got;
    weft_error err = {0};
    weft_status s = weft_token_read(&got, &err);
    if (!reason) {
        assert_string_equal(weft_error_text(&err), "");
        assert_string_equal(got, due);
    } else {
        assert_int_equal(s, WEFT_ERR_INPUT);
        assert_null(got);
        assert_non_null(strstr(weft_error_text(&err), reason));
    }
    weft_token_destroy(got);
    weft_error_release(&err);
}

static void test_environment(void **state)
{
    (void)state;
    assert_read("", NULL);
    assert_int_equal(setenv("WEFT_TOKEN", "from there", 1), 0);
    assert_read("from there", NULL);
    assert_int_equal(setenv("WEFT_TOKEN_FILE", path, 1), 0);
    assert_read(NULL, "both set");
    assert_int_equal(setenv("WEFT_TOKEN", "", 1), 0);
    write_file("from a file\n", 12, 0600);
    assert_read("from a file", NULL);
    unsetenv("WEFT_TOKEN");
    unsetenv("WEFT_TOKEN_FILE");
}

/* Not in the environment, not in what /proc shows of it; the copy not in a core dump. */
static void test_forgotten(void **state)
{
    (void)state;
    static char entry[] = "WEFT_TOKEN=what nobody may find";
    const size_t name = strlen("WEFT_TOKEN=");
    char *got, line[512];
    weft_error err = {0};
    bool inside = false, undumped = false;
    assert_int_equal(putenv(entry), 0);
    assert_int_equal(weft_token_read(&got, &err), WEFT_OK);
    weft_token_forget();
    assert_null(getenv("WEFT_TOKEN"));
    for (size_t i = name; i < sizeof entry; i++)
        assert_int_equal(entry[i], 0);
    assert_string_equal(got, "what nobody may find");
    FILE *maps = fopen("/proc/self/smaps", "r");
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps)) {
        unsigned long from, to;
        if (sscanf(line, "%lx-%lx ", &from, &to) == 2)
            inside = (uintptr_t)got >= from && (uintptr_t)got < to;
        if (inside && strncmp(line, "VmFlags:", 8) == 0)
            undumped = strstr(line, " dd") != NULL;
    }
    fclose(maps);
    assert_true(undumped);
    weft_token_destroy(got);
    weft_token_forget(); /* there is none */
}

static void test_files(void **state)
{
    (void)state;
    static const mode_t loose[] = {0640, 0604, 0620, 0610, 0666, 0601};
    assert_int_equal(setenv("WEFT_TOKEN_FILE", path, 1), 0);
    unlink(path);
    assert_read(NULL, "No such file");
    for (size_t i = 0; i < sizeof loose / sizeof loose[0]; i++) {
        write_file("secret\n", 7, loose[i]);
        assert_read(NULL, "chmod 600");
    }
    write_file("secret\r\n", 8, 0400);
    assert_read("secret", NULL);
    write_file("", 0, 0600);
    assert_read(NULL, "one line");
    write_file("\n\n", 2, 0600);
    assert_read(NULL, "one line");
    write_file("one\ntwo\n", 8, 0600);
    assert_read(NULL, "one line");
    write_file("one\0two\n", 8, 0600);
    assert_read(NULL, "one line");
    char much[5000];
    memset(much, 'x', sizeof much);
    write_file(much, sizeof much, 0600);
    assert_read(NULL, "one line");
    unlink(path);
    assert_int_equal(mkfifo(path, 0600), 0);
    assert_read(NULL, "not a regular file");
    unlink(path);
    assert_int_equal(setenv("WEFT_TOKEN_FILE", folder, 1), 0);
    assert_read(NULL, "not a regular file");
    unsetenv("WEFT_TOKEN_FILE");
}

static void test_foreign_file(void **state)
{
    (void)state;
    if (geteuid() != 0)
        return;
    assert_int_equal(setenv("WEFT_TOKEN_FILE", path, 1), 0);
    write_file("secret\n", 7, 0600);
    assert_int_equal(chown(path, NOBODY, NOBODY), 0);
    assert_read(NULL, "belongs to user 65534, and this process runs as user 0");
    unsetenv("WEFT_TOKEN_FILE");
}

/* ---- when one is due ---- */

static void assert_refused(int rank, const char *master, const char *what, const char *reason)
{
    const weft_join join = {
        .rank = rank, .ranks = 2, .master = master, .token = what, .limit_s = 5};
    weft_control *control;
    weft_error err = {0};
    assert_int_equal(weft_control_join(&join, &control, &err), WEFT_ERR_INPUT);
    assert_null(control);
    assert_non_null(strstr(weft_error_text(&err), reason));
    weft_error_release(&err);
}

static void test_tcp_needs_one(void **state)
{
    (void)state;
    static const char *const masters[] = {"127.0.0.1:29999", "[::1]:29999", "localhost:29999",
                                          "0.0.0.0:29999"};
    for (size_t i = 0; i < sizeof masters / sizeof masters[0]; i++) {
        for (int rank = 0; rank < 2; rank++) {
            assert_refused(rank, masters[i], "", "WEFT_TOKEN_FILE");
            assert_refused(rank, masters[i], "fifteen letters", "it needs at least 16");
        }
    }
}

/* The kernel says who is there; but one side's token is the other side's, too. */
static void test_a_name_needs_none(void **state)
{
    (void)state;
    for (int with = 0; with < 2; with++) {
        char master[64];
        honest zero, one = {0};
        honest_start(&zero, 0, 2, new_name(master), 1);
        one.join = (weft_join){
            .rank = 1, .ranks = 2, .master = master, .token = with ? token : "", .limit_s = 5};
        weft_status s = weft_control_join(&one.join, &one.control, &one.err);
        honest_wait(&zero);
        assert_int_equal(s, with ? WEFT_OK : WEFT_ERR_PEER);
        assert_int_equal(zero.joined, s);
        if (!with)
            assert_non_null(strstr(weft_error_text(&one.err), "WEFT_TOKEN"));
        honest_release(&one);
        honest_release(&zero);
    }
}

static void *join_without(void *arg)
{
    honest *h = arg;
    h->joined = weft_control_join(&h->join, &h->control, &h->err);
    return NULL;
}

static void test_a_name_without_tokens(void **state)
{
    (void)state;
    char master[64];
    honest list[2] = {0};
    new_name(master);
    for (int i = 0; i < 2; i++) {
        list[i].join =
            (weft_join){.rank = i, .ranks = 2, .master = master, .token = "", .limit_s = 10};
        assert_int_equal(pthread_create(&list[i].thread, NULL, join_without, &list[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        honest_wait(&list[i]);
        assert_string_equal(weft_error_text(&list[i].err), "");
        assert_int_equal(list[i].joined, WEFT_OK);
    }
    for (int i = 0; i < 2; i++)
        honest_release(&list[i]);
}

/* ---- where rank 0 listens ---- */

static void test_foreign_address(void **state)
{
    (void)state;
    assert_refused(0, "192.0.2.1:29999", token,
                   "192.0.2.1 is not an address of this host, which has 127.0.0.1");
}

/* An address of this host that is not loopback, if it has one. */
static bool find_own(char *host)
{
    struct ifaddrs *list;
    bool found = false;
    assert_int_equal(getifaddrs(&list), 0);
    for (const struct ifaddrs *i = list; i && !found; i = i->ifa_next) {
        if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || i->ifa_flags & IFF_LOOPBACK)
            continue;
        const struct sockaddr_in *at = (const void *)i->ifa_addr;
        found = inet_ntop(AF_INET, &at->sin_addr, host, INET_ADDRSTRLEN) != NULL;
    }
    freeifaddrs(list);
    return found;
}

static void test_no_other_address(void **state)
{
    (void)state;
    char host[INET_ADDRSTRLEN], master[64], bound[INET_ADDRSTRLEN], why[WEFT_WHY];
    struct sockaddr_in at;
    socklen_t n = sizeof at;
    if (!find_own(host))
        return;
    snprintf(master, sizeof master, "%s:0", host);
    int fd = weft_socket_listen(master, 1, why);
    assert_true(fd >= 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &n), 0);
    assert_non_null(inet_ntop(AF_INET, &at.sin_addr, bound, sizeof bound));
    assert_string_equal(bound, host);
    close(fd);
}

/* What the name of rank 0's host is there, when nobody comes. */
static void test_the_address_is_told(void **state)
{
    (void)state;
    char master[64], name[64];
    honest zero;
    new_address(master);
    snprintf(name, sizeof name, "localhost%s", strchr(master, ':'));
    honest_start(&zero, 0, 2, name, 0.1);
    honest_wait(&zero);
    assert_true(strstr(weft_error_text(&zero.err), ", here 127.0.0.1) within 0.1 s") ||
                strstr(weft_error_text(&zero.err), ", here ::1) within 0.1 s"));
    honest_release(&zero);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_forgotten),
        cmocka_unit_test(test_files),
        cmocka_unit_test(test_foreign_file),
        cmocka_unit_test(test_tcp_needs_one),
        cmocka_unit_test(test_a_name_needs_none),
        cmocka_unit_test(test_a_name_without_tokens),
        cmocka_unit_test(test_foreign_address),
        cmocka_unit_test(test_the_address_is_told),
        cmocka_unit_test(test_no_other_address),
    };
    alarm(TEST_LIMIT_S);
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
