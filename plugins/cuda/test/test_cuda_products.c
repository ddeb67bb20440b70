/* SPDX-License-Identifier: Apache-2.0 */
/* Products by a cuBLASLt that is the host, against the plain kernels: bf16, f32, values in 8 bits
 * with one scale or one for each row, on GPUs that multiply those and on others, which widen them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "choices.h"
#include "trial_ops.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weft/files.h>
#include <weft/random.h>

/* How many scales an operand has. */
typedef enum scales { ONE, ROWS } scales;

typedef struct f8_case {
    const char *op;
    int64_t m, n, k;
    weft_dtype a, b, out;
    scales of_a, of_b;
    const char *emulate;
    double scale; /* of the first row: a power of two is exact when values are widened */
    double tolerance;
} f8_case;

static void add_scales(trial *t, scales kind, int64_t n, double first)
{
    weft_tensor *scale = trial_in(t, WEFT_F32, 3, kind == ONE ? SIZES(-1) : SIZES(n));
    for (int64_t i = 0; i < weft_tensor_count(scale); i++)
        weft_tensor_set(scale, i, first * (double)(1 << i % 5));
}

static void make(trial *t, const f8_case *c)
{
    bool dx = strcmp(c->op, "float8_linear_dx") == 0, dw = strcmp(c->op, "float8_linear_dw") == 0;
    trial_init(t, c->op);
    t->product = true;
    t->tolerance = c->tolerance;
    trial_text(t, "emulate", c->emulate);
    trial_in(t, c->a, 1, dw ? SIZES(1, c->k, c->m) : SIZES(1, c->m, c->k));
    trial_in(t, c->b, 2, dw ? SIZES(1, c->k, c->n) : dx ? SIZES(c->k, c->n) : SIZES(c->n, c->k));
    add_scales(t, c->of_a, c->m, c->scale);
    add_scales(t, c->of_b, c->n, 3 * c->scale / 2);
    trial_out(t, c->out, dw ? SIZES(c->m, c->n) : SIZES(1, c->m, c->n));
}

/* Extents that matrix instructions take, those that only sums over tokens may have, and others. */
static void test_values_in_8_bits(void **state)
{
    static const int64_t sizes[][3] = {{48, 32, 64}, {5, 80, 23}, {7, 13, 70}, {130, 16, 16},
                                       {4, 208, 16}, {0, 16, 16}, {4, 0, 4},   {16, 16, 0}};
    static const char *const ops[] = {"float8_linear", "float8_linear_rows", "float8_linear_dx",
                                      "float8_linear_dw"};
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        EACH(name, op, ops[0], ops[1], ops[2], ops[3])
    for (int how = 0; how < 12; how++) {
        SAMPLE;
        trial t;
        make(&t, &(f8_case){.op = op,
                            .m = sizes[i][0],
                            .n = sizes[i][1],
                            .k = sizes[i][2],
                            .a = how % 3 == 1 ? WEFT_F8E5M2 : WEFT_F8E4M3,
                            .b = how % 3 == 2 ? WEFT_F8E5M2 : WEFT_F8E4M3,
                            .out = how % 2 ? WEFT_BF16 : WEFT_F32,
                            .of_a = how & 4 ? ROWS : ONE,
                            .of_b = how & 8 ? ROWS : ONE,
                            .emulate = "auto",
                            .scale = 32,
                            /* 1.5 times a power of two is not exact in bf16's reciprocal */
                            .tolerance = 6e-3});
        trial_check(&t);
    }
}

/* What is widened by powers of two, and what is multiplied in 8 bits, is as exact as sums in f32.
 */
