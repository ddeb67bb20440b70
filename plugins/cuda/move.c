/* SPDX-License-Identifier: Apache-2.0 */
/* Boxes of bytes: what is one run is the driver's own fill or copy, the rest a kernel, of which the
 * divisions are prepared here. */
#include "gpu.h"

_Static_assert((int)WEFT_BOX_DIMS < (int)CUDA_MOST_DIMS, "a box and its run must fit into a move");

static CUdeviceptr address(const void *memory)
{
    return (CUdeviceptr)(uintptr_t)memory;
}

/* Dims of size 1 are gone; those that follow each other in memory on both sides are one. The run is
 * the last of them, with steps of a byte. */
static cuda_move_args fold(const weft_box *b)
{
    cuda_move_args a = {.from = b->from, .to = b->to, .n_dims = 1};
    int64_t size[CUDA_MOST_DIMS] = {b->bytes}, from[CUDA_MOST_DIMS] = {1}, to[CUDA_MOST_DIMS] = {1};
    int n = 0; /* the outermost so far, counted from the run */
    for (int d = WEFT_BOX_DIMS - 1; d >= 0; d--) {
        if (b->n[d] == 1)
            continue;
        if (b->to_stride[d] == size[n] * to[n] &&
            (!b->from || b->from_stride[d] == size[n] * from[n])) {
            size[n] *= b->n[d];
            continue;
        }
        n++;
        size[n] = b->n[d], from[n] = b->from ? b->from_stride[d] : 0, to[n] = b->to_stride[d];
    }
    a.n_dims = n + 1;
    for (int d = 0; d <= n; d++)
        a.size[d] = size[n - d], a.from_step[d] = from[n - d], a.to_step[d] = to[n - d];
    return a;
}

/* The most bytes that all addresses, steps and the run are multiples of. */
static int word_of(const cuda_move_args *a)
{
    uintptr_t all = (uintptr_t)a->from | (uintptr_t)a->to | (uintptr_t)a->size[a->n_dims - 1];
    for (int d = 0; d < a->n_dims - 1; d++)
        all |= (uintptr_t)a->from_step[d] | (uintptr_t)a->to_step[d];
    return all % 16 == 0 ? 16 : all % 4 == 0 ? 4 : all % 2 == 0 ? 2 : 1;
}

/* x / d as the upper half of x * factor, shifted, for x below 2^31 and 2 <= d < 2^31: with
 * 2^(s - 1) < d <= 2^s and factor * d = 2^(31 + s) + e, 0 <= e < d, the quotient is too large by
 * x * e / (d * 2^(31 + s)), which is less than 1 / d. */
static void prepare_division(cuda_move_args *a, int dim)
{
    const uint64_t d = (uint64_t)a->size[dim];
    int s = 1;
    while ((uint64_t)1 << s < d)
        s++;
    a->factor[dim] = (uint32_t)((((uint64_t)1 << (31 + s)) + d - 1) / d);
    a->shift[dim] = s - 1;
}

static weft_status launch(const weft_queue *queue, cuda_move_args *a, weft_error *err)
{
    const int run = a->n_dims - 1;
    a->word = word_of(a);
    a->size[run] /= a->word;
    a->from_step[run] = a->to_step[run] = a->word;
    if (a->size[run] == 1)
        a->n_dims--;
    a->words = 1;
    for (int d = 0; d < a->n_dims; d++)
        a->words *= a->size[d];
    for (int d = 1; d < a->n_dims && a->words <= INT32_MAX; d++)
        prepare_division(a, d);
    return cuda_launch(queue, CUDA_KERNEL_move, a, cuda_chunk_blocks(a->words * 8), err);
}

weft_status cuda_box_move(const weft_queue *queue, const weft_box *box, weft_error *err)
{
    cuda_move_args a = fold(box);
    for (int d = 0; d < a.n_dims; d++)
        if (a.size[d] == 0)
            return WEFT_OK;
    if (a.n_dims > 1)
        return launch(queue, &a, err);
    const size_t bytes = (size_t)a.size[0];
    CUresult r = a.from ? queue->driver->cuMemcpyDtoDAsync(address(a.to), address(a.from), bytes,
                                                           queue->stream)
                        : queue->driver->cuMemsetD8Async(address(a.to), 0, bytes, queue->stream);
    return cuda_enqueued(queue, r, a.from ? "copy" : "fill", err);
}
