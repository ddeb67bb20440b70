/* SPDX-License-Identifier: Apache-2.0 */
/* Ops that say by a pattern which others they do the work of: their texts, read. */
#include "kit/pattern.h"

#include <stdio.h>
#include <string.h>

/* The text, where it is being read, and the names that it has had so far. */
typedef struct reader {
    const weft_ops *ops;
    weft_pattern *p;
    const char *at;
    struct {
        const char *text;
        size_t size;
        bool made, read;
    } name[WEFT_PATTERN_NAMES];
    weft_error *err;
} reader;

static weft_status wrong(const reader *r, const char *what, const char *of, size_t size)
{
    return weft_fail(r->err, WEFT_ERR_INPUT, WEFT_NOWHERE, "op %s: pattern: %s%.*s", r->p->op->name,
                     what, (int)size, of);
}

static void skip(reader *r, const char *blanks)
{
    r->at += strspn(r->at, blanks);
}

static bool take(reader *r, const char *word)
{
    skip(r, " ");
    const size_t size = strlen(word);
    if (strncmp(r->at, word, size) != 0)
        return false;
    r->at += size;
    return true;
}

/* A word; 0: there is none. */
static size_t word(reader *r, const char **text)
{
    skip(r, " ");
    const size_t size = strspn(r->at, "abcdefghijklmnopqrstuvwxyz_0123456789");
    *text = r->at;
    r->at += size;
    return size;
}

/* The number of a name, which is new if it has none; -1: too many. */
static int number(reader *r, const char *text, size_t size)
{
    for (int i = 0; i < r->p->n_names; i++)
        if (r->name[i].size == size && memcmp(r->name[i].text, text, size) == 0)
            return i;
    if (r->p->n_names == WEFT_PATTERN_NAMES)
        return -1;
    r->name[r->p->n_names].text = text;
    r->name[r->p->n_names].size = size;
    return r->p->n_names++;
}

/* Names with blanks or commas between, into list, as many as there are; false: too many. */
static bool names(reader *r, int8_t *list, int most, int *n)
{
    const char *text;
    size_t size;
    for (*n = 0; (size = word(r, &text)); take(r, ",")) {
        const int i = number(r, text, size);
        if (i < 0 || *n == most)
            return false;
        list[(*n)++] = (int8_t)i;
    }
    return true;
}

/* "x d w -> r y": they have the first numbers. */
static weft_status read_head(reader *r)
{
    int8_t list[WEFT_PATTERN_NAMES];
    weft_pattern *p = r->p;
    bool good = names(r, list, WEFT_PATTERN_NAMES, &p->n_ins) && p->n_ins == p->n_names;
    for (int i = 0; i < p->n_ins; i++)
        r->name[i].made = true;
    good = good && take(r, "->") && names(r, list, WEFT_PATTERN_NAMES, &p->n_outs) && p->n_outs &&
           p->n_ins + p->n_outs == p->n_names;
    int n_ins, n_outs; /* below 0: a rule that is made has as many as there are */
    weft_rule_count(p->op, &n_ins, &n_outs);
    if (!good || (n_ins >= 0 && n_ins != p->n_ins) || (n_outs >= 0 && n_outs != p->n_outs))
        return wrong(r, "it begins with the names of what the rule says: operands, ->, results", "",
                     0);
    return WEFT_OK;
}

static weft_status check_attrs(const reader *r, const weft_op *member)
{
    for (const char *a = member->attrs; a && *a; a += strspn(a, ", ")) {
        char key[64];
        const size_t size = strcspn(a, ", ");
        snprintf(key, sizeof key, "%.*s", (int)size, a);
        if (!weft_op_declares(r->p->op, key))
            return wrong(r, "the op does not declare a member's attribute ", a, size);
        a += size;
    }
    return WEFT_OK;
}

/* What a member must be: known, of so many operands and results, and of a rule of its own. */
static weft_status check_member(const reader *r, const weft_member *m, const char *op, size_t size)
{
    int n_ins, n_outs;
    if (!m->op || m->op->pattern)
        return wrong(r, m->op ? "a member has a pattern itself: " : "there is no op ", op, size);
    weft_rule_count(m->op, &n_ins, &n_outs);
    if (n_ins >= 0 && n_ins != m->n_ins && n_ins != m->n_ins + 1) /* `like` is no operand here */
        return wrong(r, "this is not the number of operands of ", op, size);
    if (n_outs >= 0 && n_outs != m->n_outs)
        return wrong(r, "this is not the number of results of ", op, size);
    return check_attrs(r, m->op);
}

/* "r = add(x, d)" */
static weft_status read_member(reader *r)
{
    weft_pattern *p = r->p;
    if (p->n == WEFT_PATTERN_MEMBERS)
        return wrong(r, "there are too many members", "", 0);
    weft_member *m = &p->member[p->n++];
    const char *op, *begin = r->at;
    bool good = names(r, m->out, WEFT_PATTERN_OUTS, &m->n_outs) && take(r, "=");
    const size_t size = good ? word(r, &op) : 0;
    good = size && take(r, "(") && names(r, m->in, WEFT_PATTERN_INS, &m->n_ins) && take(r, ")");
    skip(r, " ");
    if (!good || !m->n_outs || !strchr("\n;", *r->at))
        return wrong(r, "this cannot be read: ", begin, strcspn(begin, "\n;"));
    m->op = weft_map_get(&r->ops->by_name, op, size);
    weft_status s = check_member(r, m, op, size);
    bool joined = p->n == 1;
    for (int i = 0; i < m->n_ins && !s; i++) {
        if (!r->name[m->in[i]].made)
            s = wrong(r, "it is read before it is made: ", r->name[m->in[i]].text,
                      r->name[m->in[i]].size);
        joined = joined || r->name[m->in[i]].read || m->in[i] >= p->n_ins;
    }
    for (int i = 0; i < m->n_ins; i++)
        r->name[m->in[i]].read = true;
    for (int i = 0; i < m->n_outs && !s; i++) {
        if (r->name[m->out[i]].made)
            s = wrong(r, "it is made twice: ", r->name[m->out[i]].text, r->name[m->out[i]].size);
        r->name[m->out[i]].made = true;
    }
    return s || joined ? s : wrong(r, "it reads nothing that a member before it does: ", op, size);
}

weft_status weft_pattern_read(const weft_ops *ops, const weft_op *op, weft_pattern *p,
                              weft_error *err)
{
    memset(p, 0, sizeof *p);
    p->op = op;
    reader r = {.ops = ops, .p = p, .at = op->pattern, .err = err};
    weft_status s = read_head(&r);
    for (skip(&r, " \n;"); *r.at && !s; skip(&r, " \n;"))
        s = read_member(&r);
    for (int i = 0; i < p->n_names && !s; i++)
        if (!r.name[i].made || (!r.name[i].read && (i < p->n_ins || i >= p->n_ins + p->n_outs)))
            s = wrong(&r, r.name[i].made ? "nobody reads " : "nobody makes ", r.name[i].text,
                      r.name[i].size);
    return s;
}
