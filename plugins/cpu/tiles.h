/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products of our own (tiles.c on gemm.h or gemm_amx.h). The result does not depend on the
 * number of threads. */
#ifndef WEFT_CPU_TILES_H
#define WEFT_CPU_TILES_H

#include "cpu.h"

/* Bytes of scratch memory that a run needs. m, n and k are 1 at least. */
size_t cpu_tiles_scratch(const cpu_gemm *gemm, const cpu_matmul_shape *shape, int threads);
/* scratch: 64-byte aligned. */
void cpu_tiles_run(const cpu_gemm *gemm, const cpu_matmul_shape *shape, int threads, const void *a,
                   const void *b, void *c, void *scratch);
/* The tiles of a product, of up to `rows` rows: how many, and the t-th. */
int64_t cpu_tiles_count(const cpu_gemm *gemm, const cpu_matmul_shape *shape, int64_t rows);
cpu_tile cpu_tiles_at(const cpu_gemm *gemm, const cpu_matmul_shape *shape, int64_t rows, int64_t t);
/* How many rows a tile has at most, that there are some for each thread: where so many of
 * gemm->rows are too few, fewer. */
int64_t cpu_tiles_rows(const cpu_gemm *gemm, int64_t tiles, int threads);

#endif
