/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of plugins share: a set loaded from an INI in memory, and assertions on its
 * errors. WEFT_TEST_FIXTURES names the folder that holds the .so files of tests/fixtures/plugins.
 */
#ifndef PLUGIN_RUN_H
#define PLUGIN_RUN_H

#include "host/plugins.h"

#include <limits.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* last: it needs the headers above */
#include <cmocka.h>

static char fixtures[PATH_MAX];
static char scratch[PATH_MAX];

static inline void log_line(void *self, weft_log_level level, const char *line)
{
    (void)level;
    weft_text_print(self, "%s\n", line);
}

typedef struct run {
    weft_text ini, seen;
    weft_log log;
    weft_error err;
    weft_settings *settings;
    weft_plugins *plugins;
} run;

/* Loads "[weft] plugin_path = FOLDER, plugins = PLUGINS" and what follows. */
static inline weft_status load_from(run *r, const char *folder, const char *plugins,
                                    const char *rest)
{
    weft_text_print(&r->ini, "[weft]\nplugin_path = %s\nplugins =\n", folder);
    for (const char *p = plugins; *p;) {
        size_t n = strcspn(p, " ");
        weft_text_add(&r->ini, "    ");
        weft_text_add_bytes(&r->ini, p, n);
        weft_text_add(&r->ini, "\n");
        p += n + (p[n] == ' ');
    }
    weft_text_print(&r->ini, "dir = run\n[train]\nsteps = 1\n%s", rest);
    r->log = (weft_log){log_line, &r->seen};
    weft_status status = weft_settings_read_text("run.ini", weft_text_get(&r->ini), r->ini.size,
                                                 &r->settings, &r->err);
    return status ? status : weft_plugins_load(r->settings, &r->log, &r->plugins, &r->err);
}

static inline weft_status load(run *r, const char *plugins, const char *rest)
{
    return load_from(r, fixtures, plugins, rest);
}

static inline weft_status create(run *r)
{
    weft_host host = {.log = &r->log, .ranks = 1, .threads = 1};
    return weft_plugins_create(r->plugins, &host, &r->err);
}

static inline void release(run *r)
{
    weft_plugins_destroy(r->plugins);
    weft_settings_destroy(r->settings);
    weft_error_release(&r->err);
    weft_text_release(&r->ini);
    weft_text_release(&r->seen);
    *r = (run){0};
}

static inline bool says(const weft_error *err, const char *words)
{
    for (int i = 0; i < err->n_items; i++)
        if (strstr(err->items[i].text, words))
            return true;
    return false;
}

static inline void assert_says(const weft_error *err, const char *words)
{
    if (says(err, words))
        return;
    for (int i = 0; i < err->n_items; i++)
        print_message("  %s\n", err->items[i].text);
    fail_msg("no error says \"%s\"", words);
}

static inline void assert_loads(run *r, weft_status status)
{
    if (status != WEFT_OK)
        fail_msg("not loaded: %s", weft_error_text(&r->err));
    assert_int_equal(r->err.n_items, 0);
}

/* Listing `plugin` must be refused, with these words. */
static inline void assert_refused(const char *plugins, const char *words)
{
    run r = {0};
    assert_int_equal(load(&r, plugins, ""), WEFT_ERR_INPUT);
    assert_null(r.plugins);
    assert_says(&r.err, words);
    release(&r);
}

/* Runs the tests with `fixtures` and `scratch` set up. */
#define RUN_WITH_FIXTURES(tests)                                                                   \
    (find_folders() ? finish(cmocka_run_group_tests(tests, NULL, NULL)) : 99)

static inline bool find_folders(void)
{
    const char *folder = getenv("WEFT_TEST_FIXTURES");
    if (!folder || !realpath(folder, fixtures)) {
        fprintf(stderr,
                "set WEFT_TEST_FIXTURES to the folder that holds the fixture plugins' .so files\n");
        return false;
    }
    snprintf(scratch, sizeof scratch, "/tmp/weft-test-plugins-XXXXXX");
    if (!mkdtemp(scratch)) {
        perror("mkdtemp");
        return false;
    }
    unsetenv("WEFT_PLUGIN_PATH");
    return true;
}

static inline int finish(int failed)
{
    rmdir(scratch);
    return failed;
}

#endif