static void test_exact(void **state)
{
    (void)state;
    EACH(name, op, "float8_linear", "float8_linear_dx", "float8_linear_dw")
    EACH(name, emulate, "auto", "yes")
    for (int rows = 0; rows < 2; rows++) {
        trial t;
        make(&t, &(f8_case){.op = op,
                            .m = 24,
                            .n = 48,
                            .k = 160,
                            .a = WEFT_F8E5M2,
                            .b = WEFT_F8E4M3,
                            .out = WEFT_F32,
                            .of_a = rows ? ROWS : ONE,
                            .of_b = rows ? ROWS : ONE,
                            .emulate = emulate,
                            .scale = 64,
                            .tolerance = 2e-6});
        for (int64_t i = 0; i < weft_tensor_count(&t.ins[3]); i++)
            weft_tensor_set(&t.ins[3], i, 16);
        trial_check(&t);
    }
}

/* emulate = no: an error that says what is the matter, not other numbers. */
static void test_no_emulation(void **state)
{
    static const struct {
        const char *refuses;
        int64_t n;
        weft_dtype a;
        int variant;
        scales of_a;
    } cases[] = {{"no such product for this GPU", 32, WEFT_F8E4M3, 0, ONE},
                 {NULL, 32, WEFT_F8E4M3, 1, ONE},
                 {NULL, 32, WEFT_F8E4M3, 1, ROWS},
                 {NULL, 32, WEFT_F8E4M3, 2, ONE},
                 {"no such product for this GPU", 32, WEFT_F8E4M3, 2, ROWS},
                 {"multiples of 16", 24, WEFT_F8E4M3, 1, ONE}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_error err = {0};
        void *prepared = NULL;
        trial t;
        make(&t, &(f8_case){.op = "float8_linear",
                            .m = 16,
                            .n = cases[i].n,
                            .k = 32,
                            .a = cases[i].a,
                            .b = WEFT_F8E4M3,
                            .out = WEFT_BF16,
                            .of_a = cases[i].of_a,
                            .emulate = "no",
                            .scale = 32});
        weft_call call = {.op = t.op,
                          .attrs = t.attrs,
                          .n_attrs = t.n_attrs,
                          .n_ins = t.n_ins,
                          .n_outs = t.n_outs,
                          .ins = t.ins,
                          .outs = t.outs};
        machine.address(&t, cases[i].variant, 0, &call);
        weft_status s = t.kernel->prepare(&call, &prepared, &err);
        assert_int_equal(s, cases[i].refuses ? WEFT_ERR_INPUT : WEFT_OK);
        if (cases[i].refuses)
            assert_non_null(strstr(weft_error_text(&err), cases[i].refuses));
        t.kernel->release(prepared);
        weft_error_release(&err);
        trial_release(&t);
    }
}

/* Kernel by kernel: bytes read, then written; those of what comes before the product, and the
 * product's. */
