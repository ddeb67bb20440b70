/* SPDX-License-Identifier: Apache-2.0 */
/* The log's sink: whole lines in one piece, times, the file; and times and metrics as they are read
 * back. */
#include "cli.h"
#include "folder.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <weft/files.h>
/* last: it needs the headers above */
#include <cmocka.h>

/* Standard error, where every write is a message of its own. */
typedef struct tap {
    int kept, end;
} tap;

static void tap_begin(tap *t)
{
    int ends[2];
    fflush(stderr);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
    t->kept = dup(STDERR_FILENO);
    assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
    close(ends[1]);
    t->end = ends[0];
}

static void tap_end(const tap *t)
{
    dup2(t->kept, STDERR_FILENO);
    close(t->kept);
    close(t->end);
}

static size_t next(const tap *t, char *message, size_t size)
{
    ssize_t n = recv(t->end, message, size - 1, MSG_DONTWAIT);
    message[n > 0 ? n : 0] = '\0';
    return n > 0 ? (size_t)n : 0;
}

static void a_line_is_one_write(void **state)
{
    char message[4096];
    weft_cli_log sink;
    tap t;
    (void)state;
    setenv("NO_COLOR", "1", 1);
    tap_begin(&t);
    const weft_log log = weft_cli_log_init(&sink, WEFT_LOG_INFO);
    weft_log_print(&log, WEFT_LOG_INFO, "plain");
    weft_log_print(&log, WEFT_LOG_WARN, "a long one %0900d", 1);
    weft_log_print(&log, WEFT_LOG_DEBUG, "not this");
    weft_log_print(&log, WEFT_LOG_INFO, "\rstatus");
    weft_log_print(&log, WEFT_LOG_INFO, "over it");
    sink.timed = true;
    weft_log_print(&log, WEFT_LOG_ERROR, "timed");
    assert_int_equal(next(&t, message, sizeof message), 6);
    assert_string_equal(message, "plain\n");
    assert_int_equal(next(&t, message, sizeof message), 9 + 11 + 900 + 1);
    assert_memory_equal(message, "warning: a long one 0", 21);
    next(&t, message, sizeof message);
    assert_string_equal(message, "status");
    next(&t, message, sizeof message);
    assert_string_equal(message, "\r\033[Kover it\n");
    assert_int_equal(next(&t, message, sizeof message), 25 + 7 + 6);
    assert_string_equal(message + 23, "Z error: timed\n");
    assert_int_equal(next(&t, message, sizeof message), 0);
    tap_end(&t);
    weft_cli_log_release(&sink);
}

static void errors_are_one_write(void **state)
{
    char message[4096];
    weft_error err = {0};
    tap t;
    (void)state;
    weft_fail(&err, WEFT_ERR_INPUT, WEFT_NOWHERE, "one");
    weft_fail(&err, WEFT_ERR_INPUT, WEFT_NOWHERE, "two \033[31m");
    tap_begin(&t);
    int code = weft_cli_report(&err);
    next(&t, message, sizeof message);
    const size_t more = next(&t, message + 2048, 2048);
    tap_end(&t);
    assert_int_equal(code, 2);
    assert_string_equal(message, "error: one\nerror: two ?[31m\n");
    assert_int_equal(more, 0);
    weft_error_release(&err);
}

static void the_file_has_times(void **state)
{
    char dir[] = "/tmp/weft-log-XXXXXX", path[64], *data;
    size_t size;
    weft_cli_log sink;
    tap t;
    (void)state;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/log.txt", dir);
    tap_begin(&t);
    weft_log log = weft_cli_log_init(&sink, WEFT_LOG_WARN);
    sink.least_kept = WEFT_LOG_INFO;
    weft_log_print(&log, WEFT_LOG_INFO, "early");
    weft_status s = weft_cli_log_file(&sink, path, "first\n", NULL);
    weft_log_print(&log, WEFT_LOG_INFO, "kept, not shown");
    weft_log_print(&log, WEFT_LOG_DEBUG, "neither");
    weft_log_print(&log, WEFT_LOG_INFO, "\rstatus");
    weft_cli_log_release(&sink);
    char message[64];
    const size_t shown = next(&t, message, sizeof message);
    tap_end(&t);
    assert_int_equal(s, WEFT_OK);
    assert_int_equal(shown, 0);
    assert_int_equal(weft_read_file(path, &data, &size, NULL), WEFT_OK);
    assert_memory_equal(data, "first\n20", 8);
    assert_string_equal(data + 6 + 25, strchr(data + 6, ' ') + 1);
    assert_memory_equal(data + 6 + 25, "early\n20", 8);
    assert_string_equal(data + 6 + 25 + 6 + 25, "kept, not shown\n");
    assert_true(weft_folder_time(data + 6) > weft_utc() - (int64_t)100 * 1000000000);
    weft_free(data);
    unlink(path);
    rmdir(dir);
}

static void times_are_read_back(void **state)
{
    (void)state;
    assert_true(weft_folder_time("1970-01-01T00:00:01.5Z") == 1500000000);
    assert_true(weft_folder_time("2026-11-22T13:01:18.042Z") == 1795352478042000000);
    weft_text text = {0};
    weft_text_add_utc(&text, 1795352478042999999);
    assert_string_equal(weft_text_get(&text), "2026-11-22T13:01:18.042Z");
    weft_text_release(&text);
    assert_true(weft_folder_time("yesterday") == 0);
    assert_true(weft_folder_time(NULL) == 0);
    assert_true(weft_folder_time("2026-11-22") == 0);
}

/* A run that has begun anew makes steps again; one that was killed leaves half a line. */
static void later_lines_count(void **state)
{
    static const char lines[] = "{\"step\": 1, \"loss\": 5}\n{\"step\": 2, \"loss\": 4}\n"
                                "{\"step\": 2, \"eval_loss\": 6}\n{\"step\": 3, \"loss\": 3}\n"
                                "{\"st\n{\"step\": 2, \"loss\": 7}\n{\"step\": 2, \"eval_loss\": 8}"
                                "\n[1]\n{\"step\": 3, \"lo";
    char dir[] = "/tmp/weft-log-XXXXXX", path[64];
    json_t *list = NULL;
    (void)state;
    assert_non_null(mkdtemp(dir));
    assert_int_equal(weft_folder_read_metrics(dir, 0, &list, NULL), WEFT_OK);
    assert_int_equal(json_array_size(list), 0);
    json_decref(list);
    snprintf(path, sizeof path, "%s/metrics.jsonl", dir);
    assert_int_equal(weft_write_file(path, lines, sizeof lines - 1, NULL), WEFT_OK);
    assert_int_equal(weft_folder_read_metrics(dir, 0, &list, NULL), WEFT_OK);
    assert_int_equal(json_array_size(list), 3);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(list, 1), "loss")), 7);
    assert_int_equal(json_integer_value(json_object_get(json_array_get(list, 2), "eval_loss")), 8);
    json_decref(list);
    assert_int_equal(weft_folder_read_metrics(dir, 60, &list, NULL), WEFT_OK);
    assert_int_equal(json_array_size(list), 1);
    json_decref(list);
    unlink(path);
    rmdir(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_is_one_write), cmocka_unit_test(errors_are_one_write),
        cmocka_unit_test(the_file_has_times),  cmocka_unit_test(times_are_read_back),
        cmocka_unit_test(later_lines_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
