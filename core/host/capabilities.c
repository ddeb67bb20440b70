/* SPDX-License-Identifier: Apache-2.0 */
/* Capabilities and the listed order. The order is never changed: it is accepted, or refused with
 * both lines, the capability and an order that works. Passes run as listed, but for those that say
 * `after`.
 *
 * When something is there: a service from the beginning, what a pass gives once the pass has run
 * (stage, then listed order), the core's own from a stage on. When it is needed: by a pass when it
 * runs, by an observer at run time, by a service or a wrap when it is opened if a service gives it
 * (listed order), else at run time. */
#include "host/host.h"

#include <stdio.h>
#include <string.h>

/* What comes before what, and the order that follows: the plugins of the list, or the slots. */
typedef struct graph {
    int n;
    bool *edge; /* edge[a * n + b]: a must come before b */
    int *place; /* of each; -1: none yet */
} graph;

typedef struct set {
    const weft_plugins *plugins;
    weft_slot *slots;
    int n_slots;
    graph list;   /* of the plugins: their places in the order that is tried; edges where only that
                     decides */
    graph passes; /* of the slots, in that order; edges to those that say `after` */
    weft_error *err;
    weft_status status;
} set;

enum { TIME_OPEN = -1, TIME_RUN = WEFT_STAGES };

/* What the core gives to passes from a stage on, and to everything else. */
static const struct core_capability {
    const char *name;
    weft_pass_stage from;
} core_capabilities[] = {{"mesh", WEFT_STAGE_GRAPH},      {"graph", WEFT_STAGE_GRAPH},
                         {"placed", WEFT_STAGE_PLACED},   {"joint", WEFT_STAGE_JOINT},
                         {"ordered", WEFT_STAGE_ORDERED}, {NULL, WEFT_STAGE_MESH}};

static const struct core_capability *find_core(const char *name)
{
    for (const struct core_capability *c = core_capabilities; c->name; c++)
        if (strcmp(c->name, name) == 0)
            return c;
    return NULL;
}

/* ---- who gives what, and when ---- */

const char *weft_plain_capability(const char *need, char buffer[64], bool *optional)
{
    size_t n = strcspn(need, " ");
    *optional = n > 0 && need[n - 1] == '?';
    if (!*optional && !need[n])
        return need;
    n = n - *optional < 63 ? n - *optional : 63;
    memcpy(buffer, need, n);
    buffer[n] = '\0';
    return buffer;
}

const char *weft_next_after(const char **list, char buffer[64], bool *optional)
{
    char word[64];
    const char *from = *list ? *list + strspn(*list, " ") : "";
    const size_t n = strcspn(from, " ");
    if (n == 0)
        return NULL;
    snprintf(word, sizeof word, "%.*s", (int)n, from);
    *list = from + n;
    const char *plain = weft_plain_capability(word, buffer, optional);
    return plain == word ? memcpy(buffer, word, sizeof word) : plain;
}

/* A service gives its own name too, an axis its own. */
static bool gives(const weft_contribution *item, const char *capability)
{
    if (item->kind == WEFT_SERVICE && strcmp(item->service, capability) == 0)
        return true;
    if (item->kind == WEFT_AXIS && strncmp(capability, "axis:", 5) == 0 &&
        strcmp(item->axis, capability + 5) == 0)
        return true;
    for (int i = 0; item->gives && item->gives[i]; i++)
        if (strcmp(item->gives[i], capability) == 0)
            return true;
    return false;
}

/* An axis is declared as passes of the stage mesh run, which is the first. */
static bool is_pass(const weft_contribution *item)
{
    return item->kind == WEFT_PASS || item->kind == WEFT_AXIS;
}

/* What it needs, one by one, a wrap its service first; NULL at the end. */
static const char *need_of(const weft_contribution *item, int i)
{
    if (item->kind == WEFT_WRAP && i-- == 0)
        return item->service;
    return item->needs ? item->needs[i] : NULL;
}

static bool opens(const weft_contribution *item)
{
    return item->kind == WEFT_SERVICE || item->kind == WEFT_WRAP;
}

