/* SPDX-License-Identifier: Apache-2.0 */
/* The user's lines of the table, [mesh] rule: read, checked against the model, and shown with what
 * they do. */
#include "compile/graph/internal.h"
#include "settings/settings.h"

#include <stdio.h>
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
    const char *const *axes;
    int n_axes;
    bool partial;
    weft_error *err;
    weft_status status;
} reader;

/* ---- what a rule speaks of ---- */

/* Over the values that rules of a kind can speak of. */
typedef struct walk {
    weft_rule_of of;
    int i;
    const weft_node *node;
} walk;

static walk begin(const weft_graph *g, weft_rule_of of)
{
    return (walk){of, 0, g->first};
}

/* *name: what patterns are compared with. */
static const weft_value *next_value(const weft_graph *g, walk *w, const char **name)
{
    const weft_value *v = NULL;
    if (w->of == WEFT_RULE_PARAM && w->i < g->n_parameters)
        v = g->parameters[w->i++];
    if (w->of == WEFT_RULE_INPUT && w->i < g->n_inputs)
        v = g->inputs_list[w->i++];
    *name = v ? v->name : NULL;
    if (w->of != WEFT_RULE_ROLE)
        return v;
    for (; w->node; w->node = w->node->next, w->i = 0)
        while (w->i < w->node->n_outs)
            if ((*name = (v = w->node->outs[w->i++])->role))
                return v;
    return NULL;
}

enum { MAX_NAMES = 4096 };

static void add_name(const char **names, int *n, const char *name)
{
    for (int i = 0; i < *n; i++)
        if (strcmp(names[i], name) == 0)
            return;
    if (*n < MAX_NAMES)
        names[(*n)++] = name;
}

static const char *const kinds[] = {"parameter", "input", "value with the role"};

/* Nothing is called so; or nothing of what is has the dim. */
static void not_found(reader *r, const weft_table_line *line, bool called)
{
    const char **names = weft_alloc(MAX_NAMES * sizeof *names), *name;
    const char *what = called ? line->dim : line->pattern ? line->pattern : "";
    walk w = begin(r->g, line->of);
    int n = 0;
    if (!names) {
        r->status = weft_fail_memory(r->err);
        return;
    }
    for (const weft_value *v; (v = next_value(r->g, &w, &name));) {
        if (!called)
            add_name(names, &n, name);
        for (int d = 0; called && d < v->n_dims && weft_table_matches(line, line->of, name); d++)
            add_name(names, &n, v->dims[d].name);
    }
    const char *near = weft_nearest(what, names, n);
    weft_text all = {0};
    for (int k = 0; k < n && (called || line->of != WEFT_RULE_PARAM); k++)
        weft_text_print(&all, "%s%s", k ? ", " : "", names[k]);
    if (!all.size)
        weft_text_print(&all, "%d names, as %s", n, n ? names[0] : "none");
    if (called)
        weft_fail(r->err, WEFT_ERR_INPUT, line->where,
                  "[mesh] rule '%s': no %s that it speaks of has a dim '%s'%s%s%s; there are %s",
                  line->text, kinds[line->of], what, near ? "; did you mean '" : "",
                  near ? near : "", near ? "'?" : "", weft_text_get(&all));
    else
        weft_fail(r->err, WEFT_ERR_INPUT, line->where,
                  "[mesh] rule '%s': there is no %s '%s'%s%s%s; there are %s", line->text,
                  kinds[line->of], what, near ? "; did you mean '" : "", near ? near : "",
                  near ? "'?" : "", weft_text_get(&all));
    r->status = WEFT_ERR_INPUT;
    weft_text_release(&all);
    weft_free(names);
}

static void check_found(reader *r, const weft_table_line *line)
{
    walk w = begin(r->g, line->of);
    const char *name;
    bool called = false, found = false;
    for (const weft_value *v; (v = next_value(r->g, &w, &name));) {
        if (!weft_table_matches(line, line->of, name))
            continue;
        called = true;
        found = found || !line->dim || weft_value_dim(v, line->dim) >= 0;
    }
    if (!found)
        not_found(r, line, called);
}

/* ---- reading ---- */

