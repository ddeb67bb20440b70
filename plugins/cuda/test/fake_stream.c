/* SPDX-License-Identifier: Apache-2.0 */
/* Streams and events of the fake driver. A stream does what it is told later: when somebody asks
 * whether it is done. Whose turn it is among those that could go on is a matter of dice, so what
 * does not wait where it must goes wrong. What is captured instead is in fake_graph.c.
 *
 * Streams have no more of a GPU than CUDA promises. They share hardware connections, each a queue
 * in the order of the calls: what waits there for an event, or behind something of its own stream
 * that is not over, holds up what other streams put behind it. And what is under way may hold
 * multiprocessors, without which nothing else begins.
 *
 * WEFT_FAKE_CUDA_SEED         of the dice (default 1)
 * WEFT_FAKE_CUDA_STARVE       n: whoever has begun goes on while it can, but for one roll in n
 * WEFT_FAKE_CUDA_CONNECTIONS  how many connections; default what CUDA reads, and has:
 *                             CUDA_DEVICE_MAX_CONNECTIONS, 8. 0: one for each stream
 * WEFT_FAKE_CUDA_SMS          how many multiprocessors (default 132)
 * WEFT_FAKE_CUDA_IDLE         1: kernels and products are looked at, and not done, but for labels,
 *                             which are counted: left is what the host does to have them done */
#include "fake_work.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

CUstream fake_streams;
static uint64_t dice;
static CUstream favourite; /* whoever went on last, if others are starved */
static int sms, held;
static long calls;
static bool got_on;

void fake_streams_open(void)
{
    long n = fake_number("CUDA_DEVICE_MAX_CONNECTIONS", 8);
    fake.connections = (int)fake_number("WEFT_FAKE_CUDA_CONNECTIONS", n < 1 ? 1 : n > 32 ? 32 : n);
    sms = (int)fake_number("WEFT_FAKE_CUDA_SMS", 132);
    fake.idle = fake_number("WEFT_FAKE_CUDA_IDLE", 0) != 0;
}

void fake_got_on(void)
{
    got_on = true;
}

bool fake_has_got_on(void)
{
    bool has = got_on;
    got_on = false;
    return has;
}

work *fake_work(bool (*act)(void *what), void (*drop)(void *what), void *what)
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
    if (w->under_way && w->sms > 0)
        held -= w->sms;
    w->drop(w->what);
    free(w);
}

/* The next of a stream that its connection has not passed on. */
static const work *next_of(const struct CUstream_st *s)
{
    return s->first && s->first->under_way ? s->first->next : s->first;
}

static bool is_held_up(const struct CUstream_st *of)
{
    bool up = false;
    for (const struct CUstream_st *s = fake_streams; s && fake.connections && !up; s = s->next)
        up = s != of && s->connection == of->connection && next_of(s) &&
             next_of(s)->number < of->first->number;
    return up;
}

static bool begins(CUstream s)
{
    work *w = s->first;
    if (is_held_up(s) || (w->sms == FAKE_ANY && held >= sms) || (w->sms > 0 && held + w->sms > sms))
        return false;
    w->under_way = !w->waits;
    if (w->under_way && w->sms > 0)
        held += w->sms;
    return true;
}

/* Is anything done? */
static bool step(CUstream s)
{
    if (!s->first)
        return false;
    if (fake.stuck == CUDA_SUCCESS && !s->first->under_way && !begins(s))
        return false;
    if (fake.stuck == CUDA_SUCCESS && !s->first->act(s->first->what))
        return fake_has_got_on();
    pop(s);
    return true;
}

int fake_roll(int sides)
{
    if (!dice)
        dice = (uint64_t)fake_number("WEFT_FAKE_CUDA_SEED", 1) | 1;
    dice = dice * 6364136223846793005u + 1442695040888963407u;
    return (int)((dice >> 33) % (uint64_t)sides);
}

static int count_streams(void)
{
    int n = 0;
    for (const struct CUstream_st *s = fake_streams; s; s = s->next)
        n++;
    return n;
}

/* One thing of some stream; false: none can go on. */
static bool advance_one(void)
{
    const int starve = (int)fake_number("WEFT_FAKE_CUDA_STARVE", 0);
    int n = count_streams(), first = n ? fake_roll(n) : 0;
    const bool stays = favourite && starve && fake_roll(starve);
    CUstream s = stays ? favourite : fake_streams;
    for (int i = 0; i < first && !stays; i++)
        s = s->next;
    for (int i = 0; i < n; i++) {
        favourite = s;
        if (step(s))
            return true;
        s = s->next ? s->next : fake_streams;
    }
    return false;
}

static double processor_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* What this thread has taken to do what streams were told: a GPU's work, not its host's. */
static _Thread_local double done_s;

static long asked;

static void advance(void)
{
    const double from = processor_s();
    asked++;
    while (advance_one())
        continue;
    done_s += processor_s() - from;
}

/* Other processes wait for what is on this one's streams, though its host may be waiting for theirs
 * and ask nobody: a GPU goes on. */
static pthread_t helper;
static bool helps, ends;

