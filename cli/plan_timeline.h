/* SPDX-License-Identifier: Apache-2.0 */
/* weft plan --simulate, --timeline, --timeline-svg, --trace. */
#ifndef WEFT_CLI_PLAN_TIMELINE_H
#define WEFT_CLI_PLAN_TIMELINE_H

#include "compile/driver/plan.h"

/* What was asked for; texts may be NULL. */
typedef struct weft_cli_timeline {
    bool simulate, rows;
    const char *svg, *trace, *times, *flops_per_s, *bytes_per_s;
    int64_t width;
} weft_cli_timeline;

bool weft_cli_wants_timeline(const weft_cli_timeline *wishes);
weft_status weft_cli_print_timeline(const weft_plan *plan, const weft_cli_timeline *wishes,
                                    weft_text *text, weft_error *err);

#endif
