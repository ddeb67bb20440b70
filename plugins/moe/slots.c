/* SPDX-License-Identifier: Apache-2.0 */
/* Where rows lie: a counting sort of the choices of each token group, and the moves of tokens and
 * weights to their slots and back. */
#include "moe.h"

#include <math.h>
#include <string.h>

/* ---- groups ---- */

moe_groups moe_groups_of(int64_t experts, int64_t batches, int64_t parts, int64_t owners,
                         double room, int64_t batch, int64_t seq, int64_t k)
{
    moe_groups m = {.batches = batches > 0 ? batches : 1,
                    .parts = parts > 0 ? parts : 1,
                    .owners = owners > 0 ? owners : 1,
                    .experts = experts,
                    .k = k};
    m.tokens = batch / m.batches * (seq / m.parts);
    const int64_t each = experts / m.owners;
    m.worst = m.tokens * (k < each ? k : each);
    m.balanced = (m.tokens * k + m.owners - 1) / m.owners;
    const double some = ceil(room * (double)(m.tokens * k) / (double)m.owners / 8) * 8;
    m.slots = room > 0 && some < (double)m.worst ? (int64_t)some : m.worst;
    return m;
}

moe_groups moe_node_groups(const weft_node *n, const weft_value *chosen)
{
    return moe_groups_of(weft_node_int(n, "experts"), weft_node_int(n, "batches"),
                         weft_node_int(n, "parts"), weft_node_int(n, "owners"),
                         weft_node_real(n, "room"), chosen->dims[0].size, chosen->dims[1].size,
                         chosen->dims[2].size);
}

moe_groups moe_call_groups(const weft_call *call, const weft_tensor *chosen)
{
    return moe_groups_of(weft_call_int(call, "experts"), weft_call_int(call, "batches"),
                         weft_call_int(call, "parts"), weft_call_int(call, "owners"),
                         weft_call_real(call, "room"), chosen->whole[0], chosen->whole[1],
                         chosen->whole[2]);
}

static weft_status check_groups(const weft_node *node, const weft_value *chosen, weft_error *err)
{
    if (chosen->n_dims != 3)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "%s of %s: choices have the dims batch, seq and chosen", node->op->name,
                         chosen->name);
    const moe_groups m = moe_node_groups(node, chosen);
    if (m.experts < 1 || m.experts % m.owners || chosen->dims[0].size % m.batches ||
        chosen->dims[1].size % m.parts)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "%s of %s: %lld experts in %lld groups, %lld samples in %lld, %lld places "
                         "in %lld: each must divide",
                         node->op->name, chosen->name, (long long)m.experts, (long long)m.owners,
                         (long long)chosen->dims[0].size, (long long)m.batches,
                         (long long)chosen->dims[1].size, (long long)m.parts);
    if ((double)m.batches * (double)m.parts * (double)m.owners * (double)m.slots >= 0x1p31)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "%s of %s: %lld slots for each of %lld pairs are more than 2^31; smaller "
                         "micro-batches, or [ep] room, take fewer",
                         node->op->name, chosen->name, (long long)m.slots,
                         (long long)(m.batches * m.parts * m.owners));
    return WEFT_OK;
}

/* ---- assign: chosen -> counts [B S experts], slot [batch seq k], refused, most [B S] ---- */

/* Of a token group: how many rows an expert is asked for, and where its first one lies. */
typedef struct sorted {
    int64_t *wanted, *first;
} sorted;

/* Calls visit for the choices of a local token group in the order of tokens. */
typedef void visit_choice(void *ctx, int64_t element, int64_t expert);

static void each_choice(const weft_tensor *chosen, const weft_tensor *counts, int64_t group,
                        visit_choice *visit, void *ctx)
{
    const int64_t k = chosen->size[2], parts = counts->size[1];
    for (int64_t b = 0; b < chosen->size[0]; b++) {
        if (moe_group(chosen, counts, 0, b) != group / parts)
            continue;
        for (int64_t s = 0; s < chosen->size[1]; s++)
            for (int64_t j = 0; j < k && moe_group(chosen, counts, 1, s) == group % parts; j++) {
                const int64_t element = (b * chosen->size[1] + s) * k + j;
                visit(ctx, element, moe_int(chosen, element));
            }
    }
}

static void count_choice(void *ctx, int64_t element, int64_t expert)
{
    (void)element;
    ((sorted *)ctx)->wanted[expert]++;
}

typedef struct filling {
    const weft_call *call;
    sorted *s;
    int64_t slots;
} filling;

static void place_choice(void *ctx, int64_t element, int64_t expert)
{
    const filling *f = ctx;
    const int64_t at = f->s->first[expert]++;
    weft_tensor_set(&f->call->outs[1], element, at < f->slots ? (double)at : -1);
}

static int64_t clamp(int64_t x, int64_t most)
{
    return x < 0 ? 0 : x < most ? x : most;
}

