/* SPDX-License-Identifier: Apache-2.0 */
/* What can be wrong with a plugin's table before any folder is looked at. */
#include "hf.h"

#include <stdio.h>
#include <string.h>

typedef struct check {
    const weft_hf_model *table;
    const weft_hf_form *form;
    weft_error *err;
    weft_status status;
} check;

static void complain(check *c, const char *format, ...) WEFT_PRINTF(2, 3);

static void complain(check *c, const char *format, ...)
{
    char line[512];
    va_list args;
    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    c->status = hf_refuse(c->err, NULL, "plugin '%s', its table for Hugging Face (%s): %s",
                          c->table->plugin, c->form->type, line);
}

static const weft_param *find_param(const check *c, const char *name, size_t n)
{
    for (const weft_param *p = c->table->params; p->name; p++)
        if (strlen(p->name) == n && strncmp(p->name, name, n) == 0)
            return p;
    return NULL;
}

static void check_key(check *c, const char *of, const char *key)
{
    if (key && !find_param(c, key, strlen(key)))
        complain(c, "'%s' speaks of '%s', which is no key of the plugin's", of, key);
}

/* ---- tensors ---- */

static int count_dims(check *c, const weft_hf_tensor *row)
{
    int n = 0;
    for (const char *w = row->shape ? row->shape : ""; *(w += strspn(w, " "));) {
        for (; *w && *w != ' '; w += strspn(w, "*/+()")) {
            w += *w == '(';
            size_t length = strcspn(w, "*/+() ");
            if (length != strspn(w, "0123456789") && !find_param(c, w, length))
                complain(c,
                         "'%s' is [%s], but '%.*s' is neither a key of the plugin's nor a number",
                         row->name, row->shape, (int)length, w);
            w += length;
        }
        n++;
    }
    return n;
}

/* The row before it is the part before it. */
static bool follows(const weft_hf_tensor *row)
{
    return row[-1].name && row[-1].parts == row->parts && row[-1].part == row->part - 1 &&
           strcmp(hf_file_of(row - 1), hf_file_of(row)) == 0;
}

static void check_parts(check *c, const weft_hf_tensor *row, int n_dims)
{
    const bool last = row->part == row->parts - 1;
    if (row->parts < 2)
        return;
    if (row->part < 0 || row->part >= row->parts || row->along < 0 || row->along >= n_dims ||
        (row->part > 0 && (row == c->form->tensors || !follows(row))) ||
        (!last && (!row[1].name || row[1].part != row->part + 1 || !follows(row + 1))))
        complain(c, "'%s' is part %d of %d of '%s' along dim %d: parts stand together, from 0 on",
                 row->name, row->part, row->parts, hf_file_of(row), row->along);
}

static bool has_row(const check *c, const char *name)
{
    const weft_hf_tensor *row = c->form->tensors;
    while (hf_is_row(row) && !(row->name && strcmp(row->name, name) == 0))
        row++;
    return row->name != NULL;
}

static void check_tensor(check *c, const weft_hf_tensor *row)
{
    const char *gap = row->name ? NULL : strpbrk(row->file, "{*");
    if (gap && strpbrk(gap + 1, "{*"))
        complain(c, "'%s' has several gaps: {l} or '*', and once", row->file);
    if (!row->name && row->of && !has_row(c, row->of))
        complain(c, "'%s' has what '%s' has, which no row is called", row->file, row->of);
    if (!row->name)
        return;
    const int n = count_dims(c, row), in_file = n - (strstr(hf_file_of(row), "{x}") != NULL);
    if (n < 1 || n > WEFT_MAX_DIMS || in_file < 1)
        complain(c, "'%s' is [%s], %d dims", row->name, row->shape ? row->shape : "", n);
    if (strlen(row->name) + 48 > HF_NAME || strlen(hf_file_of(row)) + 48 > HF_NAME)
        complain(c, "'%s': a name is too long", row->name);
    if (row->turned && in_file != 2)
        complain(c, "'%s' is [%s]: only what has two dims in files can be turned", row->name,
                 row->shape);
    if ((strstr(row->name, "{l}") != NULL) != (strstr(hf_file_of(row), "{l}") != NULL))
        complain(c, "'%s' and '%s': one is of each block, the other is not", row->name,
                 hf_file_of(row));
    if (strstr(row->name, "{l}") && !c->form->layers && !row->blocks)
        complain(c, "'%s' is of each block, but no key says how many there are", row->name);
    check_parts(c, row, n);
    const char *const keys[] = {row->when,   row->unless, row->from,  row->until,
                                row->blocks, row->every,  row->except};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        check_key(c, row->name, keys[i]);
}

