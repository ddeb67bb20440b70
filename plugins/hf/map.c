/* SPDX-License-Identifier: Apache-2.0 */
/* Where each parameter of a model lies in Hugging Face's files, by its plugin's table. */
#include "hf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- names ---- */

void hf_name(char name[HF_NAME], const char *pattern, int64_t layer, int64_t index)
{
    size_t n = 0;
    for (const char *c = pattern; *c && n + 24 < HF_NAME;) {
        const bool is_layer = strncmp(c, "{l}", 3) == 0;
        if (is_layer || strncmp(c, "{x}", 3) == 0) {
            n += (size_t)snprintf(name + n, 24, "%lld", (long long)(is_layer ? layer : index));
            c += 3;
        } else {
            name[n++] = *c++;
        }
    }
    name[n] = '\0';
}

void hf_file_name(const hf_tensor *t, int64_t i, bool ours, char name[HF_NAME])
{
    hf_name(name, ours ? t->row->name : hf_file_of(t->row), t->layer, i);
}

/* A pattern has one gap at most: {l} is any number, '*' any text. */
static bool fits(const char *pattern, const char *name)
{
    const size_t head = strcspn(pattern, "{*"), n = strlen(name);
    const bool is_number = pattern[head] == '{';
    const char *tail = pattern + head + (is_number ? 3 : pattern[head] == '*');
    const size_t fixed = head + strlen(tail), gap = n - fixed;
    if (n < fixed || strncmp(pattern, name, head) != 0 || strcmp(name + head + gap, tail) != 0)
        return false;
    return is_number ? gap > 0 && strspn(name + head, "0123456789") >= gap : pattern[head] || !gap;
}

int64_t hf_model_blocks(const hf_model *m)
{
    return hf_model_int(m, m->form->layers) + hf_model_int(m, m->form->behind);
}

/* Numbers of a block's rows stand before a dot. */
bool hf_is_behind(const hf_model *m, const char *name)
{
    const int64_t layers = hf_model_int(m, m->form->layers);
    for (const weft_hf_tensor *row = m->form->tensors; hf_is_row(row) && m->form->behind; row++) {
        const char *number = row->name && !row->blocks ? strstr(row->name, "{l}.") : NULL;
        const size_t n = number ? (size_t)(number - row->name) : 0;
        if (number && strncmp(name, row->name, n) == 0 && strtoll(name + n, NULL, 10) >= layers)
            return true;
    }
    return false;
}

bool hf_is_ignored(const hf_model *m, const char *name)
{
    const char *prefix = m->form->prefix ? m->form->prefix : "";
    for (const weft_hf_tensor *row = m->form->tensors; hf_is_row(row); row++) {
        size_t skip = strncmp(hf_file_of(row), prefix, strlen(prefix)) == 0 ? strlen(prefix) : 0;
        if (!row->name && hf_model_has(m, row->when, row->unless) &&
            (fits(row->file, name) || fits(row->file + skip, name)))
            return true;
    }
    return false;
}

/* ---- types and shapes ---- */

int hf_parts(const hf_tensor *t)
{
    return t->row->parts > 1 ? t->row->parts : 1;
}

bool hf_is_stacked(const hf_tensor *t)
{
    return strstr(hf_file_of(t->row), "{x}") != NULL;
}

int64_t hf_files(const hf_tensor *t, bool ours)
{
    return hf_is_stacked(t) && !ours ? t->size[0] : 1;
}

const char *hf_files_stem(const hf_model *m)
{
    return m->form->diffusers ? "diffusion_pytorch_model" : "model";
}

/* A word, or words in parentheses with + between; returns how long it is. */
static size_t read_factor(const hf_model *m, const char *text, int64_t *out)
{
    const char *c = text;
    double sum = 0;
    do {
        char word[64];
        double x = 0;
        c += *c == '(' || *c == '+';
        size_t n = strcspn(c, "*/+() ");
        snprintf(word, sizeof word, "%.*s", (int)n, c);
        const hf_value *v = hf_model_find(m, word);
        if (v ? hf_value_number(v, &x) : weft_parse_number(word, &x))
            sum += x;
        c += n;
    } while (*c == '+');
    *out = sum >= 0 && sum < 1e9 ? (int64_t)sum : 0;
    return (size_t)(c + (*c == ')') - text);
}

