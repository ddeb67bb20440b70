/* SPDX-License-Identifier: Apache-2.0 */
/* head_part, head_place, head_join, head_sum: elements of heads that move, and their sum. */

/* Elements [from, from + n) of operand i, or zeros if i is negative, to element `to` of the result
 * on. */
static void move_elements(const weft_call *call, int i, int64_t from, int64_t to, int64_t n)
{
    const float zeros[CPU_BLOCK] = {0.0f};
    float buffer[CPU_BLOCK];
    for (int64_t e = 0; e < n; e += CPU_BLOCK) {
        const int64_t m = least(CPU_BLOCK, n - e);
        store(&call->outs[0], to + e, m, i < 0 ? zeros : load(&call->ins[i], from + e, m, buffer),
              call->accumulate);
    }
}

static weft_status launch_head_part(const weft_call *call, weft_error *err)
{
    const int64_t first = weft_call_int(call, "first"), width = weft_call_int(call, "width"),
                  whole = weft_call_int(call, "whole"),
                  heads = weft_tensor_count(&call->outs[0]) / width;
    (void)err;
#pragma omp parallel for schedule(static) num_threads(team(call, heads *width))
    for (int64_t h = 0; h < heads; h++)
        move_elements(call, 0, h * whole + first, h * width, width);
    return WEFT_OK;
}

static weft_status launch_head_place(const weft_call *call, weft_error *err)
{
    const int64_t first = weft_call_int(call, "first"), width = weft_call_int(call, "width"),
                  whole = weft_call_int(call, "whole"), behind = first + width,
                  heads = weft_tensor_count(&call->ins[0]) / width;
    (void)err;
#pragma omp parallel for schedule(static) num_threads(team(call, heads *whole))
    for (int64_t h = 0; h < heads; h++) {
        move_elements(call, -1, 0, h * whole, first);
        move_elements(call, 0, h * width, h * whole + first, width);
        move_elements(call, -1, 0, h * whole + behind, whole - behind);
    }
    return WEFT_OK;
}

static weft_status launch_head_join(const weft_call *call, weft_error *err)
{
    const int64_t width = weft_call_int(call, "width"), whole = weft_call_int(call, "whole"),
                  shared = whole - width, each = width_of(&call->outs[0]) / whole,
                  rows = rows_of(&call->outs[0]);
    (void)err;
#pragma omp parallel for schedule(static) num_threads(team(call, rows *each *whole))
    for (int64_t row = 0; row < rows; row++)
        for (int64_t h = row * each; h < (row + 1) * each; h++) {
            move_elements(call, 0, h * width, h * whole, width);
            move_elements(call, 1, row * shared, h * whole + width, shared);
        }
    return WEFT_OK;
}

/* Elements [at, at + n) of what the heads of a row share; width: before it, of whole. */
static void sum_heads(const weft_call *call, int64_t row, int64_t width, int64_t whole, int64_t at,
                      int64_t n)
{
    const int64_t all = width_of(&call->ins[0]);
    float sum[CPU_BLOCK] = {0.0f}, buffer[CPU_BLOCK];
    for (int64_t head = row * all; head < (row + 1) * all; head += whole) {
        const float *x = load(&call->ins[0], head + width + at, n, buffer);
#pragma omp simd
        for (int64_t e = 0; e < n; e++)
            sum[e] += x[e];
    }
    store(&call->outs[0], row * (whole - width) + at, n, sum, call->accumulate);
}

static weft_status launch_head_sum(const weft_call *call, weft_error *err)
{
    const int64_t width = weft_call_int(call, "width"), whole = weft_call_int(call, "whole"),
                  rows = rows_of(&call->outs[0]), shared = whole - width;
    (void)err;
#pragma omp parallel for schedule(static) num_threads(team(call, weft_tensor_count(&call->ins[0])))
    for (int64_t row = 0; row < rows; row++)
        for (int64_t at = 0; at < shared; at += CPU_BLOCK)
            sum_heads(call, row, width, whole, at, least(CPU_BLOCK, shared - at));
    return WEFT_OK;
}
