/* SPDX-License-Identifier: Apache-2.0 */
/* Proof that lists of tasks run to their end: each rank by itself, and what goes from one to
 * another. */
#include "compile/schedule/verify.h"

const weft_task *weft_verifier_task(const weft_verifier *v, int task)
{
    int rank = v->rank_of[task];
    return &v->t->of[rank].list[task - v->start[rank]];
}

static int direction(const weft_task *task)
{
    return task->part == WEFT_PART_B ? BACKWARD : FORWARD;
}

static int *place_of(const weft_verifier *v, int way, int stage, int64_t micro)
{
    return &v->place[way][(int64_t)stage * v->t->micro_batches + micro];
}

/* "rank 1, task 5 (1F3)" */
void weft_verifier_name(const weft_verifier *v, int task, weft_text *text)
{
    int rank = v->rank_of[task];
    weft_text_print(text, "rank %d, task %d (", rank, task - v->start[rank]);
    weft_task_print(weft_verifier_task(v, task), text);
    weft_text_add(text, ")");
}

static weft_status wrong(const weft_verifier *v, int task, const char *what, int other)
{
    weft_text text = {0};
    weft_verifier_name(v, task, &text);
    weft_text_print(&text, " %s", what);
    if (other != NONE)
        weft_verifier_name(v, other, &text);
    weft_status s =
        weft_fail(v->err, WEFT_ERR_INPUT, WEFT_NOWHERE, "schedule: %s", weft_text_get(&text));
    weft_text_release(&text);
    return s;
}

/* ---- each rank by itself ---- */

static weft_status check_frame(const weft_verifier *v, int rank, int i)
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

static weft_status enter(const weft_verifier *v, int rank, int i)
{
    const weft_tasks *t = v->t;
    const weft_task *task = &t->of[rank].list[i];
    int number = v->start[rank] + i;
    if (task->stage < 0 || task->stage >= t->stages)
        return wrong(v, number, "is of a stage that the pipeline does not have", NONE);
    if (task->micro_batch < 0 || task->micro_batch >= t->micro_batches)
        return wrong(v, number, "is of a micro-batch that the step does not have", NONE);
    if (task->part == WEFT_PART_B && !t->backward)
        return wrong(v, number, "is a backward, and nothing is trained", NONE);
    if (weft_tasks_rank(t, task->stage) != rank)
        return wrong(v, number, "is of another rank's stage", NONE);
    int *place = place_of(v, direction(task), task->stage, task->micro_batch);
    if (*place != NONE)
        return wrong(v, number, "is there twice: it is also ", *place);
    *place = number;
    return WEFT_OK;
}

static weft_status enter_all(const weft_verifier *v)
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

static weft_status check_missing(const weft_verifier *v)
{
    const weft_tasks *t = v->t;
    for (int way = 0; way <= t->backward; way++)
        for (int stage = 0; stage < t->stages; stage++)
            for (int64_t m = 0; m < t->micro_batches; m++)
                if (*place_of(v, way, stage, m) == NONE)
                    return weft_fail(v->err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                                     "schedule: rank %d lacks %d%c%lld", weft_tasks_rank(t, stage),
                                     stage, way ? 'B' : 'F', (long long)m);
    return WEFT_OK;
}

/* The task that makes what this one reads: of the neighbouring stage; of a backward where there is
 * none, its own forward. NONE: it reads inputs alone. */
static int maker_of(const weft_verifier *v, const weft_task *task)
{
    if (task->part == WEFT_PART_F)
        return task->stage == 0 ? NONE : *place_of(v, FORWARD, task->stage - 1, task->micro_batch);
    if (task->stage == v->t->stages - 1)
        return *place_of(v, FORWARD, task->stage, task->micro_batch);
    return *place_of(v, BACKWARD, task->stage + 1, task->micro_batch);
}

static weft_status check_order(const weft_verifier *v)
{
    for (int i = 0; i < v->start[v->t->ranks]; i++) {
        const weft_task *task = weft_verifier_task(v, i);
        if (!weft_part_is_micro(task->part))
            continue;
        int forward = *place_of(v, FORWARD, task->stage, task->micro_batch);
        if (forward > i)
            return wrong(v, i, "runs before its forward, ", forward);
        int maker = maker_of(v, task);
        if (maker > i && v->rank_of[maker] == v->rank_of[i])
            return wrong(v, i, "reads what is made later, by ", maker);
    }
    return WEFT_OK;
}

static weft_status check_room(const weft_verifier *v, int64_t *alive)
{
    if (!v->limits || !v->limits->waiting)
        return WEFT_OK;
    for (int i = 0; i < v->start[v->t->ranks]; i++) {
        const weft_task *task = weft_verifier_task(v, i);
        if (task->part == WEFT_PART_B)
            alive[task->stage]--;
        if (task->part != WEFT_PART_F || ++alive[task->stage] <= v->limits->waiting[task->stage])
            continue;
        weft_text what = {0};
        weft_text_print(&what,
                        "is one micro-batch too many of its stage that waits for the backward: "
                        "there is room for %lld",
                        (long long)v->limits->waiting[task->stage]);
        weft_status s = wrong(v, i, weft_text_get(&what), NONE);
        weft_text_release(&what);
        return s;
    }
    return WEFT_OK;
}

/* ---- channels ---- */

