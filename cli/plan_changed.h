/* SPDX-License-Identifier: Apache-2.0 */
/* weft plan --print-changed: two prints of a graph, before and after a pass. */
#ifndef WEFT_CLI_PLAN_CHANGED_H
#define WEFT_CLI_PLAN_CHANGED_H

#include <weft/base.h>

/* Appends the nodes' lines, each section's under its head, of which
 *   the pass took some away:  "- %x: f32[8] = add(%a, %b)"
 *   brought some:             "+ %x.c: bf16[8] = cast(%x)"
 *   changed some:             "~ %x: [-f32-]{+bf16+}[8] = add(%a, [-%b-]{+%b.c+})"
 * A line is the same that has the same words in the same section, and has changed if its first
 * result's name is the same. False: out of memory. */
bool weft_cli_print_changed(const weft_text *before, const weft_text *after, weft_text *out);

#endif
