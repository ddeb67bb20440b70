/* SPDX-License-Identifier: Apache-2.0 */
/* Memory of the fake driver: the host's, of which it knows what was given to whom. */
#include "fake_driver.h"

#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct piece {
    char *at;
    size_t bytes;
    bool host;
    struct piece *next;
} piece;

static piece *pieces;

static const piece *find(const void *memory, size_t bytes)
{
    const char *at = memory;
    pthread_mutex_lock(&fake.lock);
    const piece *p = pieces;
    while (p && (at < p->at || at + bytes > p->at + p->bytes))
        p = p->next;
    pthread_mutex_unlock(&fake.lock);
    return p;
}

bool fake_owns(const void *memory, size_t bytes)
{
    return find(memory, bytes) != NULL || fake_virtual_owns(memory, bytes, false);
}

static bool is_gpu(const void *memory, size_t bytes)
{
    const piece *p = find(memory, bytes);
    return p ? !p->host : fake_virtual_owns(memory, bytes, false);
}

static void *give(size_t bytes, bool host)
{
    void *memory = NULL;
    if (!bytes || posix_memalign(&memory, 256, bytes) != 0)
        return NULL;
    piece *p = malloc(sizeof *p);
    pthread_mutex_lock(&fake.lock);
    *p = (piece){memory, bytes, host, pieces};
    pieces = p;
    *(host ? &fake.host_memory : &fake.memory) += 1;
    pthread_mutex_unlock(&fake.lock);
    return memory;
}

static bool take(const void *memory, bool host)
{
    pthread_mutex_lock(&fake.lock);
    piece **at = &pieces, *p;
    while (*at && ((*at)->at != (const char *)memory || (*at)->host != host))
        at = &(*at)->next;
    if ((p = *at)) {
        *at = p->next;
        *(host ? &fake.host_memory : &fake.memory) -= 1;
        free(p->at);
        free(p);
    }
    pthread_mutex_unlock(&fake.lock);
    return p != NULL;
}

EXPORT CUresult cuMemAlloc(CUdeviceptr *p, size_t bytes)
{
    CUresult r = fake_enter_unsafe();
    *p = 0;
    if (r != CUDA_SUCCESS)
        return r;
    if (!bytes)
        return fake_refuse(CUDA_ERROR_INVALID_VALUE, "memory of no bytes");
    if (bytes > (size_t)fake_number("WEFT_FAKE_CUDA_LARGEST", LONG_MAX))
        return CUDA_ERROR_OUT_OF_MEMORY;
    *p = (CUdeviceptr)(uintptr_t)give(bytes, false);
    return *p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Whatever is under way may use it. */
static CUresult give_back(const void *memory, bool host)
{
    CUresult r = fake_enter_unsafe();
    if (r == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED)
        return r;
    fake_drain();
    if (!take(memory, host))
        return fake_refuse(CUDA_ERROR_INVALID_VALUE, "memory is given back that is nobody's");
    return r;
}

EXPORT CUresult cuMemFree(CUdeviceptr p)
{
    return give_back((const void *)(uintptr_t)p, false);
}

EXPORT CUresult cuMemGetInfo(size_t *free_bytes, size_t *all)
{
    *free_bytes = *all = (size_t)80 << 30;
    return fake_enter();
}

/* Waits for the GPU: so CUDA may. */
EXPORT CUresult cuMemHostAlloc(void **p, size_t bytes, unsigned flags)
{
    CUresult r = fake_enter_unsafe();
    (void)flags;
    *p = NULL;
    if (r != CUDA_SUCCESS)
        return r;
    fake_drain();
    *p = give(bytes, true);
    return *p ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

EXPORT CUresult cuMemFreeHost(void *p)
{
    return give_back(p, true);
}

/* ---- transfers ---- */

typedef struct copy {
    void *to;
    const void *from;
    size_t bytes;
    int value;
    size_t done;
} copy;

enum { PIECES = 4 };

/* A piece of it: others may see what is there so far. */
static bool run_copy(void *what)
{
    copy *c = what;
    const size_t most = (c->bytes + PIECES - 1) / PIECES, left = c->bytes - c->done,
                 bytes = left < most ? left : most;
    if (c->from)
        memcpy((char *)c->to + c->done, (const char *)c->from + c->done, bytes);
    else
        memset((char *)c->to + c->done, c->value, bytes);
    c->done += bytes;
    fake_got_on();
    return c->done == c->bytes;
}

static void *copy_of(const void *what)
{
    copy *c = malloc(sizeof *c);
    return memcpy(c, what, sizeof *c);
}

static CUresult enqueue(CUstream stream, copy c)
{
    return fake_enqueue_until(stream, run_copy, free, copy_of, copy_of(&c), 0);
}

/* `host`: what lies there, of which a graph must know that it stays. */
static CUresult check(const void *gpu, const void *host, size_t bytes, CUstream stream)
{
    if (!stream)
        return fake_refuse(CUDA_ERROR_INVALID_VALUE, "a transfer on no stream");
    if (bytes && !is_gpu(gpu, bytes))
        return fake_refuse(CUDA_ERROR_INVALID_VALUE, "a transfer beside the GPU's memory");
    if (host && fake_is_capturing(stream) && !fake_owns(host, bytes))
        return fake_refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED, "memory that may go is captured");
    return CUDA_SUCCESS;
}

EXPORT CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    copy c = {(void *)(uintptr_t)to, from, bytes, 0, 0};
    CUresult r = check(c.to, from, bytes, stream);
    return r != CUDA_SUCCESS ? r : enqueue(stream, c);
}

/* To memory that may go it is done on return, and the host waits. */
EXPORT CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    copy c = {to, (const void *)(uintptr_t)from, bytes, 0, 0};
    CUresult r = check(c.from, to, bytes, stream);
    r = r != CUDA_SUCCESS ? r : enqueue(stream, c);
    if (r == CUDA_SUCCESS && !fake_owns(to, bytes))
        fake_drain_stream(stream);
    return r;
}

EXPORT CUresult cuMemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    const char *skip = getenv("WEFT_FAKE_CUDA_SKIP");
    copy c = {(void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes, 0, 0};
    CUresult r = check(c.to, NULL, bytes, stream);
    r = r != CUDA_SUCCESS ? r : check(c.from, NULL, bytes, stream);
    if (skip && strcmp(skip, "cuMemcpyDtoDAsync") == 0)
        c.bytes = 0;
    return r != CUDA_SUCCESS ? r : enqueue(stream, c);
}

EXPORT CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream)
{
    copy c = {(void *)(uintptr_t)to, NULL, bytes, value, 0};
    CUresult r = check(c.to, NULL, bytes, stream);
    return r != CUDA_SUCCESS ? r : enqueue(stream, c);
}
