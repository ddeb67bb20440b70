/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs, meshes and tables as plugins look at them, who do not see the structs. */
#include "compile/graph/graph.h"

#include <string.h>

weft_mode weft_graph_mode(const weft_graph *g)
{
    return g->config.mode;
}

const weft_mesh *weft_graph_mesh(const weft_graph *g)
{
    return &g->config.mesh;
}

weft_node *weft_graph_first(const weft_graph *g)
{
    return g->first;
}

weft_node *weft_graph_last(const weft_graph *g)
{
    return g->last;
}

int weft_graph_values(const weft_graph *g)
{
    return g->n_values;
}

weft_value *weft_graph_loss(const weft_graph *g)
{
    return g->loss;
}

weft_value *weft_graph_parameter(const weft_graph *g, int i)
{
    return i < g->n_parameters ? g->parameters[i] : NULL;
}

int64_t weft_graph_micro_batch(const weft_graph *g)
{
    return g->config.sizes.micro_batch;
}

int64_t weft_graph_micro_batches(const weft_graph *g)
{
    return g->config.sizes.micro_batches;
}

int64_t weft_graph_context(const weft_graph *g)
{
    return g->config.context ? g->config.context : g->config.sizes.seq_len;
}

weft_dtype weft_graph_dtype(const weft_graph *g)
{
    return g->config.dtype;
}

bool weft_graph_rule(const weft_graph *g, int i, weft_table_rule *out)
{
    if (i < 0 || i >= g->n_table + g->n_strays)
        return false;
    if (i >= g->n_table) {
        const weft_stray *s = g->strays[i - g->n_table];
        *out = (weft_table_rule){.axis = s->axis, .by = s->by, .idle = true};
        return true;
    }
    const weft_table_line *l = g->table[i];
    *out = (weft_table_rule){.of = l->of,
                             .pattern = l->pattern,
                             .dim = l->dim,
                             .axis = l->axis >= 0 ? g->config.mesh.axis[l->axis].name : NULL,
                             .by = l->by,
                             .text = l->text,
                             .where = l->where,
                             .idle = l->axis < 0};
    return true;
}

const char *weft_graph_axis(const weft_graph *g, int i)
{
    return i >= 0 && i < g->config.n_axes ? g->config.axes[i] : NULL;
}

bool weft_graph_is_partial(const weft_graph *g)
{
    return g->config.partial;
}

int64_t weft_graph_size(const weft_graph *g, const char *name)
{
    const weft_dim *d = weft_map_get(&g->dims, name, strlen(name));
    return d ? d->size : 0;
}

bool weft_graph_has_field(const weft_graph *g, const char *name)
{
    bool of_step;
    return weft_input_field(g, name, &of_step) != NULL;
}

int weft_mesh_ranks(const weft_mesh *mesh)
{
    int n = 1;
    for (int i = 0; i < mesh->n_axes; i++)
        n *= mesh->axis[i].size;
    return n;
}

int weft_mesh_stride(const weft_mesh *mesh, int axis)
{
    int stride = 1;
    for (int a = 0; a < axis; a++)
        stride *= mesh->axis[a].size;
    return stride;
}

/* ---- what an op is ---- */

const char *weft_op_family(const weft_op *op)
{
    return op->family ? op->family : op->name;
}

bool weft_node_in(const weft_node *n, const char *family)
{
    return strcmp(weft_op_family(n->op), family) == 0;
}
