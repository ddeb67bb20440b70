/* SPDX-License-Identifier: Apache-2.0 */
/* All vector kernels, for the instruction set that the including file has set, and the table of
 * their launches, CPU_NAME. */
#include "isa.h"

#include "elementwise.h"
#include "heads.h"
#include "loss.h"
#include "norm.h"
#include "norm_joined.h"

#include "narrow.h"
#include "rope.h"
#include "rows.h"

#include "cells_f32.h"
#include "tile.h"
#include "tile_vectors.h"

#include "attention.h"
#include "attention_merge.h"
#include "gemm.h"

#include "attention_dx.h"

#include "decode.h"

static void exp_all(const float *x, float *y, int64_t n)
{
#pragma omp simd
    for (int64_t i = 0; i < n; i++)
        y[i] = exp1(x[i]);
}

#define CPU_ENTRY(op) .op = launch_##op,
const cpu_launchers CPU_NAME = {CPU_VECTOR_OPS(CPU_ENTRY).exp = exp_all, .gemm = gemm_tile};
#undef CPU_ENTRY
