/* SPDX-License-Identifier: Apache-2.0 */
/* No op takes an order from memory: where the places of the sequence lie in another order, as a
 * balanced context parallelism has them, results lie in that order and are the same. A rule cannot
 * say this, since it holds for indices that must be whole, too. */
#include "conform.h"

#include "compile/graph/graph.h"

#include <string.h>
#include <weft/random.h>

/* Which place of the sample lies at place i. */
typedef struct order {
    const conform *c;
    const conform_use *u;
    int64_t seq;
    weft_pool *pool;
} order;

static int64_t place_at(const order *o, int64_t i)
{
    return (int64_t)weft_permute(5, 1, (uint64_t)o->seq, (uint64_t)i);
}

static bool is_seq(const order *o, const weft_value *v, int d)
{
    return strcmp(v->dims[d].name, "seq") == 0 && v->dims[d].size == o->seq;
}

/* Where element i of a value that lies in the new order is in the old one. */
static int64_t element_at(const order *o, const weft_value *v, int64_t i)
{
    int64_t at = 0, stride = 1;
    for (int d = v->n_dims - 1; d >= 0; d--) {
        int64_t size = v->dims[d].size, place = i % size;
        at += (is_seq(o, v, d) ? place_at(o, place) : place) * stride;
        stride *= size;
        i /= size;
    }
    return at;
}

static weft_tensor in_order(const order *o, const weft_value *v, const weft_tensor *t)
{
    weft_tensor to = conform_new(t, o->pool);
    for (int64_t i = 0; to.data && t->data && i < weft_tensor_count(t); i++)
        weft_tensor_set(&to, i, weft_tensor_get(t, element_at(o, v, i)));
    return to;
}

/* All that has a sequence has all of it; a part of it says which places it has by other means. */
static bool is_meant(const order *o)
{
    const weft_node *n = o->u->node;
    bool any = false;
    for (int i = 0; i < n->n_ins + n->n_outs; i++) {
        const weft_value *v = i < n->n_ins ? n->ins[i] : n->outs[i - n->n_ins];
        for (int d = 0; d < v->n_dims; d++) {
            if (strcmp(v->dims[d].name, "seq") == 0 && !is_seq(o, v, d))
                return false;
            any = any || is_seq(o, v, d);
        }
    }
    return any;
}

static void complain(const order *o, int r, const weft_tensor *want, const weft_tensor *got,
                     int64_t at)
{
    weft_text what = {0};
    conform_print_difference(want, got, r, at, &what);
    conform_fail(o->c,
                 "op %s: order: where the places of the sequence lie in another order, as under "
                 "cp, the result is not the same in that order: %s; no op takes an order from "
                 "memory: read the input `index`, the place in the sample",
                 o->u->node->op->name, weft_text_get(&what));
    weft_text_release(&what);
}

static void compare(const order *o)
{
    weft_tensor ins[WEFT_RULE_MAX_PARTS], outs[WEFT_RULE_MAX_PARTS];
    const weft_node *n = o->u->node;
    for (int i = 0; i < n->n_ins; i++)
        ins[i] = in_order(o, n->ins[i], &o->u->ins[i]);
    for (int r = 0; r < n->n_outs; r++)
        outs[r] = conform_new(&o->u->outs[r], o->pool);
    if (!conform_ran(o->c, o->u, "order", ins, outs))
        return;
    for (int r = 0; r < n->n_outs; r++) {
        weft_tensor want = in_order(o, n->outs[r], &o->u->outs[r]);
        int64_t at = conform_differ(&want, &outs[r], 1e-9);
        if (at < 0)
            continue;
        complain(o, r, &want, &outs[r], at);
        return;
    }
}

void conform_check_order(const conform *c, const conform_use *u)
{
    weft_pool pool = {0};
    const order o = {c, u, weft_graph_seq_len(u->graph), &pool};
    if (weft_graph_writes(u->graph) || !is_meant(&o))
        return; /* text is written in order */
    conform_now(c, "op %s: order", u->node->op->name);
    compare(&o);
    conform_count(c, "orders of the sequence", 1);
    weft_pool_release(&pool);
}
