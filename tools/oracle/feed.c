/* SPDX-License-Identifier: Apache-2.0 */
/* The reference once more, fed: what it makes of every node is compared with what the other run
 * made of the same, and replaced by that, so that the next node reads what the other run's read.
 * What parts then is one op's doing, or a move's on the way to it: rounding on the way there is in
 * both. */
#include "oracle.h"

#include <weft/random.h>

#include <math.h>
#include <string.h>

/* ---- the same value in two graphs ---- */

static bool moves(const weft_node *n)
{
    return n->n_ins == 1 && (n->steps || weft_node_is(n, WEFT_OP_GATHER));
}

static bool passes_on(const weft_node *n)
{
    return moves(n) || (n->n_ins == 1 && n->op->flags & WEFT_OP_CAST);
}

static uint64_t mix(uint64_t hash, uint64_t with)
{
    return weft_hash_bytes(hash, &with, sizeof with);
}

/* x* is x, computed once more. */
static bool is_again(const weft_value *v)
{
    size_t n = strlen(v->name);
    return v->node->phase == WEFT_RECOMPUTE && n > 1 && v->name[n - 1] == '*';
}

/* Has it a name that a run with other layouts gives to the same? The gradient of what was moved is
 * that of what is moved. 0: no. */
static uint64_t known_by_name(const weft_graph *g, const weft_value *v, const oracle_value *known)
{
    char of[256];
    size_t n = strcspn(v->name, "'"), end = strlen(v->name);
    if (known->numbered || known->term || n >= sizeof of)
        return 0;
    if (is_again(v))
        return weft_hash_bytes(0, v->name, end - 1);
    if (n == end)
        return weft_hash_bytes(0, v->name, end);
    if (weft_value_dim(v, "batch") < 0)
        return 0; /* a weight's: totals take names, too */
    memcpy(of, v->name, n);
    of[n] = '\0';
    const weft_value *x = weft_graph_find(g, of);
    while (x && moves(x->node))
        x = x->node->ins[0];
    return x ? weft_hash_bytes(weft_hash_name(x->name), v->name + n, end - n) : 0;
}

static uint64_t with_attrs(uint64_t hash, const weft_node *n)
{
    for (int i = 0; i < n->n_attrs; i++) {
        const weft_attr *a = &n->attrs[i];
        hash = mix(mix(hash, weft_hash_name(a->key)), (uint64_t)a->i);
        hash = weft_hash_bytes(hash, &a->r, sizeof a->r);
        hash = a->text ? mix(hash, weft_hash_name(a->text)) : hash;
    }
    return hash;
}

/* What the operands are known by, and what of that is a sum's. */
typedef struct identity {
    uint64_t id, terms;
} identity;

/* Sums of more than two terms are added in an order that depends on layouts: what they have in
 * common is the set of their terms. */
static identity identify(const weft_graph *g, const weft_value *v, const oracle_value *known,
                         const identity *of)
{
    const weft_node *n = v->node;
    identity x = {0, 0};
    if (passes_on(n))
        return of[n->ins[0]->id];
    if ((x.id = known_by_name(g, v, known)) != 0) {
        x.terms = x.id;
        return x;
    }
    if (n->op->flags & WEFT_OP_ADD) {
        for (int i = 0; i < n->n_ins; i++)
            x.terms += of[n->ins[i]->id].terms;
        x.id = mix(weft_hash_name("sum"), x.terms);
        return x;
    }
    x.id = with_attrs(weft_hash_name(n->op->name), n);
    for (int i = 0; i < n->n_ins; i++)
        x.id = mix(x.id, of[n->ins[i]->id].id);
    x.id = mix(x.id, (uint64_t)v->result);
    x.terms = x.id;
    return x;
}

/* Does it hold, in every micro-batch, what the other run's has there? */
static bool can_feed(const oracle_record *r, const weft_value *v, const oracle_value *known)
{
    if (r->feeds && v->node->chunk >= 0 && r->chunks != r->feeds->chunks)
        return false; /* another part of the head */
    for (int a = 0; a < WEFT_MAX_AXES; a++)
        if (weft_layout_open(v->layout, a) == WEFT_OPEN_MAX)
            return false;
    return v->fetch && v->node->scope == WEFT_MICRO_BATCH && (r->feeds || !is_again(v)) &&
           weft_dtype_is_float(v->dtype) && !passes_on(v->node) && !known->apart;
}

