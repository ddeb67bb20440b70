/* SPDX-License-Identifier: Apache-2.0 */
/* Programs on a device that computes later than it is told to: what instructions on other queues
 * wait for becomes events, and the host waits where it reads, nowhere else.
 *
 * A list of tasks begins and ends with all queues in step. In between the queues meet one task
 * late: what a task enqueues comes behind all of the tasks before the last, and of the last one's
 * body behind what the plan says (weft_boundary), as far as it was enqueued. A captured task is on
 * the first queue alone, or ends with all queues in step. What a prologue begins is enqueued before
 * the body of the task before it, and so lies before it on its queue. Nobody waits for the queue of
 * transfers in that way, but for each transfer by itself. */
#include "plugin/enter.h"
#include "run/run.h"

#include <errno.h>
#include <string.h>
#include <time.h>

enum { MOST_TAGS = 4096 };

/* What a tag stands for. */
typedef struct tagged {
    uint64_t tag;
    const weft_instruction *in; /* NULL: a whole task */
    const weft_program *program;
    int64_t micro, step;
} tagged;

struct weft_streams {
    int n_queues;
    weft_device_event *marks[WEFT_MOST_QUEUES];   /* of queues, for one await */
    weft_device_event *ends[2][WEFT_MOST_QUEUES]; /* of the last two bodies, on each queue */
    int ended;                                    /* which of the two is the last body's */
    const weft_program *before;             /* whose body that was; NULL: all queues are in step */
    const weft_boundary *boundary;          /* of what is being enqueued; NULL: none */
    weft_device_event **events[WEFT_MODES]; /* by instruction's event */
    bool reads_beside[WEFT_MODES];          /* inputs, on another queue than the first */
    bool captured;                          /* the body that is being enqueued */
    uint64_t tag;                           /* the last */
    uint64_t last[WEFT_MOST_QUEUES];
    tagged *tags; /* [MOST_TAGS], a ring */
};

/* ---- life ---- */

static int count_queues(const weft_plan *plan)
{
    int n = plan->device->n_queues;
    return n < 1 ? 1 : n > WEFT_MOST_QUEUES ? WEFT_MOST_QUEUES : n;
}

static weft_status create_events(const weft_plan *plan, weft_device_event **list, int n,
                                 weft_error *err)
{
    weft_status s = WEFT_OK;
    for (int i = 0; i < n && !s; i++)
        s = weft_device_event_create(plan, &list[i], err);
    return s;
}

static bool reads_inputs_beside(const weft_lowered *l)
{
    for (int a = 0; a < l->n_programs; a++)
        for (int i = 0; i < l->programs[a].n; i++) {
            const weft_instruction *in = &l->programs[a].list[i];
            for (int k = 0; k < in->n_ins + in->n_outs && in->queue != WEFT_QUEUE_COMPUTE; k++)
                if (in->buffers[k] >= 0 && l->buffers[in->buffers[k]].base == WEFT_BASE_INPUT)
                    return true;
        }
    return false;
}

weft_status weft_streams_create(weft_run *run, weft_error *err)
{
    const weft_plan *plan = run->plan;
    if (!weft_device_is_async(plan))
        return WEFT_OK;
    struct weft_streams *q = run->streams = weft_alloc_zero(1, sizeof *q);
    if (!q || !(q->tags = weft_alloc_zero(MOST_TAGS, sizeof *q->tags)))
        return weft_fail_memory(err);
    q->n_queues = count_queues(plan);
    weft_status s = create_events(plan, q->marks, q->n_queues, err);
    for (int i = 0; i < 2 && !s; i++)
        s = create_events(plan, q->ends[i], q->n_queues, err);
    for (int m = 0; m < WEFT_MODES && !s; m++) {
        const weft_lowered *l = plan->lowered[m];
        q->reads_beside[m] = l && reads_inputs_beside(l);
        if (!l || !l->n_events)
            continue;
        q->events[m] = weft_alloc_zero((size_t)l->n_events, sizeof(weft_device_event *));
        s = q->events[m] ? create_events(plan, q->events[m], l->n_events, err)
                         : weft_fail_memory(err);
    }
    return s;
}

static void destroy_events(const weft_plan *plan, weft_device_event **list, int n)
{
    for (int i = 0; list && i < n; i++)
        if (list[i])
            weft_device_event_destroy(plan, list[i]);
}

void weft_streams_destroy(weft_run *run)
{
    struct weft_streams *q = run->streams;
    if (!q)
        return;
    destroy_events(run->plan, q->marks, q->n_queues);
    for (int i = 0; i < 2; i++)
        destroy_events(run->plan, q->ends[i], q->n_queues);
    for (int m = 0; m < WEFT_MODES; m++) {
        if (q->events[m])
            destroy_events(run->plan, q->events[m], run->plan->lowered[m]->n_events);
        weft_free(q->events[m]);
    }
    weft_free(q->tags);
    weft_free(q);
    run->streams = NULL;
}

