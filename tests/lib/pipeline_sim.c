/* SPDX-License-Identifier: Apache-2.0 */
#include "pipeline_sim.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <weft/random.h>
/* last: it needs the headers above */
#include <cmocka.h>

/* A channel's posts, in order: which (stage, micro-batch) each end speaks of. */
typedef struct channel {
    int64_t *sent, *wanted;
    int n_sent, n_wanted;
} channel;

typedef struct machine {
    const weft_tasks *t;
    int64_t sending;
    channel *channels; /* [kind][sender][receiver] */
    int *at;           /* by rank: the next task */
    bool *prologue;    /* by rank: that of the next task has run */
    char *begun;       /* by rank: how far its step is: 0, 1 BEGIN, 2 STEP_END, 3 UPDATE */
    char *done[3];     /* forward, backward, weights: by stage and micro-batch */
    bool *split;       /* by stage: some list has weights of it */
    int *sends[2];     /* by stage: how many results it has sent */
    bool broken;
} machine;

static int64_t tag(const machine *m, int stage, int64_t micro)
{
    return stage * m->t->micro_batches + micro;
}

static const weft_task *task_of(const machine *m, int rank, int i)
{
    return i < m->t->of[rank].n ? &m->t->of[rank].list[i] : NULL;
}

static bool is_micro(const weft_task *k)
{
    return k->part == WEFT_PART_F || k->part == WEFT_PART_B || k->part == WEFT_PART_W;
}

static int way_of(const weft_task *k)
{
    return k->part == WEFT_PART_F ? 0 : k->part == WEFT_PART_B ? 1 : 2;
}

static bool moves_data(const machine *m, const weft_task *k)
{
    return k && is_micro(k) && k->stage >= 0 && k->stage < m->t->stages && k->micro_batch >= 0 &&
           k->micro_batch < m->t->micro_batches;
}

/* The stage that a task reads from; -1: none but its own. */
static int source_of(const machine *m, const weft_task *k)
{
    int stage = k->part == WEFT_PART_F ? k->stage - 1 : k->stage + 1;
    return k->part == WEFT_PART_W || stage < 0 || stage >= m->t->stages ? -1 : stage;
}

static int drain_of(const machine *m, const weft_task *k)
{
    int stage = k->part == WEFT_PART_F ? k->stage + 1 : k->stage - 1;
    if (k->part == WEFT_PART_W)
        return -1;
    return stage < 0 || stage >= m->t->stages ? -1 : stage;
}

static channel *between(const machine *m, const weft_task *k, int sender, int receiver)
{
    return &m->channels[(way_of(k) * m->t->ranks + sender) * m->t->ranks + receiver];
}

/* How many transfers of a channel are over; what does not fit breaks the machine. */
static int over(machine *m, const channel *c)
{
    int n = c->n_sent < c->n_wanted ? c->n_sent : c->n_wanted;
    for (int i = 0; i < n; i++)
        m->broken = m->broken || c->sent[i] != c->wanted[i];
    return n;
}

static void post_receive(machine *m, int rank, const weft_task *k)
{
    if (!moves_data(m, k))
        return;
    int stage = source_of(m, k);
    if (stage < 0 || m->t->rank_of[stage] == rank)
        return;
    channel *c = between(m, k, m->t->rank_of[stage], rank);
    c->wanted[c->n_wanted++] = tag(m, stage, k->micro_batch);
}

static int find(const int64_t *list, int n, int64_t what)
{
    for (int i = 0; i < n; i++)
        if (list[i] == what)
            return i;
    return -1;
}

/* Is the operand there? One that nobody has sent, or that this rank should have made before, is
 * waited for in vain. */