static void *help(void *unused)
{
    const struct timespec pause = {.tv_nsec = 10000000};
    pthread_mutex_lock(&fake.lock);
    while (!ends) {
        const long before = asked;
        pthread_mutex_unlock(&fake.lock);
        nanosleep(&pause, NULL);
        pthread_mutex_lock(&fake.lock);
        while (!ends && asked == before && fake.communicators > 0 && advance_one())
            continue;
    }
    pthread_mutex_unlock(&fake.lock);
    return unused;
}

void fake_help(void)
{
    pthread_mutex_lock(&fake.lock);
    helps = helps || pthread_create(&helper, NULL, help, NULL) == 0;
    pthread_mutex_unlock(&fake.lock);
}

__attribute__((destructor)) static void end_help(void)
{
    pthread_mutex_lock(&fake.lock);
    ends = true;
    pthread_mutex_unlock(&fake.lock);
    if (helps)
        pthread_join(helper, NULL);
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
        for (const struct CUstream_st *s = fake_streams; s; s = s->next)
            busy = busy || s->first;
        if (busy)
            rest();
    }
    pthread_mutex_unlock(&fake.lock);
}

void fake_advance_until(bool (*done)(const void *what), const void *what)
{
    pthread_mutex_lock(&fake.lock);
    for (advance(); !done(what); advance())
        rest();
    pthread_mutex_unlock(&fake.lock);
}

void fake_drain_stream(CUstream stream)
{
    pthread_mutex_lock(&fake.lock);
    drain(stream);
    pthread_mutex_unlock(&fake.lock);
}

/* ---- being told ---- */

CUresult fake_append(CUstream stream, work *w)
{
    if (stream->capture)
        return fake_capture(stream, w);
    w->number = calls++;
    if (stream->first)
        stream->last->next = w;
    else
        stream->first = w;
    stream->last = w;
    return CUDA_SUCCESS;
}

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

static CUresult tell(CUstream stream, work *w)
{
    pthread_mutex_lock(&fake.lock);
    CUresult r = fake_append(stream, w);
    pthread_mutex_unlock(&fake.lock);
    if (r != CUDA_SUCCESS) {
        w->drop(w->what);
        free(w);
    }
    return r;
}

CUresult fake_enqueue(CUstream stream, void (*act)(const void *what), const void *what, size_t size)
{
    fake.enqueued++; /* of one thread where it is looked at */
    return fake.idle ? fake_enter() : fake_enqueue_always(stream, act, what, size);
}

CUresult fake_enqueue_always(CUstream stream, void (*act)(const void *what), const void *what,
                             size_t size)
{
    CUresult r = fake_enter();
    if (r != CUDA_SUCCESS)
        return r;
    copied *c = aligned_alloc(16, (sizeof *c + size + 15) / 16 * 16);
    c->act = act;
    memcpy(c->what, what, size);
    work *w = fake_work(act_copied, free, c);
    w->sms = FAKE_ANY;
    return tell(stream, w);
}

CUresult fake_enqueue_until(CUstream stream, bool (*act)(void *what), void (*drop)(void *what),
                            void *(*copy)(const void *what), void *what, int holds)
{
    CUresult r = fake_enter();
    if (r != CUDA_SUCCESS) {
        drop(what);
        return r;
    }
    work *w = fake_work(act, drop, what);
    w->copy = copy;
    w->sms = holds;
    return tell(stream, w);
}

bool fake_is_capturing(CUstream stream)
{
    pthread_mutex_lock(&fake.lock);
    bool is = stream->capture != NULL;
    pthread_mutex_unlock(&fake.lock);
    return is;
}

/* ---- streams ---- */

/* As on GPUs so far. */
enum { LAST = 0, FIRST = -5 };

EXPORT CUresult cuCtxGetStreamPriorityRange(int *last, int *first)
{
    *last = LAST;
    *first = FIRST;
    return fake_enter();
}

EXPORT CUresult cuStreamCreateWithPriority(CUstream *stream, unsigned flags, int priority)
{
    CUresult r = fake_enter();
    *stream = NULL;
    if (r != CUDA_SUCCESS)
        return r;
    if (flags != CU_STREAM_NON_BLOCKING || priority > LAST || priority < FIRST)
        return fake_refuse(CUDA_ERROR_INVALID_VALUE, "a stream that waits for the default one");
    fake.early_streams += priority < LAST;
    *stream = calloc(1, sizeof **stream);
    pthread_mutex_lock(&fake.lock);
    static int made;
    (*stream)->connection = fake.connections ? made++ % fake.connections : 0;
    (*stream)->next = fake_streams;
    fake_streams = *stream;
    fake.streams++;
    pthread_mutex_unlock(&fake.lock);
    return r;
}

EXPORT CUresult cuStreamDestroy(CUstream stream)
{
    pthread_mutex_lock(&fake.lock);
    if (stream->capture)
        fake_spoil(stream->capture);
    drain(stream);
    CUstream *at = &fake_streams;
    while (*at != stream)
        at = &(*at)->next;
    *at = stream->next;
    if (favourite == stream)
        favourite = NULL;
    fake.streams--;
    free(stream->tips.list);
    pthread_mutex_unlock(&fake.lock);
    free(stream);
    return fake_enter();
}

