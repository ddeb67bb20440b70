/* SPDX-License-Identifier: Apache-2.0 */
/* One section against its table. Keys the table does not have are left to weft_settings_finish,
 * which knows all tables and so can say where a key belongs; only where there are no keys at all
 * they are wrong at once. */
#include "settings/values.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const weft_ini_line *first_text(const weft_ini_line *line)
{
    while (line && line->text[0] == '\0')
        line = line->next;
    return line;
}

static weft_status required(const weft_settings *settings, const weft_section *section,
                            const weft_param *param, weft_where given, weft_error *err)
{
    weft_where where = given.file ? given : section->where.file ? section->where : settings->file;

    return weft_fail(err, WEFT_ERR_INPUT, where, "[%s] needs '%s': %s", section->name, param->name,
                     param->help ? param->help : "it has no default");
}

/* The path, or, for a relative one, the absolute path from the folder of the file that names it, so
 * that the effective INI says the same wherever it is read again; the command line names from the
 * working directory. NULL when out of memory. */
static const char *path_beside(weft_pool *pool, const char *path, weft_where at)
{
    char here[PATH_MAX];
    const char *slash = at.line > 0 && at.file ? strrchr(at.file, '/') : NULL;
    int n = slash ? (int)(slash - at.file) + 1 : 0;
    if (path[0] == '/')
        return path;
    if (n > 0 && at.file[0] == '/')
        return weft_pool_format(pool, "%.*s%s", n, at.file, path);
    if (!getcwd(here, sizeof here))
        return path; /* a folder that has gone: whoever opens it will say so */
    return weft_pool_format(pool, "%s/%.*s%s", here, n, n ? at.file : "", path);
}

static weft_status check_scalar(weft_settings *settings, const weft_section *section,
                                const weft_ini_line *lines, weft_checked *value, weft_error *err)
{
    const weft_ini_line *line = first_text(lines), *more = line ? first_text(line->next) : NULL;

    if (more)
        return weft_fail(err, WEFT_ERR_INPUT, more->where,
                         "[%s] %s takes one value, and this indented line goes on with it; a key "
                         "starts in the first column",
                         section->name, value->param->name);
    value->text = line->text;
    if (value->param->flags & WEFT_PARAM_BESIDE)
        value->text = path_beside(&settings->pool, line->text, line->where);
    if (!value->text)
        return weft_fail_memory(err);
    return weft_value_parse(section->name, value->param, line->text, line->where, value, err);
}

static weft_status join_words(weft_pool *pool, weft_checked *value, weft_error *err)
{
    size_t size = 1, n;
    char *text, *end;

    for (int i = 0; i < value->n_words; i++)
        size += strlen(value->words[i]) + 1;
    text = end = weft_pool_alloc(pool, size);
    if (!text)
        return weft_fail_memory(err);
    for (int i = 0; i < value->n_words; i++) {
        if (i > 0)
            *end++ = ' ';
        n = strlen(value->words[i]);
        memcpy(end, value->words[i], n);
        end += n;
    }
    value->text = text;
    return WEFT_OK;
}

static weft_status check_list(weft_settings *settings, const weft_section *section,
                              const weft_ini_line *lines, weft_checked *value, weft_error *err)
{
    weft_checked item = {0};
    weft_status status = weft_split_words(&settings->pool, lines, &value->words, &value->wheres,
                                          &value->n_words, err);

    if (status != WEFT_OK)
        return status;
    for (int i = 0; i < value->n_words; i++) {
        const weft_status parsed = weft_value_parse(section->name, value->param, value->words[i],
                                                    value->wheres[i], &item, err);
        status = parsed ? parsed : status;
        if (value->param->flags & WEFT_PARAM_BESIDE)
            value->words[i] = path_beside(&settings->pool, value->words[i], value->wheres[i]);
        if (!value->words[i])
            return weft_fail_memory(err);
    }
    return status == WEFT_OK ? join_words(&settings->pool, value, err) : status;
}

static weft_status set_twice(const char *section, const char *key, const weft_ini_key *setting,
                             weft_error *err)
{
    char line[16] = "";

    if (setting->before.line > 0)
        snprintf(line, sizeof(line), ":%d", setting->before.line);
    return weft_fail(
        err, WEFT_ERR_INPUT, setting->where,
        "[%s] %s is already set (%s%s), and the first setting stays; take one of the two out",
        section, key, setting->before.file, line);
}

static bool is_dropped(const weft_param *param, const weft_ini_key *said)
{
    const bool code = param->flags & WEFT_PARAM_LIBRARY,
               file = param->type == WEFT_PARAM_PATH || (param->flags & WEFT_PARAM_FILE);
    if (!said || !first_text(said->lines) || param->flags & WEFT_PARAM_ONCE)
        return false;
    return said->trust == WEFT_TRUST_NONE ? code || file : said->trust != WEFT_TRUST_ALL && code;
}

