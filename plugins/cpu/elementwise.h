/* SPDX-License-Identifier: Apache-2.0 */
/* add, add_bias, scale, cast, accumulate, accumulate_max, broadcast, silu_mul, gelu and their
 * gradients: one pass over the elements. */

typedef void block_kernel(const weft_call *call, int64_t at, int64_t n);

/* Runs the kernel for every block [at, at + n) of result 0. */
static weft_status each_block(const weft_call *call, block_kernel *kernel)
{
    int64_t count = weft_tensor_count(&call->outs[0]), blocks = blocks_of(count);
#pragma omp parallel for schedule(static) num_threads(team(call, count))
    for (int64_t i = 0; i < blocks; i++)
        kernel(call, i * CPU_BLOCK, least(CPU_BLOCK, count - i * CPU_BLOCK));
    return WEFT_OK;
}

static void add_block(const weft_call *call, int64_t at, int64_t n)
{
    float sum[CPU_BLOCK], buffer[CPU_BLOCK];
    memcpy(sum, load(&call->ins[0], at, n, buffer), (size_t)n * sizeof *sum);
    for (int k = 1; k < call->n_ins; k++) {
        const float *x = load(&call->ins[k], at, n, buffer);
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            sum[i] += x[i];
    }
    store(&call->outs[0], at, n, sum, call->accumulate);
}

static weft_status launch_add(const weft_call *call, weft_error *err)
{
    (void)err;
    return each_block(call, add_block);
}

static void add_bias_row(const weft_call *call, int64_t row, int64_t width)
{
    float x[CPU_BLOCK], bias[CPU_BLOCK], y[CPU_BLOCK];
    for (int64_t f = 0; f < width; f += CPU_BLOCK) {
        int64_t n = least(CPU_BLOCK, width - f);
        const float *px = load(&call->ins[0], row * width + f, n, x),
                    *pb = load(&call->ins[1], f, n, bias);
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[i] = px[i] + pb[i];
        store(&call->outs[0], row * width + f, n, y, call->accumulate);
    }
}

static weft_status launch_add_bias(const weft_call *call, weft_error *err)
{
    int64_t rows = rows_of(&call->ins[0]), width = width_of(&call->ins[0]);
    (void)err;
#pragma omp parallel for schedule(static) num_threads(team(call, rows *width))
    for (int64_t row = 0; row < rows; row++)
        add_bias_row(call, row, width);
    return WEFT_OK;
}

static void scale_block(const weft_call *call, int64_t at, int64_t n)
{
    float x[CPU_BLOCK], y[CPU_BLOCK], by = get1(&call->ins[1], 0);
    const float *px = load(&call->ins[0], at, n, x);
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = px[i] * by;
    store(&call->outs[0], at, n, y, call->accumulate);
}

static weft_status launch_scale(const weft_call *call, weft_error *err)
{
    (void)err;
    return each_block(call, scale_block);
}

static void copy_block(const weft_call *call, int64_t at, int64_t n)
{
    float x[CPU_BLOCK];
    store(&call->outs[0], at, n, load(&call->ins[0], at, n, x), call->accumulate);
}

static weft_status launch_cast(const weft_call *call, weft_error *err)
{
    (void)err;
    return each_block(call, copy_block);
}

static weft_status launch_accumulate(const weft_call *call, weft_error *err)
{
    return launch_cast(call, err);
}

/* A NaN stays, on whichever side it is. */
static void accumulate_max_block(const weft_call *call, int64_t at, int64_t n)
{
    float x[CPU_BLOCK], was[CPU_BLOCK], y[CPU_BLOCK];
    const float *px = load(&call->ins[0], at, n, x),
                *pw = call->accumulate ? load(&call->outs[0], at, n, was) : px;
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = px[i] > pw[i] || px[i] != px[i] ? px[i] : pw[i];
    store(&call->outs[0], at, n, y, false);
}

static weft_status launch_accumulate_max(const weft_call *call, weft_error *err)
{
    (void)err;
    return each_block(call, accumulate_max_block);
}

static void fill_block(const weft_call *call, int64_t at, int64_t n)
{
    float x[CPU_BLOCK], by = get1(&call->ins[0], 0);
    for (int64_t i = 0; i < n; i++)
        x[i] = by;
    store(&call->outs[0], at, n, x, call->accumulate);
}

static weft_status launch_broadcast(const weft_call *call, weft_error *err)
{
    (void)err;
    return each_block(call, fill_block);
}

/* ---- silu(gate) * up ---- */

