/* SPDX-License-Identifier: Apache-2.0 */
#include "base/array.h"

#include <string.h>

/* pool NULL: weft_free. */
static void *grow(weft_pool *pool, void *list, size_t had, size_t bytes)
{
    if (!pool)
        return weft_realloc(list, bytes);
    void *fresh = weft_pool_alloc(pool, bytes);
    return fresh && had ? memcpy(fresh, list, had) : fresh;
}

void *weft_array_push(void *array, int *n, int *capacity, size_t size)
{
    return weft_pool_push(NULL, array, n, capacity, size);
}

void *weft_pool_push(weft_pool *pool, void *array, int *n, int *capacity, size_t size)
{
    char *list;
    memcpy(&list, array, sizeof list); /* of whatever type the pointer is */
    if (*n == *capacity) {
        int more = *capacity ? 2 * *capacity : 8;
        list = grow(pool, list, (size_t)*n * size, (size_t)more * size);
        if (!list)
            return NULL;
        memcpy(array, &list, sizeof list);
        *capacity = more;
    }
    return memset(list + (size_t)(*n)++ * size, 0, size);
}

weft_status weft_array_reserve(void *array, size_t *capacity, size_t n, size_t size,
                               weft_error *err)
{
    void *list;
    memcpy(&list, array, sizeof list);
    if (n <= *capacity)
        return WEFT_OK;
    void *more = weft_realloc(list, n * size);
    if (!more)
        return weft_fail_memory(err);
    memcpy(array, &more, sizeof more);
    *capacity = n;
    return WEFT_OK;
}
