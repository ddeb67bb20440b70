/* SPDX-License-Identifier: Apache-2.0 */
/* What differs between two checkpoints, whatever pieces their tensors lie in. */
#include "ckpt.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum {
    SLAB = 1 << 20, /* elements compared at a time, unless a row is longer */
    KINDS = 16,
    NAMED = 3
};

/* What several tensors differ by, which is said once. */
typedef struct kind {
    weft_text what, names; /* of the first few */
    int n;
} kind;

typedef struct comparison {
    weft_folder *folder[2];
    const char *path[2];
    weft_text *text;
    int differences;
    kind kinds[KINDS];
    int n_kinds;
} comparison;

static void note(comparison *c, const char *name, const char *format, ...) WEFT_PRINTF(3, 4);

static void note(comparison *c, const char *name, const char *format, ...)
{
    char what[1024];
    kind *k = c->kinds;
    va_list args;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    while (k < c->kinds + c->n_kinds && strcmp(weft_text_get(&k->what), what) != 0)
        k++;
    if (k == c->kinds + KINDS) {
        weft_text_print(c->text, "%s: %s\n", name, what);
        return;
    }
    if (k->n == 0) {
        weft_text_add(&k->what, what);
        c->n_kinds++;
    }
    if (k->n++ < NAMED)
        weft_text_print(&k->names, "%s%s", k->n > 1 ? ", " : "", name);
}

static void print_kinds(comparison *c)
{
    for (kind *k = c->kinds; k < c->kinds + c->n_kinds; k++) {
        weft_text_add(c->text, weft_text_get(&k->names));
        if (k->n > NAMED)
            weft_text_print(c->text, " and %d more", k->n - NAMED);
        weft_text_print(c->text, ": %s\n", weft_text_get(&k->what));
        weft_text_release(&k->names);
        weft_text_release(&k->what);
    }
}

/* Values as f64: exact for all dtypes. NaN equals NaN, and -0 is not 0: bits are compared. */
static weft_status compare_values(comparison *c, const weft_stored *t, int64_t *n, double *most,
                                  weft_error *err)
{
    int64_t lo[WEFT_MAX_DIMS] = {0}, size[WEFT_MAX_DIMS], row = 1;
    memcpy(size, t->size, sizeof size);
    for (int d = 1; d < t->n_dims; d++)
        row *= t->size[d];
    int64_t rows = !row ? 0 : t->n_dims ? t->size[0] : 1, step = row < SLAB && row ? SLAB / row : 1;
    double *a = weft_alloc((size_t)(row * step) * sizeof *a + 1),
           *b = weft_alloc((size_t)(row * step) * sizeof *b + 1);
    weft_status s = a && b ? WEFT_OK : weft_fail_memory(err);
    for (int64_t r = 0; r < rows && !s; r += step) {
        int64_t now = rows - r < step ? rows - r : step;
        lo[0] = t->n_dims ? r : 0;
        size[0] = now;
        s = weft_folder_read(c->folder[0], t->name, lo, size, WEFT_F64, a, err);
        s = s ? s : weft_folder_read(c->folder[1], t->name, lo, size, WEFT_F64, b, err);
        for (int64_t i = 0; i < now * row && !s; i++) {
            if (memcmp(&a[i], &b[i], sizeof a[i]) == 0)
                continue;
            ++*n;
            *most = fabs(a[i] - b[i]) > *most || isnan(a[i] - b[i]) ? fabs(a[i] - b[i]) : *most;
        }
    }
    weft_free(a);
    weft_free(b);
    return s;
}

static weft_status compare_tensor(comparison *c, const weft_stored *a, const weft_stored *b,
                                  weft_error *err)
{
    int64_t n = 0;
    double most = 0;
    if (!weft_sizes_are_same(a->size, a->n_dims, b->size, b->n_dims)) {
        note(c, a->name, "another shape");
        c->differences++;
        return WEFT_OK;
    }
    weft_status s = compare_values(c, a, &n, &most, err);
    if (!s && strcmp(a->type, b->type) != 0)
        note(c, a->name, "%s and %s", a->type, b->type);
    if (!s && n) {
        weft_text_print(c->text, "%s: %" PRId64 " values differ, by %g at most\n", a->name, n,
                        most);
        c->differences++;
    }
    return s;
}

