/* SPDX-License-Identifier: Apache-2.0 */
/* Activation checkpointing: marks values of blocks "compute again instead of keeping". Only values
 * that depend on tokens; when a gathered weight is freed is its gatherer's business. */
#include <weft/weft.h>

#include <string.h>

static const char *const modes[] = {"none", "full", "every", "op", NULL};

static const weft_param params[] = {
    {.name = "mode",
     .type = WEFT_PARAM_CHOICE,
     .value = "full",
     .choices = modes,
     .help = "none; full: keep only what leaves a block; every: full for one block in `every`; op: "
             "keep the ops of `save`, too."},
    {.name = "every",
     .type = WEFT_PARAM_INT,
     .value = "2",
     .min = 1,
     .max = 1 << 20,
     .unit = "blocks",
     .help = "With mode = every: one block in so many is computed again."},
    {.name = "save",
     .type = WEFT_PARAM_STRING,
     .value = "linear attention",
     .flags = WEFT_PARAM_LIST,
     .help = "With mode = op: families of ops, or ops, whose results are kept."},
    {.name = NULL},
};

/* The host is all there is to remember. */
static weft_status create(const weft_host *host, void **self, weft_error *err)
{
    (void)err;
    *self = (void *)(uintptr_t)host;
    return WEFT_OK;
}

static bool leaves_block(const weft_value *v)
{
    for (int i = 0; i < v->n_uses; i++)
        if (v->uses[i].node->block != v->node->block)
            return true;
    return false;
}

/* To its family, or to its own name. */
static bool answers_to(const weft_op *op, const char *word)
{
    return strcmp(word, weft_op_family(op)) == 0 || strcmp(word, op->name) == 0;
}

static bool is_saved_op(const weft_params *p, const weft_op *op)
{
    const char *word;
    for (int i = 0; (word = weft_params_word(p, "save", i)); i++)
        if (answers_to(op, word))
            return true;
    return false;
}

/* A word that no op of the model answers to is a slip of the pen. */
static void check_saved(const weft_host *host, const weft_graph *g)
{
    const weft_params *p = host->params;
    const char *word;
    if (!weft_params_is(p, "mode", "op") || !weft_params_given(p, "save") || host->rank != 0)
        return;
    for (int i = 0; (word = weft_params_word(p, "save", i)); i++) {
        const weft_node *n = weft_graph_first(g);
        while (n && (n->block < 0 || !answers_to(n->op, word)))
            n = n->next;
        weft_where at = weft_params_where(p, "save");
        if (!n)
            weft_log_print(host->log, WEFT_LOG_WARN,
                           "%s:%d: [ac] save: no op of a block is of family '%s' or called so; "
                           "'weft plan --graph' shows all ops",
                           at.file ? at.file : "?", at.line, word);
    }
}

static bool computed_again(const weft_params *p, const weft_node *n)
{
    if (n->block < 0 || n->n_ins == 0)
        return false;
    if (weft_params_is(p, "mode", "every") && n->block % weft_params_int(p, "every") != 0)
        return false;
    return !weft_params_is(p, "mode", "op") || !is_saved_op(p, n->op);
}

static weft_status mark(void *self, weft_graph *g, weft_error *err)
{
    const weft_host *host = self;
    const weft_params *p = host->params;
    (void)err;
    if (weft_params_is(p, "mode", "none") || weft_graph_mode(g) != WEFT_MODE_TRAIN)
        return WEFT_OK;
    check_saved(host, g);
    for (weft_node *n = weft_graph_first(g); n; n = n->next) {
        bool again = computed_again(p, n);
        for (int i = 0; i < n->n_outs; i++)
            again = again && !n->outs[i]->weight && !leaves_block(n->outs[i]);
        for (int i = 0; i < n->n_outs && again; i++)
            n->outs[i]->recompute = true;
    }
    return weft_graph_status(g);
}

static const char *const needs[] = {"model", NULL};
static const weft_contribution contributions[] = {
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_GRAPH, .graph = mark, .needs = needs},
    {.kind = WEFT_END}};

WEFT_PLUGIN(ac) = {
    WEFT_PLUGIN_HEAD,
    .name = "ac",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "activation checkpointing: compute again in the backward instead of keeping",
    .numerics = WEFT_NUMERICS_BITWISE,
    .params = params,
    .contributions = contributions,
    .create = create,
};
