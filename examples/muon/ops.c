/* SPDX-License-Identifier: Apache-2.0 */
/* What Muon computes: plain kernels, in f64. */
#include "muon.h"

#include <math.h>

/* Newton and Schulz's iteration with Jordan's coefficients: singular values go to about 1, fast. */
enum { ITERATIONS = 5 };
static const double A = 3.4445, B = -4.7750, C = 2.0315;

/* Writes element i of result 0, or adds to it. */
static void put(const weft_call *call, int64_t i, double x)
{
    const weft_tensor *out = &call->outs[0];
    weft_tensor_set(out, i, call->accumulate ? weft_tensor_get(out, i) + x : x);
}

/* step -> rate: up to lr in `warmup` steps, then down in a line to the last of `total` steps. */
static weft_status rate_plain(const weft_call *call, weft_error *err)
{
    double t = weft_tensor_get(&call->ins[0], 0), lr = weft_call_real(call, "lr");
    double warmup = (double)weft_call_int(call, "warmup"),
           total = (double)weft_call_int(call, "total");
    double part = t <= warmup ? t / warmup : t > total ? 0 : (total + 1 - t) / (total - warmup);
    put(call, 0, lr * part);
    (void)err;
    return WEFT_OK;
}

/* gradient, momentum, clip factor -> where to go (Nesterov), next momentum */
static weft_status momentum_plain(const weft_call *call, weft_error *err)
{
    const weft_tensor *in = call->ins;
    double keep = weft_call_real(call, "momentum"), clip = weft_tensor_get(&in[2], 0);
    int64_t n = weft_tensor_count(&in[0]);
    for (int64_t i = 0; i < n; i++) {
        double g = clip * weft_tensor_get(&in[0], i);
        double m = keep * weft_tensor_get(&in[1], i) + g;
        put(call, i, g + keep * m);
        weft_tensor_set(&call->outs[1], i, m);
    }
    (void)err;
    return WEFT_OK;
}

/* ---- orthogonal ---- */

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* out = rows of x by themselves: x x^T, m x m. */
static void square(const double *x, int64_t m, int64_t n, double *out)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j <= i; j++)
            out[i * m + j] = out[j * m + i] = dot(x + i * n, x + j * n, n);
}

/* x [m n], m <= n -> A x + (B s + C s^2) x with s = x x^T. room: m n + 2 m m numbers. */
static void iterate(double *x, int64_t m, int64_t n, double *room)
{
    double *next = room, *s = room + m * n, *p = s + m * m;
    square(x, m, n, s);
    square(s, m, m, p); /* s is its own transpose */
    for (int64_t i = 0; i < m * m; i++)
        p[i] = B * s[i] + C * p[i];
    for (int64_t i = 0; i < m; i++) {
        for (int64_t k = 0; k < n; k++)
            next[i * n + k] = A * x[i * n + k];
        for (int64_t j = 0; j < m; j++)
            for (int64_t k = 0; k < n; k++)
                next[i * n + k] += p[i * m + j] * x[j * n + k];
    }
    for (int64_t i = 0; i < m * n; i++)
        x[i] = next[i];
}

/* Matrix number `at` of a tensor [... rows cols]; the shorter side becomes the rows of x. */
static void orthogonalize(const weft_call *call, int64_t at, int64_t rows, int64_t cols, double *x)
{
    int64_t m = rows < cols ? rows : cols, n = rows < cols ? cols : rows, from = at * rows * cols;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++)
            x[rows < cols ? r * n + c : c * n + r] =
                weft_tensor_get(&call->ins[0], from + r * cols + c);
    double size = sqrt(dot(x, x, m * n)) + 1e-7;
    for (int64_t i = 0; i < m * n; i++)
        x[i] /= size;
    for (int i = 0; i < ITERATIONS; i++)
        iterate(x, m, n, x + m * n);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++)
            put(call, from + r * cols + c, x[rows < cols ? r * n + c : c * n + r]);
}