static void wrong_axis(reader *r, const draft *d, const char *text)
{
    weft_text all = {0};
    const char *near = weft_nearest(d->word[2], r->axes, r->n_axes);
    for (int i = 0; i < r->n_axes; i++)
        weft_text_print(&all, "%s%s", i ? ", " : "", r->axes[i]);
    r->status =
        weft_fail(r->err, WEFT_ERR_INPUT, d->where,
                  "[mesh] rule '%s': no listed plugin declares an axis '%s'%s%s%s; there are %s",
                  text, d->word[2], near ? "; did you mean '" : "", near ? near : "",
                  near ? "'?" : "", all.size ? weft_text_get(&all) : "none");
    weft_text_release(&all);
}

/* Axes that may be missing because the plugin is not listed this time: a rule about them says
 * nothing, instead of being wrong. */
static bool is_axis(const char *axis, const char *const *axes, int n_axes)
{
    static const char *const usual[] = {"pp", "dp_replicate", "dp_shard", "cp", "tp", "ep"};
    for (int i = 0; i < n_axes; i++)
        if (strcmp(axes[i], axis) == 0)
            return true;
    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++)
        if (strcmp(usual[i], axis) == 0)
            return true;
    return false;
}

/* "param:PATTERN", "input", "input:NAME", "role:ROLE". */
static bool read_subject(const char *word, weft_table_line *line)
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
        line->of = (weft_rule_of)i;
        line->pattern = word[n] ? word + n + 1 : NULL;
        return line->pattern || !subjects[i].needs;
    }
    return false;
}

