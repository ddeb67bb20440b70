/* SPDX-License-Identifier: Apache-2.0 */
/* The order of pieces: where one would wait for what it has sent, another computes. A list of what
 * can run next is kept for each piece, and simulated on two queues, by estimated work: ranks see
 * the same. */
#include "overlap.h"

#include <limits.h>
#include <math.h>
#include <string.h>

/* Behind the lists of pieces there is one of what no piece waits for: gradients of weights. */
enum { FILLS = OVERLAP_MOST, LISTS };
enum { WHOLE = -1, SEVERAL = -2, MOVED_FLOPS = 100 /* a byte read or written takes as long */ };

typedef struct item {
    weft_node *node;
    int piece;          /* below 0: of none */
    int waits;          /* operands that are not made yet */
    bool early;         /* of no piece: made where it is first read */
    bool beside, done;  /* it is sent beside */
    double work, ready; /* it takes; when its results are there */
    double until_sent;  /* work of the piece up to what is sent next */
    int next, left;     /* of its piece, -1: none; how many there are behind it */
    int lap;            /* blocks that pieces have come through before */
} item;

typedef struct orderer {
    weft_graph *g;
    double flops_per_byte;
    weft_axes axes;
    int *piece;     /* by id of values */
    item *list;     /* of one window, in the graph's order; mark: index + 1 */
    weft_node **to; /* in the new order */
    int *ready;     /* of no piece, and nothing of it is missing */
    int n, n_to, n_ready, heads[LISTS];
    double computed, sent; /* when the queues are free */
} orderer;

/* ---- pieces ---- */

static bool is_made_here(const weft_node *n, const char *op)
{
    return weft_node_in(n, op) && strcmp(n->by, "overlap") == 0;
}

static int piece_of(const orderer *o, const weft_node *n)
{
    int piece = WHOLE;
    for (int i = 0; i < n->n_ins; i++) {
        const int p = o->piece[n->ins[i]->id];
        piece = p < 0 || piece == p ? piece : piece == WHOLE ? p : SEVERAL;
    }
    return piece == SEVERAL ? WHOLE : piece;
}

static void find_pieces(orderer *o)
{
    for (weft_node *n = weft_graph_first(o->g); n; n = n->next) {
        const bool cuts = is_made_here(n, "chunk");
        const int piece = cuts || is_made_here(n, "unchunk") ? WHOLE : piece_of(o, n);
        for (int i = 0; i < n->n_outs; i++)
            o->piece[n->outs[i]->id] = cuts ? i % OVERLAP_MOST : piece;
    }
}

static int piece_of_node(const orderer *o, const weft_node *n)
{
    return n->n_outs == 0 || is_made_here(n, "chunk") ? WHOLE : o->piece[n->outs[0]->id];
}

/* ---- what is sent ---- */

static bool is_sent_beside(const orderer *o, const weft_node *n, const weft_cost *cost)
{
    if (!n->n_steps || cost->sent == 0 || weft_node_shifts(n) || weft_get_mark(n, WEFT_MARK_GROUP))
        return false;
    for (int a = 0; a < WEFT_MAX_AXES; a++)
        if (cost->by_axis[a] && !(o->axes >> a & 1u))
            return false;
    return true;
}

static void weigh(orderer *o, item *it)
{
    weft_cost cost;
    weft_node_cost(o->g, it->node, &cost);
    it->beside = it->piece >= 0 && is_sent_beside(o, it->node, &cost);
    it->work = it->node->n_steps ? (double)cost.sent * o->flops_per_byte
                                 : cost.flops + MOVED_FLOPS * (double)(cost.read + cost.written);
    if (it->beside)
        weft_set_mark(o->g, it->node->outs[0], WEFT_MARK_BESIDE, 1);
}

/* ---- one window ---- */

static item *maker_of(orderer *o, const weft_value *v)
{
    const int at = v->node->mark - 1;
    return at >= 0 && at < o->n && o->list[at].node == v->node ? &o->list[at] : NULL;
}

static bool is_read_inside(orderer *o, const weft_node *n)
{
    for (int r = 0; r < n->n_outs; r++)
        for (int k = 0; k < n->outs[r]->n_uses; k++) {
            const int at = n->outs[r]->uses[k].node->mark - 1;
            if (at >= 0 && at < o->n && o->list[at].node == n->outs[r]->uses[k].node)
                return true;
        }
    return false;
}

static void look_at(orderer *o, item *it)
{
    it->early = it->piece < 0;
    for (int i = 0; i <= it->node->n_ins; i++) {
        const weft_value *v = i < it->node->n_ins ? it->node->ins[i] : it->node->like;
        const item *from = v ? maker_of(o, v) : NULL;
        it->waits += from && !from->early;
        it->early = it->early && (!from || from->early);
    }
    it->early = it->early && is_read_inside(o, it->node);
}

