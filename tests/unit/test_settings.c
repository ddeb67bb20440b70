/* SPDX-License-Identifier: Apache-2.0 */
/* Settings: what is read, where it came from, what overrides what. Wrong texts are in tests/bad/ini. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "settings/settings.h"

static const char *const automatic[] = {"auto", NULL};
static const char *const modes[] = {"fast", "careful", NULL};

static const weft_param demo_params[] = {
    {.name = "flag", .type = WEFT_PARAM_BOOL, .value = "no", .help = "a flag"},
    {.name = "count", .type = WEFT_PARAM_INT, .value = "7", .help = "a count"},
    {.name = "size", .type = WEFT_PARAM_INT, .value = "auto", .choices = automatic, .unit = "bytes", .help = "a size"},
    {.name = "rate", .type = WEFT_PARAM_REAL, .value = "0.5", .help = "a rate"},
    {.name = "mode", .type = WEFT_PARAM_CHOICE, .value = "fast", .choices = modes, .help = "a mode"},
    {.name = "note", .type = WEFT_PARAM_STRING, .help = "a note"},
    {.name = "file", .type = WEFT_PARAM_PATH, .value = "a b.txt", .help = "a file"},
    {.name = "numbers", .type = WEFT_PARAM_INT, .flags = WEFT_PARAM_LIST, .help = "numbers"},
    {.name = "words", .type = WEFT_PARAM_STRING, .value = "x  y z", .flags = WEFT_PARAM_LIST, .help = "words"},
    {.name = NULL},
};

/* ---- helpers ---- */

static weft_settings *read_text(const char *text)
{
    weft_settings *settings;
    weft_error err = {0};

    if (weft_settings_read_text("run.ini", text, strlen(text), &settings, &err) != WEFT_OK)
        fail_msg("%s", weft_error_text(&err));
    assert_int_equal(err.n_items, 0);
    return settings;
}

static const weft_params *claim(weft_settings *settings, const char *name, const weft_param *table)
{
    const weft_params *params;
    weft_error err = {0};

    if (weft_settings_section(settings, name, table, &params, &err) != WEFT_OK)
        fail_msg("%s", weft_error_text(&err));
    return params;
}

static const weft_params *demo(weft_settings *settings)
{
    return claim(settings, "demo", demo_params);
}

static void assert_plugins(const weft_settings *settings, const char *expected)
{
    const weft_listed *list;
    int n = weft_settings_plugins(settings, &list);
    weft_text text = {0};

    for (int i = 0; i < n; i++)
        weft_text_print(&text, "%s%s%s", i ? " " : "", list[i].optional ? "?" : "", list[i].name);
    assert_string_equal(weft_text_get(&text), expected);
    weft_text_release(&text);
}

static void assert_where(weft_where where, const char *file, int line)
{
    assert_non_null(where.file);
    assert_string_equal(where.file, file);
    assert_int_equal(where.line, line);
}

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

typedef weft_status edit(weft_settings *settings, const char *text, weft_error *err);

static void assert_edit(edit *apply, weft_settings *settings, const char *text, const char *says)
{
    weft_error err = {0};
    weft_status status = apply(settings, text, &err);

    assert_int_equal(status, says ? WEFT_ERR_INPUT : WEFT_OK);
    assert_int_equal(err.n_items, says ? 1 : 0);
    if (says && !strstr(weft_error_text(&err), says))
        fail_msg("'%s' does not say '%s'", weft_error_text(&err), says);
    weft_error_release(&err);
}

/* ---- values ---- */

