/* SPDX-License-Identifier: Apache-2.0 */
#include "rule.h"

#include <stdlib.h>
#include <string.h>

typedef struct span {
    const char *at, *end;
} span;

typedef struct parser {
    const char *text;
    weft_rule *rule;
    int longest; /* dims that "*" stands for */
    int leading; /* and "..." in front of others; -1: no operand has told */
    weft_error *err;
} parser;

static weft_status bad(const parser *p, const char *what)
{
    return weft_fail(p->err, WEFT_ERR_INTERNAL, WEFT_NOWHERE, "index rule \"%s\": %s", p->text,
                     what);
}

static span strip(span s)
{
    while (s.at < s.end && *s.at == ' ')
        s.at++;
    while (s.at < s.end && s.end[-1] == ' ')
        s.end--;
    return s;
}

static bool blank(span s)
{
    s = strip(s);
    return s.at == s.end;
}

/* Takes text up to `stop` (or all) off the front of s. */
static span take(span *s, char stop)
{
    const char *end = memchr(s->at, stop, (size_t)(s->end - s->at));
    span head = {s->at, end ? end : s->end};
    s->at = end ? end + 1 : s->end;
    return head;
}

static int find_letter(weft_rule *rule, const char *name)
{
    for (int i = 0; i < rule->n_letters; i++)
        if (!strcmp(rule->name[i], name))
            return i;
    if (rule->n_letters == WEFT_RULE_MAX_LETTERS)
        return -1;
    memcpy(rule->name[rule->n_letters], name, strlen(name) + 1);
    return rule->n_letters++;
}

static weft_status add_letter(parser *p, weft_rule_part *part, const char *name, bool whole,
                              bool more)
{
    int letter = find_letter(p->rule, name);
    if (letter < 0)
        return bad(p, "too many letters");
    if (part->n_dims == WEFT_MAX_DIMS)
        return bad(p, "too many dims in one operand or result");
    if (weft_rule_dim(part, letter) >= 0)
        return weft_fail(p->err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                         "index rule \"%s\": index %s occurs twice in one operand or result",
                         p->text, name);
    part->letter[part->n_dims] = (int8_t)letter;
    part->more[part->n_dims] = more;
    part->whole[part->n_dims++] = whole;
    p->rule->whole |= (uint32_t)whole << letter;
    p->rule->more |= (uint32_t)more << letter;
    return WEFT_OK;
}

/* base0, base1, ...: by hand, for a rule is parsed wherever one is asked for. */
static weft_status add_letters(parser *p, weft_rule_part *part, const char *base, int n, bool whole)
{
    _Static_assert(WEFT_MAX_DIMS < 10, "a dim's number is one digit");
    char name[WEFT_RULE_MAX_NAME] = {0};
    const size_t end = strlen(base);
    weft_status status = WEFT_OK;
    memcpy(name, base, end);
    for (int d = 0; d < n && !status; d++) {
        name[end] = (char)('0' + d);
        status = add_letter(p, part, name, whole, false);
    }
    return status;
}

static weft_status add_word(parser *p, weft_rule_part *part, span word)
{
    char name[WEFT_RULE_MAX_NAME];
    bool whole = *word.at == '[';
    if (whole != (word.end[-1] == ']'))
        return bad(p, "unbalanced brackets");
    word.at += whole;
    word.end -= whole;
    bool more = !whole && word.end - word.at > 1 && word.end[-1] == '+';
    word.end -= more;
    if (word.end <= word.at || (size_t)(word.end - word.at) >= sizeof(name))
        return bad(p, "an index name is empty or too long");
    if (word.end - word.at == 1 && *word.at == '*')
        return add_letters(p, part, "*", p->longest, whole);
    memcpy(name, word.at, (size_t)(word.end - word.at));
    name[word.end - word.at] = '\0';
    return add_letter(p, part, name, whole, more);
}

