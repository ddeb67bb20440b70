/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of offload share. */
#ifndef OFFLOAD_H
#define OFFLOAD_H

#include <weft/review.h>
#include <weft/weft.h>

enum { ACTIVATIONS_NO, ACTIVATIONS_BOUNDARY, ACTIVATIONS_ALL, ACTIVATIONS_AUTO };

typedef struct offload_search offload_search;

typedef struct offload {
    const weft_host *host;
    int state;
    bool gradients, copies;
    int activations;
    int64_t prefetch, least;
    const char *memory;
    double limit;           /* bytes; 0: none */
    int64_t over;           /* what was planned beyond it with less offloaded; 0: nothing was */
    offload_search *search; /* with activations = auto */
} offload;

bool offload_crosses_blocks(const weft_value *v);

/* ---- auto.c: which activations lie far, by what the plans of several choices take ---- */

/* (review, before those of other plugins) Begins, where nobody has asked for anything. */
weft_status offload_search_begin(offload *self, weft_plan *plan, weft_error *err);
/* (review) What is to be looked at next. *done: this plan is the choice; or nothing fits, and it is
 * the one with the least that was found. */
weft_status offload_search_step(offload *self, weft_plan *plan, bool *done, weft_error *err);
void offload_search_destroy(offload_search *search);

/* Of the round that is planned: an ACTIVATIONS_*, and of ALL perhaps some. */
int offload_search_way(const offload *self);
/* Leaves of the activations among `list` those that are to lie far; returns how many are left. */
int offload_search_pick(offload *self, weft_graph *g, weft_value **list, int n);

/* What the rank that needs most holds by the smallest plan that it has looked at, in bytes. */
int64_t offload_search_least(const offload_search *search);

#endif