static weft_status compare_tensors(comparison *c, int *same, weft_error *err)
{
    weft_status s = WEFT_OK;
    for (int side = 0; side < 2; side++)
        for (int i = 0; i < weft_folder_count(c->folder[side]) && !s; i++) {
            const weft_stored *t = weft_folder_get(c->folder[side], i),
                              *other = weft_folder_find(c->folder[!side], t->name);
            int before = c->differences;
            if (!other) {
                note(c, t->name, "only in %s", c->path[side]);
                c->differences++;
            } else if (side == 0) {
                s = compare_tensor(c, t, other, err);
                *same += c->differences == before;
            }
        }
    return s;
}

static void compare_count(comparison *c, const char *what, int64_t a, int64_t b)
{
    if (a == b)
        return;
    weft_text_print(c->text, "%s: %" PRId64 " and %" PRId64 "\n", what, a, b);
    c->differences++;
}

/* ---- settings: they say how the state came about, and are no part of it ---- */

static const weft_param *find_param(const weft_param *table, const char *name)
{
    while (table && table->name && strcmp(table->name, name) != 0)
        table++;
    return table && table->name ? table : NULL;
}

const char *ckpt_section_text(const ckpt_section *section, const char *key)
{
    const weft_state_view *state = section->state;
    if (section->keys || !state)
        return json_string_value(json_object_get(section->keys, key));
    for (int i = 0; i < state->n_settings; i++)
        if (strcmp(state->settings[i].section, section->name) == 0 &&
            strcmp(state->settings[i].key, key) == 0)
            return state->settings[i].value;
    return NULL;
}

static const char *text_of(const void *section, const weft_param *p)
{
    return ckpt_section_text(section, p->name);
}

/* A word that the plugin makes a number of, beside a number: "auto", or the name of a key with
 * presets. */
static bool is_open(const weft_param *table, const weft_param *p, const char *a, const char *b)
{
    double x, y;
    if ((p->type != WEFT_PARAM_INT && p->type != WEFT_PARAM_REAL) ||
        weft_parse_number(a, &x) == weft_parse_number(b, &y))
        return false;
    const char *word = weft_parse_number(a, &x) ? b : a;
    const weft_param *of = find_param(table, word);
    return strcmp(word, "auto") == 0 || (of && of->presets);
}

/* Of whatever type it is. */
static bool is_same_value(const char *a, const char *b)
{
    static const weft_param types[] = {
        {.type = WEFT_PARAM_INT}, {.type = WEFT_PARAM_REAL}, {.type = WEFT_PARAM_BOOL}};
    return weft_param_is_same(&types[0], a, b) || weft_param_is_same(&types[1], a, b) ||
           weft_param_is_same(&types[2], a, b);
}

/* Is there a key that stands at what `word` says of it? A flavor of which every size is given says
 * nothing. */
static bool is_asked(const weft_param *table, const char *word, const ckpt_section *section)
{
    for (const weft_param *p = table; p->name; p++) {
        const char *text = ckpt_section_text(section, p->name);
        if (text && strcmp(text, word) == 0)
            return true;
    }
    return false;
}

ckpt_answer ckpt_same_setting(const weft_param *table, const char *key, const ckpt_section *a,
                              const ckpt_section *b)
{
    const weft_param *p = find_param(table, key);
    const char *x = ckpt_section_text(a, key), *y = ckpt_section_text(b, key);
    if (p && !weft_param_counts(table, p, text_of, a) && !weft_param_counts(table, p, text_of, b))
        return CKPT_SAME;
    if (p && p->presets && !is_asked(table, key, a) && !is_asked(table, key, b))
        return CKPT_SAME;
    if (!x || !y)
        return CKPT_OTHER;
    if (p ? weft_param_is_same(p, x, y) : is_same_value(x, y))
        return CKPT_SAME;
    return p && is_open(table, p, x, y) ? CKPT_OPEN : CKPT_OTHER;
}

