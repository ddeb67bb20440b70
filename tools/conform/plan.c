/* SPDX-License-Identifier: Apache-2.0 */
/* Small runs with the plugin in them, up to their plans. */
#include "conform.h"

#include "cli.h"
#include "console/crash.h"
#include "execute/control.h"
#include "forecast/forecast.h"
#include "processors.h"

#include <stdio.h>
#include <string.h>

static void drop(void *self, weft_log_level level, const char *line)
{
    (void)self, (void)level, (void)line;
}

/* Odd sizes: no power of two that a kernel could count on. */
static const char llama3[] = "[llama3]\ndim = 18\nn_layers = 2\nn_heads = 3\nn_kv_heads = 1\n"
                             "head_dim = 6\nffn_dim = 13\nvocab_size = 263\n";
static const char gpt2[] = "[gpt2]\ndim = 15\nn_layers = 2\nn_heads = 3\nvocab_size = 261\n"
                           "n_positions = 9\n";

/* Plugins of an axis that has two ranks where there are several. */
static const char *const axes[] = {"tp", "cp", "pp", "fsdp"};

static bool has(const char *words, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = words; p && (p = strstr(p, word)); p += n)
        if ((p == words || p[-1] == ' ') && (p[n] == ' ' || !p[n]))
            return true;
    return false;
}

/* Is the plugin listed at this place? "after:fsdp", "instead:adamw" */
static bool stands(const conform *c, const conform_case *k, const char *how, const char *name)
{
    size_t n = strlen(how);
    return c->plugin && k->place && !has(k->others, c->plugin) && strcmp(name, c->plugin) != 0 &&
           strncmp(k->place, how, n) == 0 && strcmp(k->place + n, name) == 0;
}

static void list(const conform *c, const conform_case *k, const char *name, weft_text *ini)
{
    if (!stands(c, k, "instead:", name))
        weft_text_print(ini, " %s", name);
    if (stands(c, k, "instead:", name) || stands(c, k, "after:", name))
        weft_text_print(ini, " %s", c->plugin);
}

static bool is_company(const conform *c, const conform_case *k)
{
    static const char *const always[] = {"text", "cpu", "adamw"};
    bool is = strcmp(c->plugin, k->model) == 0 || has(k->others, c->plugin);
    for (size_t i = 0; i < sizeof always / sizeof always[0]; i++)
        is = is || strcmp(c->plugin, always[i]) == 0;
    return is;
}

bool conform_is_axis(const char *plugin)
{
    for (size_t i = 0; i < sizeof axes / sizeof axes[0]; i++)
        if (strcmp(axes[i], plugin) == 0)
            return true;
    return false;
}

/* Does the author say a degree? Others bring one along. */
static bool has_degree(const conform *c, const conform_case *k)
{
    bool has_one = has(k->others, c->plugin);
    for (int i = 0; i < c->set.n; i++)
        has_one = has_one || strncmp(strchr(c->set.list[i].text, '.'), ".degree=", 8) == 0;
    return has_one;
}

/* "muon.lr=1" as lines of the section. */
static void print_set(const conform *c, const conform_case *k, weft_text *ini)
{
    bool degree = c->cuts && !has_degree(c, k);
    if (!(c->set.n || degree) || !(k->place || is_company(c, k)))
        return;
    weft_text_print(ini, "[%s]\n", c->plugin);
    if (degree)
        weft_text_print(ini, "degree = %d\n", k->degree ? k->degree : 1);
    for (int i = 0; i < c->set.n; i++)
        weft_text_print(ini, "%s\n", strchr(c->set.list[i].text, '.') + 1);
}

void conform_print_ini(const conform *c, const conform_case *k, weft_text *ini)
{
    weft_text_add(ini, "[weft]\nplugins =");
    list(c, k, k->model, ini);
    for (const char *p = k->others; p && *p;) {
        char word[64];
        size_t n = strcspn(p, " ");
        snprintf(word, sizeof word, "%.*s", (int)n, p);
        if (strcmp(word, "sample") != 0)
            list(c, k, word, ini);
        p += n + strspn(p + n, " ");
    }
    list(c, k, "text", ini);
    if (has(k->others, "sample")) /* it asks text for its tokenizer */
        list(c, k, "sample", ini);
    list(c, k, "cpu", ini);
    list(c, k, "adamw", ini);
    weft_text_print(
        ini,
        "\ndir = %s/run\nthreads = %d\n[train]\nsteps = 2\nseq_len = 7\nglobal_batch = 6\n"
        "micro_batch = 3\nloss_chunk = 7\neval_every = %d\n",
        c->folder, k->threads, k->validates);
    if (!stands(c, k, "instead:", k->model))
        weft_text_add(ini, strcmp(k->model, "gpt2") ? llama3 : gpt2);
    if (!stands(c, k, "instead:", "text"))
        weft_text_print(ini, "[text]\npath = %s/text.txt\n", c->folder);
    for (size_t i = 0; i < sizeof axes / sizeof axes[0] && k->ranks > 1; i++)
        if (has(k->others, axes[i]) && !(c->set.n && strcmp(c->plugin, axes[i]) == 0))
            weft_text_print(ini, "[%s]\ndegree = 2\n", axes[i]);
    if (has(k->others, "sample"))
        weft_text_add(ini, "[sample]\nprompt = And\ntokens = 2\ncontext = 9\n");
    print_set(c, k, ini);
}

static bool is_listed(const conform *c, const weft_plugins *plugins)
{
    for (int i = 0; i < plugins->n; i++)
        if (c->plugin && strcmp(plugins->list[i].module.plugin->name, c->plugin) == 0)
            return true;
    return !c->plugin;
}

