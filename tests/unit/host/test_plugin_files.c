/* SPDX-License-Identifier: Apache-2.0 */
/* One plugin: found, opened, its descriptor checked and described; and what is none. */
#include "../../lib/plugin_run.h"
#include "console/describe.h"
#include "vet/known.h"

#include <ltdl.h>
#include <stdio.h>
#include <sys/stat.h>

/* ---- files that are no plugins, or the wrong ones ---- */

static void test_missing(void **state)
{
    (void)state;
    assert_refused("cpu good_aa", "run.ini:5: no plugin 'good_aa' in ");
    assert_refused("cpu good_aa", "did you mean 'good_a'?");
    /* what the system's library search would find is no plugin */
    assert_refused("cpu libm", "no plugin 'libm'");
    assert_refused("cpu libcmocka", "no plugin 'libcmocka'");
}

static void test_known(void **state)
{
    (void)state;
    const char *text = "# NAME advice\n\n  mpi\tinstall the package weft-plugin-mpi \r\nbare\n"
                       "last build it";
    weft_known k;
    assert_true(weft_known_next(&text, &k));
    assert_int_equal(k.name_size, 3);
    assert_memory_equal(k.name, "mpi", 3);
    assert_int_equal(k.advice_size, strlen("install the package weft-plugin-mpi"));
    assert_memory_equal(k.advice, "install the package weft-plugin-mpi", (size_t)k.advice_size);
    assert_true(weft_known_next(&text, &k)); /* no advice: no help */
    assert_int_equal(k.name_size, 4);
    assert_memory_equal(k.name, "last", 4);
    assert_int_equal(k.advice_size, strlen("build it"));
    assert_false(weft_known_next(&text, &k));
}

static void test_environment_is_no_way_in(void **state)
{
    (void)state;
    run r = {0};
    assert_int_equal(setenv("LTDL_LIBRARY_PATH", fixtures, 1), 0);
    assert_int_equal(setenv("LD_LIBRARY_PATH", fixtures, 1), 0);
    assert_int_equal(load_from(&r, scratch, "good_a", ""), WEFT_ERR_INPUT);
    assert_says(&r.err, "no plugin 'good_a'");
    release(&r);
    unsetenv("LTDL_LIBRARY_PATH");
    unsetenv("LD_LIBRARY_PATH");
}

static void test_plugin_path_variable(void **state)
{
    (void)state;
    run r = {0};
    assert_int_equal(setenv("WEFT_PLUGIN_PATH", fixtures, 1), 0);
    assert_loads(&r, load_from(&r, scratch, "cpu good_a", ""));
    release(&r);
    assert_int_equal(setenv("WEFT_PLUGIN_PATH", "/no/such/folder", 1), 0);
    assert_int_equal(load(&r, "cpu good_a", ""), WEFT_ERR_INPUT);
    assert_says(&r.err, "WEFT_PLUGIN_PATH: plugin folder '/no/such/folder'");
    release(&r);
    unsetenv("WEFT_PLUGIN_PATH");
}

static void test_broken_descriptors(void **state)
{
    (void)state;
    assert_refused("cpu wrong_magic", "magic is 0x12345678, expected 0x74666577");
    assert_refused("cpu wrong_abi", "built for ABI major 1, expected 0");
    char other[64];
    snprintf(other, sizeof other, "built for ABI minor %d, expected %d", WEFT_ABI_MINOR + 6,
             WEFT_ABI_MINOR);
    assert_refused("cpu wrong_abi", other);
    assert_refused("cpu wrong_abi", "build it again with this weft's headers; "
                                    "docs/writing-plugins.md lists what has changed");
    assert_refused("cpu no_symbol", "exports no no_symbol_LTX_plugin");
    assert_refused("cpu other_name", "its descriptor says 'another', its file name 'other_name'");
    assert_refused("cpu empty_metadata", "no version");
    assert_refused("cpu empty_metadata", "no licence");
    assert_refused("cpu empty_metadata", "no summary");
    char sizes[80];
    snprintf(sizes, sizeof sizes, "%zu bytes, expected %zu", sizeof(weft_plugin) - 8,
             sizeof(weft_plugin));
    assert_refused("cpu wrong_size", sizes);
    assert_refused("cpu wrong_tables", "in which a contribution has");
    assert_refused("cpu wrong_tables", "in which an op has");
    assert_refused("cpu wrong_services", "a service, a view or a value has another size");
}

