/* SPDX-License-Identifier: Apache-2.0 */
/* What Muon computes. Kernels here are the reference: any float dtype, arithmetic in f64. */
#include "muon.h"

#include <string.h>

/* Writes element i of result 0, or adds to it. */
static void put(const weft_call *call, int64_t i, double x)
{
    const weft_tensor *out = &call->outs[0];
    weft_tensor_set(out, i, call->accumulate ? weft_tensor_get(out, i) + x : x);
}

/* gradient, momentum, clip factor -> direction, next momentum */
static weft_status momentum_plain(const weft_call *call, weft_error *err)
{
    const weft_tensor *in = call->ins;
    double keep = weft_call_real(call, "momentum"), clip = weft_tensor_get(&in[2], 0);
    bool nesterov = weft_call_int(call, "nesterov") != 0;
    int64_t n = weft_tensor_count(&in[0]);
    for (int64_t i = 0; i < n; i++) {
        double g = clip * weft_tensor_get(&in[0], i);
        double m = keep * weft_tensor_get(&in[1], i) + (1 - keep) * g;
        put(call, i, nesterov ? keep * m + (1 - keep) * g : m);
        weft_tensor_set(&call->outs[1], i, m);
    }
    (void)err;
    return WEFT_OK;
}

/* ---- stacks ---- */

/* Matrices into slots; zeros where there is none. */
static weft_status stack_plain(const weft_call *call, weft_error *err)
{
    muon_slots s = {weft_call_int(call, "slots"), weft_call_int(call, "first"), call->n_ins};
    int64_t n = weft_tensor_count(&call->ins[0]);
    for (int64_t slot = 0; slot < s.slots; slot++) {
        int64_t matrix = muon_matrix(&s, slot);
        for (int64_t i = 0; i < n; i++)
            put(call, slot * n + i,
                matrix < s.matrices ? weft_tensor_get(&call->ins[matrix], i) : 0);
    }
    (void)err;
    return WEFT_OK;
}

static weft_status unstack_plain(const weft_call *call, weft_error *err)
{
    muon_slots s = {call->ins[0].size[0], weft_call_int(call, "first"), call->n_outs};
    int64_t n = weft_tensor_count(&call->outs[0]);
    for (int r = 0; r < call->n_outs; r++)
        for (int64_t i = 0; i < n; i++) {
            double x = weft_tensor_get(&call->ins[0], muon_slot(&s, r) * n + i);
            if (r == 0)
                put(call, i, x);
            else
                weft_tensor_set(&call->outs[r], i, x);
        }
    (void)err;
    return WEFT_OK;
}

/* Dims that one matrix has, or several that are a parameter; element by element, so that they may
 * be cut anywhere. */
static void add_matrix(weft_text *rule, int n_dims)
{
    for (int d = 0; d < n_dims; d++)
        weft_text_print(rule, " *d%d", d);
}

static weft_status stack_rule(const weft_node *node, weft_text *rule, weft_error *err)
{
    (void)err;
    add_matrix(rule, node->ins[0]->n_dims);
    weft_text_add(rule, " ... -> *n");
    add_matrix(rule, node->ins[0]->n_dims);
    return WEFT_OK;
}

static weft_status unstack_rule(const weft_node *node, weft_text *rule, weft_error *err)
{
    (void)err;
    weft_text_add(rule, "[*n]");
    add_matrix(rule, node->ins[0]->n_dims - 1);
    weft_text_add(rule, " ->");
    add_matrix(rule, node->ins[0]->n_dims - 1);
    weft_text_add(rule, " ...");
    return WEFT_OK;
}

static weft_status stack_infer(weft_graph *graph, weft_node *node, weft_error *err)
{
    const weft_value *x = node->ins[0];
    weft_value *out = node->outs[0];
    (void)graph;
    if (x->n_dims == WEFT_MAX_DIMS || weft_node_int(node, "slots") < node->n_ins)
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                         "muon_stack of %s: %d matrices of %d dims do not fit into %lld slots",
                         x->name, node->n_ins, x->n_dims, (long long)weft_node_int(node, "slots"));
    out->n_dims = x->n_dims + 1;
    memcpy(out->dims + 1, x->dims, (size_t)x->n_dims * sizeof *x->dims);
    out->dims[0] = (weft_dim){"matrices", weft_node_int(node, "slots"), 1};
    if (strcmp(weft_node_text(node, "dtype"), "bf16") == 0 && x->dtype == WEFT_F32)
        out->dtype = WEFT_BF16;
    return WEFT_OK;
}

static weft_status unstack_infer(weft_graph *graph, weft_node *node, weft_error *err)
{
    const weft_value *x = node->ins[0];
    (void)graph;
    (void)err;
    for (int r = 0; r < node->n_outs; r++) {
        node->outs[r]->n_dims = x->n_dims - 1;
        memcpy(node->outs[r]->dims, x->dims + 1, (size_t)(x->n_dims - 1) * sizeof *x->dims);
    }
    return WEFT_OK;
}

/* ---- Newton and Schulz ---- */

static double dot(const double *a, const double *b, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* out = rows of x by themselves: x x', m x m. */
static void square(const double *x, int64_t m, int64_t n, double *out)
{
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j <= i; j++)
            out[i * m + j] = out[j * m + i] = dot(x + i * n, x + j * n, n);
}

