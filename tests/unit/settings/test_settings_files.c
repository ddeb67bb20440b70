/* SPDX-License-Identifier: Apache-2.0 */
/* Settings: files and includes, what overrides what, and the effective INI. */
#include "../../lib/settings_run.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* A folder of files for one test. */
static char folder[64];

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof(folder), "/tmp/weft-settings-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state)
{
    char command[128];

    (void)state;
    snprintf(command, sizeof(command), "rm -rf '%s'", folder);
    return system(command);
}

static const char *path_of(const char *name)
{
    static char path[160];

    snprintf(path, sizeof(path), "%s/%s", folder, name);
    return path;
}

static void write_file(const char *name, const char *text)
{
    FILE *file = fopen(path_of(name), "w");

    assert_non_null(file);
    assert_int_equal(fputs(text, file) < 0, 0);
    assert_int_equal(fclose(file), 0);
}

static weft_settings *read_file(const char *name)
{
    weft_settings *settings;
    weft_error err = {0};

    if (weft_settings_read(path_of(name), &settings, &err) != WEFT_OK)
        fail_msg("%s", weft_error_text(&err));
    return settings;
}

static void assert_read_fails(const char *name, const char *says)
{
    weft_settings *settings;
    weft_error err = {0};

    assert_int_equal(weft_settings_read(path_of(name), &settings, &err), WEFT_ERR_INPUT);
    assert_null(settings);
    if (!strstr(weft_error_text(&err), says))
        fail_msg("'%s' does not say '%s'", weft_error_text(&err), says);
    weft_error_release(&err);
}

/* ---- files ---- */

static void includes_are_read_in_place(void **state)
{
    weft_settings *settings;
    const weft_params *p;

    (void)state;
    assert_int_equal(mkdir(path_of("conf"), 0755), 0);
    write_file("run.ini", "include = conf/base.ini\n[demo]\ncount = 2\n[weft]\ninclude = "
                          "conf/late.ini\n[demo]\nrate = 1\n");
    write_file("conf/base.ini",
               "[demo]\ncount = 1\nnote = base\n[weft]\ninclude = more.ini\nplugins = a b\n");
    write_file("conf/more.ini", "[demo]\nflag = yes\n");
    write_file("conf/late.ini", "[demo]\nrate = 0.25\nnote = late\n[weft]\nplugins =\n c\n");
    settings = read_file("run.ini");
    p = demo(settings);
    assert_int_equal(weft_params_int(p, "count"), 2); /* its own later line */
    assert_true(weft_params_real(p, "rate") == 1.0);
    assert_string_equal(weft_params_text(p, "note"), "late");
    assert_true(weft_params_bool(p, "flag"));
    assert_where(weft_params_where(p, "count"), path_of("run.ini"), 3);
    assert_where(weft_params_where(p, "note"), path_of("conf/late.ini"), 3);
    assert_where(weft_params_where(p, "flag"), path_of("conf/more.ini"), 2);
    assert_plugins(settings, "c");
    weft_settings_destroy(settings);
}

/* Relative to the file that says it; the command line, to the working directory; always absolute.
 */
static void paths_lie_beside_their_file(void **state)
{
    static const weft_param table[] = {
        {.name = "one", .type = WEFT_PARAM_PATH, .flags = WEFT_PARAM_BESIDE, .help = "a path"},
        {.name = "more",
         .type = WEFT_PARAM_PATH,
         .flags = WEFT_PARAM_BESIDE | WEFT_PARAM_LIST,
         .help = "paths"},
        {.name = "given", .type = WEFT_PARAM_PATH, .flags = WEFT_PARAM_BESIDE, .help = "a path"},
        {.name = NULL}};
    weft_settings *settings;
    weft_error err = {0};
    const weft_params *p;
    char here[PATH_MAX], expected[PATH_MAX + 20];

    (void)state;
    assert_int_equal(mkdir(path_of("conf"), 0755), 0);
    write_file("run.ini", "include = conf/base.ini\n[paths]\nmore = a /b\n  ../c\n");
    write_file("conf/base.ini", "[paths]\none = lock\ngiven = lost\n");
    settings = read_file("run.ini");
    assert_int_equal(weft_settings_override(settings, "paths.given=here", &err), WEFT_OK);
    p = claim(settings, "paths", table);
    assert_string_equal(weft_params_text(p, "one"), path_of("conf/lock"));
    assert_string_equal(weft_params_word(p, "more", 0), path_of("a"));
    assert_string_equal(weft_params_word(p, "more", 1), "/b");
    assert_string_equal(weft_params_word(p, "more", 2), path_of("../c"));
    assert_non_null(getcwd(here, sizeof here));
    snprintf(expected, sizeof expected, "%s/here", here);
    assert_string_equal(weft_params_text(p, "given"), expected);
    weft_settings_destroy(settings);
}

