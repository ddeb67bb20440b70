/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters, optimizer state, gradients and activations lie in far memory between their uses
 * (service "far"): a pass says which, and the core fetches and evicts them. A review holds the plan
 * to a limit. */
#include "offload.h"

#include <fnmatch.h>
#include <string.h>

static const char *const states[] = {"moments", "all", "none", NULL};

enum { STATE_MOMENTS, STATE_ALL, STATE_NONE };

static const char *const activations[] = {"no", "boundary", "all", "auto", NULL};

static const weft_param params[] = {
    {.name = "state",
     WEFT_CHOICE(offload, state),
     .value = "moments",
     .choices = states,
     .help = "What lies far between its uses: moments, the optimizer's state and averages; all, "
             "parameters, too; none."},
    {.name = "gradients",
     WEFT_BOOL(offload, gradients),
     .value = "no",
     .help = "Gradients lie far, too, from where they are made to where they are used; of several "
             "micro-batches each fetches the sums so far, adds to them, and evicts them."},
    {.name = "copies",
     WEFT_BOOL(offload, copies),
     .value = "no",
     .help = "What is made of parameters once a step lies far, too, between where it is made and "
             "read: their copies in bf16 or 8 bits."},
    {.name = "activations",
     WEFT_CHOICE(offload, activations),
     .value = "no",
     .choices = activations,
     .help =
         "What a forward keeps for its backward lies far, too, from where it is made: boundary, "
         "what one block makes and another reads; all; auto: as much of it as `memory` asks for, "
         "so that a step is predicted to be the fastest."},
    {.name = "memory",
     WEFT_TEXT(offload, memory),
     .help = "Bytes that may be planned for a rank, as 8 GiB; a run that needs more is refused, "
             "and told the least that would do. Not set: no limit."},
    {.name = "prefetch",
     WEFT_INT(offload, prefetch),
     .value = "1",
     .min = 0,
     .max = 1 << 20,
     .unit = "blocks",
     .when = "state!=none gradients=yes copies=yes activations!=no",
     .help = "How many blocks ahead of its use something is fetched; 0: it is waited for."},
    {.name = "only",
     .type = WEFT_PARAM_STRING,
     .flags = WEFT_PARAM_LIST,
     .value = "*",
     .when = "state!=none gradients=yes",
     .help = "Patterns (*, ?, [a-z]) of names of parameters; they, their moments and gradients may "
             "lie far."},
    {.name = "least",
     WEFT_INT(offload, least),
     .value = "1048576",
     .min = 0,
     .max = INT64_MAX,
     .unit = "bytes",
     .flags = WEFT_PARAM_ADVANCED,
     .when = "state!=none gradients=yes copies=yes activations!=no",
     .help = "What a rank holds less of stays where it is."},
    {.name = NULL},
};

static weft_status create(void *self_, weft_error *err)
{
    offload *self = self_;
    if (self->state == STATE_NONE && !self->gradients && !self->copies &&
        self->activations == ACTIVATIONS_NO)
        weft_warn(self->host, weft_params_where(self->host->params, "state"),
                  "offload: nothing lies far with state = none, gradients = no, copies = no and "
                  "activations = no; set one of them, or take offload out of [weft] plugins");
    if (!*self->memory && self->activations == ACTIVATIONS_AUTO)
        return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(self->host->params, "activations"),
                         "[offload] activations = auto chooses for a memory; set memory, too, as "
                         "memory = 8 GiB");
    if (!*self->memory || (weft_parse_bytes(self->memory, &self->limit) && self->limit >= 1))
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(self->host->params, "memory"),
                     "[offload] memory = %s: it is bytes, as 8 GiB", self->memory);
}

/* ---- the pass ---- */

/* The name is a parameter's, or one with a word behind: "wte.weight.exp_avg". */
static bool matches(const char *pattern, const char *name, bool state)
{
    char stem[512];
    const char *dot = strrchr(name, '.');
    if (fnmatch(pattern, name, 0) == 0)
        return true;
    if (!state || !dot || (size_t)(dot - name) >= sizeof stem)
        return false;
    memcpy(stem, name, (size_t)(dot - name));
    stem[dot - name] = '\0';
    return fnmatch(pattern, stem, 0) == 0;
}

static bool is_named(const char *pattern, const weft_node *n)
{
    return matches(pattern, n->outs[0]->name, weft_node_is(n, WEFT_OP_STATE));
}

static bool is_any_named(const offload *self, const weft_node *n)
{
    const char *pattern;
    for (int i = 0; (pattern = weft_params_word(self->host->params, "only", i)); i++)
        if (is_named(pattern, n))
            return true;
    return false;
}

/* What lies far: as the keys say, or all that can. */
typedef struct choice {
    const offload *self;
    weft_graph *g;
    int state;
    bool gradients, copies;
    int activations;
    weft_value **list; /* room for as many as the graph has */
    int n;
} choice;

