/* SPDX-License-Identifier: Apache-2.0 */
/* What of attention's scores the causal mask leaves to a rank: its operations count all, and where
 * the sequence is cut, ranks may differ in what they see of them. */
#include "compile/program/compile.h"

#include <string.h>

enum { INDEX_Q = 3, INDEX_K = 4 };

typedef struct weft_seen {
    int64_t q, n_q, k, n_k; /* first places and how many, in memory's order */
    double share;
    weft_seen *next;
} weft_seen;

/* Is v the places of the sequence, as the core fills them in, wherever it was sent? */
static bool is_index(const weft_value *v)
{
    while (v->node->steps)
        v = v->node->ins[0];
    return weft_node_is(v->node, WEFT_OP_INPUT) && strcmp(v->name, "index") == 0;
}

/* Pairs of a query and a key that is no later, over all pairs. */
static double count(const weft_graph *g, const weft_seen *s, int32_t *before)
{
    int64_t seq = weft_graph_seq_len(g), pairs = 0;
    memset(before, 0, (size_t)(seq + 1) * sizeof *before);
    for (int64_t i = 0; i < s->n_k; i++)
        before[weft_seq_place(g, s->k + i) + 1] = 1;
    for (int64_t i = 0; i < seq; i++)
        before[i + 1] += before[i];
    for (int64_t i = 0; i < s->n_q; i++)
        pairs += before[weft_seq_place(g, s->q + i) + 1];
    double all = (double)s->n_q * (double)s->n_k;
    return all > 0 ? (double)pairs / all : 0;
}

static const weft_seen *find(weft_compiler *c, const weft_tensor *q, const weft_tensor *k)
{
    const weft_seen *s = c->seen;
    while (s &&
           (s->q != q->lo[0] || s->n_q != q->size[0] || s->k != k->lo[0] || s->n_k != k->size[0]))
        s = s->next;
    return s;
}

static const weft_seen *add(weft_compiler *c, const weft_tensor *q, const weft_tensor *k)
{
    weft_seen *s = weft_pool_alloc(&c->l->pool, sizeof *s);
    int32_t *before =
        weft_alloc((size_t)(weft_graph_seq_len(c->g) + 1) * sizeof *before); /* by place */
    if (!s || !before) {
        weft_free(before);
        return NULL;
    }
    *s = (weft_seen){q->lo[0], q->size[0], k->lo[0], k->size[0], 0, c->seen};
    s->share = count(c->g, s, before);
    weft_free(before);
    return c->seen = s;
}

weft_status weft_compile_see(weft_compiler *c, weft_instruction *in, double flops)
{
    const weft_node *n = in->node;
    if (!weft_node_in(n, "attention") || n->n_ins <= INDEX_K || !is_index(n->ins[INDEX_Q]) ||
        !is_index(n->ins[INDEX_K]))
        return WEFT_OK;
    bool causal = !weft_node_has(n, "causal") || weft_node_int(n, "causal") != 0;
    const weft_tensor *q = &in->tensors[INDEX_Q], *k = &in->tensors[INDEX_K];
    const weft_seen *s = find(c, q, k);
    if (causal && !s && !(s = add(c, q, k)))
        return weft_fail_memory(c->err);
    c->l->attention_cut = c->l->attention_cut || q->size[0] < q->whole[0];
    c->l->attention_flops += flops;
    c->l->attention_seen += flops * (causal ? s->share : 1);
    in->masked = causal ? 1 - s->share : 0;
    return WEFT_OK;
}
