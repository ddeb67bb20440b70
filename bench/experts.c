/* SPDX-License-Identifier: Apache-2.0 */
/* How fast experts are on the device cpu beside what they are measured against, one run of each
 * after the other: experts [threads] [pairs] [f32|bf16]. Ratios are medians over pairs, of time by
 * the clock; with one thread of the processor's, which others on the machine move little.
 *   grouped products      beside linear, with as many rows for each weight, and with all for one
 *   a block of experts    beside a dense one of as many operations for a token, there and back
 *   dispatch and combine  beside a copy of memory */
#include "../plugins/moe/moe.h"
#include "../tests/lib/standard_ops.h"
#include "cpu.h"

#include <math.h>
#include <omp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { TOKENS = 2048, EMBED = 512, FFN = 1024, EXPERTS = 8, K = 2, MOST = 40, MOST_PAIRS = 999 };

/* One launch. */
typedef struct step {
    weft_call call;
    const weft_kernel *kernel; /* NULL: the plain one */
    weft_tensor t[8];
} step;

typedef struct sequence {
    step steps[MOST];
    int n;
} sequence;

static int threads, pairs = 21;
static weft_dtype dtype = WEFT_F32; /* of all but indices */
static weft_queue queue;
static const weft_attr attrs[] = {{.key = "experts", .kind = WEFT_ATTR_INT, .i = EXPERTS},
                                  {.key = "k", .kind = WEFT_ATTR_INT, .i = K},
                                  {.key = "norm", .kind = WEFT_ATTR_INT, .i = 1},
                                  {.key = "scale", .kind = WEFT_ATTR_REAL, .r = 1},
                                  {.key = "rows", .kind = WEFT_ATTR_INT, .i = K * TOKENS},
                                  {.key = "each", .kind = WEFT_ATTR_INT, .i = 0}};

static double now(void)
{
    struct timespec t;
    clock_gettime(threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *memory(size_t bytes)
{
    void *p = weft_alloc_aligned(64, bytes + 64);
    if (!p) {
        fprintf(stderr, "experts: out of memory\n");
        exit(1);
    }
    memset(p, 0, bytes);
    return p;
}

#define DIMS(...)                                                                                  \
    (int)(sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)), (const int64_t[])                   \
    {                                                                                              \
        __VA_ARGS__                                                                                \
    }

static weft_tensor make(weft_dtype type, int n, const int64_t *size)
{
    weft_tensor t = {.dtype = type, .n_dims = n};
    for (int d = 0; d < n; d++)
        t.size[d] = t.whole[d] = size[d], t.grain[d] = 1;
    t.data = memory((size_t)weft_tensor_count(&t) * weft_dtype_size(type));
    /* about as large as initial weights are: of much larger ones gradients are denormal numbers,
     * which some CPUs multiply a hundred times more slowly */
    const double most = 1 / sqrt((double)t.size[n - 1]);
    for (int64_t i = 0; type != WEFT_I32 && i < weft_tensor_count(&t); i++)
        weft_tensor_set(&t, i,
                        most * ((double)((uint64_t)i * 0x9e3779b97f4a7c15 >> 40) / 0x1p23 - 1));
    return t;
}

#define F(...) make(dtype, DIMS(__VA_ARGS__))
#define S(...) make(WEFT_F32, DIMS(__VA_ARGS__)) /* sums over tokens */
#define I(...) make(WEFT_I32, DIMS(__VA_ARGS__))

/* ---- launches ---- */

static const weft_op *find_op(const char *name)
{
    const weft_op *const *const tables[] = {standard_ops(), moe_ops};
    for (int i = 0; i < 2; i++)
        for (const weft_op *const *o = tables[i]; *o; o++)
            if (strcmp((*o)->name, name) == 0)
                return *o;
    fprintf(stderr, "experts: no op %s\n", name);
    exit(1);
}

static const weft_kernel *find_kernel(const weft_call *call)
{
    const weft_kernel *const tables[] = {cpu_kernels, moe_kernels};
    for (int i = 0; i < 2; i++)
        for (const weft_kernel *k = tables[i]; k->op; k++)
            if (strcmp(k->op, call->op->name) == 0 && weft_kernel_accepts(k, call))
                return k;
    return NULL;
}

static void must(weft_status status, const weft_call *call, weft_error *err)
{
    if (status) {
        fprintf(stderr, "experts: %s: %s\n", call->op->name, weft_error_text(err));
        exit(1);
    }
}

/* Operands, then results, each a weft_tensor *, then NULL. more: adds to the result. */
static void add(sequence *q, const char *op, bool more, int n_ins, int n_outs, ...)
{
    step *s = &q->steps[q->n++];
    weft_error err = {0};
    va_list list;
    va_start(list, n_outs);
    for (int i = 0; i < n_ins + n_outs; i++)
        s->t[i] = *va_arg(list, weft_tensor *);
    va_end(list);
    s->call = (weft_call){.op = find_op(op),
                          .attrs = attrs,
                          .n_attrs = (int)(sizeof attrs / sizeof *attrs),
                          .n_ins = n_ins,
                          .n_outs = n_outs,
                          .ins = s->t,
                          .outs = s->t + n_ins,
                          .accumulate = more,
                          .queue = &queue,
                          .threads = threads};
    s->kernel = find_kernel(&s->call);
    if (!s->kernel) {
        printf("%s by its plain kernel\n", op);
        return;
    }
    s->call.workspace_bytes = s->kernel->workspace ? s->kernel->workspace(&s->call) : 0;
    s->call.workspace = memory(s->call.workspace_bytes);
    if (s->kernel->prepare)
        must(s->kernel->prepare(&s->call, &s->call.state, &err), &s->call, &err);
}

static double run(sequence *q)
{
    weft_error err = {0};
    const double begin = now();
    for (int i = 0; i < q->n; i++) {
        step *s = &q->steps[i];
        must((s->kernel ? s->kernel->launch : s->call.op->plain)(&s->call, &err), &s->call, &err);
    }
    return now() - begin;
}

/* ---- pairs ---- */

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *list, int n)
{
    qsort(list, (size_t)n, sizeof *list, by_size);
    return n % 2 ? list[n / 2] : (list[n / 2 - 1] + list[n / 2]) / 2;
}

