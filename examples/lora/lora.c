/* SPDX-License-Identifier: Apache-2.0 */
/* LoRA (Hu et al., "Low-rank adaptation of large language models", ICLR 2022): the model's
 * parameters are frozen, and beside chosen products y = x W^T stands a narrow one that is trained:
 * y + alpha / rank * (x A^T) B^T. It shows how a pass freezes parameters. */
#include <weft/weft.h>

#include <fnmatch.h>
#include <string.h>

typedef struct lora {
    const weft_host *host;
    int64_t rank;
    double alpha;
} lora;

static const weft_param params[] = {
    {.name = "rank",
     WEFT_INT(lora, rank),
     .value = "8",
     .min = 1,
     .max = 65536,
     .help = "Width of the adapters."},
    {.name = "alpha",
     WEFT_REAL(lora, alpha),
     .value = "16",
     .min = 0,
     .max = 1e6,
     .help = "What an adapter gives is multiplied by alpha / rank."},
    {.name = "targets",
     .type = WEFT_PARAM_STRING,
     .value = "*.q_proj.weight *.v_proj.weight",
     .flags = WEFT_PARAM_LIST,
     .help = "Patterns of names of the weights that get one."},
    {.name = NULL},
};

/* The parameter that a product reads, whatever stands between: casts, gathers. */
static weft_value *weight_of(const weft_node *linear)
{
    weft_value *w = linear->ins[1];
    while (w->node->n_ins > 0)
        w = w->node->ins[0];
    return w;
}

static bool is_target(const weft_params *p, const weft_node *n)
{
    const char *pattern;
    if (!weft_node_in(n, "linear") || !n->ins[1]->weight)
        return false;
    for (int i = 0; (pattern = weft_params_word(p, "targets", i)); i++)
        if (fnmatch(pattern, weight_of(n)->name, 0) == 0)
            return true;
    return false;
}

/* "lora embed" for the last dim of x, "heads lora" for that of y. */
static weft_value *factor(weft_graph *g, const weft_value *w, const char *which,
                          const weft_dim *first, const weft_dim *second, weft_init init)
{
    char *name = weft_format("%s.lora_%s", w->name, which);
    char *shape =
        weft_format("%s %s", first ? first->name : "lora", second ? second->name : "lora");
    weft_value *v = NULL;
    if (name && shape)
        v = weft_add_parameter(g, name, shape, init);
    else
        weft_fail_memory(weft_graph_error(g));
    weft_free(name);
    weft_free(shape);
    return v;
}

/* Right behind the product; who read it reads the sum. */
static void adapt(weft_graph *g, weft_node *n, const lora *m)
{
    weft_value *x = n->ins[0], *y = n->outs[0], *w = weight_of(n);
    const weft_init normal = {WEFT_INIT_NORMAL, 0.02, 0}, zero = {WEFT_INIT_ZERO, 0, 0};
    weft_graph_at(g, n->next);
    weft_value *a = factor(g, w, "A", NULL, &x->dims[x->n_dims - 1], normal);
    weft_value *b = factor(g, w, "B", &y->dims[y->n_dims - 1], NULL, zero);
    weft_value *by = weft_add(g, "constant", NULL, 0, NULL);
    weft_set_real(g, by, "value", m->alpha / (double)m->rank);
    weft_value *more = weft_linear(g, NULL, weft_linear(g, NULL, x, a), b);
    weft_value *sum = weft_add2(g, "add", NULL, y, weft_add2(g, "scale", NULL, more, by));
    weft_graph_at(g, NULL);
    for (int i = sum ? y->n_uses - 1 : -1; i >= 0; i--)
        if (y->uses[i].node != sum->node)
            weft_node_set_operand(g, y->uses[i].node, y->uses[i].operand, sum);
}

static void add_adapters(void *self, weft_graph *g)
{
    const lora *m = self;
    const weft_params *p = m->host->params;
    weft_value *w;
    int n_adapted = 0;
    for (int i = 0; (w = weft_graph_parameter(g, i)); i++)
        weft_freeze(g, w);
    weft_graph_dim(g, "lora", m->rank, 1);
    for (weft_node *n = weft_graph_first(g); n && !weft_graph_status(g); n = n->next) {
        if (!is_target(p, n))
            continue;
        adapt(g, n, m);
        n_adapted++;
    }
    if (n_adapted == 0)
        weft_graph_fail(g, WEFT_ERR_INPUT, weft_params_where(p, "targets"),
                        "[lora] targets: no weight of a product has such a name; names look like "
                        "'%s'",
                        weft_graph_parameter(g, 0) ? weft_graph_parameter(g, 0)->name : "?");
}

static const char *const needs[] = {"model", NULL};
static const weft_contribution contributions[] = {
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_GRAPH, .graph = add_adapters, .needs = needs},
    {.kind = WEFT_END},
};

WEFT_PLUGIN(lora) = {
    WEFT_PLUGIN_HEAD,
    .name = "lora",
    .version = "1.0",
    .licence = "Apache-2.0",
    .summary = "trains low-rank adapters of a frozen model",
    .numerics = WEFT_NUMERICS_CHANGES,
    .params = params,
    .self_size = WEFT_SELF(lora),
    .contributions = contributions,
};
