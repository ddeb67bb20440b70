/* SPDX-License-Identifier: Apache-2.0 */
/* Which ranks of a pipeline are alike: between the first stages and the last ones all have blocks
 * of one kind. For a rough plan the first and the last of them are planned, and the one that holds
 * most micro-batches at once; others run the first one's programs by lists of their own. Ranks are
 * alike if their nodes are, one after the other, and what these read: by where it stands in the
 * rank, or, of what is everywhere, by what it is. */
#include "compile/program/compiler.h"
#include "forecast/forecast.h"
#include "forecast/mix.h"

#include <weft/marks.h>

enum { EVERYWHERE = -1 };

typedef struct looker {
    const weft_graph *g;
    int axis, ranks;
    int *at, *place; /* by node id: the rank that runs it, and as which of its nodes */
    struct seen {
        uint64_t hash;
        int n, block; /* nodes; the first block */
    } * of;           /* by rank */
} looker;

static int64_t layout_bits(const looker *k, weft_layout l)
{
    return (int64_t)(weft_layout_at(l, k->axis) < 0 ? l : weft_layout_set_at(l, k->axis, 0)).bits;
}

static void mix_value(const looker *k, uint64_t *hash, const weft_value *v)
{
    const int64_t what[] = {v->dtype, v->n_dims,    layout_bits(k, v->layout), v->turn,
                            v->kind,  v->recompute, v->update_of != NULL,      v->turn_dim,
                            v->fetch, v->weight};
    mix(hash, what, sizeof what);
    for (int d = 0; d < v->n_dims; d++)
        mix(hash, (int64_t[]){v->dims[d].size, v->dims[d].grain}, 2 * sizeof(int64_t));
}

/* Ranks that are sent to, and from, count from this one on. */
static void mix_steps(const looker *k, uint64_t *hash, const weft_node *n, int rank)
{
    const int from = weft_node_sends(n) ? rank : 0;
    for (int i = 0; i < n->n_steps; i++) {
        const weft_step *s = &n->steps[i];
        const int64_t what[] = {s->move, s->dim - from, s->to - from, layout_bits(k, s->after)};
        mix(hash, what, sizeof what);
        mix(hash, s->axes, (size_t)s->n_axes * sizeof *s->axes);
    }
}

static void add_node(looker *k, const weft_node *n, int rank, bool sends)
{
    struct seen *of = &k->of[rank];
    of->block = of->block < 0 ? n->block : of->block;
    const int64_t what[] = {(int64_t)(uintptr_t)n->op,
                            n->part,
                            weft_part_is_micro(n->part) ? n->stage - rank : 0,
                            n->phase,
                            n->scope,
                            n->chunk,
                            n->every,
                            n->block < 0 ? n->block : n->block - of->block,
                            weft_get_mark(n, WEFT_MARK_GROUP),
                            weft_get_mark(n, WEFT_MARK_PREFETCH),
                            sends};
    mix(&of->hash, what, sizeof what);
    mix_attrs(&of->hash, n->attrs, n->n_attrs);
    mix_steps(k, &of->hash, n, rank);
    for (int i = 0; i < n->n_ins; i++) {
        const weft_value *v = n->ins[i];
        const int at = k->at[v->node->id];
        mix(&of->hash,
            (int64_t[]){at == EVERYWHERE, at == EVERYWHERE ? v->node->id : at - rank, v->result,
                        at == rank ? k->place[v->node->id] : 0},
            4 * sizeof(int64_t));
        mix_value(k, &of->hash, v);
    }
    for (int i = 0; i < n->n_outs; i++)
        mix_value(k, &of->hash, n->outs[i]);
    k->at[n->id] = rank;
    k->place[n->id] = of->n++;
}

/* What goes over the axis of stages all run; a send, two. */
static void look_at(looker *k, const weft_node *n)
{
    const int at = n->n_outs ? weft_layout_at(n->outs[0]->layout, k->axis) : EVERYWHERE,
              from = weft_node_sends(n) ? weft_layout_at(n->ins[0]->layout, k->axis) : EVERYWHERE;
    if (from >= 0 && from != at)
        add_node(k, n, from, true);
    if (at >= 0)
        add_node(k, n, at, false);
    k->at[n->id] = at >= 0 ? at : EVERYWHERE;
}

