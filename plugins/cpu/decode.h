/* SPDX-License-Identifier: Apache-2.0 */
/* A text as it is written: attention of a few queries against many keys, which is bound by reading
 * them, and the caches that these lie in. A row of keys is read once for all heads that share it,
 * as it lies in memory; keys that nobody sees yet are not touched. */

/* Dot product of two rows. */
static inline float row_dot(const float *a, const float *b, int64_t n)
{
    float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
    for (int64_t e = 0; e < n; e++)
        sum += a[e] * b[e];
    return sum;
}

/* One query of one group of heads: its rows (scaled), sums, maxima and what is summed so far. */
typedef struct decode_state {
    float *q, *out;   /* [CPU_STACK, padded] */
    float *row;       /* a row of keys or values, if it must be widened */
    float *scores;    /* [CPU_STACK, CPU_TILE] */
    float *max, *sum; /* [CPU_STACK] */
} decode_state;

static decode_state decode_state_at(const cpu_attention *a, float *work)
{
    decode_state w = {.q = work, .out = work + CPU_STACK * a->padded};
    w.row = w.out + CPU_STACK * a->padded;
    w.scores = w.row + a->padded;
    w.max = w.scores + CPU_STACK * CPU_TILE;
    w.sum = w.max + CPU_STACK;
    return w;
}

static void decode_tile(const weft_call *call, const cpu_attention *a, decode_state w, tile t,
                        int64_t kv, int64_t heads)
{
    sight seen = tile_sight(call, a, t);
    if (seen == SEES_NOTHING)
        return;
    int64_t stride = a->kv_heads * a->head_dim, at = at_k(a, t.b, t.j, kv);
    for (int64_t j = 0; j < t.n; j++) {
        const float *k = load(&call->ins[IN_K], at + j * stride, a->head_dim, w.row);
        for (int64_t h = 0; h < heads; h++)
            w.scores[h * CPU_TILE + j] = row_dot(w.q + h * a->padded, k, a->head_dim);
    }
    for (int64_t h = 0; h < heads; h++) {
        tile_mask(call, a, t, seen, w.scores + h * CPU_TILE);
        softmax_row(w.scores + h * CPU_TILE, columns_of(t), &w.max[h], &w.sum[h],
                    w.out + h * a->padded, a->padded);
    }
    for (int64_t j = 0; j < t.n; j++) {
        const float *v = load(&call->ins[IN_V], at + j * stride, a->head_dim, w.row);
        for (int64_t h = 0; h < heads; h++) {
            float p = w.scores[h * CPU_TILE + j], *out = w.out + h * a->padded;
#pragma omp simd
            for (int64_t e = 0; e < a->head_dim; e++)
                out[e] += p * v[e];
        }
    }
}

static void decode_row(const weft_call *call, const cpu_attention *a, decode_state w, int64_t b,
                       int64_t i, int64_t kv, int64_t stack)
{
    int64_t lo, hi;
    heads_of(a, kv, &lo, &hi);
    lo += stack * CPU_STACK;
    int64_t heads = least(hi - lo, CPU_STACK);
    if (heads <= 0)
        return;
    cells_load(&call->ins[IN_Q], at_q(a, b, i, lo), a->head_dim, heads, a->head_dim, a->padded,
               (float)(a->scale * LOG2_E), w.q);
    memset(w.out, 0, (size_t)(heads * a->padded) * sizeof *w.out);
    for (int64_t h = 0; h < heads; h++)
        w.max[h] = -INFINITY, w.sum[h] = 0.0f;
    for (int64_t j = 0; j < a->k_rows; j += CPU_TILE)
        decode_tile(call, a, w, (tile){b, i, 1, j, least(CPU_TILE, a->k_rows - j)}, kv, heads);
    float *lse = call->outs[1].data;
    for (int64_t h = 0; h < heads; h++) {
        float sum = w.sum[h];
        tile_store(&call->outs[0], at_q(a, b, i, lo + h), 0, 1, a->head_dim, a->padded,
                   sum > 0.0f ? 1.0f / sum : 0.0f, w.out + h * a->padded);
        lse[(b * a->q_rows + i) * a->heads + lo + h] =
            sum > 0.0f ? (float)(((double)w.max[h] + log2((double)sum)) * LN_2) : -INFINITY;
    }
}

/* Rows, key heads and stacks of heads are shared out among threads. */
static weft_status launch_decode(const weft_call *call, weft_error *err)
{
    const cpu_attention *a = call->state;
    int64_t stacks = (a->group + CPU_STACK - 1) / CPU_STACK, columns = a->kv_heads * stacks;
    float *work = call->workspace;
    weft_status s = cpu_attention_check(call, false, cpu_decode_workspace(call), err);
    if (s)
        return s;
#pragma omp parallel for schedule(dynamic, 1)                                                      \
    num_threads(team(call, a->batch * a->q_rows * columns * a->k_rows * a->head_dim))
    for (int64_t n = 0; n < a->batch * a->q_rows * columns; n++) {
        int64_t row = n / columns, column = n % columns;
        decode_state w = decode_state_at(a, work + omp_get_thread_num() * a->floats);
        decode_row(call, a, w, row / a->q_rows, row % a->q_rows, column / stacks, column % stacks);
    }
    return WEFT_OK;
}

/* Rows that are named replace those of the cache, bytes as they are. */
static weft_status launch_cache(const weft_call *call, weft_error *err)
{
    const weft_tensor *cache = &call->ins[0], *x = &call->ins[1], *out = &call->outs[0];
    size_t width = (size_t)cache->size[2] * weft_dtype_size(cache->dtype);
    int64_t places = cache->size[1], n = x->size[1];
    (void)err;
    if (out->data != cache->data)
        memcpy(out->data, cache->data, (size_t)(cache->size[0] * places) * width);
    for (int64_t b = 0; b < cache->size[0]; b++)
        for (int64_t i = 0; i < n; i++) {
            int32_t at = ints(&call->ins[2])[i];
            if (at >= 0 && at < places)
                memcpy((char *)out->data + (size_t)(b * places + at) * width,
                       (const char *)x->data + (size_t)(b * n + i) * width, width);
        }
    return WEFT_OK;
}
