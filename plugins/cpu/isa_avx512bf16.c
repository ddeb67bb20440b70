/* SPDX-License-Identifier: Apache-2.0 */
/* Products of bf16, and attention of them, for x86-64 with AVX512-BF16. The library runs
 * everywhere: the instruction set is of these functions alone. */
#include "cpu.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#if defined(__clang__)
#pragma clang attribute push(                                                                      \
    __attribute__((target("avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"))),             \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")
#endif
#define CPU_VECTOR 16
#include "isa.h"

#include "cells_bf16.h"
#include "tile.h"
#include "tile_vectors.h"

#include "attention.h"

#include "attention_dx.h"

#include "gemm.h"

const cpu_gemm cpu_gemm_dots = {CPU_GEMM_ROWS, CPU_GEMM_COLUMNS, CPU_GEMM_GROUP, cpu_gemm_floats,
                                gemm_tile};
const cpu_attention_launchers cpu_attention_bf16 = {launch_attention, launch_attention_dx};
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#else /* never used: no such processor has it */
const cpu_attention_launchers cpu_attention_bf16;
const cpu_gemm cpu_gemm_dots;
#endif
