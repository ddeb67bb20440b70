/* SPDX-License-Identifier: Apache-2.0 */
/* The words of a command line. */
#include "settings/settings.h"
#include <weft/options.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One parse in progress. */
typedef struct parse {
    const weft_options *options;
    int argc, at; /* at: the word being looked at */
    int n;        /* words that are no options, so far */
    char **argv;
    weft_error *err;
} parse;

static bool is_short(const weft_option *option)
{
    return !option->name[1];
}

/* The option that a word names, and what is attached to it: "4" of "-n4" and of "--name=4"; NULL:
 * nothing. */
static const weft_option *find(const weft_option *list, const char *word, const char **attached)
{
    bool is_long = strncmp(word, "--", 2) == 0;
    for (const weft_option *option = list; option && option->name; option++) {
        size_t n = strlen(option->name);
        if (is_long == is_short(option) || strncmp(word + 1 + is_long, option->name, n) != 0)
            continue;
        const char *rest = word + 1 + is_long + n;
        if (is_long && *rest && *rest != '=')
            continue;
        *attached = *rest ? rest + is_long : NULL;
        return option;
    }
    return NULL;
}

static weft_status unknown(const parse *p, const char *word)
{
    const char *names[64];
    int n = 0;
    for (const weft_option *option = p->options->list; option && option->name && n < 64; option++)
        if (!is_short(option))
            names[n++] = option->name;
    const char *near = weft_nearest(word + strspn(word, "-"), names, n);
    if (near)
        return weft_fail(p->err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "unknown option '%s'; did you mean '--%s'?", word, near);
    return weft_fail(p->err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                     "unknown option '%s'; weft %s --help lists all", word, p->options->command);
}

/* ---- one option's argument ---- */

static weft_status take_number(parse *p, const weft_option *option, const char *word,
                               const char *text)
{
    bool bounded = option->min || option->max;
    char *end;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    bool good = end != text && !*end && !errno;
    if (good && (!bounded || (number >= option->min && number <= option->max))) {
        *option->number = number;
        return WEFT_OK;
    }
    if (!bounded)
        return weft_fail(p->err, WEFT_ERR_INPUT, WEFT_NOWHERE, "%s %s: give an integer", word,
                         text);
    return weft_fail(p->err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                     "%s %s: give an integer from %lld to %lld", word, text, (long long)option->min,
                     (long long)option->max);
}

static bool is_choice(const weft_option *option, const char *text)
{
    const char *const *choice = option->choices;
    while (*choice && strcmp(text, *choice) != 0)
        choice++;
    return *choice != NULL;
}

static weft_status take_text(parse *p, const weft_option *option, const char *word,
                             const char *text)
{
    if (!option->choices || is_choice(option, text)) {
        *option->text = text;
        return WEFT_OK;
    }
    weft_text list = {0};
    for (const char *const *choice = option->choices; *choice; choice++)
        weft_text_print(&list, "%s%s",
                        choice == option->choices ? ""
                        : choice[1]               ? ", "
                                                  : " or ",
                        *choice);
    weft_status s = weft_fail(p->err, WEFT_ERR_INPUT, WEFT_NOWHERE, "%s %s: give %s", word, text,
                              weft_text_get(&list));
    weft_text_release(&list);
    return s;
}

static weft_status take_value(parse *p, const weft_option *option, const char *text)
{
    weft_option_values *values = option->values;
    if (!values->list)
        values->list = weft_alloc_zero((size_t)p->argc, sizeof *values->list);
    if (!values->list)
        return weft_fail_memory(p->err);
    values->list[values->n++] = (weft_option_value){option->name, text};
    return WEFT_OK;
}

static weft_status take_option(parse *p, const char *word)
{
    const char *attached = NULL;
    const weft_option *option = find(p->options->list, word, &attached);
    if (!option)
        return unknown(p, word);
    char name[64]; /* as messages write it: the word may carry its argument */
    snprintf(name, sizeof name, "%s%s", is_short(option) ? "-" : "--", option->name);
    if (option->flag) {
        if (attached && !option->text)
            return weft_fail(p->err, WEFT_ERR_INPUT, WEFT_NOWHERE, "%s takes no argument", name);
        *option->flag = true;
        bool next = option->text && option->choices && p->at + 1 < p->argc &&
                    is_choice(option, p->argv[p->at + 1]);
        if (!attached && !next)
            return WEFT_OK;
    }
    if (!attached && p->at + 1 == p->argc)
        return weft_fail(p->err, WEFT_ERR_INPUT, WEFT_NOWHERE, "%s needs an argument", name);
    const char *text = attached ? attached : p->argv[++p->at];
    if (option->number)
        return take_number(p, option, name, text);
    return option->values ? take_value(p, option, text) : take_text(p, option, name, text);
}

/* The option in front of the word, whose argument may be left out: the word is none of its choices.
 */
static const weft_option *option_before(const parse *p)
{
    const char *attached = NULL, *word = p->at > 1 ? p->argv[p->at - 1] : "";
    const weft_option *option =
        word[0] == '-' && word[1] ? find(p->options->list, word, &attached) : NULL;
    return option && option->flag && option->text && option->choices && !attached ? option : NULL;
}

static weft_status add_argument(parse *p, const char *word)
{
    const weft_options *o = p->options;
    const bool too_many = o->max_arguments >= 0 && p->n >= o->max_arguments;
    const weft_option *before = too_many ? option_before(p) : NULL;
    if (before)
        return take_text(p, before, p->argv[p->at - 1], word);
    if (too_many)
        return weft_fail(p->err, WEFT_ERR_INPUT, WEFT_NOWHERE, "one argument too many: '%s'", word);
    if (o->arguments)
        o->arguments[p->n] = word;
    p->n++;
    return WEFT_OK;
}

/* ---- all of them ---- */

weft_status weft_options_parse(const weft_options *options, int argc, char **argv, weft_error *err)
{
    parse p = {.options = options, .argc = argc, .argv = argv, .err = err};
    weft_status first = WEFT_OK;
    bool only_arguments = false;
    for (p.at = 1; p.at < argc; p.at++) {
        const char *word = argv[p.at];
        weft_status s = WEFT_OK;
        if (!only_arguments && strcmp(word, "--") == 0)
            only_arguments = true;
        else if (only_arguments || word[0] != '-' || !word[1])
            s = add_argument(&p, word);
        else
            s = take_option(&p, word);
        first = first ? first : s;
    }
    if (options->n_arguments)
        *options->n_arguments = p.n;
    return first;
}

/* Its argument may be left out, and could be any word. */
static bool is_attached_only(const weft_option *option)
{
    return option->flag && option->text && !option->choices;
}

void weft_options_print(const weft_option *list, weft_text *text)
{
    for (const weft_option *option = list; option && option->name; option++) {
        if (!option->help)
            continue;
        char *left = weft_format(is_attached_only(option) ? "%s%s[=%s]" : "%s%s %s",
                                 is_short(option) ? "-" : "--", option->name,
                                 option->argument ? option->argument : "");
        weft_text_print(text, "  %-26s %s\n", left ? left : option->name, option->help);
        weft_free(left);
    }
}

void weft_option_values_release(weft_option_values *values)
{
    weft_free(values->list);
    *values = (weft_option_values){0};
}
