/* SPDX-License-Identifier: Apache-2.0 */
/* For the text plugin's tests: a scratch folder, and the plugin opened from an INI as the core
 * would. */
#ifndef WEFT_TEXT_RUN_H
#define WEFT_TEXT_RUN_H

#include "tests/lib/created.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <fcntl.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../data/build.h"
#include "settings/settings.h"

extern const weft_plugin text_LTX_plugin;

/* ---- scratch folder: the working directory of each test ---- */

static inline int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    return remove(path);
}

static inline int scratch_enter(void **state)
{
    char *folder = strdup("/tmp/weft-text-XXXXXX");
    *state = folder;
    return !folder || !mkdtemp(folder) || chdir(folder);
}

/* In memory if there is such a folder: for tests that make many token files, which are synced. */
static inline int scratch_enter_memory(void **state)
{
    char *folder = strdup("/dev/shm/weft-text-XXXXXX");
    *state = folder;
    if (folder && mkdtemp(folder))
        return chdir(folder);
    free(folder);
    return scratch_enter(state);
}

static inline int scratch_leave(void **state)
{
    int rc = chdir("/") || nftw(*state, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    free(*state);
    return rc;
}

static inline void put_bytes(const char *path, const void *data, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static inline void put(const char *path, const char *text)
{
    put_bytes(path, text, strlen(text));
}

/* n bytes of varied ASCII text. */
static inline void put_many(const char *path, size_t n)
{
    char *data = malloc(n);
    assert_non_null(data);
    for (size_t i = 0; i < n; i++)
        data[i] = (char)(i % 61 == 60 ? '\n' : 'a' + (i * i / 7 + i / 13) % 26);
    put_bytes(path, data, n);
    free(data);
}

/* ---- the plugin ---- */

typedef struct run {
    weft_settings *settings;
    weft_log log;
    weft_host host;
    weft_text lines; /* the log */
    weft_error err;
    text_plugin *text; /* NULL unless created */
    const weft_data *data;
    const weft_tokenizer *tokenizer;
} run;

static inline void note_line(void *self, weft_log_level level, const char *line)
{
    (void)level;
    weft_text_print(&((run *)self)->lines, "%s\n", line);
}

static inline const void *service(const char *name)
{
    for (const weft_contribution *c = text_LTX_plugin.contributions; c->kind != WEFT_END; c++)
        if (c->kind == WEFT_SERVICE && !strcmp(c->service, name))
            return c->table;
    return NULL;
}

/* Up to create; `ini` is the section's lines. */
static inline weft_status run_create(run *r, const char *ini)
{
    *r = (run){.data = service("data"), .tokenizer = service("tokenizer")};
    assert_non_null(r->data);
    assert_non_null(r->tokenizer);
    char *all = weft_format("[text]\n%s\n", ini);
    assert_non_null(all);
    weft_status status =
        weft_settings_read_text("run.ini", all, strlen(all), &r->settings, &r->err);
    weft_free(all);
    r->log = (weft_log){.write = note_line, .self = r};
    r->host = (weft_host){.log = &r->log, .cache_dir = "cache", .ranks = 1, .threads = 1};
    if (!status)
        status = weft_settings_section(r->settings, "text", text_LTX_plugin.params, &r->host.params,
                                       &r->err);
    void *self = NULL;
    if (!status)
        status = created_init(&text_LTX_plugin, &r->host, &self, &r->err);
    if (status) {
        created_release(&text_LTX_plugin, &r->host, self);
        self = NULL;
    }
    r->text = self;
    return status;
}

static inline weft_status run_open(run *r, const char *ini)
{
    weft_status status = run_create(r, ini);
    return status ? status : text_LTX_plugin.open(r->text, &r->err);
}

static inline void run_end(run *r)
{
    if (r->text) {
        text_LTX_plugin.close(r->text);
        created_release(&text_LTX_plugin, &r->host, r->text);
    }
    weft_settings_destroy(r->settings);
    weft_text_release(&r->lines);
    weft_error_release(&r->err);
}

/* Opens and expects that to work. */
static inline void run_start(run *r, const char *ini)
{
    weft_status status = run_open(r, ini);
    if (status)
        print_error("%s\n", weft_error_text(&r->err));
    assert_int_equal(status, WEFT_OK);
}

static inline void assert_contains(const char *text, const char *part)
{
    if (!strstr(text, part)) {
        print_error("\"%s\" does not contain \"%s\"\n", text, part);
        fail();
    }
}

/* Expects opening to be refused with one error that says `part`. */
static inline void refuse(const char *ini, const char *part)
{
    run r;
    assert_int_equal(run_open(&r, ini), WEFT_ERR_INPUT);
    assert_contains(weft_error_text(&r.err), part);
    run_end(&r);
}

static inline bool was_tokenised(const run *r)
{
    return strstr(weft_text_get(&r->lines), "tokenising") != NULL;
}

/* Expects the token stream to be these ids. */
static inline void assert_tokens(const run *r, const int32_t *ids, int64_t n)
{
    assert_int_equal(r->text->sources[0].cache.n_tokens, n);
    for (int64_t i = 0; i < n; i++)
        assert_int_equal(text_cache_token(&r->text->sources[0].cache, i), ids[i]);
}

/* Expects the token stream, without BOS and EOS, to be this text. */
static inline void assert_text(const run *r, const char *text, size_t n)
{
    assert_int_equal(r->text->sources[0].cache.n_tokens, n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(text_cache_token(&r->text->sources[0].cache, (int64_t)i),
                         (unsigned char)text[i]);
}

static inline uint64_t fingerprint_of(const char *ini)
{
    run r;
    run_start(&r, ini);
    uint64_t print = r.data->fingerprint(r.text);
    run_end(&r);
    return print;
}

#endif
