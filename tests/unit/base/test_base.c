/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/array.h"
#include <weft/base.h>

/* ---- errors ---- */

static void error_says_where(void **state)
{
    (void)state;
    weft_error err = {0};
    assert_int_equal(weft_error_status(&err), WEFT_OK);
    assert_string_equal(weft_error_text(&err), "");
    assert_int_equal(weft_fail(&err, WEFT_ERR_INPUT, (weft_where){"run.ini", 7}, "no %s", "steps"),
                     WEFT_ERR_INPUT);
    assert_int_equal(weft_fail(&err, WEFT_ERR_IO, (weft_where){"run.ini", 0}, "unreadable"),
                     WEFT_ERR_IO);
    assert_int_equal(weft_fail_memory(&err), WEFT_ERR_MEMORY);
    assert_int_equal(err.n_items, 3);
    assert_int_equal(weft_error_status(&err), WEFT_ERR_INPUT);
    assert_string_equal(weft_error_text(&err), "run.ini:7: no steps");
    assert_string_equal(err.items[1].text, "run.ini: unreadable");
    assert_string_equal(err.items[2].text, "out of memory");
    weft_error_clear(&err);
    assert_int_equal(weft_error_status(&err), WEFT_OK);
    weft_error_release(&err);
    assert_null(err.items);
    assert_int_equal(weft_fail(NULL, WEFT_ERR_RUN, WEFT_NOWHERE, "nobody listens"), WEFT_ERR_RUN);
}

static void error_keeps_many(void **state)
{
    (void)state;
    weft_error err = {0};
    for (int i = 0; i < 100; i++)
        weft_fail(&err, WEFT_ERR_INPUT, WEFT_NOWHERE, "%d", i);
    assert_int_equal(err.n_items, 100);
    assert_string_equal(err.items[99].text, "99");
    weft_error_release(&err);
}

/* With words in front, a place, and statuses of their own or one; what has no words stays. */
static void errors_move(void **state)
{
    (void)state;
    const weft_where where = {"run.ini", 7};
    weft_error to = {0}, from = {0};
    weft_fail(&from, WEFT_ERR_IO, WEFT_NOWHERE, "%%d is full");
    weft_fail(&from, WEFT_ERR_INPUT, WEFT_NOWHERE, "no");
    weft_error_move(&to, &from, WEFT_OK, where, "op %s: ", "add");
    assert_null(from.items);
    assert_int_equal(to.n_items, 2);
    assert_string_equal(to.items[0].text, "run.ini:7: op add: %d is full");
    assert_int_equal(to.items[0].status, WEFT_ERR_IO);
    assert_int_equal(to.items[1].status, WEFT_ERR_INPUT);
    weft_fail(&from, WEFT_ERR_IO, WEFT_NOWHERE, "later");
    from.out_of_memory = true;
    weft_error_move(&to, &from, WEFT_ERR_PLUGIN, WEFT_NOWHERE, "%s", "");
    assert_int_equal(to.n_items, 4);
    assert_string_equal(to.items[2].text, "later");
    assert_int_equal(to.items[2].status, WEFT_ERR_PLUGIN);
    assert_int_equal(to.items[3].status, WEFT_ERR_MEMORY);
    for (long n = 1; n <= 4; n++) { /* nothing gets lost in silence */
        weft_error full = {0};
        weft_fail(&from, WEFT_ERR_IO, WEFT_NOWHERE, "last");
        weft_alloc_fail_at(n);
        weft_error_move(&full, &from, WEFT_OK, WEFT_NOWHERE, "x: ");
        weft_alloc_fail_at(0);
        assert_true(full.n_items > 0 || full.out_of_memory);
        assert_int_equal(from.n_items, 0);
        weft_error_release(&full);
    }
    weft_alloc_fail_at(1); /* of nothing, nothing is made */
    weft_error_move(&from, &(weft_error){0}, WEFT_OK, WEFT_NOWHERE, "x: ");
    weft_alloc_fail_at(0);
    assert_int_equal(weft_error_status(&from), WEFT_OK);
    weft_error_move(NULL, &to, WEFT_OK, WEFT_NOWHERE, "nobody listens: ");
    assert_null(to.items);
}