static void include_cycles_are_named(void **state)
{
    char says[512];

    (void)state;
    write_file("a.ini", "include = b.ini\n");
    write_file("b.ini", "[weft]\ninclude = ./a.ini\n");
    snprintf(says, sizeof(says), "%s/b.ini:2: include cycle: %s/a.ini -> %s/b.ini -> %s/./a.ini",
             folder, folder, folder, folder);
    assert_read_fails("a.ini", says);
    write_file("self.ini", "include = self.ini\n");
    assert_read_fails("self.ini", "include cycle: ");
}

static void includes_have_a_depth(void **state)
{
    weft_settings *settings;
    char name[32], text[64];

    (void)state;
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof(name), "d%d.ini", i);
        snprintf(text, sizeof(text), i < 19 ? "include = d%d.ini\n" : "[demo]\ncount = 5\n", i + 1);
        write_file(name, text);
    }
    settings = read_file("d3.ini"); /* 16 below it */
    assert_int_equal(weft_params_int(demo(settings), "count"), 5);
    weft_settings_destroy(settings);
    assert_read_fails("d2.ini", "d18.ini:1: includes nest deeper than 16 files");
}

static void includes_do_not_multiply(void **state)
{
    char name[32], text[96];

    (void)state;
    for (int i = 0; i < 12; i++) {
        snprintf(name, sizeof(name), "m%d.ini", i);
        snprintf(text, sizeof(text), i < 11 ? "include = m%d.ini\ninclude = m%d.ini\n" : "[demo]\n",
                 i + 1, i + 1);
        write_file(name, text);
    }
    assert_read_fails("m0.ini", "more than 100 includes");
}

static void unreadable_files_are_named(void **state)
{
    (void)state;
    assert_read_fails("none.ini", "none.ini': No such file");
    assert_int_equal(mkdir(path_of("dir.ini"), 0755), 0);
    assert_read_fails("dir.ini", "dir.ini': Is a directory");
    write_file("large.ini", "");
    assert_int_equal(truncate(path_of("large.ini"), 2 << 20), 0);
    assert_read_fails("large.ini", "has more than 1048576 bytes");
    write_file("broken.ini", "include = gone.ini\ninclude = bad.ini\n");
    write_file("bad.ini", "oops\n");
    assert_read_fails("broken.ini", "broken.ini:1: cannot open '");
}

/* ---- the command line ---- */

static void overrides_win(void **state)
{
    weft_settings *settings = read_text("[demo]\ncount = 1\nnote = x\n");
    const weft_params *p;

    (void)state;
    assert_edit(weft_settings_override, settings, "demo.count=2", NULL);
    assert_edit(weft_settings_override, settings, "demo.count = 3 ", NULL);
    assert_edit(weft_settings_override, settings, "demo.note=", NULL);
    assert_edit(weft_settings_override, settings, "demo.words=p q=r", NULL);
    p = demo(settings);
    assert_int_equal(weft_params_int(p, "count"), 3);
    assert_string_equal(weft_params_text(p, "note"), "");
    assert_string_equal(weft_params_word(p, "words", 1), "q=r");
    assert_where(weft_params_where(p, "words"), "-o demo.words=p q=r", 0);
    weft_settings_destroy(settings);
}

