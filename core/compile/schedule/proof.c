/* SPDX-License-Identifier: Apache-2.0 */
/* Proof that lists of tasks run to their end: each rank by itself, what goes from one to another,
 * and that no ranks wait for each other. Nothing is simulated. */
#include "compile/schedule/schedule.h"

enum { NONE = -1, FORWARD, BACKWARD, WEIGHTS, WAYS };

typedef struct verifier {
    const weft_tasks *t;
    int64_t sending; /* results of one stage and part that may be on their way; 0: any number */
    weft_error *err;
    weft_pool pool;   /* of all that follows, and what checks need besides */
    int *start;       /* by rank: number of its first task, all ranks' counted; [ranks]: of all */
    int *rank_of;     /* by task */
    int *place[WAYS]; /* by stage and micro-batch: its task */
    bool *split;      /* by stage: there is a W */
    int *transfer;    /* by task: the transfer that its result leaves by; NONE: it stays */
    int *arrival;     /* by task: the transfer that brings its operand; NONE: it is here */
    int n_transfers;
    int64_t span; /* of the step, if all halves of tasks took 1 and transfers nothing */
} verifier;

/* Of zeros; NULL: out of memory. */
static int *list_of(verifier *v, size_t n)
{
    return weft_pool_alloc(&v->pool, n * sizeof(int));
}

static const weft_task *task_at(const verifier *v, int task)
{
    int rank = v->rank_of[task];
    return &v->t->of[rank].list[task - v->start[rank]];
}

static int direction(const weft_task *task)
{
    return task->part == WEFT_PART_W ? WEIGHTS : task->part == WEFT_PART_B ? BACKWARD : FORWARD;
}

static int *place_of(const verifier *v, int way, int stage, int64_t micro)
{
    return &v->place[way][(int64_t)stage * v->t->micro_batches + micro];
}

/* "rank 1, task 5 (1F3)" */
static void name_task(const verifier *v, int task, weft_text *text)
{
    int rank = v->rank_of[task];
    weft_text_print(text, "rank %d, task %d (", rank, task - v->start[rank]);
    weft_task_print(v->t, task_at(v, task), text);
    weft_text_add(text, ")");
}

static weft_status wrong(const verifier *v, int task, const char *what, int other)
{
    weft_text text = {0};
    name_task(v, task, &text);
    weft_text_print(&text, " %s", what);
    if (other != NONE)
        name_task(v, other, &text);
    weft_status s = weft_fail(v->err, WEFT_ERR_INPUT, task_at(v, task)->at, "schedule: %s",
                              weft_text_get(&text));
    weft_text_release(&text);
    return s;
}

/* ---- each rank by itself ---- */

static weft_status check_frame(const verifier *v, int rank, int i)
{
    const weft_task_list *l = &v->t->of[rank];
    int ends = v->t->backward ? 2 : 1, task = v->start[rank] + i;
    weft_part want = i == 0             ? WEFT_PART_BEGIN
                     : i == l->n - ends ? WEFT_PART_STEP_END
                     : i > l->n - ends  ? WEFT_PART_UPDATE
                                        : WEFT_PART_F;
    if (want == WEFT_PART_F ? weft_part_is_micro(l->list[i].part) : l->list[i].part == want)
        return WEFT_OK;
    return wrong(v, task,
                 want == WEFT_PART_BEGIN ? "is first; that must be begin"
                 : want == WEFT_PART_F
                     ? "stands among forwards and backwards; begin is first, step_end and update "
                       "are last, once each"
                 : v->t->backward ? "stands at the end; the last two must be step_end and update"
                                  : "is last; that must be step_end",
                 NONE);
}

static weft_status enter(const verifier *v, int rank, int i)
{
    const weft_tasks *t = v->t;
    const weft_task *task = &t->of[rank].list[i];
    int number = v->start[rank] + i;
    if (task->stage < 0 || task->stage >= t->stages)
        return wrong(v, number, "is of a stage that the pipeline does not have", NONE);
    if (task->micro_batch < 0 || task->micro_batch >= t->micro_batches)
        return wrong(v, number, "is of a micro-batch that the step does not have", NONE);
    if (task->part != WEFT_PART_F && !t->backward)
        return wrong(v, number, "is a backward, and nothing is trained", NONE);
    if (t->rank_of[task->stage] != rank)
        return wrong(v, number, "is of another rank's stage", NONE);
    v->split[task->stage] = v->split[task->stage] || task->part == WEFT_PART_W;
    int *place = place_of(v, direction(task), task->stage, task->micro_batch);
    if (*place != NONE)
        return wrong(v, number, "is there twice: it is also ", *place);
    *place = number;
    return WEFT_OK;
}

