/* SPDX-License-Identifier: Apache-2.0 */
/* A graph as text, one line a node:   %g: bf16[batch 8, seq 2048, ffn/tp 14336] = linear(%n.r, @gate.c) {attr 1}   llama3 */
#include "graph/internal.h"

#include <string.h>

static char sigil(const weft_value *v)
{
    return v->node->n_ins == 0 && v->weight ? '@' : '%';
}

static void print_dims(const weft_graph *g, const weft_value *v, bool sizes, weft_text *t)
{
    weft_text_add(t, weft_dtype_name(v->dtype));
    weft_layout_print(&g->config.mesh, v->placed ? v->layout : (weft_layout){0}, v->n_dims, v->dims, sizes, t);
}

static void print_move(const weft_graph *g, const weft_node *n, weft_text *t)
{
    for (int i = n->n_steps - 1; i >= 0; i--) {
        const weft_step *s = &n->steps[i];
        weft_text_print(t, "%s%s[", i < n->n_steps - 1 ? " . " : "", weft_move_name(s->move));
        for (int k = 0; k < s->n_axes; k++)
            weft_text_print(t, "%s%s", k ? "," : "", g->config.mesh.axis[s->axes[k]].name);
        weft_text_add(t, "]");
    }
}

static void print_attrs(const weft_node *n, weft_text *t)
{
    for (int i = 0; i < n->n_attrs; i++) {
        const weft_attr *a = &n->attrs[i];
        weft_text_print(t, "%s%s ", i ? ", " : " {", a->key);
        if (a->kind == WEFT_ATTR_INT)
            weft_text_print(t, "%lld", (long long)a->i);
        else if (a->kind == WEFT_ATTR_REAL)
            weft_text_print(t, "%.17g!", a->r);
        else
            weft_text_add_json(t, a->text);
    }
    weft_text_add(t, n->n_attrs ? "}" : "");
}

static void print_node(const weft_graph *g, const weft_node *n, bool sizes, weft_text *t)
{
    size_t start = t->size;
    weft_text_add(t, "  ");
    for (int r = 0; r < n->n_outs; r++) {
        const weft_value *v = n->outs[r];
        weft_text_print(t, "%s%c%s: ", r ? "; " : "", sigil(v), v->name);
        print_dims(g, v, sizes, t);
        if (v->role)
            weft_text_print(t, " role %s", v->role);
        if (v->recompute)
            weft_text_add(t, " recompute");
        if (v->update_of)
            weft_text_print(t, " becomes @%s", v->update_of->name);
    }
    while (t->size - start < 64)
        weft_text_add(t, " ");
    weft_text_add(t, " = ");
    if (n->steps)
        print_move(g, n, t);
    else
        weft_text_add(t, n->op->name);
    weft_text_add(t, "(");
    for (int i = 0; i < n->n_ins; i++)
        weft_text_print(t, "%s%c%s", i ? ", " : "", sigil(n->ins[i]), n->ins[i]->name);
    if (n->like)
        weft_text_print(t, "; like %c%s", sigil(n->like), n->like->name);
    weft_text_add(t, ")");
    print_attrs(n, t);
    while (t->size - start < 118)
        weft_text_add(t, " ");
    weft_text_print(t, " by %s", n->by);
    if (n->why)
        weft_text_print(t, " for %s", n->why);
    weft_text_add(t, "\n");
}

const char *weft_scope_name(weft_scope s)
{
    static const char *const names[] = {"unplaced", "start", "step_begin", "micro_batch", "step_end"};
    return names[s];
}

const char *weft_phase_name(weft_phase p)
{
    static const char *const names[] = {"forward", "recompute", "backward", "update"};
    return names[p];
}

static void print_head(const weft_node *n, weft_text *t)
{
    weft_text_print(t, "%s %s", weft_scope_name(n->scope), weft_phase_name(n->phase));
    if (n->block >= 0)
        weft_text_print(t, " block %d", n->block);
    else if (n->block != WEFT_BLOCK_NONE)
        weft_text_print(t, " block %s", n->block == WEFT_BLOCK_EMBEDDING ? "embedding" : "head");
    if (n->chunk >= 0)
        weft_text_print(t, " chunk %d", n->chunk);
    weft_text_add(t, "\n");
}

void weft_graph_print(const weft_graph *g, bool sizes, weft_text *t)
{
    const weft_node *before = NULL;
    for (const weft_node *n = g->first; n; before = n, n = n->next) {
        if (!before || before->scope != n->scope || before->phase != n->phase || before->block != n->block || before->chunk != n->chunk)
            print_head(n, t);
        print_node(g, n, sizes, t);
    }
}