static void defaults_hold(void **state)
{
    weft_settings *settings = read_text("");
    const weft_params *p = demo(settings);

    (void)state;
    assert_false(weft_params_bool(p, "flag"));
    assert_int_equal(weft_params_int(p, "count"), 7);
    assert_int_equal(weft_params_int(p, "size"), 0);
    assert_true(weft_params_is(p, "size", "auto"));
    assert_true(weft_params_real(p, "rate") == 0.5);
    assert_string_equal(weft_params_text(p, "note"), "");
    assert_string_equal(weft_params_text(p, "file"), "a b.txt");
    assert_null(weft_params_word(p, "numbers", 0));
    assert_string_equal(weft_params_text(p, "words"), "x y z");
    assert_string_equal(weft_params_word(p, "words", 2), "z");
    assert_null(weft_params_word(p, "words", 3));
    assert_null(weft_params_word(p, "words", -1));
    assert_false(weft_params_given(p, "count"));
    assert_null(weft_params_where(p, "count").file);
    assert_int_equal(weft_settings_finish(settings, NULL, NULL), WEFT_OK);
    weft_settings_destroy(settings);
}

static void values_are_read(void **state)
{
    weft_settings *settings;
    const weft_params *p;

    (void)state;
    settings =
        read_text("# first\n; second\n\n[demo] ; here\nflag = on\ncount\t=\t-12  ; twelve\nrate=2.5e-3\nmode = careful;\nnote = a = b # c;d\n");
    assert_int_equal(weft_settings_section(settings, "demo", demo_params, &p, NULL), WEFT_ERR_INPUT); /* "careful;" */
    assert_edit(weft_settings_override, settings, "demo.mode=careful", NULL);
    p = demo(settings);
    assert_true(weft_params_bool(p, "flag"));
    assert_int_equal(weft_params_int(p, "count"), -12);
    assert_true(weft_params_real(p, "rate") == 2.5e-3);
    assert_string_equal(weft_params_text(p, "mode"), "careful");
    assert_string_equal(weft_params_text(p, "note"), "a = b # c;d");
    assert_true(weft_params_given(p, "count"));
    assert_where(weft_params_where(p, "count"), "run.ini", 6);
    weft_settings_destroy(settings);
}

static void getters_refuse_other_keys_and_types(void **state)
{
    weft_settings *settings = read_text("[demo]\ncount = 3\nnumbers = 1 2\nflag = yes\n");
    const weft_params *p = demo(settings);

    (void)state;
    assert_int_equal(weft_params_int(p, "nothing"), 0);
    assert_int_equal(weft_params_int(p, "rate"), 0);
    assert_int_equal(weft_params_int(p, "numbers"), 0);
    assert_true(weft_params_real(p, "count") == 0);
    assert_false(weft_params_bool(p, "count"));
    assert_string_equal(weft_params_text(p, "nothing"), "");
    assert_null(weft_params_word(p, "count", 0));
    assert_false(weft_params_is(p, "nothing", ""));
    assert_false(weft_params_given(NULL, "count"));
    assert_null(weft_params_where(p, "nothing").file);
    weft_settings_destroy(settings);
}

static void integers_take_suffixes(void **state)
{
    static const struct {
        const char *text;
        int64_t value;
    } cases[] = {
        {"0", 0},
        {"+5", 5},
        {"007", 7},
        {"10k", 10000},
        {"-3M", -3000000},
        {"2G", 2000000000},
        {"4Ki", 4096},
        {"3Mi", 3 << 20},
        {"1Gi", 1 << 30},
        {"9223372036854775807", INT64_MAX},
        {"-9223372036854775808", INT64_MIN},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        weft_settings *settings = read_text("");
        char text[64];

        snprintf(text, sizeof(text), "demo.count=%s", cases[i].text);
        assert_edit(weft_settings_override, settings, text, NULL);
        assert_true(weft_params_int(demo(settings), "count") == cases[i].value);
        weft_settings_destroy(settings);
    }
}

static void ranges_hold_their_ends(void **state)
{
    static const char *const good[] = {"train.seq_len=1", "train.seq_len=1048576", "train.seq_len=1Mi"};
    static const char *const bad[] = {"train.seq_len=0", "train.seq_len=1048577", "train.seq_len=-1"};

    (void)state;
    for (int i = 0; i < 6; i++) {
        weft_settings *settings = read_text("[train]\nsteps = 1\n");
        const weft_params *p;

        assert_edit(weft_settings_override, settings, i < 3 ? good[i] : bad[i - 3], NULL);
        assert_int_equal(weft_settings_section(settings, "train", weft_core_params("train"), &p, NULL), i < 3 ? WEFT_OK : WEFT_ERR_INPUT);
        weft_settings_destroy(settings);
    }
}