/* ---- keys ---- */

/* Does an expression, or each with blanks between, speak of numbers and rows above alone? */
static void check_expression(check *c, const weft_hf_key *rows, const weft_hf_key *row,
                             const char *text)
{
    double x;
    for (size_t n; text && *(text += strspn(text, " */+")); text += n) {
        char word[HF_NAME];
        const weft_hf_key *of = rows;
        n = strcspn(text, " */+");
        snprintf(word, sizeof word, "%.*s", (int)n, text);
        while (of < row && !(of->key && strcmp(of->name, word) == 0))
            of++;
        if (of == row && !weft_parse_number(word, &x))
            complain(c, "'%s' speaks of '%s', which is neither a number nor a row above", row->name,
                     word);
    }
}

static void check_keys(check *c, const weft_hf_key *rows)
{
    for (const weft_hf_key *row = rows; row->name; row++) {
        const char *const texts[] = {row->divides, row->below, row->most, row->same, row->by};
        for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
            check_expression(c, rows, row, texts[i]);
        check_key(c, row->name, row->key);
        for (const weft_hf_key *other = rows; other < row; other++)
            if (row->key && other->key && strcmp(row->key, other->key) == 0)
                complain(c, "'%s' and '%s' say '%s' both: one is .same as the other", other->name,
                         row->name, row->key);
        if (!row->key && !row->is && !row->same && !row->unwritten && !row->written &&
            !row->context)
            complain(c, "'%s' has neither a key nor a value", row->name);
    }
}

static void check_rope(check *c, const weft_hf_rope *rope)
{
    check_key(c, "rope_theta", rope->theta);
    for (const weft_hf_rope_type *t = rope->types; t && t->type; t++) {
        check_key(c, t->type, t->key);
        check_keys(c, t->keys);
    }
}

static void check_form(check *c)
{
    check_key(c, "layers", c->form->layers);
    check_key(c, "behind", c->form->behind);
    check_key(c, "when", c->form->when);
    const char *list = c->form->unless;
    for (size_t n; list && (n = hf_next_word(&list)); list += n) {
        char key[HF_NAME];
        snprintf(key, sizeof key, "%.*s", (int)n, list);
        check_key(c, "unless", key);
    }
    for (const weft_hf_tensor *row = c->form->tensors; hf_is_row(row); row++)
        check_tensor(c, row);
    check_keys(c, c->form->keys);
    if (c->form->rope)
        check_rope(c, c->form->rope);
}

weft_status hf_table_check(const weft_hf_model *table, const char *plugin, weft_error *err)
{
    check c = {.table = table, .err = err};
    if (table->size != sizeof *table)
        return hf_refuse(err, NULL,
                         "plugin '%s', its table for Hugging Face: it has size %zu, not %zu; build "
                         "it with this weft's headers",
                         plugin, table->size, sizeof *table);
    if (!table->plugin || !table->params || !table->forms || strcmp(table->plugin, plugin) != 0)
        return hf_refuse(
            err, NULL,
            "plugin '%s', its table for Hugging Face: it lacks parameters or forms, or "
            "is another plugin's",
            plugin);
    for (int i = 0; table->forms[i]; i++) {
        c.form = table->forms[i];
        check_form(&c);
    }
    return c.status;
}
