/* SPDX-License-Identifier: Apache-2.0 */
/* linear, linear_dx and linear_dw against the plain kernels: f32, bf16 in hardware and widened to
 * f32, tiles and their rests, empty extents, accumulation, a queue that is known late, and memory
 * that runs out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "cpu.h"
#include "tiles.h"
#include "trial_ops.h"

#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Two slices and four, of rows and of columns, the last one shorter; weights that are not few. */
static void test_sliced_products(void **state)
{
    (void)state;
    trial_linear(530, 129, 520, WEFT_F32, WEFT_F32);
    trial_linear(40, 530, 129, WEFT_F32, WEFT_F32);
    trial_linear(130, 151, 470, WEFT_F32, WEFT_F32);
}

/* More than one tile in every direction, with rests; and gradients of weights that are tiled. */
static void test_tiled_products(void **state)
{
    (void)state;
    trial_linear(512, 300, 40, WEFT_F32, WEFT_F32);
    trial_linear(290, 256, 256, WEFT_F32, WEFT_F32);
    trial_linear(1, 1, 1, WEFT_F32, WEFT_F32);
    trial_linear(130, 512, 270, WEFT_F32, WEFT_F32);
    trial_linear(300, 530, 5, WEFT_BF16, WEFT_BF16);
    trial_linear(150, 270, 531, WEFT_BF16, WEFT_F32);
    trial_linear(144, 256, 256, WEFT_BF16, WEFT_F32);
    trial_linear(17, 29, 1100, WEFT_BF16, WEFT_BF16);
}

/* ---- our own kernel, of every instruction set ---- */

enum { BEHIND = 16 }; /* floats behind what a tile works with, which nobody may touch */

/* Small whole numbers: sums are exact in f32, and rounded once to bf16. */
static float number(int64_t i)
{
    return (float)(i * 37 % 15 - 7);
}

static void *numbers(weft_dtype dtype, int64_t n)
{
    weft_tensor t = {.dtype = dtype, .n_dims = 1, .size = {n}};
    t.data = weft_alloc_aligned(64, (size_t)n * weft_dtype_size(dtype));
    assert_non_null(t.data);
    for (int64_t i = 0; i < n; i++)
        weft_tensor_set(&t, i, number(i));
    return t.data;
}

/* An operand, behind whose end nothing can be read. */
typedef struct operand {
    char *pages;
    size_t bytes; /* of these */
    void *data;
} operand;

static operand operand_at_an_end(weft_dtype dtype, int64_t n)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE), size = (size_t)n * weft_dtype_size(dtype),
                 bytes = (size + page - 1) / page * page + page;
    operand o = {.bytes = bytes};
    o.pages = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(o.pages != MAP_FAILED);
    assert_int_equal(mprotect(o.pages + bytes - page, page, PROT_NONE), 0);
    weft_tensor t = {.dtype = dtype, .n_dims = 1, .size = {n}};
    t.data = o.data = o.pages + bytes - page - size;
    for (int64_t i = 0; i < n; i++)
        weft_tensor_set(&t, i, number(i));
    return o;
}

/* The product of such numbers, [m n]. */
static double *product_of_numbers(const cpu_matmul_shape *s)
{
    double *product = weft_alloc_aligned(64, (size_t)(s->m * s->n) * sizeof *product),
           *row = weft_alloc_aligned(64, (size_t)s->k * sizeof *row),
           *column = weft_alloc_aligned(64, (size_t)(s->k * s->n) * sizeof *column);
    assert_true(product && row && column);
    for (int64_t j = 0; j < s->n; j++)
        for (int64_t p = 0; p < s->k; p++)
            column[j * s->k + p] = number(p * s->b_row + j * s->b_col);
    for (int64_t i = 0; i < s->m; i++) {
        for (int64_t p = 0; p < s->k; p++)
            row[p] = number(i * s->a_row + p * s->a_col);
        for (int64_t j = 0; j < s->n; j++) {
            double sum = 0.0;
            for (int64_t p = 0; p < s->k; p++)
                sum += row[p] * column[j * s->k + p];
            product[i * s->n + j] = sum;
        }
    }
    weft_free_aligned(row);
    weft_free_aligned(column);
    return product;
}