static void test_undefined_function(void **state)
{
    (void)state;
    assert_refused("cpu undefined_function",
                   "run.ini:5: plugin 'undefined_function' cannot be opened");
    assert_refused("cpu undefined_function", "undefined symbol: weft_no_such_function");
}

static void test_tables(void **state)
{
    (void)state;
    static const char *const words[] = {
        "numerics is 7",
        "parameter 'count' is declared twice",
        "parameter 'two words'",
        "parameter 'count' counts by 'counts', which is none",
        "parameter 'mute' has no help",
        "parameter 'pick' is a choice of nothing",
        "parameter 'span' has minimum 2 above maximum 1",
        "parameter 'must' is required, so its default '3'",
        "a pass of stage mesh has no function",
        "a pass has the unknown stage 7; stages are mesh,",
        "a pass of stage placed has no function",
        "a contribution that is not a pass says after 'two? wor?ds'",
        "'wor?ds' in after is not a capability",
        "'maybe?' in gives is not a capability",
        "service 'device': its table has size 8, smaller than",
        "service 'transport': its table has size 4096, larger than",
        "service 'data': its table's size is 0; set .size",
        "the wrap of 'store' has no function `wrap`",
        "the wrap of 'weights' has no table",
        "it wraps 'store' twice",
        "service 'format' cannot be wrapped",
        "a wrap does not name the service",
        "service 'nothing' has no table",
        "an observer has no function",
        "an observer asks for events 0x100000",
        "op 'half_op' has no plain kernel",
        "op 'half_op' is declared twice",
        "op 'half_op' has neither rule nor make_rule",
        "op 'odd_op' has the unknown flags 0x80000",
        "op 'odd_op' has a flag of weft's own: of parameters",
        "op 'odd_op' is of family ''",
        "op 'twice_op' says its gradient twice, in grad and in",
        "op 'twice_op' has differentiate, but does not say for",
        "op 'never_op' has grad_of or grad_reads, but no",
        "kernel 'plain_too' of op 'half_op' has priority 0",
        "kernel 'no_launch' of op 'half_op' has no launch",
        "lacks one of the three"};
    run r = {0};
    assert_int_equal(load(&r, "cpu bad_tables", ""), WEFT_ERR_INPUT);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        assert_says(&r.err, words[i]);
    release(&r);
}

static void test_bad_default(void **state)
{
    (void)state;
    run r = {0};
    assert_int_equal(load(&r, "cpu bad_default", ""), WEFT_ERR_INPUT);
    assert_says(&r.err, "count");
    assert_says(&r.err, "did you mean 'soft'");
    assert_says(&r.err, "deep");
    assert_says(&r.err, "run.ini:5: plugin 'bad_default'");
    release(&r);
}

static void scratch_path(char path[PATH_MAX], const char *name)
{
    assert_true(snprintf(path, PATH_MAX, "%s/%s", scratch, name) < PATH_MAX);
}

static void fixture_path(char path[PATH_MAX], const char *name)
{
    assert_true(snprintf(path, PATH_MAX, "%s/%s", fixtures, name) < PATH_MAX);
}

static void copy_file(const char *from, const char *to)
{
    char *data;
    size_t size;
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
    assert_non_null(in);
    assert_non_null(out);
    data = malloc(1 << 24);
    assert_non_null(data);
    size = fread(data, 1, 1 << 24, in);
    assert_true(size > 0 && size < 1 << 24);
    assert_int_equal(fwrite(data, 1, size, out), size);
    free(data);
    fclose(in);
    assert_int_equal(fclose(out), 0);
}