/* Prints how long a takes beside b, and gives the median of the ratio. */
static double compare(const char *what, sequence *a, sequence *b)
{
    static double ratio[MOST_PAIRS], of_a[MOST_PAIRS], of_b[MOST_PAIRS];
    run(a), run(b);
    for (int i = 0; i < pairs; i++) {
        of_a[i] = i % 2 ? run(a) : 0;
        of_b[i] = run(b);
        of_a[i] = i % 2 ? of_a[i] : run(a);
        ratio[i] = of_a[i] / of_b[i];
    }
    const double r = median(ratio, pairs), ta = median(of_a, pairs), tb = median(of_b, pairs);
    printf("%-46s %9.3f ms %9.3f ms   %5.2f x   rate %5.2f\n", what, 1e3 * ta, 1e3 * tb, r, 1 / r);
    fflush(stdout);
    return r;
}

/* ---- products ---- */

static void even(const weft_tensor *counts, int64_t rows)
{
    for (int64_t i = 0; i < weft_tensor_count(counts); i++)
        ((int32_t *)counts->data)[i] = (int32_t)rows;
}

static void products(int64_t rows)
{
    static sequence grouped[3], each[3], all[3];
    static const char *const names[] = {"forward", "of rows", "of weights"};
    const int64_t n = rows * EXPERTS;
    weft_tensor x = F(1, 1, 1, n, EMBED), y = F(1, 1, 1, n, FFN), w = F(EXPERTS, FFN, EMBED),
                counts = I(1, 1, EXPERTS), dw = F(EXPERTS, FFN, EMBED);
    even(&counts, rows);
    memset(grouped, 0, sizeof grouped), memset(each, 0, sizeof each), memset(all, 0, sizeof all);
    add(&grouped[0], "grouped", false, 3, 1, &x, &w, &counts, &y, NULL);
    add(&grouped[1], "grouped_dx", false, 3, 1, &y, &w, &counts, &x, NULL);
    add(&grouped[2], "grouped_dw", false, 3, 1, &y, &x, &counts, &dw, NULL);
    weft_tensor ax = F(n, EMBED), ay = F(n, FFN), aw = F(FFN, EMBED), adw = F(FFN, EMBED);
    add(&all[0], "linear", false, 2, 1, &ax, &aw, &ay, NULL);
    add(&all[1], "linear_dx", false, 2, 1, &ay, &aw, &ax, NULL);
    add(&all[2], "linear_dw", false, 2, 1, &ay, &ax, &adw, NULL);
    for (int i = 0; i < EXPERTS; i++) {
        weft_tensor ex = F(rows, EMBED), ey = F(rows, FFN), ew = F(FFN, EMBED), ed = F(FFN, EMBED);
        add(&each[0], "linear", false, 2, 1, &ex, &ew, &ey, NULL);
        add(&each[1], "linear_dx", false, 2, 1, &ey, &ew, &ex, NULL);
        add(&each[2], "linear_dw", false, 2, 1, &ey, &ex, &ed, NULL);
    }
    for (int i = 0; i < 3; i++) {
        char text[99];
        snprintf(text, sizeof text, "grouped %s, %d x %lld rows, / linear each", names[i], EXPERTS,
                 (long long)rows);
        compare(text, &grouped[i], &each[i]);
        snprintf(text, sizeof text, "grouped %s, %d x %lld rows, / linear all", names[i], EXPERTS,
                 (long long)rows);
        compare(text, &grouped[i], &all[i]);
    }
}

