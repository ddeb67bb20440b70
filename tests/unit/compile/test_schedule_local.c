/* SPDX-License-Identifier: Apache-2.0 */
/* Random lists of tasks, run by threads that send each other what tasks make over plugin local: the
 * accepted ones come to their end, the refused ones do not. */
#include "../../lib/pipeline_lists.h"

#include <weft/weft.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <string.h>
/* last: it needs the headers above */
#include <cmocka.h>

extern const weft_plugin local_LTX_plugin;

enum { MOST_RANKS = 4, MOST_TASKS = 256, WAYS = 2 };

typedef struct crew {
    const pipeline_case *c;
    double limit_s; /* of one wait */
    pthread_barrier_t met;
    void *shown[MOST_RANKS];
} crew;

/* What is under way, the oldest first. */
typedef struct pending {
    weft_request *request[MOST_TASKS];
    int64_t content[MOST_TASKS]; /* who makes it: stage and micro-batch */
    int begun, over;
} pending;

typedef struct rank {
    crew *crew;
    weft_host host;
    const weft_transport *transport;
    void *self, *groups[WAYS];
    pending receives[WAYS], sends[WAYS][PIPELINE_MOST_STAGES];
    char done[WAYS + 1][PIPELINE_MOST_STAGES * 8];
    int phase; /* of the step: begin, step_end, update are behind it */
    bool ok;
} rank;

static weft_status exchange(const weft_host *host, const void *mine, size_t n, void *all,
                            weft_error *err)
{
    crew *c = host->core;
    (void)err;
    memcpy(&c->shown[host->rank], mine, n);
    pthread_barrier_wait(&c->met);
    memcpy(all, c->shown, n * (size_t)host->ranks);
    pthread_barrier_wait(&c->met);
    return WEFT_OK;
}

static weft_status waiting(const weft_host *host, double since, const int *ranks,
                           const bool *absent, int n, weft_error *err)
{
    const crew *c = host->core;
    (void)ranks, (void)absent, (void)n;
    return weft_now() - since < c->limit_s
               ? WEFT_OK
               : weft_fail(err, WEFT_ERR_PEER, WEFT_NOWHERE, "nobody comes");
}

/* The device that ranks as threads share: the host's memory. */
static weft_status move_boxes(void *self, weft_queue *queue, const weft_box *boxes, int n,
                              weft_error *err)
{
    (void)self, (void)queue, (void)err;
    weft_boxes_move(boxes, n);
    return WEFT_OK;
}

static const void *service(const weft_host *host, const char *name, void **self)
{
    static const weft_device device = {.size = sizeof device,
                                       .name = "host",
                                       .n_queues = 1,
                                       .host_memory = true,
                                       .shared = true,
                                       .move = move_boxes};
    (void)host;
    *self = NULL;
    return strcmp(name, "device") == 0 ? &device : NULL;
}

/* ---- transfers ---- */

static const weft_tasks *tasks_of(const rank *r)
{
    return r->crew->c->tasks;
}

static int64_t tag(const rank *r, int stage, int64_t micro)
{
    return stage * tasks_of(r)->micro_batches + micro;
}

/* The stage that a task reads from (step -1), or that reads from it (1); -1: none on another rank.
 */
static int partner(const rank *r, const weft_task *k, int step)
{
    int stage = k->part == WEFT_PART_F ? k->stage + step : k->stage - step;
    if (k->part == WEFT_PART_W || stage < 0 || stage >= tasks_of(r)->stages)
        return -1;
    return tasks_of(r)->rank_of[stage] == r->host.rank ? -1 : stage;
}

static bool is_micro(const weft_task *k)
{
    return k->part == WEFT_PART_F || k->part == WEFT_PART_B || k->part == WEFT_PART_W;
}

static bool is_sound(const rank *r, const weft_task *k)
{
    const weft_tasks *t = tasks_of(r);
    return is_micro(k) && k->stage >= 0 && k->stage < t->stages && k->micro_batch >= 0 &&
           k->micro_batch < t->micro_batches;
}

