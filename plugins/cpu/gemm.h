/* SPDX-License-Identifier: Apache-2.0 */
/* A tile of a matrix product, of f32 or of bf16 as f32.
 *
 * GEMM_DEPTH terms of each sum are taken at a time. Rows of a are widened into panels that stay
 * in the second cache, then columns of b into strips as wide as the registers hold; all rows pass
 * over a strip while it lies in the first, and what is packed next is asked for meanwhile. So an
 * element of b is widened once for CPU_GEMM_ROWS rows, and one of a once for CPU_GEMM_COLUMNS
 * columns. */

enum {
    GEMM_DEPTH = CPU_GEMM_DEPTH,
    GEMM_WIDTH = TILE_VECTORS * CPU_VECTOR,   /* columns of a strip */
    GEMM_PANEL = TILE_ROWS * GEMM_DEPTH + 16, /* TILE_ROWS rows of a: no multiple of a page */
    GEMM_A = (CPU_GEMM_ROWS + TILE_ROWS - 1) / TILE_ROWS * GEMM_PANEL,
    GEMM_AHEAD = 8 /* rows of b */
};
_Static_assert((int)CPU_GEMM_GROUP % GEMM_WIDTH == 0, "whole strips are packed together");
_Static_assert(CPU_GEMM_FLOATS >=
                   GEMM_A + CPU_GEMM_ROWS * CPU_GEMM_COLUMNS + CPU_GEMM_GROUP * GEMM_DEPTH,
               "a thread's memory is rows of a, strips of b, and a tile of c");

/* An operand: f32 or bf16. */
typedef struct gemm_source {
    const void *data;
    int64_t row, col; /* strides; one of them is 1 */
    bool bf16;
} gemm_source;

static inline gemm_source gemm_at(gemm_source s, int64_t i, int64_t j)
{
    s.data = (const char *)s.data + (i * s.row + j * s.col) * (s.bf16 ? 2 : 4);
    return s;
}

static inline float gemm_get(gemm_source s, int64_t i, int64_t j)
{
    s = gemm_at(s, i, j);
    return s.bf16 ? widen1(*(const uint16_t *)s.data) : *(const float *)s.data;
}

/* `lines` runs of n elements that lie side by side, `stride` apart, to f32 runs `pitch` apart. */
static inline __attribute__((always_inline)) void
gemm_copy(gemm_source s, int64_t stride, int64_t lines, int64_t n, float *to, int64_t pitch)
{
    for (int64_t i = 0; i < lines; i++, to += pitch) {
        const uint16_t *h = (const uint16_t *)s.data + i * stride;
        const float *f = (const float *)s.data + i * stride;
        if (s.bf16)
#pragma omp simd
            for (int64_t j = 0; j < n; j++)
                to[j] = widen1(h[j]);
        else
            memcpy(to, f, (size_t)n * sizeof *to);
    }
}

/* ---- turning what lies along k ---- */

typedef uint32_t gemm_eight __attribute__((vector_size(32)));
typedef uint32_t gemm_eight_at __attribute__((vector_size(32), aligned(2), may_alias));

#if defined(__clang__)
#define GEMM_MIX(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define GEMM_MIX(a, b, ...) __builtin_shuffle(a, b, (gemm_eight){__VA_ARGS__})
#endif

/* Eight rows become eight columns. */
static inline __attribute__((always_inline)) void gemm_turn(gemm_eight r[8])
{
    gemm_eight s[8], t[8];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) { /* pairs of rows */
        s[2 * i] = GEMM_MIX(r[2 * i], r[2 * i + 1], 0, 8, 1, 9, 4, 12, 5, 13);
        s[2 * i + 1] = GEMM_MIX(r[2 * i], r[2 * i + 1], 2, 10, 3, 11, 6, 14, 7, 15);
    }
