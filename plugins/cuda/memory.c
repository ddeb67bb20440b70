/* SPDX-License-Identifier: Apache-2.0 */
/* Memory, and what is done with it for the core: transfers, moves, reductions. */
#include "device.h"

static CUdeviceptr address(const void *memory)
{
    return (CUdeviceptr)(uintptr_t)memory;
}

static weft_status out_of_memory(cuda *c, const char *whose, size_t bytes, weft_error *err)
{
    size_t free_bytes = 0, all = 0;
    c->driver.cuMemGetInfo(&free_bytes, &all);
    return weft_fail(err, WEFT_ERR_MEMORY, WEFT_NOWHERE,
                     "out of memory: %s cannot give %zu bytes; of the GPU's %zu bytes %zu are free",
                     whose, bytes, all, free_bytes);
}

/* Waits for whatever still uses it. */
static void give_back(cuda *c, CUdeviceptr memory, size_t bytes)
{
    if (c->exports)
        cuda_export_free(c, memory, bytes);
    else
        c->driver.cuMemFree(memory);
}

weft_status cuda_alloc(void *self, size_t bytes, void **memory, weft_error *err)
{
    cuda *c = self;
    const cuda_driver *d = &c->driver;
    CUdeviceptr p = 0;
    size_t room = bytes ? bytes : 1;
    const char *what = "cuMemAlloc";
    CUresult r = c->exports ? cuda_export_alloc(c, room, &p, &what) : d->cuMemAlloc(&p, room);
    if (r == CUDA_ERROR_OUT_OF_MEMORY)
        return out_of_memory(c, "the GPU", bytes, err);
    weft_status s = cuda_check(d, r, what, err);
    if (s)
        return s;
    s = cuda_check(d, d->cuMemsetD8Async(p, 0, room, c->zeros), "cuMemsetD8", err);
    if (!s) /* queues may wait for other ranks */
        s = cuda_check(d, d->cuStreamSynchronize(c->zeros), "the GPU", err);
    if (s) {
        give_back(c, p, room);
        return s;
    }
    c->used += room;
    c->most = c->used > c->most ? c->used : c->most;
    *memory = (void *)(uintptr_t)p;
    return WEFT_OK;
}

void cuda_free(void *self, void *memory, size_t bytes)
{
    cuda *c = self;
    if (!memory)
        return;
    cuda_capture_abandon(c);
    give_back(c, address(memory), bytes ? bytes : 1);
    c->used -= bytes ? bytes : 1;
}

weft_status cuda_alloc_host(void *self, size_t bytes, void **memory, weft_error *err)
{
    cuda *c = self;
    CUresult r = c->driver.cuMemHostAlloc(memory, bytes ? bytes : 1, CU_MEMHOSTALLOC_PORTABLE);
    if (r == CUDA_ERROR_OUT_OF_MEMORY)
        return out_of_memory(c, "the host, in pages that stay,", bytes, err);
    weft_status s = cuda_check(&c->driver, r, "cuMemHostAlloc", err);
    for (size_t i = 0; i < bytes && !s; i++)
        ((unsigned char *)*memory)[i] = 0;
    return s;
}

void cuda_free_host(void *self, void *memory, size_t bytes)
{
    (void)bytes;
    if (memory)
        ((cuda *)self)->driver.cuMemFreeHost(memory);
}

/* ---- transfers ---- */

weft_status cuda_upload(void *self, weft_queue *queue, void *to, const void *from_host,
                        size_t bytes, weft_error *err)
{
    cuda *c = self;
    const cuda_driver *d = &c->driver;
    weft_status s = queue || bytes == 0 ? WEFT_OK : cuda_wait(c, err);
    if (s || bytes == 0)
        return s;
    s = cuda_check(d,
                   d->cuMemcpyHtoDAsync(address(to), from_host, bytes,
                                        (queue ? queue : &c->queues[0])->stream),
                   "upload", err);
    return s || queue ? s : cuda_wait(c, err);
}

weft_status cuda_download(void *self, weft_queue *queue, void *to_host, const void *from,
                          size_t bytes, weft_error *err)
{
    cuda *c = self;
    const cuda_driver *d = &c->driver;
    weft_status s = queue || bytes == 0 ? WEFT_OK : cuda_wait(c, err);
    if (s || bytes == 0)
        return s;
    s = cuda_check(d,
                   d->cuMemcpyDtoHAsync(to_host, address(from), bytes,
                                        (queue ? queue : &c->queues[0])->stream),
                   "download", err);
    return s || queue ? s : cuda_wait(c, err);
}

/* ---- moves ---- */

weft_status cuda_move(void *self, weft_queue *queue, const weft_box *boxes, int n, weft_error *err)
{
    cuda *c = self;
    weft_status s = WEFT_OK;
    for (int i = 0; i < n && !s; i++)
        s = cuda_box_move(queue ? queue : &c->queues[0], &boxes[i], err);
    return s;
}

weft_status cuda_reduce(void *self, weft_queue *queue, const weft_reduction *r, weft_error *err)
{
    cuda *c = self;
    cuda_reduce_args a = {.n = r->count,
                          .n_from = r->n_from,
                          .n_to = r->n_to,
                          .dtype = (int32_t)r->dtype,
                          .most = r->op == WEFT_REDUCE_MAX};
    if (r->n_from > CUDA_MOST_RANKS || r->n_to > CUDA_MOST_RANKS)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "%d ranks share one GPU; it sums of %d at most", r->n_from,
                         CUDA_MOST_RANKS);
    for (int i = 0; i < r->n_from; i++)
        a.from[i] = r->from[i];
    for (int i = 0; i < r->n_to; i++)
        a.to[i] = r->to[i];
    return cuda_launch(queue ? queue : &c->queues[0], CUDA_KERNEL_reduce, &a,
                       cuda_chunk_blocks(a.n), err);
}
