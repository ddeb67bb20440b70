/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, events and graphs of the fake driver. A stream does what it is told later: when somebody
 * asks whether it is done. Whose turn it is among those that could go on is a matter of dice
 * (WEFT_FAKE_CUDA_SEED), so what does not wait where it must goes wrong. */
#include "fake_driver.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct work {
    bool (*act)(void *what);
    void (*drop)(void *what);
    void *(*copy)(const void *what); /* of a graph: for each launch; NULL: `what` itself */
    void *what;
    struct work *next;
} work;

struct CUstream_st {
    work *first, *last;
    struct CUstream_st *next;
};

/* A point on a stream: of the event, and of everyone who waits for it. */
typedef struct mark {
    bool reached;
    double at; /* when it was, in seconds */
    int users;
} mark;

struct CUevent_st {
    mark *last; /* NULL: never recorded */
};

struct CUgraph_st {
    work *first, *last;
};

static struct CUstream_st *streams;
static _Thread_local CUgraph recording;
static uint64_t dice;

static void append(work **first, work **last, work *w)
{
    if (*first)
        (*last)->next = w;
    else
        *first = w;
    *last = w;
}

static work *work_of(bool (*act)(void *what), void (*drop)(void *what), void *what)
{
    work *w = calloc(1, sizeof *w);
    *w = (work){.act = act, .drop = drop, .what = what};
    return w;
}

/* ---- under the lock: what streams do ---- */

static void pop(CUstream s)
{
    work *w = s->first;
    s->first = w->next;
    w->drop(w->what);
    free(w);
}

/* Is anything done? */
static bool step(CUstream s)
{
    if (!s->first)
        return false;
    if (fake.stuck == CUDA_SUCCESS && !s->first->act(s->first->what))
        return false;
    pop(s);
    return true;
}

static int roll(int sides)
{
    if (!dice)
        dice = (uint64_t)fake_number("WEFT_FAKE_CUDA_SEED", 1) | 1;
    dice = dice * 6364136223846793005u + 1442695040888963407u;
    return (int)((dice >> 33) % (uint64_t)sides);
}

static int count_streams(void)
{
    int n = 0;
    for (const struct CUstream_st *s = streams; s; s = s->next)
        n++;
    return n;
}

/* One thing of some stream; false: none can go on. */
static bool advance_one(void)
{
    int n = count_streams(), first = n ? roll(n) : 0;
    CUstream s = streams;
    for (int i = 0; i < first; i++)
        s = s->next;
    for (int i = 0; i < n; i++) {
        if (step(s))
            return true;
        s = s->next ? s->next : streams;
    }
    return false;
}

static void advance(void)
{
    while (advance_one())
        continue;
}

static void rest(void)
{
    const struct timespec pause = {.tv_nsec = 200000};
    pthread_mutex_unlock(&fake.lock);
    nanosleep(&pause, NULL);
    pthread_mutex_lock(&fake.lock);
}

static void drain(const struct CUstream_st *of)
{
    for (advance(); of->first; advance())
        rest();
}

void fake_drain(void)
{
    pthread_mutex_lock(&fake.lock);
    bool busy = true;
    while (busy) {
        advance();
        busy = false;
        for (const struct CUstream_st *s = streams; s; s = s->next)
            busy = busy || s->first;
        if (busy)
            rest();
    }
    pthread_mutex_unlock(&fake.lock);
}

/* ---- being told ---- */

typedef struct copied {
    void (*act)(const void *what);
    _Alignas(16) unsigned char what[];
} copied;

static bool act_copied(void *what)
{
    const copied *c = what;
    c->act(c->what);
    return true;
}

CUresult fake_enqueue(CUstream stream, void (*act)(const void *what), const void *what, size_t size)
{
    CUresult r = fake_enter();
    if (r != CUDA_SUCCESS)
        return r;
    copied *c = aligned_alloc(16, (sizeof *c + size + 15) / 16 * 16);
    c->act = act;
    memcpy(c->what, what, size);
    work *w = work_of(act_copied, free, c);
    pthread_mutex_lock(&fake.lock);
    if (recording)
        append(&recording->first, &recording->last, w);
    else
        append(&stream->first, &stream->last, w);
    pthread_mutex_unlock(&fake.lock);
    return CUDA_SUCCESS;
}

