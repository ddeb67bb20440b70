/* SPDX-License-Identifier: Apache-2.0 */
/* Layers as graphs of their own, from the placed graph; and what the first plan, in which all is
 * kept, says of them and of each rank. */
#include "budget.h"

#include <string.h>

/* ---- what there is: from the placed graph ---- */

static bool travels(const weft_node *n)
{
    for (int i = 0; i < n->n_steps; i++)
        if (n->steps[i].move == WEFT_SEND || n->steps[i].move == WEFT_BROADCAST ||
            n->steps[i].move == WEFT_SHIFT)
            return true;
    return false;
}

static bool may_be_again(const weft_node *n)
{
    bool may = n->block >= 0 && n->n_ins > 0 && n->n_outs > 0 && n->chunk < 0 &&
               n->scope == WEFT_MICRO_BATCH && n->phase == WEFT_FORWARD && !travels(n);
    for (int i = 0; i < n->n_outs && may; i++) {
        may = !n->outs[i]->weight;
        for (int k = 0; k < n->outs[i]->n_uses && may; k++)
            may = n->outs[i]->uses[k].node->block == n->block;
    }
    return may;
}

/* The number of a value in its layer's block, which has it from then on; of: by id, -1: not yet. */
static int number_of(ac_layer *l, const weft_graph *g, const weft_value *v, int *of)
{
    ac_block *b = &l->block;
    if (of[v->id] >= 0)
        return of[v->id];
    const bool given = v->weight || v->node->n_ins == 0 || v->node->scope != WEFT_MICRO_BATCH;
    b->values[b->n_values] =
        (ac_value){.maker = -1, .one = given ? 0 : weft_value_part_bytes(g, v), .id = v->id};
    return of[v->id] = b->n_values++;
}

static bool add_node(ac_budget *a, ac_layer *l, const weft_graph *g, const weft_node *n, int *of)
{
    ac_node *node = &l->block.nodes[l->block.n_nodes];
    int *ins = ac_take(a, (size_t)n->n_ins, sizeof *ins),
        *outs = ac_take(a, (size_t)n->n_outs, sizeof *outs);
    if (!ins || !outs)
        return false;
    *node = (ac_node){.ins = ins,
                      .outs = outs,
                      .n_ins = n->n_ins,
                      .n_outs = n->n_outs,
                      .always = n->outs[0]->recompute};
    for (int i = 0; i < n->n_ins; i++)
        ins[i] = number_of(l, g, n->ins[i], of);
    for (int i = 0; i < n->n_outs; i++) {
        outs[i] = number_of(l, g, n->outs[i], of);
        l->block.values[outs[i]].maker = l->block.n_nodes;
        a->in_block[n->outs[i]->id] = true;
    }
    l->first[l->block.n_nodes] = n->outs[0]->id;
    l->nodes[l->block.n_nodes++] = n;
    return true;
}

static bool reduce_scatters(const weft_node *n)
{
    for (int i = 0; i < n->n_steps; i++)
        if (n->steps[i].move == WEFT_REDUCE_SCATTER)
            return true;
    return false;
}

/* Next to nothing beside the largest value so far, as the scale of an operand in eight bits. */
static bool is_small(const ac_block *b)
{
    const ac_node *n = &b->nodes[b->n_nodes - 1];
    int64_t most = 0, outs = 0;
    for (int i = 0; i < b->n_values; i++)
        most = b->values[i].one > most ? b->values[i].one : most;
    for (int i = 0; i < n->n_outs; i++)
        outs += b->values[n->outs[i]].one;
    return outs <= most / 1024;
}

/* products: of the block, with this one. */
static void note_lists(ac_layer *l, const ac *self, const weft_node *n, int products)
{
    const bool product = weft_node_in(n, "linear"), small = is_small(&l->block);
    const int i = l->block.n_nodes - 1;
    ac_put(&l->lists[AC_LIST_SAVE], i, small || ac_is_saved(self, n->op));
    ac_put(&l->lists[AC_LIST_OTHER], i,
           small || (product && products % 2) || weft_node_in(n, "attention") ||
               reduce_scatters(n));
}

