/* SPDX-License-Identifier: Apache-2.0 */
/* The ops and kernels of a plugin, as small graphs use them. */
#include "conform.h"

#include <string.h>

static const double seconds = 120;

/* How often each op was tried so far, over all cases; shared by processes. */
typedef struct seen {
    int n;
    struct {
        char name[64], made[200];
    } use[1024];
    conform_kernels kernels;
} seen;

typedef struct walk {
    const weft_module *module;
    const conform_case *k;
    conform_plan *p;
    const weft_graph *g;
    conform_values *values;
    const weft_node *node;
    weft_pool *pool;
    seen *seen;
} walk;

/* Models and company that together use most of what there is; the plugin stands at each place that
 * is possible. */
static const conform_case cases[] = {
    {.model = "llama3", .others = "sample", .ranks = 1, .threads = 1},
    {.model = "llama3", .others = "bf16 tp fsdp ac", .ranks = 4, .threads = 3},
    {.model = "gpt2", .others = "bf16 sample", .ranks = 1, .threads = 3},
    {.model = "llama3", .others = "join", .ranks = 1, .threads = 1},
    {.model = "llama3", .others = "bf16 ac join", .ranks = 1, .threads = 3},
    /* on an axis of the plugin's own */
    {.model = "llama3", .others = "", .ranks = 2, .threads = 1, .degree = 2},
    {.model = "gpt2", .others = "bf16", .ranks = 3, .threads = 3, .degree = 3},
};

/* ---- which nodes ---- */

static bool has_kernel(const weft_plugin *plugin, const char *op)
{
    for (const weft_kernel *k = plugin ? plugin->kernels : NULL; k && k->op; k++)
        if (strcmp(k->op, op) == 0)
            return true;
    return false;
}

static bool is_own(const conform *c, const conform_plan *p, const weft_op *op)
{
    const char *owner = weft_ops_owner(&p->plan->ops, op);
    return c->plugin ? owner && strcmp(owner, c->plugin) == 0 : !owner;
}

/* What makes two uses the same: shapes, dtypes, attributes, threads. */
static void print_use(const walk *w, weft_text *text)
{
    const weft_node *n = w->node;
    weft_text_print(text, "%d", w->k->threads);
    for (int i = 0; i < n->n_ins + n->n_outs; i++) {
        const weft_value *v = i < n->n_ins ? n->ins[i] : n->outs[i - n->n_ins];
        weft_text_print(text, "|%d", (int)v->dtype);
        for (int d = 0; d < v->n_dims; d++)
            weft_text_print(text, ",%lld", (long long)v->dims[d].size);
    }
    for (int i = 0; i < n->n_attrs; i++)
        if (n->attrs[i].kind != WEFT_ATTR_TEXT)
            weft_text_print(text, ";%s=%lld,%g", n->attrs[i].key, (long long)n->attrs[i].i,
                            n->attrs[i].r);
}

/* Notes the use; false: it was there, or there are enough of this op. */
static bool is_new(const conform *c, const walk *w)
{
    weft_text text = {0};
    int same_op = 0;
    bool fresh = w->seen->n < (int)(sizeof w->seen->use / sizeof w->seen->use[0]);
    print_use(w, &text);
    for (int i = 0; i < w->seen->n; i++) {
        if (strcmp(w->seen->use[i].name, w->node->op->name) != 0)
            continue;
        same_op += w->seen->use[i].made[0] == *weft_text_get(&text); /* on so many threads */
        fresh = fresh && strncmp(w->seen->use[i].made, weft_text_get(&text),
                                 sizeof w->seen->use[i].made - 1) != 0;
    }
    fresh = fresh && same_op < (c->whole ? 8 : 3);
    if (fresh) {
        int i = w->seen->n++;
        strncpy(w->seen->use[i].name, w->node->op->name, sizeof w->seen->use[i].name - 1);
        strncpy(w->seen->use[i].made, weft_text_get(&text), sizeof w->seen->use[i].made - 1);
    }
    weft_text_release(&text);
    return fresh;
}

