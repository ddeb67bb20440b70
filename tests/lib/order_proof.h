/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORDER_PROOF_H
#define ORDER_PROOF_H

#include "compile/program/lower.h"

/* Proves that waits and queues put every two accesses that conflict into an order: inside of
 * programs, from one task to the next (all before that is done), between a prologue and what runs
 * beside it, and of what is sent or received with all that runs meanwhile. The error names the
 * first two that are in none. */
weft_status check_order(const weft_lowered *l, weft_error *err);

#endif