/* Whatever allocation fails, the status is never lost. */
static void error_survives_out_of_memory(void **state)
{
    (void)state;
    for (long n = 1; n <= 3; n++) {
        weft_error err = {0};
        weft_alloc_fail_at(n);
        assert_int_equal(weft_fail(&err, WEFT_ERR_INPUT, (weft_where){"f", 1}, "text"),
                         WEFT_ERR_INPUT);
        weft_alloc_fail_at(0);
        assert_true(err.out_of_memory);
        assert_int_equal(weft_error_status(&err), WEFT_ERR_MEMORY);
        assert_string_equal(weft_error_text(&err), "out of memory");
        weft_error_release(&err);
    }
}

/* ---- the current plugin ---- */

static void *blame_of_thread(void *seen)
{
    *(weft_blame *)seen = weft_blame_get();
    return NULL;
}

static void blame_belongs_to_a_thread(void **state)
{
    (void)state;
    weft_blame before = weft_blame_set((weft_blame){.plugin = "tp", .hook = "graph"});
    assert_null(before.plugin);
    weft_blame seen = {.plugin = "x", .hook = "x"};
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, blame_of_thread, &seen), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_null(seen.plugin);
    assert_string_equal(weft_blame_get().hook, "graph");
    assert_string_equal(weft_blame_set(before).plugin, "tp");
    assert_null(weft_blame_get().plugin);
}

/* ---- memory ---- */

static void allocation_n_fails_once(void **state)
{
    (void)state;
    weft_alloc_fail_at(2);
    void *a = weft_alloc(0), *b = weft_alloc(1), *c = weft_alloc_zero(3, 5);
    assert_non_null(a);
    assert_null(b);
    assert_non_null(c);
    assert_true(weft_alloc_count() == 3);
    weft_alloc_fail_at(1);
    assert_null(weft_realloc(c, 100)); /* c is still ours */
    assert_memory_equal(c, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 15);
    weft_alloc_fail_at(0);
    weft_free(a);
    weft_free(c);
    weft_free(NULL);
}

static void odd_sizes(void **state)
{
    (void)state;
    assert_null(weft_alloc_zero(SIZE_MAX / 2, 4));
    void *empty = weft_alloc_zero(0, 8), *none = weft_realloc(NULL, 0),
         *aligned = weft_alloc_aligned(4096, 10);
    assert_non_null(empty);
    assert_non_null(none);
    assert_non_null(aligned);
    assert_true((uintptr_t)aligned % 4096 == 0);
    weft_free(empty);
    weft_free(none);
    weft_free_aligned(aligned);
}

static void pages(void **state)
{
    (void)state;
    const size_t many = ((size_t)40 << 20) + 5;
    char *few = weft_alloc_pages(10), *large = weft_alloc_pages(many);
    assert_true(few && (uintptr_t)few % 4096 == 0);
    assert_true(large && (uintptr_t)large % (2 << 20) == 0);
    large[0] = large[many - 1] = 1;
    weft_free_aligned(few);
    weft_free_aligned(large);
    weft_alloc_fail_at(1);
    assert_null(weft_alloc_pages(many));
    weft_alloc_fail_at(0);
}

static void formatting(void **state)
{
    (void)state;
    char *text = weft_format("%s-%05d", "a", 42), *copy = weft_strdup(text);
    assert_string_equal(text, "a-00042");
    assert_string_equal(copy, text);
    weft_free(text);
    weft_free(copy);
}

/* ---- pools ---- */

static void pool_gives_zeroed_aligned_memory(void **state)
{
    (void)state;
    weft_pool pool = {0};
    unsigned char *all[500];
    for (size_t i = 0; i < 500; i++) {
        size_t bytes = i % 50 == 49 ? 100000 : 3 * i;
        all[i] = weft_pool_alloc(&pool, bytes);
        assert_non_null(all[i]);
        assert_true((uintptr_t)all[i] % 16 == 0);
        for (size_t b = 0; b < bytes; b++)
            assert_int_equal(all[i][b], 0);
        memset(all[i], (int)i, bytes);
    }
    for (size_t i = 1; i < 500; i++) /* nobody wrote into a neighbour */
        assert_int_equal(all[i][0], i & 0xff);
    assert_null(weft_pool_alloc(&pool, SIZE_MAX));
    weft_pool_release(&pool);
    assert_null(pool.pages);
}

