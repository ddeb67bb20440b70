/* SPDX-License-Identifier: Apache-2.0 */
/* The schedules that have a name. */
#include "pp.h"

#include <string.h>

/* A schedule while it is made. */
typedef struct maker {
    const weft_pipeline_view *view;
    const pp_schedule *schedule;
    pp_lists *lists;
    weft_error *err;
    weft_pool pool;
    int turns;      /* stages a rank */
    int *stage_at;  /* [rank * turns + turn], ascending */
    int64_t *count; /* [4 * turns] for who counts what a rank has done */
    weft_status status;
} maker;

/* Of micro-batches that are not there, nothing. */
static void add(maker *m, int rank, weft_part part, int turn, int64_t micro)
{
    const char back = pp_schedule_splits(m->schedule) ? 'I' : 'B';
    const pp_item item = {.rank = rank,
                          .stage = m->stage_at[rank * m->turns + turn],
                          .micro = micro,
                          .letter = part == WEFT_PART_F   ? 'F'
                                    : part == WEFT_PART_W ? 'W'
                                                          : back};
    if (!m->status && micro < m->view->micro_batches)
        m->status = pp_lists_add(m->lists, item, m->err);
}

/* ---- gpipe, 1f1b, interleaved ---- */

/* Micro-batches go in groups, each through all the rank's stages before the next: as many as there
 * are ranks, so that the first of a group comes round when the last has left, and nobody need keep
 * what the next rank has no time for. If the last group is not whole its tasks are those of a whole
 * one, less those of the micro-batches that are not there: what had an order before has it still.
 */
static int64_t whole_groups(const maker *m)
{
    const int ranks = m->view->ranks;
    return (m->view->micro_batches + ranks - 1) / ranks * ranks;
}

/* Number i of a rank's forwards, or of its backwards. */
static void add_grouped(maker *m, int rank, weft_part part, int64_t i)
{
    const int ranks = m->view->ranks, turn = (int)(i / ranks % m->turns);
    const int64_t micro = i / ((int64_t)ranks * m->turns) * ranks + i % ranks;
    add(m, rank, part, part == WEFT_PART_B ? m->turns - 1 - turn : turn, micro);
}

/* ahead: how many forwards a rank is ahead of its backwards. */
static void fill_grouped(maker *m, int rank, int64_t ahead)
{
    const int64_t n = m->turns * whole_groups(m);
    ahead = ahead < n ? ahead : n;
    for (int64_t i = 0; i < ahead; i++)
        add_grouped(m, rank, WEFT_PART_F, i);
    for (int64_t i = 0; i < n; i++) {
        if (i + ahead < n)
            add_grouped(m, rank, WEFT_PART_F, i + ahead);
        add_grouped(m, rank, WEFT_PART_B, i);
    }
}

static void fill_gpipe(maker *m, int rank)
{
    fill_grouped(m, rank, m->turns * whole_groups(m));
}

/* With several stages a rank a group must have been through all but the last of them before a
 * backward can begin. */
static void fill_1f1b(maker *m, int rank)
{
    const int64_t behind = m->view->ranks - 1 - rank;
    fill_grouped(m, rank,
                 m->turns == 1 ? behind : (m->turns - 1) * (int64_t)m->view->ranks + 2 * behind);
}

/* ---- breadth first: all micro-batches through a stage before the next ---- */

static void fill_bfs(maker *m, int rank)
{
    for (int turn = 0; turn < m->turns; turn++)
        for (int64_t i = 0; i < m->view->micro_batches; i++)
            add(m, rank, WEFT_PART_F, turn, i);
    for (int turn = m->turns - 1; turn >= 0; turn--)
        for (int64_t i = 0; i < m->view->micro_batches; i++)
            add(m, rank, WEFT_PART_B, turn, i);
}

/* ---- zb_h1, interleaved_zb: weights' gradients fill what 1f1b waits ---- */

/* As many as can be cut into rounds of equal length, one for each time that the ranks have a
 * micro-batch each; those that are too many are left out of the lists. */
static int64_t whole_rounds(const maker *m, int64_t *each)
{
    const int64_t n = m->view->micro_batches, ranks = m->view->ranks;
    const int64_t rounds = n > ranks ? n / ranks : 1;
    *each = n % rounds ? ranks : n / rounds;
    return n % rounds ? (n + ranks - 1) / ranks * ranks : n;
}

