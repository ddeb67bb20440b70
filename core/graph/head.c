/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a language model: head and cross-entropy in chunks of the sequence, so that [tokens,
 * vocabulary] never exists whole. */
#include "graph/internal.h"

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
    if (!weft_add_full(g, "chunk", name, 1, &v, n, parts, attrs, 2))
        memset(parts, 0, sizeof *parts * (size_t)n);
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

static void add_generate(weft_graph *g, weft_value *hidden, weft_value *weight)
{
    weft_value *last = weft_add2(g, "take", "head.last", hidden, weft_add_input(g, "last"));
    g->logits = weft_linear(g, "head.logits", last, weight);
    weft_set_role(g, g->logits, "logits");
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
        g->loss_sum = total;
        g->tokens = weft_add1(g, "count_valid", "tokens", labels);
        return;
    }
    /* Scaled once, by the valid tokens of the whole global batch. */
    weft_graph_set_block(g, WEFT_BLOCK_NONE);
    g->tokens = weft_add1(g, "count_valid", "tokens", weft_add_input(g, "step_labels"));
    weft_value *inverse = weft_add1(g, "reciprocal", "inv_tokens", g->tokens);
    weft_graph_set_block(g, WEFT_BLOCK_HEAD);
    g->loss = weft_add2(g, "scale", "loss", total, inverse);
}
