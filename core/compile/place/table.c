/* SPDX-License-Identifier: Apache-2.0 */
/* What the table says: layouts of parameters and inputs, demands on roles. */
#include "compile/graph/graph.h"

#include <fnmatch.h>
#include <string.h>

bool weft_table_matches(const weft_table_line *line, weft_rule_of of, const char *name)
{
    if (line->of != of || !line->pattern || of == WEFT_RULE_VALUE)
        return line->of == of && (!line->pattern || strcmp(line->pattern, name) == 0);
    return fnmatch(line->pattern, name, 0) == 0;
}

static bool keep_text(weft_graph *g, const char **text)
{
    if (*text)
        *text = weft_pool_strdup(&g->pool, *text);
    else
        return true;
    return *text != NULL;
}

static void add_line(weft_graph *g, const weft_table_line *line)
{
    weft_table_line *kept = weft_pool_alloc(&g->pool, sizeof *kept);
    bool ok = kept != NULL;
    if (ok)
        *kept = *line;
    ok = ok && keep_text(g, &kept->pattern) && keep_text(g, &kept->dim) &&
         keep_text(g, &kept->by) && keep_text(g, &kept->text);
    if (ok)
        weft_graph_push(g, (void ***)&g->table, &g->n_table, &g->table_capacity, kept);
}

void weft_graph_note_stray(weft_graph *g, const char *axis)
{
    for (int i = 0; i < g->n_strays; i++)
        if (strcmp(g->strays[i]->axis, axis) == 0 && strcmp(g->strays[i]->by, g->by) == 0)
            return;
    weft_stray *s = weft_pool_alloc(&g->pool, sizeof *s);
    char *name = weft_pool_strdup(&g->pool, axis);
    if (!s || !name)
        return;
    *s = (weft_stray){g->by, name};
    weft_graph_push(g, (void ***)&g->strays, &g->n_strays, &g->strays_capacity, s);
}

/* A line of the user is shown though its axis has one rank. */
void weft_add_rule_with(weft_graph *g, const weft_table_rule *rule)
{
    const int axis = weft_mesh_find(&g->config.mesh, rule->axis);
    if (axis < 0 && !rule->text)
        weft_graph_note_stray(g, rule->axis);
    else
        add_line(g, &(weft_table_line){.of = rule->of,
                                       .pattern = rule->pattern,
                                       .dim = rule->dim,
                                       .axis = axis,
                                       .by = rule->by ? rule->by : g->by,
                                       .text = rule->text,
                                       .where = rule->where});
}

int weft_value_dim(const weft_value *v, const char *name)
{
    for (int d = 0; d < v->n_dims; d++)
        if (strcmp(v->dims[d].name, name) == 0)
            return d;
    return -1;
}

/* Of the lines that speak of v, the user's or the plugins', the one that counts for an axis. Roles
 * and users: the last. Parameters and inputs that plugins speak of: the one for the first dim. */
static const weft_table_line *find_line(const weft_graph *g, bool user, weft_rule_of of,
                                        const char *name, const weft_value *v, int axis)
{
    const weft_table_line *best = NULL;
    for (int i = 0; i < g->n_table; i++) {
        const weft_table_line *line = g->table[i];
        if ((line->text != NULL) != user || line->axis != axis ||
            !weft_table_matches(line, of, name) || (line->dim && weft_value_dim(v, line->dim) < 0))
            continue;
        bool last = user || of == WEFT_RULE_ROLE || of == WEFT_RULE_VALUE;
        if (last || !best ||
            (best->dim && line->dim && weft_value_dim(v, line->dim) < weft_value_dim(v, best->dim)))
            best = line;
    }
    return best;
}

