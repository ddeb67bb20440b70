/* SPDX-License-Identifier: Apache-2.0 */
/* What a graph reads that it does not compute or keep: fields of the samples, and numbers of the
 * run. Execution fills them (execute/data.c). */
#include "compile/graph/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const weft_field weft_text_fields[] = {
    {"ids", "batch seq", WEFT_I32, "vocab", 0, 0},
    {"labels", "batch seq", WEFT_I32, "vocab", -1, -1},
    {"positions", "batch seq", WEFT_I32, "positions", 0, 0}, /* a dim, if they are learned */
    {"segments", "batch seq", WEFT_I32, NULL, INT32_MIN, 0},
    {.name = NULL},
};

const weft_field weft_number_field = {"sample_number", "batch", WEFT_I32, NULL, 0, -1};

static const struct known_input {
    const char *name, *shape;
    weft_dtype dtype;
    weft_scope scope;
} known_inputs[] = {
    {"index", "seq", WEFT_I32, WEFT_STEP_BEGIN},
    {"step", "", WEFT_F32, WEFT_STEP_BEGIN},
    {"micro_batch", "", WEFT_F32, WEFT_MICRO_BATCH},
    {"last", "batch", WEFT_I32, WEFT_MICRO_BATCH},
    {"cached_index", "context", WEFT_I32, WEFT_STEP_BEGIN},
    {"cached_segments", "batch context", WEFT_I32, WEFT_MICRO_BATCH},
};

int64_t weft_input_shift(const char *name)
{
    const char *at = strchr(name, '+');
    if (!at || at[1] < '1' || at[1] > '9' || strlen(at) > 10)
        return 0;
    char *end;
    const int64_t shift = strtoll(at + 1, &end, 10);
    return *end ? 0 : shift;
}

const weft_field *weft_graph_fields(const weft_graph *g)
{
    return g->config.fields ? g->config.fields : weft_text_fields;
}

const weft_field *weft_input_field(const weft_graph *g, const char *name, bool *of_step)
{
    *of_step = strncmp(name, "step_", 5) == 0;
    const char *at = name + (*of_step ? 5 : 0);
    size_t n = weft_input_shift(name) ? strcspn(at, "+") : strlen(at);
    const weft_field *f = weft_graph_fields(g);
    while (f->name && (strlen(f->name) != n || strncmp(f->name, at, n) != 0))
        f++;
    return f->name ? f : strcmp(at, weft_number_field.name) == 0 ? &weft_number_field : NULL;
}

bool weft_graph_has_tokens(const weft_graph *g)
{
    bool unused;
    const weft_field *labels = weft_input_field(g, "labels", &unused);
    return !g->counted && labels && strcmp(labels->shape, "batch seq") == 0;
}

/* room: for the shape of what is read of the whole step. NULL: there is no such input. */
static const char *shape_of(weft_graph *g, const char *name, char room[256], weft_dtype *dtype,
                            weft_scope *scope)
{
    const struct known_input *k = known_inputs;
    const size_t n = sizeof known_inputs / sizeof *k;
    while (k < known_inputs + n && strcmp(k->name, name) != 0)
        k++;
    *dtype = WEFT_I32;
    *scope = WEFT_STEP_BEGIN;
    if (k < known_inputs + n) { /* text that is written part by part has another index in each */
        *dtype = k->dtype;
        *scope = k == known_inputs && g->config.places ? WEFT_MICRO_BATCH : k->scope;
        return k->shape;
    }
    if (strncmp(name, "index:", 6) == 0)
        return name + 6;
    bool of_step;
    const weft_field *f = weft_input_field(g, name, &of_step);
    if (!f || (weft_input_shift(name) && (strcmp(f->shape, "batch seq") || f->dtype != WEFT_I32)))
        return NULL;
    for (const weft_field *o = f; f != &weft_number_field && (++o)->name;)
        if (strcmp(o->name, f->name) == 0)
            weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                            "the data of plugin %s have two fields called '%s', (%s) and (%s)",
                            g->config.fields_by, f->name, f->shape, o->shape);
    if (strncmp(f->shape, "batch", 5) != 0 || strcspn(f->shape, " ") != 5 ||
        (f->dtype != WEFT_I32 && !weft_dtype_is_float(f->dtype)))
        weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                        "field '%s' (%s) of the data of plugin %s is none: batch must be its first "
                        "dim, and its type i32 or one of real numbers",
                        f->name, f->shape, g->config.fields_by);
    *dtype = f->dtype == WEFT_I32 ? WEFT_I32 : g->config.dtype;
    *scope = of_step ? WEFT_STEP_BEGIN : WEFT_MICRO_BATCH;
    snprintf(room, 256, "%s%s", of_step ? "micro " : "", f->shape);
    return room;
}

weft_value *weft_add_input(weft_graph *g, const char *name)
{
    weft_value *v = weft_map_get(&g->inputs, name, strlen(name));
    if (weft_graph_status(g))
        return NULL;
    if (v) {
        weft_node_come_before(g, v->node, g->spot.before);
        return v;
    }
    char room[256];
    weft_dtype dtype;
    weft_scope scope;
    const char *const by = g->config.fields_by, *shape = shape_of(g, name, room, &dtype, &scope);
    if (!shape)
        return weft_graph_fail(g, WEFT_ERR_INPUT, WEFT_NOWHERE,
                               "there is no input called '%s', which %s reads: %s%s have no such "
                               "field; list others, or another model",
                               name, g->by, by ? "the data of plugin " : "no data are listed, and ",
                               by ? by : "those of texts");
    weft_spot spot = g->spot;
    g->spot.block = WEFT_BLOCK_NONE;
    g->spot.chunk = -1;
    v = weft_source_new(g, "input", name, scope);
    g->spot = spot;
    if (v && strcmp(v->name, name) != 0) /* who fills inputs finds them by their names */
        return weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                               "the input %s cannot be added: a value is called so; name that "
                               "otherwise",
                               name);
    if (!v || weft_source_shape(g, v, shape))
        return NULL;
    v->dtype = dtype;
    if (!weft_map_set(&g->inputs, &g->pool, name, strlen(name), v) ||
        !weft_graph_push(g, (void ***)&g->inputs_list, &g->n_inputs, &g->inputs_capacity, v))
        return NULL;
    return weft_source_finish(g, v);
}
