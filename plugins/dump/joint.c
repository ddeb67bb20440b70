/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked for, found in the joint graph. */
#include "dump.h"

#include <fnmatch.h>
#include <string.h>

/* An open sum is not yet a value: a node that takes no open operand makes the core close it.
 * Everything else is observed where it is made, so that nothing lives longer for it. */
static weft_status snapshot_plain(const weft_call *call, weft_error *err)
{
    const weft_tensor *in = &call->ins[0], *out = &call->outs[0];
    int64_t n = weft_tensor_count(in);
    if (weft_tensor_count(out) != n || out->dtype != in->dtype)
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                         "snapshot: result and operand differ in size or dtype");
    if (!call->accumulate) {
        if (n > 0)
            memcpy(out->data, in->data, (size_t)n * weft_dtype_size(in->dtype));
        return WEFT_OK;
    }
    for (int64_t i = 0; i < n; i++)
        weft_tensor_set(out, i, weft_tensor_get(out, i) + weft_tensor_get(in, i));
    return WEFT_OK;
}

static const weft_op op_snapshot = {
    .name = "snapshot",
    .summary = "a copy for observers",
    .rule = "* -> *",
    .plain = snapshot_plain,
};

const weft_op *const dump_ops[] = {&op_snapshot, NULL};

static weft_status add_target(dump *self, const weft_value *v, dump_group group, const char *name,
                              weft_error *err)
{
    if (self->n_targets == self->targets_capacity) {
        int capacity = self->targets_capacity ? 2 * self->targets_capacity : 64;
        dump_target *more = weft_realloc(self->targets, (size_t)capacity * sizeof *more);
        if (!more)
            return weft_fail_memory(err);
        self->targets = more;
        self->targets_capacity = capacity;
    }
    dump_target t = {v->id, weft_pool_strdup(&self->pool, v->name), group,
                     weft_pool_strdup(&self->pool, name)};
    if (!t.value || !t.name)
        return weft_fail_memory(err);
    self->targets[self->n_targets++] = t;
    return WEFT_OK;
}

static weft_status want(dump *self, weft_graph *g, weft_value *v, dump_group group,
                        const char *name, weft_error *err)
{
    weft_value *seen = weft_layout_open_axes(v->layout) ? weft_add1(g, "snapshot", NULL, v) : v;
    if (!seen)
        return weft_graph_status(g);
    seen->fetch = true;
    return add_target(self, seen, group, name, err);
}

static weft_status want_parameters(dump *self, weft_graph *g, weft_error *err)
{
    weft_value *p;
    weft_status status = WEFT_OK;
    for (int i = 0; status == WEFT_OK && (p = weft_graph_parameter(g, i)); i++)
        status = want(self, g, p, DUMP_PARAMETERS, p->name, err);
    return status;
}

static weft_status want_gradients(dump *self, weft_graph *g, weft_error *err)
{
    weft_value *p;
    weft_status status = WEFT_OK;
    for (int i = 0; status == WEFT_OK && (p = weft_graph_parameter(g, i)); i++)
        if (p->gradient)
            status = want(self, g, p->gradient, DUMP_GRADIENTS, p->name, err);
    return status;
}

static weft_status want_tokens(dump *self, weft_graph *g, weft_error *err)
{
    static const char *const names[] = {"ids", "labels"};
    weft_status status = WEFT_OK;
    for (int i = 0; i < 2 && status == WEFT_OK; i++) {
        weft_value *v = weft_graph_find(g, names[i]);
        if (v)
            status = want(self, g, v, DUMP_VALUES, names[i], err);
    }
    return status;
}

/* Calls want for every value that `is` says yes to, up to node `last`; *found counts them. */
static weft_status want_each(dump *self, weft_graph *g, const weft_node *last,
                             bool (*is)(const weft_value *v, const char *text), const char *text,
                             int *found, weft_error *err)
{
    weft_status status = WEFT_OK;
    for (weft_node *n = weft_graph_first(g); n && status == WEFT_OK; n = n == last ? NULL : n->next)
        for (int i = 0; i < n->n_outs && status == WEFT_OK; i++) {
            if (!is(n->outs[i], text))
                continue;
            ++*found;
            status = want(self, g, n->outs[i], DUMP_VALUES, n->outs[i]->name, err);
        }
    return status;
}

static bool is_logits(const weft_value *v, const char *text)
{
    (void)text;
    return v->role && strcmp(v->role, "logits") == 0 && v->node->phase == WEFT_FORWARD;
}

/* The result of an update is left alone: to observe it would be to make it before the host has
 * agreed to the step. */
static bool is_named(const weft_value *v, const char *pattern)
{
    return !v->update_of && fnmatch(pattern, v->name, 0) == 0;
}

static weft_status want_what(dump *self, weft_graph *g, const weft_node *last, const char *what,
                             weft_error *err)
{
    int found = 0;
    if (strcmp(what, "parameters") == 0)
        return want_parameters(self, g, err);
    if (strcmp(what, "gradients") == 0)
        return want_gradients(self, g, err);
    if (strcmp(what, "tokens") == 0)
        return want_tokens(self, g, err);
    weft_status status = want_each(self, g, last, is_logits, NULL, &found, err);
    if (status == WEFT_OK && found == 0)
        return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(self->host->params, "what"),
                         "what: the model names no value as its logits");
    return status;
}

static weft_status want_pattern(dump *self, weft_graph *g, const weft_node *last,
                                const char *pattern, weft_error *err)
{
    int found = 0;
    weft_status status = want_each(self, g, last, is_named, pattern, &found, err);
    if (status == WEFT_OK && found == 0)
        return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(self->host->params, "values"),
                         "values: '%s' matches no value that is there when dump's turn comes; see "
                         "the names with 'weft plan --print-after dump'",
                         pattern);
    return status;
}

void dump_joint(void *self_, weft_graph *g)
{
    weft_error *err = weft_graph_error(g);
    dump *self = self_;
    const weft_params *params = self->host->params;
    const weft_node *last = weft_graph_last(g);
    const char *word;
    self->n_targets = 0;
    weft_pool_release(&self->pool);
    weft_status status = WEFT_OK;
    for (int i = 0; status == WEFT_OK && (word = weft_params_word(params, "what", i)); i++)
        status = want_what(self, g, last, word, err);
    for (int i = 0; status == WEFT_OK && (word = weft_params_word(params, "values", i)); i++)
        status = want_pattern(self, g, last, word, err);
}
