/* SPDX-License-Identifier: Apache-2.0 */
/* [weft] check = nan. After every instruction its floating results are looked at; the first that is
 * not finite is named, with who computed it and when. */
#include "check.h"

#include <inttypes.h>
#include <math.h>

/* The first element that is not finite; negative: there is none. -inf is what a maximum of nothing
 * is. */
static int64_t find_bad(const weft_tensor *t, bool maximum)
{
    int64_t n = weft_tensor_count(t);
    for (int64_t i = 0; i < n; i++) {
        double x = weft_tensor_get(t, i);
        if (!isfinite(x) && !(maximum && x < 0))
            return i;
    }
    return -1;
}

/* bad: as in find_bad, and x what is there. Sets it to -1 for other dtypes. */
static weft_status look(const weft_run_view *run, int operand, bool maximum, int64_t *bad,
                        double *x, weft_error *err)
{
    const weft_operand *o = &run->instruction->operands[operand];
    weft_tensor local;
    *bad = -1;
    if (!weft_dtype_is_float(o->tensor.dtype) || o->bytes == 0)
        return WEFT_OK;
    weft_status s = weft_run_tensor(run, operand, &local, err);
    if (!s && local.data)
        *bad = find_bad(&local, maximum);
    if (*bad >= 0)
        *x = weft_tensor_get(&local, *bad);
    return s;
}

static void print_place(const weft_tensor *t, int64_t element, weft_text *text)
{
    int64_t at[WEFT_MAX_DIMS];
    for (int d = t->n_dims - 1; d >= 0; d--) {
        at[d] = t->lo[d] + element % t->size[d];
        element /= t->size[d];
    }
    for (int d = 0; d < t->n_dims; d++)
        weft_text_print(text, "%s%" PRId64 " of %" PRId64, d ? ", " : "[", at[d], t->whole[d]);
    weft_text_add(text, t->n_dims ? "]" : "[]");
}

/* The first operand that was not finite before: nobody computed it in this run. */
static weft_status print_operand(const weft_run_view *run, weft_text *text, weft_error *err)
{
    const weft_instruction_view *in = run->instruction;
    for (int i = 0; i < in->n_ins; i++) {
        int64_t bad;
        double x;
        weft_status s = look(run, i, false, &bad, &x, err);
        if (s || bad < 0)
            continue;
        weft_text_print(text, "; its operand %s holds %s already", in->operands[i].value->name,
                        isnan(x) ? "a NaN" : "an infinity");
        return WEFT_OK;
    }
    weft_text_add(text, "; its operands are finite");
    return WEFT_OK;
}

static const char *mode_name(weft_mode mode)
{
    static const char *const names[WEFT_MODES] = {"train", "evaluate", "generate", "decode"};
    return names[mode];
}

static weft_status fail(const weft_run_view *run, int result, int64_t element, double x,
                        weft_error *err)
{
    const weft_instruction_view *in = run->instruction;
    const weft_node *n = in->nodes[0];
    const weft_operand *o = &in->operands[in->n_ins + result];
    weft_text text = {0};
    weft_text_print(&text, "[weft] check = nan: %s = %s holds %s", o->value->name, n->op->name,
                    isnan(x) ? "a NaN" : "an infinity");
    weft_text_print(&text, ", the first of step %" PRId64, run->step);
    if (in->mode != WEFT_MODE_TRAIN)
        weft_text_print(&text, " (%s)", mode_name(in->mode));
    if (run->micro_batch >= 0)
        weft_text_print(&text, ", micro-batch %" PRId64 " of %" PRId64, run->micro_batch + 1,
                        run->micro_batches);
    weft_text_add(&text, weft_block_describe(", ", n->block).text);
    weft_text_add(&text, ", at ");
    print_place(&o->tensor, element, &text);
    weft_text_print(&text, " on rank %d; caused by %s", run->rank, n->by ? n->by : "core");
    if (in->kind == WEFT_COMPUTE)
        weft_text_print(&text, ", computed by kernel %s of %s", in->kernel,
                        in->by ? in->by : "core");
    weft_status s = print_operand(run, &text, err);
    s = s ? s : weft_fail(err, WEFT_ERR_REPEATS, WEFT_NOWHERE, "%s", weft_text_get(&text));
    weft_text_release(&text);
    return s;
}

weft_status check_nan(const weft_run_view *run, weft_error *err)
{
    const weft_instruction_view *in = run->instruction;
    const weft_node *n = in->nodes[0];
    if (in->kind == WEFT_OBSERVE || in->kind == WEFT_POST_RECV || in->kind == WEFT_FETCH ||
        weft_node_is(n, WEFT_OP_EVICT))
        return WEFT_OK;
    /* of no keys the log-sum-exp is that, too, as in a step of a ring that sees none */
    bool maximum = (n->op->flags & WEFT_OP_MAX) || in->kind == WEFT_COLLECTIVE ||
                   weft_node_int(n, "ring") != 0;
    weft_status s = WEFT_OK;
    for (int i = 0; i < in->n_outs && !s; i++) {
        int64_t bad;
        double x = 0;
        s = look(run, in->n_ins + i, maximum, &bad, &x, err);
        if (!s && bad >= 0)
            s = fail(run, i, bad, x, err);
    }
    return s;
}
