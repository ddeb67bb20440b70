/* SPDX-License-Identifier: Apache-2.0 */
/* The device as the core sees it: parameters, memory, queues, what it says of itself, and the cache
 * of its measured rate. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "cpu.h"
#include "settings/settings.h"
#include "tests/lib/created.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weft/files.h>

extern const weft_plugin cpu_LTX_plugin;

typedef struct session {
    weft_settings *settings;
    weft_host host;
    void *self;
    const weft_device *device;
    weft_error err;
} session;

/* Far memory that the plugins listed beside it give. */
static const weft_far *far;

static const void *service_of(const weft_host *host, const char *name, void **self)
{
    (void)host;
    *self = NULL;
    return strcmp(name, "far") == 0 ? far : NULL;
}

/* Creates and opens the plugin with these lines in [cpu]. */
static weft_status begin(session *s, const char *lines, int threads)
{
    char text[256];
    memset(s, 0, sizeof *s);
    int n = snprintf(text, sizeof text, "[cpu]\n%s", lines);
    assert_int_equal(weft_settings_read_text("test.ini", text, (size_t)n, &s->settings, &s->err),
                     WEFT_OK);
    weft_status status =
        weft_settings_section(s->settings, "cpu", cpu_LTX_plugin.params, &s->host.params, &s->err);
    if (status != WEFT_OK)
        return status;
    s->host.threads = threads;
    s->host.ranks = 1;
    s->host.service = service_of;
    status = created_init(&cpu_LTX_plugin, &s->host, &s->self, &s->err);
    if (status != WEFT_OK)
        return status;
    assert_string_equal(cpu_LTX_plugin.contributions[0].service, "device");
    s->device = cpu_LTX_plugin.contributions[0].table;
    return cpu_LTX_plugin.open(s->self, &s->err);
}

static void end(session *s)
{
    if (s->self) {
        cpu_LTX_plugin.close(s->self);
        created_release(&cpu_LTX_plugin, &s->host, s->self);
    }
    weft_settings_destroy(s->settings);
    weft_error_release(&s->err);
}

static void test_defaults(void **state)
{
    session s;
    weft_text text = {0};
    (void)state;
    assert_int_equal(begin(&s, "", 3), WEFT_OK);
    assert_int_equal(s.device->size, sizeof(weft_device));
    assert_string_equal(s.device->name, "cpu");
    assert_true(s.device->host_memory);
    assert_false(s.device->plain(s.self));
    assert_int_equal(s.device->adversary(s.self), 0);
    assert_int_equal(s.device->queue(s.self, 0)->threads, 3);
    assert_int_equal(s.device->queue(s.self, 0)->products,
                     cpu_has_bf16() ? CPU_PRODUCTS_BF16 : CPU_PRODUCTS_F32);
    assert_null(s.device->queue(s.self, CPU_MAX_QUEUES));
    s.device->describe(s.self, &text);
    assert_non_null(strstr(weft_text_get(&text), "3 threads"));
    assert_non_null(strstr(weft_text_get(&text), "oneDNN"));
    weft_text_release(&text);
    end(&s);
}

static void test_settings(void **state)
{
    session s;
    weft_text text = {0};
    (void)state;
    assert_int_equal(
        begin(&s, "kernels = plain\nproducts = f32\nqueues = adversarial\nadversary_seed = 77\n",
              1),
        WEFT_OK);
    assert_true(s.device->plain(s.self));
    assert_int_equal(s.device->adversary(s.self), 77);
    assert_int_equal(s.device->n_queues, 2);
    assert_non_null(s.device->queue(s.self, 1));
    assert_int_equal(s.device->queue(s.self, 1)->products, CPU_PRODUCTS_F32);
    s.device->describe(s.self, &text);
    assert_non_null(strstr(weft_text_get(&text), "plain kernels"));
    assert_non_null(strstr(weft_text_get(&text), "seed 77"));
    weft_text_release(&text);
    end(&s);
}

