/* SPDX-License-Identifier: Apache-2.0 */
/* Reading: a file and what it includes, then overrides, into sections of settings where the last
 * one set wins. */
#include "base/files.h"
#include "settings/values.h"

#include <weft/files.h>

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MAX_DEPTH = 16, MAX_FILES = 100 };

/* A file being read, and the one that includes it. */
typedef struct frame {
    const char *name;
    const char *real; /* its real path; NULL: text */
    int depth;
    weft_where where; /* of the include */
    const struct frame *up;
} frame;

/* ---- sections ---- */

weft_section *weft_section_find(const weft_settings *settings, const char *name)
{
    for (weft_section *section = settings->sections; section; section = section->next)
        if (strcmp(section->name, name) == 0)
            return section;
    return NULL;
}

weft_section *weft_section_add(weft_settings *settings, const char *name, weft_where where)
{
    weft_section **end = &settings->sections, *section = weft_section_find(settings, name);

    if (section)
        return section;
    section = weft_pool_alloc(&settings->pool, sizeof(*section));
    if (!section)
        return NULL;
    section->name = weft_pool_strdup(&settings->pool, name);
    section->where = where;
    if (!section->name)
        return NULL;
    while (*end)
        end = &(*end)->next;
    *end = section;
    return section;
}

const weft_ini_key *weft_setting_find(const weft_section *section, const char *key)
{
    for (const weft_ini_key *s = section ? section->settings : NULL; s; s = s->next)
        if (strcmp(s->key, key) == 0)
            return s;
    return NULL;
}

weft_status weft_setting_put(weft_settings *settings, weft_section *section, const char *key,
                             weft_ini_line *lines, weft_where where, weft_error *err)
{
    weft_ini_key **end = &section->settings, *setting;

    while (*end && strcmp((*end)->key, key) != 0)
        end = &(*end)->next;
    setting = *end ? *end : weft_pool_alloc(&settings->pool, sizeof(*setting));
    if (!setting)
        return weft_fail_memory(err);
    if (!setting->key)
        setting->key = weft_pool_strdup(&settings->pool, key);
    if (!setting->key)
        return weft_fail_memory(err);
    setting->lines = lines;
    setting->before = setting->where;
    setting->where = where;
    setting->trust = WEFT_TRUST_ALL;
    *end = setting;
    return WEFT_OK;
}

/* ---- files ---- */

static const weft_kept_file *find_kept(const weft_settings *settings, const char *name)
{
    for (const weft_kept_file *f = settings->files; f; f = f->next)
        if (strcmp(f->name, name) == 0)
            return f;
    return NULL;
}

/* Keeps a copy of a file. at: the include; nowhere for the main file. */
static weft_status keep(weft_settings *settings, const weft_kept_file *file, weft_where at,
                        const weft_kept_file **out, weft_error *err)
{
    weft_kept_file **end = &settings->files, *kept;
    char *text;

    if (file->size > WEFT_INI_FILE)
        return weft_fail(err, WEFT_ERR_INPUT, at, "'%s' has more than %d bytes; that is not an INI",
                         file->name, WEFT_INI_FILE);
    kept = weft_pool_alloc(&settings->pool, sizeof(*kept));
    text = weft_pool_alloc(&settings->pool, file->size + 1);
    if (!kept || !text)
        return weft_fail_memory(err);
    *kept = (weft_kept_file){.name = weft_pool_strdup(&settings->pool, file->name),
                             .real = weft_pool_strdup(&settings->pool, file->real),
                             .text = memcpy(text, file->text, file->size),
                             .size = file->size};
    if (!kept->name || !kept->real)
        return weft_fail_memory(err);
    while (*end)
        end = &(*end)->next;
    *out = *end = kept;
    return WEFT_OK;
}

