/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that turn a graph into programs share while they do. */
#ifndef WEFT_PROGRAM_COMPILER_H
#define WEFT_PROGRAM_COMPILER_H

#include "compile/program/lower.h"

typedef struct weft_compiler {
    weft_lowered *l;
    weft_graph *g;
    const weft_lower_options *options;
    weft_error *err;
    weft_pool pool;    /* of what follows, and of no use behind it */
    weft_node **order; /* live nodes, program by program */
    int n;
    int *position; /* by node id; -1: not live; nodes that run as one have the first one's */
    int *stage;    /* by node id: the stage of this rank that it runs in; of sends the sender's or
                      the receiver's */
    int *transfer; /* by node id, of sends, fetches and evictions: its number on this rank */
    bool *awaited; /* by node id, of these: the receiver has waited for it */
    const weft_node *evicting; /* the last that was begun; NULL: none */
    int *last_use; /* by value id: position of its last reader, its own if nobody reads it */
    bool *root;    /* by value id: read by the host after the programs */
    bool *fused; /* by node id: its result is made in place by an operand's maker; no instruction */
    bool *early; /* by node id: stands in its program's prologue */
    bool *adds;  /* by node id: adds to its first result's buffer instead of writing it */
    double products[WEFT_DTYPES]; /* operations of the forward's products, by dtype */
    bool repeats;                 /* forward and backward run more than once after BEGIN */
} weft_compiler;

/* The program that a position is of. */
weft_program *weft_compiler_program(const weft_compiler *c, int position);
weft_part weft_compiler_part(const weft_compiler *c, int position);
/* The position behind all programs of a part. */
int weft_compiler_end(const weft_compiler *c, weft_part part);
/* Does this rank send what the node sends (else it receives it, or has no part in it)? */
bool weft_compile_is_sender(const weft_compiler *c, const weft_node *n);
/* Of a node with steps: does it make weights whole? */
static inline bool weft_is_gather(const weft_node *n)
{
    return n->steps[0].move == WEFT_ALL_GATHER && n->outs[0]->weight;
}
/* Does this collective go on while others compute, on a device whose queues are more than one in
 * truth? Then nobody should have to wait for it sooner than for what it makes. */
bool weft_compile_goes_beside(const weft_compiler *c, const weft_node *n);
/* liveness.c: until which position what such a collective touches is kept for it. */
int weft_compile_beside_until(const weft_compiler *c, const weft_node *n);
/* liveness.c: sets mark 1 on every node that something reads in the end, 0 on the others. */
void weft_graph_mark_live(weft_graph *g);
/* Live nodes, program by program, and their last uses. */
weft_status weft_compile_order(weft_compiler *c);
/* group.c: collectives that run as one stand side by side, gathers ahead of their block. */
weft_status weft_compile_group(weft_compiler *c);
/* prologue.c: first gathers go to the front, for the prologues. */
weft_status weft_compile_early(weft_compiler *c);
/* fuse.c: which sums are made in place. */
weft_status weft_compile_fuse(weft_compiler *c);
/* The operand of a sum of two that is there first, and is added to where the sum is made in place.
 */
int weft_compile_total(const weft_compiler *c, const weft_node *add);
/* buffers.c: a buffer for every live value. */
weft_status weft_compile_buffers(weft_compiler *c);
/* slots.c: what must lie apart for several micro-batches. All buffers and their lives are known. */
weft_status weft_compile_slots(weft_compiler *c);
/* variants.c: programs of the steps in which not all runs. All instructions are there. */
weft_status weft_compile_variants(weft_compiler *c);
/* same_memory.c: for which micro-batches programs touch the same memory. Slots are known. */
weft_status weft_compile_alike(weft_compiler *c);
/* exchange.c: how a collective is carried out, and what it takes. Its parts and operands are known.
 */
weft_status weft_compile_exchange(weft_compiler *c, weft_instruction *in, int64_t *workspace);
/* workspace.c: what the instruction's kernel needs on any rank of this stage, as far as they choose
 * alike. */
weft_status weft_compile_workspace(weft_compiler *c, const weft_instruction *in, int64_t *bytes);
/* flops.c: the operations of one run of an instruction, and its share of a step's. */
void weft_compile_count(weft_compiler *c, weft_instruction *in, const weft_call *call,
                        weft_part part);
/* In which dtype most of the products run, once all are counted. */
void weft_compile_find_product_dtype(weft_compiler *c);
/* The call of a node on this rank; tensors has room for all operands and results. */
void weft_compile_call(const weft_compiler *c, const weft_node *n, bool accumulate,
                       weft_tensor *tensors, weft_call *call);
int weft_compile_add_buffer(weft_compiler *c, weft_buffer b);
/* Of a value that lives from one part to another. */
weft_buffer_class weft_class_between(weft_part made, weft_part read);

#endif