/* The last two dims, and how many such matrices there are. */
static int64_t matrices(const weft_call *call, int64_t *rows, int64_t *cols)
{
    const weft_tensor *t = &call->ins[0];
    *rows = t->size[t->n_dims - 2];
    *cols = t->size[t->n_dims - 1];
    return *rows > 0 && *cols > 0 ? weft_tensor_count(t) / (*rows * *cols) : 0;
}

static weft_status orthogonal_plain(const weft_call *call, weft_error *err)
{
    int64_t rows, cols, n = matrices(call, &rows, &cols), short_side = rows < cols ? rows : cols;
    double *room =
        weft_alloc((size_t)(2 * rows * cols + 2 * short_side * short_side + 1) * sizeof *room);
    if (!room)
        return weft_fail_memory(err);
    for (int64_t i = 0; i < n; i++)
        orthogonalize(call, i, rows, cols, room);
    weft_free(room);
    return WEFT_OK;
}

static double orthogonal_flops(const weft_call *call)
{
    int64_t rows, cols, n = matrices(call, &rows, &cols);
    double a = (double)(rows < cols ? rows : cols), b = (double)(rows < cols ? cols : rows);
    return (double)n * ITERATIONS * (4 * a * a * b + 2 * a * a * a);
}

/* A matrix must be whole; of several (experts, say) each rank may have some. */
static weft_status orthogonal_rule(const weft_node *node, weft_text *rule, weft_error *err)
{
    for (int result = 0; result < 2; result++) {
        weft_text_add(rule, result ? " -> " : "");
        for (int d = 0; d + 2 < node->ins[0]->n_dims; d++)
            weft_text_print(rule, "d%d ", d);
        weft_text_add(rule, "[r] [c]");
    }
    return rule->out_of_memory ? weft_fail_memory(err) : WEFT_OK;
}

/* parameter, direction, rate -> parameter. A direction's elements have a mean square of
 * 1 / max(rows, cols): scaled so that a step is as large as one of AdamW's. */
static weft_status update_plain(const weft_call *call, weft_error *err)
{
    const weft_tensor *p = &call->ins[0];
    int64_t rows = p->whole[p->n_dims - 2], cols = p->whole[p->n_dims - 1],
            n = weft_tensor_count(p);
    double lr = weft_tensor_get(&call->ins[2], 0),
           by = 0.2 * sqrt((double)(rows > cols ? rows : cols)),
           keep = 1 - lr * weft_call_real(call, "weight_decay");
    for (int64_t i = 0; i < n; i++)
        put(call, i, keep * weft_tensor_get(p, i) - lr * by * weft_tensor_get(&call->ins[1], i));
    (void)err;
    return WEFT_OK;
}

static const weft_op rate_op = {
    .name = "muon_rate",
    .summary = "learning rate of a step, counted from 1",
    .rule = "->",
    .attrs = "lr, warmup, total",
    .flags = WEFT_OP_STAT,
    .plain = rate_plain,
};

static const weft_op momentum_op = {
    .name = "muon_momentum",
    .summary = "gradient, momentum, clip factor -> direction, next momentum",
    .rule = "*, *, -> *, *",
    .attrs = "momentum",
    .flags = WEFT_OP_INPLACE,
    .plain = momentum_plain,
};

static const weft_op orthogonal_op = {
    .name = "muon_orthogonal",
    .summary = "matrices with all singular values brought to about 1",
    .make_rule = orthogonal_rule,
    .plain = orthogonal_plain,
    .flops = orthogonal_flops,
};

static const weft_op update_op = {
    .name = "muon_update",
    .summary = "parameter, direction, learning rate -> next parameter",
    .rule = "*, *, -> *",
    .attrs = "weight_decay",
    .flags = WEFT_OP_INPLACE,
    .plain = update_plain,
};

const weft_op *const muon_ops[] = {&rate_op, &momentum_op, &orthogonal_op, &update_op, NULL};
