/* SPDX-License-Identifier: Apache-2.0 */
/* Runs lists of tasks with times instead of work. */
#include "forecast/timeline.h"

#include <math.h>

enum { NONE = -1 };

/* Transfers from one rank to another, of one kind; both ends begin them in the same order. */
typedef struct channel {
    double *sent, *wanted, *takes, *done; /* begun by who sends, by who receives; seconds; over */
    int n_sent, n_wanted, n_done, capacity;
} channel;

typedef struct machine {
    const weft_tasks *t;
    const weft_costs *costs;
    int64_t sending;
    weft_timeline *out;
    channel *channels; /* [2 * ranks * ranks]: activations, gradients; by who sends, who receives */
    int *at;           /* by rank: its next task */
    bool *arrived;     /* by rank: it has come to that task, and the next one's receive is begun */
    int *arrival[2];   /* by rank: the transfer that its next task, and the one behind it, needs */
    double *clock;     /* by rank */
    int *sends[2];     /* F, B; by stage and number of its result: its transfer */
    int *n_sends[2];   /* by stage */
    int ended;         /* ranks that are through STEP_END; when the last was: */
    double end;
} machine;

static int way_of(const weft_task *k)
{
    return k->part == WEFT_PART_B;
}

/* The stage before this one on its way, and the one behind it; NONE. */
static int neighbour(const machine *m, const weft_task *k, bool behind)
{
    int stage = k->stage + ((k->part == WEFT_PART_F) == behind ? 1 : -1);
    return weft_part_is_micro(k->part) && k->part != WEFT_PART_W && stage >= 0 &&
                   stage < m->t->stages
               ? stage
               : NONE;
}

static bool is_elsewhere(const machine *m, const weft_task *k, int stage)
{
    return stage != NONE && m->t->rank_of[stage] != m->t->rank_of[k->stage];
}

/* The one that a task's operand comes by, or its result leaves by. */
static channel *channel_of(const machine *m, const weft_task *k, bool leaves)
{
    const int mine = m->t->rank_of[k->stage], other = m->t->rank_of[neighbour(m, k, leaves)],
              ranks = m->t->ranks;
    return &m->channels[(way_of(k) * ranks + (leaves ? mine : other)) * ranks +
                        (leaves ? other : mine)];
}

/* What both ends have begun is done one after the other. */
static void settle(channel *c)
{
    while (c->n_done < c->n_sent && c->n_done < c->n_wanted) {
        int i = c->n_done++;
        double start = fmax(c->sent[i], c->wanted[i]);
        c->done[i] = fmax(start, i ? c->done[i - 1] : 0) + c->takes[i];
    }
}

/* Begins the receive of a task, if it has one. */
static int post(const machine *m, const weft_task *k, double now)
{
    int stage = neighbour(m, k, false);
    if (!is_elsewhere(m, k, stage))
        return NONE;
    channel *c = channel_of(m, k, false);
    if (c->n_wanted == c->capacity)
        return c->capacity; /* never comes */
    c->wanted[c->n_wanted++] = now;
    settle(c);
    return c->n_wanted - 1;
}

static void come_to_task(const machine *m, int rank)
{
    const weft_task_list *l = &m->t->of[rank];
    int i = m->at[rank];
    m->arrival[0][rank] = i ? m->arrival[1][rank] : post(m, &l->list[0], m->clock[rank]);
    m->arrival[1][rank] = i + 1 < l->n ? post(m, &l->list[i + 1], m->clock[rank]) : NONE;
    m->arrived[rank] = true;
}

/* A transfer must be over before a task begins; false: nobody knows yet when it is. */
static bool after(const channel *c, int transfer, double *start)
{
    if (transfer >= c->n_done)
        return false;
    *start = fmax(*start, c->done[transfer]);
    return true;
}

/* When a task can begin; false: that is not known yet. */
static bool find_start(const machine *m, int rank, const weft_task *k, double *start)
{
    *start = m->clock[rank];
    if (k->part == WEFT_PART_UPDATE) {
        *start = fmax(*start, m->end);
        return m->ended == m->t->ranks;
    }
    if (m->arrival[0][rank] != NONE && !after(channel_of(m, k, false), m->arrival[0][rank], start))
        return false;
    if (m->sending <= 0 || !is_elsewhere(m, k, neighbour(m, k, true)))
        return true;
    int n = m->n_sends[way_of(k)][k->stage];
    const int *sends = m->sends[way_of(k)] + k->stage * m->t->micro_batches;
    return n < m->sending || after(channel_of(m, k, true), sends[n - m->sending], start);
}

