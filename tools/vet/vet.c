/* SPDX-License-Identifier: Apache-2.0 */
/* weft vet: which plugins may be opened, and whether they are still what they were. Files are read
 * and never opened as objects, so nothing of them runs. */
#include "vet.h"
#include "cli.h"

#include "vet/image.h"

#include <string.h>
#include <unistd.h>
#include <weft/files.h>

/* ---- a lock of what an INI lists ---- */

static weft_status open_search(weft_settings *settings, weft_search **search, weft_error *err)
{
    const weft_params *core = NULL;
    weft_status s = weft_settings_section(settings, "weft", weft_core_params("weft"), &core, err);
    return s ? s : weft_search_create_for(core, true, search, err);
}

/* A set in the making. */
typedef struct making {
    weft_vetted *set;
    weft_search *search;
    weft_settings *settings; /* NULL: none, presets count */
    weft_text *notes;
    bool device;
} making;

/* The path of a library that lies beside `by`, itself given by a path; NULL: it is not there. */
static char *find_beside(const char *by, const char *name)
{
    const char *slash = strrchr(by, '/');
    if (!slash || strchr(name, '/'))
        return NULL;
    char *path = weft_format("%.*s/%s", (int)(slash - by), by, name);
    if (path && access(path, F_OK) == 0)
        return path;
    weft_free(path);
    return NULL;
}

static weft_status add_named(const making *m, const char *name, const char *by, const char *plugin,
                             const char *key, weft_error *err)
{
    bool found;
    char *beside = find_beside(by, name);
    weft_status s = weft_vet_add_named(m->set, beside ? beside : name, &found, err);
    if (!s && !found)
        weft_text_print(m->notes, "# not here, so not vetted: %s ([%s] %s)\n", name, plugin, key);
    weft_free(beside);
    return s;
}

/* What a library opens by itself: each beside it, or as the linker finds it. */
static weft_status add_parts(const making *m, const char *list, const char *by, const char *plugin,
                             const char *key, weft_error *err)
{
    char *words = weft_strdup(list), *rest = NULL;
    weft_status s = words ? WEFT_OK : weft_fail_memory(err);
    for (char *word = words ? strtok_r(words, " \t\n", &rest) : NULL; word && !s;
         word = strtok_r(NULL, " \t\n", &rest))
        s = add_named(m, word, by, plugin, key, err);
    weft_free(words);
    return s;
}

/* The libraries that a plugin opens by the names that these keys have; a list is of the library
 * that the key before it names. */
static weft_status add_libraries(void *ctx, const char *plugin, const weft_param *keys,
                                 weft_error *err)
{
    const making *m = ctx;
    const weft_params *params = NULL;
    const char *by = "";
    weft_status s =
        m->settings ? weft_settings_section(m->settings, plugin, keys, &params, err) : WEFT_OK;
    for (const weft_param *key = keys; key->name && !s; key++) {
        const char *text = weft_params_text(params, key->name);
        text = *text ? text : key->value ? key->value : "";
        if (key->flags & WEFT_PARAM_LIST) {
            s = add_parts(m, text, by, plugin, key->name, err);
            continue;
        }
        by = text;
        s = *text ? add_named(m, text, "", plugin, key->name, err) : WEFT_OK;
    }
    return s;
}

static weft_status add_plugin(making *m, const char *name, weft_where at, weft_error *err)
{
    const char *path;
    weft_status s = weft_module_find(m->search, name, at, &path, err);
    return s || !path
               ? s
               : weft_vet_add_plugin(m->set, name, path, at, &m->device, add_libraries, m, err);
}

/* What a run takes though nobody has listed it. */
static weft_status add_defaults(making *m, weft_error *err)
{
    const weft_params *weft = NULL;
    weft_default d;
    weft_status s =
        weft_settings_section(m->settings, "weft", weft_core_params("weft"), &weft, err);
    for (int i = 0; !s && weft_default_get(weft, i, &d); i++) {
        bool needed = (strcmp(d.service, "device") != 0 || !m->device) &&
                      weft_listed_find(m->settings, d.name) < 0;
        s = needed ? add_plugin(m, d.name, d.where, err) : WEFT_OK;
    }
    return s;
}

