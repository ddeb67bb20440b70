/* SPDX-License-Identifier: Apache-2.0 */
/* Muon (Jordan et al., "Muon: an optimizer for hidden layers in neural networks", 2024; Liu et al.,
 * "Muon is scalable for LLM training", 2025): matrices move by their momentum, made orthogonal. It
 * takes those of the blocks; an optimizer that is listed behind it, as adamw, takes the rest. */
#include "muon.h"

static const char *const auto_word[] = {"auto", NULL};
static const char *const scales[] = {"match_rms", "original", NULL};
static const char *const dtypes[] = {"auto", "f32", "bf16", NULL};

static const weft_param params[] = {
    {.name = "lr",
     .type = WEFT_PARAM_REAL,
     .value = "auto",
     .min = 0,
     .max = 1e6,
     .choices = auto_word,
     .help = "The highest learning rate; auto: that of the optimizer that takes the rest. Warm-up "
             "and decay are that one's in any case."},
    {.name = "scale",
     .type = WEFT_PARAM_CHOICE,
     .value = "match_rms",
     .choices = scales,
     .help =
         "The length of a step: match_rms, as AdamW's at the same rate; original, as Jordan's."},
    {.name = "momentum",
     .type = WEFT_PARAM_REAL,
     .value = "0.95",
     .min = 0,
     .max = 0.9999999,
     .help = "Decay rate of the mean of gradients."},
    {.name = "nesterov",
     .type = WEFT_PARAM_BOOL,
     .value = "yes",
     .help = "Look one step of the momentum ahead."},
    {.name = "weight_decay",
     .type = WEFT_PARAM_REAL,
     .value = "auto",
     .min = 0,
     .max = 1e6,
     .choices = auto_word,
     .help = "Decoupled weight decay; auto: that of the optimizer that takes the rest."},
    {.name = "iterations",
     .type = WEFT_PARAM_INT,
     .value = "5",
     .min = 1,
     .max = 100,
     .unit = "steps",
     .flags = WEFT_PARAM_ADVANCED,
     .help = "Steps of Newton and Schulz's iteration."},
    {.name = "dtype",
     .type = WEFT_PARAM_CHOICE,
     .value = "auto",
     .choices = dtypes,
     .help = "What the iteration computes in and sends; auto: bf16 where the model computes in "
             "bf16, else f32."},
    {.name = "parameters",
     .type = WEFT_PARAM_STRING,
     .value = "auto",
     .flags = WEFT_PARAM_LIST,
     .help =
         "Patterns (*, ?, [a-z]) of names of the parameters it takes, of those with two dims or "
         "more; auto: all of the blocks."},
    {.name = "exclude",
     .type = WEFT_PARAM_STRING,
     .flags = WEFT_PARAM_LIST,
     .help = "Patterns of names of parameters that it leaves to others."},
    {.name = NULL},
};

/* One that takes all that is left must come behind it, but says the learning rate before. */
static const char *const optimizer[] = {"optimizer", NULL};
static const weft_contribution contributions[] = {
    {.kind = WEFT_PASS,
     .stage = WEFT_STAGE_JOINT,
     .after = "learning_rate",
     .refuses = optimizer,
     .graph = muon_joint},
    {.kind = WEFT_END},
};

WEFT_PLUGIN(muon) = {
    WEFT_PLUGIN_HEAD,
    .name = "muon",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "Muon for the matrices of blocks, each computed whole by one rank",
    .numerics = WEFT_NUMERICS_CHANGES,
    .params = params,
    .contributions = contributions,
    .ops = muon_ops,
    .kernels = muon_cpu_kernels,
};
