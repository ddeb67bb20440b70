/* SPDX-License-Identifier: Apache-2.0 */
/* Activation checkpointing: marks values of blocks "compute again instead of keeping". Only values
 * that depend on tokens; when a gathered weight is freed is its gatherer's business. */
#include "ac.h"

#include <string.h>

static const char *const modes[] = {"none", "full", "every", "op", "budget", NULL};

enum { MODE_NONE, MODE_FULL, MODE_EVERY, MODE_OP, MODE_BUDGET };

static const weft_param params[] = {
    {.name = "mode",
     WEFT_CHOICE(ac, mode),
     .tune = "none op full budget",
     .value = "full",
     .choices = modes,
     .help = "none; full: keep only what leaves a block; every: full for one block in `every`; op: "
             "keep the ops of `save`, too; budget: keep what fits into `budget`, so that as "
             "little as possible is computed again."},
    {.name = "every",
     WEFT_INT(ac, every),
     .value = "2",
     .min = 1,
     .max = 1 << 20,
     .unit = "blocks",
     .when = "mode=every",
     .help = "One block in so many is computed again."},
    {.name = "save",
     .type = WEFT_PARAM_STRING,
     .value = "linear attention",
     .flags = WEFT_PARAM_LIST,
     .when = "mode=op",
     .help = "Families of ops, or ops, whose results are kept."},
    {.name = "budget",
     .type = WEFT_PARAM_STRING,
     .tune = "0.25 0.5 0.75",
     .value = "fit",
     .when = "mode=budget",
     .help =
         "Bytes that may be planned for a rank, as 60 GiB; fit: what the device has; up to 1: a "
         "share of the activations that would be kept without ac."},
    {.name = NULL},
};

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

bool ac_is_saved(const ac *self, const weft_op *op)
{
    const char *word;
    for (int i = 0; (word = weft_params_word(self->host->params, "save", i)); i++)
        if (answers_to(op, word))
            return true;
    return false;
}

/* A word that no op of the model answers to is a slip of the pen. */
static void check_saved(const ac *self, const weft_graph *g)
{
    const weft_params *p = self->host->params;
    const char *word;
    for (int i = 0; weft_params_given(p, "save") && (word = weft_params_word(p, "save", i)); i++) {
        const weft_node *n = weft_graph_first(g);
        while (n && (n->block < 0 || !answers_to(n->op, word)))
            n = n->next;
        if (!n)
            weft_warn(self->host, weft_params_where(p, "save"),
                      "[ac] save: no op of a block is of family '%s' or called so; "
                      "'weft plan --graph' shows all ops",
                      word);
    }
}

/* Is it to be kept whoever reads it? */
static bool is_kept(const ac *self, const weft_node *n)
{
    bool kept = n->block < 0 || n->n_ins == 0 ||
                (self->mode == MODE_EVERY && n->block % self->every != 0) ||
                (self->mode == MODE_OP && ac_is_saved(self, n->op));
    for (int i = 0; i < n->n_outs; i++)
        kept = kept || n->outs[i]->weight || leaves_block(n->outs[i]);
    return kept;
}

static void mark(void *self, weft_graph *g)
{
    const ac *a = self;
    if (a->mode == MODE_OP)
        check_saved(a, g);
    for (weft_node *n = weft_graph_first(g); n && a->mode != MODE_NONE && a->mode != MODE_BUDGET;
         n = n->next)
        for (int i = 0, kept = is_kept(a, n); i < n->n_outs && !kept; i++)
            weft_set_recompute(g, n->outs[i], true);
}

static void mark_placed(void *self, weft_graph *g)
{
    if (((ac *)self)->mode == MODE_BUDGET)
        ac_budget_mark(self, g);
}

static weft_status review(void *self, weft_plan *plan, weft_error *err)
{
    return ((ac *)self)->mode == MODE_BUDGET ? ac_budget_review(self, plan, err) : WEFT_OK;
}

static weft_status create(void *self, weft_error *err)
{
    return ac_budget_read(self, err);
}

static void destroy(void *self)
{
    ac_budget_destroy(((ac *)self)->budget);
}

static const char *const needs[] = {"model", NULL};
static const weft_contribution contributions[] = {
    {.kind = WEFT_PASS,
     .stage = WEFT_STAGE_GRAPH,
     .modes = WEFT_IN_TRAIN,
     .graph = mark,
     .needs = needs},
    {.kind = WEFT_PASS,
     .stage = WEFT_STAGE_PLACED,
     .modes = WEFT_IN_TRAIN,
     .graph = mark_placed,
     .needs = needs},
    {.kind = WEFT_REVIEW, .stage = WEFT_STAGE_PLACED, .review = review},
    {.kind = WEFT_END}};

WEFT_PLUGIN(ac) = {
    WEFT_PLUGIN_HEAD,
    .name = "ac",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "activation checkpointing: compute again in the backward instead of keeping",
    .numerics = WEFT_NUMERICS_BITWISE,
    .params = params,
    .self_size = WEFT_SELF(ac),
    .create = create,
    .destroy = destroy,
    .contributions = contributions,
};
