/* SPDX-License-Identifier: Apache-2.0 */
/* A tile of a matrix product of bf16, by AMX.
 *
 * Blocks of c, STRIP x STRIP, lie in registers, and AMX_DEEP terms of their sums are taken at a
 * time. Of AMX_PACKED, columns of b are packed into panels that stay in the second cache, square by
 * square as the registers take them; each strip of a's rows stays in the first while all panels
 * stream by. It is read where it lies if its rows are dense; else AMX_GROUP strips are packed
 * together, so that lines of memory that lie side by side are read together. Sums that are not done
 * yet lie in the second cache, those of f32 in c itself. */

enum {
    AMX_TILE_ROWS = 1024,
    AMX_TILE_COLUMNS = 512,
    AMX_DEEP = 512,           /* numbers of a sum at a time, at most */
    AMX_DEEP_TURNED = 384,    /* and where a is packed */
    AMX_PACKED = 1024,        /* of which b is packed */
    AMX_GROUP = 4,            /* strips */
    AMX_PAST = 1 << 25,       /* elements of c that are written past the caches */
    STRIP = 2 * AMX_ROWS,     /* rows of a, and columns of b */
    SQUARE = AMX_ROWS * DEEP, /* cells of a register */
    BLOCK = STRIP * STRIP,
};

typedef struct amx_product {
    const cpu_matmul_shape *s;
    const uint16_t *a, *b; /* of the tile */
    void *c;
    cpu_tile t;
    int64_t step, packed; /* numbers: amx_even */
    cell *strips, *panels;
    float *sums; /* blocks: one, or a strip's, or all of the tile */
} amx_product;

/* A strip: where its squares lie. */
typedef struct amx_rows {
    const cell *at;
    int64_t bytes, lower, step; /* of a row; cells to the lower square and to the next of a sum */
} amx_rows;

/* The strip that is multiplied next, of which some lines of memory are asked for with each square:
 * bytes from one to the next, and from what one square asks for to what the next does. */
typedef struct amx_ahead {
    const char *at;
    int64_t lines, line, square, panel;
} amx_ahead;

static inline int64_t amx_squares(int64_t numbers)
{
    return (numbers + 2 * DEEP - 1) / (2 * DEEP);
}

static inline int64_t amx_strips(int64_t extent)
{
    return (extent + STRIP - 1) / STRIP;
}

/* Whole squares, `most` numbers at most, so that about as many are taken each time. */
static int64_t amx_even(int64_t numbers, int64_t most)
{
    const int64_t squares = amx_squares(numbers), times = (numbers + most - 1) / most;
    return (squares + times - 1) / times * (2 * DEEP);
}

/* Of how many b is packed: what a second cache holds, so that few sums are kept. Where a is packed,
 * too, no more than are summed at a time. */
static int64_t amx_packed(const cpu_matmul_shape *s)
{
    return amx_even(s->k, s->a_col == 1 ? AMX_PACKED : AMX_DEEP_TURNED);
}

enum {
    STRIP_FLOATS = 2 * SQUARE * AMX_DEEP / (2 * DEEP),
    GROUP_FLOATS = AMX_GROUP * STRIP_FLOATS,
};
_Static_assert((int)AMX_DEEP_TURNED <= (int)AMX_DEEP,
               "one step of a packed group is packed at once");

