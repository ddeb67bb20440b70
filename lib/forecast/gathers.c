/* SPDX-License-Identifier: Apache-2.0 */
/* Values of a micro-batch that are gathered whole though nobody asked for it: an op that an axis
 * could have no part in, most often because one of its indices has two sizes that do not both
 * divide. The numbers are right, and every rank of the axis computes the same from there on. */
#include "forecast/forecast.h"

#include <stdio.h>
#include <string.h>

typedef struct gather {
    const weft_node *move, *reader;
    const weft_value *from; /* before the move */
    int axis, dim;
    int count;
    double bytes; /* of all of them, whole */
} gather;

enum { ROWS = 16 };

static bool has_part(const weft_node *n, int axis)
{
    for (int i = 0; i < n->n_ins + n->n_outs; i++)
        if (weft_layout_byte((i < n->n_ins ? n->ins[i] : n->outs[i - n->n_ins])->layout, axis))
            return true;
    return false;
}

/* Does its rule want the dim of operand i whole? What has no rule to be read is not asked. */
static bool wants_whole(const weft_graph *g, const weft_node *n, int i, int dim)
{
    weft_rule rule;
    weft_error err = {0};
    const bool known = !weft_node_find_rule(g, n, true, &rule, &err);
    weft_error_release(&err);
    return !known || (rule.whole >> rule.in[i].letter[dim] & 1u);
}

/* The table says so of the value, or a pass has moved it: then the reason is the pass' own name,
 * and of an op's operand two words. */
static bool is_asked(const weft_graph *g, const weft_node *move, int axis)
{
    unsigned state;
    return !strchr(move->why, ' ') ||
           (weft_table_wants(g, move->ins[0], axis, &state) && state == 0);
}

/* What is made of it is read whole for the axis' own sake, as by a product of a weight that the
 * axis cuts: then the value would be gathered anyway, a node later. */
static bool has_part_behind(const weft_value *v, int axis)
{
    for (int i = 0; i < v->n_uses; i++) {
        const weft_node *n = v->uses[i].node;
        if (n->n_steps ? !has_part_behind(n->outs[0], axis) : !has_part(n, axis))
            return false;
    }
    return v->n_uses > 0;
}

static bool is_wanted_behind(const weft_node *n, int axis)
{
    int r = 0;
    while (r < n->n_outs && has_part_behind(n->outs[r], axis))
        r++;
    return r == n->n_outs;
}

/* A reader that the axis has no part in, though its rule would let it. */
static const weft_node *find_reader(const weft_graph *g, const weft_value *v, int axis, int dim)
{
    for (int i = 0; i < v->n_uses; i++) {
        const weft_node *n = v->uses[i].node;
        const bool computes = n->n_outs && !n->n_steps && !(n->op->flags & WEFT_OP_SOURCE);
        if (computes && !has_part(n, axis) && !wants_whole(g, n, v->uses[i].operand, dim) &&
            !is_wanted_behind(n, axis))
            return n;
    }
    return NULL;
}

static bool same(const gather *row, const gather *one)
{
    return row->axis == one->axis && row->reader->op == one->reader->op &&
           strcmp(row->from->dims[row->dim].name, one->from->dims[one->dim].name) == 0;
}

static int add(const weft_graph *g, gather *rows, int n, gather one)
{
    int r = 0;
    while (r < n && !same(&rows[r], &one))
        r++;
    if (r == ROWS)
        return n;
    if (r == n)
        rows[n++] = one;
    rows[r].count++;
    rows[r].bytes += (double)weft_value_part_bytes(g, one.move->outs[0]);
    return n;
}

static int collect(const weft_graph *g, gather *rows)
{
    int n = 0;
    for (const weft_node *m = g->first; m; m = m->next) {
        const bool counts = m->scope == WEFT_MICRO_BATCH && m->n_steps && !m->ins[0]->weight;
        weft_layout before = counts ? m->ins[0]->layout : (weft_layout){0};
        for (int i = 0; counts && i < m->n_steps; before = m->steps[i++].after)
            for (int k = 0; m->steps[i].move == WEFT_ALL_GATHER && k < m->steps[i].n_axes; k++) {
                const int axis = m->steps[i].axes[k], dim = weft_layout_dim(before, axis);
                if (weft_layout_byte(m->outs[0]->layout, axis) || is_asked(g, m, axis))
                    continue;
                const weft_node *reader = find_reader(g, m->outs[0], axis, dim);
                if (reader)
                    n = add(g, rows, n, (gather){m, reader, m->ins[0], axis, dim, 0, 0});
            }
    }
    return n;
}

/* The first dim of a letter of another size than `size`; NULL: they are of one size. */
static const weft_dim *other_size(const weft_node *n, const weft_rule *rule, int letter,
                                  int64_t size)
{
    for (int i = 0; i < n->n_ins + n->n_outs; i++) {
        const bool in = i < n->n_ins;
        const int d = weft_rule_dim(in ? &rule->in[i] : &rule->out[i - n->n_ins], letter);
        const weft_value *v = in ? n->ins[i] : n->outs[i - n->n_ins];
        if (d >= 0 && v->dims[d].size != size)
            return &v->dims[d];
    }
    return NULL;
}

static void print_reason(const weft_graph *g, const gather *r, weft_text *text)
{
    const weft_dim *dim = &r->from->dims[r->dim], *other = NULL;
    const char *axis = g->config.mesh.axis[r->axis].name;
    weft_rule rule;
    weft_error err = {0};
    int i = 0, letter = -1;
    while (i < r->reader->n_ins && r->reader->ins[i] != r->move->outs[0])
        i++;
    if (!weft_node_find_rule(g, r->reader, true, &rule, &err) && i < r->reader->n_ins) {
        letter = rule.in[i].letter[r->dim];
        other = other_size(r->reader, &rule, letter, dim->size);
    }
    weft_error_release(&err);
    if (other)
        weft_text_print(text,
                        "its index %s is %s %lld and %s %lld, which %s and the axes outside of it "
                        "do not divide both",
                        rule.name[letter], dim->name, (long long)dim->size, other->name,
                        (long long)other->size, axis);
    if (other && !strchr("*.", rule.name[letter][0]))
        weft_text_print(text,
                        "; if its kernels can do with a part of what belongs to one of the fewer, "
                        "say %s+ in the rule where there are more",
                        rule.name[letter]);
    if (!other)
        weft_text_print(text, "none of its indices can be cut by %s, which cuts %s", axis,
                        dim->name);
}

static void print(const weft_graph *g, const char *mode, const gather *r, weft_text *text)
{
    const weft_axis *axis = &g->config.mesh.axis[r->axis];
    weft_text_print(text, "warning: %s%s is gathered whole over %s for %s = %s (%s), ", mode,
                    r->from->name, axis->name, r->reader->outs[0]->name, r->reader->op->name,
                    r->reader->by);
    if (r->count > 1)
        weft_text_print(text, "one of %d such values, ", r->count);
    weft_print_bytes(text, r->bytes);
    weft_text_print(text, " a micro-batch, and its %d ranks compute the same: ", axis->size);
    print_reason(g, r, text);
    weft_text_add(text, "\n");
}

void weft_plan_print_gathers(const weft_plan *plan, weft_text *text)
{
    static const char *const modes[] = {"", "validation's ", "generated text's ", "decoding's "};
    for (int m = 0; m < WEFT_MODES; m++) {
        gather rows[ROWS];
        const weft_graph *g = plan->graphs[m];
        const int n = g ? collect(g, rows) : 0;
        for (int i = 0; i < n; i++)
            print(g, modes[m], &rows[i], text);
    }
}