/* The same numbers of the same tasks, in whatever order. */
static void add_tasks(looker *k, const weft_task_list *list, int rank)
{
    uint64_t sum = 0;
    for (int i = 0; i < list->n; i++) {
        const int64_t what[] = {list->list[i].part, list->list[i].stage - rank};
        if (weft_part_is_micro(list->list[i].part))
            sum += weft_hash_bytes(0, what, sizeof what);
    }
    mix(&k->of[rank].hash, (int64_t[]){(int64_t)sum, k->of[rank].n}, 2 * sizeof(int64_t));
}

static void note(int now, int *most)
{
    *most = now > *most ? now : *most;
}

/* Micro-batches between two parts of them, the most at once: what each two keep has places for that
 * many. */
static int most_held(const weft_task_list *list)
{
    int n[WEFT_PARTS] = {0}, forward = 0, waiting = 0, either = 0;
    bool waits = false;
    for (int i = 0; i < list->n; i++)
        waits = waits || list->list[i].part == WEFT_PART_W;
    for (int i = 0; i < list->n; i++) {
        n[list->list[i].part]++;
        note(n[WEFT_PART_F] - n[WEFT_PART_B], &forward);
        note(waits ? n[WEFT_PART_B] - n[WEFT_PART_W] : 0, &waiting);
        note(waits ? n[WEFT_PART_F] - n[WEFT_PART_W] : 0, &either);
    }
    return forward + waiting + either;
}

/* Of each kind the first that holds most is planned, too. */
static void keep_fullest(const looker *k, const weft_tasks *tasks, int *like)
{
    for (int r = 0; r < k->ranks; r++) {
        int fullest = r;
        for (int i = r + 1; i < k->ranks; i++)
            if (like[i] == r && most_held(&tasks->of[i]) > most_held(&tasks->of[fullest]))
                fullest = i;
        if (like[r] == r)
            like[fullest] = fullest;
    }
}

weft_status weft_forecast_alike(const weft_plan *plan, int *like, weft_error *err)
{
    weft_graph *g = plan->graphs[WEFT_MODE_TRAIN];
    const weft_tasks *tasks = plan->tasks[WEFT_MODE_TRAIN];
    looker k = {.g = g, .axis = weft_graph_stage_axis(g), .ranks = tasks->ranks};
    for (int r = 0; r < k.ranks; r++)
        like[r] = r;
    if (k.axis < 0 || k.ranks < 4)
        return WEFT_OK;
    const size_t nodes = (size_t)g->n_nodes + 1;
    k.at = weft_alloc_zero(nodes, sizeof *k.at);
    k.place = weft_alloc_zero(nodes, sizeof *k.place);
    k.of = weft_alloc_zero((size_t)k.ranks, sizeof *k.of);
    weft_status s = k.at && k.place && k.of ? WEFT_OK : weft_fail_memory(err);
    for (int r = 0; r < k.ranks && !s; r++)
        k.of[r].block = -1;
    weft_graph_mark_live(g);
    for (const weft_node *n = s ? NULL : g->first; n; n = n->next)
        if (n->mark)
            look_at(&k, n);
    for (int r = 0; r < k.ranks && !s; r++) {
        add_tasks(&k, &tasks->of[r], r);
        for (int i = r - 1; i >= 0; i--)
            like[r] = k.of[i].hash == k.of[r].hash ? i : like[r];
    }
    for (int r = 0; r < k.ranks && !s; r++) { /* the last one has lists of another kind */
        bool last = true;
        for (int i = r + 1; i < k.ranks && last; i++)
            last = k.of[i].hash != k.of[r].hash;
        like[r] = last ? r : like[r];
    }
    if (!s)
        keep_fullest(&k, tasks, like);
    weft_free(k.at);
    weft_free(k.place);
    weft_free(k.of);
    return s;
}

/* ---- programs of another rank ---- */

weft_lowered *weft_lowered_borrow(const weft_lowered *from, const weft_task_list *tasks, int shift)
{
    const size_t n = (size_t)(from->n_programs + from->n_variants);
    weft_lowered *own = weft_alloc(sizeof *own);
    weft_program *programs = own ? weft_alloc((n + 1) * sizeof *programs) : NULL;
    if (!programs) {
        weft_free(own);
        return NULL;
    }
    memcpy(programs, from->programs, n * sizeof *programs);
    for (size_t i = 0; i < n; i++)
        programs[i].stage += weft_part_is_micro(programs[i].part) ? shift : 0;
    *own = *from;
    own->programs = programs;
    own->tasks = tasks;
    return own;
}

void weft_lowered_return(weft_lowered *borrowed)
{
    if (borrowed)
        weft_free(borrowed->programs);
    weft_free(borrowed);
}
