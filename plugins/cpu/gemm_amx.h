/* SPDX-License-Identifier: Apache-2.0 */
/* A tile of a matrix product of bf16, by AMX.
 *
 * Blocks of c, STRIP x STRIP, lie in registers, and AMX_DEEP terms of their sums are taken at a
 * time. Of these, columns of b are packed into panels that stay in the second cache, square by
 * square as the registers take them; each strip of a's rows stays in the first while all panels
 * stream by. It is read where it lies if its rows are dense, else it is packed, too. Sums that are
 * not done yet lie in the second cache, those of f32 in c itself. */

enum {
    AMX_TILE_ROWS = 512,
    AMX_TILE_COLUMNS = 512,
    AMX_DEEP = 512,           /* numbers of a sum, at most */
    STRIP = 2 * AMX_ROWS,     /* rows of a, and columns of b */
    SQUARE = AMX_ROWS * DEEP, /* cells of a register */
    BLOCK = STRIP * STRIP,
};

typedef struct amx_product {
    const cpu_matmul_shape *s;
    void *c;
    cpu_tile t;
    cell *strip, *panels;
    float *sums; /* blocks: one, or all of the tile */
    bool keeps_sums;
} amx_product;

/* A strip: where its squares lie. */
typedef struct amx_rows {
    const cell *at;
    int64_t bytes, lower, step; /* of a row; cells to the lower square and to the next of a sum */
} amx_rows;

/* What is multiplied next is asked for: rows of it, so many beside each panel. */
typedef struct amx_ahead {
    const char *at;
    int64_t stride, rows;
} amx_ahead;

static inline int64_t amx_squares(int64_t numbers)
{
    return (numbers + 2 * DEEP - 1) / (2 * DEEP);
}

static inline int64_t amx_strips(int64_t extent)
{
    return (extent + STRIP - 1) / STRIP;
}

/* Numbers that are summed at a time: about as many each time. */
static int64_t amx_step(int64_t k)
{
    const int64_t squares = amx_squares(k), times = (k + AMX_DEEP - 1) / AMX_DEEP;
    return (squares + times - 1) / times * (2 * DEEP);
}

enum { STRIP_FLOATS = 2 * SQUARE * AMX_DEEP / (2 * DEEP) };

/* Cells and floats are of one size. */
static int64_t amx_floats(const cpu_matmul_shape *s)
{
    const int64_t step = amx_step(s->k), columns = amx_strips(least(s->n, AMX_TILE_COLUMNS)),
                  blocks = step < s->k ? columns * amx_strips(least(s->m, AMX_TILE_ROWS)) : 1;
    return STRIP_FLOATS + columns * STRIP * step / 2 + blocks * BLOCK;
}

/* ---- packing ---- */

/* Of 16 columns, rows 2 r and 2 r + 1 beside each other. */
static inline __attribute__((always_inline)) void
amx_beside(const uint16_t *from, int64_t stride, int64_t rows, int64_t columns, __m512i x[AMX_ROWS])
{
    const __mmask16 there = (__mmask16)(columns < AMX_ROWS ? (1u << columns) - 1 : 0xffffu);
    const __m256i none = _mm256_setzero_si256();
#pragma GCC unroll 16
    for (int r = 0; r < DEEP; r++) {
        const uint16_t *at = from + 2 * r * stride;
        const __m256i low = 2 * r < rows ? _mm256_maskz_loadu_epi16(there, at) : none,
                      high = 2 * r + 1 < rows ? _mm256_maskz_loadu_epi16(there, at + stride) : none;
        x[r] = _mm512_or_si512(_mm512_cvtepu16_epi32(low),
                               _mm512_slli_epi32(_mm512_cvtepu16_epi32(high), 16));
    }
}

/* Lines of a sum's numbers to squares, two for each DEEP of cells: a's rows, or b's columns, of
 * which squares are turned. Numbers and lines that are not there are zero. */
static inline __attribute__((always_inline)) void amx_pack(const uint16_t *from, int64_t line,
                                                           int64_t number, int64_t lines,
                                                           int64_t numbers, bool turned, cell *to)
{
    for (int64_t p = 0; p < numbers; p += 2 * DEEP, to += 2 * SQUARE)
        for (int64_t i = 0; i < STRIP && i < lines; i += AMX_ROWS) {
            const uint16_t *at = from + i * line + p * number;
            __m512i x[AMX_ROWS];
            if (number == 1)
                rows_of_cells(at, line, lines - i, numbers - p, x);
            else
                amx_beside(at, number, numbers - p, lines - i, x);
            if ((number == 1) == turned)
                turn(x);
#pragma GCC unroll 16
            for (int r = 0; r < AMX_ROWS; r++)
                _mm512_store_si512(to + i * DEEP + r * DEEP, x[r]);
        }
}

