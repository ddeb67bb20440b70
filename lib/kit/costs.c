/* SPDX-License-Identifier: Apache-2.0 */
/* For passes that weigh: bytes and costs of values and nodes, and what gradients read. */
#include "compile/graph/grad.h"
#include "compile/graph/graph.h"
#include "host/enter.h"

#include <stdlib.h>
#include <string.h>

/* ---- bytes ---- */

int64_t weft_value_bytes(const weft_graph *g, const weft_value *v)
{
    int64_t n = (int64_t)weft_dtype_size(v->dtype);
    (void)g;
    for (int d = 0; d < v->n_dims; d++)
        n *= v->dims[d].size;
    return n;
}

int64_t weft_value_part_bytes(const weft_graph *g, const weft_value *v)
{
    if (!v->placed)
        return weft_value_bytes(g, v);
    return weft_layout_elements(&g->config.mesh, v->layout, v->n_dims, v->dims) *
           (int64_t)weft_dtype_size(v->dtype);
}

/* ---- cost ---- */

/* The part of the rank that is first on every axis: no other is larger. */
static weft_tensor largest_part(const weft_graph *g, const weft_value *v)
{
    static const int first[WEFT_MAX_AXES];
    weft_tensor t = {.dtype = v->dtype, .n_dims = v->n_dims};
    for (int d = 0; d < v->n_dims; d++) {
        const weft_dim *dim = &v->dims[d];
        weft_span s = {0, dim->size, dim->size};
        if (v->placed)
            s = weft_layout_span(&g->config.mesh, v->layout, dim, d, first);
        t.size[d] = s.hi - s.lo;
        t.lo[d] = s.lo;
        t.whole[d] = dim->size;
        t.grain[d] = dim->grain;
    }
    return t;
}

static double flops_of(const weft_graph *g, const weft_node *n)
{
    weft_tensor parts[2 * WEFT_RULE_MAX_PARTS];
    double flops = 0;
    for (int i = 0; i < n->n_ins + n->n_outs; i++) {
        parts[i] = largest_part(g, i < n->n_ins ? n->ins[i] : n->outs[i - n->n_ins]);
        double elements = (double)weft_tensor_count(&parts[i]);
        flops = elements > flops ? elements : flops;
    }
    if (!n->op->flops)
        return flops;
    const weft_call call = {.op = n->op,
                            .attrs = n->attrs,
                            .n_attrs = n->n_attrs,
                            .n_ins = n->n_ins,
                            .n_outs = n->n_outs,
                            .ins = parts,
                            .outs = parts + n->n_ins};
    const weft_entry entry =
        weft_enter_op(weft_ops_owner(g->config.ops, n->op), "flops", n->op->name, NULL);
    flops = n->op->flops(&call);
    weft_leave(&entry, WEFT_OK);
    return flops;
}

static void count_sent(const weft_graph *g, const weft_node *n, weft_cost *out)
{
    const weft_value *v = n->outs[0];
    weft_layout before = n->ins[0]->layout;
    for (int i = 0; i < n->n_steps; before = n->steps[i++].after) {
        const weft_step *step = &n->steps[i];
        int64_t bytes =
            weft_step_bytes(&g->config.mesh, step, before, v->n_dims, v->dims, v->dtype);
        int outermost = 0;
        for (int k = 0; k < step->n_axes; k++)
            outermost = step->axes[k] > outermost ? step->axes[k] : outermost;
        out->sent += bytes;
        out->by_axis[outermost] += bytes;
    }
}

void weft_node_cost(const weft_graph *g, const weft_node *n, weft_cost *out)
{
    memset(out, 0, sizeof *out);
    for (int i = 0; i < n->n_ins; i++)
        out->read += weft_value_part_bytes(g, n->ins[i]);
    for (int i = 0; i < n->n_outs; i++)
        out->written += weft_value_part_bytes(g, n->outs[i]);
    if (n->steps)
        count_sent(g, n, out);
    else if (!(n->op->flags & WEFT_OP_SOURCE))
        out->flops = flops_of(g, n);
}

/* ---- gradients ---- */

static int add_once(weft_value **list, int n, weft_value *v)
{
    for (int i = 0; i < n; i++)
        if (list[i] == v)
            return n;
    list[n] = v;
    return n + 1;
}

static bool statement_wanted(const weft_node *n, const weft_grad *s, const bool *wanted)
{
    for (int i = 0; s->all && i < n->n_ins; i++)
        if (!wanted || wanted[n->ins[i]->id])
            return true;
    for (int i = 0; !s->all && i < s->n_targets; i++)
        if (!wanted || wanted[n->ins[s->targets[i]]->id])
            return true;
    return false;
}

/* N and rN; neither dy nor likeN. */
static int statement_reads(const weft_node *n, const weft_grad *s, weft_value **list, int n_list)
{
    size_t size;
    for (const char *p = weft_grad_word(s->args, &size); size;
         p = weft_grad_word(p + size, &size)) {
        if (*p == 'r')
            n_list = add_once(list, n_list, n->outs[atoi(p + 1)]);
        else if (*p >= '0' && *p <= '9')
            n_list = add_once(list, n_list, n->ins[atoi(p)]);
    }
    return n_list;
}

int weft_gradient_reads(const weft_node *n, const bool *wanted, weft_value **list)
{
    int n_list = 0;
    weft_error ignored = {0};
    weft_grad s;
    for (const char *const *text = n->op->grad; text && *text; text++)
        if (!weft_grad_read(n->op, *text, n->n_ins, n->n_outs, &s, &ignored) &&
            statement_wanted(n, &s, wanted))
            n_list = statement_reads(n, &s, list, n_list);
    weft_error_release(&ignored);
    if (!n->op->differentiate || !weft_grad_covers_wanted(n, wanted))
        return n_list;
    for (int i = 0; i < n->n_ins; i++)
        n_list = weft_grad_declares(n, n->ins[i]) ? add_once(list, n_list, n->ins[i]) : n_list;
    for (int r = 0; r < n->n_outs; r++)
        n_list = weft_grad_declares(n, n->outs[r]) ? add_once(list, n_list, n->outs[r]) : n_list;
    weft_value *origins[WEFT_RULE_MAX_PARTS];
    int n_origins = weft_grad_origins(n, origins);
    for (int i = 0; i < n_origins && n_list < n->n_ins + n->n_outs; i++)
        n_list = add_once(list, n_list, origins[i]);
    return n_list;
}
