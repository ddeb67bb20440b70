/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs: values with named dims and layouts, nodes that make them, and the table by which the core
 * places them.
 *
 * Building never needs an `if`: every builder returns NULL after the first error and passes NULL
 * on; the core asks weft_graph_status at the end of each pass. One thread drives a graph.
 * Everything a graph hands out lives as long as the graph; names are copied. */
#ifndef WEFT_GRAPH_H
#define WEFT_GRAPH_H

#include <weft/mesh.h>
#include <weft/op.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum weft_scope {
    WEFT_SCOPE_NONE,
    WEFT_START,
    WEFT_STEP_BEGIN,
    WEFT_MICRO_BATCH,
    WEFT_STEP_END
} weft_scope;
typedef enum weft_phase { WEFT_FORWARD, WEFT_RECOMPUTE, WEFT_BACKWARD, WEFT_UPDATE } weft_phase;
/* What a graph is built for. The passes run once for each that the run needs. Text is written by
 * two graphs: GENERATE takes the tokens of prompts, a part of the sequence at a time, DECODE one
 * more token. */
typedef enum weft_mode {
    WEFT_MODE_TRAIN,
    WEFT_MODE_EVALUATE,
    WEFT_MODE_GENERATE,
    WEFT_MODE_DECODE,
    WEFT_MODES
} weft_mode;

/* What a schedule orders. A step of training: BEGIN once, F (forward) and B (backward) of every
 * pipeline stage for every micro-batch, STEP_END, where all that is reported becomes known, so that
 * a step that is not finite can be refused before UPDATE touches state. Of a stage that a schedule
 * splits, B is the gradients that others wait for, and W those of its weights, which only the
 * step's totals read. The other modes have BEGIN (once per series), F and STEP_END. */
typedef enum weft_part {
    WEFT_PART_BEGIN,
    WEFT_PART_F,
    WEFT_PART_B,
    WEFT_PART_W,
    WEFT_PART_STEP_END,
    WEFT_PART_UPDATE,
    WEFT_PARTS
} weft_part;

/* Does it run once for every micro-batch? */
static inline bool weft_part_is_micro(weft_part part)
{
    return part == WEFT_PART_F || part == WEFT_PART_B || part == WEFT_PART_W;
}

/* "begin", "forward", "backward", "weights", "step_end", "update". */
const char *weft_part_name(weft_part part);

/* Blocks: 0, 1, ... are transformer layers. */
enum { WEFT_BLOCK_NONE = -1, WEFT_BLOCK_EMBEDDING = -2, WEFT_BLOCK_HEAD = -3 };

/* Where something is, in a sentence: "block 3", "the embedding", "the head" behind `before`;
 * nothing at all, not even that, if it is in none. */
typedef struct weft_block_words {
    char text[40];
} weft_block_words;
weft_block_words weft_block_describe(const char *before, int block);

typedef struct weft_use {
    weft_node *node;
    int operand;
} weft_use;

/* How the elements of a parameter or state begin; a function of (seed, name, global element index)
 * alone. */
typedef enum weft_init_kind {
    WEFT_INIT_ZERO,
    WEFT_INIT_ONE,
    WEFT_INIT_NORMAL,
    WEFT_INIT_TRUNC_NORMAL,
    WEFT_INIT_UNIFORM
} weft_init_kind;
typedef struct weft_init {
    weft_init_kind kind;
    double std; /* NORMAL, TRUNC_NORMAL; UNIFORM: half width */
    double cut; /* TRUNC_NORMAL: |x| <= cut * std */
} weft_init;

/* What state is for. All of it lives from step to step, is in checkpoints and in the plan, and is
 * not exported with a model's weights. */
typedef enum weft_state_kind {
    WEFT_STATE_OPTIMIZER, /* of an optimizer: moments */
    WEFT_STATE_AVERAGE,   /* of parameters over steps */
    WEFT_STATE_HISTORY,   /* numbers of steps that are done: maxima, counts */
    WEFT_STATE_BUFFER,    /* belongs to the model as parameters do, but has no gradient: a bias */
    WEFT_STATE_CACHE, /* the core's own, of graphs that write text: keys and values; not saved */
    WEFT_STATE_STEP,  /* the core's own: where in far memory lies what a step makes; not saved */
    WEFT_STATE_KINDS
} weft_state_kind;