static void wrong_overrides_are_refused(void **state)
{
    weft_settings *settings = read_text("[demo]\ncount = 1\n");
    const weft_params *p;
    weft_error err = {0};

    (void)state;
    assert_edit(weft_settings_override, settings, "count=2",
                "-o count=2: write -o section.key=value");
    assert_edit(weft_settings_override, settings, "demo.count", "write -o section.key=value");
    assert_edit(weft_settings_override, settings, ".count=1", "write -o section.key=value");
    assert_edit(weft_settings_override, settings, "demo.=1", "write -o section.key=value");
    assert_edit(weft_settings_override, settings, "demo.note=a\nb", "control character");
    assert_edit(weft_settings_override, settings, "demo.note=a ; b", "starts a comment");
    assert_edit(weft_settings_override, settings, "demo.note=\xff", "not UTF-8");
    assert_edit(weft_settings_override, settings, "demo.conut=1", NULL);
    assert_edit(weft_settings_override, settings, "omed.count=1", NULL);
    assert_edit(weft_settings_override, settings, "demo.rate=fast", NULL);
    assert_int_equal(weft_settings_section(settings, "demo", demo_params, &p, &err),
                     WEFT_ERR_INPUT);
    assert_int_equal(weft_settings_finish(settings, NULL, false, &err), WEFT_ERR_INPUT);
    assert_int_equal(err.n_items, 3);
    assert_string_equal(err.items[0].text,
                        "-o demo.rate=fast: [demo] rate = fast: not understood; give a number");
    assert_string_equal(err.items[1].text,
                        "-o demo.conut=1: [demo] unknown key 'conut'; did you mean 'count'?");
    assert_non_null(strstr(err.items[2].text, "-o omed.count=1: unknown section [omed]"));
    weft_error_release(&err);
    weft_settings_destroy(settings);
}

static void plugins_are_listed_in_order(void **state)
{
    weft_settings *settings = read_text("[weft]\nplugins = a ?b\n  c\n\n  d e\n");
    const weft_listed *list;

    (void)state;
    assert_plugins(settings, "a ?b c d e");
    assert_int_equal(weft_settings_plugins(settings, &list), 5);
    assert_where(list[1].where, "run.ini", 2);
    assert_where(list[4].where, "run.ini", 5);
    assert_string_equal(
        weft_params_text(claim(settings, "weft", weft_core_params("weft")), "plugins"),
        "a ?b c d e");
    weft_settings_destroy(settings);
    settings = read_text("");
    assert_plugins(settings, "");
    weft_settings_destroy(settings);
}

static void with_and_without_change_the_list(void **state)
{
    weft_settings *settings = read_text("[weft]\nplugins = a b c\n[b]\nx = 1\n");
    const weft_listed *list;

    (void)state;
    assert_edit(weft_settings_with, settings, "z", NULL);
    assert_edit(weft_settings_with, settings, "y@first", NULL);
    assert_edit(weft_settings_with, settings, "?x@after:a", NULL);
    assert_edit(weft_settings_with, settings, "w@before:c", NULL);
    assert_plugins(settings, "y a ?x b w c z");
    assert_edit(weft_settings_without, settings, "b", NULL);
    assert_edit(weft_settings_without, settings, "y", NULL);
    assert_plugins(settings, "a ?x w c z");
    assert_int_equal(weft_settings_plugins(settings, &list), 5);
    assert_where(list[4].where, "--with z", 0);
    assert_where(list[3].where, "run.ini", 2);
    assert_edit(weft_settings_with, settings, "c",
                "plugin 'c' is listed twice, first at run.ini:2");
    assert_edit(weft_settings_with, settings, "z", "plugin 'z' is listed twice");
    assert_edit(weft_settings_with, settings, "v@after:q", "plugin 'q' is not listed");
    assert_edit(weft_settings_with, settings, "v@behind:a", "'@behind:a' is not a place");
    assert_edit(weft_settings_with, settings, "../v", "'../v' is not a plugin's name");
    assert_edit(weft_settings_without, settings, "b", "--without b: plugin 'b' is not listed");
    assert_plugins(settings, "a ?x w c z");
    assert_string_equal(
        weft_params_text(claim(settings, "weft", weft_core_params("weft")), "plugins"),
        "a ?x w c z");
    assert_int_equal(weft_settings_finish(settings, NULL, false, NULL),
                     WEFT_OK); /* [b] was taken out, which makes its section no error */
    weft_settings_destroy(settings);
}