static int give_time(const weft_contribution *item)
{
    return opens(item) ? TIME_OPEN : is_pass(item) ? (int)item->stage : TIME_RUN;
}

static int need_time(const weft_contribution *needer, const weft_contribution *giver)
{
    if (opens(needer))
        return opens(giver) ? TIME_OPEN : TIME_RUN;
    return is_pass(needer) ? (int)needer->stage : TIME_RUN;
}

/* Negative: given before it is needed, whatever the listed order; positive: after; 0: the listed
 * order decides. */
static int compare(const weft_slot *giver, const weft_slot *needer)
{
    int given = give_time(giver->item), needed = need_time(needer->item, giver->item);
    if (given != needed)
        return given < needed ? -1 : 1;
    if (given == TIME_RUN || (given == TIME_OPEN && giver->plugin == needer->plugin))
        return -1;
    return 0;
}

/* Whether it is given in time, in the order that is tried. */
static bool is_before(const set *s, const weft_slot *giver, const weft_slot *needer)
{
    int order = compare(giver, needer);
    if (order)
        return order < 0;
    return is_pass(giver->item)
               ? s->passes.place[giver - s->slots] < s->passes.place[needer - s->slots]
               : s->list.place[giver->plugin] < s->list.place[needer->plugin];
}

/* Who gives it in time; *late: nobody does, but this one later. Of several, one that another order
 * would not mend. NULL: nobody gives it. */
static const weft_slot *find_giver(const set *s, const weft_slot *needer, const char *capability,
                                   bool *late)
{
    const weft_slot *giver = NULL;
    *late = false;
    for (const weft_slot *k = s->slots; k < s->slots + s->n_slots; k++) {
        if (!gives(k->item, capability))
            continue;
        if (is_before(s, k, needer)) {
            *late = false;
            return k;
        }
        if (!giver || compare(k, needer) > 0)
            giver = k;
        *late = true;
    }
    return giver;
}

/* Another plugin that gives before this one what it refuses. */
static const weft_slot *find_refused(const set *s, const weft_slot *refuser, const char *capability)
{
    for (const weft_slot *k = s->slots; k < s->slots + s->n_slots; k++)
        if (k->plugin != refuser->plugin && gives(k->item, capability) && is_before(s, k, refuser))
            return k;
    return NULL;
}

/* ---- graphs: a stable topological sort, so that the order is near the listed one ---- */

/* The first without a place that must come before this one; -1: none. */
static int find_before(const graph *g, int b)
{
    for (int a = 0; a < g->n; a++)
        if (g->place[a] < 0 && g->edge[a * g->n + b])
            return a;
    return -1;
}

static int node_at(const graph *g, int place)
{
    int i = 0;
    while (g->place[i] != place)
        i++;
    return i;
}

/* A node on a circle, of those that could have no place: n steps back surely lie on one. */
static int find_circle(const graph *g)
{
    int now = 0;
    while (g->place[now] >= 0)
        now++;
    for (int step = 0; step < g->n; step++)
        now = find_before(g, now);
    return now;
}

static void clear(graph *g)
{
    for (int i = 0; i < g->n; i++)
        g->place[i] = -1;
}

/* As slots run: by stage, then by the order of the list that is tried. */
static bool is_earlier(const set *s, int a, int b)
{
    const weft_slot *x = &s->slots[a], *y = &s->slots[b];
    int i = s->list.place[x->plugin], j = s->list.place[y->plugin];
    return x->item->stage != y->item->stage ? x->item->stage < y->item->stage
           : x->plugin != y->plugin         ? i < j
                                            : a < b;
}

/* Gives places to what has none: the first of those that wait for nothing, then again; all: in the
 * end those, too, that wait for each other. Does all have one? */
static bool sort(const set *s, graph *g, bool all)
{
    int placed = 0, next = 0;
    for (int i = 0; i < g->n; i++)
        placed += g->place[i] >= 0;
    for (; next >= 0; placed += next >= 0) {
        next = -1;
        for (int i = 0; i < g->n; i++)
            if (g->place[i] < 0 && (all || find_before(g, i) < 0) &&
                (next < 0 || (g == &s->passes && is_earlier(s, i, next))))
                next = i;
        if (next >= 0)
            g->place[next] = placed;
    }
    return placed == g->n;
}