#pragma GCC unroll 2
    for (int i = 0; i < 8; i += 4) { /* fours */
        t[i] = GEMM_MIX(s[i], s[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
        t[i + 1] = GEMM_MIX(s[i], s[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        t[i + 2] = GEMM_MIX(s[i + 1], s[i + 3], 0, 1, 8, 9, 4, 5, 12, 13);
        t[i + 3] = GEMM_MIX(s[i + 1], s[i + 3], 2, 3, 10, 11, 6, 7, 14, 15);
    }
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) { /* halves */
        r[i] = GEMM_MIX(t[i], t[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        r[i + 4] = GEMM_MIX(t[i], t[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}

/* Up to eight columns of s, each dense, to rows `pitch` apart: of `depth` rows as many as fill
 * registers; how many is returned. Eights are written in order, so that the next covers what is too
 * much of one. ahead: the eight columns behind are on their way meanwhile. */
static inline __attribute__((always_inline)) int64_t
gemm_turn_columns(gemm_source s, int columns, int64_t depth, float *to, int pitch, bool ahead)
{
    const int step = s.bf16 ? 16 : 8;
    int64_t p = 0;
    for (; p + step <= depth; p += step) {
        gemm_eight r[8];
#pragma GCC unroll 8
        for (int c = 0; c < 8; c++)
            r[c] = *(const gemm_eight_at *)gemm_at(s, p, c < columns ? c : 0).data;
#pragma GCC unroll 8
        for (int c = 8; c < 16 && ahead; c++)
            __builtin_prefetch(gemm_at(s, p, c).data);
        gemm_turn(r);
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) {
            if (!s.bf16) {
                *(gemm_eight_at *)(to + (p + i) * pitch) = r[i];
                continue;
            }
            /* two terms of a sum lie in each 32 bits */
            *(gemm_eight_at *)(to + (p + 2 * i) * pitch) = r[i] << 16;
            *(gemm_eight_at *)(to + (p + 2 * i + 1) * pitch) = r[i] & 0xffff0000u;
        }
    }
    return p;
}

/* Columns of b that lie along k, to a strip. */
static inline __attribute__((always_inline)) void gemm_pack_turned(gemm_source b, int64_t depth,
                                                                   int64_t n, float *to)
{
    int64_t j = 0;
    for (; j + 8 <= n; j += 8) {
        int64_t turned = gemm_turn_columns(gemm_at(b, 0, j), 8, depth, to + j, GEMM_WIDTH, true);
        for (int64_t p = turned; p < depth; p++)
            for (int64_t e = j; e < j + 8; e++)
                to[p * GEMM_WIDTH + e] = gemm_get(b, p, e);
    }
    for (int64_t p = 0; p < depth; p++)
        for (int64_t e = j; e < n; e++)
            to[p * GEMM_WIDTH + e] = gemm_get(b, p, e);
}

/* b[depth, n] to strips of rows of GEMM_WIDTH, one after the other, zero beyond n. Where b's rows
 * are dense they are read from end to end. */
static inline __attribute__((always_inline)) void gemm_pack_b(gemm_source b, int64_t depth,
                                                              int64_t n, float *to)
{
    enum { STRIP = GEMM_WIDTH * GEMM_DEPTH };
    int64_t whole = n / GEMM_WIDTH, rest = n % GEMM_WIDTH;
    for (int64_t p = 0; rest && p < depth; p++)
        memset(to + whole * STRIP + p * GEMM_WIDTH, 0, GEMM_WIDTH * sizeof *to);
    if (b.col != 1) {
        for (int64_t e = 0; e < n; e += GEMM_WIDTH, to += STRIP)
            gemm_pack_turned(gemm_at(b, 0, e), depth, least(n - e, GEMM_WIDTH), to);
        return;
    }
    for (int64_t p = 0; p < depth; p++) {
        gemm_source row = gemm_at(b, p, 0), ahead = gemm_at(b, p + GEMM_AHEAD, 0);
        for (int64_t e = 0; e < n; e += CPU_LINE)
            __builtin_prefetch(gemm_at(ahead, 0, e).data);
        for (int64_t e = 0; e < whole; e++)
            gemm_copy(gemm_at(row, 0, e * GEMM_WIDTH), 0, 1, GEMM_WIDTH,
                      to + e * STRIP + p * GEMM_WIDTH, 0);
        if (rest)
            gemm_copy(gemm_at(row, 0, whole * GEMM_WIDTH), 0, 1, rest,
                      to + whole * STRIP + p * GEMM_WIDTH, 0);
    }
}

/* ---- rows of a ---- */

/* a[m, depth] to panels of TILE_ROWS rows, GEMM_PANEL apart, in which the rows' terms of a sum lie
 * side by side: a pass over a strip reads a panel from end to end. */
static inline __attribute__((always_inline)) void gemm_pack_a(gemm_source a, int64_t m,
                                                              int64_t depth, float *to)
{
    const int64_t whole = m / TILE_ROWS, rest = m % TILE_ROWS;
    if (a.col != 1) {
        for (int64_t p = 0; p < depth; p++) {
            gemm_source line = gemm_at(a, 0, p);
            float *at = to + p * TILE_ROWS;
            for (int64_t i = 0; i < whole; i++, at += GEMM_PANEL)
                gemm_copy(gemm_at(line, i * TILE_ROWS, 0), 0, 1, TILE_ROWS, at, 0);
            for (int64_t i = 0; i < rest; i++)
                at[i] = gemm_get(line, whole * TILE_ROWS + i, 0);
        }
        return;
    }
    for (int64_t i = 0; i < whole; i++, to += GEMM_PANEL) {
        gemm_source rows = gemm_at(a, i * TILE_ROWS, 0);
        rows.col = rows.row, rows.row = 1; /* a row of a is a column there */
        int64_t p = gemm_turn_columns(rows, TILE_ROWS, depth, to, TILE_ROWS, false);
        for (; p < depth; p++)
            for (int64_t r = 0; r < TILE_ROWS; r++)
                to[p * TILE_ROWS + r] = gemm_get(rows, p, r);
    }
    for (int64_t p = 0; p < depth; p++)
        for (int64_t r = 0; r < rest; r++)
            to[p * TILE_ROWS + r] = gemm_get(a, whole * TILE_ROWS + r, p);
}

/* ---- what is packed next ---- */

/* Memory that is asked for while others are multiplied: runs of `bytes`, `stride` bytes apart, so
 * many of them before each block of rows. */
typedef struct gemm_fetch {
    const char *at;
    int64_t stride, bytes, runs, each;
} gemm_fetch;

/* m x n elements, shared among `blocks`. */
static inline gemm_fetch gemm_fetch_of(gemm_source s, int64_t m, int64_t n, int64_t blocks)
{
    const int64_t size = s.bf16 ? 2 : 4, runs = s.col == 1 ? m : n;
    return (gemm_fetch){.at = s.data,
                        .stride = (s.col == 1 ? s.row : s.col) * size,
                        .bytes = (s.col == 1 ? n : m) * size,
                        .runs = runs,
                        .each = (runs + blocks - 1) / blocks};
}

static inline void gemm_fetch_some(gemm_fetch *f)
{
    for (int64_t i = 0; i < f->each && f->runs > 0; i++, f->runs--, f->at += f->stride)
        for (int64_t e = 0; e < f->bytes; e += 4 * CPU_LINE)
            __builtin_prefetch(f->at + e);
}

/* While columns from e on of a tile are multiplied, of terms from p on: the columns of b that are
 * packed next, and of the next terms of a's rows a share. */
static inline void gemm_fetch_next(gemm_source a, gemm_source b, cpu_tile t, int64_t k, int64_t p,
                                   int64_t e, gemm_fetch next[2])
{
    const int64_t n = least(t.n - e, CPU_GEMM_GROUP), more = t.n - e - n, q = p + GEMM_DEPTH,
                  depth = least(k - q, GEMM_DEPTH), extent = a.col == 1 ? t.m : depth,
                  from = extent * e / t.n, to = extent * (e + n) / t.n;
    int64_t blocks = t.m / TILE_ROWS * ((n + GEMM_WIDTH - 1) / GEMM_WIDTH);
    blocks = blocks > 0 ? blocks : 1;
    next[0] = next[1] = (gemm_fetch){.runs = 0};
    if (more > 0)
        next[0] = gemm_fetch_of(gemm_at(b, p, t.j + e + n), least(k - p, GEMM_DEPTH),
                                least(more, CPU_GEMM_GROUP), blocks);
    else if (depth > 0)
        next[0] = gemm_fetch_of(gemm_at(b, q, t.j), depth, least(t.n, CPU_GEMM_GROUP), blocks);
    if (depth > 0 && a.col == 1)
        next[1] = gemm_fetch_of(gemm_at(a, t.i + from, q), to - from, depth, blocks);
    else if (depth > 0)
        next[1] = gemm_fetch_of(gemm_at(a, t.i, q + from), t.m, to - from, blocks);
}

/* ---- a tile ---- */

/* All rows of a over a strip: c[m, GEMM_WIDTH] = (or +=) a b. */
static __attribute__((noinline)) void gemm_strip(int64_t m, int64_t depth, operands o,
                                                 int64_t ahead, bool add, gemm_fetch next[2])
{
    o.a_row = 1, o.a_col = TILE_ROWS, o.b_row = GEMM_WIDTH;
    for (; m >= TILE_ROWS; m -= TILE_ROWS) {
        gemm_fetch_some(&next[0]), gemm_fetch_some(&next[1]);
        tile_block(TILE_ROWS, TILE_VECTORS, depth, o, ahead, add);
        o.a += GEMM_PANEL, o.c += TILE_ROWS * o.c_row;
    }
    tile_rest(TILE_VECTORS, m, depth, o, ahead, add);
}

static void gemm_store(const cpu_matmul_shape *s, void *c, int64_t i, int64_t j, int64_t m,
                       int64_t n, const float *from)
{
    for (int64_t r = 0; r < m; r++, from += CPU_GEMM_COLUMNS) {
        int64_t at = (i + r) * s->c_row + j;
        float *f = (float *)c + at;
        uint16_t *h = (uint16_t *)c + at;
        if (s->c == WEFT_F32 && !s->add)
            memcpy(f, from, (size_t)n * sizeof *f);
        else if (s->c == WEFT_F32)
#pragma omp simd
            for (int64_t e = 0; e < n; e++)
                f[e] += from[e];
        else if (!s->add)
#pragma omp simd
            for (int64_t e = 0; e < n; e++)
                h[e] = narrow1(from[e]);
        else
#pragma omp simd
            for (int64_t e = 0; e < n; e++)
                h[e] = narrow1(widen1(h[e]) + from[e]);
    }
}

/* All of a's rows over the strips of b. While they pass over the first, c is fetched row by row:
 * strip by strip, memory would be asked for a line here and a line there. */
static inline void gemm_strips(int64_t m, int64_t n, int64_t depth, operands o, bool add,
                               gemm_fetch next[2])
{
    for (int64_t e = 0; e < n; e += GEMM_WIDTH) {
        gemm_strip(m, depth, o, e == 0 ? n : 0, add, next);
        o.b += GEMM_WIDTH * GEMM_DEPTH, o.c += GEMM_WIDTH;
    }
}

/* As the table's gemm. Inlined for either type, so that inner loops need not ask. */
static inline __attribute__((always_inline)) void gemm_tile_of(const cpu_matmul_shape *s,
                                                               gemm_source a, gemm_source b,
                                                               void *c, cpu_tile t, float *work)
{
    float *rows = work, *strips = rows + GEMM_A, *sums = strips + CPU_GEMM_GROUP * GEMM_DEPTH;
    /* f32 results of whole strips are summed where they belong */
    bool direct = s->c == WEFT_F32 && t.n % GEMM_WIDTH == 0;
    float *to = direct ? (float *)c + t.i * s->c_row + t.j : sums;
    int64_t pitch = direct ? s->c_row : CPU_GEMM_COLUMNS;
    for (int64_t p = 0; p < s->k; p += GEMM_DEPTH) {
        int64_t depth = least(s->k - p, GEMM_DEPTH);
        gemm_pack_a(gemm_at(a, t.i, p), t.m, depth, rows);
        for (int64_t e = 0; e < t.n; e += CPU_GEMM_GROUP) {
            int64_t n = least(t.n - e, CPU_GEMM_GROUP);
            gemm_pack_b(gemm_at(b, p, t.j + e), depth, n, strips);
            operands o = {.a = rows, .b = strips, .c = to + e, .c_row = pitch};
            gemm_fetch next[2];
            gemm_fetch_next(a, b, t, s->k, p, e, next);
            gemm_strips(t.m, n, depth, o, p > 0 || (direct && s->add), next);
        }
    }
    if (!direct)
        gemm_store(s, c, t.i, t.j, t.m, t.n, sums);
}

static void gemm_tile(const cpu_matmul_shape *s, const void *a, const void *b, void *c, cpu_tile t,
                      float *work)
{
    gemm_source from_a = {a, s->a_row, s->a_col, true}, from_b = {b, s->b_row, s->b_col, true};
    if (s->ab == WEFT_BF16) {
        gemm_tile_of(s, from_a, from_b, c, t, work);
        return;
    }
    from_a.bf16 = from_b.bf16 = false;
    gemm_tile_of(s, from_a, from_b, c, t, work);
}
