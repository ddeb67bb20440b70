/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of ac share. */
#ifndef WEFT_AC_H
#define WEFT_AC_H

#include <weft/weft.h>

/* ---- front.c: one block, as a graph of its own ---- */

enum { AC_MOST_NODES = 256 }; /* of a block, that may be computed again */

typedef struct ac_set {
    uint64_t bits[AC_MOST_NODES / 64];
} ac_set;

static inline bool ac_has(const ac_set *s, int i)
{
    return s->bits[i / 64] >> (i % 64) & 1u;
}

static inline void ac_put(ac_set *s, int i, bool in)
{
    const uint64_t bit = (uint64_t)1 << (i % 64);
    s->bits[i / 64] = in ? s->bits[i / 64] | bit : s->bits[i / 64] & ~bit;
}

/* A value of a block, or one that the block reads. */
typedef struct ac_value {
    int maker;     /* node of the block that may be computed again; -1: it is there anyway */
    int64_t bytes; /* of keeping it for the backward; 0: it is kept whatever the block does */
    bool read;     /* by the backward */
    int id;        /* in the graph */
    int64_t one;   /* of one micro-batch; 0: it is a weight, or an input */
    int64_t held;  /* that wait for gradients of weights if it is made again and they do */
} ac_value;

/* A node that may be computed again. Operands are made before. */
typedef struct ac_node {
    double seconds;
    const int *ins, *outs; /* values */
    int n_ins, n_outs;
    bool always; /* another plugin has it computed again whenever it is read */
} ac_node;

/* A gradient that waits, until the backward is over, for what is read with it: values are kept, or
 * made again of kept ones, or of any. It lies where another value was kept, or somewhere of its
 * own. */
typedef struct ac_wait {
    int with, host;       /* values; -1: it waits in any case; it has a place of its own */
    int64_t there, alone; /* bytes beside those that the values say */
} ac_wait;

typedef struct ac_block {
    ac_node *nodes;
    int n_nodes;
    ac_value *values;
    int n_values;
    const ac_wait *waits;
    int n_waits;
    bool all; /* they wait with whatever is made again, of what is not kept, too */
} ac_block;

/* What is kept, what that takes, and how long all that is not takes to be computed again. */
typedef struct ac_point {
    int64_t bytes;
    double seconds;
    ac_set kept;
    int64_t one; /* bytes of one micro-batch that the forward keeps */
} ac_point;

/* What lists of ops keep: those of `save`, as with mode = op; and, as torchtitan does, attention,
 * reduce_scatters and every other product. */
enum { AC_LIST_SAVE, AC_LIST_OTHER, AC_LISTS };

/* Points of which no other has fewer bytes and fewer seconds, from the fewest bytes on; and behind
 * these one of each list, if ac_front_add_lists was called. */
typedef struct ac_front {
    ac_point *points;
    int n, capacity;
    bool exact; /* no: there were too many sets to look at all that could be better */
} ac_front;

weft_status ac_front_find(const ac_block *block, ac_front *out, weft_error *err);
weft_status ac_front_add_lists(const ac_block *block, const ac_set *lists, ac_front *front,
                               weft_error *err);
void ac_front_release(ac_front *front);
/* What a set takes. */
ac_point ac_weigh(const ac_block *block, const ac_set *kept);

/* ---- choice.c: of several blocks together ---- */

/* A sum of points, one of each block. */
typedef struct ac_sum {
    int64_t bytes;
    double seconds;
    int before, point; /* of the sums of the blocks before; of this block's front */
} ac_sum;

typedef struct ac_sums {
    int n_blocks;
    const ac_front *const *fronts;
    ac_sum **of; /* by block: front of the sums up to it */
    int *n;
} ac_sums;

/* places: how often each block's bytes are held. Sums are exact, or to 1/4096 of all bytes. */
weft_status ac_sums_make(int n, const ac_front *const *fronts, const int64_t *places, ac_sums *out,
                         weft_error *err);
void ac_sums_release(ac_sums *sums);
/* The fastest with no more than so many bytes; -1: there is none. */
int ac_sums_find(const ac_sums *sums, int64_t bytes);
/* Each block's point of a sum. */
void ac_sums_choice(const ac_sums *sums, int i, int *points);

/* ---- budget.c ---- */

typedef struct ac_budget ac_budget;

typedef struct ac {
    const weft_host *host;
    int64_t every;
    int mode;
    double share;  /* mode budget: of what no ac would keep; below 0: bytes or fit */
    int64_t bytes; /* 0: fit */
    ac_budget *budget;
} ac;

/* Is the op, or its family, in `save`? */
bool ac_is_saved(const ac *self, const weft_op *op);

/* Reads the key `budget`. */
weft_status ac_budget_read(ac *self, weft_error *err);
/* Placed graph: marks what was chosen; in the first round looks at what there is. */
void ac_budget_mark(ac *self, weft_graph *g);
weft_status ac_budget_review(void *self, weft_plan *plan, weft_error *err);
void ac_budget_destroy(ac_budget *budget);

#endif