static void assign_group(const weft_call *call, const moe_groups *m, int64_t group, sorted *s)
{
    const weft_tensor *counts = &call->outs[0];
    const int64_t each = m->experts / m->owners;
    int64_t refused = 0, most = 0;
    memset(s->wanted, 0, (size_t)m->experts * sizeof *s->wanted);
    each_choice(&call->ins[0], counts, group, count_choice, s);
    for (int64_t x = 0, at = 0; x < m->experts; x++) {
        at = x % each ? at : 0;
        s->first[x] = at;
        weft_tensor_set(counts, group * m->experts + x, (double)clamp(m->slots - at, s->wanted[x]));
        at += s->wanted[x];
        most = at > most ? at : most;
        refused += (x + 1) % each == 0 && at > m->slots ? at - m->slots : 0;
    }
    weft_tensor_set(&call->outs[2], group, (double)refused);
    weft_tensor_set(&call->outs[3], group, (double)most / (double)m->balanced);
    each_choice(&call->ins[0], counts, group, place_choice,
                &(filling){.call = call, .s = s, .slots = m->slots});
}

static weft_status assign_plain(const weft_call *call, weft_error *err)
{
    const moe_groups m = moe_call_groups(call, &call->ins[0]);
    const weft_tensor *counts = &call->outs[0];
    weft_status status = moe_no_sum(call, err);
    if (status)
        return status;
    int64_t *list = weft_alloc((size_t)(2 * m.experts) * sizeof *list);
    if (!list)
        return weft_fail_memory(err);
    for (int64_t group = 0; group < counts->size[0] * counts->size[1]; group++)
        assign_group(call, &m, group, &(sorted){list, list + m.experts});
    weft_free(list);
    return WEFT_OK;
}

static weft_status assign_infer(weft_graph *g, weft_node *node, weft_error *err)
{
    const weft_value *chosen = node->ins[0];
    weft_status status = check_groups(node, chosen, err);
    if (status)
        return status;
    const moe_groups m = moe_node_groups(node, chosen);
    for (int i = 0; i < 4; i++) {
        weft_value *v = node->outs[i];
        v->n_dims = i < 2 ? 3 : 2;
        v->dims[0] = moe_dim(chosen->dims[0].name, m.batches);
        v->dims[1] = moe_dim(chosen->dims[1].name, m.parts);
        v->dims[2] = moe_dim("experts", m.experts);
        v->dtype = i < 2 ? WEFT_I32 : weft_graph_dtype(g);
    }
    memcpy(node->outs[1]->dims, chosen->dims, sizeof chosen->dims);
    return WEFT_OK;
}

const weft_op moe_assign = {
    .name = "assign",
    .summary = "the slot of each choice, and how many rows each expert has",
    .rule = "b s [k] -> b s [x], b s k, b s, b s",
    .attrs = MOE_GROUPS,
    .plain = assign_plain,
    .infer = assign_infer,
};

/* ---- where a choice's row is ---- */

int64_t moe_row_of(const weft_tensor *chosen, const weft_tensor *slot, const weft_tensor *rows,
                   int64_t each, int64_t element)
{
    const int64_t at = moe_int(slot, element), token = element / chosen->size[2];
    if (at < 0)
        return -1;
    const int64_t b = moe_group(chosen, rows, 0, token / chosen->size[1]),
                  s = moe_group(chosen, rows, 1, token % chosen->size[1]),
                  owner = moe_int(chosen, element) / each;
    return ((b * rows->size[1] + s) * rows->size[2] + owner) * rows->size[3] + at;
}

static int64_t width_of(const weft_tensor *rows)
{
    return rows->n_dims > 4 ? rows->size[4] : 1;
}

static int64_t each_of(const weft_call *call, const weft_tensor *rows)
{
    return weft_call_int(call, "experts") / rows->whole[2];
}

static weft_status rows_infer(weft_graph *g, weft_node *node, weft_error *err)
{
    const weft_value *x = node->ins[0], *chosen = node->ins[1];
    weft_value *v = node->outs[0];
    weft_status status = check_groups(node, chosen, err);
    (void)g;
    if (status)
        return status;
    const moe_groups m = moe_node_groups(node, chosen);
    v->n_dims = 4;
    v->dims[0] = moe_dim(chosen->dims[0].name, m.batches);
    v->dims[1] = moe_dim(chosen->dims[1].name, m.parts);
    v->dims[2] = moe_dim("expert_groups", m.owners);
    v->dims[3] = moe_dim("slots", m.slots);
    if (node->op == &moe_dispatch)
        v->dims[v->n_dims++] = x->dims[2];
    v->dtype = x->dtype;
    return WEFT_OK;
}

static void clear(const weft_call *call)
{
    const weft_tensor *y = &call->outs[0];
    if (!call->accumulate && y->data)
        memset(y->data, 0, (size_t)weft_tensor_count(y) * weft_dtype_size(y->dtype));
}

static void add_to(const weft_tensor *t, int64_t i, double x)
{
    weft_tensor_set(t, i, weft_tensor_get(t, i) + x);
}

/* ---- dispatch: x, chosen, slot -> rows ---- */