/* Plain kernels compute all values of a run of ours. */
static weft_status check_size(const conform *c, const weft_graph *g, weft_error *err)
{
    enum { MOST = 4000000 };
    double elements = 0;
    for (int i = 0; !c->ini && i < g->n_parameters; i++)
        elements += (double)weft_value_bytes(g, g->parameters[i]) /
                    (double)weft_dtype_size(g->parameters[i]->dtype);
    if (elements <= MOST)
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                     "the model has %.0f parameters, and a trial at most %d", elements, MOST);
}

weft_status conform_plan_init(conform_plan *p, const conform *c, const conform_case *k,
                              weft_error *err)
{
    weft_text ini = {0};
    memset(p, 0, sizeof *p);
    p->log = (weft_log){drop, NULL};
    weft_cli_options options = {.ini = c->ini ? c->ini : "weft conform"};
    weft_cli_edit edits[CONFORM_MOST_SET + 1];
    if (c->ini) {
        options.edits = edits;
        if (c->model)
            edits[options.n_edits++] = (weft_cli_edit){WEFT_CLI_SET, "train.eval_every=1", NULL};
        for (int i = 0; i < c->set.n; i++)
            edits[options.n_edits++] = (weft_cli_edit){WEFT_CLI_SET, c->set.list[i].text, NULL};
    } else {
        conform_print_ini(c, k, &ini);
        options.ini_text = weft_text_get(&ini);
    }
    weft_status s = ini.out_of_memory ? weft_fail_memory(err) : WEFT_OK;
    s = s ? s : weft_cli_settings(&options, &p->settings, err);
    weft_text_release(&ini);
    s = s ? s : weft_plugins_load(p->settings, &p->log, &p->plugins, err);
    if (!s)
        weft_crash_note_plugins(p->plugins);
    if (!s && !is_listed(c, p->plugins))
        s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "plugin '%s' is not listed", c->plugin);
    if (s)
        return s;
    p->host = (weft_host){.log = &p->log,
                          .rank = 0,
                          .ranks = k->ranks,
                          .threads = k->threads,
                          .exchange = weft_host_exchange,
                          .exchange_within = weft_host_exchange_within,
                          .waiting = weft_host_waiting};
    s = weft_plugins_create(p->plugins, &p->host, err);
    const weft_plan_options how = {.rank = 0, .ranks = k->ranks, .broken = weft_plan_keep_broken};
    s = s ? s : weft_plan_create(p->plugins, p->settings, &how, &p->plan, err);
    return s ? s : check_size(c, p->plan->graphs[WEFT_MODE_TRAIN], err);
}

void conform_plan_release(conform_plan *p)
{
    weft_plan_destroy(p->plan);
    weft_plugins_destroy(p->plugins);
    weft_settings_destroy(p->settings);
    memset(p, 0, sizeof *p);
}

/* ---- where the plugin may stand ---- */

static bool is_possible(const conform *c, conform_case k, const char *place)
{
    conform_plan p;
    weft_error err = {0};
    k.place = place;
    weft_status s = conform_plan_init(&p, c, &k, &err);
    conform_plan_release(&p);
    weft_error_release(&err);
    return s == WEFT_OK;
}

static const char *const after[] = {"after:llama3", "after:gpt2", "after:bf16", "after:tp",
                                    "after:fsdp",   "after:ac",   "after:text", "after:adamw"};

static const char *const instead[] = {"instead:adamw", "instead:text", "instead:cpu",
                                      "instead:llama3", "instead:gpt2"};

const char *conform_own_place(const weft_plugin *plugin)
{
    static const char *const kinds[][2] = {{"model", "instead:llama3"},
                                           {"optimizer", "instead:adamw"},
                                           {"data", "instead:text"},
                                           {"device", "instead:cpu"}};
    const char *place = NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0] && !place; i++) {
        bool is = weft_plugin_gives(plugin, kinds[i][0]);
        for (const weft_contribution *k = plugin->contributions; k && k->kind != WEFT_END; k++)
            is = is || (k->kind == WEFT_SERVICE && strcmp(k->service, kinds[i][0]) == 0);
        place = is ? kinds[i][1] : NULL;
    }
    return place;
}

bool conform_find_breakage(const conform *c, conform_case k, weft_text *why)
{
    bool broken = false;
    int n = c->place ? 1 : (int)(sizeof after / sizeof after[0]);
    for (int i = 0; i < n && !broken; i++) {
        conform_plan p;
        weft_error err = {0};
        k.place = c->place ? c->place : after[i];
        broken = conform_plan_init(&p, c, &k, &err) == WEFT_ERR_PLUGIN;
        if (broken)
            weft_text_clear(why);
        if (!why->size)
            weft_text_print(why, "%s: %s", k.place, weft_error_text(&err));
        conform_plan_release(&p);
        weft_error_release(&err);
    }
    return broken;
}

int conform_find_places(const conform *c, const conform_case *k,
                        const char *places[CONFORM_MOST_PLACES])
{
    int n = 0;
    if (!c->plugin || c->ini || is_company(c, k)) {
        places[0] = NULL;
        return 1;
    }
    conform_now(c, "plugin: create and passes");
    for (size_t i = 0; i < sizeof after / sizeof after[0]; i++)
        if (is_possible(c, *k, after[i]))
            places[n++] = after[i];
    for (size_t i = 0; n == 0 && i < sizeof instead / sizeof instead[0]; i++)
        if (is_possible(c, *k, instead[i]))
            places[n++] = instead[i];
    return n;
}
