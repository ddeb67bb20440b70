/* SPDX-License-Identifier: Apache-2.0 */
/* Ops (what a computation means) and kernels (how a device does it). Both are contributions of
 * plugins; the core has but what it adds itself: sources, add, cast, accumulate and moves. */
#ifndef WEFT_OP_H
#define WEFT_OP_H

#include <weft/mesh.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- attributes: constants of a node ---- */

typedef enum weft_attr_kind { WEFT_ATTR_INT, WEFT_ATTR_REAL, WEFT_ATTR_TEXT } weft_attr_kind;

typedef struct weft_attr {
    const char *key;
    weft_attr_kind kind;
    int64_t i;
    double r;
    const char *text;
} weft_attr;

/* ---- what a kernel sees ---- */

/* What is known of the values of a tensor, whatever a step brings: kernels may be chosen by it. */
typedef struct weft_facts {
    int runs;  /* along the last dim they count up by one from first[0] on and, of two runs, from
                  first[1] on at place `second`; 0: that is not known */
    int alike; /* along the last dim they are equal */
    int64_t first[2], second;
} weft_facts;

/* This rank's part of a value: contiguous, row-major, aligned as the device says, in its memory, of
 * the rank's true extent (short or empty at the mesh's edge). */
typedef struct weft_tensor {
    void *data;
    weft_dtype dtype;
    int n_dims;
    int64_t size[WEFT_MAX_DIMS];  /* local extent */
    int64_t lo[WEFT_MAX_DIMS];    /* global index of the first local element, in memory: along
                                   seq that is no place in the sample, which the inputs
                                   index and positions say (cp orders it by load) */
    int64_t whole[WEFT_MAX_DIMS]; /* global extent */
    int64_t grain[WEFT_MAX_DIMS]; /* see weft_dim */
    weft_facts facts;
} weft_tensor;

typedef struct weft_queue weft_queue; /* the device's own; opaque to everyone else */

typedef struct weft_op weft_op;

/* One use of an op on one rank. In predicates, prepare, workspace and cost all data pointers are
 * NULL. */
typedef struct weft_call {
    const weft_op *op;
    const weft_attr *attrs;
    int n_attrs;
    int n_ins, n_outs;
    const weft_tensor *ins, *outs;
    bool accumulate; /* outs[0] += result, instead of =; outs[1], ... are written as ever, but for
                        those of an op with PAIR. Only kernels that say so are asked, and every
                        plain one */
    void *state;     /* what prepare made */
    void *workspace; /* of the size that `workspace` asked for, 64-byte aligned */
    size_t workspace_bytes;
    weft_queue *queue;
    int threads; /* how many threads of the host the launch may use; below 1: one */
    struct weft_attr_watch *watch; /* of weft conform; NULL: nobody watches */
} weft_call;

/* 0, 0.0, "" if the node has no such attribute; INT and REAL convert to each other. Keys that the
 * op does not declare (weft_op.attrs) no node has: weft conform names who reads one. */
int64_t weft_call_int(const weft_call *call, const char *key);
double weft_call_real(const weft_call *call, const char *key);
const char *weft_call_text(const weft_call *call, const char *key);
/* Has the node the attribute at all? */
bool weft_call_has(const weft_call *call, const char *key);

/* Elements of a tensor's local part. */
int64_t weft_tensor_count(const weft_tensor *t);
/* Element i as f64, whatever the dtype: for plain reference kernels, slow and simple. */
double weft_tensor_get(const weft_tensor *t, int64_t i);
/* Stores x there, rounded to the dtype. */
void weft_tensor_set(const weft_tensor *t, int64_t i, double x);

/* ---- ops ---- */

typedef struct weft_value weft_value;
typedef struct weft_node weft_node;
typedef struct weft_graph weft_graph;
typedef struct weft_backward weft_backward; /* the backward while it is built: <weft/pass.h> */