static void test_work(void **state)
{
    enum { HOPPER, BLACKWELL, AMPERE };
    static const struct {
        const char *op;
        int64_t k;
        scales scales;
        weft_dtype out;
        bool accumulate;
        int gpu;
        weft_dtype rate;
        int launches;
        double before, bytes;
    } cases[] = {
        /* two scales and their reciprocals; a, b, both reciprocals, c */
        {"float8_linear", 64, ONE, WEFT_BF16, false, HOPPER, WEFT_F8E4M3, 2, 8 + 8,
         (32 * 64 + 48 * 64 + 8) + 32 * 48 * 2},
        {"float8_linear", 64, ROWS, WEFT_BF16, false, HOPPER, WEFT_F8E4M3, 2, 80 * 4 + 80 * 4,
         (32 * 64 + 48 * 64 + 80 * 4) + 32 * 48 * 2},
        /* the weight is turned */
        {"float8_linear_dx", 64, ONE, WEFT_BF16, false, HOPPER, WEFT_F8E4M3, 3,
         8 + 8 + 64 * 48 + 48 * 64, (32 * 64 + 48 * 64 + 8) + 32 * 48 * 2},
        /* both are, and 40 tokens become 48 */
        {"float8_linear_dw", 40, ONE, WEFT_F32, false, HOPPER, WEFT_F8E4M3, 4,
         8 + 8 + 40 * 32 + 32 * 48 + 40 * 48 + 48 * 48, (32 * 48 + 48 * 48 + 8) + 32 * 48 * 4},
        {"float8_linear_dw", 48, ONE, WEFT_F32, true, BLACKWELL, WEFT_F8E4M3, 4,
         8 + 8 + 2 * (32 * 48 + 48 * 48), (32 * 48 + 48 * 48 + 8) + 2 * 32 * 48 * 4},
        /* a scale and a widened operand each; those; c */
        {"float8_linear", 64, ONE, WEFT_BF16, false, AMPERE, WEFT_BF16, 3,
         4 + 32 * 64 + 32 * 64 * 2 + 4 + 48 * 64 + 48 * 64 * 2,
         (32 * 64 + 48 * 64) * 2 + 32 * 48 * 2},
        {"float8_linear", 64, ROWS, WEFT_BF16, false, BLACKWELL, WEFT_BF16, 3,
         80 * 4 + (32 * 64 + 48 * 64) * (1 + 2), (32 * 64 + 48 * 64) * 2 + 32 * 48 * 2},
        {"float8_linear_dx", 40, ONE, WEFT_F32, true, HOPPER, WEFT_BF16, 3,
         8 + (32 * 40 + 48 * 40) * (1 + 2), (32 * 40 + 48 * 40) * 2 + 2 * 32 * 48 * 4},
        {"float8_linear", 0, ONE, WEFT_F32, false, HOPPER, WEFT_F32, 1, 0, 32 * 48 * 4},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const weft_queue queue = {.narrow = cases[i].gpu != AMPERE,
                                  .narrow_rows = cases[i].gpu == HOPPER};
        trial t;
        make(&t, &(f8_case){.op = cases[i].op,
                            .m = 32,
                            .n = 48,
                            .k = cases[i].k,
                            .a = WEFT_F8E4M3,
                            .b = WEFT_F8E4M3,
                            .out = cases[i].out,
                            .of_a = cases[i].scales,
                            .of_b = cases[i].scales,
                            .emulate = "auto",
                            .scale = 1});
        const weft_call call = {.op = t.op,
                                .attrs = t.attrs,
                                .n_attrs = t.n_attrs,
                                .n_ins = t.n_ins,
                                .n_outs = t.n_outs,
                                .ins = t.ins,
                                .outs = t.outs,
                                .queue = (weft_queue *)(uintptr_t)&queue,
                                .accumulate = cases[i].accumulate};
        const weft_kernel_work work = t.kernel->work(&call);
        if (work.launches != cases[i].launches || work.before != cases[i].before ||
            work.bytes != cases[i].before + cases[i].bytes)
            fail_msg(
                "case %zu: %d launches, %.0f bytes, %.0f of them before, not %d, %.0f and %.0f", i,
                work.launches, work.bytes, work.before, cases[i].launches,
                cases[i].before + cases[i].bytes, cases[i].before);
        assert_int_equal(work.dtype, cases[i].rate);
        trial_release(&t);
    }
}

/* An address that is not what algorithms were chosen for. */
static void test_others_are_refused(void **state)
{
    weft_error err = {0};
    trial t;
    (void)state;
    trial_init(&t, "linear");
    t.product = true;
    trial_in(&t, WEFT_BF16, 1, SIZES(8, 8));
    trial_in(&t, WEFT_BF16, 2, SIZES(8, 8));
    trial_out(&t, WEFT_F32, SIZES(7, 8));
    t.ins[0].size[0] = 7;
    weft_call call = {.op = t.op, .n_ins = 2, .n_outs = 1, .ins = t.ins, .outs = t.outs};
    machine.address(&t, 1, 0, &call);
    assert_int_equal(t.kernel->prepare(&call, &call.state, &err), WEFT_OK);
    call.workspace_bytes = t.kernel->workspace(&call);
    call.workspace = weft_alloc_aligned(256, call.workspace_bytes);
    assert_int_equal(t.kernel->launch(&call, &err), WEFT_OK);
    call.workspace_bytes--;
    assert_int_equal(t.kernel->launch(&call, &err), WEFT_ERR_INTERNAL);
    weft_error_clear(&err);
    call.workspace_bytes++;
    t.ins[0].data = (char *)t.ins[0].data + 16;
    assert_int_equal(t.kernel->launch(&call, &err), WEFT_ERR_INTERNAL);
    assert_non_null(strstr(weft_error_text(&err), "multiples of 256"));
    t.ins[0].data = (char *)t.ins[0].data - 16;
    t.kernel->release(call.state);
    weft_free_aligned(call.workspace);
    weft_error_release(&err);
    trial_release(&t);
}

