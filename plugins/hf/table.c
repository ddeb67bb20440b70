/* SPDX-License-Identifier: Apache-2.0 */
/* What can be wrong with a plugin's table before any folder is looked at. */
#include "hf.h"

#include <stdio.h>
#include <string.h>

typedef struct check {
    const weft_hf_model *table;
    const weft_hf_form *form;
    hf_reader *r; /* of no object; its path is the form */
} check;

static bool is_key(const check *c, const char *name)
{
    const weft_param *p = c->table->params;
    while (p->name && strcmp(p->name, name) != 0)
        p++;
    return p->name != NULL;
}

/* The next word of a list, or of an expression, that is no number; false: there are no more. */
static bool next_word(const char **text, char word[HF_NAME])
{
    double x;
    while (*text && *(*text += strspn(*text, " */+()"))) {
        const size_t n = strcspn(*text, " */+()");
        snprintf(word, HF_NAME, "%.*s", (int)n, *text);
        *text += n;
        if (!weft_parse_number(word, &x))
            return true;
    }
    return false;
}

static void check_key(check *c, const char *of, const char *key)
{
    if (key && !is_key(c, key))
        hf_complain(c->r, "'%s' speaks of '%s', which is no key of the plugin's", of, key);
}

/* ---- tensors ---- */

static int count_dims(check *c, const weft_hf_tensor *row)
{
    char word[HF_NAME];
    int dims = 0;
    for (const char *w = row->shape; next_word(&w, word);)
        if (!is_key(c, word))
            hf_complain(c->r,
                        "'%s' is [%s], but '%s' is neither a key of the plugin's nor a number",
                        row->name, row->shape, word);
    const char *w = row->shape ? row->shape : "";
    for (size_t n; (n = hf_next_word(&w)); w += n)
        dims++;
    return dims;
}

/* Do the parts of its tensor stand together, from 0 on, each with its number? */
static bool are_together(const check *c, const weft_hf_tensor *row)
{
    if (row->part < 0 || row->part >= row->parts || row - c->form->tensors < row->part)
        return false;
    const weft_hf_tensor *first = row - row->part;
    for (int k = 0; k < row->parts; k++)
        if (!first[k].name || first[k].part != k || first[k].parts != row->parts ||
            strcmp(hf_file_of(&first[k]), hf_file_of(row)) != 0)
            return false;
    return true;
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
        hf_complain(c->r, "'%s' has several gaps: {l} or '*', and once", row->file);
    if (!row->name && row->of && !has_row(c, row->of))
        hf_complain(c->r, "'%s' has what '%s' has, which no row is called", row->file, row->of);
    if (!row->name)
        return;
    const int n = count_dims(c, row), in_file = n - (strstr(hf_file_of(row), "{x}") != NULL);
    if (n < 1 || n > WEFT_MAX_DIMS || in_file < 1)
        hf_complain(c->r, "'%s' is [%s], %d dims", row->name, row->shape ? row->shape : "", n);
    if (strlen(row->name) + 48 > HF_NAME || strlen(hf_file_of(row)) + 48 > HF_NAME)
        hf_complain(c->r, "'%s': a name is too long", row->name);
    if (row->turned && in_file != 2)
        hf_complain(c->r, "'%s' is [%s]: only what has two dims in files can be turned", row->name,
                    row->shape);
    if ((strstr(row->name, "{l}") != NULL) != (strstr(hf_file_of(row), "{l}") != NULL))
        hf_complain(c->r, "'%s' and '%s': one is of each block, the other is not", row->name,
                    hf_file_of(row));
    if (strstr(row->name, "{l}") && !c->form->layers && !row->blocks)
        hf_complain(c->r, "'%s' is of each block, but no key says how many there are", row->name);
    if (row->parts > 1 && (row->along < 0 || row->along >= n || !are_together(c, row)))
        hf_complain(c->r,
                    "'%s' is part %d of %d of '%s' along dim %d: parts stand together, from 0 on",
                    row->name, row->part, row->parts, hf_file_of(row), row->along);
    const char *const keys[] = {row->when,   row->unless, row->from,  row->until,
                                row->blocks, row->every,  row->except};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
        check_key(c, row->name, keys[i]);
}

/* ---- keys ---- */

/* Does it speak of numbers and of rows above alone? */
static void check_expression(check *c, const weft_hf_key *rows, const weft_hf_key *row,
                             const char *text)
{
    char word[HF_NAME];
    while (next_word(&text, word)) {
        const weft_hf_key *of = rows;
        while (of < row && !(of->key && strcmp(of->name, word) == 0))
            of++;
        if (of == row)
            hf_complain(c->r, "'%s' speaks of '%s', which is neither a number nor a row above",
                        row->name, word);
    }
}

static void check_keys(check *c, const weft_hf_key *rows)
{
    for (const weft_hf_key *row = rows; row->name; row++) {
        const bool is_answer = row->standard && hf_has_word("true false", row->standard);
        const char *const texts[] = {row->divides, row->below, row->most,
                                     row->same,    row->by,    is_answer ? NULL : row->standard};
        for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
            check_expression(c, rows, row, texts[i]);
        check_key(c, row->name, row->key);
        for (const weft_hf_key *other = rows; other < row; other++)
            if (row->key && other->key && strcmp(row->key, other->key) == 0)
                hf_complain(c->r, "'%s' and '%s' say '%s' both: one is .same as the other",
                            other->name, row->name, row->key);
        if (!row->key && !row->is && !row->same && !row->unwritten && !row->written &&
            !row->context)
            hf_complain(c->r, "'%s' has neither a key nor a value", row->name);
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
    char key[HF_NAME];
    for (const char *list = c->form->unless; next_word(&list, key);)
        check_key(c, "unless", key);
    for (const weft_hf_tensor *row = c->form->tensors; hf_is_row(row); row++)
        check_tensor(c, row);
    check_keys(c, c->form->keys);
    if (c->form->rope)
        check_rope(c, c->form->rope);
}

weft_status hf_table_check(const weft_hf_model *table, const char *plugin, weft_error *err)
{
    char of[256];
    hf_reader r = {.path = of, .err = err};
    check c = {.table = table, .r = &r};
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
        snprintf(of, sizeof of, "plugin '%s', its table for Hugging Face (%s)", plugin,
                 c.form->type);
        check_form(&c);
    }
    return r.status;
}