/* One tensor. Fields are for reading; change them through the functions below, except where a
 * comment says "a pass may set". */
struct weft_value {
    const char *name;
    int id;           /* unique in the graph, grows with creation */
    weft_dtype dtype; /* a pass may set, before placement */
    int n_dims;
    weft_dim dims[WEFT_MAX_DIMS];
    const char *role;   /* what the model says of it: "residual", "logits"; NULL */
    weft_layout layout; /* valid once placed */
    bool placed;
    int turn, turn_dim;     /* on its way round a ring: every shard of dim turn_dim is held that
                               many ranks behind the one whose it is by the layout; 0: by that */
    bool weight;            /* made from parameters alone: no token has touched it */
    bool recompute;         /* a pass may set: do not keep for the backward, compute again */
    bool fetch;             /* a pass may set: observers get it whenever it is made */
    bool frozen;            /* parameters: see weft_freeze */
    bool shapes;            /* a node was made that takes its dims: `like` */
    bool trains;            /* once differentiated: it has a gradient, since something that is
                               trained needs one */
    const char *updated_by; /* parameters, state: the plugin that called weft_set_update for it;
                               NULL: nobody has */
    weft_node *node;
    int result;   /* which result of node */
    int verified; /* the verifier's */
    weft_use *uses;
    int n_uses, uses_capacity;
    weft_init init;        /* of parameters and state */
    weft_state_kind kind;  /* of state */
    weft_value *summed;    /* parameters: the gradient as the backward gave it */
    weft_value *becomes;   /* parameters, state: their next content; NULL: not known yet */
    weft_value *update_of; /* this value becomes the next content of that parameter or state */
    weft_axes store_axes;  /* parameters, state: the axes that shard the storage alone */
    weft_value *gradient;  /* parameters: their gradient before clipping, once the joint graph
                              exists, as the last transform left it; NULL of one that is frozen */
};

struct weft_node {
    const weft_op *op;
    int id;
    weft_value **ins, **outs;
    int n_ins, n_outs;
    weft_value *like; /* its dims and layout count, its data is not read */
    weft_attr *attrs;
    int n_attrs, attrs_capacity;
    int block;
    int chunk; /* -1, or the part of the head and loss that this belongs to: runs part by part */
    weft_scope scope; /* a pass may set, before placement; NONE: becomes the latest scope of the
                         operands */
    weft_phase phase;
    weft_part part;         /* ORDERED passes know it; of new nodes, the next one */
    int stage;              /* of the pipeline; outside F and B it is 0 */
    int64_t every;          /* it runs in the steps whose number this divides; 1: in all. ORDERED
                               passes know it, see weft_set_every */
    const char *by;         /* the plugin that caused it */
    const char *why;        /* redistribute: for whom */
    const weft_step *steps; /* redistribute */
    int n_steps;
    weft_node *prev, *next;
    int mark; /* scratch of whoever walks the graph; meaningless between calls */
};

/* ---- looking at a graph ---- */

/* What it is built for, and the mesh it will be placed on. */
weft_mode weft_graph_mode(const weft_graph *g);
const weft_mesh *weft_graph_mesh(const weft_graph *g);
/* Nodes in an order that can run: for (n = weft_graph_first(g); n; n = n->next). */
weft_node *weft_graph_first(const weft_graph *g);
weft_node *weft_graph_last(const weft_graph *g);
/* The value of this name; NULL: none. */
weft_value *weft_graph_find(const weft_graph *g, const char *name);
int weft_graph_blocks(const weft_graph *g); /* how many transformer layers */
/* How many stages the pipeline has; 1: nobody makes any. */
int weft_graph_stages(const weft_graph *g);
/* The stage of a block (0, 1, ..., WEFT_BLOCK_EMBEDDING, WEFT_BLOCK_HEAD); 0 for those of which
 * nobody says it. */