static void check_tile(cpu_gemm_tile *gemm, int64_t floats, const cpu_matmul_shape *s,
                       cpu_tile tile, const double *product)
{
    const size_t bytes = (size_t)floats * sizeof(float);
    operand a = operand_at_an_end(s->ab, s->m * s->k), b = operand_at_an_end(s->ab, s->k * s->n);
    void *c = numbers(s->c, s->m * s->n);
    float *work = weft_alloc_aligned(64, bytes + BEHIND * sizeof *work), *behind = work + floats;
    weft_tensor t = {.dtype = s->c, .n_dims = 1, .size = {s->m * s->n}, .data = c};
    assert_non_null(work);
    memset(work, 0xff, bytes + BEHIND * sizeof *work); /* NaN: nothing of it may be seen */
    gemm(s, a.data, b.data, c, tile, work);
    for (int i = 0; i < BEHIND; i++)
        assert_true(isnan(behind[i]));
    for (int64_t i = 0; i < s->m; i++)
        for (int64_t j = 0; j < s->n; j++) {
            bool inside = i >= tile.i && i < tile.i + tile.m && j >= tile.j && j < tile.j + tile.n;
            double sum = inside && !s->add ? 0.0 : number(i * s->c_row + j);
            sum += inside ? product[i * s->n + j] : 0.0;
            float rounded =
                s->c == WEFT_F32 ? (float)sum : weft_bf16_to_f32(weft_f32_to_bf16((float)sum));
            assert_true(weft_tensor_get(&t, i * s->c_row + j) == rounded);
        }
    weft_free_aligned(work);
    assert_int_equal(munmap(a.pages, a.bytes), 0);
    assert_int_equal(munmap(b.pages, b.bytes), 0);
    weft_free_aligned(c);
}

static void check_tiles(const cpu_gemm *g, const int64_t sizes[][3], size_t n_sizes, weft_dtype ab,
                        weft_dtype c)
{
    for (size_t i = 0; i < n_sizes; i++)
        for (int way = 0; way < 4; way++) {
            int64_t m = sizes[i][0], n = sizes[i][1], k = sizes[i][2];
            bool a_turned = way & 1, b_turned = way & 2;
            cpu_matmul_shape s = {.m = m, .n = n, .k = k, .c_row = n, .ab = ab, .c = c};
            s.a_row = a_turned ? 1 : k, s.a_col = a_turned ? m : 1;
            s.b_row = b_turned ? 1 : n, s.b_col = b_turned ? k : 1;
            double *product = product_of_numbers(&s);
            for (int add = 0; add < 2; add++) {
                s.add = add;
                int64_t floats = g->floats(&s);
                check_tile(g->tile, floats, &s, (cpu_tile){0, 0, m, n}, product);
                check_tile(g->tile, floats, &s,
                           (cpu_tile){m / 2, n / 3, (m - m / 2 + 1) / 2, n - n / 3}, product);
            }
            weft_free_aligned(product);
        }
}

static void check_tiles_of(const cpu_gemm *g, weft_dtype ab, weft_dtype c)
{
    static const int64_t sizes[][3] = {{1, 1, 1},     {7, 33, 9},    {150, 70, 40}, {37, 64, 300},
                                       {13, 128, 16}, {20, 81, 531}, {96, 96, 64},  {72, 75, 1100},
                                       {48, 40, 545}, {24, 40, 64}};
    check_tiles(g, sizes, sizeof sizes / sizeof *sizes, ab, c);
}

/* Wider than what is multiplied together, by a half of it and by less, and sums in steps. */
static void check_tiles_of_dots(weft_dtype c)
{
    static const int64_t sizes[][3] = {{20, 96, 257}, {264, 224, 33}, {14, 150, 775}};
    check_tiles_of(&cpu_gemm_dots, WEFT_BF16, c);
    check_tiles(&cpu_gemm_dots, sizes, sizeof sizes / sizeof *sizes, WEFT_BF16, c);
}

/* AMX sums in steps, of which b is packed several at a time, and packs strips of a together. */
static void check_tiles_of_amx(weft_dtype c)
{
    static const int64_t sizes[][3] = {{170, 20, 2100}, {300, 33, 400}, {33, 70, 1030}};
    check_tiles_of(&cpu_gemm_amx, WEFT_BF16, c);
    check_tiles(&cpu_gemm_amx, sizes, sizeof sizes / sizeof *sizes, WEFT_BF16, c);
}

