/* SPDX-License-Identifier: Apache-2.0 */
/* Capabilities and the listed order. The order is never changed: it is accepted, or refused with
 * both lines, the capability and an order that works.
 */
#include "host/order.h"

#include <stdlib.h>
#include <string.h>

void weft_set_fail(weft_set *s, int plugin, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    weft_status status =
        weft_vfail(s->err, WEFT_ERR_INPUT, weft_set_loaded(s, plugin)->module.where, format, args);
    va_end(args);
    s->status = s->status ? s->status : status;
}

void weft_set_add_where(const weft_set *s, int plugin, weft_text *text)
{
    weft_where where = weft_set_loaded(s, plugin)->module.where;
    weft_text_print(text, "'%s' (%s", weft_set_name(s, plugin),
                    where.file ? where.file : "added by weft");
    if (where.file && where.line > 0)
        weft_text_print(text, ":%d", where.line);
    weft_text_add(text, ")");
}

void weft_set_fail_unknown(weft_set *s, int plugin, const char *words, const char *capability)
{
    const char *names[256];
    int n = 0;
    for (const weft_core_capability *c = weft_core_capabilities; c->name; c++)
        names[n++] = c->name;
    for (int i = 0; i < s->n_slots; i++) {
        const weft_contribution *item = s->slots[i].item;
        if (item->kind == WEFT_SERVICE && n < 256)
            names[n++] = item->service;
        for (int j = 0; item->gives && item->gives[j] && n < 256; j++)
            names[n++] = item->gives[j];
    }
    const char *near = weft_nearest(capability, names, n);
    char *begin = weft_format("plugin '%s' %s '%s', which no listed plugin gives",
                              weft_set_name(s, plugin), words, capability);
    if (!begin)
        s->status = weft_fail_memory(s->err);
    else if (near)
        weft_set_fail(s, plugin, "%s; did it mean '%s'?", begin, near);
    else
        weft_set_fail(s, plugin,
                      "%s; add one that does to [weft] plugins (`weft inspect NAME` tells)", begin);
    weft_free(begin);
}

static void late_giver(weft_set *s, const weft_slot *needer, const weft_slot *giver,
                       const char *capability)
{
    weft_text text = {0};
    weft_text_print(&text, "plugin '%s' needs '%s', which ", weft_set_name(s, needer->plugin),
                    capability);
    weft_set_add_where(s, giver->plugin, &text);
    if (weft_slot_compare(giver, needer) > 0) {
        weft_text_print(&text, " gives only later, in stage %s; no order of these plugins works",
                        weft_stage_name(giver->item->stage));
    } else if (giver->item->after) {
        weft_text_print(&text, " gives, but behind '%s', which its pass waits for",
                        giver->item->after);
        weft_set_print_order(s, &text);
    } else {
        weft_text_add(&text, " gives, but later in the list");
        weft_set_print_order(s, &text);
    }
    if (text.out_of_memory)
        s->status = weft_fail_memory(s->err);
    else
        weft_set_fail(s, needer->plugin, "%s", weft_text_get(&text));
    weft_text_release(&text);
}

static void check_need(weft_set *s, const weft_slot *needer, const char *need)
{
    char buffer[64];
    bool optional;
    const char *capability = weft_plain_capability(need, buffer, &optional);
    const weft_slot *giver = NULL;
    for (int i = 0; i < s->n_slots; i++) {
        if (!weft_gives(s->slots[i].item, capability))
            continue;
        if (weft_set_is_before(s, &s->slots[i], needer))
            return;
        /* of several late ones, name one that another order would mend */
        if (!giver || weft_slot_compare(giver, needer) > 0)
            giver = &s->slots[i];
    }
    const weft_core_capability *core = weft_core_capability_find(capability);
    if (core) {
        if (needer->item->kind == WEFT_PASS && needer->item->stage < core->from)
            weft_set_fail(s, needer->plugin,
                          "plugin '%s' needs '%s' in stage %s, but weft gives it from stage %s on; "
                          "please report it to its author",
                          weft_set_name(s, needer->plugin), capability,
                          weft_stage_name(needer->item->stage), weft_stage_name(core->from));
        return;
    }
    if (giver)
        late_giver(s, needer, giver, capability);
    else if (!optional)
        weft_set_fail_unknown(s, needer->plugin, "needs", capability);
}

static void check_refusal(weft_set *s, const weft_slot *refuser, const char *capability)
{
    for (int i = 0; i < s->n_slots; i++) {
        const weft_slot *giver = &s->slots[i];
        if (giver->plugin == refuser->plugin || !weft_gives(giver->item, capability) ||
            !weft_set_is_before(s, giver, refuser))
            continue;
        weft_text text = {0};
        weft_text_print(&text, "plugin '%s' refuses '%s', which ",
                        weft_set_name(s, refuser->plugin), capability);
        weft_set_add_where(s, giver->plugin, &text);
        if (weft_slot_compare(giver, refuser) < 0) {
            weft_text_add(&text, " gives; no order of these plugins works, so leave one out");
        } else {
            weft_text_add(&text, " gives earlier in the list");
            weft_set_print_order(s, &text);
        }
        if (text.out_of_memory)
            s->status = weft_fail_memory(s->err);
        else
            weft_set_fail(s, refuser->plugin, "%s", weft_text_get(&text));
        weft_text_release(&text);
        return;
    }
}