static __attribute__((noinline)) void amx_pack_a(const cpu_matmul_shape *s, const uint16_t *a,
                                                 int64_t rows, int64_t numbers, cell *to)
{
    if (s->a_col == 1)
        amx_pack(a, s->a_row, 1, rows, numbers, false, to);
    else
        amx_pack(a, 1, s->a_col, rows, numbers, false, to);
}

static __attribute__((noinline)) void amx_pack_b(const cpu_matmul_shape *s, const uint16_t *b,
                                                 int64_t columns, int64_t numbers, cell *to)
{
    if (s->b_row == 1)
        amx_pack(b, s->b_col, 1, columns, numbers, true, to);
    else
        amx_pack(b, 1, s->b_row, columns, numbers, true, to);
}

/* Rows of whole squares are read where they lie. */
static amx_rows amx_strip_at(const amx_product *o, const uint16_t *a, int64_t rows, int64_t numbers)
{
    const cpu_matmul_shape *s = o->s;
    if (s->a_col == 1 && numbers % (2 * DEEP) == 0 && (rows >= STRIP || rows == AMX_ROWS))
        return (amx_rows){.at = (const cell *)(const void *)a,
                          .bytes = 2 * s->a_row,
                          .lower = AMX_ROWS * s->a_row / 2,
                          .step = DEEP};
    amx_pack_a(s, a, rows, numbers, o->strip);
    return (amx_rows){.at = o->strip, .bytes = 4 * DEEP, .lower = SQUARE, .step = 2 * SQUARE};
}

/* ---- multiplying ---- */

/* A block, or its upper or left half, = (or +=) a strip by a panel, which is not to drive the strip
 * out of the cache. */
static inline __attribute__((always_inline)) void
amx_multiply(int rows, int columns, int64_t squares, amx_rows a, const cell *b, float *c,
             int64_t pitch, bool add, amx_ahead ahead)
{
    /* c that is not read is asked for before it is written */
    const int64_t written = add || pitch == STRIP ? 0 : (STRIP + squares - 1) / squares;
    const float *row = c;
    AMX_READS_MEMORY;
    if (add) {
        AMX_EACH_C(_tile_loadd, rows, columns, c, pitch);
    } else {
        AMX_EACH_C(AMX_ZERO, rows, columns, c, pitch);
    }
    for (int64_t p = 0; p < squares; p++, a.at += a.step, b += 2 * SQUARE) {
        _tile_loadd(4, a.at, a.bytes);
        _tile_stream_loadd(6, b, 4 * DEEP);
        _tile_dpbf16ps(0, 4, 6);
        if (columns == 2) {
            _tile_stream_loadd(7, b + SQUARE, 4 * DEEP);
            _tile_dpbf16ps(1, 4, 7);
        }
        if (rows == 2) {
            _tile_loadd(5, a.at + a.lower, a.bytes);
            _tile_dpbf16ps(2, 5, 6);
        }
        if (rows == 2 && columns == 2)
            _tile_dpbf16ps(3, 5, 7);
        for (int64_t r = 0; r < ahead.rows; r++)
            __builtin_prefetch(ahead.at + r * ahead.stride + p * 4 * DEEP);
        for (int64_t r = 0; r < written; r++, row += pitch) {
            __builtin_prefetch(row, 1);
            __builtin_prefetch(row + AMX_ROWS, 1);
        }
    }
    AMX_EACH_C(_tile_stored, rows, columns, c, pitch);
}

/* Sums of f32 begin with what c is, in blocks as where they lie in c itself: else bits would depend
 * on how c is cut. */
static inline bool amx_begins_with_c(const amx_product *o)
{
    return o->s->c == WEFT_F32 && o->s->add;
}

