/* SPDX-License-Identifier: Apache-2.0 */
/* libcuda as far as the plugin asks for it, in a library of its own that [cuda] driver names: the
 * GPU is the host, streams do at once what they are told, captured work is done when the graph is
 * launched. Kernels are found by name and run by the emulator.
 *
 * WEFT_FAKE_CUDA_GPUS    how many GPUs there are (default 1)
 * WEFT_FAKE_CUDA_FAIL    the number of the call that fails; so do all after it
 * WEFT_FAKE_CUDA_REPORT  a file that gets, in the end, calls made, launches, launches of graphs and
 *                        what was never given back */
#include "fake_driver.h"
#include "emulate.h"

#include "../gpu.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

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

/* ---- what a stream is told, at once or in a graph ---- */

typedef struct work {
    void (*act)(const void *what);
    void *what;
    struct work *next;
} work;

struct CUgraph_st {
    work *first, *last;
};

static struct {
    pthread_mutex_t lock;
    long calls, launches, replays;
    long memory, host_memory, streams, events, graphs, modules, contexts; /* alive */
    CUresult stuck;
    char complaint[256];
} g = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local CUgraph recording;

static long number_of(const char *variable, long otherwise)
{
    const char *text = getenv(variable);
    return text && *text ? strtol(text, NULL, 10) : otherwise;
}

/* Counts a call; an error that has happened stays. */
static CUresult enter(void)
{
    pthread_mutex_lock(&g.lock);
    if (++g.calls == number_of("WEFT_FAKE_CUDA_FAIL", 0) && g.stuck == CUDA_SUCCESS) {
        g.stuck = CUDA_ERROR_ILLEGAL_ADDRESS;
        snprintf(g.complaint, sizeof g.complaint, "call %ld fails, as it was told to", g.calls);
    }
    CUresult r = g.stuck;
    pthread_mutex_unlock(&g.lock);
    return r;
}

static void count(long *what, long by)
{
    pthread_mutex_lock(&g.lock);
    *what += by;
    pthread_mutex_unlock(&g.lock);
}

CUresult fake_enqueue(void (*act)(const void *what), const void *what, size_t size)
{
    CUresult r = enter();
    if (r != CUDA_SUCCESS)
        return r;
    if (!recording) {
        pthread_mutex_lock(&g.lock);
        act(what);
        r = g.stuck;
        pthread_mutex_unlock(&g.lock);
        return r;
    }
    work *w = calloc(1, sizeof *w);
    w->act = act;
    w->what = malloc(size);
    memcpy(w->what, what, size);
    if (recording->last)
        recording->last->next = w;
    else
        recording->first = w;
    recording->last = w;
    return CUDA_SUCCESS;
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
                        .order = (uint64_t)number_of("WEFT_FAKE_CUDA_ORDER", 0)};
    const char *wrong = g.stuck == CUDA_SUCCESS ? emulate_run(&e) : NULL;
    g.launches++;
    if (!wrong)
        return;
    g.stuck = CUDA_ERROR_LAUNCH_FAILED;
    snprintf(g.complaint, sizeof g.complaint, "%s: %s", l->f->name, wrong);
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
    return fake_enqueue(run_launch, &l, sizeof l);
}

EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image)
{
    CUresult r = enter();
    static const unsigned char magic[] = {0x50, 0xed, 0x55, 0xba}; /* of a fatbin */
    if (r == CUDA_SUCCESS && memcmp(image, magic, sizeof magic) != 0)
        return CUDA_ERROR_INVALID_IMAGE;
    if (r == CUDA_SUCCESS)
        count(&g.modules, 1);
    *module = r == CUDA_SUCCESS ? (CUmodule)malloc(1) : NULL;
    return r;
}

EXPORT CUresult cuModuleUnload(CUmodule module)
{
    free(module);
    count(&g.modules, -1);
    return enter();
}

EXPORT CUresult cuModuleGetFunction(CUfunction *f, CUmodule module, const char *name)
{
    (void)module;
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
        if (strcmp(functions[i].name, name) == 0) {
            *f = &functions[i];
            return enter();
        }
    return CUDA_ERROR_NOT_FOUND;
}

EXPORT CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute attribute, int value)
{
    (void)f, (void)attribute, (void)value;
    return enter();
}

/* ---- the driver and its GPUs ---- */

EXPORT CUresult cuInit(unsigned flags)
{
    (void)flags;
    return number_of("WEFT_FAKE_CUDA_GPUS", 1) > 0 ? enter() : CUDA_ERROR_NO_DEVICE;
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
    *text = *g.complaint ? g.complaint : "no more is known";
    return CUDA_SUCCESS;
}

EXPORT CUresult cuDeviceGetCount(int *n)
{
    *n = (int)number_of("WEFT_FAKE_CUDA_GPUS", 1);
    return enter();
}

EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
    *device = ordinal;
    return enter();
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
    *value = (int)number_of("WEFT_FAKE_CUDA_MAJOR", 9);
    return enter();
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
    CUresult r = enter();
    if (r == CUDA_SUCCESS)
        count(&g.contexts, 1);
    *context = r == CUDA_SUCCESS ? (CUcontext)&g : NULL;
    return r;
}

EXPORT CUresult cuDevicePrimaryCtxRelease(CUdevice device)
{
    (void)device;
    count(&g.contexts, -1);
    return enter();
}

