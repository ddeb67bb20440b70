/* SPDX-License-Identifier: Apache-2.0 */
#include "ops.h"

const weft_op *const *weft_standard_ops(void)
{
#define WEFT_OP_ENTRY(op) &weft_op_##op,
    static const weft_op *const table[] = {WEFT_STANDARD_OPS(WEFT_OP_ENTRY) NULL};
#undef WEFT_OP_ENTRY
    return table;
}
