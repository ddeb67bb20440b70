/* SPDX-License-Identifier: Apache-2.0 */
/* weft new-plugin NAME: a folder with a plugin that builds, loads and has a test, to be changed
 * into one's own. Its files are those in cli/templates, with the @WORDS@ replaced. */
#include "cli.h"
#include "ops.h"
#include "templates.h"

#include "host/plugins.h"
#include "settings/settings.h"
#include <weft/files.h>

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* What a kind of plugin's files differ in. */
typedef struct kind {
    const char *name, *source;
    const char *listed;   /* test.sh: what the INI lists between device and metrics */
    const char *settings; /* ... the sections of these */
    const char *proof;    /* ... how it is seen that the plugin was there */
    bool op;              /* has an op of its name */
    bool gradient;        /* ... and a test of its gradient */
    bool model, data;     /* it is what trains; what is trained with */
} kind;

static const kind kinds[] = {
    {"pass", weft_template_pass_c, "@NAME@ adamw", "[adamw]\nlr = 1e-2",
     "grep -m 1 '~.*= silu_mul(' plan.txt", false, false, false, false},
    {"op", weft_template_op_c, "@NAME@ adamw", "[adamw]\nlr = 1e-2",
     "grep -m 1 '= @NAME@_dx(' plan.txt\n../test_gradient", true, true, false, false},
    {"observer", weft_template_observer_c, "adamw @NAME@", "[adamw]\nlr = 1e-2",
     "grep -m 1 '@NAME@: step 20: mean loss' train.txt", false, false, false, false},
    {"optimizer", weft_template_optimizer_c, "@NAME@", "[@NAME@]\nlr = 0.1",
     "grep -m 1 '= @NAME@(' plan.txt", true, false, false, false},
    {"axis", weft_template_axis_c, "@NAME@ adamw", "[adamw]\nlr = 1e-2",
     "sed -e 's/cpu/cpu local/' run.ini >two.ini\n"
     "\"$weft\" plan two.ini -n 2 -o @NAME@.degree=2 --graph >two.txt\n"
     "grep -m 1 'batch/@NAME@' two.txt\n"
     "\"$weft\" oracle run.ini two.ini -n 2 -o B:@NAME@.degree=2",
     false, false, false, false},
    {"wrap", weft_template_wrap_c, "@NAME@ adamw", "[adamw]\nlr = 1e-2",
     "grep -m 1 '@NAME@: [0-9]* samples were read' train.txt", false, false, false, false},
    {"model", weft_template_model_c, "adamw", "[adamw]\nlr = 1e-2",
     "grep -m 1 '= embedding(' plan.txt", false, false, true, false},
    {"data", weft_template_data_c, "adamw", "[adamw]\nlr = 1e-2",
     "grep -m 1 'sequences of ids' train.txt", false, false, false, true},
    {"command", weft_template_command_c, "adamw", "[adamw]\nlr = 1e-2",
     "test \"$(\"$weft\" @NAME@ text.txt)\" = 1000", false, false, false, false},
};

enum { N_KINDS = sizeof kinds / sizeof *kinds };

/* ---- from a template to a text ---- */

typedef struct words {
    const char *name;
    const kind *kind;
} words;