static void without_suggests_the_nearest(void **state)
{
    weft_settings *settings = read_text("[weft]\nplugins = llama3 metrics adamw\n");

    (void)state;
    assert_edit(weft_settings_without, settings, "metric",
                "plugin 'metric' is not listed in [weft] plugins; did you mean 'metrics'?");
    assert_edit(weft_settings_override, settings, "weft.plugins=x y x",
                "plugin 'x' is listed twice");
    assert_edit(weft_settings_override, settings, "weft.plugins=x y", NULL);
    assert_plugins(settings, "x y");
    weft_settings_destroy(settings);
}

/* ---- the effective INI ---- */

static void sources_are_printed(void **state)
{
    weft_settings *settings = read_text("[weft]\nplugins = a\n  b\n[demo]\ncount = 3\nwords =\n");
    weft_text text = {0};

    (void)state;
    assert_edit(weft_settings_override, settings, "demo.rate=1", NULL);
    assert_edit(weft_settings_with, settings, "c@first", NULL);
    claim(settings, "weft", weft_core_params("weft"));
    demo(settings);
    weft_settings_print(settings, true, true, &text);
    assert_string_equal(weft_text_get(&text),
                        "[weft]\n"
                        "plugins =\n"
                        "    c                                   ; --with c@first\n"
                        "    a                                   ; run.ini:2\n"
                        "    b                                   ; run.ini:3\n"
                        "\n[demo]\n"
                        "count = 3                               ; run.ini:5\n"
                        "rate = 1                                ; -o demo.rate=1\n");
    weft_text_clear(&text);
    weft_settings_print(settings, true, false, &text);
    assert_non_null(strstr(text.data, "\nsize = auto                             ; default\n"));
    assert_non_null(strstr(text.data, "\n;note =                                 ; default\n"));
    weft_text_release(&text);
    weft_settings_destroy(settings);
}

static char *print_all(weft_settings *settings, bool sources)
{
    weft_text text = {0};
    char *copy;

    claim(settings, "weft", weft_core_params("weft"));
    claim(settings, "train", weft_core_params("train"));
    claim(settings, "mesh", weft_core_params("mesh"));
    demo(settings);
    weft_settings_print(settings, sources, false, &text);
    copy = strdup(weft_text_get(&text));
    weft_text_release(&text);
    return copy;
}

static void what_is_printed_can_be_loaded(void **state)
{
    weft_text long_list = {0};
    weft_settings *settings = read_text("[weft]\nplugins = a ?b\ndir = my runs/1\n[train]\nsteps = "
                                        "10k\n[demo]\nnote = |a #b\nwords = #1 #2\n"),
                  *again;
    char *first, *second, *third;

    (void)state;
    weft_text_add(&long_list, "demo.numbers=");
    for (int i = 0; i < 100; i++)
        weft_text_print(&long_list, "%d ", i);
    assert_edit(weft_settings_override, settings, long_list.data, NULL);
    first = print_all(settings, false);
    third = print_all(settings, true);
    again = read_text(first);
    second = print_all(again, false);
    assert_string_equal(first, second);
    assert_false(weft_params_given(demo(again), "note") == false);
    weft_settings_destroy(again);
    free(second);
    again = read_text(third);
    second = print_all(again, false);
    assert_string_equal(first, second);
    weft_settings_destroy(again);
    weft_settings_destroy(settings);
    weft_text_release(&long_list);
    free(first);
    free(second);
    free(third);
}

/* ---- memory ---- */

static weft_status everything(weft_error *err)
{
    static const char text[] =
        "include = base.ini\n[weft]\nplugins = a b\n[demo]\nconut = 1\nlevel = x\n[tq]\n";
    weft_settings *settings = NULL;
    const weft_params *params;
    const char *candidates[1001] = {NULL}; /* so many that room for them is memory of its own */
    weft_text out = {0};
    weft_status status = weft_settings_read(path_of("run.ini"), &settings, err);

    for (int i = 0; i < 1000; i++)
        candidates[i] = "another";

    if (status == WEFT_OK) {
        weft_settings_override(settings, "demo.count=3", err);
        weft_settings_with(settings, "c@after:a", err);
        weft_settings_without(settings, "b", err);
        weft_settings_without(settings, "q", err);
        weft_settings_section(settings, "weft", weft_core_params("weft"), &params, err);
        weft_settings_section(settings, "demo", demo_params, &params, err);
        weft_settings_finish(settings, candidates, false, err);
        weft_settings_print(settings, true, false, &out);
        weft_settings_destroy(settings);
    }
    if (out.out_of_memory)
        weft_fail_memory(err);
    weft_text_release(&out);
    weft_settings_read_text("x", text, sizeof(text) - 1, &settings, err);
    weft_settings_destroy(settings);
    return weft_error_status(err);
}

