/* SPDX-License-Identifier: Apache-2.0 */
/* From what the user names to the settings and the weights of a model. */
#include "console/counts.h"
#include "generate.h"
#include "host/enter.h"
#include "launch/job.h"

#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <weft/files.h>
#include <weft/store.h>

/* ---- folders ---- */

static bool is_folder(const char *path)
{
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

static bool has(const char *folder, const char *name)
{
    char *path = weft_format("%s/%s", folder, name);
    bool there = path && access(path, F_OK) == 0;
    weft_free(path);
    return there;
}

/* ---- settings of a checkpoint ---- */

/* A checkpoint is data, wherever it comes from: what its manifest says is taken once its sum is
 * right, as words that stand in an INI and cannot become more than one of its lines. That they name
 * no file is seen to when they are read (weft_settings_take_as_data). */

static weft_status cannot_be(const char *what, weft_error *err)
{
    return weft_fail(
        err, WEFT_ERR_INPUT, WEFT_NOWHERE,
        "manifest.json: '%.60s' among its settings cannot stand in an INI, so weft has "
        "not written it",
        what);
}

static bool is_key(const char *key)
{
    return *key && !key[strspn(key, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                    "0123456789_-.")];
}

/* Nothing that ends a line, or begins a comment. */
static bool is_value(const char *value)
{
    for (const char *c = value; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            return false;
    return *value != ';' && !strstr(value, " ;");
}

static weft_status add_plugins(const json_t *root, weft_text *ini, weft_error *err)
{
    size_t i;
    const json_t *plugin;
    weft_text_add(ini, "[weft]\nplugins =");
    json_array_foreach(json_object_get(root, "plugins"), i, plugin) {
        const char *name = json_string_value(json_object_get(plugin, "name"));
        if (!weft_plugin_name_ok(name))
            return cannot_be(name ? name : "a plugin without a name", err);
        weft_text_print(ini, " %s", name);
    }
    weft_text_add(ini, "\n");
    return WEFT_OK;
}

/* All sections but [weft], whose plugins are listed already: its other keys are about the run, not
 * the model. */
static weft_status add_sections(json_t *root, weft_text *ini, weft_error *err)
{
    const char *section, *key;
    json_t *keys, *value;
    json_t *settings = json_object_get(root, "settings");
    json_object_foreach(settings, section, keys) {
        if (strcmp(section, "weft") == 0)
            continue;
        if (!weft_plugin_name_ok(section))
            return cannot_be(section, err);
        weft_text_print(ini, "[%s]\n", section);
        json_object_foreach(keys, key, value) {
            const char *text = json_string_value(value);
            if (!is_key(key) || (text && !is_value(text)))
                return cannot_be(key, err);
            if (text && *text)
                weft_text_print(ini, "%s = %s\n", key, text);
        }
    }
    return WEFT_OK;
}

static weft_status read_json(const char *folder, const char *name, json_t **root, weft_error *err)
{
    char *path = weft_format("%s/%s", folder, name), *data = NULL;
    size_t size;
    json_error_t why;
    weft_status s = path ? weft_read_file(path, &data, &size, err) : weft_fail_memory(err);
    *root = s ? NULL : json_loadb(data, size, 0, &why);
    if (!s && !*root)
        s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "%s, line %d: %s", path, why.line,
                      why.text);
    weft_free(data);
    weft_free(path);
    return s;
}

static weft_status settings_of_checkpoint(generate_source *s, weft_error *err)
{
    weft_manifest m;
    weft_text ini = {0};
    weft_status status = weft_manifest_read(weft_io_system(), s->folder, &m, err);
    status = status ? status : add_plugins(m.json, &ini, err);
    status = status ? status : add_sections(m.json, &ini, err);
    s->origin = weft_format("%s/manifest.json", s->folder);
    if (!status &&
        (!s->origin || ini.out_of_memory || !(s->ini = weft_strdup(weft_text_get(&ini)))))
        status = weft_fail_memory(err);
    weft_text_release(&ini);
    weft_manifest_release(&m);
    return status;
}

/* ---- the lock ---- */

/* What a run was locked to, what is written with it is locked to, too: RUN/config.ini above
 * RUN/ckpt/step-N. Nothing else of it is taken. */
static weft_status find_lock(generate_source *s, weft_error *err)
{
    static const char *const keys[2] = {"lock", "lock_key"};
    char *path = weft_format("%s/../../config.ini", s->folder);
    weft_settings *run = NULL;
    const weft_params *core;
    weft_status status = path ? WEFT_OK : weft_fail_memory(err);
    if (path && access(path, F_OK) == 0)
        status = weft_cli_read_alone(path, &run, err);
    if (run && !status)
        status = weft_settings_section(run, "weft", weft_core_params("weft"), &core, err);
    for (int i = 0; i < 2 && run && !status; i++) {
        const char *text = weft_params_text(core, keys[i]);
        if (*text && !(s->lock[i] = weft_format("weft.%s=%s", keys[i], text)))
            status = weft_fail_memory(err);
    }
    weft_settings_destroy(run);
    weft_free(path);
    return status;
}

/* ---- folders of other programs ---- */

static weft_status not_a_model(const char *path, weft_error *err)
{
    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                     "%s holds no model that can be read: a run has ckpt/step-N, a checkpoint "
                     "manifest.json, and a Hugging Face folder config.json",
                     path);
}

