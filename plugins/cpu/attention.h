/* SPDX-License-Identifier: Apache-2.0 */
/* attention, tile by tile, never a whole matrix of scores (Dao et al., "FlashAttention", 2022). What a query may see follows from `index` and
 * `segments` alone; tiles where nothing is seen are skipped, tiles where all is seen need no mask. Scores are kept in units of log 2. */

enum { IN_Q, IN_K, IN_V, IN_INDEX_Q, IN_INDEX_K, IN_SEGMENTS_Q, IN_SEGMENTS_K, IN_OUT, IN_LSE, IN_DOUT };

#define LOG2_E 1.4426950408889634
#define LN_2   0.6931471805599453

typedef struct range {
    int32_t least, most;
} range;

static range range_of(const int32_t *x, int64_t n)
{
    range r = {x[0], x[0]};
    for (int64_t i = 1; i < n; i++) {
        r.least = x[i] < r.least ? x[i] : r.least;
        r.most = x[i] > r.most ? x[i] : r.most;
    }
    return r;
}

typedef enum sight { SEES_NOTHING, SEES_SOME, SEES_ALL } sight;

/* A tile: queries [i, i + m) and keys [j, j + n) of batch row b. */
typedef struct tile {
    int64_t b, i, m, j, n;
} tile;

static sight tile_sight(const weft_call *call, const cpu_attention *a, tile t)
{
    range iq = range_of(ints(&call->ins[IN_INDEX_Q]) + t.i, t.m), ik = range_of(ints(&call->ins[IN_INDEX_K]) + t.j, t.n);
    if (a->causal && ik.least > iq.most)
        return SEES_NOTHING;
    range sq = range_of(ints(&call->ins[IN_SEGMENTS_Q]) + t.b * a->q_rows + t.i, t.m);
    range sk = range_of(ints(&call->ins[IN_SEGMENTS_K]) + t.b * a->k_rows + t.j, t.n);
    if (sq.most < sk.least || sk.most < sq.least)
        return SEES_NOTHING;
    bool one_segment = sq.least == sk.most && sq.most == sk.least;
    return one_segment && (!a->causal || ik.most <= iq.least) ? SEES_ALL : SEES_SOME;
}

/* Scores that are not to be seen become -inf, and so do the places beyond the last key. */
static void tile_mask(const weft_call *call, const cpu_attention *a, tile t, sight seen, float *scores)
{
    const int32_t *iq = ints(&call->ins[IN_INDEX_Q]) + t.i, *ik = ints(&call->ins[IN_INDEX_K]) + t.j;
    const int32_t *sq = ints(&call->ins[IN_SEGMENTS_Q]) + t.b * a->q_rows + t.i, *sk = ints(&call->ins[IN_SEGMENTS_K]) + t.b * a->k_rows + t.j;
    for (int64_t r = 0; r < t.m; r++, scores += CPU_TILE) {
        int32_t last = a->causal ? iq[r] : INT32_MAX, segment = sq[r];
        if (seen == SEES_SOME) {
#pragma omp simd
            for (int64_t c = 0; c < t.n; c++)
                scores[c] = (ik[c] > last) | (sk[c] != segment) ? -INFINITY : scores[c];
        }
        for (int64_t c = t.n; c < CPU_TILE; c++)
            scores[c] = -INFINITY;
    }
}

static int64_t kv_head_of(const cpu_attention *a, int64_t head)
{
    return (a->head_lo + head) / a->group - a->kv_lo;
}

/* First element of a row's head. */
static int64_t at_q(const cpu_attention *a, int64_t b, int64_t i, int64_t head)
{
    return ((b * a->q_rows + i) * a->heads + head) * a->head_dim;
}

static int64_t at_k(const cpu_attention *a, int64_t b, int64_t j, int64_t head)
{
    return ((b * a->k_rows + j) * a->kv_heads + head) * a->head_dim;
}

/* ---- forward ---- */

typedef struct forward_tiles {
    float *q, *k, *v, *out; /* [CPU_TILE, padded]; k as [padded, CPU_TILE] */
    float *scores;          /* [CPU_TILE, CPU_TILE] */
    float *max, *sum;       /* [CPU_TILE] */
} forward_tiles;

static forward_tiles forward_tiles_at(const cpu_attention *a, float *work)
{
    int64_t size = CPU_TILE * a->padded;
    return (forward_tiles){.q = work,
                           .k = work + size,
                           .v = work + 2 * size,
                           .out = work + 3 * size,
                           .scores = work + 4 * size,
                           .max = work + 4 * size + CPU_TILE * CPU_TILE,
                           .sum = work + 4 * size + CPU_TILE * CPU_TILE + CPU_TILE};
}

/* The largest of a row of scores, and their sum. By lanes and halves: shorter than what a compiler makes of a reduction of so few elements. */
static inline float row_most(const float *scores)
{
    float lane[CPU_PAD];
    memcpy(lane, scores, sizeof lane);
    for (int c = CPU_PAD; c < CPU_TILE; c += CPU_PAD)
#pragma omp simd
        for (int i = 0; i < CPU_PAD; i++)
            lane[i] = scores[c + i] > lane[i] ? scores[c + i] : lane[i];
    for (int n = CPU_PAD / 2; n > 0; n /= 2)
        for (int i = 0; i < n; i++)
            lane[i] = lane[i + n] > lane[i] ? lane[i + n] : lane[i];
    return lane[0];
}

