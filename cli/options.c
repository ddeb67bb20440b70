/* SPDX-License-Identifier: Apache-2.0 */
/* What all subcommands take beside their own options, and settings from it. */
#include "cli.h"

#include "console/built_in.h"
#include "host/plugins.h"

#include <string.h>

enum { MAX_RANKS = 1 << 20, MOST_OPTIONS = 32 };

/* One parse in progress. */
typedef struct parse {
    const weft_cli_usage *usage;
    weft_option table[MOST_OPTIONS];
    weft_option_values edits;
    int64_t ranks;
    bool help;
} parse;

static void fill_table(parse *p)
{
    const weft_option ini[] = {
        {.name = "o",
         .argument = "SECTION.KEY=VALUE",
         .help = "set a key, over what the INI says; may be repeated",
         .values = &p->edits},
        {.name = "with",
         .argument = "NAME[@PLACE]",
         .help = "list one more plugin; PLACE: first, after:OTHER, before:OTHER",
         .values = &p->edits},
        {.name = "without",
         .argument = "NAME",
         .help = "take a plugin off the list",
         .values = &p->edits},
    };
    const weft_option ranks = {.name = "n",
                               .argument = "RANKS",
                               .help = "number of ranks",
                               .number = &p->ranks,
                               .min = 1,
                               .max = MAX_RANKS};
    int n = 0;
    for (size_t i = 0; i < sizeof ini / sizeof *ini && (p->usage->accepts & WEFT_CLI_INI); i++)
        p->table[n++] = ini[i];
    if (p->usage->accepts & WEFT_CLI_RANKS)
        p->table[n++] = ranks;
    for (const weft_option *option = p->usage->extra;
         option && option->name && n + 3 < MOST_OPTIONS; option++)
        p->table[n++] = *option;
    /* usage shows these two in one line, as the last */
    p->table[n++] = (weft_option){.name = "h", .flag = &p->help};
    p->table[n++] = (weft_option){.name = "help", .flag = &p->help};
}

static void print_usage(const parse *p, weft_text *text)
{
    const weft_cli_usage *usage = p->usage;
    weft_text_print(text, "usage: weft %s", usage->command);
    if (usage->arguments)
        weft_text_print(text, usage->accepts & WEFT_CLI_OPTIONAL ? " [%s]" : " %s",
                        usage->arguments);
    weft_text_print(text, " [options]\n\n%s\n\noptions:\n", usage->summary);
    weft_options_print(p->table, text);
    weft_text_print(text, "  %-26s %s\n", "-h, --help", "this text");
}

static weft_cli_edit_kind edit_kind(const char *option)
{
    return strcmp(option, "with") == 0      ? WEFT_CLI_WITH
           : strcmp(option, "without") == 0 ? WEFT_CLI_WITHOUT
                                            : WEFT_CLI_SET;
}

static void parse_all(parse *p, int argc, char **argv, weft_cli_options *o, weft_error *err)
{
    const weft_cli_usage *usage = p->usage;
    const weft_options options = {.command = usage->command,
                                  .list = p->table,
                                  .arguments = o->arguments,
                                  .max_arguments = usage->max_arguments,
                                  .n_arguments = &o->n_arguments};
    fill_table(p);
    weft_options_parse(&options, argc, argv, err);
    if (!p->help && o->n_arguments == 0 && usage->max_arguments != 0 &&
        !(usage->accepts & WEFT_CLI_OPTIONAL))
        weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                  "the argument %s is missing; see weft %s --help", usage->arguments,
                  usage->command);
    if ((usage->accepts & WEFT_CLI_INI) && o->n_arguments > 0)
        o->ini = o->arguments[0];
    for (int i = 0; i < p->edits.n; i++)
        o->edits[o->n_edits++] =
            (weft_cli_edit){edit_kind(p->edits.list[i].option), p->edits.list[i].text, NULL};
    o->ranks = (int)p->ranks;
}

int weft_cli_parse(const weft_cli_usage *usage, int argc, char **argv, weft_cli_options *options)
{
    weft_error err = {0};
    parse p = {.usage = usage};
    weft_text text = {0};
    int code = WEFT_CLI_GO;

    *options = (weft_cli_options){0};
    options->arguments = weft_alloc_zero((size_t)argc + 1, sizeof(*options->arguments));
    options->edits = weft_alloc_zero((size_t)argc + 1, sizeof(*options->edits));
    if (options->arguments && options->edits)
        parse_all(&p, argc, argv, options, &err);
    else
        weft_fail_memory(&err);
    if (weft_error_status(&err) != WEFT_OK) {
        code = weft_cli_report(&err);
    } else if (p.help) {
        print_usage(&p, &text);
        code = weft_cli_print(&text);
    }
    weft_option_values_release(&p.edits);
    weft_text_release(&text);
    weft_error_release(&err);
    return code;
}

void weft_cli_options_release(weft_cli_options *options)
{
    weft_free(options->arguments);
    weft_free(options->edits);
    *options = (weft_cli_options){0};
}

