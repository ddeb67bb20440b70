/* SPDX-License-Identifier: Apache-2.0 */
/* What streams of the fake driver and what is captured of them are made of. All of it is under
 * fake.lock. */
#ifndef WEFT_CUDA_FAKE_WORK_H
#define WEFT_CUDA_FAKE_WORK_H

#include "fake_driver.h"

typedef struct work {
    bool (*act)(void *what); /* again and again, until it is true */
    void (*drop)(void *what);
    void *(*copy)(const void *what); /* of a graph: for each launch; NULL: `what` itself */
    void *what;
    int sms; /* multiprocessors that it holds while it is under way; FAKE_ANY: it needs one that is
                free; 0: none, as copies and events */
    bool waits;        /* for an event: it is under way only when it is over */
    bool under_way;    /* whatever comes behind it on other streams is no longer held up by it */
    long number;       /* in the order of all calls */
    struct work *next; /* on a stream */
} work;
enum { FAKE_ANY = -1 };

/* Nodes of a graph, by number. */
typedef struct nodes {
    int *list, n;
} nodes;

struct CUstream_st {
    work *first, *last;
    int connection;
    struct CUstream_st *next;
    CUgraph capture; /* NULL: what it is told is done */
    nodes tips;      /* what its next node comes behind */
};

/* A point on a stream: of the event, and of everyone who waits for it. */
typedef struct mark {
    bool reached;
    double at; /* when it was, in seconds */
    int users;
} mark;

struct CUevent_st {
    mark *last; /* NULL: never recorded, or only captured */
    bool timed;
    CUgraph capture; /* it was recorded last in what became this; NULL: it was not captured */
    nodes tips;      /* ... behind these */
};

/* The streams that there are, and the dice. */
extern CUstream fake_streams __attribute__((visibility("hidden")));
/* What has acted has got on since this was asked last. */
bool fake_has_got_on(void);
int fake_roll(int sides);

work *fake_work(bool (*act)(void *what), void (*drop)(void *what), void *what);
/* To the stream, or to the graph that is being captured of it. */
CUresult fake_append(CUstream stream, work *w);

/* ---- fake_graph.c ---- */

CUresult fake_capture(CUstream stream, work *w);
CUresult fake_capture_record(CUevent event, CUstream stream);
/* Either the stream or the event is of a capture. */
CUresult fake_capture_wait(CUstream stream, CUevent event);
/* The event is no more what was captured. */
void fake_forget_capture(CUevent event);
/* Whoever asks a stream that is being captured spoils that. */
CUresult fake_spoil(CUgraph graph);

#endif
