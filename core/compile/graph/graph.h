/* SPDX-License-Identifier: Apache-2.0 */
/* What the rooms of core/compile, and core/execute after them, share of a graph. */
#ifndef WEFT_GRAPH_GRAPH_H
#define WEFT_GRAPH_GRAPH_H

#include "compile/graph/map.h"
#include "compile/graph/rule.h"
#include <weft/graph.h>
#include <weft/op.h>
#include <weft/params.h>
#include <weft/pass.h>
#include <weft/service.h>

/* Limits that no machine reaches, far enough below 64 bits for sums and products of a few such
 * numbers. */
#define WEFT_MAX_ELEMENTS ((int64_t)1 << 50) /* of one value, and of the tokens of a step */
#define WEFT_MAX_BYTES    ((int64_t)1 << 60) /* of all values together */

/* All ops that a run knows: the structural ones and those of its plugins. Shared by its graphs. */
typedef struct weft_ops {
    weft_pool pool;
    weft_map by_name, owners;
} weft_ops;

/* The structural ops, NULL-ended (ops.c). */
const weft_op *const *weft_core_ops(void);
/* more: NULL-ended arrays of ops from plugins, n_more of them, which names[i] (NULL: nobody's) has
 * brought; a name twice is an error. */
weft_status weft_ops_init(weft_ops *ops, const weft_op *const *const *more,
                          const char *const *names, int n_more, weft_error *err);
/* The plugin that brought an op; NULL: the core. ops may be NULL. */
const char *weft_ops_owner(const weft_ops *ops, const weft_op *op);
void weft_ops_release(weft_ops *ops);
const weft_op *weft_ops_find(const weft_ops *ops, const char *name);
/* Can the rules, linear groups and gradient statements of these ops, which are among `ops`, be
 * read, and is there what they speak of? */
weft_status weft_ops_check_texts(const weft_ops *ops, const weft_op *const *list, weft_error *err);

typedef struct weft_table_line {
    weft_rule_of of;
    const char *pattern, *dim; /* NULL: any; whole */
    int axis;                  /* -1: one that has but one rank */
    const char *by;
    const char *text; /* the user's words: it counts before all of plugins; NULL: a plugin's */
    weft_where where;
} weft_table_line;

typedef struct weft_sizes {
    int64_t micro_batch, seq_len, micro_batches; /* of the whole mesh */
    int64_t loss_chunk;                          /* tokens per chunk of the head; 0: auto */
} weft_sizes;

typedef struct weft_report_value {
    const char *name;
    weft_value *value;
    const char *by;          /* who reports it */
    const char *why, *other; /* the step is refused unless it is 0: see weft_add_refusal; NULL */
} weft_report_value;

/* One term of the loss as it counts in it: weight and scale are in the value. Terms may share a
 * name. */
typedef struct weft_loss_term {
    const char *name;
    weft_value *value;
} weft_loss_term;

typedef struct weft_graph_config {
    weft_mode mode;
    weft_mesh mesh;
    const weft_ops *ops;
    const struct weft_kernels *kernels; /* of the run's device, for passes that ask; NULL: none */
    weft_dtype dtype;
    weft_sizes sizes;
    int64_t head_tokens; /* tokens of a rank per chunk of the head, as the device wishes; 0: it
                            does not care */
    uint64_t
        dice; /* tests: not 0: a random legal role for every axis of every op, from this seed */
    /* Of GENERATE and DECODE: the most tokens of a text (0: seq_len), and the places of the
     * key-value cache (0: there is none). */
    int64_t context, places;
    const weft_graph *training; /* of the other modes of a training run: where what they share is
                                   stored; NULL: there is none */
    const char (*axes)[24];     /* that plugins have declared, of one rank, too */
    int n_axes;
    bool partial;             /* not all passes will run */
    bool one_document;        /* as weft_data promises */
    const weft_field *fields; /* of samples; NULL: those of text */
    const char *fields_by;    /* the plugin whose they are; NULL: there are no data */
} weft_graph_config;

