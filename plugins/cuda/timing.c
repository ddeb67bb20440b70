/* SPDX-License-Identifier: Apache-2.0 */
/* Which of several algorithms of a product is the fastest on this GPU. */
#include "choices.h"

enum { ROUNDS = 3, LAUNCHES = 10 };

/* Memory like the call's, but nobody's: the arena may hold values by now. */
typedef struct scratch {
    CUdeviceptr memory;
    cuda_operands operands;
} scratch;

static size_t align(int64_t elements, size_t size)
{
    size_t bytes = (size_t)elements * size;
    return (bytes + CUDA_PRODUCT_ALIGNMENT - 1) / CUDA_PRODUCT_ALIGNMENT * CUDA_PRODUCT_ALIGNMENT;
}

/* Bytes of 0x3c: about 0.01 in f32 and bf16, about 1 in 8 bits. Zeros would be faster than what is
 * computed later. *made false: there is no room. */
static weft_status make_scratch(cuda *c, const cuda_product *p, scratch *s, bool *made,
                                weft_error *err)
{
    const cuda_driver *d = &c->driver;
    size_t a = align(p->m * p->k, weft_dtype_size((weft_dtype)p->a));
    size_t b = align(p->k * p->n, weft_dtype_size((weft_dtype)p->b));
    size_t out = align(p->m * p->n, weft_dtype_size((weft_dtype)p->c));
    size_t of_a = align(p->m, sizeof(float)), of_b = align(p->n, sizeof(float));
    size_t bytes = a + b + out + of_a + of_b + CUDA_PRODUCT_WORKSPACE;
    CUresult r = d->cuMemAlloc(&s->memory, bytes);
    *made = r == CUDA_SUCCESS;
    if (r == CUDA_ERROR_OUT_OF_MEMORY)
        return WEFT_OK;
    weft_status status = cuda_check(d, r, "cuMemAlloc", err);
    if (status)
        return status;
    char *at = (char *)(uintptr_t)s->memory;
    s->operands = (cuda_operands){.a = at,
                                  .b = at + a,
                                  .c = at + a + b,
                                  .a_scale = (const float *)(void *)(at + a + b + out),
                                  .b_scale = (const float *)(void *)(at + a + b + out + of_a),
                                  .workspace = at + a + b + out + of_a + of_b};
    status = cuda_check(d, d->cuMemsetD8Async(s->memory, 0x3c, bytes, c->queues[0].stream),
                        "cuMemsetD8", err);
    if (status)
        d->cuMemFree(s->memory);
    return status;
}

typedef struct clock {
    weft_device_event *from, *to;
} clock;

static weft_status launch_many(const cuda *c, const cuda_matmul *m, const scratch *s, int n,
                               weft_error *err)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < n && !status; i++)
        status = cuda_matmul_launch(m, &c->queues[0], &s->operands, err);
    return status;
}

/* The least time of a few rounds: what disturbs makes none of them shorter. */
static weft_status time_one(cuda *c, const cuda_matmul *m, const scratch *s, const clock *k,
                            double *least, weft_error *err)
{
    double seconds;
    weft_status status = WEFT_OK;
    for (int i = 0; i < ROUNDS && !status; i++) {
        status = cuda_record(c, &c->queues[0], k->from, err);
        status = status ? status : launch_many(c, m, s, LAUNCHES, err);
        status = status ? status : cuda_record(c, &c->queues[0], k->to, err);
        status = status ? status : cuda_wait(c, err);
        status = status ? status : cuda_elapsed(c, k->from, k->to, &seconds, err);
        if (!status && (i == 0 || seconds < *least))
            *least = seconds;
    }
    return status;
}

static weft_status time_all(cuda *c, const cuda_matmul *m, const scratch *s, const clock *k,
                            cuda_choice *out, weft_error *err)
{
    cublasLtMatmulAlgo_t algorithms[CUDA_MOST_ALGORITHMS];
    cuda_matmul tried = *m;
    double seconds = 0, least = 0;
    int n;
    weft_status status = cuda_matmul_find(m, algorithms, CUDA_MOST_ALGORITHMS, &n, err);
    for (int i = 0; i < n && !status; i++) {
        tried.algorithm = algorithms[i];
        if (launch_many(c, &tried, s, 1, NULL)) { /* not this one, unless nothing works any more */
            status = cuda_wait(c, err);
            continue;
        }
        status = time_one(c, &tried, s, k, &seconds, err);
        if (status || (out->known && seconds >= least))
            continue;
        least = seconds;
        out->algorithm = algorithms[i];
        out->known = CUDA_TIMED;
    }
    return status;
}

weft_status cuda_choose_by_time(cuda *c, const cuda_matmul *m, cuda_choice *out, weft_error *err)
{
    scratch s = {0};
    clock k = {NULL, NULL};
    bool made;
    out->known = CUDA_UNKNOWN;
    weft_status status = make_scratch(c, &m->product, &s, &made, err);
    if (status || !made)
        return status;
    status = cuda_timed_event_create(c, &k.from, err);
    status = status ? status : cuda_timed_event_create(c, &k.to, err);
    status = status ? status : time_all(c, m, &s, &k, out, err);
    cuda_event_destroy(c, k.to);
    cuda_event_destroy(c, k.from);
    c->driver.cuMemFree(s.memory);
    return status;
}