CUresult fake_enqueue_until(CUstream stream, bool (*act)(void *what), void (*drop)(void *what),
                            void *(*copy)(const void *what), void *what)
{
    CUresult r = fake_enter();
    if (r != CUDA_SUCCESS) {
        drop(what);
        return r;
    }
    work *w = work_of(act, drop, what);
    w->copy = copy;
    pthread_mutex_lock(&fake.lock);
    if (recording)
        append(&recording->first, &recording->last, w);
    else
        append(&stream->first, &stream->last, w);
    pthread_mutex_unlock(&fake.lock);
    return CUDA_SUCCESS;
}

bool fake_is_recording(void)
{
    return recording != NULL;
}

/* ---- streams ---- */

EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned flags)
{
    CUresult r = fake_enter();
    (void)flags;
    *stream = NULL;
    if (r != CUDA_SUCCESS)
        return r;
    *stream = calloc(1, sizeof **stream);
    pthread_mutex_lock(&fake.lock);
    (*stream)->next = streams;
    streams = *stream;
    fake.streams++;
    pthread_mutex_unlock(&fake.lock);
    return r;
}

EXPORT CUresult cuStreamDestroy(CUstream stream)
{
    pthread_mutex_lock(&fake.lock);
    drain(stream);
    CUstream *at = &streams;
    while (*at != stream)
        at = &(*at)->next;
    *at = stream->next;
    fake.streams--;
    pthread_mutex_unlock(&fake.lock);
    free(stream);
    return fake_enter();
}

/* Nobody may wait for what is only being captured. */
EXPORT CUresult cuStreamSynchronize(CUstream stream)
{
    if (recording)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    pthread_mutex_lock(&fake.lock);
    drain(stream);
    pthread_mutex_unlock(&fake.lock);
    return fake_enter();
}

EXPORT CUresult cuStreamQuery(CUstream stream)
{
    if (recording)
        return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    CUresult r = fake_enter();
    pthread_mutex_lock(&fake.lock);
    advance();
    r = fake.stuck != CUDA_SUCCESS ? fake.stuck : stream->first ? CUDA_ERROR_NOT_READY : r;
    pthread_mutex_unlock(&fake.lock);
    return r;
}

typedef struct written {
    CUdeviceptr to;
    cuuint64_t value;
} written;

static void run_written(const void *what)
{
    const written *w = what;
    *(volatile cuuint64_t *)(uintptr_t)w->to = w->value;
}

EXPORT CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr to, cuuint64_t value,
                                     unsigned flags)
{
    const written w = {to, value};
    (void)flags;
    return fake_enqueue(stream, run_written, &w, sizeof w);
}

/* ---- events ---- */

static void release(mark *m)
{
    if (m && --m->users == 0)
        free(m);
}

static bool reach(void *what)
{
    mark *m = what;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    m->at = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec + fake.lag;
    m->reached = true;
    return true;
}

/* After an error nobody shall wait for ever. */
static void drop_reached(void *what)
{
    ((mark *)what)->reached = true;
    release(what);
}

static bool is_reached(void *what)
{
    return ((const mark *)what)->reached;
}

static void drop_mark(void *what)
{
    release(what);
}

EXPORT CUresult cuEventCreate(CUevent *event, unsigned flags)
{
    CUresult r = fake_enter();
    (void)flags;
    *event = r == CUDA_SUCCESS ? calloc(1, sizeof **event) : NULL;
    fake_count(&fake.events, r == CUDA_SUCCESS);
    return r;
}

EXPORT CUresult cuEventDestroy(CUevent event)
{
    pthread_mutex_lock(&fake.lock);
    release(event->last);
    fake.events--;
    pthread_mutex_unlock(&fake.lock);
    free(event);
    return fake_enter();
}

/* What is captured is done in the order in which it was told. */
EXPORT CUresult cuEventRecord(CUevent event, CUstream stream)
{
    CUresult r = fake_enter();
    if (r != CUDA_SUCCESS || recording)
        return r;
    mark *m = calloc(1, sizeof *m);
    m->users = 2;
    pthread_mutex_lock(&fake.lock);
    release(event->last);
    event->last = m;
    append(&stream->first, &stream->last, work_of(reach, drop_reached, m));
    pthread_mutex_unlock(&fake.lock);
    return r;
}

EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    CUresult r = fake_enter();
    (void)flags;
    if (r != CUDA_SUCCESS || recording)
        return r;
    pthread_mutex_lock(&fake.lock);
    if (event->last) {
        event->last->users++;
        append(&stream->first, &stream->last, work_of(is_reached, drop_mark, event->last));
    }
    pthread_mutex_unlock(&fake.lock);
    return r;
}

EXPORT CUresult cuEventQuery(CUevent event)
{
    CUresult r = fake_enter();
    pthread_mutex_lock(&fake.lock);
    advance();
    bool done = !event->last || event->last->reached;
    r = fake.stuck != CUDA_SUCCESS ? fake.stuck : done ? r : CUDA_ERROR_NOT_READY;
    pthread_mutex_unlock(&fake.lock);
    return r;
}

EXPORT CUresult cuEventElapsedTime(float *ms, CUevent from, CUevent to)
{
    pthread_mutex_lock(&fake.lock);
    bool done = from->last && from->last->reached && to->last && to->last->reached;
    *ms = done ? (float)(1e3 * (to->last->at - from->last->at)) : 0;
    pthread_mutex_unlock(&fake.lock);
    return done ? fake_enter() : CUDA_ERROR_NOT_READY;
}

EXPORT CUresult cuEventSynchronize(CUevent event)
{
    CUresult r = cuEventQuery(event);
    while (r == CUDA_ERROR_NOT_READY) {
        const struct timespec pause = {.tv_nsec = 200000};
        nanosleep(&pause, NULL);
        r = cuEventQuery(event);
    }
    return r;
}

/* ---- graphs ---- */

EXPORT CUresult cuStreamBeginCapture(CUstream stream, CUstreamCaptureMode mode)
{
    CUresult r = fake_enter();
    (void)stream, (void)mode;
    if (r == CUDA_SUCCESS)
        recording = calloc(1, sizeof *recording);
    return r;
}

EXPORT CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph)
{
    (void)stream;
    *graph = recording;
    recording = NULL;
    return fake_enter();
}

/* The graph itself becomes what is launched. */
EXPORT CUresult cuGraphInstantiate(CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
    (void)flags;
    *exec = (CUgraphExec)(void *)graph;
    fake_count(&fake.graphs, 1);
    fake_count(&fake.captured, 1);
    return fake_enter();
}

/* A graph that was launched: the first is what comes next. */
typedef struct launch {
    work *first, *last;
} launch;

static void drop_nothing(void *what)
{
    (void)what;
}

static void drop_launch(void *what)
{
    launch *l = what;
    for (work *w = l->first, *next; w; w = next) {
        next = w->next;
        w->drop(w->what);
        free(w);
    }
    free(l);
}

static bool run_launch(void *what)
{
    launch *l = what;
    for (work *w = l->first; w && fake.stuck == CUDA_SUCCESS; w = l->first) {
        if (!w->act(w->what))
            return false;
        l->first = w->next;
        w->drop(w->what);
        free(w);
    }
    fake.replays++;
    return true;
}

EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
    const CUgraph graph = (CUgraph)(void *)exec;
    launch *l = calloc(1, sizeof *l);
    for (const work *w = graph->first; w; w = w->next)
        append(&l->first, &l->last,
               w->copy ? work_of(w->act, w->drop, w->copy(w->what))
                       : work_of(w->act, drop_nothing, w->what));
    return fake_enqueue_until(stream, run_launch, drop_launch, NULL, l);
}

EXPORT CUresult cuGraphDestroy(CUgraph graph)
{
    (void)graph;
    return fake_enter();
}

EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    CUgraph graph = (CUgraph)(void *)exec;
    fake_drain();
    for (work *w = graph->first, *next; w; w = next) {
        next = w->next;
        w->drop(w->what);
        free(w);
    }
    free(graph);
    fake_count(&fake.graphs, -1);
    return fake_enter();
}
