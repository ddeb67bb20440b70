/* SPDX-License-Identifier: Apache-2.0 */
/* Captures and graphs of the fake driver, as strict as CUDA's: a capture has streams that joined it
 * by an event of it and come back to its first stream before it ends; it waits for nothing that was
 * recorded outside, nobody outside waits for what it recorded, and nobody asks while it lasts. A
 * graph's nodes are done in any order that its edges allow. One launch of a graph is over before
 * the next begins. */
#include "fake_work.h"

#include <stdlib.h>
#include <string.h>

typedef struct node {
    work *template;
    nodes behind;
} node;

struct CUgraph_st {
    node *list;
    int n, users;    /* users: handles, those that launch it, events */
    CUstream origin; /* NULL: the capture is over */
    pthread_t thread;
    bool spoilt;
};

struct CUgraphExec_st {
    CUgraph graph;
    int users;
    long begun, over; /* launches */
};

/* The capture of this thread, in which it may do nothing that waits. */
static _Thread_local CUgraph capturing;

/* ---- sets of nodes ---- */

static void add(nodes *of, int i)
{
    for (int k = 0; k < of->n; k++)
        if (of->list[k] == i)
            return;
    of->list = realloc(of->list, ((size_t)of->n + 1) * sizeof *of->list);
    of->list[of->n++] = i;
}

static void add_all(nodes *of, const nodes *more)
{
    for (int k = 0; k < more->n; k++)
        add(of, more->list[k]);
}

static void clear(nodes *of)
{
    free(of->list);
    *of = (nodes){NULL, 0};
}

static void release(CUgraph g)
{
    if (--g->users > 0)
        return;
    for (int i = 0; i < g->n; i++) {
        g->list[i].template->drop(g->list[i].template->what);
        free(g->list[i].template);
        clear(&g->list[i].behind);
    }
    free(g->list);
    free(g);
}

/* ---- captures ---- */

CUresult fake_spoil(CUgraph graph)
{
    graph->spoilt = true;
    return fake_refuse(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
                       "somebody waits, or asks, while streams are captured");
}

CUresult fake_enter_unsafe(void)
{
    CUresult r = fake_enter();
    return r == CUDA_SUCCESS && capturing ? fake_spoil(capturing) : r;
}

static CUresult spoilt(void)
{
    return fake_refuse(CUDA_ERROR_STREAM_CAPTURE_INVALIDATED, "the capture was spoilt before");
}

CUresult fake_capture(CUstream stream, work *w)
{
    CUgraph g = stream->capture;
    if (g->spoilt)
        return spoilt();
    g->list = realloc(g->list, ((size_t)g->n + 1) * sizeof *g->list);
    g->list[g->n] = (node){w, stream->tips};
    stream->tips = (nodes){NULL, 0};
    add(&stream->tips, g->n++);
    return CUDA_SUCCESS;
}

CUresult fake_capture_record(CUevent event, CUstream stream)
{
    if (stream->capture->spoilt)
        return spoilt();
    event->capture = stream->capture;
    event->capture->users++;
    add_all(&event->tips, &stream->tips);
    return CUDA_SUCCESS;
}

void fake_forget_capture(CUevent event)
{
    if (event->capture)
        release(event->capture);
    event->capture = NULL;
    clear(&event->tips);
}

CUresult fake_capture_wait(CUstream stream, CUevent event)
{
    CUgraph g = stream->capture ? stream->capture : event->capture;
    if (!event->capture && !event->last) /* never recorded */
        return CUDA_SUCCESS;
    if (stream->capture && event->capture != stream->capture) {
        g->spoilt = true;
        return fake_refuse(event->capture && event->capture->origin
                               ? CUDA_ERROR_STREAM_CAPTURE_MERGE
                               : CUDA_ERROR_STREAM_CAPTURE_ISOLATION,
                           "a captured stream waits for an event from outside of the capture");
    }
    if (!g->origin)
        return fake_refuse(CUDA_ERROR_CAPTURED_EVENT,
                           "a stream waits for an event of a capture that is over");
    if (g->spoilt)
        return spoilt();
    stream->capture = g;
    add_all(&stream->tips, &event->tips);
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode)
{
    CUresult r = fake_enter();
    if (r != CUDA_SUCCESS)
        return r;
    if (stream->capture || capturing || mode != CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
        return fake_refuse(CUDA_ERROR_ILLEGAL_STATE, "a capture within another");
    CUgraph g = calloc(1, sizeof *g);
    *g = (struct CUgraph_st){.users = 1, .origin = stream, .thread = pthread_self()};
    capturing = g;
    pthread_mutex_lock(&fake.lock);
    stream->capture = g;
    pthread_mutex_unlock(&fake.lock);
    return r;
}

/* Everything that was captured lies before the end of the first stream. */
static bool is_joined(const struct CUgraph_st *g, const struct CUstream_st *first)
{
    bool *before = calloc((size_t)g->n + 1, sizeof *before), all = true;
    for (int k = 0; k < first->tips.n; k++)
        before[first->tips.list[k]] = true;
    for (int i = g->n - 1; i >= 0; i--)
        for (int k = 0; before[i] && k < g->list[i].behind.n; k++)
            before[g->list[i].behind.list[k]] = true;
    for (int i = 0; i < g->n; i++)
        all = all && before[i];
    free(before);
    return all;
}

static CUresult end(CUstream stream, CUgraph g)
{
    CUresult r = CUDA_SUCCESS;
    if (g->spoilt)
        r = spoilt();
    else if (!is_joined(g, stream))
        r = fake_refuse(CUDA_ERROR_STREAM_CAPTURE_UNJOINED,
                        "a captured stream does not come back to the first one");
    for (CUstream s = fake_streams; s; s = s->next)
        if (s->capture == g) {
            s->capture = NULL;
            clear(&s->tips);
        }
    g->origin = NULL;
    return r;
}

EXPORT CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    CUgraph g = stream->capture;
    *graph = NULL;
    if (!g)
        return fake_refuse(CUDA_ERROR_ILLEGAL_STATE, "what is not captured is to end");
    if (g->origin != stream)
        return fake_refuse(CUDA_ERROR_STREAM_CAPTURE_UNMATCHED, "another stream began the capture");
    if (!pthread_equal(g->thread, pthread_self()))
        return fake_refuse(CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD, "another thread began it");
    capturing = NULL;
    CUresult entered = fake_enter();
    pthread_mutex_lock(&fake.lock);
    CUresult r = end(stream, g);
    r = entered != CUDA_SUCCESS ? entered : r;
    if (r != CUDA_SUCCESS)
        release(g);
    else
        *graph = g;
    fake.graphs += r == CUDA_SUCCESS;
    pthread_mutex_unlock(&fake.lock);
    return r;
}

