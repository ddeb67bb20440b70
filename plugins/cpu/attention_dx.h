/* SPDX-License-Identifier: Apache-2.0 */
/* attention_dx: weights are made again from lse, tile by tile. With p the weights and delta =
 * sum(dout * out):
 *
 *     dv = p' dout,  ds = p (dout v' - delta),  dk = scale ds' q,  dq = scale ds k.
 *
 * One walk (a thread owns a batch row's kv head: dk, dv and all dq of its heads) or two (dk and dv
 * by key tile, then dq by query tile). Every sum is made in the same order either way, so the
 * choice does not change a bit. */

typedef struct backward_tiles {
    cell *q, *dout, *k;                /* [CPU_TILE, padded], summed over padded */
    cell *q_rows, *dout_rows, *k_rows; /* the same, summed over rows */
    cell *k_turned, *v_turned;         /* [padded, CPU_TILE], summed over padded */
    cell *loaded;                      /* [CPU_TILE, padded] */
    cell *p_across, *ds_across;        /* [CPU_TILE, CPU_TILE], summed over queries */
    cell *ds_along;                    /* the same, over keys */
    float *p, *ds;                     /* in f32 */
    float *dk, *dv;                    /* [CPU_TILE, padded] */
    float *dq;                         /* [group * q_rows, padded], or one tile */
    const float *delta;                /* [batch, q_rows, heads] */
} backward_tiles;

static backward_tiles backward_tiles_at(const cpu_attention *a, float *work, const float *delta)
{
    int64_t size = CPU_TILE * a->padded, square = CPU_TILE * CPU_TILE;
    backward_tiles w = {.delta = delta};
    w.q = take_work(&work, cells(size));
    w.q_rows = CELLS == 1 ? w.q : take_work(&work, cells(size));
    w.dout = take_work(&work, cells(size));
    w.dout_rows = CELLS == 1 ? w.dout : take_work(&work, cells(size));
    w.k = take_work(&work, cells(size));
    w.k_rows = CELLS == 1 ? w.k : take_work(&work, cells(size));
    w.k_turned = take_work(&work, cells(size));
    w.v_turned = take_work(&work, cells(size));
    w.loaded = take_work(&work, cells(size));
    w.dk = take_work(&work, size);
    w.dv = take_work(&work, size);
    w.p = take_work(&work, square);
    w.ds = take_work(&work, square);
    w.p_across = CELLS == 1 ? (cell *)w.p : take_work(&work, cells(square));
    w.ds_across = CELLS == 1 ? (cell *)w.ds : take_work(&work, cells(square));
    w.ds_along = CELLS == 1 ? (cell *)w.ds : take_work(&work, cells(square));
    w.dq = work;
    return w;
}

static void load_queries(const weft_call *call, const cpu_attention *a, backward_tiles w, tile t,
                         int64_t head)
{
    int64_t at = at_q(a, t.b, t.i, head), stride = a->heads * a->head_dim;
    cells_load(&call->ins[IN_Q], at, stride, t.m, a->head_dim, a->padded,
               cells_load_factor(score_factor(a)), w.q);
    cells_load(&call->ins[call->n_ins - FROM_END_DOUT], at, stride, t.m, a->head_dim, a->padded,
               1.0f, w.dout);
}

static void load_keys(const weft_call *call, const cpu_attention *a, backward_tiles w, tile t,
                      int64_t kv)
{
    int64_t at = at_k(a, t.b, t.j, kv), stride = a->kv_heads * a->head_dim;
    cells_load(&call->ins[IN_K], at, stride, t.n, a->head_dim, a->padded, 1.0f, w.k);
    cells_beside(w.k, t.n, a->padded, w.k_rows);
    tile_turn(w.k, t.n, cells(a->padded), w.k_turned);
    cells_load(&call->ins[IN_V], at, stride, t.n, a->head_dim, a->padded, 1.0f, w.loaded);
    tile_turn(w.loaded, t.n, cells(a->padded), w.v_turned);
}

/* A row of scores becomes p, and one of dout v' becomes ds. n: as rows of scores have it. */
ROW_INLINE void weights_row(float *p, float *ds, int64_t n, float zero, float delta)
{
#pragma omp simd
    for (int64_t c = 0; c < n; c++) {
        p[c] = exp2_1(p[c] - zero);
        ds[c] = p[c] * (ds[c] - delta);
    }
}