static void pool_text_and_failure(void **state)
{
    (void)state;
    weft_pool pool = {0};
    weft_alloc_fail_at(1);
    assert_null(weft_pool_strdup(&pool, "x"));
    weft_alloc_fail_at(0);
    assert_string_equal(weft_pool_strdup(&pool, "x"), "x");
    assert_string_equal(weft_pool_format(&pool, "%d/%s", 3, "y"), "3/y");
    weft_pool_release(&pool);
}

static void array_grows(void **state)
{
    (void)state;
    int *list = NULL, n = 0, capacity = 0;
    for (int i = 1; i <= 100; i++) {
        int *fresh = weft_array_push(&list, &n, &capacity, sizeof *fresh);
        assert_ptr_equal(fresh, &list[i - 1]);
        assert_int_equal(*fresh, 0);
        assert_int_equal(n, i);
        assert_true(capacity >= n);
        *fresh = i;
    }
    while (n < capacity)
        assert_non_null(weft_array_push(&list, &n, &capacity, sizeof *list));
    const int *before = list;
    weft_alloc_fail_at(1);
    assert_null(weft_array_push(&list, &n, &capacity, sizeof *list));
    weft_alloc_fail_at(0);
    assert_ptr_equal(list, before);
    assert_int_equal(n, capacity);
    for (int i = 0; i < n; i++)
        assert_int_equal(list[i], i < 100 ? i + 1 : 0);
    weft_free(list);
}

/* ---- text ---- */

static void text_grows(void **state)
{
    (void)state;
    weft_text text = {0};
    assert_string_equal(weft_text_get(&text), "");
    for (int i = 0; i < 1000; i++)
        weft_text_print(&text, "%d,", i % 10);
    weft_text_add_bytes(&text, "a\0b", 3);
    assert_int_equal(text.size, 2003);
    assert_memory_equal(text.data + 1998, "9,a\0b", 6);
    weft_text_clear(&text);
    weft_text_add(&text, "new");
    assert_string_equal(weft_text_get(&text), "new");
    weft_text_release(&text);
}