static void test_bf16_products_need_the_hardware(void **state)
{
    session s;
    (void)state;
    weft_status status = begin(&s, "products = bf16\n", 1);
    assert_int_equal(status, cpu_can_bf16() ? WEFT_OK : WEFT_ERR_INPUT);
    if (status != WEFT_OK)
        assert_non_null(strstr(weft_error_text(&s.err), "test.ini:2"));
    end(&s);
}

static void test_bad_settings(void **state)
{
    static const char *const lines[] = {"kernels = fast\n", "queues = 3\n", "adversary_seed = 0\n",
                                        "products = f16\n"};
    (void)state;
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        session s;
        assert_int_equal(begin(&s, lines[i], 1), WEFT_ERR_INPUT);
        assert_non_null(strstr(weft_error_text(&s.err), "test.ini:2"));
        end(&s);
    }
}

static void test_memory(void **state)
{
    session s;
    void *p = NULL;
    char back[4] = {0};
    (void)state;
    assert_int_equal(begin(&s, "", 1), WEFT_OK);
    assert_int_equal(s.device->alloc(s.self, 1000, &p, &s.err), WEFT_OK);
    assert_int_equal((uintptr_t)p % 64, 0);
    for (int i = 0; i < 1000; i++)
        assert_int_equal(((char *)p)[i], 0);
    assert_int_equal(s.device->upload(s.self, NULL, p, "abc", 4, &s.err), WEFT_OK);
    assert_int_equal(s.device->download(s.self, NULL, back, p, 4, &s.err), WEFT_OK);
    assert_string_equal(back, "abc");
    assert_int_equal(s.device->wait(s.self, &s.err), WEFT_OK);
    s.device->free(s.self, p, 1000);
    weft_alloc_fail_at(1);
    assert_int_equal(s.device->alloc(s.self, 1000, &p, &s.err), WEFT_ERR_MEMORY);
    weft_alloc_fail_at(0);
    end(&s);
    weft_host host = s.host;
    void *self = NULL;
    weft_alloc_fail_at(1);
    assert_int_equal(created_init(&cpu_LTX_plugin, &host, &self, NULL), WEFT_ERR_MEMORY);
    weft_alloc_fail_at(0);
}

/* ---- the measured rate ---- */

static const weft_queue queue = {.threads = 1, .products = CPU_PRODUCTS_F32};

static void put(const char *path, const char *text)
{
    assert_int_equal(weft_write_file(path, text, strlen(text), NULL), WEFT_OK);
}

/* The file with its last line replaced. */
static char *with_last_line(const char *text, const char *line)
{
    size_t n = strlen(text) - 1;
    while (n > 0 && text[n - 1] != '\n')
        n--;
    char *made = weft_format("%.*s%s", (int)n, text, line);
    assert_non_null(made);
    return made;
}

/* What the next measurement finds. */
static cpu_sample found;
static int n_measured;
static weft_dtype measured_dtype;

static cpu_sample pretend(weft_dtype dtype, int threads, double seconds)
{
    assert_int_equal(threads, queue.threads);
    assert_true(seconds > 0 && seconds <= 0.1);
    measured_dtype = dtype;
    n_measured++;
    return found;
}

static double peak(const char *cache, double rate, bool clean, double reached)
{
    const weft_host host = {.cache_dir = cache};
    found = (cpu_sample){rate, clean};
    return cpu_peak_by(pretend, WEFT_F32, &queue, &host, reached);
}

static void assert_kept(const char *path, const char *line)
{
    char *text = NULL;
    size_t size;
    assert_int_equal(weft_read_file(path, &text, &size, NULL), WEFT_OK);
    const char *last = strstr(text, "f32\n");
    assert_non_null(last);
    assert_string_equal(last + 4, line);
    weft_free(text);
}

