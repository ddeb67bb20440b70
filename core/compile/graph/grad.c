/* SPDX-License-Identifier: Apache-2.0 */
#include "compile/graph/grad.h"

#include <ctype.h>
#include <string.h>

const char *weft_grad_word(const char *p, size_t *n)
{
    p += strspn(p, " ");
    *n = strcspn(p, " ");
    return p;
}

static weft_status wrong(const weft_op *op, const char *text, weft_error *err, const char *what,
                         int n, const char *word)
{
    return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE, "op %s: gradient \"%s\": %s%.*s%s",
                     op->name, text, what, n, word, n ? "'" : "");
}

/* -1: no number, or none that an operand could have. */
static int read_number(const char *p, size_t n)
{
    int x = 0;
    if (n == 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        if (!isdigit((unsigned char)p[i]) || x > WEFT_RULE_MAX_PARTS)
            return -1;
        x = 10 * x + (p[i] - '0');
    }
    return x;
}

static bool below(int x, int n)
{
    return x >= 0 && (n < 0 || x < n);
}

/* "0 1" or "all", up to the colon. */
static weft_status read_targets(const weft_op *op, const char *text, const char *colon, int n_ins,
                                weft_grad *out, weft_error *err)
{
    size_t n;
    for (const char *p = weft_grad_word(text, &n); p < colon; p = weft_grad_word(p + n, &n)) {
        n = (size_t)(colon - p) < n ? (size_t)(colon - p) : n;
        int target = read_number(p, n);
        if (n == 3 && strncmp(p, "all", 3) == 0)
            out->all = true;
        else if (!below(target, n_ins))
            return wrong(op, text, err, "there is no operand '", (int)n, p);
        else if (out->n_targets == WEFT_GRAD_MAX_TARGETS)
            return wrong(op, text, err, "it is for more than 8 operands", 0, "");
        else
            out->targets[out->n_targets++] = target;
    }
    return out->all != (out->n_targets > 0)
               ? WEFT_OK
               : wrong(op, text, err, "the operands that it is for stand before the ':'", 0, "");
}

/* N, rN, dy, dyN, dys, likeN */
static bool sound_arg(const char *p, size_t n, int n_ins, int n_outs)
{
    if (*p == 'r')
        return below(read_number(p + 1, n - 1), n_outs);
    if (n >= 4 && strncmp(p, "like", 4) == 0)
        return below(read_number(p + 4, n - 4), n_ins);
    if (n >= 2 && strncmp(p, "dy", 2) == 0)
        return n == 2 || (n == 3 && p[2] == 's') || below(read_number(p + 2, n - 2), n_outs);
    return below(read_number(p, n), n_ins);
}

weft_status weft_grad_read(const weft_op *op, const char *text, int n_ins, int n_outs,
                           weft_grad *out, weft_error *err)
{
    const char *colon = strchr(text, ':');
    size_t n;
    memset(out, 0, sizeof *out);
    if (!colon)
        return wrong(op, text, err, "there is no ':' behind the operands that it is for", 0, "");
    weft_status s = read_targets(op, text, colon, n_ins, out, err);
    if (s)
        return s;
    const char *p = weft_grad_word(colon + 1, &n);
    if (n == 0)
        return wrong(op, text, err, "behind the ':' stands an op, or 'dy'", 0, "");
    bool pass_on = n == 2 && strncmp(p, "dy", 2) == 0;
    out->op = pass_on ? NULL : p;
    out->op_size = n;
    out->args = p + n;
    for (p = weft_grad_word(out->args, &n); n; p = weft_grad_word(p + n, &n)) {
        if (!sound_arg(p, n, n_ins, n_outs))
            return wrong(op, text, err, "there is no '", (int)n, p);
        out->dys = out->dys || (n == 3 && strncmp(p, "dys", 3) == 0);
        out->n_args++;
    }
    if (pass_on && (out->n_args || out->n_targets > 1))
        return wrong(op, text, err, "'dy' alone goes to one operand, or to all", 0, "");
    return WEFT_OK;
}

