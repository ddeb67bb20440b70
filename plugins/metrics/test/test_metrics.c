/* SPDX-License-Identifier: Apache-2.0 */
/* Drives the observer with hand-made steps: the file, the lines, the bar. */
#include "../metrics.h"
#include "settings/settings.h"
#include "tests/lib/created.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include <weft/files.h>

extern const weft_plugin metrics_LTX_plugin;

typedef struct fixture {
    weft_settings *settings;
    weft_host host;
    weft_log log;
    weft_text lines; /* what was logged, a line each */
    weft_error err;
    void *self;
    char dir[64], file[96];
} fixture;

static void keep_line(void *self, weft_log_level level, const char *line)
{
    assert_int_equal(level, WEFT_LOG_INFO);
    weft_text_print(self, "%s\n", line);
}

static int setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    if (!f)
        return -1;
    snprintf(f->dir, sizeof f->dir, "/tmp/weft-metrics-XXXXXX");
    if (!mkdtemp(f->dir))
        return -1;
    snprintf(f->file, sizeof f->file, "%s/metrics.jsonl", f->dir);
    setenv("COLUMNS", "100", 1);
    *state = f;
    return 0;
}

static void end(fixture *f)
{
    created_release(&metrics_LTX_plugin, &f->host, f->self);
    f->self = NULL;
    weft_settings_destroy(f->settings);
    f->settings = NULL;
}

static int teardown(void **state)
{
    fixture *f = *state;
    end(f);
    weft_text_release(&f->lines);
    weft_error_release(&f->err);
    unlink(f->file);
    rmdir(f->dir);
    free(f);
    return 0;
}

static weft_status begin(fixture *f, const char *ini, bool terminal)
{
    f->log = (weft_log){keep_line, &f->lines};
    f->host = (weft_host){.log = &f->log, .dir = f->dir, .ranks = 1, .terminal = terminal};
    assert_int_equal(weft_settings_read_text("test.ini", ini, strlen(ini), &f->settings, &f->err),
                     WEFT_OK);
    assert_int_equal(weft_settings_section(f->settings, "metrics", metrics_LTX_plugin.params,
                                           &f->host.params, &f->err),
                     WEFT_OK);
    return created_init(&metrics_LTX_plugin, &f->host, &f->self, &f->err);
}

static weft_status event(fixture *f, weft_event which, weft_run_view run)
{
    if (!run.dir)
        run.dir = f->dir;
    return metrics_LTX_plugin.contributions[0].observe(f->self, which, &run, &f->err);
}

static const weft_report reports[] = {{"grad_norm", 1.5}, {"lr", 3e-4}, {"balance", 0.25}};

static weft_run_view step_view(int64_t step)
{
    return (weft_run_view){.unit = "tokens",
                           .ranks = 1,
                           .step = step,
                           .steps = 30,
                           .tokens = 2048,
                           .total_tokens = 2048 * step,
                           .loss = 4.5,
                           .grad_norm = 1.5,
                           .step_s = 0.5,
                           .data_s = 0.125,
                           .elapsed_s = 0.5 * (double)step,
                           .flops = 1e12,
                           .peak_flops = 4e12,
                           .planned_bytes = 1 << 20,
                           .peak_bytes = 1500000,
                           .base_bytes = 700000,
                           .reports = reports,
                           .n_reports = 3};
}

static char *read_text(const char *path)
{
    char *data = NULL;
    size_t size = 0;
    assert_int_equal(weft_read_file(path, &data, &size, NULL), WEFT_OK);
    return data;
}

/* Takes the first time out. */
static void forget_time(char *text)
{
    char *at = strstr(text, ", \"time\": \"20");
    assert_non_null(at);
    char *behind = strchr(at, 'Z') + 2;
    assert_int_equal(behind - at, 36); /* to the millisecond */
    memmove(at, behind, strlen(behind) + 1);
}

/* ---- the file ---- */

