/* SPDX-License-Identifier: Apache-2.0 */
/* What lines of the table speak of. */
#ifndef RULES_H
#define RULES_H

#include <weft/weft.h>

/* Over the values that lines of a kind can speak of. */
typedef struct rules_walk {
    weft_rule_of of;
    const weft_node *node;
    int result;
} rules_walk;

rules_walk rules_begin(const weft_graph *g, weft_rule_of of);
/* *name: what patterns are compared with. NULL: no more. */
const weft_value *rules_next(rules_walk *w, const char **name);
/* Something has the name (*called); something of that has the dim. */
bool rules_is_found(const weft_graph *g, const weft_table_rule *rule, bool *called);
/* The names that a line of this kind can be about, or the dims of those that it matches, each once;
 * names has room for RULES_NAMES. Returns how many. */
enum { RULES_NAMES = 4096 };
int rules_candidates(const weft_graph *g, const weft_table_rule *rule, bool dims,
                     const char **names);
/* "parameter", "input", "value with the role". */
const char *rules_kind(weft_rule_of of);
/* Does a plugin declare this axis, or one that is not listed this time? usual: the names of those,
 * a list of `host`'s section. */
bool rules_is_axis(const weft_graph *g, const weft_host *host, const char *axis);
/* The declared axes, in names with room for RULES_NAMES; returns how many. */
int rules_axes(const weft_graph *g, const char **names);

/* unused.c: warns of plugins' lines that speak of nothing that is there, and of axes that nobody
 * declares. */
weft_status rules_warn(const weft_graph *g, const weft_host *host, weft_error *err);

#endif
