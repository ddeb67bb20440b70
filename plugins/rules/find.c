/* SPDX-License-Identifier: Apache-2.0 */
#include "rules.h"

#include <fnmatch.h>
#include <string.h>

rules_walk rules_begin(const weft_graph *g, weft_rule_of of)
{
    return (rules_walk){of, weft_graph_first(g), 0};
}

/* What lines of this kind call it; NULL: they do not speak of it. */
static const char *name_of(const weft_value *v, weft_rule_of of)
{
    switch (of) {
    case WEFT_RULE_PARAM:
        return weft_node_is(v->node, WEFT_OP_PARAMETER) ? v->name : NULL;
    case WEFT_RULE_INPUT:
        return weft_node_is(v->node, WEFT_OP_INPUT) ? v->name : NULL;
    case WEFT_RULE_VALUE:
        return v->name;
    default:
        return v->role;
    }
}

const weft_value *rules_next(rules_walk *w, const char **name)
{
    for (; w->node; w->node = w->node->next, w->result = 0)
        while (w->result < w->node->n_outs) {
            const weft_value *v = w->node->outs[w->result++];
            if ((*name = name_of(v, w->of)))
                return v;
        }
    return NULL;
}

static bool matches(const weft_table_rule *rule, const char *name)
{
    return !rule->pattern || fnmatch(rule->pattern, name, 0) == 0;
}

bool rules_is_found(const weft_graph *g, const weft_table_rule *rule, bool *called)
{
    rules_walk w = rules_begin(g, rule->of);
    const char *name;
    *called = false;
    for (const weft_value *v; (v = rules_next(&w, &name));) {
        if (!matches(rule, name))
            continue;
        *called = true;
        if (!rule->dim || weft_value_dim(v, rule->dim) >= 0)
            return true;
    }
    return false;
}

static void add_name(const char **names, int *n, const char *name)
{
    for (int i = 0; i < *n; i++)
        if (strcmp(names[i], name) == 0)
            return;
    if (*n < RULES_NAMES)
        names[(*n)++] = name;
}

int rules_candidates(const weft_graph *g, const weft_table_rule *rule, bool dims,
                     const char **names)
{
    rules_walk w = rules_begin(g, rule->of);
    const char *name;
    int n = 0;
    for (const weft_value *v; (v = rules_next(&w, &name));) {
        if (!dims)
            add_name(names, &n, name);
        for (int d = 0; dims && d < v->n_dims && matches(rule, name); d++)
            add_name(names, &n, v->dims[d].name);
    }
    return n;
}

const char *rules_kind(weft_rule_of of)
{
    static const char *const kinds[] = {"parameter", "input", "value with the role", "value"};
    return kinds[of];
}

bool rules_is_axis(const weft_graph *g, const weft_host *host, const char *axis)
{
    const char *declared;
    for (int i = 0; (declared = weft_graph_axis(g, i)); i++)
        if (strcmp(declared, axis) == 0)
            return true;
    return weft_params_has(host->params, "absent", axis);
}

int rules_axes(const weft_graph *g, const char **names)
{
    int n = 0;
    while (n < RULES_NAMES && (names[n] = weft_graph_axis(g, n)))
        n++;
    return n;
}