/* ---- blocks, there and back ---- */

static void dense(sequence *q)
{
    weft_tensor x = F(1, TOKENS, EMBED), g = F(1, TOKENS, K * FFN), u = F(1, TOKENS, K * FFN),
                a = F(1, TOKENS, K * FFN), y = F(1, TOKENS, EMBED), wg = F(K * FFN, EMBED),
                wu = F(K * FFN, EMBED), wd = F(EMBED, K * FFN), dy = F(1, TOKENS, EMBED),
                da = F(1, TOKENS, K * FFN), dg = F(1, TOKENS, K * FFN), du = F(1, TOKENS, K * FFN),
                dx = F(1, TOKENS, EMBED), dwg = F(K * FFN, EMBED), dwu = F(K * FFN, EMBED),
                dwd = F(EMBED, K * FFN);
    weft_tensor more = F(1, TOKENS, EMBED);
    add(q, "linear", false, 2, 1, &x, &wg, &g, NULL);
    add(q, "linear", false, 2, 1, &x, &wu, &u, NULL);
    add(q, "silu_mul", false, 2, 1, &g, &u, &a, NULL);
    add(q, "linear", false, 2, 1, &a, &wd, &y, NULL);
    add(q, "linear_dx", false, 2, 1, &dy, &wd, &da, NULL);
    add(q, "linear_dw", false, 2, 1, &dy, &a, &dwd, NULL);
    add(q, "silu_mul_dx", false, 3, 2, &g, &u, &da, &dg, &du, NULL);
    add(q, "linear_dx", false, 2, 1, &dg, &wg, &dx, NULL);
    add(q, "linear_dx", false, 2, 1, &du, &wu, &more, NULL);
    add(q, "add", false, 2, 1, &dx, &more, &dx, NULL);
    add(q, "linear_dw", false, 2, 1, &dg, &x, &dwg, NULL);
    add(q, "linear_dw", false, 2, 1, &du, &x, &dwu, NULL);
}

