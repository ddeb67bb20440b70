/* SPDX-License-Identifier: Apache-2.0 */
/* tile.h's products by AMX: its registers hold 16 rows of 16 cells, and one instruction multiplies
 * two of them onto a third, of f32 (Intel, Architecture Instruction Set Extensions, TMUL). Operands
 * are cells_bf16.h's; what is summed is rounded up to DEEP_REST cells, so the rest must be zeros.
 */
#include <immintrin.h>

enum {
    AMX_ROWS = 16,
    DEEP = 16,     /* cells that one instruction sums */
    DEEP_REST = 8, /* and those of the last, where there are no more */
};

/* Which register is what: 0 to 3 are two rows of two of c. */
#define A_WHOLE 4
#define B_WHOLE 5
#define A_REST  6
#define B_REST  7
enum { AMX_REGISTERS = 8 };

typedef struct __attribute__((packed)) amx_config {
    uint8_t palette, start, reserved[14];
    uint16_t bytes[16]; /* of a row */
    uint8_t rows[16];
} amx_config;

/* GCC is not told that what follows reads more than a pointer. */
#define AMX_READS_MEMORY __asm__ volatile("" ::: "memory")

/* rests: A_REST and B_REST are smaller than the others. */
static void amx_begin(bool rests)
{
    amx_config config = {.palette = 1};
    for (int i = 0; i < AMX_REGISTERS; i++)
        config.bytes[i] = 4 * DEEP, config.rows[i] = AMX_ROWS;
    if (rests)
        config.bytes[A_REST] = 4 * DEEP_REST, config.rows[B_REST] = DEEP_REST;
    AMX_READS_MEMORY;
    _tile_loadconfig(&config);
}

/* Before and behind a thread's products. */
static void tile_begin(void)
{
    amx_begin(true);
}

static void tile_end(void)
{
    _tile_release();
}

/* c[32, 32], or of one half of its rows or columns, = (or +=) a b. The instructions name their
 * registers by constants. */
#define AMX_PRODUCTS(...) AMX_PRODUCTS_OF(__VA_ARGS__)
#define AMX_PRODUCTS_OF(a_register, b_register, at)                                                \
    do {                                                                                           \
        const cell *a = o.a + (at), *b = o.b + (at)*o.b_row;                                       \
        _tile_loadd(a_register, a, 4 * o.a_row);                                                   \
        _tile_loadd(b_register, b, 4 * o.b_row);                                                   \
        _tile_dpbf16ps(0, a_register, b_register);                                                 \
        if (columns == 2) {                                                                        \
            _tile_loadd(b_register, b + AMX_ROWS, 4 * o.b_row);                                    \
            _tile_dpbf16ps(1, a_register, b_register);                                             \
        }                                                                                          \
        if (rows == 2) {                                                                           \
            _tile_loadd(a_register, a + AMX_ROWS * o.a_row, 4 * o.a_row);                          \
            if (columns == 2) {                                                                    \
                _tile_dpbf16ps(3, a_register, b_register);                                         \
                _tile_loadd(b_register, b, 4 * o.b_row);                                           \
            }                                                                                      \
            _tile_dpbf16ps(2, a_register, b_register);                                             \
        }                                                                                          \
    } while (0)

/* do_(register, where it lies, bytes of a row) for each square of c, of so many rows and columns.
 */
#define AMX_OF_C(do_, number, there, c, pitch, row, column)                                        \
    if (there)                                                                                     \
    do_(number, (c) + ((row) * (pitch) + (column)) * AMX_ROWS, 4 * (pitch))

#define AMX_EACH_C(do_, rows, columns, c, pitch)                                                   \
    AMX_OF_C(do_, 0, true, c, pitch, 0, 0);                                                        \
    AMX_OF_C(do_, 1, (columns) == 2, c, pitch, 0, 1);                                              \
    AMX_OF_C(do_, 2, (rows) == 2, c, pitch, 1, 0);                                                 \
    AMX_OF_C(do_, 3, (rows) == 2 && (columns) == 2, c, pitch, 1, 1)

#define AMX_ZERO(number, at, stride) _tile_zero(number)

static inline __attribute__((always_inline)) void amx_block(int rows, int columns, int64_t k,
                                                            operands o, bool add)
{
    int64_t p = 0;
    AMX_READS_MEMORY;
    if (add) {
        AMX_EACH_C(_tile_loadd, rows, columns, o.c, o.c_row);
    } else {
        AMX_EACH_C(AMX_ZERO, rows, columns, o.c, o.c_row);
    }
    for (; p + DEEP_REST < k; p += DEEP)
        AMX_PRODUCTS(A_WHOLE, B_WHOLE, p);
    if (p < k)
        AMX_PRODUCTS(A_REST, B_REST, p);
    AMX_EACH_C(_tile_stored, rows, columns, o.c, o.c_row);
}

/* Fewer than AMX_ROWS rows: c's own are all that is written. */
static void amx_few(int columns, int64_t m, int64_t k, operands o, bool add)
{
    float whole[AMX_ROWS * 2 * AMX_ROWS] = {0};
    float *c = o.c;
    const int64_t c_row = o.c_row, width = columns * AMX_ROWS;
    for (int64_t i = 0; i < m && add; i++)
        memcpy(whole + i * width, c + i * c_row, (size_t)width * sizeof *c);
    o.c = whole, o.c_row = width;
    if (columns == 2)
        amx_block(1, 2, k, o, add);
    else
        amx_block(1, 1, k, o, add);
    for (int64_t i = 0; i < m; i++)
        memcpy(c + i * c_row, whole + i * width, (size_t)width * sizeof *c);
}

