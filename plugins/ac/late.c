/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of weights that wait until the backward is over: what they read is held until then, and
 * gradients beside it. */
#include "budget.h"

bool ac_is_read_late(const weft_value *v)
{
    bool late = false;
    for (int i = 0; i < v->n_uses; i++)
        late = late || v->uses[i].node->part == WEFT_PART_W;
    return late;
}

static bool is_of_block(const ac_budget *a, const weft_value *v)
{
    return v->id < a->n_values && a->in_block[v->id];
}

/* Its buffer's first value, whose place it has taken, if that is one of a block; NULL: none is. */
static const weft_value *find_host(const ac_budget *a, const ac_sight *s, const weft_value *v)
{
    while (!s->own[v->id]) {
        int r = 0;
        while (v->node->outs[r] != v)
            r++;
        if (r >= v->node->n_ins)
            return NULL;
        v = v->node->ins[r];
    }
    return is_of_block(a, v) ? v : NULL;
}

static bool is_like(const weft_node *again, const weft_node *n)
{
    return n->phase == WEFT_FORWARD && n->op == again->op && n->block == again->block &&
           n->n_ins == again->n_ins && n->n_outs == again->n_outs && n->n_steps == again->n_steps;
}

/* A value of a block: v, or the one that v is made again for; NULL: it is neither. */
static const weft_value *find_original(const ac_budget *a, const weft_value *v)
{
    if (is_of_block(a, v))
        return v;
    const weft_node *again = v->node;
    const weft_value *from =
        again->phase == WEFT_RECOMPUTE && again->n_ins > 0 ? find_original(a, again->ins[0]) : NULL;
    for (int i = 0; from && i < from->n_uses; i++) {
        const weft_use *u = &from->uses[i];
        if (u->operand == 0 && is_like(again, u->node))
            return is_of_block(a, u->node->outs[v->result]) ? u->node->outs[v->result] : NULL;
    }
    return NULL;
}

static bool add_waiting(ac_budget *a, ac_sight *s, const weft_value *with, const weft_value *host,
                        int64_t bytes)
{
    ac_waiting *w = ac_take(a, 1, sizeof *w), **list = &s->waits[(host ? host : with)->node->block];
    if (!w)
        return false;
    *w = (ac_waiting){with ? with->id : -1, host ? host->id : -1, bytes, *list};
    *list = w;
    return true;
}

/* A gradient waits with the first value that is read with it; with none, it does in any case. */
static bool count_beside(ac_budget *a, const weft_graph *g, const weft_node *n, bool alone,
                         ac_sight *s)
{
    const weft_value *with = NULL;
    bool again = false;
    for (int i = 0; i < n->n_ins && !with; i++) {
        with = find_original(a, n->ins[i]);
        again = with && with != n->ins[i];
    }
    for (int i = 0; i < n->n_ins && alone == !with; i++) {
        const weft_value *v = n->ins[i];
        if (v->node->part != WEFT_PART_B || v->node->phase != WEFT_BACKWARD || s->counted[v->id])
            continue;
        const weft_value *host = find_host(a, s, v);
        const int64_t bytes = weft_value_part_bytes(g, v);
        s->counted[v->id] = true;
        if ((host || again) && !add_waiting(a, s, with, host, bytes))
            return false;
        if (!host && with && !again)
            s->beside[with->id] += bytes;
    }
    return true;
}

weft_status ac_read_late(ac_budget *a, const weft_graph *g, ac_sight *s, weft_error *err)
{
    bool ok = true;
    for (int alone = 1; alone >= 0; alone--)
        for (const weft_node *n = weft_graph_first(g); n && ok; n = n->next) {
            for (int i = 0; i < n->n_ins && n->part == WEFT_PART_W; i++)
                if (n->ins[i]->id < a->n_values)
                    s->late[n->ins[i]->id] = true;
            ok = n->part != WEFT_PART_W || count_beside(a, g, n, alone, s);
        }
    return ok ? WEFT_OK : weft_fail_memory(err);
}

