/* SPDX-License-Identifier: Apache-2.0 */
/* Several nodes made one, where the device has a kernel that does their work at once. */
#include <weft/weft.h>

#include <string.h>

static const weft_param params[] = {
    {.name = "ops",
     .type = WEFT_PARAM_STRING,
     .value = "all",
     .flags = WEFT_PARAM_LIST,
     .help = "Which joined ops may take the place of others: all, none, or their names."},
    {.name = NULL},
};

typedef struct join {
    const weft_host *host;
} join;

static bool is_wanted(const char *op, void *ctx)
{
    const join *self = ctx;
    return weft_params_has(self->host->params, "ops", "all") ||
           weft_params_has(self->host->params, "ops", op);
}

/* What cannot be meant, before anything is joined. */
static bool check_words(const join *self, weft_graph *g)
{
    const weft_params *p = self->host->params;
    const char *word;
    for (int i = 0; (word = weft_params_word(p, "ops", i)); i++) {
        const bool alone = strcmp(word, "all") == 0 || strcmp(word, "none") == 0;
        if (alone && weft_params_word(p, "ops", 1))
            weft_graph_fail(g, WEFT_ERR_INPUT, weft_params_word_where(p, "ops", i),
                            "'%s' stands alone, or names of ops without it", word);
        else if (!alone && !weft_graph_has_op(g, word))
            weft_graph_fail(g, WEFT_ERR_INPUT, weft_params_word_where(p, "ops", i),
                            "there is no op '%s'; weft inspect --ops shows those with a pattern",
                            word);
    }
    return weft_graph_status(g) == WEFT_OK;
}

static void join_nodes(void *ctx, weft_graph *g)
{
    if (check_words(ctx, g))
        weft_join_nodes(g, is_wanted, ctx);
}

static const char *const needs[] = {"model", NULL};
static const weft_contribution contributions[] = {
    {.kind = WEFT_PASS,
     .stage = WEFT_STAGE_ORDERED,
     .graph = join_nodes,
     .needs = needs,
     .after = "parts?"},
    {.kind = WEFT_END},
};

WEFT_PLUGIN(join) = {
    WEFT_PLUGIN_HEAD,
    .name = "join",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "several computations made one, where the device has a kernel for that",
    .numerics = WEFT_NUMERICS_TOLERANCE,
    .params = params,
    .self_size = WEFT_SELF(join),
    .contributions = contributions,
};
