/* SPDX-License-Identifier: Apache-2.0 */
/* Drives the observer with hand-made values and reads the files back, byte by byte. */
#include "../dump.h"
#include "settings/settings.h"
#include "tests/lib/created.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/files.h>

extern const weft_plugin dump_LTX_plugin;

typedef struct fixture {
    weft_settings *settings;
    weft_host host;
    weft_log log;
    weft_text lines;
    weft_error err;
    dump *self;
    char dir[64];
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
    snprintf(f->dir, sizeof f->dir, "/tmp/weft-dump-XXXXXX");
    if (!mkdtemp(f->dir))
        return -1;
    *state = f;
    return 0;
}

static void end(fixture *f)
{
    created_release(&dump_LTX_plugin, &f->host, f->self);
    f->self = NULL;
    weft_settings_destroy(f->settings);
    f->settings = NULL;
}

/* What a test may have left in the folder. */
static void clean(const char *dir)
{
    static const char *const left[] = {"dump/step-2/parameters.safetensors",
                                       "dump/step-2/gradients.safetensors",
                                       "dump/step-2/values.safetensors",
                                       "dump/step-2/parameters-rank-1.safetensors",
                                       "dump/step-5/parameters.safetensors",
                                       "dump/step-5",
                                       "dump/step-2",
                                       "dump",
                                       ""};
    for (size_t i = 0; i < sizeof left / sizeof left[0]; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", dir, left[i]);
        if (unlink(path) != 0)
            rmdir(path);
    }
}

static int teardown(void **state)
{
    fixture *f = *state;
    end(f);
    weft_text_release(&f->lines);
    weft_error_release(&f->err);
    clean(f->dir);
    int left = access(f->dir, F_OK);
    free(f);
    return left == 0 ? -1 : 0; /* a file that no test asked for */
}

static dump_target targets[] = {
    {1, "w", DUMP_PARAMETERS, "w"},
    {2, "w'", DUMP_GRADIENTS, "w"},
    {3, "ids", DUMP_VALUES, "ids"},
    {2, "w'", DUMP_VALUES, "w'"},
};

/* As create and the pass leave it. */
static void begin(fixture *f, const char *ini)
{
    f->log = (weft_log){keep_line, &f->lines};
    f->host = (weft_host){.log = &f->log, .dir = f->dir, .ranks = 1};
    assert_int_equal(weft_settings_read_text("test.ini", ini, strlen(ini), &f->settings, &f->err),
                     WEFT_OK);
    if (weft_settings_section(f->settings, "dump", dump_LTX_plugin.params, &f->host.params,
                              &f->err) != WEFT_OK)
        fail_msg("%s", weft_error_text(&f->err));
    assert_int_equal(created_init(&dump_LTX_plugin, &f->host, (void **)&f->self, &f->err), WEFT_OK);
    f->self->targets = weft_alloc(sizeof targets);
    assert_non_null(f->self->targets);
    memcpy(f->self->targets, targets, sizeof targets);
    f->self->n_targets = f->self->targets_capacity = sizeof targets / sizeof targets[0];
}

static weft_status event(fixture *f, weft_event which, weft_run_view run)
{
    run.dir = f->dir;
    run.ranks = run.ranks ? run.ranks : 1;
    run.steps = 10;
    return dump_LTX_plugin.contributions[1].observe(f->self, which, &run, &f->err);
}

static weft_status made(fixture *f, int64_t step, int id, const char *name, int64_t micro_batch,
                        weft_tensor t)
{
    weft_value v = {.id = id, .name = name};
    return event(
        f, WEFT_EVENT_VALUE,
        (weft_run_view){.step = step, .value = &v, .tensor = &t, .micro_batch = micro_batch});
}

static weft_tensor matrix(void *data, weft_dtype dtype, int64_t rows, int64_t columns)
{
    return (weft_tensor){.data = data,
                         .dtype = dtype,
                         .n_dims = 2,
                         .size = {rows, columns},
                         .whole = {rows, columns},
                         .grain = {1, 1}};
}

