/* SPDX-License-Identifier: Apache-2.0 */
/* Cross-entropy in four steps (max_v, sumexp, pick, nll) and their gradients, one row of logits at
 * a time. */

enum { MAX_LANES = 64 };

/* The maximum; NaN if there is one. */
static float row_max(const weft_tensor *logits, int64_t row, int64_t width)
{
    float lane[MAX_LANES], buffer[CPU_BLOCK], most = -INFINITY;
    for (int i = 0; i < MAX_LANES; i++)
        lane[i] = -INFINITY;
    for (int64_t v = 0; v < width; v += CPU_BLOCK) {
        int64_t n = least(CPU_BLOCK, width - v), i = 0;
        const float *x = load(logits, row * width + v, n, buffer);
        for (; i + MAX_LANES <= n; i += MAX_LANES) {
#pragma omp simd
            for (int j = 0; j < MAX_LANES; j++)
                lane[j] = x[i + j] > lane[j] || x[i + j] != x[i + j] ? x[i + j] : lane[j];
        }
        for (; i < n; i++)
            most = x[i] > most || x[i] != x[i] ? x[i] : most;
    }
    for (int i = 0; i < MAX_LANES; i++)
        most = lane[i] > most || lane[i] != lane[i] ? lane[i] : most;
    return most;
}

static weft_status launch_max_v(const weft_call *call, weft_error *err)
{
    int64_t rows = rows_of(&call->ins[0]), width = width_of(&call->ins[0]);
    float *out = call->outs[0].data;
    (void)err;
#pragma omp parallel for schedule(static) num_threads(team(call, rows *width))
    for (int64_t row = 0; row < rows; row++)
        out[row] = row_max(&call->ins[0], row, width);
    return WEFT_OK;
}

/* What to take from logits before their exponentials: where all are -inf these are 0, too. */
static inline float origin_of(float max)
{
    return max == -INFINITY ? 0.0f : max;
}

static float row_sumexp(const weft_tensor *logits, int64_t row, int64_t width, float max)
{
    float buffer[CPU_BLOCK], origin = origin_of(max);
    double sum = 0.0;
    for (int64_t v = 0; v < width; v += CPU_BLOCK) {
        int64_t n = least(CPU_BLOCK, width - v);
        const float *x = load(logits, row * width + v, n, buffer);
        float part = 0.0f;
#pragma omp simd reduction(+ : part)
        for (int64_t i = 0; i < n; i++)
            part += exp_small1(x[i] - origin);
        sum += (double)part;
    }
    return (float)sum;
}

static weft_status launch_sumexp(const weft_call *call, weft_error *err)
{
    int64_t rows = rows_of(&call->ins[0]), width = width_of(&call->ins[0]);
    const float *max = call->ins[1].data;
    float *out = call->outs[0].data;
    (void)err;
#pragma omp parallel for schedule(static) num_threads(team(call, rows *width))
    for (int64_t row = 0; row < rows; row++)
        out[row] = row_sumexp(&call->ins[0], row, width, max[row]);
    return WEFT_OK;
}

static void sumexp_dx_row(const weft_call *call, int64_t row, int64_t width, float max, float dy)
{
    float buffer[CPU_BLOCK], y[CPU_BLOCK], origin = origin_of(max);
    for (int64_t v = 0; v < width; v += CPU_BLOCK) {
        int64_t n = least(CPU_BLOCK, width - v);
        const float *x = load(&call->ins[0], row * width + v, n, buffer);
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            y[i] = dy * exp_small1(x[i] - origin);
        store(&call->outs[0], row * width + v, n, y, call->accumulate);
    }
}

static weft_status launch_sumexp_dx(const weft_call *call, weft_error *err)
{
    int64_t rows = rows_of(&call->ins[0]), width = width_of(&call->ins[0]);
    const float *max = call->ins[1].data, *dy = call->ins[2].data;
    (void)err;
#pragma omp parallel for schedule(static) num_threads(team(call, rows *width))
    for (int64_t row = 0; row < rows; row++)
        sumexp_dx_row(call, row, width, max[row], dy[row]);
    return WEFT_OK;
}

/* The place of row's label in this shard of the vocabulary, or -1. */
static int64_t label_place(int32_t label, const weft_tensor *logits)
{
    int64_t v = (int64_t)label - logits->lo[logits->n_dims - 1];
    return label >= 0 && v >= 0 && v < width_of(logits) ? v : -1;
}

static weft_status launch_pick(const weft_call *call, weft_error *err)
{
    const weft_tensor *logits = &call->ins[0];
    const int32_t *labels = ints(&call->ins[1]);
    int64_t rows = rows_of(logits), width = width_of(logits);
    float *out = call->outs[0].data;
    (void)err;
    for (int64_t row = 0; row < rows; row++) {
        int64_t v = label_place(labels[row], logits);
        out[row] = v < 0 ? 0.0f : get1(logits, row * width + v);
    }
    return WEFT_OK;
}

static weft_status launch_pick_dx(const weft_call *call, weft_error *err)
{
    const weft_tensor *out = &call->outs[0];
    const int32_t *labels = ints(&call->ins[0]);
    int64_t rows = rows_of(out), width = width_of(out),
            bytes = width * (int64_t)weft_dtype_size(out->dtype);
    const float *dy = call->ins[1].data;
    (void)err;
    if (rows * width == 0)
        return WEFT_OK;
#pragma omp parallel for schedule(static)                                                          \
    num_threads(call->accumulate ? 1 : team(call, rows *width))
    for (int64_t row = 0; row < rows; row++) {
        int64_t v = label_place(labels[row], out);
        if (!call->accumulate)
            memset((char *)out->data + row * bytes, 0, (size_t)bytes);
        if (v >= 0)
            store(out, row * width + v, 1, &dy[row], call->accumulate);
    }
    return WEFT_OK;
}

/* ---- one number per token: max, sumexp, pick, labels -> log(sumexp) + max - pick ---- */

static weft_status launch_nll(const weft_call *call, weft_error *err)
{
    int64_t n = weft_tensor_count(&call->outs[0]);
    const float *max = call->ins[0].data, *sumexp = call->ins[1].data, *pick = call->ins[2].data;
    const int32_t *labels = ints(&call->ins[3]);
    float *out = call->outs[0].data;
    (void)err;
    for (int64_t i = 0; i < n; i++)
        out[i] = labels[i] >= 0 ? (float)(log((double)sumexp[i]) + (double)max[i] - (double)pick[i])
                                : 0.0f;
    return WEFT_OK;
}

static weft_status launch_nll_de(const weft_call *call, weft_error *err)
{
    int64_t n = weft_tensor_count(&call->outs[0]);
    const float *sumexp = call->ins[0].data, *dy = call->ins[2].data;
    const int32_t *labels = ints(&call->ins[1]);
    float *out = call->outs[0].data;
    (void)err;
    for (int64_t i = 0; i < n; i++)
        out[i] = labels[i] >= 0 ? dy[i] / sumexp[i] : 0.0f;
    return WEFT_OK;
}

static weft_status launch_nll_dt(const weft_call *call, weft_error *err)
{
    int64_t n = weft_tensor_count(&call->outs[0]);
    const int32_t *labels = ints(&call->ins[0]);
    const float *dy = call->ins[1].data;
    float *out = call->outs[0].data;
    (void)err;
    for (int64_t i = 0; i < n; i++)
        out[i] = labels[i] >= 0 ? -dy[i] : 0.0f;
    return WEFT_OK;
}
