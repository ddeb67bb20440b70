/* SPDX-License-Identifier: Apache-2.0 */
/* The first steps of a run, by a process of its own: what it does is nobody else's fault, and what
 * it says is kept. */
#ifndef WEFT_CLI_STUDY_STEPS_H
#define WEFT_CLI_STUDY_STEPS_H

#include "cli.h"

/* Makes `steps` steps, with the schedule of all of them, in the folder `dir`, where observers write
 * and out.txt has whatever is said. Ranks are threads; without options->ranks as many as the mesh
 * asks for. *code: its exit code, 128 and more after a signal. Fails only if there is no process to
 * be had. */
weft_status weft_steps_run(const weft_cli_options *options, int64_t steps, const char *dir,
                           int *code, weft_error *err);
/* A folder of this process alone, for runs of a command ("bisect") in $TMPDIR or /tmp; weft_free.
 */
weft_status weft_steps_make_dir(const char *command, char **dir, weft_error *err);
/* Appends the first error that out.txt has, or its first line. */
void weft_steps_print_why(const char *dir, weft_text *text);

#endif
