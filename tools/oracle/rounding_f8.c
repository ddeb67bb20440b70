/* SPDX-License-Identifier: Apache-2.0 */
/* What two runs have rounded to floats of 8 bits: the reference keeps what each value was rounded
 * to and how far it was from where it would have been rounded otherwise; the other run compares. */
#include "rounding_f8.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static bool rounds(const weft_value *v)
{
    const weft_node *n = v->node;
    return v->dtype != WEFT_F8E8M0 && weft_dtype_is_f8(v->dtype) && n && n->n_ins == 2 &&
           !weft_dtype_is_f8(n->ins[0]->dtype);
}

static int place_of(const weft_graph *g, const weft_node *node)
{
    int place = 0;
    for (const weft_node *n = weft_graph_first(g); n && n != node; n = n->next)
        place++;
    return place;
}

/* A gradient of what came from another stage is that of what was sent there: x.r'.2 is x'.2 where
 * nothing is sent. Returns x, and how much of the name stands for it; NULL: there is nothing of the
 * kind. */
static const weft_value *sent_for(const weft_graph *g, const char *name, size_t *n)
{
    char of[256];
    *n = strcspn(name, "'");
    if (name[*n] == '\0' || *n >= sizeof of)
        return NULL;
    memcpy(of, name, *n);
    of[*n] = '\0';
    const weft_value *x = weft_graph_find(g, of), *sent = x;
    while (sent && sent->node->n_steps && sent->node->steps[0].move == WEFT_SEND)
        sent = sent->node->ins[0];
    return sent == x ? NULL : sent;
}

/* What is rounded, wherever and in whichever stage it lies by then, and along which dims scales
 * differ: in another run the result may have another name. */
static const char *name_of(oracle_record *r, const weft_graph *g, const weft_value *v)
{
    const weft_value *x = v->node->ins[0], *scale = v->node->ins[1];
    while (x->node->n_ins == 1 && (x->node->steps || weft_node_is(x->node, WEFT_OP_GATHER)))
        x = x->node->ins[0];
    size_t n = strlen(x->name);
    n -= x->node->phase == WEFT_RECOMPUTE && n > 0 && x->name[n - 1] == '*';
    weft_text text = {0};
    size_t stands = 0;
    const weft_value *sent = sent_for(g, x->name, &stands);
    stands = sent ? stands : 0;
    weft_text_print(&text, "%s%.*s as %s", sent ? sent->name : "", (int)(n - stands),
                    x->name + stands, weft_dtype_name(v->dtype));
    for (int d = 0; d < scale->n_dims; d++)
        weft_text_print(&text, "%s%s", d ? " " : " by ", scale->dims[d].name);
    const char *name = weft_pool_strdup(&r->pool, weft_text_get(&text));
    weft_text_release(&text);
    return name;
}

typedef struct oracle_key {
    char text[512];
    size_t size;
} oracle_key;

static oracle_key key_of(const char *name, int64_t step, int64_t micro)
{
    oracle_key key;
    int n = snprintf(key.text, sizeof key.text, "%lld %lld %s", (long long)step, (long long)micro,
                     name);
    key.size = n < (int)sizeof key.text ? (size_t)n : sizeof key.text - 1;
    return key;
}

/* A weight is rounded once a step, or, where that is done behind its gather, in micro-batches, too.
 */
oracle_rounding *oracle_find_rounding(const oracle_record *r, const char *name, int64_t step,
                                      int64_t micro)
{
    const oracle_key key = key_of(name, step, micro), once = key_of(name, step, -1),
                     first = key_of(name, step, 0);
    oracle_rounding *x = weft_map_get(&r->rounded, key.text, key.size);
    if (!x && micro == 0)
        x = weft_map_get(&r->rounded, once.text, once.size);
    return x || micro >= 0 ? x : weft_map_get(&r->rounded, first.text, first.size);
}

static bool add(oracle_record *r, oracle_rounding *x)
{
    const oracle_key key = key_of(x->name, x->step, x->micro);
    if (r->n_roundings == r->roundings_room) {
        int room = r->roundings_room ? 2 * r->roundings_room : 64;
        oracle_rounding **list = weft_pool_alloc(&r->pool, (size_t)room * sizeof(void *));
        if (!list)
            return false;
        if (r->n_roundings)
            memcpy(list, r->roundings, (size_t)r->n_roundings * sizeof(void *));
        r->roundings = list;
        r->roundings_room = room;
    }
    r->roundings[r->n_roundings++] = x;
    return weft_map_set(&r->rounded, &r->pool, key.text, key.size, x);
}

