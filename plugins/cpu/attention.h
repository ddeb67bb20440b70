/* SPDX-License-Identifier: Apache-2.0 */
/* attention, tile by tile, never a whole matrix of scores (Dao et al., "FlashAttention", 2022).
 * What a query may see follows from `index` and `segments` alone; tiles where nothing is seen are
 * skipped, tiles where all is seen need no mask. Scores are kept in units of log 2. */

enum { IN_Q, IN_K, IN_V, IN_INDEX_Q, IN_INDEX_K, IN_SEGMENTS_Q, IN_SEGMENTS_K };

/* The last operands of a gradient, counted from the end. */
enum { FROM_END_DOUT = 1, FROM_END_LSE, FROM_END_OUT };

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

/* Columns of a tile's scores that are computed: its keys, rounded up. */
static inline int64_t columns_of(tile t)
{
    return (t.n + CPU_PAD - 1) / CPU_PAD * CPU_PAD;
}

static sight tile_sight(const weft_call *call, const cpu_attention *a, tile t)
{
    if (!a->hides)
        return SEES_ALL;
    range iq = range_of(ints(&call->ins[IN_INDEX_Q]) + t.i, t.m),
          ik = range_of(ints(&call->ins[IN_INDEX_K]) + t.j, t.n);
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
static void tile_mask(const weft_call *call, const cpu_attention *a, tile t, sight seen,
                      float *scores)
{
    for (int64_t r = 0; r < t.m; r++)
        for (int64_t c = t.n; c < columns_of(t); c++)
            scores[r * CPU_TILE + c] = -INFINITY;
    if (seen != SEES_SOME)
        return;
    const int32_t *iq = ints(&call->ins[IN_INDEX_Q]) + t.i,
                  *ik = ints(&call->ins[IN_INDEX_K]) + t.j;
    const int32_t *sq = ints(&call->ins[IN_SEGMENTS_Q]) + t.b * a->q_rows + t.i,
                  *sk = ints(&call->ins[IN_SEGMENTS_K]) + t.b * a->k_rows + t.j;
    for (int64_t r = 0; r < t.m; r++, scores += CPU_TILE) {
        int32_t last = a->causal ? iq[r] : INT32_MAX, segment = sq[r];
#pragma omp simd
        for (int64_t c = 0; c < t.n; c++)
            scores[c] = ((ik[c] > last) | (sk[c] != segment)) != 0 ? -INFINITY : scores[c];
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

/* The local q heads that read a local kv head. */
static void heads_of(const cpu_attention *a, int64_t kv, int64_t *lo, int64_t *hi)
{
    *lo = (a->kv_lo + kv) * a->group - a->head_lo;
    *hi = least(*lo + a->group, a->heads);
    *lo = *lo < 0 ? 0 : *lo;
}

/* ---- rows of scores: by lanes and halves, shorter than what compilers make of a reduction of so
 * few elements. n: columns, of which most tiles have CPU_TILE: a constant where this is inlined
 * ---- */

#define ROW_INLINE static inline __attribute__((always_inline))

ROW_INLINE float row_most(const float *scores, int64_t n)
{
    float lane[CPU_PAD];
    memcpy(lane, scores, sizeof lane);
    for (int64_t c = CPU_PAD; c < n; c += CPU_PAD)
#pragma omp simd
        for (int i = 0; i < CPU_PAD; i++)
            lane[i] = scores[c + i] > lane[i] ? scores[c + i] : lane[i];
#pragma omp simd
    for (int i = 0; i < CPU_PAD / 2; i++)
        lane[i] = lane[i + 8] > lane[i] ? lane[i + 8] : lane[i];
#pragma omp simd
    for (int i = 0; i < CPU_PAD / 4; i++)
        lane[i] = lane[i + 4] > lane[i] ? lane[i + 4] : lane[i];
    float x = lane[0] > lane[1] ? lane[0] : lane[1], y = lane[2] > lane[3] ? lane[2] : lane[3];
    return x > y ? x : y;
}

ROW_INLINE float row_sum(const float *weights, int64_t n)
{
    float lane[CPU_PAD];
    memcpy(lane, weights, sizeof lane);
    for (int64_t c = CPU_PAD; c < n; c += CPU_PAD)
#pragma omp simd
        for (int i = 0; i < CPU_PAD; i++)
            lane[i] += weights[c + i];
#pragma omp simd
    for (int i = 0; i < CPU_PAD / 2; i++)
        lane[i] += lane[i + 8];
#pragma omp simd
    for (int i = 0; i < CPU_PAD / 4; i++)
        lane[i] += lane[i + 4];
    return (lane[0] + lane[1]) + (lane[2] + lane[3]);
}

/* scores = exp2(scores - max) with the new running maximum; what was summed so far is scaled to it.
 */
ROW_INLINE void softmax_row(float *scores, int64_t n, float *max, float *sum, float *out,
                            int64_t padded)
{
    float most = row_most(scores, n);
    most = most > *max ? most : *max;
    float zero = most == -INFINITY ? 0.0f : most; /* nothing seen yet: all weights are 0 */
#pragma omp simd
    for (int64_t c = 0; c < n; c++)
        scores[c] = exp2_1(scores[c] - zero);
    float fade = most == *max ? 1.0f : exp2_1(*max - zero);
    if (fade != 1.0f) {
#pragma omp simd
        for (int64_t e = 0; e < padded; e++)
            out[e] *= fade;
    }
    *sum = *sum * fade + row_sum(scores, n);
    *max = most;
}

/* ---- forward: a tile of queries of up to CPU_STACK heads that share keys, one head's rows below
 * the other's ---- */

typedef struct forward_tiles {
    cell *k, *v;   /* [padded, CPU_TILE], summed over padded; [CPU_TILE, padded], over CPU_TILE */
    cell *loaded;  /* [CPU_TILE, padded] */
    cell *q;       /* [CPU_STACK * CPU_TILE, padded], summed over padded */
    cell *weights; /* [CPU_STACK * CPU_TILE, CPU_TILE], summed over keys */
    float *scores; /* the same, in f32 */
    float *out;    /* [CPU_STACK * CPU_TILE, padded] */
    float *max, *sum; /* [CPU_STACK * CPU_TILE] */
} forward_tiles;

/* Cells that so many numbers are in. */
static inline int64_t cells(int64_t numbers)
{
    return (numbers + CELLS - 1) / CELLS;
}

/* The next n cells, or f32 numbers, of a thread's workspace. */
static inline void *take_work(float **work, int64_t n)
{
    float *at = *work;
    *work += n;
    return at;
}

static forward_tiles forward_tiles_at(const cpu_attention *a, float *work)
{
    int64_t size = CPU_TILE * a->padded, rows = CPU_STACK * CPU_TILE;
    forward_tiles w = {.k = take_work(&work, cells(size)), .loaded = take_work(&work, cells(size))};
    w.v = CELLS == 1 ? w.loaded : take_work(&work, cells(size));
    w.q = take_work(&work, cells(rows * a->padded));
    w.out = take_work(&work, rows * a->padded);
    w.scores = take_work(&work, rows * CPU_TILE);
    w.weights = CELLS == 1 ? (cell *)w.scores : take_work(&work, cells(rows * CPU_TILE));
    w.max = take_work(&work, rows);
    w.sum = take_work(&work, rows);
    return w;
}

/* What scores are multiplied by, in units of log 2. */
static inline double score_factor(const cpu_attention *a)
{
    return a->scale * LOG2_E;
}

static void softmax_rows(forward_tiles w, int64_t rows, int64_t columns, int64_t padded)
{
    for (int64_t r = 0; r < rows; r++) {
        float *scores = w.scores + r * CPU_TILE, *out = w.out + r * padded;
        if (columns == CPU_TILE)
            softmax_row(scores, CPU_TILE, &w.max[r], &w.sum[r], out, padded);
        else
            softmax_row(scores, columns, &w.max[r], &w.sum[r], out, padded);
    }
}

static void forward_keys(const weft_call *call, const cpu_attention *a, forward_tiles w, tile t,
                         int64_t kv, int64_t heads)
{
    sight seen = tile_sight(call, a, t);
    int64_t p = a->padded, rows = heads * t.m, stride = a->kv_heads * a->head_dim,
            at = at_k(a, t.b, t.j, kv);
    if (seen == SEES_NOTHING)
        return;
    cells_load(&call->ins[IN_K], at, stride, t.n, a->head_dim, p, 1.0f, w.loaded);
    tile_turn(w.loaded, t.n, cells(p), w.k);
    tile_product(rows, columns_of(t), cells(a->head_dim),
                 (operands){w.q, w.k, w.scores, cells(p), 1, CPU_TILE, CPU_TILE}, false);
    cells_scale(w.scores, rows, score_factor(a));
    for (int64_t h = 0; h < heads; h++)
        tile_mask(call, a, t, seen, w.scores + h * t.m * CPU_TILE);
    softmax_rows(w, rows, columns_of(t), p);
    cells_along(w.scores, rows, w.weights);
    cells_load(&call->ins[IN_V], at, stride, t.n, a->head_dim, p, 1.0f, w.loaded);
    cells_beside(w.loaded, t.n, p, w.v);
    tile_product(rows, p, cells(t.n), (operands){w.weights, w.v, w.out, cells(CPU_TILE), 1, p, p},
                 true);
}

static void store_forward(const weft_call *call, const cpu_attention *a, forward_tiles w, tile t,
                          int64_t head, int64_t row)
{
    float *lse = call->outs[1].data;
    for (int64_t r = 0; r < t.m; r++, row++) {
        float sum = w.sum[row];
        tile_store(&call->outs[0], at_q(a, t.b, t.i + r, head), 0, 1, a->head_dim, a->padded,
                   sum > 0.0f ? 1.0f / sum : 0.0f, w.out + row * a->padded);
        lse[(t.b * a->q_rows + t.i + r) * a->heads + head] =
            sum > 0.0f ? (float)(((double)w.max[row] + log2((double)sum)) * LN_2) : -INFINITY;
    }
}

static void forward_rows(const weft_call *call, const cpu_attention *a, forward_tiles w, int64_t b,
                         int64_t kv, int64_t stack, int64_t i)
{
    int64_t lo, hi, p = a->padded, m = least(CPU_TILE, a->q_rows - i);
    heads_of(a, kv, &lo, &hi);
    lo += stack * CPU_STACK;
    int64_t heads = least(hi - lo, CPU_STACK);
    if (heads <= 0)
        return;
    tile_begin();
    for (int64_t h = 0; h < heads; h++)
        cells_load(&call->ins[IN_Q], at_q(a, b, i, lo + h), a->heads * a->head_dim, m, a->head_dim,
                   p, cells_load_factor(score_factor(a)), w.q + h * m * cells(p));
    memset(w.out, 0, (size_t)(heads * m * p) * sizeof *w.out);
    for (int64_t r = 0; r < heads * m; r++)
        w.max[r] = -INFINITY, w.sum[r] = 0.0f;
    for (int64_t j = 0; j < a->k_rows; j += CPU_TILE)
        forward_keys(call, a, w, (tile){b, i, m, j, least(CPU_TILE, a->k_rows - j)}, kv, heads);
    tile_end();
    for (int64_t h = 0; h < heads; h++)
        store_forward(call, a, w, (tile){b, i, m, 0, 0}, lo + h, h * m);
}

static weft_status launch_attention(const weft_call *call, weft_error *err)
{
    const cpu_attention *a = call->state;
    int64_t tiles = (a->q_rows + CPU_TILE - 1) / CPU_TILE,
            stacks = (a->group + CPU_STACK - 1) / CPU_STACK;
    int64_t columns = a->batch * a->kv_heads * stacks;
    float *work = call->workspace;
    weft_status s = cpu_attention_check(call, false, cpu_attention_workspace(call), err);
    if (s)
        return s;
        /* Under causality the last rows cost most: begin with them. */
#pragma omp parallel for schedule(dynamic, 1) num_threads(a->threads)
    for (int64_t n = 0; n < columns * tiles; n++) {
        int64_t i = tiles - 1 - n / columns, column = n % columns;
        forward_tiles w = forward_tiles_at(a, work + omp_get_thread_num() * a->floats);
        forward_rows(call, a, w, column / stacks / a->kv_heads, column / stacks % a->kv_heads,
                     column % stacks, i * CPU_TILE);
    }
    return WEFT_OK;
}
