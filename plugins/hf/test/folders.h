/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of folders share: the models' tables, a scratch folder. */
#ifndef HF_TEST_FOLDERS_H
#define HF_TEST_FOLDERS_H

#include "../../../tests/lib/model_run.h"
#include "../hf.h"

#include <ftw.h>
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
/* last: it needs the headers above */
#include <cmocka.h>

/* ---- the models' tables ---- */

static weft_search *search;

static weft_status find_plugin(void *self, const char *name, const weft_plugin **out,
                               weft_error *err)
{
    weft_module module;
    (void)self;
    weft_status s = weft_module_open(search, name, WEFT_NOWHERE, &module, err);
    *out = s ? NULL : module.plugin;
    return s;
}

static const weft_finder finder = {NULL, find_plugin};
static const hf_tables tables = {.plugins = &finder};

static int open_search(void **state)
{
    weft_error err = {0};
    (void)state;
    return weft_search_create(NULL, &search, &err) != WEFT_OK;
}

static int close_search(void **state)
{
    (void)state;
    weft_search_destroy(search);
    return 0;
}

static void check(weft_status s, const weft_error *err)
{
    for (int i = 0; i < err->n_items; i++)
        print_message("  %s\n", err->items[i].text);
    assert_int_equal(s, WEFT_OK);
}

/* ---- a scratch folder ---- */

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    return remove(path);
}

static int enter(void **state)
{
    char *folder = strdup("/tmp/weft-hf-XXXXXX");
    *state = folder;
    return !folder || !mkdtemp(folder) || chdir(folder);
}

static int leave(void **state)
{
    int rc = chdir("/") || nftw(*state, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
    free(*state);
    return rc;
}

#endif
