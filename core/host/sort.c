/* SPDX-License-Identifier: Apache-2.0 */
/* An order that works, for the message that refuses one: a stable topological sort, so that it is
 * near the listed order. */
#include "host/order.h"

#include <string.h>

/* Whether every need of a listed capability and every refusal is obeyed in the order s->at. */
static bool need_is_met(const weft_set *s, const weft_slot *needer, const char *capability)
{
    bool given = false;
    for (int i = 0; i < s->n_slots; i++) {
        if (!weft_gives(s->slots[i].item, capability))
            continue;
        if (weft_set_is_before(s, &s->slots[i], needer))
            return true;
        given = true;
    }
    return !given;
}

static bool refusal_is_met(const weft_set *s, const weft_slot *refuser, const char *capability)
{
    for (int i = 0; i < s->n_slots; i++)
        if (s->slots[i].plugin != refuser->plugin && weft_gives(s->slots[i].item, capability) &&
            weft_set_is_before(s, &s->slots[i], refuser))
            return false;
    return true;
}

static bool order_works(weft_set *s)
{
    char buffer[64];
    bool optional;
    weft_set_arrange(s);
    for (int i = 0; i < s->n_slots; i++) {
        const weft_contribution *item = s->slots[i].item;
        for (int j = 0; weft_need(item, j); j++)
            if (!need_is_met(s, &s->slots[i],
                             weft_plain_capability(weft_need(item, j), buffer, &optional)))
                return false;
        for (int j = 0; item->refuses && item->refuses[j]; j++)
            if (!refusal_is_met(s, &s->slots[i], item->refuses[j]))
                return false;
    }
    return true;
}

/* Before `needer` stands whatever decides where `giver` runs: its plugin, and what it waits for. */
static void add_edges_from(weft_set *s, const weft_slot *giver, int needer, int depth)
{
    char buffer[64];
    bool optional;
    if (giver->plugin != needer)
        s->edge[giver->plugin * s->n + needer] = true;
    if (!giver->item->after || depth > s->n_slots)
        return;
    const char *capability = weft_plain_capability(giver->item->after, buffer, &optional);
    for (int i = 0; i < s->n_slots; i++)
        if (weft_gives(s->slots[i].item, capability) && weft_slot_compare(&s->slots[i], giver) == 0)
            add_edges_from(s, &s->slots[i], needer, depth + 1);
}

static void add_need_edges(weft_set *s, const weft_slot *needer, const char *capability)
{
    const weft_slot *giver = NULL;
    for (int i = 0; i < s->n_slots; i++) {
        if (!weft_gives(s->slots[i].item, capability))
            continue;
        int order = weft_slot_compare(&s->slots[i], needer);
        bool waits = needer->item->after || s->slots[i].item->after;
        if (order < 0 || (order == 0 && (waits || s->slots[i].plugin == needer->plugin) &&
                          weft_set_is_before(s, &s->slots[i], needer)))
            return; /* it is there in any order, or as far as passes wait */
        if (order == 0 && !giver)
            giver = &s->slots[i];
    }
    if (giver)
        add_edges_from(s, giver, needer->plugin, 0);
}

void weft_set_add_edges(weft_set *s)
{
    char buffer[64];
    bool optional;
    for (int i = 0; i < s->n_slots; i++) {
        const weft_slot *me = &s->slots[i];
        for (int j = 0; weft_need(me->item, j); j++)
            add_need_edges(s, me, weft_plain_capability(weft_need(me->item, j), buffer, &optional));
        for (int j = 0; me->item->refuses && me->item->refuses[j]; j++)
            for (int k = 0; k < s->n_slots; k++)
                if (s->slots[k].plugin != me->plugin &&
                    weft_gives(s->slots[k].item, me->item->refuses[j]) &&
                    weft_slot_compare(&s->slots[k], me) == 0)
                    s->edge[me->plugin * s->n + s->slots[k].plugin] = true;
    }
}

/* The first listed plugin not yet placed that waits for none of those not yet placed; -1: a cycle.
 */
static int next_free(const weft_set *s)
{
    for (int b = 0; b < s->n; b++) {
        bool free_now = s->at[b] < 0;
        for (int a = 0; a < s->n && free_now; a++)
            free_now = s->at[a] >= 0 || !s->edge[a * s->n + b];
        if (free_now)
            return b;
    }
    return -1;
}

/* Follows edges backwards among plugins not placed, until one comes again, and prints the chain
 * from there. */
static void print_cycle(const weft_set *s, weft_text *text)
{
    int start = 0;
    while (s->at[start] >= 0)
        start++;
    /* n steps back surely lie on a cycle */
    for (int step = 0; step < s->n; step++)
        for (int a = 0; a < s->n; a++)
            if (s->at[a] < 0 && s->edge[a * s->n + start]) {
                start = a;
                break;
            }
    weft_text_print(text, "; no order works, for '%s' must come after", weft_set_name(s, start));
    int now = start;
    do {
        int before = 0;
        while (s->at[before] >= 0 || !s->edge[before * s->n + now])
            before++;
        now = before;
        weft_text_print(text, now == start ? " '%s'" : " '%s', that after", weft_set_name(s, now));
    } while (now != start);
}

void weft_set_print_order(weft_set *s, weft_text *text)
{
    for (int i = 0; i < s->n; i++)
        s->at[i] = -1;
    int placed = 0;
    weft_text line = {0};
    for (; placed < s->n; placed++) {
        int next = next_free(s);
        if (next < 0)
            break;
        s->at[next] = placed;
        weft_text_print(&line, " %s%s", weft_set_loaded(s, next)->optional ? "?" : "",
                        weft_set_name(s, next));
    }
    if (placed < s->n)
        print_cycle(s, text);
    else if (order_works(s))
        weft_text_print(text, "; this order works: plugins =%s", weft_text_get(&line));
    else
        weft_text_add(text, "; no order of these plugins works, so leave one out");
    text->out_of_memory = text->out_of_memory || line.out_of_memory;
    weft_text_release(&line);
    for (int i = 0; i < s->n; i++)
        s->at[i] = i;
    weft_set_arrange(s);
}
