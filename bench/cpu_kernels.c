/* SPDX-License-Identifier: Apache-2.0 */
/* How fast the cpu plugin's kernels are, against the machine's memory copy: cpu_kernels [threads]
 * [seconds per kernel]. */
#include "../tests/lib/standard_ops.h"
#include "cpu.h"

#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 16 };

typedef struct bench {
    const char *op, *note;
    int n_ins, n_outs;
    weft_tensor t[MOST]; /* operands, then results */
    double flops;        /* 0: measured in bytes */
} bench;

static int threads;
static cpu_products how; /* bf16 is multiplied */
static bool amx;
static double seconds = 0.3;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static size_t bytes_of(const weft_tensor *t)
{
    return (size_t)weft_tensor_count(t) * weft_dtype_size(t->dtype);
}

static void *memory(size_t bytes)
{
    void *p = weft_alloc_aligned(64, bytes);
    if (!p) {
        fprintf(stderr, "cpu_kernels: out of memory\n");
        exit(1);
    }
    memset(p, 0, bytes);
    return p;
}

/* ---- building ---- */

static weft_tensor *add_tensor(bench *b, weft_dtype dtype, int n_dims, const int64_t *size,
                               int64_t grain)
{
    weft_tensor *t = &b->t[b->n_ins + b->n_outs];
    *t = (weft_tensor){.dtype = dtype, .n_dims = n_dims};
    for (int d = 0; d < n_dims; d++)
        t->size[d] = t->whole[d] = size[d], t->grain[d] = d == n_dims - 1 ? grain : 1;
    t->data = memory(bytes_of(t));
    for (int64_t i = 0; i < weft_tensor_count(t); i++)
        weft_tensor_set(t, i,
                        dtype == WEFT_I32 ? (double)(n_dims ? i % size[n_dims - 1] : 0)
                                          : (double)((i * 37 % 101) - 50) / 50.0);
    return t;
}

#define DIMS(...)                                                                                  \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[])                   \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }
#define IN(b, dtype, grain, ...)  (add_tensor(b, dtype, DIMS(__VA_ARGS__), grain), (b)->n_ins++)
#define OUT(b, dtype, grain, ...) (add_tensor(b, dtype, DIMS(__VA_ARGS__), grain), (b)->n_outs++)

static void zero_ints(bench *b, int from)
{
    for (int i = from; i < b->n_ins; i++)
        if (b->t[i].dtype == WEFT_I32)
            memset(b->t[i].data, 0, bytes_of(&b->t[i]));
}

/* ---- running ---- */

static const weft_op *find_op(const char *name)
{
    for (const weft_op *const *o = standard_ops(); *o; o++)
        if (strcmp((*o)->name, name) == 0)
            return *o;
    return NULL;
}

static const weft_kernel *find_kernel(const weft_call *call)
{
    for (const weft_kernel *k = cpu_kernels; k->op; k++)
        if (strcmp(k->op, call->op->name) == 0 && weft_kernel_accepts(k, call))
            return k;
    return NULL;
}

static void print_rate(const bench *b, double s)
{
    double bytes = 0.0;
    for (int i = 0; i < b->n_ins + b->n_outs; i++)
        bytes += (double)bytes_of(&b->t[i]);
    printf("%-14s %-5s %-26s %9.3f ms  %8.1f %s\n", b->op,
           weft_dtype_name(b->t[b->n_ins ? (b->t[0].dtype == WEFT_I32) : 0].dtype), b->note,
           1e3 * s, (b->flops > 0.0 ? b->flops : bytes) / s * 1e-9,
           b->flops > 0.0 ? "GFLOP/s" : "GB/s");
}

