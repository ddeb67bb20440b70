/* SPDX-License-Identifier: Apache-2.0 */
/* The pass over a model's graph: which linears compute in 8 bits, and what replaces them. */
#include "float8.h"

#include <fnmatch.h>
#include <stdio.h>
#include <string.h>

const char *const f8_recipes[] = {"tensorwise", "delayed", "rowwise", "rowwise_gw_hp", NULL};

/* ---- which ---- */

/* Why linears are left as they are; the first few of each by name. */
enum { OF_HEAD, NAMED, KEEPS, MISFITS, REASONS, FEW = 4 };

typedef struct tally {
    int n;
    const char *last; /* the weight counted last: parts of the head share one */
    char names[256];
} tally;

typedef struct job {
    weft_graph *g;
    const weft_params *p;
    bool late; /* behind gathers: rowwise */
    int replaced[F8_RECIPES], gathered_wide;
    tally left[REASONS];
} job;

static bool is_linear(const weft_node *n)
{
    return weft_node_in(n, "linear") && weft_node_is(n, WEFT_OP_MATMUL) && n->n_ins == 2 &&
           n->n_outs == 1 && n->ins[F8_W]->weight && !n->ins[F8_X]->weight &&
           n->phase == WEFT_FORWARD && !weft_get_mark(n, WEFT_MARK_EXACT);
}

static f8_recipe find_recipe(const char *name)
{
    int i = 0;
    while (i < F8_RECIPES && strcmp(f8_recipes[i], name) != 0)
        i++;
    return (f8_recipe)i;
}

/* "PATTERN=RECIPE": the recipe; F8_RECIPES if it is for others. */
static f8_recipe exception(const char *word, const char *weight)
{
    const char *equals = strrchr(word, '=');
    char *pattern = equals ? weft_format("%.*s", (int)(equals - word), word) : NULL;
    bool fits = pattern && fnmatch(pattern, weight, 0) == 0;
    weft_free(pattern);
    return fits ? find_recipe(equals + 1) : F8_RECIPES;
}

static f8_recipe recipe_of(const weft_params *p, const char *weight)
{
    const char *word;
    for (int i = 0; (word = weft_params_word(p, "recipe_of", i)); i++) {
        f8_recipe r = exception(word, weight);
        if (r != F8_RECIPES)
            return r;
    }
    return find_recipe(weft_params_text(p, "recipe"));
}

weft_status f8_check_recipes(const weft_params *p, weft_error *err)
{
    const char *word;
    weft_status s = WEFT_OK;
    for (int i = 0; (word = weft_params_word(p, "recipe_of", i)); i++) {
        const char *equals = strrchr(word, '=');
        if (!equals || equals == word || find_recipe(equals + 1) == F8_RECIPES)
            s = weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p, "recipe_of"),
                          "[float8] recipe_of: '%s' is not PATTERN=RECIPE; recipes are "
                          "tensorwise, delayed, rowwise and rowwise_gw_hp",
                          word);
    }
    return s;
}

static bool is_named(const weft_params *p, const char *weight)
{
    const char *pattern;
    for (int i = 0; (pattern = weft_params_word(p, "filter", i)); i++)
        if (fnmatch(pattern, weight, 0) == 0)
            return true;
    return false;
}

/* The product of the dims that are contracted, or of those that are not, of the whole weight. */
static int64_t extent(const weft_node *n, bool contracted)
{
    const weft_value *x = n->ins[F8_X], *w = n->ins[F8_W];
    int64_t size = 1;
    for (int d = 0; d < w->n_dims; d++) {
        bool shared = false;
        for (int k = 0; k < x->n_dims; k++)
            shared = shared || strcmp(w->dims[d].name, x->dims[k].name) == 0;
        size *= shared == contracted ? w->dims[d].size : 1;
    }
    return size;
}

static int why_left(const job *j, const weft_node *n, const char *weight)
{
    int64_t multiple = weft_params_int(j->p, "multiple");
    if (n->block == WEFT_BLOCK_HEAD && !weft_params_bool(j->p, "head"))
        return OF_HEAD;
    if (is_named(j->p, weight))
        return NAMED;
    if (weft_node_has(n, "each"))
        return KEEPS;
    return extent(n, true) % multiple || extent(n, false) % multiple ? MISFITS : REASONS;
}