/* Number i of a rank's forwards, backwards or weights. */
static void add_round(maker *m, int rank, weft_part part, int64_t i, int64_t each)
{
    const int turn = (int)(i / each % m->turns);
    const int of = part == WEFT_PART_F ? turn : m->turns - 1 - turn;
    add(m, rank, part, of, m->count[(part - WEFT_PART_F) * m->turns + of]++);
}

/* A rank's W come as many tasks behind its B as ranks are before it. */
static void fill_zero_bubble(maker *m, int rank)
{
    int64_t each, n = m->turns * whole_rounds(m, &each), weights = 0;
    int64_t ahead = (m->turns - 1) * each + m->view->ranks - 1 - rank;
    ahead = ahead < n ? ahead : n;
    for (int64_t i = 0; i < ahead; i++)
        add_round(m, rank, WEFT_PART_F, i, each);
    for (int64_t i = 0; i < n; i++) {
        if (i + ahead < n)
            add_round(m, rank, WEFT_PART_F, i + ahead, each);
        add_round(m, rank, WEFT_PART_B, i, each);
        if (i >= rank)
            add_round(m, rank, WEFT_PART_W, weights++, each);
    }
    while (weights < n)
        add_round(m, rank, WEFT_PART_W, weights++, each);
}

/* ---- zb_h2: twice as many forwards ahead, so that only the step's end is waited for ---- */

static void fill_zb_h2(maker *m, int rank)
{
    const int64_t n = m->view->micro_batches, ahead = 2 * (m->view->ranks - 1 - rank) + 1;
    int64_t forward = ahead < n ? ahead : n, weights = 0;
    for (int64_t i = 0; i < forward; i++)
        add(m, rank, WEFT_PART_F, 0, i);
    for (int64_t i = 0; i < n; i++) {
        add(m, rank, WEFT_PART_B, 0, i);
        if (forward < n)
            add(m, rank, WEFT_PART_F, 0, forward++);
        if (i + 1 - weights > rank)
            add(m, rank, WEFT_PART_W, 0, weights++);
    }
    while (weights < n)
        add(m, rank, WEFT_PART_W, 0, weights++);
}

/* ---- a V: the first stages go up the ranks, the others down again ---- */

enum { UP, DOWN };

/* The next of a rank's tasks of a kind in one of its two stages. */
static void add_next(maker *m, int rank, weft_part part, int turn)
{
    add(m, rank, part, turn, m->count[(part - WEFT_PART_F) * m->turns + turn]++);
}

static void add_next_whole(maker *m, int rank, int turn)
{
    add_next(m, rank, WEFT_PART_B, turn);
    add_next(m, rank, WEFT_PART_W, turn);
}

static int64_t done(const maker *m, weft_part part, int turn)
{
    return m->count[(part - WEFT_PART_F) * m->turns + turn];
}

/* All that is ahead before the first backward; then all are in step, a backward of each stage
 * behind a forward of the other; what is left of W comes last. */
static void fill_zbv(maker *m, int rank)
{
    const int ranks = m->view->ranks;
    int64_t n = m->view->micro_batches;
    n = n < 2 * ranks - 1 ? 2 * ranks - 1 : n;
    for (int i = 0; i < 2 * (ranks - rank) - 1; i++)
        add_next(m, rank, WEFT_PART_F, UP);
    for (int i = 0; i < rank; i++) {
        add_next(m, rank, WEFT_PART_F, DOWN);
        add_next(m, rank, WEFT_PART_F, UP);
    }
    for (int i = 0; i < ranks - rank; i++) {
        add_next(m, rank, WEFT_PART_F, DOWN);
        add_next_whole(m, rank, DOWN);
    }
    while (done(m, WEFT_PART_F, DOWN) < done(m, WEFT_PART_F, UP) || done(m, WEFT_PART_F, UP) < n) {
        if (done(m, WEFT_PART_F, UP) < n)
            add_next(m, rank, WEFT_PART_F, UP);
        add_next_whole(m, rank, UP);
        add_next(m, rank, WEFT_PART_F, DOWN);
        add_next_whole(m, rank, DOWN);
    }
    for (int i = 0; i < rank; i++) {
        add_next(m, rank, WEFT_PART_B, UP);
        add_next(m, rank, WEFT_PART_B, DOWN);
    }
    for (int i = 0; i < ranks - rank; i++) {
        add_next(m, rank, WEFT_PART_B, UP);
        add_next(m, rank, WEFT_PART_W, UP);
    }
    for (int turn = DOWN; turn >= UP; turn--)
        while (done(m, WEFT_PART_W, turn) < done(m, WEFT_PART_B, turn))
            add_next(m, rank, WEFT_PART_W, turn);
}