static void run(bench *b)
{
    weft_queue queue = {.threads = threads, .products = how, .amx = amx};
    weft_attr attrs[] = {{.key = "eps", .kind = WEFT_ATTR_REAL, .r = 1e-5},
                         {.key = "causal", .kind = WEFT_ATTR_INT, .i = 1},
                         {.key = "theta", .kind = WEFT_ATTR_REAL, .r = 5e5},
                         {.key = "each", .kind = WEFT_ATTR_INT, .i = 1}};
    weft_call call = {.op = find_op(b->op),
                      .attrs = attrs,
                      .n_attrs = 4,
                      .n_ins = b->n_ins,
                      .n_outs = b->n_outs,
                      .ins = b->t,
                      .outs = b->t + b->n_ins,
                      .queue = &queue,
                      .threads = threads};
    weft_error err = {0};
    const weft_kernel *k = find_kernel(&call);
    if (!k) {
        printf("%-14s no kernel\n", b->op);
        exit(1);
    }
    call.workspace_bytes = k->workspace ? k->workspace(&call) : 0;
    call.workspace = memory(call.workspace_bytes);
    weft_status status = k->prepare ? k->prepare(&call, &call.state, &err) : WEFT_OK;
    double best = INFINITY, start = now();
    for (int i = 0; status == WEFT_OK && (i < 3 || now() - start < seconds); i++) {
        double t = now();
        status = k->launch(&call, &err);
        best = fmin(best, now() - t);
    }
    if (status != WEFT_OK) {
        fprintf(stderr, "cpu_kernels: %s: %s\n", b->op, weft_error_text(&err));
        exit(1);
    }
    print_rate(b, best);
    if (k->release)
        k->release(call.state);
    weft_free_aligned(call.workspace);
    for (int i = 0; i < b->n_ins + b->n_outs; i++)
        weft_free_aligned(b->t[i].data);
    weft_error_release(&err);
}

/* ---- what is measured ---- */

static void copy_rate(void)
{
    size_t n = (size_t)64 << 20;
    char *a = memory(n), *b = memory(n);
    double best = INFINITY;
    for (int i = 0; i < 8; i++) {
        double t = now();
#pragma omp parallel for num_threads(threads)
        for (int part = 0; part < 64; part++)
            memcpy(a + (size_t)part * (n / 64), b + (size_t)part * (n / 64), n / 64);
        best = fmin(best, now() - t);
    }
    printf("%-14s %-5s %-26s %9.3f ms  %8.1f GB/s (read + written)\n", "memcpy", "", "64 MiB",
           1e3 * best, 2e-9 * (double)n / best);
    weft_free_aligned(a);
    weft_free_aligned(b);
}

static void products(weft_dtype d, int64_t m, int64_t k, int64_t n)
{
    char note[64];
    snprintf(note, sizeof note, "%lld x %lld x %lld", (long long)m, (long long)k, (long long)n);
    bench y = {.op = "linear", .note = note, .flops = 2.0 * (double)m * (double)n * (double)k},
          dx = y, dw = y;
    IN(&y, d, 1, m, k), IN(&y, d, 1, n, k), OUT(&y, d, 1, m, n), run(&y);
    dx.op = "linear_dx", IN(&dx, d, 1, m, n), IN(&dx, d, 1, n, k), OUT(&dx, d, 1, m, k), run(&dx);
    dw.op = "linear_dw", IN(&dw, d, 1, m, n), IN(&dw, d, 1, m, k), OUT(&dw, WEFT_F32, 1, n, k),
    run(&dw);
}

/* One for each of x experts, of rows that lie between the others': [m x k] [x n k] -> [m x n]. */
static void products_each(weft_dtype d, int64_t m, int64_t x, int64_t k, int64_t n)
{
    char note[64];
    snprintf(note, sizeof note, "%lld: %lld x %lld x %lld", (long long)x, (long long)m,
             (long long)k, (long long)n);
    bench y = {.op = "linear_each",
               .note = note,
               .flops = 2.0 * (double)x * (double)m * (double)n * (double)k},
          dx = y, dw = y;
    IN(&y, d, 1, m, x, k), IN(&y, d, 1, x, n, k), OUT(&y, d, 1, m, x, n), run(&y);
    dx.op = "linear_each_dx", IN(&dx, d, 1, m, x, n), IN(&dx, d, 1, x, n, k),
    OUT(&dx, d, 1, m, x, k), run(&dx);
    dw.op = "linear_each_dw", IN(&dw, d, 1, m, x, n), IN(&dw, d, 1, m, x, k),
    OUT(&dw, WEFT_F32, 1, x, n, k), run(&dw);
}

