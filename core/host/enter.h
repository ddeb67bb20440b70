/* SPDX-License-Identifier: Apache-2.0 */
/* Calls into plugins. While one lasts the thread knows whom it is in, for crash reports; and an
 * error that comes back without words gets some. Tables of services do it by themselves (wrap.h);
 * every other call stands between the two:
 *
 *     weft_entry entry = weft_enter(plugin->name, "open", plugin->where, err);
 *     s = weft_leave(&entry, plugin->open(self, err));
 */
#ifndef WEFT_HOST_ENTER_H
#define WEFT_HOST_ENTER_H

#include "host/plugins.h"

typedef struct weft_entry {
    weft_blame in, before;
    weft_where where;
    weft_error *err;
    int n_items; /* of err, before the call */
    bool out_of_memory;
} weft_entry;

/* plugin: NULL is the core. hook: what a plugin's author calls it. where: the line that lists the
 * plugin. err: where the call notes errors; NULL: it has none to note. */
weft_entry weft_enter(const char *plugin, const char *hook, weft_where where, weft_error *err);
/* The same for a function of an op, or of a kernel for it: "plain", "launch", "differentiate". */
weft_entry weft_enter_op(const char *plugin, const char *function, const char *op, weft_error *err);
/* s: what the call returned, or WEFT_OK. Returns it; but an error that was not explained, or not
 * returned, is one of the plugin, not of the user. */
weft_status weft_leave(const weft_entry *entry, weft_status s);
/* Did the call note anything? */
bool weft_entry_is_silent(const weft_entry *entry);

#endif
