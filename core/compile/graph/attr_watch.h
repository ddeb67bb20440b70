/* SPDX-License-Identifier: Apache-2.0 */
/* What kernels read of a node's attributes, for weft conform. */
#ifndef WEFT_GRAPH_ATTR_WATCH_H
#define WEFT_GRAPH_ATTR_WATCH_H

typedef struct weft_attr_watch {
    char key[64]; /* the first one that was read and that the op does not declare; "": none */
} weft_attr_watch;

#endif
