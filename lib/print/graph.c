/* SPDX-License-Identifier: Apache-2.0 */
#include "print/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANY = 6 }; /* longer lists are cut where that is wished */

/* ---- names ---- */

const char *weft_scope_name(weft_scope s)
{
    static const char *const names[] = {"unplaced", "start", "step_begin", "micro_batch",
                                        "step_end"};
    return names[s];
}

const char *weft_phase_name(weft_phase p)
{
    static const char *const names[] = {"forward", "recompute", "backward", "update"};
    return names[p];
}

const char *weft_init_name(weft_init_kind kind)
{
    static const char *const names[] = {"zero", "one", "normal", "trunc_normal", "uniform"};
    return names[kind];
}

static void add_name(weft_liner *l, const weft_value *v, weft_text *t)
{
    if (l->name)
        l->name(l, v, t);
    else
        weft_text_print(t, "%c%s", v->node->n_ins == 0 && v->weight ? '@' : '%', v->name);
}

/* ---- types ---- */

static void add_dim(weft_liner *l, const weft_value *v, int d, weft_text *t)
{
    const weft_dim *dim = &v->dims[d];
    int list[WEFT_MAX_AXES], n = weft_layout_list(v->layout, d, list);
    weft_text_add(t, dim->name);
    for (int i = 0; i < n; i++) {
        bool fine = weft_layout_fine(v->layout, list[i]) && (!l->says_size || dim->grain > 1);
        weft_text_print(t, "/%s%s", l->g->config.mesh.axis[list[i]].name, fine ? "!" : "");
    }
    if (l->says_size && !l->says_size(l, dim))
        return;
    if (dim->grain > 1)
        weft_text_print(t, " %lld*%lld", (long long)(dim->size / dim->grain),
                        (long long)dim->grain);
    else
        weft_text_print(t, " %lld", (long long)dim->size);
}

void weft_value_print_type(weft_liner *l, const weft_value *v, weft_text *t)
{
    weft_text_print(t, "%s[", weft_dtype_name(v->dtype));
    for (int d = 0; d < v->n_dims; d++) {
        weft_text_add(t, d ? ", " : "");
        add_dim(l, v, d, t);
    }
    weft_text_add(t, "]");
    for (int a = 0; a < l->g->config.mesh.n_axes; a++) {
        if (weft_layout_open(v->layout, a))
            weft_text_print(t, " %s+%s",
                            weft_layout_open(v->layout, a) == WEFT_OPEN_MAX ? "max" : "",
                            l->g->config.mesh.axis[a].name);
        if (weft_layout_at(v->layout, a) >= 0)
            weft_text_print(t, " @%s=%d", l->g->config.mesh.axis[a].name,
                            weft_layout_at(v->layout, a));
    }
    if (v->turn)
        weft_text_print(t, " >%s:%d", v->dims[v->turn_dim].name, v->turn);
}

static void add_marks(weft_liner *l, const weft_value *v, weft_text *t)
{
    if (v->recompute)
        weft_text_add(t, " ~");
    if (v->role)
        weft_text_print(t, " (%s)", v->role);
    if (v->frozen)
        weft_text_add(t, " frozen");
    if (v->fetch)
        weft_text_add(t, " fetched");
    if (v->update_of) {
        weft_text_add(t, " becomes ");
        add_name(l, v->update_of, t);
    }
}

/* ---- the op ---- */

void weft_print_steps(const weft_mesh *mesh, const weft_step *steps, int n_steps, weft_text *t)
{
    for (int i = n_steps - 1; i >= 0; i--) {
        weft_text_print(t, "%s[", weft_move_name(steps[i].move));
        for (int k = 0; k < steps[i].n_axes; k++)
            weft_text_print(t, "%s%s", k ? "," : "", mesh->axis[steps[i].axes[k]].name);
        weft_text_add(t, i ? "] . " : "]");
    }
}

/* The shortest text that reads back as the same number; never looks like an integer. */
static void print_real(weft_text *t, double x)
{
    char digits[40];
    for (int precision = 6; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, x);
        if (strtod(digits, NULL) == x)
            break;
    }
    weft_text_print(t, "%s%s", digits, strpbrk(digits, ".eni") ? "" : ".0");
}

