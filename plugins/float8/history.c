/* SPDX-License-Identifier: Apache-2.0 */
/* Delayed scaling: the maxima of past steps, and the scale that follows from them, are state. What
 * a step has seen is known at its end, on all ranks alike, and serves the next. */
#include "float8.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

weft_value *f8_history(weft_graph *g, const weft_params *p, const char *weight, const char *which,
                       char *name, size_t size)
{
    char scale[512];
    snprintf(name, size, "float8.%s.%s.amax", weight, which);
    snprintf(scale, sizeof scale, "float8.%s.%s.scale", weight, which);
    weft_value *there = weft_graph_find(g, scale);
    if (there)
        return there;
    weft_graph_dim(g, "amax_history", weft_params_int(p, "history"), 1);
    if (weft_graph_mode(g) == WEFT_MODE_TRAIN)
        weft_add_state(g, name, "amax_history", WEFT_F32, (weft_init){.kind = WEFT_INIT_ZERO},
                       WEFT_STATE_HISTORY);
    return weft_add_state(g, scale, "", WEFT_F32, (weft_init){.kind = WEFT_INIT_ONE},
                          WEFT_STATE_HISTORY);
}

/* ---- the op: history, scale, step, maxima of this step -> the next two ---- */

static weft_status rule(const weft_node *node, weft_text *text, weft_error *err)
{
    (void)err;
    weft_text_add(text, "[h]");
    for (int i = 1; i < node->n_ins; i++)
        weft_text_add(text, ", ");
    weft_text_add(text, " -> [h], ");
    return WEFT_OK;
}

static weft_status infer(weft_graph *graph, weft_node *node, weft_error *err)
{
    (void)graph, (void)err;
    for (int i = 0; i < 2; i++) {
        weft_value *out = node->outs[i];
        out->n_dims = node->ins[i]->n_dims;
        memcpy(out->dims, node->ins[i]->dims, sizeof out->dims);
        out->dtype = node->ins[i]->dtype;
    }
    return WEFT_OK;
}

static weft_status plain(const weft_call *call, weft_error *err)
{
    const weft_tensor *was = &call->ins[0], *out = &call->outs[0];
    int64_t n = weft_tensor_count(out), interval = weft_call_int(call, "interval");
    bool recent = weft_call_int(call, "recent") != 0;
    double now = 0, amax;
    if (call->accumulate)
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                         "float8_history: nothing is added to its result");
    for (int i = 3; i < call->n_ins; i++) {
        double x = weft_tensor_get(&call->ins[i], 0);
        now = x > now || isnan(x) ? x : now;
    }
    amax = now;
    for (int64_t i = n - 1; i > 0; i--) { /* may lie where the old one lay */
        double x = weft_tensor_get(was, i - 1);
        amax = !recent && x > amax ? x : amax;
        weft_tensor_set(out, i, x);
    }
    weft_tensor_set(out, 0, now);
    double scale = weft_tensor_get(&call->ins[1], 0);
    int64_t step = llround(weft_tensor_get(&call->ins[2], 0));
    if (step % (interval < 1 ? 1 : interval) == 0)
        scale = amax > 0
                    ? (double)weft_f8_scale_of(amax, weft_dtype_find(weft_call_text(call, "dtype")),
                                               weft_call_int(call, "power_of_two") != 0,
                                               weft_call_int(call, "margin"))
                    : 1;
    weft_tensor_set(&call->outs[1], 0, scale);
    return WEFT_OK;
}

const weft_op f8_op_history = {
    .name = "float8_history",
    .summary = "past maxima with that of this step in front, and the scale of the next",
    .make_rule = rule,
    .attrs = "dtype, power_of_two, margin, interval, recent",
    .infer = infer,
    .plain = plain,
};

/* ---- passes ---- */

/* Scales are kept for the backward, whoever wants all to be computed again: they are small, and
 * their maxima would be asked of all ranks once more. Those of weights are asked for together. */
void f8_placed(void *self, weft_graph *g)
{
    (void)self;
    for (weft_node *n = weft_graph_first(g); n; n = n->next) {
        if (!f8_is(n, &f8_op_scale))
            continue;
        weft_value *v = n->outs[0], *amax = n->ins[0];
        if (!v->weight)
            v->recompute = false;
        for (; v->weight && amax->node->n_ins == 1; amax = amax->node->ins[0])
            if (amax->node->steps)
                weft_set_mark(g, amax, WEFT_MARK_GROUP, WEFT_GROUP_ALL);
    }
}

enum {
    BEFORE = 3,      /* operands of float8_history before the maxima */
    MOST_MAXIMA = 48 /* as many as kernels take */
};

