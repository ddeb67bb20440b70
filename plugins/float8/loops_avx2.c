/* SPDX-License-Identifier: Apache-2.0 */
/* The inner loops for x86-64 with AVX2. */
#include "cpu.h"

#include <math.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
#define F8_VECTOR 8
#define F8_ROWS   6
#define F8_NAME   f8_loops_avx2
#include "loops.h"
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif
