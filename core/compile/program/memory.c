/* SPDX-License-Identifier: Apache-2.0 */
/* The arena: every buffer there is a piece of memory with a lifetime, and gets an offset. */
#include "compile/program/lower.h"
#include "compile/program/pack.h"

weft_status weft_plan_memory(weft_buffer *buffers, int n, int64_t alignment, int64_t *arena_bytes,
                             int64_t *live_peak, int *peak_position, weft_error *err)
{
    weft_piece *pieces = weft_alloc(((size_t)n + 1) * sizeof *pieces);
    weft_packed packed;
    if (!pieces)
        return weft_fail_memory(err);
    int n_pieces = 0;
    for (int i = 0; i < n; i++)
        if (buffers[i].base == WEFT_BASE_ARENA)
            pieces[n_pieces++] = (weft_piece){
                .bytes = buffers[i].bytes, .first = buffers[i].first, .last = buffers[i].last};
    weft_status s = weft_pack(pieces, n_pieces, alignment, &packed, err);
    for (int i = 0, k = 0; i < n && !s; i++)
        if (buffers[i].base == WEFT_BASE_ARENA)
            buffers[i].offset = pieces[k++].offset;
    *arena_bytes = packed.bytes;
    *live_peak = packed.peak;
    *peak_position = packed.peak_at;
    weft_free(pieces);
    return s;
}
