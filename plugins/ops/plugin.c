/* SPDX-License-Identifier: Apache-2.0 */
/* What models and optimizers are made of: the command lists it where nobody does. */
#include "ops.h"

static const weft_op *const table[] = {
#define OP_ENTRY(op) &ops_##op,
    OPS(OP_ENTRY)
#undef OP_ENTRY
        NULL};

WEFT_PLUGIN(ops) = {
    WEFT_PLUGIN_HEAD,
    .name = "ops",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "the ops that models and optimizers are made of, with plain kernels",
    .numerics = WEFT_NUMERICS_BITWISE,
    .ops = table,
};