/* One capability, one giver: two devices, two models, two owners of one axis cannot both be meant.
 */
static void check_given_once(weft_set *s, int index, const char *capability)
{
    const weft_slot *me = &s->slots[index];
    if (weft_core_capability_find(capability)) {
        weft_set_fail(
            s, me->plugin,
            "plugin '%s' gives '%s', which is weft's own to give; please report it to its author",
            weft_set_name(s, me->plugin), capability);
        return;
    }
    for (int i = 0; i < index; i++) {
        if (s->slots[i].plugin == me->plugin || !weft_gives(s->slots[i].item, capability))
            continue;
        weft_text text = {0};
        weft_set_add_where(s, s->slots[i].plugin, &text);
        weft_set_fail(s, me->plugin,
                      "plugin '%s' gives '%s', and so does %s; list only one of them",
                      weft_set_name(s, me->plugin), capability, weft_text_get(&text));
        weft_text_release(&text);
        return;
    }
}

static void check_slot(weft_set *s, int index)
{
    const weft_slot *me = &s->slots[index];
    const weft_contribution *item = me->item;
    if (item->kind == WEFT_SERVICE)
        check_given_once(s, index, item->service);
    for (int i = 0; item->gives && item->gives[i]; i++)
        if (item->kind != WEFT_SERVICE || strcmp(item->gives[i], item->service) != 0)
            check_given_once(s, index, item->gives[i]);
    for (int i = 0; weft_need(item, i); i++)
        check_need(s, me, weft_need(item, i));
    for (int i = 0; item->refuses && item->refuses[i]; i++)
        check_refusal(s, me, item->refuses[i]);
}

/* ---- ops: one name, one meaning ---- */

static void check_ops(weft_set *s, int plugin)
{
    const weft_op *const *mine = weft_set_loaded(s, plugin)->module.plugin->ops;
    for (int i = 0; mine && mine[i]; i++)
        for (int other = 0; other < plugin; other++) {
            const weft_op *const *theirs = weft_set_loaded(s, other)->module.plugin->ops;
            for (int j = 0; theirs && theirs[j]; j++)
                if (strcmp(mine[i]->name, theirs[j]->name) == 0)
                    weft_set_fail(
                        s, plugin,
                        "plugin '%s' brings an op '%s', and so does '%s'; list only one of them",
                        weft_set_name(s, plugin), mine[i]->name, weft_set_name(s, other));
        }
}

static int count_slots(const weft_plugins *plugins)
{
    int n = 0;
    for (int i = 0; i < plugins->n; i++)
        for (const weft_contribution *k = plugins->list[i].module.plugin->contributions;
             k && k->kind != WEFT_END; k++)
            n++;
    return n;
}

static int compare_places(const void *a, const void *b)
{
    const weft_slot *x = a, *y = b;
    return x->place - y->place;
}

static weft_status list_passes(const weft_set *s, weft_plugins *plugins)
{
    plugins->passes = weft_alloc_zero((size_t)s->n_slots + 1, sizeof *plugins->passes);
    if (!plugins->passes)
        return weft_fail_memory(s->err);
    for (int i = 0; i < s->n_slots; i++)
        if (s->slots[i].item->kind == WEFT_PASS)
            plugins->passes[plugins->n_passes++] = s->slots[i];
    qsort(plugins->passes, (size_t)plugins->n_passes, sizeof *plugins->passes, compare_places);
    return WEFT_OK;
}

weft_status weft_order_check(weft_plugins *plugins, weft_error *err)
{
    weft_set s = {.plugins = plugins, .n = plugins->n, .err = err};
    size_t n = (size_t)plugins->n;
    s.slots = weft_alloc_zero((size_t)count_slots(plugins) + 1, sizeof *s.slots);
    s.at = weft_alloc_zero(n + 1, sizeof *s.at);
    s.edge = weft_alloc_zero(n * n + 1, sizeof *s.edge);
    if (!s.slots || !s.at || !s.edge) {
        s.status = weft_fail_memory(err);
        goto done;
    }
    for (int i = 0; i < s.n; i++) {
        s.at[i] = i;
        for (const weft_contribution *k = plugins->list[i].module.plugin->contributions;
             k && k->kind != WEFT_END; k++)
            s.slots[s.n_slots++] = (weft_slot){.plugin = i, .item = k};
    }
    weft_set_check_after(&s);
    weft_set_add_edges(&s);
    for (int i = 0; i < s.n_slots; i++)
        check_slot(&s, i);
    for (int i = 0; i < s.n; i++)
        check_ops(&s, i);
    if (!s.status)
        s.status = list_passes(&s, plugins);
done:
    weft_free(s.slots);
    weft_free(s.at);
    weft_free(s.edge);
    return s.status;
}
