/* SPDX-License-Identifier: Apache-2.0 */
/* Lists that nobody has thought out: each rank does what it can as soon as it is free. */
#include "search.h"

#include <string.h>

enum { NONE = -1 };

static const char letters[PP_KINDS] = {'F', 'I', 'W'};

typedef struct rank_state {
    int64_t free, bytes, room; /* when; held; of these at most */
    int64_t waits, late;       /* held for weights; of these, before they come first */
    int first;                 /* its first stage */
} rank_state;

typedef struct greedy {
    const pp_pipeline *p;
    weft_pool pool;
    bool reserve;
    int micro;
    int64_t now;
    rank_state *ranks;
    int *next[PP_KINDS];    /* by stage: the micro-batch that is next */
    int64_t *ends[2];       /* by stage and micro-batch: F, I; NONE */
    int *head[2], *tail[2]; /* by the ranks that send and receive: the first result that is sent and
                               not yet read, by stage and micro-batch, and the last; NONE */
    int *behind[2];         /* by result: the one that is sent behind it */
    pp_lists *lists;        /* of each rank */
    weft_error *err;
} greedy;

static bool is_elsewhere(const greedy *g, int a, int b)
{
    return g->p->view.rank_of[a] != g->p->view.rank_of[b];
}

static int64_t *ends_of(const greedy *g, int way, int stage, int micro)
{
    return &g->ends[way][stage * g->micro + micro];
}

/* The stage whose result of the same kind is waited for; NONE. */
static int maker_of(const greedy *g, int kind, int stage)
{
    const int maker = kind == PP_F ? stage - 1 : kind == PP_I ? stage + 1 : NONE;
    return maker < g->p->view.stages ? maker : NONE;
}

static int channel_of(const greedy *g, int from, int to)
{
    return g->p->view.rank_of[from] * g->p->view.ranks + g->p->view.rank_of[to];
}

/* When a stage's next task of a kind has all that it reads; NONE: not as far as is known. */
static int64_t ready_at(const greedy *g, int kind, int stage)
{
    const int i = g->next[kind][stage], maker = maker_of(g, kind, stage), way = kind != PP_F;
    if (i == g->micro)
        return NONE;
    int64_t at = kind == PP_F ? 0 : *ends_of(g, kind == PP_W, stage, i);
    if (at == NONE || maker == NONE)
        return at;
    int64_t made = *ends_of(g, way, maker, i);
    if (made == NONE)
        return NONE;
    made += is_elsewhere(g, maker, stage) ? g->p->stages[maker].sends[way] : 0;
    return made > at ? made : at;
}

/* What ranks send each other is taken in the order in which it is sent. */
static bool is_in_turn(const greedy *g, int kind, int stage)
{
    const int maker = maker_of(g, kind, stage), way = kind != PP_F;
    if (maker == NONE || !is_elsewhere(g, maker, stage))
        return true;
    return g->head[way][channel_of(g, maker, stage)] == maker * g->micro + g->next[kind][stage];
}

static void put(const greedy *g, int way, int channel, int result)
{
    int *head = &g->head[way][channel], *tail = &g->tail[way][channel];
    *(*head == NONE ? head : &g->behind[way][*tail]) = result;
    *tail = result;
    g->behind[way][result] = NONE;
}

/* Bytes that a task holds more than was held before. */
static int64_t holds(const greedy *g, int kind, int stage)
{
    const pp_stage *s = &g->p->stages[stage];
    const int rank = g->p->view.rank_of[stage];
    const int64_t all = stage == g->ranks[rank].first ? pp_unit(g->p, rank) : 0;
    const int64_t comes = g->reserve ? all : s->kept;
    const int64_t kept = g->reserve && s->held > s->kept ? s->held : s->kept;
    return kind == PP_F ? comes : kind == PP_I ? s->held - kept : -s->held;
}

static bool may_begin(const greedy *g, int kind, int stage)
{
    const rank_state *r = &g->ranks[g->p->view.rank_of[stage]];
    const int64_t at = ready_at(g, kind, stage);
    return at != NONE && at <= g->now && is_in_turn(g, kind, stage) &&
           r->bytes + holds(g, kind, stage) <= r->room;
}

/* Backwards first, of the stage that is nearest to the first: others wait for it. Of forwards the
 * one that is nearest to its backward. */
static bool find_task(const greedy *g, int rank, int *kind, int *stage)
{
    static const int orders[2][PP_KINDS] = {{PP_I, PP_F, PP_W}, {PP_I, PP_W, PP_F}};
    const int n = g->p->view.stages;
    const int *order = orders[g->ranks[rank].waits > g->ranks[rank].late];
    for (int k = 0; k < PP_KINDS; k++)
        for (int i = 0; i < n; i++) {
            *kind = order[k];
            *stage = *kind == PP_F ? n - 1 - i : i;
            if (g->p->view.rank_of[*stage] == rank && may_begin(g, *kind, *stage))
                return true;
        }
    return false;
}

