/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters and optimizer state lie in far memory between their uses (service "far"): a pass says
 * which, and the core fetches and evicts them. A review holds the plan to a limit. */
#include <fnmatch.h>
#include <string.h>
#include <weft/review.h>
#include <weft/weft.h>

static const char *const states[] = {"moments", "all", "none", NULL};

enum { STATE_MOMENTS, STATE_ALL, STATE_NONE };

typedef struct offload {
    const weft_host *host;
    int state;
    int64_t prefetch, least;
    const char *memory;
    double limit; /* bytes; 0: none */
    int64_t over; /* what was planned beyond it with less offloaded; 0: nothing was */
} offload;

static const weft_param params[] = {
    {.name = "state",
     WEFT_CHOICE(offload, state),
     .value = "moments",
     .choices = states,
     .help = "What lies far between its uses: moments, the optimizer's state and averages; all, "
             "parameters, too; none."},
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
     .help = "How many blocks ahead of its use something is fetched; 0: it is waited for."},
    {.name = "only",
     .type = WEFT_PARAM_STRING,
     .flags = WEFT_PARAM_LIST,
     .value = "*",
     .help = "Patterns (*, ?, [a-z]) of names of parameters; they and their moments may lie far."},
    {.name = "least",
     WEFT_INT(offload, least),
     .value = "1048576",
     .min = 0,
     .max = INT64_MAX,
     .unit = "bytes",
     .flags = WEFT_PARAM_ADVANCED,
     .help = "What a rank holds less of stays where it is."},
    {.name = NULL},
};

static weft_status create(void *self_, weft_error *err)
{
    offload *self = self_;
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

static bool is_chosen(const offload *self, const weft_graph *g, const weft_node *n, int state)
{
    const weft_params *keys = self->host->params;
    const weft_value *v = n->n_outs ? n->outs[0] : NULL;
    const bool parameter = weft_node_is(n, WEFT_OP_PARAMETER);
    if (state == STATE_NONE ||
        (!parameter && (!weft_node_is(n, WEFT_OP_STATE) || v->kind > WEFT_STATE_AVERAGE)))
        return false;
    if ((parameter && state != STATE_ALL) || weft_value_part_bytes(g, v) < self->least)
        return false;
    const char *pattern;
    for (int i = 0; (pattern = weft_params_word(keys, "only", i)); i++)
        if (is_named(pattern, n))
            return true;
    return false;
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

static void note(const offload *self, weft_graph *g, weft_value *const *list, int n)
{
    double bytes = 0;
    weft_text text = {0};
    for (int i = 0; i < n; i++)
        bytes += (double)weft_value_part_bytes(g, list[i]);
    weft_print_bytes(&text, bytes);
    weft_graph_note(g, "%d parameters and states, %s in all ranks' largest parts, lie far%s", n,
                    weft_text_get(&text),
                    n == 0 && self->least > 0 ? "; what a rank holds fewer bytes of than [offload] "
                                                "least stays where it is"
                                              : "");
    if (n == 0 && self->least > 0)
        weft_warn(self->host, weft_params_where(self->host->params, "state"),
                  "offload: nothing lies far: no parameter or state that `state` and `only` name "
                  "has the %lld bytes on a rank that [offload] least asks for",
                  (long long)self->least);
    weft_text_release(&text);
}

static void put_far(void *self_, weft_graph *g)
{
    const offload *self = self_;
    const int state = weft_asked(self->host, "offload state") ? STATE_ALL : self->state;
    int n = 0;
    check_patterns(self, g);
    for (const weft_node *at = weft_graph_first(g); at; at = at->next)
        n += is_chosen(self, g, at, state);
    weft_value **list = weft_alloc_zero((size_t)n + 1, sizeof *list);
    if (!list) {
        weft_fail_memory(weft_graph_error(g));
        return;
    }
    n = 0;
    for (const weft_node *at = weft_graph_first(g); at; at = at->next)
        if (is_chosen(self, g, at, state))
            list[n++] = at->outs[0];
    weft_put_far(g, list, n, self->prefetch);
    if (weft_graph_mode(g) == WEFT_MODE_TRAIN && state != STATE_NONE)
        note(self, g, list, n);
    weft_free(list);
}

/* ---- the limit ---- */

static weft_status refuse(const offload *self, int64_t needs, int64_t with_all, weft_error *err)
{
    weft_text all = {0}, now = {0};
    weft_print_bytes(&now, (double)needs);
    if (with_all > 0 && with_all < needs) {
        weft_text_add(&all, ", and with state = all ");
        weft_print_bytes(&all, (double)with_all);
    }
    weft_status s = weft_fail(
        err, WEFT_ERR_INPUT, weft_params_where(self->host->params, "memory"),
        "[offload] memory = %s is too little: the rank that needs most is planned to hold %s with "
        "state = %s%s; give the least of these, or take more ranks, ac, or a smaller [train] "
        "micro_batch",
        self->memory, weft_text_get(&now), states[self->state], weft_text_get(&all));
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
    if (self->limit <= 0)
        return WEFT_OK;
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
    self->over = most;
    if ((double)most <= self->limit)
        return WEFT_OK;
    return self->state == STATE_ALL ? refuse(self, most, 0, err)
                                    : weft_plan_ask(plan, "offload state", "all", err);
}

static const char *const needs[] = {"far", NULL};
static const weft_contribution contributions[] = {
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_ORDERED, .graph = put_far, .needs = needs},
    {.kind = WEFT_REVIEW, .stage = WEFT_STAGE_ORDERED, .review = review},
    {.kind = WEFT_END},
};

WEFT_PLUGIN(offload) = {
    WEFT_PLUGIN_HEAD,
    .name = "offload",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "parameters and optimizer state lie in far memory between their uses",
    .numerics = WEFT_NUMERICS_BITWISE,
    .params = params,
    .contributions = contributions,
    .self_size = WEFT_SELF(offload),
    .create = create,
};
