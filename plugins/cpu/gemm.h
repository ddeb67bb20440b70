/* SPDX-License-Identifier: Apache-2.0 */
/* A tile of a matrix product, by vectors: of f32, of bf16 as f32, or, where cells are pairs of
 * numbers, of bf16.
 *
 * GEMM_TERMS terms of each sum are taken at a time. Rows of a are packed into panels that stay
 * in the second cache, then columns of b into strips as wide as the registers hold; all rows pass
 * over a strip while it lies in the first, and what is packed next is asked for meanwhile. So an
 * element of b is packed once for CPU_GEMM_ROWS rows, and one of a once for CPU_GEMM_COLUMNS
 * columns. */

enum {
    GEMM_TERMS = CPU_GEMM_DEPTH,
    GEMM_DEPTH = GEMM_TERMS / CELLS,
    GEMM_WIDTH = TILE_VECTORS * CPU_VECTOR,   /* columns of a strip */
    GEMM_PANEL = TILE_ROWS * GEMM_DEPTH + 16, /* TILE_ROWS rows of a: no multiple of a page */
    GEMM_A = (CPU_GEMM_ROWS + TILE_ROWS - 1) / TILE_ROWS * GEMM_PANEL,
    GEMM_AHEAD = 8 /* rows of b */
};
_Static_assert((int)CPU_GEMM_GROUP % GEMM_WIDTH == 0, "whole strips are packed together");
_Static_assert(CPU_GEMM_FLOATS >=
                   GEMM_A + CPU_GEMM_ROWS * CPU_GEMM_COLUMNS + CPU_GEMM_GROUP * GEMM_DEPTH,
               "a thread's memory is rows of a, strips of b, and a tile of c");
_Static_assert(sizeof(cell) == sizeof(float), "that memory is counted in floats");

/* An operand, of f32 or bf16: a's rows or b's columns are its lines, whose terms are summed. */
typedef struct gemm_source {
    const void *data;
    int64_t term, line; /* strides; one of them is 1 */
    bool bf16;
} gemm_source;

static inline gemm_source gemm_at(gemm_source s, int64_t term, int64_t line)
{
    s.data = (const char *)s.data + (term * s.term + line * s.line) * (s.bf16 ? 2 : 4);
    return s;
}

static inline int64_t gemm_cells(int64_t terms)
{
    return (terms + CELLS - 1) / CELLS;
}

/* ---- packing ---- */

typedef uint32_t gemm_cell __attribute__((may_alias));

/* The p-th cells of n lines that lie side by side. A term that is not there is zero. */
static inline __attribute__((always_inline)) void gemm_copy(gemm_source s, int64_t p, int64_t line,
                                                            int64_t n, int64_t terms, gemm_cell *to)
{
    s = gemm_at(s, p * CELLS, line);
    const uint16_t *first = s.data, *second = first + s.term;
    if (!s.bf16)
        memcpy(to, s.data, (size_t)n * sizeof *to);
    else if (CELLS == 1)
#pragma omp simd
        for (int64_t j = 0; j < n; j++)
            to[j] = (uint32_t)first[j] << 16;
    else if (p * CELLS + 1 < terms)
#pragma omp simd
        for (int64_t j = 0; j < n; j++)
            to[j] = (uint32_t)second[j] << 16 | first[j];
    else
#pragma omp simd
        for (int64_t j = 0; j < n; j++)
            to[j] = first[j];
}

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

/* Up to eight lines, each dense, to rows of cells `width` apart: of `terms` as many as fill
 * registers; how many is returned. Eights are written in order, so that the next covers what is too
 * much of one. ahead: the eight lines behind are on their way meanwhile. */
static inline __attribute__((always_inline)) int64_t
gemm_turn_lines(gemm_source s, int lines, int64_t terms, gemm_cell *to, int width, bool ahead)
{
    const int step = s.bf16 ? 16 : 8;
    int64_t p = 0;
    for (; p + step <= terms; p += step) {
        gemm_cell *at = to + p / CELLS * width;
        gemm_eight r[8];
#pragma GCC unroll 8
        for (int c = 0; c < 8; c++)
            r[c] = *(const gemm_eight_at *)gemm_at(s, p, c < lines ? c : 0).data;
#pragma GCC unroll 8
        for (int c = 8; c < 16 && ahead; c++)
            __builtin_prefetch(gemm_at(s, p, c).data);
        gemm_turn(r);
#pragma GCC unroll 8
        for (int i = 0; i < 8; i++) {
            if (!s.bf16 || CELLS == 2) {
                *(gemm_eight_at *)(at + i * width) = r[i];
                continue;
            }
            /* two terms lie in each 32 bits */
            *(gemm_eight_at *)(at + 2 * i * width) = r[i] << 16;
            *(gemm_eight_at *)(at + (2 * i + 1) * width) = r[i] & 0xffff0000u;
        }
    }
    return p;
}

