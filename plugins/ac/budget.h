/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of mode budget share. */
#ifndef WEFT_AC_BUDGET_H
#define WEFT_AC_BUDGET_H

#include "ac.h"

/* One transformer layer. */
typedef struct ac_layer {
    ac_block block;
    const weft_node **nodes; /* of the placed graph, while a pass or the first review runs */
    int number;              /* of the block */
    int *first;              /* by node: its first result's id */
    uint64_t form;           /* equal: the same front */
    int front, rank;
    int64_t places; /* micro-batches whose values are held at once; 1: bytes count them all */
    int point;      /* of the front: what is asked for */
    ac_set lists[AC_LISTS];
} ac_layer;

typedef struct ac_choice {
    int *points; /* by layer of the rank */
    int64_t model;
    double seconds;
    bool known;
} ac_choice;

/* A rank of the pipeline: what it is planned to hold if all is kept, and what was tried. */
typedef struct ac_stage {
    ac_layer **layers;
    int n;
    int tight;                /* its layer in whose backward the most is held; -1: it has none */
    int64_t rest;             /* beside the arena */
    int64_t head, own, other; /* the most that is held in the head, in that backward, elsewhere */
    ac_sums sums;             /* of its other layers */
    const ac_front **fronts;
    ac_choice now, best;
    int *next; /* points of what is tried next, while it is looked for */
    int64_t
        *off; /* by point of the tight layer: planned bytes less the model; INT64_MAX: unknown */
    int n_off;
    int64_t limit; /* bytes that it may be planned for; what is to go to far memory, too */
    double compute[2], link[2]; /* seconds of a micro-batch, forward and behind it: of all but far
                                   memory, and of that */
    int64_t fits, exceeds;      /* the largest model that did, the least that did not */
    int64_t planned, arena, state, best_planned;
    int64_t least, least_arena; /* the fewest bytes of all that was tried */
    bool least_keeps;           /* and something is kept there */
    bool device;                /* it is the device that has the least to give, not the key */
    uint64_t tried[WEFT_MOST_ROUNDS];
    int n_tried;
    int seen; /* the round in which it was looked at last */
    bool settled;
} ac_stage;

struct ac_budget {
    weft_pool pool;
    int n_values;   /* of the placed graph */
    bool *in_block; /* by id: a node of a layer made it */
    bool *again;    /* by id: it is computed again */
    ac_layer *layers;
    int n_layers;
    ac_front *fronts;
    int n_fronts;
    ac_stage *stages;
    int n_stages;
    int64_t limit; /* bytes; share: 0 */
    int64_t room;  /* the device's, what libraries take among it; 0: nobody knows, or no matter */
    bool shares;   /* plugin offload looks for what lies far, too: nothing is refused here */
    int since;     /* the round in which it began to look for one of its ways */
    const char *way;
    struct ac_way *ways; /* those that are behind it */
    bool known;          /* seconds are of a device that says what it reaches */
};

/* What was chosen where that much lay far. */
typedef struct ac_way {
    const char *name;
    int *points; /* by layer */
    struct ac_way *next;
} ac_way;

/* A gradient that waits, in the place of a kept value or with what is always made again. */
typedef struct ac_waiting {
    int with, host; /* ids; -1: it waits in any case; it has a place of its own */
    int64_t bytes;
    struct ac_waiting *next;
} ac_waiting;

/* What a plan in which all is kept says; by id, as far as values are the placed graph's. */
typedef struct ac_sight {
    double *seconds; /* of the node whose first result it is */
    double *parts;   /* of nodes that were not in the placed graph, and are made for that one */
    bool *read;      /* by the backward */
    bool *there;     /* its maker is a node of the forward still */
    int64_t *places;
    bool *late;         /* gradients of weights read it when the backward is over */
    int64_t *beside;    /* bytes of gradients that wait for that with it, somewhere of their own */
    bool *counted;      /* by id of the trained graph: a gradient that waits, and is counted */
    double *lost;       /* by layer: seconds of nodes that stand for one of the placed graph */
    int64_t *waiting;   /* by layer: micro-batches whose backward's gradients wait at once */
    ac_waiting **waits; /* by layer */
    bool *own;          /* by id of the trained graph: it is the first in a buffer of the arena */
} ac_sight;

/* ---- late.c: gradients of weights that wait until the backward is over ---- */

bool ac_is_read_late(const weft_value *v);
/* What they read, and the gradients that wait with it. */
weft_status ac_read_late(ac_budget *a, const weft_graph *g, ac_sight *s, weft_error *err);
/* Of a layer: places, and what waits. */
weft_status ac_weigh_late(ac_budget *a, ac_layer *l, const ac_sight *s, weft_error *err);

/* ---- layers.c: what there is, and what the first plan says of it ---- */

/* Of the pool, for n of them and one more; NULL: no memory is left. */
static inline void *ac_take(ac_budget *b, size_t n, size_t size)
{
    return weft_pool_alloc(&b->pool, (n + 1) * size);
}

/* Of a placed graph; NULL: no memory is left. ac_budget_destroy. */
ac_budget *ac_collect(const ac *self, weft_graph *g);
/* Seconds, what the backward reads, fronts, and where each rank holds the most. */
weft_status ac_look(ac_budget *a, weft_plan *plan, weft_error *err);
/* What a rank takes of the budget, which is the larger the less the device has for it. */
int64_t ac_bytes_of(const ac_budget *a, const weft_planned *p);
const ac_front *ac_front_of(const ac_budget *a, const ac_layer *l);
/* What a layer takes if nothing is computed again. */
const ac_point *ac_full_of(const ac_budget *a, const ac_layer *l);

/* ---- share.c: beside plugin offload, which puts far what has no room ---- */

/* The memory of a rank that offload plans for; 0: it does not choose. */
int64_t ac_shared_limit(const ac *self);
/* Has offload gone on to another way of lying far? Then all is looked for anew, and `now` is what
 * to begin with. */
weft_status ac_share(ac *self, weft_plan *plan, bool *anew, weft_error *err);

/* ---- tries.c: of one rank ---- */

/* The fastest whose model is at most so much, or, share not below 0, that keeps no more than that
 * share; false: there is none. */
bool ac_choose(const ac_budget *a, const ac_stage *st, int64_t most, double share, ac_choice *out);
void ac_choose_least(const ac_budget *a, const ac_stage *st, ac_choice *out);
/* What a choice should take. */
void ac_choice_weigh(const ac_budget *a, const ac_stage *st, ac_choice *c);
/* What the planner said of what was tried. */
void ac_learn(const ac_budget *a, ac_stage *st);
/* What to try next, if anything is left that could be better; else st->settled, and what is best,
 * if anything fits, is what is tried. tries: so far. */
void ac_try_next(const ac_budget *a, ac_stage *st, int tries);
/* Beside offload: over: no more is tried. Where nothing fits it is what takes the least. */
void ac_settle_shared(const ac_budget *a, ac_stage *st, bool over);

#endif
