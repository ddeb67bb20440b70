/* SPDX-License-Identifier: Apache-2.0 */
/* Drives the observer, and reads its file with a parser that takes nothing but what the format
 * allows. */
#include "settings/settings.h"
#include "tests/lib/created.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
#include <weft/files.h>
#include <weft/weft.h>

extern const weft_plugin prometheus_LTX_plugin;

typedef struct fixture {
    weft_settings *settings;
    weft_host host;
    weft_log log;
    weft_text lines;
    weft_error err;
    void *self;
    char dir[64], file[96];
} fixture;

static void keep_line(void *self, weft_log_level level, const char *line)
{
    (void)level;
    weft_text_print(self, "%s\n", line);
}

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    if (!f)
        return -1;
    snprintf(f->dir, sizeof f->dir, "/tmp/weft-prometheus-XXXXXX");
    if (!mkdtemp(f->dir))
        return -1;
    snprintf(f->file, sizeof f->file, "%s/metrics.prom", f->dir);
    f->log = (weft_log){keep_line, &f->lines};
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    fixture *f = *state;
    created_release(&prometheus_LTX_plugin, &f->host, f->self);
    weft_settings_destroy(f->settings);
    unlink(f->file);
    int code = rmdir(f->dir); /* nothing else is left there */
    weft_text_release(&f->lines);
    weft_error_release(&f->err);
    free(f);
    return code;
}

static weft_status begin(fixture *f, const char *ini)
{
    f->host = (weft_host){.log = &f->log, .dir = f->dir, .ranks = 2};
    assert_int_equal(weft_settings_read_text("test.ini", ini, strlen(ini), &f->settings, &f->err),
                     WEFT_OK);
    assert_int_equal(weft_settings_section(f->settings, "prometheus", prometheus_LTX_plugin.params,
                                           &f->host.params, &f->err),
                     WEFT_OK);
    return created_init(&prometheus_LTX_plugin, &f->host, &f->self, &f->err);
}

static void event(fixture *f, weft_event which, weft_run_view run)
{
    run.dir = f->dir;
    run.ranks = 2;
    run.steps = 30;
    run.unit = "tokens";
    assert_int_equal(prometheus_LTX_plugin.contributions[0].observe(f->self, which, &run, &f->err),
                     WEFT_OK);
}

static const weft_report reports[] = {{"lr", 3e-4}, {"odd \"\\\nname", 0.25}, {"none", NAN}};

static weft_run_view step_view(int64_t step)
{
    return (weft_run_view){.step = step,
                           .tokens = 2048,
                           .total_tokens = 2048 * step,
                           .loss = 4.5,
                           .grad_norm = NAN,
                           .step_s = 0.5,
                           .data_s = 0.125,
                           .flops = 1e12,
                           .peak_flops = 4e12,
                           .planned_bytes = 1 << 30,
                           .peak_bytes = 3 << 29,
                           .reports = reports,
                           .n_reports = 3};
}

/* ---- a parser ---- */

static const char *skip_name(const char *at)
{
    assert_true(isalpha((unsigned char)*at) || *at == '_');
    while (isalnum((unsigned char)*at) || *at == '_')
        at++;
    return at;
}

/* {name="value",...}, and nothing but the three escapes. */
static const char *skip_labels(const char *at)
{
    assert_int_equal(*at, '{');
    do {
        at = skip_name(at + 1);
        assert_int_equal(*at++, '=');
        assert_int_equal(*at++, '"');
        for (; *at != '"'; at++) {
            assert_true(*at && *at != '\n');
            if (*at == '\\') {
                at++;
                assert_true(*at == '\\' || *at == '"' || *at == 'n');
            }
        }
        at++;
    } while (*at == ',');
    assert_int_equal(*at, '}');
    return at + 1;
}

static int families, samples;

/* # HELP name words, # TYPE name type, and samples of this name alone; no name twice. */
static void parse(const char *text)
{
    char name[128] = "", known[4096] = " ";
    families = samples = 0;
    while (*text) {
        const char *end = strchr(text, '\n');
        assert_non_null(end);
        if (strncmp(text, "# HELP ", 7) == 0) {
            const char *behind = skip_name(text + 7);
            snprintf(name, sizeof name, " %.*s ", (int)(behind - text - 7), text + 7);
            assert_null(strstr(known, name));
            strncat(known, name + 1, sizeof known - strlen(known) - 1);
            assert_int_equal(*behind, ' ');
            families++;
            char type[160];
            snprintf(type, sizeof type, "# TYPE%s", name);
            assert_memory_equal(end + 1, type, strlen(type));
            const char *kind = end + 1 + strlen(type);
            assert_true(strncmp(kind, "gauge\n", 6) == 0 || strncmp(kind, "counter\n", 8) == 0);
            end = strchr(kind, '\n');
        } else {
            const char *behind = skip_name(text);
            assert_int_equal(behind - text, strlen(name) - 2);
            assert_memory_equal(text, name + 1, strlen(name) - 2);
            behind = skip_labels(behind);
            assert_int_equal(*behind, ' ');
            char *rest;
            assert_true(isfinite(strtod(behind + 1, &rest)));
            assert_ptr_equal(rest, end);
            samples++;
        }
        text = end + 1;
    }
}

static char *read_text(const fixture *f)
{
    char *data;
    size_t size;
    assert_int_equal(weft_read_file(f->file, &data, &size, NULL), WEFT_OK);
    parse(data);
    return data;
}

static void has(const char *text, const char *line)
{
    if (!strstr(text, line))
        fail_msg("'%s' is not in:\n%s", line, text);
}

/* ---- tests ---- */

