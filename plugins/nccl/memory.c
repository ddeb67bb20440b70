/* SPDX-License-Identifier: Apache-2.0 */
/* The GPU memory that NCCL takes, for the plan: an estimate, for it says itself only when it is
 * there. What it allocates per connection and channel is in its source (comm.h, init.cc); how many
 * channels it opens it decides by the machine: 24 inside a host with NVLink and 16 between hosts
 * are what it logs on machines of eight A100 or H100. Since 2.22 a communicator connects when it is
 * first used, so that of all ranks, which is only split, has no buffers. */
#include "nccl.h"

enum {
    CHANNELS_NEAR = 24,
    CHANNELS_FAR = 16,
    SIMPLE = 4 << 20,          /* a connection's buffer for each protocol */
    LL = 8 * 512 * 8 * 16,     /* lines a thread, threads, steps, bytes */
    LL128 = 120 * 640 * 8 * 8, /* elements a thread, threads, steps, bytes */
    CONNECTION = SIMPLE + LL + LL128
};

/* A ring receives into buffers of its own; what goes through the network is sent from some, too. */
static size_t communicator(int hosts)
{
    return hosts > 1 ? (size_t)2 * CHANNELS_FAR * CONNECTION : (size_t)CHANNELS_NEAR * CONNECTION;
}

size_t nccl_library_bytes(void *self, const weft_planned_group *groups, int n)
{
    (void)self;
    size_t bytes = 0;
    bool reduces = false;
    for (int i = 0; i < n; i++) {
        const weft_planned_group *g = &groups[i];
        bytes += communicator(g->hosts) * (size_t)(g->collects + g->peers);
        reduces = reduces || g->collects;
    }
    return bytes + (reduces ? NCCL_SCRATCH_BYTES : 0);
}