static bool add_layer(const ac *self, ac_budget *a, const weft_graph *g, int number, int *of)
{
    weft_node *first = weft_graph_first(g);
    size_t n = 0, values = 0;
    int products = 0;
    ac_layer *l = &a->layers[number];
    *l = (ac_layer){.number = number, .places = 1, .point = -1};
    for (const weft_node *k = first; k; k = k->next)
        if (k->block == number && may_be_again(k)) {
            n++;
            values += (size_t)k->n_ins + (size_t)k->n_outs;
        }
    n = n < AC_MOST_NODES ? n : AC_MOST_NODES;
    l->block.nodes = ac_take(a, n, sizeof *l->block.nodes);
    l->block.values = ac_take(a, values, sizeof *l->block.values);
    l->nodes = ac_take(a, n, sizeof *l->nodes);
    l->first = ac_take(a, n, sizeof *l->first);
    if (!l->block.nodes || !l->block.values || !l->nodes || !l->first)
        return false;
    memset(of, -1, (size_t)a->n_values * sizeof *of);
    for (const weft_node *k = first; k; k = k->next) {
        products += k->block == number && weft_node_in(k, "linear");
        if (k->block != number || !may_be_again(k) || l->block.n_nodes >= (int)n)
            continue;
        if (!add_node(a, l, g, k, of))
            return false;
        note_lists(l, self, k, products);
    }
    return true;
}

ac_budget *ac_collect(const ac *self, weft_graph *g)
{
    ac_budget *a = weft_alloc_zero(1, sizeof *a);
    if (!a)
        return NULL;
    a->n_values = weft_graph_values(g);
    a->n_layers = weft_graph_blocks(g);
    a->layers = ac_take(a, (size_t)a->n_layers, sizeof *a->layers);
    a->again = ac_take(a, (size_t)a->n_values, sizeof *a->again);
    a->in_block = ac_take(a, (size_t)a->n_values, sizeof *a->in_block);
    int *of = weft_alloc(((size_t)a->n_values + 1) * sizeof *of);
    bool ok = a->layers && a->again && a->in_block && of;
    if (ok) {
        memset(a->again, 0, (size_t)a->n_values);
        memset(a->in_block, 0, (size_t)a->n_values);
    }
    for (int i = 0; i < a->n_layers && ok; i++)
        ok = add_layer(self, a, g, i, of);
    weft_free(of);
    if (ok)
        return a;
    ac_budget_destroy(a);
    return NULL;
}

void ac_budget_destroy(ac_budget *a)
{
    if (!a)
        return;
    for (int i = 0; i < a->n_fronts; i++)
        ac_front_release(&a->fronts[i]);
    for (int i = 0; i < a->n_stages; i++)
        ac_sums_release(&a->stages[i].sums);
    weft_pool_release(&a->pool);
    weft_free(a);
}

/* ---- what the first plan says ---- */

/* What goes to far memory in a forward is fetched for the backward. */
static void read_graph(const ac_budget *a, const weft_graph *g, ac_sight *s)
{
    for (const weft_node *n = weft_graph_first(g); n; n = n->next) {
        const bool reads = n->phase != WEFT_FORWARD || weft_node_is(n, WEFT_OP_EVICT);
        for (int i = 0; i < n->n_ins && reads; i++)
            if (n->ins[i]->id < a->n_values)
                s->read[n->ins[i]->id] = true;
        if (n->phase == WEFT_FORWARD && n->n_outs && n->outs[0]->id < a->n_values)
            s->there[n->outs[0]->id] = true;
    }
}

/* What comes from elsewhere comes early, and so takes more places. */
static void take_least(int64_t *least, int64_t places)
{
    *least = *least == 0 || places < *least ? places : *least;
}

static bool is_placed(const ac_budget *a, const weft_node *n)
{
    return n->n_outs && n->outs[0]->id < a->n_values;
}

/* A node that was not in the placed graph, as a step of a ring: what it is made for, of the same
 * block's forward, as far as that was; NULL: nothing. */
static const weft_node *find_purpose(const ac_budget *a, const weft_node *n)
{
    const int block = n->block;
    while (n && !is_placed(a, n)) {
        const weft_node *next = NULL;
        for (int r = 0; r < n->n_outs; r++)
            for (int i = 0; i < n->outs[r]->n_uses && !next; i++) {
                const weft_node *by = n->outs[r]->uses[i].node;
                next = by->phase == WEFT_FORWARD && by->block == block ? by : NULL;
            }
        n = next;
    }
    return n && a->in_block[n->outs[0]->id] ? n : NULL;
}