static void attention(weft_dtype t, const char *note)
{
    enum { B = 4, S = 1024, H = 12, KV = 4, D = 64 };
    double product = 2.0 * B * H * (double)S * S * D / 2; /* one of the products, the causal half */
    bench f = {.op = "attention", .note = note, .flops = 2 * product}, g = f;
    for (bench *b = &f;; b = &g) {
        IN(b, t, D, B, S, H * D), IN(b, t, D, B, S, KV * D), IN(b, t, D, B, S, KV * D);
        IN(b, WEFT_I32, 1, S), IN(b, WEFT_I32, 1, S), IN(b, WEFT_I32, 1, B, S),
            IN(b, WEFT_I32, 1, B, S);
        zero_ints(b, 5);
        if (b == &g)
            break;
        OUT(b, t, D, B, S, H * D), OUT(b, WEFT_F32, 1, B, S, H), run(b);
    }
    g.op = "attention_dx", g.flops = 5 * product;
    IN(&g, t, D, B, S, H * D), IN(&g, WEFT_F32, 1, B, S, H), IN(&g, t, D, B, S, H * D);
    OUT(&g, t, D, B, S, H * D), OUT(&g, t, D, B, S, KV * D), OUT(&g, t, D, B, S, KV * D), run(&g);
}

static void elementwise(weft_dtype t)
{
    enum { B = 4, S = 1024, E = 768, F = 2048 };
    bench b = {.op = "add", .note = "4 x 1024 x 768"};
    IN(&b, t, 1, B, S, E), IN(&b, t, 1, B, S, E), OUT(&b, t, 1, B, S, E), run(&b);
    b = (bench){.op = "rms_norm", .note = "4 x 1024 x 768"};
    IN(&b, t, 1, B, S, E), IN(&b, WEFT_F32, 1, E), OUT(&b, t, 1, B, S, E), run(&b);
    b = (bench){.op = "rms_norm_dx", .note = "4 x 1024 x 768"};
    IN(&b, t, 1, B, S, E), IN(&b, WEFT_F32, 1, E), IN(&b, t, 1, B, S, E), OUT(&b, t, 1, B, S, E),
        run(&b);
    b = (bench){.op = "rms_norm_dw", .note = "4 x 1024 x 768"};
    IN(&b, t, 1, B, S, E), IN(&b, t, 1, B, S, E), OUT(&b, WEFT_F32, 1, E), run(&b);
    b = (bench){.op = "head_norm", .note = "16 x 96 x 4 x 32"};
    IN(&b, t, 32, 16, 96, 128), IN(&b, WEFT_F32, 1, 32), OUT(&b, t, 32, 16, 96, 128), run(&b);
    b = (bench){.op = "head_norm_dx", .note = "16 x 96 x 4 x 32"};
    IN(&b, t, 32, 16, 96, 128), IN(&b, WEFT_F32, 1, 32), IN(&b, t, 32, 16, 96, 128),
        OUT(&b, t, 32, 16, 96, 128), run(&b);
    b = (bench){.op = "head_norm_dw", .note = "16 x 96 x 4 x 32"};
    IN(&b, t, 32, 16, 96, 128), IN(&b, t, 32, 16, 96, 128), OUT(&b, WEFT_F32, 1, 32), run(&b);
    b = (bench){.op = "rope", .note = "4 x 1024 x 12 x 64"};
    IN(&b, t, 64, B, S, E), IN(&b, WEFT_F32, 1, B, S, 64), OUT(&b, t, 64, B, S, E), run(&b);
    b = (bench){.op = "silu_mul", .note = "4 x 1024 x 2048"};
    IN(&b, t, 1, B, S, F), IN(&b, t, 1, B, S, F), OUT(&b, t, 1, B, S, F), run(&b);
    b = (bench){.op = "silu_mul_dx", .note = "4 x 1024 x 2048"};
    IN(&b, t, 1, B, S, F), IN(&b, t, 1, B, S, F), IN(&b, t, 1, B, S, F), OUT(&b, t, 1, B, S, F),
        OUT(&b, t, 1, B, S, F), run(&b);
    b = (bench){.op = "gelu", .note = "4 x 1024 x 2048"};
    IN(&b, t, 1, B, S, F), OUT(&b, t, 1, B, S, F), run(&b);
    b = (bench){.op = "embedding_dw", .note = "4096 of 32000 x 768"};
    IN(&b, WEFT_I32, 1, B, S), IN(&b, t, 1, B, S, E), OUT(&b, WEFT_F32, 1, 32000, E), run(&b);
}

