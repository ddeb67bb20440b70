/* SPDX-License-Identifier: Apache-2.0 */
/* softcap: logits become cap * tanh(logits / cap), as in Gemma 2, where the model learns, where it
 * is validated and where it writes. It shows how a pass changes logits. */
#include <weft/weft.h>

#include <math.h>

/* ---- the op ---- */

static void put(const weft_call *call, int64_t i, double y)
{
    const weft_tensor *out = &call->outs[0];
    weft_tensor_set(out, i, call->accumulate ? weft_tensor_get(out, i) + y : y);
}

static weft_status cap(const weft_call *call, weft_error *err)
{
    double most = weft_call_real(call, "cap");
    (void)err;
    for (int64_t i = 0; i < weft_tensor_count(&call->outs[0]); i++)
        put(call, i, most * tanh(weft_tensor_get(&call->ins[0], i) / most));
    return WEFT_OK;
}

/* y, dy -> dx */
static weft_status cap_dx(const weft_call *call, weft_error *err)
{
    double most = weft_call_real(call, "cap");
    (void)err;
    for (int64_t i = 0; i < weft_tensor_count(&call->outs[0]); i++) {
        double t = weft_tensor_get(&call->ins[0], i) / most;
        put(call, i, (1 - t * t) * weft_tensor_get(&call->ins[1], i));
    }
    return WEFT_OK;
}

static const char *const grad[] = {"0: softcap_dx r0 dy", NULL};
static const weft_op softcap_op = {
    .name = "softcap",
    .summary = "cap * tanh(x / cap)",
    .rule = "* -> *",
    .grad = grad,
    .attrs = "cap",
    .flags = WEFT_OP_HALF,
    .plain = cap,
};
static const weft_op softcap_dx_op = {
    .name = "softcap_dx",
    .summary = "gradient of softcap",
    .rule = "*, * -> *",
    .linear = "1",
    .attrs = "cap",
    .flags = WEFT_OP_HALF,
    .plain = cap_dx,
};

/* ---- the pass ---- */

typedef struct softcap {
    const weft_host *host;
    double cap;
} softcap;

static const weft_param params[] = {
    {.name = "cap",
     WEFT_REAL(softcap, cap),
     .value = "30",
     .min = 1e-6,
     .max = 1e6,
     .help = "No logit is larger, and none smaller than its negative."},
    {.name = NULL},
};

/* No question of what the graph is for: in every mode its logits are there to be asked for. */
static void cap_logits(void *self, weft_graph *g)
{
    weft_value *logits;
    int i = 0;
    for (; (logits = weft_graph_logits(g, i)) && !weft_graph_status(g); i++) {
        weft_graph_at(g, logits->node->next);
        weft_value *y = weft_add1(g, "softcap", NULL, logits);
        weft_set_real(g, y, "cap", ((const softcap *)self)->cap);
        weft_graph_at(g, NULL);
        weft_set_logits(g, logits, y);
    }
    if (i == 0)
        weft_graph_fail(g, WEFT_ERR_INPUT, WEFT_NOWHERE,
                        "softcap: the model has no logits; take softcap off the list");
}

static const char *const needs[] = {"model", NULL};
static const weft_contribution contributions[] = {
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_GRAPH, .graph = cap_logits, .needs = needs},
    {.kind = WEFT_END},
};
static const weft_op *const ops[] = {&softcap_op, &softcap_dx_op, NULL};

WEFT_PLUGIN(softcap) = {
    WEFT_PLUGIN_HEAD,
    .name = "softcap",
    .version = "1.0",
    .licence = "Apache-2.0",
    .summary = "logits kept below a cap by a tanh",
    .numerics = WEFT_NUMERICS_CHANGES,
    .params = params,
    .self_size = WEFT_SELF(softcap),
    .contributions = contributions,
    .ops = ops,
};