/* Does no node of a piece read it? */
static bool fills(orderer *o, const weft_node *n)
{
    for (int r = 0; r < n->n_outs; r++)
        for (int k = 0; k < n->outs[r]->n_uses; k++) {
            const int at = n->outs[r]->uses[k].node->mark - 1;
            if (at < 0 || at >= o->n || o->list[at].node != n->outs[r]->uses[k].node)
                continue;
            if (o->list[at].piece >= 0)
                return false;
        }
    return n->phase == WEFT_BACKWARD && n->n_outs == 1 && !n->n_steps;
}

static void prepare(orderer *o)
{
    for (int p = 0; p < LISTS; p++)
        o->heads[p] = -1;
    o->n_to = o->n_ready = 0;
    o->computed = o->sent = 0;
    int lap = 0, block = WEFT_BLOCK_NONE;
    for (int i = 0; i < o->n; i++) {
        weigh(o, &o->list[i]);
        lap += o->list[i].piece >= 0 && o->list[i].node->block != block;
        block = o->list[i].piece >= 0 ? o->list[i].node->block : block;
        o->list[i].lap = lap;
        look_at(o, &o->list[i]);
        if (o->list[i].piece < 0 && !o->list[i].early && o->list[i].waits == 0)
            o->ready[o->n_ready++] = i;
    }
    for (int i = o->n - 1; i >= 0; i--) {
        item *it = &o->list[i];
        if (it->piece < 0)
            continue;
        const int list = fills(o, it->node) ? FILLS : it->piece;
        it->next = o->heads[list];
        it->until_sent =
            it->beside ? 0 : it->work + (it->next < 0 ? 0 : o->list[it->next].until_sent);
        it->left = it->next < 0 ? 0 : o->list[it->next].left + 1;
        o->heads[list] = i;
    }
}

static double arrived(orderer *o, const item *it)
{
    double at = 0;
    for (int i = 0; i < it->node->n_ins; i++) {
        const item *from = maker_of(o, it->node->ins[i]);
        at = from ? fmax(at, from->ready) : at;
    }
    return at;
}

static void emit(orderer *o, item *it);

static void emit_early(orderer *o, const weft_value *v)
{
    item *from = v ? maker_of(o, v) : NULL;
    if (from && !from->done && from->early)
        emit(o, from);
}

/* What of no piece now has all that it reads runs at once, in the graph's order. */
static void tell_readers(orderer *o, const weft_node *n)
{
    for (int r = 0; r < n->n_outs; r++)
        for (int k = 0; k < n->outs[r]->n_uses; k++) {
            const int at = n->outs[r]->uses[k].node->mark - 1;
            if (at < 0 || at >= o->n || o->list[at].node != n->outs[r]->uses[k].node)
                continue;
            if (--o->list[at].waits == 0 && o->list[at].piece < 0)
                o->ready[o->n_ready++] = at;
        }
}

static void emit(orderer *o, item *it)
{
    for (int i = 0; i < it->node->n_ins; i++)
        emit_early(o, it->node->ins[i]);
    emit_early(o, it->node->like);
    const double from = arrived(o, it);
    double *queue = it->beside ? &o->sent : &o->computed;
    *queue = it->ready = fmax(*queue, it->beside ? fmax(from, 0) : from) + it->work;
    it->done = true;
    o->to[o->n_to++] = it->node;
    if (!it->early)
        tell_readers(o, it->node);
}

static item *head(orderer *o, int list)
{
    return o->heads[list] < 0 ? NULL : &o->list[o->heads[list]];
}

static int slowest_lap(orderer *o)
{
    int lap = INT_MAX;
    for (int p = 0; p < LISTS; p++)
        lap = head(o, p) && head(o, p)->lap < lap ? head(o, p)->lap : lap;
    return lap;
}

/* May it run now? Further on a piece would hold the weights of more blocks than two. */
static bool is_free(orderer *o, int piece, int slowest)
{
    const item *it = head(o, piece);
    return it && it->waits == 0 && it->lap <= slowest + 1;
}

static double start_of(orderer *o, const item *it)
{
    return fmax(it->beside ? o->sent : o->computed, arrived(o, it));
}

/* Would it be in the way of a piece further on, which sends something before half of this is sent,
 * and then computes for long? */
static bool is_in_the_way(orderer *o, int piece, int slowest)
{
    const item *it = head(o, piece);
    for (int p = 0; p < OVERLAP_MOST && it->beside; p++)
        if (p != piece && is_free(o, p, slowest) && head(o, p)->left < it->left &&
            start_of(o, head(o, p)) + head(o, p)->until_sent < start_of(o, it) + it->work / 2)
            return true;
    return false;
}

/* The piece that can go on first; of several the one that sends something first. Where it would
 * wait, what no piece waits for. -1: none. */
