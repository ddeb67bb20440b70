/* SPDX-License-Identifier: Apache-2.0 */
/* What a graph reads that it does not compute or keep: fields of the samples, and numbers of the
 * run. Execution fills them (execute/data.c). */
#include "compile/graph/graph.h"

#include <stdio.h>
#include <string.h>

/* Of data that say nothing of fields. */
static const weft_field text_fields[] = {
    {"ids", "batch seq", WEFT_I32, "vocab", 0, 0},
    {"labels", "batch seq", WEFT_I32, "vocab", -1, -1},
    {"positions", "batch seq", WEFT_I32, "positions", 0, 0}, /* a dim, if they are learned */
    {"segments", "batch seq", WEFT_I32, NULL, INT32_MIN, 0},
    {.name = NULL},
};

const weft_field weft_number_field = {"sample", "batch", WEFT_I32, NULL, 0, -1};

typedef struct known_input {
    const char *name, *shape;
    weft_dtype dtype;
    weft_scope scope;
} known_input;

static const known_input known_inputs[] = {
    {"index", "seq", WEFT_I32, WEFT_STEP_BEGIN},
    {"step", "", WEFT_F32, WEFT_STEP_BEGIN},
    {"micro_batch", "", WEFT_F32, WEFT_MICRO_BATCH},
    {"last", "batch", WEFT_I32, WEFT_MICRO_BATCH},
    {"cached_index", "context", WEFT_I32, WEFT_STEP_BEGIN},
    {"cached_segments", "batch context", WEFT_I32, WEFT_MICRO_BATCH},
};
enum { N_KNOWN = sizeof known_inputs / sizeof known_inputs[0] };

int64_t weft_input_shift(const char *name)
{
    const char *plus = strchr(name, '+');
    size_t n = plus ? (size_t)(plus - name) : 0;
    bool labels = (n == 6 && strncmp(name, "labels", n) == 0) ||
                  (n == 11 && strncmp(name, "step_labels", n) == 0);
    int64_t shift = 0;
    if (!labels || plus[1] < '1' || plus[1] > '9' || strlen(plus) > 10)
        return 0;
    for (const char *p = plus + 1; *p; p++) {
        if (*p < '0' || *p > '9')
            return 0;
        shift = 10 * shift + (*p - '0');
    }
    return shift;
}

const weft_field *weft_graph_fields(const weft_graph *g)
{
    return g->config.fields ? g->config.fields : text_fields;
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

/* room: for the shape of what is read of the whole step. */
static bool find_input(const weft_graph *g, const char *name, char room[256], known_input *out)
{
    bool of_step;
    const weft_field *f = weft_input_field(g, name, &of_step);
    if (f && weft_input_shift(name) && strcmp(f->shape, "batch seq") != 0)
        return false;
    if (f && snprintf(room, 256, "%s%s", of_step ? "micro " : "", f->shape) < 256)
        *out = (known_input){name, room, f->dtype == WEFT_I32 ? WEFT_I32 : g->config.dtype,
                             of_step ? WEFT_STEP_BEGIN : WEFT_MICRO_BATCH};
    else if (!f && strncmp(name, "index:", 6) == 0)
        *out = (known_input){name, name + 6, WEFT_I32, WEFT_STEP_BEGIN};
    else
        *out = (known_input){NULL};
    for (int i = 0; i < N_KNOWN && !out->name; i++)
        if (strcmp(known_inputs[i].name, name) == 0)
            *out = known_inputs[i];
    if (out->name && strcmp(name, "index") == 0 && g->config.places)
        out->scope = WEFT_MICRO_BATCH; /* text that is written part by part has another in each */
    return out->name;
}

static bool is_sound(const weft_field *f)
{
    char room[256];
    const weft_graph nothing = {.config = {.fields = &(const weft_field){.name = NULL}}};
    known_input k;
    return f->shape && strncmp(f->shape, "batch", 5) == 0 && (!f->shape[5] || f->shape[5] == ' ') &&
           (f->dtype == WEFT_I32 || f->dtype == WEFT_F32) && *f->name && !strchr(f->name, '+') &&
           strncmp(f->name, "step_", 5) != 0 && !find_input(&nothing, f->name, room, &k);
}

weft_status weft_fields_check(const weft_field *fields, const char *by, weft_error *err)
{
    for (const weft_field *f = fields; f->name; f++) {
        if (!is_sound(f))
            return weft_fail(
                err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                "field '%s' of plugin %s is none: it needs a name that no input of the "
                "core has, without '+' and without step_ ahead, a shape that begins "
                "with batch, and numbers in i32 or f32",
                f->name, by);
        for (const weft_field *other = fields; other != f; other++)
            if (strcmp(other->name, f->name) == 0)
                return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                                 "plugin %s has two fields '%s'", by, f->name);
    }
    return WEFT_OK;
}

static weft_value *explain_input(weft_graph *g, const char *name)
{
    weft_text list = {0};
    for (const weft_field *f = weft_graph_fields(g); f->name; f++)
        weft_text_print(&list, "%s%s", weft_text_get(&list)[0] ? ", " : "", f->name);
    weft_graph_fail(g, WEFT_ERR_INPUT, WEFT_NOWHERE,
                    "there is no input called '%s': samples%s%s have %s; list data that have it, "
                    "or another model",
                    name, g->config.fields_by ? " of plugin " : "",
                    g->config.fields_by ? g->config.fields_by : "", weft_text_get(&list));
    weft_text_release(&list);
    return NULL;
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
    known_input k;
    if (!find_input(g, name, room, &k))
        return explain_input(g, name);
    weft_spot spot = g->spot;
    g->spot.block = WEFT_BLOCK_NONE;
    g->spot.chunk = -1;
    v = weft_source_new(g, "input", name, k.scope);
    g->spot = spot;
    if (v && strcmp(v->name, name) != 0) /* who fills inputs finds them by their names */
        return weft_graph_fail(g, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                               "the input %s cannot be added: a value is called so; name that "
                               "otherwise",
                               name);
    if (!v || weft_source_shape(g, v, k.shape))
        return NULL;
    v->dtype = k.dtype;
    if (!weft_map_set(&g->inputs, &g->pool, name, strlen(name), v)) {
        weft_fail_memory(&g->error);
        return NULL;
    }
    if (!weft_graph_push(g, (void ***)&g->inputs_list, &g->n_inputs, &g->inputs_capacity, v))
        return NULL;
    return weft_source_finish(g, v);
}