/* Blocks that differ only in how their parameters begin are equal. */
static void add_init(const weft_liner *l, const weft_value *v, weft_text *t)
{
    if (l->alike)
        return;
    const double numbers[] = {v->init.std, v->init.cut};
    int n = v->init.kind < WEFT_INIT_NORMAL ? 0 : v->init.kind == WEFT_INIT_TRUNC_NORMAL ? 2 : 1;
    weft_text_add(t, weft_init_name(v->init.kind));
    for (int i = 0; i < n; i++) {
        weft_text_add(t, " ");
        if (l->brief)
            weft_text_print(t, "%.3g", numbers[i]);
        else
            print_real(t, numbers[i]);
    }
}

/* Moments, most of all state, are said without a word. */
static void add_kind(const weft_liner *l, const weft_value *v, weft_text *t)
{
    bool begins = v->init.kind != WEFT_INIT_ZERO && !l->alike;
    if (v->kind != WEFT_STATE_OPTIMIZER || begins)
        weft_text_add(t, weft_state_kind_name(v->kind));
    if (!begins)
        return;
    weft_text_add(t, " ");
    add_init(l, v, t);
}

static void add_operands(weft_liner *l, const weft_node *n, weft_text *t)
{
    for (int i = 0; i < n->n_ins; i++) {
        if (l->brief && n->n_ins > MANY && i == 2) {
            weft_text_print(t, ", ... %d more", n->n_ins - i);
            break;
        }
        weft_text_add(t, i ? ", " : "");
        add_name(l, n->ins[i], t);
    }
    if (n->like) {
        weft_text_add(t, "; like ");
        add_name(l, n->like, t);
    }
}

static void add_attrs(const weft_node *n, weft_text *t)
{
    for (int i = 0; i < n->n_attrs; i++) {
        const weft_attr *a = &n->attrs[i];
        weft_text_print(t, "%s%s ", i ? ", " : " {", a->key);
        if (a->kind == WEFT_ATTR_INT)
            weft_text_print(t, "%lld", (long long)a->i);
        else if (a->kind == WEFT_ATTR_REAL)
            print_real(t, a->r);
        else
            weft_text_add_json(t, a->text);
    }
    weft_text_add(t, n->n_attrs ? "}" : "");
}

static void add_op(weft_liner *l, const weft_node *n, weft_text *t)
{
    weft_text_add(t, "= ");
    if (n->steps)
        weft_print_steps(&l->g->config.mesh, n->steps, n->n_steps, t);
    else
        weft_text_add(t, n->op->name);
    weft_text_add(t, "(");
    if (weft_node_is(n, WEFT_OP_PARAMETER))
        add_init(l, n->outs[0], t);
    else if (weft_node_is(n, WEFT_OP_STATE))
        add_kind(l, n->outs[0], t);
    add_operands(l, n, t);
    weft_text_add(t, ")");
    add_attrs(n, t);
}

static void add_right(const weft_liner *l, const weft_node *n, weft_text *t)
{
    weft_text_add(t, n->by);
    if (n->scope != (l->g->placed ? WEFT_MICRO_BATCH : WEFT_SCOPE_NONE))
        weft_text_print(t, ", %s", weft_scope_name(n->scope));
    if (n->phase == WEFT_RECOMPUTE)
        weft_text_add(t, ", again");
    if (n->why && !l->alike)
        weft_text_print(t, ", for %s", n->why);
}

/* ---- the line ---- */

static void add_other_results(weft_liner *l, const weft_node *n, weft_text *t)
{
    for (int r = 1; r < n->n_outs; r++) {
        if (l->brief && n->n_outs > MANY) {
            weft_text_print(t, "; ... %d more", n->n_outs - r);
            return;
        }
        weft_text_add(t, "; ");
        add_name(l, n->outs[r], t);
        weft_text_add(t, ": ");
        weft_value_print_type(l, n->outs[r], t);
        add_marks(l, n->outs[r], t);
    }
}

void weft_line_print(weft_liner *l, const weft_node *n, weft_text *t, size_t at[WEFT_CELLS + 1])
{
    at[0] = t->size;
    if (n->n_outs) {
        add_name(l, n->outs[0], t);
        weft_text_add(t, ":");
    } else {
        weft_text_add(t, "-");
    }
    at[1] = t->size;
    if (n->n_outs) {
        weft_value_print_type(l, n->outs[0], t);
        add_marks(l, n->outs[0], t);
        add_other_results(l, n, t);
    }
    at[2] = t->size;
    add_op(l, n, t);
    at[3] = t->size;
    add_right(l, n, t);
    at[4] = t->size;
}