/* x [m n], m <= n -> a x + (b s + c s s) x with s = x x'. room: m n + 2 m m numbers. */
static void iterate(const weft_call *call, double *x, int64_t m, int64_t n, double *room)
{
    const double a = weft_call_real(call, "a"), b = weft_call_real(call, "b"),
                 c = weft_call_real(call, "c");
    double *next = room, *s = room + m * n, *p = s + m * m;
    square(x, m, n, s);
    square(s, m, m, p); /* s is its own transpose */
    for (int64_t i = 0; i < m * m; i++)
        p[i] = b * s[i] + c * p[i];
    for (int64_t i = 0; i < m; i++) {
        for (int64_t k = 0; k < n; k++)
            next[i * n + k] = a * x[i * n + k];
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
    double size = fmax(sqrt(dot(x, x, m * n)), weft_call_real(call, "eps"));
    for (int64_t i = 0; i < m * n; i++)
        x[i] /= size;
    for (int64_t i = weft_call_int(call, "steps"); i > 0; i--)
        iterate(call, x, m, n, x + m * n);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < cols; c++)
            put(call, from + r * cols + c, x[rows < cols ? r * n + c : c * n + r]);
}

/* The last two dims, and how many such matrices each slot has. */
static int64_t matrices_of(const weft_call *call, int64_t *rows, int64_t *cols)
{
    const weft_tensor *t = &call->ins[0];
    int64_t n = 1;
    *rows = t->size[t->n_dims - 2];
    *cols = t->size[t->n_dims - 1];
    for (int d = 1; d < t->n_dims - 2; d++)
        n *= t->size[d];
    return n;
}

static muon_slots slots_of(const weft_call *call)
{
    return (muon_slots){call->ins[0].whole[0], weft_call_int(call, "first"),
                        weft_call_int(call, "matrices")};
}

static weft_status newton_schulz_plain(const weft_call *call, weft_error *err)
{
    int64_t rows, cols, n = matrices_of(call, &rows, &cols), least = rows < cols ? rows : cols;
    muon_slots s = slots_of(call);
    double *room = weft_alloc((size_t)(2 * rows * cols + 2 * least * least + 1) * sizeof *room);
    if (!room)
        return weft_fail_memory(err);
    for (int64_t i = 0; i < n * call->ins[0].size[0]; i++) {
        if (muon_matrix(&s, call->ins[0].lo[0] + i / n) < s.matrices) {
            orthogonalize(call, i, rows, cols, room);
            continue;
        }
        for (int64_t k = 0; k < rows * cols; k++)
            put(call, i * rows * cols + k, 0);
    }
    weft_free(room);
    return WEFT_OK;
}

static double newton_schulz_flops(const weft_call *call)
{
    int64_t rows, cols, n = matrices_of(call, &rows, &cols);
    muon_slots s = slots_of(call);
    double a = (double)(rows < cols ? rows : cols), b = (double)(rows < cols ? cols : rows);
    int64_t full = 0;
    for (int64_t i = 0; i < call->ins[0].size[0]; i++)
        full += muon_matrix(&s, call->ins[0].lo[0] + i) < s.matrices;
    return (double)(n * full * weft_call_int(call, "steps")) * (4 * a * a * b + 2 * a * a * a);
}

/* A matrix must be whole; of several each rank may have some. */
static weft_status newton_schulz_rule(const weft_node *node, weft_text *rule, weft_error *err)
{
    (void)err;
    for (int result = 0; result < 2; result++) {
        weft_text_add(rule, result ? " -> " : "");
        for (int d = 0; d + 2 < node->ins[0]->n_dims; d++)
            weft_text_print(rule, "d%d ", d);
        weft_text_add(rule, "[r] [c]");
    }
    return WEFT_OK;
}

/* ---- update ---- */

/* parameter, direction, rate -> parameter. A direction's elements have a mean square of
 * 1 / max(rows, cols). */
static weft_status update_plain(const weft_call *call, weft_error *err)
{
    const weft_tensor *p = &call->ins[0];
    double by = muon_step(call), lr = weft_tensor_get(&call->ins[2], 0),
           keep = 1 - lr * weft_call_real(call, "weight_decay");
    int64_t n = weft_tensor_count(p);
    for (int64_t i = 0; i < n; i++)
        put(call, i, keep * weft_tensor_get(p, i) - lr * by * weft_tensor_get(&call->ins[1], i));
    (void)err;
    return WEFT_OK;
}

static const weft_op momentum_op = {
    .name = "muon_momentum",
    .summary = "gradient, momentum, clip factor -> direction, next momentum",
    .rule = "*, *, -> *, *",
    .attrs = "momentum, nesterov",
    .flags = WEFT_OP_INPLACE,
    .plain = momentum_plain,
};

static const weft_op stack_op = {
    .name = "muon_stack",
    .summary = "matrices put into slots of one tensor",
    .make_rule = stack_rule,
    .attrs = "slots, first, dtype",
    .infer = stack_infer,
    .plain = stack_plain,
};

static const weft_op unstack_op = {
    .name = "muon_unstack",
    .summary = "matrices taken out of slots",
    .make_rule = unstack_rule,
    .attrs = "first",
    .infer = unstack_infer,
    .plain = unstack_plain,
};

static const weft_op newton_schulz_op = {
    .name = "newton_schulz",
    .summary = "matrices with all singular values brought to about 1",
    .make_rule = newton_schulz_rule,
    .attrs = "steps, a, b, c, eps, first, matrices",
    .plain = newton_schulz_plain,
    .flops = newton_schulz_flops,
};

static const weft_op update_op = {
    .name = "muon_update",
    .summary = "parameter, direction, learning rate -> next parameter",
    .rule = "*, *, -> *",
    .attrs = "weight_decay, original",
    .flags = WEFT_OP_INPLACE,
    .plain = update_plain,
};

const weft_op *const muon_ops[] = {&momentum_op,      &stack_op,  &unstack_op,
                                   &newton_schulz_op, &update_op, NULL};