/* Where a node is added, and what it takes from there. */
typedef struct weft_spot {
    weft_node *before; /* NULL: at the end */
    int block, chunk;
    weft_phase phase;
    weft_scope scope; /* of a placed graph: not earlier than this */
} weft_spot;

/* A rule or storage for an axis that the mesh does not have: of one rank, or one that nobody
 * declares. */
typedef struct weft_stray {
    const char *by, *axis;
} weft_stray;

struct weft_graph {
    weft_graph_config config;
    weft_pool pool;
    weft_error error;
    weft_node *first, *last;
    int n_nodes, n_values, n_blocks;
    weft_map names;   /* value by name */
    weft_map numbers; /* int by name: see weft_graph_name */
    weft_map inputs;  /* value by input name */
    weft_map moved;   /* redistributes already made: (value, layout, phase) -> value */
    weft_map dims;    /* weft_dim by name */
    weft_value **parameters;
    int n_parameters, parameters_capacity;
    weft_value **states;
    int n_states, states_capacity;
    weft_value **inputs_list;
    int n_inputs, inputs_capacity;
    weft_table_line **table;
    int n_table, table_capacity;
    int storage[WEFT_MAX_AXES], n_storage;
    const char *storage_by[WEFT_MAX_AXES]; /* of each: who added it */
    const char *gathered_by;  /* who makes weights whole that are stored in shards, once placed */
    const int32_t *seq_order; /* see weft_set_seq_order; NULL: as it is */
    const int32_t *seq_ends;  /* by place in memory: behind the run that it is in */
    const char *seq_order_by;
    weft_axes regather;
    const char *regather_by;
    weft_stray **strays;
    int n_strays, strays_capacity;
    weft_report_value *reports;
    int n_reports, reports_capacity;
    char **notes; /* "plugin: what it says" */
    int n_notes, notes_capacity;
    weft_loss_term **terms; /* train: what loss is the sum of */
    int n_terms, terms_capacity;
    weft_value *loss, *loss_report; /* the differentiated loss; what the loop reads of it */
    weft_value *loss_sum, *tokens;  /* evaluate: sums over the micro-batch */
    weft_value *inverse;            /* train: 1 / tokens of the step */
    bool counted;          /* tokens: by weft_set_loss_count, of whatever the loss is the mean of */
    weft_value *grad_norm; /* train: of all gradients, once somebody has asked */
    weft_value *logits;    /* generate */
    bool placed;           /* nodes are placed as they are added */
    bool differentiating;  /* the backward is being built */
    int *stages;           /* of blocks: stages.c */
    int *stage_ranks;      /* of stages, where somebody says it; -1: the loop's */
    int stages_capacity, stage_ranks_capacity;
    const char *stages_axis, *stages_by; /* the axis, who set them; NULL: nobody */
    bool has_parts, waits_all;           /* nodes know their part and stage; W waits for all */
    /* where and on whose behalf nodes are added */
    const char *prefix, *parameter_prefix; /* of names to come; NULL: none */
    weft_spot spot, end;                   /* end: where weft_graph_at returns to */
    const char *by;
    uint64_t rolls; /* of the dice so far */
};

weft_status weft_graph_create(const weft_graph_config *config, weft_graph **out, weft_error *err);
void weft_graph_destroy(weft_graph *g);

/* A node as a whole; name of result 0 as in weft_add. */
typedef struct weft_node_spec {
    const weft_op *op;
    const char *name;
    int n_ins;
    weft_value *const *ins;
    int n_outs;
    weft_value *like;
    const weft_attr *attrs;
    int n_attrs;
    weft_value *const *gradient_of; /* results are gradients of these values, one each: their dims,
                                       their names with a ' behind; NULL: infer */
    const weft_dtype *dtypes;       /* with gradient_of */
    weft_scope scope;
} weft_node_spec;

/* NULL after an error. In a placed graph the node is placed. */
weft_node *weft_graph_add_node(weft_graph *g, const weft_node_spec *spec);
/* The node alone: not inferred, not placed. */
weft_node *weft_node_new(weft_graph *g, const weft_node_spec *spec);
/* A node as n is, of other operands, where the graph stands. Its results have n's dtypes and dims,
 * and nothing else of theirs. */
