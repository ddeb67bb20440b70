/* SPDX-License-Identifier: Apache-2.0 */
/* Which lines a graph's text has: sections of a block, each printed once where nobody needs it
 * twice. */
#include "compile/graph/print.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct printer {
    weft_liner liner;
    weft_section *sections;
    int n_sections;
    weft_node **nodes;
    weft_pool pool;
    weft_map forms; /* the first section of a structure, by its numbered lines */
    weft_text *out;
} printer;

/* ---- sections ---- */

static weft_phase direction(const weft_node *n)
{
    return n->phase == WEFT_RECOMPUTE ? WEFT_BACKWARD : n->phase;
}

static void add_to_section(printer *p, weft_node **at, weft_phase phase)
{
    const weft_node *n = *at;
    weft_section *s = p->n_sections ? &p->sections[p->n_sections - 1] : NULL;
    if (!s || s->block != n->block || s->chunk != n->chunk || s->phase != phase) {
        s = &p->sections[p->n_sections++];
        *s = (weft_section){n->block, n->chunk, phase, at, 0};
    }
    s->n++;
}

static bool is_input(const weft_node *n)
{
    return weft_node_is(n, WEFT_OP_INPUT);
}

/* People get the inputs first: where each is met would only tear the blocks apart. */
static void find_sections(printer *p, bool inputs_first)
{
    int n_nodes = 0;
    for (int pass = inputs_first ? 0 : 1; pass < 2; pass++)
        for (weft_node *n = p->liner.g->first; n; n = n->next) {
            if (inputs_first && is_input(n) != (pass == 0))
                continue;
            p->nodes[n_nodes] = n;
            add_to_section(p, &p->nodes[n_nodes++], pass ? direction(n) : WEFT_FORWARD);
        }
}

const char *weft_block_name(int block)
{
    return block == WEFT_BLOCK_EMBEDDING ? "embedding" : block == WEFT_BLOCK_HEAD ? "head" : NULL;
}

weft_block_words weft_block_describe(const char *before, int block)
{
    weft_block_words words = {""};
    if (weft_block_name(block))
        snprintf(words.text, sizeof words.text, "%sthe %s", before, weft_block_name(block));
    else if (block >= 0)
        snprintf(words.text, sizeof words.text, "%sblock %d", before, block);
    return words;
}

static void print_place(const weft_section *s, weft_text *t)
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

static void print_direction(const weft_section *s, weft_text *t)
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

static bool print_lines(printer *p, const weft_section *s, weft_text *t)
{
    columns c = {.n = s->n, .at = weft_alloc((size_t)s->n * sizeof *c.at)};
    if (!c.at)
        return false;
    weft_line_begin(&p->liner, s);
    for (int i = 0; i < s->n; i++)
        weft_line_print(&p->liner, s->nodes[i], &c.text, c.at[i]);
    bool there = !c.text.out_of_memory;
    if (there)
        print_columns(&c, t);
    weft_text_release(&c.text);
    weft_free(c.at);
    return there;
}

static bool print_section(printer *p, const weft_section *s)
{
    print_place(s, p->out);
    print_direction(s, p->out);
    return print_lines(p, s, p->out);
}

/* ---- equal sections ---- */

/* Sections in a row that are as an earlier one; their numbers go up or down by one. */
typedef struct fold {
    const weft_section *as, *first, *last;
} fold;

enum { MAX_FOLDS = 8 };

static int number_of(const weft_section *s)
{
    return s->chunk >= 0 ? s->chunk : s->block;
}

static void print_fold(const fold *f, weft_text *t)
{
    const char *what = f->as->chunk >= 0 ? "chunk" : "block";
    int from = number_of(f->first), to = number_of(f->last);
    if (f->as->chunk >= 0)
        weft_text_print(t, "%s, ",
                        weft_block_name(f->as->block) ? weft_block_name(f->as->block) : "common");
    if (from == to)
        weft_text_print(t, "%s %d as %s %d", what, from, what, number_of(f->as));
    else
        weft_text_print(t, "%ss %d..%d as %s %d", what, from, to, what, number_of(f->as));
    print_direction(f->as, t);
}