static void figures_are_there(void **state)
{
    fixture *f = *state;
    assert_int_equal(begin(f, "[prometheus]\nrun = my \"run\"\n"), WEFT_OK);
    event(f, WEFT_EVENT_START, (weft_run_view){0});
    event(f, WEFT_EVENT_EVALUATE, (weft_run_view){.step = 1, .eval_loss = 4.75});
    const weft_saves saves = {.step = 2, .time_ns = 5500000000, .failed = 1, .held_s = 0.5};
    weft_run_view run = step_view(2);
    run.saves = &saves;
    run.skipped = 3;
    event(f, WEFT_EVENT_STEP_END, run);
    char *text = read_text(f);
    has(text, "weft_info{run=\"my \\\"run\\\"\",version=\"" WEFT_VERSION "\",host=\"");
    has(text, "weft_last_checkpoint_timestamp_seconds{run=\"my \\\"run\\\"\"} 5.5\n");
    has(text, "weft_last_checkpoint_step{run=\"my \\\"run\\\"\"} 2\n");
    has(text, "weft_failed_saves_total{run=\"my \\\"run\\\"\"} 1\n");
    has(text, "weft_skipped_updates_total{run=\"my \\\"run\\\"\"} 3\n");
    has(text, "weft_running{run=\"my \\\"run\\\"\"} 1\n");
    has(text, "weft_failed{run=\"my \\\"run\\\"\"} 0\n");
    has(text, "weft_step{run=\"my \\\"run\\\"\"} 2\n");
    has(text, "weft_loss{run=\"my \\\"run\\\"\"} 4.5\n");
    has(text, "# TYPE weft_tokens_total counter\nweft_tokens_total{run=\"my \\\"run\\\"\"} 4096\n");
    has(text, "weft_tokens_per_second{run=\"my \\\"run\\\"\"} 4096\n");
    has(text, "weft_mfu_ratio{run=\"my \\\"run\\\"\"} 0.5\n");
    has(text, "weft_validation_loss{run=\"my \\\"run\\\"\"} 4.75\n");
    has(text, ",name=\"lr\"} 0.000299");
    has(text, ",name=\"odd \\\"\\\\\\nname\"} 0.25\n");
    assert_null(strstr(text, "grad_norm"));
    assert_null(strstr(text, "none"));
    assert_int_equal(families, 25);
    assert_int_equal(samples, 26);
    weft_free(text);
}

static void written_now_and_then(void **state)
{
    fixture *f = *state;
    assert_int_equal(begin(f, "[prometheus]\nevery = 1000\n"), WEFT_OK);
    event(f, WEFT_EVENT_START, (weft_run_view){0});
    event(f, WEFT_EVENT_STEP_END, step_view(1));
    event(f, WEFT_EVENT_STEP_END, step_view(2));
    char *text = read_text(f);
    has(text, "weft_step{run=\"weft-prometheus-");
    has(text, "\"} 1\n# HELP weft_steps ");
    weft_free(text);
    weft_run_view last = step_view(30);
    last.peak_flops = 0; /* not known */
    event(f, WEFT_EVENT_STEP_END, last);
    last.step = 31; /* which has failed */
    last.status = WEFT_ERR_IO;
    event(f, WEFT_EVENT_STOP, last);
    text = read_text(f);
    has(text, "\"} 1\n# HELP weft_step ");
    assert_null(strstr(text, "mfu"));
    has(text, "\"} 30\n# HELP weft_steps ");
    has(text, "\"} 0\n# HELP weft_failed ");
    weft_free(text);
}

static void only_rank_0_writes(void **state)
{
    fixture *f = *state;
    assert_int_equal(begin(f, "[prometheus]\n"), WEFT_OK);
    weft_run_view run = step_view(1);
    run.rank = 1;
    event(f, WEFT_EVENT_START, run);
    event(f, WEFT_EVENT_STEP_END, run);
    assert_int_equal(access(f->file, F_OK), -1);
}

/* One that is written still is under a lock, whoever writes it. */
static void what_was_left_is_removed(void **state)
{
    fixture *f = *state;
    char dead[128], alive[128], other[128];
    snprintf(dead, sizeof dead, "%s.tmp-4711-0", f->file);
    snprintf(alive, sizeof alive, "%s.tmp-4712-0", f->file);
    snprintf(other, sizeof other, "%s/other.prom.tmp-4711-0", f->dir);
    const int fds[] = {weft_open_to_write(dead, WEFT_WRITE_NEW),
                       weft_open_to_write(alive, WEFT_WRITE_NEW),
                       weft_open_to_write(other, WEFT_WRITE_NEW)};
    assert_int_equal(flock(fds[1], LOCK_EX | LOCK_NB), 0);
    assert_int_equal(begin(f, "[prometheus]\n"), WEFT_OK);
    event(f, WEFT_EVENT_START, (weft_run_view){0});
    assert_int_equal(access(dead, F_OK), -1);
    assert_int_equal(unlink(alive), 0);
    assert_int_equal(unlink(other), 0);
    for (int i = 0; i < 3; i++)
        close(fds[i]);
}

static void other_names_are_refused(void **state)
{
    fixture *f = *state;
    assert_int_equal(begin(f, "[prometheus]\nfile = /tmp/x.txt\n"), WEFT_ERR_INPUT);
    has(weft_error_text(&f->err), "test.ini:2: [prometheus] file = /tmp/x.txt must end in .prom");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(figures_are_there, setup, teardown),
        cmocka_unit_test_setup_teardown(written_now_and_then, setup, teardown),
        cmocka_unit_test_setup_teardown(only_rank_0_writes, setup, teardown),
        cmocka_unit_test_setup_teardown(what_was_left_is_removed, setup, teardown),
        cmocka_unit_test_setup_teardown(other_names_are_refused, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
