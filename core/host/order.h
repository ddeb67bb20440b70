/* SPDX-License-Identifier: Apache-2.0 */
/* Capabilities of the listed set. Internal to order.c, capability.c and sort.c.
 *
 * When something is there: a service from the beginning, what a pass gives once the pass has run
 * (stage, then listed order), the core's own from a stage on. When it is needed: by a pass when it
 * runs, by an observer at run time, by a service or a wrap when it is opened if a service gives it
 * (listed order), else at run time. */
#ifndef WEFT_PLUGIN_ORDER_H
#define WEFT_PLUGIN_ORDER_H

#include "host/internal.h"

typedef struct weft_set {
    const weft_plugins *plugins;
    weft_slot *slots;
    int n_slots;
    int n;      /* plugins */
    int *at;    /* at[plugin]: its place in the order that is tried */
    bool *edge; /* edge[a * n + b]: a must come before b */
    weft_error *err;
    weft_status status;
} weft_set;

/* What the core gives to passes from a stage on, and to everything else. Ended by a NULL name. */
typedef struct weft_core_capability {
    const char *name;
    weft_pass_stage from;
} weft_core_capability;

extern const weft_core_capability weft_core_capabilities[];
const weft_core_capability *weft_core_capability_find(const char *name);

const weft_loaded *weft_set_loaded(const weft_set *s, int plugin);
const char *weft_set_name(const weft_set *s, int plugin);

/* A service gives its own name too. */
bool weft_gives(const weft_contribution *item, const char *capability);
/* What it needs, one by one, a wrap its service first; NULL at the end. */
const char *weft_need(const weft_contribution *item, int i);
/* A need's capability without the '?' of an optional one. */
const char *weft_plain_capability(const char *need, char buffer[64], bool *optional);
/* Negative: given before it is needed, whatever the listed order; positive: after; 0: the listed
 * order decides. */
int weft_slot_compare(const weft_slot *giver, const weft_slot *needer);
/* Gives every pass its place in the order s->at: listed order within its stage, but that one which
 * says `after` waits for all that give it. False: some wait for each other; they come last. */
bool weft_set_arrange(weft_set *s);
/* Says so, for every pass that waits for something that is not there, or for itself. */
void weft_set_check_after(weft_set *s);
/* Whether it is given in time in the order s->at, arranged. */
bool weft_set_is_before(const weft_set *s, const weft_slot *giver, const weft_slot *needer);

/* Notes an error at the line that lists the plugin. */
void weft_set_fail(weft_set *s, int plugin, const char *format, ...) WEFT_PRINTF(3, 4);
/* "plugin 'x' <words> 'capability', which no listed plugin gives", and the nearest that one does.
 */
void weft_set_fail_unknown(weft_set *s, int plugin, const char *words, const char *capability);
/* Appends "'fsdp' (run.ini:5)", for the other line of a message. */
void weft_set_add_where(const weft_set *s, int plugin, weft_text *text);

/* Fills s->edge: where only the listed order decides. */
void weft_set_add_edges(weft_set *s);
/* Appends "; this order works: plugins = a b c", or why none does. Leaves s->at as the listed
 * order. */
void weft_set_print_order(weft_set *s, weft_text *text);

#endif