static void one_object_a_step(void **state)
{
    fixture *f = *state;
    assert_int_equal(begin(f, "[metrics]\n", false), WEFT_OK);
    assert_int_equal(event(f, WEFT_EVENT_START, (weft_run_view){.unit = "tokens", .ranks = 1}),
                     WEFT_OK);
    assert_int_equal(event(f, WEFT_EVENT_STEP_END, step_view(1)), WEFT_OK);
    /* Read before STOP: every line is on its way at once. */
    char *text = read_text(f->file);
    forget_time(text);
    assert_string_equal(text, "{\"step\": 1, \"loss\": 4.5, \"grad_norm\": 1.5, \"lr\": "
                              "0.00029999999999999997, \"tokens\": 2048, \"total_tokens\": 2048, "
                              "\"skipped\": 0, "
                              "\"tokens_per_s\": 4096, \"step_s\": 0.5, \"data_s\": 0.125, "
                              "\"mfu\": 0.5, \"peak_bytes\": 1500000, \"base_bytes\": 700000, "
                              "\"planned_bytes\": 1048576, \"balance\": 0.25}\n");
    weft_free(text);
}

static void not_finite_is_null(void **state)
{
    fixture *f = *state;
    assert_int_equal(begin(f, "[metrics]\nevery = 0\n", false), WEFT_OK);
    assert_int_equal(event(f, WEFT_EVENT_START, (weft_run_view){.unit = "tokens", .ranks = 1}),
                     WEFT_OK);
    weft_run_view fast = step_view(1);
    fast.peak_flops = 1e9; /* less than was done: never more than all of it */
    assert_true(metrics_mfu(&fast) == 1.0);
    weft_run_view run = step_view(1);
    run.loss = NAN;
    run.grad_norm = INFINITY;
    run.step_s = 0;
    run.peak_flops = 0;
    run.n_reports = 0;
    assert_int_equal(event(f, WEFT_EVENT_STEP_END, run), WEFT_OK);
    char *text = read_text(f->file);
    assert_non_null(strstr(text, "\"loss\": null, \"grad_norm\": null, \"lr\": null,"));
    assert_non_null(strstr(text, "\"tokens_per_s\": null, \"step_s\": 0,"));
    assert_non_null(strstr(text, "\"mfu\": null,"));
    assert_null(strstr(text, "nan"));
    assert_null(strstr(text, "inf"));
    weft_free(text);
    assert_int_equal(f->lines.size, 0);
}

/* A tensor of 3 dims cut into boxes at random places, elements of every width. */
static void parts_add_up(void **state)
{
    (void)state;
    static const weft_dtype dtypes[] = {WEFT_U8, WEFT_BF16, WEFT_F32, WEFT_F64};
    const int64_t whole[3] = {4, 3, 5};
    unsigned char bytes[4 * 3 * 5 * 8], part[sizeof bytes];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (unsigned char)(37 * i + i / 7);
    for (int k = 0; k < 4; k++) {
        const size_t width = weft_dtype_size(dtypes[k]);
        weft_tensor all = {.data = bytes, .dtype = dtypes[k], .n_dims = 3};
        memcpy(all.size, whole, sizeof whole);
        memcpy(all.whole, whole, sizeof whole);
        const uint64_t expected = metrics_hash_part("w", &all);
        assert_true(expected != metrics_hash_part("v", &all));
        uint64_t sum = 0;
        for (int box = 0; box < 8;
             box++) { /* cut at (1, 2, 3); at 4 the last dim's rest is empty */
            const int64_t cut[3] = {1, 2, k % 2 ? 3 : 5};
            weft_tensor t = {.data = part, .dtype = dtypes[k], .n_dims = 3};
            memcpy(t.whole, whole, sizeof whole);
            for (int d = 0; d < 3; d++) {
                t.lo[d] = box >> d & 1 ? cut[d] : 0;
                t.size[d] = box >> d & 1 ? whole[d] - cut[d] : cut[d];
            }
            size_t n = 0;
            for (int64_t i = 0; i < 60; i++) {
                const int64_t at[3] = {i / 15, i / 5 % 3, i % 5};
                bool in = true;
                for (int d = 0; d < 3; d++)
                    in = in && at[d] >= t.lo[d] && at[d] < t.lo[d] + t.size[d];
                if (in)
                    memcpy(part + width * n++, bytes + width * (size_t)i, width);
            }
            sum += metrics_hash_part("w", &t);
        }
        assert_int_equal(sum, expected);
        bytes[59 * width] ^= 1;
        assert_true(expected != metrics_hash_part("w", &all));
        bytes[59 * width] ^= 1;
    }
    float one = 2.5f; /* a tensor of no dims is one element */
    const weft_tensor scalar = {.data = &one, .dtype = WEFT_F32};
    assert_true(metrics_hash_part("w", &scalar) != 0);
}

