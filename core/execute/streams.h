/* SPDX-License-Identifier: Apache-2.0 */
/* What run_tasks.c, streams.c and waiting.c share. */
#ifndef WEFT_EXECUTE_STREAMS_H
#define WEFT_EXECUTE_STREAMS_H

#include "compile/program/walk.h"
#include "execute/run.h"

/* What a tag stands for. */
typedef struct weft_tagged {
    uint64_t tag;
    const weft_instruction *in; /* NULL: a span */
    const weft_program *program;
    int64_t micro, step;
} weft_tagged;

enum { WEFT_MOST_TAGS = 4096 };

struct weft_streams {
    int n_queues;
    weft_device_event *marks[WEFT_MOST_QUEUES];   /* of queues, for one await */
    weft_device_event *ends[2][WEFT_MOST_QUEUES]; /* of the last two bodies, on each queue */
    int ended;                                    /* which of the two is the last body's */
    weft_walk walk;                               /* through the list that is being enqueued */
    int crossed;                                  /* of the step's waits: those that are enqueued */
    weft_device_event **events[WEFT_MODES];       /* by instruction's event */
    bool reads_beside[WEFT_MODES];                /* inputs, on another queue than the first */
    weft_captured kept;                           /* what is being enqueued; else empty */
    uint64_t tag, far; /* the last; by tags, what all queues had come to when somebody looked */
    uint64_t last[WEFT_MOST_QUEUES];
    weft_tagged *tags; /* [WEFT_MOST_TAGS], a ring */
};

/* The queue of transfers, for which nobody waits but for each transfer by itself. */
static inline bool weft_is_transfers(int queue)
{
    return queue == WEFT_QUEUE_TRANSFERS;
}

/* waiting.c: what is enqueued on a queue from now on. */
void weft_streams_tag(weft_run *run, int queue, weft_tagged what);
/* streams.c: where the way through the list is noted; `alone` on a device that computes at once. */
weft_walk *weft_streams_walk(weft_run *run, weft_walk *alone);

#endif
