/* SPDX-License-Identifier: Apache-2.0 */
/* libcuda as far as the plugin asks for it, in a library of its own that [cuda] driver names: the
 * GPU is the host, and kernels are found by name and run by the emulator. Streams are in
 * fake_stream.c.
 *
 * WEFT_FAKE_CUDA_GPUS    how many GPUs there are (default 1)
 * WEFT_FAKE_CUDA_FAIL    the number of the call that fails; so do all after it
 * WEFT_FAKE_CUDA_FAULT   the number of the launch that fails when it is run, not when enqueued
 * WEFT_FAKE_CUDA_SKIP    a kernel that does nothing
 * WEFT_FAKE_CUDA_LARGEST more bytes than these at once are out of memory
 * WEFT_FAKE_CUDA_REPORT  a file that gets, in the end, calls made, launches, launches of graphs,
 *                        graphs, what was never given back, and products by algorithm */
#include "fake_driver.h"
#include "emulate.h"

#include "../gpu.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CUfunc_st {
    const char *name;
    void (*run)(const void *args);
    const size_t *size;
    int threads;
};

#define DECLARE(file, name, threads)                                                               \
    void emulate_##name(const void *args);                                                         \
    extern const size_t emulate_size_##name;
CUDA_KERNELS(DECLARE)
#undef DECLARE

static struct CUfunc_st functions[] = {
#define ENTRY(file, name_, threads_)                                                               \
    {"weft_" #name_, emulate_##name_, &emulate_size_##name_, threads_},
    CUDA_KERNELS(ENTRY)
#undef ENTRY
};

/* ---- what all share ---- */

fake_state fake = {.lock = PTHREAD_MUTEX_INITIALIZER};

long fake_number(const char *variable, long otherwise)
{
    const char *text = getenv(variable);
    return text && *text ? strtol(text, NULL, 10) : otherwise;
}

CUresult fake_enter(void)
{
    pthread_mutex_lock(&fake.lock);
    if (++fake.calls == fake_number("WEFT_FAKE_CUDA_FAIL", 0) && fake.stuck == CUDA_SUCCESS) {
        fake.stuck = CUDA_ERROR_ILLEGAL_ADDRESS;
        snprintf(fake.complaint, sizeof fake.complaint, "call %ld fails, as it was told to",
                 fake.calls);
    }
    CUresult r = fake.stuck;
    pthread_mutex_unlock(&fake.lock);
    return r;
}

void fake_count(long *what, long by)
{
    pthread_mutex_lock(&fake.lock);
    *what += by;
    pthread_mutex_unlock(&fake.lock);
}

/* ---- launches ---- */

typedef struct launch {
    CUfunction f;
    unsigned grid[3], block[3], shared;
    _Alignas(16) unsigned char args[4096];
} launch;

static void run_launch(const void *what)
{
    const launch *l = what;
    emulate_launch e = {.kernel = l->f->run,
                        .args = l->args,
                        .grid = {l->grid[0], l->grid[1], l->grid[2]},
                        .block = {l->block[0], l->block[1], l->block[2]},
                        .shared_bytes = l->shared,
                        .order = (uint64_t)fake_number("WEFT_FAKE_CUDA_ORDER", 0)};
    const char *skipped = getenv("WEFT_FAKE_CUDA_SKIP"), *wrong = NULL;
    if (++fake.launches == fake_number("WEFT_FAKE_CUDA_FAULT", 0))
        wrong = "this launch fails, as it was told to";
    else if (fake.stuck == CUDA_SUCCESS && !(skipped && strcmp(skipped, l->f->name) == 0))
        wrong = emulate_run(&e);
    if (!wrong || fake.stuck != CUDA_SUCCESS)
        return;
    fake.stuck = CUDA_ERROR_LAUNCH_FAILED;
    snprintf(fake.complaint, sizeof fake.complaint, "%s: %s", l->f->name, wrong);
}

EXPORT CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                               unsigned by, unsigned bz, unsigned shared, CUstream stream,
                               void **params, void **extra)
{
    launch l = {.f = f, .grid = {gx, gy, gz}, .block = {bx, by, bz}, .shared = shared};
    (void)extra;
    if (!stream || (int)(bx * by * bz) != f->threads || *f->size > sizeof l.args ||
        shared > (96u << 10))
        return CUDA_ERROR_INVALID_VALUE;
    memcpy(l.args, params[0], *f->size);
    return fake_enqueue(stream, run_launch, &l, sizeof l);
}

EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    CUresult r = fake_enter();
    static const unsigned char magic[] = {0x50, 0xed, 0x55, 0xba}; /* of a fatbin */
    if (r == CUDA_SUCCESS && memcmp(image, magic, sizeof magic) != 0)
        return CUDA_ERROR_INVALID_IMAGE;
    if (r == CUDA_SUCCESS)
        fake_count(&fake.modules, 1);
    *module = r == CUDA_SUCCESS ? (CUmodule)malloc(1) : NULL;
    return r;
}

EXPORT CUresult cuModuleUnload(CUmodule module)
{
    free(module);
    fake_count(&fake.modules, -1);
    return fake_enter();
}

EXPORT CUresult cuModuleGetFunction(CUfunction *f, CUmodule module, const char *name)
{
    (void)module;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcmp(functions[i].name, name) == 0) {
            *f = &functions[i];
            return fake_enter();
        }
    return CUDA_ERROR_NOT_FOUND;
}