static void count_seconds(const ac_budget *a, const weft_node *n, double seconds, ac_sight *s)
{
    if (is_placed(a, n)) {
        s->seconds[n->outs[0]->id] += a->in_block[n->outs[0]->id] ? seconds : 0;
        return;
    }
    const weft_node *of = find_purpose(a, n);
    s->lost[n->block] += seconds;
    if (of)
        s->parts[of->outs[0]->id] += seconds;
}

static void read_seconds(const ac_budget *a, const weft_planned *p, ac_sight *s)
{
    for (int i = 0; i < p->n_instructions; i++) {
        const weft_planned_instruction *in = &p->instructions[i];
        for (int k = 0; k < in->n_nodes; k++) {
            const weft_node *n = in->nodes[k];
            if (in->part != WEFT_PART_F || n->phase != WEFT_FORWARD || n->block < 0 ||
                n->block >= a->n_layers)
                continue;
            count_seconds(a, n, in->seconds / in->n_nodes, s);
        }
    }
    for (int i = 0; i < p->n_buffers; i++) {
        const weft_planned_buffer *b = &p->buffers[i];
        const weft_value *v = b->arena || b->inside ? b->value : NULL;
        if (!v)
            continue;
        s->own[v->id] = true;
        if (v->id < a->n_values)
            s->places[v->id] = b->places;
        else if (v->node->part == WEFT_PART_B && ac_is_read_late(v) && v->node->block >= 0 &&
                 v->node->block < a->n_layers)
            take_least(&s->waiting[v->node->block], b->places);
    }
}

static void add_form(uint64_t *hash, const void *bytes, size_t n)
{
    *hash = weft_hash_bytes(*hash, bytes, n);
}

/* Seconds, what is read, places; and a number that says which front it has. */
static weft_status look_at_layer(ac_budget *a, ac_layer *l, const ac_sight *s, weft_error *err)
{
    ac_block *b = &l->block;
    int vanished = 0;
    for (int i = 0; i < b->n_nodes; i++)
        vanished += !s->there[l->first[i]];
    for (int i = 0; i < b->n_nodes; i++)
        b->nodes[i].seconds = !s->there[l->first[i]] ? s->lost[l->number] / vanished
                              : vanished             ? s->seconds[l->first[i]]
                                         : s->seconds[l->first[i]] + s->parts[l->first[i]];
    for (int i = 0; i < b->n_values; i++) {
        ac_value *v = &b->values[i];
        v->read = s->read[v->id];
        v->bytes = v->maker < 0 && v->read ? 0 : v->one;
    }
    const weft_status status = ac_weigh_late(a, l, s, err);
    l->form = 0;
    for (int i = 0; i < b->n_nodes; i++) {
        const ac_node *n = &b->nodes[i];
        add_form(&l->form, &n->seconds, sizeof n->seconds);
        add_form(&l->form, &n->always, sizeof n->always);
        add_form(&l->form, n->ins, (size_t)n->n_ins * sizeof *n->ins);
        add_form(&l->form, n->outs, (size_t)n->n_outs * sizeof *n->outs);
    }
    for (int i = 0; i < b->n_values; i++) {
        add_form(&l->form, &b->values[i].maker, sizeof(int));
        add_form(&l->form, &b->values[i].bytes, sizeof(int64_t));
        add_form(&l->form, &b->values[i].one, sizeof(int64_t));
        add_form(&l->form, &b->values[i].held, sizeof(int64_t));
        add_form(&l->form, &b->values[i].read, sizeof(bool));
    }
    add_form(&l->form, l->lists, sizeof l->lists);
    for (int i = 0; i < b->n_waits; i++) {
        add_form(&l->form, &b->waits[i].with, sizeof(int));
        add_form(&l->form, &b->waits[i].host, sizeof(int));
        add_form(&l->form, &b->waits[i].there, sizeof(int64_t));
        add_form(&l->form, &b->waits[i].alone, sizeof(int64_t));
    }
    return status;
}

