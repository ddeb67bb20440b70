/* SPDX-License-Identifier: Apache-2.0 */
/* When the ranks of a pipeline run their lists: each by itself, as course.c has it, as far as it
 * waits for no other; then others, until all are through. What goes from one rank to another has a
 * channel for each kind, as transports have them: a transfer begins when both ends have begun it
 * and the one before it is over. */
#include "forecast/course.h"

#include <math.h>

/* Transfers in order: when who sends, and who receives, has begun it; what it takes; when it is
 * over. */
typedef struct channel {
    int from, to;
    weft_channel kind;
    struct transfer {
        double sent, wanted, takes, over;
    } * list;
    int n_sent, n_wanted, n_over, capacity;
} channel;

/* Of an instruction that begins transfers: those that nobody has waited for. */
typedef struct begun {
    int channel, n, *which;
} begun;

/* All ranks come to collectives of all stages in one order. */
typedef struct meeting {
    int arrived;
    double all; /* when the last has come */
} meeting;

struct weft_pipeline {
    int n, n_channels, n_meetings;
    int channel_capacity, meeting_capacity;
    channel *channels;
    meeting *meetings;
    begun **begun; /* [n][transfers of its programs] */
    int *most;     /* [n] of them at once */
    int *met;      /* [n] collectives that it is through */
    bool *waits;   /* [n] it has come to the next one */
    bool out_of_memory;
};

/* `n` so many, and room for one more. */
static bool grow(weft_pipeline *p, void **list, int n, int *capacity, size_t bytes)
{
    if (n < *capacity)
        return true;
    const int more = *capacity ? 2 * *capacity : 16;
    void *fresh = weft_realloc(*list, (size_t)more * bytes);
    if (!fresh) {
        p->out_of_memory = true;
        return false;
    }
    *list = fresh;
    *capacity = more;
    return true;
}

/* ---- transfers ---- */

bool weft_course_passes_on(const weft_instruction *in)
{
    const bool transfers =
        in->kind == WEFT_POST_SEND || in->kind == WEFT_POST_RECV || in->kind == WEFT_AWAIT;
    return transfers && weft_node_sends(in->node);
}

/* -1: there is no memory for it. */
static int channel_of(weft_pipeline *p, int from, int to, weft_channel kind)
{
    for (int i = 0; i < p->n_channels; i++)
        if (p->channels[i].from == from && p->channels[i].to == to && p->channels[i].kind == kind)
            return i;
    if (!grow(p, (void **)&p->channels, p->n_channels, &p->channel_capacity, sizeof *p->channels))
        return -1;
    p->channels[p->n_channels] = (channel){.from = from, .to = to, .kind = kind};
    return p->n_channels++;
}

static void settle(channel *c)
{
    for (; c->n_over < c->n_sent && c->n_over < c->n_wanted; c->n_over++) {
        struct transfer *t = &c->list[c->n_over];
        const double both = fmax(t->sent, t->wanted);
        t->over = fmax(both, c->n_over ? t[-1].over : 0) + t->takes;
    }
}

/* A peer as this rank has it: its programs may be those of another one. */
static int peer_of(const weft_course *c, int peer)
{
    const int axis = weft_graph_stage_axis(c->l->graph), n = c->pipeline->n;
    return axis < 0 ? peer : (peer + c->rank - c->l->coord[axis] + n) % n;
}

void weft_pipeline_post(const weft_course *course, const weft_instruction *in, double now)
{
    weft_pipeline *p = course->pipeline;
    const bool sends = in->kind == WEFT_POST_SEND;
    const weft_step *step = in->node->steps;
    begun *b = &p->begun[course->rank][in->transfer];
    if (weft_tensor_count(&in->tensors[0]) == 0 || b->n == p->most[course->rank])
        return;
    b->channel = channel_of(p, sends ? course->rank : peer_of(course, step->dim),
                            sends ? peer_of(course, step->to) : course->rank,
                            weft_channel_of(in->node, step));
    if (b->channel < 0)
        return;
    channel *c = &p->channels[b->channel];
    const int i = sends ? c->n_sent : c->n_wanted;
    if (!grow(p, (void **)&c->list, i, &c->capacity, sizeof *c->list))
        return;
    b->which[b->n++] = i;
    if (sends) {
        c->list[i].sent = now;
        c->list[i].takes = weft_roofline_transfer(course->r, course->l, in);
        c->n_sent++;
    } else {
        c->list[i].wanted = now;
        c->n_wanted++;
    }
    settle(c);
}

bool weft_pipeline_has_place(const weft_course *course, const weft_instruction *in)
{
    const int64_t places = weft_part_is_micro(in->node->part) ? course->l->sending : 1;
    return in->kind == WEFT_POST_SEND &&
           course->pipeline->begun[course->rank][in->transfer].n < places;
}

