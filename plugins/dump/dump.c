/* SPDX-License-Identifier: Apache-2.0 */
/* Writes values of chosen steps as safetensors. */
#include "dump.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static const char *const what_choices[] = {"parameters", "gradients", "tokens", "logits", NULL};

static const weft_param params[] = {
    {.name = "steps",
     .type = WEFT_PARAM_INT,
     .value = "1",
     .min = 1,
     .max = 1e15,
     .unit = "steps",
     .flags = WEFT_PARAM_LIST,
     .help = "The steps to dump."},
    {.name = "what",
     .type = WEFT_PARAM_CHOICE,
     .value = "parameters gradients",
     .choices = what_choices,
     .flags = WEFT_PARAM_LIST,
     .help = "Parameters as the step finds them, their gradients before clipping, the tokens (ids "
             "and labels), the logits."},
    {.name = "values",
     .type = WEFT_PARAM_STRING,
     .flags = WEFT_PARAM_LIST,
     .help = "Patterns (*, ?, [a-z]) of names of other values, as 'weft plan' prints them without "
             "their mark."},
    {.name = NULL},
};

/* ---- settings ---- */

static int count_words(const weft_params *p, const char *key)
{
    int n = 0;
    while (weft_params_word(p, key, n))
        n++;
    return n;
}

static int64_t step_of(const char *word)
{
    double n = 0;
    weft_parse_number(word, &n); /* it was checked to be one */
    return (int64_t)n;
}

static weft_status read_steps(dump *self, weft_error *err)
{
    const weft_params *p = self->host->params;
    self->n_steps = count_words(p, "steps");
    self->steps = weft_alloc_zero((size_t)self->n_steps, sizeof *self->steps);
    if (!self->steps)
        return weft_fail_memory(err);
    for (int i = 0; i < self->n_steps; i++)
        self->steps[i] = step_of(weft_params_word(p, "steps", i));
    return WEFT_OK;
}

static void destroy(void *self_)
{
    dump *self = self_;
    dump_forget(self);
    weft_free(self->kept);
    weft_free(self->targets);
    weft_free(self->steps);
    weft_pool_release(&self->pool);
}

static weft_status create(void *self_, weft_error *err)
{
    return read_steps(self_, err);
}

static weft_status open_dump(void *self_, weft_error *err)
{
    const dump *self = self_;
    if (!self->host->dir && !self->host->no_data) /* who only writes text dumps nothing */
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "dump: the run has no folder to write to; set [weft] dir");
    return WEFT_OK;
}

/* ---- events ---- */

static weft_status on_start(const dump *self, const weft_run_view *run, weft_error *err)
{
    if (!run->dir)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "dump: the run has no folder to write to; set [weft] dir");
    for (int i = 0; i < self->n_steps && run->rank == 0; i++)
        if (self->steps[i] > run->steps)
            weft_log_print(self->host->log, WEFT_LOG_WARN,
                           "dump: step %" PRId64 " is never reached: the run has %" PRId64,
                           self->steps[i], run->steps);
    return WEFT_OK;
}

/* A step that fails never ends; what it made until then is worth most of all, so STOP writes it. */
static weft_status observe(void *self, weft_event event, const weft_run_view *run, weft_error *err)
{
    switch (event) {
    case WEFT_EVENT_START:
        return on_start(self, run, err);
    case WEFT_EVENT_VALUE:
        return dump_keep(self, run, err);
    case WEFT_EVENT_STEP_END:
    case WEFT_EVENT_STOP:
        return run->dir ? dump_write(self, run, err) : WEFT_OK;
    default:
        return WEFT_OK;
    }
}

/* ---- the plugin ---- */

/* Optimizers first: their state is there to be dumped, too. */
static const char *const needs[] = {"optimizer?", NULL};

static const weft_contribution contributions[] = {
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_JOINT, .needs = needs, .graph = dump_joint},
    {.kind = WEFT_OBSERVER,
     .events = WEFT_EVENT_START | WEFT_EVENT_VALUE | WEFT_EVENT_STEP_END | WEFT_EVENT_STOP,
     .observe = observe},
    {.kind = WEFT_END},
};

WEFT_PLUGIN(dump) = {
    WEFT_PLUGIN_HEAD,
    .name = "dump",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "parameters, gradients and other values of chosen steps as safetensors",
    .numerics = WEFT_NUMERICS_BITWISE,
    .params = params,
    .contributions = contributions,
    .ops = dump_ops,
    .self_size = WEFT_SELF(dump),
    .create = create,
    .open = open_dump,
    .destroy = destroy,
};