static weft_status dispatch_plain(const weft_call *call, weft_error *err)
{
    const weft_tensor *x = &call->ins[0], *chosen = &call->ins[1], *y = &call->outs[0];
    const int64_t each = each_of(call, y), width = width_of(y), k = chosen->size[2];
    (void)err;
    clear(call);
    for (int64_t i = 0; i < weft_tensor_count(chosen); i++) {
        const int64_t row = moe_row_of(chosen, &call->ins[2], y, each, i);
        for (int64_t e = 0; row >= 0 && e < width; e++)
            add_to(y, row * width + e, weft_tensor_get(x, i / k * width + e));
    }
    return WEFT_OK;
}

/* ---- combine: rows, chosen, slot -> the sum of each token's rows, in the order of its choices */

static weft_status combine_plain(const weft_call *call, weft_error *err)
{
    const weft_tensor *rows = &call->ins[0], *chosen = &call->ins[1], *slot = &call->ins[2];
    const int64_t each = each_of(call, rows), width = width_of(rows), k = chosen->size[2];
    (void)err;
    for (int64_t i = 0; i < weft_tensor_count(&call->outs[0]); i++) {
        double sum = 0;
        for (int64_t j = 0; j < k; j++) {
            const int64_t row = moe_row_of(chosen, slot, rows, each, i / width * k + j);
            sum += row < 0 ? 0 : weft_tensor_get(rows, row * width + i % width);
        }
        moe_put(call, i, sum);
    }
    return WEFT_OK;
}

/* ---- spread: weights [batch seq k] -> [B S J C]; collect: back ---- */

static weft_status spread_plain(const weft_call *call, weft_error *err)
{
    const weft_tensor *w = &call->ins[0], *chosen = &call->ins[1], *y = &call->outs[0];
    const int64_t each = each_of(call, y);
    (void)err;
    clear(call);
    for (int64_t i = 0; i < weft_tensor_count(chosen); i++) {
        const int64_t row = moe_row_of(chosen, &call->ins[2], y, each, i);
        if (row >= 0)
            add_to(y, row, weft_tensor_get(w, i));
    }
    return WEFT_OK;
}

static weft_status collect_plain(const weft_call *call, weft_error *err)
{
    const weft_tensor *rows = &call->ins[0], *chosen = &call->ins[1];
    const int64_t each = each_of(call, rows);
    (void)err;
    for (int64_t i = 0; i < weft_tensor_count(chosen); i++) {
        const int64_t row = moe_row_of(chosen, &call->ins[2], rows, each, i);
        moe_put(call, i, row < 0 ? 0 : weft_tensor_get(rows, row));
    }
    return WEFT_OK;
}

static weft_status collect_infer(weft_graph *g, weft_node *node, weft_error *err)
{
    weft_value *v = node->outs[0];
    const weft_value *chosen = node->ins[1];
    (void)g, (void)err;
    v->n_dims = chosen->n_dims;
    memcpy(v->dims, chosen->dims, sizeof v->dims);
    v->dtype = node->ins[0]->dtype;
    return WEFT_OK;
}

static weft_status combine_infer(weft_graph *g, weft_node *node, weft_error *err)
{
    collect_infer(g, node, err);
    node->outs[0]->dims[2] = node->ins[0]->dims[4];
    return WEFT_OK;
}

/* Every element is moved or added, not computed. */
static double move_flops(const weft_call *call)
{
    (void)call;
    return 0;
}

const weft_op moe_dispatch = {
    .name = "dispatch",
    .summary = "each token's row, in the slots of its experts",
    .rule = "b s e, b s [k], b s [k] -> b s [j] [c] e",
    .linear = "0",
    .grad = (const char *const[]){"0: combine dy 1 2", NULL},
    .attrs = MOE_GROUPS,
    .flags = WEFT_OP_HALF,
    .plain = dispatch_plain,
    .flops = move_flops,
    .infer = rows_infer,
};

const weft_op moe_combine = {
    .name = "combine",
    .summary = "the sum of each token's rows",
    .rule = "b s [j] [c] e, b s [k], b s [k] -> b s e",
    .linear = "0",
    .grad = (const char *const[]){"0: dispatch dy 1 2", NULL},
    .attrs = MOE_GROUPS,
    .flags = WEFT_OP_HALF,
    .plain = combine_plain,
    .flops = move_flops,
    .infer = combine_infer,
};

const weft_op moe_spread = {
    .name = "spread",
    .summary = "a number of each choice, in its slot",
    .rule = "b s [k], b s [k], b s [k] -> b s [j] [c]",
    .linear = "0",
    .grad = (const char *const[]){"0: collect dy 1 2", NULL},
    .attrs = MOE_GROUPS,
    .plain = spread_plain,
    .flops = move_flops,
    .infer = rows_infer,
};

const weft_op moe_collect = {
    .name = "collect",
    .summary = "the number of each choice, from its slot",
    .rule = "b s [j] [c], b s [k], b s [k] -> b s k",
    .linear = "0",
    .grad = (const char *const[]){"0: spread dy 1 2", NULL},
    .attrs = MOE_GROUPS,
    .plain = collect_plain,
    .flops = move_flops,
    .infer = collect_infer,
};
