/* SPDX-License-Identifier: Apache-2.0 */
#include "study.h"

#include <stdio.h>
#include <string.h>

enum { MOST_VARIANTS = 1000, MOST_WORDS = 256, MOST_NAME = 60 };

/* A name is that of a folder, a cell of tables and a word of lines. */
static bool is_name(const char *word)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-+=";
    const size_t n = strlen(word);
    return n > 0 && n <= MOST_NAME && strspn(word, letters) == n && word[0] != '.' &&
           word[0] != '-';
}

/* What ablate writes into a study's folder beside the variants' folders. */
static bool is_own_file(const char *name)
{
    static const char *const files[] = {"study.json", "lock",     "table.txt",
                                        "table.csv",  "runs.csv", "index.html"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        if (strcmp(name, files[i]) == 0)
            return true;
    return false;
}

const char *ablate_own_setting(const weft_cli_edit *edit)
{
    static const char *const own[] = {"train.seed", "weft.dir"};
    char section[64], key[64], name[130];
    if (edit->kind != WEFT_CLI_SET ||
        sscanf(edit->text, " %63[^. \t] . %63[^= \t]", section, key) != 2)
        return NULL;
    snprintf(name, sizeof name, "%s.%s", section, key);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strcmp(name, own[i]) == 0)
            return own[i];
    return NULL;
}

/* The next word of a line, unquoted in place; NULL: there is none, or *open: a quote is. */
static char *next_word(char **at, bool *open)
{
    char *from = *at + strspn(*at, " \t"), *to = from, *word = from, quote = '\0';
    if (!*from || *from == '#' || *from == ';')
        return NULL;
    for (; *from && (quote || (*from != ' ' && *from != '\t')); from++) {
        if (quote ? *from == quote : *from == '"' || *from == '\'')
            quote = quote ? '\0' : *from;
        else
            *to++ = *from;
    }
    *open = quote != '\0';
    *at = *from ? from + 1 : from;
    *to = '\0';
    return *open ? NULL : word;
}

/* What the command line of weft train takes of a variant. */
static weft_status parse_words(ablate_study *study, ablate_variant *v, weft_where at,
                               weft_error *err)
{
    weft_option_values edits = {0};
    weft_error why = {0};
    weft_status s = WEFT_OK;
    const weft_option list[] = {
        {.name = "o", .argument = "S.K=V", .values = &edits},
        {.name = "with", .argument = "NAME", .values = &edits},
        {.name = "without", .argument = "NAME", .values = &edits},
        {.name = "n", .argument = "RANKS", .number = &v->ranks, .min = 1, .max = 1 << 20},
        {.name = NULL}};
    char *argv[MOST_WORDS + 2];
    const weft_options options = {.command = "train", .list = list, .max_arguments = 0};
    argv[0] = (char *)(uintptr_t)v->name;
    for (int i = 0; i < v->n_words; i++)
        argv[i + 1] = (char *)(uintptr_t)v->words[i];
    weft_options_parse(&options, v->n_words + 1, argv, &why);
    for (int i = 0; i < why.n_items; i++)
        s = weft_fail(err, WEFT_ERR_INPUT, at,
                      "%s: %s; a line is a name, and --with, --without, -o "
                      "and -n as of weft train",
                      v->name, why.items[i].text ? why.items[i].text : "?");
    v->edits = weft_pool_alloc(&study->pool, ((size_t)edits.n + 1) * sizeof *v->edits);
    for (int i = 0; v->edits && i < edits.n; i++) {
        const char *name = edits.list[i].option;
        v->edits[v->n_edits++] = (weft_cli_edit){name[0] == 'o'              ? WEFT_CLI_SET
                                                 : strcmp(name, "with") == 0 ? WEFT_CLI_WITH
                                                                             : WEFT_CLI_WITHOUT,
                                                 edits.list[i].text, NULL};
        const char *own = ablate_own_setting(&v->edits[v->n_edits - 1]);
        if (own)
            s = weft_fail(
                err, WEFT_ERR_INPUT, at,
                "%s: -o %s: ablate gives every cell its own; seeds are what --seeds says, "
                "and --out takes another folder",
                v->name, own);
    }
    weft_option_values_release(&edits);
    weft_error_release(&why);
    v->wrong = s != WEFT_OK;
    return v->edits ? s : weft_fail_memory(err);
}

