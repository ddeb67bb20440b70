/* SPDX-License-Identifier: Apache-2.0 */
/* Lines of plugins that speak of nothing. */
#include "rules.h"

#include <string.h>

/* A rule about a dim of all parameters may name one that this model has not (kv_heads), if the same
 * plugin has another for the axis that counts. */
static bool is_spare(const weft_graph *g, int line, const weft_table_rule *rule)
{
    weft_table_rule other;
    bool called;
    for (int i = 0; !rule->pattern && weft_graph_rule(g, i, &other); i++)
        if (i != line && !other.idle && other.of == rule->of &&
            strcmp(other.axis, rule->axis) == 0 && strcmp(other.by, rule->by) == 0 &&
            rules_is_found(g, &other, &called))
            return true;
    return false;
}

static void warn_of_line(const weft_graph *g, const weft_host *host, int line,
                         const weft_table_rule *r, const char **names)
{
    static const char *const words[] = {"param", "input", "role", "value"};
    bool called;
    if (rules_is_found(g, r, &called))
        return;
    const char *what = called ? r->dim : r->pattern;
    const char *near = weft_nearest(what, names, rules_candidates(g, r, called, names));
    weft_log_print(host->log, is_spare(g, line, r) ? WEFT_LOG_DEBUG : WEFT_LOG_WARN,
                   "plugin %s: its rule '%s%s%s %s %s' does nothing: no %s %s '%s'%s%s%s", r->by,
                   words[r->of], r->pattern ? ":" : "", r->pattern ? r->pattern : "",
                   r->dim ? r->dim : "-", r->axis, rules_kind(r->of),
                   called ? "that it speaks of has a dim" : "is called", what,
                   near ? "; did it mean '" : "", near ? near : "", near ? "'?" : "");
}

static void warn_of_axis(const weft_graph *g, const weft_host *host, const weft_table_rule *r,
                         const char **names)
{
    if (rules_is_axis(g, host, r->axis))
        return;
    const char *near = weft_nearest(r->axis, names, rules_axes(g, names));
    weft_log_print(
        host->log, WEFT_LOG_WARN,
        "plugin %s: its rules for axis '%s' do nothing: no listed plugin declares it%s%s%s", r->by,
        r->axis, near ? "; did it mean '" : "", near ? near : "", near ? "'?" : "");
}

weft_status rules_warn(const weft_graph *g, const weft_host *host, weft_error *err)
{
    const char **names = weft_alloc(RULES_NAMES * sizeof *names);
    weft_table_rule r;
    if (!names)
        return weft_fail_memory(err);
    for (int i = 0; weft_graph_rule(g, i, &r); i++) {
        if (r.idle)
            warn_of_axis(g, host, &r, names);
        else
            warn_of_line(g, host, i, &r, names);
    }
    weft_free(names);
    return WEFT_OK;
}