/* NULL: of the core's own sections, and of plugins that are not found. */
static const weft_param *table_of(const weft_finder *plugins, const char *section)
{
    const weft_plugin *plugin = NULL;
    weft_error unsaid = {0};
    plugins->find(plugins->self, section, &plugin, &unsaid);
    weft_error_release(&unsaid);
    return plugin ? plugin->params : NULL;
}

static const char *show(const char *text)
{
    return *text ? text : "(not set)";
}

/* What only one of them has is another version's, or was never said, as of a model that was
 * converted. */
static void compare_section(comparison *c, const weft_param *table, const char *section,
                            const json_t *keys, const json_t *other)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)keys, key, value) {
        const char *a = json_string_value(value),
                   *b = json_string_value(json_object_get(other, key));
        const ckpt_answer same = ckpt_same_setting(table, key, &(ckpt_section){.keys = keys},
                                                   &(ckpt_section){.keys = other});
        if (a && b && same)
            weft_text_print(c->text, "[%s] %s: %s and %s%s\n", section, key, show(a), show(b),
                            same == CKPT_OPEN ? ", which may be the same" : "");
    }
}

static void compare_settings(comparison *c, const weft_finder *plugins, const json_t *a,
                             const json_t *b)
{
    const char *section;
    json_t *keys;
    json_object_foreach((json_t *)a, section, keys) {
        const json_t *other = json_object_get(b, section);
        if (other)
            compare_section(c, table_of(plugins, section), section, keys, other);
    }
}

static bool has_plugin(const json_t *list, const char *name)
{
    for (size_t i = 0; i < json_array_size(list); i++) {
        const char *one = json_string_value(json_object_get(json_array_get(list, i), "name"));
        if (one && strcmp(one, name) == 0)
            return true;
    }
    return false;
}

static void compare_plugins(comparison *c, const json_t *a, const json_t *b)
{
    const json_t *both[] = {a, b};
    for (int side = 0; side < 2; side++) {
        weft_text names = {0};
        for (size_t i = 0; i < json_array_size(both[side]); i++) {
            const json_t *one = json_array_get(both[side], i);
            const char *name = json_string_value(json_object_get(one, "name"));
            if (name && !has_plugin(both[!side], name))
                weft_text_print(&names, " %s", name);
        }
        if (names.size)
            weft_text_print(c->text, "plugins only in %s:%s\n", c->path[side],
                            weft_text_get(&names));
        weft_text_release(&names);
    }
}

weft_status ckpt_compare(const weft_finder *plugins, const ckpt_manifest *a, const ckpt_manifest *b,
                         weft_text *text, int *differences, weft_error *err)
{
    const weft_io *io = weft_io_system();
    comparison c = {.path = {a->path, b->path}, .text = text};
    int same = 0;
    weft_status s = weft_manifest_open(io, &a->base, false, &c.folder[0], err);
    s = s ? s : weft_manifest_open(io, &b->base, false, &c.folder[1], err);
    compare_count(&c, "step", a->progress.step, b->progress.step);
    compare_count(&c, "samples", a->progress.samples, b->progress.samples);
    compare_count(&c, "tokens", a->progress.tokens, b->progress.tokens);
    compare_count(&c, "skipped updates", a->progress.skipped, b->progress.skipped);
    compare_count(&c, "of them in a row", a->progress.in_a_row, b->progress.in_a_row);
    compare_plugins(&c, json_object_get(a->root, "plugins"), json_object_get(b->root, "plugins"));
    compare_settings(&c, plugins, json_object_get(a->root, "settings"),
                     json_object_get(b->root, "settings"));
    s = s ? s : compare_tensors(&c, &same, err);
    print_kinds(&c);
    weft_text_print(text, "%d tensors are equal, bit by bit\n", same);
    *differences = c.differences;
    weft_folder_destroy(c.folder[0]);
    weft_folder_destroy(c.folder[1]);
    return s;
}