/* One strip of 16 or 32 columns, m rows. */
static inline __attribute__((always_inline)) void amx_strip(int columns, int64_t m, int64_t k,
                                                            operands o, bool add)
{
    for (; m >= 2 * AMX_ROWS; m -= 2 * AMX_ROWS) {
        amx_block(2, columns, k, o, add);
        o.a += 2 * AMX_ROWS * o.a_row, o.c += 2 * AMX_ROWS * o.c_row;
    }
    if (m >= AMX_ROWS) {
        amx_block(1, columns, k, o, add);
        o.a += AMX_ROWS * o.a_row, o.c += AMX_ROWS * o.c_row, m -= AMX_ROWS;
    }
    if (m > 0)
        amx_few(columns, m, k, o, add);
}

/* ---- turning ---- */

/* 16 rows of 16 cells become 16 columns. */
static inline __attribute__((always_inline)) void turn(__m512i x[AMX_ROWS])
{
    __m512i y[AMX_ROWS];
#pragma GCC unroll 8
    for (int r = 0; r < AMX_ROWS; r += 2) { /* pairs of rows: a0 b0 a1 b1 */
        y[r] = _mm512_unpacklo_epi32(x[r], x[r + 1]);
        y[r + 1] = _mm512_unpackhi_epi32(x[r], x[r + 1]);
    }
#pragma GCC unroll 4
    for (int r = 0; r < AMX_ROWS; r += 4) { /* fours: column c of each quarter in x[r + c] */
        x[r] = _mm512_unpacklo_epi64(y[r], y[r + 2]);
        x[r + 1] = _mm512_unpackhi_epi64(y[r], y[r + 2]);
        x[r + 2] = _mm512_unpacklo_epi64(y[r + 1], y[r + 3]);
        x[r + 3] = _mm512_unpackhi_epi64(y[r + 1], y[r + 3]);
    }
#pragma GCC unroll 4
    for (int c = 0; c < 4; c++) { /* a column of each quarter, from each of the four fours */
        const __m512i low = _mm512_shuffle_i32x4(x[c], x[4 + c], 0x88),
                      low_odd = _mm512_shuffle_i32x4(x[c], x[4 + c], 0xdd),
                      high = _mm512_shuffle_i32x4(x[8 + c], x[12 + c], 0x88),
                      high_odd = _mm512_shuffle_i32x4(x[8 + c], x[12 + c], 0xdd);
        y[c] = _mm512_shuffle_i32x4(low, high, 0x88);
        y[4 + c] = _mm512_shuffle_i32x4(low_odd, high_odd, 0x88);
        y[8 + c] = _mm512_shuffle_i32x4(low, high, 0xdd);
        y[12 + c] = _mm512_shuffle_i32x4(low_odd, high_odd, 0xdd);
    }
#pragma GCC unroll 16
    for (int e = 0; e < AMX_ROWS; e++)
        x[e] = y[e];
}

/* 16 rows of 16 cells, `stride` numbers apart; of fewer rows and numbers the rest is zero. */
static inline __attribute__((always_inline)) void rows_of_cells(const uint16_t *from,
                                                                int64_t stride, int64_t rows,
                                                                int64_t numbers,
                                                                __m512i x[AMX_ROWS])
{
    const __mmask32 there = numbers < 2 * DEEP ? ((__mmask32)1 << numbers) - 1 : ~(__mmask32)0;
#pragma GCC unroll 16
    for (int r = 0; r < AMX_ROWS; r++)
        x[r] =
            r < rows ? _mm512_maskz_loadu_epi16(there, from + r * stride) : _mm512_setzero_si512();
}

/* to[e][i] = from[i][e] of `rows` rows of `width` cells, to rows of CPU_TILE; places beyond `rows`,
 * to the next multiple of AMX_ROWS, are zero. */
static void tile_turn(const cell *from, int64_t rows, int64_t width, cell *to)
{
    for (int64_t i = 0; i < rows; i += AMX_ROWS)
        for (int64_t e = 0; e < width; e += DEEP) {
            __m512i x[AMX_ROWS];
            rows_of_cells((const uint16_t *)(from + i * width + e), 2 * width, rows - i,
                          2 * (width - e), x);
            turn(x);
#pragma GCC unroll 16
            for (int r = 0; r < DEEP; r++)
                if (e + r < width)
                    _mm512_storeu_si512(to + (e + r) * CPU_TILE + i, x[r]);
        }
}

/* n: a multiple of AMX_ROWS. An a whose columns lie together is turned first. */
static __attribute__((noinline)) void tile_product(int64_t m, int64_t n, int64_t k, operands o,
                                                   bool add)
{
    cell turned[CPU_TILE * CPU_TILE];
    if (o.a_col != 1) {
        tile_turn(o.a, k, o.a_col, turned);
        o.a = turned, o.a_row = CPU_TILE, o.a_col = 1;
    }
    for (; n >= 2 * AMX_ROWS; n -= 2 * AMX_ROWS, o.b += 2 * AMX_ROWS, o.c += 2 * AMX_ROWS)
        amx_strip(2, m, k, o, add);
    if (n > 0)
        amx_strip(1, m, k, o, add);
}
