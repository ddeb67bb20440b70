/* SPDX-License-Identifier: Apache-2.0 */
/* The inner loops for any processor, and which of them this one is given. */
#define F8_VECTOR 4
#define F8_ROWS   4
#define F8_NAME   f8_loops_generic
#include "loops.h"

/* Asking the processor touches no state, so every launch may. */
const f8_loops *f8_loops_get(f8_isa most)
{
#if defined(__x86_64__) && defined(__GNUC__)
    if (most >= F8_AVX512 && __builtin_cpu_supports("avx512f") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
        return &f8_loops_avx512;
    if (most >= F8_AVX2 && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return &f8_loops_avx2;
#endif
    (void)most;
    return &f8_loops_generic;
}
