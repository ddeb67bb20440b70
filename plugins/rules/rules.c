/* SPDX-License-Identifier: Apache-2.0 */
/* The user's lines of the table, [mesh] rule: read, checked against the model, and added. */
#include "rules.h"

#include <string.h>

static const char form[] = "a rule is 'param:PATTERN DIM AXIS', 'input DIM AXIS' or 'role:ROLE DIM "
                           "AXIS', with '-' for DIM: whole over the axis";

/* One rule being read. */
typedef struct draft {
    const char *word[3];
    int n;
    weft_where where;
} draft;

typedef struct reader {
    weft_graph *g;
    const weft_host *host;
    const char **names; /* room for RULES_NAMES */
    weft_error *err;
    weft_status status;
} reader;

/* Nothing is called so; or nothing of what is has the dim. */
static void not_found(reader *r, const weft_table_rule *rule, bool called)
{
    const char *what = called ? rule->dim : rule->pattern ? rule->pattern : "";
    const int n = rules_candidates(r->g, rule, called, r->names);
    const char *near = weft_nearest(what, r->names, n);
    weft_text all = {0};
    for (int k = 0; k < n && (called || rule->of != WEFT_RULE_PARAM); k++)
        weft_text_print(&all, "%s%s", k ? ", " : "", r->names[k]);
    if (!all.size)
        weft_text_print(&all, "%d names, as %s", n, n ? r->names[0] : "none");
    r->status =
        called ? weft_fail(r->err, WEFT_ERR_INPUT, rule->where,
                           "[mesh] rule '%s': no %s that it speaks of has a dim '%s'%s%s%s; there "
                           "are %s",
                           rule->text, rules_kind(rule->of), what, near ? "; did you mean '" : "",
                           near ? near : "", near ? "'?" : "", weft_text_get(&all))
               : weft_fail(r->err, WEFT_ERR_INPUT, rule->where,
                           "[mesh] rule '%s': there is no %s '%s'%s%s%s; there are %s", rule->text,
                           rules_kind(rule->of), what, near ? "; did you mean '" : "",
                           near ? near : "", near ? "'?" : "", weft_text_get(&all));
    weft_text_release(&all);
}

static void wrong_axis(reader *r, const draft *d, const char *text)
{
    weft_text all = {0};
    const int n = rules_axes(r->g, r->names);
    const char *near = weft_nearest(d->word[2], r->names, n);
    for (int i = 0; i < n; i++)
        weft_text_print(&all, "%s%s", i ? ", " : "", r->names[i]);
    r->status =
        weft_fail(r->err, WEFT_ERR_INPUT, d->where,
                  "[mesh] rule '%s': no listed plugin declares an axis '%s'%s%s%s; there are %s",
                  text, d->word[2], near ? "; did you mean '" : "", near ? near : "",
                  near ? "'?" : "", all.size ? weft_text_get(&all) : "none");
    weft_text_release(&all);
}

/* "param:PATTERN", "input", "input:NAME", "role:ROLE". */
static bool read_subject(const char *word, weft_table_rule *rule)
{
    static const struct {
        const char *word;
        bool needs;
    } subjects[] = {[WEFT_RULE_PARAM] = {"param", false},
                    [WEFT_RULE_INPUT] = {"input", false},
                    [WEFT_RULE_ROLE] = {"role", true}};
    for (int i = 0; i < 3; i++) {
        size_t n = strlen(subjects[i].word);
        if (strncmp(word, subjects[i].word, n) != 0 || (word[n] && word[n] != ':') ||
            (word[n] == ':' && !word[n + 1]))
            continue;
        rule->of = (weft_rule_of)i;
        rule->pattern = word[n] ? word + n + 1 : NULL;
        return rule->pattern || !subjects[i].needs;
    }
    return false;
}

static void add(reader *r, const draft *d, const char *text)
{
    weft_table_rule rule = {.by = "[mesh] rule", .text = text, .where = d->where};
    bool called;
    if (!read_subject(d->word[0], &rule)) {
        r->status = weft_fail(r->err, WEFT_ERR_INPUT, d->where,
                              "[mesh] rule '%s': '%s' does not say which dim is cut; %s", text,
                              d->word[0], form);
        return;
    }
    if (!rules_is_axis(r->g, r->host, d->word[2])) {
        wrong_axis(r, d, text);
        return;
    }
    rule.dim = strcmp(d->word[1], "-") == 0 ? NULL : d->word[1];
    rule.axis = d->word[2];
    /* of the whole training graph it can be told whether the rule speaks of anything */
    if (!weft_graph_is_partial(r->g) && weft_graph_mode(r->g) == WEFT_MODE_TRAIN &&
        !rules_is_found(r->g, &rule, &called))
        not_found(r, &rule, called);
    weft_add_rule_with(r->g, &rule);
}