weft_status oracle_identify(oracle_record *r, const weft_graph *g, int64_t micro_batches,
                            weft_error *err)
{
    int most = 0, i = 0;
    for (const weft_node *n = g->first; n; n = n->next)
        for (int k = 0; k < n->n_outs; k++)
            most = n->outs[k]->id > most ? n->outs[k]->id : most;
    identity *of = weft_alloc_zero((size_t)most + 1, sizeof *of);
    weft_status s = of ? WEFT_OK : weft_fail_memory(err);
    for (const weft_node *n = g->first; n && !s; n = n->next)
        for (int k = 0; k < n->n_outs && !s; k++, i++) {
            oracle_value *to = &r->values[i];
            of[n->outs[k]->id] = identify(g, n->outs[k], to, of);
            if (!can_feed(r, n->outs[k], to))
                continue;
            to->id = of[n->outs[k]->id].id;
            oracle_value *other = r->feeds ? NULL : weft_map_get(&r->by_id, &to->id, sizeof to->id);
            if (other) { /* which of them is not known */
                other->id = to->id = 0;
                continue;
            }
            to->micro_batches = micro_batches;
            if (r->fed && !weft_map_set(&r->by_id, &r->pool, &to->id, sizeof to->id, to))
                s = weft_fail_memory(err);
        }
    weft_free(of);
    return s;
}

/* ---- what it is fed ---- */

bool oracle_add_part(weft_pool *pool, oracle_parts *to, const weft_tensor *t)
{
    if (to->n == to->room) {
        int room = to->room ? 2 * to->room : 8;
        weft_tensor *list = weft_pool_alloc(pool, (size_t)room * sizeof *list);
        if (!list)
            return false;
        if (to->n)
            memcpy(list, to->list, (size_t)to->n * sizeof *list);
        to->list = list;
        to->room = room;
    }
    to->list[to->n] = *t;
    to->list[to->n++].data = NULL;
    return true;
}

weft_status oracle_keep(oracle_record *r, oracle_value *to, const weft_value *v,
                        const weft_tensor *local, int64_t micro, weft_error *err)
{
    size_t size = (size_t)(to->count * to->micro_batches);
    if (!to->id || micro < 0 || micro >= to->micro_batches)
        return WEFT_OK;
    if (!to->fed && !(to->fed = weft_pool_alloc(&r->pool, size * sizeof *to->fed)))
        return weft_fail_memory(err);
    oracle_add(to->fed + micro * to->count, local);
    bool part = micro == 0 && !weft_layout_open_axes(v->layout) && weft_tensor_count(local) > 0;
    return !part || oracle_add_part(&r->pool, &to->parts, local) ? WEFT_OK : weft_fail_memory(err);
}

/* ---- feeding ---- */

weft_status oracle_replace(weft_run *run, const weft_value *v, int64_t micro, const double *by,
                           weft_error *err)
{
    const weft_lowered *l = run->plan->lowered[WEFT_MODE_TRAIN];
    weft_tensor t;
    if (weft_node_is(v->node, WEFT_OP_EVICT)) /* it lies far; what is fetched of it is replaced */
        return WEFT_OK;
    weft_local_tensor(l->graph, v, l->coord, &t);
    int64_t n = weft_tensor_count(&t);
    size_t bytes = (size_t)n * weft_dtype_size(t.dtype);
    if (!(t.data = weft_alloc(bytes + 1)))
        return weft_fail_memory(err);
    for (oracle_row row = {0}; oracle_next_row(&t, &row);)
        for (int64_t k = 0; k < row.n; k++)
            weft_tensor_set(&t, row.i + k, by[row.at + (uint64_t)k]);
    weft_status s = weft_device_upload(run->plan, WEFT_NOW,
                                       weft_run_address(run, l, l->buffer_of[v->id], micro), t.data,
                                       bytes, err);
    weft_free(t.data);
    return s;
}

static const oracle_value *find_fed(const oracle_record *r, const weft_value *v)
{
    const oracle_value *mine = weft_map_get(&r->by_name, v->name, strlen(v->name));
    const oracle_value *from =
        mine && mine->id ? weft_map_get(&r->feeds->by_id, &mine->id, sizeof mine->id) : NULL;
    return from && from->id && from->fed ? from : NULL;
}

/* What is summed over many places may be nothing but what they were rounded by: of a key's bias the
 * softmax sees nothing. */
static double least_of(const oracle_record *r, const weft_value *v, int64_t count, int64_t micro)
{
    const weft_value *in = v->node->n_ins == 1 ? v->node->ins[0] : NULL;
    while (in && passes_on(in->node))
        in = in->node->ins[0];
    const oracle_value *x = in ? find_fed(r, in) : NULL;
    double squares = 0;
    for (int64_t i = 0; x && x->count > count && i < x->count; i++)
        squares += x->fed[micro * x->count + i] * x->fed[micro * x->count + i];
    return sqrt(squares);
}

bool oracle_is_fed(const oracle_record *r, const weft_value *v)
{
    const weft_node *n = v->node;
    const oracle_value *x = weft_map_get(&r->by_name, v->name, strlen(v->name));
    if ((x && x->replaced) || !weft_dtype_is_float(v->dtype) || n->n_ins == 0)
        return true;
    if (n->scope == WEFT_MICRO_BATCH && !passes_on(n) &&
        !(n->op->flags & (WEFT_OP_ADD | WEFT_OP_ACCUMULATES)))
        return false;
    for (int i = 0; i < n->n_ins; i++)
        if (!oracle_is_fed(r, n->ins[i]))
            return false;
    return true;
}