static weft_status do_task(greedy *g, int rank, int kind, int stage)
{
    const int i = g->next[kind][stage]++, way = kind != PP_F,
              to = kind == PP_F ? stage + 1 : stage - 1;
    const int maker = maker_of(g, kind, stage);
    rank_state *r = &g->ranks[rank];
    r->bytes += holds(g, kind, stage);
    r->waits += kind == PP_F ? 0 : (kind == PP_I ? 1 : -1) * g->p->stages[stage].held;
    r->free = g->now + g->p->stages[stage].takes[kind];
    if (kind != PP_W)
        *ends_of(g, way, stage, i) = r->free;
    if (maker != NONE && is_elsewhere(g, maker, stage)) {
        int *head = &g->head[way][channel_of(g, maker, stage)];
        *head = g->behind[way][*head];
    }
    if (kind != PP_W && to >= 0 && to < g->p->view.stages && is_elsewhere(g, stage, to))
        put(g, way, channel_of(g, stage, to), stage * g->micro + i);
    const pp_item item = {.rank = rank, .stage = stage, .micro = i, .letter = letters[kind]};
    return pp_lists_add(&g->lists[rank], item, g->err);
}

/* The next time at which something changes; false: nothing will. */
static bool go_on(greedy *g)
{
    int64_t next = INT64_MAX;
    for (int r = 0; r < g->p->view.ranks; r++)
        if (g->ranks[r].free > g->now && g->ranks[r].free < next)
            next = g->ranks[r].free;
    for (int s = 0; s < g->p->view.stages; s++)
        for (int kind = PP_F; kind <= PP_I; kind++) {
            const int64_t at = ready_at(g, kind, s);
            next = at > g->now && at < next ? at : next;
        }
    g->now = next;
    return next < INT64_MAX;
}

static weft_status run(greedy *g, int64_t *left)
{
    weft_status s = WEFT_OK;
    for (bool more = true; more && *left > 0 && !s;) {
        bool moved = false;
        for (int r = 0; r < g->p->view.ranks && !s; r++) {
            int kind, stage;
            if (g->ranks[r].free > g->now || !find_task(g, r, &kind, &stage))
                continue;
            s = do_task(g, r, kind, stage);
            moved = true;
            --*left;
        }
        more = moved || go_on(g);
    }
    return s;
}

static void *take(greedy *g, size_t n, size_t size, bool *ok)
{
    void *room = weft_pool_alloc(&g->pool, (n + 1) * size);
    *ok = *ok && room;
    return room;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Eighths of it. */
static int64_t share(int64_t all, int eighths)
{
    return all / 8 * eighths + all % 8 * eighths / 8;
}

static bool reserve(greedy *g, int room, int late)
{
    const weft_pipeline_view *v = &g->p->view;
    const size_t ranks = (size_t)v->ranks, stages = (size_t)v->stages, micro = (size_t)g->micro;
    bool ok = true;
    g->ranks = take(g, ranks, sizeof *g->ranks, &ok);
    g->lists = take(g, ranks, sizeof *g->lists, &ok);
    for (int k = 0; k < PP_KINDS; k++)
        g->next[k] = take(g, stages, sizeof(int), &ok);
    for (int way = 0; way < 2; way++) {
        g->ends[way] = take(g, stages * micro, sizeof(int64_t), &ok);
        g->head[way] = take(g, ranks * ranks, sizeof(int), &ok);
        g->tail[way] = take(g, ranks * ranks, sizeof(int), &ok);
        g->behind[way] = take(g, stages * micro, sizeof(int), &ok);
    }
    if (!ok)
        return false;
    for (int way = 0; way < 2; way++) {
        memset(g->ends[way], NONE, stages * micro * sizeof(int64_t));
        memset(g->head[way], NONE, ranks * ranks * sizeof(int));
    }
    /* Where a rank lets in more than one behind it, what waits between them can be in the way of
     * what comes back: of bytes all have room for as many micro-batches. */
    int64_t micro_batches = INT64_MAX;
    for (int r = 0; r < v->ranks; r++)
        micro_batches = least(micro_batches, share(pp_room(g->p, r), room) / pp_unit(g->p, r));
    for (int r = 0; r < v->ranks; r++) {
        const bool whole = g->p->bytes && g->reserve;
        const int64_t some =
            whole ? micro_batches * pp_unit(g->p, r) : share(pp_room(g->p, r), room);
        g->ranks[r].room = some;
        g->ranks[r].late = some / 16 * late + some % 16 * late / 16;
        while (v->rank_of[g->ranks[r].first] != r)
            g->ranks[r].first++;
    }
    return true;
}

/* Rank after rank. */
static weft_status gather(const greedy *g, pp_lists *out)
{
    weft_status s = WEFT_OK;
    for (int r = 0; r < g->p->view.ranks; r++)
        for (size_t i = 0; i < g->lists[r].n && !s; i++)
            s = pp_lists_add(out, g->lists[r].items[i], g->err);
    return s;
}

weft_status pp_greedy(const pp_pipeline *p, int room, int late, bool reserved, pp_lists *out,
                      weft_error *err)
{
    greedy g = {.p = p, .reserve = reserved, .micro = (int)p->view.micro_batches, .err = err};
    int64_t left = (int64_t)PP_KINDS * p->view.stages * g.micro;
    weft_status s = reserve(&g, room, late) ? run(&g, &left) : weft_fail_memory(err);
    if (!s && left == 0)
        s = gather(&g, out);
    for (int r = 0; g.lists && r < p->view.ranks; r++)
        pp_lists_release(&g.lists[r]);
    weft_pool_release(&g.pool);
    return s;
}
