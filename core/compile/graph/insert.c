/* SPDX-License-Identifier: Apache-2.0 */
/* What passes change: nodes at use edges, storage. */
#include "compile/graph/internal.h"

#include <string.h>

static bool works_on_tokens(const weft_node *n)
{
    for (int i = 0; i < n->n_outs; i++)
        if (!n->outs[i]->weight)
            return true;
    return false;
}

static bool picked(const weft_use *use, bool (*pick)(const weft_use *, void *), void *ctx)
{
    return works_on_tokens(use->node) && (!pick || pick(use, ctx));
}

void weft_graph_at(weft_graph *g, weft_node *before)
{
    if (!g->spot.before)
        g->end = g->spot;
    g->spot = before
                  ? (weft_spot){before, before->block, before->chunk, before->phase, before->scope}
                  : g->end;
}

/* The first node, in the order of the graph, of these uses of a result of `source`. */
static weft_node *first_user(const weft_node *source, const weft_use *uses, int n)
{
    for (weft_node *at = source->next; at && n > 1; at = at->next)
        for (int i = 0; i < n; i++)
            if (uses[i].node == at)
                return at;
    return uses[0].node;
}

weft_value *weft_insert_at_use(weft_graph *g, weft_value *source, const char *op_name,
                               const char *suffix, bool (*pick)(const weft_use *, void *),
                               void *ctx)
{
    if (!source || weft_graph_status(g))
        return NULL;
    const weft_op *op = weft_ops_find(g->config.ops, op_name);
    weft_use *uses = weft_pool_alloc(&g->pool, ((size_t)source->n_uses + 1) * sizeof *uses);
    char *name = weft_pool_format(&g->pool, "%s%s", source->name, suffix);
    if (!op || !uses || !name)
        return weft_graph_fail(g, op ? WEFT_ERR_MEMORY : WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                               op ? "out of memory" : "there is no op '%s'", op_name);
    int n = 0;
    for (int i = 0; i < source->n_uses; i++)
        if (picked(&source->uses[i], pick, ctx))
            uses[n++] = source->uses[i];
    if (n == 0)
        return NULL;
    weft_node *first = first_user(source->node, uses, n);
    weft_spot spot = g->spot;
    g->spot.before = first;
    g->spot.block = first->block;
    g->spot.chunk = n == 1 ? first->chunk : -1;
    g->spot.phase = first->phase;
    g->spot.scope = WEFT_SCOPE_NONE;
    weft_node *made = weft_graph_add_node(
        g, &(weft_node_spec){.op = op, .name = name, .n_ins = 1, .ins = &source, .n_outs = 1});
    g->spot = spot;
    if (!made)
        return NULL;
    for (int i = 0; i < n; i++)
        weft_node_set_operand(g, uses[i].node, uses[i].operand, made->outs[0]);
    return made->outs[0];
}

weft_value *weft_add_before(weft_graph *g, weft_node *at, const char *op, const char *name,
                            const char *suffix, int n_ins, weft_value *const *ins)
{
    char *full = weft_pool_format(&g->pool, "%s%s", name, suffix);
    if (!full)
        return weft_graph_fail(g, WEFT_ERR_MEMORY, WEFT_NOWHERE, "out of memory");
    weft_spot spot = g->spot;
    weft_graph_at(g, at);
    weft_value *v = weft_add_many(g, op, full, n_ins, ins, 1, NULL);
    g->spot = spot;
    return v;
}

weft_value *weft_accumulate(weft_graph *g, weft_value *v, weft_total how)
{
    if (!v || weft_graph_status(g))
        return NULL;
    if (g->config.mode != WEFT_MODE_TRAIN)
        return weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                               "%s cannot be accumulated: there are steps in training only; ask "
                               "weft_graph_mode",
                               v->name);
    if (weft_value_available(v) == WEFT_STEP_END)
        return weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                               "%s cannot be accumulated: it is known only after the last "
                               "micro-batch",
                               v->name);
    weft_node_spec spec = {
        .op = weft_ops_find(g->config.ops, how == WEFT_MAX ? "accumulate_max" : "accumulate"),
        .n_ins = 1,
        .ins = &v,
        .n_outs = 1,
        .scope = WEFT_MICRO_BATCH};
    weft_node *n = weft_graph_add_node(g, &spec);
    if (n && how == WEFT_SUM && weft_dtype_is_float(v->dtype) &&
        weft_dtype_size(v->dtype) < weft_dtype_size(g->config.dtype))
        n->outs[0]->dtype = g->config.dtype;
    return n ? n->outs[0] : NULL;
}

void weft_each_use_edge(weft_graph *g, void (*visit)(weft_graph *, weft_value *, void *), void *ctx)
{
    weft_value **found = NULL;
    int n = 0, capacity = 0;
    for (weft_node *node = g->first; node; node = node->next) {
        for (int r = 0; r < node->n_outs; r++) {
            weft_value *v = node->outs[r];
            bool edge = false;
            for (int i = 0; v->weight && !edge && i < v->n_uses; i++)
                edge = works_on_tokens(v->uses[i].node);
            if (edge && !weft_graph_push(g, (void ***)&found, &n, &capacity, v))
                return;
        }
    }
    for (int i = 0; i < n && !weft_graph_status(g); i++)
        visit(g, found[i], ctx);
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

static bool is_permutation(weft_graph *g, const int32_t *order, int64_t n)
{
    bool *seen = weft_alloc_zero((size_t)n + 1, sizeof *seen), all = seen != NULL;
    for (int64_t i = 0; i < n && all; i++) {
        all = order[i] >= 0 && order[i] < n && !seen[order[i]];
        if (all)
            seen[order[i]] = true;
    }
    if (!seen)
        weft_fail_memory(&g->error);
    weft_free(seen);
    return all;
}

void weft_set_seq_order(weft_graph *g, const int32_t *order, int64_t n)
{
    int64_t seq = weft_graph_seq_len(g);
    if (weft_graph_status(g))
        return;
    if (g->placed || weft_graph_writes(g) || g->seq_order) {
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        g->seq_order ? "the order of the sequence is set already, by %s"
                                     : "the order of the sequence is set before placement, in "
                                       "graphs that train or validate%s",
                        g->seq_order ? g->seq_order_by : "");
        return;
    }
    if (n != seq || !is_permutation(g, order, n)) {
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "an order of the sequence has each of the %lld places once",
                        (long long)seq);
        return;
    }
    int32_t *kept = weft_pool_alloc(&g->pool, (size_t)n * sizeof *kept);
    if (!kept) {
        weft_fail_memory(&g->error);
        return;
    }
    memcpy(kept, order, (size_t)n * sizeof *kept);
    g->seq_order = kept;
    g->seq_order_by = g->by;
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
