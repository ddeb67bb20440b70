/* SPDX-License-Identifier: Apache-2.0 */
/* Drives the observer with hand-made steps of hand-made instructions; reads what it writes; and
 * gives the command files that are wrong. */
#include "../profile.h"
#include "settings/settings.h"
#include "tests/lib/created.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/files.h>

extern const weft_plugin profile_LTX_plugin;

typedef struct fixture {
    weft_settings *settings;
    weft_host host;
    weft_command_host command;
    weft_log log;
    weft_text lines, out;
    weft_error err;
    void *self;
    char dir[64];
} fixture;

static void keep_line(void *self, weft_log_level level, const char *line)
{
    (void)level;
    weft_text_print(self, "%s\n", line);
}

static fixture *written_by; /* a command's host has no instance */

static weft_status keep_output(const weft_command_host *host, const void *data, size_t n,
                               weft_error *err)
{
    (void)host, (void)err;
    weft_text_add_bytes(&written_by->out, data, n);
    return WEFT_OK;
}

static const void *no_service(const weft_host *host, const char *name, void **self)
{
    (void)host, (void)name, (void)self;
    return NULL;
}

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    if (!f)
        return -1;
    snprintf(f->dir, sizeof f->dir, "/tmp/weft-profile-XXXXXX");
    if (!mkdtemp(f->dir))
        return -1;
    f->log = (weft_log){keep_line, &f->lines};
    f->command = (weft_command_host){.log = &f->log, .threads = 1, .write = keep_output};
    written_by = f;
    *state = f;
    return 0;
}

static void end(fixture *f)
{
    if (f->self)
        created_release(&profile_LTX_plugin, &f->host, f->self);
    f->self = NULL;
    weft_settings_destroy(f->settings);
    f->settings = NULL;
}

static int teardown(void **state)
{
    static const char *const files[] = {"rank-0.json", "rank-1.json", "rank-2.json", "trace.json"};
    fixture *f = *state;
    char path[128];
    end(f);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        snprintf(path, sizeof path, "%s/profile/%s", f->dir, files[i]);
        unlink(path);
    }
    snprintf(path, sizeof path, "%s/profile", f->dir);
    rmdir(path);
    rmdir(f->dir);
    weft_text_release(&f->lines);
    weft_text_release(&f->out);
    weft_error_release(&f->err);
    free(f);
    return 0;
}

static void begin(fixture *f, const char *ini)
{
    f->host =
        (weft_host){.log = &f->log, .dir = f->dir, .ranks = 2, .threads = 1, .service = no_service};
    assert_int_equal(weft_settings_read_text("test.ini", ini, strlen(ini), &f->settings, &f->err),
                     WEFT_OK);
    assert_int_equal(weft_settings_section(f->settings, "profile", profile_LTX_plugin.params,
                                           &f->host.params, &f->err),
                     WEFT_OK);
    assert_int_equal(created_init(&profile_LTX_plugin, &f->host, &f->self, &f->err), WEFT_OK);
    assert_int_equal(profile_LTX_plugin.open(f->self, &f->err), WEFT_OK);
}

static void event(fixture *f, weft_event which, weft_run_view run)
{
    run.dir = f->dir;
    run.ranks = 2;
    assert_int_equal(profile_LTX_plugin.contributions[0].observe(f->self, which, &run, &f->err),
                     WEFT_OK);
}

/* A product of block 1, and a gather. */
static void instruction(fixture *f, int rank, int64_t step, int index)
{
    static const weft_op linear = {.name = "linear"}, move = {.name = "redistribute"};
    static const weft_step steps[] = {{.move = WEFT_SLICE}, {.move = WEFT_ALL_GATHER}};
    weft_value value = {.name = index ? "whole \"w\"" : "y"}, *outs[] = {&value};
    const weft_node node = {.op = index ? &move : &linear,
                            .outs = outs,
                            .n_outs = 1,
                            .block = index ? -1 : 1,
                            .by = "fsdp",
                            .steps = index ? steps : NULL,
                            .n_steps = index ? 2 : 0};
    const weft_node *const nodes[] = {&node};
    static const char program[] = "forward";
    const weft_instruction_view in = {.program = program,
                                      .index = index,
                                      .n = 2,
                                      .kind = index ? WEFT_COLLECTIVE : WEFT_COMPUTE,
                                      .nodes = nodes,
                                      .n_nodes = 1,
                                      .kernel = index ? NULL : "own",
                                      .flops = index ? 0 : 1e6,
                                      .bytes = index ? 500 : 1000,
                                      .queue = index};
    const double now = weft_now();
    const weft_run_view run = {.rank = rank,
                               .step = step,
                               .micro_batch = 2,
                               .instruction = &in,
                               .began_s = now,
                               .ended_s = now + 1e-6};
    event(f, WEFT_EVENT_INSTRUCTION_TIMES, run);
}