weft_node *weft_node_copy(weft_graph *g, const weft_node *n, const char *name,
                          weft_value *const *ins);
void weft_node_unlink(weft_graph *g, weft_node *n);
void weft_node_link(weft_graph *g, weft_node *n, weft_node *before);
/* Replaces operand i, whatever its layout. */
void weft_node_relink(weft_graph *g, weft_node *n, int i, weft_value *v);
/* Takes the last operand off, and returns it. */
weft_value *weft_node_drop_operand(weft_node *n);
/* Moves n right before `at` if it stands behind it; its operands must stand before that. */
void weft_node_come_before(weft_graph *g, weft_node *n, weft_node *at);
/* Adds pointer p to a growing array in the graph's pool. */
bool weft_graph_push(weft_graph *g, void ***list, int *n, int *capacity, void *p);
/* If not, that is noted; name: of the node's result, NULL: not known. */
weft_status weft_check_attr(weft_graph *g, const weft_op *op, const char *name, const char *key);
/* Of this key; NULL: none is. What it is, as a number or a text; NULL, or of the other kind: 0, "".
 */
const weft_attr *weft_attr_find(const weft_attr *list, int n, const char *key);
int64_t weft_attr_int(const weft_attr *attr);
double weft_attr_real(const weft_attr *attr);
const char *weft_attr_text(const weft_attr *attr);
/* What kernels read of a node's attributes, for weft conform. */
typedef struct weft_attr_watch {
    char key[64]; /* the first one that was read and that the op does not declare; "": none */
} weft_attr_watch;

/* Gives the node that made v an attribute, unchecked; key and text are copied. */
void weft_node_set_attr(weft_graph *g, weft_value *v, weft_attr attr);
/* weft_add_report, unchecked. */
void weft_graph_report(weft_graph *g, const char *name, weft_value *v);
extern const weft_field weft_text_fields[];               /* of data that say nothing of fields */
const weft_field *weft_graph_fields(const weft_graph *g); /* ended by one without a name */
/* Which field fills this input; of_step: of all the step's micro-batches. NULL: none. */
const weft_field *weft_input_field(const weft_graph *g, const char *name, bool *of_step);
/* Is the graph one that writes? */
bool weft_graph_writes(const weft_graph *g);
/* Is the loss a mean over labels of a sequence? Else over samples, or what the model counts. */
bool weft_graph_has_tokens(const weft_graph *g);
/* The number of a sample, which is read as a field is. */
extern const weft_field weft_number_field;
/* How far what this input has lies behind its place: 2 of "labels+2"; 0: nothing. */
int64_t weft_input_shift(const char *name);
/* A name that no value has yet: base, or base with a number. */
const char *weft_graph_name(weft_graph *g, const char *base);

weft_status weft_infer(weft_graph *g, weft_node *n);
/* The rule of a node, parsed. Operand n_ins is `like`, if there is one; results: those of the node
 * are known. */
weft_status weft_node_find_rule(const weft_graph *g, const weft_node *n, bool results,
                                weft_rule *rule, weft_error *err);

/* by takes the place of v among what the run and reports read. */
void weft_graph_replace_root(weft_graph *g, const weft_value *v, weft_value *by);

/* ---- parameters, state, inputs (build.c, state.c) ---- */

/* A node without operands; its value has no dims yet. */
weft_value *weft_source_new(weft_graph *g, const char *op, const char *name, weft_scope scope);
/* Looks dim names up: "ffn embed" -> v's dims. */
weft_status weft_source_shape(weft_graph *g, weft_value *v, const char *shape);
/* What is shaped: placed, if the graph is. v, or NULL after an error. */
weft_value *weft_source_finish(weft_graph *g, weft_value *v);
const char *weft_state_kind_name(weft_state_kind kind);
/* Are dims and dtype the same? */
bool weft_same_shape(const weft_value *a, const weft_value *b);
/* When all passes are done, training: state that nobody needs, parameters that no optimizer takes.
 */
