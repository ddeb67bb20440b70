/* SPDX-License-Identifier: Apache-2.0 */
/* Floats of 8 bits against PyTorch's "clamp, then cast": tests/golden/f8.safetensors. */
#include "../../lib/read_safetensors.h"

#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <weft/op.h>
/* last: it needs the headers above */
#include <cmocka.h>

static const struct {
    const char *name;
    weft_dtype dtype;
} kinds[] = {{"e4m3", WEFT_F8E4M3}, {"e5m2", WEFT_F8E5M2}};

static safetensors *golden;

static int open_golden(void **state)
{
    weft_error err = {0};
    const char *tree = getenv("WEFT_TREE");
    char *path = weft_format("%s/tests/golden/f8.safetensors", tree ? tree : ".");
    (void)state;
    if (safetensors_read(path, &golden, &err))
        print_error("%s\n", weft_error_text(&err));
    weft_error_release(&err);
    weft_free(path);
    return golden ? 0 : -1;
}

static int close_golden(void **state)
{
    (void)state;
    safetensors_destroy(golden);
    return 0;
}

static const weft_safetensor *tensor(const char *of, const char *kind)
{
    char *name = weft_format("%s%s%s", of, *kind ? "/" : "", kind);
    const weft_safetensor *t = safetensors_find(golden, name);
    if (!t)
        fail_msg("no tensor %s", name);
    weft_free(name);
    return t;
}

static float f32_of(uint32_t bits)
{
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

/* Directly, and as plain kernels store an element. */
static void check(float x, weft_dtype dtype, uint8_t want)
{
    uint8_t got = weft_f32_to_f8(x, dtype == WEFT_F8E5M2), put = 77;
    uint8_t again = dtype == WEFT_F8E5M2 ? weft_f32_to_f8e5m2(x) : weft_f32_to_f8e4m3(x);
    weft_tensor t = {.data = &put, .dtype = dtype};
    weft_tensor_set(&t, 0, (double)x);
    if (x != x) { /* of either sign */
        const float *values = weft_f8_values(dtype);
        assert_true(isnan(values[want]) && isnan(values[got]) && isnan(values[put]));
        return;
    }
    if (got != want || again != want || put != want)
        fail_msg("%a as %s: %02x and %02x, and PyTorch says %02x", (double)x,
                 weft_dtype_name(dtype), got, put, want);
}

static void every_bf16(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        const uint8_t *want = tensor("bf16", kinds[k].name)->data;
        assert_int_equal(safetensor_count(tensor("bf16", kinds[k].name)), 65536);
        for (uint32_t bits = 0; bits < 65536; bits++)
            check(weft_bf16_to_f32((uint16_t)bits), kinds[k].dtype, want[bits]);
    }
}

static void hard_f32(void **state)
{
    const uint32_t *bits = tensor("f32", "")->data;
    int64_t n = safetensor_count(tensor("f32", "")) / 4;
    (void)state;
    assert_true(n > 4000);
    for (int k = 0; k < 2; k++) {
        const uint8_t *want = tensor("f32", kinds[k].name)->data;
        for (int64_t i = 0; i < n; i++)
            check(f32_of(bits[i]), kinds[k].dtype, want[i]);
    }
}

static void every_code(void **state)
{
    (void)state;
    for (int k = 0; k < 2; k++) {
        const float *want = tensor("values", kinds[k].name)->data;
        const float *values = weft_f8_values(kinds[k].dtype);
        double largest = 0;
        for (int code = 0; code < 256; code++) {
            weft_tensor t = {.data = &(uint8_t){(uint8_t)code}, .dtype = kinds[k].dtype};
            double x = weft_tensor_get(&t, 0);
            bool same = isnan(want[code]) ? isnan(x) && isnan(values[code])
                                          : x == (double)want[code] && values[code] == want[code] &&
                                                !signbit(x) == !signbit(want[code]);
            if (!same)
                fail_msg("code %02x of %s is %a and not %a", code, kinds[k].name, x,
                         (double)want[code]);
            if (isfinite(x)) { /* there and back */
                check((float)x, kinds[k].dtype, (uint8_t)code);
                largest = x > largest ? x : largest;
            }
        }
        assert_true(weft_dtype_max(kinds[k].dtype) == largest);
    }
    assert_null(weft_f8_values(WEFT_U8));
}

