/* SPDX-License-Identifier: Apache-2.0 */
/* Where oneDNN would cut the contracted dim among threads, the product is cut into slices of rows
 * or columns here, which are the same whatever the number of threads; each is one thread's. Else it
 * is one slice, and oneDNN's threads share it. With up to 8 threads it cuts that dim where the
 * result has up to half a million elements: measured with AVX2, a thousand sizes in each of three
 * orientations. */
#include "sliced.h"
#include "cpu.h"

#include <omp.h>

/* LENGTH: rows or columns of a slice, where there are many: shorter ones pack the other operand too
 * often. SMALL: operations that are no work for several threads. */
enum { LENGTH = 512, MOST_SLICES = 16, MOST_SLICED = 1 << 19, SMALL = 2000000 };

struct cpu_sliced {
    cpu_matmul_shape shape;
    int threads; /* that share the slices */
    int within;  /* oneDNN's own, in a slice */
    bool rows;   /* slices are rows of c; else columns */
    int n;
    int64_t length; /* of each but the last */
    size_t scratch; /* bytes of a slice, a multiple of 64 */
    cpu_matmul *slice[MOST_SLICES];
};

static size_t align64(size_t n)
{
    return (n + 63) & ~(size_t)63;
}

/* An even number, for two threads are the most common. Short slices lose a few hundredths of their
 * rate, and an idle thread half of it. */
static int64_t slices_of(int64_t extent, double operations)
{
    if (extent < LENGTH / 4 || operations < SMALL)
        return 1;
    int64_t n = extent < LENGTH ? 2 : extent < 4 * LENGTH ? 4 : extent / (2 * LENGTH) * 2;
    return n < MOST_SLICES ? n : MOST_SLICES;
}

bool cpu_sliced_is_cut(const cpu_matmul_shape *shape)
{
    return shape->m * shape->n <= MOST_SLICED && cpu_matmul_is_gemm(shape);
}

static void cut(cpu_sliced *p, const cpu_matmul_shape *shape, int threads)
{
    p->rows = shape->m >= shape->n;
    int64_t extent = p->rows ? shape->m : shape->n,
            n = slices_of(extent, 2.0 * (double)(shape->m * shape->n) * (double)shape->k);
    /* Asking oneDNN takes longer than all else here: not where one thread has one slice. */
    const bool sliced = (n > 1 || threads > 1) && cpu_sliced_is_cut(shape);
    n = sliced ? n : 1;
    p->shape = *shape;
    p->threads = sliced ? threads : 1;
    p->within = sliced ? 1 : threads;
    p->length = (extent + n - 1) / n;
    p->n = (int)((extent + p->length - 1) / p->length);
}

static cpu_matmul_shape slice_of(const cpu_sliced *p, int i)
{
    cpu_matmul_shape s = p->shape;
    int64_t *extent = p->rows ? &s.m : &s.n, rest = *extent - i * p->length;
    *extent = rest < p->length ? rest : p->length;
    return s;
}

size_t cpu_sliced_scratch(const cpu_matmul_shape *shape, int threads)
{
    cpu_sliced p = {.n = 0};
    cut(&p, shape, threads);
    size_t most = 0;
    const int ends[2] = {0, p.n - 1}; /* all others are as long as the first */
    for (int i = 0; i < 2 && i < p.n; i++) {
        cpu_matmul_shape s = slice_of(&p, ends[i]);
        size_t bytes = cpu_matmul_scratch(&s, p.within);
        if (bytes == SIZE_MAX)
            return bytes;
        most = bytes > most ? bytes : most;
    }
    return p.threads > 1 ? (size_t)p.threads * align64(most) : most;
}

weft_status cpu_sliced_create(const cpu_matmul_shape *shape, int threads, cpu_sliced **out,
                              weft_error *err)
{
    cpu_sliced *p = weft_alloc_zero(1, sizeof *p);
    if (!p)
        return weft_fail_memory(err);
    cut(p, shape, threads);
    p->scratch = p->threads > 1 ? cpu_sliced_scratch(shape, threads) / (size_t)p->threads : 0;
    for (int i = 0; i < p->n; i++) {
        cpu_matmul_shape s = slice_of(p, i);
        weft_status status = cpu_matmul_create(&s, p->within, &p->slice[i], err);
        if (status) {
            cpu_sliced_destroy(p);
            return status;
        }
    }
    *out = p;
    return WEFT_OK;
}

void cpu_sliced_destroy(cpu_sliced *sliced)
{
    for (int i = 0; sliced && i < sliced->n; i++)
        cpu_matmul_destroy(sliced->slice[i]);
    weft_free(sliced);
}

static weft_status run_slice(const cpu_sliced *p, int i, const char *a, const char *b, char *c,
                             char *scratch, weft_error *err)
{
    int64_t from = i * p->length, ab = (int64_t)weft_dtype_size(p->shape.ab),
            of_c = (int64_t)weft_dtype_size(p->shape.c);
    if (p->rows) {
        a += from * p->shape.a_row * ab;
        c += from * p->shape.c_row * of_c;
    } else {
        b += from * p->shape.b_col * ab;
        c += from * of_c;
    }
    return cpu_matmul_run(p->slice[i], a, b, c, scratch, err);
}

weft_status cpu_sliced_run(cpu_sliced *p, const void *a, const void *b, void *c, void *scratch,
                           weft_error *err)
{
    if (p->n == 1)
        return run_slice(p, 0, a, b, c, scratch, err);
    weft_status status[MOST_SLICES];
#pragma omp parallel for num_threads(p->threads) schedule(static)
    for (int i = 0; i < p->n; i++)
        status[i] = run_slice(p, i, a, b, c,
                              (char *)scratch + (size_t)omp_get_thread_num() * p->scratch, NULL);
    for (int i = 0; i < p->n; i++)
        if (status[i])
            return weft_fail(err, status[i], WEFT_NOWHERE,
                             "oneDNN could not multiply a slice of matrices (status %d); [cpu] "
                             "kernels = plain does without it",
                             (int)status[i]);
    return WEFT_OK;
}