static void hashes_are_written(void **state)
{
    (void)state;
    weft_text text = {0};
    const weft_run_view run = step_view(1);
    metrics_add_step_json(&text, &run, &(metrics_hash){0xab, 0xffffffffffffffff, true});
    assert_non_null(strstr(weft_text_get(&text), ", \"hash\": \"00000000000000ab\", "
                                                 "\"state_hash\": \"ffffffffffffffff\", \"time"));
    weft_text_release(&text);
}

static void numbers_come_back(void **state)
{
    (void)state;
    const double losses[] = {1.0 / 3, (double)(1.0f / 3), 2.718281828459045, 1e-300};
    for (size_t i = 0; i < 4; i++) {
        weft_text text = {0};
        weft_run_view run = step_view(1);
        run.loss = losses[i];
        metrics_add_step_json(&text, &run, &(metrics_hash){0});
        double back = strtod(strstr(weft_text_get(&text), "\"loss\": ") + 8, NULL);
        assert_true(back == losses[i] ||
                    ((double)(float)losses[i] == losses[i] && (float)back == (float)losses[i]));
        weft_text_release(&text);
    }
}

static void appends_after_half_a_line(void **state)
{
    fixture *f = *state;
    assert_int_equal(weft_write_file(f->file, "{\"step\": 1}\n{\"st", 16, &f->err), WEFT_OK);
    assert_int_equal(begin(f, "[metrics]\n", false), WEFT_OK);
    assert_int_equal(
        event(f, WEFT_EVENT_START, (weft_run_view){.unit = "tokens", .ranks = 1, .step = 1}),
        WEFT_OK);
    weft_run_view run = step_view(7);
    run.eval_loss = 2.25;
    run.eval_tokens = 12345;
    assert_int_equal(event(f, WEFT_EVENT_EVALUATE, run), WEFT_OK);
    char *text = read_text(f->file);
    forget_time(text);
    assert_string_equal(
        text, "{\"step\": 1}\n{\"st\n{\"step\": 7, \"eval_loss\": 2.25, \"eval_tokens\": 12345}\n");
    weft_free(text);
    assert_string_equal(weft_text_get(&f->lines),
                        "step 7/30  validation loss 2.2500 over 12.3k tokens\n");
}

/* How many lines of a file begin so, and what all of them are. */
static int count_lines(const char *path, const char *begin)
{
    char *text = read_text(path);
    int n = 0;
    assert_true(!*text || text[strlen(text) - 1] == '\n');
    for (char *at = text; *at; at = strchr(at, '\n') + 1) {
        assert_true(strncmp(at, "{\"step\": ", 9) == 0);
        n += strncmp(at, begin, strlen(begin)) == 0;
    }
    weft_free(text);
    return n;
}

static void may_grow(rlim_t bytes)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes < limit.rlim_max ? bytes : limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