EXPORT CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute attribute, int value)
{
    (void)f, (void)attribute, (void)value;
    return fake_enter();
}

/* ---- the driver and its GPUs ---- */

EXPORT CUresult cuInit(unsigned flags)
{
    (void)flags;
    return fake_number("WEFT_FAKE_CUDA_GPUS", 1) > 0 ? fake_enter() : CUDA_ERROR_NO_DEVICE;
}

EXPORT CUresult cuDriverGetVersion(int *version)
{
    *version = 13000;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGetErrorName(CUresult result, const char **name)
{
    *name = result == CUDA_ERROR_ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS"
            : result == CUDA_ERROR_LAUNCH_FAILED ? "CUDA_ERROR_LAUNCH_FAILED"
                                                 : "another error";
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGetErrorString(CUresult result, const char **text)
{
    (void)result;
    *text = *fake.complaint ? fake.complaint : "no more is known";
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetCount(int *n)
{
    *n = (int)fake_number("WEFT_FAKE_CUDA_GPUS", 1);
    return fake_enter();
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    *device = ordinal;
    return fake_enter();
}

EXPORT CUresult cuDeviceGetName(char *name, int size, CUdevice device)
{
    (void)device;
    snprintf(name, (size_t)size, "fake GPU");
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    (void)attribute, (void)device;
    *value = (int)fake_number("WEFT_FAKE_CUDA_MAJOR", 9);
    return fake_enter();
}

EXPORT CUresult cuDeviceTotalMem(size_t *bytes, CUdevice device)
{
    (void)device;
    *bytes = (size_t)80 << 30;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device)
{
    (void)device;
    CUresult r = fake_enter();
    if (r == CUDA_SUCCESS)
        fake_count(&fake.contexts, 1);
    *context = r == CUDA_SUCCESS ? (CUcontext)&fake : NULL;
    return r;
}

EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    (void)device;
    fake_count(&fake.contexts, -1);
    return fake_enter();
}

EXPORT CUresult cuCtxSetCurrent(CUcontext context)
{
    (void)context;
    return fake_enter();
}

/* ---- memory ---- */

EXPORT CUresult cuMemAlloc(CUdeviceptr *p, size_t bytes)
{
    CUresult r = fake_enter();
    void *memory = NULL;
    if (r == CUDA_SUCCESS && bytes > (size_t)fake_number("WEFT_FAKE_CUDA_LARGEST", LONG_MAX))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (r == CUDA_SUCCESS && posix_memalign(&memory, 256, bytes) != 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (r == CUDA_SUCCESS)
        fake_count(&fake.memory, 1);
    *p = (CUdeviceptr)(uintptr_t)memory;
    return r;
}

/* Whatever is under way may use it. */
EXPORT CUresult cuMemFree(CUdeviceptr p)
{
    fake_drain();
    free((void *)(uintptr_t)p);
    fake_count(&fake.memory, -1);
    return fake_enter();
}

EXPORT CUresult cuMemGetInfo(size_t *free_bytes, size_t *all)
{
    *free_bytes = *all = (size_t)80 << 30;
    return fake_enter();
}

EXPORT CUresult cuMemHostAlloc(void **p, size_t bytes, unsigned flags)
{
    CUresult r = fake_enter();
    (void)flags;
    *p = r == CUDA_SUCCESS ? malloc(bytes) : NULL;
    if (r == CUDA_SUCCESS)
        fake_count(&fake.host_memory, 1);
    return r;
}

EXPORT CUresult cuMemFreeHost(void *p)
{
    fake_drain();
    free(p);
    fake_count(&fake.host_memory, -1);
    return fake_enter();
}

typedef struct copy {
    void *to;
    const void *from;
    size_t bytes;
    int value;
} copy;

static void run_copy(const void *what)
{
    const copy *c = what;
    if (c->from)
        memcpy(c->to, c->from, c->bytes);
    else
        memset(c->to, c->value, c->bytes);
}

EXPORT CUresult cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t bytes, CUstream stream)
{
    copy c = {(void *)(uintptr_t)to, from, bytes, 0};
    return stream ? fake_enqueue(stream, run_copy, &c, sizeof c) : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    copy c = {to, (const void *)(uintptr_t)from, bytes, 0};
    return stream ? fake_enqueue(stream, run_copy, &c, sizeof c) : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream)
{
    copy c = {(void *)(uintptr_t)to, NULL, bytes, value};
    return stream ? fake_enqueue(stream, run_copy, &c, sizeof c) : CUDA_ERROR_INVALID_VALUE;
}

__attribute__((destructor)) static void report(void)
{
    const char *path = getenv("WEFT_FAKE_CUDA_REPORT");
    FILE *f = path && *path ? fopen(path, "we") : NULL;
    if (!f)
        return;
    fprintf(f, "calls %ld, launches %ld, replays %ld, captured %ld\n", fake.calls, fake.launches,
            fake.replays, fake.captured);
    fprintf(f,
            "left: memory %ld, host memory %ld, streams %ld, events %ld, graphs %ld, modules %ld, "
            "contexts %ld\n",
            fake.memory, fake.host_memory, fake.streams, fake.events, fake.graphs, fake.modules,
            fake.contexts);
    fprintf(f, "products %ld %ld %ld\n", fake.products[0], fake.products[1], fake.products[2]);
    fclose(f);
}
