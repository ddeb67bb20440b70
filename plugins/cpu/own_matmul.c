/* SPDX-License-Identifier: Apache-2.0 */
/* matmul.h without oneDNN: f32 products of our own. */
#include "tiles.h"

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
    return is_f32(shape) ? cpu_tiles_scratch(&cpu_gemm_vectors, shape, threads) : SIZE_MAX;
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
    (void)err;
    cpu_tiles_run(&cpu_gemm_vectors, &m->shape, m->threads, a, b, c, scratch);
    return WEFT_OK;
}

void cpu_matmul_library(weft_text *text)
{
    weft_text_add(text, "products of our own, for this weft was built without oneDNN: slower");
}