/* The header of a file, and its data (both owned by *file); NULL if there is no such file. */
static const char *open_file(const fixture *f, const char *name, char **file, const char **data)
{
    char path[160];
    size_t size = 0;
    uint64_t header = 0;
    snprintf(path, sizeof path, "%s/dump/%s.safetensors", f->dir, name);
    if (access(path, F_OK) != 0)
        return NULL;
    assert_int_equal(weft_read_file(path, file, &size, NULL), WEFT_OK);
    assert_true(size > 8);
    memcpy(&header, *file, 8);
    assert_true(8 + header <= size);
    *data = *file + 8 + header;
    return *file + 8;
}

static bool has(const char *header, const char *data, const char *what)
{
    return memmem(header, (size_t)(data - header), what, strlen(what)) != NULL;
}

static void one_step(void **state)
{
    fixture *f = *state;
    float w[6] = {1, 2, 3, 4, 5, 6}, g[6] = {-1, -2, -3, -4, -5, -6};
    int32_t ids0[2] = {7, 8}, ids1[2] = {9, 10};
    char *file;
    const char *header, *data;
    begin(f, "[dump]\nsteps = 2 5\n");
    assert_int_equal(event(f, WEFT_EVENT_START, (weft_run_view){0}), WEFT_OK);
    assert_int_equal(made(f, 2, 1, "w", -1, matrix(w, WEFT_F32, 2, 3)), WEFT_OK);
    assert_int_equal(made(f, 2, 3, "ids", 0, matrix(ids0, WEFT_I32, 1, 2)), WEFT_OK);
    assert_int_equal(made(f, 2, 3, "ids", 1, matrix(ids1, WEFT_I32, 1, 2)), WEFT_OK);
    assert_int_equal(made(f, 2, 2, "w'", -1, matrix(g, WEFT_F32, 2, 3)), WEFT_OK);
    w[0] = 99; /* the update, after the copy */
    assert_int_equal(event(f, WEFT_EVENT_STEP_END, (weft_run_view){.step = 2}), WEFT_OK);

    header = open_file(f, "step-2/parameters", &file, &data);
    assert_non_null(header);
    assert_true(
        has(header, data, "\"w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]}"));
    assert_true(has(header, data, "\"step\":\"2\""));
    assert_memory_equal(data, ((const float[]){1, 2, 3, 4, 5, 6}), 24);
    weft_free(file);
    header = open_file(f, "step-2/gradients", &file, &data);
    assert_non_null(header);
    assert_true(has(header, data, "\"w\":{"));
    assert_memory_equal(data, g, sizeof g);
    weft_free(file);
    header = open_file(f, "step-2/values", &file, &data);
    assert_non_null(header);
    assert_true(
        has(header, data, "\"ids@0\":{\"dtype\":\"I32\",\"shape\":[1,2],\"data_offsets\":[0,8]}"));
    assert_true(
        has(header, data, "\"ids@1\":{\"dtype\":\"I32\",\"shape\":[1,2],\"data_offsets\":[8,16]}"));
    assert_true(has(header, data, "\"w'\":{")); /* one value, two files */
    assert_memory_equal(data + 8, ids1, 8);
    weft_free(file);
    assert_int_equal(f->self->n_kept, 0);
}

static void other_steps_leave_nothing(void **state)
{
    fixture *f = *state;
    float w[1] = {1};
    begin(f, "[dump]\nsteps = 2\n");
    assert_int_equal(made(f, 1, 1, "w", -1, matrix(w, WEFT_F32, 1, 1)), WEFT_OK);
    assert_int_equal(f->self->n_kept, 0);
    /* Not asked for: another id, or another graph's value with the same id. */
    assert_int_equal(made(f, 2, 4, "x", -1, matrix(w, WEFT_F32, 1, 1)), WEFT_OK);
    assert_int_equal(made(f, 2, 1, "x", -1, matrix(w, WEFT_F32, 1, 1)), WEFT_OK);
    assert_int_equal(f->self->n_kept, 0);
    assert_int_equal(event(f, WEFT_EVENT_STEP_END, (weft_run_view){.step = 2}), WEFT_OK);
    char path[96];
    snprintf(path, sizeof path, "%s/dump", f->dir);
    assert_int_not_equal(access(path, F_OK), 0);
}

