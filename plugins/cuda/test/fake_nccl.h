/* SPDX-License-Identifier: Apache-2.0 */
/* What the fake NCCL's files share: fake_nccl.c is what is called, fake_nccl_run.c what a stream
 * does, fake_nccl_window.c windows. */
#ifndef WEFT_CUDA_FAKE_NCCL_H
#define WEFT_CUDA_FAKE_NCCL_H

#include "fake_driver.h"

#include <stdint.h>

enum { SUCCESS, UNHANDLED, SYSTEM, ARGUMENT = 4, USAGE, REMOTE, PROGRESS };
enum { BYTES = 1, F32 = 7, F64 = 8, BF16 = 9 };
typedef enum kind { GATHER, SCATTER, REDUCE, BROADCAST, SEND, RECV } kind;

typedef struct fake_id {
    char path[128];
} fake_id;

typedef struct batch batch;

typedef struct window {
    const char *at;
    size_t bytes;
    int number;          /* in its communicator, the same on all ranks */
    struct window **out; /* where its handle goes */
    struct window *next;
} window;

/* Of memory: in which window, if any, and how far behind its head. */
typedef struct place {
    int64_t window, offset;
} place;

typedef struct comm {
    char path[192];
    int n, me, world; /* world: the rank of all */
    int error;
    bool aborted, finalized;
    long issued, done, number; /* number: of collectives */
    long *sent, *received;     /* [n] */
    int splits, persistent;    /* persistent: in graphs, without which it cannot be finalized */
    int on_streams;            /* batches that no stream has done yet */
    int registered;            /* pieces of memory */
    window *windows, *opening; /* opening: others may not be there yet */
    int n_windows;             /* that were ever asked for */
    const char *why;           /* what was wrong last; NULL: nothing */
    bool connected[2];         /* for what is sent; for sums */
    bool *met;                 /* [2 n] to, from */
    int ctas;                  /* multiprocessors that its kernels hold, at most; 0: no limit */
    batch *waits;              /* for the others to be connected; then it is on its stream */
    CUstream on;
    /* what it is being made of, or what is being made of it */
    char pending[240];
    struct comm **child;
    int child_ctas;
    struct comm *next; /* aborted, too */
    struct comm *next_aborting;
} comm;

typedef struct op {
    kind kind;
    comm *of;
    const char *send;
    char *recv;
    size_t count;
    int type, with; /* with: the root, or the other end */
    long number;
    bool posted, over;
    struct op *next;
} op;

/* What is done together. */
struct batch {
    comm *of;
    op *ops;
    long ticket;
    double since, asked; /* of the call, and when somebody asked for it last */
    bool slept;
    bool stalls, persistent; /* persistent: part of a graph */
};

static inline bool is_transfer(const op *o)
{
    return o->kind == SEND || o->kind == RECV;
}

/* Nothing is under way that ncclCommGetAsyncError would have to be asked of. */
bool fake_is_ready(const comm *c);

/* ---- fake_nccl_window.c ---- */

/* Whether it is there now. */
int fake_open_window(comm *c);
/* Under the lock. */
void fake_drop_windows(comm *c);
place fake_place(const comm *c, const void *memory, size_t bytes);

/* ---- fake_nccl_run.c: files ---- */

typedef struct head {
    int kind, type;
    size_t count;
    place send, recv;
} head;

void fake_write(const char *name, const head *h, const void *data, size_t bytes);
/* As many bytes as there are, in memory of the caller's; NULL: it is not there. */
char *fake_read(const char *name, head *h, size_t *bytes);

/* ---- and batches, for fake_enqueue_until ---- */

size_t fake_size_of(int type);
size_t fake_sent_bytes(const op *o);
size_t fake_received_bytes(const op *o);
/* In the order of their calls, or of the launches of their graphs. */
void fake_give_numbers(batch *b);
bool fake_run_batch(void *what);
void fake_drop_batch(void *what);
void *fake_copy_batch(const void *what);

#endif