static int choose(orderer *o)
{
    const int slowest = slowest_lap(o);
    int best = -1;
    double best_start = 0;
    for (int p = 0; p < OVERLAP_MOST; p++) {
        if (!is_free(o, p, slowest) || is_in_the_way(o, p, slowest))
            continue;
        const item *it = head(o, p);
        const double start = it->beside ? o->computed : fmax(o->computed, arrived(o, it));
        const bool sooner = best < 0 || start < best_start ||
                            (start <= best_start && it->until_sent < head(o, best)->until_sent);
        best = sooner ? p : best;
        best_start = sooner ? start : best_start;
    }
    const item *fill = head(o, FILLS);
    return fill && fill->waits == 0 && (best < 0 || best_start > o->computed) ? FILLS : best;
}

static int first_ready(orderer *o)
{
    int least = 0;
    for (int i = 1; i < o->n_ready; i++)
        least = o->ready[i] < o->ready[least] ? i : least;
    const int at = o->ready[least];
    o->ready[least] = o->ready[--o->n_ready];
    return at;
}

static void schedule(orderer *o)
{
    for (int p; o->n_ready > 0 || (p = choose(o)) >= 0;) {
        if (o->n_ready > 0) {
            emit(o, &o->list[first_ready(o)]);
            continue;
        }
        item *it = &o->list[o->heads[p]];
        o->heads[p] = it->next;
        emit(o, it);
    }
    for (int i = 0; i < o->n; i++)
        if (!o->list[i].done)
            emit(o, &o->list[i]);
}

/* Nodes stand as they are to run: each goes before the first that has not been put yet. */
static void put(orderer *o)
{
    weft_node *at = o->list[0].node;
    for (int i = 0; i < o->n; i++)
        o->list[i].node->mark = 1;
    for (int i = 0; i < o->n_to && !weft_graph_status(o->g); i++) {
        weft_node *n = o->to[i];
        n->mark = 0;
        if (n != at)
            weft_move_before(o->g, n, at);
        else
            at = at->next;
    }
}

static void order_window(orderer *o, weft_node *first, const weft_node *last)
{
    o->n = 0;
    for (weft_node *n = first; n; n = n == last ? NULL : n->next) {
        o->list[o->n++] = (item){.node = n, .piece = piece_of_node(o, n), .next = -1};
        n->mark = o->n;
    }
    prepare(o);
    schedule(o);
    put(o);
}

/* ---- all of them ---- */

static bool same_program(const weft_node *a, const weft_node *b)
{
    return a->part == b->part && a->stage == b->stage;
}

static void order_all(orderer *o)
{
    weft_node *first = NULL, *last = NULL;
    for (weft_node *n = weft_graph_first(o->g), *next; n && !weft_graph_status(o->g); n = next) {
        next = n->next;
        if (weft_part_is_micro(n->part) && first && !same_program(n, first)) {
            order_window(o, first, last);
            first = NULL;
        }
        if (!weft_part_is_micro(n->part) || piece_of_node(o, n) < 0)
            continue;
        first = first ? first : n;
        last = n;
    }
    if (first && !weft_graph_status(o->g))
        order_window(o, first, last);
}

static bool has_tokens(const weft_value *v)
{
    return weft_value_dim(v, "batch") >= 0 || weft_value_dim(v, "seq") >= 0;
}

/* Maxima over the tokens of a piece by itself, which float8 scales by: put in behind the cut, or in
 * the backward. */
static int count_maxima(const orderer *o)
{
    int n = 0;
    for (const weft_node *at = weft_graph_first(o->g); at; at = at->next)
        n += (at->op->flags & WEFT_OP_MAX) && at->n_outs == 1 && !has_tokens(at->outs[0]) &&
             piece_of_node(o, at) >= 0;
    return n;
}

void overlap_order(weft_graph *g, double flops_per_byte, weft_axes axes)
{
    size_t n = 1;
    for (const weft_node *at = weft_graph_first(g); at; at = at->next)
        n++;
    orderer o = {.g = g, .flops_per_byte = flops_per_byte, .axes = axes};
    o.piece = weft_alloc_zero((size_t)weft_graph_values(g) + 1, sizeof *o.piece);
    o.list = weft_alloc_zero(n, sizeof *o.list);
    o.to = weft_alloc_zero(n, sizeof *o.to);
    o.ready = weft_alloc_zero(n, sizeof *o.ready);
    if (!o.piece || !o.list || !o.to || !o.ready)
        weft_graph_fail(g, WEFT_ERR_MEMORY, WEFT_NOWHERE, "out of memory");
    else {
        find_pieces(&o);
        const int n_maxima = count_maxima(&o);
        if (n_maxima)
            weft_graph_note(g,
                            "%d maxima, which 8 bits are scaled by, are of each piece by itself: "
                            "other roundings than of the whole",
                            n_maxima);
        order_all(&o);
    }
    weft_free(o.piece);
    weft_free(o.list);
    weft_free(o.to);
    weft_free(o.ready);
}
