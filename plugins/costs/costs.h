/* SPDX-License-Identifier: Apache-2.0 */
/* What another framework takes where it would run weft's program; for its own tests, too. */
#ifndef WEFT_PLUGINS_COSTS_H
#define WEFT_PLUGINS_COSTS_H

#include <weft/weft.h>

typedef struct costs {
    const weft_host *host;
    weft_profile *machine;                     /* NULL: what the device says */
    double enqueue, beside, step, micro_batch; /* below 0: the device's */
    double enqueue_updates, products, products8, attention, elementwise, norms, loss, updates,
        gradients, calls;
    double scores, score_products;
} costs;

extern const weft_param costs_params[];
extern const weft_cost_model costs_model;

#endif
