/* SPDX-License-Identifier: Apache-2.0 */
/* The plan of a run inside a test, from an INI's text; nothing is opened. Plugins are those of the
 * build tree and of tests/fixtures/run. */
#ifndef PLAN_RUN_H
#define PLAN_RUN_H

#include "compile/driver/plan.h"

typedef struct plan_run {
    weft_text seen; /* the log */
    weft_log log;
    weft_error err;
    weft_settings *settings;
    weft_plugins *plugins;
    weft_host host;
    weft_plan *plan; /* NULL after a failure */
} plan_run;

/* plugins: the list, by blanks; data is `given`. rest: what follows in the INI, from inside [weft]
 * on. Release in every case. */
weft_status plan_run_init(plan_run *p, const char *plugins, const char *rest,
                          const weft_plan_options *options);
/* The same, and the test fails if it does not succeed. */
void plan_run_start(plan_run *p, const char *plugins, const char *rest,
                    const weft_plan_options *options);
void plan_run_release(plan_run *p);
/* All errors as one text, a line each; valid until the next call on this p. */
const char *plan_run_errors(plan_run *p);

#endif
