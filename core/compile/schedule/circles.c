/* SPDX-License-Identifier: Apache-2.0 */
/* Do ranks wait for each other? There is a graph of what must be over before what, and it has a
 * topological order, or a circle that can be named. Nothing is simulated. */
#include "compile/schedule/verify.h"

#include <string.h>

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
    int *first, *next; /* by event: who waits for it, linked by event and place in `before` */
    int *ready;
} order;

static void after(order *o, int e, int before)
{
    o->events[e].before[o->events[e].n++] = before;
}

static void add_rank(const weft_verifier *v, order *o, int rank, int *last[2])
{
    for (int i = v->start[rank]; i < v->start[rank + 1]; i++) {
        int post = i, run = o->n_tasks + i;
        o->events[post].task = o->events[run].task = i;
        if (i - 2 >= v->start[rank])
            after(o, post, o->n_tasks + i - 2); /* while the task before this one runs */
        if (i - 1 >= v->start[rank])
            after(o, run, o->n_tasks + i - 1);
        after(o, run, post);
        if (v->arrival[i] != NONE)
            after(o, run, 2 * o->n_tasks + v->arrival[i]);
        if (v->arrival[i] != NONE)
            after(o, 2 * o->n_tasks + v->arrival[i], post);
        if (v->transfer[i] == NONE)
            continue;
        const weft_task *task = weft_verifier_task(v, i);
        int64_t slots = v->limits ? v->limits->sending : 0;
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

/* Follows what is waited for until it comes back to where it was. */
static weft_status name_circle(const weft_verifier *v, const order *o)
{
    int e = 0;
    while (o->left[e] == 0)
        e++;
    for (int i = 0; i < 2 * o->n; i++) { /* into the circle, and on; the last half is inside it */
        int k = 0;
        while (o->left[o->events[e].before[k]] == 0)
            k++;
        e = o->events[e].before[k];
    }
    weft_text text = {0};
    int begin = e, last = NONE, named = 0;
    do {
        int k = 0, task = o->events[e].task;
        if (task != last && named < 8) {
            weft_text_add(&text, named ? ", which waits for " : "");
            weft_verifier_name(v, task, &text);
            named++;
        }
        last = task;
        while (o->left[o->events[e].before[k]] == 0)
            k++;
        e = o->events[e].before[k];
    } while (e != begin);
    weft_status s = weft_fail(v->err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                              "schedule: ranks would wait for each other for ever: %s, and so on "
                              "in a circle",
                              weft_text_get(&text));
    weft_text_release(&text);
    return s;
}

/* What waits for an event is linked through (waiting event, its slot). */
static int sort(order *o)
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
    for (; done < n_ready; done++)
        for (int l = o->first[o->ready[done]]; l != NONE; l = o->next[l])
            if (--o->left[l / MOST_BEFORE] == 0)
                o->ready[n_ready++] = l / MOST_BEFORE;
    return done;
}

weft_status weft_verify_circles(const weft_verifier *v)
{
    int64_t slots = v->limits ? v->limits->sending : 0;
    size_t rings = (size_t)v->t->stages * (size_t)(slots + 1);
    order o = {.n_tasks = v->start[v->t->ranks]};
    o.n = 2 * o.n_tasks + v->n_transfers;
    size_t n = (size_t)o.n + 1;
    int *last[2] = {weft_alloc(rings * sizeof(int)), weft_alloc(rings * sizeof(int))};
    o.events = weft_alloc_zero(n, sizeof *o.events);
    o.left = weft_alloc(n * sizeof *o.left);
    o.first = weft_alloc(n * sizeof *o.first);
    o.next = weft_alloc(n * MOST_BEFORE * sizeof *o.next);
    o.ready = weft_alloc(n * sizeof *o.ready);
    weft_status s = last[0] && last[1] && o.events && o.left && o.first && o.next && o.ready
                        ? WEFT_OK
                        : weft_fail_memory(v->err);
    for (size_t i = 0; i < 2 * rings && !s; i++)
        last[i / rings][i % rings] = (i + 1) % (size_t)(slots + 1) == 0 ? 0 : NONE;
    for (int r = 0; r < v->t->ranks && !s; r++)
        add_rank(v, &o, r, last);
    if (!s) {
        s = sort(&o) == o.n ? WEFT_OK : name_circle(v, &o);
    }
    weft_free(last[0]);
    weft_free(last[1]);
    weft_free(o.events);
    weft_free(o.left);
    weft_free(o.first);
    weft_free(o.next);
    weft_free(o.ready);
    return s;
}