int weft_graph_stage_of(const weft_graph *g, int block);
/* Training: what is differentiated, the sum of all terms that weft_add_head and weft_add_loss have
 * added by now, each scaled by its weight over the valid tokens of the whole step. Each micro-batch
 * has its own, and the step's loss is the sum of these, on all ranks, weft_accumulate(g,
 * weft_graph_loss(g), WEFT_SUM): what observers get as `loss`. NULL: nothing yet; in the other
 * modes there is none. */
weft_value *weft_graph_loss(const weft_graph *g);
/* WEFT_OK, or what went wrong first; the errors are in weft_graph_error. */
weft_status weft_graph_status(const weft_graph *g);
weft_error *weft_graph_error(weft_graph *g);
/* Is there such an op? For a model that can do without the plugin that has it. */
bool weft_graph_has_op(const weft_graph *g, const char *name);
/* Notes an error in the graph, as weft_fail; always returns NULL. */
weft_value *weft_graph_fail(weft_graph *g, weft_status status, weft_where at, const char *format,
                            ...) WEFT_PRINTF(4, 5);

/* A line for people: what this pass has done, or left undone and why. `weft plan` prints those of
 * the training graph, behind the plugin's name. */
void weft_graph_note(weft_graph *g, const char *format, ...) WEFT_PRINTF(2, 3);

/* Sizes of the run, for models and data: micro-batch (global), sequence, steps per global batch. */
int64_t weft_graph_micro_batch(const weft_graph *g);
int64_t weft_graph_seq_len(const weft_graph *g);
int64_t weft_graph_micro_batches(const weft_graph *g);
/* Positions are below this: the sequence, or, where text is written part by part, the most tokens
 * that a text may have. */
int64_t weft_graph_context(const weft_graph *g);
/* f32, or f64 when the run asks for it: what models build in. */
weft_dtype weft_graph_dtype(const weft_graph *g);

/* Which dim of v has this name; -1: none. */
int weft_value_dim(const weft_value *v, const char *name);
/* For `infer`: v has the dims and the dtype of another value. */
void weft_value_shape_as(weft_value *v, const weft_value *like);
/* What the node's op is: has it one of these flags (WEFT_OP_...)? Is it of this family? */
bool weft_node_is(const weft_node *n, unsigned flags);
bool weft_node_in(const weft_node *n, const char *family);
/* The op's family; its name, if it says none. */
const char *weft_op_family(const weft_op *op);

int64_t weft_node_int(const weft_node *n, const char *key); /* as weft_call_int */
double weft_node_real(const weft_node *n, const char *key);
const char *weft_node_text(const weft_node *n, const char *key);
bool weft_node_has(const weft_node *n, const char *key);

/* ---- building ---- */

/* Declares the size of a dim name for the shapes below. units * grain elements; grain 1 for plain
 * dims. "batch" and "seq" are declared by the core. Declaring a name again with other sizes is an
 * error. */
void weft_graph_dim(weft_graph *g, const char *name, int64_t units, int64_t grain);
/* The elements of a dim of this name; 0: nobody has declared it. */
int64_t weft_graph_size(const weft_graph *g, const char *name);
/* Have the data a field of this name, for weft_add_input? Where the model writes, who asks it to.
 */
bool weft_graph_has_field(const weft_graph *g, const char *name);

/* Nodes added from now on belong to this block / chunk. */
void weft_graph_set_block(weft_graph *g, int block);
void weft_graph_set_chunk(weft_graph *g, int chunk);
/* Whatever is added from now on, by any builder, stands right before this node, in the order of
 * adding, and has its block, chunk and phase; in a placed graph also its scope, if the operands are
 * there by then. NULL: at the end again, as before the first call; so it is when a pass begins, and
 * a pass need not end with it. Operands must stand before that node, but inputs, which come when
 * they are asked for. */
void weft_graph_at(weft_graph *g, weft_node *before);