/* ---- one use ---- */

static void check_use(const conform *c, void *self)
{
    walk *w = self;
    conform_use *u = weft_alloc_zero(1, sizeof *u);
    weft_error err = {0};
    conform_now(c, "op %s: rule", w->node->op->name);
    if (!u || !conform_use_init(u, w->g, w->node, w->values, w->pool, &err)) {
        conform_fail(c, "op %s: rule: %s", w->node->op->name, weft_error_text(&err));
        weft_error_release(&err);
        weft_free(u);
        return;
    }
    conform_count(c, "rules", 1);
    if (is_own(c, w->p, w->node->op)) {
        conform_check_linear(c, u);
        conform_check_monotone(c, u);
        conform_check_accumulate(c, u);
        conform_check_in_place(c, u);
        conform_check_flops(c, u);
        conform_check_shards(c, u);
        conform_check_order(c, u);
        conform_check_gradient(c, u, &w->p->plan->ops);
    }
    conform_check_kernels(c, u, w->p, &w->seen->kernels);
    weft_free(u);
}

static bool computed(const weft_node *n, const conform_values *values)
{
    if (!n->op->plain)
        return false;
    for (int i = 0; i < n->n_ins; i++)
        if (!values->of[n->ins[i]->id].data)
            return false;
    return n->n_outs && values->of[n->outs[0]->id].data;
}

static void walk_graph(const conform *c, walk *w, const weft_graph *g)
{
    weft_pool pool = {0};
    weft_error err = {0};
    conform_values values = {0};
    w->g = g;
    w->values = &values;
    w->pool = &pool;
    weft_status s = conform_evaluate(c, g, &values, &pool, &err);
    for (const weft_node *n = g->first; !s && n; n = n->next) {
        w->node = n;
        bool ours =
            is_own(c, w->p, n->op) || (w->module && has_kernel(w->module->plugin, n->op->name));
        if (!ours || !computed(n, &values) || !is_new(c, w))
            continue;
        conform_isolate(c, seconds, check_use, w);
    }
    if (s)
        conform_fail(c, "graph: %s", weft_error_text(&err));
    weft_error_release(&err);
    weft_pool_release(&pool);
}

static weft_value *add_numbers(weft_graph *g, const char *name, int n_dims, const weft_dim *dims)
{
    const weft_node_spec input = {.op = weft_ops_find(g->config.ops, "input"),
                                  .name = name,
                                  .n_outs = 1,
                                  .scope = WEFT_MICRO_BATCH};
    weft_node *n = weft_node_new(g, &input);
    if (!n)
        return NULL;
    n->outs[0]->dtype = g->config.dtype;
    n->outs[0]->n_dims = n_dims;
    memcpy(n->outs[0]->dims, dims, (size_t)n_dims * sizeof *dims);
    return n->outs[0];
}

/* What only passes of others bring: maxima over micro-batches, and the merges of a ring. NULL:
 * memory is short. */
static weft_graph *make_core_graph(const weft_graph_config *config, weft_error *err)
{
    static const weft_dim table[] = {{"rows", 7, 1}, {"columns", 5, 1}},
                          outs[] = {{"batch", 2, 1}, {"seq", 5, 1}, {"heads", 12, 4}},
                          lses[] = {{"batch", 2, 1}, {"seq", 5, 1}, {"heads", 3, 1}};
    weft_graph *g = NULL;
    if (weft_graph_create(config, &g, err))
        return NULL;
    weft_value *counted = add_numbers(g, "counted", 2, table);
    weft_add1(g, "lowest", NULL, weft_accumulate(g, counted, WEFT_MAX));
    weft_value *parts[] = {add_numbers(g, "out", 3, outs), add_numbers(g, "lse", 3, lses),
                           add_numbers(g, "out2", 3, outs), add_numbers(g, "lse2", 3, lses)};
    weft_add_many(g, "attention_merge", NULL, 4, parts, 2, NULL);
    if (!weft_graph_status(g))
        return g;
    weft_fail(err, weft_graph_status(g), WEFT_NOWHERE, "%s", weft_error_text(weft_graph_error(g)));
    weft_graph_destroy(g);
    return NULL;
}