const weft_table_line *weft_table_line_of(const weft_graph *g, weft_rule_of of, const char *name,
                                          const weft_value *v, int axis)
{
    const weft_table_line *line = find_line(g, true, of, name, v, axis);
    return line ? line : find_line(g, false, of, name, v, axis);
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

bool weft_gathers_over(const weft_graph *g, const weft_node *gather, int axis)
{
    const char *name = g->config.mesh.axis[axis].name;
    if (!weft_node_has(gather, "axes"))
        return true;
    size_t n;
    for (const char *p = weft_node_text(gather, "axes"); *(p += strspn(p, " ")); p += n) {
        n = strcspn(p, " ");
        if (strlen(name) == n && strncmp(p, name, n) == 0)
            return true;
    }
    return false;
}

/* How many gathers stand before the one that makes v whole over the axis before it is used; -1:
 * there is none, so that storage would be how it is computed with. */
static int gathers_before(const weft_graph *g, const weft_value *v, int axis)
{
    for (int i = 0; i < v->n_uses; i++) {
        const weft_node *user = v->uses[i].node;
        bool gather = weft_node_is(user, WEFT_OP_GATHER);
        if (gather && weft_gathers_over(g, user, axis))
            return 0;
        int behind =
            user->n_outs && user->outs[0]->weight ? gathers_before(g, user->outs[0], axis) : -1;
        if (behind >= 0)
            return behind + gather;
    }
    return -1;
}

/* Storage axes of v, outermost first: those that are gathered last, and of these the mesh's
 * outermost first. Returns how many. */
static int storage_list(const weft_graph *g, const weft_value *v, weft_axes whole,
                        int list[WEFT_MAX_AXES])
{
    int before[WEFT_MAX_AXES], n = 0;
    for (int i = 0; i < g->n_storage; i++) {
        int axis = g->storage[i], gathers = gathers_before(g, v, axis), k = n;
        if (gathers < 0 || weft_layout_cuts(v->layout, axis) || (whole >> axis & 1u))
            continue;
        for (;
             k > 0 && (before[k - 1] < gathers || (before[k - 1] == gathers && list[k - 1] < axis));
             k--) {
            list[k] = list[k - 1];
            before[k] = before[k - 1];
        }
        list[k] = axis;
        before[k] = gathers;
        n++;
    }
    return n;
}

weft_status weft_table_source(weft_graph *g, weft_value *v)
{
    const weft_mesh *mesh = &g->config.mesh;
    bool parameter = !weft_node_is(v->node, WEFT_OP_INPUT);
    weft_rule_of of = parameter ? WEFT_RULE_PARAM : WEFT_RULE_INPUT;
    weft_axes whole = 0; /* where the user wants no cut, there is none of storage either */
    int at = parameter ? weft_graph_block_rank(g, v->node->block) : -1;
    v->layout = (weft_layout){0};
    if (at >= 0)
        v->layout = weft_layout_set_at(v->layout, weft_graph_stage_axis(g), at);
    for (int d = 0; d < v->n_dims; d++)
        for (int a = mesh->n_axes - 1; a >= 0; a--) { /* the mesh's innermost comes last */
            const weft_table_line *line = weft_table_line_of(g, of, v->name, v, a);
            if (line && line->dim && weft_value_dim(v, line->dim) == d)
                v->layout = weft_layout_cut(v->layout, d, a, false);
            else if (line && line->text && !line->dim)
                whole |= 1u << a;
        }
    v->placed = true;
    if (!parameter || v->n_dims == 0)
        return WEFT_OK;
    int list[WEFT_MAX_AXES], n = storage_list(g, v, whole, list);
    v->store_axes = 0;
    for (int i = 0; i < n; i++)
        v->store_axes |= 1u << list[i];
    int d = n ? storage_dim(g, v, weft_mesh_count(mesh, v->store_axes)) : 0;
    for (int i = 0; i < n; i++) /* appended, whatever the listing order: innermost of the dim */
        v->layout = weft_layout_cut(v->layout, d, list[i], v->dims[d].grain > 1);
    weft_store_as_trained(g, v);
    return WEFT_OK;
}

bool weft_table_wants(const weft_graph *g, const weft_value *v, int axis, unsigned *state)
{
    const weft_table_line *line = weft_table_line_of(g, WEFT_RULE_VALUE, v->name, v, axis);
    if (!line && v->role)
        line = weft_table_line_of(g, WEFT_RULE_ROLE, v->role, v, axis);
    if (!line)
        return false;
    *state = line->dim ? 0x80u | (unsigned)weft_value_dim(v, line->dim) << 3 : 0;
    return true;
}

weft_where weft_table_where(const weft_graph *g, int axis, const char *dim)
{
    for (int i = 0; i < g->n_table; i++) {
        const weft_table_line *line = g->table[i];
        if (line->text && line->axis == axis && line->dim && strcmp(line->dim, dim) == 0)
            return line->where;
    }
    return WEFT_NOWHERE;
}
