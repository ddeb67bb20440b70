/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CP_H
#define CP_H

#include <weft/weft.h>

/* Every attention that shards travel for becomes a step for each shard, with shifts between. */
void cp_expand_rings(void *self, weft_graph *g);

#endif