/* ---- graphs ---- */

EXPORT CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    CUresult r = fake_enter();
    *exec = NULL;
    if (r != CUDA_SUCCESS || flags)
        return r != CUDA_SUCCESS ? r : CUDA_ERROR_INVALID_VALUE;
    *exec = calloc(1, sizeof **exec);
    **exec = (struct CUgraphExec_st){.graph = graph, .users = 1};
    pthread_mutex_lock(&fake.lock);
    graph->users++;
    fake.graphs++;
    fake.captured++;
    pthread_mutex_unlock(&fake.lock);
    return r;
}

static void release_exec(CUgraphExec exec)
{
    if (--exec->users > 0)
        return;
    release(exec->graph);
    free(exec);
}

EXPORT CUresult cuGraphDestroy(CUgraph graph)
{
    pthread_mutex_lock(&fake.lock);
    release(graph);
    fake.graphs--;
    pthread_mutex_unlock(&fake.lock);
    return fake_enter();
}

/* What was launched goes on. */
EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    pthread_mutex_lock(&fake.lock);
    release_exec(exec);
    fake.graphs--;
    pthread_mutex_unlock(&fake.lock);
    return fake_enter();
}

/* ---- launches ---- */

typedef struct launch {
    CUgraphExec exec;
    long number;
    void **what;  /* [n] of each node */
    int *missing; /* [n] nodes that it comes behind, and that are not done */
    nodes ready;  /* to be done in any order */
    int done;
} launch;

static void drop_launch(void *what)
{
    launch *l = what;
    CUgraph g = l->exec->graph;
    for (int i = 0; i < g->n; i++)
        if (g->list[i].template->copy)
            g->list[i].template->drop(l->what[i]);
    l->exec->over++;
    release_exec(l->exec);
    clear(&l->ready);
    free(l->what);
    free(l->missing);
    free(l);
}

static void finish(launch *l, int at)
{
    const struct CUgraph_st *g = l->exec->graph;
    const int done = l->ready.list[at];
    l->ready.list[at] = l->ready.list[--l->ready.n];
    l->done++;
    for (int i = done + 1; i < g->n; i++)
        for (int k = 0; k < g->list[i].behind.n; k++)
            if (g->list[i].behind.list[k] == done && --l->missing[i] == 0)
                add(&l->ready, i);
}

/* One node of those that are ready; false: none can go on. */
static bool advance(launch *l)
{
    const int n = l->ready.n, first = n ? fake_roll(n) : 0;
    for (int k = 0; k < n; k++) {
        int at = (first + k) % n, i = l->ready.list[at];
        if (!l->exec->graph->list[i].template->act(l->what[i])) {
            if (fake_has_got_on())
                return true;
            continue;
        }
        finish(l, at);
        return true;
    }
    return false;
}

static bool run_launch(void *what)
{
    launch *l = what;
    if (l->number != l->exec->over)
        return false;
    while (fake.stuck == CUDA_SUCCESS && advance(l))
        continue;
    if (l->done < l->exec->graph->n && fake.stuck == CUDA_SUCCESS)
        return false;
    fake.replays++;
    return true;
}

EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    const struct CUgraph_st *g = exec->graph;
    launch *l = calloc(1, sizeof *l);
    l->exec = exec;
    l->what = calloc((size_t)g->n + 1, sizeof *l->what);
    l->missing = calloc((size_t)g->n + 1, sizeof *l->missing);
    pthread_mutex_lock(&fake.lock);
    exec->users++;
    l->number = exec->begun++;
    pthread_mutex_unlock(&fake.lock);
    for (int i = 0; i < g->n; i++) {
        const work *w = g->list[i].template;
        l->what[i] = w->copy ? w->copy(w->what) : w->what;
        l->missing[i] = g->list[i].behind.n;
        if (!l->missing[i])
            add(&l->ready, i);
    }
    return fake_enqueue_until(stream, run_launch, drop_launch, NULL, l, 0);
}
