/* SPDX-License-Identifier: Apache-2.0 */
/* weft plan --trace: a step that was never run, as Chrome trace JSON. */
#ifndef WEFT_CLI_PLAN_TRACE_H
#define WEFT_CLI_PLAN_TRACE_H

#include "lower/plan.h"

/* Tasks of all ranks of the pipeline as the timeline has them, and inside those of the planned rank
 * its instructions, a row a queue, as the roofline has them; where that is not what the task takes,
 * in proportion. */
weft_status weft_cli_write_trace(const weft_plan *plan, const weft_timeline *timeline,
                                 const weft_roofline *roofline, const char *path, weft_error *err);

#endif