/* ---- tags ---- */

static void put_tag(weft_run *run, int queue, tagged what)
{
    struct weft_streams *q = run->streams;
    if (!run->plan->device->tag)
        return;
    what.tag = ++q->tag;
    what.step = run->view.step;
    q->tags[what.tag % MOST_TAGS] = what;
    q->last[queue] = what.tag;
    weft_device_tag(run->plan, queue, what.tag);
}

static void print_tagged(const tagged *t, weft_text *text)
{
    const weft_instruction *in = t->in;
    const weft_node *n = in ? in->node : NULL;
    const char *what = n && in->kind == WEFT_COLLECTIVE ? weft_move_name(n->steps[0].move)
                       : n                              ? n->op->name
                                                        : NULL;
    if (n)
        weft_text_print(text, "%s = %s, block %d, ", n->n_outs ? n->outs[0]->name : "?", what,
                        n->block);
    weft_text_print(text, "%s of stage %d", weft_part_name(t->program->part), t->program->stage);
    if (t->micro >= 0)
        weft_text_print(text, ", micro-batch %lld", (long long)t->micro);
    weft_text_print(text, ", step %lld", (long long)t->step);
}

/* Where each queue is that has not done all it was given. */
static bool print_reached(weft_run *run, weft_text *text)
{
    struct weft_streams *q = run->streams;
    int n = 0;
    for (int i = 0; i < q->n_queues; i++) {
        uint64_t at = q->last[i] ? weft_device_reached(run->plan, i) : 0;
        const tagged *t = &q->tags[at % MOST_TAGS];
        if (!at || t->tag != at)
            continue;
        weft_text_print(text, "%squeue %d was at ", n++ ? "; " : "", i);
        print_tagged(t, text);
    }
    return n > 0;
}

void weft_streams_explain(weft_run *run, weft_status status, weft_error *err)
{
    weft_text text = {0};
    if (!run->streams || run->explained)
        return;
    run->explained = true;
    if (print_reached(run, &text))
        weft_fail(err, status, WEFT_NOWHERE, "rank %d: %s", run->plan->rank, weft_text_get(&text));
    weft_text_release(&text);
}

/* ---- order ---- */

weft_status weft_streams_order(weft_run *run, int from, int to, weft_error *err)
{
    struct weft_streams *q = run->streams;
    if (!q || from == to)
        return WEFT_OK;
    weft_status s = weft_device_record(run->plan, from, q->marks[from], err);
    return s ? s : weft_device_await(run->plan, to, q->marks[from], err);
}

static bool is_transfers(int queue)
{
    return queue == WEFT_QUEUE_TRANSFERS;
}

static weft_status record_all(const weft_run *run, weft_device_event *const *events,
                              weft_error *err)
{
    weft_status s = WEFT_OK;
    for (int from = 0; from < run->streams->n_queues && !s; from++)
        if (!is_transfers(from))
            s = weft_device_record(run->plan, from, events[from], err);
    return s;
}

static weft_status await_all(const weft_run *run, weft_device_event *const *events, weft_error *err)
{
    const int n = run->streams->n_queues;
    weft_status s = WEFT_OK;
    for (int from = 0; from < n && !s; from++)
        for (int to = 0; to < n && !is_transfers(from) && !s; to++)
            if (to != from)
                s = weft_device_await(run->plan, to, events[from], err);
    return s;
}

weft_status weft_streams_join(weft_run *run, weft_error *err)
{
    struct weft_streams *q = run->streams;
    if (!q)
        return WEFT_OK;
    q->before = NULL;
    weft_status s = record_all(run, q->marks, err);
    return s ? s : await_all(run, q->marks, err);
}

/* What comes next waits for this body only where the plan says so, for those before it in any case.
 */
static weft_status pass_on(weft_run *run, const weft_program *p, weft_error *err)
{
    struct weft_streams *q = run->streams;
    const bool joined = !q->before;
    q->before = p;
    q->ended ^= 1;
    weft_status s = record_all(run, q->ends[q->ended], err);
    return s || joined ? s : await_all(run, q->ends[q->ended ^ 1], err);
}

/* What is enqueued next is of this program. */
static weft_status cross(weft_run *run, const weft_lowered *l, const weft_program *p, bool prologue,
                         weft_error *err)
{
    struct weft_streams *q = run->streams;
    q->boundary = NULL;
    if (!q->before)
        return WEFT_OK;
    q->boundary = weft_lowered_boundary(l, q->before, p, prologue);
    return q->boundary ? WEFT_OK : weft_streams_join(run, err);
}

