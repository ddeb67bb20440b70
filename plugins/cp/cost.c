/* SPDX-License-Identifier: Apache-2.0 */
/* A ring or gathers: which takes longer by the plan's numbers. Both send (n - 1) shards of the keys
 * and values forward, and as many again in the backward with the gradients. Of gathers all of that
 * is waited for; in a ring it runs under the attention of a shard, and only what outlasts that is.
 */
#include "cp.h"

static double elements(const weft_value *v)
{
    double n = 1;
    for (int d = 0; d < v->n_dims; d++)
        n *= (double)v->dims[d].size;
    return n;
}

static double beyond(double sent, double computed)
{
    return sent > computed ? sent - computed : 0;
}

bool cp_ring_pays(const weft_node *attention, int64_t degree, double flops_per_byte, bool wide)
{
    const weft_value *q = attention->ins[0], *k = attention->ins[1];
    double n = (double)degree, width = (double)weft_dtype_size(k->dtype),
           shard = 2 * elements(k) / n, /* elements of k and v, of one rank */
        forward = 2 * elements(q) / n * (double)k->dims[1].size / n, /* half of it is seen */
        step = flops_per_byte * shard, gathered = width + width + (wide && width < 4 ? 4 : width);
    double ring = (n - 1) * beyond(step * width, forward) +             /* forward: k, v */
                  (n - 1) * beyond(step * (width + 4), 2.5 * forward) + /* backward: and dk, dv */
                  step * 4;                                             /* their way home */
    return ring <= (n - 1) * step * gathered;
}