/* The file, from the disk or from what was given; a file that is included twice is read once. */
static weft_status keep_file(weft_settings *settings, const char *path, weft_where at,
                             const weft_kept_file **out, weft_error *err)
{
    char real[PATH_MAX];
    weft_text text = {0};
    int fd;

    *out = find_kept(settings, path);
    if (*out)
        return WEFT_OK;
    if (settings->packed)
        return weft_fail(err, WEFT_ERR_INTERNAL, at,
                         "'%s' is not among the files that came with this one", path);
    weft_status status = weft_open_file(path, at, &fd, err);
    if (status != WEFT_OK)
        return status;
    status = weft_read_all(fd, path, WEFT_INI_FILE, &text, err);
    close(fd);
    const weft_kept_file file = {.name = path,
                                 .real = realpath(path, real) ? real : path,
                                 .text = weft_text_get(&text),
                                 .size = text.size};
    status = status ? status : keep(settings, &file, at, out, err);
    weft_text_release(&text);
    return status;
}

/* "a.ini -> b.ini -> a.ini", from the frame where the cycle begins. */
static void print_chain(const frame *top, const frame *begin, weft_text *text)
{
    if (top != begin)
        print_chain(top->up, begin, text);
    weft_text_print(text, "%s -> ", top->name);
}

static weft_status check_cycle(const frame *now, weft_error *err)
{
    for (const frame *up = now->up; up; up = up->up) {
        weft_text chain = {0};
        weft_status status;

        if (!up->real || strcmp(up->real, now->real) != 0)
            continue;
        print_chain(now->up, up, &chain);
        status = weft_fail(err, WEFT_ERR_INPUT, now->where,
                           "include cycle: %s%s; remove one of these includes",
                           weft_text_get(&chain), now->name);
        weft_text_release(&chain);
        return status;
    }
    return WEFT_OK;
}

static weft_status read_entries(weft_settings *settings, const frame *now, const char *text,
                                size_t size, weft_error *err);

static weft_status read_file(weft_settings *settings, const char *path, weft_where where,
                             const frame *up, weft_error *err)
{
    frame now = {.name = path, .depth = up ? up->depth + 1 : 0, .where = where, .up = up};
    const weft_kept_file *file;
    weft_status status;

    if (now.depth > MAX_DEPTH)
        return weft_fail(err, WEFT_ERR_INPUT, where, "includes nest deeper than %d files",
                         MAX_DEPTH);
    if (++settings->n_files > MAX_FILES)
        return weft_fail(err, WEFT_ERR_INPUT, where, "more than %d includes", MAX_FILES);
    status = keep_file(settings, path, where, &file, err);
    if (status != WEFT_OK)
        return status;
    now.real = file->real;
    status = check_cycle(&now, err);
    return status == WEFT_OK ? read_entries(settings, &now, file->text, file->size, err) : status;
}

/* include = FILE, relative to the folder of the file it stands in. */
static weft_status include(weft_settings *settings, const frame *now, const weft_ini_entry *entry,
                           weft_error *err)
{
    const char *file = entry->lines->text, *slash = now->real ? strrchr(now->name, '/') : NULL;
    char *path;

    if (file[0] == '\0' || entry->lines->next)
        return weft_fail(err, WEFT_ERR_INPUT, entry->where,
                         "include takes one file; write 'include = FILE'");
    if (file[0] == '/' || !slash)
        path = weft_pool_strdup(&settings->pool, file);
    else
        path =
            weft_pool_format(&settings->pool, "%.*s/%s", (int)(slash - now->name), now->name, file);
    if (!path)
        return weft_fail_memory(err);
    return read_file(settings, path, entry->where, now, err);
}

/* An empty value is none. */
static bool is_set(const weft_ini_key *setting)
{
    for (const weft_ini_line *line = setting ? setting->lines : NULL; line; line = line->next)
        if (line->text[0])
            return true;
    return false;
}

static weft_status use_entry(weft_settings *settings, const frame *now, const weft_ini_entry *entry,
                             weft_error *err)
{
    weft_section *section;

    if (entry->key && !entry->lines)
        return WEFT_ERR_MEMORY; /* noted when it was read */
    if (entry->key && strcmp(entry->key, "include") == 0 &&
        (entry->section[0] == '\0' || strcmp(entry->section, "weft") == 0))
        return include(settings, now, entry, err);
    section = weft_section_add(settings, entry->section,
                               settings->fallback ? settings->file : entry->where);
    if (!section)
        return weft_fail_memory(err);
    if (settings->fallback && entry->key && is_set(weft_setting_find(section, entry->key)))
        return WEFT_OK;
    return entry->key
               ? weft_setting_put(settings, section, entry->key, entry->lines, entry->where, err)
               : WEFT_OK;
}

