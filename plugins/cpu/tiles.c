/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products of our own: c is cut into tiles, each computed by one thread over the whole of
 * k, in order: so the bits depend on no cut, and on no number of threads. */
#include "tiles.h"

#include <omp.h>

int64_t cpu_gemm_floats(const cpu_matmul_shape *s)
{
    (void)s;
    return CPU_GEMM_FLOATS;
}

static void tile_by_vectors(const cpu_matmul_shape *s, const void *a, const void *b, void *c,
                            cpu_tile tile, float *work)
{
    cpu_launchers_get(CPU_ISA_AVX512)->gemm(s, a, b, c, tile, work);
}

const cpu_gemm cpu_gemm_vectors = {CPU_GEMM_ROWS, CPU_GEMM_COLUMNS, CPU_GEMM_GROUP, cpu_gemm_floats,
                                   tile_by_vectors};

static int64_t min64(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Tiles are about equal, of whole units. */
static int64_t cut(int64_t size, int64_t most, int64_t unit)
{
    int64_t n = (size + most - 1) / most, length = (size + n - 1) / n;
    return min64(most, (length + unit - 1) / unit * unit);
}

static int64_t pieces(int64_t size, int64_t length)
{
    return (size + length - 1) / length;
}

static int64_t cut_rows(const cpu_matmul_shape *s, int64_t most)
{
    return cut(s->m, most, 16);
}

static int64_t cut_columns(const cpu_gemm *g, const cpu_matmul_shape *s)
{
    return cut(s->n, g->columns, g->group);
}

int64_t cpu_tiles_count(const cpu_gemm *g, const cpu_matmul_shape *s, int64_t most)
{
    return pieces(s->m, cut_rows(s, most)) * pieces(s->n, cut_columns(g, s));
}

cpu_tile cpu_tiles_at(const cpu_gemm *g, const cpu_matmul_shape *s, int64_t most, int64_t t)
{
    int64_t rows = cut_rows(s, most), columns = cut_columns(g, s), down = pieces(s->m, rows),
            i = t % down * rows, j = t / down * columns;
    return (cpu_tile){i, j, min64(rows, s->m - i), min64(columns, s->n - j)};
}

int64_t cpu_tiles_rows(const cpu_gemm *g, int64_t tiles, int threads)
{
    int64_t rows = g->rows;
    for (; rows > 128 && tiles < 2 * threads; tiles *= 2)
        rows /= 2;
    return rows;
}

static int64_t rows_of(const cpu_gemm *g, const cpu_matmul_shape *s, int threads)
{
    return cpu_tiles_rows(g, cpu_tiles_count(g, s, g->rows), threads);
}

static int workers_of(const cpu_gemm *g, const cpu_matmul_shape *s, int threads)
{
    return (int)min64(threads, cpu_tiles_count(g, s, rows_of(g, s, threads)));
}

size_t cpu_tiles_scratch(const cpu_gemm *g, const cpu_matmul_shape *shape, int threads)
{
    return (size_t)(workers_of(g, shape, threads) * g->floats(shape)) * sizeof(float);
}

void cpu_tiles_run(const cpu_gemm *g, const cpu_matmul_shape *shape, int threads, const void *a,
                   const void *b, void *c, void *scratch)
{
    const int64_t rows = rows_of(g, shape, threads), n = cpu_tiles_count(g, shape, rows),
                  floats = g->floats(shape);
    int workers = workers_of(g, shape, threads);
#pragma omp parallel for num_threads(workers) schedule(dynamic) if (workers > 1)
    for (int64_t t = 0; t < n; t++)
        g->tile(shape, a, b, c, cpu_tiles_at(g, shape, rows, t),
                (float *)scratch + omp_get_thread_num() * floats);
}
