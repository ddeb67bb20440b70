/* SPDX-License-Identifier: Apache-2.0 */
/* Short runs with the plugin: each mesh against one rank, and, where the plugin says that it
 * changes no numbers, with it against without. */
#include "conform.h"

#include "process.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <weft/files.h>

enum { SECONDS = 100 };

typedef struct mesh {
    const char *others;
    int ranks;
    enum { SOME_PLACES, ONE_PLACE, WHOLE_ALONE } how; /* without --all; with it, every place */
    bool texts; /* validation and text, too, at one place; with --all, or where it is the plugin's
                   own mesh, always */
} mesh;

static const mesh meshes[] = {
    {"tp", 2, SOME_PLACES, false},     {"fsdp", 2, SOME_PLACES, false},
    {"tp fsdp", 4, SOME_PLACES, true}, {"bf16 tp fsdp ac", 4, SOME_PLACES, false},
    {"cp", 2, ONE_PLACE, false},       {"pp", 2, ONE_PLACE, true},
    {"pp cp", 4, WHOLE_ALONE, false},
};
/* Of an axis of the plugin's own: the first that its heads, or whatever it cuts, can be divided
 * for.
 */
static const struct own_axis {
    const char *model;
    mesh on;
} own_axes[] = {{"llama3", {"", 2, ONE_PLACE, true}}, {"gpt2", {"", 3, ONE_PLACE, true}}};

const char *conform_gist(weft_text *said)
{
    static const char *const telling[] = {"weft: crashed", "error: ", "first parted at"};
    char *text = said->data;
    const char *best = NULL;
    for (size_t i = 0; text && i < sizeof telling / sizeof telling[0] && !best; i++)
        best = strstr(text, telling[i]);
    for (const char *p = best ? "" : text; p && *p; p += strcspn(p, "\n"), p += *p == '\n')
        best = *p != '\n' ? p : best;
    if (!best)
        return "";
    text[best - text + (long)strcspn(best, "\n")] = '\0';
    return best;
}

static bool write_ini(const conform *c, const conform_case *k, const char *name, char path[200])
{
    weft_text ini = {0};
    snprintf(path, 200, "%s/%s.ini", c->folder, name);
    conform_print_ini(c, k, &ini);
    bool written =
        !ini.out_of_memory && weft_write_file(path, weft_text_get(&ini), ini.size, NULL) == WEFT_OK;
    weft_text_release(&ini);
    return written;
}

void conform_compare_runs(const conform *c, const char *what, const char *one, const char *two,
                          const char *exactly)
{
    const char *const argv[] = {"weft",  "oracle", one, two, exactly ? "--bitwise" : NULL,
                                exactly, NULL};
    weft_text text = {0};
    conform_now(c, "run: %s", what);
    int code = weft_process_call(argv, NULL, SECONDS, &text);
    if (code == 2 && conform_is_fault(&text))
        conform_fail(c, "run: %s: refused: %s", what, conform_gist(&text));
    else if (code == 2)
        conform_skip(c, "run: %s: refused: %s", what, conform_gist(&text));
    else if (code == 128 + SIGALRM)
        conform_fail(c, "run: %s: time: does not end within %d s", what, SECONDS);
    else if (code)
        conform_fail(c, "run: %s: %s: %s", what, code > 128 ? "crash" : "parity",
                     conform_gist(&text));
    conform_count(c, "runs compared", code != 2);
    weft_text_release(&text);
}

/* ---- the plugin at one place ---- */

typedef struct at {
    const weft_plugin *plugin;
    const char *place;
} at;

static void check_alone(const conform *c, const at *a, const conform_case *k)
{
    char with[200], without[200], what[120];
    conform_case bare = *k;
    bare.place = NULL;
    if (!a->place)
        return;
    bool extra =
        strncmp(a->place, "after:", 6) == 0 && a->plugin->numerics != WEFT_NUMERICS_CHANGES;
    snprintf(what, sizeof what, "%s, against the same run without it", a->place);
    if (extra && write_ini(c, k, "with", with) && write_ini(c, &bare, "without", without))
        conform_compare_runs(c, what, without, with,
                             a->plugin->numerics == WEFT_NUMERICS_BITWISE ? "all" : NULL);
}

