/* SPDX-License-Identifier: Apache-2.0 */
#include "costs.h"

static const weft_contribution contributions[] = {
    {.kind = WEFT_SERVICE,
     .gives = (const char *const[]){"costs", NULL},
     .service = "costs",
     .table = &costs_model},
    {.kind = WEFT_END},
};

WEFT_PLUGIN(costs) = {
    WEFT_PLUGIN_HEAD,
    .name = "costs",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "predictions by other numbers than the device's: another framework's, or your own",
    .params = costs_params,
    .contributions = contributions,
    .self_size = WEFT_SELF(costs),
};
