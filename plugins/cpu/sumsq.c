/* SPDX-License-Identifier: Apache-2.0 */
/* The sum of squares of f32: pieces of fixed size in f64, added in order, so that the result
 * depends neither on how many threads nor on the width of vectors. */
#include "cpu.h"

enum {
    LANES = 16,     /* independent f64 sums */
    SQUARES = 8192, /* elements of one partial sum */
    FEW = 4,        /* pieces that are not worth waking threads for */
};

static int64_t pieces(int64_t n)
{
    return (n + SQUARES - 1) / SQUARES;
}

bool cpu_sumsq_accepts(const weft_call *call)
{
    return call->ins[0].dtype == WEFT_F32;
}

size_t cpu_sumsq_workspace(const weft_call *call)
{
    return (size_t)pieces(weft_tensor_count(&call->ins[0])) * sizeof(double);
}

static double sumsq_piece(const float *x, int64_t n)
{
    double lane[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES)
#pragma omp simd
        for (int j = 0; j < LANES; j++)
            lane[j] += (double)x[i + j] * (double)x[i + j];
    for (int j = 0; i < n; i++, j++)
        lane[j] += (double)x[i] * (double)x[i];
    double sum = 0;
    for (int j = 0; j < LANES; j++)
        sum += lane[j];
    return sum;
}

weft_status cpu_sumsq_launch(const weft_call *call, weft_error *err)
{
    const weft_tensor *out = &call->outs[0];
    const float *x = call->ins[0].data;
    double *partial = call->workspace, sum = 0;
    weft_status status = cpu_check_workspace(call, cpu_sumsq_workspace(call), err);
    if (status != WEFT_OK)
        return status;
    int64_t n = weft_tensor_count(&call->ins[0]), n_pieces = pieces(n);
    int threads = n_pieces > FEW && call->threads > 1 ? call->threads : 1;
#pragma omp parallel for schedule(static) num_threads(threads)
    for (int64_t i = 0; i < n_pieces; i++)
        partial[i] =
            sumsq_piece(x + i * SQUARES, n - i * SQUARES < SQUARES ? n - i * SQUARES : SQUARES);
    for (int64_t i = 0; i < n_pieces; i++)
        sum += partial[i];
    weft_tensor_set(out, 0, call->accumulate ? weft_tensor_get(out, 0) + sum : sum);
    return WEFT_OK;
}
