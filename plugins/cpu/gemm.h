/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products of our own, for builds without oneDNN. The result is cut into tiles of fixed
 * size, each computed by one thread over the whole of k, so the bits do not depend on threads. */

/* b is copied into the cache, in rows of whole vectors, GEMM_DEPTH of them at a time. */
enum { GEMM_DEPTH = 256 };
_Static_assert(CPU_GEMM_FLOATS == (CPU_GEMM_ROWS + GEMM_DEPTH) * CPU_GEMM_COLUMNS,
               "a thread's memory is a tile of c and a panel of b");

static void gemm_pack(const cpu_matmul_shape *s, const float *b, int64_t depth, int64_t n,
                      int64_t padded, float *to)
{
    if (s->b_col == 1)
        for (int64_t p = 0; p < depth; p++)
            memcpy(to + p * padded, b + p * s->b_row, (size_t)n * sizeof *to);
    else
        for (int64_t j = 0; j < n; j++)
            for (int64_t p = 0; p < depth; p++)
                to[p * padded + j] = b[p * s->b_row + j * s->b_col];
    for (int64_t p = 0; p < depth && n < padded; p++)
        memset(to + p * padded + n, 0, (size_t)(padded - n) * sizeof *to);
}

/* The tile of c that begins at row i, column j; work: CPU_GEMM_FLOATS of the thread's own. */
static void gemm_tile(const cpu_matmul_shape *s, const float *a, const float *b, float *c,
                      int64_t i, int64_t j, float *work)
{
    int64_t m = least(s->m - i, CPU_GEMM_ROWS), n = least(s->n - j, CPU_GEMM_COLUMNS);
    int64_t padded = (n + CPU_PAD - 1) / CPU_PAD * CPU_PAD;
    float *panel = work + CPU_GEMM_ROWS * CPU_GEMM_COLUMNS;
    operands o = {.b = panel,
                  .c = work,
                  .a_row = s->a_row,
                  .a_col = s->a_col,
                  .b_row = padded,
                  .c_row = padded};
    for (int64_t p = 0; p < s->k; p += GEMM_DEPTH) {
        int64_t depth = least(s->k - p, GEMM_DEPTH);
        gemm_pack(s, b + p * s->b_row + j * s->b_col, depth, n, padded, panel);
        o.a = a + i * s->a_row + p * s->a_col;
        tile_product(m, padded, depth, o, p > 0);
    }
    for (int64_t r = 0; r < m; r++) {
        float *to = c + (i + r) * s->c_row + j, *from = work + r * padded;
#pragma omp simd
        for (int64_t e = 0; e < n; e++)
            to[e] = s->add ? to[e] + from[e] : from[e];
    }
}
