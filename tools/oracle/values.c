/* SPDX-License-Identifier: Apache-2.0 */
/* The values of a run's graph: what the forward makes in micro-batch 0, and where the graph differs
 * from the reference's. */
#include "oracle.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <weft/marks.h>

static oracle_value *find(const oracle_record *r, const char *name)
{
    return weft_map_get(&r->by_name, name, strlen(name));
}

/* A value that is made otherwise is its own cause, unless all that was done is to move what was
 * made otherwise before. Any other value's is the nearest before it, looking past what is not
 * compared itself (as the backward); a computation comes before a move. */
static oracle_value *cause_of(const oracle_record *r, const weft_node *n, oracle_value *self)
{
    oracle_value *nearest = NULL;
    if (self->changed && !self->moves)
        return self;
    for (int i = 0; i < n->n_ins; i++) {
        const oracle_value *in = find(r, n->ins[i]->name);
        if (in && in->cause && (in->changed || !in->whole) &&
            (!nearest || (nearest->moves && !in->cause->moves)))
            nearest = in->cause;
    }
    return self->changed && (!nearest || nearest->moves) ? self : nearest;
}

/* What is a part of the sequence, as of the head's chunks, or a sum over one, has other places
 * where that lies in another order. */
static bool is_apart(const oracle_record *r, const weft_graph *g, const weft_value *v)
{
    int d = weft_value_dim(v, "seq");
    return d >= 0 ? v->dims[d].size != weft_graph_seq_len(g) : v->node->chunk >= 0 && r->chunks > 1;
}

/* Are its places numbers of the mesh: those of groups, of which this mesh has others than that of
 * the reference, or what an op says to be so? */
static bool is_of_mesh(const oracle_value *known, const weft_value *v)
{
    bool other = weft_get_mark(v->node, WEFT_MARK_OF_MESH) || (known && known->n_dims != v->n_dims);
    for (int d = 0; known && d < v->n_dims && !other; d++)
        other = known->dims[d] != v->dims[d].size;
    return other;
}

/* Has it a name that depends on what else is in the graph: a number behind its op's, or behind a
 * name that another has? */
static bool is_numbered(const weft_graph *g, const weft_value *v)
{
    static const char digits[] = "0123456789";
    char name[128];
    size_t n = strcspn(v->name, "'"), from;
    if (n >= sizeof name)
        return true;
    memcpy(name, v->name, n);
    name[n] = '\0';
    for (from = n; from > 0 && strchr(digits, name[from - 1]); from--)
        continue;
    if (from > 0 && from < n && name[from - 1] == '.' && v->result == 0 && v->node->chunk < 0)
        return true;
    name[from] = '\0';
    return from < n && weft_ops_find(g->config.ops, name);
}

/* Is it one of several terms of a gradient (x', x'.2)? They are added in an order that depends on
 * layouts. */
static bool is_term(const weft_graph *g, const weft_value *v)
{
    char second[512];
    size_t n = (size_t)snprintf(second, sizeof second, "%s.2", v->name);
    return strstr(v->name, "'.") || n >= sizeof second || weft_graph_find(g, second);
}

static bool is_traced(const oracle_record *r, const weft_graph *g, const weft_value *v,
                      const oracle_value *known)
{
    if (r->reference && v->node->chunk >= 0 && r->chunks != r->reference->chunks)
        return false; /* another part of the head, of the same name */
    if ((g->seq_order || (r->reference && r->reference->seq_ordered)) && is_apart(r, g, v))
        return false;
    if (is_of_mesh(known, v))
        return false;
    for (int a = 0; a < WEFT_MAX_AXES; a++)
        if (weft_layout_open(v->layout, a) == WEFT_OPEN_MAX)
            return false;
    if (weft_dtype_is_f8(v->dtype))
        return false;
    if (is_numbered(g, v) || v->node->phase == WEFT_RECOMPUTE)
        return false;
    if (v->node->phase == WEFT_BACKWARD &&
        (r->eighth || is_term(g, v) || weft_value_dim(v, "batch") < 0 ||
         (known && strcmp(known->op, v->node->op->name) != 0)))
        return false;
    return r->trace && v->fetch && v->node->scope == WEFT_MICRO_BATCH &&
           (!r->reference ||
            (known && known->whole && r->micro_batch == r->reference->micro_batch));
}

/* Of the first result of a node: what is constant in it. */
static bool copy_attrs(oracle_record *r, const weft_node *n, oracle_value *to)
{
    to->n_attrs = n->n_attrs;
    to->attrs = weft_pool_alloc(&r->pool, (size_t)(n->n_attrs + 1) * sizeof *to->attrs);
    for (int i = 0; to->attrs && i < n->n_attrs; i++) {
        weft_attr *a = &to->attrs[i];
        *a = n->attrs[i];
        a->key = weft_pool_strdup(&r->pool, a->key);
        a->text = weft_pool_strdup(&r->pool, a->text ? a->text : "");
        if (!a->key || !a->text)
            return false;
    }
    return to->attrs != NULL;
}