static void booleans_have_eight_words(void **state)
{
    static const char *const words[] = {"yes", "true", "on", "1", "no", "false", "off", "0"};

    (void)state;
    for (int i = 0; i < 8; i++) {
        weft_settings *settings = read_text("");
        char text[64];

        snprintf(text, sizeof(text), "demo.flag=%s", words[i]);
        assert_edit(weft_settings_override, settings, text, NULL);
        assert_int_equal(weft_params_bool(demo(settings), "flag"), i < 4);
        weft_settings_destroy(settings);
    }
}

static void windows_files_are_read(void **state)
{
    weft_settings *settings =
        read_text("\xef\xbb\xbf[demo]\r\ncount = 3\r\n\r\nnumbers =\r\n  1\r\n  2\r\nnote = \xc3\xa9\xe2\x82\xac\xf0\x9f\x99\x82");
    const weft_params *p = demo(settings);

    (void)state;
    assert_int_equal(weft_params_int(p, "count"), 3);
    assert_string_equal(weft_params_text(p, "numbers"), "1 2");
    assert_string_equal(weft_params_text(p, "note"), "\xc3\xa9\xe2\x82\xac\xf0\x9f\x99\x82");
    assert_where(weft_params_where(p, "note"), "run.ini", 7);
    weft_settings_destroy(settings);
}

static void lists_go_on_in_indented_lines(void **state)
{
    weft_settings *settings =
        read_text("[demo]\nwords =   ; in this order\n    one two ; and\n\n# between\n\tthree\n  ; four\n    |five| #six\ncount = 2\n");
    const weft_params *p = demo(settings);

    (void)state;
    assert_string_equal(weft_params_text(p, "words"), "one two three |five| #six");
    assert_int_equal(weft_params_int(p, "count"), 2);
    assert_where(weft_params_where(p, "words"), "run.ini", 2);
    assert_where(weft_params_where(p, "count"), "run.ini", 9);
    weft_settings_destroy(settings);
}

static void empty_means_not_set(void **state)
{
    weft_settings *settings = read_text("[demo]\nfile =\nwords =\n");
    const weft_params *p = demo(settings);

    (void)state;
    assert_string_equal(weft_params_text(p, "file"), "");
    assert_null(weft_params_word(p, "words", 0));
    assert_true(weft_params_given(p, "file"));
    weft_settings_destroy(settings);
}

/* Every length around the sizes of inih's buffers, with blanks, comment signs and umlauts where a piece may end. */
static void long_values_are_whole(void **state)
{
    static const char *const units[] = {"x", "\xc3\xa4", "a ", "#", "; ;;"};

    (void)state;
    for (size_t u = 0; u < sizeof(units) / sizeof(units[0]); u++) {
        size_t n_unit = strlen(units[u]);

        for (size_t n = 150; n < 1300; n += 1 + 3 * (n > 450)) {
            weft_settings *settings;
            weft_text value = {0}, text = {0};

            weft_text_add(&value, "<");
            for (size_t i = 0; i < n / n_unit; i++)
                weft_text_add(&value, u == 4 ? ";x;" : units[u]);
            weft_text_add(&value, ">");
            weft_text_print(&text, "[demo]\nnote = %s ; that was long\ncount = 3\n", value.data);
            settings = read_text(text.data);
            assert_string_equal(weft_params_text(demo(settings), "note"), value.data);
            assert_int_equal(weft_params_int(demo(settings), "count"), 3);
            assert_where(weft_params_where(demo(settings), "count"), "run.ini", 3);
            weft_settings_destroy(settings);
            weft_text_release(&value);
            weft_text_release(&text);
        }
    }
}