/* With -n the command lists local by itself, where no transport is listed. */
static weft_status add_local(making *m, weft_error *err)
{
    weft_error absent = {0};
    const char *path;
    const bool needed = weft_listed_find(m->settings, "local") < 0 &&
                        !weft_module_find(m->search, "local", WEFT_NOWHERE, &path, &absent);
    weft_error_release(&absent);
    return needed ? add_plugin(m, "local", WEFT_NOWHERE, err) : WEFT_OK;
}

static weft_status vet_ini(const weft_cli_options *options, weft_vetted *set, weft_text *notes,
                           weft_error *err)
{
    weft_settings *settings = NULL;
    weft_search *search = NULL;
    const weft_listed *listed;
    weft_status s = weft_cli_settings(options, &settings, err);
    s = s ? s : open_search(settings, &search, err);
    s = s ? s : weft_vet_add_program(set, err);
    making m = {set, search, settings, notes, false};
    int n = s ? 0 : weft_settings_plugins(settings, &listed);
    for (int i = 0; i < n; i++) {
        weft_status added = add_plugin(&m, listed[i].name, listed[i].where, err);
        s = s ? s : added;
    }
    s = s ? s : add_defaults(&m, err);
    s = s ? s : add_local(&m, err);
    weft_search_destroy(search);
    weft_settings_destroy(settings);
    return s;
}

/* ---- a lock that is there ---- */

/* What a line says of the file at its path now; false: it is another one, or none. */
static bool still_is(const weft_vetted_line *line, weft_error *why)
{
    weft_file_id now;
    return weft_image_identify_file(line->path, WEFT_NOWHERE, &now, why) == WEFT_OK &&
           strcmp(now.sha256, line->id.sha256) == 0;
}

/* A path may have been vetted several times: any of what it was may go on. */
static bool is_any(const weft_vetted *v, const weft_vetted_line *line, weft_error *why)
{
    weft_file_id now;
    if (weft_image_identify_file(line->path, WEFT_NOWHERE, &now, why))
        return false;
    for (int i = 0; i < v->n; i++) {
        const weft_vetted_line *l = &v->lines[i];
        if (l->kind == line->kind && strcmp(l->path, line->path) == 0 &&
            strcmp(l->id.sha256, now.sha256) == 0 &&
            (l->kind != WEFT_VETTED_PLUGIN || strcmp(l->name, line->name) == 0))
            return true;
    }
    return false;
}

static weft_status check_lock(const weft_vetted *v, weft_text *text)
{
    static const char *const words[] = {"program", "plugin", "library"};
    int bad = 0;
    for (int i = 0; i < v->n; i++) {
        weft_error why = {0};
        const weft_vetted_line *l = &v->lines[i];
        if (!is_any(v, l, &why)) {
            bad++;
            weft_text_print(text, "%s:%d: %s %s%s%s: %s\n", v->file, l->number, words[l->kind],
                            l->name ? l->name : "", l->name ? ", " : "", l->path,
                            why.n_items ? weft_error_text(&why) : "the file has changed");
        }
        weft_error_release(&why);
    }
    weft_text_print(text, "%d of %d files are as vetted\n", v->n - bad, v->n);
    return bad ? WEFT_ERR_RUN : WEFT_OK;
}

static weft_status copy_lines(const weft_vetted *v, bool prune, weft_vetted *set, weft_error *err)
{
    weft_status s = WEFT_OK;
    for (int i = 0; i < v->n && !s; i++) {
        weft_error why = {0};
        if (!prune || still_is(&v->lines[i], &why))
            s = weft_vet_add(set, &v->lines[i], err);
        weft_error_release(&why);
    }
    return s;
}