/* Which stage's W are put off, in order. */
typedef struct put_off {
    int *turn;
    int64_t first, n;
} put_off;

static void add_put_off(maker *m, int rank, put_off *q)
{
    if (q->first < q->n)
        add_next(m, rank, WEFT_PART_W, q->turn[q->first++]);
}

/* A backward whose W comes later. */
static void add_half(maker *m, int rank, int turn, put_off *q)
{
    add_next(m, rank, WEFT_PART_B, turn);
    q->turn[q->n++] = turn;
}

static void add_pair(maker *m, int rank, int forward, int backward)
{
    add_next(m, rank, WEFT_PART_F, forward);
    add_next_whole(m, rank, backward);
}

static void add_either(maker *m, int rank, int turn, bool half, put_off *q)
{
    if (half)
        add_half(m, rank, turn, q);
    else
        add_next_whole(m, rank, turn);
}

/* A forward of one stage beside a backward of the other; halves where a rank would wait. */
static void fill_dualpipev(maker *m, int rank)
{
    const int ranks = m->view->ranks, above = ranks - 1 - rank;
    int64_t n = m->view->micro_batches;
    n = n < 2 * ranks ? 2 * ranks : n;
    put_off q = {.turn = weft_pool_alloc(&m->pool, 2 * (size_t)n * sizeof *q.turn)};
    if (!q.turn) {
        m->status = weft_fail_memory(m->err);
        return;
    }
    for (int i = 0; i < 2 * above; i++)
        add_next(m, rank, WEFT_PART_F, UP);
    for (int i = 0; i <= rank; i++) {
        add_next(m, rank, WEFT_PART_F, UP);
        add_next(m, rank, WEFT_PART_F, DOWN);
    }
    for (int i = 0; i < above; i++) {
        add_half(m, rank, DOWN, &q);
        add_put_off(m, rank, &q);
        add_next(m, rank, WEFT_PART_F, DOWN);
    }
    for (int64_t i = 0; i < n - 2 * ranks + rank + 1; i++) {
        add_pair(m, rank, UP, DOWN);
        add_pair(m, rank, DOWN, UP);
    }
    for (int i = 0; i < above; i++) {
        add_next_whole(m, rank, DOWN);
        add_pair(m, rank, DOWN, UP);
    }
    bool half = false;
    for (int i = 0; i <= rank; i++) {
        half = half || (i == (rank + 1) / 2 && rank % 2);
        add_either(m, rank, DOWN, half, &q);
        half = half || (i == (rank + 1) / 2 && rank % 2 == 0);
        add_either(m, rank, UP, half, &q);
    }
    for (int i = 0; i < above; i++) {
        add_put_off(m, rank, &q);
        add_either(m, rank, UP, half, &q);
    }
    for (int i = 0; i <= rank; i++)
        add_put_off(m, rank, &q);
}

/* ---- all of them ---- */

enum { ANY_TURNS = 0 };

struct pp_schedule {
    const char *name, *torch; /* PyTorch's class without "Schedule"; NULL: it has none */
    int turns;                /* stages a rank */
    bool loop, v;             /* what its order is made for; neither: any placement */
    bool splits;              /* weights have tasks of their own */
    void (*fill)(maker *m, int rank);
};

