/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of `weft oracle` share: what a run was like, and how far two may part. */
#ifndef WEFT_TOOLS_ORACLE_H
#define WEFT_TOOLS_ORACLE_H

#include "compile/graph/map.h"
#include "execute/run.h"
#include "launch/ranks.h"

/* How far what one rank holds is from the reference's, of the rank of which it is worst. Both are
 * relative to the reference's size there, or to the part's share of the whole where that is more.
 */
typedef struct oracle_part {
    double error; /* in the Euclidean norm */
    double scale; /* by what factor it is too large or too small, beyond what rounding does */
} oracle_part;

/* What of a tensor each rank holds: places, no data. */
typedef struct oracle_parts {
    weft_tensor *list;
    int n, room;
} oracle_parts;

/* The logits of a row may be so far apart where products read 8 bits. */
#define ORACLE_TURNED 0.0625
/* The gradients of values may be so many times farther apart than values. */
#define ORACLE_CANCELS 16

/* One trained tensor of one step, assembled over all ranks. */
typedef struct oracle_tensor {
    const char *name, *gradient_name;
    int64_t count;
    double *gradient, *parameter;
    double *before;     /* the parameter before the first step; NULL: this is not that */
    oracle_part part;   /* of the gradient; of the run that is compared */
    oracle_parts parts; /* of the gradient */
    double rounding;    /* what its update's nodes round to takes it so far, relative to itself */
    bool fed;           /* the gradient is the sum of what was fed alone */
    bool frozen;        /* gradient is all zeros */
} oracle_tensor;

typedef struct oracle_step {
    double loss, norm;
    double head; /* loss.head, where the loss has several terms; else the loss */
    oracle_tensor *tensors;
} oracle_step;

/* One value of a graph. */
typedef struct oracle_value {
    const char *name, *op, *by;
    const char *becomes; /* "-> NAME" of a parameter or state that it updates, by which it is known,
                            too: its own name is a number; NULL */
    int block;
    weft_attr *attrs; /* of its node */
    int n_attrs;
    int64_t count, dims[WEFT_MAX_DIMS];
    int n_dims;
    bool backward;
    bool moves;                 /* changes a layout alone */
    bool numbered;              /* its name depends on what else is in the graph */
    bool term;                  /* one of several terms of a gradient */
    bool apart;                 /* its places depend on the mesh */
    bool changed;               /* the reference has none of this name, or makes it by another op */
    struct oracle_value *cause; /* where it was made otherwise than in the reference: nearest in its
                                   chain, itself included; NULL: nowhere */
    double *whole; /* of a value of the forward, in micro-batch 0 of the traced step; NULL: not
                      traced */
    double size;   /* of the reference's, in the Euclidean norm; -1: not known yet */
    oracle_part part;
    uint64_t id;           /* what it is known by in both graphs; 0: it is not fed */
    double *fed;           /* [micro_batches count]: what a reference that is fed gets */
    int64_t micro_batches; /* of a step */
    oracle_parts parts;    /* of micro-batch 0 */
    bool replaced;         /* by what it was fed */
    bool compared;         /* with that, being made of what was fed alone */
} oracle_value;

/* What the trained model says of data that it has not learnt from. */
typedef struct oracle_said {
    double loss;
    int64_t tokens;   /* of validation, or samples */
    const char *unit; /* what they are, static */
    int n;            /* tokens written, of all texts */
    int64_t vocab;
    int32_t *ids;  /* [n]: the likeliest */
    int *text_of;  /* [n] */
    float *logits; /* [n vocab] */
} oracle_said;

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
    bool terms;                         /* the loss has several */
    bool half;                          /* products read or make bf16 */
    bool eighth;                        /* products read floats of 8 bits */
    weft_map rounded;                   /* of `roundings`, by step, micro-batch and value */
    struct oracle_rounding **roundings; /* what was rounded to 8 bits */
    int n_roundings, roundings_room;
    struct oracle_choice **choices; /* what was chosen, as the run did by itself */
    int n_choices, choices_room;
    double replica_error;     /* the largest difference between ranks that should hold the same */
    const char *replica_name; /* the parameter */
    const char *replica_of;   /* "gradient" or "parameter" */
    oracle_said said;
    bool evaluate, generate; /* behind the last step */
    bool writes;             /* it can generate text */
    /* tracing: the last step's forward */
    bool trace;
    const struct oracle_record
        *reference; /* the other run, recorded before; NULL: this is the reference */
    bool fed;       /* every micro-batch's values are kept for a reference that will be fed them */
    const struct oracle_record *feeds;       /* whose values replace this run's; NULL: nobody's */
    const struct oracle_record *learns_from; /* whose gradients its update reads; NULL: its own */
    bool shaken; /* and changed by as much as the update's nodes may round */
    const struct oracle_record *chooses_as; /* whose choices replace this run's; NULL: nobody's */
    weft_map by_name, by_id;
    int64_t micro_batch;
    bool seq_ordered;     /* the sequence lies in an order of its own */
    int chunks;           /* parts of the head */
    oracle_value *values; /* in the graph's order */
    int n_values;
} oracle_record;