static void test_peak_is_the_best_of_all_runs(void **state)
{
    char dir[] = "/tmp/weft-peak-XXXXXX", *text = NULL;
    size_t size;
    (void)state;
    assert_non_null(mkdtemp(dir));
    char *cache = weft_format("%s/not/yet/there", dir),
         *path = cpu_peak_path(WEFT_F32, &queue, cache);

    assert_true(peak(cache, 2e9, false, 0) == 2e9); /* busy: of use now, not later */
    assert_int_not_equal(access(path, F_OK), 0);
    assert_true(peak(cache, 0, false, 5e9) == 0); /* what cannot be measured stays unknown */
    assert_int_not_equal(access(path, F_OK), 0);
    assert_true(peak(cache, 3e9, true, 0) == 3e9);
    assert_kept(path, "3.000000e+09 flop/s\n");
    assert_true(peak(cache, 1e9, true, 0) == 3e9); /* no run makes it worse */
    assert_kept(path, "3.000000e+09 flop/s\n");
    assert_true(peak(cache, 1e11, false, 0) == 1e11);
    assert_kept(path, "3.000000e+09 flop/s\n");
    assert_true(peak(cache, 1.25e11, true, 0) == 1.25e11); /* far too low: corrected */
    assert_kept(path, "1.250000e+11 flop/s\n");
    assert_true(peak(cache, 1e11, true, 1e12) == 1e12); /* never below what was done */
    assert_kept(path, "1.250000e+11 flop/s\n");

    assert_int_equal(weft_read_file(path, &text, &size, NULL), WEFT_OK);
    static const char *const bad[] = {"",
                                      "\n",
                                      "nan flop/s\n",
                                      "-5 flop/s\n",
                                      "1e300 flop/s\n",
                                      "1.25e+11",
                                      "1.25e+11 flop/s\nmore"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char *broken = with_last_line(text, bad[i]);
        put(path, broken);
        assert_true(peak(cache, 7e9, false, 0) == 7e9);
        weft_free(broken);
    }
    put(path, "of another machine\n1.25e+11 flop/s\n");
    assert_true(peak(cache, 7e9, false, 0) == 7e9);
    put(path, strstr(text, "\n") + 1); /* without the format's name: an old file */
    assert_true(peak(cache, 7e9, false, 0) == 7e9);

    assert_int_equal(remove(path), 0);
    for (int up = 0; up < 4; up++) { /* there, yet, not, and the folder itself */
        char *folder = weft_format("%s%s", dir,
                                   up == 0   ? "/not/yet/there"
                                   : up == 1 ? "/not/yet"
                                   : up == 2 ? "/not"
                                             : "");
        assert_int_equal(rmdir(folder), 0);
        weft_free(folder);
    }
    weft_free(text);
    weft_free(path);
    weft_free(cache);
}

static void test_peak_without_a_cache(void **state)
{
    const weft_host host = {0};
    (void)state;
    assert_true(peak(NULL, 2e9, true, 0) == 2e9);
    assert_true(peak("/dev/null/no-folder", 2e9, true, 0) == 2e9); /* cannot be written */
    n_measured = 0;
    assert_true(cpu_peak_by(pretend, WEFT_F64, &queue, &host, 1e9) == 0.0);
    assert_int_equal(n_measured, 0);
    assert_true(cpu_peak_by(pretend, WEFT_BF16, &queue, &host, 0) == 2e9);
    assert_int_equal(measured_dtype, WEFT_F32); /* widened */
}

/* The real thing: whichever allocation fails, what is kept is of whole measurements. */
static void test_peak_is_measured(void **state)
{
    char dir[] = "/tmp/weft-peak-XXXXXX";
    (void)state;
    assert_non_null(mkdtemp(dir));
    const weft_host host = {.cache_dir = dir};
    char *path = cpu_peak_path(WEFT_F32, &queue, dir);
    double rate = cpu_peak(WEFT_F32, &queue, &host, 0);
    assert_true(rate > 1e7 && rate < 1e15);
    (void)remove(path);
    int stopgaps = 0;
    for (long k = 1; k <= 10; k++) {
        const weft_host alone = {0};
        weft_alloc_fail_at(k);
        rate = cpu_peak(WEFT_F32, &queue, &alone, 0);
        weft_alloc_fail_at(k);
        double again = cpu_peak(WEFT_F32, &queue, &host, 0);
        weft_alloc_fail_at(0);
        assert_true(rate == 0 || (rate > 1e6 && rate < 1e15));
        assert_true(again == 0 || (again > 1e6 && again < 1e15));
        stopgaps += again > 0 && access(path, F_OK) != 0;
        (void)remove(path);
    }
    assert_true(stopgaps > 0);
    assert_int_equal(rmdir(dir), 0);
    weft_free(path);
}