/* What stands for the word between two '@'; NULL: it is none of ours. */
static const char *find_word(const words *w, const char *word, size_t n)
{
    const struct {
        const char *word, *text;
    } table[] = {
        {"NAME", w->name},
        {"LISTED", w->kind->listed},
        {"SETTINGS", w->kind->settings},
        {"PROOF", w->kind->proof},
        {"TESTS", w->kind->gradient ? "test_gradient" : ""},
        {"MODEL", w->kind->model ? w->name : "llama3"},
        {"DATA", w->kind->data ? w->name : "text"},
        {"SIZES", w->kind->model ? ""
                                 : "[llama3]\ndim = 32\nn_layers = 2\nn_heads = 2\n"
                                   "n_kv_heads = 2\nvocab_size = 258\n"},
        {"SOURCE", w->kind->data ? "" : "[text]\npath = text.txt\n"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strlen(table[i].word) == n && memcmp(table[i].word, word, n) == 0)
            return table[i].text;
    return NULL;
}

/* What replaces a word may have words in it. */
static void expand(const words *w, const char *template, weft_text *text)
{
    while (*template) {
        size_t plain = strcspn(template, "@");
        weft_text_add_bytes(text, template, plain);
        template += plain;
        if (!*template)
            return;
        size_t n = strspn(template + 1, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
        const char *found = template[1 + n] == '@' ? find_word(w, template + 1, n) : NULL;
        if (found)
            expand(w, found, text);
        else
            weft_text_add_bytes(text, template, 1);
        template += found ? n + 2 : 1;
    }
}

/* ---- files ---- */

typedef struct file {
    const char *path; /* below the folder; words are replaced */
    const char *content, *more;
    bool script;
} file;

enum { MAX_FILES = 5 };

static int list_files(const kind *k, file list[MAX_FILES])
{
    int n = 0;
    list[n++] = (file){"@NAME@/@NAME@.c", k->source, "", false};
    list[n++] = (file){"@NAME@/Makefile", weft_template_makefile,
                       k->gradient ? weft_template_makefile_gradient : "", false};
    list[n++] = (file){"@NAME@/README.md", weft_template_readme_md, "", false};
    list[n++] = (file){"@NAME@/test.sh", weft_template_test_sh, "", true};
    if (k->gradient)
        list[n++] = (file){"@NAME@/test_gradient.c", weft_template_test_gradient_c, "", false};
    return n;
}

static weft_status write_file(const words *w, const file *f, weft_error *err)
{
    weft_text path = {0}, text = {0};
    weft_status status;
    expand(w, f->path, &path);
    expand(w, f->content, &text);
    expand(w, f->more, &text);
    const char *name = weft_text_get(&path), *content = weft_text_get(&text);
    if (!name || !content)
        status = weft_fail_memory(err);
    else
        status = weft_write_file(name, content, text.size, err);
    if (status == WEFT_OK && f->script && chmod(name, 0755) != 0)
        status = weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "%s: cannot make it executable: %s",
                           name, strerror(errno));
    weft_text_release(&path);
    weft_text_release(&text);
    return status;
}

/* Nothing is left half-done. */
static void remove_files(const words *w, const file *list, int n)
{
    for (int i = 0; i < n; i++) {
        weft_text path = {0};
        expand(w, list[i].path, &path);
        if (weft_text_get(&path))
            unlink(weft_text_get(&path));
        weft_text_release(&path);
    }
    rmdir(w->name);
}

static weft_status write_folder(const words *w, weft_error *err)
{
    file list[MAX_FILES];
    int n = list_files(w->kind, list);
    weft_status status = WEFT_OK;
    if (mkdir(w->name, 0777) != 0)
        return errno == EEXIST
                   ? weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                               "%s is there already; nothing was written", w->name)
                   : weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "%s: cannot make this folder: %s",
                               w->name, strerror(errno));
    for (int i = 0; i < n && status == WEFT_OK; i++)
        status = write_file(w, &list[i], err);
    if (status != WEFT_OK)
        remove_files(w, list, n);
    return status;
}

/* ---- the command ---- */

/* A name that weft has given away would find the other plugin, or the other op. */
static weft_status check_name(const char *name, const kind *k, weft_error *err)
{
    weft_search *search = NULL;
    const char *path = NULL;
    weft_ops ops = {0};
    weft_error none = {0};
    weft_status status = weft_search_create(NULL, &search, err);
    if (status != WEFT_OK)
        return status;
    if (weft_core_params(name))
        status = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                           "[%s] is a section of weft's own; choose another name", name);
    else if (!weft_plugin_name_ok(name))
        status = weft_module_find(search, name, WEFT_NOWHERE, &path, err);
    else if (weft_module_find(search, name, WEFT_NOWHERE, &path, &none) == WEFT_OK)
        status = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                           "there is a plugin '%s' already, %s; choose another name", name,
                           path ? path : "built in");
    if (status == WEFT_OK && strcmp(k->name, "command") == 0 &&
        (weft_command_is_own(name) || weft_command_is(name)))
        status =
            weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                      "weft has a command '%s' already, and a plugin's of that name would never be "
                      "called; choose another name",
                      name);
    if (k->op && status == WEFT_OK)
        status = weft_cli_ops_init(&ops, search, NULL, err);
    if (status == WEFT_OK && k->op && weft_ops_find(&ops, name))
        status = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                           "weft has an op '%s' already; choose another name", name);
    weft_ops_release(&ops);
    weft_error_release(&none);
    weft_search_destroy(search);
    return status;
}

static const kind *find_kind(const char *name)
{
    for (int i = 0; i < N_KINDS; i++)
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    return &kinds[0];
}

int weft_cmd_new_plugin(int argc, char **argv)
{
    static const char *const choices[] = {"pass",  "axis", "op",   "observer", "optimizer",
                                          "model", "data", "wrap", "command",  NULL};
    const char *which = "pass";
    const weft_option extra[] = {
        {.name = "kind",
         .argument = "KIND",
         .help = "pass (default), axis, op, observer, optimizer, model, data, wrap or command",
         .text = &which,
         .choices = choices},
        {0}};
    const weft_cli_usage usage = {
        .command = "new-plugin",
        .arguments = "NAME",
        .max_arguments = 1,
        .summary = "Make the folder NAME with a plugin that builds and has a test, to begin with.",
        .extra = extra};
    weft_cli_options options = {0};
    weft_error err = {0};
    weft_text text = {0};
    int code = weft_cli_parse(&usage, argc, argv, &options);
    if (code != WEFT_CLI_GO)
        goto done;
    const words w = {options.arguments[0], find_kind(which)};
    if (check_name(w.name, w.kind, &err) == WEFT_OK && write_folder(&w, &err) == WEFT_OK)
        weft_text_print(&text, "%s: a plugin of kind %s; make -C %s check builds and tests it\n",
                        w.name, w.kind->name, w.name);
    code = weft_cli_report(&err);
    if (code == 0)
        code = weft_cli_print(&text);
done:
    weft_text_release(&text);
    weft_error_release(&err);
    weft_cli_options_release(&options);
    return code;
}