/* p and ds (without scale) of a tile whose queries and keys are loaded. */
static void weights(const weft_call *call, const cpu_attention *a, backward_tiles w, tile t,
                    sight seen, int64_t head)
{
    const float *lse = call->ins[call->n_ins - FROM_END_LSE].data;
    tile_product(t.m, columns_of(t), cells(a->head_dim),
                 (operands){w.q, w.k_turned, w.p, cells(a->padded), 1, CPU_TILE, CPU_TILE}, false);
    cells_scale(w.p, t.m, score_factor(a));
    tile_mask(call, a, t, seen, w.p);
    tile_product(t.m, columns_of(t), cells(a->head_dim),
                 (operands){w.dout, w.v_turned, w.ds, cells(a->padded), 1, CPU_TILE, CPU_TILE},
                 false);
    for (int64_t r = 0; r < t.m; r++) {
        int64_t at = (t.b * a->q_rows + t.i + r) * a->heads + head;
        float *p = w.p + r * CPU_TILE, *ds = w.ds + r * CPU_TILE, delta = w.delta[at];
        float zero =
            lse[at] == -INFINITY
                ? INFINITY
                : (float)((double)lse[at] * LOG2_E); /* a row that saw nothing: all weights are 0 */
        if (columns_of(t) == CPU_TILE)
            weights_row(p, ds, CPU_TILE, zero, delta);
        else
            weights_row(p, ds, columns_of(t), zero, delta);
    }
}

/* dq of one tile: += ds k */
static void add_dq(const cpu_attention *a, backward_tiles w, tile t, float *dq)
{
    cells_along(w.ds, t.m, w.ds_along);
    tile_product(t.m, a->padded, cells(t.n),
                 (operands){w.ds_along, w.k_rows, dq, cells(CPU_TILE), 1, a->padded, a->padded},
                 true);
}

/* dk and dv: += ds' q and p' dout */
static void add_keys(const cpu_attention *a, backward_tiles w, tile t)
{
    int64_t p = a->padded, m = cells(t.m);
    cells_across(w.p, t.m, w.p_across);
    cells_across(w.ds, t.m, w.ds_across);
    cells_beside(w.q, t.m, p, w.q_rows);
    cells_beside(w.dout, t.m, p, w.dout_rows);
    tile_product(t.n, p, m, (operands){w.p_across, w.dout_rows, w.dv, 1, CPU_TILE, p, p}, true);
    tile_product(t.n, p, m, (operands){w.ds_across, w.q_rows, w.dk, 1, CPU_TILE, p, p}, true);
}

static void store_dq(const weft_call *call, const cpu_attention *a, int64_t b, int64_t head,
                     int64_t i, int64_t m, float *dq)
{
    tile_store(&call->outs[0], at_q(a, b, i, head), a->heads * a->head_dim, m, a->head_dim,
               a->padded, (float)a->scale, dq);
}

/* dk and dv of one key tile; adds to the dq of its heads, [group, q_rows, padded], unless dq is
 * NULL. */
static void backward_keys(const weft_call *call, const cpu_attention *a, backward_tiles w,
                          int64_t b, int64_t kv, int64_t j, float *dq)
{
    int64_t lo, hi, p = a->padded, n = least(CPU_TILE, a->k_rows - j), at = at_k(a, b, j, kv),
                    stride = a->kv_heads * a->head_dim;
    heads_of(a, kv, &lo, &hi);
    memset(w.dk, 0, (size_t)(CPU_TILE * p) * sizeof *w.dk);
    memset(w.dv, 0, (size_t)(CPU_TILE * p) * sizeof *w.dv);
    load_keys(call, a, w, (tile){b, 0, 0, j, n}, kv);
    tile_begin();
    for (int64_t i = 0; i < a->q_rows; i += CPU_TILE) {
        tile t = {b, i, least(CPU_TILE, a->q_rows - i), j, n};
        sight seen = tile_sight(call, a, t);
        for (int64_t head = lo; head < hi && seen != SEES_NOTHING; head++) {
            load_queries(call, a, w, t, head);
            weights(call, a, w, t, seen, head);
            add_keys(a, w, t);
            if (dq)
                add_dq(a, w, t, dq + ((head - lo) * a->q_rows + i) * p);
        }
    }
    tile_end();
    /* where q was loaded times a factor, it is in dk already */
    tile_store(&call->outs[1], at, stride, n, a->head_dim, p, (float)(CELLS == 1 ? LN_2 : a->scale),
               w.dk);
    tile_store(&call->outs[2], at, stride, n, a->head_dim, p, 1.0f, w.dv);
}