/* "..." in front: the dims that the part has beside those that follow; as many in all parts. */
static weft_status add_leading(parser *p, weft_rule_part *part, span rest, int dims)
{
    for (rest = strip(rest); !blank(rest); rest = strip(rest), dims--)
        take(&rest, ' ');
    if (p->leading < 0)
        p->leading = dims > 0 ? dims : 0;
    return add_letters(p, part, "..", p->leading, false);
}

/* dims: how many it has; a "..." is one where that is not known. */
static weft_status parse_part(parser *p, span text, weft_rule_part *part, const int *dims)
{
    text = strip(text);
    weft_status status = WEFT_OK;
    if (text.end - text.at >= 3 && !memcmp(text.at, "...", 3)) {
        text.at += 3;
        status = add_leading(p, part, text, dims ? *dims : WEFT_MAX_DIMS);
    }
    while (!blank(text) && !status) {
        span word = take(&text, ' ');
        status = word.at == word.end ? WEFT_OK : add_word(p, part, word);
    }
    return status;
}

/* Does the last of its parts repeat? "..." alone are leading dims. */
static bool has_dots(span s)
{
    for (const char *c = s.at; c < s.end; c++)
        s.at = *c == ',' ? c + 1 : s.at;
    s = strip(s);
    return s.end - s.at > 3 && !memcmp(s.end - 3, "...", 3);
}

static int count_parts(span s)
{
    int n = !blank(s);
    for (const char *p = s.at; p < s.end; p++)
        n += *p == ',';
    return n;
}

static weft_status wrong_number(const parser *p, span side, int n, const weft_rule_part *parts)
{
    int have = count_parts(side);
    return weft_fail(p->err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                     "index rule \"%s\" has %s%d %s%s, and the node %d", p->text,
                     has_dots(side) ? "at least " : "", have,
                     parts == p->rule->in ? "operand" : "result", have == 1 ? "" : "s", n);
}

/* One side of the arrow, which has to give n parts of dims[i] dims (dims NULL: any). */
static weft_status parse_side(parser *p, span side, int n, const int *dims, weft_rule_part *parts)
{
    int have = 0;
    const span whole = side;
    if (n == 0)
        return blank(side) ? WEFT_OK : wrong_number(p, whole, n, parts);
    for (bool last = false; !last; have++) {
        last = !memchr(side.at, ',', (size_t)(side.end - side.at));
        span item = take(&side, ',');
        if (have > 0 && item.at == item.end)
            return bad(p, "nothing stands behind a ','; one without dims is written as a space");
        item = strip(item);
        bool repeats = has_dots(item);
        if (have == n)
            return wrong_number(p, whole, n, parts);
        if (repeats && !last)
            return bad(p, "\"...\" may only stand at the end of a side");
        if (repeats)
            item.end -= 3;
        weft_status status = parse_part(p, item, &parts[have], dims ? &dims[have] : NULL);
        if (status)
            return status;
        for (; repeats && have < n - 1; have++)
            parts[have + 1] = parts[have];
    }
    if (have < n)
        return wrong_number(p, whole, n, parts);
    for (int i = 0; dims && i < n; i++)
        if (parts[i].n_dims != dims[i])
            return weft_fail(p->err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                             "index rule \"%s\": %s %d has %d dims, not %d", p->text,
                             parts == p->rule->in ? "operand" : "result", i, dims[i],
                             (int)parts[i].n_dims);
    return WEFT_OK;
}

static weft_status parse_group(parser *p, span text, uint64_t *group)
{
    text = strip(text);
    while (!blank(text)) {
        span word = take(&text, ' ');
        int operand = 0;
        if (word.at == word.end)
            continue;
        for (const char *c = word.at; c < word.end; c++) {
            if (*c < '0' || *c > '9')
                return bad(p, "linear groups are lists of operand numbers");
            operand = operand * 10 + (*c - '0');
            if (operand >= p->rule->n_ins)
                return bad(p, "a linear group names an operand that does not exist");
        }
        *group |= UINT64_C(1) << operand;
    }
    return *group ? WEFT_OK : bad(p, "a linear group is empty");
}

