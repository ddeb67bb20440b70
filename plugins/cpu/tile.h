/* SPDX-License-Identifier: Apache-2.0 */
/* Small dense matrices that lie in the cache: what attention is made of. Operands are cells, of 4
 * bytes each: a number in f32, or two in bf16 that are multiplied and summed at once. Before this
 * stands which: cells_f32.h or cells_bf16.h; behind it, what multiplies them: tile_vectors.h or
 * tile_amx.h. */

/* a[i, k] at i * a_row + k * a_col; b and c row-major. */
typedef struct operands {
    const cell *a, *b;
    float *c;
    int64_t a_row, a_col, b_row, c_row;
} operands;

/* rows x d of a tile, times `by`, to the tensor. */
static void tile_store(const weft_tensor *t, int64_t at, int64_t stride, int64_t rows, int64_t d,
                       int64_t padded, float by, float *from)
{
    for (int64_t i = 0; i < rows; i++, from += padded) {
#pragma omp simd
        for (int64_t e = 0; e < d; e++)
            from[e] *= by;
        store(t, at + i * stride, d, from, false);
    }
}