static bool end_oldest(rank *r, pending *p)
{
    return !r->transport->wait(r->self, p->request[p->over++], NULL, NULL);
}

static bool begin_receive(rank *r, const weft_task *k)
{
    if (!is_sound(r, k) || partner(r, k, -1) < 0)
        return true;
    int way = k->part == WEFT_PART_B, from = tasks_of(r)->rank_of[partner(r, k, -1)];
    pending *p = &r->receives[way];
    int i = p->begun;
    if (i == MOST_TASKS || r->transport->recv(r->self, r->groups[way], from, &p->content[i], 1,
                                              WEFT_F64, NULL, &p->request[i], NULL))
        return false;
    p->begun++;
    return true;
}

static bool begin_send(rank *r, const weft_task *k)
{
    if (partner(r, k, 1) < 0)
        return true;
    int way = k->part == WEFT_PART_B, to = tasks_of(r)->rank_of[partner(r, k, 1)];
    pending *p = &r->sends[way][k->stage];
    int i = p->begun;
    p->content[i] = tag(r, k->stage, k->micro_batch);
    if (i + 1 == MOST_TASKS || r->transport->send(r->self, r->groups[way], to, &p->content[i], 1,
                                                  WEFT_F64, NULL, &p->request[i], NULL))
        return false;
    p->begun++;
    return true;
}

/* The operand must be the right one, and be there. */
static bool take_operand(rank *r, const weft_task *k)
{
    int way = k->part == WEFT_PART_B, stage = k->part == WEFT_PART_F ? k->stage - 1 : k->stage + 1;
    if (k->part == WEFT_PART_W)
        return r->done[1][tag(r, k->stage, k->micro_batch)];
    if (way && !r->done[0][tag(r, k->stage, k->micro_batch)])
        return false;
    if (stage < 0 || stage >= tasks_of(r)->stages)
        return true;
    if (partner(r, k, -1) < 0)
        return r->done[way][tag(r, stage, k->micro_batch)];
    pending *p = &r->receives[way];
    return p->over < p->begun && end_oldest(r, p) &&
           p->content[p->over - 1] == tag(r, stage, k->micro_batch);
}

/* ---- tasks ---- */

/* Does its rank's list have weights of this stage? */
static bool is_split(const rank *r, int stage)
{
    const weft_tasks *t = tasks_of(r);
    bool split = false;
    for (int k = 0; k < t->ranks; k++)
        for (int i = 0; i < t->of[k].n; i++)
            split =
                split || (t->of[k].list[i].part == WEFT_PART_W && t->of[k].list[i].stage == stage);
    return split;
}

static bool run_micro(rank *r, const weft_task *k)
{
    const int64_t sending = r->crew->c->sending;
    int way = k->part == WEFT_PART_B, of = k->part == WEFT_PART_W ? 2 : way;
    if (!is_sound(r, k) || tasks_of(r)->rank_of[k->stage] != r->host.rank || r->phase != 1)
        return false;
    char *done = &r->done[of][tag(r, k->stage, k->micro_batch)];
    pending *sends = &r->sends[way][k->stage];
    if (*done || !take_operand(r, k))
        return false;
    while (of < 2 && sending && sends->begun - sends->over >= sending)
        if (!end_oldest(r, sends))
            return false;
    *done = 1;
    return begin_send(r, k);
}

static bool run_task(rank *r, const weft_task *k)
{
    if (is_micro(k))
        return run_micro(r, k);
    int phase = k->part == WEFT_PART_BEGIN ? 0 : k->part == WEFT_PART_STEP_END ? 1 : 2;
    return r->phase++ == phase;
}