/* Maxima that some history will remember. */
typedef struct maxima {
    weft_value **list;
    int n;
} maxima;

static weft_status find_maxima(weft_graph *g, maxima *m, weft_error *err)
{
    int n = 0;
    for (weft_node *x = weft_graph_first(g); x; x = x->next)
        n += f8_is(x, &f8_op_amax);
    if (!(m->list = weft_alloc(((size_t)n + 1) * sizeof(weft_value *))))
        return weft_fail_memory(err);
    for (weft_node *x = weft_graph_first(g); x; x = x->next)
        if (f8_is(x, &f8_op_amax) && *weft_node_text(x, "history") && x->phase != WEFT_RECOMPUTE)
            m->list[m->n++] = x->outs[0];
    return WEFT_OK;
}

/* Those of `history`, accumulated over micro-batches. There is none of a gradient that nobody
 * needs. Returns how many. */
static int take(weft_graph *g, const maxima *m, const char *history, weft_value **list)
{
    int found = 0;
    for (int i = 0; i < m->n; i++) {
        if (strcmp(weft_node_text(m->list[i]->node, "history"), history) != 0)
            continue;
        if (found == MOST_MAXIMA) {
            weft_graph_fail(g, WEFT_ERR_INPUT, WEFT_NOWHERE,
                            "[float8] recipe = delayed: more than %d linears share %s; choose "
                            "another recipe for their weight, by [float8] recipe_of",
                            MOST_MAXIMA, history);
            break;
        }
        list[found++] = weft_accumulate(g, m->list[i], WEFT_MAX);
    }
    return found;
}

static void remember(weft_graph *g, const weft_params *p, const maxima *m, weft_value *history)
{
    weft_value *ins[BEFORE + MOST_MAXIMA], *outs[2] = {NULL, NULL};
    const char *name = history->name;
    int length = (int)(strlen(name) - strlen(".amax"));
    bool of_x = strncmp(name + length - 2, ".x", 2) == 0;
    char *scale = weft_format("%.*s.scale", length, name);
    if (!scale) {
        weft_fail_memory(weft_graph_error(g));
        return;
    }
    ins[0] = history;
    ins[1] = weft_graph_find(g, scale);
    weft_free(scale);
    ins[2] = weft_add_input(g, "step");
    weft_graph_set_block(g, history->node->block);
    int found = take(g, m, name, ins + BEFORE);
    const weft_attr attrs[] = {
        {.key = "dtype",
         .kind = WEFT_ATTR_TEXT,
         .text = weft_dtype_name(of_x ? WEFT_F8E4M3 : WEFT_F8E5M2)},
        {.key = "power_of_two",
         .kind = WEFT_ATTR_INT,
         .i = weft_params_is(p, "power_of_two", "yes")},
        {.key = "margin", .kind = WEFT_ATTR_INT, .i = weft_params_int(p, "margin")},
        {.key = "interval", .kind = WEFT_ATTR_INT, .i = weft_params_int(p, "interval")},
        {.key = "recent", .kind = WEFT_ATTR_INT, .i = weft_params_is(p, "amax", "recent")}};
    weft_value *v = weft_add_full(g, f8_op_history.name, NULL, BEFORE + found, ins, 2, outs, attrs,
                                  sizeof attrs / sizeof *attrs);
    for (int i = 0; v && i < v->node->n_ins; i++)
        if (v->node->ins[i]->node->steps)
            weft_set_mark(g, v->node->ins[i], WEFT_MARK_GROUP, WEFT_GROUP_ALL);
    weft_set_update(g, ins[0], outs[0]);
    weft_set_update(g, ins[1], outs[1]);
}

static bool is_history(const weft_node *n)
{
    const char *name = weft_node_is(n, WEFT_OP_STATE) ? n->outs[0]->name : "";
    size_t size = strlen(name), end = strlen(".amax");
    return strncmp(name, "float8.", 7) == 0 && size > end &&
           strcmp(name + size - end, ".amax") == 0;
}

void f8_joint(void *self, weft_graph *g)
{
    const weft_host *host = self;
    maxima m = {0};
    weft_status s = find_maxima(g, &m, weft_graph_error(g));
    for (weft_node *n = weft_graph_first(g); n && !s; n = n->next) {
        if (is_history(n))
            remember(g, host->params, &m, n->outs[0]);
        s = weft_graph_status(g);
    }
    for (int i = 0; i < m.n && !s;
         i++) /* nobody asks any more, and what differs cannot be joined */
        weft_set_text(g, m.list[i], "history", "");
    weft_graph_set_block(g, WEFT_BLOCK_NONE);
    weft_free(m.list);
}
