/* SPDX-License-Identifier: Apache-2.0 */
/* What the words of a command line change in settings: --with, --without and -o. */
#include "console/settings.h"
#include "settings/values.h"

#include <string.h>

/* Writes the list back to [weft] plugins, so that what is checked and printed is what is listed. */
static weft_status put_list(weft_settings *settings, weft_where where, weft_error *err)
{
    weft_section *section = weft_section_add(settings, "weft", where);
    weft_ini_line *lines =
        weft_pool_alloc(&settings->pool, (size_t)(settings->n_listed + 1) * sizeof(*lines));

    if (!section || !lines)
        return weft_fail_memory(err);
    lines[0].text = "";
    lines[0].where = where;
    for (int i = 0; i < settings->n_listed; i++) {
        const weft_listed *listed = &settings->listed[i];

        lines[i].next = &lines[i + 1];
        lines[i + 1].text =
            weft_pool_format(&settings->pool, "%s%s", listed->optional ? "?" : "", listed->name);
        lines[i + 1].where = listed->where;
        if (!lines[i + 1].text)
            return weft_fail_memory(err);
    }
    return weft_setting_put(settings, section, "plugins", lines, where, err);
}

/* ---- --with, --without ---- */

static weft_status not_listed(const weft_settings *settings, const char *name, weft_where where,
                              weft_error *err)
{
    const char **names = weft_alloc((size_t)(settings->n_listed + 1) * sizeof(*names)), *near;
    weft_status status;

    if (!names)
        return weft_fail_memory(err);
    for (int i = 0; i < settings->n_listed; i++)
        names[i] = settings->listed[i].name;
    near = weft_nearest(name, names, settings->n_listed);
    status = weft_fail(err, WEFT_ERR_INPUT, where,
                       "plugin '%.60s' is not listed in [weft] plugins%s%s%s", name,
                       near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    weft_free(names);
    return status;
}

/* The index that "first", "after:OTHER", "before:OTHER" or nothing at all (the end) stand for. */
static weft_status find_place(const weft_settings *settings, const char *place, weft_where where,
                              int *index, weft_error *err)
{
    const char *other = place ? strchr(place, ':') : NULL;

    *index = place ? 0 : settings->n_listed;
    if (!place || strcmp(place, "first") == 0)
        return WEFT_OK;
    if (!other || (strncmp(place, "after:", 6) != 0 && strncmp(place, "before:", 7) != 0))
        return weft_fail(err, WEFT_ERR_INPUT, where,
                         "'@%.60s' is not a place in the list; write NAME, NAME@first, "
                         "NAME@after:OTHER or NAME@before:OTHER",
                         place);
    *index = weft_listed_find(settings, other + 1);
    if (*index < 0)
        return not_listed(settings, other + 1, where, err);
    *index += place[0] == 'a';
    return WEFT_OK;
}

static void forget_removed(weft_settings *settings, const char *name)
{
    for (int i = 0; i < settings->n_removed; i++)
        if (strcmp(settings->removed[i], name) == 0)
            settings->removed[i--] = settings->removed[--settings->n_removed];
}

/* Where an edit is said to be: `as` where something else asked for it than the option. */
static weft_where place_of(weft_settings *settings, const char *as, const char *option,
                           const char *text)
{
    return (weft_where){as ? weft_pool_strdup(&settings->pool, as)
                           : weft_pool_format(&settings->pool, "%s %.100s", option, text),
                        0};
}

weft_status weft_settings_with_as(weft_settings *settings, const char *spec, const char *as,
                                  weft_error *err)
{
    weft_where where = place_of(settings, as, "--with", spec);
    char *name = weft_pool_strdup(&settings->pool, spec), *place = name ? strchr(name, '@') : NULL;
    weft_listed listed, *list;
    weft_status status;
    int at;

    if (!where.file || !name)
        return weft_fail_memory(err);
    if (weft_ini_bad_byte(spec, strlen(spec)))
        return weft_fail(err, WEFT_ERR_INPUT, (weft_where){"--with", 0},
                         "the name holds a control character or is not UTF-8");
    if (place)
        *place++ = '\0';
    status = weft_listed_make(settings, name, where, &listed, err);
    if (status != WEFT_OK)
        return status;
    status = find_place(settings, place, where, &at, err);
    if (status != WEFT_OK)
        return status;
    list = weft_pool_alloc(&settings->pool, (size_t)(settings->n_listed + 2) * sizeof(*list));
    if (!list)
        return weft_fail_memory(err);
    for (int i = 0, j = 0; i <= settings->n_listed; i++)
        list[i] = i == at ? listed : settings->listed[j++];
    settings->listed = list;
    settings->n_listed++;
    forget_removed(settings, listed.name);
    return put_list(settings, where, err);
}

weft_status weft_settings_with(weft_settings *settings, const char *spec, weft_error *err)
{
    return weft_settings_with_as(settings, spec, NULL, err);
}

weft_status weft_settings_without(weft_settings *settings, const char *name, weft_error *err)
{
    return weft_settings_without_as(settings, name, NULL, err);
}

weft_status weft_settings_without_as(weft_settings *settings, const char *name, const char *as,
                                     weft_error *err)
{
    weft_where where = {as ? weft_pool_strdup(&settings->pool, as)
                           : weft_pool_format(&settings->pool, "--without %s", name),
                        0};
    const char **removed;
    int at = weft_listed_find(settings, name);

    if (!where.file)
        return weft_fail_memory(err);
    if (at < 0)
        return not_listed(settings, name, where, err);
    removed =
        weft_pool_alloc(&settings->pool, (size_t)(settings->n_removed + 1) * sizeof(*removed));
    if (!removed)
        return weft_fail_memory(err);
    for (int i = 0; i < settings->n_removed; i++)
        removed[i] = settings->removed[i];
    removed[settings->n_removed] = settings->listed[at].name;
    settings->removed = removed;
    settings->n_removed++;
    settings->n_listed--;
    memmove(&settings->listed[at], &settings->listed[at + 1],
            (size_t)(settings->n_listed - at) * sizeof(*settings->listed));
    return put_list(settings, where, err);
}

/* ---- -o ---- */

/* A value must be one that an INI line can hold, or the effective INI could not be loaded again. */
static weft_status check_value(const char *value, weft_where where, weft_error *err)
{
    if (value[0] == ';' || strstr(value, " ;") || strstr(value, "\t;"))
        return weft_fail(
            err, WEFT_ERR_INPUT, where,
            "a value cannot hold ';' behind a blank: it starts a comment in an INI file");
    if (strlen(value) > WEFT_INI_LINE - 2 * WEFT_INI_NAME)
        return weft_fail(err, WEFT_ERR_INPUT, where, "the value has more than %d bytes",
                         WEFT_INI_LINE - 2 * WEFT_INI_NAME);
    return WEFT_OK;
}

static char *trimmed(char *text)
{
    size_t n;

    text += strspn(text, " \t");
    n = strlen(text);
    while (n > 0 && (text[n - 1] == ' ' || text[n - 1] == '\t'))
        text[--n] = '\0';
    return text;
}

weft_status weft_settings_override_as(weft_settings *settings, const char *assignment,
                                      const char *as, weft_error *err)
{
    weft_where where = place_of(settings, as, "-o", assignment);
    char *section_name = weft_pool_strdup(&settings->pool, assignment), *equals, *dot = NULL;
    weft_ini_line *line = weft_pool_alloc(&settings->pool, sizeof(*line));
    weft_section *section;
    weft_status status;

    if (!where.file || !section_name || !line)
        return weft_fail_memory(err);
    if (weft_ini_bad_byte(assignment, strlen(assignment)))
        return weft_fail(err, WEFT_ERR_INPUT, (weft_where){"-o", 0},
                         "the value holds a control character or is not UTF-8");
    equals = strchr(section_name, '=');
    if (equals) {
        *equals++ = '\0';
        dot = strchr(section_name, '.');
    }
    if (!equals || !dot || dot == section_name || dot[1] == '\0')
        return weft_fail(err, WEFT_ERR_INPUT, where, "write -o section.key=value");
    *dot++ = '\0';
    if (strlen(trimmed(section_name)) > WEFT_INI_NAME || strlen(trimmed(dot)) > WEFT_INI_NAME)
        return weft_fail(err, WEFT_ERR_INPUT, where, "names have at most %d bytes", WEFT_INI_NAME);
    line->text = trimmed(equals);
    line->where = where;
    status = check_value(line->text, where, err);
    if (status != WEFT_OK)
        return status;
    section = weft_section_add(settings, trimmed(section_name), where);
    if (!section)
        return weft_fail_memory(err);
    status = weft_setting_put(settings, section, trimmed(dot), line, where, err);
    if (status == WEFT_OK && strcmp(section->name, "weft") == 0 &&
        strcmp(trimmed(dot), "plugins") == 0)
        status = weft_settings_list(settings, err);
    return status;
}

weft_status weft_settings_override(weft_settings *settings, const char *assignment, weft_error *err)
{
    return weft_settings_override_as(settings, assignment, NULL, err);
}

void weft_settings_take_as_data(weft_settings *settings, weft_trust trust)
{
    for (weft_section *section = settings->sections; section; section = section->next) {
        section->where.line = 0;
        for (weft_ini_key *s = section->settings; s; s = s->next) {
            s->trust = trust;
            s->where.line = 0;
            for (weft_ini_line *line = s->lines; line; line = line->next)
                line->where.line = 0;
        }
    }
    for (int i = 0; i < settings->n_listed; i++)
        settings->listed[i].where.line = 0;
}