static int find_value(const ac_block *b, int id)
{
    for (int i = 0; i < b->n_values; i++)
        if (b->values[i].id == id)
            return i;
    return -1;
}

/* kept, late, waiting: places of values that the backward is the last to read, that gradients of
 * weights are, and of gradients that wait for these. */
static weft_status add_waits(ac_budget *a, ac_layer *l, const ac_sight *s, int64_t kept,
                             int64_t late, weft_error *err)
{
    const int64_t waiting_places = s->waiting[l->number] ? s->waiting[l->number] : 1;
    ac_block *b = &l->block;
    int n = 0;
    for (const ac_waiting *w = s->waits[l->number]; w; w = w->next)
        n++;
    ac_wait *list = ac_take(a, (size_t)n, sizeof *list);
    if (!list)
        return weft_fail_memory(err);
    b->waits = list;
    for (const ac_waiting *w = s->waits[l->number]; w; w = w->next) {
        const int host = find_value(b, w->host), with = find_value(b, w->with);
        if ((w->host >= 0 && host < 0) || (w->with >= 0 && with < 0))
            continue;
        const bool always =
            with < 0 || (b->values[with].maker >= 0 && b->nodes[b->values[with].maker].always);
        const int64_t alone = waiting_places * w->bytes,
                      there = host < 0           ? alone
                              : s->late[w->host] ? 0
                                                 : (late - kept) * w->bytes,
                      least = always          ? 0
                              : there < alone ? there
                                              : alone;
        if (!always) {
            b->values[with].bytes += b->values[with].maker >= 0 ? least : 0;
            b->values[with].held += least;
        }
        list[b->n_waits++] = (ac_wait){with, host, there - least, alone - least};
    }
    return WEFT_OK;
}

/* What is gathered again is gathered when the backward is over, from what waits; but if something
 * is computed again of it, it is there before, and waits itself. */
static int64_t more_than_operands(const ac_block *b, const ac_sight *s, const ac_value *v)
{
    const ac_node *n = v->maker < 0 ? NULL : &b->nodes[v->maker];
    int64_t more = v->one;
    bool late = false;
    for (int i = 0; n && n->always && i < n->n_ins; i++) {
        more -= b->values[n->ins[i]].one;
        late = late || s->late[b->values[n->ins[i]].id];
    }
    return late && more > 0 ? more : 0;
}

/* What is kept, and what waits, counts in all micro-batches that are under way; where nothing
 * waits, a layer's `places` do. */
weft_status ac_weigh_late(ac_budget *a, ac_layer *l, const ac_sight *s, weft_error *err)
{
    ac_block *b = &l->block;
    int64_t kept = INT64_MAX, late = 1, most = 1;
    bool any = false;
    for (int i = 0; i < b->n_values; i++) {
        const ac_value *v = &b->values[i];
        const int64_t places = s->places[v->id];
        any = any || s->late[v->id];
        if (v->maker < 0 || places == 0)
            continue;
        most = places > most ? places : most;
        late = s->late[v->id] && places > late ? places : late;
        kept = v->read && !s->late[v->id] && places < kept ? places : kept;
    }
    l->places = any ? 1 : most;
    kept = kept < late ? kept : late;
    for (int i = 0; i < b->n_values && any; i++) {
        ac_value *v = &b->values[i];
        const int64_t waiting_places = s->waiting[l->number] ? s->waiting[l->number] : 1,
                      beside = waiting_places * s->beside[v->id];
        v->bytes = v->bytes ? v->bytes * (s->late[v->id] ? late : kept) + beside : 0;
        v->held = s->late[v->id] && v->maker >= 0 ? waiting_places * v->one + beside : 0;
        v->held += b->all ? waiting_places * more_than_operands(b, s, v) : 0;
    }
    return any ? add_waits(a, l, s, kept, late, err) : WEFT_OK;
}
