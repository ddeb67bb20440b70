/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a language model: heads and cross-entropy in chunks of the sequence, so that [tokens,
 * vocabulary] never exists whole. */
#include "kit/loss.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- products ---- */

weft_value *weft_linear(weft_graph *g, const char *name, weft_value *x, weft_value *w)
{
    if (x && w && (x->dtype == WEFT_I32 || w->dtype == WEFT_I32))
        return weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                               "linear of %s and %s: %s has integers, and only real numbers can be "
                               "multiplied",
                               x->name, w->name, x->dtype == WEFT_I32 ? x->name : w->name);
    return weft_add2(g, "linear", name, x, w);
}

weft_value *weft_linear_each(weft_graph *g, const char *name, weft_value *x, weft_value *w,
                             const char *each)
{
    if (!x || !w || !each)
        return NULL;
    int at = weft_value_dim(x, each);
    if (at < 0)
        return weft_graph_fail(g, WEFT_ERR_INPUT, WEFT_NOWHERE,
                               "linear_each of %s and %s: %s has no dim '%s'; weft_linear "
                               "multiplies the same rows by all of a weight",
                               x->name, w->name, x->name, each);
    const weft_attr attr = {.key = "each", .kind = WEFT_ATTR_INT, .i = at};
    return weft_add_full(g, "linear_each", name, 2, (weft_value *[]){x, w}, 1, NULL, &attr, 1);
}

weft_value *weft_bias(weft_graph *g, const char *name, weft_value *x, weft_value *bias)
{
    return bias ? weft_add2(g, "add_bias", name, x, bias) : x;
}

/* ---- chunks ---- */

/* Logits that stay near the caches of a CPU, 32 MiB in f32, but chunks of at least 512 tokens: each
 * reads the head's weight twice, and adds to all of its gradient. */
static int64_t cache_tokens(int64_t vocab)
{
    int64_t tokens = (32 << 20) / (4 * vocab);
    return tokens < 512 ? 512 : tokens;
}

/* What a rank has of a dim of the inputs, at most. */
static int64_t part_of(const weft_graph *g, const char *dim, int64_t size)
{
    const weft_mesh *mesh = &g->config.mesh;
    for (int a = 0; a < mesh->n_axes; a++)
        if (mesh->axis[a].cuts && strcmp(mesh->axis[a].cuts, dim) == 0)
            size = (size + mesh->axis[a].size - 1) / mesh->axis[a].size;
    return size;
}

/* What must be divisible for n parts to be parts of every shard: the sequence, and the chunk that
 * each axis leaves of it. */
static bool divides_shards(const weft_graph *g, int64_t seq, int n)
{
    const weft_mesh *mesh = &g->config.mesh;
    bool divides = seq % n == 0;
    for (int a = mesh->n_axes - 1; a >= 0; a--) {
        if (!mesh->axis[a].cuts || strcmp(mesh->axis[a].cuts, "seq") != 0)
            continue;
        seq = (seq + mesh->axis[a].size - 1) / mesh->axis[a].size;
        divides = divides && seq % n == 0;
    }
    return divides;
}

/* How many chunks: the smallest number that divides every shard of the sequence and makes them
 * small enough, at most 64. The user counts tokens of all ranks, a device those of one. */
static int count_chunks(const weft_graph *g, int64_t batch, int64_t seq, int64_t vocab)
{
    const weft_sizes *sizes = &g->config.sizes;
    bool device = sizes->loss_chunk == 0 && g->config.head_tokens > 0;
    int64_t want = device              ? g->config.head_tokens
                   : sizes->loss_chunk ? sizes->loss_chunk
                                       : cache_tokens(vocab);
    int64_t tokens = device ? part_of(g, "batch", batch) * part_of(g, "seq", seq) : batch * seq;
    int best = 1;
    for (int n = 1; n <= WEFT_RULE_MAX_PARTS && n <= seq; n++) {
        if (!divides_shards(g, seq, n))
            continue;
        best = n;
        if (tokens / n <= want)
            break;
    }
    return best;
}

/* Places p with p mod n = i are part i. */
static void cut(weft_graph *g, const char *head, const char *what, weft_value *v, int n,
                weft_value **parts)
{
    char name[WEFT_LOSS_NAME + 16];
    snprintf(name, sizeof name, "%s.%s", head, what);
    if (n == 1) {
        parts[0] = v;
        return;
    }
    weft_attr attrs[] = {{.key = "dim", .kind = WEFT_ATTR_INT, .i = 1},
                         {.key = "n", .kind = WEFT_ATTR_INT, .i = n}};
    weft_add_full(g, "chunk", name, 1, &v, n, parts, attrs, 2);
}

/* The sum of the losses of one chunk's tokens. Cross-entropy is four ops, so that a sharded
 * vocabulary needs no rule of its own. A backward begins with the last: sumexp's gradient is
 * written over all logits once, and pick's is one more number for each token. */