/* What names of values, and of parameters, begin with that are added from now on, until the pass
 * ends or weft_graph_set_block is called: "b3.", "model.layers.3.". Values whose name is NULL have
 * none. */
void weft_graph_set_prefix(weft_graph *g, const char *format, ...) WEFT_PRINTF(2, 3);
void weft_graph_set_parameter_prefix(weft_graph *g, const char *format, ...) WEFT_PRINTF(2, 3);

/* A text that lives as long as the graph, as a name; NULL after an error. */
const char *weft_graph_format(weft_graph *g, const char *format, ...) WEFT_PRINTF(2, 3);

/* A trained parameter. shape: dim names, "ffn embed" (HF's orientation: [out, in]). */
weft_value *weft_add_parameter(weft_graph *g, const char *name, const char *shape, weft_init init);
/* State: what a run must keep from step to step beside its parameters. shape: dim names as above,
 * or
 * "" for one number. The table places it as it places parameters: rules that speak of its dims, and
 * of its name, cut it, on all other axes every rank holds all of it. A graph pass adds it in every
 * mode if the model reads it, and updates it in a joint pass (weft_graph_find, weft_set_update).
 * Names are unique, and those of files: what a checkpoint holds is found by them again. What nobody
 * updates, or is a BUFFER that nobody reads, is an error. */
weft_value *weft_add_state(weft_graph *g, const char *name, const char *shape, weft_dtype dtype,
                           weft_init init, weft_state_kind kind);
/* The same with the dims, layout and storage of a parameter or another state, zero at first: an
 * optimizer's moments. */
weft_value *weft_add_state_like(weft_graph *g, const char *name, weft_value *of, weft_dtype dtype,
                                weft_state_kind kind);
/* Data or a number from the run. Known names: each field of the samples (weft_data; of text ids,
 * labels, positions, segments [batch seq]), and sample_number [batch] (of each, i32; random
 * numbers made of it are the same on every mesh), scope micro_batch; step_FIELD [micro batch ...],
 * the same of all the step's micro-batches, scope step_begin; FIELD+K and step_FIELD+K, K from 1,
 * of a field of integers [batch seq], as labels and ids: what is K places further on in the sample,
 * -1 where the sample ends before or that place is of another segment; index [seq] and index:DIM
 * [DIM] (places from 0 on, i32), step [] (1-based step number, f32), scope step_begin; micro_batch
 * [] (its number in the step, or in the validation, from 0, f32; 0 where text is written), scope
 * micro_batch; last [batch] (generate: the last position's place); cached_index [context] and
 * cached_segments [batch context] (generate: index and segments of what is in the key-value cache).
 * The same name twice gives the same value. */
weft_value *weft_add_input(weft_graph *g, const char *name);

/* A node of op `op` (found by name, NULL-safe operands). Returns result 0. name: of result 0, NULL
 * for one derived from the op; others get ".1", ... appended. */
weft_value *weft_add(weft_graph *g, const char *op, const char *name, int n_ins,
                     weft_value *const *ins);
/* The same with n_outs results, for variadic ops; outs[] (may be NULL) receives them: NULLs after
 * an error. */
weft_value *weft_add_many(weft_graph *g, const char *op, const char *name, int n_ins,
                          weft_value *const *ins, int n_outs, weft_value **outs);
/* The same with attributes from the start, for ops whose `infer` reads them. */
weft_value *weft_add_full(weft_graph *g, const char *op, const char *name, int n_ins,
                          weft_value *const *ins, int n_outs, weft_value **outs,
                          const weft_attr *attrs, int n_attrs);
/* The same, but only once: a node of this op with the same operands and attributes, of the phase
 * that is being built, is taken if there is one. */
weft_value *weft_add_once(weft_graph *g, const char *op, const char *name, int n_ins,
                          weft_value *const *ins, const weft_attr *attrs, int n_attrs);
/* weft_add of one, two and three operands. */
weft_value *weft_add1(weft_graph *g, const char *op, const char *name, weft_value *a);
weft_value *weft_add2(weft_graph *g, const char *op, const char *name, weft_value *a,
                      weft_value *b);