static void take_rule(reader *r, const draft *d)
{
    weft_graph *g = r->g;
    const char *text = weft_pool_format(&g->pool, "%s %s %s", d->word[0], d->word[1], d->word[2]);
    weft_table_line line = {.by = "[mesh] rule", .user = true, .text = text, .where = d->where};
    if (!text) {
        r->status = weft_fail_memory(r->err);
        return;
    }
    if (!read_subject(d->word[0], &line)) {
        r->status =
            weft_fail(r->err, WEFT_ERR_INPUT, d->where,
                      "[mesh] rule '%s': '%s' says not what is cut; %s", text, d->word[0], form);
        return;
    }
    if (!is_axis(d->word[2], r->axes, r->n_axes)) {
        wrong_axis(r, d, text);
        return;
    }
    line.dim = strcmp(d->word[1], "-") == 0 ? NULL : d->word[1];
    line.axis = weft_mesh_find(&g->config.mesh, d->word[2]);
    if (!r->partial)
        check_found(r, &line);
    if (weft_table_add(g, &line))
        r->status = weft_fail_memory(r->err);
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

weft_status weft_table_add_user(weft_graph *g, const weft_params *mesh, const char *const *axes,
                                int n_axes, bool partial, weft_error *err)
{
    reader r = {.g = g, .axes = axes, .n_axes = n_axes, .partial = partial, .err = err};
    draft d = {0};
    const char *word;
    for (int i = 0; (word = weft_params_word(mesh, "rule", i)) && r.status != WEFT_ERR_MEMORY;
         i++) {
        char *text = weft_pool_strdup(&g->pool, word);
        if (!text)
            return weft_fail_memory(err);
        for (bool more = true; more;) {
            size_t n = strcspn(text, ",");
            more = text[n] == ',';
            text[n] = '\0';
            take_word(&r, &d, text, weft_params_word_where(mesh, "rule", i), more);
            text += n + more;
        }
    }
    if (d.n)
        not_three(&r, &d);
    return r.status;
}

/* ---- rules of plugins that speak of nothing ---- */

/* Collects the names that a rule of this kind can be about, or the dims of those that it matches.
 */
static int candidates(const weft_graph *g, const weft_table_line *line, bool dims,
                      const char **names)
{
    walk w = begin(g, line->of);
    const char *name;
    int n = 0;
    for (const weft_value *v; (v = next_value(g, &w, &name));) {
        if (!dims)
            add_name(names, &n, name);
        for (int d = 0; dims && d < v->n_dims && weft_table_matches(line, line->of, name); d++)
            add_name(names, &n, v->dims[d].name);
    }
    return n;
}

/* *called: something has the name. */
static bool is_found(const weft_graph *g, const weft_table_line *line, bool *called)
{
    walk w = begin(g, line->of);
    const char *name;
    *called = false;
    for (const weft_value *v; (v = next_value(g, &w, &name));) {
        bool matches = weft_table_matches(line, line->of, name);
        *called = *called || matches;
        if (matches && (!line->dim || weft_value_dim(v, line->dim) >= 0))
            return true;
    }
    return false;
}

/* A rule about a dim of all parameters may name one that this model has not (kv_heads), if the same
 * plugin has another for the axis that counts. */
static bool is_spare(const weft_graph *g, const weft_table_line *line)
{
    bool called;
    for (int i = 0; i < g->n_table && !line->pattern; i++) {
        const weft_table_line *other = g->table[i];
        if (other != line && other->of == line->of && other->axis == line->axis &&
            other->by == line->by && is_found(g, other, &called))
            return true;
    }
    return false;
}

static weft_status tell_unused(const weft_graph *g, const weft_table_line *line, bool called,
                               const weft_log *log)
{
    const char **names = weft_alloc(MAX_NAMES * sizeof *names);
    if (!names)
        return WEFT_ERR_MEMORY;
    const char *what = called ? line->dim : line->pattern;
    const char *near = weft_nearest(what, names, candidates(g, line, called, names));
    static const char *const words[] = {"param", "input", "role"};
    weft_log_print(log, is_spare(g, line) ? WEFT_LOG_DEBUG : WEFT_LOG_WARN,
                   "plugin %s: its rule '%s%s%s %s %s' does nothing: no %s %s '%s'%s%s%s", line->by,
                   words[line->of], line->pattern ? ":" : "", line->pattern ? line->pattern : "",
                   line->dim ? line->dim : "-", g->config.mesh.axis[line->axis].name,
                   kinds[line->of], called ? "that it speaks of has a dim" : "is called", what,
                   near ? "; did it mean '" : "", near ? near : "", near ? "'?" : "");
    weft_free(names);
    return WEFT_OK;
}

weft_status weft_table_check(const weft_graph *g, const char *const *axes, int n_axes,
                             const weft_log *log)
{
    for (int i = 0; i < g->n_table; i++) {
        const weft_table_line *line = g->table[i];
        bool called;
        if (!line->user && line->axis >= 0 && !is_found(g, line, &called) &&
            tell_unused(g, line, called, log))
            return WEFT_ERR_MEMORY;
    }
    for (int i = 0; i < g->n_strays; i++) {
        const weft_stray *s = g->strays[i];
        if (is_axis(s->axis, axes, n_axes))
            continue;
        const char *near = weft_nearest(s->axis, axes, n_axes);
        weft_log_print(log, WEFT_LOG_WARN,
                       "plugin %s: its rules for axis '%s' do nothing: no listed plugin declares "
                       "it%s%s%s",
                       s->by, s->axis, near ? "; did it mean '" : "", near ? near : "",
                       near ? "'?" : "");
    }
    return WEFT_OK;
}

/* ---- for `weft plan` ---- */

static void print_effect(const weft_graph *g, const weft_table_line *line, weft_text *text)
{
    walk w = begin(g, line->of);
    const char *name, *first = NULL;
    bool called;
    int n = 0;
    if (line->axis < 0) {
        weft_text_add(text, "no effect: the axis has one rank\n");
        return;
    }
    for (const weft_value *v; (v = next_value(g, &w, &name));) {
        if (weft_table_line_of(g, line->of, name, v, line->axis) != line)
            continue;
        first = first ? first : v->name;
        n++;
    }
    if (n == 0)
        weft_text_add(text, is_found(g, line, &called) ? "no effect: other rules count\n"
                                                       : "no effect: nothing has it\n");
    else
        weft_text_print(text, "%d: %s%s\n", n, first, n > 1 ? ", ..." : "");
}

void weft_table_print(const weft_graph *g, weft_text *text)
{
    static const char *const words[] = {"param", "input", "role"};
    if (g->n_table)
        weft_text_add(text, "placement rules                           by                      cut "
                            "(or whole, '-')\n");
    for (int i = 0; i < g->n_table; i++) {
        const weft_table_line *line = g->table[i];
        char rule[256], by[128];
        snprintf(by, sizeof by, "%s", line->by);
        if (line->user)
            snprintf(rule, sizeof rule, "%s", line->text);
        else
            snprintf(rule, sizeof rule, "%s%s%s %s %s", words[line->of], line->pattern ? ":" : "",
                     line->pattern ? line->pattern : "", line->dim ? line->dim : "-",
                     g->config.mesh.axis[line->axis].name);
        if (line->where.file)
            snprintf(by, sizeof by, line->where.line ? "%s:%d" : "%s", line->where.file,
                     line->where.line);
        weft_text_print(text, "  %-38s  %-22s  ", rule, by);
        print_effect(g, line, text);
    }
}