static void backward_head(const weft_call *call, const cpu_attention *a, backward_tiles w,
                          int64_t b, int64_t kv)
{
    int64_t lo, hi, p = a->padded;
    heads_of(a, kv, &lo, &hi);
    memset(w.dq, 0, (size_t)((hi > lo ? hi - lo : 0) * a->q_rows * p) * sizeof *w.dq);
    for (int64_t j = 0; j < a->k_rows; j += CPU_TILE)
        backward_keys(call, a, w, b, kv, j, w.dq);
    for (int64_t head = lo; head < hi; head++)
        store_dq(call, a, b, head, 0, a->q_rows, w.dq + (head - lo) * a->q_rows * p);
}

static void backward_rows(const weft_call *call, const cpu_attention *a, backward_tiles w,
                          int64_t b, int64_t head, int64_t i)
{
    int64_t m = least(CPU_TILE, a->q_rows - i);
    memset(w.dq, 0, (size_t)(CPU_TILE * a->padded) * sizeof *w.dq);
    load_queries(call, a, w, (tile){b, i, m, 0, 0}, head);
    tile_begin();
    for (int64_t j = 0; j < a->k_rows; j += CPU_TILE) {
        tile t = {b, i, m, j, least(CPU_TILE, a->k_rows - j)};
        sight seen = tile_sight(call, a, t);
        if (seen == SEES_NOTHING)
            continue;
        load_keys(call, a, w, t, kv_head_of(a, head));
        weights(call, a, w, t, seen, head);
        add_dq(a, w, t, w.dq);
    }
    tile_end();
    store_dq(call, a, b, head, i, m, w.dq);
}

static void delta_row(const weft_call *call, const cpu_attention *a, int64_t row, float *delta)
{
    float x[CPU_BLOCK], y[CPU_BLOCK];
    double sum = 0.0;
    for (int64_t e = 0; e < a->head_dim; e += CPU_BLOCK) {
        int64_t n = least(CPU_BLOCK, a->head_dim - e), at = row * a->head_dim + e;
        const float *px = load(&call->ins[call->n_ins - FROM_END_OUT], at, n, x),
                    *py = load(&call->ins[call->n_ins - FROM_END_DOUT], at, n, y);
        float part = 0.0f;
#pragma omp simd reduction(+ : part)
        for (int64_t i = 0; i < n; i++)
            part += px[i] * py[i];
        sum += (double)part;
    }
    delta[row] = (float)sum;
}

static weft_status launch_attention_dx(const weft_call *call, weft_error *err)
{
    const cpu_attention *a = call->state;
    int64_t rows = a->batch * a->q_rows * a->heads, heads = a->batch * a->heads,
            kv_heads = a->batch * a->kv_heads;
    int64_t q_tiles = (a->q_rows + CPU_TILE - 1) / CPU_TILE,
            k_tiles = (a->k_rows + CPU_TILE - 1) / CPU_TILE;
    float *delta = call->workspace, *work = delta + (rows + CPU_PAD - 1) / CPU_PAD * CPU_PAD;
    weft_status s = cpu_attention_check(call, true, cpu_attention_dx_workspace(call), err);
    if (s)
        return s;
#pragma omp parallel num_threads(a->threads)
    {
        backward_tiles w = backward_tiles_at(a, work + omp_get_thread_num() * a->floats, delta);
#pragma omp for schedule(static)
        for (int64_t row = 0; row < rows; row++)
            delta_row(call, a, row, delta);
        if (a->one_pass) {
#pragma omp for schedule(dynamic, 1)
            for (int64_t n = 0; n < kv_heads; n++)
                backward_head(call, a, w, n / a->kv_heads, n % a->kv_heads);
        } else {
#pragma omp for schedule(dynamic, 1) nowait
            for (int64_t n = 0; n < kv_heads * k_tiles;
                 n++) /* under causality the first keys cost most */
                backward_keys(call, a, w, n % kv_heads / a->kv_heads, n % kv_heads % a->kv_heads,
                              n / kv_heads * CPU_TILE, NULL);
#pragma omp for schedule(dynamic, 1)
            for (int64_t n = 0; n < heads * q_tiles; n++)
                backward_rows(call, a, w, n % heads / a->heads, n % heads % a->heads,
                              (q_tiles - 1 - n / heads) * CPU_TILE);
        }
    }
    return WEFT_OK;
}
