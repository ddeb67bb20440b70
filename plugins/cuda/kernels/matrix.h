/* SPDX-License-Identifier: Apache-2.0 */
/* Matrices of bf16 for matrix instructions: tiles [rows][D] in shared memory, and operands of 16 by
 * 16 elements from there. */
#ifndef WEFT_CUDA_MATRIX_H
#define WEFT_CUDA_MATRIX_H

#include "kernel.h"

/* Words of 16 bytes are xored with the row, so that neither rows nor columns meet in one bank. */
template <int D> static __device__ inline uint16_t *at(uint16_t *tile, int row, int column)
{
    const int turn = D >= 64 ? row & 7 : row >> 1 & 3;
    return tile + row * D + (((column >> 3) ^ turn) << 3) + (column & 7);
}

/* Operand A: 16 rows from `row` on, 16 columns from `column` on. */
template <int D>
static __device__ inline void load_a(uint32_t r[4], uint16_t *tile, int row, int column)
{
    int lane = (int)threadIdx.x & 31;
    ldmatrix_x4(r, at<D>(tile, row + (lane & 15), column + (lane >> 4) * 8));
}

/* Operand A, transposed as it lies: tile[k][m]; 16 k from `row` on, 16 m from `column` on. */
template <int D>
static __device__ inline void load_a_trans(uint32_t r[4], uint16_t *tile, int row, int column)
{
    int lane = (int)threadIdx.x & 31;
    ldmatrix_x4_trans(
        r, at<D>(tile, row + (lane >> 4) * 8 + (lane & 7), column + (lane >> 3 & 1) * 8));
}

/* Operand B, transposed as it lies: tile[n][k]; 16 n from `row` on, 16 k from `column` on. r[0] and
 * r[1] are of the first 8 n, r[2] and r[3] of the others. */
template <int D>
static __device__ inline void load_b(uint32_t r[4], uint16_t *tile, int row, int column)
{
    int lane = (int)threadIdx.x & 31;
    ldmatrix_x4(r, at<D>(tile, row + (lane >> 4) * 8 + (lane & 7), column + (lane >> 3 & 1) * 8));
}

/* Operand B as it lies: tile[k][n]; 16 k from `row` on, 16 n from `column` on. */
template <int D>
static __device__ inline void load_b_trans(uint32_t r[4], uint16_t *tile, int row, int column)
{
    int lane = (int)threadIdx.x & 31;
    ldmatrix_x4_trans(r, at<D>(tile, row + (lane & 15), column + (lane >> 4) * 8));
}

/* Two neighbouring results of a row, as its dtype has them. */
static __device__ inline void put_pair(const cuda_view &v, int64_t i, float x, float y, bool add)
{
    if (v.dtype == WEFT_BF16 && !add && (i & 1) == 0) {
        ((uint32_t *)v.data)[i / 2] = pack_bf16(x, y);
    } else {
        put_or_add(v, i, x, add);
        put_or_add(v, i + 1, y, add);
    }
}

#endif
