/* SPDX-License-Identifier: Apache-2.0 */
/* What nobody claimed: keys without a parameter, sections without a plugin. */
#include "settings/values.h"

#include <string.h>

static bool has_key(const weft_param *table, const char *key)
{
    for (; table && table->name; table++)
        if (strcmp(table->name, key) == 0)
            return true;
    return false;
}

static const char *nearest_key(weft_pool *pool, const weft_param *table, const char *key)
{
    int n = 0, i = 0;

    while (table && table[n].name)
        n++;
    const char **names = weft_pool_alloc(pool, (size_t)n * sizeof(*names));
    for (; names && i < n; i++)
        names[i] = table[i].name;
    return weft_nearest(key, names, i);
}

static weft_status unknown_key(weft_settings *settings, const weft_section *section,
                               const weft_ini_key *setting, weft_error *err)
{
    const char *near = nearest_key(&settings->pool, section->table, setting->key);
    weft_text hint = {0};
    weft_status status;

    if (near)
        weft_text_print(&hint, "; did you mean '%s'?", near);
    for (const weft_section *other = settings->sections; other; other = other->next)
        if (other != section && other->claimed && has_key(other->table, setting->key))
            weft_text_print(&hint, "; '%s' is a key of [%s]", setting->key, other->name);
    if (!hint.data && (!section->table || !section->table[0].name))
        weft_text_add(&hint, "; this section has no keys");
    status = weft_fail(err, WEFT_ERR_INPUT, setting->where, "[%s] unknown key '%s'%s",
                       section->name, setting->key, weft_text_get(&hint));
    if (hint.out_of_memory || settings->pool.out_of_memory)
        status = weft_fail_memory(err);
    weft_text_release(&hint);
    return status;
}

weft_status weft_section_unknown(weft_settings *settings, const weft_section *section,
                                 weft_error *err)
{
    weft_status status = WEFT_OK;

    for (const weft_ini_key *setting = section->settings; setting; setting = setting->next)
        if (!has_key(section->table, setting->key))
            status = unknown_key(settings, section, setting, err);
    return status;
}

static bool is_among(const char *name, const char *const *candidates)
{
    for (; candidates && *candidates; candidates++)
        if (strcmp(name, *candidates) == 0)
            return true;
    return false;
}

/* Sections of the core, of listed plugins (who failed to open one said so) and of removed ones are
 * no news. */
static bool is_excused(const weft_settings *settings, const char *name)
{
    if (weft_core_params(name))
        return true;
    if (weft_listed_find(settings, name) >= 0)
        return true;
    for (int i = 0; i < settings->n_removed; i++)
        if (strcmp(settings->removed[i], name) == 0)
            return true;
    return false;
}

static const char *nearest_section(weft_settings *settings, const char *name,
                                   const char *const *candidates)
{
    int n = 0, most = settings->n_listed;

    for (const weft_section *s = settings->sections; s; s = s->next)
        most++;
    for (const char *const *c = candidates; c && *c; c++)
        most++;
    const char **names = weft_pool_alloc(&settings->pool, (size_t)most * sizeof(*names));
    if (!names)
        return NULL;
    for (const weft_section *s = settings->sections; s; s = s->next)
        if (s->claimed)
            names[n++] = s->name;
    for (int i = 0; i < settings->n_listed; i++)
        names[n++] = settings->listed[i].name;
    for (const char *const *c = candidates; c && *c; c++)
        names[n++] = *c;
    return weft_nearest(name, names, n);
}

static weft_status unknown_section(weft_settings *settings, const weft_section *section,
                                   const char *const *candidates, weft_error *err)
{
    const char *near;

    if (is_among(section->name, candidates))
        return weft_fail(
            err, WEFT_ERR_INPUT, section->where,
            "section [%s] belongs to a plugin that is not listed; add '%s' to [weft] plugins",
            section->name, section->name);
    near = nearest_section(settings, section->name, candidates);
    if (settings->pool.out_of_memory)
        return weft_fail_memory(err);
    if (near)
        return weft_fail(err, WEFT_ERR_INPUT, section->where,
                         "unknown section [%s]; did you mean [%s]?", section->name, near);
    return weft_fail(err, WEFT_ERR_INPUT, section->where,
                     "unknown section [%s]; no plugin has this name", section->name);
}

weft_status weft_settings_finish(weft_settings *settings, const char *const *candidates, bool early,
                                 weft_error *err)
{
    weft_status status = WEFT_OK;

    for (const weft_section *section = settings->sections; section; section = section->next) {
        weft_status found = WEFT_OK;

        if (early && !section->claimed && is_among(section->name, candidates))
            continue;
        if (!section->claimed && !is_excused(settings, section->name))
            found = unknown_section(settings, section, candidates, err);
        else if (section->claimed && section->table && section->table[0].name)
            found = weft_section_unknown(settings, section, err);
        if (found != WEFT_OK)
            status = found;
    }
    return status;
}
