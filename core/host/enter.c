/* SPDX-License-Identifier: Apache-2.0 */
#include "host/enter.h"

static weft_entry enter(weft_blame in, weft_where where, weft_error *err)
{
    return (weft_entry){.in = in,
                        .before = weft_blame_set(in),
                        .where = where,
                        .err = err,
                        .n_items = err ? err->n_items : 0,
                        .out_of_memory = err && err->out_of_memory};
}

weft_entry weft_enter(const char *plugin, const char *hook, weft_where where, weft_error *err)
{
    return enter((weft_blame){.plugin = plugin, .hook = hook}, where, err);
}

weft_entry weft_enter_op(const char *plugin, const char *function, const char *op, weft_error *err)
{
    return enter((weft_blame){.plugin = plugin, .hook = function, .op = op}, WEFT_NOWHERE, err);
}

bool weft_entry_is_silent(const weft_entry *entry)
{
    const weft_error *err = entry->err;
    return err && err->n_items == entry->n_items && err->out_of_memory == entry->out_of_memory;
}

/* The user cannot have done wrong what nobody names, and no signal asked to stop. */
static weft_status blame_plugin(weft_status s)
{
    switch (s) {
    case WEFT_ERR_MEMORY:
    case WEFT_ERR_IO:
    case WEFT_ERR_RUN:
    case WEFT_ERR_PEER:
    case WEFT_ERR_REPEATS:
        return s;
    default:
        return WEFT_ERR_RUN;
    }
}

weft_status weft_leave(const weft_entry *entry, weft_status s)
{
    const bool silent = !entry->err || weft_entry_is_silent(entry);
    const char *plugin = entry->in.plugin;
    weft_blame_set(entry->before);
    if (silent == !s || (s && !entry->err))
        return s;
    return weft_fail(entry->err, s ? blame_plugin(s) : WEFT_ERR_PLUGIN, entry->where,
                     "%s%s%s failed in %s%s%s%s", plugin ? "plugin '" : "the core",
                     plugin ? plugin : "", plugin ? "'" : "", entry->in.hook,
                     entry->in.op ? " of op " : "", entry->in.op ? entry->in.op : "",
                     s ? " without a message; weft_fail() gives one" : ", and returned WEFT_OK");
}