static void made_twice_is_there_once(void **state)
{
    fixture *f = *state;
    float a[1] = {1}, b[2] = {2, 3};
    char *file;
    const char *header, *data;
    begin(f, "[dump]\nsteps = 2\n");
    assert_int_equal(made(f, 2, 1, "w", -1, matrix(a, WEFT_F32, 1, 1)), WEFT_OK);
    assert_int_equal(made(f, 2, 1, "w", -1, matrix(b, WEFT_F32, 1, 2)), WEFT_OK);
    assert_int_equal(f->self->n_kept, 1);
    assert_int_equal(event(f, WEFT_EVENT_STEP_END, (weft_run_view){.step = 2}), WEFT_OK);
    header = open_file(f, "step-2/parameters", &file, &data);
    assert_true(has(header, data, "\"shape\":[1,2]"));
    assert_memory_equal(data, b, sizeof b);
    weft_free(file);
}

static void a_rank_of_many(void **state)
{
    fixture *f = *state;
    float w[2] = {1, 2};
    char *file;
    const char *header, *data;
    begin(f, "[dump]\nsteps = 2\n");
    weft_tensor t = matrix(w, WEFT_F32, 1, 2);
    t.whole[0] = 4;
    t.lo[0] = 3;
    assert_int_equal(made(f, 2, 1, "w", -1, t), WEFT_OK);
    assert_int_equal(
        event(f, WEFT_EVENT_STEP_END, (weft_run_view){.step = 2, .rank = 1, .ranks = 4}), WEFT_OK);
    header = open_file(f, "step-2/parameters-rank-1", &file, &data);
    assert_non_null(header);
    assert_true(has(header, data, "\"part:w\":\"3,0 of 4,2\""));
    assert_true(has(header, data, "\"rank\":\"1\""));
    assert_true(has(header, data, "\"ranks\":\"4\""));
    weft_free(file);
}

static void empty_parts(void **state)
{
    fixture *f = *state;
    char *file;
    const char *header, *data;
    begin(f, "[dump]\nsteps = 2\n");
    weft_tensor t = matrix(NULL, WEFT_F32, 0, 2);
    t.whole[0] = 4;
    t.lo[0] = 4;
    assert_int_equal(made(f, 2, 1, "w", -1, t), WEFT_OK);
    assert_int_equal(event(f, WEFT_EVENT_STEP_END, (weft_run_view){.step = 2}), WEFT_OK);
    header = open_file(f, "step-2/parameters", &file, &data);
    assert_true(has(header, data, "\"shape\":[0,2],\"data_offsets\":[0,0]"));
    weft_free(file);
}

static void a_step_that_fails(void **state)
{
    fixture *f = *state;
    float w[1] = {1};
    char *file;
    const char *header, *data;
    begin(f, "[dump]\nsteps = 2 5\n");
    assert_int_equal(made(f, 2, 1, "w", -1, matrix(w, WEFT_F32, 1, 1)), WEFT_OK);
    assert_int_equal(event(f, WEFT_EVENT_STOP, (weft_run_view){.step = 2, .status = WEFT_ERR_RUN}),
                     WEFT_OK);
    header = open_file(f, "step-2/parameters", &file, &data);
    assert_non_null(header);
    weft_free(file);
    /* What is kept is of one step only. */
    assert_int_equal(made(f, 2, 2, "w'", -1, matrix(w, WEFT_F32, 1, 1)), WEFT_OK);
    assert_int_equal(made(f, 5, 1, "w", -1, matrix(w, WEFT_F32, 1, 1)), WEFT_OK);
    assert_int_equal(f->self->n_kept, 1);
    assert_int_equal(event(f, WEFT_EVENT_STEP_END, (weft_run_view){.step = 5}), WEFT_OK);
    assert_non_null(open_file(f, "step-5/parameters", &file, &data));
    weft_free(file);
}