static void count(tally *t, const weft_node *n, const char *weight)
{
    size_t used = strlen(t->names);
    if (t->last && strcmp(t->last, weight) == 0)
        return;
    t->last = weight;
    if (t->n++ < FEW)
        snprintf(t->names + used, sizeof t->names - used, "%s%s (%lld x %lld)", used ? ", " : "",
                 weight, (long long)extent(n, false), (long long)extent(n, true));
}

/* ---- replaced ---- */

static bool uses_power_of_two(const weft_params *p, f8_recipe r)
{
    if (weft_params_is(p, "power_of_two", "auto"))
        return r == F8_ROWWISE || r == F8_ROWWISE_GW_HP;
    return weft_params_is(p, "power_of_two", "yes");
}

static weft_value *delayed_x(const job *j, const f8_build *b, weft_node *n, const char *weight,
                             weft_value **scale)
{
    weft_value *x = n->ins[F8_X];
    char name[512];
    for (int i = 0; i < x->n_uses; i++) /* others read it, too: one history, one value */
        if (f8_is(x->uses[i].node, &f8_op_quantise) && x->uses[i].operand == 0 &&
            weft_node_is(x->uses[i].node->ins[1]->node, WEFT_OP_STATE)) {
            *scale = x->uses[i].node->ins[1];
            return x->uses[i].node->outs[0];
        }
    *scale = f8_history(j->g, j->p, weight, "x", name, sizeof name);
    weft_graph_set_chunk(j->g, -1);
    if (weft_graph_mode(j->g) == WEFT_MODE_TRAIN)
        f8_whole_amax(b, x, name);
    weft_graph_at(j->g, n);
    return f8_quantise(b, x, *scale, WEFT_F8E4M3);
}

static weft_value *tensorwise_x(const job *j, const f8_build *b, weft_node *n, weft_value **scale)
{
    weft_graph_set_chunk(j->g, -1);
    *scale = f8_scale(b, f8_whole_amax(b, n->ins[F8_X], NULL), WEFT_F8E4M3);
    weft_graph_at(j->g, n);
    return f8_quantise(b, n->ins[F8_X], *scale, WEFT_F8E4M3);
}

/* What only the backward reads. */
static weft_value *back_scale(const job *j, const f8_build *b, const weft_node *n, f8_recipe r,
                              const char *weight, char *name, size_t size)
{
    f8_names keep;
    if (weft_graph_mode(j->g) != WEFT_MODE_TRAIN || r == F8_TENSORWISE)
        return NULL;
    if (r == F8_DELAYED && f8_is_part(n))
        return NULL;
    if (r == F8_DELAYED)
        return f8_history(j->g, j->p, weight, "dy", name, size);
    f8_dims(n->ins[F8_W], n->ins[F8_X], true, &keep);
    return f8_weight_scale(b, n->ins[F8_W], r == F8_ROWWISE ? keep.text : "");
}

static weft_value *product(const job *j, const weft_node *n, f8_recipe r, weft_value *const *ins,
                           const char *history)
{
    const weft_attr attrs[] = {
        {.key = "recipe", .kind = WEFT_ATTR_TEXT, .text = f8_recipes[r]},
        {.key = "power_of_two", .kind = WEFT_ATTR_INT, .i = uses_power_of_two(j->p, r)},
        {.key = "emulate", .kind = WEFT_ATTR_TEXT, .text = weft_params_text(j->p, "emulate")},
        {.key = "history", .kind = WEFT_ATTR_TEXT, .text = history}};
    const weft_op *op = r == F8_ROWWISE || r == F8_ROWWISE_GW_HP ? &f8_op_linear_rows
                        : f8_is_part(n)                          ? &f8_op_linear_part
                                                                 : &f8_op_linear;
    char *name = weft_format("%s.f8", n->outs[0]->name);
    if (!name)
        return weft_graph_fail(j->g, WEFT_ERR_MEMORY, WEFT_NOWHERE, "out of memory");
    weft_value *y = weft_add_full(j->g, op->name, name, ins[F8_BACK_SCALE] ? 5 : 4, ins, 1, NULL,
                                  attrs, *history ? 4 : 3);
    weft_free(name);
    if (y)
        y->dtype = n->outs[0]->dtype;
    return y;
}