static void check_resume(const conform *c, const conform_case *k)
{
    char ini[200];
    bool stores = strcmp(c->plugin, "ckpt") == 0 || strcmp(c->plugin, "metrics") == 0;
    if (!stores && write_ini(c, k, "resumed", ini)) /* which would be listed twice */
        conform_compare_resumed(c, k->place ? k->place : "as it is", ini);
}

/* Of ranks that it brings it says, too, what they do to the numbers. */
static bool brings_ranks(const weft_plugin *plugin)
{
    const weft_contribution *k = plugin->contributions;
    while (k && k->kind != WEFT_END && k->kind != WEFT_AXIS &&
           (k->kind != WEFT_PASS || k->stage != WEFT_STAGE_MESH))
        k++;
    return k && k->kind != WEFT_END;
}

/* Has it said that ranks get other numbers than were sent? Then so has every mesh, by design. */
static bool changes_what_is_sent(const weft_plugin *plugin)
{
    const weft_contribution *k = plugin->contributions;
    while (k && k->kind != WEFT_END &&
           (k->kind != WEFT_WRAP || strncmp(k->service, "transport", 9) != 0))
        k++;
    return k && k->kind != WEFT_END && plugin->numerics == WEFT_NUMERICS_CHANGES;
}

static bool is_on(const mesh *m, const char *plugin)
{
    return !*m->others || strstr(m->others, plugin) != NULL;
}

static void check_mesh(const conform *c, const at *a, const conform_case *k, const mesh *m,
                       bool first)
{
    char one[200], many[200], what[160];
    conform_case alone = *k;
    const char *places[CONFORM_MOST_PLACES];
    alone.others = strstr(m->others, "bf16") ? "bf16" : "";
    alone.ranks = 1;
    alone.degree = 1;
    /* Of a plugin of meshes one rank has no need; any other stands where it can. */
    alone.place = NULL;
    if (a->place && conform_find_places(c, &alone, places) > 0)
        alone.place = places[0];
    snprintf(what, sizeof what, "%s%s%s, against one rank", a->place ? a->place : "",
             a->place ? " with " : "with ", *m->others ? m->others : "an axis of 2 ranks");
    if (!write_ini(c, &alone, "one", one) || !write_ini(c, k, "many", many))
        return;
    if (changes_what_is_sent(a->plugin)) {
        snprintf(what, sizeof what, "%s%swith %s, twice", a->place ? a->place : "",
                 a->place ? " " : "", m->others);
        conform_compare_runs(c, what, many, many, "all");
        return;
    }
    const bool exact = brings_ranks(a->plugin) && a->plugin->numerics == WEFT_NUMERICS_BITWISE;
    conform_compare_runs(c, what, one, many, exact && is_on(m, c->plugin) ? "all" : NULL);
    bool texts = (m->texts && first) || c->whole || strstr(m->others, c->plugin) != NULL;
    if (strstr(m->others, "bf16") || !texts)
        return; /* in bf16 a token may turn */
    conform_compare_validation(c, what, one, many, k->ranks);
    conform_compare_text(c, what, one, many, k->ranks);
}

/* ---- what cannot be run ---- */

/* Data whose samples are no text, which no model of ours reads, however they are set. */
static bool has_fields(const weft_plugin *plugin)
{
    for (const weft_contribution *k = plugin->contributions; k && k->kind != WEFT_END; k++)
        if (k->kind == WEFT_SERVICE && strcmp(k->service, "data") == 0)
            return ((const weft_data *)k->table)->fields != NULL;
    return false;
}

/* What fits nowhere may want settings or company that we do not know; what breaks a graph is
 * broken. */