static weft_status enter_all(const verifier *v)
{
    const weft_tasks *t = v->t;
    for (int r = 0; r < t->ranks; r++) {
        int frame = t->backward ? 3 : 2;
        if (t->of[r].n < frame)
            return weft_fail(v->err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                             "schedule: rank %d has %d tasks; begin and step_end%s are the least",
                             r, t->of[r].n, t->backward ? ", update" : "");
        for (int i = 0; i < t->of[r].n; i++) {
            weft_status s = check_frame(v, r, i);
            if (!s && weft_part_is_micro(t->of[r].list[i].part))
                s = enter(v, r, i);
            if (s)
                return s;
        }
    }
    return WEFT_OK;
}

static weft_status check_missing(const verifier *v)
{
    const weft_tasks *t = v->t;
    for (int way = FORWARD; way < (t->backward ? WAYS : 1); way++)
        for (int stage = 0; stage < t->stages; stage++)
            for (int64_t m = 0; m < t->micro_batches; m++)
                if (*place_of(v, way, stage, m) == NONE && (way != WEIGHTS || v->split[stage]))
                    return weft_fail(v->err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                                     "schedule: rank %d lacks %d%c%lld%s", t->rank_of[stage], stage,
                                     way == BACKWARD && v->split[stage] ? 'I' : "FBW"[way],
                                     (long long)m,
                                     way == WEIGHTS ? "; of a stage that has one W every "
                                                      "micro-batch needs one"
                                                    : "");
    return WEFT_OK;
}

/* The task that makes what this one reads: of the neighbouring stage; of a backward where there is
 * none, its own forward; of weights, their backward. NONE: it reads inputs alone. */
static int maker_of(const verifier *v, const weft_task *task)
{
    if (task->part == WEFT_PART_W)
        return *place_of(v, BACKWARD, task->stage, task->micro_batch);
    if (task->part == WEFT_PART_F)
        return task->stage == 0 ? NONE : *place_of(v, FORWARD, task->stage - 1, task->micro_batch);
    if (task->stage == v->t->stages - 1)
        return *place_of(v, FORWARD, task->stage, task->micro_batch);
    return *place_of(v, BACKWARD, task->stage + 1, task->micro_batch);
}

static weft_status check_order(const verifier *v)
{
    for (int i = 0; i < v->start[v->t->ranks]; i++) {
        const weft_task *task = task_at(v, i);
        if (!weft_part_is_micro(task->part))
            continue;
        int forward = *place_of(v, FORWARD, task->stage, task->micro_batch);
        if (forward > i)
            return wrong(v, i, "runs before its forward, ", forward);
        int maker = maker_of(v, task);
        if (maker > i && v->rank_of[maker] == v->rank_of[i])
            return wrong(v, i, "reads a result that is made later, by ", maker);
    }
    return WEFT_OK;
}

/* ---- channels ---- */

/* Does a task's operand come from another rank? */
static bool receives(const verifier *v, int task)
{
    if (!weft_part_is_micro(task_at(v, task)->part))
        return false;
    int maker = maker_of(v, task_at(v, task));
    return maker != NONE && v->rank_of[maker] != v->rank_of[task];
}

/* The first of a rank's tasks from this one on whose result goes to the receiver in a channel;
 * behind the last of all: none. */
static int next_sent(const verifier *v, int task, int sender, int receiver, int way,
                     const int *sent_as)
{
    while (task < v->start[sender + 1] &&
           (sent_as[task] == NONE || direction(task_at(v, task)) != way ||
            v->rank_of[sent_as[task]] != receiver))
        task++;
    return task;
}

/* Channels are (sender, receiver, kind). In one, transfers have the order in which they are sent,
 * and so must be received. sent: room for a task of each sender. */
static weft_status match(verifier *v, int receiver, int way, const int *sent_as, int *sent)
{
    for (int r = 0; r < v->t->ranks; r++)
        sent[r] = v->start[r];
    for (int i = v->start[receiver]; i < v->start[receiver + 1]; i++) {
        if (direction(task_at(v, i)) != way || !receives(v, i))
            continue;
        const int maker = maker_of(v, task_at(v, i)), sender = v->rank_of[maker];
        sent[sender] = next_sent(v, sent[sender], sender, receiver, way, sent_as);
        if (sent[sender] != maker)
            return wrong(v, i,
                         way == FORWARD
                             ? "receives activations out of order: it is sent the result of "
                             : "receives gradients out of order: it is sent the result of ",
                         sent[sender]);
        v->transfer[maker] = v->arrival[i] = v->n_transfers++;
        sent[sender]++;
    }
    return WEFT_OK;
}

