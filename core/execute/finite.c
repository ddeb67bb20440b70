/* SPDX-License-Identifier: Apache-2.0 */
/* [weft] check = nan. After every instruction its floating results are looked at; the first that is
 * not finite is named, with who computed it and when. */
#include "execute/run.h"

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
static weft_status look(weft_run *run, const weft_tensor *t, bool maximum, int64_t *bad, double *x,
                        weft_error *err)
{
    const weft_plan *plan = run->plan;
    weft_tensor local = *t;
    size_t bytes = (size_t)weft_tensor_count(t) * weft_dtype_size(t->dtype);
    weft_status s = WEFT_OK;
    void *copy = NULL;
    *bad = -1;
    if (!weft_dtype_is_float(t->dtype) || bytes == 0)
        return WEFT_OK;
    if (!plan->device->host_memory) {
        copy = weft_alloc(bytes);
        s = copy ? weft_run_download(run, copy, t->data, bytes, err) : weft_fail_memory(err);
        local.data = copy;
    }
    if (!s)
        *bad = find_bad(&local, maximum);
    if (*bad >= 0)
        *x = weft_tensor_get(&local, *bad);
    weft_free(copy);
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
static weft_status print_operand(weft_run *run, const weft_instruction *in, weft_text *text,
                                 weft_error *err)
{
    for (int i = 0; i < in->n_ins; i++) {
        int64_t bad;
        double x;
        weft_status s = look(run, &in->tensors[i], false, &bad, &x, err);
        if (s || bad < 0)
            continue;
        weft_text_print(text, "; its operand %s holds %s already", weft_instruction_in(in, i)->name,
                        isnan(x) ? "a NaN" : "an infinity");
        return WEFT_OK;
    }
    weft_text_add(text, "; its operands are finite");
    return WEFT_OK;
}

static weft_status fail(weft_run *run, const weft_lowered *l, const weft_instruction *in,
                        int result, int64_t element, double x, int64_t micro, weft_error *err)
{
    const weft_node *n = in->node;
    weft_text text = {0};
    weft_text_print(&text, "[weft] check = nan: %s = %s holds %s",
                    weft_instruction_out(in, result)->name, n->op->name,
                    isnan(x) ? "a NaN" : "an infinity");
    weft_text_print(&text, ", the first of step %" PRId64, run->view.step);
    if (l->graph->config.mode != WEFT_MODE_TRAIN)
        weft_text_print(&text, " (%s)", weft_mode_name(l->graph->config.mode));
    if (micro >= 0)
        weft_text_print(&text, ", micro-batch %" PRId64 " of %" PRId64, micro + 1,
                        run->plan->micro_batches);
    weft_text_add(&text, weft_block_describe(", ", n->block).text);
    weft_text_add(&text, ", at ");
    print_place(&in->tensors[in->n_ins + result], element, &text);
    weft_text_print(&text, " on rank %d; caused by %s", run->plan->rank, n->by ? n->by : "core");
    if (in->kind == WEFT_COMPUTE)
        weft_text_print(&text, ", computed by kernel %s of %s",
                        in->kernel ? in->kernel->name : "plain", in->owner ? in->owner : "core");
    weft_status s = print_operand(run, in, &text, err);
    s = s ? s : weft_fail(err, WEFT_ERR_REPEATS, WEFT_NOWHERE, "%s", weft_text_get(&text));
    weft_text_release(&text);
    return s;
}

weft_status weft_finite_check(weft_run *run, const weft_lowered *l, const weft_instruction *in,
                              int64_t micro, weft_error *err)
{
    if (in->kind == WEFT_OBSERVE || in->kind == WEFT_POST_RECV)
        return WEFT_OK;
    /* of no keys the log-sum-exp is that, too, as in a step of a ring that sees none */
    bool maximum = (in->node->op->flags & WEFT_OP_MAX) || in->kind == WEFT_COLLECTIVE ||
                   weft_node_int(in->node, "ring") != 0;
    weft_status s = weft_run_wait(run, err);
    for (int i = 0; i < in->n_outs && !s; i++) {
        int64_t bad;
        double x = 0;
        s = look(run, &in->tensors[in->n_ins + i], maximum, &bad, &x, err);
        if (!s && bad >= 0)
            s = fail(run, l, in, i, bad, x, micro, err);
    }
    return s;
}
