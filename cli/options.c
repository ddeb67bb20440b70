/* SPDX-License-Identifier: Apache-2.0 */
/* The options of all subcommands. */
#include "cli.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_RANKS = 1 << 20 };

/* One parse in progress. */
typedef struct parse {
    const weft_cli_usage *usage;
    int argc, at; /* at: the argument being looked at */
    char **argv;
    weft_cli_options *options;
    weft_error *err;
    bool help;
} parse;

static const weft_where on_command_line = {NULL, 0};

/* ---- usage ---- */

static void print_option(weft_text *text, const char *left, const char *help)
{
    weft_text_print(text, "  %-26s %s\n", left, help);
}

static void print_usage(const weft_cli_usage *usage, weft_text *text)
{
    weft_text_print(text, "usage: weft %s", usage->command);
    if (usage->arguments)
        weft_text_print(text, usage->accepts & WEFT_CLI_OPTIONAL ? " [%s]" : " %s", usage->arguments);
    weft_text_print(text, " [options]\n\n%s\n\noptions:\n", usage->summary);
    if (usage->accepts & WEFT_CLI_INI) {
        print_option(text, "-o SECTION.KEY=VALUE", "set a key, over what the INI says; may be repeated");
        print_option(text, "--with NAME[@PLACE]", "list one more plugin; PLACE: first, after:OTHER, before:OTHER");
        print_option(text, "--without NAME", "take a plugin off the list");
    }
    if (usage->accepts & WEFT_CLI_RANKS)
        print_option(text, "-n RANKS", "number of ranks");
    for (const weft_cli_option *option = usage->extra; option && option->name; option++) {
        char *left = weft_format("--%s%s%s", option->name, option->argument ? " " : "", option->argument ? option->argument : "");

        print_option(text, left ? left : option->name, option->help);
        weft_free(left);
    }
    print_option(text, "-h, --help", "this text");
}

/* ---- arguments ---- */

static weft_status add_argument(parse *p, const char *argument)
{
    if (p->usage->max_arguments >= 0 && p->options->n_arguments >= p->usage->max_arguments)
        return weft_fail(p->err, WEFT_ERR_INPUT, on_command_line, "one argument too many: '%s'", argument);
    p->options->arguments[p->options->n_arguments++] = argument;
    return WEFT_OK;
}

static weft_status parse_number(parse *p, const char *option, const char *text, int64_t low, int64_t high, int64_t *out)
{
    char *end;
    long long number;

    errno = 0;
    number = strtoll(text, &end, 10);
    if (end == text || *end || errno || number < low || number > high)
        return weft_fail(p->err, WEFT_ERR_INPUT, on_command_line, "%s %s: give an integer from %lld to %lld", option, text, (long long)low,
                         (long long)high);
    *out = number;
    return WEFT_OK;
}

/* The argument of an option: behind '=' or the next word. NULL, and an error, if there is none. */
static const char *option_argument(parse *p, const char *option, const char *attached)
{
    if (attached)
        return attached;
    if (p->at + 1 < p->argc)
        return p->argv[++p->at];
    weft_fail(p->err, WEFT_ERR_INPUT, on_command_line, "%s needs an argument", option);
    return NULL;
}

static weft_status add_edit(parse *p, weft_cli_edit_kind kind, const char *option, const char *attached)
{
    const char *text = option_argument(p, option, attached);

    if (!text)
        return WEFT_ERR_INPUT;
    p->options->edits[p->options->n_edits++] = (weft_cli_edit){kind, text};
    return WEFT_OK;
}

static weft_status take_ranks(parse *p, const char *attached)
{
    const char *text = option_argument(p, "-n", attached);
    int64_t ranks = 0;
    weft_status status = text ? parse_number(p, "-n", text, 1, MAX_RANKS, &ranks) : WEFT_ERR_INPUT;

    if (status == WEFT_OK)
        p->options->ranks = (int)ranks;
    return status;
}

static weft_status add_text(parse *p, weft_cli_texts *texts, const char *text)
{
    if (!texts->list && !(texts->list = weft_alloc_zero((size_t)p->argc + 1, sizeof(*texts->list))))
        return weft_fail_memory(p->err);
    texts->list[texts->n++] = text;
    return WEFT_OK;
}

static weft_status take_extra(parse *p, const weft_cli_option *option, const char *word, const char *attached)
{
    const char *text;

    if (option->flag) {
        if (attached)
            return weft_fail(p->err, WEFT_ERR_INPUT, on_command_line, "%s takes no argument", word);
        *option->flag = true;
        return WEFT_OK;
    }
    text = option_argument(p, word, attached);
    if (!text)
        return WEFT_ERR_INPUT;
    if (option->number)
        return parse_number(p, word, text, INT64_MIN, INT64_MAX, option->number);
    if (option->texts)
        return add_text(p, option->texts, text);
    *option->text = text;
    return WEFT_OK;
}