weft_status weft_cli_built_in(weft_settings **out, const weft_params **weft, weft_error *err)
{
    static const weft_param table[] = {
        {.name = "defaults", .type = WEFT_PARAM_STRING, .flags = WEFT_PARAM_LIST}, {0}};
    weft_status s =
        weft_settings_read_text(WEFT_BUILT_IN, weft_built_in, strlen(weft_built_in), out, err);
    return s ? s : weft_settings_section(*out, "weft", table, weft, err);
}

weft_status weft_cli_read_alone(const char *path, weft_settings **out, weft_error *err)
{
    char *text = NULL;
    weft_kept_file file = {.name = path, .real = path};
    *out = NULL;
    weft_status status = weft_read_file(path, &text, &file.size, err);
    file.text = text;
    status = status ? status : weft_settings_read_kept(&file, out, err);
    weft_free(text);
    return status;
}

/* In the place of `other` where that is listed behind `behind`; else right behind that, or first.
 */
static weft_status put_in_place(weft_settings *settings, const char *name, const char *other,
                                const char *behind, weft_error *err)
{
    const int at = weft_listed_find(settings, other);
    const bool there = at >= 0 && (!behind || at > weft_listed_find(settings, behind));
    if (weft_listed_find(settings, name) >= 0)
        return WEFT_OK;
    char *spec = there    ? weft_format("%s@before:%s", name, other)
                 : behind ? weft_format("%s@after:%s", name, behind)
                          : weft_format("%s@first", name);
    weft_status s =
        spec ? weft_settings_with_as(settings, spec, "--gpu", err) : weft_fail_memory(err);
    weft_free(spec);
    return !s && at >= 0 ? weft_settings_without_as(settings, other, "--gpu", err) : s;
}

/* Which of cuda and nccl are here: they are not built everywhere. */
static weft_status find_vendors(bool *cuda, bool *nccl, weft_error *err)
{
    weft_search *search = NULL;
    weft_status s = weft_search_create(NULL, &search, err);
    const char *const *names = s ? NULL : weft_search_names(search);
    *cuda = *nccl = false;
    for (int i = 0; names && names[i]; i++) {
        *cuda = *cuda || strcmp(names[i], "cuda") == 0;
        *nccl = *nccl || strcmp(names[i], "nccl") == 0;
    }
    weft_search_destroy(search);
    return s;
}

/* --gpu: the plan of a run there, whatever is here: by cuda, or where that was not built by gpu,
 * which knows rates and no kernels. Transports of processes stay. */
static weft_status plan_for_gpu(weft_settings *settings, const weft_cli_options *options,
                                weft_error *err)
{
    const bool sends =
        weft_listed_find(settings, "mpi") >= 0 || weft_listed_find(settings, "ucx") >= 0;
    bool cuda, nccl;
    if (!*options->gpu)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "--gpu names no GPU; give one, as h100, or a file");
    weft_status s = find_vendors(&cuda, &nccl, err);
    const char *device = cuda || weft_listed_find(settings, "cuda") >= 0 ? "cuda" : "gpu";
    char *words = weft_format("%s.gpu=%s", device, options->gpu),
         *as = weft_format("--gpu %s", options->gpu);
    s = s ? s : words && as ? WEFT_OK : weft_fail_memory(err);
    s = s ? s : put_in_place(settings, device, "cpu", NULL, err);
    if (!s && options->ranks > 1 && !sends && nccl && strcmp(device, "cuda") == 0)
        s = put_in_place(settings, "nccl", "local", device, err);
    s = s ? s : weft_settings_override_as(settings, words, as, err);
    weft_free(words);
    weft_free(as);
    return s;
}

weft_status weft_cli_settings(const weft_cli_options *options, weft_settings **out, weft_error *err)
{
    weft_status status;

    *out = NULL;
    if (!options->ini)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE, "no INI file given");
    if (options->files)
        status =
            weft_settings_unpack(weft_text_get(options->files), options->files->size, out, err);
    else if (options->ini_text)
        status = weft_settings_read_text(options->ini, options->ini_text, strlen(options->ini_text),
                                         out, err);
    else
        status = options->ini_trust ? weft_cli_read_alone(options->ini, out, err)
                                    : weft_settings_read(options->ini, out, err);
    if (status != WEFT_OK)
        return status;
    if (options->ini_trust)
        weft_settings_take_as_data(*out, options->ini_trust);
    for (int i = 0; i < options->n_edits; i++) {
        const weft_cli_edit *edit = &options->edits[i];
        weft_status edited = WEFT_OK;

        switch (edit->kind) {
        case WEFT_CLI_SET:
            edited = weft_settings_override_as(*out, edit->text, edit->as, err);
            break;
        case WEFT_CLI_WITH:
            edited = weft_settings_with_as(*out, edit->text, edit->as, err);
            break;
        case WEFT_CLI_WITHOUT:
            edited = weft_settings_without(*out, edit->text, err);
            break;
        }
        if (edited != WEFT_OK)
            status = edited;
    }
    if (options->gpu && status == WEFT_OK)
        status = plan_for_gpu(*out, options, err);
    weft_status fallen = weft_settings_fall_back(*out, WEFT_BUILT_IN, weft_built_in, err);
    status = status ? status : fallen;
    if (status == WEFT_OK)
        return WEFT_OK;
    weft_settings_destroy(*out);
    *out = NULL;
    return status;
}