static void test_tiles(void **state)
{
    (void)state;
    for (int isa = CPU_ISA_GENERIC; isa <= CPU_ISA_AVX512; isa++) {
        const cpu_gemm g = {.floats = cpu_gemm_floats,
                            .tile = cpu_launchers_get((cpu_isa)isa)->gemm};
        check_tiles_of(&g, WEFT_F32, WEFT_F32);
        check_tiles_of(&g, WEFT_BF16, WEFT_F32);
        check_tiles_of(&g, WEFT_BF16, WEFT_BF16);
    }
    for (int c = 0; c < 2; c++) {
        if (cpu_has_bf16_dots())
            check_tiles_of_dots(c ? WEFT_BF16 : WEFT_F32);
        if (cpu_may_use_amx())
            check_tiles_of_amx(c ? WEFT_BF16 : WEFT_F32);
    }
}

/* Results that no cache holds, of rows that begin at a line of it, and in the middle of one. */
static void test_large_results(void **state)
{
    enum { M = 4096, K = 8 };
    (void)state;
    for (int64_t n = 8192; n <= 8208 && cpu_may_use_amx(); n += 16) {
        const cpu_matmul_shape s = {.ab = WEFT_BF16,
                                    .c = WEFT_BF16,
                                    .m = M,
                                    .n = n,
                                    .k = K,
                                    .a_row = K,
                                    .a_col = 1,
                                    .b_row = n,
                                    .b_col = 1,
                                    .c_row = n};
        void *a = numbers(WEFT_BF16, M * K), *b = numbers(WEFT_BF16, K * n),
             *scratch = weft_alloc_aligned(64, cpu_tiles_scratch(&cpu_gemm_amx, &s, 2));
        weft_tensor c = {.dtype = WEFT_BF16, .n_dims = 1, .size = {M * n}};
        c.data = weft_alloc_aligned(64, (size_t)(M * n) * 2);
        assert_true(scratch && c.data);
        memset(c.data, 0xff, (size_t)(M * n) * 2);
        cpu_tiles_run(&cpu_gemm_amx, &s, 2, a, b, c.data, scratch);
        for (int64_t e = 0; e < M * n; e += 7) {
            float sum = 0.0f;
            for (int64_t p = 0; p < K; p++)
                sum += number(e / n * K + p) * number(p * n + e % n);
            assert_true(weft_tensor_get(&c, e) == weft_bf16_to_f32(weft_f32_to_bf16(sum)));
        }
        weft_free_aligned(a), weft_free_aligned(b), weft_free_aligned(scratch);
        weft_free_aligned(c.data);
    }
}

static void test_prepare_without_memory(void **state)
{
    static const char *const ops[] = {"linear", "linear_dw"};
    (void)state;
    for (int o = 0; o < 2; o++) {
        trial t;
        trial_init(&t, ops[o]);
        trial_in(&t, WEFT_BF16, 1, SIZES(8, 8));
        trial_in(&t, WEFT_BF16, 2, SIZES(8, 8));
        trial_out(&t, WEFT_BF16, SIZES(8, 8));
        weft_call call = {.op = t.op, .n_ins = 2, .n_outs = 1, .ins = t.ins, .outs = t.outs};
        long n = 1;
        for (weft_status status = WEFT_ERR_MEMORY; status != WEFT_OK; n++) {
            weft_error err = {0};
            void *prepared = NULL;
            weft_alloc_fail_at(n);
            status = t.kernel->prepare(&call, &prepared, &err);
            weft_alloc_fail_at(0);
            if (status == WEFT_OK)
                t.kernel->release(prepared);
            else
                assert_int_equal(status, WEFT_ERR_MEMORY);
            weft_error_release(&err);
            assert_true(n < 100);
        }
        assert_true(n > 2);
        trial_release(&t);
    }
}