static weft_status check_name(const ablate_study *study, const char *name, weft_where at,
                              weft_error *err)
{
    if (!is_name(name))
        return weft_fail(err, WEFT_ERR_INPUT, at,
                         "'%.60s' is no name of a variant: it names a folder; letters, digits and "
                         "._-+=, at most %d, no '.' or '-' first",
                         name, MOST_NAME);
    if (is_own_file(name))
        return weft_fail(err, WEFT_ERR_INPUT, at,
                         "'%s' is no name of a variant: it is a file of ablate's own in the "
                         "study's folder",
                         name);
    for (int i = 0; i < study->n; i++)
        if (strcmp(study->variants[i].name, name) == 0)
            return weft_fail(err, WEFT_ERR_INPUT, at,
                             "there is a variant '%s' already, in line %d: names differ", name,
                             study->variants[i].line);
    return WEFT_OK;
}

static weft_status add_line(ablate_study *study, char *line, int number, weft_error *err)
{
    const weft_where at = {study->file, number};
    const char *words[MOST_WORDS];
    bool open = false;
    char *rest = line, *word = next_word(&rest, &open);
    int n = 0;
    if (!word && !open)
        return WEFT_OK;
    const char *name = word;
    weft_status s = open ? WEFT_OK : check_name(study, name, at, err);
    while (!open && n < MOST_WORDS && (word = next_word(&rest, &open)))
        words[n++] = word;
    if (open || n == MOST_WORDS)
        return weft_fail(err, WEFT_ERR_INPUT, at,
                         open ? "a quote is not closed" : "the line has too many words");
    if (study->n == MOST_VARIANTS)
        return weft_fail(err, WEFT_ERR_INPUT, at, "a study has at most %d variants", MOST_VARIANTS);
    ablate_variant *v = &study->variants[study->n];
    *v = (ablate_variant){.name = name, .line = number, .n_words = n};
    v->words = weft_pool_alloc(&study->pool, ((size_t)n + 1) * sizeof *v->words);
    if (!v->words)
        return weft_fail_memory(err);
    memcpy((void *)v->words, (const void *)words, (size_t)n * sizeof *words);
    if (!s)
        study->n++;
    weft_status parsed = parse_words(study, v, at, err);
    return s ? s : parsed;
}

weft_status ablate_study_read(ablate_study *study, const char *file, weft_error *err)
{
    char *data = NULL, *text;
    size_t size = 0;
    *study = (ablate_study){.file = file};
    weft_status s = weft_read_file(file, &data, &size, err);
    if (s)
        return s;
    if (strlen(data) != size)
        s = weft_fail(err, WEFT_ERR_INPUT, (weft_where){file, 0}, "it is no text");
    text = s ? NULL : weft_pool_strdup(&study->pool, data);
    study->variants = weft_pool_alloc(&study->pool, MOST_VARIANTS * sizeof *study->variants);
    weft_free(data);
    if (!s && (!text || !study->variants))
        return weft_fail_memory(err);
    for (int number = 1; text; number++) {
        char *end = strchr(text, '\n');
        if (end)
            *end = '\0';
        if (end && end > text && end[-1] == '\r')
            end[-1] = '\0';
        weft_status wrong = add_line(study, text, number, err);
        s = s ? s : wrong;
        text = end ? end + 1 : NULL;
    }
    if (!s && study->n == 0)
        s = weft_fail(err, WEFT_ERR_INPUT, (weft_where){file, 0},
                      "it has no variant; a line is a name and what one would type: qk_norm --with "
                      "qk_norm@after:llama3");
    return s;
}

void ablate_study_release(ablate_study *study)
{
    weft_pool_release(&study->pool);
    *study = (ablate_study){0};
}