enum {
    WEFT_OP_HALF = 1, /* computes in f32 inside whatever it is given: bf16 may narrow its floating
                         results (not the STAT ones) */
    WEFT_OP_HALF_WEIGHT =
        2, /* reads a weight as an operand of a product or a table: bf16 may cast that weight */
    WEFT_OP_INPLACE = 4, /* result i may lie where operand i lay, for every i below the smaller
                            count: element-wise in them */
    WEFT_OP_STAT = 8, /* floating results are f32 at least (statistics), f64 if operand 0 is; of an
                         op that is HALF too: all but result 0 */
    WEFT_OP_SOURCE = 16,       /* no computation: parameters, state, inputs */
    WEFT_OP_MAX = 32,          /* contracted indices are combined by maximum, not by sum */
    WEFT_OP_MATMUL = 64,       /* a matrix product: MFU counts it, and its operands' dtype is the
                                  dtype that MFU is measured against */
    WEFT_OP_ACCUMULATES = 128, /* its result is the total of operand 0 over the step's micro-batches
                                  and is there after the last: the sum, with MAX the maximum.
                                  call->accumulate: combine with what is there */
    WEFT_OP_ADD = 256,  /* result 0 is the sum of all operands, element by element: of two, one may
                           be made where the other lies */
    WEFT_OP_CAST = 512, /* changes the dtype and nothing else: a gradient op that would change
                           nothing is left out, and the mark PASS_ON is heeded */
    WEFT_OP_GATHER = 1024, /* makes a weight whole that is stored in shards; placement turns it into
                              a redistribute */
    /* Sources of the core's own: a plugin's op has none of these. */
    WEFT_OP_PARAMETER = 2048,
    WEFT_OP_STATE = 4096,
    WEFT_OP_INPUT = 8192,
    WEFT_OP_MONOTONE = 16384, /* element-wise in operand 0 and never falling where that rises: of an
                                 open maximum of operand 0 alone the result is one, too, and is
                                 closed later */
    WEFT_OP_ROUNDS = 32768,   /* rounds to few bits, or reads what was: its gradient is by intent
                                 that of unrounded numbers, which differences of what it computes do
                                 not give */
    WEFT_OP_PAIR = 262144, /* two computations of operand 0, with operand 1 into result 0 and with
                              operand 2 into result 1: call->accumulate holds for both, and they
                              lie in memory in one order where that costs nothing */
    /* The core's own, between far memory (weft_far) and the device's: see weft_put_far. */
    WEFT_OP_FETCH = 65536,
    WEFT_OP_EVICT = 131072,
    WEFT_OP_FLAGS = 524287 /* all there are */
};

/* How an op is computed where an index that it contracts stays cut: shard by shard, while shards
 * travel round the ranks. A node whose attribute `ring` is not 0 is placed by this rule and, where
 * an axis cuts `index`, becomes a step of the op for every shard, with shifts between, by a pass of
 * the stage closed (cp's): so no kernel communicates, and the kernels are those of the op, called
 * with another rank's shard as operands.
 *
 * rule: as the op's, with one letter for `index` in what travels and what stays. travels: the
 * operands that do, "1 2 4". returns: results that are gradients of what travels, "1 2": each is
 * summed in f32 on its way round and comes home. merge: the op that combines all other results of
 * two steps, those of the first and then those of the second as operands; NULL: they are added. */
typedef struct weft_ring {
    const char *rule, *index, *travels, *returns, *merge;
} weft_ring;

/* How text that is written part by part computes an op whose queries look at earlier places of
 * their sequence. Operands: the rows [batch seq heads] that are looked at, keys and values, the
 * places of the queries (index) and of the rows (index_keys), and the documents that the rows are
 * of (segments_keys). Rows are then read from caches, which op `write` (cache, rows, index ->
 * cache) has put those of this part into. A node whose attribute `causal` is 0 cannot be computed
 * so. */
typedef struct weft_cached {
    int keys, values, index, index_keys, segments_keys;
    const char *write;
} weft_cached;