static weft_status check_value(weft_settings *settings, const weft_section *section,
                               weft_checked *value, weft_error *err)
{
    const weft_ini_key *said = weft_setting_find(section, value->param->name);
    const bool dropped = is_dropped(value->param, said);
    const weft_ini_key *setting = dropped ? NULL : said;
    weft_ini_line preset = {.text = value->param->value, .where = WEFT_NOWHERE};
    const bool filled = setting && first_text(setting->lines); /* empty behind '=': not set */
    const weft_ini_line *lines = filled ? setting->lines : &preset;
    weft_status status;

    value->text = "";
    value->given = filled;
    value->dropped = dropped;
    value->where = setting ? setting->where : WEFT_NOWHERE;
    if (setting && setting->before.file && (value->param->flags & WEFT_PARAM_ONCE))
        return set_twice(section->name, value->param->name, setting, err);
    if (!filled && !dropped && !settings->broken && (value->param->flags & WEFT_PARAM_REQUIRED))
        return required(settings, section, value->param, value->where, err);
    if (!filled && (!preset.text || preset.text[0] == '\0'))
        return WEFT_OK;
    if (value->param->flags & WEFT_PARAM_LIST)
        status = check_list(settings, section, lines, value, err);
    else
        status = check_scalar(settings, section, lines, value, err);
    return status != WEFT_OK && status != WEFT_ERR_MEMORY && !filled ? WEFT_ERR_INTERNAL : status;
}

static weft_params *create_params(weft_settings *settings, const weft_section *section)
{
    weft_params *params = weft_pool_alloc(&settings->pool, sizeof(*params));
    int n = 0;

    while (section->table && section->table[n].name)
        n++;
    if (!params)
        return NULL;
    params->section = section->name;
    params->n = n;
    params->values = weft_pool_alloc(&settings->pool, (size_t)(n + 1) * sizeof(*params->values));
    return params->values ? params : NULL;
}

/* The text of `key` in "dim = 256, heads = 16"; NULL: it is not there, or memory is. */
static const char *preset_text(weft_pool *pool, const char *preset, const char *key)
{
    for (const char *p = preset; p; p = strchr(p, ',')) {
        p += strspn(p, ", ");
        size_t n = strcspn(p, " =");
        const char *text = p + n + strspn(p + n, " =");
        if (strlen(key) == n && strncmp(p, key, n) == 0)
            return weft_pool_format(pool, "%.*s", (int)strcspn(text, ","), text);
    }
    return NULL;
}

/* Numbers whose word is the name of a parameter with presets are what that one's choice says. */
static weft_status take_preset(weft_settings *settings, const weft_params *params,
                               weft_checked *value, weft_error *err)
{
    const weft_checked *from = params->values, *end = from + params->n;
    while (from < end && !(from->param->presets && from->word && value->word &&
                           strcmp(value->text, from->param->name) == 0))
        from++;
    if (from == end || from == value)
        return WEFT_OK;
    const char *preset = from->param->presets[from->word - 1];
    const char *text = preset_text(&settings->pool, preset, value->param->name);
    if (!text)
        return weft_fail(err, WEFT_ERR_INTERNAL, from->where,
                         "[%s] %s = %s has no preset of %s, which stands for it; set %s",
                         params->section, from->param->name, from->text, value->param->name,
                         value->param->name);
    return weft_value_parse(params->section, value->param, text, from->where, value, err);
}

weft_status weft_settings_section(weft_settings *settings, const char *name,
                                  const weft_param *table, const weft_params **out, weft_error *err)
{
    weft_section *section = weft_section_add(settings, name, WEFT_NOWHERE);
    weft_status status = WEFT_OK;
    weft_params *params;

    *out = NULL;
    if (!section)
        return weft_fail_memory(err);
    if (section->params && section->table == table) {
        *out = section->params;
        return WEFT_OK;
    }
    if (section->claimed && section->table != table)
        return weft_fail(err, WEFT_ERR_INTERNAL, section->where,
                         "section [%s] belongs to two tables", name);
    section->claimed = true;
    section->table = table;
    params = create_params(settings, section);
    if (!params)
        return weft_fail_memory(err);
    for (int i = 0; i < params->n; i++) {
        params->values[i].param = &table[i];
        const weft_status checked = check_value(settings, section, &params->values[i], err);
        status = checked ? checked : status;
    }
    for (int i = 0; i < params->n && !status; i++)
        status = take_preset(settings, params, &params->values[i], err);
    if (params->n == 0)
        status = weft_section_unknown(settings, section, err);
    if (status == WEFT_OK)
        *out = section->params = params;
    return status;
}
