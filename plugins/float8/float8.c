/* SPDX-License-Identifier: Apache-2.0 */
/* Linears in 8 bits. Scales are of whole tensors, or of their whole rows: the same on every mesh.
 */
#include "float8.h"

static const char *const amaxes[] = {"max", "recent", NULL};
static const char *const autos[] = {"auto", "yes", "no", NULL};

static const weft_param params[] = {
    {.name = "recipe",
     .type = WEFT_PARAM_CHOICE,
     .tune = "tensorwise rowwise",
     .value = "tensorwise",
     .choices = f8_recipes,
     .help = "tensorwise: one scale for a tensor, from its largest magnitude now; delayed: from "
             "those of past steps; rowwise: one for every row of both operands of each product; "
             "rowwise_gw_hp: rowwise, but gradients of weights are not in 8 bits."},
    {.name = "recipe_of",
     .type = WEFT_PARAM_STRING,
     .flags = WEFT_PARAM_LIST,
     .help = "PATTERN=RECIPE: another recipe for weights whose name matches; the first that does "
             "counts."},
    {.name = "filter",
     .type = WEFT_PARAM_STRING,
     .flags = WEFT_PARAM_LIST,
     .help = "Patterns of weights whose linears are left as they are."},
    {.name = "head",
     .type = WEFT_PARAM_BOOL,
     .value = "no",
     .help = "The head in 8 bits, too: the linear that makes the logits."},
    {.name = "multiple",
     .type = WEFT_PARAM_INT,
     .value = "16",
     .min = 1,
     .max = 1 << 20,
     .unit = "elements",
     .help = "Linears whose weight has not so many rows and columns, or a multiple, are left as "
             "they are; what counts is the whole weight and never a rank's part."},
    {.name = "power_of_two",
     .type = WEFT_PARAM_CHOICE,
     .value = "auto",
     .choices = autos,
     .help = "Scales are rounded down to powers of two; auto: rowwise alone."},
    {.name = "history",
     .type = WEFT_PARAM_INT,
     .value = "16",
     .min = 1,
     .max = 1 << 20,
     .unit = "steps",
     .when = "recipe=delayed recipe_of",
     .help = "delayed: of how many steps the largest magnitudes are remembered."},
    {.name = "amax",
     .type = WEFT_PARAM_CHOICE,
     .value = "max",
     .choices = amaxes,
     .when = "recipe=delayed recipe_of",
     .help = "delayed: the scale follows the largest of the history, or the most recent."},
    {.name = "margin",
     .type = WEFT_PARAM_INT,
     .value = "0",
     .min = -32,
     .max = 32,
     .unit = "bits",
     .when = "recipe=delayed recipe_of",
     .help = "delayed: scales are that many powers of two below what would use the whole range."},
    {.name = "interval",
     .type = WEFT_PARAM_INT,
     .value = "1",
     .min = 1,
     .max = 1 << 20,
     .unit = "steps",
     .when = "recipe=delayed recipe_of",
     .help = "delayed: scales change after every so many steps."},
    {.name = "emulate",
     .type = WEFT_PARAM_CHOICE,
     .value = "auto",
     .choices = autos,
     .help = "Products of values in 8 bits: auto, by the device if it can, else widened; yes, "
             "always widened; no, a device that cannot is refused."},
    {.name = NULL},
};

static weft_status create(void *self, weft_error *err)
{
    return f8_check_recipes(((const weft_host *)self)->params, err);
}

static const char *const needs[] = {"model", NULL};
static const weft_contribution contributions[] = {
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_GRAPH, .graph = f8_early, .needs = needs},
    {.kind = WEFT_PASS,
     .stage = WEFT_STAGE_GRAPH,
     .graph = f8_late,
     .needs = needs,
     .after = "gathered?"},
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_PLACED, .graph = f8_placed},
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_JOINT, .graph = f8_joint},
    {.kind = WEFT_END},
};

#define JOINED(op) &f8_op_##op,
const weft_op *const f8_ops[] = {
    &f8_op_amax,        &f8_op_scale,     &f8_op_quantise,  &f8_op_linear,  &f8_op_linear_part,
    &f8_op_linear_rows, &f8_op_linear_dx, &f8_op_linear_dw, &f8_op_history, F8_JOINED(JOINED) NULL,
};
#undef JOINED

WEFT_PLUGIN(float8) = {
    WEFT_PLUGIN_HEAD,
    .name = "float8",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "linears in 8 bits, with scales that no mesh changes",
    .numerics = WEFT_NUMERICS_CHANGES,
    .params = params,
    .contributions = contributions,
    .ops = f8_ops,
    .kernels = f8_cpu_kernels,
    .create = create,
};
