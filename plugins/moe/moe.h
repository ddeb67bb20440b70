/* SPDX-License-Identifier: Apache-2.0 */
/* Experts: which tokens go to which, where their rows lie, and products of the rows.
 *
 * Tokens are in token groups, B parts of the batch times S parts of the sequence; experts in J
 * expert groups. A pair of a token group and an expert group has C slots, each a row of a buffer
 * [B S J C embed]: the rows of one expert together, in the order of experts, then of tokens. Rows
 * behind those that are used are zeros. No result for a token depends on B, S, J or C. */
#ifndef MOE_H
#define MOE_H

#include <weft/weft.h>

/* clang-format off */
#define MOE_OPS(X) \
    X(route) X(route_dx) X(assign) X(dispatch) X(combine) X(spread) X(collect) \
    X(grouped) X(grouped_dx) X(grouped_dw) X(slot_scale) X(slot_dot) \
    X(expert_load) X(load_peak) X(bias_step) X(scalar_sum) X(scalar_max) X(largest) \
    X(router_mean) X(router_mean_dx) X(router_share) X(balance) X(balance_dp) \
    X(router_z) X(router_z_dx)
/* clang-format on */

#define MOE_DECLARE(op) extern const weft_op moe_##op;
MOE_OPS(MOE_DECLARE)
#undef MOE_DECLARE

extern const weft_op *const moe_ops[];
extern const weft_kernel moe_kernels[];

/* Attribute `score` of route: how logits become scores. */
enum { MOE_SOFTMAX, MOE_SIGMOID, MOE_SOFTMAX_CHOSEN };

/* What ops that know of groups have as attributes. room: 0, or times the balanced load. */
#define MOE_GROUPS "experts, batches, parts, owners, room"

/* The groups of an op of tokens chosen [batch seq k], from its attributes. */
typedef struct moe_groups {
    int64_t batches, parts, owners, experts; /* B, S, J, E */
    int64_t tokens, k, slots;                /* of a token group; C */
    int64_t balanced, worst; /* k tokens / J, rounded up; slots that never overflow */
} moe_groups;

moe_groups moe_groups_of(int64_t experts, int64_t batches, int64_t parts, int64_t owners,
                         double room, int64_t batch, int64_t seq, int64_t k);
moe_groups moe_node_groups(const weft_node *n, const weft_value *chosen);
moe_groups moe_call_groups(const weft_call *call, const weft_tensor *chosen);

/* Where the row of a choice is in rows [B S J C ...]; -1: it has none. each: experts of an expert
 * group. */
int64_t moe_row_of(const weft_tensor *chosen, const weft_tensor *slot, const weft_tensor *rows,
                   int64_t each, int64_t element);

/* Tokens [from, to) of a route and of its gradient; room: of so many bytes. */
typedef void moe_tokens(const weft_call *call, int64_t from, int64_t to, double *room);
moe_tokens moe_route_tokens, moe_route_tokens_dx;
size_t moe_route_room(const weft_call *call);

/* Passes. */
void moe_place(void *self, weft_graph *g); /* stage table */
void moe_learn(void *self, weft_graph *g); /* stage joint */

/* ---- for plain kernels ---- */

static inline void moe_put(const weft_call *call, int64_t i, double x)
{
    const weft_tensor *y = &call->outs[0];
    weft_tensor_set(y, i, call->accumulate ? weft_tensor_get(y, i) + x : x);
}

static inline int64_t moe_int(const weft_tensor *t, int64_t i)
{
    return t->dtype == WEFT_I32 ? ((const int32_t *)t->data)[i] : (int64_t)weft_tensor_get(t, i);
}

static inline int64_t moe_last(const weft_tensor *t)
{
    return t->size[t->n_dims - 1];
}

/* An op that gives whole numbers, or state, adds to nothing. */
static inline weft_status moe_no_sum(const weft_call *call, weft_error *err)
{
    return call->accumulate ? weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE, "%s adds to nothing",
                                        call->op->name)
                            : WEFT_OK;
}

/* The group, counted from the first that is here, of row i of dim d of `tokens`, of the groups that
 * dim d of `groups` counts. */
static inline int64_t moe_group(const weft_tensor *tokens, const weft_tensor *groups, int d,
                                int64_t i)
{
    return (tokens->lo[d] + i) * groups->whole[d] / tokens->whole[d] - groups->lo[d];
}

/* A result's dim. */
static inline weft_dim moe_dim(const char *name, int64_t size)
{
    return (weft_dim){name, size, 1};
}

#endif