weft_value *weft_add3(weft_graph *g, const char *op, const char *name, weft_value *a, weft_value *b,
                      weft_value *c);
/* Attributes of the node that made v (NULL-safe); set them before the next node is added to a
 * placed graph. */
void weft_set_int(weft_graph *g, weft_value *v, const char *key, int64_t x);
void weft_set_real(weft_graph *g, weft_value *v, const char *key, double x);
void weft_set_text(weft_graph *g, weft_value *v, const char *key, const char *x);
/* A pass may set, before placement, what a node's scope is, and before the backward is made,
 * whether results are kept for it or computed again (NULL-safe); what is marked KEEP is kept. */
void weft_set_scope(weft_graph *g, weft_value *v, weft_scope scope);
void weft_set_recompute(weft_graph *g, weft_value *v, bool again);
/* What the model says of v, for rules and passes: "residual", "logits". */
void weft_set_role(weft_graph *g, weft_value *v, const char *role);

/* x . w^T: contracts the dim names that x and w share. */
weft_value *weft_linear(weft_graph *g, const char *name, weft_value *x, weft_value *w);
/* The same for each index of the dim `each`, which x and w have, w as its first, and the result
 * has where x has it: [batch seq experts ffn] and [experts embed ffn] give [batch seq experts
 * embed], a product for every expert, in one. */
weft_value *weft_linear_each(weft_graph *g, const char *name, weft_value *x, weft_value *w,
                             const char *each);
/* x + bias along x's last dims (NULL bias: x). */
weft_value *weft_bias(weft_graph *g, const char *name, weft_value *x, weft_value *bias);
/* The end of a language model: from the last hidden state [batch seq embed] and the head's weight
 * [vocab embed] to the loss, in chunks of the sequence; in generate mode to the logits of the last
 * position. The loss of one more head is added to that of the first; text is written with the
 * first's logits. */
void weft_add_head(weft_graph *g, weft_value *hidden, weft_value *weight);

/* Flags of weft_add_loss and weft_head. */
enum {
    WEFT_LOSS_PER_MICRO_BATCH = 1, /* weft_add_loss: the scalar is not a sum, but as it is for one
                                      micro-batch */
    WEFT_LOSS_VALIDATION = 2,      /* it is a part of validation's loss, too */
    WEFT_LOSS_OWN_COUNT = 4        /* weft_head: it is divided by the labels of the step that it
                                      learns, not by all valid ones; not with VALIDATION */
};

/* A head that is not the main one; {0} is what weft_add_head adds, but for validation. */
typedef struct weft_head {
    const char *name; /* of its loss and nodes; NULL: "head" */
    int shift;        /* it predicts the token that many places behind the next: with 1, place i
                         learns the label of place i + 1. Where the sample ends before, or that
                         place is of another segment (another document), it learns nothing */
    double weight;    /* of its loss; 0: 1 */
    unsigned flags;   /* VALIDATION; without it validation knows nothing of the head. OWN_COUNT */
} weft_head;
/* A head as options say (NULL: as weft_add_head); multi-token prediction is a head for each shift.
 * Its loss is weight times the sum over its tokens, over the number of the step's valid tokens, as
 * every term's is: not over its own, which are fewer by those at the ends of documents. So a token
 * counts the same in each of its predictions, validation needs no more than one number of tokens,
 * and the value is the same on every mesh and with any number of micro-batches. A head with a shift
 * writes no text: in generate mode nothing is added. */
void weft_add_head_with(weft_graph *g, weft_value *hidden, weft_value *weight,
                        const weft_head *options);

/* Says what the loss is the mean of, before it has a term: `count`, one number. Training: of the
 * whole step, which weft_add_input's "step_FIELD" is for, or a constant; validation: of the
 * micro-batch. Without it: labels from 0 on of the field `labels`. Below 1, 1 is divided by. */