static weft_value *chunk_loss(weft_graph *g, const char *head, int c, weft_value *x,
                              weft_value *weight, weft_value *labels)
{
    char name[6][WEFT_LOSS_NAME + 24];
    static const char *const base[] = {"logits", "max", "sumexp", "target", "nll", "part"};
    for (int i = 0; i < 6; i++)
        snprintf(name[i], sizeof name[i], "%s.%s.%d", head, base[i], c);
    weft_value *logits = weft_linear(g, name[0], x, weight);
    weft_set_role(g, logits, "logits");
    weft_value *max = weft_add1(g, "max_v", name[1], logits);
    weft_value *target = weft_add2(g, "pick", name[3], logits, labels);
    weft_value *sum = weft_add2(g, "sumexp", name[2], logits, max);
    weft_value *nll = weft_add(g, "nll", name[4], 4, (weft_value *[]){max, sum, target, labels});
    return weft_add1(g, "sum", name[5], nll);
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

void weft_set_output(weft_graph *g, weft_value *v)
{
    if (v && weft_graph_mode(g) == WEFT_MODE_GENERATE)
        g->logits = v;
}

bool weft_output_is_like(const weft_graph *g, const char *input)
{
    const weft_value *in = weft_graph_find(g, input), *out = g->logits;
    if (!in || !out || strcmp(in->node->op->name, "input") != 0 || in->n_dims != out->n_dims)
        return false;
    for (int d = 0; d < in->n_dims; d++)
        if (strcmp(in->dims[d].name, out->dims[d].name) != 0 ||
            in->dims[d].size != out->dims[d].size)
            return false;
    return true;
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

static void add_generate(weft_graph *g, const char *head, weft_value *hidden, weft_value *weight)
{
    char name[2][WEFT_LOSS_NAME + 8];
    snprintf(name[0], sizeof name[0], "%s.last", head);
    snprintf(name[1], sizeof name[1], "%s.logits", head);
    weft_value *last = weft_add2(g, "take", name[0], hidden, weft_add_input(g, "last"));
    weft_value *logits = weft_linear(g, name[1], last, weight);
    weft_set_role(g, logits, "logits");
    g->logits = g->logits ? g->logits : logits; /* text is written with the first head */
}

/* Who says nothing has a head that predicts the next token. */
static weft_head complete(const weft_head *options)
{
    weft_head head = {.flags = WEFT_LOSS_VALIDATION};
    if (options)
        head = *options;
    head.name = head.name ? head.name : "head";
    head.weight = head.weight == 0 ? 1 : head.weight;
    return head;
}

static weft_status check_head(weft_graph *g, const weft_head *head)
{
    int64_t seq = weft_graph_seq_len(g);
    if (weft_loss_check_name(g, head->name))
        return weft_graph_status(g);
    if (head->shift < 0 || (!weft_graph_writes(g) && head->shift >= seq))
        weft_graph_fail(g, WEFT_ERR_INPUT, WEFT_NOWHERE,
                        "head %s cannot predict %d tokens further than the next: a sample has "
                        "%" PRId64 " ([train] seq_len), so that 0 to %" PRId64 " are possible",
                        head->name, head->shift, seq, seq - 1);
    else if (!isfinite(head->weight))
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "head %s cannot have the weight %g; a weight is a finite number",
                        head->name, head->weight);
    else if (head->flags & WEFT_LOSS_OWN_COUNT && head->flags & WEFT_LOSS_VALIDATION)
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "head %s cannot be divided by its own labels and be a part of validation, "
                        "whose loss is over all valid ones; leave one flag out",
                        head->name);
    return weft_graph_status(g);
}

/* What the head is to predict at each place. */
static weft_value *labels_of(weft_graph *g, const weft_head *head)
{
    char name[32];
    snprintf(name, sizeof name, head->shift ? "labels+%d" : "labels", head->shift);
    return weft_add_input(g, name);
}

/* Behind the chunks of all heads before it: one chunk's logits are alive at a time, of one head. */
static int next_chunk(const weft_graph *g)
{
    int next = 0;
    for (const weft_node *n = g->first; n; n = n->next)
        next = n->chunk >= next ? n->chunk + 1 : next;
    return next;
}

void weft_add_head_with(weft_graph *g, weft_value *hidden, weft_value *weight,
                        const weft_head *options)
{
    const weft_head head = complete(options);
    if (!hidden || !weight || check_head(g, &head))
        return;
    weft_graph_set_block(g, WEFT_BLOCK_HEAD);
    if (weft_graph_writes(g)) {
        if (head.shift == 0)
            add_generate(g, head.name, hidden, weight);
        return;
    }
    if (g->config.mode == WEFT_MODE_EVALUATE && !(head.flags & WEFT_LOSS_VALIDATION))
        return;
    weft_value *labels = labels_of(g, &head);
    int n = count_chunks(g, hidden->dims[0].size, hidden->dims[1].size, weight->dims[0].size);
    weft_value *x[WEFT_RULE_MAX_PARTS], *y[WEFT_RULE_MAX_PARTS], *parts[WEFT_RULE_MAX_PARTS];
    cut(g, head.name, "x", hidden, n, x);
    cut(g, head.name, "labels", labels, n, y);
    const int first = next_chunk(g);
    for (int c = 0; c < n; c++) {
        weft_graph_set_chunk(g, first + c);
        parts[c] = chunk_loss(g, head.name, c, x[c], weight, y[c]);
    }
    weft_graph_set_chunk(g, -1);
    weft_value *total = n == 1 ? parts[0] : weft_add(g, "add", "loss_sum", n, parts);
    if (head.flags & WEFT_LOSS_OWN_COUNT && head.shift > 0)
        weft_loss_add_shifted(g, head.name, total, head.weight, head.shift);
    else
        weft_loss_add_sum(g, head.name, total, head.weight);
}

void weft_add_head(weft_graph *g, weft_value *hidden, weft_value *weight)
{
    weft_add_head_with(g, hidden, weight, NULL);
}
