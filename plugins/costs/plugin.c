/* SPDX-License-Identifier: Apache-2.0 */
#include "costs.h"

static const weft_contribution contributions[] = {
    {.kind = WEFT_SERVICE,
     .gives = (const char *const[]){"costs", NULL},
     .service = "costs",
     .table = &costs_model},
    {.kind = WEFT_END},
};

static weft_status create(void *self, weft_error *err)
{
    costs *c = self;
    return weft_params_word(c->host->params, "machine", 0)
               ? weft_profile_read(c->host->params, "machine", &c->machine, err)
               : WEFT_OK;
}

static void destroy(void *self)
{
    weft_profile_destroy(((costs *)self)->machine);
}

WEFT_PLUGIN(costs) = {
    WEFT_PLUGIN_HEAD,
    .name = "costs",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "predictions by other numbers than the device's: another framework's, or your own",
    .params = costs_params,
    .contributions = contributions,
    .self_size = WEFT_SELF(costs),
    .create = create,
    .destroy = destroy,
};