/* The order of the list that is tried decides the order of passes; those that wait for each other
 * come last. */
static void arrange(set *s)
{
    clear(&s->passes);
    if (!sort(s, &s->passes, false))
        sort(s, &s->passes, true);
}

/* ---- errors ---- */

static const weft_module *module_of(const set *s, int plugin)
{
    return &s->plugins->list[plugin].module;
}

static const char *name_of(const set *s, int plugin)
{
    return module_of(s, plugin)->plugin->name;
}

/* Notes an error at the line that lists the plugin. */
WEFT_PRINTF(3, 4) static void fail(set *s, int plugin, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    weft_status status =
        weft_vfail(s->err, WEFT_ERR_INPUT, module_of(s, plugin)->where, format, args);
    va_end(args);
    s->status = s->status ? s->status : status;
}

/* The same with a text, which it releases. */
static void fail_text(set *s, int plugin, weft_text *text)
{
    if (text->out_of_memory)
        s->status = weft_fail_memory(s->err);
    else
        fail(s, plugin, "%s", weft_text_get(text));
    weft_text_release(text);
}

/* Appends "'fsdp' (run.ini:5)", for the other line of a message. */
static void add_where(const set *s, int plugin, weft_text *text)
{
    weft_where where = module_of(s, plugin)->where;
    weft_text_print(text, "'%s' (%s", name_of(s, plugin),
                    where.file ? where.file : "added by weft");
    if (where.file && where.line > 0)
        weft_text_print(text, ":%d", where.line);
    weft_text_add(text, ")");
}

/* "plugin 'x' <words> 'capability' (givers), which no listed plugin gives", and the nearest. */
static void fail_unknown(set *s, int plugin, const char *words, const char *capability,
                         const char *givers)
{
    const char *names[256];
    int n = 0;
    for (const struct core_capability *c = core_capabilities; c->name; c++)
        names[n++] = c->name;
    for (int i = 0; i < s->n_slots; i++) {
        const weft_contribution *item = s->slots[i].item;
        if (item->kind == WEFT_SERVICE && n < 256)
            names[n++] = item->service;
        for (int j = 0; item->gives && item->gives[j] && n < 256; j++)
            names[n++] = item->gives[j];
    }
    const char *near = weft_nearest(capability, names, n);
    weft_text text = {0};
    weft_text_print(&text, "plugin '%s' %s '%s'%s, which no listed plugin gives",
                    name_of(s, plugin), words, capability, givers);
    if (near)
        weft_text_print(&text, "; did it mean '%s'?", near);
    else
        weft_text_add(&text, "; add one that does to [weft] plugins (`weft inspect NAME` tells)");
    fail_text(s, plugin, &text);
}

/* ---- passes that say `after` ---- */

static void refuse_circle(set *s)
{
    const int start = find_circle(&s->passes);
    int now = start;
    weft_text text = {0};
    weft_text_print(&text, "a pass of plugin '%s'", name_of(s, s->slots[start].plugin));
    do {
        weft_text_print(&text, "%s waits for '%s', which ", now == start ? "" : ", and that",
                        s->slots[now].item->after);
        now = find_before(&s->passes, now);
        add_where(s, s->slots[now].plugin, &text);
        weft_text_add(&text, " gives");
    } while (now != start);
    weft_text_add(&text, "; no order works, so leave one out");
    fail_text(s, s->slots[start].plugin, &text);
}

