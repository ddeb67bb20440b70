/* SPDX-License-Identifier: Apache-2.0 */
/* What ops choose that are marked CHOOSES: which of several is the largest may turn where operands
 * are rounded, and what comes after a choice has no bound. So a reference chooses as the other run
 * did, and what the other run chose is looked at by itself: is it what its operands say? */
#include "oracle.h"

#include <stdio.h>
#include <string.h>
#include <weft/marks.h>

/* Of one result, in one step. */
struct oracle_choice {
    const char *name;
    int64_t step, size; /* of all micro-batches */
    bool whole;         /* numbers of experts; no: what goes with them */
    double *list;
};

static bool chooses(const weft_value *v)
{
    const weft_node *n = v->node;
    return n->phase == WEFT_FORWARD && n->scope == WEFT_MICRO_BATCH &&
           weft_get_mark(n, WEFT_MARK_CHOOSES);
}

static oracle_choice *find(const oracle_record *r, const char *name, int64_t step)
{
    for (int i = 0; i < r->n_choices; i++)
        if (r->choices[i]->step == step && strcmp(r->choices[i]->name, name) == 0)
            return r->choices[i];
    return NULL;
}

static bool push(oracle_record *r, oracle_choice *x)
{
    if (r->n_choices == r->choices_room) {
        int room = r->choices_room ? 2 * r->choices_room : 16;
        oracle_choice **list = weft_pool_alloc(&r->pool, (size_t)room * sizeof(void *));
        if (!list)
            return false;
        if (r->n_choices)
            memcpy(list, r->choices, (size_t)r->n_choices * sizeof(void *));
        r->choices = list;
        r->choices_room = room;
    }
    r->choices[r->n_choices++] = x;
    return true;
}

static int64_t count_of(const weft_value *v)
{
    int64_t n = 1;
    for (int d = 0; d < v->n_dims; d++)
        n *= v->dims[d].size;
    return n;
}

static oracle_choice *get(oracle_record *r, const weft_run *run, const weft_value *v)
{
    oracle_choice *x = find(r, v->name, run->step);
    if (x || !(x = weft_pool_alloc(&r->pool, sizeof *x)))
        return x;
    *x = (oracle_choice){.name = weft_pool_strdup(&r->pool, v->name),
                         .step = run->step,
                         .size = count_of(v) * run->plan->micro_batches,
                         .whole = !weft_dtype_is_float(v->dtype)};
    x->list = weft_pool_alloc(&r->pool, (size_t)x->size * sizeof *x->list);
    return x->name && x->list && push(r, x) ? x : NULL;
}

/* ---- a reference that chooses as another run did ---- */

/* Did the row turn that element i of a result is in? width: elements of a row. */
static bool has_turned(const oracle_choice *own, const oracle_choice *other, int64_t i,
                       int64_t width)
{
    const int64_t row = i / width * width;
    return memcmp(own->list + row, other->list + row, (size_t)width * sizeof(double)) != 0;
}

/* The result of the same node that says which rows have turned; NULL: all of v may have. */
static const weft_value *numbers_of(const weft_value *v)
{
    const weft_node *n = v->node;
    for (int i = 0; i < n->n_outs; i++)
        if (!weft_dtype_is_float(n->outs[i]->dtype))
            return n->outs[i];
    return NULL;
}

static weft_status choose_as(oracle_record *r, weft_run *run, const weft_value *v,
                             const weft_tensor *local, int64_t micro, weft_error *err)
{
    const weft_value *numbers = numbers_of(v) ? numbers_of(v) : v;
    const oracle_choice *own = find(r, numbers->name, run->step),
                        *other = find(r->chooses_as, numbers->name, run->step),
                        *by = find(r->chooses_as, v->name, run->step);
    const int64_t n = weft_tensor_count(local), at = micro * n,
                  width = numbers->dims[numbers->n_dims - 1].size;
    bool turned = false;
    if (!own || !other || !by || own->size != other->size || at + n > by->size)
        return WEFT_OK;
    for (int64_t i = 0; i < n; i++)
        if (has_turned(own, other, at + i, width)) {
            weft_tensor_set(local, i, by->list[at + i]);
            turned = true;
        }
    return turned ? oracle_replace(run, v, micro, by->list + at, err) : WEFT_OK;
}

weft_status oracle_choose(oracle_record *r, weft_run *run, const weft_value *v,
                          const weft_tensor *local, int64_t micro, weft_error *err)
{
    if (!chooses(v) || run->step >= r->n_steps)
        return WEFT_OK;
    if (oracle_speaks(run, v)) {
        pthread_mutex_lock(&r->lock);
        oracle_choice *x = get(r, run, v);
        if (x)
            oracle_add(x->list + micro * count_of(v), local);
        pthread_mutex_unlock(&r->lock);
        if (!x)
            return weft_fail_memory(err);
    }
    return r->chooses_as ? choose_as(r, run, v, local, micro, err) : WEFT_OK;
}

/* ---- how many ---- */

int64_t oracle_count_turned(const oracle_record *a, const oracle_record *b, int64_t *all)
{
    int64_t turned = 0;
    *all = 0;
    for (int i = 0; i < a->n_choices; i++) {
        const oracle_choice *x = a->choices[i], *y = find(b, x->name, x->step);
        for (int64_t k = 0; y && x->whole && x->size == y->size && k < x->size; k++) {
            turned += x->list[k] != y->list[k];
            ++*all;
        }
    }
    return turned;
}
