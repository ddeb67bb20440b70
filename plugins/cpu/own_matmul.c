/* SPDX-License-Identifier: Apache-2.0 */
/* matmul.h without oneDNN: f32 products of our own (gemm.h), some half as fast. bf16 is multiplied
 * as f32, by blocks, as on processors that have no bf16. */
#include "cpu.h"
#include "matmul.h"

#include <omp.h>

struct cpu_matmul {
    cpu_matmul_shape shape;
    int threads;
};

static bool is_f32(const cpu_matmul_shape *s)
{
    return s->ab == WEFT_F32 && s->c == WEFT_F32;
}

size_t cpu_matmul_scratch(const cpu_matmul_shape *shape, int threads)
{
    return is_f32(shape) ? (size_t)threads * CPU_GEMM_FLOATS * sizeof(float) : SIZE_MAX;
}

bool cpu_matmul_is_gemm(const cpu_matmul_shape *shape)
{
    (void)shape;
    return false; /* k is never cut among threads */
}

weft_status cpu_matmul_create(const cpu_matmul_shape *shape, int threads, cpu_matmul **out,
                              weft_error *err)
{
    if (!is_f32(shape))
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                         "this weft was built without oneDNN and multiplies f32 alone");
    cpu_matmul *m = weft_alloc(sizeof *m);
    if (!m)
        return weft_fail_memory(err);
    *m = (cpu_matmul){*shape, threads};
    *out = m;
    return WEFT_OK;
}

void cpu_matmul_destroy(cpu_matmul *m)
{
    weft_free(m);
}

weft_status cpu_matmul_run(cpu_matmul *m, const void *a, const void *b, void *c, void *scratch,
                           weft_error *err)
{
    const cpu_matmul_shape *s = &m->shape;
    const cpu_launchers *launchers = cpu_launchers_get(CPU_ISA_AVX512);
    int64_t rows = (s->m + CPU_GEMM_ROWS - 1) / CPU_GEMM_ROWS;
    int64_t columns = (s->n + CPU_GEMM_COLUMNS - 1) / CPU_GEMM_COLUMNS;
    (void)err;
#pragma omp parallel for num_threads(m->threads) schedule(static)
    for (int64_t t = 0; t < rows * columns; t++)
        launchers->gemm(s, a, b, c, t % rows * CPU_GEMM_ROWS, t / rows * CPU_GEMM_COLUMNS,
                        (float *)scratch + (size_t)omp_get_thread_num() * CPU_GEMM_FLOATS);
    return WEFT_OK;
}

void cpu_matmul_library(weft_text *text)
{
    weft_text_add(text, "products of our own, for this weft was built without oneDNN: slower");
}