static weft_status read_entries(weft_settings *settings, const frame *now, const char *text,
                                size_t size, weft_error *err)
{
    weft_ini_entry *entries = NULL;
    weft_status status = weft_ini_parse(&settings->pool, now->name, text, size, &entries, err);

    for (const weft_ini_entry *entry = entries; entry && status != WEFT_ERR_MEMORY;
         entry = entry->next) {
        weft_status used = use_entry(settings, now, entry, err);

        if (used != WEFT_OK)
            status = used;
    }
    return status;
}

/* ---- the public ways in ---- */

static weft_settings *create(const char *name, weft_error *err)
{
    weft_settings *settings = weft_alloc_zero(1, sizeof(*settings));

    if (settings)
        settings->file.file = weft_pool_strdup(&settings->pool, name);
    if (settings && settings->file.file)
        return settings;
    weft_settings_destroy(settings);
    weft_fail_memory(err);
    return NULL;
}

/* Where lines are wrong, what the others say to the core is checked all the same. A wrong one may
 * have named a lock: no plugin is opened for the sake of more errors. */
static void check_core(weft_settings *settings, weft_error *err)
{
    static const char *const names[] = {"weft", "train", "mesh"};
    const weft_params *params;
    settings->broken = true;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        weft_section *section = weft_section_find(settings, names[i]);
        if (!section)
            continue;
        weft_settings_section(settings, names[i], weft_core_params(names[i]), &params, err);
        weft_section_unknown(settings, section, err);
    }
}

static weft_status finish_reading(weft_settings *settings, weft_status status, weft_settings **out,
                                  weft_error *err)
{
    weft_status listed = status == WEFT_ERR_MEMORY ? status : weft_settings_list(settings, err);

    if (status == WEFT_ERR_INPUT)
        check_core(settings, err);
    if (status == WEFT_OK)
        status = listed;
    if (status == WEFT_OK)
        *out = settings;
    else
        weft_settings_destroy(settings);
    return status;
}

weft_status weft_settings_read(const char *file, weft_settings **out, weft_error *err)
{
    weft_settings *settings = create(file, err);

    *out = NULL;
    if (!settings)
        return WEFT_ERR_MEMORY;
    return finish_reading(
        settings, read_file(settings, settings->file.file, WEFT_NOWHERE, NULL, err), out, err);
}

weft_status weft_settings_read_text(const char *name, const char *text, size_t size,
                                    weft_settings **out, weft_error *err)
{
    weft_settings *settings = create(name, err);
    frame now = {0};

    *out = NULL;
    if (!settings)
        return WEFT_ERR_MEMORY;
    now.name = settings->file.file;
    if (size > WEFT_INI_FILE) {
        weft_settings_destroy(settings);
        return weft_fail(err, WEFT_ERR_INPUT, (weft_where){name, 0},
                         "more than %d bytes; that is not an INI", WEFT_INI_FILE);
    }
    return finish_reading(settings, read_entries(settings, &now, text, size, err), out, err);
}

weft_status weft_settings_read_kept(const weft_kept_file *files, weft_settings **out,
                                    weft_error *err)
{
    weft_settings *settings = create(files->name, err);
    weft_status status = settings ? WEFT_OK : WEFT_ERR_MEMORY;
    const weft_kept_file *kept;

    *out = NULL;
    for (const weft_kept_file *f = files; f && status == WEFT_OK; f = f->next)
        status = keep(settings, f, WEFT_NOWHERE, &kept, err);
    if (status != WEFT_OK) {
        weft_settings_destroy(settings);
        return status;
    }
    settings->packed = true;
    return finish_reading(
        settings, read_file(settings, settings->file.file, WEFT_NOWHERE, NULL, err), out, err);
}

weft_status weft_settings_fall_back(weft_settings *settings, const char *name, const char *text,
                                    weft_error *err)
{
    const frame now = {.name = name};

    settings->fallback = true;
    weft_status status = read_entries(settings, &now, text, strlen(text), err);
    settings->fallback = false;
    return status;
}

void weft_settings_destroy(weft_settings *settings)
{
    if (!settings)
        return;
    weft_pool_release(&settings->pool);
    weft_free(settings);
}