/* n lines that are dense, to a panel. */
static inline __attribute__((always_inline)) void
gemm_pack_turned(gemm_source s, int64_t terms, int64_t n, int width, gemm_cell *to)
{
    const int64_t depth = gemm_cells(terms);
    const int group = width < 8 ? width : 8;
    int64_t j = 0;
    for (; j + group <= n; j += group) {
        int64_t turned =
            gemm_turn_lines(gemm_at(s, 0, j), group, terms, to + j, width, width == GEMM_WIDTH);
        for (int64_t p = turned / CELLS; p < depth; p++)
            for (int64_t e = j; e < j + group; e++)
                gemm_copy(s, p, e, 1, terms, to + p * width + e);
    }
    for (int64_t p = 0; p < depth; p++)
        for (int64_t e = j; e < n; e++)
            gemm_copy(s, p, e, 1, terms, to + p * width + e);
}

/* Lines to panels of `width` of them, `panel` apart, in which their cells lie side by side: a pass
 * reads a panel from end to end. Lines that are not there are zero. Where lines lie side by side,
 * terms are read from end to end. */
static inline __attribute__((always_inline)) void
gemm_pack(gemm_source s, int64_t terms, int64_t lines, int width, int64_t panel, gemm_cell *to)
{
    const int64_t depth = gemm_cells(terms), whole = lines / width, rest = lines % width;
    if (rest)
        memset(to + whole * panel, 0, (size_t)(depth * width) * sizeof *to);
    if (s.term == 1) {
        for (int64_t j = 0; j < lines; j += width, to += panel)
            gemm_pack_turned(gemm_at(s, 0, j), terms, least(lines - j, width), width, to);
        return;
    }
    for (int64_t p = 0; p < depth; p++, to += width) {
        const gemm_source ahead = gemm_at(s, (p + GEMM_AHEAD / CELLS) * CELLS, 0);
        for (int64_t e = 0; width == GEMM_WIDTH && e < lines; e += CPU_LINE)
#pragma GCC unroll 2
            for (int c = 0; c < CELLS; c++)
                __builtin_prefetch(gemm_at(ahead, c, e).data);
        for (int64_t i = 0; i < whole; i++)
            gemm_copy(s, p, i * width, width, terms, to + i * panel);
        if (rest)
            gemm_copy(s, p, whole * width, rest, terms, to + whole * panel);
    }
}

/* ---- what is packed next ---- */

/* Memory that is asked for while others are multiplied: runs of `bytes`, `stride` bytes apart, so
 * many of them before each block of rows. */
typedef struct gemm_fetch {
    const char *at;
    int64_t stride, bytes, runs, each;
} gemm_fetch;

