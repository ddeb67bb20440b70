/* SPDX-License-Identifier: Apache-2.0 */
/* The kernels for CPUs, bit by bit: the inner loops of every instruction set that this processor
 * has, and products that are cut into several blocks, by any number of threads, against sums from
 * the first term to the last. */
#include "../cpu.h"

#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
/* last: it needs the headers above */
#include <cmocka.h>

enum { MOST = 65536 + 3 };

static float wide[MOST], scales[MOST];
static uint16_t narrow[MOST];
static uint8_t codes[MOST];

static uint32_t next(void)
{
    static uint32_t x = 2463534242u;
    x ^= x << 13, x ^= x >> 17, x ^= x << 5;
    return x;
}

static uint32_t bits_of(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

/* The table of this instruction set; NULL: the processor has none of it. */
static const f8_loops *loops_of(f8_isa isa)
{
    const f8_loops *all[] = {f8_loops_get(F8_GENERIC), f8_loops_get(F8_AVX2),
                             f8_loops_get(F8_AVX512)};
    return isa && all[isa] == all[isa - 1] ? NULL : all[isa];
}

/* Any f32, and all of bf16. */
static void fill(void)
{
    for (int i = 0; i < MOST; i++) {
        uint32_t x = next();
        narrow[i] = (uint16_t)i;
        memcpy(&wide[i], &x, sizeof x);
        scales[i] = ldexpf((float)(1 + next() % 1000), (int)(next() % 40) - 20);
    }
}

static void check_maxima(const f8_loops *loops, bool half, int64_t at, int64_t n)
{
    uint32_t want = 0, m[64], most[64];
    const void *x = half ? (const void *)(narrow + at) : (const void *)(wide + at);
    for (int64_t i = 0; i < n; i++) {
        uint32_t bits = (half ? (uint32_t)narrow[at + i] << 16 : bits_of(wide[at + i])) << 1 >> 1;
        m[i] = next() >> 1;
        most[i] = bits > m[i] ? bits : m[i];
        want = bits > want ? bits : want;
    }
    assert_int_equal(loops->most(x, half, n), want);
    loops->raise(x, half, n, m);
    assert_memory_equal(m, most, (size_t)n * sizeof *m);
}

static void check_quantised(const f8_loops *loops, bool half, bool e5m2, int64_t step)
{
    memset(codes, 0xaa, sizeof codes);
    loops->quantise(half ? (const void *)narrow : (const void *)wide, half, e5m2, scales + 1, step,
                    MOST - 1, codes);
    for (int i = 0; i < MOST - 1; i++) {
        float x = half ? weft_bf16_to_f32(narrow[i]) : wide[i];
        uint8_t want = weft_f32_to_f8(isinf(x) ? NAN : x * scales[1 + i * step], e5m2);
        if (codes[i] != want)
            fail_msg("%a times %a is %#x, not %#x", (double)x, (double)scales[1 + i * step],
                     codes[i], want);
    }
    assert_int_equal(codes[MOST - 1], 0xaa);
}

static void check_multiply(const f8_loops *loops, int64_t depth)
{
    static float a[12 * 200], b[200 * 32], c[12 * 40], want[12 * 40];
    const float *e4m3 = weft_f8_values(WEFT_F8E4M3), *e5m2 = weft_f8_values(WEFT_F8E5M2);
    for (int64_t i = 0; i < depth * loops->rows; i++)
        a[i] = e5m2[next() % 124 + next() % 2 * 128];
    for (int64_t i = 0; i < depth * loops->columns; i++)
        b[i] = e4m3[next() % 127 + next() % 2 * 128];
    for (int i = 0; i < 12 * 40; i++)
        c[i] = want[i] = (float)(i % 7);
    for (int r = 0; r < loops->rows; r++)
        for (int j = 0; j < loops->columns; j++)
            for (int64_t k = 0; k < depth; k++)
                want[r * 40 + j] += a[k * loops->rows + r] * b[k * loops->columns + j];
    loops->multiply(a, b, c, 40, depth);
    assert_memory_equal(c, want, sizeof c);
}

static void check_put(const f8_loops *loops, bool half, bool accumulate, int64_t step)
{
    enum { N = 77 };
    static float sum[N], of[N], out[N], want[N];
    static uint16_t out_half[N], want_half[N];
    for (int i = 0; i < N; i++) {
        sum[i] = (float)(int32_t)next(), of[i] = (float)(1 + next() % 4096) / 7;
        out[i] = (float)(int32_t)next(), out_half[i] = weft_f32_to_bf16(out[i]);
        want[i] = sum[i] / 3.7f / of[i * step];
        want_half[i] =
            weft_f32_to_bf16(accumulate ? want[i] + weft_bf16_to_f32(out_half[i]) : want[i]);
        want[i] = accumulate ? want[i] + out[i] : want[i];
    }
    loops->put(sum, 3.7f, of, step, accumulate, half, N, half ? (void *)out_half : (void *)out);
    if (half)
        assert_memory_equal(out_half, want_half, sizeof out_half);
    else
        assert_memory_equal(out, want, sizeof out);
}

static void inner_loops(void **state)
{
    (void)state;
    fill();
    for (f8_isa isa = F8_GENERIC; isa <= F8_AVX512; isa++) {
        const f8_loops *loops = loops_of(isa);
        if (!loops) {
            print_message("no such processor: instruction set %d\n", (int)isa);
            continue;
        }
        for (int64_t n = 0; n < 64; n++)
            check_maxima(loops, n & 1, (int64_t)(next() % 65000), n);
        for (int k = 0; k < 8; k++) {
            check_quantised(loops, k & 1, k & 2, k >> 2);
            check_put(loops, k & 1, k & 2, k >> 2);
        }
        for (int64_t depth = 0; depth < 200; depth += 13)
            check_multiply(loops, depth);
    }
}

/* ---- whole products ---- */

enum { M = 401, N = 533, K = 307 };

static uint8_t a[M * K], b[N * K];

static float *reference(const f8_product *p, const float *of_a, const float *of_b)
{
    float *c = weft_alloc((size_t)M * N * sizeof *c);
    const float *e5m2 = weft_f8_values(WEFT_F8E5M2), *e4m3 = weft_f8_values(WEFT_F8E4M3);
    for (int64_t i = 0; c && i < p->rows; i++)
        for (int64_t j = 0; j < p->columns; j++) {
            float sum = 0;
            for (int64_t k = 0; k < p->n; k++)
                sum +=
                    e5m2[a[i * p->a_row + k * p->a_step]] * e4m3[b[j * p->b_row + k * p->b_step]];
            c[i * p->columns + j] = sum / of_a[i] / of_b[j];
        }
    return c;
}

static weft_tensor matrix(void *data, weft_dtype dtype, int64_t rows, int64_t columns)
{
    return (weft_tensor){
        .data = data, .dtype = dtype, .n_dims = columns ? 2 : 1, .size = {rows, columns}};
}

/* As x w^T, dy w and dy^T x: which operand lies how. */
static void check_product(const weft_op *op, int64_t a_rows, int64_t a_columns, int64_t b_rows,
                          int64_t b_columns, int64_t rows, int64_t columns)
{
    const weft_tensor ins[] = {
        matrix(a, WEFT_F8E5M2, a_rows, a_columns), matrix(b, WEFT_F8E4M3, b_rows, b_columns),
        matrix(scales, WEFT_F32, rows, 0), matrix(scales + 7, WEFT_F32, columns, 0)};
    float *out = weft_alloc((size_t)rows * (size_t)columns * sizeof *out);
    weft_tensor result = matrix(out, WEFT_F32, rows, columns);
    weft_call call = {.op = op, .n_ins = 4, .n_outs = 1, .ins = ins, .outs = &result};
    const weft_kernel *kernel = f8_cpu_kernels;
    f8_product p = f8_product_of(&call);
    float *want = reference(&p, scales, scales + 7);
    weft_error err = {0};
    assert_non_null(out);
    assert_non_null(want);
    while (strcmp(kernel->op, op->name) != 0)
        kernel++;
    assert_true(kernel->accepts(&call));
    for (int threads = 1; threads < 8; threads += 3) {
        call.threads = threads;
        call.workspace_bytes = kernel->workspace(&call);
        call.workspace = weft_alloc_aligned(64, call.workspace_bytes);
        memset(out, 0xaa, (size_t)(rows * columns) * sizeof *out);
        assert_int_equal(kernel->launch(&call, &err), WEFT_OK);
        assert_memory_equal(out, want, (size_t)(rows * columns) * sizeof *out);
        weft_free_aligned(call.workspace);
    }
    weft_free(out);
    weft_free(want);
}

static void products(void **state)
{
    (void)state;
    fill();
    for (int i = 0; i < M * K; i++)
        a[i] = (uint8_t)(next() % 124 + next() % 2 * 128);
    for (int i = 0; i < N * K; i++)
        b[i] = (uint8_t)(next() % 127 + next() % 2 * 128);
    check_product(&f8_op_linear_rows, M, K, N, K, M, N);
    check_product(&f8_op_linear_dx, M, K, K, N, M, N);
    check_product(&f8_op_linear_dw, K, M, K, N, M, N);
    check_product(&f8_op_linear, 1, K, N, K, 1, N); /* a token */
    check_product(&f8_op_linear_dw, 1, M, 1, 15, M, 15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(inner_loops), cmocka_unit_test(products)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