static void cross_entropy(weft_dtype t)
{
    enum { ROWS = 256, V = 32000 };
    bench b = {.op = "max_v", .note = "256 x 32000"};
    IN(&b, t, 1, 1, ROWS, V), OUT(&b, WEFT_F32, 1, 1, ROWS), run(&b);
    b = (bench){.op = "sumexp", .note = "256 x 32000"};
    IN(&b, t, 1, 1, ROWS, V), IN(&b, WEFT_F32, 1, 1, ROWS), OUT(&b, WEFT_F32, 1, 1, ROWS), run(&b);
    b = (bench){.op = "sumexp_dx", .note = "256 x 32000"};
    IN(&b, t, 1, 1, ROWS, V), IN(&b, WEFT_F32, 1, 1, ROWS), IN(&b, WEFT_F32, 1, 1, ROWS),
        OUT(&b, t, 1, 1, ROWS, V), run(&b);
    b = (bench){.op = "pick_dx", .note = "256 x 32000, whole"};
    IN(&b, WEFT_I32, 1, 1, ROWS), IN(&b, WEFT_F32, 1, 1, ROWS), OUT(&b, t, 1, 1, ROWS, V), run(&b);
}

int main(int argc, char **argv)
{
    threads = argc > 1 ? atoi(argv[1]) : omp_get_max_threads();
    seconds = argc > 2 ? atof(argv[2]) : seconds;
    if (threads < 1 || !(seconds > 0.0)) {
        fprintf(stderr, "usage: cpu_kernels [threads] [seconds per kernel]\n");
        return 2;
    }
    how = cpu_has_bf16() ? CPU_PRODUCTS_BF16 : CPU_PRODUCTS_F32;
    amx = cpu_may_use_amx();
    weft_text model = {0};
    cpu_model_name(&model);
    printf("%s, %s, %d threads\n", weft_text_get(&model), cpu_isa_name(cpu_isa_get()), threads);
    weft_text_release(&model);
    copy_rate();
    for (int type = 0; type < 2; type++) {
        weft_dtype t = type ? WEFT_BF16 : WEFT_F32;
        products(t, 128, 768, 2048);
        products(t, 128, 2048, 768);
        products(t, 128, 768, 32000);
        products(t, 4096, 768, 2048);
        products(t, 256, 768, 32000);
        products_each(t, 512, 8, 768, 2048);
        attention(t, "b4 s1024 h12 kv4 d64 causal");
        if (t == WEFT_BF16 && amx) {
            amx = false;
            attention(t, "the same, by dots");
            amx = true;
        }
        if (t == WEFT_BF16 && how == CPU_PRODUCTS_BF16) {
            how = CPU_PRODUCTS_F32;
            attention(t, "the same, products of f32");
            how = CPU_PRODUCTS_BF16;
        }
        products_each(t, 512, 8, 768, 2048);
        elementwise(t);
        cross_entropy(t);
    }
    return 0;
}
