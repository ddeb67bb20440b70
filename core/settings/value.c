/* SPDX-License-Identifier: Apache-2.0 */
/* One word against one parameter's type, range and choices. */
#include "settings/values.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum verdict { GOOD, NOT_OF_TYPE, OUT_OF_RANGE };

/* Which of them it is, from 1; 0: none. */
static int is_one_of(const char *word, const char *const *choices)
{
    for (int i = 0; choices && choices[i]; i++)
        if (strcmp(word, choices[i]) == 0)
            return i + 1;
    return 0;
}

static enum verdict check_range(const weft_param *param, double number)
{
    if (param->min == 0 && param->max == 0)
        return GOOD;
    return number >= param->min && number <= param->max ? GOOD : OUT_OF_RANGE;
}

static enum verdict parse_bool(const char *word, weft_checked *out)
{
    static const char *const answers[] = {"yes",   "true", "on", "1", "no",
                                          "false", "off",  "0",  NULL};
    const int answer = is_one_of(word, answers);

    out->boolean = answer >= 1 && answer <= 4;
    return answer ? GOOD : NOT_OF_TYPE;
}

static enum verdict parse_int(const weft_param *param, const char *word, weft_checked *out)
{
    static const struct {
        const char *suffix;
        int64_t factor;
    } units[] = {{"", 1},         {"k", 1000},     {"M", 1000000}, {"G", 1000000000},
                 {"Ki", 1 << 10}, {"Mi", 1 << 20}, {"Gi", 1 << 30}};
    const char *digits = word + (word[0] == '-' || word[0] == '+'),
               *suffix = digits + strspn(digits, "0123456789");
    long long number;

    if (suffix == digits)
        return NOT_OF_TYPE;
    errno = 0;
    number = strtoll(word, NULL, 10);
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(suffix, units[i].suffix) != 0)
            continue;
        if (errno == ERANGE || __builtin_mul_overflow(number, units[i].factor, &out->integer))
            return OUT_OF_RANGE;
        return check_range(param, (double)out->integer);
    }
    return NOT_OF_TYPE;
}

static enum verdict parse_real(const weft_param *param, const char *word, weft_checked *out)
{
    locale_t c, before;
    char *end;

    /* neither hexadecimal numbers nor "inf" and "nan" */
    if (word[strspn(word, "0123456789+-.eE")] != '\0')
        return NOT_OF_TYPE;
    c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    before = c ? uselocale(c) : (locale_t)0;
    out->real = strtod(word, &end);
    if (c) {
        uselocale(before);
        freelocale(c);
    }
    if (end == word || *end != '\0')
        return NOT_OF_TYPE;
    if (!isfinite(out->real))
        return OUT_OF_RANGE;
    return check_range(param, out->real);
}

static enum verdict parse(const weft_param *param, const char *word, weft_checked *out)
{
    out->word = is_one_of(word, param->choices);
    switch (param->type) {
    case WEFT_PARAM_BOOL:
        return parse_bool(word, out);
    case WEFT_PARAM_INT:
        return out->word ? GOOD : parse_int(param, word, out);
    case WEFT_PARAM_REAL:
        return out->word ? GOOD : parse_real(param, word, out);
    case WEFT_PARAM_CHOICE:
        return out->word ? GOOD : NOT_OF_TYPE;
    case WEFT_PARAM_STRING:
        return GOOD;
    case WEFT_PARAM_PATH:
        return word[0] == '~' ? NOT_OF_TYPE : GOOD;
    }
    return NOT_OF_TYPE;
}

/* ---- what would be right ---- */

/* " from 1 to 8", " of at least 1", " of at most 8" or nothing. */
static void print_range(weft_text *text, const weft_param *param)
{
    bool low = param->min > -9e18, high = param->max < 9e18;

    if ((param->min == 0 && param->max == 0) || (!low && !high))
        return;
    weft_text_add(text, low && high ? " from " : low ? " of at least " : " of at most ");
    if (low)
        weft_text_add_real(text, param->min);
    if (low && high)
        weft_text_add(text, " to ");
    if (high)
        weft_text_add_real(text, param->max);
}

/* "an integer from 1 to 8 (ranks) or 'auto'" */
static void print_expected(const weft_param *param, weft_text *text)
{
    const char *const *choice = param->choices;

    switch (param->type) {
    case WEFT_PARAM_BOOL:
        weft_text_add(text, "yes or no");
        return;
    case WEFT_PARAM_STRING:
        weft_text_add(text, "a text");
        return;
    case WEFT_PARAM_PATH:
        weft_text_add(text, "a path");
        return;
    case WEFT_PARAM_CHOICE:
        for (; choice && *choice; choice++)
            weft_text_print(text, "%s%s",
                            choice == param->choices ? ""
                            : choice[1]              ? ", "
                                                     : " or ",
                            *choice);
        return;
    case WEFT_PARAM_INT:
    case WEFT_PARAM_REAL:
        weft_text_add(text, param->type == WEFT_PARAM_INT ? "an integer" : "a number");
        print_range(text, param);
        if (param->unit)
            weft_text_print(text, " (%s)", param->unit);
        for (; choice && *choice; choice++)
            weft_text_print(text, " or '%s'", *choice);
        return;
    }
}

/* Why this word is wrong, where one can guess. */
static void print_hint(const weft_param *param, const char *word, weft_text *text)
{
    const char *near = NULL;
    int n = 0;

    while (param->choices && param->choices[n])
        n++;
    if (n > 0)
        near = weft_nearest(word, param->choices, n);
    if (near)
        weft_text_print(text, "; did you mean '%s'?", near);
    else if (param->type == WEFT_PARAM_PATH)
        weft_text_add(text, " in full; ~ is a shell's word, which nobody expands here");
    else if (strstr(word, " #"))
        weft_text_add(text, "; a comment behind a value begins with ' ;'");
    else if (strchr(word, ' ') || strchr(word, ','))
        weft_text_add(text, param->flags & WEFT_PARAM_LIST ? "; items are separated by blanks"
                                                           : "; it takes one value");
    else if (param->type == WEFT_PARAM_INT && strpbrk(word, "KMGkmgi"))
        weft_text_add(text, "; suffixes are k, M, G and Ki, Mi, Gi");
}

weft_status weft_value_parse(const char *section, const weft_param *param, const char *word,
                             weft_where where, weft_checked *out, weft_error *err)
{
    enum verdict verdict = parse(param, word, out);
    weft_text text = {0};
    weft_status status;

    if (verdict == GOOD)
        return WEFT_OK;
    print_expected(param, &text);
    if (verdict == NOT_OF_TYPE)
        print_hint(param, word, &text);
    status = text.out_of_memory
                 ? weft_fail_memory(err)
                 : weft_fail(err, WEFT_ERR_INPUT, where, "[%s] %s = %.80s: %s; give %s", section,
                             param->name, word,
                             verdict == OUT_OF_RANGE ? "out of range" : "not understood",
                             weft_text_get(&text));
    weft_text_release(&text);
    return status;
}
