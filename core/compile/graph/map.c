/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/graph/map.h"

#include <string.h>
#include <weft/random.h>

static weft_map_slot *find(weft_map_slot *slots, size_t capacity, const void *key, size_t size,
                           uint64_t hash)
{
    for (size_t i = hash & (capacity - 1);; i = (i + 1) & (capacity - 1)) {
        weft_map_slot *s = &slots[i];
        if (!s->key || (s->hash == hash && s->size == size && memcmp(s->key, key, size) == 0))
            return s;
    }
}

void *weft_map_get(const weft_map *map, const void *key, size_t size)
{
    if (!map->n)
        return NULL;
    return find(map->slots, map->capacity, key, size, weft_hash_bytes(0, key, size))->value;
}

static bool grow(weft_map *map, weft_pool *pool)
{
    size_t capacity = map->capacity ? 2 * map->capacity : 64;
    weft_map_slot *slots = weft_pool_alloc(pool, capacity * sizeof *slots);
    if (!slots)
        return false;
    for (size_t i = 0; i < map->capacity; i++)
        if (map->slots[i].key)
            *find(slots, capacity, map->slots[i].key, map->slots[i].size, map->slots[i].hash) =
                map->slots[i];
    map->slots = slots; /* the old array goes with the pool */
    map->capacity = capacity;
    return true;
}

bool weft_map_set(weft_map *map, weft_pool *pool, const void *key, size_t size, void *value)
{
    if (2 * (map->n + 1) > map->capacity && !grow(map, pool))
        return false;
    uint64_t hash = weft_hash_bytes(0, key, size);
    weft_map_slot *s = find(map->slots, map->capacity, key, size, hash);
    if (!s->key) {
        char *copy = weft_pool_alloc(pool, size ? size : 1);
        if (!copy)
            return false;
        memcpy(copy, key, size);
        *s = (weft_map_slot){copy, size, hash, NULL};
        map->n++;
    }
    s->value = value;
    return true;
}