static void chosen_steps(void **state)
{
    fixture *f = *state;
    begin(f, "[dump]\nsteps = 3 2k\n    1Ki\n");
    assert_true(dump_is_chosen(f->self, 3));
    assert_true(dump_is_chosen(f->self, 2000));
    assert_true(dump_is_chosen(f->self, 1024));
    assert_false(dump_is_chosen(f->self, 2));
    assert_int_equal(event(f, WEFT_EVENT_START, (weft_run_view){0}), WEFT_OK);
    assert_null(strstr(weft_text_get(&f->lines), "step 3 "));
    assert_non_null(strstr(weft_text_get(&f->lines), "step 2000 is never reached"));
}

static void no_folder(void **state)
{
    fixture *f = *state;
    begin(f, "[dump]\n");
    weft_run_view run = {.ranks = 1, .steps = 1};
    assert_int_equal(
        dump_LTX_plugin.contributions[1].observe(f->self, WEFT_EVENT_START, &run, &f->err),
        WEFT_ERR_INPUT);
    assert_non_null(strstr(weft_error_text(&f->err), "[weft] dir"));
}

static void bad_settings(void **state)
{
    fixture *f = *state;
    static const char *const bad[] = {"[dump]\nsteps = 0\n", "[dump]\nsteps = one\n",
                                      "[dump]\nwhat = parameters weights\n"};
    for (size_t i = 0; i < 3; i++) {
        weft_settings *s = NULL;
        const weft_params *params = NULL;
        weft_error_clear(&f->err);
        assert_int_equal(weft_settings_read_text("bad.ini", bad[i], strlen(bad[i]), &s, &f->err),
                         WEFT_OK);
        assert_int_equal(weft_settings_section(s, "dump", dump_LTX_plugin.params, &params, &f->err),
                         WEFT_ERR_INPUT);
        assert_non_null(strstr(weft_error_text(&f->err), "bad.ini:2"));
        weft_settings_destroy(s);
    }
}

static void memory_runs_out(void **state)
{
    fixture *f = *state;
    float w[6] = {1, 2, 3, 4, 5, 6};
    weft_tensor t = matrix(w, WEFT_F32, 2, 3);
    t.whole[0] = 4;
    begin(f, "[dump]\nsteps = 2\n");
    long n = 0;
    for (bool reached = true; reached;) {
        weft_alloc_fail_at(++n);
        weft_status status = made(f, 2, 1, "w", 0, t);
        if (status == WEFT_OK)
            status = event(f, WEFT_EVENT_STEP_END, (weft_run_view){.step = 2});
        reached = weft_alloc_count() >= n;
        weft_alloc_fail_at(0);
        assert_int_equal(status, reached ? WEFT_ERR_MEMORY : WEFT_OK);
        dump_forget(f->self);
    }
    assert_true(n > 5);
}

static void snapshots(void **state)
{
    (void)state;
    uint16_t bits[3] = {0x3f80, 0x7fc1, 0x8000}, copy[3] = {0};
    weft_tensor in = {.data = bits, .dtype = WEFT_BF16, .n_dims = 1, .size = {3}}, out = in;
    weft_call call = {.n_ins = 1, .n_outs = 1, .ins = &in, .outs = &out};
    out.data = copy;
    assert_int_equal(dump_ops[0]->plain(&call, NULL), WEFT_OK);
    assert_memory_equal(bits, copy, sizeof bits);
    out.size[0] = 2;
    assert_int_equal(dump_ops[0]->plain(&call, NULL), WEFT_ERR_INTERNAL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_step),
        TEST(other_steps_leave_nothing),
        TEST(made_twice_is_there_once),
        TEST(a_rank_of_many),
        TEST(empty_parts),
        TEST(a_step_that_fails),
        TEST(chosen_steps),
        TEST(no_folder),
        TEST(bad_settings),
        TEST(memory_runs_out),
        cmocka_unit_test(snapshots),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