weft_status weft_graph_check_updates(weft_graph *g);
/* And reports of what each micro-batch has its own of (graph.c). */
weft_status weft_graph_check_reports(weft_graph *g);
/* Of these, the parameters (optimize.c). */
weft_status weft_graph_check_claims(weft_graph *g);

/* ---- terms of the loss (loss.c) ---- */

enum { WEFT_LOSS_NAME = 64 }; /* a name, with its end */
/* Have terms more than one name? Only then is each reported. */
bool weft_loss_has_terms(const weft_graph *g);
/* Reports them; weft_graph_differentiate calls it. */
weft_status weft_loss_report(weft_graph *g);

/* ---- the table (table.c) ---- */

/* Notes that a plugin has said something of an axis that the mesh does not have. */
void weft_graph_note_stray(weft_graph *g, const char *axis);
bool weft_table_matches(const weft_table_line *line, weft_rule_of of, const char *name);
/* The line that says what an axis does to v, called `name` (of a role: the role); NULL: none. */
const weft_table_line *weft_table_line_of(const weft_graph *g, weft_rule_of of, const char *name,
                                          const weft_value *v, int axis);
/* The user's line that has this axis cut this dim; nowhere: there is none. */
weft_where weft_table_where(const weft_graph *g, int axis, const char *dim);

/* ---- placement (place.c, move.c) ---- */

/* The axis' byte in a layout, without its place in the order within a dim. */
static inline unsigned weft_layout_state(weft_layout l, int axis)
{
    unsigned b = weft_layout_byte(l, axis);
    return b & 0x80u ? b & 0xb8u : b;
}

/* Places every node of the graph in order, then verifies. From here on nodes are placed as they are
 * added. */
weft_status weft_graph_place(weft_graph *g);
/* Places one node, which is linked already. */
weft_status weft_place_node(weft_graph *g, weft_node *n);
/* gather.c: the gather of a parameter from its storage. */
weft_status weft_place_gather(weft_graph *g, weft_node *n);
/* Whoever reads v reads `by`, but for its own maker; so do the run and reports. */
void weft_place_replace(weft_graph *g, weft_value *v, weft_value *by);
/* v in layout `to`, through a redistribute if need be, on behalf of `user`, inserted before it
 * (NULL: at the cursor). */
weft_value *weft_move_to(weft_graph *g, weft_value *v, weft_layout to, weft_node *user,
                         weft_phase phase, const char *why, const char *by);
/* Of a way that was found, in the graph's pool; NULL after an error. */
const weft_step *weft_move_keep(weft_graph *g, const weft_step *steps, int n);
/* A redistribute that reads something else from now on is no longer found for what it read. */
bool weft_move_forget(weft_graph *g, weft_value *moved);
/* Bytes a rank sends to change one axis' state of v; INFINITY if there is no way. */
double weft_move_price(const weft_graph *g, const weft_value *v, int axis, unsigned from,
                       unsigned to);
/* Is the node a total over the step's micro-batches? */
static inline bool weft_node_accumulates(const weft_node *n)
{
    return n->op->flags & WEFT_OP_ACCUMULATES;
}
/* Does the node bring a value from one coordinate of an axis to another? */
static inline bool weft_node_sends(const weft_node *n)
{
    return n->n_steps == 1 && n->steps[0].move == WEFT_SEND;
}
/* Does it move something between far memory and the device's? */
static inline bool weft_node_is_far(const weft_node *n)
{
    return n->op->flags & (WEFT_OP_FETCH | WEFT_OP_EVICT);
}
/* Of a parameter or state: does it lie in far memory? (state.c) */
bool weft_value_is_far(const weft_value *v);
/* Of such a one: has each micro-batch a place of its own there? */
static inline bool weft_place_is_micro(const weft_value *place)
{
    return place->becomes && place->becomes->node->scope == WEFT_MICRO_BATCH;
}
/* From when on v is there: totals over micro-batches are known after the last one. */
weft_scope weft_value_available(const weft_value *v);
/* The layout that the table gives a parameter, state or input. */
weft_status weft_table_source(weft_graph *g, weft_value *v);
/* Where training has a parameter or state, too, it lies here as there, whatever reads it. */
void weft_store_as_trained(const weft_graph *g, weft_value *v);
/* Does a gather take this axis off? */
bool weft_gathers_over(const weft_graph *g, const weft_node *gather, int axis);
/* What the table demands of a value by its role on one axis: true and *state (a layout byte without
 * its place). */