static double seconds_of(const machine *m, int rank, const weft_task *k)
{
    const weft_costs *costs = m->costs;
    if (costs->of && costs->of[rank])
        return costs->of[rank][m->at[rank]];
    return costs->seconds[k->part][weft_part_is_micro(k->part) ? k->stage : rank];
}

static bool send(const machine *m, const weft_task *k, double now)
{
    if (!is_elsewhere(m, k, neighbour(m, k, true)))
        return true;
    channel *c = channel_of(m, k, true);
    int *n = &m->n_sends[way_of(k)][k->stage];
    if (c->n_sent == c->capacity || *n == m->t->micro_batches)
        return false;
    double bytes = m->costs->bytes[way_of(k)][k->stage], rate = m->costs->bytes_per_s;
    m->sends[way_of(k)][k->stage * m->t->micro_batches + (*n)++] = c->n_sent;
    c->takes[c->n_sent] = m->costs->latency_s + (rate > 0 ? bytes / rate : 0);
    c->sent[c->n_sent++] = now;
    settle(c);
    return true;
}

/* One thing more on this rank, if something can happen there. */
static bool advance(machine *m, int rank)
{
    const weft_task_list *l = &m->t->of[rank];
    int i = m->at[rank];
    double start;
    if (i == l->n)
        return false;
    if (!m->arrived[rank]) {
        come_to_task(m, rank);
        return true;
    }
    const weft_task *k = &l->list[i];
    if (!find_start(m, rank, k, &start))
        return false;
    double end = start + seconds_of(m, rank, k);
    if (!send(m, k, end))
        return false;
    m->out->of[rank][i] = (weft_task_time){start, end};
    m->clock[rank] = end;
    m->at[rank]++;
    m->arrived[rank] = false;
    if (k->part == WEFT_PART_STEP_END) {
        m->ended++;
        m->end = fmax(m->end, end);
    }
    return true;
}

static weft_status run(machine *m, weft_error *err)
{
    for (bool moved = true; moved;) {
        moved = false;
        for (int r = 0; r < m->t->ranks; r++)
            while (advance(m, r))
                moved = true;
    }
    for (int r = 0; r < m->t->ranks; r++)
        if (m->at[r] < m->t->of[r].n)
            return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                             "a schedule that is not proved has no times: rank %d stops before "
                             "task %d",
                             r, m->at[r]);
    return WEFT_OK;
}

/* ---- what it says ---- */

void weft_timeline_sum_up(weft_timeline *out)
{
    const weft_tasks *t = out->tasks;
    double first = INFINITY, last = 0, busy = 0;
    for (int r = 0; r < t->ranks; r++) {
        double mine = 0, from = INFINITY, to = 0;
        int64_t alive = 0, held = 0;
        for (int i = 0; i < t->of[r].n; i++) {
            const weft_task *k = &t->of[r].list[i];
            const weft_task_time *at = &out->of[r][i];
            out->step_s = fmax(out->step_s, at->end);
            if (!weft_part_is_micro(k->part))
                continue;
            mine += at->end - at->start;
            from = fmin(from, at->start);
            to = fmax(to, at->end);
            alive += (k->part == WEFT_PART_F) - (k->part == WEFT_PART_B);
            held += k->part == WEFT_PART_B && t->split[k->stage];
            held -= k->part == WEFT_PART_W;
            out->alive[r] = alive > out->alive[r] ? alive : out->alive[r];
            out->held[r] = held > out->held[r] ? held : out->held[r];
        }
        out->idle_s[r] = from < to ? to - from - mine : 0;
        out->idle_most_s = fmax(out->idle_most_s, out->idle_s[r]);
        busy += mine;
        first = fmin(first, from);
        last = fmax(last, to);
    }
    out->end = out->step_s > 0 ? (out->step_s - last) / out->step_s : 0;
    out->bubble = last > first ? fmax(0, 1 - busy / ((last - first) * t->ranks)) : 0;
}

/* ---- memory ---- */