/* So many terms of so many lines, shared among `blocks`. */
static inline gemm_fetch gemm_fetch_of(gemm_source s, int64_t terms, int64_t lines, int64_t blocks)
{
    const int64_t size = s.bf16 ? 2 : 4, runs = s.term == 1 ? lines : terms;
    return (gemm_fetch){.at = s.data,
                        .stride = (s.term == 1 ? s.line : s.term) * size,
                        .bytes = (s.term == 1 ? terms : lines) * size,
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
    const int64_t n = least(t.n - e, CPU_GEMM_GROUP), more = t.n - e - n, q = p + GEMM_TERMS,
                  terms = least(k - q, GEMM_TERMS), extent = a.term == 1 ? t.m : terms,
                  from = extent * e / t.n, to = extent * (e + n) / t.n;
    int64_t blocks = t.m / TILE_ROWS * ((n + GEMM_WIDTH - 1) / GEMM_WIDTH);
    blocks = blocks > 0 ? blocks : 1;
    next[0] = next[1] = (gemm_fetch){.runs = 0};
    if (more > 0)
        next[0] = gemm_fetch_of(gemm_at(b, p, t.j + e + n), least(k - p, GEMM_TERMS),
                                least(more, CPU_GEMM_GROUP), blocks);
    else if (terms > 0)
        next[0] = gemm_fetch_of(gemm_at(b, q, t.j), terms, least(t.n, CPU_GEMM_GROUP), blocks);
    if (terms > 0 && a.term == 1)
        next[1] = gemm_fetch_of(gemm_at(a, q, t.i + from), terms, to - from, blocks);
    else if (terms > 0)
        next[1] = gemm_fetch_of(gemm_at(a, q + from, t.i), to - from, t.m, blocks);
}

/* ---- a tile ---- */

/* All rows of a over a strip of v vectors: c[m, v vectors] = (or +=) a b. */
static inline __attribute__((always_inline)) void
gemm_rows(int v, int64_t m, int64_t depth, operands o, int64_t ahead, bool add, gemm_fetch next[2])
{
    o.a_row = 1, o.a_col = TILE_ROWS, o.b_row = GEMM_WIDTH;
    for (; m >= TILE_ROWS; m -= TILE_ROWS) {
        gemm_fetch_some(&next[0]), gemm_fetch_some(&next[1]);
        tile_block(TILE_ROWS, v, depth, o, ahead, add);
        o.a += GEMM_PANEL, o.c += TILE_ROWS * o.c_row;
    }
    tile_rest(v, m, depth, o, ahead, add);
}

/* Of a strip, or of half of one: n columns of it are there. */
static __attribute__((noinline)) void gemm_strip(int64_t m, int64_t n, int64_t depth, operands o,
                                                 int64_t ahead, bool add, gemm_fetch next[2])
{
    if (n > GEMM_WIDTH / 2)
        gemm_rows(TILE_VECTORS, m, depth, o, ahead, add, next);
    else
        gemm_rows(TILE_VECTORS / 2, m, depth, o, ahead, add, next);
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
        gemm_strip(m, n - e, depth, o, e == 0 ? n : 0, add, next);
        o.b += GEMM_WIDTH * GEMM_DEPTH, o.c += GEMM_WIDTH;
    }
}

/* Inlined for either type, so that inner loops need not ask. */
static inline __attribute__((always_inline)) void gemm_tile_of(const cpu_matmul_shape *s,
                                                               gemm_source a, gemm_source b,
                                                               void *c, cpu_tile t, float *work)
{
    cell *rows = (cell *)work, *strips = rows + GEMM_A;
    float *sums = work + GEMM_A + CPU_GEMM_GROUP * GEMM_DEPTH;
    /* f32 results of whole and half strips are summed where they belong */
    bool direct = s->c == WEFT_F32 && t.n % (GEMM_WIDTH / 2) == 0;
    float *to = direct ? (float *)c + t.i * s->c_row + t.j : sums;
    int64_t pitch = direct ? s->c_row : CPU_GEMM_COLUMNS;
    for (int64_t p = 0; p < s->k; p += GEMM_TERMS) {
        int64_t terms = least(s->k - p, GEMM_TERMS);
        gemm_pack(gemm_at(a, p, t.i), terms, t.m, TILE_ROWS, GEMM_PANEL, (gemm_cell *)rows);
        for (int64_t e = 0; e < t.n; e += CPU_GEMM_GROUP) {
            int64_t n = least(t.n - e, CPU_GEMM_GROUP);
            gemm_pack(gemm_at(b, p, t.j + e), terms, n, GEMM_WIDTH, GEMM_WIDTH * GEMM_DEPTH,
                      (gemm_cell *)strips);
            operands o = {.a = rows, .b = strips, .c = to + e, .c_row = pitch};
            gemm_fetch next[2];
            gemm_fetch_next(a, b, t, s->k, p, e, next);
            gemm_strips(t.m, n, gemm_cells(terms), o, p > 0 || (direct && s->add), next);
        }
    }
    if (!direct)
        gemm_store(s, c, t.i, t.j, t.m, t.n, sums);
}

/* As the table's gemm. */
static void gemm_tile(const cpu_matmul_shape *s, const void *a, const void *b, void *c, cpu_tile t,
                      float *work)
{
    gemm_source from_a = {a, s->a_col, s->a_row, true}, from_b = {b, s->b_row, s->b_col, true};
    if (CELLS == 2 || s->ab == WEFT_BF16) {
        gemm_tile_of(s, from_a, from_b, c, t, work);
        return;
    }
    from_a.bf16 = from_b.bf16 = false;
    gemm_tile_of(s, from_a, from_b, c, t, work);
}