bool weft_table_wants(const weft_graph *g, const weft_value *v, int axis, unsigned *state);

/* ---- autodiff (autodiff.c, reach.c, chunk_order.c) ---- */

/* Adds the backward of the placed graph's loss; parameters get their `gradient`. */
weft_status weft_graph_differentiate(weft_graph *g);
/* Every parameter that is trained has a way to the loss, through operands that their ops have
 * gradients for (reach.c). What has none is noted in err; without a loss, nothing. */
weft_status weft_graph_check_reach(weft_graph *g, weft_error *err);
/* Orders nodes so that the head's chunks run one after the other, forward and backward of each
 * together. */
weft_status weft_graph_order(weft_graph *g);

/* ---- stages (stages.c) ---- */

/* Blocks -3 (the head), -2 (the embedding), 0, 1, ... */
enum { WEFT_FIRST_BLOCK = WEFT_BLOCK_HEAD };

/* Some block of a stage; WEFT_BLOCK_NONE: it has none. */
int weft_graph_block_in(const weft_graph *g, int stage);
/* The axis that stages are spread over; -1: none, all are of every rank. */
int weft_graph_stage_axis(const weft_graph *g);
/* The coordinate on it of a stage; of a block, -1: values of no block, or no axis. */
int weft_graph_stage_rank(const weft_graph *g, int stage);
int weft_graph_block_rank(const weft_graph *g, int block);
/* Before placement: every stage has a block. */
weft_status weft_graph_check_stages(weft_graph *g);
/* Before placement: what is made from weights alone (casts, gathers) is made once for every rank of
 * the pipeline that reads it, so that of a weight that two stages share the stored shard is sent,
 * once a step. */
weft_status weft_graph_copy_weights(weft_graph *g);

/* ---- parts (parts.c) ---- */

/* Gives every node of an ordered graph its part and stage. */
void weft_graph_assign_parts(weft_graph *g);
/* Does the maker run no later than the reader, by part and stage? */
bool weft_node_may_read(const weft_node *reader, const weft_node *maker);
/* Sets mark 1 on what makes the loss, reports and gradients, which are looked at in every step. */
void weft_graph_mark_shown(weft_graph *g);

/* ---- every H steps (every.c) ---- */

enum { WEFT_MOST_PERIODS = 4 }; /* different ones, of a graph */
int64_t weft_gcd(int64_t a, int64_t b);
/* In which steps there is something in v: those that this divides. */
int64_t weft_value_every(const weft_value *v);
/* The operand that the node's result is in other steps; -1: none. */
int weft_node_otherwise(const weft_node *n);
/* Which steps nodes run in; part of weft_graph_assign_parts. */
void weft_graph_assign_every(weft_graph *g);
/* Nothing is read in steps in which it is not made. */
weft_status weft_graph_check_every(weft_graph *g);

/* ---- verifier (verify.c) ---- */

/* Structure, rules, dims, dtypes and, once placed, layouts. Everything that is wrong is noted in
 * err. */
weft_status weft_graph_verify(weft_graph *g, weft_error *err);
/* "name [batch 8, seq 256, embed 4096]", for messages about sizes. */
void weft_value_print_shape(const weft_value *v, weft_text *text);

/* The marks of a node (marks.c): on whom they may be, with the values that they have. */
weft_status weft_check_marks(const weft_node *n, weft_error *err);

/* ---- words (graph.c) ---- */

const char *weft_mode_name(weft_mode mode);
/* "head", "embedding"; NULL for layers and none. */
const char *weft_block_name(int block);

#endif
