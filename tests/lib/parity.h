/* SPDX-License-Identifier: Apache-2.0 */
/* What a plan computes on all ranks of its mesh, and what one rank computes: in loss, every
 * gradient before clipping, the gradients' norm and every parameter after the step. Failures are
 * cmocka's. */
#ifndef WEFT_TESTS_PARITY_H
#define WEFT_TESTS_PARITY_H

#include "planned.h"
#include "sim.h"

enum { PARITY_MAX_PARAMETERS = 64 };

typedef struct parity_result {
    double loss, norm;
    int n;
    const char *name[PARITY_MAX_PARAMETERS];
    weft_tensor gradient[PARITY_MAX_PARAMETERS], now[PARITY_MAX_PARAMETERS];
    weft_pool pool;
} parity_result;

/* Runs `steps` steps of a finished plan. stuck: see sim.h. */
void parity_run(const planned *p, int steps, bool (*stuck)(const weft_node *), double replicas,
                parity_result *r);
void parity_release(parity_result *r);
/* The largest relative error, and of what. */
double parity_worst(const parity_result *a, const parity_result *one, const char **what);
/* The same model, settings and samples on one rank, in one micro-batch, without any pass; kept for
 * the next time. */
const parity_result *parity_reference(const planned_spec *spec, int steps);
/* All of it: WEFT_OK if the plan is at parity, or why it was refused, with the words in `why`.
 * Fails if it is neither. */
weft_status parity_check(const planned_spec *spec, int steps, weft_text *why);
/* The same, and a refusal is a failure. */
void parity_must(const planned_spec *spec, int steps);

#endif