static bool out_of_memory_is_noted(const weft_error *err)
{
    bool noted = err->out_of_memory;

    for (int i = 0; i < err->n_items; i++)
        noted = noted || err->items[i].status == WEFT_ERR_MEMORY;
    return noted;
}

/* Each allocation fails once: nothing leaks (the sanitizers watch), nothing crashes, and it is
 * said. */
static void every_allocation_may_fail(void **state)
{
    weft_error err = {0};
    long n;

    (void)state;
    write_file("run.ini", "include = base.ini\n[weft]\nplugins =\n  a\n  b\n[demo]\nlevle = "
                          "2\nnumbers = 1 2 x\n[tp]\ndegree = 1\n");
    write_file("base.ini", "[demo]\nnote = base\n");
    weft_alloc_fail_at(0);
    assert_int_equal(everything(&err), WEFT_ERR_INPUT);
    n = weft_alloc_count();
    assert_true(n > 20);
    weft_error_release(&err);
    for (long i = 1; i <= n; i++) {
        weft_alloc_fail_at(i);
        everything(&err);
        weft_alloc_fail_at(0);
        assert_true(out_of_memory_is_noted(&err));
        weft_error_release(&err);
    }
}

/* What a rank without the files makes of what one with them has sent. */
static void files_can_be_sent(void **state)
{
    weft_settings *here, *there;
    weft_text pack = {0}, a = {0}, b = {0};
    weft_error err = {0};

    (void)state;
    write_file("run.ini", "include = part.ini\n[weft]\nplugins = demo\n");
    write_file("part.ini", "[demo]\n\ncount = 5 ; five\nwords = a\n  b\n");
    here = read_file("run.ini");
    assert_int_equal(weft_settings_pack(here, &pack, &err), WEFT_OK);
    assert_int_equal(unlink(path_of("run.ini")), 0);
    assert_int_equal(unlink(path_of("part.ini")), 0);
    if (weft_settings_unpack(weft_text_get(&pack), pack.size, &there, &err))
        fail_msg("%s", weft_error_text(&err));
    assert_int_equal(weft_params_int(demo(there), "count"), 5);
    assert_where(weft_params_where(demo(there), "count"), path_of("part.ini"), 3);
    demo(here);
    weft_settings_print(here, true, false, &a);
    weft_settings_print(there, true, false, &b);
    assert_string_equal(weft_text_get(&a), weft_text_get(&b));
    weft_settings_destroy(here);
    weft_settings_destroy(there);
    /* Half of it, or something else. */
    for (size_t n = 0; n < pack.size; n++) {
        assert_int_equal(weft_settings_unpack(weft_text_get(&pack), n, &there, &err),
                         WEFT_ERR_INTERNAL);
        assert_null(there);
        weft_error_clear(&err);
    }
    assert_int_equal(
        weft_settings_unpack("99999999999999999999 1 18446744073709551615\nx", 44, &there, &err),
        WEFT_ERR_INTERNAL);
    weft_error_release(&err);
    weft_text_release(&pack);
    weft_text_release(&a);
    weft_text_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(includes_are_read_in_place, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(paths_lie_beside_their_file, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(include_cycles_are_named, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(includes_have_a_depth, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(includes_do_not_multiply, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(unreadable_files_are_named, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(files_can_be_sent, make_folder, remove_folder),
        cmocka_unit_test(overrides_win),
        cmocka_unit_test(wrong_overrides_are_refused),
        cmocka_unit_test(plugins_are_listed_in_order),
        cmocka_unit_test(with_and_without_change_the_list),
        cmocka_unit_test(without_suggests_the_nearest),
        cmocka_unit_test(sources_are_printed),
        cmocka_unit_test(what_is_printed_can_be_loaded),
        cmocka_unit_test_setup_teardown(every_allocation_may_fail, make_folder, remove_folder),
    };

    return cmocka_run_group_tests_name("settings_files", tests, NULL, NULL);
}
