/* SPDX-License-Identifier: Apache-2.0 */
/* weft report: a run as one page for a browser. */
#ifndef WEFT_CLI_REPORT_H
#define WEFT_CLI_REPORT_H

#include "compile/driver/plan.h"
#include "folder.h"

/* Adds "memory", "collectives" and "pipeline" of a plan to the page's data. */
weft_status weft_page_add_plan(json_t *page, const weft_plan *plan, weft_error *err);

#endif
