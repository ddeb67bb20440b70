/* SPDX-License-Identifier: Apache-2.0 */
#include "fake.h"

#include "fake_driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DECLARE(file, name, threads)                                                               \
    void emulate_##name(const void *args);                                                         \
    extern const size_t emulate_size_##name;
CUDA_KERNELS(DECLARE)
#undef DECLARE

/* A CUfunction points to one of these. */
static struct CUfunc_st {
    const char *name;
    void (*run)(const void *args);
    const size_t *args_bytes;
    int threads;
} functions[] = {
#define ENTRY(file, name_, threads_)                                                               \
    {"weft_" #name_, emulate_##name_, &emulate_size_##name_, threads_},
    CUDA_KERNELS(ENTRY)
#undef ENTRY
};

static CUfunction handles[CUDA_N_KERNELS];
static uint64_t order, last_blocks;
static const emulate_watch *watch;
static char complaint[256];

const CUfunction *fake_functions(void)
{
    for (int i = 0; i < CUDA_N_KERNELS; i++)
        handles[i] = &functions[i];
    return handles;
}

void fake_set_order(uint64_t given)
{
    order = given;
}

void fake_set_watch(const emulate_watch *given)
{
    watch = given;
}

void fake_set_last_blocks(uint64_t n)
{
    last_blocks = n;
}

const char *fake_complaint(void)
{
    return complaint;
}

/* The least that a GPU of compute capability 8.0 or later gives a block. */
enum { MOST_SHARED = 99 << 10 };

static CUresult launch(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                       unsigned by, unsigned bz, unsigned shared, CUstream stream, void **params,
                       void **extra)
{
    emulate_launch l = {.kernel = f->run,
                        .args = params[0],
                        .grid = {gx, gy, gz},
                        .block = {bx, by, bz},
                        .shared_bytes = shared,
                        .args_bytes = *f->args_bytes,
                        .order = order,
                        .watch = watch,
                        .last_blocks = last_blocks};
    (void)stream, (void)extra;
    const char *wrong = shared > MOST_SHARED                ? "too much shared memory"
                        : (int)(bx * by * bz) != f->threads ? "not the threads it is compiled for"
                                                            : emulate_run(&l);
    if (!wrong)
        return CUDA_SUCCESS;
    snprintf(complaint, sizeof complaint, "%s: %s", f->name, wrong);
    return CUDA_ERROR_LAUNCH_FAILED;
}

/* Where the last blocks alone run, a copy has its end alone. */
static size_t skipped(size_t bytes)
{
    enum { END = 1 << 16 };
    return last_blocks && bytes > END ? bytes - END : 0;
}

static CUresult copy(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream)
{
    const size_t first = skipped(bytes);
    (void)stream;
    memcpy((char *)(uintptr_t)to + first, (const char *)(uintptr_t)from + first, bytes - first);
    return CUDA_SUCCESS;
}

static CUresult fill(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream)
{
    const size_t first = skipped(bytes);
    (void)stream;
    memset((char *)(uintptr_t)to + first, value, bytes - first);
    return CUDA_SUCCESS;
}

static CUresult error_name(CUresult result, const char **name)
{
    *name = result == CUDA_ERROR_LAUNCH_FAILED ? "CUDA_ERROR_LAUNCH_FAILED" : "CUDA_ERROR_UNKNOWN";
    return CUDA_SUCCESS;
}

static CUresult error_text(CUresult result, const char **text)
{
    (void)result;
    *text = complaint;
    return CUDA_SUCCESS;
}

const cuda_driver *fake_driver(void)
{
    static const cuda_driver driver = {
        .cuLaunchKernel = launch,
        .cuMemcpyDtoDAsync = copy,
        .cuMemsetD8Async = fill,
        .cuGetErrorName = error_name,
        .cuGetErrorString = error_text,
    };
    return &driver;
}

/* ---- for fake_blas.c ---- */

fake_state fake;

CUstream fake_stream(void)
{
    return (CUstream)(void *)&handles;
}

long fake_number(const char *variable, long otherwise)
{
    const char *text = getenv(variable);
    return text && *text ? strtol(text, NULL, 10) : otherwise;
}

CUresult fake_enqueue(CUstream stream, void (*act)(const void *what), const void *what, size_t size)
{
    (void)stream, (void)size;
    act(what);
    return CUDA_SUCCESS;
}

/* Whose memory is whose the sanitizers know here. */
bool fake_owns(const void *memory, size_t bytes)
{
    (void)memory, (void)bytes;
    return true;
}

bool fake_has_context(void)
{
    return true;
}

CUresult fake_refuse(CUresult result, const char *why)
{
    snprintf(complaint, sizeof complaint, "%s", why);
    return result;
}

bool fake_is_capturing(CUstream stream)
{
    (void)stream;
    return false;
}

void fake_drain(void)
{
}

void fake_count(long *what, long by)
{
    *what += by;
}
