/* SPDX-License-Identifier: Apache-2.0 */
/* Who touches which memory, and whether all who touch the same do so in some order. */
#ifndef WEFT_LOWER_ORDER_H
#define WEFT_LOWER_ORDER_H

#include "lower/lower.h"

/* Bytes [lo, hi) of a base; what lies in slots is in the arena. */
typedef struct weft_access {
    int64_t lo, hi;
    weft_base base;
    bool writes;
} weft_access;

/* What an instruction of a micro-batch touches, its workspace included; list has room for
 * weft_most_accesses of them. Returns how many. */
int weft_accesses(const weft_lowered *l, const weft_instruction *in, int64_t micro,
                  weft_access *list);
int weft_most_accesses(const weft_lowered *l);
/* Is there a byte that both touch and one writes? */
bool weft_accesses_conflict(const weft_access *a, int n_a, const weft_access *b, int n_b);
/* Proves that waits, queues and the ends of tasks put every two accesses that conflict into an
 * order: inside of programs, between a prologue and the body that runs beside it, and of what is
 * sent or received with all that runs meanwhile. The error names the first two that are in none. */
weft_status weft_check_order(const weft_lowered *l, weft_error *err);

#endif