/* ---- pairs: two products of one x ---- */

/* Of a gradient of weights x has the columns, else m is x's rows and n the weights'. */
static void make_pair(trial *t, const char *op, const int64_t *sizes, weft_dtype in, weft_dtype out)
{
    const int64_t m = sizes[0], n = sizes[1], k = sizes[2];
    const bool dw = strcmp(op, "linear_pair_dw") == 0;
    trial_init(t, op);
    t->product = true;
    t->tolerance = 1e-5;
    trial_in(t, in, 1, SIZES(1, m, k));
    for (uint64_t i = 2; i < 4; i++)
        trial_in(t, in, i, dw ? SIZES(1, m, n) : SIZES(n, k));
    for (int i = 0; i < 2; i++)
        trial_out(t, out, dw ? SIZES(n, k) : SIZES(1, m, n));
}

static void test_pairs(void **state)
{
    static const int64_t sizes[][3] = {{1, 1, 1}, {3, 17, 5}, {65, 40, 129}, {1, 70, 64},
                                       {0, 4, 4}, {4, 0, 4},  {4, 5, 0}};
    (void)state;
    EACH(name, op, "linear_pair", "linear_pair_dw")
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int dtypes = 0; dtypes < 3; dtypes++) {
            trial t;
            make_pair(&t, op, sizes[i], dtypes ? WEFT_BF16 : WEFT_F32,
                      dtypes == 1 ? WEFT_BF16 : WEFT_F32);
            trial_check(&t);
        }
}

static int launched;
static __typeof__(cublasLtMatmul) *matmul;

static cublasStatus_t count(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void *alpha,
                            const void *a, cublasLtMatrixLayout_t a_layout, const void *b,
                            cublasLtMatrixLayout_t b_layout, const void *beta, const void *c,
                            cublasLtMatrixLayout_t c_layout, void *d,
                            cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t *algorithm,
                            void *workspace, size_t bytes, cudaStream_t stream)
{
    launched++;
    return matmul(handle, desc, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d, d_layout,
                  algorithm, workspace, bytes, stream);
}

/* Operands and results at these places of one block of memory; how many launches that was. */
static int launch_at(trial *t, const int *places, bool accumulate)
{
    enum { PLACE = 4096, PLACES = 6 };
    weft_tensor *all[] = {&t->ins[1], &t->ins[2], &t->outs[0], &t->outs[1]};
    weft_tensor want[MOST_TENSORS];
    void *kept[4];
    weft_error err = {0};
    weft_call call = {.op = t->op,
                      .n_ins = 3,
                      .n_outs = 2,
                      .ins = t->ins,
                      .outs = t->outs,
                      .accumulate = accumulate};
    char *block = weft_alloc_aligned(256, PLACE * PLACES);
    trial_plain(t, accumulate, want);
    for (int i = 0; i < 4; i++) {
        kept[i] = all[i]->data;
        all[i]->data = block + PLACE * places[i];
        memcpy(all[i]->data, kept[i],
               (size_t)weft_tensor_count(all[i]) * weft_dtype_size(all[i]->dtype));
    }
    machine.address(t, 0, 0, &call);
    matmul = call.queue->products->blas.cublasLtMatmul;
    call.queue->products->blas.cublasLtMatmul = count;
    assert_int_equal(t->kernel->prepare(&call, &call.state, &err), WEFT_OK);
    call.workspace_bytes = t->kernel->workspace(&call);
    call.workspace = weft_alloc_aligned(256, call.workspace_bytes);
    launched = 0;
    assert_int_equal(t->kernel->launch(&call, &err), WEFT_OK);
    call.queue->products->blas.cublasLtMatmul = matmul;
    t->kernel->release(call.state);
    for (int r = 0; r < 2; r++)
        for (int64_t i = 0; i < weft_tensor_count(&want[r]); i++)
            assert_true(fabs(weft_tensor_get(&t->outs[r], i) - weft_tensor_get(&want[r], i)) <
                        1e-3);
    for (int i = 0; i < 4; i++)
        all[i]->data = kept[i];
    trial_free_outs(t, want);
    weft_free_aligned(call.workspace);
    weft_free_aligned(block);
    weft_error_release(&err);
    return launched;
}