EXPORT CUresult cuCtxSetCurrent(CUcontext context)
{
    (void)context;
    return enter();
}

/* ---- memory ---- */

EXPORT CUresult cuMemAlloc(CUdeviceptr *p, size_t bytes)
{
    CUresult r = enter();
    void *memory = NULL;
    if (r == CUDA_SUCCESS && posix_memalign(&memory, 256, bytes) != 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (r == CUDA_SUCCESS)
        count(&g.memory, 1);
    *p = (CUdeviceptr)(uintptr_t)memory;
    return r;
}

EXPORT CUresult cuMemFree(CUdeviceptr p)
{
    free((void *)(uintptr_t)p);
    count(&g.memory, -1);
    return enter();
}

EXPORT CUresult cuMemGetInfo(size_t *free_bytes, size_t *all)
{
    *free_bytes = *all = (size_t)80 << 30;
    return enter();
}

EXPORT CUresult cuMemHostAlloc(void **p, size_t bytes, unsigned flags)
{
    CUresult r = enter();
    (void)flags;
    *p = r == CUDA_SUCCESS ? malloc(bytes) : NULL;
    if (r == CUDA_SUCCESS)
        count(&g.host_memory, 1);
    return r;
}

EXPORT CUresult cuMemFreeHost(void *p)
{
    free(p);
    count(&g.host_memory, -1);
    return enter();
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
    return stream ? fake_enqueue(run_copy, &c, sizeof c) : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    copy c = {to, (const void *)(uintptr_t)from, bytes, 0};
    return stream ? fake_enqueue(run_copy, &c, sizeof c) : CUDA_ERROR_INVALID_VALUE;
}

EXPORT CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream)
{
    copy c = {(void *)(uintptr_t)to, NULL, bytes, value};
    return stream ? fake_enqueue(run_copy, &c, sizeof c) : CUDA_ERROR_INVALID_VALUE;
}

/* ---- streams, events, graphs ---- */

static CUresult make(void **handle, long *counter)
{
    CUresult r = enter();
    *handle = r == CUDA_SUCCESS ? malloc(1) : NULL;
    if (r == CUDA_SUCCESS)
        count(counter, 1);
    return r;
}

static CUresult give_back(void *handle, long *counter)
{
    free(handle);
    count(counter, -1);
    return enter();
}

EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    (void)flags;
    return make((void **)stream, &g.streams);
}

EXPORT CUresult cuStreamDestroy(CUstream stream)
{
    return give_back(stream, &g.streams);
}

/* Nobody may wait for what is only being captured. */
EXPORT CUresult cuStreamSynchronize(CUstream stream)
{
    (void)stream;
    return recording ? CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED : enter();
}

EXPORT CUresult cuStreamQuery(CUstream stream)
{
    return cuStreamSynchronize(stream);
}

EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    (void)stream, (void)event, (void)flags;
    return enter();
}

EXPORT CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    (void)flags;
    return make((void **)event, &g.events);
}

EXPORT CUresult cuEventDestroy(CUevent event)
{
    return give_back(event, &g.events);
}

EXPORT CUresult cuEventRecord(CUevent event, CUstream stream)
{
    (void)event, (void)stream;
    return enter();
}

EXPORT CUresult cuEventQuery(CUevent event)
{
    (void)event;
    return enter();
}

EXPORT CUresult cuEventElapsedTime(float *ms, CUevent from, CUevent to)
{
    (void)from, (void)to;
    *ms = 0;
    return enter();
}

EXPORT CUresult cuEventSynchronize(CUevent event)
{
    (void)event;
    return enter();
}

EXPORT CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode)
{
    CUresult r = enter();
    (void)stream, (void)mode;
    if (r == CUDA_SUCCESS)
        recording = calloc(1, sizeof *recording);
    return r;
}

EXPORT CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    (void)stream;
    *graph = recording;
    recording = NULL;
    return enter();
}

/* The graph itself becomes what is launched. */
EXPORT CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    (void)flags;
    *exec = (CUgraphExec)(void *)graph;
    count(&g.graphs, 1);
    return enter();
}

EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    CUresult r = enter();
    (void)stream;
    pthread_mutex_lock(&g.lock);
    for (work *w = ((CUgraph)(void *)exec)->first; w && r == CUDA_SUCCESS; w = w->next) {
        w->act(w->what);
        r = g.stuck;
    }
    g.replays++;
    pthread_mutex_unlock(&g.lock);
    return r;
}

EXPORT CUresult cuGraphDestroy(CUgraph graph)
{
    (void)graph;
    return enter();
}

EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    CUgraph graph = (CUgraph)(void *)exec;
    for (work *w = graph->first, *next; w; w = next) {
        next = w->next;
        free(w->what);
        free(w);
    }
    free(graph);
    count(&g.graphs, -1);
    return enter();
}

__attribute__((destructor)) static void report(void)
{
    const char *path = getenv("WEFT_FAKE_CUDA_REPORT");
    FILE *f = path && *path ? fopen(path, "we") : NULL;
    if (!f)
        return;
    fprintf(f, "calls %ld, launches %ld, replays %ld\n", g.calls, g.launches, g.replays);
    fprintf(f,
            "left: memory %ld, host memory %ld, streams %ld, events %ld, graphs %ld, modules %ld, "
            "contexts %ld\n",
            g.memory, g.host_memory, g.streams, g.events, g.graphs, g.modules, g.contexts);
    fclose(f);
}
