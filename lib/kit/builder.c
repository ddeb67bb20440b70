/* SPDX-License-Identifier: Apache-2.0 */
/* Short ways for models and passes to say what they want of a graph. */
#include "compile/graph/graph.h"

#include <string.h>

/* ---- names ---- */

static const char *keep(weft_graph *g, const char *format, va_list args)
{
    char *text = weft_vformat(format, args);
    const char *kept = text ? weft_pool_strdup(&g->pool, text) : NULL;
    if (!kept)
        weft_fail_memory(&g->error);
    weft_free(text);
    return kept;
}

const char *weft_graph_format(weft_graph *g, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const char *text = keep(g, format, args);
    va_end(args);
    return text;
}

void weft_graph_set_prefix(weft_graph *g, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    g->prefix = keep(g, format, args);
    va_end(args);
}

void weft_graph_set_parameter_prefix(weft_graph *g, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    g->parameter_prefix = keep(g, format, args);
    va_end(args);
}

/* ---- nodes ---- */

bool weft_graph_has_op(const weft_graph *g, const char *name)
{
    return weft_ops_find(g->config.ops, name) != NULL;
}

void weft_graph_set_block(weft_graph *g, int block)
{
    g->spot.block = block;
    g->prefix = g->parameter_prefix = NULL;
    if (block >= g->n_blocks)
        g->n_blocks = block + 1;
}

void weft_graph_set_chunk(weft_graph *g, int chunk)
{
    g->spot.chunk = chunk;
}

void weft_graph_at(weft_graph *g, weft_node *before)
{
    if (!g->spot.before)
        g->end = g->spot;
    g->spot = before
                  ? (weft_spot){before, before->block, before->chunk, before->phase, before->scope}
                  : g->end;
}

weft_value *weft_add_many(weft_graph *g, const char *op, const char *name, int n_ins,
                          weft_value *const *ins, int n_outs, weft_value **outs)
{
    return weft_add_full(g, op, name, n_ins, ins, n_outs, outs, NULL, 0);
}

weft_value *weft_add1(weft_graph *g, const char *op, const char *name, weft_value *a)
{
    return weft_add(g, op, name, 1, &a);
}

weft_value *weft_add2(weft_graph *g, const char *op, const char *name, weft_value *a, weft_value *b)
{
    return weft_add(g, op, name, 2, (weft_value *[]){a, b});
}

weft_value *weft_add3(weft_graph *g, const char *op, const char *name, weft_value *a, weft_value *b,
                      weft_value *c)
{
    return weft_add(g, op, name, 3, (weft_value *[]){a, b, c});
}

/* ---- what passes say of values and of the whole ---- */

void weft_set_role(weft_graph *g, weft_value *v, const char *role)
{
    if (!v)
        return;
    v->role = weft_pool_strdup(&g->pool, role);
    if (!v->role)
        weft_fail_memory(&g->error);
}

void weft_graph_note(weft_graph *g, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char *text = weft_vformat(format, args);
    va_end(args);
    char *line = text ? weft_pool_format(&g->pool, "%s: %s", g->by ? g->by : "core", text) : NULL;
    weft_free(text);
    if (!line)
        weft_fail_memory(&g->error);
    else
        weft_graph_push(g, (void ***)&g->notes, &g->n_notes, &g->notes_capacity, line);
}

static weft_status check_report(weft_graph *g, const char *name, const weft_value *v)
{
    if (strncmp(name, "loss.", 5) == 0)
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "report '%s': names that begin with loss. are those of the loss's terms, "
                        "see weft_add_loss; choose another name",
                        name);
    if (v->n_dims > 0)
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "report '%s': %s has %d dim%s; a report is one number", name, v->name,
                        v->n_dims, v->n_dims > 1 ? "s" : "");
    for (int i = 0; i < g->n_reports; i++)
        if (strcmp(g->reports[i].name, name) == 0)
            weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                            "report '%s' is there already (%s); choose another name", name,
                            g->reports[i].by);
    return weft_graph_status(g);
}

void weft_add_report(weft_graph *g, const char *name, weft_value *scalar)
{
    if (scalar && !weft_graph_status(g) && !check_report(g, name, scalar))
        weft_graph_report(g, name, scalar);
}

void weft_add_refusal(weft_graph *g, const char *name, weft_value *scalar, const char *why,
                      const char *other)
{
    const int n = g->n_reports;
    weft_add_report(g, name, scalar);
    if (g->n_reports == n)
        return;
    g->reports[n].why = weft_pool_strdup(&g->pool, why);
    g->reports[n].other = other ? weft_pool_strdup(&g->pool, other) : NULL;
    if (!g->reports[n].why || (other && !g->reports[n].other))
        weft_fail_memory(&g->error);
}

void weft_add_regather(weft_graph *g, const char *axis)
{
    int a = weft_mesh_find(&g->config.mesh, axis);
    if (a < 0) {
        weft_graph_note_stray(g, axis);
        return;
    }
    g->regather |= 1u << a;
    g->regather_by = g->by;
}

void weft_add_storage(weft_graph *g, const char *axis)
{
    int a = weft_mesh_find(&g->config.mesh, axis);
    for (int i = 0; i < g->n_storage; i++)
        if (g->storage[i] == a)
            return;
    if (a < 0) {
        weft_graph_note_stray(g, axis);
        return;
    }
    g->storage_by[g->n_storage] = g->by;
    g->storage[g->n_storage++] = a;
}

weft_value *weft_add_move(weft_graph *g, weft_value *v, weft_layout layout)
{
    return v && !weft_graph_status(g)
               ? weft_move_to(g, v, layout, g->spot.before, g->spot.phase, g->by, NULL)
               : NULL;
}