static weft_status parse_linear(parser *p, const char *linear)
{
    weft_rule *rule = p->rule;
    if (!linear || !*linear)
        return WEFT_OK;
    if (!strcmp(linear, "all")) {
        rule->n_groups = 1;
        rule->group[0] = rule->n_ins == 64 ? ~UINT64_C(0) : (UINT64_C(1) << rule->n_ins) - 1;
        return WEFT_OK;
    }
    span text = {linear, linear + strlen(linear)};
    while (!blank(text)) {
        if (rule->n_groups == WEFT_RULE_MAX_PARTS)
            return bad(p, "too many linear groups");
        weft_status status = parse_group(p, take(&text, ','), &rule->group[rule->n_groups++]);
        if (status)
            return status;
    }
    return WEFT_OK;
}

weft_status weft_rule_parse(const char *rule, const char *linear, int n_ins, int n_outs,
                            const int *in_dims, const int *out_dims, weft_rule *out,
                            weft_error *err)
{
    parser p = {.text = rule, .rule = out, .leading = in_dims ? -1 : 1, .err = err};
    const char *arrow = strstr(rule, "->");
    weft_status status;

    memset(out, 0, sizeof(*out));
    if (!arrow || strstr(arrow + 2, "->"))
        return bad(&p, "one \"->\" is needed");
    if (n_ins > WEFT_RULE_MAX_PARTS || n_outs > WEFT_RULE_MAX_PARTS)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "a node has %d operands and %d results; at most %d of each are possible",
                         n_ins, n_outs, (int)WEFT_RULE_MAX_PARTS);
    out->n_ins = n_ins;
    out->n_outs = n_outs;
    p.longest = !in_dims;
    for (int i = 0; in_dims && i < n_ins; i++)
        p.longest = in_dims[i] > p.longest ? in_dims[i] : p.longest;
    if ((status = parse_side(&p, (span){rule, arrow}, n_ins, in_dims, out->in)))
        return status;
    if ((status =
             parse_side(&p, (span){arrow + 2, rule + strlen(rule)}, n_outs, out_dims, out->out)))
        return status;
    return parse_linear(&p, linear);
}

bool weft_node_rings(const weft_node *node)
{
    return node->op->ring && weft_node_int(node, "ring") != 0;
}

static bool lists(const char *numbers, int i)
{
    for (const char *p = numbers; p && *p;) {
        char *end;
        if (strtol(p, &end, 10) == i)
            return true;
        p = end == p ? p + 1 : end;
    }
    return false;
}

bool weft_ring_moves(const weft_node *n, int i)
{
    return weft_node_rings(n) && (i < n->n_ins ? lists(n->op->ring->travels, i)
                                               : lists(n->op->ring->returns, i - n->n_ins));
}