static bool is_of(const weft_plugins *plugins, const weft_model_format *format, const char *path)
{
    const weft_entry entry =
        weft_enter(weft_plugins_giver(plugins, format), "is", WEFT_NOWHERE, NULL);
    bool is = format->is(path);
    weft_leave(&entry, WEFT_OK);
    return is;
}

/* What is asked of all plugins, a lock among it, holds for this one, too. */
static weft_status edit_as_given(const generate_source *s, weft_settings *settings, weft_error *err)
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < s->n_edits && !status; i++) {
        const weft_cli_edit *e = &s->edits[i];
        if (e->kind == WEFT_CLI_SET && strncmp(e->text, "weft.", 5) == 0 &&
            strncmp(e->text, "weft.plugins=", 13) != 0)
            status = weft_settings_override(settings, e->text, err);
    }
    return status;
}

/* The plugin that knows the format says what model it is. */
static weft_status settings_of_format(generate_source *s, const char *path, weft_error *err)
{
    static const char list[] = "[weft]\nplugins = ?hf\n[train]\nsteps = 1\n";
    static const weft_log silent;
    weft_settings *settings = NULL;
    weft_plugins *plugins = NULL;
    weft_text ini = {0};
    void *self;
    weft_status status = weft_settings_read_text("formats", list, strlen(list), &settings, err);
    status = status ? status : edit_as_given(s, settings, err);
    status = status ? status : weft_plugins_load(settings, &silent, &plugins, err);
    const weft_model_format *format =
        status ? NULL : weft_plugins_service(plugins, "format", &self);
    if (!status && (!format || !is_of(plugins, format, path)))
        status = not_a_model(path, err);
    if (!status) {
        const weft_entry entry =
            weft_enter(weft_plugins_giver(plugins, format), "settings", WEFT_NOWHERE, err);
        const weft_finder finder = {plugins->search, weft_cli_find_plugin};
        status = weft_leave(&entry, format->settings(path, &finder, &ini, err));
    }
    if (!status && !(s->ini = weft_strdup(weft_text_get(&ini))))
        status = weft_fail_memory(err);
    weft_text_release(&ini);
    weft_plugins_destroy(plugins);
    weft_settings_destroy(settings);
    s->weights = true;
    return status;
}

/* ---- the tokenizer ---- */

/* A checkpoint's own copy counts, whatever has become of the file that the run was trained with. */
static weft_status find_tokenizer(generate_source *s, weft_error *err)
{
    weft_manifest m;
    weft_status status = weft_manifest_read(weft_io_system(), s->folder, &m, err);
    const char *given = json_string_value(
        json_object_get(json_object_get(json_object_get(m.json, "settings"), "text"), "tokenizer"));
    const char *slash = given ? strrchr(given, '/') : NULL, *name = slash ? slash + 1 : given;
    if (!name || !*name || *name == '.' || !has(s->folder, name)) /* a folder was given; or the
                                                                    checkpoint was converted, and
                                                                    has no such setting */
        name = "tokenizer.json";
    if (!status && (!given || strcmp(given, "bytes") != 0) && has(s->folder, name)) {
        s->own_tokenizer = weft_format("text.tokenizer=%s/%s", s->folder, name);
        status = s->own_tokenizer ? WEFT_OK : weft_fail_memory(err);
    }
    weft_manifest_release(&m);
    return status;
}

/* ---- eos ---- */

static weft_status add_eos(generate_source *s, const json_t *value, weft_error *err)
{
    int32_t *more = weft_realloc(s->eos, (size_t)(s->n_eos + 1) * sizeof *more);
    if (!more)
        return weft_fail_memory(err);
    s->eos = more;
    json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
    if (id >= 0 && id <= INT32_MAX)
        s->eos[s->n_eos++] = (int32_t)id;
    return WEFT_OK;
}

/* "eos_token_id": one number or several, of generation_config.json or, if that says none, of
 * config.json. */