static weft_status find_fronts(ac_budget *a, weft_error *err)
{
    a->fronts = ac_take(a, (size_t)a->n_layers, sizeof *a->fronts);
    weft_status s = a->fronts ? WEFT_OK : weft_fail_memory(err);
    for (int i = 0; i < a->n_layers && !s; i++) {
        ac_layer *l = &a->layers[i];
        l->front = -1;
        for (int k = 0; k < i && l->front < 0; k++)
            l->front = a->layers[k].form == l->form ? a->layers[k].front : -1;
        if (l->front >= 0)
            continue;
        l->front = a->n_fronts;
        s = ac_front_find(&l->block, &a->fronts[a->n_fronts], err);
        a->n_fronts += !s;
        s = s ? s : ac_front_add_lists(&l->block, l->lists, &a->fronts[l->front], err);
    }
    return s;
}

int64_t ac_bytes_of(const ac_budget *a, const weft_planned *p)
{
    const int64_t more = a->room ? p->libraries - a->room + a->limit : 0;
    return p->bytes + (more > 0 ? more : 0);
}

const ac_front *ac_front_of(const ac_budget *a, const ac_layer *l)
{
    return &a->fronts[l->front];
}

const ac_point *ac_full_of(const ac_budget *a, const ac_layer *l)
{
    const ac_front *f = ac_front_of(a, l);
    return &f->points[f->n - 1];
}

/* The most that is held in each layer's backward, in the head, and elsewhere. */
static weft_status find_peaks(const ac_budget *a, const weft_planned *p, ac_stage *st,
                              weft_error *err)
{
    int64_t *live = weft_alloc_zero((size_t)p->n_positions + 2, sizeof *live),
            *own = weft_alloc_zero((size_t)a->n_layers + 1, sizeof *own);
    weft_status s = live && own ? WEFT_OK : weft_fail_memory(err);
    for (int i = 0; i < p->n_buffers && !s; i++) {
        const weft_planned_buffer *b = &p->buffers[i];
        if (!b->arena || b->inside)
            continue;
        live[b->first > 0 ? b->first : 0] += b->bytes;
        live[b->last + 1] -= b->bytes;
    }
    for (int i = 1; i <= p->n_positions && !s; i++)
        live[i] += live[i - 1];
    for (int i = 0; i < p->n_instructions && !s; i++) {
        const weft_planned_instruction *in = &p->instructions[i];
        const int64_t now = live[in->position];
        const weft_node *n = in->n_nodes ? in->nodes[0] : NULL;
        const bool back = weft_part_is_micro(in->part) && in->part != WEFT_PART_F;
        int64_t *most = !weft_part_is_micro(in->part)                          ? &st->other
                        : back && n && n->block >= 0 && n->block < a->n_layers ? &own[n->block]
                                                                               : &st->head;
        *most = now > *most ? now : *most;
    }
    st->tight = -1;
    for (int i = 0; i < st->n && !s; i++)
        if (st->tight < 0 || own[st->layers[i]->number] >= st->own) {
            st->tight = i;
            st->own = own[st->layers[i]->number];
        }
    weft_free(live);
    weft_free(own);
    return s;
}

static void sum_seconds(const weft_planned *p, ac_stage *st)
{
    for (int i = 0; i < p->n_instructions; i++) {
        const weft_planned_instruction *in = &p->instructions[i];
        const bool far = in->kind == WEFT_FETCH || in->kind == WEFT_EVICT;
        if (weft_part_is_micro(in->part))
            (far ? st->link : st->compute)[in->part != WEFT_PART_F] += in->seconds;
    }
}

static weft_status make_sums(ac_budget *a, ac_stage *st, weft_error *err)
{
    const size_t n = (size_t)st->n;
    int64_t *places = ac_take(a, n, sizeof *places);
    st->fronts = ac_take(a, n, sizeof *st->fronts);
    st->now.points = ac_take(a, n, sizeof(int));
    st->best.points = ac_take(a, n, sizeof(int));
    st->next = ac_take(a, n, sizeof(int));
    st->n_off = st->n ? ac_front_of(a, st->layers[st->tight])->n + AC_LISTS : 0;
    st->off = ac_take(a, (size_t)st->n_off, sizeof *st->off);
    for (int i = 0; i < st->n_off && st->off; i++)
        st->off[i] = INT64_MAX;
    if (!places || !st->fronts || !st->next || !st->off || !st->now.points || !st->best.points)
        return weft_fail_memory(err);
    int k = 0;
    for (int i = 0; i < st->n; i++) {
        if (i == st->tight)
            continue;
        places[k] = st->layers[i]->places;
        st->fronts[k++] = ac_front_of(a, st->layers[i]);
    }
    return ac_sums_make(k, st->fronts, places, &st->sums, err);
}