static void tell_nowhere(const conform *c, const weft_plugin *plugin, const conform_case *k)
{
    const bool set = c->set.n > 0 && !has_fields(plugin);
    weft_text why = {0};
    conform_case alone = *k;
    alone.others = "";
    alone.ranks = 1;
    bool broken = conform_find_breakage(c, alone, &why);
    if (broken || set)
        conform_fail(c, "runs: it runs nowhere: %s", weft_text_get(&why));
    else if (c->model)
        conform_skip(c,
                     "runs: it is a model, and no small run can be made of it (%s); try it in a "
                     "run of yours, `weft conform --ini FILE %s`, or set what makes it small, as "
                     "`weft conform -o %s.KEY=VALUE %s`",
                     weft_text_get(&why), c->plugin, c->plugin, c->plugin);
    else
        conform_skip(c,
                     "runs: there is no place in the list of a small run for this plugin (%s); set "
                     "what it needs with -o %s.KEY=VALUE, give a run that lists it with --ini "
                     "FILE, or its own tests must run it",
                     weft_text_get(&why), c->plugin);
    weft_text_release(&why);
}

/* ---- all ---- */

/* Of places; negative: it cannot be started, which was said. */
static int run_alone(const conform *c, const weft_plugin *plugin, conform_case k)
{
    const char *places[CONFORM_MOST_PLACES];
    int n = conform_find_places(c, &k, places);
    char ini[200];
    k.place = n ? places[0] : NULL;
    if (n && write_ini(c, &k, "start", ini) && !conform_start(c, ini))
        return -1;
    for (int i = 0; i < n; i++) {
        const at a = {plugin, places[i]};
        k.place = places[i];
        check_alone(c, &a, &k);
        if (i == 0 || c->whole)
            check_resume(c, &k);
    }
    return n;
}

/* A sample of the places, another one for each mesh. */
static int run_on(const conform *c, const weft_plugin *plugin, conform_case k, const mesh *on,
                  int m)
{
    const char *places[CONFORM_MOST_PLACES];
    int tried = 0;
    k.others = on->others;
    k.ranks = on->ranks;
    int n = conform_find_places(c, &k, places), first = c->whole ? 0 : n > 1 ? m % 2 : 0;
    for (int i = first; i < n; i += c->whole ? 1 : on->how == ONE_PLACE ? n : 4) {
        const at a = {plugin, places[i]};
        k.place = places[i];
        check_mesh(c, &a, &k, on, i == first);
        tried++;
    }
    return tried;
}

static int run_on_own(const conform *c, const weft_plugin *plugin, conform_case k)
{
    int tried = 0;
    for (size_t i = 0; i < sizeof own_axes / sizeof own_axes[0] && !tried; i++) {
        k.model = own_axes[i].model;
        k.degree = own_axes[i].on.ranks;
        tried = run_on(c, plugin, k, &own_axes[i].on, 0);
    }
    if (!tried)
        conform_skip(c, "runs: its own axis: no small run can have two ranks of it, or three; give "
                        "it a run that can with --ini FILE, or compare one with one rank by weft "
                        "oracle");
    return tried;
}

void conform_runs(const conform *c, void *self)
{
    const weft_module *module = self;
    if (!module)
        return;
    if (c->ini) {
        conform_own_runs(c);
        return;
    }
    const conform_case k = {.model = strcmp(c->plugin, "gpt2") ? "llama3" : "gpt2",
                            .others = "",
                            .ranks = 1,
                            .threads = 1};
    if (changes_what_is_sent(module->plugin))
        conform_skip(c, "runs: no mesh is held against one rank: it stands around the transport, "
                        "and its numerics is CHANGES; each is held against itself, to the bit");
    int tried = run_alone(c, module->plugin, k);
    if (tried < 0) /* found out already */
        return;
    for (int m = 0; m < (int)(sizeof meshes / sizeof meshes[0]); m++)
        if (c->whole || meshes[m].how != WHOLE_ALONE)
            tried += run_on(c, module->plugin, k, &meshes[m], m);
    if (c->cuts && !conform_is_axis(c->plugin))
        tried += run_on_own(c, module->plugin, k);
    if (tried == 0)
        tell_nowhere(c, module->plugin, &k);
}