void weft_set_loss_count(weft_graph *g, weft_value *count);
/* Training: one more term of the loss, weight times the sum over the step's micro-batches of
 * `scalar`, which is a sum over tokens, over the number of the step's valid tokens: as the head's
 * loss is, on every mesh and with any number of micro-batches. PER_MICRO_BATCH: weight times the
 * mean over the micro-batches. VALIDATION: validation's loss has the term, too; there, the mean
 * over micro-batches is one by their valid tokens. Without that flag, and in the modes that write
 * text, this does nothing but check.
 *
 * name: of the term, without spaces, below 64 bytes; NULL: the plugin's. Terms may share one. The
 * loss that is reported is the sum of all terms. Where they have more than one name, each name's
 * sum is reported besides, as loss.NAME, heads' as loss.head if they say no other: weights are in
 * it, so that these add up to the loss. */
void weft_add_loss(weft_graph *g, const char *name, weft_value *scalar, double weight,
                   unsigned flags);
/* What heads give: one value for each part of the head, one where text is written; i from 0, NULL
 * past the end. To change them in all modes, replace each. */
weft_value *weft_graph_logits(const weft_graph *g, int i);
/* WEFT_MODE_GENERATE, of a model that writes no text: what the run reads instead of logits, its
 * first dim `batch` (weft_run_output). */
void weft_set_output(weft_graph *g, weft_value *v);
/* Is that like this input of the graph, dim by dim? By this a model says what it makes: which way
 * to go from `image` to a picture, for one. */
bool weft_output_is_like(const weft_graph *g, const char *input);
/* Who reads `old`, but for those that make `logits` from it, reads `logits`; so does the run. */
void weft_set_logits(weft_graph *g, weft_value *old, weft_value *logits);

/* ---- passes ---- */

/* Puts a new node of `op` (one operand, one result) between `source` and those uses for which
 * pick(use, ctx) is true (NULL: uses by nodes that work on tokens). Returns the new value, NULL if
 * nobody used it. */
weft_value *weft_insert_at_use(weft_graph *g, weft_value *source, const char *op,
                               const char *suffix, bool (*pick)(const weft_use *use, void *ctx),
                               void *ctx);
/* The same of a cast to this dtype. */
weft_value *weft_cast_at_use(weft_graph *g, weft_value *source, weft_dtype dtype,
                             const char *suffix, bool (*pick)(const weft_use *use, void *ctx),
                             void *ctx);
/* Whoever works on tokens reads v rounded to bf16 behind it, and v stays as wide as it is; its
 * gradient is not widened on its way back, and it is kept for the backward, or computed again, as v
 * is. For sums over ranks that shall be rounded once. */
void weft_narrow_at_use(weft_graph *g, weft_value *v);
/* Calls visit for every weight value that a computation on tokens reads: where passes insert
 * theirs. visit may insert. */
void weft_each_use_edge(weft_graph *g, void (*visit)(weft_graph *g, weft_value *v, void *ctx),
                        void *ctx);
/* A node with one result right before node `at`, as after weft_graph_at; its result is called name
 * and suffix. For more than one node weft_graph_at is shorter. */
weft_value *weft_add_before(weft_graph *g, weft_node *at, const char *op, const char *name,
                            const char *suffix, int n_ins, weft_value *const *ins);
/* Replaces operand i. In a placed graph it is read in the layout of the one before: a redistribute
 * is put in front where they differ. */
void weft_node_set_operand(weft_graph *g, weft_node *n, int i, weft_value *v);
/* Takes a node out that nobody reads, and everything that only it read, parameters too. Whoever
 * walks the graph may go on from its `next`. */
void weft_remove(weft_graph *g, weft_node *n);
/* Graph stage: this parameter is not trained. It has no gradient, so no optimizer moves it, nothing
 * of it is sent in the backward, and it does not count in the gradients' norm. It is a parameter
 * still, of checkpoints, too. */
void weft_freeze(weft_graph *g, weft_value *parameter);