static void run_steps(fixture *f, int rank, int64_t from, int64_t to)
{
    for (int64_t step = from; step <= to; step++) {
        weft_run_view run = {.rank = rank, .step = step, .steps = 9, .peak_flops = 1e9};
        event(f, WEFT_EVENT_STEP_BEGIN, run);
        instruction(f, rank, step, 0);
        instruction(f, rank, step, 1);
        event(f, WEFT_EVENT_STEP_END, run);
    }
}

static void record_rank(fixture *f, int rank)
{
    begin(f, "[profile]\nfirst_step = 2\nsteps = 2\nbytes_per_s = 1e9\n");
    run_steps(f, rank, 1, 4);
    event(f, WEFT_EVENT_STOP, (weft_run_view){.rank = rank, .step = 4});
    end(f);
}

static json_t *read_trace(const fixture *f, const char *name)
{
    char path[128];
    json_error_t why;
    snprintf(path, sizeof path, "%s/profile/%s", f->dir, name);
    json_t *all = json_load_file(path, 0, &why);
    assert_non_null(all);
    return all;
}

/* What the format asks of an event of each kind; returns how many are slices of this category. */
static int check_events(const json_t *all, const char *category)
{
    size_t i;
    json_t *e;
    int n = 0;
    json_array_foreach(json_object_get(all, "traceEvents"), i, e) {
        const char *phase = json_string_value(json_object_get(e, "ph"));
        assert_non_null(phase);
        assert_true(json_is_string(json_object_get(e, "name")));
        assert_true(json_is_integer(json_object_get(e, "pid")));
        assert_true(json_is_object(json_object_get(e, "args")));
        if (strcmp(phase, "M") == 0)
            continue;
        assert_string_equal(phase, "X");
        assert_true(json_is_integer(json_object_get(e, "tid")));
        assert_true(json_number_value(json_object_get(e, "ts")) >= 0);
        assert_true(json_is_number(json_object_get(e, "dur")));
        assert_true(json_number_value(json_object_get(e, "dur")) >= 0);
        n += strcmp(json_string_value(json_object_get(e, "cat")), category) == 0;
    }
    return n;
}

/* ---- the observer ---- */

static void records_chosen_steps(void **state)
{
    fixture *f = *state;
    record_rank(f, 0);
    json_t *all = read_trace(f, "rank-0.json");
    assert_int_equal(check_events(all, "compute"), 2);
    assert_int_equal(check_events(all, "collective"), 2);
    assert_int_equal(check_events(all, "step"), 2);
    assert_int_equal(check_events(all, "task"), 2);
    const json_t *events = json_object_get(all, "traceEvents"), *e = NULL;
    for (size_t i = 0; i < json_array_size(events); i++)
        if (strcmp(json_string_value(json_object_get(json_array_get(events, i), "name")),
                   "all_gather") == 0)
            e = json_array_get(events, i);
    const json_t *args = json_object_get(e, "args");
    assert_string_equal(json_string_value(json_object_get(args, "value")), "whole \"w\"");
    assert_string_equal(json_string_value(json_object_get(args, "plugin")), "fsdp");
    assert_int_equal(json_integer_value(json_object_get(args, "step")), 3);
    assert_int_equal(json_integer_value(json_object_get(args, "micro_batch")), 2);
    assert_int_equal(json_integer_value(json_object_get(args, "block")), -1);
    assert_int_equal(json_integer_value(json_object_get(args, "bytes")), 500);
    json_decref(all);
    assert_non_null(strstr(weft_text_get(&f->lines), "in 2 instructions; limits of a rank: "
                                                     "products 1 GFLOP/s, memory 1 GB/s"));
}

static void says_what_it_missed(void **state)
{
    fixture *f = *state;
    begin(f, "[profile]\nfirst_step = 5\n");
    run_steps(f, 0, 1, 2);
    event(f, WEFT_EVENT_STOP, (weft_run_view){.step = 2});
    assert_non_null(strstr(weft_text_get(&f->lines), "step 5 was not reached"));
    end(f);
    begin(f, "[profile]\nfirst_step = 1\n");
    run_steps(f, 0, 8, 9);
    event(f, WEFT_EVENT_STOP, (weft_run_view){.step = 9});
    assert_non_null(strstr(weft_text_get(&f->lines), "were done before this run began"));
}

/* A run that fails in the middle of the steps has recorded some of them. */
static void ends_early(void **state)
{
    fixture *f = *state;
    begin(f, "[profile]\nfirst_step = 1\nsteps = 100\n");
    run_steps(f, 0, 1, 2);
    event(f, WEFT_EVENT_STEP_BEGIN, (weft_run_view){.step = 3});
    instruction(f, 0, 3, 0);
    event(f, WEFT_EVENT_STOP, (weft_run_view){.step = 3, .status = WEFT_ERR_RUN});
    json_t *all = read_trace(f, "rank-0.json");
    assert_int_equal(check_events(all, "compute"), 3);
    assert_int_equal(check_events(all, "step"), 2);
    json_decref(all);
}

/* ---- tables ---- */