static void choose(choice *c, weft_value *v)
{
    int i = 0;
    while (i < c->n && c->list[i] != v) /* of tied tables it is found twice */
        i++;
    if (i == c->n && weft_value_part_bytes(c->g, v) >= c->self->least)
        c->list[c->n++] = v;
}

static bool is_chosen(const choice *c, const weft_node *n)
{
    if (weft_node_is(n, WEFT_OP_PARAMETER))
        return c->state == STATE_ALL && is_any_named(c->self, n);
    return c->state != STATE_NONE && weft_node_is(n, WEFT_OP_STATE) &&
           n->outs[0]->kind <= WEFT_STATE_AVERAGE && is_any_named(c->self, n);
}

static bool is_read_later(const weft_value *v)
{
    int i = 0;
    while (i < v->n_uses && v->uses[i].node->part == v->node->part)
        i++;
    return i < v->n_uses;
}

/* A parameter's gradient, and the sums over micro-batches that it is made of. */
static void choose_gradients(choice *c, weft_value *v)
{
    const weft_node *n = v->node;
    const bool sums = weft_node_is(n, WEFT_OP_ACCUMULATES);
    if (n->scope != WEFT_STEP_END && !sums)
        return;
    if (is_read_later(v) && !weft_node_is(n, WEFT_OP_MAX))
        choose(c, v);
    for (int i = 0; i < n->n_ins && !sums; i++)
        choose_gradients(c, n->ins[i]);
}

bool offload_crosses_blocks(const weft_value *v)
{
    bool crosses = false;
    for (int i = 0; i < v->n_uses; i++)
        crosses = crosses || v->uses[i].node->block != v->node->block;
    return crosses;
}

static bool is_activation(const choice *c, const weft_value *v)
{
    return (offload_crosses_blocks(v) || c->activations == ACTIVATIONS_ALL) &&
           weft_saved_may_lie_far(c->g, v) && !weft_node_is(v->node, WEFT_OP_ACCUMULATES);
}

static void choose_activations(choice *c, const weft_node *n)
{
    for (int i = 0; i < n->n_outs && c->activations != ACTIVATIONS_NO; i++)
        if (is_activation(c, n->outs[i]))
            choose(c, n->outs[i]);
}

static void choose_all(choice *c)
{
    weft_value *p;
    for (const weft_node *n = weft_graph_first(c->g); n; n = n->next) {
        if (is_chosen(c, n) || (c->copies && n->n_outs && weft_copy_may_lie_far(n->outs[0])))
            choose(c, n->outs[0]);
        choose_activations(c, n);
    }
    for (int i = 0; c->gradients && (p = weft_graph_parameter(c->g, i)); i++)
        if (p->gradient && is_any_named(c->self, p->node))
            choose_gradients(c, p->gradient);
}

/* A pattern that speaks of nothing is a slip of the pen. */
static void check_patterns(const offload *self, weft_graph *g)
{
    const weft_params *keys = self->host->params;
    const char *pattern;
    for (int i = 0; (pattern = weft_params_word(keys, "only", i)); i++) {
        const weft_node *n = weft_graph_first(g);
        while (n && (!weft_node_is(n, WEFT_OP_PARAMETER) || !is_named(pattern, n)))
            n = n->next;
        if (!n)
            weft_graph_fail(g, WEFT_ERR_INPUT, weft_params_word_where(keys, "only", i),
                            "[offload] only: '%s' matches no parameter; names look like '%s'",
                            pattern,
                            weft_graph_parameter(g, 0) ? weft_graph_parameter(g, 0)->name
                                                       : "(this model has none)");
    }
}

static void note(const choice *c)
{
    const offload *self = c->self;
    double bytes = 0;
    int gradients = 0, copies = 0, kept = 0;
    weft_text text = {0}, also = {0};
    for (int i = 0; i < c->n; i++) {
        const weft_node *n = c->list[i]->node;
        bytes += (double)weft_value_part_bytes(c->g, c->list[i]);
        if (weft_node_is(n, WEFT_OP_PARAMETER | WEFT_OP_STATE))
            continue;
        kept += n->part == WEFT_PART_F;
        copies += n->part == WEFT_PART_BEGIN;
        gradients += n->part > WEFT_PART_F;
    }
    if (gradients)
        weft_text_print(&also, ", and %d gradients", gradients);
    if (copies)
        weft_text_print(&also, ", and %d copies of parameters", copies);
    if (kept)
        weft_text_print(&also, ", and %d activations of each micro-batch", kept);
    weft_print_bytes(&text, bytes);
    weft_graph_note(c->g, "%d parameters and states%s, %s in all ranks' largest parts, lie far%s",
                    c->n - gradients - copies - kept, weft_text_get(&also), weft_text_get(&text),
                    c->n == 0 && self->least > 0
                        ? "; what a rank holds fewer bytes of than [offload] least stays where it "
                          "is"
                        : "");
    if (c->n == 0 && self->least > 0 && self->activations != ACTIVATIONS_AUTO)
        weft_warn(self->host, weft_params_where(self->host->params, "state"),
                  "offload: nothing lies far: nothing that `state`, `gradients`, `activations` and "
                  "`only` "
                  "name has "
                  "the %lld bytes on a rank that [offload] least asks for",
                  (long long)self->least);
    weft_text_release(&also);
    weft_text_release(&text);
}

