/* SPDX-License-Identifier: Apache-2.0 */
/* Hugging Face folders: read to train from, converted both ways. */
#include "hf.h"

static const char *const missing_modules[] = {"refuse", "new", NULL};
static const weft_param params[] = {
    {.name = "load",
     .type = WEFT_PARAM_PATH,
     .refuses = "ckpt.initial",
     .help = "A Hugging Face folder whose tensors the parameters begin as; a run that goes on from "
             "a checkpoint does not look at it."},
    {.name = "missing_modules",
     .type = WEFT_PARAM_CHOICE,
     .value = "refuse",
     .choices = missing_modules,
     .flags = WEFT_PARAM_ADVANCED,
     .when = "load",
     .help = "Blocks behind the last that the run has and the folder has not, as modules of "
             "multi-token prediction: refuse such a folder, or let them begin as new ones do."},
    {.name = NULL},
};

hf_tables hf_run_tables(const weft_host *host)
{
    void *self;
    return (hf_tables){.own = host->service(host, "hf_model", &self)};
}

/* A wrong folder is said before the run builds anything. */
static weft_status open_folder(void *self, weft_error *err)
{
    const hf_plugin *p = self;
    const char *folder = weft_params_text(p->host->params, "load");
    const hf_tables tables = hf_run_tables(p->host);
    hf_model m;
    if (!*folder)
        return WEFT_OK;
    if (!tables.own) /* of a model that is listed later */
        return hf_config_check(folder, err);
    weft_status s = hf_config_read(folder, &tables, &m, err);
    hf_model_release(&m);
    return s;
}

static const weft_contribution contributions[] = {
    {.kind = WEFT_SERVICE, .service = "weights", .table = &hf_weights},
    {.kind = WEFT_SERVICE, .service = "format", .table = &hf_format},
    {.kind = WEFT_COMMAND, .command = &hf_convert},
    {.kind = WEFT_END},
};

WEFT_PLUGIN(hf) = {
    WEFT_PLUGIN_HEAD,
    .name = "hf",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "Hugging Face folders: read to train from, converted both ways",
    .numerics = WEFT_NUMERICS_CHANGES,
    .params = params,
    .contributions = contributions,
    .self_size = WEFT_SELF(hf_plugin),
    .open = open_folder,
};