static void longest_line(void **state)
{
    static char text[2 * 65536];
    weft_settings *settings;
    const weft_params *p;
    weft_error err = {0};
    size_t start;

    (void)state;
    start = (size_t)snprintf(text, sizeof(text), "[demo]\nnote = ");
    memset(text + start, 'x', 65536 - 7);
    snprintf(text + start + 65536 - 7, 32, "\ncount = 3\n");
    settings = read_text(text);
    p = demo(settings);
    assert_int_equal(strlen(weft_params_text(p, "note")), 65536 - 7);
    assert_where(weft_params_where(p, "count"), "run.ini", 3);
    weft_settings_destroy(settings);

    snprintf(text + start + 65536 - 7, 32, "x\ncount 3\n");
    assert_int_equal(weft_settings_read_text("run.ini", text, strlen(text), &settings, &err), WEFT_ERR_INPUT);
    assert_int_equal(err.n_items, 2);
    assert_non_null(strstr(err.items[0].text, "run.ini:2: the line has 65537 bytes; at most 65536"));
    assert_non_null(strstr(err.items[1].text, "run.ini:3: 'count 3' has no '='"));
    weft_error_release(&err);
}

static void many_words_in_one_line(void **state)
{
    weft_text text = {0};
    weft_settings *settings;
    const weft_params *p;

    (void)state;
    weft_text_add(&text, "[demo]\nnumbers =");
    for (int i = 0; i < 5000; i++)
        weft_text_print(&text, " %d", i);
    settings = read_text(text.data);
    p = demo(settings);
    for (int i = 0; i < 5000; i++)
        assert_int_equal(atoi(weft_params_word(p, "numbers", i)), i);
    assert_null(weft_params_word(p, "numbers", 5000));
    weft_settings_destroy(settings);
    weft_text_release(&text);
}

static void a_section_may_be_claimed_again(void **state)
{
    static const weft_param other[] = {{.name = "x", .type = WEFT_PARAM_INT, .help = "x"}, {.name = NULL}};
    weft_settings *settings = read_text("[demo]\ncount = 3\n");
    const weft_params *first = demo(settings), *p;
    weft_error err = {0};

    (void)state;
    assert_ptr_equal(demo(settings), first);
    assert_int_equal(weft_settings_section(settings, "demo", other, &p, &err), WEFT_ERR_INTERNAL);
    weft_error_release(&err);
    weft_settings_destroy(settings);
}

/* ---- files ---- */

