/* SPDX-License-Identifier: Apache-2.0 */
/* An exponential moving average of the parameters, kept as state beside them: in checkpoints, on
 * any mesh. It shows state like a parameter and state of one number. */
#include <weft/weft.h>

typedef struct ema {
    const weft_host *host;
    double decay;
    bool validate;
} ema;

static const weft_param params[] = {
    {.name = "decay",
     WEFT_REAL(ema, decay),
     .value = "0.999",
     .min = 0,
     .max = 1,
     .help = "What a step leaves of the average; the rest is the new parameter."},
    {.name = "validate",
     WEFT_BOOL(ema, validate),
     .value = "no",
     .help = "Validation is with the averages."},
    {.name = NULL},
};

/* Writes element i of result 0, or adds to it. */
static void put(const weft_call *call, int64_t i, double x)
{
    const weft_tensor *out = &call->outs[0];
    weft_tensor_set(out, i, call->accumulate ? weft_tensor_get(out, i) + x : x);
}

/* average, parameter, updates so far -> average; the first is the parameter itself */
static weft_status average_plain(const weft_call *call, weft_error *err)
{
    const weft_tensor *in = call->ins;
    int64_t n = weft_tensor_count(&in[0]);
    double keep = weft_tensor_get(&in[2], 0) > 0 ? weft_call_real(call, "decay") : 0;
    (void)err;
    for (int64_t i = 0; i < n; i++)
        put(call, i, keep * weft_tensor_get(&in[0], i) + (1 - keep) * weft_tensor_get(&in[1], i));
    return WEFT_OK;
}

static const weft_op average_op = {
    .name = "ema",
    .summary = "average, parameter, updates so far -> the next average",
    .rule = "*, *, -> *",
    .attrs = "decay",
    .flags = WEFT_OP_INPLACE,
    .plain = average_plain,
};

static const weft_op *const ops[] = {&average_op, NULL};

static weft_value *average_of(weft_graph *g, weft_value *p)
{
    char *name = weft_format("%s.ema", p->name);
    weft_value *v = name ? weft_add_state_like(g, name, p, p->dtype, WEFT_STATE_AVERAGE) : NULL;
    if (!name)
        weft_fail_memory(weft_graph_error(g));
    weft_free(name);
    return v;
}

/* Whoever reads a parameter reads its average. */
static void validate(void *self, weft_graph *g)
{
    weft_value *p;
    for (int i = 0; ((const ema *)self)->validate && (p = weft_graph_parameter(g, i)); i++)
        if (!p->frozen) {
            weft_graph_at(g, p->node->next);
            weft_replace(g, p, average_of(g, p));
        }
}

static void keep_average(const ema *m, weft_graph *g, weft_value *p, weft_value *updates)
{
    if (!p->becomes) {
        weft_graph_fail(g, WEFT_ERR_INPUT, WEFT_NOWHERE,
                        "ema: nobody listed before it updates %s; list ema behind the optimizers",
                        p->name);
        return;
    }
    weft_graph_set_block(g, p->node->block);
    weft_value *average = average_of(g, p);
    weft_value *next = weft_add3(g, "ema", NULL, average, p->becomes, updates);
    weft_set_real(g, next, "decay", m->decay);
    weft_set_update(g, average, next);
}

/* Of what is trained; the others do not change. */
static void joint(void *self, weft_graph *g)
{
    const weft_init zero = {WEFT_INIT_ZERO, 0, 0};
    weft_value *updates = weft_add_state(g, "ema.updates", "", WEFT_F32, zero, WEFT_STATE_HISTORY);
    weft_value *one = weft_add(g, "constant", NULL, 0, NULL), *p;
    weft_set_real(g, one, "value", 1);
    for (int i = 0; (p = weft_graph_parameter(g, i)) && !weft_graph_status(g); i++)
        if (p->gradient)
            keep_average(self, g, p, updates);
    weft_graph_set_block(g, WEFT_BLOCK_NONE);
    weft_set_update(g, updates, weft_add2(g, "add", NULL, updates, one));
}

static const char *const optimizer[] = {"optimizer?", NULL};
static const weft_contribution contributions[] = {
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_GRAPH, .graph = validate, .modes = WEFT_IN_EVALUATE},
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_JOINT, .graph = joint, .needs = optimizer},
    {.kind = WEFT_END},
};

WEFT_PLUGIN(ema) = {
    WEFT_PLUGIN_HEAD,
    .name = "ema",
    .version = "1.0",
    .licence = "Apache-2.0",
    .summary = "keeps an exponential moving average of the parameters",
    .numerics = WEFT_NUMERICS_BITWISE,
    .params = params,
    .self_size = WEFT_SELF(ema),
    .contributions = contributions,
    .ops = ops,
};
