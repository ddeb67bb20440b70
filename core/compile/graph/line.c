/* SPDX-License-Identifier: Apache-2.0 */
/* One node as a line. */
#include "compile/graph/print.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANY = 6 }; /* longer lists are cut in what people read */

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

const char *weft_mode_name(weft_mode mode)
{
    static const char *const names[WEFT_MODES] = {"train", "evaluate", "generate", "decode"};
    return names[mode];
}

const char *weft_init_name(weft_init_kind kind)
{
    static const char *const names[] = {"zero", "one", "normal", "trunc_normal", "uniform"};
    return names[kind];
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

static void add_type(weft_liner *l, const weft_value *v, weft_text *t);

static void add_number(weft_liner *l, const weft_value *v, weft_text *t)
{
    const weft_node *n = v->node;
    weft_number *known = &l->numbers[v->id];
    if (known->section == l->n_sections) {
        weft_text_print(t, "%s%d", known->own ? "%" : "^", known->number);
    } else if (n->block == l->section->block && n->chunk == l->section->chunk) {
        const char *name = behind_block(v->name, n->block);
        add_chunkless(name ? name : v->name, n->chunk, t);
    } else if (n->block == WEFT_BLOCK_NONE && n->chunk < 0) {
        weft_text_add(t, v->name);
    } else {
        *known = (weft_number){l->n_sections, l->n_met++, false};
        weft_text_print(t, "^%d:", known->number);
        add_type(l, v, t);
    }
}

static void add_name(weft_liner *l, const weft_value *v, weft_text *t)
{
    if (l->naming == WEFT_NAMES_NUMBERED) {
        add_number(l, v, t);
        return;
    }
    const char *name = l->naming == WEFT_NAMES_SHORT && v->node->block == l->section->block
                           ? behind_block(v->name, v->node->block)
                           : NULL;
    weft_text_print(t, "%c%s", v->node->n_ins == 0 && v->weight ? '@' : '%', name ? name : v->name);
}

/* ---- types ---- */

static bool is_news(weft_liner *l, const weft_dim *d)
{
    for (int i = 0; i < l->n_known; i++)
        if (strcmp(l->known[i].name, d->name) == 0 && l->known[i].size == d->size)
            return false;
    if (l->n_known < (int)(sizeof l->known / sizeof l->known[0]))
        l->known[l->n_known++] = *d;
    return true;
}

static void add_dim(weft_liner *l, const weft_value *v, int d, weft_text *t)
{
    const weft_dim *dim = &v->dims[d];
    int list[WEFT_MAX_AXES], n = weft_layout_list(v->layout, d, list);
    weft_text_add(t, dim->name);
    for (int i = 0; i < n; i++) {
        bool fine = weft_layout_fine(v->layout, list[i]) && (l->sizes || dim->grain > 1);
        weft_text_print(t, "/%s%s", l->g->config.mesh.axis[list[i]].name, fine ? "!" : "");
    }
    if (!l->sizes && !is_news(l, dim))
        return;
    if (dim->grain > 1)
        weft_text_print(t, " %lld*%lld", (long long)(dim->size / dim->grain),
                        (long long)dim->grain);
    else
        weft_text_print(t, " %lld", (long long)dim->size);
}

static void add_type(weft_liner *l, const weft_value *v, weft_text *t)
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

void weft_print_real(weft_text *t, double x)
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
    if (l->naming == WEFT_NAMES_NUMBERED)
        return;
    const double numbers[] = {v->init.std, v->init.cut};
    int n = v->init.kind < WEFT_INIT_NORMAL ? 0 : v->init.kind == WEFT_INIT_TRUNC_NORMAL ? 2 : 1;
    weft_text_add(t, weft_init_name(v->init.kind));
    for (int i = 0; i < n; i++) {
        weft_text_add(t, " ");
        if (l->naming == WEFT_NAMES_SHORT)
            weft_text_print(t, "%.3g", numbers[i]);
        else
            weft_print_real(t, numbers[i]);
    }
}

/* Moments, most of all state, are said without a word. */
static void add_kind(const weft_liner *l, const weft_value *v, weft_text *t)
{
    bool begins = v->init.kind != WEFT_INIT_ZERO && l->naming != WEFT_NAMES_NUMBERED;
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
        if (l->naming == WEFT_NAMES_SHORT && n->n_ins > MANY && i == 2) {
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
            weft_print_real(t, a->r);
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
    if (n->why && l->naming != WEFT_NAMES_NUMBERED)
        weft_text_print(t, ", for %s", n->why);
}

/* ---- the line ---- */

void weft_line_begin(weft_liner *l, const weft_section *section)
{
    l->section = section;
    l->n_known = l->n_met = 0;
    l->n_sections++;
    int number = 0;
    for (int i = 0; i < section->n; i++)
        for (int r = 0; r < section->nodes[i]->n_outs; r++)
            l->numbers[section->nodes[i]->outs[r]->id] =
                (weft_number){l->n_sections, number++, true};
}

static void add_other_results(weft_liner *l, const weft_node *n, weft_text *t)
{
    for (int r = 1; r < n->n_outs; r++) {
        if (l->naming == WEFT_NAMES_SHORT && n->n_outs > MANY) {
            weft_text_print(t, "; ... %d more", n->n_outs - r);
            return;
        }
        weft_text_add(t, "; ");
        add_name(l, n->outs[r], t);
        weft_text_add(t, ": ");
        add_type(l, n->outs[r], t);
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
        add_type(l, n->outs[0], t);
        add_marks(l, n->outs[0], t);
        add_other_results(l, n, t);
    }
    at[2] = t->size;
    add_op(l, n, t);
    at[3] = t->size;
    add_right(l, n, t);
    at[4] = t->size;
}