static inline float row_sum(const float *weights)
{
    float lane[CPU_PAD];
    memcpy(lane, weights, sizeof lane);
    for (int c = CPU_PAD; c < CPU_TILE; c += CPU_PAD)
#pragma omp simd
        for (int i = 0; i < CPU_PAD; i++)
            lane[i] += weights[c + i];
    for (int n = CPU_PAD / 2; n > 0; n /= 2)
        for (int i = 0; i < n; i++)
            lane[i] += lane[i + n];
    return lane[0];
}

/* scores = exp2(scores - max) with the new running maximum; what was summed so far is scaled to it. */
static void softmax_row(float *scores, float *max, float *sum, float *out, int64_t padded)
{
    float most = row_most(scores);
    most = most > *max ? most : *max;
    float zero = most == -INFINITY ? 0.0f : most; /* nothing seen yet: all weights are 0 */
#pragma omp simd
    for (int c = 0; c < CPU_TILE; c++)
        scores[c] = exp2_1(scores[c] - zero);
    float fade = most == *max ? 1.0f : exp2_1(*max - zero);
    if (fade != 1.0f) {
#pragma omp simd
        for (int64_t e = 0; e < padded; e++)
            out[e] *= fade;
    }
    *sum = *sum * fade + row_sum(scores);
    *max = most;
}

static void forward_keys(const weft_call *call, const cpu_attention *a, forward_tiles w, tile t, int64_t kv)
{
    sight seen = tile_sight(call, a, t);
    int64_t p = a->padded, stride = a->kv_heads * a->head_dim, at = at_k(a, t.b, t.j, kv);
    if (seen == SEES_NOTHING)
        return;
    tile_load(&call->ins[IN_K], at, stride, t.n, a->head_dim, p, 1.0f, w.v);
    tile_turn(w.v, t.n, p, w.k);
    tile_product(t.m, CPU_TILE, a->head_dim, (operands){w.q, w.k, w.scores, p, 1, CPU_TILE, CPU_TILE}, false);
    tile_mask(call, a, t, seen, w.scores);
    for (int64_t r = 0; r < t.m; r++)
        softmax_row(w.scores + r * CPU_TILE, &w.max[r], &w.sum[r], w.out + r * p, p);
    tile_load(&call->ins[IN_V], at, stride, t.n, a->head_dim, p, 1.0f, w.v);
    tile_product(t.m, p, t.n, (operands){w.scores, w.v, w.out, CPU_TILE, 1, p, p}, true);
}

static void forward_rows(const weft_call *call, const cpu_attention *a, forward_tiles w, int64_t b, int64_t head, int64_t i)
{
    int64_t m = least(CPU_TILE, a->q_rows - i), p = a->padded, at = at_q(a, b, i, head), stride = a->heads * a->head_dim;
    float *lse = call->outs[1].data;
    tile_load(&call->ins[IN_Q], at, stride, m, a->head_dim, p, (float)(a->scale * LOG2_E), w.q);
    memset(w.out, 0, (size_t)(m * p) * sizeof *w.out);
    for (int64_t r = 0; r < m; r++)
        w.max[r] = -INFINITY, w.sum[r] = 0.0f;
    for (int64_t j = 0; j < a->k_rows; j += CPU_TILE)
        forward_keys(call, a, w, (tile){b, i, m, j, least(CPU_TILE, a->k_rows - j)}, kv_head_of(a, head));
    for (int64_t r = 0; r < m; r++) {
        float sum = w.sum[r];
        tile_store(&call->outs[0], at + r * stride, stride, 1, a->head_dim, p, sum > 0.0f ? 1.0f / sum : 0.0f, w.out + r * p);
        lse[(b * a->q_rows + i + r) * a->heads + head] = sum > 0.0f ? (float)(((double)w.max[r] + log2((double)sum)) * LN_2) : -INFINITY;
    }
}

static weft_status launch_attention(const weft_call *call, weft_error *err)
{
    const cpu_attention *a = call->state;
    int64_t tiles = (a->q_rows + CPU_TILE - 1) / CPU_TILE, tasks = a->batch * a->heads * tiles;
    float *work = call->workspace;
    (void)err;
    /* Under causality the last rows cost most: begin with them. */
#pragma omp parallel for schedule(dynamic, 1) num_threads(a->threads)
    for (int64_t n = 0; n < tasks; n++) {
        int64_t i = tiles - 1 - n / (a->batch * a->heads), rest = n % (a->batch * a->heads);
        forward_tiles w = forward_tiles_at(a, work + omp_get_thread_num() * a->floats);
        forward_rows(call, a, w, rest / a->heads, rest % a->heads, i * CPU_TILE);
    }
    return WEFT_OK;
}