/* ---- record.c ---- */

/* false: out of memory. Release in every case. */
bool oracle_record_init(oracle_record *r, int64_t n_steps);
void oracle_record_release(oracle_record *r);
/* After all ranks: where no plugin reports the gradients' norm it is that of what was recorded. */
void oracle_complete(oracle_record *r);
/* Body of weft_ranks_run; ctx is the record. */
weft_status oracle_run(weft_rank *rank, void *ctx);

/* ---- values.c ---- */

/* Lists the values of a run's graph, and where it differs from the reference's. */
weft_status oracle_list_values(oracle_record *r, const weft_graph *g, int64_t micro_batches,
                               weft_error *err);
weft_status oracle_probe_value(weft_probe *probe, weft_run *run, const weft_value *v,
                               const weft_tensor *local, int64_t micro, weft_error *err);
/* ---- part.c ---- */

/* Elements i .. i + n - 1 of a rank's part, which lie from `at` on in the whole; begins as zeros.
 */
typedef struct oracle_row {
    int64_t i, n;
    uint64_t at;
} oracle_row;

bool oracle_next_row(const weft_tensor *part, oracle_row *row);
/* whole: with what the part has added to it. */
void oracle_add(double *whole, const weft_tensor *part);

/* A rank's part t of a tensor that the reference has as a whole; least: at the least so large. */
void oracle_measure(const double *reference, const weft_tensor *t, double least,
                    oracle_part *worst);

/* How many times as far apart as a bound a tensor may be of which few elements are all. */
double oracle_tolerance(const double *reference, int64_t n);

/* The same of the whole. */
void oracle_measure_whole(const double *reference, const double *other, int64_t n,
                          oracle_part *worst);

/* The same of the whole, and of parts, of which each may be an eighth of its share. */
void oracle_measure_parts(const double *reference, const double *other, int64_t n,
                          const oracle_parts *parts, double least, oracle_part *worst);

/* ---- outputs.c ---- */

/* After training: validation and texts, where the record asks for them. All ranks. */
weft_status oracle_listen(oracle_record *r, weft_run *run, weft_error *err);

/* ---- settings.c ---- */

/* A setting of those that say what is computed. */
typedef struct oracle_setting {
    const char *section, *key, *text;
    double number; /* 0: it is none */
} oracle_setting;

typedef struct oracle_survey {
    weft_pool pool;
    oracle_setting *list;
    int n, ranks;   /* ranks that the mesh asks for */
    bool evaluates; /* there is validation */
} oracle_survey;

/* Release in every case. */
weft_status oracle_survey_settings(oracle_survey *to, const weft_session *session, weft_error *err);
void oracle_survey_release(oracle_survey *survey);
/* A line for each that differs where both runs have it; how many. */
int oracle_compare_settings(const oracle_survey surveys[2], weft_text *out);
/* Is a constant of an op that both have another one? A line in any case. */
bool oracle_compare_constants(const oracle_record *a, const oracle_record *b, weft_text *out);

/* Of ranks that hold the same, the first one speaks; terms of open sums are added up. */
bool oracle_speaks(const weft_run *run, const weft_value *v);

/* ---- feed.c ---- */

/* Of all values that were listed: what each is known by. */
weft_status oracle_identify(oracle_record *r, const weft_graph *g, int64_t micro_batches,
                            weft_error *err);
bool oracle_add_part(weft_pool *pool, oracle_parts *to, const weft_tensor *t);
/* A rank's part of what a reference will be fed. */
weft_status oracle_keep(oracle_record *r, oracle_value *to, const weft_value *v,
                        const weft_tensor *local, int64_t micro, weft_error *err);
/* A rank's part of v becomes that of what `by` is as a whole. */
weft_status oracle_replace(weft_run *run, const weft_value *v, int64_t micro, const double *by,
                           weft_error *err);
/* Is v made of what was fed, added up and moved, and of what is the same in all micro-batches? */
bool oracle_is_fed(const oracle_record *r, const weft_value *v);
/* Compares what a reference has made with what it is fed, and puts that in its place. */
weft_status oracle_feed(oracle_record *r, weft_run *run, const weft_value *v,
                        const weft_tensor *local, int64_t micro, weft_error *err);

/* ---- update.c ---- */

/* Of every parameter of a graph, in its order: what the nodes of its update round to. */
weft_status oracle_find_rounding_of_updates(const weft_graph *g, oracle_tensor *tensors,
                                            weft_error *err);
/* In the one of both runs that rounds more; x is the reference's. */
double oracle_update_rounding(const oracle_record *b, const oracle_tensor *x);
/* Does one of both runs round more in one? */
bool oracle_updates_differ(const oracle_record *a, const oracle_record *b);
/* How far parameters may have parted by that before a step, relative to themselves. a is the
 * reference. */
double oracle_drift(const oracle_record *a, const oracle_record *b, int64_t step);

/* ---- choices.c ---- */

typedef struct oracle_choice oracle_choice;

