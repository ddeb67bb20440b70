/* SPDX-License-Identifier: Apache-2.0 */
/* What people read of a graph: short names, long lists cut, each section printed once where nobody
 * needs it twice. */
#include "print/graph.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

typedef struct label {
    int section, number; /* section: 1 + the one that it counts in */
    bool own;
} label;

typedef struct printer {
    weft_liner liner; /* first: what its functions get */
    weft_graph_sections sections;
    const weft_graph_section *section;
    label *labels; /* by value id */
    int n_sections, n_met;
    weft_dim known[16];
    int n_known;
    weft_pool pool;
    weft_map forms; /* the first section of a structure, by its numbered lines */
    weft_text *out;
} printer;

/* Starts a section: what is known and numbered is that of this one. */
static void begin_section(printer *p, const weft_graph_section *section)
{
    p->section = section;
    p->n_known = p->n_met = 0;
    p->n_sections++;
    int n = 0;
    for (int i = 0; i < section->n; i++)
        for (int r = 0; r < section->nodes[i]->n_outs; r++)
            p->labels[section->nodes[i]->outs[r]->id] = (label){p->n_sections, n++, true};
}

/* ---- names ---- */

/* What follows the block's number in a name: "model.layers.3.mlp.up" and "b3.mlp.up" are "mlp.up"
 * in block 3. NULL: the name does not say a block. */
static const char *behind_block(const char *name, int block)
{
    for (const char *p = name; block >= 0 && *p; p++) {
        if (!isdigit((unsigned char)*p) || (p > name && isdigit((unsigned char)p[-1])))
            continue;
        char *end;
        long number = strtol(p, &end, 10);
        if (number == block && *end == '.' && end[1])
            return end + 1;
    }
    return NULL;
}

/* The name without the first ".7" that says its chunk. */
static void add_chunkless(const char *name, int chunk, weft_text *t)
{
    for (const char *p = strchr(name, '.'); p && chunk >= 0; p = strchr(p + 1, '.')) {
        char *end;
        if (!isdigit((unsigned char)p[1]) || strtol(p + 1, &end, 10) != chunk)
            continue;
        weft_text_add_bytes(t, name, (size_t)(p - name));
        name = end;
        break;
    }
    weft_text_add(t, name);
}

/* Equal for sections of equal structure: own values by number, other blocks' in the order in which
 * they are met. */
static void add_number(weft_liner *l, const weft_value *v, weft_text *t)
{
    printer *p = (printer *)l;
    const weft_node *n = v->node;
    label *known = &p->labels[v->id];
    if (known->section == p->n_sections) {
        weft_text_print(t, "%s%d", known->own ? "%" : "^", known->number);
    } else if (n->block == p->section->block && n->chunk == p->section->chunk) {
        const char *name = behind_block(v->name, n->block);
        add_chunkless(name ? name : v->name, n->chunk, t);
    } else if (n->block == WEFT_BLOCK_NONE && n->chunk < 0) {
        weft_text_add(t, v->name);
    } else {
        *known = (label){p->n_sections, p->n_met++, false};
        weft_text_print(t, "^%d:", known->number);
        weft_value_print_type(l, v, t);
    }
}

/* Without what says the block. */
static void add_short(weft_liner *l, const weft_value *v, weft_text *t)
{
    const printer *p = (const printer *)l;
    const char *name =
        v->node->block == p->section->block ? behind_block(v->name, v->node->block) : NULL;
    weft_text_print(t, "%c%s", v->node->n_ins == 0 && v->weight ? '@' : '%', name ? name : v->name);
}

/* A size is said where its dim is met first in a section. */
static bool is_news(weft_liner *l, const weft_dim *d)
{
    printer *p = (printer *)l;
    for (int i = 0; i < p->n_known; i++)
        if (strcmp(p->known[i].name, d->name) == 0 && p->known[i].size == d->size)
            return false;
    if (p->n_known < (int)(sizeof p->known / sizeof p->known[0]))
        p->known[p->n_known++] = *d;
    return true;
}

/* ---- sections, once ---- */

static bool print_section(printer *p, const weft_graph_section *s)
{
    begin_section(p, s);
    return weft_section_print(&p->liner, s, p->out);
}

/* Sections in a row that are as an earlier one; their numbers go up or down by one. */
typedef struct fold {
    const weft_graph_section *as, *first, *last;
} fold;

enum { MAX_FOLDS = 8 };

static int number_of(const weft_graph_section *s)
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
    weft_section_print_direction(f->as, t);
}

static bool may_follow(const fold *f, const weft_graph_section *as, const weft_graph_section *s)
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
static const weft_graph_section *find_form(printer *p, const weft_graph_section *s)
{
    const weft_liner people = p->liner;
    p->liner = (weft_liner){.g = people.g, .name = add_number, .alike = true};
    weft_text form = {0};
    size_t at[WEFT_CELLS + 1];
    weft_text_print(&form, "%d %d %d\n", s->block < 0 ? s->block : 0, s->chunk >= 0, (int)s->phase);
    begin_section(p, s);
    for (int i = 0; i < s->n; i++) {
        weft_line_print(&p->liner, s->nodes[i], &form, at);
        weft_text_add(&form, "\n");
    }
    p->liner = people;
    const weft_graph_section *known =
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
    for (int i = 0; i < p->sections.n; i++) {
        const weft_graph_section *s = &p->sections.list[i],
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

static void print_for_people(const weft_graph *g, bool sizes, weft_text *t)
{
    printer p = {
        .liner = {.g = g, .name = add_short, .says_size = sizes ? NULL : is_news, .brief = true},
        .labels = weft_alloc_zero((size_t)g->n_values + 1, sizeof *p.labels),
        .out = t};
    bool there = weft_sections_init(&p.sections, g, true) && p.labels;
    weft_graph_print_head(g, t);
    weft_text_add(t, "# @ parameter or state, % value, x' gradient of x, x* x computed "
                     "again; ~ not kept for the backward; dim/axis: cut by the axis, "
                     "+axis: open sum over it\n");
    there = there && print_once(&p);
    weft_graph_print_end(g, false, t);
    t->out_of_memory = t->out_of_memory || !there;
    weft_pool_release(&p.pool);
    weft_sections_release(&p.sections);
    weft_free(p.labels);
}

void weft_graph_print(const weft_graph *g, unsigned how, weft_text *t)
{
    if (how & WEFT_PRINT_WHOLE)
        weft_graph_print_whole(g, t);
    else
        print_for_people(g, how & WEFT_PRINT_SIZES, t);
}
