/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the nccl plugin share. */
#ifndef WEFT_PLUGINS_NCCL_H
#define WEFT_PLUGINS_NCCL_H

#include "api.h"

#include <stdatomic.h>

/* Memory of the run; at NULL: none. */
typedef struct nccl_piece {
    void *at;
    size_t bytes;
} nccl_piece;
enum { NCCL_MOST_PIECES = 8 };

/* A communicator, on the transport's list until it is gone. */
typedef struct comm {
    nccl_comm_t handle;
    bool registers;                     /* NCCL is told of the run's memory; */
    void *registered[NCCL_MOST_PIECES]; /* its handles of the transport's pieces */
    void *windows[NCCL_MOST_PIECES];    /* and of windows on them */
    struct comm *next;
} comm;

typedef enum nccl_registers {
    NCCL_REGISTERS_NOTHING,
    NCCL_REGISTERS_MEMORY,
    NCCL_REGISTERS_WINDOWS /* where collectives run; memory for pairs */
} nccl_registers;

/* In equal parts for the queues on which groups reduce, each of which does one thing after the
 * other. */
enum { NCCL_SCRATCH_BYTES = 32 << 20, NCCL_SCRATCH_QUEUES = 4 };

typedef struct transport {
    const weft_host *host;
    const weft_device *device;
    void *device_self;
    nccl_api api;
    bool captured; /* collectives may be kept by the device */
    nccl_registers registers;
    nccl_piece pieces[NCCL_MOST_PIECES];
    bool exact, failed; /* failed: communicators are aborted, not ended */
    comm *comms;        /* the first that was made, of all ranks, is the last */
    comm *world;
    atomic_bool left; /* whoever sets it ends all waiting */
    bool grouped;     /* calls are begun when the group of calls ends */
    int channels;     /* that this rank has */
    bool warned;      /* of hardware connections that are too few for them */
    char *scratch;    /* NCCL_SCRATCH_BYTES of the device, for exact sums and maxima */
    weft_queue *scratch_of[NCCL_SCRATCH_QUEUES]; /* whose part; NULL: nobody's yet */
} transport;

/* One direction between this rank and another: a communicator of two, for NCCL does one thing
 * after the other in a communicator, and a queue, for what is awaited must not hold up the rest. */
typedef struct channel {
    comm *of;
    weft_queue *queue;
    int peer;             /* in the communicator */
    weft_request *latest; /* begun, and no event is behind it yet */
} channel;

/* Blocks of a kernel that sends or receives. Such a kernel holds a multiprocessor for each until
 * its other end has come, and several wait at once, beside collectives that do so as well. */
enum { NCCL_TRANSFER_BLOCKS = 4 };
/* Of each group whose ranks send each other something. */
enum { NCCL_BYTE = 256 };
typedef struct group {
    transport *t;
    int n, me;
    int *ranks;   /* [n] of the run */
    bool *absent; /* [n] all but this one: NCCL does not say who */
    comm *of;
    channel *to, *from; /* [n] queue NULL: not connected */
    char *byte;         /* NCCL_BYTE, for the first word of two ranks; NULL: none are connected */
    weft_device_event *ready;
    weft_request *transfers; /* begun, and nobody has waited for them */
} group;

/* ---- wait.c ---- */

weft_status nccl_error(transport *t, nccl_comm_t comm, int result, const char *what,
                       weft_error *err);
weft_status nccl_fail_left(weft_error *err);
/* What a call returned: until NCCL has done what it began. g NULL: all ranks are in it. */
weft_status nccl_settle(transport *t, const group *g, const comm *of, int result, const char *what,
                        weft_error *err);
weft_status nccl_check(void *self, weft_error *err);
/* From now on nobody waits for these communicators. */
void nccl_abort_all(transport *t);
/* Nothing is under way on the device, no transfer of the group, and nothing has failed. */
bool nccl_is_idle(transport *t, const group *g);

/* ---- collective.c ---- */

weft_status nccl_all_gather(void *self, void *handle, const void *send, void *recv, int64_t count,
                            weft_dtype dtype, weft_queue *queue, weft_error *err);
weft_status nccl_reduce_scatter(void *self, void *handle, const void *send, void *recv,
                                int64_t count, weft_dtype dtype, weft_reduce op, weft_queue *queue,
                                weft_error *err);
weft_status nccl_all_reduce(void *self, void *handle, const void *send, void *recv, int64_t count,
                            weft_dtype dtype, weft_reduce op, weft_queue *queue, weft_error *err);
weft_status nccl_all_to_all(void *self, void *handle, const void *send, void *recv, int64_t count,
                            weft_dtype dtype, weft_queue *queue, weft_error *err);
weft_status nccl_broadcast(void *self, void *handle, int root, void *data, int64_t count,
                           weft_dtype dtype, weft_queue *queue, weft_error *err);
weft_status nccl_group_begin(void *self, void *handle, weft_error *err);
weft_status nccl_group_end(void *self, void *handle, weft_error *err);
/* Before the first step: what allocates or connects would wait there for what waits for others. */
weft_status nccl_connect_all(group *g, weft_error *err);
void nccl_free_scratch(transport *t);

/* ---- transfer.c ---- */

weft_status nccl_connect(void *self, void *handle, int from, int to, weft_error *err);
weft_status nccl_send(void *self, void *handle, int to, const void *data, int64_t count,
                      weft_dtype dtype, weft_queue *queue, weft_request **request, weft_error *err);
weft_status nccl_recv(void *self, void *handle, int from, void *data, int64_t count,
                      weft_dtype dtype, weft_queue *queue, weft_request **request, weft_error *err);
weft_status nccl_wait(void *self, weft_request *request, weft_queue *queue, weft_error *err);
void nccl_drop_transfers(group *g);

/* ---- register.c ---- */

/* All memory that there is, and that will be. */
weft_status nccl_register(transport *t, comm *c, weft_error *err);
weft_status nccl_add_memory(void *self, void *memory, size_t bytes, weft_error *err);
void nccl_remove_memory(void *self, void *memory, size_t bytes);

/* ---- windows.c ---- */

weft_status nccl_places(void *self, void *handle, uint64_t digest, weft_error *err);
void nccl_close_windows(transport *t, int piece);

/* ---- memory.c ---- */

size_t nccl_library_bytes(void *self, const weft_planned_group *groups, int n);

/* ---- nccl.c ---- */

/* Of those of all ranks that name the same color; negative: none. most_blocks: of its kernels;
 * NCCL_UNSET: as many as NCCL likes. Collective over all ranks. */
weft_status nccl_split(transport *t, int color, int key, int most_blocks, comm **out,
                       weft_error *err);

#endif