weft_status weft_rule_of_node(const weft_node *node, bool results, weft_rule *out, weft_error *err)
{
    int in_dims[WEFT_RULE_MAX_PARTS], out_dims[WEFT_RULE_MAX_PARTS];
    int n_ins = node->n_ins + (node->like != NULL);
    weft_text text = {0};
    weft_status status = WEFT_OK;

    if (n_ins > WEFT_RULE_MAX_PARTS || node->n_outs > WEFT_RULE_MAX_PARTS)
        return weft_fail(
            err, WEFT_ERR_INPUT, WEFT_NOWHERE,
            "a node of op %s has %d operands and %d results; at most %d of each are possible",
            node->op->name, n_ins, node->n_outs, (int)WEFT_RULE_MAX_PARTS);
    for (int i = 0; i < n_ins; i++)
        in_dims[i] = i < node->n_ins ? node->ins[i]->n_dims : node->like->n_dims;
    for (int i = 0; results && i < node->n_outs; i++)
        out_dims[i] = node->outs[i]->n_dims;
    if (node->op->make_rule)
        status = node->op->make_rule(node, &text, err);
    if (!status && text.out_of_memory)
        status = weft_fail_memory(err);
    weft_error why = {0};
    if (!status) {
        const char *fixed = weft_node_rings(node) ? node->op->ring->rule : node->op->rule;
        status =
            weft_rule_parse(node->op->make_rule ? weft_text_get(&text) : fixed, node->op->linear,
                            n_ins, node->n_outs, in_dims, results ? out_dims : NULL, out, &why);
        if (status)
            weft_fail(err, status, WEFT_NOWHERE, "%s = %s: %s",
                      node->n_outs ? node->outs[0]->name : "?", node->op->name,
                      weft_error_text(&why));
    }
    weft_error_release(&why);
    weft_text_release(&text);
    return status;
}

/* ---- before any graph: what can be told of the op alone ---- */

void weft_rule_count(const weft_op *op, int *n_ins, int *n_outs)
{
    const char *arrow = op->rule && !op->make_rule ? strstr(op->rule, "->") : NULL;
    *n_ins = *n_outs = -1;
    if (!arrow || has_dots((span){op->rule, arrow}) ||
        has_dots((span){arrow + 2, op->rule + strlen(op->rule)}))
        return;
    *n_ins = strspn(op->rule, " ") < (size_t)(arrow - op->rule);
    *n_outs = 1;
    for (const char *p = op->rule; *p; p++) {
        *n_ins += *p == ',' && p < arrow;
        *n_outs += *p == ',' && p > arrow;
    }
}

/* As many parts as are written, or, where the last one repeats, as there can be. */
static int count_written(const char *at, const char *end)
{
    return has_dots((span){at, end}) ? WEFT_RULE_MAX_PARTS : count_parts((span){at, end});
}

weft_status weft_rule_check(const weft_op *op, weft_error *err)
{
    weft_rule *rule;
    weft_status s;
    const char *arrow = op->rule && !op->make_rule ? strstr(op->rule, "->") : NULL;
    if (!op->rule || op->make_rule)
        return WEFT_OK;
    if (!(rule = weft_alloc(sizeof *rule)))
        return weft_fail_memory(err);
    const char *end = op->rule + strlen(op->rule);
    int n_ins = arrow ? count_written(op->rule, arrow) : 0,
        n_outs = arrow ? count_written(arrow + 2, end) : 0;
    /* "x ->" is a result without dims */
    s = weft_rule_parse(op->rule, op->linear, n_ins, n_outs ? n_outs : 1, NULL, NULL, rule, err);
    for (int r = 0; !s && !op->infer && r < n_outs; r++)
        for (int d = 0; !s && d < rule->out[r].n_dims; d++)
            if (!(weft_rule_in_letters(rule) >> rule->out[r].letter[d] & 1))
                s = weft_fail(
                    err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                    "index rule \"%s\": index %s of a result is in no operand; an op that "
                    "knows its size needs `infer`",
                    op->rule, rule->name[rule->out[r].letter[d]]);
    weft_free(rule);
    return s;
}

int weft_rule_dim(const weft_rule_part *part, int letter)
{
    for (int d = 0; d < part->n_dims; d++)
        if (part->letter[d] == letter)
            return d;
    return -1;
}

uint32_t weft_rule_letters(const weft_rule_part *part)
{
    uint32_t set = 0;
    for (int d = 0; d < part->n_dims; d++)
        set |= UINT32_C(1) << part->letter[d];
    return set;
}

uint32_t weft_rule_in_letters(const weft_rule *rule)
{
    uint32_t set = 0;
    for (int i = 0; i < rule->n_ins; i++)
        set |= weft_rule_letters(&rule->in[i]);
    return set;
}