static bool may_follow(const fold *f, const weft_section *as, const weft_section *s)
{
    int step = number_of(s) - number_of(f->last), before = number_of(f->last) - number_of(f->first);
    return f->as == as && ((step == 1 && before >= 0) || (step == -1 && before <= 0));
}

static void flush(fold *folds, int *n, weft_text *t)
{
    for (int i = 0; i < *n; i++)
        print_fold(&folds[i], t);
    *n = 0;
}

/* The first section of the same structure; s itself if it is the first; NULL when out of memory. */
static const weft_section *find_form(printer *p, const weft_section *s)
{
    weft_liner numbered = p->liner;
    numbered.naming = WEFT_NAMES_NUMBERED;
    numbered.sizes = true;
    weft_text form = {0};
    size_t at[WEFT_CELLS + 1];
    weft_text_print(&form, "%d %d %d\n", s->block < 0 ? s->block : 0, s->chunk >= 0, (int)s->phase);
    weft_line_begin(&numbered, s);
    for (int i = 0; i < s->n; i++) {
        weft_line_print(&numbered, s->nodes[i], &form, at);
        weft_text_add(&form, "\n");
    }
    p->liner.n_sections = numbered.n_sections;
    const weft_section *known =
        form.out_of_memory ? NULL : weft_map_get(&p->forms, form.data, form.size);
    if (!known && !form.out_of_memory &&
        weft_map_set(&p->forms, &p->pool, form.data, form.size, (void *)(uintptr_t)s))
        known = s;
    weft_text_release(&form);
    return known;
}

static bool print_once(printer *p)
{
    fold folds[MAX_FOLDS];
    int n = 0;
    for (int i = 0; i < p->n_sections; i++) {
        const weft_section *s = &p->sections[i],
                           *as = s->block >= 0 || s->chunk >= 0 ? find_form(p, s) : s;
        if (!as)
            return false;
        if (as == s) {
            flush(folds, &n, p->out);
            if (!print_section(p, s))
                return false;
            continue;
        }
        int k = 0;
        while (k < n && !may_follow(&folds[k], as, s))
            k++;
        if (k == MAX_FOLDS) {
            flush(folds, &n, p->out);
            k = 0;
        }
        if (k == n)
            folds[n++] = (fold){as, s, s};
        folds[k].last = s;
    }
    flush(folds, &n, p->out);
    return true;
}

/* ---- the whole ---- */

static void print_head(const weft_graph *g, weft_text *t)
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
    static const char *const of[] = {"parameters", "inputs", "role"};
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

static void print_roots(const weft_graph *g, bool gradients, weft_text *t)
{
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

static bool print_all(printer *p)
{
    for (int i = 0; i < p->n_sections; i++)
        if (!print_section(p, &p->sections[i]))
            return false;
    return true;
}

void weft_graph_print(const weft_graph *g, unsigned how, weft_text *t)
{
    bool whole = how & WEFT_PRINT_WHOLE;
    printer p = {.out = t};
    p.liner = (weft_liner){
        .g = g, .naming = whole ? WEFT_NAMES_WHOLE : WEFT_NAMES_SHORT, .sizes = how != 0};
    size_t n_nodes = 1;
    for (const weft_node *n = g->first; n; n = n->next)
        n_nodes++;
    p.nodes = weft_alloc(n_nodes * sizeof *p.nodes);
    p.sections = weft_alloc(n_nodes * sizeof *p.sections);
    p.liner.numbers = weft_alloc_zero((size_t)g->n_values + 1, sizeof *p.liner.numbers);
    bool there = p.nodes && p.sections && p.liner.numbers;
    if (there) {
        print_head(g, t);
        if (!whole)
            weft_text_add(t, "# @ parameter or state, % value, x' gradient of x, x* x computed "
                             "again; ~ not kept for the backward; dim/axis: cut by the axis, "
                             "+axis: open sum over it\n");
        find_sections(&p, !whole);
        there = whole ? print_all(&p) : print_once(&p);
        print_table(g, t);
        print_roots(g, whole, t);
    }
    t->out_of_memory = t->out_of_memory || !there;
    weft_pool_release(&p.pool);
    weft_free(p.nodes);
    weft_free(p.sections);
    weft_free(p.liner.numbers);
}
