/* SPDX-License-Identifier: Apache-2.0 */
/* What [weft] check asks for. Each check is shown what it looks at, and returns an error if it
 * finds something. */
#ifndef CHECK_H
#define CHECK_H

#include <weft/weft.h>

/* ---- memory.c: nothing is written outside of results, and nothing is read that nobody wrote ----
 */

typedef struct check_memory check_memory;

/* At MEMORY. *memory: NULL after an error. */
weft_status check_memory_create(const weft_host *host, const weft_run_view *run,
                                check_memory **memory, weft_error *err);
void check_memory_destroy(check_memory *memory);
/* Around an instruction. */
weft_status check_memory_before(check_memory *memory, const weft_run_view *run, weft_error *err);
weft_status check_memory_after(check_memory *memory, const weft_run_view *run, weft_error *err);

/* ---- nan.c: behind an instruction: is every floating result finite? ---- */

weft_status check_nan(const weft_run_view *run, weft_error *err);

/* ---- diagnose.c: at NOT_FINITE: runs the step again; its error is where it began ---- */

weft_status check_diagnose(const weft_host *host, const weft_run_view *run, weft_error *err);

/* ---- replicas.c: at GRADIENTS and UPDATED: do ranks that should hold the same do so? ---- */

weft_status check_replicas(const weft_host *host, const weft_run_view *run, bool updated,
                           weft_error *err);

#endif