static bool has_operand(machine *m, int rank, const weft_task *k)
{
    int stage = source_of(m, k), way = way_of(k);
    if (way && !m->done[way - 1][tag(m, k->stage, k->micro_batch)])
        return false;
    if (stage < 0)
        return true;
    if (m->t->rank_of[stage] == rank)
        return m->done[way][tag(m, stage, k->micro_batch)];
    const channel *c = between(m, k, m->t->rank_of[stage], rank);
    int i = find(c->wanted, c->n_wanted, tag(m, stage, k->micro_batch));
    return i >= 0 && i < over(m, c);
}

static bool has_slot(machine *m, int rank, const weft_task *k)
{
    int stage = drain_of(m, k);
    if (stage < 0 || m->t->rank_of[stage] == rank || m->sending == 0)
        return true;
    /* all but the last few of this stage's results must have left */
    const channel *c = between(m, k, rank, m->t->rank_of[stage]);
    int way = way_of(k);
    int64_t must = m->sends[way][k->stage] - m->sending + 1, seen = 0;
    int n = over(m, c);
    for (int i = 0; i < n; i++)
        seen += c->sent[i] / m->t->micro_batches == k->stage;
    return seen >= must;
}

static bool run_micro(machine *m, int rank, const weft_task *k)
{
    int way = way_of(k);
    if (!moves_data(m, k) || m->t->rank_of[k->stage] != rank || m->begun[rank] != 1 ||
        (way && !m->t->backward)) {
        m->broken = true;
        return false;
    }
    if (!has_operand(m, rank, k) || !has_slot(m, rank, k))
        return false;
    char *done = &m->done[way][tag(m, k->stage, k->micro_batch)];
    m->broken = m->broken || *done;
    *done = 1;
    int stage = drain_of(m, k);
    if (stage >= 0 && m->t->rank_of[stage] != rank) {
        channel *c = between(m, k, rank, m->t->rank_of[stage]);
        c->sent[c->n_sent++] = tag(m, k->stage, k->micro_batch);
        m->sends[way][k->stage]++;
    }
    return true;
}

static bool run_other(machine *m, int rank, const weft_task *k)
{
    char before = k->part == WEFT_PART_BEGIN ? 0 : k->part == WEFT_PART_STEP_END ? 1 : 2;
    m->broken =
        m->broken || m->begun[rank] != before || (k->part == WEFT_PART_UPDATE && !m->t->backward);
    m->begun[rank] = (char)(before + 1);
    return true;
}

/* One task, if it can run; before it begins the next one's receive is posted. */
static bool advance(machine *m, int rank)
{
    const weft_task *k = task_of(m, rank, m->at[rank]);
    if (!k)
        return false;
    if (!m->prologue[rank]) {
        if (m->at[rank] == 0)
            post_receive(m, rank, k);
        post_receive(m, rank, task_of(m, rank, m->at[rank] + 1));
        m->prologue[rank] = true;
        return true;
    }
    if (!(is_micro(k) ? run_micro(m, rank, k) : run_other(m, rank, k)))
        return false;
    m->at[rank]++;
    m->prologue[rank] = false;
    return true;
}

static bool all_done(const machine *m)
{
    bool ok = !m->broken;
    for (int r = 0; r < m->t->ranks; r++)
        ok = ok && m->at[r] == m->t->of[r].n && m->begun[r] == (m->t->backward ? 3 : 2);
    for (int64_t i = 0; i < m->t->stages * m->t->micro_batches; i++)
        ok = ok && m->done[0][i] && (m->done[1][i] || !m->t->backward) &&
             (m->done[2][i] || !m->split[i / m->t->micro_batches]);
    return ok;
}

static void *take(size_t n, size_t bytes)
{
    void *p = weft_alloc_zero(n + 1, bytes);
    assert_non_null(p);
    return p;
}