/* ---- sections ---- */

static weft_phase direction(const weft_node *n)
{
    return n->phase == WEFT_RECOMPUTE ? WEFT_BACKWARD : n->phase;
}

static void add_to_section(weft_graph_sections *to, weft_node **at, weft_phase phase)
{
    const weft_node *n = *at;
    weft_graph_section *s = to->n ? &to->list[to->n - 1] : NULL;
    if (!s || s->block != n->block || s->chunk != n->chunk || s->phase != phase) {
        s = &to->list[to->n++];
        *s = (weft_graph_section){n->block, n->chunk, phase, at, 0};
    }
    s->n++;
}

bool weft_sections_init(weft_graph_sections *sections, const weft_graph *g, bool inputs_first)
{
    size_t n_nodes = 1;
    for (const weft_node *n = g->first; n; n = n->next)
        n_nodes++;
    *sections = (weft_graph_sections){weft_alloc(n_nodes * sizeof *sections->nodes),
                                      weft_alloc(n_nodes * sizeof *sections->list), 0};
    if (!sections->nodes || !sections->list)
        return false;
    weft_node **at = sections->nodes;
    for (int pass = inputs_first ? 0 : 1; pass < 2; pass++)
        for (weft_node *n = g->first; n; n = n->next) {
            if (inputs_first && weft_node_is(n, WEFT_OP_INPUT) != (pass == 0))
                continue;
            *at = n;
            add_to_section(sections, at++, pass ? direction(n) : WEFT_FORWARD);
        }
    return true;
}

void weft_sections_release(weft_graph_sections *sections)
{
    weft_free(sections->nodes);
    weft_free(sections->list);
}

static void print_place(const weft_graph_section *s, weft_text *t)
{
    if (weft_block_name(s->block))
        weft_text_add(t, weft_block_name(s->block));
    else if (s->block >= 0)
        weft_text_print(t, "block %d", s->block);
    else
        weft_text_add(t, "common");
    if (s->chunk >= 0)
        weft_text_print(t, ", chunk %d", s->chunk);
}

void weft_section_print_direction(const weft_graph_section *s, weft_text *t)
{
    if (s->phase != WEFT_FORWARD)
        weft_text_print(t, ", %s", weft_phase_name(s->phase));
    weft_text_add(t, "\n");
}

/* ---- lines in columns ---- */

typedef struct columns {
    weft_text text;
    size_t (*at)[WEFT_CELLS + 1];
    int n;
} columns;

static void pad(weft_text *t, size_t n)
{
    for (; n > 0; n--)
        weft_text_add(t, " ");
}

static void print_columns(const columns *c, weft_text *t)
{
    static const size_t most[WEFT_CELLS] = {34, 56, 60, 0};
    size_t width[WEFT_CELLS] = {0};
    for (int i = 0; i < c->n; i++)
        for (int k = 0; k < WEFT_CELLS; k++) {
            size_t size = c->at[i][k + 1] - c->at[i][k];
            bool several = k == 1 && memchr(weft_text_get(&c->text) + c->at[i][k], ';', size);
            if (size <= most[k] && size > width[k] && !several)
                width[k] = size;
        }
    for (int i = 0; i < c->n; i++) {
        size_t start = t->size, column = 2;
        weft_text_add(t, " ");
        for (int k = 0; k < WEFT_CELLS; k++) {
            size_t used = t->size - start;
            pad(t,
                used < column ? column - used : 1); /* a long cell takes from the next one's room */
            weft_text_add_bytes(t, weft_text_get(&c->text) + c->at[i][k],
                                c->at[i][k + 1] - c->at[i][k]);
            column += width[k] + 1 + (k == 2);
        }
        weft_text_add(t, "\n");
    }
}

static bool print_lines(weft_liner *l, const weft_graph_section *s, weft_text *t)
{
    columns c = {.n = s->n, .at = weft_alloc((size_t)s->n * sizeof *c.at)};
    if (!c.at)
        return false;
    for (int i = 0; i < s->n; i++)
        weft_line_print(l, s->nodes[i], &c.text, c.at[i]);
    bool there = !c.text.out_of_memory;
    if (there)
        print_columns(&c, t);
    weft_text_release(&c.text);
    weft_free(c.at);
    return there;
}