/* A pass waits for all of its stage that give a capability. */
static void add_after(set *s, int index, const char *capability, bool optional)
{
    bool found = false;
    const weft_slot *me = &s->slots[index];
    if (find_core(capability))
        fail(s, me->plugin,
             "a pass of plugin '%s' says after '%s', which weft gives between stages: the stage of "
             "the pass says it",
             name_of(s, me->plugin), capability);
    for (int i = 0; i < s->n_slots; i++) {
        const weft_slot *giver = &s->slots[i];
        if (!gives(giver->item, capability))
            continue;
        if (is_pass(giver->item) && giver->item->stage == me->item->stage)
            s->passes.edge[i * s->n_slots + index] = true;
        if (!found && !find_core(capability) && compare(giver, me) > 0) {
            weft_text where = {0};
            add_where(s, giver->plugin, &where);
            fail(s, me->plugin,
                 "a pass of plugin '%s' in stage %s says after '%s', which %s gives only later, in "
                 "stage %s",
                 name_of(s, me->plugin), weft_stage_name(me->item->stage), capability,
                 weft_text_get(&where), weft_stage_name(giver->item->stage));
            weft_text_release(&where);
        }
        found = true;
    }
    if (!found && !optional && !find_core(capability))
        fail_unknown(s, me->plugin, "has a pass after", capability, "");
}

static void check_after(set *s)
{
    char buffer[64];
    bool optional;
    for (int i = 0; i < s->n_slots; i++) {
        const char *list = s->slots[i].item->kind == WEFT_PASS ? s->slots[i].item->after : NULL;
        for (const char *word; (word = weft_next_after(&list, buffer, &optional));)
            add_after(s, i, word, optional);
    }
    clear(&s->passes);
    if (sort(s, &s->passes, false))
        return;
    refuse_circle(s);
    sort(s, &s->passes, true);
}

/* ---- an order that works ---- */

/* Before `needer` stands whatever decides where `giver` runs: its plugin, and what it waits for. */
static void add_edges_from(set *s, int giver, int needer, int depth)
{
    int from = s->slots[giver].plugin;
    if (from != needer)
        s->list.edge[from * s->list.n + needer] = true;
    for (int i = 0; i < s->n_slots && depth <= s->n_slots; i++)
        if (s->passes.edge[i * s->n_slots + giver])
            add_edges_from(s, i, needer, depth + 1);
}

static void add_need(set *s, const weft_slot *needer, const char *capability)
{
    int giver = -1;
    for (int i = 0; i < s->n_slots; i++) {
        const weft_slot *k = &s->slots[i];
        if (!gives(k->item, capability))
            continue;
        int order = compare(k, needer);
        bool waits = needer->item->after || k->item->after;
        if (order < 0 ||
            (order == 0 && (waits || k->plugin == needer->plugin) && is_before(s, k, needer)))
            return; /* it is there in any order, or as far as passes wait */
        if (order == 0 && giver < 0)
            giver = i;
    }
    if (giver >= 0)
        add_edges_from(s, giver, needer->plugin, 0);
}

static void add_edges(set *s)
{
    char buffer[64];
    bool optional;
    for (const weft_slot *me = s->slots; me < s->slots + s->n_slots; me++) {
        for (int j = 0; need_of(me->item, j); j++)
            add_need(s, me, weft_plain_capability(need_of(me->item, j), buffer, &optional));
        for (int j = 0; me->item->refuses && me->item->refuses[j]; j++)
            for (const weft_slot *k = s->slots; k < s->slots + s->n_slots; k++)
                if (k->plugin != me->plugin && gives(k->item, me->item->refuses[j]) &&
                    compare(k, me) == 0)
                    s->list.edge[me->plugin * s->list.n + k->plugin] = true;
    }
}

/* Whether every need of a listed capability and every refusal is obeyed in the order that is
 * tried. */
static bool order_works(set *s)
{
    char buffer[64];
    bool optional, late = false;
    arrange(s);
    for (const weft_slot *me = s->slots; me < s->slots + s->n_slots; me++) {
        for (int j = 0; need_of(me->item, j) && !late; j++)
            find_giver(s, me, weft_plain_capability(need_of(me->item, j), buffer, &optional),
                       &late);
        for (int j = 0; me->item->refuses && me->item->refuses[j] && !late; j++)
            late = find_refused(s, me, me->item->refuses[j]);
        if (late)
            return false;
    }
    return true;
}