/* What an op means. The table is const; one instance serves all graphs. What others ask of an op
 * are its flags and its family, never its name.
 *
 * rule: "b q h, b [k] h -> b q h": letters (words) are indices, one per dim; [x] must be whole on a
 * rank; an index of an operand that no result has is contracted. "*" stands for every dim of the
 * longest operand; "... e, e -> ... e": "..." in front for any dims before those that follow, as
 * many in all. A trailing "..." on either side repeats the last operand or result as often as
 * the node has it. NULL: `make_rule` writes the text for a node. The same letter with two sizes
 * (heads, kv_heads) is cut in both places alike, where both divide (in grains). "b+ s e -> b s e":
 * where they do not, axes may cut the dims marked + alone, behind those that cut all; operands with
 * fewer are whole on these, and results with fewer are open sums: a kernel finds by lo and whole
 * which one of the fewer a place belongs to, and gives zeros for what is not here. In a backward op
 * whose result has an index that no operand has, the node's `like` counts as one more operand
 * (last).
 *
 * linear: groups of operands, "0, 2 1": if exactly the operands of one group are open sums, so is
 * the result. "all": one group of all. NULL: none.
 *
 * grad: statements, NULL-ended: "0 1: rms_norm_dx 0 1 dy like0". Left: for which operands, one per
 * result of the gradient op. Right: the gradient op, then its operands: N forward operand N, rN
 * forward result N, dy the gradient of result 0, dyN that of result N, likeN dims and layout of
 * operand N without its data, dys the gradients of all results. "0: dy" passes the gradient on.
 * "all" on the left: for every operand in turn, one node each. Operands not named get none. A
 * result whose dy no statement reads (statistics) cannot be a part of the loss. A gradient node
 * inherits the attributes.
 *
 * differentiate: the gradient as a function, instead of `grad`, where statements do not do: several
 * nodes, a choice, state that changes. Called once for each node whose gradient is wanted, it adds
 * nodes with any builder (they stand in the backward, in the node's block, chunk and phase, on its
 * plugin's behalf) and fills dxs[i] with the gradient of operand i. It may leave NULL what nobody
 * wants (weft_backward_wants), and what the results that have a dys[r] do not depend on. dys[r] is
 * the gradient of result r, NULL where nobody wants it. What it may ask is in <weft/pass.h>.
 * grad_of: for which operands it can give one, "0 1" or "all", and, where it is not all, which
 * results may have a dys[r], "0 1 r0". grad_reads: what it reads of the forward: operands, "0 1" or
 * "all", results, "r0", and what an operand was made from before any redistribute, "1.0": operand 0
 * of the node that made operand 1 (an op that reads what was narrowed, whose gradient reads what it
 * was narrowed from); NULL: nothing but dys. Both are told before it is called, so that passes can
 * be told what a backward will keep.
 *
 * infer: sets dims and dtypes of results where the default does not do: default dims come from the
 * rule's letters in the first operand that has them, default dtype is operand `dtype_from`'s. NULL:
 * default.
 *
 * family: what it is a form of, for passes that look for a kind of computation: "linear" is every
 * op whose result 0 is a product of tokens and a weight, contracting the dims that they share (but
 * for the one that an attribute `each` is the number of, in operand 0, which the result keeps), and
 * "attention" one whose operands are attention's. A pass that replaces an op by one of its own
 * gives that the family of what it replaces, and its `cached`. NULL: its name.
 *
 * attrs: the names of the attributes that it and its kernels read, "eps, theta"; NULL: none. Others
 * are refused where a node is given one (weft_set_int and its kin, weft_add_full). Gradient nodes
 * have those of the node that they differentiate, whatever their ops say here.
 *
 * ring: how shards of an index that it contracts may travel, for an op whose `attrs` name
 * `ring`; NULL: they may not.
 *
 * cached: how text is written with it, part by part; NULL: as anything else is computed, of the
 * part alone.
 *
 * pattern: which ops it does the work of, at once: its operands and results by name, and then a
 * statement for each of these, in order, "x d w -> r y; r = add(x, d); y = rms_norm(r, w)". Once a
 * graph is in its order, nodes that fit are replaced by one of this op, where the device has a
 * kernel for it that takes the call, on every rank: of one part, stage, block, chunk and phase, if
 * what is between is read by these alone, and nobody reads a result before the last of them. So
 * nobody else need know of it: no graph pass meets it, and no gradient is asked of it. It has the
 * attributes of all of them, which `attrs` must name. Its plain kernel computes what theirs do one
 * after the other. What is between has the dtype that dtype_from of its maker says. NULL: of
 * none.
 *
 * flops: floating-point operations of one call; NULL: one per element of the largest tensor.
 *
 * plain: the reference kernel: correct for every float dtype, computes in f64, needs no workspace,
 * obeys call->accumulate, whether or not the op is an ACCUMULATES one: a sum's last operand is
 * added to the others where these lie. Result 0 alone is then added to what is there; all other
 * results are written. One that cannot add returns an error where it is asked to. Mandatory but for
 * sources. Returns WEFT_OK or fails with a message. */