weft_status ac_look(ac_budget *a, weft_plan *plan, weft_error *err)
{
    const weft_pipeline_view pipe = weft_plan_pipeline(plan);
    const weft_graph *g = weft_plan_trained(plan);
    const size_t values = (size_t)a->n_values + 1;
    const size_t layers = (size_t)a->n_layers + 1;
    ac_sight s = {.seconds = weft_alloc_zero(values, sizeof(double)),
                  .parts = weft_alloc_zero(values, sizeof(double)),
                  .read = weft_alloc_zero(values, 1),
                  .there = weft_alloc_zero(values, 1),
                  .places = weft_alloc_zero(values, sizeof(int64_t)),
                  .late = weft_alloc_zero(values, 1),
                  .beside = weft_alloc_zero(values, sizeof(int64_t)),
                  .counted = weft_alloc_zero((size_t)weft_graph_values(g) + 1, 1),
                  .own = weft_alloc_zero((size_t)weft_graph_values(g) + 1, 1),
                  .waits = weft_alloc_zero(layers, sizeof(ac_waiting *)),
                  .lost = weft_alloc_zero(layers, sizeof(double)),
                  .waiting = weft_alloc_zero(layers, sizeof(int64_t))};
    weft_planned *p = weft_alloc_zero((size_t)pipe.ranks + 1, sizeof *p);
    a->stages = ac_take(a, (size_t)pipe.ranks, sizeof *a->stages);
    weft_status status = s.seconds && s.parts && s.read && s.there && s.places && s.late &&
                                 s.beside && s.counted && s.own && s.waits && s.lost && s.waiting &&
                                 p && a->stages
                             ? WEFT_OK
                             : weft_fail_memory(err);
    if (!status)
        read_graph(a, g, &s);
    for (int r = 0; r < pipe.ranks && !status; r++) {
        status = weft_plan_show(plan, r, &p[r], err);
        if (!status)
            read_seconds(a, &p[r], &s);
    }
    status = status ? status : ac_read_late(a, g, &s, err);
    for (int i = 0; i < a->n_layers && !status; i++) {
        a->layers[i].block.all = weft_splits_all(g);
        a->layers[i].rank = pipe.rank_of[weft_graph_stage_of(g, i)];
        status = look_at_layer(a, &a->layers[i], &s, err);
    }
    status = status ? status : find_fronts(a, err);
    for (int r = 0; r < pipe.ranks && !status; r++) {
        ac_stage *st = &a->stages[r];
        *st = (ac_stage){.rest = ac_bytes_of(a, &p[r]) - p[r].arena,
                         .fits = -1,
                         .exceeds = INT64_MAX,
                         .planned = ac_bytes_of(a, &p[r]),
                         .arena = p[r].arena,
                         .state = p[r].state,
                         .seen = weft_plan_round(plan),
                         .device = ac_bytes_of(a, &p[r]) > p[r].bytes || a->room == a->limit};
        a->n_stages = r + 1;
        a->known = p[r].known;
        st->layers = ac_take(a, (size_t)a->n_layers, sizeof(ac_layer *));
        status = st->layers ? WEFT_OK : weft_fail_memory(err);
        for (int i = 0; i < a->n_layers && !status; i++)
            if (a->layers[i].rank == r)
                st->layers[st->n++] = &a->layers[i];
        sum_seconds(&p[r], st);
        status = status ? status : find_peaks(a, &p[r], st, err);
        status = status ? status : make_sums(a, st, err);
    }
    for (int r = 0; p && r < pipe.ranks; r++)
        weft_planned_release(&p[r]);
    weft_free(p);
    weft_free(s.seconds);
    weft_free(s.parts);
    weft_free(s.read);
    weft_free(s.there);
    weft_free(s.places);
    weft_free(s.late);
    weft_free(s.beside);
    weft_free(s.counted);
    weft_free(s.own);
    weft_free(s.waits);
    weft_free(s.lost);
    weft_free(s.waiting);
    return status;
}
