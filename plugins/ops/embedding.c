/* SPDX-License-Identifier: Apache-2.0 */
#include "ops.h"

/* ids [b s], table [v e] -> [b s e]. A shard of the table gives zeros for ids it does not hold, so
 * shards add up. */
static weft_status embedding_plain(const weft_call *call, weft_error *err)
{
    const weft_tensor *ids = &call->ins[0], *table = &call->ins[1];
    int64_t tokens = weft_tensor_count(ids), width = table->size[1];

    (void)err;
    for (int64_t t = 0; t < tokens; t++) {
        int64_t row = op_get_int(ids, t) - table->lo[0];
        bool here = row >= 0 && row < table->size[0];
        for (int64_t e = 0; e < width; e++)
            op_put(call, t * width + e, here ? op_get(table, row * width + e) : 0.0);
    }
    return WEFT_OK;
}

/* ids [b s], dy [b s e] -> [v e]: row by row, so that every sum is made in f64 before it is rounded
 * once. */
static weft_status embedding_dw_plain(const weft_call *call, weft_error *err)
{
    const weft_tensor *ids = &call->ins[0], *dy = &call->ins[1], *out = &call->outs[0];
    int64_t tokens = weft_tensor_count(ids), width = out->size[1];

    (void)err;
    for (int64_t v = 0; v < out->size[0]; v++) {
        int64_t id = v + out->lo[0], first = 0;
        while (first < tokens && op_get_int(ids, first) != id)
            first++;
        for (int64_t e = 0; e < width; e++) {
            double sum = 0.0;
            for (int64_t t = first; t < tokens; t++)
                if (op_get_int(ids, t) == id)
                    sum += op_get(dy, t * width + e);
            op_put(call, v * width + e, sum);
        }
    }
    return WEFT_OK;
}

const weft_op ops_embedding = {
    .name = "embedding",
    .summary = "rows of a table",
    .family = "embedding",
    .rule = "..., v e -> ... e",
    .linear = "1",
    .grad = (const char *const[]){"1: embedding_dw 0 dy like1", NULL},
    .flags = WEFT_OP_HALF | WEFT_OP_HALF_WEIGHT,
    .dtype_from = 1,
    .plain = embedding_plain,
};

const weft_op ops_embedding_dw = {
    .name = "embedding_dw",
    .summary = "adds gradients of rows into a table",
    .family = "embedding",
    .rule = "..., ... e, v e -> v e",
    .linear = "1",
    .dtype_from = 1,
    .plain = embedding_dw_plain,
};