bool weft_section_print(weft_liner *l, const weft_graph_section *s, weft_text *t)
{
    print_place(s, t);
    weft_section_print_direction(s, t);
    return print_lines(l, s, t);
}

/* ---- the whole ---- */

void weft_graph_print_head(const weft_graph *g, weft_text *t)
{
    const weft_mesh *mesh = &g->config.mesh;
    weft_text_print(t, "graph %s%s%s", weft_mode_name(g->config.mode), g->placed ? " placed" : "",
                    mesh->n_axes ? " on" : "");
    for (int a = 0; a < mesh->n_axes; a++)
        weft_text_print(t, " %s %d", mesh->axis[a].name, mesh->axis[a].size);
    weft_text_add(t, "\n");
}

static void print_stage(const weft_graph *g, int block, weft_text *t)
{
    weft_text_print(t, "  stage/%s %d of ", g->stages_axis, weft_graph_stage_of(g, block));
    if (block < 0)
        weft_text_add(t, weft_block_name(block));
    else
        weft_text_print(t, "block %d", block);
    weft_text_print(t, ", %s\n", g->stages_by);
}

static void print_table(const weft_graph *g, weft_text *t)
{
    static const char *const of[] = {"parameters", "inputs", "role", "value"};
    if (g->n_table || g->n_storage || g->regather || weft_graph_stage_axis(g) >= 0)
        weft_text_add(t, "table\n");
    for (int i = 0; i < g->n_table; i++) {
        const weft_table_line *line = g->table[i];
        if (line->axis < 0)
            continue;
        weft_text_print(t, "  %s/%s of %s%s%s, %s\n", line->dim ? line->dim : "whole",
                        g->config.mesh.axis[line->axis].name, of[line->of],
                        line->pattern ? " " : "", line->pattern ? line->pattern : "", line->by);
    }
    for (int i = 0; i < g->n_storage; i++)
        weft_text_print(t, "  storage/%s, %s\n", g->config.mesh.axis[g->storage[i]].name,
                        g->storage_by[i]);
    for (int a = 0; a < g->config.mesh.n_axes; a++)
        if (g->regather >> a & 1u)
            weft_text_print(t, "  regather/%s, %s\n", g->config.mesh.axis[a].name, g->regather_by);
    for (int b = WEFT_BLOCK_HEAD; b < g->n_blocks && weft_graph_stage_axis(g) >= 0; b++)
        if (b != WEFT_BLOCK_NONE && weft_graph_stage_of(g, b) > 0)
            print_stage(g, b, t);
}

static void print_root(const char *what, const weft_value *v, weft_text *t)
{
    if (v)
        weft_text_print(t, "  %s %%%s\n", what, v->name);
}

void weft_graph_print_end(const weft_graph *g, bool gradients, weft_text *t)
{
    print_table(g, t);
    weft_text_add(t, "roots\n");
    print_root("loss", g->loss, t);
    print_root("loss_report", g->loss_report, t);
    print_root("loss_sum", g->loss_sum, t);
    print_root("tokens", g->tokens, t);
    print_root("logits", g->logits, t);
    for (int i = 0; i < g->n_terms && weft_loss_has_terms(g); i++)
        weft_text_print(t, "  term %s %%%s\n", g->terms[i]->name, g->terms[i]->value->name);
    for (int i = 0; i < g->n_reports; i++)
        weft_text_print(t, "  report %s %%%s\n", g->reports[i].name, g->reports[i].value->name);
    for (int i = 0; gradients && i < g->n_parameters; i++)
        if (g->parameters[i]->gradient)
            weft_text_print(t, "  gradient %%%s of @%s\n", g->parameters[i]->gradient->name,
                            g->parameters[i]->name);
}

void weft_graph_print_whole(const weft_graph *g, weft_text *t)
{
    weft_liner liner = {.g = g};
    weft_graph_sections sections;
    bool there = weft_sections_init(&sections, g, false);
    weft_graph_print_head(g, t);
    for (int i = 0; there && i < sections.n; i++)
        there = weft_section_print(&liner, &sections.list[i], t);
    weft_graph_print_end(g, true, t);
    t->out_of_memory = t->out_of_memory || !there;
    weft_sections_release(&sections);
}
