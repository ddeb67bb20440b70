/* SPDX-License-Identifier: Apache-2.0 */
/* The author's run, on one rank and on small meshes: how a model is tried whose settings we do not
 * know. */
#include "conform.h"

#include "cli.h"

#include <stdio.h>
#include <string.h>
#include <weft/files.h>

enum { MOST_ADDED = 2, MOST_EDITS = CONFORM_MOST_SET + 2 * MOST_ADDED + 3 };

/* Plugins of axes, each with two ranks, that are listed behind the model. */
static const struct spread {
    const char *name, *added[MOST_ADDED];
} spreads[] = {
    {"tp", {"tp"}}, {"fsdp", {"fsdp"}}, {"cp", {"cp"}}, {"pp", {"pp"}}, {"tp fsdp", {"tp", "fsdp"}},
};

/* What is asked of the run as it is. */
typedef struct own {
    const conform *c;
    const char *model; /* the plugin that gives it; NULL: none */
    bool narrow;       /* products in fewer than 32 bits, where a token may turn */
    const weft_plugins *plugins;
} own;

static bool is_narrow(const weft_graph *g)
{
    for (const weft_node *n = weft_graph_first(g); n; n = n->next)
        for (int i = 0; weft_node_is(n, WEFT_OP_MATMUL) && i < n->n_ins; i++)
            if (weft_dtype_size(n->ins[i]->dtype) < 4)
                return true;
    return false;
}

static void look(own *o, const conform_plan *p)
{
    o->plugins = p->plugins;
    o->narrow = is_narrow(p->plan->graphs[WEFT_MODE_TRAIN]);
    for (int i = 0; i < p->plugins->n; i++)
        if (weft_plugin_gives(p->plugins->list[i].module.plugin, "model"))
            o->model = p->plugins->list[i].module.plugin->name;
}

static bool is_listed(const own *o, const char *name)
{
    for (int i = 0; i < o->plugins->n; i++)
        if (strcmp(o->plugins->list[i].module.plugin->name, name) == 0)
            return true;
    return false;
}

/* ---- INIs ---- */

typedef struct edits {
    weft_cli_edit list[MOST_EDITS];
    int n;
    char words[2 * MOST_ADDED + 1][256];
    int n_words;
} edits;

static void edit(edits *e, weft_cli_edit_kind kind, const char *format, const char *a,
                 const char *b)
{
    char *word = e->words[e->n_words++];
    snprintf(word, sizeof e->words[0], format, a, b);
    e->list[e->n++] = (weft_cli_edit){kind, word, NULL};
}

/* The effective settings, as a file. s: NULL for one rank. */
static weft_status write_ini(const own *o, const struct spread *s, const char *path,
                             weft_error *err)
{
    edits e = {.n = 0};
    weft_settings *settings = NULL;
    weft_plugins *plugins = NULL;
    weft_text text = {0};
    const weft_log silent = {0};
    for (int i = 0; i < o->c->set.n; i++)
        e.list[e.n++] = (weft_cli_edit){WEFT_CLI_SET, o->c->set.list[i].text, NULL};
    e.list[e.n++] = (weft_cli_edit){WEFT_CLI_SET, "train.steps=2", NULL};
    edit(&e, WEFT_CLI_SET, "weft.dir=%s/%s", o->c->folder, "run");
    if (is_listed(o, "metrics") && strcmp(o->c->plugin, "metrics") != 0)
        e.list[e.n++] =
            (weft_cli_edit){WEFT_CLI_WITHOUT, "metrics", NULL}; /* who wants it adds it */
    for (int i = 0; s && i < MOST_ADDED && s->added[i]; i++) {
        edit(&e, WEFT_CLI_WITH, "%s@after:%s", s->added[i], i ? s->added[i - 1] : o->model);
        edit(&e, WEFT_CLI_SET, "%s.degree=%s", s->added[i], "2");
    }
    const weft_cli_options options = {.ini = o->c->ini, .edits = e.list, .n_edits = e.n};
    weft_status status = weft_cli_settings(&options, &settings, err);
    status = status ? status : weft_plugins_load(settings, &silent, &plugins, err);
    if (!status)
        weft_settings_print(settings, false, true, &text);
    if (!status)
        status = text.out_of_memory ? weft_fail_memory(err)
                                    : weft_write_file(path, weft_text_get(&text), text.size, err);
    weft_text_release(&text);
    weft_plugins_destroy(plugins);
    weft_settings_destroy(settings);
    return status;
}

/* ---- one mesh ---- */

static void check_spread(const own *o, const struct spread *s)
{
    char one[220], many[220], what[80];
    weft_error err = {0};
    int ranks = 1;
    for (int i = 0; i < MOST_ADDED && s->added[i]; i++) {
        if (is_listed(o, s->added[i]))
            return;
        ranks *= 2;
    }
    snprintf(what, sizeof what, "with %s, against one rank", s->name);
    snprintf(one, sizeof one, "%s/one.ini", o->c->folder);
    snprintf(many, sizeof many, "%s/many.ini", o->c->folder);
    weft_status status = write_ini(o, NULL, one, &err);
    status = status ? status : write_ini(o, s, many, &err);
    if (status) {
        conform_skip(o->c, "run: %s: refused: %s", what, weft_error_text(&err));
    } else {
        conform_compare_runs(o->c, what, one, many, NULL);
        if (!o->narrow) {
            conform_compare_validation(o->c, what, one, many, ranks);
            conform_compare_text(o->c, what, one, many, ranks);
        }
    }
    weft_error_release(&err);
}

static bool start(const own *o)
{
    char ini[220];
    weft_error err = {0};
    snprintf(ini, sizeof ini, "%s/start.ini", o->c->folder);
    const bool written = write_ini(o, NULL, ini, &err) == WEFT_OK;
    weft_error_release(&err);
    return !written || conform_start(o->c, ini);
}

void conform_own_runs(const conform *c)
{
    own o = {.c = c};
    conform_plan p;
    weft_error err = {0};
    const conform_case k = {.ranks = 1, .threads = 1};
    conform_now(c, "plugin: create and passes");
    weft_status s = conform_plan_init(&p, c, &k, &err);
    if (s) {
        conform_fail(c, "run: %s cannot be planned on one rank: %s", c->ini, weft_error_text(&err));
    } else {
        look(&o, &p);
        const bool sound = start(&o);
        for (size_t i = 0; sound && o.model && i < sizeof spreads / sizeof spreads[0]; i++)
            check_spread(&o, &spreads[i]);
    }
    conform_plan_release(&p);
    weft_error_release(&err);
}