/* Nobody may wait for what is only being captured, or while he captures. */
static CUresult enter_asking(CUstream stream)
{
    CUresult r = fake_enter_unsafe();
    pthread_mutex_lock(&fake.lock);
    if (stream->capture)
        r = fake_spoil(stream->capture);
    pthread_mutex_unlock(&fake.lock);
    return r;
}

EXPORT CUresult cuStreamSynchronize(CUstream stream)
{
    CUresult r = enter_asking(stream);
    if (r != CUDA_SUCCESS)
        return r;
    pthread_mutex_lock(&fake.lock);
    drain(stream);
    r = fake.stuck;
    pthread_mutex_unlock(&fake.lock);
    return r;
}

EXPORT CUresult cuStreamQuery(CUstream stream)
{
    CUresult r = enter_asking(stream);
    if (r != CUDA_SUCCESS)
        return r;
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

/* A task has been enqueued, of which this is the end. */
static void count_task(void)
{
    static _Thread_local double last;
    const double at = processor_s() - done_s;
    pthread_mutex_lock(&fake.lock);
    fake.told_s += last > 0 ? at - last : 0;
    pthread_mutex_unlock(&fake.lock);
    last = at;
}

static void run_written(const void *what)
{
    const written *w = what;
    *(volatile cuuint64_t *)(uintptr_t)w->to = w->value;
}

EXPORT CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr to, cuuint64_t value,
                                     unsigned flags)
{
    const written w = {to, value};
    if (flags != CU_STREAM_WRITE_VALUE_DEFAULT || to % sizeof value ||
        !fake_owns((const void *)(uintptr_t)to, sizeof value))
        return fake_refuse(CUDA_ERROR_INVALID_VALUE, "a value is written to no place of the GPU's");
    count_task();
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
    *event = r == CUDA_SUCCESS ? calloc(1, sizeof **event) : NULL;
    if (*event)
        (*event)->timed = !(flags & CU_EVENT_DISABLE_TIMING);
    fake_count(&fake.events, r == CUDA_SUCCESS);
    return r;
}

EXPORT CUresult cuEventDestroy(CUevent event)
{
    pthread_mutex_lock(&fake.lock);
    release(event->last);
    fake_forget_capture(event);
    fake.events--;
    pthread_mutex_unlock(&fake.lock);
    free(event);
    return fake_enter();
}

EXPORT CUresult cuEventRecord(CUevent event, CUstream stream)
{
    CUresult r = fake_enter();
    if (r != CUDA_SUCCESS)
        return r;
    pthread_mutex_lock(&fake.lock);
    release(event->last);
    event->last = NULL;
    fake_forget_capture(event);
    if (stream->capture) {
        r = fake_capture_record(event, stream);
    } else {
        event->last = calloc(1, sizeof *event->last);
        event->last->users = 2;
        r = fake_append(stream, fake_work(reach, drop_reached, event->last));
    }
    pthread_mutex_unlock(&fake.lock);
    return r;
}

EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags)
{
    CUresult r = fake_enter();
    (void)flags;
    if (r != CUDA_SUCCESS)
        return r;
    pthread_mutex_lock(&fake.lock);
    if (stream->capture || event->capture) {
        r = fake_capture_wait(stream, event);
    } else if (event->last) {
        event->last->users++;
        work *w = fake_work(is_reached, drop_mark, event->last);
        w->waits = true;
        r = fake_append(stream, w);
    }
    pthread_mutex_unlock(&fake.lock);
    return r;
}

/* What was captured happens never, or at every launch. */
static CUresult check_captured(const struct CUevent_st *event)
{
    return event->capture ? fake_refuse(CUDA_ERROR_CAPTURED_EVENT,
                                        "an event is asked for that was recorded in a capture")
                          : CUDA_SUCCESS;
}

EXPORT CUresult cuEventQuery(CUevent event)
{
    CUresult r = fake_enter_unsafe();
    r = r != CUDA_SUCCESS ? r : check_captured(event);
    if (r != CUDA_SUCCESS)
        return r;
    pthread_mutex_lock(&fake.lock);
    advance();
    bool done = !event->last || event->last->reached;
    r = fake.stuck != CUDA_SUCCESS ? fake.stuck : done ? r : CUDA_ERROR_NOT_READY;
    pthread_mutex_unlock(&fake.lock);
    return r;
}

EXPORT CUresult cuEventElapsedTime(float *ms, CUevent from, CUevent to)
{
    CUresult r = check_captured(from);
    r = r != CUDA_SUCCESS ? r : check_captured(to);
    if (r != CUDA_SUCCESS)
        return r;
    if (!from->timed || !to->timed || !from->last || !to->last)
        return fake_refuse(CUDA_ERROR_INVALID_HANDLE, "an event that has no time");
    pthread_mutex_lock(&fake.lock);
    bool done = from->last->reached && to->last->reached;
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
