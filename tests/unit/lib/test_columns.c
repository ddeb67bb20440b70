/* SPDX-License-Identifier: Apache-2.0 */
/* Tables whose columns never run together. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "console/columns.h"

static void add_row(weft_columns *c, const char *a, const char *b, long long n, const char *d)
{
    weft_columns_add(c, a);
    weft_columns_add(c, b);
    weft_text_print(&c->cells, "%lld", n);
    weft_columns_next(c);
    weft_columns_add(c, d);
}

static void test_columns_are_as_wide_as_what_stands_in_them(void **state)
{
    weft_columns c;
    weft_text text = {0};
    (void)state;
    weft_columns_init(&c, "llrl");
    add_row(&c, "axis", "plugin", 7, "x");
    add_row(&c, "a", "a_plugin_with_a_long_name", 1234567890123, "");
    add_row(&c, "größe", "", 0, "the last one is not padded");
    weft_columns_print(&c, &text);
    assert_string_equal(
        weft_text_get(&text),
        "axis   plugin                                 7  x\n"
        "a      a_plugin_with_a_long_name  1234567890123  \n"
        "größe                                         0  the last one is not padded\n");
    weft_text_release(&text);
    weft_columns_release(&c);
}

static void test_half_a_row_is_left_out(void **state)
{
    weft_columns c;
    weft_text text = {0};
    (void)state;
    weft_columns_init(&c, "lr");
    weft_columns_print(&c, &text);
    assert_string_equal(weft_text_get(&text), "");
    weft_columns_add(&c, "a");
    weft_columns_add(&c, "1");
    weft_columns_add(&c, "half");
    weft_columns_print(&c, &text);
    assert_string_equal(weft_text_get(&text), "a     1\n");
    weft_text_release(&text);
    weft_columns_release(&c);
}

static void test_without_memory(void **state)
{
    weft_columns c;
    weft_text text = {0};
    (void)state;
    weft_columns_init(&c, "l");
    weft_alloc_fail_at(1);
    weft_columns_add(&c, "a");
    weft_alloc_fail_at(0);
    weft_columns_print(&c, &text);
    assert_true(text.out_of_memory);
    weft_text_release(&text);
    weft_columns_release(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_columns_are_as_wide_as_what_stands_in_them),
        cmocka_unit_test(test_half_a_row_is_left_out),
        cmocka_unit_test(test_without_memory),
    };
    return cmocka_run_group_tests_name("columns", tests, NULL, NULL);
}