/* Nothing is lost while nothing can be written, and no reader sees half a line. */
static void waits_for_room(void **state)
{
    fixture *f = *state;
    assert_int_equal(begin(f, "[metrics]\n", false), WEFT_OK);
    assert_int_equal(event(f, WEFT_EVENT_START, (weft_run_view){.unit = "tokens", .ranks = 1}),
                     WEFT_OK);
    assert_int_equal(event(f, WEFT_EVENT_STEP_END, step_view(1)), WEFT_OK);
    char *text = read_text(f->file);
    signal(SIGXFSZ, SIG_IGN);
    may_grow(strlen(text) + 40);
    weft_free(text);
    for (int64_t step = 2; step <= 3; step++) {
        assert_int_equal(event(f, WEFT_EVENT_STEP_END, step_view(step)), WEFT_ERR_IO);
        assert_int_equal(count_lines(f->file, "{"), 1);
    }
    may_grow(RLIM_INFINITY);
    assert_int_equal(event(f, WEFT_EVENT_STEP_END, step_view(4)), WEFT_OK);
    assert_int_equal(count_lines(f->file, "{"), 4);
    assert_int_equal(count_lines(f->file, "{\"step\": 3,"), 1);
}

/* What steps had said that are made again is kept elsewhere. */
static void keeps_earlier_lines(void **state)
{
    static const char first[] = "{\"step\": 1}\n{\"step\": 2}\n{\"step\": 3}\n{\"step\": 4, \"lo";
    fixture *f = *state;
    char earlier[sizeof f->dir + 32];
    snprintf(earlier, sizeof earlier, "%s/metrics.earlier.jsonl", f->dir);
    assert_int_equal(weft_write_file(f->file, first, sizeof first - 1, &f->err), WEFT_OK);
    assert_int_equal(begin(f, "[metrics]\n", false), WEFT_OK);
    assert_int_equal(
        event(f, WEFT_EVENT_START, (weft_run_view){.unit = "tokens", .ranks = 1, .step = 2}),
        WEFT_OK);
    char *text = read_text(f->file);
    assert_string_equal(text, first); /* nothing changes before there is a step */
    weft_free(text);
    assert_int_equal(event(f, WEFT_EVENT_STEP_END, step_view(3)), WEFT_OK);
    assert_int_equal(count_lines(f->file, "{"), 3);
    text = read_text(earlier);
    assert_string_equal(text, "{\"step\": 3}\n{\"step\": 4, \"lo\n");
    weft_free(text);
    unlink(earlier);
}

static void only_rank_0_writes(void **state)
{
    fixture *f = *state;
    assert_int_equal(begin(f, "[metrics]\n", true), WEFT_OK);
    weft_run_view run = step_view(1);
    run.rank = 1;
    run.ranks = 2;
    assert_int_equal(event(f, WEFT_EVENT_START, run), WEFT_OK);
    assert_int_equal(event(f, WEFT_EVENT_STEP_END, run), WEFT_OK);
    assert_int_equal(event(f, WEFT_EVENT_EVALUATE, run), WEFT_OK);
    assert_int_equal(event(f, WEFT_EVENT_STOP, run), WEFT_OK);
    assert_int_equal(f->lines.size, 0);
    assert_int_not_equal(access(f->file, F_OK), 0);
}

static void file_can_be_off(void **state)
{
    fixture *f = *state;
    assert_int_equal(begin(f, "[metrics]\njsonl = no\n", false), WEFT_OK);
    assert_int_equal(event(f, WEFT_EVENT_START, (weft_run_view){.unit = "tokens", .ranks = 1}),
                     WEFT_OK);
    assert_int_equal(event(f, WEFT_EVENT_STEP_END, step_view(1)), WEFT_OK);
    assert_int_not_equal(access(f->file, F_OK), 0);
}

static void folder_is_missing(void **state)
{
    fixture *f = *state;
    assert_int_equal(begin(f, "[metrics]\n", false), WEFT_OK);
    char missing[80];
    snprintf(missing, sizeof missing, "%s/missing", f->dir);
    assert_int_equal(
        event(f, WEFT_EVENT_START, (weft_run_view){.unit = "tokens", .ranks = 1, .dir = missing}),
        WEFT_OK);
    assert_int_equal(event(f, WEFT_EVENT_STEP_END, step_view(1)), WEFT_ERR_INPUT);
    assert_non_null(strstr(weft_error_text(&f->err), "/missing/metrics.jsonl"));
}

