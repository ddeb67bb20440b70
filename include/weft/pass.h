/* SPDX-License-Identifier: Apache-2.0 */
/* What passes and gradients need beside the builders of <weft/graph.h>: gradients as functions,
 * totals over micro-batches, surgery, and questions about values and nodes. As builders do, these
 * note errors in the graph and pass NULL on. */
#ifndef WEFT_PASS_H
#define WEFT_PASS_H

#include <weft/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- gradients as functions: inside weft_op's `differentiate` ---- */

weft_graph *weft_backward_graph(weft_backward *b);
/* v as it was made, in front of all redistributes that changed its layout alone. */
weft_value *weft_value_before_moves(weft_value *v);
/* Is the gradient of this operand wanted? What nobody wants need not be built, and is ignored. */
bool weft_backward_wants(const weft_backward *b, int operand);
/* An operand or result of the node, or what an operand was made from, as the backward has it: kept,
 * or computed again from what was kept. It must be among the op's `grad_reads`. */
weft_value *weft_backward_saved(weft_backward *b, weft_value *v);
/* A node of op `op` that makes the gradient of an operand: its result has that one's name, with a '
 * behind, its dims, and the dtype that its gradient must have (the gradient of a weight is a sum
 * over tokens, and stays in the graph's dtype). like: dims and layout of this value count, its data
 * is not read; NULL: none. The node has the attributes of the one it differentiates. */
weft_value *weft_backward_add(weft_backward *b, const char *op, int operand, int n_ins,
                              weft_value *const *ins, weft_value *like);
/* The same for n operands at once, one for each result: dxs[operands[i]] becomes result i. */
void weft_backward_add_many(weft_backward *b, const char *op, int n, const int *operands, int n_ins,
                            weft_value *const *ins, weft_value *like, weft_value **dxs);

/* ---- totals over the step's micro-batches ---- */

typedef enum weft_total { WEFT_SUM, WEFT_MAX } weft_total;

/* Training: the sum, or the maximum, of v over the step's micro-batches. It is there after the last
 * one, for nodes that run at the end of the step (reports, the next content of state), on every
 * mesh and with any number of micro-batches; a maximum keeps a NaN. What is the same in all
 * micro-batches counts as often as there are. A sum is at least as wide as the graph's dtype. */
weft_value *weft_accumulate(weft_graph *g, weft_value *v, weft_total how);

/* Before placement: dims of results are inferred anew, in order, because attributes that an op's
 * `infer` reads are others now (in a pass of the stage table: numbers that follow from the table).
 * Dtypes stay as they are. */
void weft_refresh(weft_graph *g);

/* ---- surgery: in the stages graph, placed and joint ----
 *
 * In a placed graph whoever reads something else than before goes on reading it in the layout of
 * before: a redistribute is put in front where layouts differ. See also weft_node_set_operand,
 * weft_graph_at and weft_remove. */

/* Whoever reads `old` reads `value`, but for those that make `value` from it; so do the run,
 * reports and state that `old` was the next content of. Both have the same dims, and `value` stands
 * in front of all readers. What others have said of `old` goes over to `value`: its role, that
 * observers get it, that it is not kept for the backward; and, if `value` is not made from `old`,
 * attributes of its node that the new one does not have. `old` stays, for weft_remove. */
void weft_replace(weft_graph *g, weft_value *old, weft_value *value);
/* Moves a node right before another (NULL: to the end). It keeps its block, chunk, phase and scope.
 * Refused where an operand would stand behind it, or a reader before. */
void weft_move_before(weft_graph *g, weft_node *n, weft_node *before);

/* Behind placement: v as this layout says; v itself, if it lies so. Whoever wants a matrix whole on
 * one rank of those that share it cuts another dim of the value instead. */
weft_value *weft_add_move(weft_graph *g, weft_value *v, weft_layout layout);

/* ---- steps in the place of a node: in the stage closed ----
 *
 * A node that shards travel for becomes steps of the same op there, with shifts between. What is
 * added is neither inferred nor placed: the caller says of every value what it is, and the verifier
 * refuses what does not hold. */

/* Do shards travel for it: has its op a ring, and the node the attribute? */
bool weft_node_rings(const weft_node *node);
/* Does operand i, or result i behind the operands, go round in the ring that the node has? */
bool weft_ring_moves(const weft_node *n, int i);
/* Which dim of operand i, or of result i behind the operands, has this index in the rule of the
 * node; -1: none. */
int weft_node_index(weft_graph *g, const weft_node *n, int i, const char *index);
/* A node right before `of`, with its block, chunk, phase, scope, stage and plugin, and with its
 * attributes if the op is the same; result i is as likes[i] in dims, dtype, layout and turn. Until
 * the pass ends the caller may change all these. NULL after an error. */
weft_node *weft_add_bare(weft_graph *g, weft_node *of, const char *op, const char *name, int n_ins,
                         weft_value *const *ins, int n_outs, weft_value *const *likes);
/* Lets a bare `redistribute` shift dim d of its operand, one rank further than that is turned
 * already. */