static weft_status match_all(verifier *v)
{
    int n = v->start[v->t->ranks];
    int *sent_as = list_of(v, (size_t)n + 1), *sent = list_of(v, (size_t)v->t->ranks);
    if (!sent_as || !sent)
        return weft_fail_memory(v->err);
    for (int i = 0; i < n; i++)
        sent_as[i] = v->transfer[i] = v->arrival[i] = NONE;
    for (int i = 0; i < n; i++)
        if (receives(v, i))
            sent_as[maker_of(v, task_at(v, i))] = i;
    weft_status s = WEFT_OK;
    for (int way = 0; way <= v->t->backward && !s; way++)
        for (int r = 0; r < v->t->ranks && !s; r++)
            s = match(v, r, way, sent_as, sent);
    return s;
}

/* ---- circles ---- */

/* There is a graph of what must be over before what, and it has a topological order, or a circle
 * that can be named. */

/* What happens: that a task's receive is posted, that a task runs, that a transfer is done. Each
 * with the few things that must have happened before. That the transfers of a channel are done one
 * after the other follows: both ends post theirs in that order. */
enum { MOST_BEFORE = 4 };

typedef struct event {
    int before[MOST_BEFORE];
    int n, task; /* task: to name */
} event;

typedef struct order {
    event *events;
    int n, n_tasks;    /* events: posts of all tasks, runs of all, transfers */
    int *left;         /* by event: how much before it has not happened */
    int64_t *end;      /* by event: when it is over, if tasks take what they count */
    int *first, *next; /* by event: who waits for it, linked by event and place in `before` */
    int *ready;
} order;

static void after(order *o, int e, int before)
{
    o->events[e].before[o->events[e].n++] = before;
}

static void add_rank(const verifier *v, order *o, int rank, int *last[2])
{
    for (int i = v->start[rank]; i < v->start[rank + 1]; i++) {
        int post = i, run = o->n_tasks + i;
        o->events[post].task = o->events[run].task = i;
        if (i - 2 >= v->start[rank])
            after(o, post, o->n_tasks + i - 2); /* while the task before this one runs */
        if (i - 1 >= v->start[rank])
            after(o, run, o->n_tasks + i - 1);
        after(o, run, post);
        if (v->arrival[i] != NONE) {
            after(o, run, 2 * o->n_tasks + v->arrival[i]);
            after(o, 2 * o->n_tasks + v->arrival[i], post);
        }
        if (v->transfer[i] == NONE)
            continue;
        const weft_task *task = task_at(v, i);
        int64_t slots = v->sending;
        int transfer = 2 * o->n_tasks + v->transfer[i];
        o->events[transfer].task = i;
        after(o, transfer, run);
        /* the slots of a stage's results are taken in turn */
        int *ring = last[task->part == WEFT_PART_B] + task->stage * (slots + 1);
        if (slots > 0) {
            int *turn = &ring[slots], *old = &ring[*turn];
            if (*old != NONE)
                after(o, run, *old);
            *old = transfer;
            *turn = (*turn + 1) % (int)slots;
        }
    }
}

/* One that the event waits for and that has not happened. */
static int awaited(const order *o, int e)
{
    int k = 0;
    while (o->left[o->events[e].before[k]] == 0)
        k++;
    return o->events[e].before[k];
}

/* Follows what is waited for until it comes back to where it was. */
static weft_status name_circle(const verifier *v, const order *o)
{
    int e = 0;
    while (o->left[e] == 0)
        e++;
    for (int i = 0; i < 2 * o->n; i++) /* into the circle, and on; the last half is inside it */
        e = awaited(o, e);
    weft_text text = {0};
    int begin = e, last = NONE, named = 0;
    do {
        int task = o->events[e].task;
        if (task != last && named < 8) {
            weft_text_add(&text, named ? ", which waits for " : "");
            name_task(v, task, &text);
            named++;
        }
        last = task;
        e = awaited(o, e);
    } while (e != begin);
    weft_status s = weft_fail(v->err, WEFT_ERR_INPUT, task_at(v, o->events[begin].task)->at,
                              "schedule: ranks would wait for each other for ever: %s, and so on "
                              "in a circle",
                              weft_text_get(&text));
    weft_text_release(&text);
    return s;
}

/* Of a whole backward twice as much as of its halves and of a forward. */
static int64_t length_of(const verifier *v, const order *o, int e)
{
    if (e < o->n_tasks || e >= 2 * o->n_tasks)
        return 0;
    const weft_task *task = task_at(v, e - o->n_tasks);
    return !weft_part_is_micro(task->part)                       ? 0
           : task->part == WEFT_PART_B && !v->split[task->stage] ? 2
                                                                 : 1;
}

