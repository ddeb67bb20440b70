/* SPDX-License-Identifier: Apache-2.0 */
/* Validation: the sum of all losses over the number of all tokens, or what is counted; never a mean
 * of means. */
#include "execute/run.h"

#include <math.h>
#include <string.h>

static weft_status one_batch(weft_run *run, const weft_batch *b, double *loss, double *tokens,
                             weft_error *err)
{
    const weft_lowered *l = run->plan->lowered[WEFT_MODE_EVALUATE];
    const weft_value *const sums[] = {l->graph->loss_sum, l->graph->tokens};
    double more[2] = {0, 0};
    weft_status s = weft_run_feed(run, b, err);
    s = s ? s : weft_run_parts(run, WEFT_MODE_EVALUATE, WEFT_PART_F, WEFT_PART_STEP_END, NULL, err);
    s = s ? s : weft_run_scalars(run, l, sums, 2, more, err);
    *loss += more[0];
    *tokens += more[1];
    return s;
}

weft_status weft_run_evaluate(weft_run *run, weft_error *err)
{
    const weft_plan *plan = run->plan;
    int64_t samples = run->data->samples(run->data_self, WEFT_SPLIT_VALIDATION);
    int64_t batches = (samples + plan->micro_batch - 1) / plan->micro_batch;
    if (!weft_params_is(plan->train, "eval_batches", "all") &&
        weft_params_int(plan->train, "eval_batches") < batches)
        batches = weft_params_int(plan->train, "eval_batches");
    if (batches == 0)
        return WEFT_OK;
    weft_batch *b = NULL;
    double loss = 0, tokens = 0;
    weft_status s = weft_batch_create(run, WEFT_MODE_EVALUATE, 1, &b, err);
    if (!s) {
        weft_fill_step(b, run->step);
        s = weft_run_feed(run, b, err);
    }
    s = s ? s
          : weft_run_parts(run, WEFT_MODE_EVALUATE, WEFT_PART_BEGIN, WEFT_PART_BEGIN, NULL, err);
    s = s ? s : weft_run_wait(run, err); /* the inputs are filled anew */
    for (int64_t i = 0; i < batches && !s; i++) {
        weft_fill_micro_batch(b, 0, i);
        const weft_samples of = {WEFT_SPLIT_VALIDATION, i * plan->micro_batch, plan->micro_batch,
                                 samples};
        s = weft_fill_samples(run, b, &of, err);
        s = s ? s : one_batch(run, b, &loss, &tokens, err);
    }
    weft_batch_destroy(b);
    if (s)
        return s;
    const int64_t seen =
        samples < batches * plan->micro_batch ? samples : batches * plan->micro_batch;
    run->view.eval_tokens = plan->graphs[WEFT_MODE_EVALUATE]->counted ? seen : (int64_t)tokens;
    run->view.eval_loss = tokens > 0 ? loss / tokens : NAN; /* a mean of nothing */
    return weft_observe(run, WEFT_EVENT_EVALUATE, err);
}
