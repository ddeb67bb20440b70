/* SPDX-License-Identifier: Apache-2.0 */
/* Parameters alone, for runs that only write text. */
#include "execute/run.h"

weft_status weft_run_take_weights(weft_run *run, weft_error *err)
{
    const weft_plan *plan = run->plan;
    void *self;
    const weft_weights *weights = weft_plugins_service(plan->plugins, "weights", &self);
    weft_state_tensor *tensors;
    weft_status s = weft_plan_state(plan, run->state, &tensors, err);
    if (s)
        return s;
    const weft_state_view view = {.rank = plan->rank,
                                  .ranks = plan->ranks,
                                  .device = plan->device,
                                  .device_self = plan->device_self,
                                  .tensors = tensors,
                                  .n_tensors = plan->states.n};
    bool loaded = false;
    if (weights)
        s = weights->load(self, &view, &loaded, err);
    if (!s && !loaded)
        s = weft_fail(err, WEFT_ERR_INPUT, weft_params_where(plan->weft, "plugins"),
                      "no listed plugin loads weights; list hf and set [hf] load");
    weft_free(tensors);
    return s;
}
