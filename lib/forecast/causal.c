/* SPDX-License-Identifier: Apache-2.0 */
/* What of attention's scores the causal mask leaves to a rank: its operations count all, and where
 * the sequence is cut, ranks may differ in what they see of them. */
#include "forecast/roofline.h"

#include <string.h>

enum { INDEX_Q = 3, INDEX_K = 4 };

typedef struct shard {
    int64_t q, n_q, k, n_k; /* first places and how many, in memory's order */
    double share;
} shard;

/* Is v the places of the sequence, as the core fills them in, wherever it was sent? */
static bool is_index(const weft_value *v)
{
    while (v->node->steps)
        v = v->node->ins[0];
    return weft_node_is(v->node, WEFT_OP_INPUT) && strcmp(v->name, "index") == 0;
}

/* Pairs of a query and a key that is no later, over all pairs. */
static double count(const weft_graph *g, const shard *s, int32_t *before)
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

/* Of the calls of a rank there are few that differ in this; most follow one that is alike. */
typedef struct sight {
    const weft_graph *g;
    shard *known;
    int n, capacity;
    int32_t *before; /* by place */
} sight;

static const shard *find(const sight *v, const weft_tensor *q, const weft_tensor *k)
{
    for (int i = v->n - 1; i >= 0; i--) {
        const shard *s = &v->known[i];
        if (s->q == q->lo[0] && s->n_q == q->size[0] && s->k == k->lo[0] && s->n_k == k->size[0])
            return s;
    }
    return NULL;
}

static const shard *add(sight *v, const weft_tensor *q, const weft_tensor *k)
{
    if (v->n == v->capacity) {
        int more = v->capacity ? 2 * v->capacity : 16;
        shard *longer = weft_realloc(v->known, (size_t)more * sizeof *longer);
        if (!longer)
            return NULL;
        v->known = longer;
        v->capacity = more;
    }
    shard *s = &v->known[v->n++];
    *s = (shard){q->lo[0], q->size[0], k->lo[0], k->size[0], 0};
    s->share = count(v->g, s, v->before);
    return s;
}

static weft_status see(sight *v, weft_instruction *in, double times, weft_causal *out)
{
    const weft_node *n = in->node;
    if (in->kind != WEFT_COMPUTE || !weft_node_in(n, "attention"))
        return WEFT_OK;
    if (n->phase == WEFT_FORWARD && (n->op->flags & WEFT_OP_MATMUL))
        out->model += weft_product_passes(n) * in->flops * times;
    if (n->n_ins <= INDEX_K || !is_index(n->ins[INDEX_Q]) || !is_index(n->ins[INDEX_K]))
        return WEFT_OK;
    bool causal = !weft_node_has(n, "causal") || weft_node_int(n, "causal") != 0;
    const weft_tensor *q = &in->tensors[INDEX_Q], *k = &in->tensors[INDEX_K];
    const shard *s = find(v, q, k);
    if (causal && !s && !(s = add(v, q, k)))
        return WEFT_ERR_INTERNAL;
    in->masked = causal ? 1 - s->share : 0;
    out->cut = out->cut || q->size[0] < q->whole[0];
    out->flops += in->flops * times;
    out->seen += in->flops * times * (causal ? s->share : 1);
    return WEFT_OK;
}

weft_status weft_forecast_see(weft_lowered *l, weft_causal *out, weft_error *err)
{
    const weft_graph *g = l->graph;
    sight v = {.g = g};
    weft_causal sums = {0};
    v.before = weft_alloc((size_t)(weft_graph_seq_len(g) + 1) * sizeof *v.before);
    weft_status s = v.before ? WEFT_OK : WEFT_ERR_INTERNAL;
    for (int i = 0; i < l->n_programs && !s; i++) {
        const weft_program *p = &l->programs[i];
        const double times =
            weft_part_is_micro(p->part) ? (double)g->config.sizes.micro_batches : 1;
        for (int k = 0; k < p->n && !s; k++)
            s = see(&v, &p->list[k], times, &sums);
    }
    weft_free(v.before);
    weft_free(v.known);
    if (out)
        *out = sums;
    return s ? weft_fail_memory(err) : WEFT_OK;
}
