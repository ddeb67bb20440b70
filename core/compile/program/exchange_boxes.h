/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of an exchange while they are collected. */
#ifndef WEFT_LOWER_EXCHANGE_BOXES_H
#define WEFT_LOWER_EXCHANGE_BOXES_H

#include "compile/program/compile.h"
#include "compile/program/exchange.h"

typedef struct weft_exchange_maker {
    weft_exchange x;
    int parts_capacity, boxes_capacity;
    bool failed; /* out of memory */
    const weft_graph *g;
    const weft_mesh *mesh;
    const int *coord;
} weft_exchange_maker;

/* A box several times, each so many bytes behind the one before. */
typedef struct weft_times {
    int n;
    int64_t to, from;
} weft_times;

void weft_exchange_add_part(weft_exchange_maker *m, weft_exchange_part part);
/* The boxes that follow come behind everything before. */
void weft_exchange_begin_boxes(weft_exchange_maker *m, const weft_step *step);
/* box: without places, and its first dim is free. */
void weft_exchange_add_boxes(weft_exchange_maker *m, weft_place to, weft_place from, weft_box box,
                             weft_times times);
/* Into memory of the program's own, without parts that do nothing. */
weft_status weft_exchange_keep(weft_compiler *c, weft_exchange_maker *m, weft_exchange **out);
void weft_exchange_release(weft_exchange_maker *m);

#endif
