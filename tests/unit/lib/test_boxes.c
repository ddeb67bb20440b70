/* SPDX-License-Identifier: Apache-2.0 */
/* Moving boxes and reducing, as the host does it for devices that are made of its memory. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <weft/device.h>
/* last: it needs the headers above */
#include <cmocka.h>

enum { OUTER = 3, ROWS = 5, COLUMNS = 7 };

static void test_transpose_blocks(void **state)
{
    (void)state;
    char from[OUTER][ROWS][COLUMNS], to[ROWS][OUTER][COLUMNS + 1];
    for (int i = 0; i < (int)sizeof from; i++)
        ((char *)from)[i] = (char)i;
    memset(to, -1, sizeof to);
    weft_box b = weft_box_of(to, from, COLUMNS);
    b.n[0] = OUTER;
    b.n[2] = ROWS;
    b.from_stride[0] = ROWS * COLUMNS;
    b.from_stride[2] = COLUMNS;
    b.to_stride[0] = COLUMNS + 1;
    b.to_stride[2] = OUTER * (COLUMNS + 1);
    weft_boxes_move(&b, 1);
    for (int i = 0; i < OUTER; i++)
        for (int k = 0; k < ROWS; k++) {
            assert_memory_equal(to[k][i], from[i][k], COLUMNS);
            assert_int_equal(to[k][i][COLUMNS], -1); /* between runs nothing changes */
        }
}

static void test_zeros(void **state)
{
    (void)state;
    char to[4][4];
    memset(to, 1, sizeof to);
    weft_box boxes[] = {weft_box_of(to[1], NULL, 2), weft_box_of(to[3], NULL, 0)};
    boxes[0].n[3] = 2;
    boxes[0].to_stride[3] = 4;
    weft_boxes_move(boxes, 2);
    static const char want[4][4] = {{1, 1, 1, 1}, {0, 0, 1, 1}, {0, 0, 1, 1}, {1, 1, 1, 1}};
    assert_memory_equal(to, want, sizeof to);
}

/* More than a piece, not a multiple of one; one of the places is one of the arrays. */
enum { COUNT = 5003 };

static void test_sum_in_order(void **state)
{
    (void)state;
    static float x[3][COUNT], out[COUNT];
    for (int k = 0; k < 3; k++)
        for (int i = 0; i < COUNT; i++)
            x[k][i] = k == 1 ? 1e8F : k == 2 ? -1e8F : (float)i / 3;
    void *const to[] = {out, x[0]};
    const void *const from[] = {x[0], x[1], x[2]};
    const weft_reduction r = {to, from, 2, 3, COUNT, WEFT_F32, WEFT_REDUCE_SUM};
    weft_reduction_run(&r);
    for (int i = 0; i < COUNT; i++) {
        float want = (float)i / 3 + 1e8F;
        want += -1e8F;
        assert_true(out[i] == want && x[0][i] == want); /* x1 + x2 first would be exact */
    }
}

static void test_round_once(void **state)
{
    (void)state;
    /* 256 + 1 + 1 in bf16: 256 if rounded after each sum, 258 if after the last */
    uint16_t big = weft_f32_to_bf16(256), one = weft_f32_to_bf16(1), out = 0;
    void *const to[] = {&out};
    const void *const from[] = {&big, &one, &one};
    weft_reduction_run(&(weft_reduction){to, from, 1, 3, 1, WEFT_BF16, WEFT_REDUCE_SUM});
    assert_true(weft_bf16_to_f32(out) == 258);
}

static void test_maximum_keeps_nan(void **state)
{
    (void)state;
    for (int at = 0; at < 3; at++) {
        double x[3] = {1, 3, 2}, out = 0;
        void *const to[] = {&out};
        const void *const from[] = {&x[0], &x[1], &x[2]};
        const weft_reduction r = {to, from, 1, 3, 1, WEFT_F64, WEFT_REDUCE_MAX};
        weft_reduction_run(&r);
        assert_true(out == 3);
        x[at] = NAN;
        weft_reduction_run(&r);
        assert_true(isnan(out));
    }
    assert_true(weft_reduction_takes(WEFT_BF16));
    assert_false(weft_reduction_takes(WEFT_I32));
    assert_false(weft_reduction_takes(WEFT_F8E4M3));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_transpose_blocks), cmocka_unit_test(test_zeros),
        cmocka_unit_test(test_sum_in_order), cmocka_unit_test(test_round_once),
        cmocka_unit_test(test_maximum_keeps_nan)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