static void includes_are_read_in_place(void **state)
{
    weft_settings *settings;
    const weft_params *p;

    (void)state;
    assert_int_equal(mkdir(path_of("conf"), 0755), 0);
    write_file("run.ini", "include = conf/base.ini\n[demo]\ncount = 2\n[weft]\ninclude = conf/late.ini\n[demo]\nrate = 1\n");
    write_file("conf/base.ini", "[demo]\ncount = 1\nnote = base\n[weft]\ninclude = more.ini\nplugins = a b\n");
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

static void include_cycles_are_named(void **state)
{
    char says[512];

    (void)state;
    write_file("a.ini", "include = b.ini\n");
    write_file("b.ini", "[weft]\ninclude = ./a.ini\n");
    snprintf(says, sizeof(says), "%s/b.ini:2: include cycle: %s/a.ini -> %s/b.ini -> %s/./a.ini", folder, folder, folder, folder);
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
        snprintf(text, sizeof(text), i < 11 ? "include = m%d.ini\ninclude = m%d.ini\n" : "[demo]\n", i + 1, i + 1);
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
    assert_edit(weft_settings_override, settings, "count=2", "-o count=2: write -o section.key=value");
    assert_edit(weft_settings_override, settings, "demo.count", "write -o section.key=value");
    assert_edit(weft_settings_override, settings, ".count=1", "write -o section.key=value");
    assert_edit(weft_settings_override, settings, "demo.=1", "write -o section.key=value");
    assert_edit(weft_settings_override, settings, "demo.note=a\nb", "control character");
    assert_edit(weft_settings_override, settings, "demo.note=a ; b", "starts a comment");
    assert_edit(weft_settings_override, settings, "demo.note=\xff", "not UTF-8");
    assert_edit(weft_settings_override, settings, "demo.conut=1", NULL);
    assert_edit(weft_settings_override, settings, "omed.count=1", NULL);
    assert_edit(weft_settings_override, settings, "demo.rate=fast", NULL);
    assert_int_equal(weft_settings_section(settings, "demo", demo_params, &p, &err), WEFT_ERR_INPUT);
    assert_int_equal(weft_settings_finish(settings, NULL, &err), WEFT_ERR_INPUT);
    assert_int_equal(err.n_items, 3);
    assert_string_equal(err.items[0].text, "-o demo.rate=fast: [demo] rate = fast: not understood; give a number");
    assert_string_equal(err.items[1].text, "-o demo.conut=1: [demo] unknown key 'conut'; did you mean 'count'?");
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
    assert_string_equal(weft_params_text(claim(settings, "weft", weft_core_params("weft")), "plugins"), "a ?b c d e");
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
    assert_edit(weft_settings_with, settings, "c", "plugin 'c' is listed twice, first at run.ini:2");
    assert_edit(weft_settings_with, settings, "z", "plugin 'z' is listed twice");
    assert_edit(weft_settings_with, settings, "v@after:q", "plugin 'q' is not listed");
    assert_edit(weft_settings_with, settings, "v@behind:a", "'@behind:a' is no place");
    assert_edit(weft_settings_with, settings, "../v", "'../v' is no plugin's name");
    assert_edit(weft_settings_without, settings, "b", "--without b: plugin 'b' is not listed");
    assert_plugins(settings, "a ?x w c z");
    assert_string_equal(weft_params_text(claim(settings, "weft", weft_core_params("weft")), "plugins"), "a ?x w c z");
    assert_int_equal(weft_settings_finish(settings, NULL, NULL), WEFT_OK); /* [b] was taken out, which makes its section no error */
    weft_settings_destroy(settings);
}

static void without_suggests_the_nearest(void **state)
{
    weft_settings *settings = read_text("[weft]\nplugins = llama3 metrics adamw\n");

    (void)state;
    assert_edit(weft_settings_without, settings, "metric", "plugin 'metric' is not listed in [weft] plugins; did you mean 'metrics'?");
    assert_edit(weft_settings_override, settings, "weft.plugins=x y x", "plugin 'x' is listed twice");
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
    assert_string_equal(weft_text_get(&text), "[weft]\n"
                                              "plugins =\n"
                                              "    c                                   ; --with c@first\n"
                                              "    a                                   ; run.ini:2\n"
                                              "    b                                   ; run.ini:3\n"
                                              "\n[demo]\n"
                                              "count = 3                               ; run.ini:5\n"
                                              "rate = 1                                ; -o demo.rate=1\n"
                                              "words =                                 ; run.ini:6\n");
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
    weft_settings *settings = read_text("[weft]\nplugins = a ?b\ndir = my runs/1\n[train]\nsteps = 10k\n[demo]\nnote = |a #b\nwords = #1 #2\n"),
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

/* ---- names ---- */

static void nearest_names(void **state)
{
    static const char *const names[] = {"degree", "seq_len", "global_batch", "tp", "cp", "shard_degree"};
    static const struct {
        const char *word, *near;
    } cases[] = {
        {"degre", "degree"},
        {"dgeree", "degree"},
        {"DEGREE", "degree"},
        {"seqlen", "seq_len"},
        {"global_batch_size", "global_batch"},
        {"shard", "shard_degree"},
        {"shrad_degre", "shard_degree"},
        {"pt", "tp"},
        {"x", NULL},
        {"", NULL},
        {"learning_rate", NULL},
    };
    char large[300];

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const char *near = weft_nearest(cases[i].word, names, 6);

        if (!near || !cases[i].near)
            assert_true(near == cases[i].near);
        else
            assert_string_equal(near, cases[i].near);
    }
    memset(large, 'd', sizeof(large) - 1);
    large[sizeof(large) - 1] = '\0';
    assert_null(weft_nearest(large, names, 6));
    assert_null(weft_nearest("degree", names, 0));
}

static void core_tables_hold_together(void **state)
{
    static const char *const names[] = {"weft", "train", "mesh"};
    weft_settings *settings = read_text("[weft]\nplugins = a\n[train]\nsteps = 3\n");
    const weft_params *train;

    (void)state;
    for (int i = 0; i < 3; i++) {
        claim(settings, names[i], weft_core_params(names[i]));
        for (const weft_param *p = weft_core_params(names[i]); p->name; p++)
            assert_non_null(p->help);
    }
    assert_null(weft_core_params("tp"));
    train = claim(settings, "train", weft_core_params("train"));
    assert_int_equal(weft_params_int(train, "steps"), 3);
    assert_int_equal(weft_params_int(train, "seq_len"), 256);
    assert_int_equal(weft_params_int(train, "global_batch"), 8);
    assert_true(weft_params_is(train, "micro_batch", "auto"));
    assert_int_equal(weft_params_int(train, "seed"), 42);
    assert_true(weft_params_is(train, "dtype", "f32"));
    weft_settings_destroy(settings);
}

/* ---- memory ---- */

static weft_status everything(weft_error *err)
{
    static const char text[] = "include = base.ini\n[weft]\nplugins = a b\n[demo]\nconut = 1\nlevel = x\n[tq]\n";
    weft_settings *settings = NULL;
    const weft_params *params;
    weft_text out = {0};
    weft_status status = weft_settings_read(path_of("run.ini"), &settings, err);

    if (status == WEFT_OK) {
        weft_settings_override(settings, "demo.count=3", err);
        weft_settings_with(settings, "c@after:a", err);
        weft_settings_without(settings, "b", err);
        weft_settings_without(settings, "q", err);
        weft_settings_section(settings, "weft", weft_core_params("weft"), &params, err);
        weft_settings_section(settings, "demo", demo_params, &params, err);
        weft_settings_finish(settings, NULL, err);
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

/* Each allocation fails once: nothing leaks (the sanitizers watch), nothing crashes, and it is said. */
static void every_allocation_may_fail(void **state)
{
    weft_error err = {0};
    long n;

    (void)state;
    write_file("run.ini", "include = base.ini\n[weft]\nplugins =\n  a\n  b\n[demo]\nlevle = 2\nnumbers = 1 2 x\n[tp]\ndegree = 1\n");
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_hold),
        cmocka_unit_test(values_are_read),
        cmocka_unit_test(getters_refuse_other_keys_and_types),
        cmocka_unit_test(integers_take_suffixes),
        cmocka_unit_test(ranges_hold_their_ends),
        cmocka_unit_test(booleans_have_eight_words),
        cmocka_unit_test(windows_files_are_read),
        cmocka_unit_test(lists_go_on_in_indented_lines),
        cmocka_unit_test(empty_means_not_set),
        cmocka_unit_test(long_values_are_whole),
        cmocka_unit_test(longest_line),
        cmocka_unit_test(many_words_in_one_line),
        cmocka_unit_test(a_section_may_be_claimed_again),
        cmocka_unit_test_setup_teardown(includes_are_read_in_place, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(include_cycles_are_named, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(includes_have_a_depth, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(includes_do_not_multiply, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(unreadable_files_are_named, make_folder, remove_folder),
        cmocka_unit_test(overrides_win),
        cmocka_unit_test(wrong_overrides_are_refused),
        cmocka_unit_test(plugins_are_listed_in_order),
        cmocka_unit_test(with_and_without_change_the_list),
        cmocka_unit_test(without_suggests_the_nearest),
        cmocka_unit_test(sources_are_printed),
        cmocka_unit_test(what_is_printed_can_be_loaded),
        cmocka_unit_test(nearest_names),
        cmocka_unit_test(core_tables_hold_together),
        cmocka_unit_test_setup_teardown(every_allocation_may_fail, make_folder, remove_folder),
    };

    return cmocka_run_group_tests_name("settings", tests, NULL, NULL);
}