/* Adds what is found under this name now, and what it and the program need; what was vetted before
 * may go on running. */
static weft_status update(const weft_vetted *v, const char *name, weft_vetted *set,
                          weft_text *notes, weft_error *err)
{
    weft_search *search = NULL;
    weft_status s = copy_lines(v, false, set, err);
    s = s ? s : weft_search_create_for(NULL, true, &search, err);
    making m = {.set = set, .search = search, .notes = notes};
    s = s ? s : add_plugin(&m, name, WEFT_NOWHERE, err);
    weft_search_destroy(search);
    return s;
}

static weft_status write_lock(const char *path, const weft_vetted *set, weft_error *err)
{
    weft_text text = {0};
    weft_vet_print(set, &text);
    weft_status s = text.out_of_memory
                        ? weft_fail_memory(err)
                        : weft_write_file(path, weft_text_get(&text), text.size, err);
    weft_text_release(&text);
    return s;
}

typedef struct wish {
    bool check, prune;
    const char *update, *key;
} wish;

static weft_status use_lock(const wish *w, const char *path, weft_vetted *set, weft_text *text,
                            weft_error *err)
{
    weft_vetted *v = NULL;
    weft_status s = weft_vetted_read(path, WEFT_NOWHERE, false, w->key, &v, err);
    if (!s && w->check)
        s = check_lock(v, text);
    else if (!s) {
        s = w->prune ? copy_lines(v, true, set, err) : update(v, w->update, set, text, err);
        s = s ? s : write_lock(path, set, err);
        if (!s)
            weft_text_print(text, "%s: %d lines, %d before\n", path, set->n, v->n);
    }
    weft_vetted_destroy(v);
    return s;
}

int weft_cmd_vet(int argc, char **argv)
{
    wish w = {0};
    const weft_option extra[] = {
        {.name = "check",
         .help = "of a lock: name the files that are no longer as vetted; exit code 1 if any",
         .flag = &w.check},
        {.name = "update",
         .argument = "NAME",
         .help = "of a lock: let this plugin's file run as it is now, too",
         .text = &w.update},
        {.name = "key",
         .argument = "FILE",
         .help = "with --check: the lock must be signed (FILE.minisig beside it) with this public "
                 "key",
         .text = &w.key},
        {.name = "prune",
         .help = "of a lock: take out the lines of files that are no longer there",
         .flag = &w.prune},
        {0}};
    const weft_cli_usage usage = {
        .command = "vet",
        .arguments = "run.ini | plugins.lock",
        .max_arguments = 1,
        .summary =
            "Prints a lock of the plugins that an INI file lists: only they are opened where "
            "[weft] lock names it. Nothing of them runs.",
        .accepts = WEFT_CLI_INI,
        .extra = extra};
    weft_cli_options options = {0};
    weft_error err = {0};
    weft_text text = {0}, notes = {0};
    weft_vetted set = {0};
    int code = weft_cli_parse(&usage, argc, argv, &options);
    if (code != WEFT_CLI_GO)
        goto done;
    weft_status s;
    if (w.check + w.prune + !!w.update > 1)
        s = weft_fail(&err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                      "--check, --update and --prune are three things; give one of them");
    else if (w.key && !w.check)
        s = weft_fail(&err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                      "--key is for --check; a lock that is changed must be signed again");
    else if (w.check || w.prune || w.update)
        s = use_lock(&w, options.arguments[0], &set, &text, &err);
    else if (!(s = vet_ini(&options, &set, &notes, &err)))
        weft_vet_print(&set, &text);
    weft_text_add(&text, weft_text_get(&notes));
    int printed = s && !w.check ? 0 : weft_cli_print(&text);
    code = s == WEFT_ERR_RUN && w.check ? 1 : weft_cli_conclude(s, &err);
    code = code ? code : printed;
done:
    weft_vetted_release(&set);
    weft_text_release(&text);
    weft_text_release(&notes);
    weft_error_release(&err);
    weft_cli_options_release(&options);
    return code;
}