/* Under the lock. */
static oracle_rounding *get(oracle_record *r, const weft_graph *g, const weft_value *v,
                            const char *name, int64_t step, int64_t micro)
{
    const oracle_key key = key_of(name, step, micro);
    oracle_rounding *x = weft_map_get(&r->rounded, key.text, key.size);
    if (x || !(x = weft_pool_alloc(&r->pool, sizeof *x)))
        return x;
    *x = (oracle_rounding){.name = name,
                           .by = weft_pool_strdup(&r->pool, v->name),
                           .step = step,
                           .micro = micro,
                           .place = place_of(g, v->node),
                           .count = 1,
                           .rows = 1};
    for (int d = 0; d < v->n_dims; d++) {
        x->rows = x->count;
        x->count *= v->dims[d].size;
    }
    if (!r->reference) {
        x->values = weft_pool_alloc(&r->pool, (size_t)x->count * sizeof(float));
        x->distance = weft_pool_alloc(&r->pool, (size_t)x->count * sizeof(float));
        x->gap = weft_pool_alloc(&r->pool, (size_t)x->count * sizeof(float));
    }
    bool made = x->by && (r->reference || (x->values && x->distance && x->gap));
    return made && add(r, x) ? x : NULL;
}

/* How far the magnitude m is from the nearest halfway point between two codes, and how far those
 * are apart. */
static double halfway(double m, weft_dtype dtype, double *gap)
{
    const float *values = weft_f8_values(dtype); /* positive codes first, in their order */
    double max = weft_dtype_max(dtype);
    int low = 0, high = 127;
    while (high - low > 1) { /* values[low] <= m < values[high], or m is above all */
        int middle = (low + high) / 2;
        double value = (double)values[middle];
        *(value <= max && value <= m ? &low : &high) = middle;
    }
    double at = (double)values[low], below = low ? at - (double)values[low - 1] : INFINITY,
           above = at < max ? (double)values[high] - at : INFINITY;
    double down = m - at + below / 2, up = fabs(at + above / 2 - m);
    *gap = down < up ? below : above;
    return down < up ? down : up;
}

/* One rank's part of what is rounded, of its scale and of the result, widened. */
typedef struct rounded {
    weft_tensor t;
    double *x, *scale, *result; /* as many as x has */
} rounded;

static void release(rounded *p)
{
    weft_free(p->x);
    weft_free(p->scale);
    weft_free(p->result);
}

static weft_status widen(const weft_run *run, const weft_value *v, int64_t micro, weft_tensor *t,
                         double **out, weft_error *err)
{
    const weft_lowered *l = run->plan->lowered[WEFT_MODE_TRAIN];
    const void *at = weft_run_address(run, l, l->buffer_of[v->id], micro);
    weft_local_tensor(l->graph, v, l->coord, t);
    size_t n = (size_t)weft_tensor_count(t), bytes = n * weft_dtype_size(t->dtype);
    if (!at)
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE, "%%%s is held nowhere", v->name);
    *out = weft_alloc(n * sizeof **out + 1);
    t->data = weft_alloc(bytes + 1);
    weft_status s = *out && t->data ? WEFT_OK : weft_fail_memory(err);
    s = s ? s : weft_device_download(run->plan, WEFT_NOW, t->data, at, bytes, err);
    for (size_t i = 0; i < n && !s; i++)
        (*out)[i] = weft_tensor_get(t, (int64_t)i);
    weft_free(t->data);
    t->data = NULL;
    return s;
}

/* A scale's dims are some of x's. */
static double *spread(const weft_tensor *t, const weft_value *x, const weft_value *scale,
                      const double *by)
{
    int64_t n = weft_tensor_count(t), stride[WEFT_MAX_DIMS] = {0}, size = 1;
    double *out = weft_alloc((size_t)n * sizeof *out + 1);
    for (int k = scale->n_dims - 1; k >= 0; k--)
        for (int d = 0; d < x->n_dims; d++)
            if (strcmp(scale->dims[k].name, x->dims[d].name) == 0) {
                stride[d] = size;
                size *= t->size[d];
            }
    for (int64_t i = 0; i < n && out; i++) {
        int64_t from = 0, rest = i;
        for (int d = t->n_dims - 1; d >= 0; d--) {
            from += rest % t->size[d] * stride[d];
            rest /= t->size[d];
        }
        out[i] = by[from];
    }
    return out;
}

