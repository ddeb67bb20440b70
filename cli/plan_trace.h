/* SPDX-License-Identifier: Apache-2.0 */
/* weft plan --trace: a step that was never run, as Chrome trace JSON. */
#ifndef WEFT_CLI_PLAN_TRACE_H
#define WEFT_CLI_PLAN_TRACE_H

#include "forecast/forecast.h"

/* When tasks and instructions run. */
typedef struct weft_cli_steps {
    const weft_roofline *roofline;
    const weft_forecast *forecast;
    const weft_timeline *measured; /* of tasks that take what somebody says; NULL: as predicted */
} weft_cli_steps;

/* Tasks of all ranks of the pipeline, and inside those of the planned rank its instructions, a row
 * a queue, as predicted; where tasks were measured, in proportion. */
weft_status weft_cli_write_trace(const weft_plan *plan, const weft_cli_steps *steps,
                                 const char *path, weft_error *err);

#endif
