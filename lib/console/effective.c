/* SPDX-License-Identifier: Apache-2.0 */
/* The effective INI: every claimed section, loadable again. */
#include "console/counts.h"
#include "console/settings.h"

#include <string.h>

enum { SOURCE_COLUMN = 40, SHORT_LIST = 80 };

/* "; run.ini:14". Names of files may hold anything; a comment may not hold the end of its line. */
static void print_source(weft_text *text, size_t start, weft_where where, bool given)
{
    size_t width = text->size - start;

    weft_text_print(text, "%*s; ", width < SOURCE_COLUMN ? (int)(SOURCE_COLUMN - width) : 1, "");
    if (!given) {
        weft_text_add(text, "default");
        return;
    }
    for (const char *c = where.file ? where.file : "?"; *c; c++)
        weft_text_add_bytes(text, (unsigned char)*c < 0x20 || *c == 0x7f ? "?" : c, 1);
    if (where.line > 0)
        weft_text_print(text, ":%d", where.line);
}

/* One word a line is easier to read and to edit, unless a word would be taken for a comment there.
 */
static bool one_a_line(const weft_checked *value)
{
    size_t size = 0;

    for (int i = 0; i < value->n_words; i++) {
        if (value->words[i][0] == '#' || value->words[i][0] == ';')
            return false;
        size += strlen(value->words[i]) + 1;
    }
    return size > SHORT_LIST || (value->n_words > 0 && strcmp(value->param->name, "plugins") == 0);
}

static void print_list(const weft_checked *value, bool with_sources, weft_text *text)
{
    weft_text_print(text, "%s =\n", value->param->name);
    for (int i = 0; i < value->n_words; i++) {
        size_t start = text->size;

        weft_text_print(text, "    %s", value->words[i]);
        if (with_sources)
            print_source(text, start, value->wheres[i], value->given);
        weft_text_add(text, "\n");
    }
}

/* A default that is no value, or does nothing here, is a comment, so that reading it again does not
 * set it. */
static bool is_comment(const weft_section *section, const weft_checked *value)
{
    return !value->given && (value->text[0] == '\0' ||
                             !weft_params_count(section->params, section->table, value->param));
}

static void print_value(const weft_section *section, const weft_checked *value, bool with_sources,
                        weft_text *text)
{
    size_t start = text->size;

    if (one_a_line(value)) {
        print_list(value, with_sources, text);
        return;
    }
    weft_text_print(text, "%s%s =%s%s", is_comment(section, value) ? ";" : "", value->param->name,
                    value->text[0] ? " " : "", value->text);
    if (with_sources)
        print_source(text, start, value->where, value->given);
    weft_text_add(text, "\n");
}

static bool has_something(const weft_params *params, bool only_given)
{
    for (int i = 0; i < params->n; i++)
        if (!only_given || params->values[i].given)
            return true;
    return false;
}

void weft_settings_print(const weft_settings *settings, bool with_sources, bool only_given,
                         weft_text *text)
{
    bool first = true;

    for (const weft_section *section = settings->sections; section; section = section->next) {
        if (!section->params || !has_something(section->params, only_given))
            continue;
        weft_text_print(text, "%s[%s]\n", first ? "" : "\n", section->name);
        first = false;
        for (int i = 0; i < section->params->n; i++)
            if (!only_given || section->params->values[i].given)
                print_value(section, &section->params->values[i], with_sources, text);
    }
}