static void *take(weft_pool *pool, size_t n, size_t bytes, bool *ok)
{
    void *p = weft_pool_alloc(pool, (n + 1) * bytes);
    *ok = *ok && p;
    return p;
}

static bool reserve(machine *m, weft_pool *pool)
{
    const weft_tasks *t = m->t;
    size_t ranks = (size_t)t->ranks, stages = (size_t)t->stages, micro = (size_t)t->micro_batches;
    bool ok = true;
    int *most = take(pool, 2 * ranks * ranks, sizeof *most, &ok);
    m->channels = take(pool, 2 * ranks * ranks, sizeof *m->channels, &ok);
    m->at = take(pool, ranks, sizeof *m->at, &ok);
    m->arrived = take(pool, ranks, sizeof *m->arrived, &ok);
    m->clock = take(pool, ranks, sizeof *m->clock, &ok);
    for (int i = 0; i < 2; i++) {
        m->arrival[i] = take(pool, ranks, sizeof(int), &ok);
        m->sends[i] = take(pool, stages * micro, sizeof(int), &ok);
        m->n_sends[i] = take(pool, stages, sizeof(int), &ok);
    }
    for (int s = 0; ok && s + 1 < t->stages; s++) { /* each stage has one forward and one back */
        size_t here = (size_t)t->rank_of[s], next = (size_t)t->rank_of[s + 1];
        most[here * ranks + next] += (int)micro;
        most[(ranks + next) * ranks + here] += (int)micro;
    }
    for (size_t i = 0; ok && i < 2 * ranks * ranks; i++) {
        channel *c = &m->channels[i];
        const size_t capacity = (size_t)most[i];
        *c = (channel){.capacity = most[i]};
        if (!capacity)
            continue;
        c->sent = take(pool, capacity, sizeof(double), &ok);
        c->wanted = take(pool, capacity, sizeof(double), &ok);
        c->takes = take(pool, capacity, sizeof(double), &ok);
        c->done = take(pool, capacity, sizeof(double), &ok);
    }
    return ok;
}

static bool reserve_times(weft_timeline *out)
{
    const weft_tasks *t = out->tasks;
    size_t ranks = (size_t)t->ranks;
    out->of = weft_alloc_zero(ranks, sizeof *out->of);
    out->idle_s = weft_alloc_zero(ranks, sizeof *out->idle_s);
    out->alive = weft_alloc_zero(ranks, sizeof *out->alive);
    out->held = weft_alloc_zero(ranks, sizeof *out->held);
    bool ok = out->of && out->idle_s && out->alive && out->held;
    for (int r = 0; ok && r < t->ranks; r++) {
        out->of[r] = weft_alloc_zero((size_t)t->of[r].n + 1, sizeof **out->of);
        ok = out->of[r] != NULL;
    }
    return ok;
}

weft_status weft_timeline_reserve(const weft_tasks *t, weft_timeline **out, weft_error *err)
{
    weft_timeline *made = weft_alloc_zero(1, sizeof *made);
    if (made)
        made->tasks = t;
    *out = made && reserve_times(made) ? made : NULL;
    if (*out)
        return WEFT_OK;
    weft_timeline_destroy(made);
    return weft_fail_memory(err);
}

weft_status weft_timeline_create(const weft_tasks *t, const weft_costs *costs, int64_t sending,
                                 weft_timeline **out, weft_error *err)
{
    weft_pool pool = {0};
    machine m = {.t = t, .costs = costs, .sending = sending};
    weft_status s = weft_timeline_reserve(t, out, err);
    m.out = *out;
    if (!s && !reserve(&m, &pool))
        s = weft_fail_memory(err);
    s = s ? s : run(&m, err);
    weft_pool_release(&pool);
    if (!s) {
        weft_timeline_sum_up(*out);
        return WEFT_OK;
    }
    weft_timeline_destroy(*out);
    *out = NULL;
    return s;
}

void weft_timeline_destroy(weft_timeline *timeline)
{
    if (!timeline)
        return;
    for (int r = 0; timeline->of && r < timeline->tasks->ranks; r++)
        weft_free(timeline->of[r]);
    weft_free(timeline->of);
    weft_free(timeline->idle_s);
    weft_free(timeline->alive);
    weft_free(timeline->held);
    weft_free(timeline);
}
