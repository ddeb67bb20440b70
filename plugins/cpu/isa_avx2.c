/* SPDX-License-Identifier: Apache-2.0 */
/* The vector kernels for x86-64 with AVX2. The library runs everywhere: the instruction set is of
 * these functions alone. */
#include "cpu.h"

#include <math.h>
#include <omp.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
#define CPU_VECTOR 8
#define CPU_NAME   cpu_launchers_avx2
#include "isa_kernels.h"
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