static weft_status read_eos(generate_source *s, const char *folder, weft_error *err)
{
    static const char *const files[] = {"generation_config.json", "config.json"};
    weft_status status = WEFT_OK;
    for (int f = 0; f < 2 && !status && s->n_eos == 0; f++) {
        json_t *root;
        size_t i;
        const json_t *value;
        if (!has(folder, files[f]))
            continue;
        status = read_json(folder, files[f], &root, err);
        if (status)
            break;
        const json_t *eos = json_object_get(root, "eos_token_id");
        if (!json_is_array(eos))
            status = add_eos(s, eos, err);
        json_array_foreach(eos, i, value)
            status = status ? status : add_eos(s, value, err);
        json_decref(root);
    }
    return status;
}

/* ---- what the settings say ---- */

static void look_at_plugins(generate_source *s, const weft_settings *settings)
{
    s->lists_text = s->lists_text || weft_listed_find(settings, "text") >= 0;
    s->sample = s->sample || weft_listed_find(settings, "sample") >= 0;
    s->images = s->images || weft_listed_find(settings, "images") >= 0;
    s->lists_store = s->lists_store || weft_listed_find(settings, "ckpt") >= 0;
    s->lists_weights = s->lists_weights || weft_listed_find(settings, "hf") >= 0;
}

static const weft_param load[] = {
    {.name = "load", .type = WEFT_PARAM_PATH, .refuses = "ckpt.initial"}, {.name = NULL}};

/* A folder that the parameters begin as says what ends texts, too. */
static weft_status eos_of_weights(generate_source *s, weft_settings *settings, weft_error *err)
{
    const weft_params *hf;
    weft_status status = weft_settings_section(settings, "hf", load, &hf, err);
    return status ? status : read_eos(s, weft_params_text(hf, "load"), err);
}

/* An INI's own weights: those of its run folder's newest checkpoint, else those that it begins
 * with. */
static weft_status weights_of_ini(generate_source *s, weft_settings *settings, weft_error *err)
{
    const weft_params *run;
    weft_status status =
        weft_settings_section(settings, "weft", weft_core_params("weft"), &run, err);
    if (status)
        return status;
    const char *dir = weft_params_text(run, "dir");
    status = *dir ? weft_checkpoint_find(weft_io_system(), dir, &s->folder, err) : WEFT_OK;
    if (status)
        return status;
    s->checkpoint = s->folder != NULL;
    s->weights = !s->folder && s->lists_weights;
    if (s->weights)
        return eos_of_weights(s, settings, err);
    if (s->folder)
        return WEFT_OK;
    if (!*dir)
        return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(run, "dir"),
                         "[weft] dir is not set, so there is no checkpoint to write with; set it, "
                         "or try --untrained");
    return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(run, "dir"),
                     "there is no checkpoint in %s/ckpt yet; %strain, or try --untrained", dir,
                     s->lists_store ? "" : "list ckpt in [weft] plugins and ");
}

/* An INI that training refuses, since it says twice where parameters begin. */
static weft_status check_beginning(const generate_source *s, weft_settings *settings,
                                   weft_error *err)
{
    static const weft_param initial[] = {{.name = "initial", .type = WEFT_PARAM_PATH},
                                         {.name = NULL}};
    const weft_params *params;
    if (!s->lists_weights || !s->lists_store)
        return WEFT_OK;
    weft_status status = weft_settings_section(settings, "hf", load, &params, err);
    status = status ? status : weft_settings_section(settings, "ckpt", initial, &params, err);
    return status ? status : weft_settings_check_keys(settings, NULL, err);
}

static bool gives_data(const weft_plugin *plugin)
{
    for (const weft_contribution *c = plugin->contributions; c && c->kind != WEFT_END; c++)
        if (c->kind == WEFT_SERVICE &&
            (strcmp(c->service, "data") == 0 || strcmp(c->service, "tokenizer") == 0))
            return true;
    return false;
}

/* Beside another plugin's data, or its tokenizer, there is no place for text. */
static void leave_text_out(generate_source *s, const weft_plugins *plugins)
{
    for (int i = 0; i < plugins->n; i++)
        if (gives_data(plugins->list[i].module.plugin))
            s->wants_text = false;
}

/* What only the plugins themselves say. */
static weft_status look_into_plugins(generate_source *s, weft_settings *settings, weft_error *err)
{
    static const weft_log silent;
    weft_plugins *plugins;
    weft_status status = weft_plugins_load(settings, &silent, &plugins, err);
    if (status)
        return status;
    leave_text_out(s, plugins);
    weft_plugins_destroy(plugins);
    return status;
}

static bool one_rank(const weft_cli_options *options)
{
    weft_job job;
    weft_error err = {0};
    if (options->ranks == 1)
        return true;
    bool alone = options->ranks == 0 && !weft_job_find(&job, &err) && job.ranks == 1;
    if (options->ranks == 0)
        weft_job_release(&job);
    weft_error_release(&err);
    return alone;
}

