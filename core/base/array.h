/* SPDX-License-Identifier: Apache-2.0 */
/* Arrays that grow. Internal to weft (core and cli). */
#ifndef WEFT_BASE_ARRAY_H
#define WEFT_BASE_ARRAY_H

#include <weft/base.h>

/* One more, zeroed, at the end of an array of *n elements of `size` bytes, with room for *capacity;
 * array: the address of the pointer to it, weft_free. NULL: out of memory, and all is as it was. */
void *weft_array_push(void *array, int *n, int *capacity, size_t size);
/* The same of an array in a pool. */
void *weft_pool_push(weft_pool *pool, void *array, int *n, int *capacity, size_t size);
/* Room for n elements; weft_free, too. */
weft_status weft_array_reserve(void *array, size_t *capacity, size_t n, size_t size,
                               weft_error *err);

#endif