static weft_status list_one(oracle_record *r, const weft_graph *g, const weft_node *n,
                            const weft_value *v, oracle_value *to, weft_error *err)
{
    const oracle_value *known = r->reference ? find(r->reference, v->name) : NULL;
    to->name = weft_pool_strdup(&r->pool, v->name);
    to->op = weft_pool_strdup(&r->pool, n->op->name);
    to->by = weft_pool_strdup(&r->pool, n->by ? n->by : "core");
    to->size = -1;
    if (!to->name || !to->op || !to->by || !copy_attrs(r, n, to) ||
        !weft_map_set(&r->by_name, &r->pool, v->name, strlen(v->name), to))
        return weft_fail_memory(err);
    if (v->update_of &&
        (!(to->becomes = weft_pool_format(&r->pool, "-> %s", v->update_of->name)) ||
         !weft_map_set(&r->by_name, &r->pool, to->becomes, strlen(to->becomes), to)))
        return weft_fail_memory(err);
    to->block = n->block;
    to->backward = n->phase == WEFT_BACKWARD;
    to->moves = n->steps || weft_node_is(n, WEFT_OP_GATHER);
    to->numbered = is_numbered(g, v);
    to->term = strchr(v->name, '\'') && is_term(g, v);
    to->apart = (g->seq_order && is_apart(r, g, v)) || is_of_mesh(known, v);
    to->changed = r->reference && (!known || strcmp(known->op, to->op) != 0);
    to->cause = cause_of(r, n, to);
    to->count = 1;
    to->n_dims = v->n_dims;
    for (int d = 0; d < v->n_dims; d++)
        to->count *= to->dims[d] = v->dims[d].size;
    if (is_traced(r, g, v, known) &&
        !(to->whole = weft_pool_alloc(&r->pool, (size_t)to->count * sizeof(double))))
        return weft_fail_memory(err);
    return WEFT_OK;
}

weft_status oracle_list_values(oracle_record *r, const weft_graph *g, int64_t micro_batches,
                               weft_error *err)
{
    if (r->values)
        return WEFT_OK;
    r->values = weft_pool_alloc(&r->pool, (size_t)g->n_values * sizeof *r->values);
    r->micro_batch = g->config.sizes.micro_batch;
    r->seq_ordered = g->seq_order != NULL;
    for (const weft_node *n = g->first; n; n = n->next)
        r->chunks = n->chunk >= r->chunks ? n->chunk + 1 : r->chunks;
    weft_status s = r->values ? WEFT_OK : weft_fail_memory(err);
    for (const weft_node *n = g->first; n; n = n->next)
        for (int i = 0; i < n->n_outs && !s; i++)
            s = list_one(r, g, n, n->outs[i], &r->values[r->n_values++], err);
    if (!s && (r->feeds || r->fed))
        s = oracle_identify(r, g, micro_batches, err);
    return s;
}

bool oracle_speaks(const weft_run *run, const weft_value *v)
{
    const weft_lowered *l = run->plan->lowered[WEFT_MODE_TRAIN];
    for (int a = 0; a < run->plan->mesh.n_axes; a++)
        if (weft_layout_byte(v->layout, a) == 0 && l->coord[a] != 0)
            return false;
    return weft_layout_held(v->layout, l->coord);
}

static double size_of(oracle_value *v)
{
    double squares = 0;
    for (int64_t i = 0; i < v->count && v->size < 0; i++)
        squares += isfinite(v->whole[i]) ? v->whole[i] * v->whole[i] : 0;
    v->size = v->size < 0 ? sqrt(squares) : v->size;
    return v->size;
}

/* A rank's part; a sum that is still open says nothing by itself. */
static void measure(const oracle_record *r, oracle_value *to, const weft_value *v,
                    const weft_tensor *local, int64_t n)
{
    oracle_value *x =
        r->reference && !weft_layout_open_axes(v->layout) ? find(r->reference, v->name) : NULL;
    if (!x || !x->whole || x->count != to->count || n == 0)
        return;
    double least = size_of(x) * sqrt((double)n / (double)x->count);
    oracle_measure(x->whole, local, least, &to->part);
}

weft_status oracle_probe_value(weft_probe *probe, weft_run *run, const weft_value *v,
                               const weft_tensor *local, int64_t micro, weft_error *err)
{
    oracle_record *r = (oracle_record *)probe;
    weft_status s = oracle_round(r, run, v, micro, err);
    s = s ? s : oracle_choose(r, run, v, local, micro, err);
    if (s)
        return s;
    if (run->step + 1 == r->n_steps && r->feeds)
        return oracle_feed(r, run, v, local, micro, err);
    if (!r->trace || run->step + 1 != r->n_steps || !oracle_speaks(run, v))
        return WEFT_OK;
    pthread_mutex_lock(&r->lock);
    oracle_value *to = find(r, v->name);
    s = to && r->fed ? oracle_keep(r, to, v, local, micro, err) : WEFT_OK;
    int64_t n = to && to->whole && micro == 0 ? weft_tensor_count(local) : 0;
    if (n > 0) {
        oracle_add(to->whole, local);
        measure(r, to, v, local, n);
    }
    pthread_mutex_unlock(&r->lock);
    return s;
}
