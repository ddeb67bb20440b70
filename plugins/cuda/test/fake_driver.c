/* SPDX-License-Identifier: Apache-2.0 */
/* libcuda as far as the plugin asks for it, in a library of its own that [cuda] driver names: the
 * GPU is the host, and kernels are found by name and run by the emulator. Streams are in
 * fake_stream.c, graphs in fake_graph.c, memory in fake_memory.c and
 * fake_virtual.c. It refuses what CUDA refuses, and
 * waits where CUDA may wait.
 *
 * WEFT_FAKE_CUDA_GPUS    how many GPUs there are (default 1)
 * WEFT_FAKE_CUDA_FAIL    the number of the call that fails; so do all after it
 * WEFT_FAKE_CUDA_FAULT   the number of the launch that fails when it is run, not when enqueued
 * WEFT_FAKE_CUDA_SKIP    a kernel that does nothing, or cuMemcpyDtoDAsync
 * WEFT_FAKE_CUDA_REFUSE  the number of the call that is refused, and no other
 * WEFT_FAKE_CUDA_VERSION what the driver says it is for (default 13000, CUDA 13.0)
 * WEFT_FAKE_CUDA_LARGEST more bytes than these at once are out of memory
 * WEFT_FAKE_CUDA_REPORT  a file, or a folder (FOLDER/) with one for each process, that gets, in the
 *                        end, calls made, launches, launches of graphs,
 *                        graphs, what was never given back, windows, products by algorithm,
 *                        and what NCCL was called for */
#include "fake_driver.h"
#include "emulate.h"

#include "../gpu.h"

#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct CUfunc_st {
    const char *name;
    void (*run)(const void *args);
    const size_t *size;
    int threads;
    unsigned shared; /* the most that it may be given */
    bool loaded;
};

#define DECLARE(file, name, threads)                                                               \
    void emulate_##name(const void *args);                                                         \
    extern const size_t emulate_size_##name;
CUDA_KERNELS(DECLARE)
#undef DECLARE

static struct CUfunc_st functions[] = {
#define ENTRY(file, name_, threads_)                                                               \
    {"weft_" #name_, emulate_##name_, &emulate_size_##name_, threads_, 48 << 10, false},
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

static _Thread_local CUcontext current;

bool fake_has_context(void)
{
    return current && fake.contexts > 0;
}

CUresult fake_refuse(CUresult result, const char *why)
{
    if (fake.stuck == CUDA_SUCCESS)
        snprintf(fake.complaint, sizeof fake.complaint, "%s", why);
    return result;
}

/* Of a call that needs no context. */
static CUresult enter_library(void)
{
    static long fails = -1, refused; /* looked up once: what calls cost is measured */
    pthread_mutex_lock(&fake.lock);
    if (fails < 0) {
        fails = fake_number("WEFT_FAKE_CUDA_FAIL", 0);
        refused = fake_number("WEFT_FAKE_CUDA_REFUSE", 0);
    }
    if (++fake.calls == fails && fake.stuck == CUDA_SUCCESS) {
        fake.stuck = CUDA_ERROR_ILLEGAL_ADDRESS;
        snprintf(fake.complaint, sizeof fake.complaint, "call %ld fails, as it was told to",
                 fake.calls);
    }
    CUresult r = fake.stuck;
    if (r == CUDA_SUCCESS && fake.calls == refused)
        r = fake_refuse(CUDA_ERROR_NOT_PERMITTED, "this call is refused, as it was told to");
    pthread_mutex_unlock(&fake.lock);
    return r;
}

CUresult fake_enter(void)
{
    CUresult r = enter_library();
    return r == CUDA_SUCCESS && !fake_has_context()
               ? fake_refuse(CUDA_ERROR_INVALID_CONTEXT, "this thread has no context")
               : r;
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
    else if (fake.stuck == CUDA_SUCCESS && !fake.astray &&
             !(skipped && strcmp(skipped, l->f->name) == 0))
        wrong = emulate_run(&e);
    if (!wrong || fake.stuck != CUDA_SUCCESS)
        return;
    fake.stuck = CUDA_ERROR_LAUNCH_FAILED;
    snprintf(fake.complaint, sizeof fake.complaint, "%s: %s", l->f->name, wrong);
}

/* What every GPU takes, and not more. */
static const char *find_wrong(const launch *l)
{
    const struct CUfunc_st *f = l->f;
    const unsigned threads = l->block[0] * l->block[1] * l->block[2];
    return !l->grid[0] || !l->grid[1] || !l->grid[2]  ? "a grid without blocks"
           : l->grid[0] > INT_MAX                     ? "more than 2^31 - 1 blocks"
           : l->grid[1] > 65535 || l->grid[2] > 65535 ? "more than 65535 blocks"
           : !threads || threads > 1024               ? "no block of 1 to 1024 threads"
           : (int)threads != f->threads               ? "not the threads it is compiled for"
           : *f->size > sizeof l->args                ? "parameters of more than 4 KiB"
           : l->shared > f->shared                    ? "more shared memory than was asked for"
                                                      : NULL;
}

EXPORT CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                               unsigned by, unsigned bz, unsigned shared, CUstream stream,
                               void **params, void **extra)
{
    launch l = {.f = f, .grid = {gx, gy, gz}, .block = {bx, by, bz}, .shared = shared};
    const char *wrong = find_wrong(&l);
    if (!stream || extra || wrong)
        return fake_refuse(CUDA_ERROR_INVALID_VALUE, wrong ? wrong : "a launch on no stream");
    fake.told++;
    fake.late += !f->loaded;
    if (!f->loaded && !fake_is_capturing(stream))
        fake_drain();
    f->loaded = true;
    memcpy(l.args, params[0], *f->size);
    const bool counts =
        strcmp(f->name, "weft_valid_parts") == 0 || strcmp(f->name, "weft_add_parts") == 0;
    return (counts ? fake_enqueue_always : fake_enqueue)(stream, run_launch, &l, sizeof l);
}

EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    CUresult r = fake_enter_unsafe();
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
    return fake_enter_unsafe();
}

