/* SPDX-License-Identifier: Apache-2.0 */
/* A hash map from bytes to a pointer, in a pool; nothing is ever removed. Zero-initialised is valid
 * and empty. */
#ifndef WEFT_GRAPH_MAP_H
#define WEFT_GRAPH_MAP_H

#include <weft/base.h>

typedef struct weft_map_slot {
    const void *key;
    size_t size;
    uint64_t hash;
    void *value;
} weft_map_slot;

typedef struct weft_map {
    weft_map_slot *slots;
    size_t n, capacity;
} weft_map;

/* NULL if the key is not there. */
void *weft_map_get(const weft_map *map, const void *key, size_t size);
/* Adds or replaces; the key's bytes are copied into the pool. False when out of memory. */
bool weft_map_set(weft_map *map, weft_pool *pool, const void *key, size_t size, void *value);

#endif
