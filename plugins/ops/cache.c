/* SPDX-License-Identifier: Apache-2.0 */
/* What attention remembers of a text while it is written: keys or values of all places so far. */
#include "ops.h"

/* cache [b c h], x [b n h], index [n] -> [b c h]. In place only the rows of x are touched. */
static weft_status cache_plain(const weft_call *call, weft_error *err)
{
    const weft_tensor *cache = &call->ins[0], *x = &call->ins[1], *out = &call->outs[0];
    int64_t places = cache->size[1], n = x->size[1], width = cache->size[2];

    (void)err;
    if (call->accumulate || out->data != cache->data)
        for (int64_t i = 0; i < weft_tensor_count(cache); i++)
            op_put(call, i, op_get(cache, i));
    for (int64_t b = 0; b < cache->size[0]; b++)
        for (int64_t i = 0; i < n; i++) {
            int64_t at = op_get_int(&call->ins[2], i), to = (b * places + at) * width,
                    from = (b * n + i) * width;
            if (at < 0 || at >= places)
                continue;
            for (int64_t e = 0; e < width; e++) {
                double before =
                    call->accumulate ? op_get(out, to + e) - op_get(cache, to + e) : 0.0;
                weft_tensor_set(out, to + e, before + op_get(x, from + e));
            }
        }
    return WEFT_OK;
}

static weft_status cache_infer(weft_graph *graph, weft_node *node, weft_error *err)
{
    const weft_value *cache = node->ins[0], *x = node->ins[1];

    (void)graph;
    if (cache->n_dims != 3 || x->n_dims != 3 || cache->dtype != x->dtype ||
        cache->dims[0].size != x->dims[0].size || cache->dims[2].size != x->dims[2].size)
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE, "%s does not fit into the cache %s",
                         x->name, cache->name);
    op_infer_like(node, 0, cache);
    return WEFT_OK;
}

static double cache_flops(const weft_call *call)
{
    return (double)weft_tensor_count(&call->ins[1]);
}

const weft_op ops_cache = {
    .name = "cache",
    .summary = "keys or values so far, with those of more places",
    .rule = "b [c] h, b [n] h, [n] -> b [c] h",
    .flags = WEFT_OP_HALF | WEFT_OP_INPLACE,
    .plain = cache_plain,
    .flops = cache_flops,
    .infer = cache_infer,
};