static void reals_are_written_briefly(void **state)
{
    static const struct {
        double x;
        const char *text;
    } cases[] = {{0, "0"},
                 {100, "100"},
                 {-1000000, "-1000000"},
                 {0.1, "0.1"},
                 {0.999999, "0.999999"},
                 {0.9999999, "0.9999999"},
                 {1e-30, "1e-30"},
                 {1e18, "1e+18"},
                 {9007199254740992.0, "9007199254740992"},
                 {0.1 + 0.2, "0.30000000000000004"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weft_text text = {0};
        weft_text_add_real(&text, cases[i].x);
        assert_string_equal(weft_text_get(&text), cases[i].text);
        weft_text_release(&text);
    }
}

static void text_notes_out_of_memory(void **state)
{
    (void)state;
    weft_text text = {0};
    weft_text_add(&text, "kept");
    weft_alloc_fail_at(1);
    weft_text_print(&text, "%1000d", 1);
    weft_alloc_fail_at(0);
    assert_true(text.out_of_memory);
    assert_string_equal(weft_text_get(&text), "kept");
    weft_text_release(&text);
}

static void json_strings(void **state)
{
    (void)state;
    static const struct {
        const char *in, *want;
    } cases[] = {
        {"plain", "\"plain\""},
        {"", "\"\""},
        {"a\"b\\c/\n\r\t\x01", "\"a\\\"b\\\\c/\\n\\r\\t\\u0001\""},
        {"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80", "\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\""},
        {"\xff", "\"\\ufffd\""},                                  /* never a first byte */
        {"\xc0\xaf", "\"\\ufffd\\ufffd\""},                       /* overlong */
        {"\xe0\x80\xaf", "\"\\ufffd\\ufffd\\ufffd\""},            /* overlong */
        {"\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\""},            /* a surrogate */
        {"\xf4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\""}, /* above U+10FFFF */
        {"x\xe2\x82", "\"x\\ufffd\\ufffd\""},                     /* cut short */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_text text = {0};
        weft_text_add_json(&text, cases[i].in);
        assert_string_equal(weft_text_get(&text), cases[i].want);
        weft_text_release(&text);
    }
}

/* ---- element types ---- */

static void dtypes(void **state)
{
    (void)state;
    static const size_t size[WEFT_DTYPES] = {4, 8, 2, 4, 1, 1, 1, 1};
    for (int i = 0; i < WEFT_DTYPES; i++) {
        weft_dtype dtype = (weft_dtype)i;
        assert_int_equal(weft_dtype_find(weft_dtype_name(dtype)), dtype);
        assert_int_equal(weft_dtype_size(dtype), size[i]);
        assert_int_equal(weft_dtype_is_float(dtype), dtype != WEFT_I32 && dtype != WEFT_U8);
        assert_int_equal(weft_dtype_is_f8(dtype), size[i] == 1 && dtype != WEFT_U8);
        assert_int_equal(weft_dtype_max(dtype) > 0, weft_dtype_is_float(dtype));
    }
    assert_int_equal(weft_dtype_find("f16"), WEFT_DTYPES);
}

static float f32(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

static void bf16_rounds_to_nearest_even(void **state)
{
    (void)state;
    assert_int_equal(weft_f32_to_bf16(f32(0x3f800000)), 0x3f80);
    assert_int_equal(weft_f32_to_bf16(f32(0x3f808000)), 0x3f80); /* tie, even below */
    assert_int_equal(weft_f32_to_bf16(f32(0x3f818000)), 0x3f82); /* tie, even above */
    assert_int_equal(weft_f32_to_bf16(f32(0x3f808001)), 0x3f81);
    assert_int_equal(weft_f32_to_bf16(f32(0x7f7fffff)), 0x7f80); /* overflow gives infinity */
    assert_int_equal(weft_f32_to_bf16(f32(0x7f800001)), 0x7fc0); /* NaN stays NaN */
    for (uint32_t h = 0; h < 0x7f80; h++)
        assert_int_equal(weft_f32_to_bf16(weft_bf16_to_f32((uint16_t)h)), h);
}

/* ---- log ---- */

static void remember(void *self, weft_log_level level, const char *line)
{
    snprintf(self, 64, "%d %s", (int)level, line);
}

static void log_reaches_its_sink(void **state)
{
    (void)state;
    char line[64] = "";
    weft_log log = {remember, line};
    weft_log_print(&log, WEFT_LOG_WARN, "%d of %d", 1, 2);
    assert_string_equal(line, "2 1 of 2");
    weft_alloc_fail_at(1);
    weft_log_print(&log, WEFT_LOG_ERROR, "lost");
    weft_alloc_fail_at(0);
    assert_non_null(strstr(line, "out of memory"));
    weft_log_print(NULL, WEFT_LOG_ERROR, "nobody listens");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(error_says_where),
        cmocka_unit_test(error_keeps_many),
        cmocka_unit_test(errors_move),
        cmocka_unit_test(error_survives_out_of_memory),
        cmocka_unit_test(blame_belongs_to_a_thread),
        cmocka_unit_test(allocation_n_fails_once),
        cmocka_unit_test(odd_sizes),
        cmocka_unit_test(pages),
        cmocka_unit_test(formatting),
        cmocka_unit_test(pool_gives_zeroed_aligned_memory),
        cmocka_unit_test(pool_text_and_failure),
        cmocka_unit_test(array_grows),
        cmocka_unit_test(text_grows),
        cmocka_unit_test(reals_are_written_briefly),
        cmocka_unit_test(text_notes_out_of_memory),
        cmocka_unit_test(json_strings),
        cmocka_unit_test(dtypes),
        cmocka_unit_test(bf16_rounds_to_nearest_even),
        cmocka_unit_test(log_reaches_its_sink),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
