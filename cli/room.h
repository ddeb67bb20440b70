/* SPDX-License-Identifier: Apache-2.0 */
/* Do the ranks of a host fit into its memory together? */
#ifndef WEFT_CLI_ROOM_H
#define WEFT_CLI_ROOM_H

#include "compile/driver/plan.h"
#include "launch/ranks.h"

#include <weft/files.h>

/* What a rank takes of the host, and which memory that is. */
typedef struct weft_room_share {
    uint64_t host, group; /* the same numbers: the same host; the same control group on it */
    int64_t bytes;
} weft_room_share;

typedef struct weft_room_sums {
    int64_t in_group, on_host; /* bytes of all ranks that share them with this one */
    int n_in_group, n_on_host, first_on_host;
} weft_room_sums;

weft_room_sums weft_cli_room_sums(const weft_room_share *all, int ranks, int rank);

/* All ranks together, before any has allocated what its plan asks for, and they agree.
 * WEFT_ERR_MEMORY where all ranks of a control group want more than its limit leaves: the kernel
 * would end them in the midst of it. What the machine has left changes as others come and go: a
 * warning. */
weft_status weft_cli_check_room(weft_rank *rank, const weft_plan *plan);

#endif
