/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of settings share: a table with every type of parameter, settings from text,
 * assertions. */
#ifndef SETTINGS_RUN_H
#define SETTINGS_RUN_H

#include "console/settings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
/* last: it needs the headers above */
#include <cmocka.h>

static const char *const automatic[] = {"auto", NULL};
static const char *const modes[] = {"fast", "careful", NULL};

static const weft_param demo_params[] = {
    {.name = "flag", .type = WEFT_PARAM_BOOL, .value = "no", .help = "a flag"},
    {.name = "count", .type = WEFT_PARAM_INT, .value = "7", .help = "a count"},
    {.name = "size",
     .type = WEFT_PARAM_INT,
     .value = "auto",
     .choices = automatic,
     .unit = "bytes",
     .help = "a size"},
    {.name = "rate", .type = WEFT_PARAM_REAL, .value = "0.5", .help = "a rate"},
    {.name = "mode",
     .type = WEFT_PARAM_CHOICE,
     .value = "fast",
     .choices = modes,
     .help = "a mode"},
    {.name = "note", .type = WEFT_PARAM_STRING, .help = "a note"},
    {.name = "file", .type = WEFT_PARAM_PATH, .value = "a b.txt", .help = "a file"},
    {.name = "numbers", .type = WEFT_PARAM_INT, .flags = WEFT_PARAM_LIST, .help = "numbers"},
    {.name = "words",
     .type = WEFT_PARAM_STRING,
     .value = "x  y z",
     .flags = WEFT_PARAM_LIST,
     .help = "words"},
    {.name = NULL},
};

static inline weft_settings *read_text(const char *text)
{
    weft_settings *settings;
    weft_error err = {0};

    if (weft_settings_read_text("run.ini", text, strlen(text), &settings, &err) != WEFT_OK)
        fail_msg("%s", weft_error_text(&err));
    assert_int_equal(err.n_items, 0);
    return settings;
}

static inline const weft_params *claim(weft_settings *settings, const char *name,
                                       const weft_param *table)
{
    const weft_params *params;
    weft_error err = {0};

    if (weft_settings_section(settings, name, table, &params, &err) != WEFT_OK)
        fail_msg("%s", weft_error_text(&err));
    return params;
}

static inline const weft_params *demo(weft_settings *settings)
{
    return claim(settings, "demo", demo_params);
}

static inline void assert_plugins(const weft_settings *settings, const char *expected)
{
    const weft_listed *list;
    int n = weft_settings_plugins(settings, &list);
    weft_text text = {0};

    for (int i = 0; i < n; i++)
        weft_text_print(&text, "%s%s%s", i ? " " : "", list[i].optional ? "?" : "", list[i].name);
    assert_string_equal(weft_text_get(&text), expected);
    weft_text_release(&text);
}

static inline void assert_where(weft_where where, const char *file, int line)
{
    assert_non_null(where.file);
    assert_string_equal(where.file, file);
    assert_int_equal(where.line, line);
}

typedef weft_status edit(weft_settings *settings, const char *text, weft_error *err);

static inline void assert_edit(edit *apply, weft_settings *settings, const char *text,
                               const char *says)
{
    weft_error err = {0};
    weft_status status = apply(settings, text, &err);

    assert_int_equal(status, says ? WEFT_ERR_INPUT : WEFT_OK);
    assert_int_equal(err.n_items, says ? 1 : 0);
    if (says && !strstr(weft_error_text(&err), says))
        fail_msg("'%s' does not say '%s'", weft_error_text(&err), says);
    weft_error_release(&err);
}

#endif
