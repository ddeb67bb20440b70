/* SPDX-License-Identifier: Apache-2.0 */
/* Products of bf16, and attention of them, for x86-64 with AMX. The library runs everywhere:
 * the instruction set is of these functions alone. */
#include "cpu.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#if defined(__clang__)
#pragma clang attribute push(                                                                      \
    __attribute__((                                                                                \
        target("amx-tile,amx-bf16,avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"))),      \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("amx-tile,amx-bf16,avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")
#endif
#define CPU_VECTOR 16
#include "isa.h"

#include "cells_bf16.h"
#include "tile.h"
#include "tile_amx.h"

#include "attention.h"

#include "attention_dx.h"

#include "gemm_amx.h"

const cpu_attention_launchers cpu_attention_amx = {launch_attention, launch_attention_dx};
const cpu_gemm cpu_gemm_amx = {AMX_TILE_ROWS, AMX_TILE_COLUMNS, AMX_ROWS, amx_floats, gemm_amx};
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#else /* never used: no such processor has it */
const cpu_attention_launchers cpu_attention_amx;
const cpu_gemm cpu_gemm_amx;
#endif