/* What lies beside a halfway point by less than an f32 can say is not rounded twice. */
static void f64_is_rounded_once(void **state)
{
    uint8_t code;
    weft_tensor t = {.data = &code, .dtype = WEFT_F8E4M3};
    (void)state;
    weft_tensor_set(&t, 0, 1 + 0x1p-4 + 0x1p-40); /* above halfway from 1 to 1.125 */
    assert_true(weft_tensor_get(&t, 0) == 1.125);
    weft_tensor_set(&t, 0, 1 + 0x1p-4); /* to even */
    assert_true(weft_tensor_get(&t, 0) == 1);
    weft_tensor_set(&t, 0, 1.125 + 0x1p-4 - 0x1p-40);
    assert_true(weft_tensor_get(&t, 0) == 1.125);
    weft_tensor_set(&t, 0, -1e300);
    assert_true(weft_tensor_get(&t, 0) == -448);
    t.dtype = WEFT_F8E5M2;
    weft_tensor_set(&t, 0, -1e300);
    assert_true(weft_tensor_get(&t, 0) == -57344);
    weft_tensor_set(&t, 0, 0x1p-17 + 0x1p-60); /* above half of the smallest number */
    assert_true(weft_tensor_get(&t, 0) == 0x1p-16);
}

static uint8_t nearest_power(double x)
{
    int best = 0;
    for (int code = 1; code < 255; code++) /* of two the greater */
        if (fabs(ldexp(1, code - 127) - x) <= fabs(ldexp(1, best - 127) - x))
            best = code;
    return (uint8_t)best;
}

/* By the definition, over all codes. */
static void powers_of_two(void **state)
{
    const uint32_t *bits = tensor("f32", "")->data;
    int64_t n = safetensor_count(tensor("f32", "")) / 4;
    uint8_t code;
    weft_tensor t = {.data = &code, .dtype = WEFT_F8E8M0};
    (void)state;
    for (int i = 0; i < 255; i++) {
        code = (uint8_t)i;
        assert_true(weft_tensor_get(&t, 0) == ldexp(1, i - 127));
        for (int q = 3; q < 8; q++) { /* on both sides of halfway */
            double x = ldexp(q, i - 127 - 2);
            assert_int_equal(weft_f32_to_f8e8m0((float)x), nearest_power(x));
            weft_tensor_set(&t, 0, x);
            assert_int_equal(code, nearest_power(x));
        }
    }
    for (int64_t i = 0; i < n; i++) {
        float x = f32_of(bits[i]);
        uint8_t want = isnan(x) ? 0xff : !(x > 0) ? 0 : isinf(x) ? 254 : nearest_power((double)x);
        if (weft_f32_to_f8e8m0(x) != want)
            fail_msg("%a as f8e8m0: %02x, not %02x", (double)x, weft_f32_to_f8e8m0(x), want);
    }
    code = 0xff;
    assert_true(isnan(weft_tensor_get(&t, 0)));
    assert_true(weft_dtype_max(WEFT_F8E8M0) == 0x1p127);
    weft_tensor_set(&t, 0, 1.5 - 0x1p-40); /* rounded once */
    assert_int_equal(code, 127);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_bf16),    cmocka_unit_test(hard_f32),
        cmocka_unit_test(every_code),    cmocka_unit_test(f64_is_rounded_once),
        cmocka_unit_test(powers_of_two),
    };
    return cmocka_run_group_tests(tests, open_golden, close_golden);
}
