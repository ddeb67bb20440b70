/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a language model: head and cross-entropy in chunks of the sequence, so that [tokens,
 * vocabulary] never exists whole. */
#include "graph/internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Chunks of at least 128 tokens whose logits stay near the caches: 32 MiB in f32. */
static int64_t chunk_tokens(const weft_graph *g, int64_t vocab)
{
    if (g->config.sizes.loss_chunk > 0)
        return g->config.sizes.loss_chunk;
    int64_t tokens = (32 << 20) / (4 * vocab);
    return tokens < 128 ? 128 : tokens;
}

/* How many chunks: the smallest divisor of seq_len that makes them small enough, at most 64. */
static int count_chunks(const weft_graph *g, int64_t batch, int64_t seq, int64_t vocab)
{
    int64_t want = chunk_tokens(g, vocab);
    int best = 1;
    for (int n = 1; n <= WEFT_RULE_MAX_PARTS && n <= seq; n++) {
        if (seq % n)
            continue;
        best = n;
        if (batch * seq / n <= want)
            break;
    }
    return best;
}

/* Places p with p mod n = i are part i. */
static void cut(weft_graph *g, const char *name, weft_value *v, int n, weft_value **parts)
{
    if (n == 1) {
        parts[0] = v;
        return;
    }
    weft_attr attrs[] = {{.key = "dim", .kind = WEFT_ATTR_INT, .i = 1},
                         {.key = "n", .kind = WEFT_ATTR_INT, .i = n}};
    weft_add_full(g, "chunk", name, 1, &v, n, parts, attrs, 2);
}

/* The sum of the losses of one chunk's tokens. Cross-entropy is four ops, so that a sharded
 * vocabulary needs no rule of its own. */
static weft_value *chunk_loss(weft_graph *g, int c, weft_value *x, weft_value *weight,
                              weft_value *labels)
{
    char name[6][24];
    static const char *const base[] = {"logits", "max", "sumexp", "target", "nll", "part"};
    for (int i = 0; i < 6; i++)
        snprintf(name[i], sizeof name[i], "head.%s.%d", base[i], c);
    weft_value *logits = weft_linear(g, name[0], x, weight);
    weft_set_role(g, logits, "logits");
    weft_value *max = weft_add1(g, "max_v", name[1], logits);
    weft_value *sum = weft_add2(g, "sumexp", name[2], logits, max);
    weft_value *target = weft_add2(g, "pick", name[3], logits, labels);
    weft_value *nll = weft_add(g, "nll", name[4], 4, (weft_value *[]){max, sum, target, labels});
    return weft_add1(g, "sum", name[5], nll);
}

/* ---- terms of the loss ---- */

/* Behind everything, wherever a pass is adding. */
static weft_spot at_the_end(weft_graph *g)
{
    weft_spot spot = g->spot;
    if (spot.before)
        g->spot = g->end;
    return spot;
}

static void add_term(weft_graph *g, weft_value **total, weft_value *term)
{
    *total = *total ? weft_add2(g, "add", (*total)->name, *total, term) : term;
}

/* Every term is scaled once, by the valid tokens of the whole global batch. */
static weft_value *inverse_tokens(weft_graph *g)
{
    if (g->inverse)
        return g->inverse;
    weft_graph_set_block(g, WEFT_BLOCK_NONE);
    g->tokens = weft_add1(g, "count_valid", "tokens", weft_add_input(g, "step_labels"));
    g->inverse = weft_add1(g, "reciprocal", "inv_tokens", g->tokens);
    weft_graph_set_block(g, WEFT_BLOCK_HEAD);
    return g->inverse;
}

static weft_value *constant(weft_graph *g, double x)
{
    weft_value *v = weft_add(g, "constant", NULL, 0, NULL);
    weft_set_real(g, v, "value", x);
    if (v)
        v->node->scope = WEFT_STEP_BEGIN;
    return v;
}

static weft_status check_term(weft_graph *g, const weft_value *v, double weight)
{
    if (v->n_dims > 0)
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "%s cannot be a loss: it has %d dim%s; take its sum", v->name, v->n_dims,
                        v->n_dims > 1 ? "s" : "");
    else if (v->dtype == WEFT_I32)
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE, "%s cannot be a loss: it is an integer",
                        v->name);
    else if (!isfinite(weight))
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "%s cannot be a loss of weight %g; a weight is a finite number", v->name,
                        weight);
    else if (g->loss_report)
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "%s comes too late to be a loss: the backward is in the graph; add it in a "
                        "graph pass",
                        v->name);
    return weft_graph_status(g);
}