static CPU_ONCE void silu_mul_block(const weft_call *call, int64_t at, int64_t n)
{
    float gate[CPU_BLOCK], up[CPU_BLOCK], y[CPU_BLOCK];
    const float *g = load(&call->ins[0], at, n, gate), *u = load(&call->ins[1], at, n, up);
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = g[i] * sigmoid1(g[i]) * u[i];
    store(&call->outs[0], at, n, y, call->accumulate);
}

static weft_status launch_silu_mul(const weft_call *call, weft_error *err)
{
    (void)err;
    return each_block(call, silu_mul_block);
}

static void silu_mul_dx_block(const weft_call *call, int64_t at, int64_t n)
{
    float gate[CPU_BLOCK], up[CPU_BLOCK], dy[CPU_BLOCK], dgate[CPU_BLOCK], dup[CPU_BLOCK];
    const float *g = load(&call->ins[0], at, n, gate), *u = load(&call->ins[1], at, n, up),
                *d = load(&call->ins[2], at, n, dy);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float s = sigmoid1(g[i]);
        dgate[i] = d[i] * u[i] * s * (1.0f + g[i] * (1.0f - s));
        dup[i] = d[i] * g[i] * s;
    }
    store(&call->outs[0], at, n, dgate, call->accumulate);
    store(&call->outs[1], at, n, dup, false);
}

static weft_status launch_silu_mul_dx(const weft_call *call, weft_error *err)
{
    (void)err;
    return each_block(call, silu_mul_dx_block);
}

/* ---- gelu: x sigmoid(2 u), u = sqrt(2 / pi) (x + 0.044715 x^3); or exactly x Phi(x) ---- */

#define GELU_ROOT   0.79788456f /* sqrt(2 / pi) */
#define GELU_CUBIC  0.044715f
#define HALF_ROOT   0.70710678f /* sqrt(1 / 2) */
#define NORMAL_ZERO 0.39894228f /* 1 / sqrt(2 pi) */

static void gelu_block(const weft_call *call, int64_t at, int64_t n)
{
    float in[CPU_BLOCK], y[CPU_BLOCK];
    const float *x = load(&call->ins[0], at, n, in);
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = x[i] * sigmoid1(2.0f * GELU_ROOT * x[i] * (1.0f + GELU_CUBIC * x[i] * x[i]));
    store(&call->outs[0], at, n, y, call->accumulate);
}

static void gelu_exact_block(const weft_call *call, int64_t at, int64_t n)
{
    float in[CPU_BLOCK], y[CPU_BLOCK];
    const float *x = load(&call->ins[0], at, n, in);
    for (int64_t i = 0; i < n; i++)
        y[i] = 0.5f * x[i] * erfcf(-x[i] * HALF_ROOT);
    store(&call->outs[0], at, n, y, call->accumulate);
}

static weft_status launch_gelu(const weft_call *call, weft_error *err)
{
    (void)err;
    return each_block(call, weft_call_int(call, "exact") ? gelu_exact_block : gelu_block);
}

static void gelu_dx_block(const weft_call *call, int64_t at, int64_t n)
{
    float in[CPU_BLOCK], dy[CPU_BLOCK], dx[CPU_BLOCK];
    const float *x = load(&call->ins[0], at, n, in), *d = load(&call->ins[1], at, n, dy);
#pragma omp simd
    for (int64_t i = 0; i < n; i++) {
        float square = x[i] * x[i],
              s = sigmoid1(2.0f * GELU_ROOT * x[i] * (1.0f + GELU_CUBIC * square));
        dx[i] = d[i] * (s + 2.0f * x[i] * s * (1.0f - s) * GELU_ROOT *
                                (1.0f + 3.0f * GELU_CUBIC * square));
    }
    store(&call->outs[0], at, n, dx, call->accumulate);
}

static void gelu_exact_dx_block(const weft_call *call, int64_t at, int64_t n)
{
    float in[CPU_BLOCK], dy[CPU_BLOCK], dx[CPU_BLOCK];
    const float *x = load(&call->ins[0], at, n, in), *d = load(&call->ins[1], at, n, dy);
    for (int64_t i = 0; i < n; i++)
        dx[i] = d[i] *
                (0.5f * erfcf(-x[i] * HALF_ROOT) + x[i] * exp1(-0.5f * x[i] * x[i]) * NORMAL_ZERO);
    store(&call->outs[0], at, n, dx, call->accumulate);
}

static weft_status launch_gelu_dx(const weft_call *call, weft_error *err)
{
    (void)err;
    return each_block(call, weft_call_int(call, "exact") ? gelu_exact_dx_block : gelu_dx_block);
}