static bool is_made_of_fed(const oracle_record *r, const weft_node *n)
{
    for (int i = 0; i < n->n_ins; i++)
        if (!oracle_is_fed(r, n->ins[i]))
            return false;
    return true;
}

weft_status oracle_feed(oracle_record *r, weft_run *run, const weft_value *v,
                        const weft_tensor *local, int64_t micro, weft_error *err)
{
    oracle_value *mine = weft_map_get(&r->by_name, v->name, strlen(v->name));
    const oracle_value *from = find_fed(r, v);
    if (!from || from->count != weft_tensor_count(local) || micro >= from->micro_batches)
        return WEFT_OK;
    const double *by = from->fed + micro * from->count;
    double *made = weft_alloc((size_t)from->count * sizeof *made + 1);
    if (!made)
        return weft_fail_memory(err);
    for (oracle_row row = {0}; oracle_next_row(local, &row);)
        for (int64_t k = 0; k < row.n; k++)
            made[row.at + (uint64_t)k] = weft_tensor_get(local, row.i + k);
    if (is_made_of_fed(r, v->node)) {
        oracle_measure_parts(made, by, from->count, &from->parts,
                             least_of(r, v, from->count, micro), &mine->part);
        mine->compared = true;
    }
    mine->replaced = true;
    weft_free(made);
    return oracle_replace(run, v, micro, by, err);
}

/* ---- the verdict ---- */

/* Terms of sums over ranks are rounded each, and one value that many elements have is rounded the
 * same way in all of them; sums of weights' gradients are made in f32. */
static oracle_errors bound_of(const oracle_record *a, const oracle_record *b, bool gradients)
{
    const double e = ldexp(1, -8);
    if (a->half != b->half)
        return (oracle_errors){.whole = gradients ? e : 1.5 * e, .scale = e};
    return (oracle_errors){.whole = gradients ? e / 4 : e, .scale = gradients ? e / 8 : e / 4};
}

static bool is_within(const oracle_part *part, const oracle_errors *bound)
{
    return part->error <= bound->whole && part->scale <= bound->scale;
}

static void judge(oracle_verdict *v, const oracle_part *part, const oracle_errors *bound,
                  const char *what, const char *name, oracle_part *worst)
{
    oracle_judge_part(v, part, bound, what, 0, name);
    worst->error = fmax(worst->error, part->error);
    worst->scale = fmax(worst->scale, part->scale);
}

void oracle_compare_fed(const oracle_record *fed, const oracle_record *b, oracle_verdict *v,
                        weft_text *out)
{
    static const char *const kinds[2] = {"value from the same operands",
                                         "gradient of value from the same operands"};
    const oracle_errors bound = bound_of(fed, b, false), sums = bound_of(fed, b, true);
    oracle_part worst[3] = {{0, 0}, {0, 0}, {0, 0}};
    const oracle_value *first = NULL;
    int compared[2] = {0};
    int64_t choices, turned = oracle_count_turned(fed, b, &choices);
    oracle_judge(v, (double)turned, 0, "choices from the same operands that differ", 0, "");
    for (int i = 0; i < fed->n_values; i++) {
        const oracle_value *x = &fed->values[i];
        if (!x->compared)
            continue;
        compared[x->backward]++;
        if (!first && !is_within(&x->part, &bound))
            first = x;
        judge(v, &x->part, &bound, kinds[x->backward], x->name, &worst[x->backward]);
    }
    for (int i = 0; i < fed->n_tensors; i++) {
        const oracle_tensor *x = &fed->steps[0].tensors[i], *y = oracle_find(b, 0, x->name);
        oracle_part part = {0, 0};
        if (x->frozen || !x->fed || !y)
            continue;
        oracle_measure_parts(x->gradient, y->gradient, x->count, &y->parts,
                             ldexp(oracle_gradient_share(fed, b, x, 0), -8), &part);
        judge(v, &part, &sums, "gradient from the same operands", x->name, &worst[2]);
    }
    weft_text_print(out,
                    "from the same operands: %d values of the forward up to %.2g apart, in scale "
                    "%.2g; %d of the backward up to %.2g, %.2g; gradients up to %.2g, %.2g\n",
                    compared[0], worst[0].error, worst[0].scale, compared[1], worst[1].error,
                    worst[1].scale, worst[2].error, worst[2].scale);
    if (!first)
        return;
    weft_text_add(out, "first parted from the same operands at ");
    oracle_print_value(out, first);
    weft_text_add(out, ": ");
    oracle_print_apart(out, &first->part, &bound);
    weft_text_add(out, "\n");
}
