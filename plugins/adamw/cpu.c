/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels for the device "cpu": f32, vectorised, on as many threads as the call says, with
 * results that do not depend on how many. */
#include "adamw.h"

#include <math.h>

enum {
    UPDATES = 16384, /* elements of one piece of an update */
    FEW = 4,         /* pieces that are not worth waking threads for */
};

static int64_t pieces(int64_t n, int64_t size)
{
    return (n + size - 1) / size;
}

static int64_t piece(int64_t n, int64_t size, int64_t i)
{
    return n - i * size < size ? n - i * size : size;
}

static int team(const weft_call *call, int64_t n_pieces)
{
    return n_pieces > FEW && call->threads > 1 ? call->threads : 1;
}

static bool update_accepts(const weft_call *call)
{
    for (int i = 0; i < 4; i++)
        if (call->ins[i].dtype != WEFT_F32)
            return false;
    for (int i = 0; i < 3; i++)
        if (call->outs[i].dtype != WEFT_F32)
            return false;
    return true;
}

typedef struct update_numbers {
    float beta1, beta2, rest1, rest2, eps, keep, rate, root, clip;
} update_numbers;

/* Results may lie on their operands: every element is read before it is written. */
static void update_piece(const update_numbers *k, const float *const in[4], float *const out[3],
                         int64_t lo, int64_t hi)
{
    const float *p = in[0], *m = in[1], *v = in[2], *g = in[3];
    float *p_next = out[0], *m_next = out[1], *v_next = out[2];
    const update_numbers c = *k;
#pragma omp simd
    for (int64_t i = lo; i < hi; i++) {
        float gi = c.clip * g[i];
        float mi = c.beta1 * m[i] + c.rest1 * gi;
        float vi = c.beta2 * v[i] + c.rest2 * gi * gi;
        float pi = c.keep * p[i] - c.rate * mi / (sqrtf(vi) * c.root + c.eps);
        p_next[i] = pi;
        m_next[i] = mi;
        v_next[i] = vi;
    }
}

static weft_status update_launch(const weft_call *call, weft_error *err)
{
    weft_status status = adamw_check_update(call, err);
    if (status != WEFT_OK)
        return status;
    adamw_numbers k = adamw_numbers_of(call);
    update_numbers c = {(float)k.beta1,       (float)k.beta2, (float)(1 - k.beta1),
                        (float)(1 - k.beta2), (float)k.eps,   (float)k.keep,
                        (float)k.rate,        (float)k.root,  (float)k.clip};
    const float *const in[4] = {call->ins[0].data, call->ins[1].data, call->ins[2].data,
                                call->ins[3].data};
    float *const out[3] = {call->outs[0].data, call->outs[1].data, call->outs[2].data};
    int64_t n = weft_tensor_count(&call->ins[0]), n_pieces = pieces(n, UPDATES);
#pragma omp parallel for schedule(static) num_threads(team(call, n_pieces))
    for (int64_t i = 0; i < n_pieces; i++)
        update_piece(&c, in, out, i * UPDATES, i * UPDATES + piece(n, UPDATES, i));
    return WEFT_OK;
}

const weft_kernel adamw_cpu_kernels[] = {
    {
        .op = "adamw",
        .device = "cpu",
        .name = "adamw_f32",
        .priority = 10,
        .accepts = update_accepts,
        .launch = update_launch,
    },
    {.op = NULL},
};
