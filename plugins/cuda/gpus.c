/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU that plans are made for, and memory that it takes beside theirs. */
#include "device.h"

weft_status cuda_gpu_read(const weft_params *params, weft_profile **profile, cuda_gpu *gpu,
                          weft_error *err)
{
    *gpu = (cuda_gpu){0};
    if (!weft_params_word(params, "gpu", 0) || weft_params_is(params, "gpu", "auto"))
        return WEFT_OK;
    weft_status s = weft_profile_read(params, "gpu", profile, err);
    if (!s)
        gpu->rates = *weft_profile_rates(*profile);
    return s;
}

/* ---- memory beside the plan's: a guess, not measured ---- */

/* Of exportable memory, as cuMemGetAllocationGranularity has it on all GPUs so far; and in how many
 * pieces a run has its memory: arena, state, inputs of micro-batches and of steps, caches. */
enum { GRANULARITY = 2 << 20, PIECES = 5 };

size_t cuda_gpu_rounding_bytes(void)
{
    return (size_t)PIECES * GRANULARITY;
}