bool weft_pipeline_await(const weft_course *course, int transfer, double *over)
{
    const weft_pipeline *p = course->pipeline;
    begun *b = &p->begun[course->rank][transfer];
    *over = -1;
    if (b->n == 0)
        return true;
    const channel *c = &p->channels[b->channel];
    if (b->which[0] >= c->n_over)
        return false;
    *over = c->list[b->which[0]].over;
    b->n--;
    for (int i = 0; i < b->n; i++)
        b->which[i] = b->which[i + 1];
    return true;
}

/* ---- meetings ---- */

bool weft_pipeline_meet(const weft_course *course, double now, double *all)
{
    weft_pipeline *p = course->pipeline;
    const int rank = course->rank, i = p->met[rank];
    if (i == p->n_meetings) {
        if (!grow(p, (void **)&p->meetings, i, &p->meeting_capacity, sizeof *p->meetings))
            return false;
        p->meetings[p->n_meetings++] = (meeting){0};
    }
    meeting *m = &p->meetings[i];
    if (!p->waits[rank]) {
        m->arrived++;
        m->all = fmax(m->all, now);
    }
    p->waits[rank] = m->arrived < p->n;
    p->met[rank] += !p->waits[rank];
    *all = m->all;
    return !p->waits[rank];
}

/* ---- the whole ---- */

static void release(weft_pipeline *p, weft_course *courses)
{
    for (int i = 0; i < p->n_channels; i++)
        weft_free(p->channels[i].list);
    for (int i = 0; i < p->n; i++) {
        if (p->begun && p->begun[i])
            weft_free(p->begun[i][0].which);
        if (p->begun)
            weft_free(p->begun[i]);
        if (courses)
            weft_course_end(&courses[i]);
    }
    weft_free(p->channels);
    weft_free(p->meetings);
    weft_free(p->begun);
    weft_free(p->most);
    weft_free(p->met);
    weft_free(p->waits);
    weft_free(courses);
}

/* Of one rank. */
static weft_status reserve_begun(weft_pipeline *p, int rank, const weft_lowered *l, weft_error *err)
{
    const int most = l->sending > WEFT_MOST_POSTED ? (int)l->sending : WEFT_MOST_POSTED;
    const size_t n = (size_t)l->n_transfers + 1;
    begun *list = p->begun[rank] = weft_alloc_zero(n, sizeof *list);
    int *which = list ? weft_alloc_zero(n * (size_t)most, sizeof *which) : NULL;
    p->most[rank] = most;
    if (!which)
        return weft_fail_memory(err);
    for (size_t i = 0; i < n; i++)
        list[i].which = which + i * (size_t)most;
    return WEFT_OK;
}

static weft_status reserve(weft_pipeline *p, weft_course *courses, weft_error *err)
{
    const size_t n = (size_t)p->n;
    p->begun = weft_alloc_zero(n, sizeof *p->begun);
    p->met = weft_alloc_zero(n, sizeof *p->met);
    p->waits = weft_alloc_zero(n, sizeof *p->waits);
    p->most = weft_alloc_zero(n, sizeof *p->most);
    weft_status s =
        p->begun && p->most && p->met && p->waits && courses ? WEFT_OK : weft_fail_memory(err);
    for (int i = 0; i < p->n && !s; i++) {
        s = reserve_begun(p, i, courses[i].l, err);
        s = s ? s : weft_course_begin(&courses[i], err);
    }
    return s;
}

static weft_status run(const weft_pipeline *p, weft_course *courses, weft_error *err)
{
    for (bool moved = true; moved;) {
        moved = false;
        for (int i = 0; i < p->n; i++)
            moved = weft_course_advance(&courses[i]) || moved;
    }
    if (p->out_of_memory)
        return weft_fail_memory(err);
    for (int i = 0; i < p->n; i++)
        if (!weft_course_is_through(&courses[i]))
            return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                             "rank %d of the pipeline waits in task %d for what never comes", i,
                             courses[i].walk.step.index);
    return WEFT_OK;
}

weft_status weft_roofline_pipeline(const weft_roofline *r, weft_lowered *const *ranks, int n,
                                   int watched, const weft_course_watch *watch,
                                   weft_task_time *const *out, double *starved, weft_error *err)
{
    weft_pipeline p = {.n = n};
    weft_course *courses = weft_alloc_zero((size_t)n, sizeof *courses);
    for (int i = 0; courses && i < n; i++)
        courses[i] = (weft_course){.r = r,
                                   .l = ranks[i],
                                   .watch = i == watched ? watch : NULL,
                                   .out = out[i],
                                   .pipeline = &p,
                                   .rank = i};
    weft_status s = reserve(&p, courses, err);
    s = s ? s : run(&p, courses, err);
    for (int i = 0; i < n && starved && !s; i++)
        starved[i] = courses[i].starved;
    release(&p, courses);
    return s;
}