/* What a launch finds must be what it was prepared for: threads, size, workspace. */
static void test_others_are_refused(void **state)
{
    weft_queue queue = {.products = CPU_PRODUCTS_F32, .grain = 1};
    weft_error err = {0};
    void *prepared = NULL;
    trial t;
    (void)state;
    trial_init(&t, "linear");
    trial_in(&t, WEFT_BF16, 1, SIZES(8, 8));
    trial_in(&t, WEFT_BF16, 2, SIZES(8, 8));
    trial_out(&t, WEFT_F32, SIZES(8, 8));
    weft_call call = {.op = t.op,
                      .n_ins = 2,
                      .n_outs = 1,
                      .ins = t.ins,
                      .outs = t.outs,
                      .queue = &queue,
                      .threads = 2};
    size_t bytes = t.kernel->workspace(&call);
    assert_true(bytes > 0);
    call.workspace = weft_alloc_aligned(64, bytes);
    call.workspace_bytes = bytes;
    assert_int_equal(t.kernel->prepare(&call, &prepared, &err), WEFT_OK);
    call.state = prepared;
    assert_int_equal(t.kernel->launch(&call, &err), WEFT_OK);
    call.threads = 3;
    assert_int_equal(t.kernel->launch(&call, &err), WEFT_ERR_INTERNAL);
    assert_non_null(strstr(weft_error_text(&err), "for 2 threads and not for 3"));
    weft_error_clear(&err);
    call.threads = 2;
    call.workspace_bytes = bytes - 1;
    assert_int_equal(t.kernel->launch(&call, &err), WEFT_ERR_INTERNAL);
    assert_non_null(strstr(weft_error_text(&err), "bytes of workspace"));
    weft_error_clear(&err);
    call.workspace_bytes = bytes;
    t.ins[0].size[0] = t.outs[0].size[0] = 7;
    assert_int_equal(t.kernel->launch(&call, &err), WEFT_ERR_INTERNAL);
    t.ins[0].size[0] = t.outs[0].size[0] = 8;
    t.kernel->release(prepared);
    weft_free_aligned(call.workspace);
    weft_error_release(&err);
    trial_release(&t);
}

static weft_tensor of_size(int64_t rows, int64_t columns)
{
    return (weft_tensor){.dtype = WEFT_F32,
                         .n_dims = 2,
                         .size = {rows, columns},
                         .whole = {rows, columns},
                         .grain = {1, 1}};
}

/* What is kept of one product is no other's, also where more are asked for than are kept; and where
 * somebody else looks at what is kept. */
static void test_kept_scratch(void **state)
{
    cpu_scratches kept = {.n = 0};
    (void)state;
    for (int round = 0; round < 3; round++)
        EACH(name, op, "linear", "linear_dx", "linear_dw")
    EACH(int64_t, rows, 5, 700)
    EACH(int64_t, width, 9, 136, 1030)
    EACH(int, threads, 1, 3)
    for (int accumulate = 0; accumulate < 2; accumulate++) {
        const bool dw = strcmp(op, "linear_dw") == 0;
        weft_queue queue = {.products = CPU_PRODUCTS_F32, .grain = 1};
        trial t; /* of sizes alone: nothing is computed */
        trial_init(&t, op);
        t.ins[0] = of_size(rows, width);
        t.ins[1] = dw ? of_size(rows, width) : of_size(width, width);
        t.outs[0] = dw ? of_size(width, width) : of_size(rows, width);
        weft_call call = {.op = t.op,
                          .n_ins = 2,
                          .n_outs = 1,
                          .ins = t.ins,
                          .outs = t.outs,
                          .queue = &queue,
                          .accumulate = accumulate,
                          .threads = threads};
        const size_t bytes = t.kernel->workspace(&call);
        queue.scratches = &kept;
        if (round == 2)
            atomic_flag_test_and_set(&kept.busy);
        assert_int_equal(t.kernel->workspace(&call), bytes);
        assert_int_equal(t.kernel->workspace(&call), bytes);
    }
    assert_true(kept.n > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sliced_products),
        cmocka_unit_test(test_tiled_products),
        cmocka_unit_test(test_tiles),
        cmocka_unit_test(test_large_results),
        TRIAL_PRODUCTS,
        cmocka_unit_test(test_prepare_without_memory),
        cmocka_unit_test(test_others_are_refused),
        cmocka_unit_test(test_kept_scratch),
    };
    return cmocka_run_group_tests_name("cpu_products", tests, NULL, NULL);
}
