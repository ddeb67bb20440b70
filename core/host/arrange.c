/* SPDX-License-Identifier: Apache-2.0 */
/* In which order passes run: as listed, but for those that say `after`. */
#include "host/order.h"

#include <string.h>

static bool waits_for(const weft_slot *me, const weft_slot *other)
{
    char buffer[64];
    bool optional;
    if (!me->item->after || other->item->kind != WEFT_PASS || other->item->stage != me->item->stage)
        return false;
    return weft_gives(other->item, weft_plain_capability(me->item->after, buffer, &optional));
}

static bool is_free(const weft_set *s, const weft_slot *me)
{
    for (int i = 0; i < s->n_slots; i++)
        if (s->slots[i].place < 0 && waits_for(me, &s->slots[i]))
            return false;
    return true;
}

static bool is_earlier(const weft_set *s, const weft_slot *a, const weft_slot *b)
{
    return a->item->stage != b->item->stage ? a->item->stage < b->item->stage
           : a->plugin != b->plugin         ? s->at[a->plugin] < s->at[b->plugin]
                                            : a->item < b->item;
}

/* The first, as listed, of the passes that have no place yet and, unless `all`, wait for none. */
static weft_slot *next_pass(const weft_set *s, bool all)
{
    weft_slot *next = NULL;
    for (int i = 0; i < s->n_slots; i++) {
        weft_slot *me = &s->slots[i];
        if (me->item->kind == WEFT_PASS && me->place < 0 && (all || is_free(s, me)) &&
            (!next || is_earlier(s, me, next)))
            next = me;
    }
    return next;
}

bool weft_set_arrange(weft_set *s)
{
    int place = 0;
    for (int i = 0; i < s->n_slots; i++)
        s->slots[i].place = -1;
    for (weft_slot *next; (next = next_pass(s, false));)
        next->place = place++;
    bool all = !next_pass(s, true);
    for (weft_slot *next; (next = next_pass(s, true));)
        next->place = place++;
    return all;
}

/* ---- what is wrong ---- */

/* Follows what passes wait for from one that waits in vain, until one comes again. */
static void add_circle(const weft_set *s, const weft_slot *start, weft_text *text)
{
    const weft_slot *now = start;
    do {
        const weft_slot *other = NULL;
        for (int i = 0; !other && i < s->n_slots; i++)
            if (waits_for(now, &s->slots[i]) && s->slots[i].place < 0)
                other = &s->slots[i];
        weft_text_print(text, "%s waits for '%s', which ", now == start ? "" : ", and that",
                        now->item->after);
        weft_set_add_where(s, other->plugin, text);
        weft_text_add(text, " gives");
        now = other;
    } while (now != start);
}

static const weft_slot *on_a_circle(const weft_set *s)
{
    const weft_slot *now = NULL;
    for (int i = 0; !now && i < s->n_slots; i++)
        if (s->slots[i].item->kind == WEFT_PASS && s->slots[i].place < 0)
            now = &s->slots[i];
    for (int step = 0; now && step < s->n_slots; step++)
        for (int i = 0; i < s->n_slots; i++)
            if (s->slots[i].place < 0 && waits_for(now, &s->slots[i])) {
                now = &s->slots[i];
                break;
            }
    return now;
}

/* Places again only what can have one, so that those on the circle are known by having none. */
static void refuse_circle(weft_set *s)
{
    for (int i = 0; i < s->n_slots; i++)
        s->slots[i].place = -1;
    for (weft_slot *next; (next = next_pass(s, false));)
        next->place = 0;
    const weft_slot *start = on_a_circle(s);
    weft_text text = {0};
    add_circle(s, start, &text);
    if (text.out_of_memory)
        s->status = weft_fail_memory(s->err);
    else
        weft_set_fail(s, start->plugin, "a pass of plugin '%s'%s; no order works, so leave one out",
                      weft_set_name(s, start->plugin), weft_text_get(&text));
    weft_text_release(&text);
    weft_set_arrange(s);
}

static void check_after(weft_set *s, const weft_slot *me)
{
    char buffer[64];
    bool optional, late = false;
    const char *capability = weft_plain_capability(me->item->after, buffer, &optional);
    if (weft_core_capability_find(capability)) {
        weft_set_fail(s, me->plugin,
                      "a pass of plugin '%s' says after '%s', which weft gives between stages: "
                      "the stage of the pass says it",
                      weft_set_name(s, me->plugin), capability);
        return;
    }
    for (int i = 0; i < s->n_slots; i++) {
        if (!weft_gives(s->slots[i].item, capability))
            continue;
        late = weft_slot_compare(&s->slots[i], me) > 0;
        if (!late)
            return;
        weft_text text = {0};
        weft_set_add_where(s, s->slots[i].plugin, &text);
        weft_set_fail(s, me->plugin,
                      "a pass of plugin '%s' in stage %s says after '%s', which %s gives only "
                      "later, in stage %s",
                      weft_set_name(s, me->plugin), weft_stage_name(me->item->stage), capability,
                      weft_text_get(&text), weft_stage_name(s->slots[i].item->stage));
        weft_text_release(&text);
        return;
    }
    if (!optional)
        weft_set_fail_unknown(s, me->plugin, "has a pass after", capability);
}

void weft_set_check_after(weft_set *s)
{
    for (int i = 0; i < s->n_slots; i++)
        if (s->slots[i].item->kind == WEFT_PASS && s->slots[i].item->after)
            check_after(s, &s->slots[i]);
    if (!weft_set_arrange(s))
        refuse_circle(s);
}
