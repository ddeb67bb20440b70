/* SPDX-License-Identifier: Apache-2.0 */
/* How many processors this process may use, which is not how many the machine has. */
#ifndef WEFT_CLI_PROCESSORS_H
#define WEFT_CLI_PROCESSORS_H

#include <stdint.h>

/* Every limit counts for all processes that have it in common, and only those share it. */
typedef struct weft_processors {
    int mask;          /* of the affinity mask; at least 1 */
    uint64_t mask_id;  /* the same: same host, same mask */
    int quota;         /* of the cgroups, rounded up; 0: no limit */
    uint64_t quota_id; /* the same: same host, same cgroup that has the limit */
    int task;          /* what Slurm gives this process (SLURM_CPUS_PER_TASK); 0: it says nothing */
} weft_processors;

weft_processors weft_cli_processors(void);
/* The least of the limits, when so many ranks share the mask, the quota and this process; at least
 * 1. */
int weft_processors_share(const weft_processors *p, int by_mask, int by_quota, int by_task);

typedef struct weft_quota {
    double processors; /* 0: no limit */
    uint64_t id;       /* of the cgroup that has it */
} weft_quota;

/* Processors that the control groups of this process allow. root: as of weft_visit_groups. A quota
 * counts for all groups below it, so the smallest on the way to the root is taken. */
weft_quota weft_cli_quota(const char *root);

/* The same number: the same host, whatever containers call it. */
uint64_t weft_cli_host_id(void);

#endif
