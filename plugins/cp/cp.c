/* SPDX-License-Identifier: Apache-2.0 */
/* Context parallelism: the sequence of all inputs is cut over axis cp. Attention, which alone reads
 * other places, gathers keys and values, or lets them travel round the ranks; everything else
 * follows from placement. */
#include "cp.h"

#include <math.h>

static const char *const attentions[] = {"auto", "ring", "gather", NULL},
                         *const balances[] = {"head_tail", "none", NULL},
                         *const reductions[] = {"auto", "f32", NULL};

typedef struct cp {
    const weft_host *host;
    int64_t degree;
    double flops_per_byte;
    int attention, balance, reduce_dtype;
} cp;

enum { ATTENTION_AUTO, ATTENTION_RING, ATTENTION_GATHER };
enum { BALANCE_HEAD_TAIL, BALANCE_NONE };
enum { REDUCE_AUTO, REDUCE_F32 };

static const weft_param params[] = {
    {.name = "degree",
     WEFT_INT(cp, degree),
     .tune = "ranks",
     .min = 1,
     .max = 1 << 16,
     .unit = "ranks",
     .flags = WEFT_PARAM_REQUIRED,
     .help = "Size of axis cp: ranks that share each sequence."},
    {.name = "attention",
     WEFT_CHOICE(cp, attention),
     .value = "auto",
     .choices = attentions,
     .help = "ring: keys and values travel from rank to rank while attention computes, two shards "
             "of them on each; gather: every rank gathers them whole; auto: what takes less time "
             "by the plan."},
    {.name = "balance",
     WEFT_CHOICE(cp, balance),
     .value = "head_tail",
     .choices = balances,
     .help = "head_tail: every rank has a piece of the head of the sequence and one of its tail, "
             "so that causal attention is as much work for all; none: pieces in order."},
    {.name = "reduce_dtype",
     WEFT_CHOICE(cp, reduce_dtype),
     .value = "auto",
     .choices = reductions,
     .help = "What gathered keys' and values' gradients are made and reduced in: auto: the "
             "activations' own dtype; f32. In a ring they are always f32."},
    {.name = "flops_per_byte",
     WEFT_REAL(cp, flops_per_byte),
     .value = "100",
     .min = 0,
     .max = 1e9,
     .when = "attention=auto",
     .help = "Operations that a rank computes while it sends one byte."},
    {.name = NULL},
};

/* Does a ring take no longer than gathers, by the plan's numbers? Both send (n - 1) shards of the
 * keys and values forward, and as many again in the backward with the gradients. Of gathers all of
 * that is waited for; in a ring it runs under the attention of a shard, and only what outlasts that
 * is. */
static bool ring_pays(const cp *self, const weft_graph *g, const weft_node *attention)
{
    const weft_value *q = attention->ins[0], *k = attention->ins[1];
    const double n = (double)self->degree, width = (double)weft_dtype_size(k->dtype),
                 places = (double)k->dims[1].size / n, /* half of them are seen */
        forward =
            2 * (double)weft_value_bytes(g, q) / (double)weft_dtype_size(q->dtype) / n * places,
                 sent = self->flops_per_byte * 2 * (double)weft_value_bytes(g, k) / n, /* k, v */
        sums = sent * 4 / width;                                                       /* dk, dv */
    const double ring = (n - 1) * (fmax(sent - forward, 0) + fmax(sent + sums - 2.5 * forward, 0)) +
                        sums; /* on their way home */
    return ring <=
           (n - 1) * (sent + sent + (self->reduce_dtype == REDUCE_F32 ? fmax(sums, sent) : sent));
}

static void set_attention(weft_graph *g, const cp *self, weft_node *n)
{
    if (n->op->ring && (self->attention == ATTENTION_RING ||
                        (self->attention == ATTENTION_AUTO && ring_pays(self, g, n))))
        weft_set_int(g, n->outs[0], "ring", 1);
    for (int i = 1; i <= 2 && self->reduce_dtype == REDUCE_F32; i++)
        weft_set_mark(g, n->ins[i], WEFT_MARK_WIDE_GRADIENT, 1);
}

/* Under causality a place at the end of the sequence sees all others, one at the head only itself.
 * So shards of like size are of like work if each has of both: the next of the head, then the last
 * of the tail that nobody has. Equal shards are chunks r and 2 * degree - 1 - r of 2 * degree. */
static void balance(weft_graph *g, int64_t degree)
{
    const int64_t seq = weft_graph_seq_len(g), chunk = (seq + degree - 1) / degree;
    int64_t head = 0, tail = seq;
    int32_t *order = weft_alloc((size_t)seq * sizeof *order);
    for (int64_t at = 0; order && at < seq; at += chunk) {
        const int64_t size = at + chunk <= seq ? chunk : seq - at, of_head = (size + 1) / 2;
        tail -= size - of_head;
        for (int64_t i = 0; i < size; i++)
            order[at + i] = (int32_t)(i < of_head ? head + i : tail + i - of_head);
        head += of_head;
    }
    if (order)
        weft_set_seq_order(g, order, seq);
    else
        weft_fail_memory(weft_graph_error(g));
    weft_free(order);
}

/* Nothing of the balance is needed where every place sees all others. */
static bool is_causal(const weft_node *attention)
{
    return weft_op_declares(attention->op, "causal") &&
           (!weft_node_has(attention, "causal") || weft_node_int(attention, "causal") != 0);
}

static void cut_sequence(void *self, weft_graph *g)
{
    const cp *c = self;
    bool causal = false;
    if (weft_mesh_find(weft_graph_mesh(g), "cp") < 0)
        return;
    weft_add_rule_seq(g, WEFT_RULE_INPUT, NULL, "cp");
    weft_add_regather(g, "cp");
    for (weft_node *n = weft_graph_first(g); n && !weft_graph_status(g); n = n->next)
        if (weft_node_in(n, "attention")) {
            set_attention(g, c, n);
            causal = causal || is_causal(n);
        }
    if (c->balance == BALANCE_HEAD_TAIL && causal)
        balance(g, c->degree);
}

static void store(void *self, weft_graph *g)
{
    (void)self;
    weft_add_storage(g, "cp");
}

static const char *const needs[] = {"model", NULL};
static const weft_contribution contributions[] = {
    {.kind = WEFT_AXIS, .axis = "cp", .degree = "degree", .cuts = "seq"},
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_GRAPH, .graph = store, .needs = needs},
    {.kind = WEFT_PASS,
     .stage = WEFT_STAGE_GRAPH,
     .modes = WEFT_IN_TRAIN | WEFT_IN_EVALUATE,
     .graph = cut_sequence,
     .needs = needs},
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_CLOSED, .graph = cp_expand_rings},
    {.kind = WEFT_END},
};

WEFT_PLUGIN(cp) = {
    WEFT_PLUGIN_HEAD,
    .name = "cp",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "context parallelism: rings, or gathers, of keys and values",
    .numerics = WEFT_NUMERICS_TOLERANCE,
    .params = params,
    .self_size = WEFT_SELF(cp),
    .contributions = contributions,
};