static void limits_bound_times(void **state)
{
    (void)state;
    const profile_limits l = {.flops_per_s = 1e9, .bytes_per_s = 1e8};
    profile_table t = {0};
    weft_text text = {0};
    /* 1 ms of operations and 2 ms of bytes in 4 ms: half of what could be */
    assert_int_equal(profile_table_add(&t, &l, "op", 4e-3, 1e6, 2e5, false, NULL), WEFT_OK);
    assert_int_equal(profile_table_add(&t, &l, "sent", 1e-3, 0, 1e3, true, NULL), WEFT_OK);
    assert_true(t.rows[0].bounded && t.rows[0].bound_seconds == 2e-3);
    assert_false(t.rows[1].bounded);
    profile_table_print(&t, "op", 1, 1, &text);
    assert_non_null(strstr(weft_text_get(&text), "  op           1           4   80.0%    50.0%"));
    assert_non_null(strstr(weft_text_get(&text), "others"));
    weft_text_release(&text);
    profile_table_release(&t);
}

static void memory_has_a_rate(void **state)
{
    (void)state;
    double rate = profile_measure_memory(1);
    assert_true(rate > 1e7 && rate < 1e13);
}

/* ---- the command ---- */

static weft_status command(fixture *f, const char *dir)
{
    char word[] = "profile", *argv[] = {word, (char *)(uintptr_t)dir, NULL};
    weft_text_clear(&f->out);
    weft_error_clear(&f->err);
    return profile_command.run(&f->command, dir ? 2 : 1, argv, &f->err);
}

static void ranks_are_merged(void **state)
{
    fixture *f = *state;
    record_rank(f, 0);
    usleep(2000);
    record_rank(f, 1);
    assert_int_equal(command(f, f->dir), WEFT_OK);
    json_t *all = read_trace(f, "trace.json");
    assert_int_equal(check_events(all, "compute"), 4);
    /* rank 1 began later, by the clock of the host */
    double first[2] = {1e30, 1e30};
    size_t i;
    json_t *e;
    json_array_foreach(json_object_get(all, "traceEvents"), i, e) {
        int pid = (int)json_integer_value(json_object_get(e, "pid"));
        double ts = json_number_value(json_object_get(e, "ts"));
        if (json_object_get(e, "ts") && ts < first[pid])
            first[pid] = ts;
    }
    assert_true(first[1] > first[0] + 1500);
    json_decref(all);
    assert_non_null(strstr(weft_text_get(&f->out), "2 steps of 2 ranks"));
    assert_non_null(strstr(weft_text_get(&f->out), "linear"));
}

static void write_rank(const fixture *f, int rank, const char *text)
{
    char *path = profile_path(f->dir, rank), *folder = profile_folder(f->dir);
    assert_int_equal(weft_make_dirs(folder, NULL), WEFT_OK);
    assert_int_equal(weft_write_file(path, text, strlen(text), NULL), WEFT_OK);
    weft_free(path);
    weft_free(folder);
}

static void refused(fixture *f, const char *dir, const char *words)
{
    assert_int_equal(command(f, dir), WEFT_ERR_INPUT);
    if (!strstr(weft_error_text(&f->err), words))
        fail_msg("%s: %s", words, weft_error_text(&f->err));
}

static void bad_files_are_named(void **state)
{
    fixture *f = *state;
    refused(f, NULL, "takes the folder of a run");
    refused(f, f->dir, "has no rank-N.json");
    write_rank(f, 0, "{\"traceEvents\": [");
    refused(f, f->dir, "rank-0.json:1: no JSON");
    write_rank(f, 0, "[]");
    refused(f, f->dir, "no traceEvents");
    write_rank(f, 0, "{\"otherData\": {\"epoch_ns\": \"5x\"}, \"traceEvents\": []}");
    refused(f, f->dir, "no traceEvents, or no otherData with epoch_ns");
    write_rank(f, 0, "{\"otherData\": {\"epoch_ns\": \"5\"}, \"traceEvents\": [{\"ts\": \"x\"}]}");
    refused(f, f->dir, "a time that is not a number");
    write_rank(f, 0, "{\"otherData\": {\"epoch_ns\": \"5\"}, \"traceEvents\": [{\"ts\": 1}]}");
    refused(f, f->dir, "no name or no args");
}

static void missing_ranks_are_told(void **state)
{
    fixture *f = *state;
    record_rank(f, 0);
    assert_int_equal(command(f, f->dir), WEFT_OK);
    assert_non_null(strstr(weft_text_get(&f->lines), "1 of 2 ranks have left a record"));
    /* what a run of more ranks has left there does not count */
    record_rank(f, 1);
    write_rank(f, 2, "nonsense");
    assert_int_equal(command(f, f->dir), WEFT_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(records_chosen_steps, setup, teardown),
        cmocka_unit_test_setup_teardown(says_what_it_missed, setup, teardown),
        cmocka_unit_test_setup_teardown(ends_early, setup, teardown),
        cmocka_unit_test(limits_bound_times),
        cmocka_unit_test(memory_has_a_rate),
        cmocka_unit_test_setup_teardown(ranks_are_merged, setup, teardown),
        cmocka_unit_test_setup_teardown(bad_files_are_named, setup, teardown),
        cmocka_unit_test_setup_teardown(missing_ranks_are_told, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