/* One launch where operands and results lie in one order, however far apart; else two. */
static void test_order_of_pairs(void **state)
{
    static const struct {
        int places[4], launches;
    } cases[] = {{{0, 1, 2, 3}, 1}, {{4, 2, 3, 1}, 1}, {{0, 5, 3, 4}, 1},
                 {{3, 0, 5, 1}, 1}, {{1, 0, 2, 3}, 2}, {{0, 3, 2, 1}, 2}};
    (void)state;
    EACH(name, op, "linear_pair", "linear_pair_dw")
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int accumulate = 0; accumulate < 2; accumulate++) {
            trial t;
            make_pair(&t, op, (const int64_t[]){9, 12, 20}, WEFT_F32, WEFT_F32);
            assert_int_equal(launch_at(&t, cases[i].places, accumulate), cases[i].launches);
            trial_release(&t);
        }
}

/* Weights of two shapes are no pair, nor is any where nobody asked for pairs. */
static void test_what_is_a_pair(void **state)
{
    (void)state;
    for (int i = 0; i < 4; i++) {
        trial t;
        weft_queue queue = {.pairs = i != 1};
        make_pair(&t, "linear_pair", (const int64_t[]){8, 8, 8}, WEFT_BF16, WEFT_BF16);
        weft_call call = {
            .op = t.op, .n_ins = 3, .n_outs = 2, .ins = t.ins, .outs = t.outs, .queue = &queue};
        if (i == 2)
            t.ins[2].size[0] = t.outs[1].size[2] = 4;
        if (i == 3)
            t.outs[1].dtype = WEFT_F32;
        assert_int_equal(t.kernel->accepts(&call), i == 0);
        trial_release(&t);
    }
}

/* x is read twice, and written to what is there already is read, too; one launch. */
static void test_work_of_pairs(void **state)
{
    (void)state;
    for (int dw = 0; dw < 2; dw++) {
        trial t;
        make_pair(&t, dw ? "linear_pair_dw" : "linear_pair", (const int64_t[]){8, 24, 16},
                  WEFT_BF16, WEFT_F32);
        const weft_call call = {
            .op = t.op, .n_ins = 3, .n_outs = 2, .ins = t.ins, .outs = t.outs, .accumulate = dw};
        const weft_kernel_work work = t.kernel->work(&call);
        assert_int_equal(work.launches, 1);
        assert_int_equal(work.dtype, WEFT_BF16);
        assert_true(work.bytes == 2 * (8 * 16 * 2 + (dw ? 8 * 24 * 2 + 2 * 24 * 16 * 4
                                                        : 24 * 16 * 2 + 8 * 24 * 4)));
        assert_true(t.op->flops(&call) == 2 * 2.0 * 8 * 24 * 16);
        trial_release(&t);
    }
}

/* ---- NVIDIA's own library ---- */

