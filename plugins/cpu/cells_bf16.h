/* SPDX-License-Identifier: Apache-2.0 */
/* Operands of tile.h and of attention in bf16: a cell is two numbers that a product multiplies and
 * sums at once, in f32 (AVX512-BF16's dot products). Which two depends on the index that is summed:
 *
 *     a tile [i, j] summed over j: [i, j / 2], neighbours in memory       (loaded, along)
 *     a tile [i, j] summed over i: [i / 2, j], from rows 2 i and 2 i + 1  (beside, across)
 *
 * Weights and their gradients are rounded to bf16 where they are operands; q, k, v and dout are
 * what the tensors hold. */
#include <immintrin.h>

typedef uint32_t cell;

enum { CELLS = 2 }; /* numbers in one */

/* sum + a * b[0 ...], both numbers of each */
static inline vector cells_fma(cell a, const cell *b, vector sum)
{
    return (vector)_mm512_dpbf16_ps((__m512)sum, (__m512bh)_mm512_set1_epi32((int)a),
                                    (__m512bh)_mm512_loadu_si512(b));
}

/* rows x d elements of t, `stride` apart, to rows of `padded` numbers whose rest is zero. Nothing
 * is multiplied: that would round. */
static void cells_load(const weft_tensor *t, int64_t at, int64_t stride, int64_t rows, int64_t d,
                       int64_t padded, float by, cell *to)
{
    const uint16_t *from = (const uint16_t *)t->data + at;
    (void)by;
    for (int64_t i = 0; i < rows; i++, to += padded / 2, from += stride) {
        memcpy(to, from, (size_t)d * sizeof *from);
        memset((uint16_t *)to + d, 0, (size_t)(padded - d) * sizeof *from);
    }
}

/* The factor of queries is that of scores. */
static inline float cells_load_factor(double factor)
{
    (void)factor;
    return 1.0f;
}

static void cells_scale(float *scores, int64_t rows, double factor)
{
    const float by = (float)factor;
#pragma omp simd
    for (int64_t c = 0; c < rows * CPU_TILE; c++)
        scores[c] *= by;
}

/* Of rows of loaded cells: to[i / 2][j], numbers j of rows i and i + 1. Rows that are not there, to
 * the next multiple of CPU_PAD, are zero. */
static void cells_beside(const cell *from, int64_t rows, int64_t padded, cell *to)
{
    static const uint16_t none[CPU_PAD];
    const int64_t whole = (rows + CPU_PAD - 1) / CPU_PAD * CPU_PAD;
    int64_t i = 0;
    for (; i < rows; i += 2, to += padded) {
        const uint16_t *upper = (const uint16_t *)from + i * padded, *lower = upper + padded;
        for (int64_t e = 0; e < padded; e += CPU_PAD) {
            const uint16_t *second = i + 1 < rows ? lower + e : none;
#pragma omp simd
            for (int j = 0; j < CPU_PAD; j++)
                to[e + j] = (uint32_t)second[j] << 16 | upper[e + j];
        }
    }
    if (i < whole)
        memset(to, 0, (size_t)((whole - i) / 2 * padded) * sizeof *to);
}

/* 16 numbers, as bf16 in the lower halves. */
static inline __m512i cells_narrow(const float *from)
{
    return _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(_mm512_loadu_ps(from)));
}

/* Of rows of CPU_TILE numbers in f32: to[i / 2][j], numbers j of rows i and i + 1. */
static void cells_across(const float *from, int64_t rows, cell *to)
{
    for (int64_t i = 0; i < rows; i += 2, from += 2 * CPU_TILE, to += CPU_TILE)
        for (int c = 0; c < CPU_TILE; c += CPU_PAD) {
            const __m512i second =
                i + 1 < rows ? cells_narrow(from + CPU_TILE + c) : _mm512_setzero_si512();
            _mm512_storeu_si512(
                to + c, _mm512_or_si512(cells_narrow(from + c), _mm512_slli_epi32(second, 16)));
        }
}

/* Of rows of CPU_TILE numbers in f32: to[i][j / 2]. */
static void cells_along(const float *from, int64_t rows, cell *to)
{
    for (int64_t c = 0; c < rows * CPU_TILE; c += 2 * CPU_PAD)
        _mm512_storeu_si512(to + c / 2,
                            (__m512i)_mm512_cvtne2ps_pbh(_mm512_loadu_ps(from + c + CPU_PAD),
                                                         _mm512_loadu_ps(from + c)));
}
