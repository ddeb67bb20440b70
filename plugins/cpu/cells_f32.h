/* SPDX-License-Identifier: Apache-2.0 */
/* Operands of tile.h and of attention in f32: a cell is a number, and a tile serves as what it is
 * wherever a product wants it, so nothing is ever put beside or across. */

typedef float cell;

enum { CELLS = 1 }; /* numbers in one */

/* sum + a * b[0 ...] */
static inline vector cells_fma(cell a, const cell *b, vector sum)
{
    return sum + a * (vector) * (const vector_at *)b;
}

/* rows x d elements of t, `stride` apart, times `by`, to rows of `padded` numbers whose rest is
 * zero. */
static void cells_load(const weft_tensor *t, int64_t at, int64_t stride, int64_t rows, int64_t d,
                       int64_t padded, float by, cell *to)
{
    for (int64_t i = 0; i < rows; i++, to += padded) {
        const float *x = load(t, at + i * stride, d, to);
#pragma omp simd
        for (int64_t e = 0; e < d; e++)
            to[e] = x[e] * by;
        for (int64_t e = d; e < padded; e++)
            to[e] = 0.0f;
    }
}

/* Queries are loaded times a factor, and scores need none. */
static inline float cells_load_factor(double factor)
{
    return (float)factor;
}

static inline void cells_scale(float *scores, int64_t rows, double factor)
{
    (void)scores, (void)rows, (void)factor;
}

static inline void cells_beside(const cell *from, int64_t rows, int64_t padded, cell *to)
{
    (void)from, (void)rows, (void)padded, (void)to;
}

static inline void cells_across(const float *from, int64_t rows, cell *to)
{
    (void)from, (void)rows, (void)to;
}

static inline void cells_along(const float *from, int64_t rows, cell *to)
{
    (void)from, (void)rows, (void)to;
}