static bool run_list(rank *r)
{
    const weft_task_list *l = &tasks_of(r)->of[r->host.rank];
    bool ok = l->n < MOST_TASKS && (l->n == 0 || begin_receive(r, &l->list[0]));
    for (int i = 0; i < l->n && ok; i++) {
        ok = i + 1 == l->n || begin_receive(r, &l->list[i + 1]);
        ok = ok && run_task(r, &l->list[i]);
    }
    for (int way = 0; way < WAYS && ok; way++) {
        ok = r->receives[way].over == r->receives[way].begun;
        for (int s = 0; s < tasks_of(r)->stages; s++)
            while (ok && r->sends[way][s].over < r->sends[way][s].begun)
                ok = end_oldest(r, &r->sends[way][s]);
    }
    for (int s = 0; s < tasks_of(r)->stages && ok; s++)
        for (int64_t m = 0;
             m < tasks_of(r)->micro_batches && tasks_of(r)->rank_of[s] == r->host.rank; m++)
            ok = ok && r->done[0][tag(r, s, m)] && r->done[1][tag(r, s, m)] &&
                 (r->done[2][tag(r, s, m)] || !is_split(r, s));
    return ok && r->phase == 3;
}

static void *run_rank(void *argument)
{
    rank *r = argument;
    int all[MOST_RANKS] = {0, 1, 2, 3};
    const weft_host *host = &r->host;
    bool ok = (r->self = weft_alloc_zero(1, local_LTX_plugin.self_size)) != NULL;
    if (ok)
        memcpy(r->self, &host, sizeof host);
    ok = ok && !local_LTX_plugin.open(r->self, NULL);
    for (int way = 0; way < WAYS && ok; way++)
        ok = !r->transport->group(r->self, all, r->host.ranks, r->host.rank, &r->groups[way], NULL);
    r->ok = ok && run_list(r);
    if (!r->ok)
        r->transport->leave(r->self);
    for (int way = 0; way < WAYS; way++)
        if (r->groups[way])
            r->transport->ungroup(r->self, r->groups[way]);
    local_LTX_plugin.close(r->self);
    weft_free(r->self);
    return NULL;
}

/* Do all ranks come to their end? */
static bool finishes(const pipeline_case *c, double limit_s)
{
    crew all = {.c = c, .limit_s = limit_s};
    int n = c->tasks->ranks;
    pthread_t threads[MOST_RANKS];
    rank *ranks = weft_alloc_zero((size_t)n, sizeof *ranks);
    assert_non_null(ranks);
    assert_int_equal(pthread_barrier_init(&all.met, NULL, (unsigned)n), 0);
    bool ok = true;
    for (int r = 0; r < n; r++) {
        ranks[r].crew = &all;
        ranks[r].transport = local_LTX_plugin.contributions[0].table;
        ranks[r].host = (weft_host){.rank = r,
                                    .ranks = n,
                                    .threads = 1,
                                    .service = service,
                                    .exchange = exchange,
                                    .waiting = waiting,
                                    .core = &all};
        assert_int_equal(pthread_create(&threads[r], NULL, run_rank, &ranks[r]), 0);
    }
    for (int r = 0; r < n; r++) {
        assert_int_equal(pthread_join(threads[r], NULL), 0);
        ok = ok && ranks[r].ok;
    }
    pthread_barrier_destroy(&all.met);
    weft_free(ranks);
    return ok;
}

/* How many of each verdict are run. */
enum { OF_EACH = 200 };

static void threads_agree_with_the_proof(void **state)
{
    (void)state;
    int of[2] = {0, 0};
    for (uint64_t seed = 1; of[0] < OF_EACH || of[1] < OF_EACH; seed++) {
        pipeline_case c;
        pipeline_case_init(&c, seed);
        bool proved = !weft_tasks_verify(c.tasks, c.sending, NULL, NULL);
        if (c.tasks->ranks > 1 && of[proved] < OF_EACH) {
            of[proved]++;
            if (finishes(&c, proved ? 60 : 0.05) != proved) {
                weft_text text = {0};
                pipeline_case_print(&c, &text);
                fail_msg("seed %d: %s\n%s", (int)seed,
                         proved ? "proved, and does not finish" : "refused, and finishes",
                         weft_text_get(&text));
            }
        }
        pipeline_case_release(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_agree_with_the_proof),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