/* Where v is what was chosen: keeps it, and puts the other run's in its place, in `local`, too. */
weft_status oracle_choose(oracle_record *r, weft_run *run, const weft_value *v,
                          const weft_tensor *local, int64_t micro, weft_error *err);
/* Of how many choices that both runs made are how many not the same? */
int64_t oracle_count_turned(const oracle_record *a, const oracle_record *b, int64_t *all);

/* ---- rounding_f8.c ---- */

/* Where v is rounded to 8 bits: how near its elements are to rounding to the other neighbour. */
weft_status oracle_round(oracle_record *r, weft_run *run, const weft_value *v, int64_t micro,
                         weft_error *err);
/* ---- bound.c ---- */

/* How far two runs may be apart at the end of a step's roundings, relative. */
typedef struct oracle_errors {
    double whole;             /* of a tensor, in the Euclidean norm */
    double scale;             /* of what a tensor or a part of it is as a whole too large */
    double element;           /* of one element */
    const char *at;           /* where a value was rounded otherwise, without need; NULL: nowhere */
    double farthest, allowed; /* there: from a halfway point, and how far is near enough */
} oracle_errors;

/* Of what sums and parameters are kept in. */
double oracle_epsilon(const oracle_record *a, const oracle_record *b);
/* Rounding of what is computed in what sums and parameters are kept in, in the first step. */
double oracle_plain_bound(const oracle_record *a, const oracle_record *b);
/* Rounding of what passes through the blocks, of sums over the tokens of a step, and to 8 bits; see
 * docs/oracle.md. a is the reference. */
oracle_errors oracle_bound(oracle_record *a, const oracle_record *b, int64_t step);
/* How much too large or too small, as a whole, a gradient may be: in bf16 what is left of large
 * terms is rounded by more than its own share. */
double oracle_gradient_scale(const oracle_errors *e);

/* ---- compare.c ---- */

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

/* Adds another verdict to it. */
void oracle_join(oracle_verdict *to, const oracle_verdict *other);
/* Notes an error in step s, 0-based. */
void oracle_judge(oracle_verdict *v, double error, double bound, const char *what, int64_t s,
                  const char *name);
/* Both of its errors. */
void oracle_judge_part(oracle_verdict *v, const oracle_part *part, const oracle_errors *bound,
                       const char *what, int64_t s, const char *name);
/* |a - b| over |a|, or over `least` where that is more. cosine, size (of a) may be NULL. */
double oracle_relative(const double *a, const double *b, int64_t n, double least, double *cosine,
                       double *size);
/* A gradient's error, its norm and the size below which it is noise. */
double oracle_gradient_error(const oracle_record *a, const oracle_record *b, const oracle_tensor *x,
                             const oracle_tensor *y, int64_t step, double bound, double *cosine,
                             bool *noise);
/* What of the gradient norm is this tensor's by its number of elements. */
double oracle_gradient_share(const oracle_record *a, const oracle_record *b, const oracle_tensor *x,
                             int64_t step);
const oracle_tensor *oracle_find(const oracle_record *r, int64_t step, const char *name);
/* A line a step into out. exact: bit for bit, of what it names. Within rounding, what updates did
 * has a verdict of its own. */
void oracle_compare(oracle_record *a, const oracle_record *b, oracle_exactness exact,
                    oracle_verdict *v, oracle_verdict *updates, weft_text *out);
/* What updates did, of a reference that learnt from b's gradients, and how far they go when these
 * are shaken; shaken: NULL: that was not tried. */
void oracle_compare_updates(const oracle_record *a, const oracle_record *shaken,
                            const oracle_record *b, oracle_verdict *v, weft_text *out);

/* ---- common.c ---- */

/* Of two models with different parameters, or losses of other terms, what only one has is named
 * (out NULL: it is not) and taken out of both records. */
weft_status oracle_take_common(oracle_record *a, oracle_record *b, weft_text *out, weft_error *err);

/* ---- outputs.c ---- */

/* Validation and texts, as far as both were asked for them. */
void oracle_compare_said(oracle_record *a, const oracle_record *b, oracle_verdict *v,
                         weft_text *out);

/* ---- feed.c ---- */

/* fed: the reference, fed what b recorded. Names the first op that makes something else. */
void oracle_compare_fed(const oracle_record *fed, const oracle_record *b, oracle_verdict *v,
                        weft_text *out);

/* ---- trace.c ---- */

/* Every value of one step's forward and backward that both runs have: the whole, and each rank's
 * part. */
void oracle_compare_values(oracle_record *a, const oracle_record *b, oracle_verdict *v,
                           weft_text *out);

/* Both runs were traced up to the step in which they first part: the first value of the forward
 * that parts, else the first gradient of a parameter.
 */
void oracle_explain(oracle_record *a, const oracle_record *b, oracle_exactness exact,
                    weft_text *out);

/* "%NAME = OP (block), caused by PLUGIN", and by how much it parts. */
void oracle_print_value(weft_text *out, const oracle_value *v);
void oracle_print_apart(weft_text *out, const oracle_part *apart, const oracle_errors *bound);

#endif