static weft_status read_parts(const weft_run *run, const weft_value *v, int64_t micro, rounded *p,
                              weft_error *err)
{
    const weft_node *n = v->node;
    weft_tensor other;
    double *by = NULL;
    weft_status s = widen(run, n->ins[1], micro, &other, &by, err);
    s = s ? s : widen(run, v, micro, &other, &p->result, err);
    s = s ? s : widen(run, n->ins[0], micro, &p->t, &p->x, err);
    if (!s && !(p->scale = spread(&p->t, n->ins[0], n->ins[1], by)))
        s = weft_fail_memory(err);
    weft_free(by);
    return s;
}

/* A part of the sequence, as of the head's chunks, has other places where that lies in an order of
 * its own. */
static bool has_other_places(const weft_graph *g, const weft_value *v)
{
    int d = weft_value_dim(v, "seq");
    return g->seq_order && d >= 0 && v->dims[d].size != weft_graph_seq_len(g);
}

/* Where element i of a part of v lies in the sample, in whatever order memory has it. */
static int64_t index_of(const weft_graph *g, const weft_value *v, const weft_tensor *t, int64_t i)
{
    int64_t at = weft_global_index(t, i), stride = 1;
    int seq = g->seq_order ? weft_value_dim(v, "seq") : -1;
    if (seq < 0)
        return at;
    for (int d = seq + 1; d < v->n_dims; d++)
        stride *= v->dims[d].size;
    int64_t place = at / stride % v->dims[seq].size;
    return at + (g->seq_order[place] - place) * stride;
}

static void keep(oracle_rounding *to, const weft_graph *g, const weft_value *v, const rounded *p)
{
    int64_t n = weft_tensor_count(&p->t);
    double squares = 0;
    for (int64_t i = 0; i < n; i++)
        squares += p->x[i] * p->scale[i] * p->x[i] * p->scale[i];
    double mean = n ? sqrt(squares / (double)n) : 0;
    for (int64_t i = 0; i < n; i++) {
        double m = fabs(p->x[i] * p->scale[i]), value = p->result[i] / p->scale[i], gap;
        double far = halfway(m, v->dtype, &gap);
        int64_t at = index_of(g, v, &p->t, i);
        to->size += value * value;
        to->values[at] = (float)value;
        to->distance[at] = m + mean > 0 ? (float)(far / (m + mean)) : INFINITY;
        to->gap[at] = (float)(gap / p->scale[i]);
    }
}

/* Neighbours are at least a sixteenth apart, scales by an error alone. */
static void compare(oracle_rounding *to, const oracle_rounding *reference, const weft_graph *g,
                    const weft_value *v, const rounded *p)
{
    int64_t n = weft_tensor_count(&p->t);
    to->compared += n;
    for (int64_t i = 0; i < n; i++) {
        int64_t at = index_of(g, v, &p->t, i);
        double value = p->result[i] / p->scale[i], before = (double)reference->values[at];
        double apart = fabs(value - before);
        if (apart <= (fabs(value) + fabs(before)) / 64 || (value != value && before != before))
            continue;
        double far = (double)reference->distance[at];
        to->turned++;
        to->difference += apart * apart;
        to->farthest = far > to->farthest || far != far ? far : to->farthest;
    }
}

weft_status oracle_round(oracle_record *r, weft_run *run, const weft_value *v, int64_t micro,
                         weft_error *err)
{
    const weft_graph *g = run->plan->graphs[WEFT_MODE_TRAIN];
    if (!rounds(v) || has_other_places(g, v) || run->view.piece > 0 || run->step >= r->n_steps ||
        !oracle_speaks(run, v))
        return WEFT_OK;
    int64_t of = v->node->scope == WEFT_MICRO_BATCH ? micro : -1;
    rounded p = {.x = NULL};
    weft_status s = read_parts(run, v, micro, &p, err);
    pthread_mutex_lock(&r->lock);
    const char *name = s ? NULL : name_of(r, g, v);
    oracle_rounding *to = name ? get(r, g, v, name, run->step, of) : NULL;
    const oracle_rounding *reference =
        to && r->reference ? oracle_find_rounding(r->reference, name, run->step, of) : NULL;
    if (!s && !to)
        s = weft_fail_memory(err);
    bool again = to && strcmp(to->by, v->name) != 0;
    if (to && !again && !r->reference)
        keep(to, g, v, &p);
    else if (reference && !again && reference->count == to->count)
        compare(to, reference, g, v, &p);
    pthread_mutex_unlock(&r->lock);
    release(&p);
    return s;
}