static void replace(job *j, weft_node *n, f8_recipe r, const char *weight)
{
    const f8_build b = {j->g, false, uses_power_of_two(j->p, r)};
    bool rows = r == F8_ROWWISE || r == F8_ROWWISE_GW_HP;
    weft_value *x = n->ins[F8_X], *w = n->ins[F8_W], *ins[5] = {NULL};
    f8_names of_x = {""}, of_w = {""};
    char history[512] = "";
    if (rows) {
        f8_dims(x, w, false, &of_x);
        f8_dims(w, x, false, &of_w);
    }
    weft_graph_at(j->g, n);
    ins[F8_X] = r == F8_DELAYED      ? delayed_x(j, &b, n, weight, &ins[F8_X_SCALE])
                : r == F8_TENSORWISE ? tensorwise_x(j, &b, n, &ins[F8_X_SCALE])
                                     : f8_narrow(&b, x, of_x.text, WEFT_F8E4M3, &ins[F8_X_SCALE]);
    weft_graph_set_chunk(j->g, -1); /* a weight serves all parts of the head */
    ins[F8_W_SCALE] = f8_weight_scale(&b, w, of_w.text);
    ins[F8_W] = f8_quantise(&b, w, ins[F8_W_SCALE], WEFT_F8E4M3);
    ins[F8_BACK_SCALE] = back_scale(j, &b, n, r, weight, history, sizeof history);
    weft_graph_at(j->g, n);
    weft_value *y = product(j, n, r, ins, history);
    if (!y)
        return;
    weft_replace(j->g, n->outs[0], y);
    weft_remove(j->g, n);
    weft_graph_at(j->g, NULL);
}

static void visit(job *j, weft_node *n)
{
    const char *weight = f8_stored(n->ins[F8_W])->name;
    f8_recipe r = recipe_of(j->p, weight);
    bool late = r == F8_ROWWISE || r == F8_ROWWISE_GW_HP;
    if (late != j->late)
        return;
    int why = why_left(j, n, weight);
    if (why != REASONS) {
        count(&j->left[why], n, weight);
        return;
    }
    j->replaced[r] += n->chunk <= 0; /* parts of the head are one */
    for (const weft_value *w = n->ins[F8_W]; !late && w->node->n_ins == 1; w = w->node->ins[0])
        j->gathered_wide += weft_node_is(w->node, WEFT_OP_GATHER);
    replace(j, n, r, weight);
}

/* ---- told ---- */

static void tell(const job *j)
{
    static const char *const reasons[REASONS] = {"of the head ([float8] head = yes takes it, too)",
                                                 "named by [float8] filter",
                                                 "a product for each index of a dim, which "
                                                 "float8 has none for",
                                                 "of no multiple of [float8] multiple"};
    if (weft_graph_mode(j->g) != WEFT_MODE_TRAIN)
        return;
    for (int r = 0; r < F8_RECIPES; r++)
        if (j->replaced[r])
            weft_graph_note(j->g, "%d linear%s in 8 bits, %s", j->replaced[r],
                            j->replaced[r] > 1 ? "s" : "", f8_recipes[r]);
    if (j->replaced[F8_ROWWISE] || j->replaced[F8_ROWWISE_GW_HP])
        weft_graph_note(j->g, "rowwise weights are gathered as they are, wherever float8 is "
                              "listed: rows and columns need scales of their own");
    if (j->gathered_wide)
        weft_graph_note(j->g, "weights are gathered before they are quantised; list float8 "
                              "before what gathers them, and 8 bits are sent");
    for (int i = 0; i < REASONS; i++)
        if (j->left[i].n)
            weft_graph_note(j->g, "left as %s, %s: %s%s", j->left[i].n > 1 ? "they are" : "it is",
                            reasons[i], j->left[i].names, j->left[i].n > FEW ? ", ..." : "");
}

static void run(void *self, weft_graph *g, bool late)
{
    const weft_host *host = self;
    job j = {.g = g, .p = host->params, .late = late};
    for (weft_node *n = weft_graph_first(g), *next; n && !weft_graph_status(g); n = next) {
        next = n->next;
        if (is_linear(n))
            visit(&j, n);
    }
    tell(&j);
}

void f8_early(void *self, weft_graph *g)
{
    run(self, g, false);
}

void f8_late(void *self, weft_graph *g)
{
    run(self, g, true);
}
