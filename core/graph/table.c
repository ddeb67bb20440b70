/* SPDX-License-Identifier: Apache-2.0 */
/* What the table says: layouts of parameters and inputs, demands on roles. */
#include "graph/internal.h"

#include <fnmatch.h>
#include <string.h>

static bool matches(const weft_table_line *line, weft_rule_of of, const char *name)
{
    return line->of == of && (!line->pattern || fnmatch(line->pattern, name, 0) == 0);
}

/* The axes that the table puts on a dim, as a set. */
static weft_axes asked(const weft_graph *g, weft_rule_of of, const char *name, const char *dim)
{
    weft_axes set = 0;
    for (int i = 0; i < g->n_table; i++)
        if (matches(&g->table[i], of, name) && g->table[i].dim && strcmp(g->table[i].dim, dim) == 0)
            set |= 1u << g->table[i].axis;
    return set;
}

/* The dim that storage axes cut: the first whose local size divides, else the largest. */
static int storage_dim(const weft_graph *g, const weft_value *v, int64_t count)
{
    const weft_mesh *mesh = &g->config.mesh;
    int best = 0;
    int64_t largest = -1;
    for (int d = 0; d < v->n_dims; d++) {
        int list[WEFT_MAX_AXES], n = weft_layout_list(v->layout, d, list);
        weft_axes cuts = 0;
        for (int i = 0; i < n; i++)
            cuts |= 1u << list[i];
        int64_t local = v->dims[d].size / weft_mesh_count(mesh, cuts);
        if (local > 0 && local % count == 0)
            return d;
        if (local > largest) {
            largest = local;
            best = d;
        }
    }
    return best;
}

weft_status weft_table_source(weft_graph *g, weft_value *v)
{
    const weft_mesh *mesh = &g->config.mesh;
    bool parameter = strcmp(v->node->op->name, "input") != 0;
    v->layout = (weft_layout){0};
    for (int d = 0; d < v->n_dims; d++) {
        weft_axes set = asked(g, parameter ? WEFT_RULE_PARAM : WEFT_RULE_INPUT, v->name, v->dims[d].name);
        for (int a = mesh->n_axes - 1; a >= 0; a--) /* the mesh's innermost comes last */
            if ((set >> a & 1u) && !weft_layout_cuts(v->layout, a))
                v->layout = weft_layout_cut(v->layout, d, a, false);
    }
    v->placed = true;
    if (!parameter || v->n_dims == 0)
        return WEFT_OK;
    v->store_axes = 0;
    for (int i = 0; i < g->n_storage; i++)
        if (!weft_layout_cuts(v->layout, g->storage[i]))
            v->store_axes |= 1u << g->storage[i];
    if (!v->store_axes)
        return WEFT_OK;
    int d = storage_dim(g, v, weft_mesh_count(mesh, v->store_axes));
    for (int i = 0; i < g->n_storage; i++) /* appended, whatever the listing order: innermost of the dim */
        if (v->store_axes >> g->storage[i] & 1u)
            v->layout = weft_layout_cut(v->layout, d, g->storage[i], v->dims[d].grain > 1);
    return WEFT_OK;
}

bool weft_table_wants(const weft_graph *g, const weft_value *v, int axis, unsigned *state)
{
    if (!v->role)
        return false;
    bool found = false;
    for (int i = 0; i < g->n_table; i++) {
        const weft_table_line *line = &g->table[i];
        if (line->axis != axis || !matches(line, WEFT_RULE_ROLE, v->role))
            continue;
        if (!line->dim) {
            *state = 0;
            found = true;
            continue;
        }
        for (int d = 0; d < v->n_dims; d++) {
            if (strcmp(v->dims[d].name, line->dim) != 0)
                continue;
            *state = 0x80u | (unsigned)d << 3;
            found = true;
        }
    }
    return found;
}
