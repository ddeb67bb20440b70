/* SPDX-License-Identifier: Apache-2.0 */
/* From a call of weft to a launch of the driver. */
#include "gpu.h"

#include <string.h>
#include <time.h>

static const struct {
    const char *file, *name;
    int threads;
} kernels[] = {
#define CUDA_ENTRY(file_, name_, threads_) [CUDA_KERNEL_##name_] = {#file_, #name_, threads_},
    CUDA_KERNELS(CUDA_ENTRY)
#undef CUDA_ENTRY
};

const char *cuda_kernel_name(cuda_kernel kernel)
{
    return kernels[kernel].name;
}

const char *cuda_kernel_file(cuda_kernel kernel)
{
    return kernels[kernel].file;
}

int cuda_kernel_threads(cuda_kernel kernel)
{
    return kernels[kernel].threads;
}

weft_status cuda_check(const cuda_driver *driver, CUresult result, const char *what,
                       weft_error *err)
{
    const char *name = NULL, *text = NULL;
    if (result == CUDA_SUCCESS)
        return WEFT_OK;
    driver->cuGetErrorName(result, &name);
    driver->cuGetErrorString(result, &text);
    return weft_fail(err, WEFT_ERR_RUN, WEFT_NOWHERE, "%s: %s (%s)", what,
                     text ? text : "an error that the driver does not know", name ? name : "?");
}

/* What takes long is waited for as the core waits: who waits for a rank that is gone, or that
 * hangs, ends. What has failed is asked of the stream. */
static weft_status wait_long(const weft_queue *queue, const char *what, weft_error *err)
{
    const cuda_driver *d = queue->driver;
    weft_status s = cuda_check(d, d->cuEventRecord((CUevent)(void *)queue->behind, queue->stream),
                               "cuEventRecord", err);
    s = s ? s : weft_event_wait(queue->host, queue->behind, err);
    const CUresult r = s ? d->cuStreamQuery(queue->stream) : CUDA_SUCCESS;
    if (r == CUDA_SUCCESS || r == CUDA_ERROR_NOT_READY)
        return s;
    weft_error_clear(err);
    return cuda_check(d, r, what, err);
}

static weft_status wait_behind(const weft_queue *queue, const char *what, weft_error *err)
{
    static const double long_s = 0.2;
    const struct timespec pause = {.tv_nsec = 20000};
    const cuda_driver *d = queue->driver;
    const double since = weft_now();
    CUresult r = d->cuStreamQuery(queue->stream);
    weft_running now;
    while (r == CUDA_ERROR_NOT_READY && weft_now() - since < long_s) {
        nanosleep(&pause, NULL);
        r = d->cuStreamQuery(queue->stream);
    }
    if (r != CUDA_ERROR_NOT_READY)
        return cuda_check(d, r, what, err);
    if (queue->host && queue->behind && weft_running_now(queue->host, &now))
        return wait_long(queue, what, err);
    return cuda_check(d, d->cuStreamSynchronize(queue->stream), what, err);
}

weft_status cuda_enqueued(const weft_queue *queue, CUresult result, const char *what,
                          weft_error *err)
{
    return result == CUDA_SUCCESS && queue->careful ? wait_behind(queue, what, err)
                                                    : cuda_check(queue->driver, result, what, err);
}

weft_status cuda_launch_grid(const weft_queue *queue, cuda_kernel kernel, const void *args,
                             const int64_t grid[3], size_t shared_bytes, weft_error *err)
{
    void *list[] = {(void *)(uintptr_t)args};
    if (grid[0] == 0 || grid[1] == 0 || grid[2] == 0)
        return WEFT_OK;
    if (!queue || !queue->functions)
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                         "cuda: kernel %s is launched before the device is open",
                         kernels[kernel].name);
    /* No call is accepted that asks for more, and what may be longer its kernel walks along. */
    if (grid[0] > INT32_MAX || grid[1] > 65535 || grid[2] > 65535)
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                         "cuda: kernel %s: a grid of %lld x %lld x %lld blocks is more than a "
                         "GPU takes",
                         kernels[kernel].name, (long long)grid[0], (long long)grid[1],
                         (long long)grid[2]);
    CUresult r = queue->driver->cuLaunchKernel(
        queue->functions[kernel], (unsigned)grid[0], (unsigned)grid[1], (unsigned)grid[2],
        (unsigned)kernels[kernel].threads, 1, 1, (unsigned)shared_bytes, queue->stream, list, NULL);
    return cuda_enqueued(queue, r, kernels[kernel].name, err);
}

weft_status cuda_launch(const weft_queue *queue, cuda_kernel kernel, const void *args, int64_t grid,
                        weft_error *err)
{
    return cuda_launch_grid(queue, kernel, args, (const int64_t[]){grid, 1, 1}, 0, err);
}

/* ---- what launches share ---- */

cuda_view cuda_view_of(const weft_tensor *t)
{
    return (cuda_view){t->data, (int32_t)t->dtype};
}

bool cuda_is_whole(const weft_tensor *t)
{
    return t->dtype == WEFT_BF16 && (uintptr_t)t->data % 16 == 0 && cuda_width(t) % 8 == 0;
}

bool cuda_is_aligned(const weft_call *call)
{
    uintptr_t all = 0;
    for (int i = 0; i < call->n_ins; i++)
        all |= (uintptr_t)call->ins[i].data;
    for (int i = 0; i < call->n_outs; i++)
        all |= (uintptr_t)call->outs[i].data;
    return all % 16 == 0;
}

weft_status cuda_keep(const void *made, size_t bytes, void **state, weft_error *err)
{
    *state = weft_alloc(bytes);
    if (!*state)
        return weft_fail_memory(err);
    memcpy(*state, made, bytes);
    return WEFT_OK;
}

/* Kernels walk on from there: more blocks than a GPU holds at once gain nothing. Tests have fewer,
 * so that they do. */
#ifndef CUDA_MOST_BLOCKS
#define CUDA_MOST_BLOCKS (1 << 14)
#endif
enum { MOST_BLOCKS = CUDA_MOST_BLOCKS };

int64_t cuda_chunk_blocks(int64_t n)
{
    int64_t blocks = (n + 8 * CUDA_THREADS - 1) / (8 * CUDA_THREADS);
    return blocks < MOST_BLOCKS ? blocks : MOST_BLOCKS;
}

int64_t cuda_row_blocks(int64_t rows)
{
    return rows < MOST_BLOCKS ? rows : MOST_BLOCKS;
}

int64_t cuda_width(const weft_tensor *t)
{
    return t->n_dims ? t->size[t->n_dims - 1] : 1;
}

int64_t cuda_rows(const weft_tensor *t)
{
    int64_t rows = 1;
    for (int d = 0; d + 1 < t->n_dims; d++)
        rows *= t->size[d];
    return rows;
}

weft_status cuda_check_workspace(const weft_call *call, size_t needed, weft_error *err)
{
    if (call->workspace_bytes >= needed && (call->workspace || needed == 0))
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                     "%s: the kernel needs %zu bytes of workspace and was given %zu",
                     call->op->name, needed, call->workspace_bytes);
}