bool weft_node_set_shift(weft_graph *g, weft_node *n, int d);
/* Does the node bring shards of a dim to the ranks behind? */
static inline bool weft_node_shifts(const weft_node *n)
{
    return n->n_steps == 1 && n->steps[0].move == WEFT_SHIFT;
}
/* What made a makes b from now on, and the other way round: values keep their names and readers. */
void weft_swap_makers(weft_value *a, weft_value *b);

/* ---- several nodes made one: in the stage ordered ---- */

/* Nodes that fit the pattern of an op (weft_op.pattern) become one node of it, wherever the run's
 * device has a kernel for that on every rank, which is not the plain one. wanted: of which ops;
 * NULL: of all. Notes how often. Behind whoever gives the capability `parts`, so that nothing is
 * joined that shall run in different parts. */
void weft_join_nodes(weft_graph *g, bool (*wanted)(const char *op, void *ctx), void *ctx);

/* ---- questions ---- */

/* Can the node be computed of pieces of dim `dim` apart, for equal results? Every operand and
 * result of tokens that has the dim has it as one index of the node's rule, which is cut nowhere
 * and not summed over; weights do not have it. */
bool weft_node_splits(weft_graph *g, const weft_node *n, const char *dim);
/* Does the op declare the attribute, or is it a mark? */
bool weft_op_declares(const weft_op *op, const char *key);

/* Values are numbered from 0 (weft_value.id); as many as have ever been made. */
int weft_graph_values(const weft_graph *g);
/* Bytes of the whole value, and of the largest part that a rank holds (in a graph that is not yet
 * placed: all of it). Who reads a value stands in its `uses`. */
int64_t weft_value_bytes(const weft_graph *g, const weft_value *v);
int64_t weft_value_part_bytes(const weft_graph *g, const weft_value *v);

/* What one run of a node costs a rank (a node of scope micro_batch runs once for each of these). */
typedef struct weft_cost {
    double flops;                   /* as the op says, of the largest part */
    int64_t read, written;          /* bytes of operands and results */
    int64_t sent;                   /* bytes that a redistribute sends */
    int64_t by_axis[WEFT_MAX_AXES]; /* of these, by mesh axis; what runs over several counts for the
                                       outermost of them */
} weft_cost;

void weft_node_cost(const weft_graph *g, const weft_node *n, weft_cost *out);

/* Before the backward: of which values, by id, a gradient will be made (wanted has room for
 * weft_graph_values). Parameters that are trained, and what is made from them through operands that
 * have a gradient. */
weft_status weft_gradient_wanted(weft_graph *g, bool *wanted);
/* Which of its operands and results the gradient of n reads: into list, room for n_ins + n_outs;
 * returns how many. wanted: see above; NULL: as if all were. What is marked to be computed again is
 * not kept for it, but what that is made from is. */
int weft_gradient_reads(const weft_node *n, const bool *wanted, weft_value **list);

/* Ordered stage, in every mode: these parameters and states lie in far memory (weft_far) between
 * their uses. Whoever reads one reads what is fetched for its block, where the block `ahead` of it
 * begins; what it becomes is evicted. So is a copy of a parameter that is made once a step, as that
 * in bf16, where it is made. Nothing of it is anywhere else, on any mesh each rank's part by
 * itself; no number changes.
 *
 * In training, so may sums over micro-batches (not maxima), and what is made of them when the last
 * is done: each is evicted where it is made, and fetched for whoever reads it in another block or
 * part. Of several micro-batches each fetches a sum, adds to it, and evicts it; one of which a part
 * is made in an earlier program stays where it is. So may what the forward of a micro-batch makes
 * and its backward reads: it is evicted where it is made, to a place for each micro-batch, and
 * fetched for whoever reads it behind the forward. */
void weft_put_far(weft_graph *g, weft_value *const *list, int n, int64_t ahead);
/* Is v a parameter's copy, made before the first micro-batch of a step and read in them? */
bool weft_copy_may_lie_far(const weft_value *v);
/* Is v something that the forward of a micro-batch saves, and that may lie there? Not so on its way
 * round a ring, where it is no rank's own shard, or while it is an open maximum, which only maxima
 * read. */
bool weft_saved_may_lie_far(const weft_graph *g, const weft_value *v);

/* Ordered stage: of the backward of these stages (one flag each), what can wait goes from part B to
 * W: the gradients of weights, which only the step's totals read, and what is made for them alone.
 * all: for what is computed again (plugin ac), too, which is then held for them. The schedule must
 * have W of these stages. */
void weft_split_backward(weft_graph *g, const bool *split, bool all);
/* Was it split with `all`? */
bool weft_splits_all(const weft_graph *g);

/* Table stage, in the modes that write: for who gives the service `generator` of texts. Every node
 * whose op can (weft_op.cached) reads its keys and values from a cache, which its own are written
 * into, where the run keeps some. Caches are states, laid out as what is written into them. */
void weft_add_caches(weft_graph *g);

#ifdef __cplusplus
}
#endif
#endif
