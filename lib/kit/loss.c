/* SPDX-License-Identifier: Apache-2.0 */
/* What a loss is made of: terms, each scaled by the tokens or the micro-batches that it is the mean
 * of. */
#include "kit/loss.h"

#include <math.h>
#include <stdio.h>

/* Behind everything, wherever a pass is adding. */
static weft_spot at_the_end(weft_graph *g)
{
    weft_spot spot = g->spot;
    if (spot.before)
        g->spot = g->end;
    return spot;
}

static void add_to(weft_graph *g, weft_value **total, weft_value *term)
{
    *total = *total ? weft_add2(g, "add", (*total)->name, *total, term) : term;
}

void weft_set_loss_count(weft_graph *g, weft_value *count)
{
    if (!count || weft_graph_status(g))
        return;
    const bool train = g->config.mode == WEFT_MODE_TRAIN;
    const char *wrong = g->tokens                  ? "the loss has a term already"
                        : count->n_dims            ? "it has dims; take its sum"
                        : count->dtype == WEFT_I32 ? "it is an integer"
                        : train && count->node->scope == WEFT_MICRO_BATCH
                            ? "each micro-batch has its own; make it of what is read of the whole "
                              "step, as step_labels"
                            : NULL;
    if (wrong)
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "%s cannot be what the loss is divided by: %s", count->name, wrong);
    g->tokens = count;
    g->counted = true;
}

/* Every term is scaled once, by the valid tokens of the whole global batch. */
static weft_value *inverse_tokens(weft_graph *g)
{
    if (g->inverse)
        return g->inverse;
    weft_graph_set_block(g, WEFT_BLOCK_NONE);
    if (!g->tokens)
        g->tokens = weft_add1(g, "count_valid", "tokens", weft_add_input(g, "step_labels"));
    g->inverse = weft_add1(g, "reciprocal", "inv_tokens", g->tokens);
    weft_graph_set_block(g, WEFT_BLOCK_HEAD);
    return g->inverse;
}

/* Validation: those of the micro-batch. */
static weft_value *valid_tokens(weft_graph *g)
{
    if (!g->tokens)
        g->tokens = weft_add1(g, "count_valid", "tokens", weft_add_input(g, "labels"));
    return g->tokens;
}

static weft_value *constant(weft_graph *g, double x)
{
    weft_value *v = weft_add(g, "constant", NULL, 0, NULL);
    weft_set_real(g, v, "value", x);
    return v;
}

static weft_value *times(weft_graph *g, weft_value *v, double weight)
{
    return weight == 1 ? v : weft_add2(g, "scale", NULL, v, constant(g, weight));
}

void weft_loss_push_term(weft_graph *g, const char *name, weft_value *v)
{
    weft_loss_term *t = weft_pool_alloc(&g->pool, sizeof *t);
    char *copy = weft_pool_strdup(&g->pool, name);
    if (!t || !copy)
        return;
    *t = (weft_loss_term){copy, v};
    weft_graph_push(g, (void ***)&g->terms, &g->n_terms, &g->terms_capacity, t);
}

static void add_term(weft_graph *g, const char *name, weft_value *x, weft_value *factor)
{
    weft_value *term = weft_add2(g, "scale", "loss", x, factor);
    if (!term)
        return;
    weft_loss_push_term(g, name, term);
    add_to(g, &g->loss, term);
}

void weft_loss_add_sum(weft_graph *g, const char *name, weft_value *sum, double weight)
{
    if (g->config.mode == WEFT_MODE_EVALUATE) {
        add_to(g, &g->loss_sum, times(g, sum, weight));
        valid_tokens(g);
        return;
    }
    weft_value *factor = times(g, inverse_tokens(g), weight);
    add_term(g, name, sum, factor);
}

void weft_loss_add_shifted(weft_graph *g, const char *name, weft_value *sum, double weight,
                           int shift)
{
    char labels[32];
    snprintf(labels, sizeof labels, "step_labels+%d", shift);
    weft_graph_set_block(g, WEFT_BLOCK_NONE);
    weft_value *count = weft_add1(g, "count_valid", NULL, weft_add_input(g, labels));
    weft_value *factor = times(g, weft_add1(g, "reciprocal", NULL, count), weight);
    weft_graph_set_block(g, WEFT_BLOCK_HEAD);
    add_term(g, name, sum, factor);
}

/* The same number for every token of the micro-batch. */
static void add_each(weft_graph *g, const char *name, weft_value *scalar, double weight)
{
    if (g->config.mode == WEFT_MODE_EVALUATE) {
        weft_value *mean = times(g, scalar, weight);
        add_to(g, &g->loss_sum, weft_add2(g, "scale", NULL, mean, valid_tokens(g)));
        return;
    }
    weft_value *factor = constant(g, weight / (double)g->config.sizes.micro_batches);
    add_term(g, name, scalar, factor);
}

weft_status weft_loss_check_name(weft_graph *g, const char *name)
{
    size_t n = 0;
    while (name[n] > ' ' && name[n] < 127 && name[n] != '"' && name[n] != '\\')
        n++;
    if (n > 0 && !name[n] && n < WEFT_LOSS_NAME)
        return WEFT_OK;
    weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                    "'%s' cannot be a loss's name: that is 1 to %d letters, digits and signs "
                    "without a space or quotes",
                    name, WEFT_LOSS_NAME - 1);
    return weft_graph_status(g);
}

static weft_status check_term(weft_graph *g, const weft_value *v, double weight)
{
    if (v->n_dims > 0)
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "%s cannot be a loss: it has %d dim%s; take its sum", v->name, v->n_dims,
                        v->n_dims > 1 ? "s" : "");
    else if (v->dtype == WEFT_I32)
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE, "%s cannot be a loss: it is an integer",
                        v->name);
    else if (!isfinite(weight))
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "%s cannot be a loss of weight %g; a weight is a finite number", v->name,
                        weight);
    else if (g->loss_report)
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "%s comes too late to be a loss: the backward is in the graph; add it in a "
                        "graph pass",
                        v->name);
    return weft_graph_status(g);
}

void weft_add_loss(weft_graph *g, const char *name, weft_value *scalar, double weight,
                   unsigned flags)
{
    name = name ? name : g->by;
    if (!scalar || check_term(g, scalar, weight) || weft_loss_check_name(g, name))
        return;
    if (g->config.mode != WEFT_MODE_TRAIN &&
        !(g->config.mode == WEFT_MODE_EVALUATE && flags & WEFT_LOSS_VALIDATION))
        return;
    weft_spot spot = at_the_end(g);
    const char *prefix = g->prefix, *parameters = g->parameter_prefix;
    weft_graph_set_block(g, WEFT_BLOCK_HEAD);
    if (flags & WEFT_LOSS_PER_MICRO_BATCH)
        add_each(g, name, scalar, weight);
    else
        weft_loss_add_sum(g, name, scalar, weight);
    g->spot = spot;
    g->prefix = prefix; /* the caller goes on in its block */
    g->parameter_prefix = parameters;
}
