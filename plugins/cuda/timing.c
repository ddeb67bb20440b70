/* SPDX-License-Identifier: Apache-2.0 */
/* Launches of products beside the run: which of several algorithms is the fastest on this GPU; and
 * once each, so that its kernel is loaded. */
#include "choices.h"
#include "dnn.h"

#include <string.h>

enum { ROUNDS = 3, LAUNCHES = 10 };
static const double short_s = 1e-3; /* what is shorter is launched many times */

/* Memory like the call's, but nobody's: the arena may hold values by now. */
typedef struct scratch {
    CUdeviceptr memory;
    cuda_operands operands;
} scratch;

/* *made false: there is no room. */
static weft_status allocate(const cuda *c, size_t bytes, CUdeviceptr *memory, bool *made,
                            weft_error *err)
{
    CUresult r = c->driver.cuMemAlloc(memory, bytes);
    *made = r == CUDA_SUCCESS;
    if (!*made)
        *memory = 0;
    return r == CUDA_ERROR_OUT_OF_MEMORY ? WEFT_OK : cuda_check(&c->driver, r, "cuMemAlloc", err);
}

/* Bytes of 0x3c: about 0.01 in f32 and bf16, about 1 in 8 bits. Zeros would be faster than what is
 * computed later. *made false: there is no room. */
static weft_status make_scratch(cuda *c, const cuda_product *p, scratch *s, bool *made,
                                weft_error *err)
{
    const cuda_driver *d = &c->driver;
    const size_t bytes = cuda_product_lay_out(p, 0, &s->operands);
    weft_status status = allocate(c, bytes, &s->memory, made, err);
    if (status || !*made)
        return status;
    cuda_product_lay_out(p, s->memory, &s->operands);
    status = cuda_check(d, d->cuMemsetD8Async(s->memory, 0x3c, bytes, c->queues[0].stream),
                        "cuMemsetD8", err);
    if (status) {
        d->cuMemFree(s->memory);
        s->memory = 0;
    }
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
                            int launches, double *least, weft_error *err)
{
    double seconds;
    weft_status status = WEFT_OK;
    for (int i = 0; i < ROUNDS && !status; i++) {
        status = cuda_record(c, &c->queues[0], k->from, err);
        status = status ? status : launch_many(c, m, s, launches, err);
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
        status = time_one(c, &tried, s, k, LAUNCHES, &seconds, err);
        if (status || (out->known && seconds >= least))
            continue;
        least = seconds;
        out->algorithm = algorithms[i];
        out->known = CUDA_TIMED;
    }
    return status;
}

/* Memory and a clock; *made false: there is no room. */
static weft_status begin(cuda *c, const cuda_matmul *m, scratch *s, clock *k, bool *made,
                         weft_error *err)
{
    weft_status status = make_scratch(c, &m->product, s, made, err);
    if (status || !*made)
        return status;
    status = cuda_timed_event_create(c, &k->from, err);
    return status ? status : cuda_timed_event_create(c, &k->to, err);
}

static void end(cuda *c, const scratch *s, const clock *k)
{
    cuda_event_destroy(c, k->to);
    cuda_event_destroy(c, k->from);
    if (s->memory)
        c->driver.cuMemFree(s->memory);
}

weft_status cuda_choose_by_time(cuda *c, const cuda_matmul *m, cuda_choice *out, weft_error *err)
{
    scratch s = {0};
    clock k = {NULL, NULL};
    bool made;
    out->known = CUDA_UNKNOWN;
    weft_status status = begin(c, m, &s, &k, &made, err);
    if (!status && made)
        status = time_all(c, m, &s, &k, out, err);
    end(c, &s, &k);
    return status;
}

weft_status cuda_time_product(cuda *c, const cuda_matmul *m, double *seconds, weft_error *err)
{
    scratch s = {0};
    clock k = {NULL, NULL};
    bool made;
    *seconds = 0;
    weft_status status = begin(c, m, &s, &k, &made, err);
    if (!status && made)
        status = launch_many(c, m, &s, 1, err);
    if (!status && made)
        status = time_one(c, m, &s, &k, 1, seconds, err);
    if (!status && made && *seconds < short_s) {
        status = time_one(c, m, &s, &k, LAUNCHES, seconds, err);
        *seconds /= LAUNCHES;
    }
    end(c, &s, &k);
    return status;
}

/* ---- loading ---- */

static bool is_first(const cuda_matmul *all, const cuda_matmul *m)
{
    while (all != m && memcmp(&all->product, &m->product, sizeof m->product) != 0)
        all = all->next;
    return all == m;
}

static size_t largest(const cuda *c)
{
    size_t most = cuda_dnn_scratch(c->dnn);
    for (const cuda_matmul *m = c->products->all; m; m = m->next) {
        size_t bytes = cuda_product_scratch(&m->product);
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* Whatever the memory holds is multiplied. */
static weft_status launch_all(cuda *c, scratch *s, weft_error *err)
{
    const cuda_matmul *all = c->products->all;
    weft_status status = WEFT_OK;
    for (const cuda_matmul *m = all; m && !status; m = m->next) {
        cuda_product_lay_out(&m->product, s->memory, &s->operands);
        status = is_first(all, m) ? launch_many(c, m, s, 1, err) : WEFT_OK;
    }
    status = status ? status : cuda_dnn_launch_all(c->dnn, &c->queues[0], s->memory, err);
    return status ? status
                  : cuda_check(&c->driver, c->driver.cuStreamSynchronize(c->queues[0].stream),
                               "the GPU", err);
}

/* cuBLASLt, as cuDNN, loads a kernel at its first launch, for which the driver may wait until the
 * GPU has done all it was given. Where that waits for another rank, and the other one for what this
 * rank has yet to launch, it would wait for ever. */
weft_status cuda_products_load(cuda *c, weft_error *err)
{
    scratch s = {0};
    bool made;
    if (largest(c) == 0)
        return WEFT_OK;
    weft_status status = allocate(c, largest(c), &s.memory, &made, err);
    if (!status && !made)
        weft_log_print(c->host->log, WEFT_LOG_WARN,
                       "cuda: rank %d: there is no room to load kernels of libraries before the "
                       "first step; if "
                       "that hangs, set CUDA_MODULE_LOADING=EAGER, or plan with less memory",
                       c->host->rank);
    if (status || !made)
        return status;
    status = launch_all(c, &s, err);
    c->driver.cuMemFree(s.memory);
    return status;
}