static bool open_blas(cuda_blas *blas)
{
    static const char *const libraries[] = {"libcublasLt.so.13",
                                            "/usr/local/cuda/lib64/libcublasLt.so.13"};
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++)
        if (!cuda_blas_open(blas, libraries[i], NULL))
            return true;
    return false;
}

/* Describing a product needs no GPU. Choosing an algorithm does, and so a product that is described
 * as the library wants it gets there: only then is a library that was not started found out. */
/* What is summed in parts stays f32 until all are there: 256 + 1 - 256 is 1 in bf16, too. */
static void test_sums_of_parts(void **state)
{
    (void)state;
    trial t;
    trial_init(&t, "linear");
    t.product = true;
    t.tolerance = 1e-6;
    weft_tensor *x = trial_in(&t, WEFT_BF16, 1, SIZES(1, 4, 32)),
                *w = trial_in(&t, WEFT_BF16, 2, SIZES(16, 32));
    trial_out(&t, WEFT_BF16, SIZES(1, 4, 16));
    for (int64_t i = 0; i < weft_tensor_count(x); i++)
        weft_tensor_set(x, i, i % 32 == 0 ? 256 : i % 32 == 1 ? 1 : i % 32 == 31 ? -256 : 0);
    for (int64_t i = 0; i < weft_tensor_count(w); i++)
        weft_tensor_set(w, i, 1);
    trial_check(&t);
}

/* Which products may be summed in less than f32: forward ones, where that was asked for. */
static void test_fast_sums(void **state)
{
    static const char *const ops[] = {"float8_linear", "float8_linear_dx", "float8_linear_dw"};
    (void)state;
    for (int i = 0; i < 3; i++)
        for (int fast = 0; fast < 2; fast++) {
            trial t;
            make(&t, &(f8_case){.op = ops[i],
                                .m = 32,
                                .n = 32,
                                .k = 160,
                                .a = WEFT_F8E4M3,
                                .b = WEFT_F8E4M3,
                                .out = WEFT_F32,
                                .emulate = "auto",
                                .scale = 64,
                                .tolerance = fast && i == 0 ? 3e-2 : 2e-6});
            for (int64_t k = 0; k < weft_tensor_count(&t.ins[3]); k++)
                weft_tensor_set(&t.ins[3], k, 16);
            if (fast)
                setenv("WEFT_TEST_FAST_SUMS", "1", 1);
            trial_check(&t);
            unsetenv("WEFT_TEST_FAST_SUMS");
        }
}

static void test_descriptions(void **state)
{
    static const struct {
        weft_dtype ab, c;
        cuda_scaling scaling;
    } kinds[] = {{WEFT_F32, WEFT_F32, CUDA_UNSCALED},
                 {WEFT_BF16, WEFT_BF16, CUDA_UNSCALED},
                 {WEFT_BF16, WEFT_F32, CUDA_UNSCALED},
                 {WEFT_F8E4M3, WEFT_BF16, CUDA_SCALED},
                 {WEFT_F8E5M2, WEFT_F32, CUDA_SCALED_ROWS}};
    cuda_products products = {0};
    weft_error err = {0};
    (void)state;
    if (!open_blas(&products.blas)) {
        print_message("there is no cuBLASLt 13 to ask\n");
        return;
    }
    for (unsigned i = 0; i < 8 * sizeof kinds / sizeof *kinds; i++) {
        cuda_product p = {.m = 48, .n = 32, .k = 64, .turn_a = i & 1, .turn_b = i >> 1 & 1};
        cuda_matmul *m;
        p.a = p.b = kinds[i / 8].ab;
        p.c = kinds[i / 8].c;
        p.scaling = kinds[i / 8].scaling;
        p.each = i & 4 ? 2 : 0;
        p.apart = i & 4 ? CUDA_PAIR : CUDA_BEHIND;
        p.fast = p.scaling != CUDA_UNSCALED;
        assert_int_equal(cuda_matmul_create(&products, &p, &m, &err), WEFT_ERR_RUN);
        assert_non_null(strstr(weft_error_text(&err), "cublasLtMatmulAlgoGetHeuristic"));
        weft_error_clear(&err);
        assert_null(products.all);
    }
    weft_error_release(&err);
}

