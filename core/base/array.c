/* SPDX-License-Identifier: Apache-2.0 */
#include "base/array.h"

#include <string.h>
#include <weft/base.h>

void *weft_array_push(void *array, int *n, int *capacity, size_t size)
{
    char *list;
    memcpy(&list, array, sizeof list); /* of whatever type the pointer is */
    if (*n == *capacity) {
        int more = *capacity ? 2 * *capacity : 8;
        list = weft_realloc(list, (size_t)more * size);
        if (!list)
            return NULL;
        memcpy(array, &list, sizeof list);
        *capacity = more;
    }
    return memset(list + (size_t)(*n)++ * size, 0, size);
}