EXPORT CUresult cuModuleGetFunction(CUfunction *f, CUmodule module, const char *name)
{
    if (!module)
        return CUDA_ERROR_INVALID_HANDLE;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcmp(functions[i].name, name) == 0) {
            *f = &functions[i];
            return fake_enter();
        }
    return CUDA_ERROR_NOT_FOUND;
}

/* So would the first launch, when all streams have done what they were told. */
EXPORT CUresult cuFuncLoad(CUfunction f)
{
    CUresult r = fake_enter();
    f->loaded = f->loaded || r == CUDA_SUCCESS;
    return r;
}

EXPORT CUresult cuFuncGetAttribute(int *value, CUfunction_attribute attribute, CUfunction f)
{
    CUresult r = fake_enter();
    if (r == CUDA_SUCCESS && attribute != CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)
        return CUDA_ERROR_INVALID_VALUE;
    *value = f->threads;
    return r;
}

/* The least that a GPU of compute capability 8.0 or later gives a block. */
enum { MOST_SHARED = 99 << 10 };

EXPORT CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute attribute, int value)
{
    CUresult r = fake_enter();
    if (r == CUDA_SUCCESS && (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ||
                              value < 0 || value > MOST_SHARED))
        return fake_refuse(CUDA_ERROR_INVALID_VALUE, "more shared memory than a block has");
    if (r == CUDA_SUCCESS)
        f->shared = (unsigned)value;
    return r;
}

/* ---- the driver and its GPUs ---- */

EXPORT CUresult cuInit(unsigned flags)
{
    (void)flags;
    fake_streams_open();
    return fake_number("WEFT_FAKE_CUDA_GPUS", 1) > 0 ? enter_library() : CUDA_ERROR_NO_DEVICE;
}

EXPORT CUresult cuDriverGetVersion(int *version)
{
    *version = (int)fake_number("WEFT_FAKE_CUDA_VERSION", 13000);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuGetErrorName(CUresult result, const char **name)
{
    *name = result == CUDA_ERROR_ILLEGAL_ADDRESS ? "CUDA_ERROR_ILLEGAL_ADDRESS"
            : result == CUDA_ERROR_LAUNCH_FAILED ? "CUDA_ERROR_LAUNCH_FAILED"
            : result == CUDA_ERROR_NOT_PERMITTED ? "CUDA_ERROR_NOT_PERMITTED"
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
    return enter_library();
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    *device = ordinal;
    return enter_library();
}

EXPORT CUresult cuDeviceGetName(char *name, int size, CUdevice device)
{
    (void)device;
    snprintf(name, (size_t)size, "fake GPU");
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device)
{
    (void)device;
    const bool minor = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR;
    *value = fake_virtual_attribute(
        attribute,
        minor ? 0 : (int)fake_number("WEFT_FAKE_CUDA_MAJOR", 9)); /* as GPUs of servers */
    return enter_library();
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
    CUresult r = enter_library();
    if (r == CUDA_SUCCESS)
        fake_count(&fake.contexts, 1);
    *context = r == CUDA_SUCCESS ? (CUcontext)&fake : NULL;
    return r;
}

EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    (void)device;
    fake_count(&fake.contexts, -1);
    return enter_library();
}

EXPORT CUresult cuCtxSetCurrent(CUcontext context)
{
    CUresult r = enter_library();
    current = r == CUDA_SUCCESS ? context : current;
    return r;
}

/* ---- in the end ---- */

__attribute__((destructor)) static void report(void)
{
    const char *path = getenv("WEFT_FAKE_CUDA_REPORT");
    char own[4096];
    const bool folder = path && *path && path[strlen(path) - 1] == '/';
    if (folder && snprintf(own, sizeof own, "%s%d", path, (int)getpid()) < (int)sizeof own)
        path = own;
    FILE *f = path && *path ? fopen(path, "we") : NULL;
    if (!f)
        return;
    fprintf(f, "calls %ld, launches %ld, replays %ld, captured %ld\n", fake.calls, fake.launches,
            fake.replays, fake.captured);
    fprintf(f,
            "left: memory %ld, host memory %ld, streams %ld, events %ld, graphs %ld, modules %ld, "
            "contexts %ld, communicators %ld, registrations %ld, handles %ld, addresses %ld, "
            "windows %ld, cudnn %ld\n",
            fake.memory, fake.host_memory, fake.streams, fake.events, fake.graphs, fake.modules,
            fake.contexts, fake.communicators, fake.registrations, fake.handles, fake.ranges,
            fake.windows, fake.dnn);
    fprintf(f, "made: windows %ld, streams that go first %ld\n", fake.most_windows,
            fake.early_streams);
    fprintf(f, "products %ld %ld %ld\n", fake.products[0], fake.products[1], fake.products[2]);
    fprintf(f, "attentions %ld\n", fake.attentions);
    fprintf(f, "host: enqueued %ld, %.6f s of a processor\n", fake.enqueued, fake.told_s);
    fprintf(f, "nccl: calls %ld, operations %ld, slept %ld, host %.6f s\n", fake.nccl_calls,
            fake.nccl_operations, fake.nccl_slept, fake.nccl_s);
    fprintf(f, "connections %d, of ranks behind the first kernel %ld\n", fake.connections,
            fake.nccl_late);
    fprintf(f, "loaded late %ld, of libraries %ld, blocks of transfers %ld\n", fake.late,
            fake.late_libraries, fake.nccl_blocks);
    fclose(f);
}
