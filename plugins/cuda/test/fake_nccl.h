/* SPDX-License-Identifier: Apache-2.0 */
/* What the fake NCCL's files share: fake_nccl.c is what is called, fake_nccl_run.c what a stream
 * does. */
#ifndef WEFT_CUDA_FAKE_NCCL_H
#define WEFT_CUDA_FAKE_NCCL_H

#include "fake_driver.h"

enum { SUCCESS, UNHANDLED, SYSTEM, ARGUMENT = 4, USAGE, PROGRESS = 7 };
enum { BYTES = 1, F32 = 7, F64 = 8, BF16 = 9 };
typedef enum kind { GATHER, SCATTER, REDUCE, BROADCAST, SEND, RECV } kind;

typedef struct fake_id {
    char path[128];
} fake_id;

typedef struct batch batch;

typedef struct comm {
    char path[192];
    int n, me, world; /* world: the rank of all */
    int error;
    bool aborted, finalized;
    long issued, done, number; /* number: of collectives */
    long *sent, *received;     /* [n] */
    int splits, persistent;    /* persistent: in graphs, without which it cannot be finalized */
    int registered;            /* pieces of memory */
    bool connected;            /* for collectives */
    bool *met;                 /* [2 n] to, from */
    batch *waits;              /* for the others to be connected; then it is on its stream */
    CUstream on;
    /* what it is being made of, or what is being made of it */
    char pending[240];
    struct comm **child;
    struct comm *next; /* aborted, too */
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
    bool stalls, persistent; /* persistent: part of a graph */
};

static inline bool is_transfer(const op *o)
{
    return o->kind == SEND || o->kind == RECV;
}

/* ---- fake_nccl_run.c: files ---- */

typedef struct head {
    int kind, type;
    size_t count;
} head;

void fake_write(const char *name, const head *h, const void *data, size_t bytes);
/* As many bytes as there are, in memory of the caller's; NULL: it is not there. */
char *fake_read(const char *name, head *h, size_t *bytes);

/* ---- and batches, for fake_enqueue_until ---- */

size_t fake_size_of(int type);
size_t fake_sent_bytes(const op *o);
/* In the order of their calls, or of the launches of their graphs. */
void fake_give_numbers(batch *b);
bool fake_run_batch(void *what);
void fake_drop_batch(void *what);
void *fake_copy_batch(const void *what);

#endif
