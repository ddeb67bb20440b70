/* SPDX-License-Identifier: Apache-2.0 */
/* Products of tiles, held in registers: tile.h's by vectors. */

enum { CPU_LINE = 16 }; /* floats of a cache line */

/* Rows and vectors of c that fit in the registers with a row of b. */
enum { TILE_ROWS = 6, TILE_VECTORS = CPU_VECTOR == 16 ? 4 : 2 };

/* c[m, v vectors] = (or +=) a[m, k] b[k, ...]. m and v are constants where this is inlined. Of c's
 * next rows `ahead` columns are fetched meanwhile. */
static inline __attribute__((always_inline)) void tile_block(int m, int v, int64_t k, operands o,
                                                             int64_t ahead, bool add)
{
    vector sum[TILE_ROWS][TILE_VECTORS];
#pragma GCC unroll 8
    for (int i = 0; i < m; i++)
#pragma GCC unroll 8
        for (int j = 0; j < v; j++)
            sum[i][j] = add ? (vector) * (const vector_at *)(o.c + i * o.c_row + j * CPU_VECTOR)
                            : (vector){0.0f};
    for (int64_t e = 0; e < ahead; e += CPU_LINE)
#pragma GCC unroll 8
        for (int i = 0; i < m; i++)
            __builtin_prefetch(o.c + (m + i) * o.c_row + e, 1);
    for (int64_t p = 0; p < k; p++) {
        const cell *b = o.b + p * o.b_row, *a = o.a + p * o.a_col;
#pragma GCC unroll 8
        for (int i = 0; i < m; i++) {
            cell ai = a[i * o.a_row];
#pragma GCC unroll 8
            for (int j = 0; j < v; j++)
                sum[i][j] = cells_fma(ai, b + j * CPU_VECTOR, sum[i][j]);
        }
    }
#pragma GCC unroll 8
    for (int i = 0; i < m; i++)
#pragma GCC unroll 8
        for (int j = 0; j < v; j++)
            *(vector_at *)(o.c + i * o.c_row + j * CPU_VECTOR) = sum[i][j];
}

/* One strip of v vectors, less than TILE_ROWS rows. */
static inline __attribute__((always_inline)) void tile_rest(int v, int64_t m, int64_t k, operands o,
                                                            int64_t ahead, bool add)
{
    if (m >= 4) {
        tile_block(4, v, k, o, ahead, add);
        o.a += 4 * o.a_row, o.c += 4 * o.c_row, m -= 4;
    }
    if (m >= 2) {
        tile_block(2, v, k, o, ahead, add);
        o.a += 2 * o.a_row, o.c += 2 * o.c_row, m -= 2;
    }
    if (m > 0)
        tile_block(1, v, k, o, ahead, add);
}

/* One strip of v vectors, m rows. */
static inline __attribute__((always_inline)) void tile_strip(int v, int64_t m, int64_t k,
                                                             operands o, bool add)
{
    while (m >= TILE_ROWS) {
        tile_block(TILE_ROWS, v, k, o, 0, add);
        o.a += TILE_ROWS * o.a_row, o.c += TILE_ROWS * o.c_row, m -= TILE_ROWS;
    }
    tile_rest(v, m, k, o, 0, add);
}

/* n: a multiple of CPU_PAD. */
static __attribute__((noinline)) void tile_product(int64_t m, int64_t n, int64_t k, operands o,
                                                   bool add)
{
    while (n >= TILE_VECTORS * CPU_VECTOR) {
        tile_strip(TILE_VECTORS, m, k, o, add);
        o.b += TILE_VECTORS * CPU_VECTOR, o.c += TILE_VECTORS * CPU_VECTOR,
            n -= TILE_VECTORS * CPU_VECTOR;
    }
    for (; n > 0; n -= CPU_VECTOR, o.b += CPU_VECTOR, o.c += CPU_VECTOR)
        tile_strip(1, m, k, o, add);
}

/* to[e][i] = from[i][e] of `rows` rows of `width` cells, to rows of CPU_TILE; places beyond `rows`,
 * to the next multiple of CPU_PAD, are zero. Whole lines of `to` are written at a time. */
static void tile_turn(const cell *from, int64_t rows, int64_t width, cell *to)
{
    for (int64_t i = 0; i < rows; i += CPU_PAD) {
        int64_t n = rows - i < CPU_PAD ? rows - i : CPU_PAD;
        for (int64_t e = 0; e < width && n == CPU_PAD; e++)
#pragma GCC unroll 16
            for (int r = 0; r < CPU_PAD; r++)
                to[e * CPU_TILE + i + r] = from[(i + r) * width + e];
        for (int64_t e = 0; e < width && n < CPU_PAD; e++)
            for (int64_t r = 0; r < CPU_PAD; r++)
                to[e * CPU_TILE + i + r] = r < n ? from[(i + r) * width + e] : 0;
    }
}

/* Before and behind a thread's products. */
static inline void tile_begin(void)
{
}

static inline void tile_end(void)
{
}
