/* SPDX-License-Identifier: Apache-2.0 */
/* [weft] plugins as a list of names. */
#include "settings/values.h"

#include <string.h>

weft_status weft_split_words(weft_pool *pool, const weft_ini_line *lines, const char ***words,
                             weft_where **wheres, int *n, weft_error *err)
{
    size_t most = 0;

    *n = 0;
    for (const weft_ini_line *line = lines; line; line = line->next)
        most += strlen(line->text) / 2 + 1;
    *words = weft_pool_alloc(pool, (most + 1) * sizeof(**words));
    *wheres = weft_pool_alloc(pool, (most + 1) * sizeof(**wheres));
    if (!*words || !*wheres)
        return weft_fail_memory(err);
    for (const weft_ini_line *line = lines; line; line = line->next) {
        char *text = weft_pool_strdup(pool, line->text), *end;

        if (!text)
            return weft_fail_memory(err);
        for (text += strspn(text, " \t"); *text; text = end + strspn(end, " \t")) {
            end = text + strcspn(text, " \t");
            if (*end)
                *end++ = '\0';
            (*words)[*n] = text;
            (*wheres)[(*n)++] = line->where;
        }
    }
    return WEFT_OK;
}

int weft_listed_find(const weft_settings *settings, const char *name)
{
    for (int i = 0; i < settings->n_listed; i++)
        if (strcmp(settings->listed[i].name, name) == 0)
            return i;
    return -1;
}

/* Names stand in file names and C symbols. */
static weft_status check_name(const char *name, weft_where where, weft_error *err)
{
    size_t n = strlen(name),
           good = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");

    if (n > 0 && n <= WEFT_INI_NAME && good == n && !(name[0] >= '0' && name[0] <= '9'))
        return WEFT_OK;
    if (strchr(name, ','))
        return weft_fail(
            err, WEFT_ERR_INPUT, where,
            "'%.60s' is not a plugin's name; names are separated by blanks, not commas", name);
    if (strchr(name, '='))
        return weft_fail(
            err, WEFT_ERR_INPUT, where,
            "'%.60s' among the plugins' names; a line with a key starts in the first column", name);
    return weft_fail(err, WEFT_ERR_INPUT, where,
                     "'%.60s' is not a plugin's name; names are made of letters, digits and '_'",
                     name);
}

weft_status weft_listed_make(const weft_settings *settings, const char *word, weft_where where,
                             weft_listed *out, weft_error *err)
{
    weft_status status;
    int twin;

    *out = (weft_listed){word, false, where};
    if (word[0] == '?') {
        out->optional = true;
        out->name++;
    }
    status = check_name(out->name, where, err);
    if (status != WEFT_OK)
        return status;
    twin = weft_listed_find(settings, out->name);
    if (twin < 0)
        return WEFT_OK;
    where = settings->listed[twin].where;
    if (where.line > 0)
        return weft_fail(err, WEFT_ERR_INPUT, out->where,
                         "plugin '%s' is listed twice, first at %s:%d; keep one", out->name,
                         where.file, where.line);
    return weft_fail(err, WEFT_ERR_INPUT, out->where, "plugin '%s' is listed twice", out->name);
}

weft_status weft_settings_list(weft_settings *settings, weft_error *err)
{
    const weft_ini_key *plugins = weft_setting_find(weft_section_find(settings, "weft"), "plugins");
    const char **words;
    weft_where *wheres;
    weft_status status;
    int n;

    settings->n_listed = 0;
    status = weft_split_words(&settings->pool, plugins ? plugins->lines : NULL, &words, &wheres, &n,
                              err);
    if (status != WEFT_OK)
        return status;
    settings->listed =
        weft_pool_alloc(&settings->pool, (size_t)(n + 1) * sizeof(*settings->listed));
    if (!settings->listed)
        return weft_fail_memory(err);
    for (int i = 0; i < n; i++) {
        weft_listed listed;

        if (weft_listed_make(settings, words[i], wheres[i], &listed, err) == WEFT_OK)
            settings->listed[settings->n_listed++] = listed;
        else
            status = WEFT_ERR_INPUT;
    }
    return status;
}

int weft_settings_plugins(const weft_settings *settings, const weft_listed **list)
{
    *list = settings->listed;
    return settings->n_listed;
}
