/* SPDX-License-Identifier: Apache-2.0 */
/* Operands of products in 8 bits: what matrix instructions multiply has the contracted dim last, in
 * multiples of 16, and scales to multiply by; or is widened, where there are no such instructions.
 */
#include "kernel.h"

WEFT_KERNEL(f8_inverse, cuda_f8_inverse_args, CUDA_THREADS)
{
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.a_n + a.b_n;
         i += (int64_t)gridDim.x * blockDim.x) {
        int64_t k = i - a.a_n;
        if (k < 0)
            a.a_out[i] = 1.0f / a.a[i * a.a_step];
        else
            a.b_out[k] = 1.0f / a.b[k * a.b_step];
    }
}

/* ---- turned: a block has a tile of 64 x 64, in words of four columns ---- */

enum { SIDE = 64, WORDS = SIDE / 4 };

/* Sixteen columns of a row from `column` on; zeros beyond. */
static __device__ inline uint4 load16(const cuda_f8_args &a, int64_t row, int64_t column)
{
    const uint8_t *p = a.in + row * a.width + column;
    uint32_t w[4] = {0, 0, 0, 0};
    if (row >= a.rows || column >= a.width)
        return make_uint4(0, 0, 0, 0);
    if (column + 16 <= a.width && ((uintptr_t)p & 15) == 0)
        return *(const uint4 *)p;
    _Pragma("unroll") for (int i = 0; i < 16; i++) w[i / 4] |=
        column + i < a.width ? (uint32_t)p[i] << 8 * (i & 3) : 0u;
    return make_uint4(w[0], w[1], w[2], w[3]);
}

/* Four rows of a column. */
static __device__ inline uint32_t gather4(const uint32_t tile[SIDE][WORDS + 1], int row, int column)
{
    uint32_t word = 0;
    _Pragma("unroll") for (int i = 0; i < 4; i++) word |=
        (tile[row + i][column >> 2] >> 8 * (column & 3) & 0xffu) << 8 * i;
    return word;
}

/* Grid: rows up to the pitch; columns, or some of them. */
WEFT_KERNEL(f8_turn, cuda_f8_args, CUDA_THREADS)
{
    __shared__ uint32_t tile[SIDE][WORDS + 1];
    int64_t row = (int64_t)blockIdx.x * SIDE, step = (int64_t)gridDim.y * SIDE;
    int i = (int)threadIdx.x >> 2, from = ((int)threadIdx.x & 3) * 16;
    uint32_t *to = &tile[i][from >> 2];
    for (int64_t column = (int64_t)blockIdx.y * SIDE; column < a.width; column += step) {
        uint4 word = load16(a, row + i, column + from);
        __syncthreads(); /* behind who still reads the tile before */
        to[0] = word.x, to[1] = word.y, to[2] = word.z, to[3] = word.w;
        __syncthreads();
        if (column + i < a.width && row + from < a.pitch)
            *(uint4 *)((uint8_t *)a.out + (column + i) * a.pitch + row + from) =
                make_uint4(gather4(tile, from, i), gather4(tile, from + 4, i),
                           gather4(tile, from + 8, i), gather4(tile, from + 12, i));
    }
}

/* ---- widened ---- */

/* The exponent is moved to where f32 has it and put right by a power of two: exact, for small
 * numbers as well. */
static __device__ inline float from_f8(uint32_t code, int e5m2)
{
    uint32_t sign = (code & 0x80u) << 24, u = code & 0x7fu;
    if (e5m2) {
        float x = u >= 0x7cu ? __uint_as_float(0x7f800000u | u << 21)
                             : __uint_as_float(u << 21) * 5.192296858534828e33f; /* 2^112 */
        return __uint_as_float(__float_as_uint(x) | sign);
    }
    float x = u == 0x7fu ? __uint_as_float(0x7fc00000u)
                         : __uint_as_float(u << 20) * 1.329227995784916e36f; /* 2^120 */
    return __uint_as_float(__float_as_uint(x) | sign);
}

WEFT_KERNEL(f8_widen, cuda_f8_args, CUDA_THREADS)
{
    int64_t n = a.rows * a.width;
    const cuda_view out = {a.out, WEFT_BF16};
    FOR_CHUNKS(i, n)
    {
        int64_t row = i / a.width, column = i - row * a.width;
        uint2 codes = make_uint2(0, 0);
        float x[8];
        if (i + 8 <= n)
            codes = *(const uint2 *)(a.in + i);
        else
            for (int k = 0; i + k < n; k++)
                (k < 4 ? codes.x : codes.y) |= (uint32_t)a.in[i + k] << 8 * (k & 3);
        EACH8(k)
        {
            if (column == a.width) {
                row++;
                column = 0;
            }
            float scale = i + k < n ? a.scale[a.by_row ? row : a.by_column ? column : 0] : 1.0f;
            x[k] = from_f8((k < 4 ? codes.x : codes.y) >> 8 * (k & 3) & 0xffu, a.e5m2) / scale;
            column++;
        }
        store8(out, i, n, x);
    }
}