struct weft_op {
    const char *name, *summary;
    const char *family;
    const char *rule;
    const char *linear;
    const char *const *grad;
    const char *attrs;
    unsigned flags;
    int dtype_from;
    weft_status (*plain)(const weft_call *call, weft_error *err);
    double (*flops)(const weft_call *call);
    weft_status (*make_rule)(const weft_node *node, weft_text *rule, weft_error *err);
    weft_status (*infer)(weft_graph *graph, weft_node *node, weft_error *err);
    const char *grad_of, *grad_reads;
    weft_status (*differentiate)(weft_backward *b, const weft_node *node, weft_value *const *dys,
                                 weft_value **dxs, weft_error *err);
    const weft_ring *ring;
    const weft_cached *cached;
    const char *pattern;
};

/* ---- kernels ---- */

/* How a device does an op. Of all kernels of (op, device) whose `accepts` says yes, the one with
 * the highest priority is taken; the plain one has priority 0 and takes everything. Chosen and
 * prepared once per distinct call (equal attributes, dtypes, extents and `accumulate` share it),
 * before the arena is sized. launch neither allocates nor waits; it enqueues on call->queue (a CPU
 * kernel simply computes).
 *
 * accepts and workspace are asked when the plan is made, by whatever thread makes it, and workspace
 * again when the device is open: what they answer follows from the call and its queue alone, never
 * from the calling thread or the process. A launch that finds less workspace, another size or
 * another queue than it was prepared for must refuse, in release builds, too. */
/* What one launch does, for predictions: the kernels that it enqueues, and what they read and write
 * in all, in bytes; of a product, the dtype whose rate it has. */
typedef struct weft_kernel_work {
    int launches;
    double bytes, before; /* of these, those of launches before the one that computes */
    weft_dtype dtype;
    double flops; /* that it executes where nothing is masked; 0: the op's. Holds with launches 0 */
    double best, worst; /* of attention: times the device's rate, where that is unsure; 0: that
                           rate, and as unsure */
} weft_kernel_work;

typedef struct weft_kernel {
    const char *op, *device, *name;
    int priority;
    bool accumulates; /* obeys call->accumulate */
    /* What dtypes operands > results may have, a letter each, the last before > or the end for all
     * that follow: "hi>h". h f32 or bf16, f f32, i i32, n f32 or f64, s f32, bf16 or f64, q 8 bits,
     * * any. NULL: accepts says. */
    const char *types;
    bool (*accepts)(const weft_call *call); /* what else must hold; NULL: nothing */
    size_t (*workspace)(
        const weft_call *call); /* bytes, an upper bound known without hardware; NULL: none */
    weft_status (*prepare)(const weft_call *call, void **state, weft_error *err); /* may be NULL */
    void (*release)(void *state);                                                 /* may be NULL */
    weft_status (*launch)(const weft_call *call, weft_error *err);
    bool optional; /* the op may be of a plugin that is not listed; no: that is an error */
    /* Known without hardware. NULL: one kernel reads operands and writes results, each once. */
    weft_kernel_work (*work)(const weft_call *call);
    /* Bytes of the device's memory that it takes beside the plan's, for a moment before the first
     * step; of all calls the most counts. For estimates; NULL: none. */
    size_t (*loads)(const weft_call *call);
    /* Optional: would `prepare` refuse it on the device that is planned for, as far as that is
     * known? For plans, which open nothing; fails in the words of prepare. */
    weft_status (*check)(const weft_call *call, weft_error *err);
} weft_kernel;

/* By its types, and then by what it says itself. */
bool weft_kernel_accepts(const weft_kernel *kernel, const weft_call *call);

#ifdef __cplusplus
}
#endif
#endif
