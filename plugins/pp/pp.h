/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of pp share. */
#ifndef WEFT_PP_H
#define WEFT_PP_H

#include <weft/weft.h>

typedef struct pp {
    const weft_host *host;
    const weft_params *params;
    int64_t degree;
    /* Where each stage but the first begins: blocks, WEFT_BLOCK_HEAD behind all of them. Found in
     * the first graph, and the same in all others. */
    int *begins;
    int n_stages; /* 0: not known yet */
    int n_blocks; /* of that graph */
} pp;

/* How many stages the user asks for; 0: as many as the split has. */
int pp_stages(const pp *self);
/* Says of every block of the graph in which stage it is. */
weft_status pp_split(pp *self, weft_graph *g, weft_error *err);
/* The service. */
weft_status pp_generate(void *self, int ranks, int stages, int64_t micro_batches, weft_tasks *tasks,
                        weft_error *err);

#endif