static void walk_core_graph(const conform *c, walk *w)
{
    weft_error err = {0};
    weft_graph *g = make_core_graph(&w->p->plan->graphs[WEFT_MODE_TRAIN]->config, &err);
    if (g)
        walk_graph(c, w, g);
    else
        conform_fail(c, "graph: %s", weft_error_text(&err));
    weft_graph_destroy(g);
    weft_error_release(&err);
}

static void walk_plan(const conform *c, void *self)
{
    walk *w = self;
    conform_plan p;
    weft_error err = {0};
    w->p = &p;
    conform_now(c, "plugin: create and passes");
    weft_status s = conform_plan_init(&p, c, w->k, &err);
    conform_check_output(c, "plugin");
    s = s ? s : conform_add_ops(&p.plan->ops, &err);
    if (s) {
        conform_fail(c, "run: a run of %s %s cannot be planned: %s", w->k->model, w->k->others,
                     weft_error_text(&err));
    } else {
        for (int m = 0; m < WEFT_MODES; m++)
            if (p.plan->graphs[m])
                walk_graph(c, w, p.plan->graphs[m]);
        if (!c->ini)
            walk_core_graph(c, w);
        if (c->plugin) {
            conform_check_states(c, p.plan->graphs[WEFT_MODE_TRAIN]);
            if (w->k->validates || c->ini)
                conform_check_modes(c, p.plan);
        }
    }
    conform_plan_release(&p);
    weft_error_release(&err);
}

/* ---- what was not tried ---- */

static bool tried(const seen *s, const char *op)
{
    for (int i = 0; i < s->n; i++)
        if (strcmp(s->use[i].name, op) == 0)
            return true;
    return false;
}

static void tell_untried(const conform *c, const weft_plugin *plugin, const seen *s)
{
    for (const weft_op *const *op = plugin ? plugin->ops : weft_core_ops(); op && *op; op++)
        if ((*op)->plain && !tried(s, (*op)->name))
            conform_skip(c,
                         "op %s: no graph of the runs tried has it; set what it needs (-o), or "
                         "give a run that has it (--ini)",
                         (*op)->name);
    for (const weft_kernel *k = plugin ? plugin->kernels : NULL; k && k->op; k++)
        if (!tried(s, k->op))
            conform_skip(c,
                         "kernel %s: no graph of the runs tried has op %s; set what it needs "
                         "(-o), or give a run that has it (--ini)",
                         k->name, k->op);
        else if (k - plugin->kernels < CONFORM_MOST_KERNELS &&
                 s->kernels.of[k - plugin->kernels] == CONFORM_TRIED)
            conform_skip(c,
                         "kernel %s: it takes none of the calls of op %s that were tried, in no "
                         "dtype: see its `types` and `accepts`, or give a run that it takes one of "
                         "(--ini)",
                         k->name, k->op);
}

static bool is_for(const conform *c, const conform_case *k)
{
    return !k->degree || (c->cuts && !conform_is_axis(c->plugin));
}

void conform_ops(const conform *c, void *module)
{
    walk w = {.module = module};
    const weft_plugin *plugin = w.module ? w.module->plugin : NULL;
    int n = c->ini ? 1 : (int)(sizeof cases / sizeof cases[0]);
    seen *shared = conform_share(sizeof *shared);
    w.seen = shared;
    for (int i = 0; shared && i < n; i++) {
        const char *places[CONFORM_MOST_PLACES];
        int n_places = is_for(c, &cases[i]) ? conform_find_places(c, &cases[i], places) : 0;
        for (int p = 0; p < n_places; p++) {
            conform_case k = cases[i];
            k.place = places[p];
            k.validates = p == 0 || c->whole;
            w.k = &k;
            conform_isolate(c, seconds, walk_plan, &w);
        }
    }
    if (shared)
        tell_untried(c, plugin, shared);
}
