/* SPDX-License-Identifier: Apache-2.0 */
/* What the fake libraries share. */
#ifndef WEFT_CUDA_FAKE_DRIVER_H
#define WEFT_CUDA_FAKE_DRIVER_H

#include <cuda.h>

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))

typedef struct fake_state {
    pthread_mutex_t lock; /* over all of it, and over whatever is done for a stream */
    long calls, launches, replays, captured;
    long told;                 /* launches that a stream may have yet to do */
    long late, late_libraries; /* kernels that were loaded only when they were launched; libraries',
                                  when others had been */
    long memory, host_memory, streams, events, graphs, modules, contexts; /* alive */
    long handles, ranges;                                                 /* of virtual memory */
    long communicators, registrations, windows;
    long most_windows, early_streams; /* that were made */
    long products[3];                 /* by algorithm */
    bool idle;                        /* nothing is computed */
    bool astray;   /* a communicator was aborted: what kernels behind it read is anything */
    long enqueued; /* kernels and products */
    double told_s; /* processor time of the threads that enqueued them, from the first task's end,
                      without what streams did */
    long dnn, attentions; /* cuDNN's handles and descriptors, alive; graphs of it that were run */
    int connections;      /* that streams share; 0: each has its own */
    double lag;           /* how many seconds later than they were events are: slow products */
    long nccl_calls, nccl_operations; /* that a host thread was begun for; what was in them */
    long nccl_slept;                  /* calls behind which the host did not ask for 1 ms */
    long nccl_blocks;                 /* the most of a kernel that sends or receives */
    long nccl_late;                   /* ranks that were connected when kernels had been launched */
    double nccl_s;                    /* until the host was told that they are on their stream */
    CUresult stuck;                   /* an error that has happened stays */
    char complaint[256];
} fake_state;

extern fake_state fake __attribute__((visibility("hidden")));

/* The cuDNN that is the host (fake_dnn.c). */
const struct cuda_dnn_api *fake_dnn_api(void) __attribute__((visibility("hidden")));
/* The number in a variable of the environment. */
long fake_number(const char *variable, long otherwise);
/* Counts a call that needs a context of this thread's; what it returns. */
CUresult fake_enter(void);
/* Of a call that a thread may not make while it captures. */
CUresult fake_enter_unsafe(void);
/* An error that is no more than this call's, and why. */
CUresult fake_refuse(CUresult result, const char *why);
bool fake_has_context(void);
void fake_count(long *what, long by);
/* Does memory of the GPU's, or of the host's that stays, reach so far? */
bool fake_owns(const void *memory, size_t bytes);
/* Is it all mapped and accessible, and can it be exported, if that is asked? */
bool fake_virtual_owns(const void *memory, size_t bytes, bool exportable);
/* Do the addresses that were reserved for it begin at a multiple of this? */
bool fake_virtual_begins(const void *memory, size_t alignment);
/* What the GPU has of virtual memory management; else as it is given. */
int fake_virtual_attribute(CUdevice_attribute attribute, int otherwise);
/* A stream does this, or the graph that is being captured; `what` is copied. Not if nothing is
 * computed, but always. */
CUresult fake_enqueue(CUstream stream, void (*act)(const void *what), const void *what,
                      size_t size);
CUresult fake_enqueue_always(CUstream stream, void (*act)(const void *what), const void *what,
                             size_t size);
/* It is asked again and again, under the lock, until it is true; then, or when the GPU has failed,
 * drop is called. In a graph: of what `copy` makes of it at each launch. sms: multiprocessors that
 * it holds from the first time on. */
CUresult fake_enqueue_until(CUstream stream, bool (*act)(void *what), void (*drop)(void *what),
                            void *(*copy)(const void *what), void *what, int sms);
/* What acts has got on, though it is not done. */
void fake_got_on(void);
bool fake_is_capturing(CUstream stream);
/* Reads what there is of connections and multiprocessors. */
void fake_streams_open(void);
/* Until all streams have done what they were told. */
void fake_drain(void);
void fake_drain_stream(CUstream stream);
/* From now on streams go on by themselves, too, if nobody has asked for a while. */
void fake_help(void);
/* Streams go on until this is true, for ever if need be. */
void fake_advance_until(bool (*done)(const void *what), const void *what);

#endif
