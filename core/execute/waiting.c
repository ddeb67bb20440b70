/* SPDX-License-Identifier: Apache-2.0 */
/* Where the host waits for a device that computes later; what its queues are at, if it fails or
 * hangs. */
#include "execute/streams.h"

#include <errno.h>
#include <string.h>
#include <time.h>

/* ---- tags ---- */

void weft_streams_tag(weft_run *run, int queue, weft_tagged what)
{
    struct weft_streams *q = run->streams;
    const weft_plan *plan = run->plan;
    if (!plan->device->tag)
        return;
    what.tag = ++q->tag;
    what.step = run->view.step;
    q->tags[what.tag % WEFT_MOST_TAGS] = what;
    q->last[queue] = what.tag;
    plan->device->tag(plan->device_self, weft_device_queue(plan, queue), what.tag);
}

static void print_tagged(const weft_tagged *t, weft_text *text)
{
    const weft_instruction *in = t->in;
    const weft_node *n = in ? in->node : NULL;
    const char *what = n && in->kind == WEFT_COLLECTIVE ? weft_move_name(n->steps[0].move)
                       : n                              ? n->op->name
                                                        : NULL;
    if (n)
        weft_text_print(text, "%s = %s%s, ", n->n_outs ? n->outs[0]->name : "?", what,
                        weft_block_describe(", ", n->block).text);
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
        const weft_tagged *t = &q->tags[at % WEFT_MOST_TAGS];
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
        const weft_tagged *t = &q->tags[at % WEFT_MOST_TAGS];
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
    weft_status s = weft_fail(
        err, WEFT_ERR_RUN, WEFT_NOWHERE,
        "rank %d: its device is not done after %g s ([weft] %s_timeout), as poll of plugin '%s' "
        "says%s%s",
        run->plan->rank, limit_s, run->watch->patient ? "start" : "rank",
        weft_plugins_giver(run->plan->plugins, run->plan->device), text.size ? "; " : "",
        weft_text_get(&text));
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
    return t->check(run->groups.transport_self, err);
}

/* Who does is slow, and does not hang. */
static bool gets_on(weft_run *run)
{
    const uint64_t before = run->streams->far;
    run->streams->far = 0;
    for (int i = 0; i < run->streams->n_queues; i++)
        run->streams->far += weft_device_reached(run->plan, i);
    return run->streams->far != before;
}

/* event NULL: all that was enqueued. A poll that leaves *done as it is, be it true or false, gives
 * no answer, and would be asked for ever: the first wait of a run finds it. */
static weft_status ask(weft_run *run, weft_device_event *event, weft_error *err)
{
    enum { ENOUGH = 8 };
    const weft_device *device = run->plan->device;
    double since = weft_now(), looked = since;
    weft_status s = WEFT_OK;
    for (int64_t i = 0; !s; i++) {
        const bool before = !run->answers && i % 2;
        bool done = before;
        s = device->poll(run->plan->device_self, event, &done, err);
        run->answers = run->answers || done != before;
        if (s || (done && run->answers))
            return s;
        if (i == ENOUGH && !run->answers)
            return weft_fail(err, WEFT_ERR_RUN, WEFT_NOWHERE,
                             "plugin '%s': its poll says that all is well, and leaves *done as it "
                             "is; it sets that to true or false",
                             weft_plugins_giver(run->plan->plugins, device));
        rest(i);
        if (weft_now() - looked > 0.1) {
            looked = weft_now();
            since = gets_on(run) ? looked : since;
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

weft_status weft_event_wait(const weft_host *host, weft_device_event *event, weft_error *err)
{
    const weft_plugins *plugins = host->core;
    return weft_run_wait_for(plugins->run, event, err);
}

void weft_streams_drain(weft_run *run)
{
    weft_error unsaid = {0};
    run->plan->device->wait(run->plan->device_self, &unsaid);
    weft_error_release(&unsaid);
}

weft_status weft_run_wait(weft_run *run, weft_error *err)
{
    weft_status s = run->streams ? ask(run, NULL, err) : WEFT_OK;
    s = s ? s : run->plan->device->wait(run->plan->device_self, err);
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