bool pipeline_finishes(const weft_tasks *t, int64_t sending, uint64_t seed)
{
    size_t ranks = (size_t)t->ranks, stages = (size_t)t->stages, n = 0;
    size_t places = stages * (size_t)t->micro_batches;
    for (int r = 0; r < t->ranks; r++)
        n += (size_t)t->of[r].n;
    machine m = {.t = t, .sending = sending};
    m.channels = take(2 * ranks * ranks, sizeof *m.channels);
    m.at = take(ranks, sizeof *m.at);
    m.prologue = take(ranks, sizeof *m.prologue);
    m.begun = take(ranks, 1);
    m.split = take(stages, 1);
    for (int r = 0; r < t->ranks; r++)
        for (int i = 0; i < t->of[r].n; i++) {
            const weft_task *k = &t->of[r].list[i];
            if (k->part == WEFT_PART_W && k->stage >= 0 && k->stage < t->stages)
                m.split[k->stage] = true;
        }
    for (int i = 0; i < 3; i++)
        m.done[i] = take(places, 1);
    for (int i = 0; i < 2; i++)
        m.sends[i] = take(stages, sizeof(int));
    for (size_t i = 0; i < 2 * ranks * ranks; i++) {
        m.channels[i].sent = take(n, sizeof(int64_t));
        m.channels[i].wanted = take(n, sizeof(int64_t));
    }
    int stuck = 0;
    for (uint64_t roll = 0; stuck < t->ranks && !m.broken; roll++) {
        int first = (int)(weft_random_bits(seed, 9, roll) % ranks);
        for (stuck = 0; stuck < t->ranks && !m.broken; stuck++)
            if (advance(&m, (first + stuck) % t->ranks))
                break;
    }
    bool ok = all_done(&m);
    for (size_t i = 0; i < 2 * ranks * ranks; i++) {
        ok = ok && m.channels[i].n_sent == m.channels[i].n_wanted;
        weft_free(m.channels[i].sent);
        weft_free(m.channels[i].wanted);
    }
    weft_free(m.channels);
    weft_free(m.at);
    weft_free(m.prologue);
    weft_free(m.begun);
    weft_free(m.split);
    for (int i = 0; i < 3; i++)
        weft_free(m.done[i]);
    for (int i = 0; i < 2; i++)
        weft_free(m.sends[i]);
    return ok;
}

double pipeline_bubble(const weft_tasks *t)
{
    machine m = {.t = t};
    size_t places = (size_t)(t->stages * t->micro_batches);
    double *end[2] = {take(places, sizeof(double)), take(places, sizeof(double))};
    double *clock = take((size_t)t->ranks, sizeof(double)), *first = take((size_t)t->ranks, 8),
           *busy = take((size_t)t->ranks, 8), most = 0, part = (double)t->ranks / t->stages;
    int *at = take((size_t)t->ranks, sizeof *at);
    for (bool moved = true; moved;) {
        moved = false;
        for (int r = 0; r < t->ranks; r++) {
            const weft_task *k = task_of(&m, r, at[r]);
            if (!k)
                continue;
            double start = clock[r];
            if (moves_data(&m, k)) {
                int way = k->part == WEFT_PART_B, stage = source_of(&m, k);
                double needs = stage >= 0 ? end[way][tag(&m, stage, k->micro_batch)]
                               : way      ? end[0][tag(&m, k->stage, k->micro_batch)]
                                          : 1e-9;
                if (needs == 0)
                    continue;
                start = needs > start && needs > 1e-9 ? needs : start;
                double takes = part * (way ? 2 : 1);
                first[r] = busy[r] == 0 ? start : first[r];
                busy[r] += takes;
                end[way][tag(&m, k->stage, k->micro_batch)] = clock[r] = start + takes;
            }
            at[r]++;
            moved = true;
        }
    }
    for (int r = 0; r < t->ranks; r++) {
        assert_int_equal(at[r], t->of[r].n);
        double idle = clock[r] - first[r] - busy[r];
        most = idle > most ? idle : most;
    }
    weft_free(end[0]);
    weft_free(end[1]);
    weft_free(clock);
    weft_free(first);
    weft_free(busy);
    weft_free(at);
    return most;
}