static const pp_schedule schedules[] = {
    {"gpipe", "GPipe", ANY_TURNS, false, false, false, fill_gpipe},
    {"1f1b", "1F1B", ANY_TURNS, true, false, false, fill_1f1b},
    {"interleaved", "Interleaved1F1B", ANY_TURNS, true, false, false, fill_1f1b},
    {"bfs", "LoopedBFS", ANY_TURNS, false, false, false, fill_bfs},
    {"zb_h1", NULL, 1, false, false, true, fill_zero_bubble},
    {"zb_h2", NULL, 1, false, false, true, fill_zb_h2},
    {"interleaved_zb", "InterleavedZeroBubble", ANY_TURNS, true, false, true, fill_zero_bubble},
    {"zbv", "ZBVZeroBubble", 2, false, true, true, fill_zbv},
    {"dualpipev", "DualPipeV", 2, false, true, true, fill_dualpipev},
};

enum { SCHEDULES = sizeof schedules / sizeof schedules[0] };

static char lower_of(char c)
{
    return (char)(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
}

/* In any case. */
static bool is_same(const char *a, const char *b)
{
    while (*a && lower_of(*a) == lower_of(*b)) {
        a++;
        b++;
    }
    return *a == *b;
}

const pp_schedule *pp_find_schedule(const char *name)
{
    static const char prefix[] = "schedule";
    bool has_prefix = true;
    for (size_t i = 0; i < sizeof prefix - 1 && has_prefix; i++)
        has_prefix = lower_of(name[i]) == prefix[i];
    const char *torch = has_prefix ? name + sizeof prefix - 1 : name;
    for (int i = 0; i < SCHEDULES; i++)
        if (strcmp(schedules[i].name, name) == 0 ||
            (schedules[i].torch && is_same(torch, schedules[i].torch)))
            return &schedules[i];
    return NULL;
}

const char *pp_schedule_name(int i)
{
    return i < SCHEDULES ? schedules[i].name : NULL;
}

int pp_schedule_turns(const pp_schedule *schedule)
{
    return schedule->turns;
}

bool pp_schedule_is_loop(const pp_schedule *schedule)
{
    return schedule->loop;
}

bool pp_schedule_is_v(const pp_schedule *schedule)
{
    return schedule->v;
}

bool pp_schedule_splits(const pp_schedule *schedule)
{
    return schedule->splits;
}

/* Every rank needs as many stages. */
static weft_status begin(maker *m)
{
    const weft_pipeline_view *view = m->view;
    const size_t turns = (size_t)m->turns, ranks = (size_t)view->ranks;
    m->stage_at = weft_pool_alloc(&m->pool, ranks * turns * sizeof *m->stage_at);
    m->count = weft_pool_alloc(&m->pool, 4 * turns * sizeof *m->count);
    int *n = weft_pool_alloc(&m->pool, ranks * sizeof *n);
    if (!m->stage_at || !m->count || !n)
        return weft_fail_memory(m->err);
    for (int s = 0; s < view->stages; s++) {
        const int rank = view->rank_of[s];
        if (n[rank] == m->turns)
            return weft_fail(m->err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                             "rank %d has more than %d of the %d stages; of a schedule with a name "
                             "every rank has as many",
                             rank, m->turns, view->stages);
        m->stage_at[rank * m->turns + n[rank]++] = s;
    }
    return WEFT_OK;
}

weft_status pp_fill_lists(const pp_schedule *schedule, const weft_pipeline_view *view,
                          pp_lists *lists, weft_error *err)
{
    if (view->stages % view->ranks ||
        (schedule->turns && view->stages != schedule->turns * view->ranks))
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "schedule %s cannot have %d stages on %d ranks; it needs %s%d",
                         schedule->name, view->stages, view->ranks,
                         schedule->turns ? "" : "a multiple of ",
                         (schedule->turns ? schedule->turns : 1) * view->ranks);
    maker m = {.view = view,
               .schedule = schedule,
               .lists = lists,
               .err = err,
               .turns = view->stages / view->ranks};
    m.status = begin(&m);
    for (int r = 0; r < view->ranks && !m.status; r++) {
        memset(m.count, 0, 4 * (size_t)m.turns * sizeof *m.count);
        schedule->fill(&m, r);
    }
    weft_pool_release(&m.pool);
    return m.status;
}

weft_status pp_fill(const pp_schedule *schedule, const weft_pipeline_view *view, weft_tasks *tasks,
                    weft_error *err)
{
    pp_lists lists = {0};
    weft_status s = pp_fill_lists(schedule, view, &lists, err);
    s = s ? s : pp_lists_fill(&lists, tasks, err);
    pp_lists_release(&lists);
    return s;
}