/* As they will be, the checkpoint's own tokenizer among them. */
static weft_status look_at_axes(generate_source *s, const weft_cli_options *read, weft_error *err)
{
    weft_cli_options whole = *read;
    weft_cli_edit *edits = weft_alloc_zero((size_t)s->n_edits + 1, sizeof *edits);
    if (!edits)
        return weft_fail_memory(err);
    whole.edits = edits;
    whole.n_edits = 0;
    if (s->own_tokenizer && s->lists_text)
        edits[whole.n_edits++] = (weft_cli_edit){WEFT_CLI_SET, s->own_tokenizer, NULL};
    for (int i = 0; i < s->n_edits; i++)
        edits[whole.n_edits++] = s->edits[i];
    weft_status status = generate_axes_find(&s->axes, &whole, err);
    weft_free(edits);
    return status;
}

static weft_status look_at_settings(generate_source *s, const weft_cli_options *options,
                                    bool untrained, weft_error *err)
{
    weft_cli_options read = *options;
    weft_settings *settings;
    read.ini = s->origin ? s->origin : s->name;
    read.ini_text = s->ini;
    read.ini_trust = s->ini && s->checkpoint ? WEFT_TRUST_NONE : WEFT_TRUST_ALL;
    read.edits = s->edits;
    read.n_edits = s->n_edits;
    weft_status status = weft_cli_settings(&read, &settings, err);
    if (status)
        return status;
    look_at_plugins(s, settings);
    status = check_beginning(s, settings, err);
    if (!status && !untrained && !s->folder && !s->weights)
        status = weights_of_ini(s, settings, err);
    if (!status && s->checkpoint)
        status = find_tokenizer(s, err);
    s->wants_text = s->own_tokenizer && !s->lists_text;
    if (!status && s->wants_text)
        status = look_into_plugins(s, settings, err);
    weft_settings_destroy(settings);
    if (!status && s->ini && s->checkpoint && one_rank(options))
        status = look_at_axes(s, &read, err);
    return status;
}

/* Of images, where it makes pictures: it is listed anyhow, and settings of it come behind. */
static bool lists_images(const weft_cli_edit *e)
{
    return e->kind == WEFT_CLI_WITH && strcmp(e->text, "images") == 0;
}

static bool sets_images(const weft_cli_edit *e)
{
    return e->kind == WEFT_CLI_SET && strncmp(e->text, "images.", 7) == 0;
}

static weft_status take_edits(generate_source *s, const weft_cli_options *options, bool pictures,
                              weft_error *err)
{
    s->edits = weft_alloc_zero((size_t)options->n_edits + 2, sizeof *s->edits);
    s->late = weft_alloc_zero((size_t)options->n_edits + 1, sizeof *s->late);
    if (!s->edits || !s->late)
        return weft_fail_memory(err);
    for (int i = 0; i < 2; i++)
        if (s->lock[i])
            s->edits[s->n_edits++] = (weft_cli_edit){WEFT_CLI_SET, s->lock[i], NULL};
    for (int i = 0; i < options->n_edits; i++) {
        const weft_cli_edit *e = &options->edits[i];
        if (pictures && sets_images(e))
            s->late[s->n_late++] = *e;
        else if (!pictures || !lists_images(e))
            s->edits[s->n_edits++] = *e;
    }
    return WEFT_OK;
}

weft_status generate_source_find(generate_source *s, const char *path,
                                 const weft_cli_options *options, const generate_wishes *w,
                                 weft_error *err)
{
    const bool pictures = w->out != NULL;
    weft_status status = WEFT_OK;
    *s = (generate_source){.name = path};
    if (is_folder(path)) {
        status = weft_checkpoint_find(weft_io_system(), path, &s->folder, err);
        s->checkpoint = s->folder != NULL;
        status = s->checkpoint && !status ? find_lock(s, err) : status;
        status = status ? status : take_edits(s, options, pictures, err);
        if (status)
            return status;
        status = s->checkpoint ? settings_of_checkpoint(s, err) : settings_of_format(s, path, err);
        status = status ? status : read_eos(s, s->folder ? s->folder : path, err);
    } else if (access(path, R_OK) != 0) {
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "%s: %s", path, strerror(errno));
    } else {
        status = take_edits(s, options, pictures, err);
    }
    return status ? status : look_at_settings(s, options, w->untrained, err);
}

void generate_source_release(generate_source *s)
{
    weft_free(s->folder);
    weft_free(s->origin);
    weft_free(s->ini);
    weft_free(s->eos);
    weft_free(s->own_tokenizer);
    weft_free(s->lock[0]);
    weft_free(s->lock[1]);
    weft_free(s->edits);
    weft_free(s->late);
    generate_axes_release(&s->axes);
    memset(s, 0, sizeof *s);
}