void weft_add_loss(weft_graph *g, weft_value *scalar, double weight, unsigned flags)
{
    if (!scalar || check_term(g, scalar, weight) || g->config.mode != WEFT_MODE_TRAIN)
        return;
    weft_spot spot = at_the_end(g);
    weft_graph_set_block(g, WEFT_BLOCK_HEAD);
    weft_value *factor;
    if (flags & WEFT_LOSS_PER_MICRO_BATCH)
        factor = constant(g, weight / (double)g->config.sizes.micro_batches);
    else
        factor = weft_add2(g, "scale", NULL, inverse_tokens(g), constant(g, weight));
    add_term(g, &g->loss, weft_add2(g, "scale", "loss", scalar, factor));
    g->spot = spot;
}

/* ---- logits ---- */

weft_value *weft_graph_logits(const weft_graph *g, int i)
{
    for (weft_node *n = g->first; n; n = n->next)
        for (int r = 0; r < n->n_outs; r++)
            if (n->outs[r]->role && strcmp(n->outs[r]->role, "logits") == 0 && i-- == 0)
                return n->outs[r];
    return NULL;
}

/* Marks what v is made from, back to `first`. */
static void mark_makers(weft_graph *g, const weft_value *v, const weft_value *first)
{
    for (weft_node *n = g->first; n; n = n->next)
        n->mark = n == v->node;
    for (weft_node *n = v->node; n && n != first->node; n = n->prev)
        for (int i = 0; n->mark && i < n->n_ins; i++)
            n->ins[i]->node->mark = 1;
}

void weft_set_logits(weft_graph *g, weft_value *old, weft_value *logits)
{
    if (!old || !logits || weft_graph_status(g))
        return;
    mark_makers(g, logits, old);
    for (int i = old->n_uses - 1; i >= 0; i--)
        if (!old->uses[i].node->mark)
            weft_node_set_operand(g, old->uses[i].node, old->uses[i].operand, logits);
    logits->role = old->role;
    old->role = NULL;
    if (g->logits == old)
        g->logits = logits;
}

/* ---- the head ---- */

static void add_generate(weft_graph *g, weft_value *hidden, weft_value *weight)
{
    weft_value *last = weft_add2(g, "take", "head.last", hidden, weft_add_input(g, "last"));
    weft_value *logits = weft_linear(g, "head.logits", last, weight);
    weft_set_role(g, logits, "logits");
    g->logits = g->logits ? g->logits : logits; /* text is written with the first head */
}

void weft_add_head(weft_graph *g, weft_value *hidden, weft_value *weight)
{
    if (!hidden || !weight)
        return;
    weft_graph_set_block(g, WEFT_BLOCK_HEAD);
    if (weft_graph_writes(g)) {
        add_generate(g, hidden, weight);
        return;
    }
    weft_value *labels = weft_add_input(g, "labels");
    int n = count_chunks(g, hidden->dims[0].size, hidden->dims[1].size, weight->dims[0].size);
    weft_value *x[WEFT_RULE_MAX_PARTS], *y[WEFT_RULE_MAX_PARTS], *parts[WEFT_RULE_MAX_PARTS];
    cut(g, "head.x", hidden, n, x);
    cut(g, "head.labels", labels, n, y);
    for (int c = 0; c < n; c++) {
        weft_graph_set_chunk(g, c);
        parts[c] = chunk_loss(g, c, x[c], weight, y[c]);
    }
    weft_graph_set_chunk(g, -1);
    weft_value *total = n == 1 ? parts[0] : weft_add(g, "add", "loss_sum", n, parts);
    if (g->config.mode == WEFT_MODE_EVALUATE) {
        add_term(g, &g->loss_sum, total);
        g->tokens = g->tokens ? g->tokens : weft_add1(g, "count_valid", "tokens", labels);
        return;
    }
    add_term(g, &g->loss, weft_add2(g, "scale", "loss", total, inverse_tokens(g)));
}