/* ---- the console ---- */

static int count(const char *text, const char *what)
{
    int n = 0;
    for (; (text = strstr(text, what)); text++)
        n++;
    return n;
}

static void lines_every_so_often(void **state)
{
    fixture *f = *state;
    assert_int_equal(begin(f, "[metrics]\nevery = 20\n", false), WEFT_OK);
    for (int64_t step = 1; step <= 30; step++)
        assert_int_equal(event(f, WEFT_EVENT_STEP_END, step_view(step)), WEFT_OK);
    const char *text = weft_text_get(&f->lines);
    assert_int_equal(count(text, "\n"), 3);
    assert_non_null(strstr(text, "step 1/30  loss 4.5000  grad_norm 1.5  lr 0.0003  4.1k tokens/s  "
                                 "MFU 50.0%  left 0:00:15\n"));
    assert_non_null(strstr(text, "step 20/30 "));
    assert_non_null(strstr(text, "step 30/30 "));
}

static void step_lines_fit(void **state)
{
    (void)state;
    metrics_window window = {0};
    weft_run_view run = step_view(1);
    weft_text whole = {0}, line = {0};
    metrics_window_add(&window, &run);
    metrics_add_step_line(&whole, &run, &window, 200);
    assert_non_null(strstr(weft_text_get(&whole), "  lr "));
    for (int width = 0; width <= 200; width++) {
        weft_text_clear(&line);
        metrics_add_step_line(&line, &run, &window, width);
        assert_non_null(strstr(weft_text_get(&line), "step 1/30  loss 4.5000"));
        if (width >= (int)strlen("step 1/30  loss 4.5000"))
            assert_true((int)line.size <= width);
        if (width >= (int)whole.size)
            assert_string_equal(weft_text_get(&line), weft_text_get(&whole));
    }
    weft_text_clear(&line);
    metrics_add_step_line(&line, &run, &window, (int)whole.size - 1);
    assert_null(strstr(weft_text_get(&line), "  lr "));
    assert_non_null(strstr(weft_text_get(&line), "tokens/s"));
    weft_text_release(&whole);
    weft_text_release(&line);
}

/* Several terms of the loss stand behind it, if there is room. */
static void terms_of_the_loss(void **state)
{
    (void)state;
    static const weft_report terms[] = {{"loss.head", 4.25}, {"lr", 3e-4}, {"loss.mtp1", 0.25}};
    metrics_window window = {0};
    weft_run_view run = step_view(1);
    weft_text line = {0};
    run.reports = terms;
    metrics_window_add(&window, &run);
    metrics_add_step_line(&line, &run, &window, 200);
    assert_non_null(strstr(weft_text_get(&line), "loss 4.5000 (head 4.2500, mtp1 0.2500)  grad_"));
    weft_text_clear(&line);
    metrics_add_step_line(&line, &run, &window, 50);
    assert_null(strstr(weft_text_get(&line), "head"));
    weft_text_clear(&line);
    metrics_add_step_json(&line, &run, &(metrics_hash){0});
    assert_non_null(
        strstr(weft_text_get(&line), ", \"loss.head\": 4.25, \"loss.mtp1\": 0.25, \"time\": "));
    run.grad_norm = NAN; /* nobody makes one, */
    weft_text_clear(&line);
    metrics_add_step_line(&line, &run, &window, 200);
    assert_null(strstr(weft_text_get(&line), "grad_norm"));
    run.reports = reports; /* and one that is not a number */
    run.n_reports = 1;
    weft_text_clear(&line);
    metrics_add_step_line(&line, &run, &window, 200);
    assert_non_null(strstr(weft_text_get(&line), "grad_norm nan"));
    weft_text_release(&line);
}

