/* SPDX-License-Identifier: Apache-2.0 */
/* Hash tables that are filled once and then only read: from a token's text to its id, and from a
 * pair of ids to what they merge to. */
#include "engine.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

static size_t slots_for(size_t n)
{
    size_t slots = 16;
    while (slots < 2 * n)
        slots *= 2;
    return slots;
}

bool string_map_init(string_map *map, size_t n, weft_pool *pool)
{
    size_t slots = slots_for(n);
    map->slots = weft_pool_alloc(pool, slots * sizeof *map->slots);
    map->mask = slots - 1;
    return map->slots != NULL;
}

static struct string_slot *find_slot(const string_map *map, const char *text, size_t n)
{
    for (size_t i = XXH3_64bits(text, n);; i++) {
        struct string_slot *slot = &map->slots[i & map->mask];
        if (!slot->text || (slot->n == n && !memcmp(slot->text, text, n)))
            return slot;
    }
}

int32_t string_map_add(string_map *map, const char *text, size_t n, int32_t id)
{
    struct string_slot *slot = find_slot(map, text, n);
    if (!slot->text)
        *slot = (struct string_slot){text, (uint32_t)n, id};
    return slot->id;
}

int32_t string_map_find(const string_map *map, const char *text, size_t n)
{
    const struct string_slot *slot = find_slot(map, text, n);
    return slot->text ? slot->id : -1;
}

bool merge_map_init(merge_map *map, size_t n, weft_pool *pool)
{
    size_t slots = slots_for(n);
    map->slots = weft_pool_alloc(pool, slots * sizeof *map->slots);
    map->mask = slots - 1;
    for (size_t i = 0; map->slots && i < slots; i++)
        map->slots[i].id = -1;
    return map->slots != NULL;
}

void merge_map_set(merge_map *map, int32_t left, int32_t right, uint32_t rank, int32_t id)
{
    uint64_t pair = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    size_t i = merge_map_place(pair) & map->mask;
    while (map->slots[i].id >= 0 && map->slots[i].pair != pair)
        i = (i + 1) & map->mask;
    map->slots[i] = (merge){pair, rank, id};
}
