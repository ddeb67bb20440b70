/* SPDX-License-Identifier: Apache-2.0 */
/* AdamW (Loshchilov and Hutter, "Decoupled weight decay regularization", ICLR 2019) with
 * global-norm clipping and a learning-rate schedule. */
#include "adamw.h"

static const char *const decay_choices[] = {"matrices", "all", NULL};
static const char *const lr_decay_choices[] = {"constant", "linear", "sqrt", "cosine", NULL};
static const char *const auto_word[] = {"auto", NULL};

static const weft_param params[] = {
    {.name = "lr",
     .type = WEFT_PARAM_REAL,
     .value = "3e-4",
     .min = 0,
     .max = 1e6,
     .help = "The highest learning rate, reached after the warm-up."},
    {.name = "beta1",
     .type = WEFT_PARAM_REAL,
     .value = "0.9",
     .min = 0,
     .max = 0.9999999,
     .help = "Decay rate of the mean of gradients."},
    {.name = "beta2",
     .type = WEFT_PARAM_REAL,
     .value = "0.95",
     .min = 0,
     .max = 0.9999999,
     .help = "Decay rate of the mean of squared gradients."},
    {.name = "eps",
     .type = WEFT_PARAM_REAL,
     .value = "1e-8",
     .min = 1e-30,
     .max = 1,
     .help = "Added to the root of the mean square, against division by zero."},
    {.name = "weight_decay",
     .type = WEFT_PARAM_REAL,
     .value = "0.1",
     .min = 0,
     .max = 1e6,
     .help = "Decoupled weight decay: a step shrinks a weight by lr * weight_decay of itself."},
    {.name = "decay",
     .type = WEFT_PARAM_CHOICE,
     .value = "matrices",
     .choices = decay_choices,
     .help = "What weight decay applies to: parameters with two dims or more, but those that a "
             "model leaves out (routers of experts), or all."},
    {.name = "no_decay",
     .type = WEFT_PARAM_STRING,
     .flags = WEFT_PARAM_LIST,
     .help = "Patterns (*, ?, [a-z]) of names of parameters without weight decay."},
    {.name = "max_norm",
     .type = WEFT_PARAM_REAL,
     .value = "1.0",
     .min = 0,
     .max = 1e30,
     .help = "Gradients are scaled down to this global norm; 0: never. The norm is reported in any "
             "case."},
    {.name = "warmup_steps",
     .type = WEFT_PARAM_INT,
     .value = "auto",
     .min = 0,
     .max = 1e15,
     .unit = "steps",
     .choices = auto_word,
     .help =
         "Steps in which the learning rate climbs to lr; auto: a tenth of the run, at most 200."},
    {.name = "lr_decay",
     .type = WEFT_PARAM_CHOICE,
     .value = "linear",
     .choices = lr_decay_choices,
     .help = "The shape of the learning rate's decay."},
    {.name = "decay_ratio",
     .type = WEFT_PARAM_REAL,
     .value = "auto",
     .min = 0,
     .max = 1,
     .choices = auto_word,
     .help = "The part of the run, at its end, in which the learning rate decays; auto: all after "
             "the warm-up."},
    {.name = "min_lr_factor",
     .type = WEFT_PARAM_REAL,
     .value = "0",
     .min = 0,
     .max = 1,
     .help = "The part of lr that the decay ends at."},
    {.name = NULL},
};

static void warn_of_schedule(const weft_host *host, const adamw_schedule *s)
{
    if (s->warmup > s->total)
        weft_warn(host, weft_params_where(host->params, "warmup_steps"),
                  "adamw: warmup_steps = %lld is more than the run's %lld steps: the learning "
                  "rate never reaches lr",
                  (long long)s->warmup, (long long)s->total);
    double asked = weft_params_real(host->params, "decay_ratio") * (double)s->total;
    if (s->shape != ADAMW_CONSTANT && asked >= (double)s->decay + 1)
        weft_warn(host, weft_params_where(host->params, "decay_ratio"),
                  "adamw: decay_ratio asks for %.0f steps of decay, but after the warm-up "
                  "%lld of %lld are left",
                  asked, (long long)s->decay, (long long)s->total);
}

static weft_status create(void *self_, weft_error *err)
{
    (void)err;
    adamw *self = self_;
    const weft_host *host = self->host;
    self->schedule = adamw_schedule_plan(host->params, weft_params_int(host->train, "steps"));
    warn_of_schedule(host, &self->schedule);
    return WEFT_OK;
}

static const char *const optimizer[] = {"optimizer",
                                        NULL}; /* one of a kind: given here, refused from others */

static const char *const rate[] = {"learning_rate", NULL}; /* for those listed before, too */

static const weft_contribution contributions[] = {
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_JOINT, .gives = rate, .graph = adamw_rate},
    {.kind = WEFT_PASS,
     .stage = WEFT_STAGE_JOINT,
     .gives = optimizer,
     .refuses = optimizer,
     .graph = adamw_joint},
    {.kind = WEFT_END},
};

WEFT_PLUGIN(adamw) = {
    WEFT_PLUGIN_HEAD,
    .name = "adamw",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "AdamW with global-norm clipping, warm-up and learning-rate decay",
    .numerics = WEFT_NUMERICS_CHANGES,
    .params = params,
    .contributions = contributions,
    .ops = adamw_ops,
    .kernels = adamw_cpu_kernels,
    .self_size = WEFT_SELF(adamw),
    .create = create,
};
