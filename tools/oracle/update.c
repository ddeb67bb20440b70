/* SPDX-License-Identifier: Apache-2.0 */
/* How far rounding may take an update whose own nodes compute in fewer bits than the parameter has:
 * an optimizer may look at gradients in bf16, or keep its state so, whatever the model does. */
#include "oracle.h"

#include <math.h>

/* By how much rounding to it may change an element at most, relative to that. */
static double unit_of(weft_dtype dtype)
{
    static const int bits[WEFT_DTYPES] = {[WEFT_F32] = 24,   [WEFT_F64] = 53,   [WEFT_BF16] = 8,
                                          [WEFT_F8E4M3] = 4, [WEFT_F8E5M2] = 3, [WEFT_F8E8M0] = 1};
    return bits[dtype] ? ldexp(1, -bits[dtype]) : 0;
}

/* What a node of the update rounds to, if that has fewer bits than the model's own numbers. */
static double rounding_of(const weft_graph *g, const weft_node *n)
{
    double most = 0;
    if (n->phase != WEFT_UPDATE || n->steps || n->op->flags & WEFT_OP_SOURCE)
        return 0;
    for (int i = 0; i < n->n_outs; i++)
        if (unit_of(n->outs[i]->dtype) > unit_of(g->config.dtype))
            most = fmax(most, unit_of(n->outs[i]->dtype));
    return most;
}

weft_status oracle_find_rounding_of_updates(const weft_graph *g, oracle_tensor *tensors,
                                            weft_error *err)
{
    int most = 0;
    for (const weft_node *n = g->first; n; n = n->next)
        for (int i = 0; i < n->n_outs; i++)
            most = n->outs[i]->id > most ? n->outs[i]->id : most;
    double *squares = weft_alloc_zero((size_t)most + 1, sizeof *squares);
    if (!squares)
        return weft_fail_memory(err);
    for (const weft_node *n = g->first; n; n = n->next) {
        double own = rounding_of(g, n), before = 0;
        for (int i = 0; i < n->n_ins && n->phase == WEFT_UPDATE; i++)
            before = fmax(before, squares[n->ins[i]->id]);
        for (int i = 0; i < n->n_outs; i++)
            squares[n->outs[i]->id] = before + own * own;
    }
    for (int i = 0; i < g->n_parameters; i++) {
        const weft_value *becomes = g->parameters[i]->becomes;
        tensors[i].rounding = becomes ? sqrt(squares[becomes->id]) : 0;
    }
    weft_free(squares);
    return WEFT_OK;
}

double oracle_update_rounding(const oracle_record *b, const oracle_tensor *x)
{
    const oracle_tensor *y = oracle_find(b, 0, x->name);
    return fmax(x->rounding, y->rounding);
}

bool oracle_updates_differ(const oracle_record *a, const oracle_record *b)
{
    for (int i = 0; i < a->n_tensors; i++) {
        const oracle_tensor *x = &a->steps[0].tensors[i];
        if (x->rounding != oracle_find(b, 0, x->name)->rounding)
            return true;
    }
    return false;
}

/* What an update is of its parameter. */
static double share_of(const oracle_record *a, int tensor, int64_t s)
{
    const oracle_tensor *x = &a->steps[s].tensors[tensor];
    const double *before = s ? a->steps[s - 1].tensors[tensor].parameter : x->before;
    return before ? oracle_relative(x->parameter, before, x->count, 0, NULL, NULL) : 0;
}

double oracle_drift(const oracle_record *a, const oracle_record *b, int64_t step)
{
    double most = 0;
    for (int i = 0; i < a->n_tensors; i++) {
        double rounding = oracle_update_rounding(b, &a->steps[0].tensors[i]), sum = 0;
        for (int64_t s = 0; rounding > 0 && s < step && s < a->n_steps; s++)
            sum += rounding * share_of(a, i, s);
        most = fmax(most, sum);
    }
    return most;
}