static void take_rule(reader *r, const draft *d)
{
    char *text = weft_format("%s %s %s", d->word[0], d->word[1], d->word[2]);
    if (text)
        add(r, d, text);
    else
        r->status = weft_fail_memory(r->err);
    weft_free(text);
}

static void not_three(reader *r, const draft *d)
{
    r->status = weft_fail(r->err, WEFT_ERR_INPUT, d->where,
                          "[mesh] rule '%s%s%s%s%s' has not three words; %s", d->word[0],
                          d->n > 1 ? " " : "", d->n > 1 ? d->word[1] : "", d->n > 2 ? " " : "",
                          d->n > 2 ? d->word[2] : "", form);
}

/* One word of the list, or a part between commas. end: a comma follows. */
static void take_word(reader *r, draft *d, const char *word, weft_where where, bool end)
{
    if (d->n && (d->where.line != where.line ||
                 (d->where.file && where.file && strcmp(d->where.file, where.file) != 0))) {
        not_three(r, d);
        d->n = 0;
    }
    if (*word) {
        if (d->n == 0)
            d->where = where;
        d->word[d->n++] = word;
    }
    if (d->n == 3)
        take_rule(r, d);
    else if (end && d->n)
        not_three(r, d);
    if (d->n == 3 || end)
        d->n = 0;
}

/* All words of the key; copies: where they lie, cut at commas. */
static void take_words(reader *r, char *copies)
{
    const weft_params *mesh = r->host->mesh;
    draft d = {0};
    const char *word;
    for (int i = 0; (word = weft_params_word(mesh, "rule", i)); i++) {
        memcpy(copies, word, strlen(word) + 1);
        for (bool more = true; more && r->status != WEFT_ERR_MEMORY;) {
            size_t n = strcspn(copies, ",");
            more = copies[n] == ',';
            copies[n] = '\0';
            take_word(r, &d, copies, weft_params_word_where(mesh, "rule", i), more);
            copies += n + 1;
        }
    }
    if (d.n)
        not_three(r, &d);
}

static weft_status add_rules(weft_graph *g, const weft_host *host, weft_error *err)
{
    reader r = {.g = g, .host = host, .err = err};
    char *copies = weft_alloc(strlen(weft_params_text(host->mesh, "rule")) + 2);
    r.names = weft_alloc(RULES_NAMES * sizeof *r.names);
    if (copies && r.names)
        take_words(&r, copies);
    else
        r.status = weft_fail_memory(err);
    weft_free(copies);
    weft_free(r.names);
    return r.status ? r.status : weft_graph_status(g);
}

static void table(void *self, weft_graph *g)
{
    const weft_host *host = self;
    bool warns =
        host->rank == 0 && weft_graph_mode(g) == WEFT_MODE_TRAIN && !weft_graph_is_partial(g);
    weft_status s = warns ? rules_warn(g, host, weft_graph_error(g)) : WEFT_OK;
    if (!s && weft_params_word(host->mesh, "rule", 0))
        add_rules(g, host, weft_graph_error(g));
}

static const weft_param params[] = {
    {.name = "absent",
     .type = WEFT_PARAM_STRING,
     .value = "pp dp_replicate dp_shard cp tp ep",
     .flags = WEFT_PARAM_LIST | WEFT_PARAM_ADVANCED,
     .help = "axes of plugins that may not be listed: a rule that speaks of one says nothing then, "
             "instead of being wrong"},
    {0},
};

static const weft_contribution contributions[] = {
    {.kind = WEFT_PASS,
     .stage = WEFT_STAGE_TABLE,
     .graph = table,
     .gives = (const char *const[]){"rule", NULL}},
    {0},
};

WEFT_PLUGIN(rules) = {
    WEFT_PLUGIN_HEAD,
    .name = "rules",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "adds the user's lines to the table of placement ([mesh] rule)",
    .numerics = WEFT_NUMERICS_TOLERANCE,
    .params = params,
    .contributions = contributions,
};
