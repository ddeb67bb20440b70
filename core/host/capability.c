/* SPDX-License-Identifier: Apache-2.0 */
/* Who gives which capability, and when. */
#include "host/order.h"

#include <string.h>

enum { TIME_OPEN = -1, TIME_RUN = WEFT_STAGES };

const weft_core_capability weft_core_capabilities[] = {
    {"mesh", WEFT_STAGE_GRAPH},  {"graph", WEFT_STAGE_GRAPH},     {"placed", WEFT_STAGE_PLACED},
    {"joint", WEFT_STAGE_JOINT}, {"ordered", WEFT_STAGE_ORDERED}, {NULL, WEFT_STAGE_MESH}};

const weft_loaded *weft_set_loaded(const weft_set *s, int plugin)
{
    return &s->plugins->list[plugin];
}

const char *weft_set_name(const weft_set *s, int plugin)
{
    return weft_set_loaded(s, plugin)->module.plugin->name;
}

bool weft_gives(const weft_contribution *item, const char *capability)
{
    if (item->kind == WEFT_SERVICE && strcmp(item->service, capability) == 0)
        return true;
    for (int i = 0; item->gives && item->gives[i]; i++)
        if (strcmp(item->gives[i], capability) == 0)
            return true;
    return false;
}

const char *weft_need(const weft_contribution *item, int i)
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
    return opens(item) ? TIME_OPEN : item->kind == WEFT_PASS ? (int)item->stage : TIME_RUN;
}

static int need_time(const weft_contribution *needer, const weft_contribution *giver)
{
    if (opens(needer))
        return opens(giver) ? TIME_OPEN : TIME_RUN;
    return needer->kind == WEFT_PASS ? (int)needer->stage : TIME_RUN;
}

int weft_slot_compare(const weft_slot *giver, const weft_slot *needer)
{
    int given = give_time(giver->item), needed = need_time(needer->item, giver->item);
    if (given != needed)
        return given < needed ? -1 : 1;
    if (given == TIME_RUN || (given == TIME_OPEN && giver->plugin == needer->plugin))
        return -1;
    return 0;
}

bool weft_set_is_before(const weft_set *s, const weft_slot *giver, const weft_slot *needer)
{
    int order = weft_slot_compare(giver, needer);
    if (order)
        return order < 0;
    return giver->item->kind == WEFT_PASS ? giver->place < needer->place
                                          : s->at[giver->plugin] < s->at[needer->plugin];
}

const weft_core_capability *weft_core_capability_find(const char *name)
{
    for (const weft_core_capability *c = weft_core_capabilities; c->name; c++)
        if (strcmp(c->name, name) == 0)
            return c;
    return NULL;
}

const char *weft_plain_capability(const char *need, char buffer[64], bool *optional)
{
    size_t n = strlen(need);
    *optional = n > 0 && need[n - 1] == '?';
    if (!*optional)
        return need;
    n = n - 1 < 63 ? n - 1 : 63;
    memcpy(buffer, need, n);
    buffer[n] = '\0';
    return buffer;
}
