/* SPDX-License-Identifier: Apache-2.0 */
/* A collective instruction as it is carried out: boxes that the device moves, calls of the
 * transport, boxes again. All of it is known before the run. */
#ifndef WEFT_LOWER_EXCHANGE_H
#define WEFT_LOWER_EXCHANGE_H

#include <weft/device.h>
#include <weft/graph.h>

/* A byte of one of the instruction's tensors, or of its workspace. */
typedef struct weft_place {
    int of; /* tensor; WEFT_PLACE_* */
    int64_t at;
} weft_place;

enum { WEFT_PLACE_WORKSPACE = -1, WEFT_PLACE_ZEROS = -2 };

typedef struct weft_place_box {
    weft_place to, from;
    weft_box box; /* but for where */
} weft_place_box;

/* Boxes in any order, or one call of the transport. */
typedef struct weft_exchange_part {
    const weft_step *step; /* what it is a part of */
    bool sends;            /* else boxes */
    int first, n;
    weft_place send, recv; /* recv: of an all_reduce and a broadcast, what is sent, too */
    int64_t count;
    weft_dtype dtype;
    weft_reduce op;
} weft_exchange_part;

/* One part after the other. */
typedef struct weft_exchange {
    weft_exchange_part *parts;
    weft_place_box *boxes;
    int n_parts, n_boxes;
} weft_exchange;

#endif
