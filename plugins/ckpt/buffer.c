/* SPDX-License-Identifier: Apache-2.0 */
#include "ckpt.h"

int64_t ckpt_buffer_room(int64_t n)
{
    return (n + 63) / 64 * 64;
}

char *ckpt_buffer_take(ckpt_buffer *b, int64_t n, int64_t *end)
{
    int64_t room = ckpt_buffer_room(n), place = b->capacity ? b->head % b->capacity : 0;
    int64_t head = place + room > b->capacity ? b->head + b->capacity - place
                                              : b->head; /* a piece does not go over the end */
    if (!b->data || room > b->capacity || head + room - b->tail > b->capacity)
        return NULL;
    b->head = *end = head + room;
    return b->data + head % b->capacity;
}