/* A dim of a row's shape: *shape moves on; false: there are no more. */
static bool next_dim(const hf_model *m, const char **shape, int64_t *size)
{
    const int64_t most = INT64_C(1) << 40;
    const char *c = *shape + strspn(*shape, " ");
    bool divides = false;
    *size = 1;
    if (!*c)
        return false;
    while (*c && *c != ' ') {
        int64_t x;
        c += read_factor(m, c, &x);
        *size = !divides ? *size * x : x ? *size / x : 0;
        *size = *size < most ? *size : most;
        divides = *c == '/';
        c += *c == '*' || *c == '/';
    }
    *shape = c;
    return true;
}

/* How long the first n parts of t's tensor are together. */
static int64_t length_of_parts(const hf_model *m, const hf_tensor *t, int n)
{
    int64_t sum = 0;
    for (int k = 0; k < n; k++) {
        const char *shape = t->row[k - t->row->part].shape;
        int64_t size = 0;
        for (int d = 0; d <= t->row->along; d++)
            next_dim(m, &shape, &size);
        sum += size;
    }
    return sum;
}

int64_t hf_part_begin(const hf_model *m, const hf_tensor *t)
{
    return length_of_parts(m, t, t->row->part);
}

int hf_file_shape(const hf_model *m, const hf_tensor *t, bool ours, int64_t size[WEFT_MAX_DIMS])
{
    const int skip = hf_is_stacked(t) && !ours, n = t->n_dims - skip;
    for (int d = 0; d < n; d++)
        size[d] = d + skip == t->row->along && hf_parts(t) > 1 && !ours
                      ? length_of_parts(m, t, hf_parts(t))
                      : t->size[d + skip];
    if (t->row->turned && n == 2 && !ours) {
        int64_t rows = size[0];
        size[0] = size[1];
        size[1] = rows;
    }
    return n;
}

/* ---- the map ---- */

bool hf_is_row(const weft_hf_tensor *row)
{
    return row->name || row->file;
}

static bool is_of_block(const weft_hf_tensor *row)
{
    return row->name && strstr(row->name, "{l}");
}

/* Of the same blocks as the row before it? */
static bool goes_on(const weft_hf_tensor *row)
{
    const char *blocks = row->blocks ? row->blocks : "", *before = row[-1].blocks;
    return is_of_block(row) && strcmp(blocks, before ? before : "") == 0;
}

/* Is there such a number in the list that the key says? */
static bool lists(const hf_model *m, const char *key, int64_t number)
{
    const hf_value *v = hf_model_find(m, key);
    const char *list = v ? v->text : "";
    for (int64_t x; hf_next_number(&list, &x);)
        if (x == number)
            return true;
    return false;
}

bool hf_is_of_layer(const hf_model *m, const weft_hf_tensor *row, int64_t layer)
{
    const int64_t every = row->every ? hf_model_int(m, row->every) : 1;
    const bool has = (every < 2 || (layer + 1) % every == 0) && !lists(m, row->except, layer);
    return has != row->others && (!row->from || layer >= hf_model_int(m, row->from)) &&
           (!row->until || layer < hf_model_int(m, row->until));
}

static weft_status add(hf_map *map, const hf_model *m, const weft_hf_tensor *row, int64_t layer,
                       weft_error *err)
{
    if (!row->name || row->other || !hf_model_has(m, row->when, row->unless) ||
        (layer >= 0 && !hf_is_of_layer(m, row, layer)))
        return WEFT_OK;
    if (map->n == map->capacity) {
        const int capacity = map->capacity ? 2 * map->capacity : 64;
        hf_tensor *more = weft_realloc(map->list, (size_t)capacity * sizeof *more);
        if (!more)
            return weft_fail_memory(err);
        map->list = more;
        map->capacity = capacity;
    }
    hf_tensor *t = &map->list[map->n++];
    *t = (hf_tensor){.row = row, .layer = layer};
    hf_name(t->name, row->name, layer, 0);
    const char *shape = row->shape;
    int64_t size;
    while (t->n_dims < WEFT_MAX_DIMS && next_dim(m, &shape, &size))
        t->size[t->n_dims++] = size;
    return WEFT_OK;
}

