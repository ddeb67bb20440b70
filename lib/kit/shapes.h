/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEFT_KIT_SHAPES_H
#define WEFT_KIT_SHAPES_H

#include "compile/graph/graph.h"

/* Notes that a value cannot stand where another one is: "f32 a [x 2] cannot be ... f32 b [x 3]:
 * dims or dtype differ". */
static inline void weft_fail_shapes(weft_graph *g, const weft_value *a, const char *cannot,
                                    const weft_value *b)
{
    weft_text mine = {0}, theirs = {0};
    weft_value_print_shape(a, &mine);
    weft_value_print_shape(b, &theirs);
    weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE, "%s %s %s %s %s: dims or dtype differ",
                    weft_dtype_name(a->dtype), weft_text_get(&mine), cannot,
                    weft_dtype_name(b->dtype), weft_text_get(&theirs));
    weft_text_release(&mine);
    weft_text_release(&theirs);
}

#endif