/* What waits for an event is linked through (waiting event, its slot). */
static int sort(verifier *v, order *o)
{
    int n_ready = 0, done = 0;
    for (int e = 0; e < o->n; e++)
        o->first[e] = NONE;
    for (int e = 0; e < o->n; e++) {
        o->left[e] = o->events[e].n;
        for (int k = 0; k < o->events[e].n; k++) {
            int link = e * MOST_BEFORE + k, to = o->events[e].before[k];
            o->next[link] = o->first[to];
            o->first[to] = link;
        }
        if (o->left[e] == 0)
            o->ready[n_ready++] = e;
    }
    for (; done < n_ready; done++) {
        const int e = o->ready[done];
        o->end[e] += length_of(v, o, e);
        v->span = o->end[e] > v->span ? o->end[e] : v->span;
        for (int l = o->first[e]; l != NONE; l = o->next[l]) {
            const int to = l / MOST_BEFORE;
            o->end[to] = o->end[e] > o->end[to] ? o->end[e] : o->end[to];
            if (--o->left[to] == 0)
                o->ready[n_ready++] = to;
        }
    }
    return done;
}

static weft_status check_circles(verifier *v)
{
    int64_t slots = v->sending;
    size_t rings = (size_t)v->t->stages * (size_t)(slots + 1);
    order o = {.n_tasks = v->start[v->t->ranks]};
    o.n = 2 * o.n_tasks + v->n_transfers;
    size_t n = (size_t)o.n + 1;
    int *last[2] = {list_of(v, rings), list_of(v, rings)};
    o.events = weft_pool_alloc(&v->pool, n * sizeof *o.events);
    o.left = list_of(v, n);
    o.end = weft_pool_alloc(&v->pool, n * sizeof *o.end);
    o.first = list_of(v, n);
    o.next = list_of(v, n * MOST_BEFORE);
    o.ready = list_of(v, n);
    if (v->pool.out_of_memory)
        return weft_fail_memory(v->err);
    for (size_t i = 0; i < 2 * rings; i++)
        last[i / rings][i % rings] = (i + 1) % (size_t)(slots + 1) == 0 ? 0 : NONE;
    for (int r = 0; r < v->t->ranks; r++)
        add_rank(v, &o, r, last);
    return sort(v, &o) == o.n ? WEFT_OK : name_circle(v, &o);
}

/* ---- the whole ---- */

static weft_status begin(verifier *v)
{
    const weft_tasks *t = v->t;
    v->start = list_of(v, (size_t)t->ranks + 1);
    for (int r = 0; v->start && r < t->ranks; r++)
        v->start[r + 1] = v->start[r] + t->of[r].n;
    size_t n = v->start ? (size_t)v->start[t->ranks] + 1 : 1,
           places = (size_t)t->stages * (size_t)t->micro_batches;
    v->rank_of = list_of(v, n);
    for (int way = FORWARD; way < WAYS; way++)
        v->place[way] = list_of(v, places);
    v->split = weft_pool_alloc(&v->pool, (size_t)t->stages * sizeof *v->split);
    v->transfer = list_of(v, n);
    v->arrival = list_of(v, n);
    if (v->pool.out_of_memory)
        return weft_fail_memory(v->err);
    for (int r = 0; r < t->ranks; r++)
        for (int i = v->start[r]; i < v->start[r + 1]; i++)
            v->rank_of[i] = r;
    for (size_t i = 0; i < WAYS * places; i++)
        v->place[i % WAYS][i / WAYS] = NONE;
    return WEFT_OK;
}

static weft_status verify(verifier *v)
{
    weft_status s = begin(v);
    s = s ? s : enter_all(v);
    s = s ? s : check_missing(v);
    s = s ? s : check_order(v);
    s = s ? s : match_all(v);
    return s ? s : check_circles(v);
}

/* As many as there must be, and what there may be besides: more than that cannot be right, and is
 * not looked at. */
static weft_status check_count(const weft_tasks *t, weft_error *err)
{
    int64_t n = 0, most = 3 * (int64_t)t->stages * t->micro_batches + 4 * (int64_t)t->ranks;
    for (int r = 0; r < t->ranks; r++)
        n += t->of[r].n;
    if (n <= 2 * most)
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                     "schedule: %lld tasks are more than a step has; %lld are the most",
                     (long long)n, (long long)most);
}

weft_status weft_tasks_verify(const weft_tasks *t, int64_t sending, int64_t *span, weft_error *err)
{
    weft_status s = check_count(t, err);
    if (s)
        return s;
    verifier v = {.t = t, .sending = sending, .err = err};
    s = verify(&v);
    if (span)
        *span = v.span;
    weft_pool_release(&v.pool);
    return s;
}

weft_status weft_tasks_find_sending(weft_tasks *t, weft_error *err)
{
    int64_t least, span = 0;
    weft_status s = weft_tasks_verify(t, 0, &least, err);
    int64_t lo = 0, hi = s ? 0 : t->micro_batches; /* too few; enough */
    for (t->sending = 1; hi - lo > 1; t->sending = lo + (hi - lo) / 2) {
        bool late = weft_tasks_verify(t, t->sending, &span, NULL) || span - least > least / 1000;
        *(late ? &lo : &hi) = t->sending;
    }
    t->sending = hi;
    return s;
}