/* ---- the file of algorithms ---- */

static const char machine_name[] = "a GPU, a library";

/* How many the file has for this machine; -1: they are not those that were written. */
static int read_choices(const char *path, const char *of, const cuda_choice *want, int n_want)
{
    weft_error err = {0};
    cuda_choice *list;
    int n;
    assert_int_equal(cuda_choices_read(path, of, NULL, &list, &n, &err), WEFT_OK);
    for (int i = 0; i < n; i++)
        if (n != n_want || memcmp(&list[i].product, &want[i].product, sizeof want->product) != 0 ||
            memcmp(&list[i].algorithm, &want[i].algorithm, sizeof want->algorithm) != 0)
            n = -1;
    weft_free(list);
    weft_error_release(&err);
    return n;
}

static void write_bytes(const char *path, const char *data, size_t size)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, size, f), size);
    assert_int_equal(fclose(f), 0);
}

/* A file that is cut off or changed anywhere, or of another GPU, counts for nothing. */
static void test_kept_choices(void **state)
{
    enum { N = 3 };
    char folder[] = "/tmp/weft-choices-XXXXXX", *data = NULL;
    cuda_choice list[N];
    size_t size;
    (void)state;
    memset(list, 0, sizeof list);
    for (int i = 0; i < N; i++) {
        list[i].product = (cuda_product){.m = i + 1,
                                         .n = 4096,
                                         .k = INT32_MAX,
                                         .turn_b = 1,
                                         .a = WEFT_F8E4M3,
                                         .b = WEFT_F8E5M2,
                                         .c = WEFT_F32,
                                         .scaling = CUDA_SCALED_ROWS,
                                         .accumulate = i % 2,
                                         .apart = i,
                                         .alignment = 16,
                                         .fast = i % 2,
                                         .each = 3 * i};
        for (int w = 0; w < 8; w++)
            list[i].algorithm.data[w] = weft_random_bits(1, 2, (uint64_t)(8 * i + w));
    }
    assert_non_null(mkdtemp(folder));
    char *path = cuda_choices_path(folder, machine_name);
    assert_int_equal(read_choices(path, machine_name, list, N), 0);
    cuda_choices_write(folder, path, machine_name, list, N, NULL);
    assert_int_equal(read_choices(path, machine_name, list, N), N);
    assert_int_equal(read_choices(path, "a GPU, another library", list, N), 0);
    assert_int_equal(weft_read_file(path, &data, &size, NULL), WEFT_OK);
    for (size_t i = 0; i < size; i++) {
        write_bytes(path, data, i);
        assert_int_equal(read_choices(path, machine_name, list, N), 0);
        data[i] ^= 1;
        write_bytes(path, data, size);
        assert_int_equal(read_choices(path, machine_name, list, N), 0);
        data[i] ^= 1;
    }
    write_bytes(path, data, size);
    assert_int_equal(read_choices(path, machine_name, list, N), N);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
    weft_free(data);
    weft_free(path);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        TRIAL_PRODUCTS,
        cmocka_unit_test(test_pairs),
        cmocka_unit_test(test_order_of_pairs),
        cmocka_unit_test(test_what_is_a_pair),
        cmocka_unit_test(test_work_of_pairs),
        cmocka_unit_test(test_values_in_8_bits),
        cmocka_unit_test(test_exact),
        cmocka_unit_test(test_no_emulation),
        cmocka_unit_test(test_work),
        cmocka_unit_test(test_others_are_refused),
        cmocka_unit_test(test_sums_of_parts),
        cmocka_unit_test(test_fast_sums),
        cmocka_unit_test(test_descriptions),
        cmocka_unit_test(test_kept_choices),
    };
    return trial_main(argc, argv, "cuda_products", tests, sizeof tests / sizeof *tests);
}