static weft_status unknown_option(parse *p, const char *word)
{
    const char *names[64], *near;
    int n = 0;

    names[n++] = "help";
    if (p->usage->accepts & WEFT_CLI_INI) {
        names[n++] = "with";
        names[n++] = "without";
    }
    for (const weft_cli_option *option = p->usage->extra; option && option->name && n < 64; option++)
        names[n++] = option->name;
    near = weft_nearest(word + strspn(word, "-"), names, n);
    return weft_fail(p->err, WEFT_ERR_INPUT, on_command_line, "unknown option '%s'%s%s%s", word, near ? "; did you mean '--" : "", near ? near : "",
                     near ? "'?" : "");
}

static bool is_long(const char *word, const char *name, const char **attached)
{
    size_t n = strlen(name);

    if (strncmp(word, "--", 2) != 0 || strncmp(word + 2, name, n) != 0 || (word[2 + n] != '\0' && word[2 + n] != '='))
        return false;
    *attached = word[2 + n] == '=' ? word + 3 + n : NULL;
    return true;
}

/* "-n4" or "-n 4" */
static bool is_short(const char *word, char letter, const char **attached)
{
    if (word[0] != '-' || word[1] != letter)
        return false;
    *attached = word[2] ? word + 2 : NULL;
    return true;
}

static weft_status take_option(parse *p, const char *word)
{
    bool ini = p->usage->accepts & WEFT_CLI_INI;
    const char *attached;

    if (strcmp(word, "-h") == 0 || strcmp(word, "--help") == 0) {
        p->help = true;
        return WEFT_OK;
    }
    if (ini && is_long(word, "with", &attached))
        return add_edit(p, WEFT_CLI_WITH, "--with", attached);
    if (ini && is_long(word, "without", &attached))
        return add_edit(p, WEFT_CLI_WITHOUT, "--without", attached);
    if (ini && is_short(word, 'o', &attached))
        return add_edit(p, WEFT_CLI_SET, "-o", attached);
    if ((p->usage->accepts & WEFT_CLI_RANKS) && is_short(word, 'n', &attached))
        return take_ranks(p, attached);
    for (const weft_cli_option *option = p->usage->extra; option && option->name; option++)
        if (is_long(word, option->name, &attached))
            return take_extra(p, option, word, attached);
    return unknown_option(p, word);
}

static void parse_all(parse *p)
{
    bool options_end = false;

    for (p->at = 1; p->at < p->argc; p->at++) {
        const char *word = p->argv[p->at];

        if (!options_end && strcmp(word, "--") == 0)
            options_end = true;
        else if (options_end || word[0] != '-' || word[1] == '\0')
            add_argument(p, word);
        else
            take_option(p, word);
    }
    if (!p->help && p->options->n_arguments == 0 && p->usage->max_arguments != 0 && !(p->usage->accepts & WEFT_CLI_OPTIONAL))
        weft_fail(p->err, WEFT_ERR_INPUT, on_command_line, "%s is missing; see weft %s --help", p->usage->arguments, p->usage->command);
    if ((p->usage->accepts & WEFT_CLI_INI) && p->options->n_arguments > 0)
        p->options->ini = p->options->arguments[0];
}

int weft_cli_parse(const weft_cli_usage *usage, int argc, char **argv, weft_cli_options *options)
{
    weft_error err = {0};
    parse p = {.usage = usage, .argc = argc, .argv = argv, .options = options, .err = &err};
    weft_text text = {0};
    int code = WEFT_CLI_GO;

    *options = (weft_cli_options){0};
    options->arguments = weft_alloc_zero((size_t)argc + 1, sizeof(*options->arguments));
    options->edits = weft_alloc_zero((size_t)argc + 1, sizeof(*options->edits));
    if (options->arguments && options->edits)
        parse_all(&p);
    else
        weft_fail_memory(&err);
    if (weft_error_status(&err) != WEFT_OK) {
        code = weft_cli_report(&err);
    } else if (p.help) {
        print_usage(usage, &text);
        code = weft_cli_print(&text);
    }
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

weft_status weft_cli_settings(const weft_cli_options *options, weft_settings **out, weft_error *err)
{
    weft_status status;

    *out = NULL;
    if (!options->ini)
        return weft_fail(err, WEFT_ERR_INPUT, on_command_line, "no INI file given");
    if (options->files)
        status = weft_settings_unpack(weft_text_get(options->files), options->files->size, out, err);
    else if (options->ini_text)
        status = weft_settings_read_text(options->ini, options->ini_text, strlen(options->ini_text), out, err);
    else
        status = weft_settings_read(options->ini, out, err);
    if (status != WEFT_OK)
        return status;
    for (int i = 0; i < options->n_edits; i++) {
        const weft_cli_edit *edit = &options->edits[i];
        weft_status edited = WEFT_OK;

        switch (edit->kind) {
        case WEFT_CLI_SET:
            edited = weft_settings_override(*out, edit->text, err);
            break;
        case WEFT_CLI_WITH:
            edited = weft_settings_with(*out, edit->text, err);
            break;
        case WEFT_CLI_WITHOUT:
            edited = weft_settings_without(*out, edit->text, err);
            break;
        }
        if (edited != WEFT_OK)
            status = edited;
    }
    if (status == WEFT_OK)
        return WEFT_OK;
    weft_settings_destroy(*out);
    *out = NULL;
    return status;
}