/* What an instruction must wait for of the task before. */
static weft_status await_before(const weft_run *run, const weft_program *p,
                                const weft_instruction *in, weft_error *err)
{
    const struct weft_streams *q = run->streams;
    weft_status s = WEFT_OK;
    for (int i = 0; q->boundary && i < q->n_queues && !s; i++)
        if (q->boundary->first[in->queue][i] == in - p->list)
            s = weft_device_await(run->plan, in->queue, q->ends[q->ended][i], err);
    return s;
}

weft_status weft_streams_before(weft_run *run, const weft_lowered *l, const weft_program *p,
                                const weft_instruction *in, int64_t micro, weft_error *err)
{
    const struct weft_streams *q = run->streams;
    if (!q)
        return WEFT_OK;
    weft_status s = q->captured ? WEFT_OK : await_before(run, p, in, err);
    for (int i = 0; i < in->n_waits && !s; i++) {
        int event = p->list[in->waits[i]].event;
        s = weft_device_await(run->plan, in->queue, q->events[l->graph->config.mode][event], err);
    }
    if (!q->captured)
        put_tag(run, in->queue, (tagged){.in = in, .program = p, .micro = micro});
    return s;
}

weft_status weft_streams_after(weft_run *run, const weft_lowered *l, const weft_instruction *in,
                               weft_error *err)
{
    if (!run->streams || in->event < 0)
        return WEFT_OK;
    return weft_device_record(run->plan, in->queue,
                              run->streams->events[l->graph->config.mode][in->event], err);
}

int weft_streams_transfers(const weft_run *run, const weft_instruction *in)
{
    return run->streams && run->streams->n_queues > WEFT_QUEUE_TRANSFERS ? WEFT_QUEUE_TRANSFERS
                                                                         : in->queue;
}

weft_status weft_streams_uploaded(weft_run *run, const weft_lowered *l, weft_error *err)
{
    const struct weft_streams *q = run->streams;
    return q && q->reads_beside[l->graph->config.mode] ? weft_streams_join(run, err) : WEFT_OK;
}

/* ---- tasks ---- */

static bool may_be_captured(const weft_run *run, const weft_program *p)
{
    if (run->shows_instructions || run->check_finite || p->n == 0 || p->n_prologue)
        return false;
    for (int i = 0; i < p->n; i++) {
        const weft_instruction *in = &p->list[i];
        bool same = in->kind == WEFT_ZERO_FILL || in->kind == WEFT_COPY ||
                    (in->kind == WEFT_COMPUTE && in->kernel);
        if (!same || in->fetch || in->queue != WEFT_QUEUE_COMPUTE)
            return false;
    }
    return true;
}

/* The same for the same places in memory: those of inputs and other values that lie in slots. */
static uint64_t key_of(const weft_lowered *l, const weft_program *p, int64_t micro)
{
    int64_t like = p->like && micro >= 0 ? p->like[micro] : micro;
    return (uint64_t)l->graph->config.mode << 60 | (uint64_t)(p - l->programs) << 40 |
           (uint64_t)(like + 1);
}

weft_status weft_streams_prologue(weft_run *run, const weft_lowered *l, const weft_task *task,
                                  weft_error *err)
{
    return run->streams ? cross(run, l, weft_lowered_program(l, task->part, task->stage), true, err)
                        : WEFT_OK;
}

/* The first queue waits for all others. */
static weft_status gather_queues(weft_run *run, weft_error *err)
{
    weft_status s = WEFT_OK;
    for (int i = 1; i < run->streams->n_queues && !s; i++)
        if (!is_transfers(i))
            s = weft_streams_order(run, i, WEFT_QUEUE_COMPUTE, err);
    return s;
}

weft_status weft_streams_begin(weft_run *run, const weft_lowered *l, const weft_task *task,
                               bool *replayed, weft_error *err)
{
    struct weft_streams *q = run->streams;
    const weft_program *p = weft_lowered_program(l, task->part, task->stage);
    if (!q)
        return WEFT_OK;
    weft_status s = cross(run, l, p, false, err);
    if (s || !run->plan->device->begin || !may_be_captured(run, p))
        return s;
    put_tag(run, WEFT_QUEUE_COMPUTE, (tagged){.program = p, .micro = task->micro_batch});
    s = gather_queues(run, err);
    s = s ? s : weft_device_begin(run->plan, key_of(l, p, task->micro_batch), replayed, err);
    q->captured = !s;
    return s;
}

weft_status weft_streams_end(weft_run *run, const weft_lowered *l, const weft_task *task,
                             weft_error *err)
{
    struct weft_streams *q = run->streams;
    if (!q)
        return WEFT_OK;
    weft_status s = q->captured ? weft_device_end(run->plan, err) : WEFT_OK;
    q->captured = false;
    q->boundary = NULL;
    return s ? s : pass_on(run, weft_lowered_program(l, task->part, task->stage), err);
}

