/* SPDX-License-Identifier: Apache-2.0 */
/* Do all ranks see the same run folder? */
#ifndef WEFT_CLI_SHARED_H
#define WEFT_CLI_SHARED_H

#include "launch/ranks.h"

/* All ranks, once rank 0 has made the folder: rank 0 writes something there that nobody could know,
 * and every rank reads it. WEFT_ERR_INPUT on a rank that does not find it; the others learn who it
 * was. Nothing is left behind. Ranks that are threads share what there is. */
weft_status weft_cli_check_shared(weft_rank *rank);

#endif