/* Graph stage, in every mode: block `block` (0, 1, ..., WEFT_BLOCK_EMBEDDING, WEFT_BLOCK_HEAD) is
 * in this stage of a pipeline, from 0 on; 0 if nobody says it. Stage s is held by the ranks whose
 * coordinate on `axis` is s mod its size; if the mesh has no such axis, by all. Every stage needs a
 * block. What belongs to no block is made by every rank that reads it; but what is made of values
 * of stages, in the last of these. A value that other stages read is sent from stage to stage, and
 * so are the gradients back. Of parameters of no block, and of numbers that are terms of the loss,
 * the sum over stages is made once a step: no block can read it. */
void weft_set_stage(weft_graph *g, const char *axis, int block, int stage);
/* Graph stage, behind all weft_set_stage: another coordinate for a stage. */
void weft_set_stage_rank(weft_graph *g, int stage, int coordinate);

typedef enum weft_rule_of {
    WEFT_RULE_PARAM,
    WEFT_RULE_INPUT,
    WEFT_RULE_ROLE,
    WEFT_RULE_VALUE
} weft_rule_of;

/* Adds a line to the table: dim `dim` of (all parameters whose name matches `pattern`, NULL for all
 * | all inputs | values of role `pattern` | the value called `pattern`, which counts before its
 * role) is cut by the mesh axis `axis`. dim NULL (roles, values): whole over the axis. An axis that
 * the mesh does not have is ignored. */
void weft_add_rule(weft_graph *g, weft_rule_of of, const char *pattern, const char *dim,
                   const char *axis);

/* The same of one value that is no parameter: it need not have a role. NULL-safe. */
void weft_add_rule_of(weft_graph *g, const weft_value *v, const char *dim, const char *axis);

/* Is a dim of this name the sequence: seq or, of a model that has several, something_seq? */
bool weft_is_sequence(const char *dim);
/* The same of the sequence of all inputs (WEFT_RULE_INPUT) or of values of role `pattern`: of the
 * dim seq or, of a model that has several sequences, of each something_seq. */
void weft_add_rule_seq(weft_graph *g, weft_rule_of of, const char *pattern, const char *axis);

/* A line of the table in full. */
typedef struct weft_table_rule {
    weft_rule_of of;
    const char *pattern, *dim, *axis; /* as for weft_add_rule */
    const char *by;                   /* who says so; NULL: the plugin whose pass adds it */
    const char *text; /* in the user's words; not NULL: it counts before all lines without */
    weft_where where; /* where the user says it */
    bool idle; /* what weft_graph_rule shows: the mesh has no such axis, so it says nothing */
} weft_table_rule;

/* The same, also for a line of the user. */
void weft_add_rule_with(weft_graph *g, const weft_table_rule *rule);
/* The i-th line of the table, from 0; false past the end. Behind them what was said of axes that
 * the mesh does not have, once for each plugin and axis. */
bool weft_graph_rule(const weft_graph *g, int i, weft_table_rule *out);
/* The i-th axis that a plugin has declared, those of one rank, too, which the mesh does not have;
 * NULL past the end. */
const char *weft_graph_axis(const weft_graph *g, int i);
/* Are passes left out, as where a plan is asked to stop behind one? What a line speaks of need not
 * be there then. */
bool weft_graph_is_partial(const weft_graph *g);
/* Parameters that a `gather` stands behind are stored cut by this axis too, unless it cuts them
 * already. A gather takes all such axes off that are left; with the attribute `axes`, names with a
 * space between, those alone. So one gather may stand behind another, each with a scope and marks
 * of its own: over the slow axis once a step, over the fast one for each micro-batch. What is
 * gathered first lies innermost, for axes leave a dim from the end of its list; axes that one
 * gather takes lie in the order of the mesh. Whoever cuts tokens by an axis of its own adds that
 * axis, and needs to know of no gather. */
void weft_add_storage(weft_graph *g, const char *axis);
/* Graph stage: the places of the sequence lie in another order in memory: place i holds what is at
 * order[i] of the sample, of all inputs alike: ids, labels, index, positions, segments. order: each
 * of 0 to n - 1 once, n = weft_graph_seq_len; copied. So shards of the sequence can be of like
 * work. No op takes an order from memory; what observers get, and files, is in the sample's own.
 * Once in a graph that trains or validates; text is written in order. */
