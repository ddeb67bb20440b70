/* SPDX-License-Identifier: Apache-2.0 */
/* What a run would refuse that a plan can see, though it opens nothing: what the transport and
 * kernels say of the device. */
#include "forecast/forecast.h"
#include "host/enter.h"

#include <string.h>

/* Is the device listed before the transport? Whatever stands around either of them. */
static bool device_is_first(const weft_plugins *plugins)
{
    int plugin = 0, item = 0;
    const weft_loaded *loaded;
    const weft_contribution *c;
    while (weft_plugins_next(plugins, WEFT_SERVICE, &plugin, &item, &loaded, &c))
        if (strcmp(c->service, "device") == 0 || strcmp(c->service, "transport") == 0)
            return strcmp(c->service, "device") == 0;
    return false;
}

static weft_status check_transport(const weft_plan *plan, weft_error *err)
{
    void *self;
    const weft_plugins *plugins = plan->plugins;
    const weft_transport *t = weft_plugins_service(plugins, "transport", &self);
    if (!t || !t->takes)
        return WEFT_OK;
    return t->takes(self, device_is_first(plugins) ? plan->device : NULL, err);
}

static weft_status check_instruction(const weft_plan *plan, const weft_instruction *in,
                                     weft_error *err)
{
    if (in->kind != WEFT_COMPUTE || !in->kernel || !in->kernel->check)
        return WEFT_OK;
    const weft_call call = weft_instruction_call(in, &plan->kernels);
    const weft_entry entry = weft_enter_op(in->owner, "check", in->kernel->op, err);
    return weft_leave(&entry, in->kernel->check(&call, err));
}

weft_status weft_plan_check(const weft_plan *plan, weft_error *err)
{
    weft_status s = check_transport(plan, err);
    s = s ? s : weft_plan_reach_far(plan, err);
    for (int m = 0; m < WEFT_MODES; m++) {
        const weft_lowered *l = plan->lowered[m];
        for (int a = 0; l && a < l->n_programs; a++)
            for (int i = 0; i < l->programs[a].n && !s; i++)
                s = check_instruction(plan, &l->programs[a].list[i], err);
    }
    return s;
}
