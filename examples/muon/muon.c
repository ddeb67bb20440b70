/* SPDX-License-Identifier: Apache-2.0 */
/* Muon (Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024): matrices
 * move by their momentum, made orthogonal. It takes chosen parameters; an optimizer that is listed
 * behind it, as adamw, takes the rest. */
#include "muon.h"

#include <fnmatch.h>

static const weft_param params[] = {
    {.name = "lr",
     .type = WEFT_PARAM_REAL,
     .value = "1e-3",
     .min = 0,
     .max = 1e6,
     .help = "The highest learning rate; a step is as large as one of AdamW's at this rate."},
    {.name = "momentum",
     .type = WEFT_PARAM_REAL,
     .value = "0.95",
     .min = 0,
     .max = 0.9999999,
     .help = "What a step leaves of the momentum."},
    {.name = "weight_decay",
     .type = WEFT_PARAM_REAL,
     .value = "0.1",
     .min = 0,
     .max = 1e6,
     .help = "Decoupled weight decay: a step shrinks a weight by lr * weight_decay of itself."},
    {.name = "max_norm",
     .type = WEFT_PARAM_REAL,
     .value = "1.0",
     .min = 0,
     .max = 1e30,
     .help = "Gradients are scaled down to this norm over all trained parameters; 0: never."},
    {.name = "warmup_steps",
     .type = WEFT_PARAM_INT,
     .value = "0",
     .min = 0,
     .max = 1e15,
     .unit = "steps",
     .help = "Steps in which the rate climbs to lr; it falls in a line from there to the run's "
             "end."},
    {.name = "parameters",
     .type = WEFT_PARAM_STRING,
     .value = "*",
     .flags = WEFT_PARAM_LIST,
     .help = "Patterns of names of the parameters it takes, of those with two dims or more."},
    {.name = "exclude",
     .type = WEFT_PARAM_STRING,
     .value = "*embed* *lm_head* *wte* *wpe*",
     .flags = WEFT_PARAM_LIST,
     .help = "Patterns of names of parameters that it leaves to others."},
    {.name = NULL},
};

/* ---- which parameters ---- */

static bool matches(const weft_params *keys, const char *key, const char *name)
{
    const char *pattern;
    for (int i = 0; (pattern = weft_params_word(keys, key, i)); i++)
        if (fnmatch(pattern, name, 0) == 0)
            return true;
    return false;
}

static bool takes(const weft_value *p, void *keys)
{
    return p->n_dims >= 2 && matches(keys, "parameters", p->name) &&
           !matches(keys, "exclude", p->name);
}

/* A pattern that speaks of no matrix is a slip of the pen. */
static weft_status check_patterns(const weft_params *keys, const weft_graph *g, weft_error *err)
{
    weft_status status = WEFT_OK;
    const char *pattern;
    for (int i = 0; (pattern = weft_params_word(keys, "parameters", i)); i++) {
        const weft_value *p;
        int k = 0;
        while ((p = weft_graph_parameter(g, k)) &&
               (p->n_dims < 2 || fnmatch(pattern, p->name, 0) != 0))
            k++;
        if (!p)
            status = weft_fail(err, WEFT_ERR_INPUT, weft_params_where(keys, "parameters"),
                               "[muon] parameters: '%s' matches no parameter of two dims or more",
                               pattern);
    }
    return status;
}

/* ---- the pass ---- */

static weft_value *rate(const weft_host *host, weft_graph *g)
{
    weft_value *lr = weft_add1(g, "muon_rate", NULL, weft_add_input(g, "step"));
    weft_set_real(g, lr, "lr", weft_params_real(host->params, "lr"));
    weft_set_int(g, lr, "warmup", weft_params_int(host->params, "warmup_steps"));
    weft_set_int(g, lr, "total", weft_params_int(host->train, "steps"));
    return lr;
}

/* Momentum and update lie as the parameter does. In between the matrix is whole on every rank,
 * since the rule of muon_orthogonal says so: the core gathers it, and takes each rank's part again.
 */
static weft_status update(const weft_params *keys, weft_graph *g, weft_value *p, weft_value *clip,
                          weft_value *lr, weft_error *err)
{
    char *name = weft_format("%s.momentum", p->name);
    if (!name)
        return weft_fail_memory(err);
    weft_value *m = weft_add_state_like(g, name, p, p->dtype, WEFT_STATE_OPTIMIZER);
    weft_free(name);
    weft_value *ins[] = {p->gradient, m, clip}, *outs[] = {NULL, NULL};
    weft_add_many(g, "muon_momentum", NULL, 3, ins, 2, outs);
    weft_set_real(g, outs[0], "momentum", weft_params_real(keys, "momentum"));
    weft_value *whole = weft_add1(g, "muon_orthogonal", NULL, outs[0]);
    weft_value *next = weft_add3(g, "muon_update", NULL, p, whole, lr);
    weft_set_real(g, next, "weight_decay", weft_params_real(keys, "weight_decay"));
    weft_set_update(g, m, outs[1]);
    weft_set_update(g, p, next);
    return weft_graph_status(g);
}

static void joint(void *self, weft_graph *g)
{
    const weft_host *host = self;
    void *keys = (void *)(uintptr_t)host->params;
    weft_status status = check_patterns(keys, g, weft_graph_error(g));
    int n = weft_graph_unclaimed(g, takes, keys, NULL);
    if (status != WEFT_OK)
        return status;
    if (n == 0) {
        weft_graph_fail(g, WEFT_ERR_INPUT, weft_params_where(keys, "parameters"),
                        "[muon]: nothing is left that it takes: what `parameters` names is "
                        "excluded, not trained, or taken by an optimizer listed before");
        return;
    }
    weft_value **list = weft_alloc_zero((size_t)n, sizeof *list);
    if (!list) {
        weft_fail_memory(weft_graph_error(g));
        return;
    }
    weft_graph_unclaimed(g, takes, keys, list);
    weft_value *clip = weft_gradient_clip(g, weft_params_real(keys, "max_norm"));
    weft_value *lr = rate(host, g);
    for (int i = 0; i < n && status == WEFT_OK; i++) {
        weft_graph_set_block(g, list[i]->node->block);
        status = update(keys, g, list[i], clip, lr, weft_graph_error(g));
    }
    weft_graph_set_block(g, WEFT_BLOCK_NONE);
    weft_free(list);
    weft_add_report(g, "muon.lr", lr);
    return status != WEFT_OK ? status : weft_graph_status(g);
}

/* One that takes all that is left must come behind it. */
static const char *const optimizer[] = {"optimizer", NULL};
static const weft_contribution contributions[] = {
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_JOINT, .graph = joint, .refuses = optimizer},
    {.kind = WEFT_END},
};

WEFT_PLUGIN(muon) = {
    WEFT_PLUGIN_HEAD,
    .name = "muon",
    .version = "1.0",
    .licence = "Apache-2.0",
    .summary = "Muon for matrices, beside another optimizer for the rest",
    .numerics = WEFT_NUMERICS_CHANGES,
    .params = params,
    .contributions = contributions,
    .ops = muon_ops,
};