void weft_set_seq_order(weft_graph *g, const int32_t *order, int64_t n);
/* What blocks gather over this axis to compute with is not kept for the backward, but gathered
 * again there (weights: their gatherer decides). */
void weft_add_regather(weft_graph *g, const char *axis);

/* Joint stage: v becomes the next content of `state` (a parameter or state) at the end of the step;
 * once for each, but see weft_set_every. What each micro-batch has its own of is refused:
 * weft_accumulate first. */
void weft_set_update(weft_graph *g, weft_value *state, weft_value *v);
/* Training, of what runs once a step: v is made only in the steps whose number `steps` divides, and
 * so is whatever only such values are made of, redistributes and what they send included. In the
 * other steps nothing of it runs, and state that it becomes keeps its content. So nobody may read v
 * in other steps: who reads it is marked, too, or reads a state that keeps it. otherwise: an
 * operand of v's node, with v's dims and dtype, which is what v is in the other steps, so that it
 * is there in every step; NULL: none. If that is what a state is to become already, v may become it
 * in its place (weft_set_update): an outer step around an optimizer's. The choice follows from the
 * step's number alone. Marked behind the node's own operands; in other modes there is no mark. */
void weft_set_every(weft_graph *g, weft_value *v, int64_t steps, weft_value *otherwise);
/* For optimizers: the parameters that are trained, that nobody has updated yet, and that pick(p,
 * ctx) is true for (NULL: all), in the order of the graph. Returns how many; list (NULL: they are
 * only counted) has room for as many. What is listed last takes what the others have left.
 */
int weft_graph_unclaimed(const weft_graph *g, bool (*pick)(const weft_value *p, void *ctx),
                         void *ctx, weft_value **list);
/* For transforms of gradients: v, of the same dims and dtype, takes the place of
 * parameter->gradient; the norm and all passes listed behind see it alone. Before the norm was
 * asked for and the parameter updated. */
void weft_set_gradient(weft_graph *g, weft_value *parameter, weft_value *v);
/* The norm of the gradients of all trained parameters together, whoever updates them: added, and
 * reported as "grad_norm", by the first call; the same value afterwards. */
weft_value *weft_gradient_norm(weft_graph *g);
/* The factor, at most 1, that brings that norm down to max_norm (0: 1): one value for each
 * max_norm.
 */
weft_value *weft_gradient_clip(weft_graph *g, double max_norm);
/* Names a scalar of the step that observers get ("grad_norm", "lr"); once for each name. Names that
 * begin with "loss." are those of the loss's terms. As in weft_set_update, of what each micro-batch
 * has its own only the sum or maximum can be reported, which weft_accumulate makes. */
void weft_add_report(weft_graph *g, const char *name, weft_value *scalar);
/* Training: a step is learnt from only if `scalar`, a number of the step, is 0; else the update
 * is refused, as that of a step that is not finite is ([train] nonfinite). The scalar is a report
 * called `name`, too. The message is its value, `why`, and the largest value that the report called
 * `other` (NULL: none) has had in the run so far. */
void weft_add_refusal(weft_graph *g, const char *name, weft_value *scalar, const char *why,
                      const char *other);
/* Parameters in the order of the graph; i from 0, NULL past the end. */
weft_value *weft_graph_parameter(const weft_graph *g, int i);

/* Prints the graph, one line a node: @ parameter or state, % value, ' gradient of, * computed
 * again, ~ not kept for the backward. For people: short names, a size where a dim is met first,
 * equal blocks once. SIZES: the size of every dim. WHOLE: everything, as it can be read back. */
enum { WEFT_PRINT_SIZES = 1, WEFT_PRINT_WHOLE = 2 };
void weft_graph_print(const weft_graph *g, unsigned how, weft_text *text);

#ifdef __cplusplus
}
#endif
#endif
