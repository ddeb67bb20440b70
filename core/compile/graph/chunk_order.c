/* SPDX-License-Identifier: Apache-2.0 */
/* The order in which a joint graph runs: as built, but the head's chunks one after the other,
 * forward and backward of each together, so that only one chunk's logits are alive at a time. */
#include "compile/graph/graph.h"

#include <string.h>

typedef struct orderer {
    weft_graph *g;
    weft_node *first, *last; /* the new list */
} orderer;

enum { OPEN = 0, PLACED = 1 };

static void emit_sums(orderer *o, weft_node *n);

/* Appends n after everything it needs. Depth is bounded by what was not emitted yet, a few chunks'
 * worth. */
static void emit(orderer *o, weft_node *n)
{
    if (n->mark == PLACED)
        return;
    n->mark = PLACED;
    for (int i = 0; i < n->n_ins; i++)
        emit(o, n->ins[i]->node);
    if (n->like)
        emit(o, n->like->node);
    n->prev = o->last;
    n->next = NULL;
    if (o->last)
        o->last->next = n;
    else
        o->first = n;
    o->last = n;
    emit_sums(o, n);
}

/* A sum stands right behind its last contribution, so that it can grow in place while the others
 * are made. */
static void emit_sums(orderer *o, weft_node *n)
{
    for (int i = 0; i < n->n_outs; i++) {
        if (n->outs[i]->n_uses != 1)
            continue;
        weft_node *user = n->outs[i]->uses[0].node;
        bool ready =
            user->phase == WEFT_BACKWARD && user->mark == OPEN && weft_node_is(user, WEFT_OP_ADD);
        for (int k = 0; ready && k < user->n_ins; k++)
            ready = user->ins[k]->node->mark == PLACED;
        if (ready)
            emit(o, user);
    }
}

/* Nodes that belong to a chunk, or that need one: they wait. */
static void mark_late(weft_graph *g, bool *late)
{
    for (weft_node *n = g->first; n; n = n->next) {
        bool wait = n->chunk >= 0 || n->phase != WEFT_FORWARD;
        for (int i = 0; !wait && i < n->n_ins; i++)
            wait = late[n->ins[i]->node->id];
        late[n->id] = wait;
    }
}

weft_status weft_graph_order(weft_graph *g)
{
    int chunks = 0;
    size_t n_nodes = 0;
    for (weft_node *n = g->first; n; n = n->next, n_nodes++)
        chunks = n->chunk >= chunks ? n->chunk + 1 : chunks;
    weft_pool pool = {0};
    bool *late = weft_pool_alloc(&pool, (size_t)g->n_nodes * sizeof *late);
    weft_node **list = weft_pool_alloc(&pool, n_nodes * sizeof *list);
    if (pool.out_of_memory) {
        weft_pool_release(&pool);
        return weft_fail_memory(&g->error);
    }
    mark_late(g, late);
    size_t i = 0;
    for (weft_node *n = g->first; n; n = n->next) {
        n->mark = OPEN;
        list[i++] = n;
    }
    orderer o = {.g = g};
    for (i = 0; i < n_nodes; i++)
        if (!late[list[i]->id])
            emit(&o, list[i]);
    for (int c = chunks - 1; c >= 0;
         c--) /* the backward was built from the last chunk to the first */
        for (i = 0; i < n_nodes; i++)
            if (list[i]->chunk == c && list[i]->scope == WEFT_MICRO_BATCH)
                emit(&o, list[i]);
    for (i = 0; i < n_nodes; i++)
        emit(&o, list[i]);
    g->first = o.first;
    g->last = o.last;
    weft_pool_release(&pool);
    return WEFT_OK;
}