/* Parts of one tensor have places of their own; part -1: a parameter's name. */
static const char *place_of(char place[HF_NAME + 16], int part, const char *name)
{
    snprintf(place, HF_NAME + 16, "%d %s", part, name);
    return place;
}

/* Each parameter has a name and a place in files for itself. */
static weft_status list_places(hf_map *map, const hf_model *m, weft_error *err)
{
    map->places = json_object();
    weft_status s = map->places ? WEFT_OK : weft_fail_memory(err);
    for (int i = 0; i < 2 * map->n; i++) {
        const hf_tensor *y = &map->list[i / 2], *x;
        char file[HF_NAME], place[HF_NAME + 16], one[WEFT_SIZES_TEXT], two[WEFT_SIZES_TEXT];
        hf_file_name(y, 0, i % 2 == 0, file);
        const json_t *before =
            json_object_get(map->places, place_of(place, i % 2 ? y->row->part : -1, file));
        if (!before && json_object_set_new(map->places, place, json_integer(i / 2)) != 0)
            s = weft_fail_memory(err);
        if (!before)
            continue;
        x = &map->list[json_integer_value(before)];
        s = hf_refuse(err, NULL, "plugin '%s', its table for Hugging Face: %s: '%s' %s and '%s' %s",
                      m->table->plugin,
                      i % 2 ? "two parameters lie in one tensor"
                            : "one parameter stands there twice",
                      x->name, weft_sizes_print(one, x->size, x->n_dims), y->name,
                      weft_sizes_print(two, y->size, y->n_dims));
        i += i % 2 == 0; /* its place is no news then */
    }
    return s;
}

/* What folders have once more, of parameter `of`. */
static weft_status add_copies(hf_map *map, const hf_model *m, const weft_hf_tensor *row, int of,
                              weft_error *err)
{
    const int64_t blocks = strstr(row->file, "{l}") ? hf_model_blocks(m) : 1;
    hf_copy *more = weft_realloc(map->copies, (size_t)(map->n_copies + blocks) * sizeof *more);
    if (!more)
        return weft_fail_memory(err);
    map->copies = more;
    for (int64_t l = 0; l < blocks; l++)
        if (hf_is_of_layer(m, row, l)) {
            hf_copy *copy = &more[map->n_copies++];
            *copy = (hf_copy){.row = row, .of = of};
            hf_name(copy->name, row->file, l, 0);
        }
    return WEFT_OK;
}

static weft_status list_copies(hf_map *map, const hf_model *m, weft_error *err)
{
    weft_status s = WEFT_OK;
    for (const weft_hf_tensor *row = m->form->tensors; hf_is_row(row) && !s; row++) {
        const bool is = !row->name && row->of && hf_model_has(m, row->when, row->unless);
        const hf_tensor *of = is ? hf_map_find(map, row->of) : NULL;
        if (of)
            s = add_copies(map, m, row, (int)(of - map->list), err);
    }
    return s;
}

weft_status hf_map_create(const hf_model *m, hf_map *map, weft_error *err)
{
    weft_status s = WEFT_OK;
    *map = (hf_map){0};
    for (const weft_hf_tensor *row = m->form->tensors; hf_is_row(row) && !s;) {
        const weft_hf_tensor *end = row + 1;
        const int64_t layers = row->blocks ? hf_model_int(m, row->blocks) : hf_model_blocks(m);
        while (is_of_block(row) && goes_on(end))
            end++;
        for (int64_t l = is_of_block(row) ? 0 : -1; l < (is_of_block(row) ? layers : 0); l++)
            for (const weft_hf_tensor *r = row; r < end && !s; r++)
                s = add(map, m, r, l, err);
        row = end;
    }
    s = s ? s : list_places(map, m, err);
    return s ? s : list_copies(map, m, err);
}

void hf_map_release(hf_map *map)
{
    weft_free(map->list);
    json_decref(map->places);
    weft_free(map->copies);
    *map = (hf_map){0};
}

const hf_tensor *hf_map_find(const hf_map *map, const char *name)
{
    char place[HF_NAME + 16];
    const json_t *found = json_object_get(map->places, place_of(place, -1, name));
    return found ? &map->list[json_integer_value(found)] : NULL;
}