/* ---- waiting ---- */

enum { SPINS = 64 };

/* Longer and longer, at most a millisecond. */
static void rest(int64_t times)
{
    if (times < SPINS)
        return;
    int64_t ns = (times - SPINS + 1) * 1000;
    const struct timespec pause = {.tv_nsec = (long)(ns < 1000000 ? ns : 1000000)};
    nanosleep(&pause, NULL);
}

/* The collective that a queue has not come past; NULL: none, or the device does not say. */
static const weft_node *stuck_in(weft_run *run)
{
    const struct weft_streams *q = run->streams;
    for (int i = 0; i < q->n_queues; i++) {
        uint64_t at = q->last[i] ? weft_device_reached(run->plan, i) : 0;
        const tagged *t = &q->tags[at % MOST_TAGS];
        if (at && t->tag == at && t->in && t->in->node && t->in->node->n_steps)
            return t->in->node;
    }
    return NULL;
}

/* Who is stuck with others comes here when they do: those that do not are the ones they miss. */
static weft_status look_for_missing(weft_run *run, double limit_s, weft_error *err)
{
    weft_control *control = run->plan->plugins->control;
    const double grace_s = limit_s < 4 ? 2 : limit_s > 20 ? 10 : limit_s / 2;
    char mine = 0, *all = control ? weft_alloc((size_t)run->plan->ranks) : NULL;
    if (!all)
        return WEFT_OK;
    const weft_node *n = stuck_in(run);
    if (n)
        weft_control_set_task(control, run->plan->rank,
                              (weft_doing){weft_move_name(n->steps[0].move), n->by, n->block});
    weft_status s =
        weft_control_exchange_within(control, run->plan->rank, grace_s, &mine, 1, all, err);
    weft_free(all);
    return s;
}

static weft_status give_up(weft_run *run, double limit_s, weft_error *err)
{
    weft_text text = {0};
    weft_status missing = look_for_missing(run, limit_s, err);
    if (missing)
        return missing;
    print_reached(run, &text);
    run->explained = true;
    weft_status s =
        weft_fail(err, WEFT_ERR_RUN, WEFT_NOWHERE,
                  "rank %d: its device is not done after %g s ([weft] rank_timeout); %s",
                  run->plan->rank, limit_s, weft_text_get(&text));
    weft_text_release(&text);
    return s;
}

/* Another rank may have ended, and then nobody may ever finish what this one's device waits for. */
static weft_status look(weft_run *run, double since, weft_error *err)
{
    weft_control *control = run->plan->plugins->control;
    double limit_s = weft_watch_limit(run->watch);
    weft_verdict why;
    if (limit_s > 0 && weft_now() - since > limit_s)
        return give_up(run, limit_s, err);
    if (control && weft_control_verdict(control, &why))
        return weft_verdict_fail(&why, err);
    const weft_transport *t = run->groups.transport;
    if (!t || !t->check || run->plan->ranks == 1)
        return WEFT_OK;
    const weft_entry entry = weft_enter(run->groups.transport_by, "check", WEFT_NOWHERE, err);
    return weft_leave(&entry, t->check(run->groups.transport_self, err));
}

/* event NULL: all that was enqueued. */
static weft_status ask(weft_run *run, weft_device_event *event, weft_error *err)
{
    const double since = weft_now();
    double looked = since;
    bool done = false;
    weft_status s = WEFT_OK;
    for (int64_t i = 0; !done && !s; i++) {
        s = weft_device_poll(run->plan, event, &done, err);
        if (s || done)
            break;
        rest(i);
        if (weft_now() - looked > 0.1) {
            looked = weft_now();
            s = look(run, since, err);
        }
    }
    return s;
}

weft_status weft_run_wait_for(weft_run *run, weft_device_event *event, weft_error *err)
{
    weft_status s = event ? ask(run, event, err) : WEFT_OK;
    if (s)
        weft_streams_explain(run, s, err);
    return s;
}

void weft_streams_drain(weft_run *run)
{
    weft_error unsaid = {0};
    weft_device_wait(run->plan, &unsaid);
    weft_error_release(&unsaid);
}

weft_status weft_run_wait(weft_run *run, weft_error *err)
{
    weft_status s = run->streams ? ask(run, NULL, err) : WEFT_OK;
    s = s ? s : weft_device_wait(run->plan, err);
    s = s ? s : weft_timing_show(run, err);
    if (s)
        weft_streams_explain(run, s, err);
    return s;
}

weft_status weft_run_download(weft_run *run, void *to_host, const void *from, size_t bytes,
                              weft_error *err)
{
    weft_status s = weft_run_wait(run, err);
    return s ? s : weft_device_download(run->plan, WEFT_NOW, to_host, from, bytes, err);
}
