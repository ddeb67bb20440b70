/* SPDX-License-Identifier: Apache-2.0 */
/* What the host reads of a step. */
#include "execute/run.h"

#include <math.h>

weft_status weft_run_scalars(weft_run *run, const weft_lowered *l, const weft_value *const *values,
                             int n, double *out, weft_error *err)
{
    char *host = run->scalars_host;
    weft_status s = WEFT_OK;
    for (int i = 0; i < n && !s; i++)
        s = weft_device_download(run->plan, WEFT_QUEUE_COMPUTE, host + i * WEFT_SCALAR_BYTES,
                                 weft_run_address(run, l, l->buffer_of[values[i]->id], 0),
                                 weft_dtype_size(values[i]->dtype), err);
    s = s ? s : weft_run_wait(run, err);
    for (int i = 0; i < n; i++) {
        weft_tensor t;
        weft_local_tensor(l->graph, values[i], l->coord, &t);
        t.data = host + i * WEFT_SCALAR_BYTES;
        out[i] = s ? 0 : weft_tensor_get(&t, 0);
        if (isnan(out[i]))
            out[i] = NAN; /* never "-nan" */
    }
    return s;
}