/* Appends "; this order works: plugins = a b c", or why none does. */
static void print_order(set *s, weft_text *text)
{
    graph *g = &s->list;
    clear(g);
    if (!sort(s, g, false)) {
        const int start = find_circle(g);
        int now = start;
        weft_text_print(text, "; no order works, for '%s' must come after", name_of(s, start));
        do {
            now = find_before(g, now);
            weft_text_print(text, now == start ? " '%s'" : " '%s', that after", name_of(s, now));
        } while (now != start);
    } else if (!order_works(s)) {
        weft_text_add(text, "; no order of these plugins works, so leave one out");
    } else {
        weft_text_add(text, "; this order works: plugins =");
        bool listed = false; /* nobody need list those that come first, or last, anyway */
        int end = g->n;
        while (end > 0 && s->plugins->list[node_at(g, end - 1)].is_default)
            end--;
        for (int place = 0; place < end; place++) {
            const weft_loaded *p = &s->plugins->list[node_at(g, place)];
            listed = listed || !p->is_default;
            if (listed)
                weft_text_print(text, " %s%s", p->optional ? "?" : "", p->module.plugin->name);
        }
    }
    for (int i = 0; i < g->n; i++)
        g->place[i] = i;
    arrange(s);
}

/* ---- what is wrong ---- */

static void fail_late(set *s, const weft_slot *needer, const weft_slot *giver,
                      const char *capability)
{
    weft_text text = {0};
    weft_text_print(&text, "plugin '%s' needs '%s', which ", name_of(s, needer->plugin),
                    capability);
    add_where(s, giver->plugin, &text);
    if (compare(giver, needer) > 0) {
        weft_text_print(&text, " gives only later, in stage %s; no order of these plugins works",
                        weft_stage_name(giver->item->stage));
    } else {
        if (giver->item->after)
            weft_text_print(&text, " gives, but behind '%s', which its pass waits for",
                            giver->item->after);
        else
            weft_text_add(&text, " gives, but later in the list");
        print_order(s, &text);
    }
    fail_text(s, needer->plugin, &text);
}

static void check_need(set *s, const weft_slot *needer, const char *need)
{
    char buffer[64];
    bool optional, late;
    const char *capability = weft_plain_capability(need, buffer, &optional);
    const weft_slot *giver = find_giver(s, needer, capability, &late);
    const struct core_capability *core = find_core(capability);
    if (giver && !late)
        return;
    if (core && is_pass(needer->item) && needer->item->stage < core->from)
        fail(s, needer->plugin,
             "plugin '%s' needs '%s' in stage %s, but weft gives it from stage %s on; please "
             "report it to its author",
             name_of(s, needer->plugin), capability, weft_stage_name(needer->item->stage),
             weft_stage_name(core->from));
    else if (!core && giver)
        fail_late(s, needer, giver, capability);
    else if (!core && !optional)
        fail_unknown(s, needer->plugin, "needs", capability, need + strlen(capability));
}

static void check_refusal(set *s, const weft_slot *refuser, const char *capability)
{
    const weft_slot *giver = find_refused(s, refuser, capability);
    if (!giver)
        return;
    weft_text text = {0};
    weft_text_print(&text, "plugin '%s' refuses '%s', which ", name_of(s, refuser->plugin),
                    capability);
    add_where(s, giver->plugin, &text);
    if (compare(giver, refuser) < 0) {
        weft_text_add(&text, " gives; no order of these plugins works, so leave one out");
    } else {
        weft_text_add(&text, " gives earlier in the list");
        print_order(s, &text);
    }
    fail_text(s, refuser->plugin, &text);
}

/* One capability, one giver: two devices, two models, two owners of one axis cannot both be meant.
 */
static void check_given_once(set *s, const weft_slot *me, const char *capability)
{
    if (find_core(capability)) {
        fail(s, me->plugin,
             "plugin '%s' gives '%s', which is weft's own to give; please report it to its author",
             name_of(s, me->plugin), capability);
        return;
    }
    for (const weft_slot *k = s->slots; k < me; k++) {
        if (k->plugin == me->plugin || !gives(k->item, capability))
            continue;
        weft_text text = {0};
        add_where(s, k->plugin, &text);
        fail(s, me->plugin, "plugin '%s' gives '%s', and so does %s; list only one of them",
             name_of(s, me->plugin), capability, weft_text_get(&text));
        weft_text_release(&text);
        return;
    }
}