/* ---- what a function says of itself ---- */

/* "1.0" is operand 0 of the node that made operand 1. */
static bool read_origin(const char *p, size_t n, int *operand, int *of)
{
    const char *dot = memchr(p, '.', n);
    *operand = dot ? read_number(p, (size_t)(dot - p)) : -1;
    *of = dot ? read_number(dot + 1, n - (size_t)(dot - p) - 1) : -1;
    return *operand >= 0 && *of >= 0;
}

/* "0 1" or "all", and results, "r0"; if it may have origins, "0.0", too. */
static weft_status check_words(const weft_op *op, const char *field, const char *words,
                               bool origins, int n_ins, int n_outs, weft_error *err)
{
    size_t n;
    for (const char *p = weft_grad_word(words, &n); n; p = weft_grad_word(p + n, &n)) {
        bool all = n == 3 && strncmp(p, "all", 3) == 0;
        bool result = *p == 'r' && below(read_number(p + 1, n - 1), n_outs);
        int operand, of;
        bool origin = origins && read_origin(p, n, &operand, &of) && below(operand, n_ins);
        if (!all && !result && !origin && !below(read_number(p, n), n_ins))
            return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                             "op %s: %s \"%s\": there is no operand or result '%.*s'", op->name,
                             field, words, (int)n, p);
    }
    return WEFT_OK;
}

static weft_status check_function(const weft_op *op, int n_ins, int n_outs, weft_error *err)
{
    weft_status s = check_words(op, "grad_of", op->grad_of, false, n_ins, n_outs, err);
    weft_status reads =
        op->grad_reads ? check_words(op, "grad_reads", op->grad_reads, true, n_ins, n_outs, err)
                       : WEFT_OK;
    return s ? s : reads;
}

/* Is operand or result i among the words? */
static bool has_word(const char *words, bool result, int i)
{
    size_t n;
    for (const char *p = weft_grad_word(words, &n); n; p = weft_grad_word(p + n, &n)) {
        if (!result && n == 3 && strncmp(p, "all", 3) == 0)
            return true;
        bool of_result = *p == 'r';
        if (of_result == result && read_number(p + of_result, n - (size_t)of_result) == i)
            return true;
    }
    return false;
}

bool weft_grad_reads_dy(const char *words, int result)
{
    size_t n;
    for (const char *p = weft_grad_word(words, &n); n; p = weft_grad_word(p + n, &n))
        if (strncmp(p, "dy", 2) == 0 &&
            (n == 2 ? result == 0 : p[2] == 's' || read_number(p + 2, n - 2) == result))
            return true;
    return false;
}

bool weft_grad_takes(const weft_op *op, int result)
{
    if (op->differentiate)
        return !strchr(op->grad_of, 'r') || has_word(op->grad_of, true, result);
    for (const char *const *text = op->grad; text && *text; text++) {
        const char *colon = strchr(*text, ':');
        if (colon && weft_grad_reads_dy(colon + 1, result))
            return true;
    }
    return false;
}

bool weft_grad_declares(const weft_node *n, const weft_value *v)
{
    const char *words = n->op->grad_reads ? n->op->grad_reads : "";
    bool declared = v->node == n && has_word(words, true, v->result);
    for (int i = 0; !declared && i < n->n_ins; i++)
        declared = n->ins[i] == v && has_word(words, false, i);
    weft_value *origins[WEFT_RULE_MAX_PARTS];
    for (int i = weft_grad_origins(n, origins) - 1; !declared && i >= 0; i--)
        declared = origins[i] == v;
    return declared;
}

int weft_grad_origins(const weft_node *n, weft_value *list[WEFT_RULE_MAX_PARTS])
{
    int n_list = 0, operand, of;
    size_t size;
    for (const char *p = weft_grad_word(n->op->grad_reads ? n->op->grad_reads : "", &size); size;
         p = weft_grad_word(p + size, &size)) {
        if (!read_origin(p, size, &operand, &of) || operand >= n->n_ins)
            continue;
        const weft_value *v = weft_value_before_moves(n->ins[operand]);
        if (of < v->node->n_ins && n_list < WEFT_RULE_MAX_PARTS)
            list[n_list++] = v->node->ins[of];
    }
    return n_list;
}

