/* SPDX-License-Identifier: Apache-2.0 */
/* Shows a finished plan to reviews; what they ask of it, and see, is lib/forecast/review.c. */
#include "compile/driver/plan.h"
#include "host/enter.h"

weft_status weft_plan_review(weft_plan *p, weft_error *err)
{
    int i = 0, k = 0;
    const weft_loaded *loaded;
    const weft_contribution *c;
    weft_status s = WEFT_OK;
    for (int stage = 0; stage < WEFT_STAGES && !s && !p->again; stage++, i = k = 0)
        while (!s && weft_plugins_next(p->plugins, WEFT_REVIEW, &i, &k, &loaded, &c)) {
            if ((int)c->stage != stage)
                continue;
            p->reviewer = loaded->module.plugin->name;
            const weft_entry entry = weft_enter(p->reviewer, "review", loaded->module.where, err);
            s = weft_leave(&entry, c->review(loaded->self, p, err));
            s = s ? s : p->refused;
            if (!s && p->again && p->round + 1 == WEFT_MOST_ROUNDS)
                s = weft_fail(err, WEFT_ERR_INPUT, loaded->module.where,
                              "plugin %s still asks for something new behind %d plans; there are "
                              "no more",
                              p->reviewer, WEFT_MOST_ROUNDS);
        }
    return s;
}