static void check_slot(set *s, const weft_slot *me)
{
    const weft_contribution *item = me->item;
    if (item->kind == WEFT_SERVICE)
        check_given_once(s, me, item->service);
    for (int i = 0; item->gives && item->gives[i]; i++)
        if (item->kind != WEFT_SERVICE || strcmp(item->gives[i], item->service) != 0)
            check_given_once(s, me, item->gives[i]);
    for (int i = 0; need_of(item, i); i++)
        check_need(s, me, need_of(item, i));
    for (int i = 0; item->refuses && item->refuses[i]; i++)
        check_refusal(s, me, item->refuses[i]);
}

/* Of ops: one name, one meaning. */
static void check_ops(set *s, int plugin)
{
    const weft_op *const *mine = module_of(s, plugin)->plugin->ops;
    for (int i = 0; mine && mine[i]; i++)
        for (int other = 0; other < plugin; other++) {
            const weft_op *const *theirs = module_of(s, other)->plugin->ops;
            for (int j = 0; theirs && theirs[j]; j++)
                if (strcmp(mine[i]->name, theirs[j]->name) == 0)
                    fail(s, plugin,
                         "plugin '%s' brings an op '%s', and so does '%s'; list only one of them",
                         name_of(s, plugin), mine[i]->name, name_of(s, other));
        }
}

/* ---- the whole ---- */

static weft_status list_passes(const set *s, weft_plugins *plugins)
{
    plugins->passes = weft_alloc_zero((size_t)s->n_slots + 1, sizeof *plugins->passes);
    if (!plugins->passes)
        return weft_fail_memory(s->err);
    for (int place = 0; place < s->n_slots; place++) {
        const weft_slot *slot = &s->slots[node_at(&s->passes, place)];
        if (is_pass(slot->item))
            plugins->passes[plugins->n_passes++] = *slot;
    }
    return WEFT_OK;
}

/* list NULL: counts them. */
static void add_slots(const weft_plugins *plugins, weft_slot *list, int *n)
{
    *n = 0;
    for (int i = 0; i < plugins->n; i++)
        for (const weft_contribution *k = plugins->list[i].module.plugin->contributions;
             k && k->kind != WEFT_END; k++, (*n)++)
            if (list)
                list[*n] = (weft_slot){.plugin = i, .item = k};
}

static bool init(graph *g, weft_pool *pool, int n)
{
    g->n = n;
    g->edge = weft_pool_alloc(pool, (size_t)n * (size_t)n + 1);
    g->place = weft_pool_alloc(pool, ((size_t)n + 1) * sizeof *g->place);
    for (int i = 0; g->place && i < n; i++)
        g->place[i] = i;
    return g->edge && g->place;
}

static weft_status check(set *s, weft_plugins *plugins, weft_pool *pool)
{
    add_slots(plugins, NULL, &s->n_slots);
    s->slots = weft_pool_alloc(pool, ((size_t)s->n_slots + 1) * sizeof *s->slots);
    if (!s->slots || !init(&s->list, pool, plugins->n) || !init(&s->passes, pool, s->n_slots))
        return weft_fail_memory(s->err);
    add_slots(plugins, s->slots, &s->n_slots);
    check_after(s);
    add_edges(s);
    for (int i = 0; i < s->n_slots; i++)
        check_slot(s, &s->slots[i]);
    for (int i = 0; i < plugins->n; i++)
        check_ops(s, i);
    return s->status ? s->status : list_passes(s, plugins);
}

weft_status weft_order_check(weft_plugins *plugins, weft_error *err)
{
    set s = {.plugins = plugins, .err = err};
    weft_pool pool = {0};
    weft_status status = check(&s, plugins, &pool);
    weft_pool_release(&pool);
    return status;
}
