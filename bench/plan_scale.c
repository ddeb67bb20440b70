/* SPDX-License-Identifier: Apache-2.0 */
/* How long it takes to plan large runs, and how many nodes that is: Llama-3 405B on hundreds of
 * ranks, placed, differentiated, updated. */
#include "../tests/lib/planned.h"

#include <stdio.h>

int main(void)
{
    static const planned_spec specs[] = {
        {.axes = "", .passes = "", .ini = "flavor = 405B\n", .batch = 1, .seq = 8192, .micro = 8},
        {.axes = "tp=8 dp_shard=64",
         .passes = "tp fsdp",
         .ini = "flavor = 405B\n",
         .batch = 64,
         .seq = 8192,
         .micro = 8},
        {.axes = "tp=8 dp_shard=64",
         .passes = "bf16 tp fsdp ac",
         .ini = "flavor = 405B\n",
         .batch = 64,
         .seq = 8192,
         .micro = 8},
        {.axes = "tp=8 cp=2 dp_shard=32 dp_replicate=2",
         .passes = "bf16 tp cp fsdp ac",
         .ini = "flavor = 405B\n",
         .batch = 64,
         .seq = 8192,
         .micro = 8},
        {.axes = "tp=8 dp_shard=64",
         .passes = "bf16 tp fsdp ac",
         .ini = "flavor = 405B\nn_layers = 504\n",
         .batch = 64,
         .seq = 8192,
         .micro = 8},
    };
    printf("%-40s %-22s %6s %8s %8s %8s %8s %8s  (ms)\n", "mesh", "passes", "blocks", "nodes",
           "build", "place", "backward", "update");
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        planned p;
        weft_status s = planned_init(&p, &specs[i]);
        int nodes = 0;
        for (const weft_node *n = s ? NULL : weft_graph_first(p.g); n; n = n->next)
            nodes++;
        if (s)
            printf("%s: %s\n", specs[i].axes, weft_error_text(&p.err));
        else
            printf("%-40s %-22s %6d %8d %8.1f %8.1f %8.1f %8.1f\n", specs[i].axes, specs[i].passes,
                   weft_graph_blocks(p.g), nodes, p.ms[0], p.ms[1], p.ms[2], p.ms[3]);
        planned_release(&p);
        if (s)
            return 1;
    }
    return 0;
}
