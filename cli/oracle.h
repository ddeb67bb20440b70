/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of `weft oracle` share: what a run was like, and how far two may part. */
#ifndef WEFT_CLI_ORACLE_H
#define WEFT_CLI_ORACLE_H

#include "graph/map.h"
#include "ranks.h"
#include "run/run.h"

/* One trained tensor of one step, assembled over all ranks. */
typedef struct oracle_tensor {
    const char *name, *gradient_name;
    int64_t count;
    double *gradient, *parameter;
    bool frozen; /* gradient is all zeros */
} oracle_tensor;

typedef struct oracle_step {
    double loss, norm;
    oracle_tensor *tensors;
} oracle_step;

/* One value of a graph. */
typedef struct oracle_value {
    const char *name, *op, *by;
    int block;
    int64_t count;
    bool moves;                 /* changes a layout alone */
    bool changed;               /* the reference has none of this name, or makes it by another op */
    struct oracle_value *cause; /* where it was made otherwise than in the reference: nearest in its
                                   chain, itself included; NULL: nowhere */
    double *whole; /* of a value of the forward, in micro-batch 0 of the traced step; NULL: not
                      traced */
} oracle_value;

/* What one run was like. Filled by its ranks under the lock. */
typedef struct oracle_record {
    weft_probe probe;
    pthread_mutex_t lock;
    weft_pool pool;
    int64_t n_steps;
    oracle_step *steps;
    int n_tensors, ranks, blocks;
    int64_t tokens;                     /* of a step: the longest sum */
    bool wide;                          /* everything in f64 */
    bool half;                          /* products read or make bf16 */
    bool eighth;                        /* products read floats of 8 bits */
    weft_map rounded;                   /* of `roundings`, by step, micro-batch and value */
    struct oracle_rounding **roundings; /* what was rounded to 8 bits */
    int n_roundings, roundings_room;
    double replica_error;     /* the largest difference between ranks that should hold the same */
    const char *replica_name; /* the parameter */
    const char *replica_of;   /* "gradient" or "parameter" */
    /* tracing: the last step's forward */
    bool trace;
    const struct oracle_record
        *reference; /* the other run, recorded before; NULL: this is the reference */
    weft_map by_name;
    int64_t micro_batch;
    bool seq_ordered;     /* the sequence lies in an order of its own */
    oracle_value *values; /* in the graph's order */
    int n_values;
} oracle_record;

/* ---- oracle_record.c ---- */

/* false: out of memory. Release in every case. */
bool oracle_record_init(oracle_record *r, int64_t n_steps);
void oracle_record_release(oracle_record *r);
/* After all ranks: where no plugin reports the gradients' norm it is that of what was recorded. */
void oracle_complete(oracle_record *r);
/* Body of weft_ranks_run; ctx is the record. */
weft_status oracle_run(weft_rank *rank, void *ctx);

/* ---- oracle_values.c ---- */

/* Lists the values of a run's graph, and where it differs from the reference's. */
weft_status oracle_list_values(oracle_record *r, const weft_graph *g, weft_error *err);
weft_status oracle_probe_value(weft_probe *probe, weft_run *run, const weft_value *v,
                               const weft_tensor *local, int64_t micro, weft_error *err);
/* Of ranks that hold the same, the first one speaks; terms of open sums are added up. */
bool oracle_speaks(const weft_run *run, const weft_value *v);

/* ---- oracle_rounding.c ---- */

/* Where v is rounded to 8 bits: how near its elements are to rounding to the other neighbour. */
weft_status oracle_round(oracle_record *r, weft_run *run, const weft_value *v, int64_t micro,
                         weft_error *err);
/* ---- oracle_bound.c ---- */

/* How far two runs may be apart at the end of a step's roundings, relative. */
typedef struct oracle_errors {
    double whole;             /* of a tensor, in the Euclidean norm */
    double element;           /* of one element */
    const char *at;           /* where a value was rounded otherwise, without need; NULL: nowhere */
    double farthest, allowed; /* there: from a halfway point, and how far is near enough */
} oracle_errors;

/* Rounding of what passes through the blocks, of sums over the tokens of a step, and to 8 bits; see
 * docs/oracle.md. a is the reference. */
oracle_errors oracle_bound(oracle_record *a, const oracle_record *b, int64_t step);

/* ---- oracle_compare.c ---- */

typedef enum oracle_exactness {
    ORACLE_ROUNDING,
    ORACLE_BACKWARD,  /* loss and gradients; the norm, a sum over ranks, by its bound */
    ORACLE_GRADIENTS, /* and the norm */
    ORACLE_ALL        /* and parameters after the update */
} oracle_exactness;

typedef struct oracle_verdict {
    double worst;  /* the largest error over its bound */
    int64_t first; /* step in which they first part, 0-based; -1: nowhere */
    char text[256];
} oracle_verdict;

/* |a - b| over |a|, or over `least` where that is more. cosine, size (of a) may be NULL. */
double oracle_relative(const double *a, const double *b, int64_t n, double least, double *cosine,
                       double *size);
/* A gradient's error, its norm and the size below which it is noise. */
double oracle_gradient_error(const oracle_record *a, const oracle_tensor *x, const oracle_tensor *y,
                             int64_t step, double bound, double *cosine, bool *noise);
const oracle_tensor *oracle_find(const oracle_record *r, int64_t step, const char *name);
/* A line a step into out. exact: bit for bit, of what it names. */
weft_status oracle_compare(oracle_record *a, const oracle_record *b, oracle_exactness exact,
                           oracle_verdict *v, weft_text *out, weft_error *err);

/* ---- oracle_trace.c ---- */

/* Both runs were traced up to the step in which they first part: the first value of the forward
 * that parts, else the first gradient of a parameter.
 */
void oracle_explain(oracle_record *a, const oracle_record *b, oracle_exactness exact,
                    weft_text *out);

#endif