static void summaries(void **state)
{
    fixture *f = *state;
    assert_int_equal(begin(f, "[metrics]\nevery = 0\n", false), WEFT_OK);
    assert_int_equal(event(f, WEFT_EVENT_STEP_END, step_view(30)), WEFT_OK);
    weft_run_view run = {.unit = "tokens",
                         .ranks = 1,
                         .step = 30,
                         .steps = 30,
                         .total_tokens = 61440,
                         .elapsed_s = 3723};
    assert_int_equal(event(f, WEFT_EVENT_STOP, run), WEFT_OK);
    assert_string_equal(weft_text_get(&f->lines),
                        "done after step 30/30, 1:02:03: 61.4k tokens, loss 4.5000, 4.1k tokens/s  "
                        "MFU 50.0%, peak memory "
                        "1.4 MiB (weft itself and data 684 KiB, planned 1.0 MiB)\n");
    end(f);
    weft_text_clear(&f->lines);
    assert_int_equal(begin(f, "[metrics]\nevery = 0\n", false), WEFT_OK);
    assert_int_equal(event(f, WEFT_EVENT_STEP_END, step_view(30)), WEFT_OK);
    run.ranks = 4;
    assert_int_equal(event(f, WEFT_EVENT_STOP, run), WEFT_OK);
    assert_non_null(strstr(weft_text_get(&f->lines), ", planned 1.0 MiB for rank 0)\n"));
    run.ranks = 1;
    end(f);
    weft_text_clear(&f->lines);
    assert_int_equal(begin(f, "[metrics]\n", false), WEFT_OK);
    run.status = WEFT_ERR_STOPPED;
    assert_int_equal(event(f, WEFT_EVENT_STOP, run), WEFT_OK);
    run.status = WEFT_ERR_RUN;
    assert_int_equal(event(f, WEFT_EVENT_STOP, run), WEFT_OK);
    assert_string_equal(weft_text_get(&f->lines),
                        "stopped after step 30/30, 1:02:03\nfailed in step 30/30, 1:02:03\n");
}

static void median(void **state)
{
    (void)state;
    metrics_window w = {0};
    assert_true(isnan(metrics_median(&w, w.step_s)));
    weft_run_view run = step_view(1);
    const double seconds[] = {5, 1, 3};
    for (int i = 0; i < 3; i++) {
        run.step_s = seconds[i];
        metrics_window_add(&w, &run);
    }
    assert_true(metrics_median(&w, w.step_s) == 3);
    run.step_s = 4;
    metrics_window_add(&w, &run);
    assert_true(metrics_median(&w, w.step_s) == 3.5);
    /* Twenty newer steps push all of these out. */
    run.step_s = 2;
    for (int i = 0; i < METRICS_WINDOW; i++)
        metrics_window_add(&w, &run);
    assert_true(metrics_median(&w, w.step_s) == 2);
}

/* ---- the bar ---- */

static void bar_on_a_terminal(void **state)
{
    fixture *f = *state;
    assert_int_equal(begin(f, "[metrics]\nevery = 0\n", true), WEFT_OK);
    assert_int_equal(event(f, WEFT_EVENT_STEP_END, step_view(15)), WEFT_OK);
    /* 99 columns, less 10 for the step, 53 for the figures and 4 around the gauge: 32 cells, half
     * of them full. */
    assert_string_equal(weft_text_get(&f->lines),
                        "\rstep 15/30  [================>               ]  loss 4.5000  0:00:08 "
                        "left  4.1k tokens/s  MFU 50.0%\n");
    assert_int_equal(f->lines.size, 1 + 99 + 1);
    assert_int_equal(event(f, WEFT_EVENT_STEP_END, step_view(30)), WEFT_OK);
    assert_int_equal(count(weft_text_get(&f->lines), "\rstep 30/30"), 1);
    weft_text_clear(&f->lines);
    assert_int_equal(event(f, WEFT_EVENT_STOP,
                           (weft_run_view){.unit = "tokens", .ranks = 1, .step = 30, .steps = 30}),
                     WEFT_OK);
    assert_int_equal(strncmp(weft_text_get(&f->lines), "\r\ndone after step 30/30", 22), 0);
}

