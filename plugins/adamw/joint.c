/* SPDX-License-Identifier: Apache-2.0 */
/* The step_end graph. It speaks of whole gradients; where a norm needs an all-reduce, the core's
 * placement puts one. */
#include "adamw.h"

#include <fnmatch.h>
#include <string.h>

bool adamw_decays(const weft_params *params, const char *name, int n_dims)
{
    if (n_dims < 2 && weft_params_is(params, "decay", "matrices"))
        return false;
    const char *pattern;
    for (int i = 0; (pattern = weft_params_word(params, "no_decay", i)); i++)
        if (fnmatch(pattern, name, 0) == 0)
            return false;
    return true;
}

/* A pattern that names no parameter is a slip of the pen: say so instead of decaying what should
 * not be. */
static weft_status check_patterns(const weft_params *params, const weft_graph *g, weft_error *err)
{
    weft_status status = WEFT_OK;
    const char *pattern;
    for (int i = 0; (pattern = weft_params_word(params, "no_decay", i)); i++) {
        const weft_value *p;
        for (int k = 0; (p = weft_graph_parameter(g, k)) && fnmatch(pattern, p->name, 0) != 0; k++)
            ;
        if (!p)
            status = weft_fail(err, WEFT_ERR_INPUT, weft_params_where(params, "no_decay"),
                               "no_decay: '%s' matches no parameter; names look like '%s'", pattern,
                               weft_graph_parameter(g, 0) ? weft_graph_parameter(g, 0)->name
                                                          : "(this model has none)");
    }
    return status;
}

static void warn_of_untrained(const adamw *self, const weft_graph *g)
{
    weft_value *p;
    for (int i = 0; (p = weft_graph_parameter(g, i)); i++)
        if (!p->gradient && !p->frozen)
            weft_warn(
                self->host, WEFT_NOWHERE,
                "adamw: %s has no gradient and stays as it is: the loss does not depend on it",
                p->name);
}

/* What optimizers that take some of the parameters share: the value `lr`, and numbers that its node
 * says. */
void adamw_rate(void *self_, weft_graph *g)
{
    const adamw *self = self_;
    const adamw_schedule *s = &self->schedule;
    weft_value *lr = weft_add1(g, "lr_schedule", "lr", weft_add_input(g, "step"));
    weft_set_real(g, lr, "lr", s->lr);
    weft_set_real(g, lr, "min_factor", s->min_factor);
    weft_set_int(g, lr, "warmup", s->warmup);
    weft_set_int(g, lr, "decay", s->decay);
    weft_set_int(g, lr, "total", s->total);
    weft_set_text(g, lr, "shape", adamw_shape_name(s->shape));
    weft_set_real(g, lr, "weight_decay", weft_params_real(self->host->params, "weight_decay"));
    weft_set_int(g, lr, "decay_all", weft_params_is(self->host->params, "decay", "all"));
    weft_set_real(g, lr, "max_norm", weft_params_real(self->host->params, "max_norm"));
}

static weft_value *moment(weft_graph *g, weft_value *p, const char *which, weft_error *err)
{
    char *name = weft_format("%s.%s", p->name, which);
    if (!name) {
        weft_fail_memory(err);
        return NULL;
    }
    weft_value *state = weft_add_state_like(g, name, p, p->dtype, WEFT_STATE_OPTIMIZER);
    weft_free(name);
    return state;
}

static weft_status update(const adamw *self, weft_graph *g, weft_value *p, weft_value *clip,
                          weft_value *lr, weft_value *step, weft_error *err)
{
    const weft_params *params = self->host->params;
    weft_value *m = moment(g, p, "exp_avg", err), *v = moment(g, p, "exp_avg_sq", err);
    if (!m || !v)
        return weft_graph_status(g) != WEFT_OK ? weft_graph_status(g) : WEFT_ERR_MEMORY;
    weft_value *ins[] = {p, m, v, p->gradient, clip, lr, step}, *outs[3] = {NULL, NULL, NULL};
    weft_value *next = weft_add_many(g, "adamw", NULL, 7, ins, 3, outs);
    weft_set_real(g, next, "beta1", weft_params_real(params, "beta1"));
    weft_set_real(g, next, "beta2", weft_params_real(params, "beta2"));
    weft_set_real(g, next, "eps", weft_params_real(params, "eps"));
    const bool left = weft_get_mark(p->node, WEFT_MARK_NO_DECAY) &&
                      weft_params_is(params, "decay", "matrices"),
               decays = !left && adamw_decays(params, p->name, p->n_dims);
    weft_set_real(g, next, "weight_decay", decays ? weft_params_real(params, "weight_decay") : 0);
    for (int i = 0; i < 3; i++)
        weft_set_update(g, ins[i], outs[i]);
    return weft_graph_status(g);
}

/* Nobody has a gradient, or others have taken all. */
static weft_status nothing_left(const weft_graph *g, weft_error *err)
{
    const weft_value *p;
    for (int i = 0; (p = weft_graph_parameter(g, i)); i++)
        if (p->gradient)
            return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                             "adamw: nothing is left to update: %s is listed before it and takes "
                             "%s, and others all the rest; take adamw out of [weft] plugins",
                             p->updated_by, p->name);
    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                     "adamw: no parameter has a gradient; list a model in [weft] plugins");
}

void adamw_joint(void *self_, weft_graph *g)
{
    const adamw *self = self_;
    const weft_params *params = self->host->params;
    weft_error *err = weft_graph_error(g);
    int n = weft_graph_unclaimed(g, NULL, NULL, NULL);
    if (check_patterns(params, g, err) || (n == 0 && nothing_left(g, err)))
        return;
    warn_of_untrained(self, g);

    weft_value **parameters = weft_alloc_zero((size_t)n, sizeof *parameters);
    if (!parameters) {
        weft_fail_memory(err);
        return;
    }
    weft_graph_unclaimed(g, NULL, NULL, parameters);
    weft_value *clip = weft_gradient_clip(g, weft_params_real(params, "max_norm"));
    weft_value *step = weft_add_input(g, "step");
    weft_value *lr = weft_graph_find(g, "lr");
    for (int i = 0; i < n && !weft_graph_status(g); i++) {
        weft_graph_set_block(g, parameters[i]->node->block);
        update(self, g, parameters[i], clip, lr, step, err);
    }
    weft_graph_set_block(g, WEFT_BLOCK_NONE);
    weft_free(parameters);
    weft_add_report(g, "lr", lr);
}
