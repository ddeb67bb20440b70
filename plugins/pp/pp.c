/* SPDX-License-Identifier: Apache-2.0 */
/* Pipelines: blocks are cut into stages, stages are spread over axis pp, and a schedule says who
 * runs which micro-batch when. What is sent, and what is summed over stages, follows from
 * placement.
 */
#include "pp.h"

#include <string.h>

static const char *const automatic[] = {"auto", NULL};

static const weft_param params[] = {
    {.name = "degree",
     WEFT_INT(pp, degree),
     .min = 1,
     .max = 64,
     .unit = "ranks",
     .flags = WEFT_PARAM_REQUIRED,
     .help = "Size of axis pp: ranks that share the blocks of the model, one behind the other."},
    {.name = "schedule",
     .type = WEFT_PARAM_STRING,
     .value = "auto",
     .flags = WEFT_PARAM_FILE,
     .help = "Who runs what, and when: gpipe, 1f1b, interleaved, or a file of lists such as `weft "
             "plan --schedule` prints; auto: 1f1b, or interleaved with several stages a rank."},
    {.name = "virtual_stages",
     .type = WEFT_PARAM_INT,
     .value = "1",
     .min = 1,
     .max = 1024,
     .unit = "stages a rank",
     .help = "How many stages a rank has: stage s is of rank s mod degree."},
    {.name = "split",
     .type = WEFT_PARAM_STRING,
     .flags = WEFT_PARAM_LIST,
     .value = "auto",
     .help = "The first block of every stage but the first: numbers from 0 on, and 'head'; auto: "
             "so that the stage with the most operations has as few as can be."},
    {.name = "layers_per_stage",
     .type = WEFT_PARAM_INT,
     .value = "auto",
     .min = 1,
     .max = 1 << 20,
     .unit = "blocks",
     .choices = automatic,
     .help = "Blocks of every stage; the last one has the rest; auto: as split says."},
    {.name = NULL},
};

static weft_status check(const weft_params *p, weft_error *err)
{
    if (weft_params_is(p, "split", "auto") || weft_params_is(p, "layers_per_stage", "auto"))
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p, "layers_per_stage"),
                     "[pp] layers_per_stage and split say both where stages begin; take one out");
}

static weft_status create(void *self, weft_error *err)
{
    pp *p = self;
    p->params = p->host->params;
    return check(p->params, err);
}

static void destroy(void *self)
{
    weft_free(((pp *)self)->begins);
}

static void set_stages(void *self, weft_graph *g)
{
    pp_split(self, g, weft_graph_error(g));
}

static const weft_schedule schedule = {sizeof schedule, pp_generate};

static const char *const needs[] = {"model", NULL};
static const weft_contribution contributions[] = {
    {.kind = WEFT_AXIS, .axis = "pp", .degree = "degree"},
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_GRAPH, .graph = set_stages, .needs = needs},
    {.kind = WEFT_SERVICE, .service = "schedule", .table = &schedule},
    {.kind = WEFT_END},
};

WEFT_PLUGIN(pp) = {
    WEFT_PLUGIN_HEAD,
    .name = "pp",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "pipeline parallelism",
    .numerics = WEFT_NUMERICS_TOLERANCE,
    .params = params,
    .contributions = contributions,
    .self_size = WEFT_SELF(pp),
    .create = create,
    .destroy = destroy,
};