bool weft_grad_covers(const weft_node *n, int operand)
{
    if (n->op->differentiate)
        return has_word(n->op->grad_of, false, operand);
    weft_error ignored = {0};
    weft_grad s;
    bool covers = false;
    for (const char *const *text = n->op->grad; !covers && text && *text; text++) {
        if (weft_grad_read(n->op, *text, n->n_ins, n->n_outs, &s, &ignored))
            break;
        covers = s.all;
        for (int i = 0; i < s.n_targets; i++)
            covers = covers || s.targets[i] == operand;
    }
    weft_error_release(&ignored);
    return covers;
}

weft_value *weft_value_before_moves(weft_value *v)
{
    while (v && v->node->steps)
        v = v->node->ins[0];
    return v;
}

bool weft_grad_covers_wanted(const weft_node *n, const bool *wanted)
{
    for (int i = 0; i < n->n_ins; i++)
        if ((!wanted || wanted[n->ins[i]->id]) && weft_grad_covers(n, i))
            return true;
    return false;
}

weft_status weft_gradient_wanted(weft_graph *g, bool *wanted)
{
    for (weft_node *n = g->first; n; n = n->next) {
        weft_grad s;
        for (const char *const *text = n->op->grad; text && *text; text++) {
            weft_status st = weft_grad_read(n->op, *text, n->n_ins, n->n_outs, &s, &g->error);
            if (st)
                return st;
        }
        bool trained = weft_node_is(n, WEFT_OP_PARAMETER) && !n->outs[0]->frozen;
        bool want = trained || weft_grad_covers_wanted(n, wanted);
        for (int r = 0; r < n->n_outs; r++)
            wanted[n->outs[r]->id] = want;
    }
    return WEFT_OK;
}

/* ---- before any graph: what can be told of the ops alone ---- */

static weft_status check_made(const weft_ops *ops, const weft_op *op, const char *text,
                              const weft_grad *s, weft_error *err)
{
    int n_ins, n_outs;
    const weft_op *made = weft_map_get(&ops->by_name, s->op, s->op_size);
    if (!made)
        return wrong(op, text, err, "there is no op '", (int)s->op_size, s->op);
    weft_rule_count(made, &n_ins, &n_outs);
    if (n_ins >= 0 && !s->dys && n_ins != s->n_args)
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                         "op %s: gradient \"%s\": %s takes %d operands, not %d", op->name, text,
                         made->name, n_ins, s->n_args);
    if (n_outs >= 0 && !s->all && n_outs != s->n_targets)
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                         "op %s: gradient \"%s\": %s has %d results, for %d operands", op->name,
                         text, made->name, n_outs, s->n_targets);
    return WEFT_OK;
}

/* In the words of the op's author: the op in front. */
static weft_status check_rule(const weft_op *op, weft_error *err)
{
    weft_error own = {0};
    weft_status s = weft_rule_check(op, &own);
    weft_error_move(err, &own, s, WEFT_NOWHERE, "op %s: ", op->name);
    return s;
}

weft_status weft_ops_check_texts(const weft_ops *ops, const weft_op *const *list, weft_error *err)
{
    weft_status s = WEFT_OK;
    for (; list && *list; list++) {
        int n_ins, n_outs;
        weft_status rule = check_rule(*list, err);
        s = s ? s : rule;
        weft_rule_count(*list, &n_ins, &n_outs);
        if ((*list)->differentiate) {
            weft_status now = check_function(*list, n_ins, n_outs, err);
            s = s ? s : now;
        }
        for (const char *const *text = (*list)->grad; text && *text; text++) {
            weft_grad statement;
            weft_status now = weft_grad_read(*list, *text, n_ins, n_outs, &statement, err);
            if (!now && statement.op)
                now = check_made(ops, *list, *text, &statement, err);
            s = s ? s : now;
        }
    }
    return s;
}
