/* SPDX-License-Identifier: Apache-2.0 */
/* An outer step around the optimizer's: every so many steps a slow copy of the parameters follows
 * them, with momentum, and training goes on from it. Shows what runs only in some steps. */
#include <weft/weft.h>

typedef struct outer {
    const weft_host *host;
    int64_t every;
    double lr, momentum, clip;
} outer;

static const weft_param params[] = {
    {.name = "every",
     WEFT_INT(outer, every),
     .value = "8",
     .min = 1,
     .max = 1e9,
     .help = "Steps from one outer step to the next."},
    {.name = "lr", WEFT_REAL(outer, lr), .value = "0.7", .max = 1, .help = "How far it follows."},
    {.name = "momentum",
     WEFT_REAL(outer, momentum),
     .value = "0.5",
     .max = 1,
     .help = "What is left of the outer steps before."},
    {.name = "clip", WEFT_REAL(outer, clip), .value = "0", .max = 1e9, .help = "0: any norm."},
    {0},
};

/* x, y, z, on -> a x + b y if on is above 0, else z */
static weft_status mix_plain(const weft_call *call, weft_error *err)
{
    const weft_tensor *in = call->ins, *out = call->outs;
    const double a = weft_call_real(call, "a"), b = weft_call_real(call, "b");
    const bool on = weft_tensor_get(&in[3], 0) > 0;
    (void)err;
    for (int64_t i = 0, n = weft_tensor_count(out); i < n; i++) {
        const double x = on ? a * weft_tensor_get(&in[0], i) + b * weft_tensor_get(&in[1], i)
                            : weft_tensor_get(&in[2], i);
        weft_tensor_set(out, i, call->accumulate ? weft_tensor_get(out, i) + x : x);
    }
    return WEFT_OK;
}

static const weft_op mix_op = {
    .name = "outer_mix",
    .summary = "x, y, z, on -> a x + b y if on is above 0, else z",
    .rule = "*, *, *, -> *",
    .attrs = "a b",
    .flags = WEFT_OP_INPLACE,
    .plain = mix_plain,
};

static const weft_op *const ops[] = {&mix_op, NULL};

static weft_value *mix(weft_graph *g, weft_value *x, double a, weft_value *y, double b,
                       weft_value *z, weft_value *on)
{
    weft_value *v = weft_add(g, "outer_mix", NULL, 4, (weft_value *[]){x, y, z, on});
    weft_set_real(g, v, "a", a);
    weft_set_real(g, v, "b", b);
    return v;
}

static weft_value *state_of(weft_graph *g, weft_value *p, const char *what)
{
    char *name = weft_format("%s.%s", p->name, what);
    weft_value *v = name ? weft_add_state_like(g, name, p, p->dtype, WEFT_STATE_OPTIMIZER) : NULL;
    if (!name)
        weft_fail_memory(weft_graph_error(g));
    weft_free(name);
    return v;
}

/* v is made in outer steps alone, and a state keeps it until the next. */
static void keep(const outer *o, weft_graph *g, weft_value *state, weft_value *v)
{
    weft_set_every(g, v, o->every, NULL);
    weft_set_update(g, state, v);
}

/* way: from the slow copy to the parameter. The first outer step has no copy, and makes it. */
static void step(const outer *o, weft_graph *g, weft_value *p, weft_value *way, weft_value *factor,
                 weft_value *began, weft_value *one)
{
    weft_graph_set_block(g, p->node->block);
    weft_value *fast = way->node->ins[0], *slow = way->node->ins[1];
    weft_value *momentum = state_of(g, p, "outer"),
               *moved = weft_add2(g, "scale", NULL, way, factor);
    weft_value *next = mix(g, momentum, o->momentum, moved, 1, moved, one);
    weft_value *goes = mix(g, slow, 1, next, o->lr, fast, began);
    weft_value *taken = mix(g, fast, 0, goes, 1, goes, one);
    keep(o, g, momentum, next);
    keep(o, g, slow, goes);
    weft_set_every(g, taken, o->every, fast); /* in other steps, what the optimizer says */
    weft_set_update(g, p, taken);
}

static void joint(void *self, weft_graph *g)
{
    const outer *o = self;
    weft_value *began =
        weft_add_state(g, "outer.began", "", WEFT_F32, (weft_init){0}, WEFT_STATE_HISTORY);
    weft_value *one = weft_add(g, "constant", NULL, 0, NULL), *total = NULL, *p;
    weft_value **moved = weft_alloc_zero((size_t)weft_graph_values(g) + 1, sizeof *moved);
    weft_set_real(g, one, "value", 1);
    if (!moved)
        weft_fail_memory(weft_graph_error(g));
    for (int i = 0; moved && (p = weft_graph_parameter(g, i)) && !weft_graph_status(g); i++) {
        if (!p->becomes)
            continue;
        weft_graph_set_block(g, p->node->block);
        weft_value *slow = state_of(g, p, "slow");
        moved[p->id] = mix(g, p->becomes, 1, slow, -1, slow, began); /* 0 at first */
        weft_value *square = weft_add1(g, "sumsq", NULL, moved[p->id]);
        total = total ? weft_add2(g, "add", NULL, total, square) : square;
    }
    weft_graph_set_block(g, WEFT_BLOCK_NONE);
    weft_value *norm = weft_add1(g, "sqrt", NULL, total);
    weft_value *factor = weft_add1(g, "clip", NULL, norm);
    weft_set_real(g, factor, "max_norm", o->clip);
    for (int i = 0; moved && (p = weft_graph_parameter(g, i)) && !weft_graph_status(g); i++)
        if (moved[p->id])
            step(o, g, p, moved[p->id], factor, began, one);
    weft_free(moved);
    if (!norm || weft_graph_status(g))
        return;
    weft_graph_set_block(g, WEFT_BLOCK_NONE);
    weft_value *last =
        weft_add_state(g, "outer.norm", "", norm->dtype, (weft_init){0}, WEFT_STATE_HISTORY);
    keep(o, g, last, norm);
    keep(o, g, began, weft_add2(g, "add", NULL, began, one));
    weft_add_report(g, "outer_norm", last);
}

static const char *const optimizer[] = {"optimizer", NULL};
static const weft_contribution contributions[] = {
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_JOINT, .graph = joint, .needs = optimizer},
    {0},
};

WEFT_PLUGIN(outer) = {
    WEFT_PLUGIN_HEAD,
    .name = "outer",
    .version = "1.0",
    .licence = "Apache-2.0",
    .summary = "an outer step around the optimizer's, every so many steps",
    .numerics = WEFT_NUMERICS_CHANGES,
    .params = params,
    .self_size = WEFT_SELF(outer),
    .contributions = contributions,
    .ops = ops,
};
