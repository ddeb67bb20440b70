/* SPDX-License-Identifier: Apache-2.0 */
/* Marks: what one pass says of a node to another, or to the core, without knowing who heeds it.
 * All there are stand here; a graph prints them among the attributes of its nodes, {wide 1}, and
 * the gradients' nodes of a marked node have them, too. Two more are fields of a value, for passes
 * to set: weft_value.recompute and weft_value.fetch. */
#ifndef WEFT_MARKS_H
#define WEFT_MARKS_H

#include <weft/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Where no value is named, 1 is yes and 0, the default, no. */
typedef enum weft_mark {
    /* Of gathers and redistributes. This collective may be sent as one with others of its kind:
     * WEFT_GROUP_BLOCK, gathers and reductions of one block, all-reduces of any; WEFT_GROUP_ALL,
     * what is small and asked for once: of any block. Set by who puts a gather in (fsdp, float8),
     * and by the core for the gradient of what is gathered so; read by lowering. */
    WEFT_MARK_GROUP,
    /* Of gathers and redistributes: how many blocks ahead of the one that computes it is sent; 0:
     * none. Set by who puts a gather in (fsdp); read by lowering. */
    WEFT_MARK_PREFETCH,
    /* Of redistributes: other work goes on while it is sent, on a queue of its own where the device
     * has four. Set in the stage ordered, by who puts that work behind it (overlap); read by
     * lowering. */
    WEFT_MARK_BESIDE,
    /* Of gathers: the gradient of what is gathered is reduced to the storage's cuts in every
     * micro-batch, and summed there; no: once, after the last. Set by who puts a gather in (fsdp);
     * read when the backward is made. */
    WEFT_MARK_REDUCE_EACH,
    /* Of products: the result may be an open sum, which shall be closed in f32. Whoever narrows
     * values leaves it, and narrows behind it. Set by axis plugins (tp); read by bf16. */
    WEFT_MARK_WIDE,
    /* Of casts: the gradient passes on as narrow as it is, since nothing is summed on its way; no:
     * it is cast to the operand's dtype. Set by who puts a cast behind a WIDE product (tp, bf16);
     * read when the backward is made. */
    WEFT_MARK_PASS_ON,
    /* Of any op: the gradient of result 0 is summed and closed in f32 at least, and narrowed
     * behind. Set by axis plugins (cp: gradients of keys that were gathered); read when the
     * backward is made. */
    WEFT_MARK_WIDE_GRADIENT,
    /* Of any op: its results are kept for the backward, whoever computes others again, since
     * computing them again could choose otherwise, or count twice. Set by who adds the op (moe:
     * where tokens go); heeded by ac and by weft_set_recompute. */
    WEFT_MARK_KEEP,
    /* Of products: operands and result stay in the graph's dtype, whoever narrows values. Set by
     * who adds the product (moe: the router's); read by bf16 and float8. */
    WEFT_MARK_EXACT,
    /* Of any op: its results are numbers of the mesh, as places in buffers are, so that they differ
     * between meshes where the run does not. Set by who adds the op (moe); read by weft oracle. */
    WEFT_MARK_OF_MESH,
    /* Of any op: its results say which of several is the largest, so that rounding of its operands
     * may turn them, and what comes after is another number. Set by who adds the op (moe: the
     * router's choices); read by weft oracle. */
    WEFT_MARK_CHOOSES,
    /* Of parameters: weight decay leaves it, unless it is asked to take all. Set by who adds the
     * parameter (moe: the router's); read by optimizers. */
    WEFT_MARK_NO_DECAY,
    /* Of what runs once a step: in which steps, and (1: the first) which operand the result is in
     * the others. Set by weft_set_every; read when nodes get their parts. */
    WEFT_MARK_EVERY,
    WEFT_MARK_OTHERWISE,
    WEFT_MARKS /* how many there are */
} weft_mark;

/* Values of WEFT_MARK_GROUP but 0. */
enum { WEFT_GROUP_BLOCK = 1, WEFT_GROUP_ALL };

/* Marks the node that made v (NULL-safe). A mark that there is not, that is not for nodes of this
 * kind, or a value that it does not have, is an error of the graph. */
void weft_set_mark(weft_graph *g, weft_value *v, weft_mark mark, int64_t x);
/* Its value; 0 if the node is not marked. */
int64_t weft_get_mark(const weft_node *n, weft_mark mark);
/* "group"; NULL: there is no such mark. */
const char *weft_mark_name(weft_mark mark);

#ifdef __cplusplus
}
#endif
#endif
