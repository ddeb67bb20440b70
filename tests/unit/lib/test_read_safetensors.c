/* SPDX-License-Identifier: Apache-2.0 */
/* The reader that other tests lean on, against the writer; and that it refuses what is no such
 * file. */
#include "../../lib/read_safetensors.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* last: it needs the headers above */
#include <cmocka.h>

static char path[64];

static int make_file(void **state)
{
    (void)state;
    snprintf(path, sizeof path, "/tmp/weft-test-safetensors-XXXXXX");
    int file = mkstemp(path);
    return file < 0 ? -1 : close(file);
}

static int remove_file(void **state)
{
    (void)state;
    return unlink(path);
}

static void write_some(void)
{
    static const double wide[2] = {1.5, -2e300};
    static const float narrow[6] = {0, 1, 2, 3, 4, 5};
    static const uint16_t half[1] = {0x3fc0};
    static const int32_t whole[3] = {-1, 7, 1 << 30};
    static const uint8_t bytes[3] = {0, 9, 255};
    const weft_safetensor tensors[] = {
        {"wide", WEFT_F64, 1, {2}, wide},  {"narrow", WEFT_F32, 2, {3, 2}, narrow},
        {"half", WEFT_BF16, 0, {0}, half}, {"whole", WEFT_I32, 1, {3}, whole},
        {"bytes", WEFT_U8, 1, {3}, bytes}, {"none", WEFT_U8, 2, {0, 5}, bytes},
    };
    const char *const metadata[] = {"who", "a test", NULL};
    assert_int_equal(weft_write_safetensors(path, tensors, 6, metadata, NULL), WEFT_OK);
}

static void check_number(const safetensors *f, const char *name, int64_t i, double want)
{
    const weft_safetensor *t = safetensors_find(f, name);
    assert_non_null(t);
    assert_true(i < safetensor_count(t));
    assert_true(safetensor_get(t, i) == want);
}

static void reads_what_was_written(void **state)
{
    (void)state;
    safetensors *f;
    write_some();
    assert_int_equal(safetensors_read(path, &f, NULL), WEFT_OK);
    check_number(f, "wide", 1, -2e300);
    check_number(f, "narrow", 5, 5);
    check_number(f, "half", 0, 1.5);
    check_number(f, "whole", 2, 1 << 30);
    check_number(f, "bytes", 2, 255);
    assert_int_equal(safetensors_find(f, "narrow")->n_dims, 2);
    assert_int_equal(safetensors_find(f, "narrow")->size[0], 3);
    assert_int_equal(safetensor_count(safetensors_find(f, "none")), 0);
    assert_null(safetensors_find(f, "who"));
    assert_null(safetensors_at(f, 6));
    assert_string_equal(safetensors_metadata(f, "who"), "a test");
    assert_null(safetensors_metadata(f, "when"));
    safetensors_destroy(f);
}

/* Every shorter file, a longer one, and one with a hole are refused. */
static void refuses_what_is_not_whole(void **state)
{
    (void)state;
    char *bytes;
    size_t size;
    safetensors *f;
    weft_error err = {0};
    write_some();
    assert_int_equal(weft_read_file(path, &bytes, &size, NULL), WEFT_OK);
    for (size_t n = 0; n <= size + 1; n++) {
        char *part = calloc(1, size + 2);
        assert_non_null(part);
        memcpy(part, bytes, n < size ? n : size);
        assert_int_equal(weft_write_file(path, part, n, NULL), WEFT_OK);
        assert_int_equal(safetensors_read(path, &f, &err), n == size ? WEFT_OK : WEFT_ERR_INPUT);
        safetensors_destroy(f);
        free(part);
    }
    char *shape = strstr(bytes + 8, "[3,2]");
    assert_non_null(shape);
    shape[1] = '2';
    assert_int_equal(weft_write_file(path, bytes, size, NULL), WEFT_OK);
    assert_int_equal(safetensors_read(path, &f, &err), WEFT_ERR_INPUT);
    assert_null(f);
    weft_free(bytes);
    weft_error_release(&err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(reads_what_was_written, make_file, remove_file),
        cmocka_unit_test_setup_teardown(refuses_what_is_not_whole, make_file, remove_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