/* Does a task's operand come from another rank? */
static bool receives(const weft_verifier *v, int task)
{
    if (!weft_part_is_micro(weft_verifier_task(v, task)->part))
        return false;
    int maker = maker_of(v, weft_verifier_task(v, task));
    return maker != NONE && v->rank_of[maker] != v->rank_of[task];
}

/* Channels are (sender, kind): stage after stage lies on rank after rank, so a rank sends one kind
 * to one other. In a channel transfers have the order in which they are sent, and so must be
 * received. */
static weft_status match(weft_verifier *v, int sender, int way, const int *sent_as, int *queue)
{
    const weft_tasks *t = v->t;
    int receiver = (sender + (way == FORWARD ? 1 : t->ranks - 1)) % t->ranks, n = 0;
    for (int i = v->start[sender]; i < v->start[sender + 1]; i++)
        if (sent_as[i] != NONE && direction(weft_verifier_task(v, i)) == way)
            queue[n++] = i;
    for (int i = v->start[receiver], k = 0; i < v->start[receiver + 1]; i++) {
        if (direction(weft_verifier_task(v, i)) != way || !receives(v, i))
            continue;
        int maker = maker_of(v, weft_verifier_task(v, i));
        if (queue[k] != maker)
            return wrong(v, i,
                         way == FORWARD
                             ? "receives activations out of order: what is sent to it then "
                               "is the result of "
                             : "receives gradients out of order: what is sent to it then is "
                               "the result of ",
                         queue[k]);
        v->transfer[maker] = v->arrival[i] = v->n_transfers++;
        k++;
    }
    return WEFT_OK;
}

static weft_status match_all(weft_verifier *v, int *sent_as, int *queue)
{
    int n = v->start[v->t->ranks];
    for (int i = 0; i < n; i++)
        sent_as[i] = v->transfer[i] = v->arrival[i] = NONE;
    for (int i = 0; i < n; i++)
        if (receives(v, i))
            sent_as[maker_of(v, weft_verifier_task(v, i))] = i;
    weft_status s = WEFT_OK;
    for (int way = 0; way <= v->t->backward && !s; way++)
        for (int r = 0; r < v->t->ranks && !s; r++)
            s = match(v, r, way, sent_as, queue);
    return s;
}

/* ---- the whole ---- */

static weft_status verify(weft_verifier *v)
{
    const weft_tasks *t = v->t;
    int n = v->start[t->ranks];
    size_t bytes = ((size_t)n + 1) * sizeof(int);
    int *sent_as = weft_alloc(bytes), *queue = weft_alloc(bytes);
    int64_t *alive = weft_alloc_zero((size_t)t->stages, sizeof *alive);
    weft_status s = sent_as && queue && alive ? WEFT_OK : weft_fail_memory(v->err);
    s = s ? s : enter_all(v);
    s = s ? s : check_missing(v);
    s = s ? s : check_order(v);
    s = s ? s : check_room(v, alive);
    s = s ? s : match_all(v, sent_as, queue);
    s = s ? s : weft_verify_circles(v);
    weft_free(sent_as);
    weft_free(queue);
    weft_free(alive);
    return s;
}

/* As many as there must be, and what there may be besides: more than that cannot be right, and is
 * not looked at. */
static weft_status check_count(const weft_tasks *t, weft_error *err)
{
    int64_t n = 0, most = 2 * (int64_t)t->stages * t->micro_batches + 4 * (int64_t)t->ranks;
    for (int r = 0; r < t->ranks; r++)
        n += t->of[r].n;
    if (n <= 2 * most)
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                     "schedule: %lld tasks are more than a step has; %lld are the most",
                     (long long)n, (long long)most);
}

weft_status weft_tasks_verify(const weft_tasks *t, const weft_tasks_limits *limits, weft_error *err)
{
    weft_status s = check_count(t, err);
    if (s)
        return s;
    weft_verifier v = {.t = t, .limits = limits, .err = err};
    v.start = weft_alloc_zero((size_t)t->ranks + 1, sizeof *v.start);
    for (int r = 0; v.start && r < t->ranks; r++)
        v.start[r + 1] = v.start[r] + t->of[r].n;
    size_t n = v.start ? (size_t)v.start[t->ranks] + 1 : 1,
           places = (size_t)t->stages * (size_t)t->micro_batches;
    v.rank_of = weft_alloc(n * sizeof(int));
    v.place[FORWARD] = weft_alloc(places * sizeof(int));
    v.place[BACKWARD] = weft_alloc(places * sizeof(int));
    v.transfer = weft_alloc(n * sizeof(int));
    v.arrival = weft_alloc(n * sizeof(int));
    s = v.start && v.rank_of && v.place[0] && v.place[1] && v.transfer && v.arrival
            ? WEFT_OK
            : weft_fail_memory(err);
    for (int r = 0; r < t->ranks && !s; r++)
        for (int i = v.start[r]; i < v.start[r + 1]; i++)
            v.rank_of[i] = r;
    for (size_t i = 0; i < places && !s; i++)
        v.place[FORWARD][i] = v.place[BACKWARD][i] = NONE;
    s = s ? s : verify(&v);
    weft_free(v.start);
    weft_free(v.rank_of);
    weft_free(v.place[FORWARD]);
    weft_free(v.place[BACKWARD]);
    weft_free(v.transfer);
    weft_free(v.arrival);
    return s;
}