static void test_not_elf(void **state)
{
    (void)state;
    run r = {0};
    char path[PATH_MAX];
    scratch_path(path, "notes.so");
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs("This is a text of more than a few bytes, and no shared object at all, whatever its name "
          "says.\n",
          file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(load_from(&r, scratch, "notes", ""), WEFT_ERR_INPUT);
    assert_says(&r.err, "notes.so: ");
    assert_says(&r.err, "ELF");
    release(&r);
    unlink(path);
}

static void test_outside_trusted_folders(void **state)
{
    (void)state;
    run r = {0};
    char target[PATH_MAX], link_path[PATH_MAX];
    fixture_path(target, "good_a.so");
    scratch_path(link_path, "good_a.so");
    assert_int_equal(symlink(target, link_path), 0);
    assert_int_equal(load_from(&r, scratch, "good_a", ""), WEFT_ERR_INPUT);
    assert_says(&r.err, "outside the plugin folders");
    release(&r);
    unlink(link_path);
    assert_int_equal(symlink("/no/such/file.so", link_path), 0);
    assert_int_equal(load_from(&r, scratch, "?good_a", ""), WEFT_ERR_INPUT);
    assert_says(&r.err, "cannot be resolved");
    release(&r);
    unlink(link_path);
    assert_int_equal(mkdir(link_path, 0700), 0);
    assert_int_equal(load_from(&r, scratch, "good_a", ""), WEFT_ERR_INPUT);
    assert_says(&r.err, "is not a file");
    release(&r);
    rmdir(link_path);
}

static void test_two_names_one_file(void **state)
{
    (void)state;
    run r = {0};
    char from[PATH_MAX], first[PATH_MAX], second[PATH_MAX];
    fixture_path(from, "good_a.so");
    scratch_path(first, "good_a.so");
    scratch_path(second, "good_c.so");
    copy_file(from, first);
    assert_int_equal(link(first, second), 0);
    assert_int_equal(load_from(&r, scratch, "good_a good_c", ""), WEFT_ERR_INPUT);
    assert_says(&r.err, "run.ini:5: plugin 'good_c' is the same file as 'good_a'");
    release(&r);
    unlink(first);
    unlink(second);
}

/* What runs is what was opened first, whatever lies there now. */
static void test_changed_file(void **state)
{
    (void)state;
    const char *const extra[] = {scratch, NULL};
    char from[PATH_MAX], path[PATH_MAX];
    weft_error err = {0};
    weft_search *search;
    weft_module first, again;
    fixture_path(from, "good_b.so");
    scratch_path(path, "good_b.so");
    copy_file(from, path);
    assert_int_equal(weft_search_create(extra, &search, &err), WEFT_OK);
    assert_int_equal(weft_module_open(search, "good_b", WEFT_NOWHERE, &first, &err), WEFT_OK);
    FILE *file = fopen(path, "ab");
    assert_non_null(file);
    fputs("more", file);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(weft_module_open(search, "good_b", WEFT_NOWHERE, &again, &err), WEFT_OK);
    assert_ptr_equal(again.plugin, first.plugin);
    assert_int_equal(strlen(first.id.sha256), 64);
    assert_string_equal(again.id.sha256, first.id.sha256);
    weft_search_destroy(search);
    weft_error_release(&err);
    unlink(path);
}

/* ---- plugins linked into the program ---- */

static const weft_plugin linked_in = {WEFT_PLUGIN_HEAD, .name = "linked_in", .version = "1.0",
                                      .licence = "Apache-2.0", .summary = "no file holds it"};

static void test_builtin(void **state)
{
    (void)state;
    static const lt_dlsymlist list[] = {{"@PROGRAM@", NULL},
                                        {"linked_in.a", NULL},
                                        {"linked_in_LTX_plugin", (void *)(uintptr_t)&linked_in},
                                        {NULL, NULL}};
    run r = {0};
    assert_int_equal(lt_dlpreload_default(list), 0);
    assert_loads(&r, load(&r, "cpu linked_in", ""));
    assert_ptr_equal(r.plugins->list[1].module.plugin, &linked_in);
    assert_null(r.plugins->list[1].module.path);
    bool named = false;
    for (const char *const *name = weft_search_names(r.plugins->search); *name; name++)
        named = named || strcmp(*name, "linked_in") == 0;
    assert_true(named);
    release(&r);
    assert_int_equal(lt_dlpreload_default(NULL), 0);
    assert_refused("cpu linked_in", "no plugin 'linked_in'");
}

/* ---- listing and describing ---- */

static void test_names(void **state)
{
    (void)state;
    const char *const extra[] = {fixtures, NULL};
    weft_error err = {0};
    weft_search *search;
    bool named = false;
    assert_int_equal(weft_search_create(extra, &search, &err), WEFT_OK);
    const char *const *names = weft_search_names(search);
    for (int i = 0; names[i]; i++) {
        assert_true(i == 0 || strcmp(names[i - 1], names[i]) < 0);
        named = named || strcmp(names[i], "good_a") == 0;
    }
    assert_true(named);
    weft_module module;
    assert_int_equal(weft_module_open(search, "../good_a", WEFT_NOWHERE, &module, &err),
                     WEFT_ERR_INPUT);
    assert_int_equal(weft_module_open(search, "", WEFT_NOWHERE, &module, &err), WEFT_ERR_INPUT);
    weft_search_destroy(search);
    weft_error_release(&err);
}

static void test_describe(void **state)
{
    (void)state;
    const char *const extra[] = {fixtures, NULL};
    weft_error err = {0};
    weft_search *search;
    weft_module a, b;
    weft_text text = {0};
    assert_int_equal(weft_search_create(extra, &search, &err), WEFT_OK);
    assert_int_equal(weft_module_open(search, "good_a", WEFT_NOWHERE, &a, &err), WEFT_OK);
    assert_int_equal(weft_module_open(search, "good_b", WEFT_NOWHERE, &b, &err), WEFT_OK);

    weft_plugin_describe(&a, false, &text);
    static const char *const words[] = {
        "good_a 1.2.3: a fixture",
        "good_a.so",
        "pass, stage graph; needs graph; gives thing_a",
        "count = 2\n      int from 1 to 8, in steps\n      How many.",
        "int from 1 to 64; or auto",
        "choice: soft, hard",
        "note (not set)",
        "list of path",
        "may differ between ranks",
        "and 1 advanced",
        "twice: twice its operand; rule * -> *",
        "twice on cpu: twice_fast, priority 10"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (!strstr(weft_text_get(&text), words[i]))
            fail_msg("no \"%s\" in\n%s", words[i], weft_text_get(&text));
    assert_null(strstr(weft_text_get(&text), "An advanced switch."));
    weft_text_clear(&text);
    weft_plugin_describe(&a, true, &text);
    assert_non_null(strstr(weft_text_get(&text), "An advanced switch."));

    weft_text_clear(&text);
    weft_plugin_describe_json(&a, &text);
    assert_non_null(strstr(weft_text_get(&text), "\"help\": \"A \\\"rate\\\".\""));
    assert_non_null(strstr(weft_text_get(&text), "\"default\": null"));
    weft_text_clear(&text);
    weft_plugin_describe_json(&b, &text);
    assert_non_null(strstr(weft_text_get(&text), "\"events\": [\"start\", \"step_end\"]"));
    weft_text_release(&text);
    weft_search_destroy(search);
    weft_error_release(&err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_missing),
        cmocka_unit_test(test_known),
        cmocka_unit_test(test_environment_is_no_way_in),
        cmocka_unit_test(test_plugin_path_variable),
        cmocka_unit_test(test_broken_descriptors),
        cmocka_unit_test(test_undefined_function),
        cmocka_unit_test(test_tables),
        cmocka_unit_test(test_bad_default),
        cmocka_unit_test(test_not_elf),
        cmocka_unit_test(test_outside_trusted_folders),
        cmocka_unit_test(test_two_names_one_file),
        cmocka_unit_test(test_changed_file),
        cmocka_unit_test(test_builtin),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_describe),
    };
    return RUN_WITH_FIXTURES(tests);
}
