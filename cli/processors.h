/* SPDX-License-Identifier: Apache-2.0 */
/* How many processors this process may use, which is not how many the machine has. */
#ifndef WEFT_CLI_PROCESSORS_H
#define WEFT_CLI_PROCESSORS_H

#include <stdint.h>

typedef struct weft_processors {
    int n;       /* of the affinity mask, no more than the cgroups' quota rounded up; at least 1 */
    uint64_t id; /* processes with the same id share them: same host, same mask, same cgroup */
} weft_processors;

weft_processors weft_cli_processors(void);

/* Processors that the cgroups of a process allow, 0: no limit. groups: /proc/self/cgroup or a file
 * like it; root: where cgroups are mounted. A quota counts for all groups below it, so the smallest
 * on the way to the root is taken; version 1 and 2. */
double weft_cli_quota(const char *groups, const char *root);

#endif