static void amx_begin_block(const amx_product *o, int64_t i, int64_t j, float *to)
{
    const int64_t m = least(o->t.m - i, STRIP), n = least(o->t.n - j, STRIP);
    const float *c = (const float *)o->c + (o->t.i + i) * o->s->c_row + o->t.j + j;
    for (int64_t r = 0; r < m; r++)
        memcpy(to + r * STRIP, c + r * o->s->c_row, (size_t)n * sizeof *to);
}

/* A block of sums, to c. What AMX takes for zero, denormals, is zero here, too. */
static void amx_store(const amx_product *o, int64_t i, int64_t j, const float *from)
{
    const int64_t m = least(o->t.m - i, STRIP), n = least(o->t.n - j, STRIP);
    const weft_tensor c = {.dtype = o->s->c, .data = o->c};
    const bool adds = o->s->add && !amx_begins_with_c(o),
               rounds = c.dtype == WEFT_BF16 && n == STRIP && !adds;
    int64_t at = (o->t.i + i) * o->s->c_row + o->t.j + j;
    for (int64_t r = 0; r < m; r++, from += STRIP, at += o->s->c_row)
        if (rounds)
            _mm512_storeu_si512((uint16_t *)o->c + at,
                                (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(from + AMX_ROWS),
                                                             _mm512_loadu_ps(from)));
        else
            store(&c, at, n, from, adds);
}

/* The strip from row i on, by all panels. */
static void amx_strip_by_panels(const amx_product *o, amx_rows a, int64_t i, int64_t squares,
                                bool first, bool last, amx_ahead ahead)
{
    const int64_t m = o->t.m - i;
    const cell *b = o->panels;
    float *sums = o->sums + (o->keeps_sums ? i / STRIP * amx_strips(o->t.n) * BLOCK : 0);
    for (int64_t j = 0; j < o->t.n; j += STRIP, b += squares * 2 * SQUARE) {
        const int64_t n = o->t.n - j;
        const bool direct = o->s->c == WEFT_F32 && m >= STRIP && n >= STRIP,
                   add = !first || amx_begins_with_c(o);
        if (!direct && first && add)
            amx_begin_block(o, i, j, sums);
        if (direct)
            amx_multiply(2, 2, squares, a, b,
                         (float *)o->c + (o->t.i + i) * o->s->c_row + o->t.j + j, o->s->c_row, add,
                         ahead);
        else if (m > AMX_ROWS && n > AMX_ROWS)
            amx_multiply(2, 2, squares, a, b, sums, STRIP, add, ahead);
        else if (m > AMX_ROWS)
            amx_multiply(2, 1, squares, a, b, sums, STRIP, add, ahead);
        else
            amx_multiply(1, 2, squares, a, b, sums, STRIP, add, ahead);
        if (last && !direct)
            amx_store(o, i, j, sums);
        sums += o->keeps_sums ? BLOCK : 0;
        ahead.at += ahead.rows * ahead.stride;
    }
}

static void gemm_amx(const cpu_matmul_shape *s, const void *a, const void *b, void *c, cpu_tile t,
                     float *work)
{
    const int64_t step = amx_step(s->k), panels = amx_strips(t.n);
    const uint16_t *rows = (const uint16_t *)a + t.i * s->a_row,
                   *columns = (const uint16_t *)b + t.j * s->b_col;
    amx_product o = {.s = s, .c = c, .t = t, .strip = (cell *)work, .keeps_sums = step < s->k};
    o.panels = o.strip + STRIP_FLOATS;
    o.sums = work + STRIP_FLOATS + panels * STRIP * step / 2;
    amx_begin(false);
    for (int64_t p = 0; p < s->k; p += step) {
        const int64_t numbers = least(s->k - p, step), squares = amx_squares(numbers);
        for (int64_t j = 0; j < panels; j++)
            amx_pack_b(s, columns + p * s->b_row + j * STRIP * s->b_col, t.n - j * STRIP, numbers,
                       o.panels + j * squares * 2 * SQUARE);
        for (int64_t i = 0; i < t.m; i += STRIP) {
            const uint16_t *at = rows + i * s->a_row + p * s->a_col;
            amx_ahead ahead = {(const char *)(at + STRIP * s->a_row), 2 * s->a_row, 0};
            if (s->a_col == 1 && i + STRIP < t.m)
                ahead.rows = (STRIP + panels - 1) / panels;
            amx_strip_by_panels(&o, amx_strip_at(&o, at, t.m - i, numbers), i, squares, p == 0,
                                p + step >= s->k, ahead);
        }
    }
    tile_end();
}