/* moves: dispatch and combine alone. */
static void experts(sequence *q, sequence *moves)
{
    enum { ROWS = K * TOKENS };
    weft_tensor x = F(1, TOKENS, EMBED), logits = F(1, TOKENS, EXPERTS), wr = F(EXPERTS, EMBED),
                chosen = I(1, TOKENS, K), weights = F(1, TOKENS, K), counts = I(1, 1, EXPERTS),
                slot = I(1, TOKENS, K), refused = S(1, 1), most = S(1, 1),
                sent = F(1, 1, 1, ROWS, EMBED), w = F(1, 1, 1, ROWS), g = F(1, 1, 1, ROWS, FFN),
                u = F(1, 1, 1, ROWS, FFN), a = F(1, 1, 1, ROWS, FFN), aw = F(1, 1, 1, ROWS, FFN),
                rows = F(1, 1, 1, ROWS, EMBED), y = F(1, TOKENS, EMBED),
                wg = F(EXPERTS, FFN, EMBED), wu = F(EXPERTS, FFN, EMBED),
                wd = F(EXPERTS, EMBED, FFN);
    add(q, "linear", false, 2, 1, &x, &wr, &logits, NULL);
    add(q, "route", false, 1, 2, &logits, &chosen, &weights, NULL);
    add(q, "assign", false, 1, 4, &chosen, &counts, &slot, &refused, &most, NULL);
    add(q, "dispatch", false, 3, 1, &x, &chosen, &slot, &sent, NULL);
    add(q, "spread", false, 3, 1, &weights, &chosen, &slot, &w, NULL);
    add(q, "grouped", false, 3, 1, &sent, &wg, &counts, &g, NULL);
    add(q, "grouped", false, 3, 1, &sent, &wu, &counts, &u, NULL);
    add(q, "silu_mul", false, 2, 1, &g, &u, &a, NULL);
    add(q, "slot_scale", false, 2, 1, &a, &w, &aw, NULL);
    add(q, "grouped", false, 3, 1, &aw, &wd, &counts, &rows, NULL);
    add(q, "combine", false, 3, 1, &rows, &chosen, &slot, &y, NULL);
    add(moves, "dispatch", false, 3, 1, &x, &chosen, &slot, &sent, NULL);
    add(moves, "combine", false, 3, 1, &rows, &chosen, &slot, &y, NULL);

    weft_tensor dy = F(1, TOKENS, EMBED), drows = F(1, 1, 1, ROWS, EMBED),
                daw = F(1, 1, 1, ROWS, FFN), dw = F(1, 1, 1, ROWS), da = F(1, 1, 1, ROWS, FFN),
                dg = F(1, 1, 1, ROWS, FFN), du = F(1, 1, 1, ROWS, FFN),
                dsent = F(1, 1, 1, ROWS, EMBED), dx = F(1, TOKENS, EMBED),
                dweights = F(1, TOKENS, K), dlogits = F(1, TOKENS, EXPERTS),
                dwr = F(EXPERTS, EMBED), dwg = F(EXPERTS, FFN, EMBED), dwu = F(EXPERTS, FFN, EMBED),
                dwd = F(EXPERTS, EMBED, FFN), more = F(1, TOKENS, EMBED);
    add(q, "dispatch", false, 3, 1, &dy, &chosen, &slot, &drows, NULL);
    add(q, "grouped_dx", false, 3, 1, &drows, &wd, &counts, &daw, NULL);
    add(q, "grouped_dw", false, 3, 1, &drows, &aw, &counts, &dwd, NULL);
    add(q, "slot_scale", false, 2, 1, &daw, &w, &da, NULL);
    add(q, "slot_dot", false, 2, 1, &daw, &a, &dw, NULL);
    add(q, "silu_mul_dx", false, 3, 2, &g, &u, &da, &dg, &du, NULL);
    add(q, "grouped_dx", false, 3, 1, &dg, &wg, &counts, &dsent, NULL);
    add(q, "grouped_dx", true, 3, 1, &du, &wu, &counts, &dsent, NULL);
    add(q, "grouped_dw", false, 3, 1, &dg, &sent, &counts, &dwg, NULL);
    add(q, "grouped_dw", false, 3, 1, &du, &sent, &counts, &dwu, NULL);
    add(q, "combine", false, 3, 1, &dsent, &chosen, &slot, &dx, NULL);
    add(q, "collect", false, 3, 1, &dw, &chosen, &slot, &dweights, NULL);
    add(q, "route_dx", false, 3, 1, &logits, &chosen, &dweights, &dlogits, NULL);
    add(q, "linear_dx", false, 2, 1, &dlogits, &wr, &more, NULL);
    add(q, "add", false, 2, 1, &dx, &more, &dx, NULL);
    add(q, "linear_dw", false, 2, 1, &dlogits, &x, &dwr, NULL);
}

static double copy_seconds(char *a, const char *b, size_t n)
{
    const double begin = now();
#pragma omp parallel for num_threads(threads)
    for (int part = 0; part < 64; part++)
        memcpy(a + (size_t)part * (n / 64), b + (size_t)part * (n / 64), n / 64);
    return now() - begin;
}

/* Each token is read and its rows are written; and back. */
static void against_copy(sequence *moves)
{
    static double ratio[MOST_PAIRS];
    const size_t bytes = (size_t)2 * (1 + K) * TOKENS * EMBED * weft_dtype_size(dtype),
                 n = bytes / 2;
    char *a = memory(n), *b = memory(n);
    run(moves), copy_seconds(a, b, n);
    for (int i = 0; i < pairs; i++) {
        const double copied = copy_seconds(a, b, n);
        ratio[i] = copied / run(moves);
    }
    printf("%-46s %34.2f of a copy's rate\n", "dispatch and combine", median(ratio, pairs));
    weft_free_aligned(a);
    weft_free_aligned(b);
}

int main(int argc, char **argv)
{
    static sequence of_experts, of_dense, moves;
    threads = argc > 1 ? atoi(argv[1]) : omp_get_max_threads();
    pairs = argc > 2 ? atoi(argv[2]) : pairs;
    dtype = argc > 3 && strcmp(argv[3], "bf16") == 0 ? WEFT_BF16 : WEFT_F32;
    if (threads < 1 || pairs < 1 || pairs > MOST_PAIRS || argc > 4 ||
        (argc > 3 && strcmp(argv[3], weft_dtype_name(dtype)) != 0)) {
        fprintf(stderr, "usage: experts [threads] [pairs] [f32|bf16]\n");
        return 2;
    }
    queue = (weft_queue){.threads = threads,
                         .products = cpu_has_bf16() ? CPU_PRODUCTS_BF16 : CPU_PRODUCTS_F32};
    for (int64_t rows = 64; rows <= 512; rows *= 2)
        products(rows);
    dense(&of_dense);
    experts(&of_experts, &moves);
    compare("a block of experts / a dense block", &of_experts, &of_dense);
    against_copy(&moves);
    return 0;
}
