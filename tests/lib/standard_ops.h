/* SPDX-License-Identifier: Apache-2.0 */
/* The ops of a run that lists nothing: the structural ones, and those of the plugin ops. */
#ifndef STANDARD_OPS_H
#define STANDARD_OPS_H

#include "compile/graph/graph.h"

/* NULL-ended. */
const weft_op *const *standard_ops(void);
/* NULL: there is none of this name. */
const weft_op *standard_op(const char *name);
/* As weft_ops_init: these, and more. */
weft_status standard_ops_init(weft_ops *ops, const weft_op *const *const *more,
                              const char *const *names, int n_more, weft_error *err);

#endif