static void bar_or_not(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *ini;
        bool terminal, want;
    } cases[] = {{"[metrics]\n", false, false},
                 {"[metrics]\n", true, true},
                 {"[metrics]\nbar = no\n", true, false},
                 {"[metrics]\nbar = yes\n", false, true}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(begin(f, cases[i].ini, cases[i].terminal), WEFT_OK);
        assert_int_equal(event(f, WEFT_EVENT_STEP_END, step_view(2)), WEFT_OK);
        assert_int_equal(strchr(weft_text_get(&f->lines), '\r') != NULL, cases[i].want);
        end(f);
        weft_text_clear(&f->lines);
    }
}

static void bar_fits(void **state)
{
    (void)state;
    metrics_window w = {0};
    weft_run_view run = step_view(29);
    metrics_window_add(&w, &run);
    for (int width = 0; width < 160; width++) {
        weft_text text = {0};
        metrics_add_bar(&text, &run, &w, width);
        assert_true((int)text.size <= width);
        if (width >= 10)
            assert_int_equal(strncmp(weft_text_get(&text), "step 29/30", 10), 0);
        if (width >= 80)
            assert_non_null(strstr(weft_text_get(&text), "MFU 50.0%"));
        weft_text_release(&text);
    }
}

static void counts_and_times(void **state)
{
    (void)state;
    weft_text text = {0};
    const double numbers[] = {0, 7, 999, 999.6, 1234, 12345, 1e6, 123456789, 8e15, NAN};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        metrics_add_count(&text, numbers[i]);
        weft_text_add(&text, " ");
    }
    assert_string_equal(weft_text_get(&text), "0 7 999 1k 1.23k 12.3k 1M 123M 8P ? ");
    weft_text_clear(&text);
    const double seconds[] = {0, 59.6, 3599, 360000, -1, NAN, INFINITY};
    for (size_t i = 0; i < sizeof seconds / sizeof seconds[0]; i++) {
        metrics_add_time(&text, seconds[i]);
        weft_text_add(&text, " ");
    }
    assert_string_equal(weft_text_get(&text), "0:00:00 0:01:00 0:59:59 100:00:00 ? ? ? ");
    weft_text_release(&text);
}

static void memory_runs_out(void **state)
{
    fixture *f = *state;
    assert_int_equal(begin(f, "[metrics]\nevery = 1\n", true), WEFT_OK);
    assert_int_equal(event(f, WEFT_EVENT_START, (weft_run_view){.unit = "tokens", .ranks = 1}),
                     WEFT_OK);
    for (long n = 1;; n++) {
        weft_alloc_fail_at(n);
        weft_status status = event(f, WEFT_EVENT_STEP_END, step_view(n));
        bool reached = weft_alloc_count() >= n;
        weft_alloc_fail_at(0);
        if (!reached) {
            assert_int_equal(status, WEFT_OK);
            assert_true(n > 1);
            break;
        }
        /* A failed log line is the log's affair; everything else is an error. */
        assert_true(status == WEFT_ERR_MEMORY || status == WEFT_OK);
        assert_true(n < 1000);
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(one_object_a_step),
        TEST(not_finite_is_null),
        TEST(parts_add_up),
        TEST(hashes_are_written),
        TEST(numbers_come_back),
        TEST(appends_after_half_a_line),
        TEST(waits_for_room),
        TEST(keeps_earlier_lines),
        TEST(only_rank_0_writes),
        TEST(file_can_be_off),
        TEST(folder_is_missing),
        TEST(lines_every_so_often),
        TEST(step_lines_fit),
        TEST(terms_of_the_loss),
        TEST(median),
        TEST(summaries),
        TEST(median),
        TEST(bar_on_a_terminal),
        TEST(bar_or_not),
        TEST(bar_fits),
        TEST(counts_and_times),
        TEST(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