/* all: it is looked for the least that would do. */
static int activations_of(const offload *self, bool train, bool all)
{
    if (!train)
        return ACTIVATIONS_NO;
    if (all)
        return ACTIVATIONS_ALL;
    return self->activations == ACTIVATIONS_AUTO ? offload_search_way(self) : self->activations;
}

static void put_far(void *self_, weft_graph *g)
{
    offload *self = self_;
    const bool all = weft_asked(self->host, "offload state"),
               train = weft_graph_mode(g) == WEFT_MODE_TRAIN;
    choice c = {.self = self,
                .g = g,
                .state = all ? STATE_ALL : self->state,
                .gradients = train && (all || self->gradients),
                .copies = all || self->copies,
                .activations = activations_of(self, train, all),
                .list = weft_alloc_zero((size_t)weft_graph_values(g) + 1, sizeof *c.list)};
    if (!c.list) {
        weft_fail_memory(weft_graph_error(g));
        return;
    }
    check_patterns(self, g);
    choose_all(&c);
    if (train && !all)
        c.n = offload_search_pick(self, g, c.list, c.n);
    weft_put_far(g, c.list, c.n, self->prefetch);
    if (train && (c.state != STATE_NONE || c.gradients || c.activations))
        note(&c);
    weft_free(c.list);
}

/* ---- the limit ---- */

static weft_status refuse(const offload *self, int64_t needs, int64_t with_all, weft_error *err)
{
    weft_text all = {0}, now = {0};
    weft_print_enough(&now, needs);
    if (with_all > 0 && with_all < needs) {
        weft_text_add(
            &all, ", and with state = all, gradients = yes, copies = yes and activations = all ");
        weft_print_enough(&all, with_all);
    }
    weft_status s = weft_fail(
        err, WEFT_ERR_INPUT, weft_params_where(self->host->params, "memory"),
        "[offload] memory = %s is too little: the rank that needs most is planned to hold %s with "
        "state = %s, gradients = %s, copies = %s and activations = %s%s; give the least of these, "
        "or take more "
        "ranks, ac, or a smaller [train] micro_batch",
        self->memory, weft_text_get(&now), states[self->state], self->gradients ? "yes" : "no",
        self->copies ? "yes" : "no", activations[self->activations], weft_text_get(&all));
    weft_text_release(&all);
    weft_text_release(&now);
    return s;
}

static weft_status review(void *self_, weft_plan *plan, weft_error *err)
{
    offload *self = self_;
    const int ranks = weft_plan_pipeline(plan).ranks;
    int64_t most = 0;
    weft_status s = WEFT_OK;
    bool done = true;
    if (self->limit <= 0)
        return WEFT_OK;
    if (self->search && !weft_asked(self->host, "offload state"))
        s = offload_search_step(self, plan, &done, err);
    if (!done)
        return s;
    for (int r = 0; r < ranks && !s; r++) {
        weft_planned p;
        s = weft_plan_show(plan, r, &p, err);
        most = !s && p.bytes > most ? p.bytes : most;
        if (!s)
            weft_planned_release(&p);
    }
    if (s)
        return s;
    if (weft_asked(self->host, "offload state"))
        return refuse(self, self->over, most, err);
    self->over = self->search ? offload_search_least(self->search) : most;
    if ((double)most <= self->limit)
        return WEFT_OK;
    return self->state == STATE_ALL && self->gradients && self->copies &&
                   self->activations == ACTIVATIONS_ALL
               ? refuse(self, most, 0, err)
               : weft_plan_ask(plan, "offload state", "all", err);
}

static weft_status begin(void *self, weft_plan *plan, weft_error *err)
{
    return offload_search_begin(self, plan, err);
}

static void destroy(void *self)
{
    offload_search_destroy(((offload *)self)->search);
}

static const char *const needs[] = {"far (disk gives it, and hostmem for GPUs)", NULL};
static const weft_contribution contributions[] = {
    {.kind = WEFT_PASS,
     .stage = WEFT_STAGE_ORDERED,
     .graph = put_far,
     .needs = needs,
     .after = "parts? pieces_ordered?"},
    {.kind = WEFT_REVIEW, .stage = WEFT_STAGE_GRAPH, .review = begin},
    {.kind = WEFT_REVIEW, .stage = WEFT_STAGE_ORDERED, .review = review},
    {.kind = WEFT_END},
};

WEFT_PLUGIN(offload) = {
    WEFT_PLUGIN_HEAD,
    .name = "offload",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary =
        "parameters, optimizer state, gradients and activations lie in far memory between uses",
    .numerics = WEFT_NUMERICS_BITWISE,
    .params = params,
    .contributions = contributions,
    .self_size = WEFT_SELF(offload),
    .create = create,
    .destroy = destroy,
};