static void test_peak_depends_on_how_it_is_made(void **state)
{
    weft_queue more = {.threads = 2, .products = CPU_PRODUCTS_F32},
               bf16 = {.threads = 1, .products = CPU_PRODUCTS_BF16};
    char *paths[4] = {cpu_peak_path(WEFT_F32, &queue, "/c"), cpu_peak_path(WEFT_F32, &more, "/c"),
                      cpu_peak_path(WEFT_BF16, &queue, "/c"),
                      cpu_peak_path(WEFT_BF16, &bf16, "/c")};
    (void)state;
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < i; j++)
            assert_string_not_equal(paths[i], paths[j]);
    for (int i = 0; i < 4; i++)
        weft_free(paths[i]);
    assert_null(cpu_peak_path(WEFT_F32, &queue, NULL));
    const weft_host host = {0};
    assert_true(cpu_peak(WEFT_BF16, &queue, &host, 0) > 0.0); /* widened, so every CPU can */
}

/* Has the system been asked for large pages there? */
static bool is_large(const void *memory)
{
    FILE *maps = fopen("/proc/self/smaps", "r");
    unsigned long lo, hi;
    char line[512];
    bool here = false, large = false;
    assert_non_null(maps);
    while (fgets(line, sizeof line, maps)) {
        if (sscanf(line, "%lx-%lx ", &lo, &hi) == 2)
            here = (uintptr_t)memory >= lo && (uintptr_t)memory < hi;
        else if (here && strncmp(line, "VmFlags:", 8) == 0)
            large = strstr(line, " hg") != NULL;
    }
    fclose(maps);
    return large;
}

static bool gives_large(size_t bytes)
{
    session s;
    void *memory;
    assert_int_equal(begin(&s, "", 1), WEFT_OK);
    assert_int_equal(s.device->alloc(s.self, bytes, &memory, &s.err), WEFT_OK);
    const bool large = is_large(memory);
    assert_int_equal((uintptr_t)memory % (bytes < 4096 ? 64 : 4096), 0);
    for (size_t i = 0; i < bytes; i++)
        assert_false(((char *)memory)[i]);
    s.device->free(s.self, memory, bytes);
    end(&s);
    return large;
}

/* They take long to come by, so only a run whose state lies on a disk pays for them. */
static void test_large_pages(void **state)
{
    const size_t much = (size_t)40 << 20;
    const weft_far disk = {.size = sizeof disk},
                   host = {.size = sizeof host, .in_host_memory = true};
    (void)state;
    if (access("/sys/kernel/mm/transparent_hugepage/enabled", R_OK) != 0)
        skip();
    assert_false(gives_large(much));
    far = &host;
    assert_false(gives_large(much));
    far = &disk;
    assert_true(gives_large(much));
    assert_false(gives_large(100));
    assert_false(gives_large(8192));
    far = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_settings),
        cmocka_unit_test(test_bf16_products_need_the_hardware),
        cmocka_unit_test(test_bad_settings),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_peak_is_the_best_of_all_runs),
        cmocka_unit_test(test_peak_without_a_cache),
        cmocka_unit_test(test_peak_is_measured),
        cmocka_unit_test(test_peak_depends_on_how_it_is_made),
        cmocka_unit_test(test_large_pages),
    };
    return cmocka_run_group_tests_name("cpu_device", tests, NULL, NULL);
}