/* Cells and floats are of one size. */
static int64_t amx_floats(const cpu_matmul_shape *s)
{
    const int64_t packed = amx_packed(s), step = amx_even(packed, AMX_DEEP),
                  columns = amx_strips(least(s->n, AMX_TILE_COLUMNS)),
                  strips = packed < s->k ? amx_strips(least(s->m, AMX_TILE_ROWS)) : 1,
                  blocks = step < s->k ? columns * strips : 1;
    return GROUP_FLOATS + columns * STRIP * (packed + step) / 2 + blocks * BLOCK;
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

/* Up to STRIP lines of up to 2 DEEP numbers of a sum to two squares: a's rows, or b's columns,
 * whose squares are turned. What is not there is zero. */
static inline __attribute__((always_inline)) void amx_pack(const uint16_t *from, int64_t line,
                                                           int64_t number, int64_t lines,
                                                           int64_t numbers, bool turned, cell *to)
{
    for (int64_t i = 0; i < STRIP && i < lines; i += AMX_ROWS) {
        __m512i x[AMX_ROWS];
        if (number == 1)
            rows_of_cells(from + i * line, line, lines - i, numbers, x);
        else
            amx_beside(from + i * line, number, numbers, lines - i, x);
        if ((number == 1) == turned)
            turn(x);
#pragma GCC unroll 16
        for (int r = 0; r < AMX_ROWS; r++)
            _mm512_store_si512(to + i * DEEP + r * DEEP, x[r]);
    }
}

static inline __attribute__((always_inline)) void amx_fetch(const uint16_t *from, int64_t stride)
{
#pragma GCC unroll 32
    for (int r = 0; r < 2 * DEEP; r++)
        __builtin_prefetch(from + r * stride, 0, 2);
}

/* Strips of a, STRIP_FLOATS apart. */
static __attribute__((noinline)) void amx_pack_a(const cpu_matmul_shape *s, const uint16_t *a,
                                                 int64_t rows, int64_t numbers, cell *to)
{
    for (int64_t p = 0; p < numbers; p += 2 * DEEP, to += 2 * SQUARE)
        for (int64_t i = 0; i < rows; i += STRIP) {
            const uint16_t *at = a + i * s->a_row + p * s->a_col;
            cell *strip = to + i / STRIP * STRIP_FLOATS;
            if (s->a_col == 1)
                amx_pack(at, s->a_row, 1, rows - i, numbers - p, false, strip);
            else
                amx_pack(at, 1, s->a_col, rows - i, numbers - p, false, strip);
        }
}

/* Panels of b, in the order in which b lies in memory. What is packed next is asked for. */
static __attribute__((noinline)) void amx_pack_b(const cpu_matmul_shape *s, const uint16_t *b,
                                                 int64_t columns, int64_t numbers, cell *to)
{
    const int64_t panel = amx_squares(numbers) * 2 * SQUARE;
    if (s->b_row == 1) {
        for (int64_t j = 0; j < columns; j += STRIP)
            for (int64_t p = 0; p < numbers; p += 2 * DEEP, to += 2 * SQUARE) {
                const uint16_t *at = b + j * s->b_col + p;
                amx_fetch(at + STRIP * s->b_col, s->b_col);
                amx_pack(at, s->b_col, 1, columns - j, numbers - p, true, to);
            }
        return;
    }
    for (int64_t p = 0; p < numbers; p += 2 * DEEP, to += 2 * SQUARE)
        for (int64_t j = 0; j < columns; j += STRIP) {
            const uint16_t *at = b + p * s->b_row + j;
            amx_fetch(at + 2 * DEEP * s->b_row, s->b_row);
            amx_pack(at, 1, s->b_row, columns - j, numbers - p, true, to + j / STRIP * panel);
        }
}

/* Strips from one row on that are packed together. */
static inline int64_t amx_together(const cpu_matmul_shape *s)
{
    return s->a_col == 1 ? 1 : AMX_GROUP;
}

/* The strip from row i on. Rows of whole squares are read where they lie. */
static amx_rows amx_strip_at(const amx_product *o, int64_t i, int64_t p, int64_t numbers)
{
    const cpu_matmul_shape *s = o->s;
    const uint16_t *a = o->a + i * s->a_row + p * s->a_col;
    const int64_t rows = o->t.m - i, in_group = i / STRIP % amx_together(s);
    if (s->a_col == 1 && numbers % (2 * DEEP) == 0 && (rows >= STRIP || rows == AMX_ROWS))
        return (amx_rows){.at = (const cell *)(const void *)a,
                          .bytes = 2 * s->a_row,
                          .lower = AMX_ROWS * s->a_row / 2,
                          .step = DEEP};
    if (in_group == 0)
        amx_pack_a(s, a, least(rows, STRIP * amx_together(s)), numbers, o->strips);
    return (amx_rows){.at = o->strips + in_group * STRIP_FLOATS,
                      .bytes = 4 * DEEP,
                      .lower = SQUARE,
                      .step = 2 * SQUARE};
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
        for (int64_t r = 0; r < ahead.lines; r++)
            __builtin_prefetch(ahead.at + p * ahead.square + r * ahead.line, 0, 2);
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

/* bf16 results that no cache will hold until they are read are written past it. */
static inline void amx_round(const float *from, uint16_t *to, bool past)
{
    const __m512i x =
        (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(from + AMX_ROWS), _mm512_loadu_ps(from));
    if (past && (uintptr_t)to % (4 * DEEP) == 0)
        _mm512_stream_si512((__m512i *)(void *)to, x);
    else
        _mm512_storeu_si512(to, x);
}

/* A block of sums, to c. What AMX takes for zero, denormals, is zero here, too. */
static void amx_store(const amx_product *o, int64_t i, int64_t j, const float *from)
{
    const int64_t m = least(o->t.m - i, STRIP), n = least(o->t.n - j, STRIP);
    const weft_tensor c = {.dtype = o->s->c, .data = o->c};
    const bool adds = o->s->add && !amx_begins_with_c(o),
               rounds = c.dtype == WEFT_BF16 && n == STRIP && !adds,
               past = o->s->m * o->s->n >= AMX_PAST;
    int64_t at = (o->t.i + i) * o->s->c_row + o->t.j + j;
    for (int64_t r = 0; r < m; r++, from += STRIP, at += o->s->c_row)
        if (rounds)
            amx_round(from, (uint16_t *)o->c + at, past);
        else
            store(&c, at, n, from, adds);
}

/* The strip from row i on, and b's panels of numbers from p on. */
static void amx_strip_by_panels(const amx_product *o, amx_rows a, const cell *b, int64_t i,
                                int64_t p, int64_t squares, amx_ahead ahead)
{
    const int64_t m = o->t.m - i, k = o->s->k;
    const bool add = p > 0 || amx_begins_with_c(o), last = p + o->step >= k;
    float *sums = o->sums + (o->packed < k ? i / STRIP * amx_strips(o->t.n) * BLOCK : 0);
    for (int64_t j = 0; j < o->t.n; j += STRIP, b += squares * 2 * SQUARE) {
        const int64_t n = o->t.n - j;
        const bool direct = o->s->c == WEFT_F32 && m >= STRIP && n >= STRIP;
        if (!direct && p == 0 && add)
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
        sums += o->step < k ? BLOCK : 0;
        ahead.at += ahead.panel;
    }
}

/* What is multiplied behind rows from i on and numbers from p on, of those from `first` to `end`:
 * rows if they are dense, else lines of one number each. */
static amx_ahead amx_ahead_of(const amx_product *o, int64_t i, int64_t p, int64_t first,
                              int64_t end)
{
    const cpu_matmul_shape *s = o->s;
    p += o->step;
    if (p >= end)
        p = first, i += STRIP * amx_together(s);
    if (i >= o->t.m)
        p = end, i = 0;
    if (p >= s->k)
        return (amx_ahead){0};
    const int64_t squares = amx_squares(least(end - p, o->step)), panels = amx_strips(o->t.n),
                  lines = (STRIP + panels - 1) / panels, row = 2 * s->a_row, number = 2 * s->a_col;
    const char *at = (const char *)(o->a + i * s->a_row + p * s->a_col);
    if (s->a_col == 1)
        return (amx_ahead){at, lines, row, 4 * DEEP, lines * row};
    return (amx_ahead){at, lines, number, lines * number, squares * lines * number};
}

/* All of the tile's rows, by b's numbers from `first` on. */
static void amx_numbers(const amx_product *o, int64_t first)
{
    const cpu_matmul_shape *s = o->s;
    const int64_t end = least(first + o->packed, s->k), width = amx_strips(o->t.n) * STRIP / 2;
    for (int64_t p = first; p < end; p += o->step)
        amx_pack_b(s, o->b + p * s->b_row, o->t.n, least(end - p, o->step),
                   o->panels + (p - first) * width);
    for (int64_t i = 0; i < o->t.m; i += STRIP)
        for (int64_t p = first; p < end; p += o->step) {
            const int64_t numbers = least(end - p, o->step);
            amx_strip_by_panels(o, amx_strip_at(o, i, p, numbers), o->panels + (p - first) * width,
                                i, p, amx_squares(numbers), amx_ahead_of(o, i, p, first, end));
        }
}

static void gemm_amx(const cpu_matmul_shape *s, const void *a, const void *b, void *c, cpu_tile t,
                     float *work)
{
    amx_product o = {.s = s, .c = c, .t = t, .strips = (cell *)work};
    o.a = (const uint16_t *)a + t.i * s->a_row;
    o.b = (const uint16_t *)b + t.j * s->b_col;
    o.packed = amx_packed(s);
    o.step = amx_even(o.packed, AMX_DEEP);
    o.panels = o.strips + GROUP_FLOATS;
    o.sums = work + GROUP_FLOATS + amx_strips(t.n) * STRIP * (o.packed + o.step) / 2;
    amx_begin(false);
    for (int64_t p = 0; p < s->k; p += o.packed)
        amx_numbers(&o, p);
    tile_end();
    _mm_sfence(); /* what was written past the caches is seen by all */
}
