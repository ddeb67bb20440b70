/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the local plugin share. */
#ifndef WEFT_PLUGINS_LOCAL_H
#define WEFT_PLUGINS_LOCAL_H

#include <weft/weft.h>

#include <pthread.h>

typedef struct world world;

/* One group of ranks. In a collective its members meet and show each other where their data lie;
 * each has the device do its part, behind what the others had enqueued before; and when all have
 * done so, each one's queue waits for the others' parts. On a device with events nobody waits for
 * the device. */
typedef struct group {
    world *world;
    int n, arrived;
    int working;  /* how many may still touch what all have shown */
    int awaiting; /* how many may still touch others' events */
    unsigned turn;
    bool broken;
    pthread_mutex_t lock;
    pthread_cond_t turned;
    int *ranks;
    bool *joined; /* who has joined, once and for ever */
    bool *gone;   /* who has left it */
    bool *absent; /* who has not come to this turn */
    const char **send;
    char **recv;
    struct member **members; /* of those that have joined */
    weft_request *posts;     /* transfers whose other end is not there yet, the oldest first */
    int copying;             /* transfers whose memory is being read and written */
    struct group *next;
} group;

struct world {
    pthread_mutex_t lock;
    int ranks, left;
    bool broken; /* a rank takes part no more */
    group *groups;
};

/* What one member does when all have shown their data. */
typedef struct collective collective;

typedef struct member {
    group *group;
    int me;
    const collective *now; /* what it is in, for the others to compare */
    /* On its queue: what it has shown is there; its part of the collective is done. NULL: the
     * device computes at once. */
    weft_device_event *shown, *worked;
    const void **from;     /* [n] */
    void **to;             /* [n] */
    weft_box *boxes;       /* [n] */
    weft_queue **incoming; /* [n] on which what that member sends this one is copied; NULL: nothing
                              was yet, or the device makes no queues */
    int n_incoming;
    weft_request *requests; /* begun, and nobody has waited for them */
} member;

typedef struct local {
    const weft_host *host;
    world *world;
    const weft_device *device; /* NULL until the first group is made */
    void *device_self;
} local;

/* Under the group's lock: until something happens in it, 100 ms at most. false: nothing has. */
bool local_rest(group *g);

/* transfer.c */
weft_status local_send(void *self, void *handle, int to, const void *data, int64_t count,
                       weft_dtype dtype, weft_queue *queue, weft_request **request,
                       weft_error *err);
weft_status local_recv(void *self, void *handle, int from, void *data, int64_t count,
                       weft_dtype dtype, weft_queue *queue, weft_request **request,
                       weft_error *err);
weft_status local_wait(void *self, weft_request *request, weft_queue *queue, weft_error *err);
/* The member leaves its group: nobody touches its memory any more when this returns. */
void local_drop_requests(const local *l, member *m);

#endif
