/* SPDX-License-Identifier: Apache-2.0 */
/* attention_merge: attention over two sets of keys from that over each, row by row. The weights of
 * the two are made in f64: there are as few of them as rows. */

/* weight[0] of the first, weight[1] of the second; gives the log-sum-exp over both. */
static float merge_weights(float a, float b, float weight[2])
{
    double most = a > b ? a : b, l;
    if (isnan(a) || isnan(b)) {
        weight[0] = weight[1] = NAN;
        return NAN;
    }
    if (most == -INFINITY) { /* neither saw a key */
        weight[0] = weight[1] = 0;
        return -INFINITY;
    }
    l = most + log(exp((double)a - most) + exp((double)b - most));
    weight[0] = (float)exp((double)a - l);
    weight[1] = (float)exp((double)b - l);
    return (float)l;
}

static void merge_row(const weft_call *call, int64_t row, int64_t d)
{
    float x[CPU_BLOCK], y[CPU_BLOCK], weight[2];
    const float *a = call->ins[1].data, *b = call->ins[3].data;
    float *lse = call->outs[1].data;
    lse[row] = merge_weights(a[row], b[row], weight);
    for (int64_t e = 0; e < d; e += CPU_BLOCK) {
        int64_t n = least(CPU_BLOCK, d - e), at = row * d + e;
        const float *px = load(&call->ins[0], at, n, x), *py = load(&call->ins[2], at, n, y);
        float out[CPU_BLOCK];
#pragma omp simd
        for (int64_t i = 0; i < n; i++)
            out[i] = weight[0] * px[i] + weight[1] * py[i];
        store(&call->outs[0], at, n, out, false);
    }
}

static weft_status launch_attention_merge(const weft_call *call, weft_error *err)
{
    int64_t rows = weft_tensor_count(&call->outs[1]), count = weft_tensor_count(&call->outs[0]);
    (void)err;
#pragma omp parallel for schedule(static) num_threads(team(call, count))
    for (int64_t row = 0; row < rows; row++)
        merge_row(call, row, count / rows);
    return WEFT_OK;
}
