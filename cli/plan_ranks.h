/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WEFT_CLI_PLAN_RANKS_H
#define WEFT_CLI_PLAN_RANKS_H

#include "compile/driver/plan.h"
#include "session.h"

/* --rank: a number below `ranks`, or "all" (and nothing): 0. */
weft_status weft_cli_read_rank(const char *text, int ranks, int *rank, weft_error *err);
/* A line for each rank of the pipeline. */
weft_status weft_cli_print_ranks(weft_session *s, weft_text *text, weft_error *err);

#endif
