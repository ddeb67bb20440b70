/* SPDX-License-Identifier: Apache-2.0 */
/* Settings: what is read and how it is checked. Wrong texts are in tests/bad/ini. */
#include "../../lib/settings_run.h"

#include <limits.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

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
    assert_int_equal(weft_settings_finish(settings, NULL, false, NULL), WEFT_OK);
    weft_settings_destroy(settings);
}

static void values_are_read(void **state)
{
    weft_settings *settings;
    const weft_params *p;

    (void)state;
    settings = read_text("# first\n; second\n\n[demo] ; here\nflag = on\ncount\t=\t-12  ; "
                         "twelve\nrate=2.5e-3\nmode = careful;\nnote = a = b # c;d\n");
    assert_int_equal(weft_settings_section(settings, "demo", demo_params, &p, NULL),
                     WEFT_ERR_INPUT); /* "careful;" */
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

/* A locale whose numbers have a comma, made where there is none; NULL: it cannot be made. */
static const char *comma_locale(char *folder, size_t size)
{
    char command[PATH_MAX + 128];
    const char *made = NULL;

    snprintf(folder, size, "/tmp/weft-locale-XXXXXX");
    if (!mkdtemp(folder))
        return NULL;
    snprintf(command, sizeof command, "localedef -c -f UTF-8 -i de_DE %s/comma >/dev/null 2>&1",
             folder);
    if (system(command) <= 256 && setenv("LOCPATH", folder, 1) == 0)
        made = setlocale(LC_NUMERIC, "comma");
    return made && strcmp(localeconv()->decimal_point, ",") == 0 ? made : NULL;
}

/* A plugin's library may have set a locale; and it keeps the thread's. */
static void numbers_are_read_in_any_locale(void **state)
{
    char folder[PATH_MAX], command[PATH_MAX + 16];
    const char *comma = comma_locale(folder, sizeof folder);
    weft_settings *settings;
    const weft_params *p;

    (void)state;
    uselocale(LC_GLOBAL_LOCALE);
    settings = read_text("[demo]\nrate = 0.25\n");
    p = demo(settings);
    assert_true(weft_params_real(p, "rate") == 0.25);
    assert_true(uselocale((locale_t)0) == LC_GLOBAL_LOCALE);
    if (!comma)
        print_message("no locale with a comma can be made here (localedef)\n");
    weft_settings_destroy(settings);
    setlocale(LC_ALL, "C");
    unsetenv("LOCPATH");
    snprintf(command, sizeof command, "rm -r %s", folder);
    assert_int_equal(system(command), 0);
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
    static const char *const good[] = {"train.seq_len=1", "train.seq_len=1048576",
                                       "train.seq_len=1Mi"};
    static const char *const bad[] = {"train.seq_len=0", "train.seq_len=1048577",
                                      "train.seq_len=-1"};

    (void)state;
    for (int i = 0; i < 6; i++) {
        weft_settings *settings = read_text("[train]\nsteps = 1\n");
        const weft_params *p;

        assert_edit(weft_settings_override, settings, i < 3 ? good[i] : bad[i - 3], NULL);
        assert_int_equal(
            weft_settings_section(settings, "train", weft_core_params("train"), &p, NULL),
            i < 3 ? WEFT_OK : WEFT_ERR_INPUT);
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
    weft_settings *settings = read_text("\xef\xbb\xbf[demo]\r\ncount = 3\r\n\r\nnumbers =\r\n  "
                                        "1\r\n  2\r\nnote = \xc3\xa9\xe2\x82\xac\xf0\x9f\x99\x82");
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
    weft_settings *settings = read_text("[demo]\nwords =   ; in this order\n    one two ; and\n\n# "
                                        "between\n\tthree\n  ; four\n    |five| #six\ncount = 2\n");
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
    weft_settings *settings = read_text("[demo]\nfile =\nwords =\ncount =\n");
    const weft_params *p = demo(settings);

    (void)state;
    assert_string_equal(weft_params_text(p, "file"), "a b.txt");
    assert_string_equal(weft_params_word(p, "words", 0), "x");
    assert_false(weft_params_given(p, "file"));
    assert_int_equal(weft_params_int(p, "count"), 7);
    weft_settings_destroy(settings);
}

/* Every length around the sizes of inih's buffers, with blanks, comment signs and umlauts where a
 * piece may end. */
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
    assert_int_equal(weft_settings_read_text("run.ini", text, strlen(text), &settings, &err),
                     WEFT_ERR_INPUT);
    assert_int_equal(err.n_items, 2);
    assert_non_null(
        strstr(err.items[0].text, "run.ini:2: the line has 65537 bytes; at most 65536"));
    assert_non_null(strstr(err.items[1].text, "run.ini:3: 'count 3' has no '='"));
    weft_error_release(&err);
}

/* A number whose word names a choice is what that choice says, whichever it is. */
static void presets_are_those_of_the_choice(void **state)
{
    static const char *const sizes[] = {"small", "large", NULL}, *const of[] = {"size", NULL},
                             *const presets[] = {"n = 3, m = 1", "n = 40, m = 2", NULL};
    static const weft_param table[] = {{.name = "size",
                                        .type = WEFT_PARAM_CHOICE,
                                        .value = "small",
                                        .choices = sizes,
                                        .presets = presets,
                                        .help = "x"},
                                       {.name = "n",
                                        .type = WEFT_PARAM_INT,
                                        .value = "size",
                                        .max = 99,
                                        .choices = of,
                                        .help = "x"},
                                       {.name = "m",
                                        .type = WEFT_PARAM_INT,
                                        .value = "size",
                                        .max = 99,
                                        .choices = of,
                                        .help = "x"},
                                       {.name = NULL}};
    static const int64_t want[][2] = {{3, 1}, {40, 2}, {40, 7}};
    static const char *const texts[] = {"", "[any]\nsize = large\n",
                                        "[any]\nm = 7\nsize = large\n"};
    (void)state;
    for (int i = 0; i < 3; i++) {
        const weft_params *p;
        weft_settings *settings = read_text(texts[i]);
        assert_int_equal(weft_settings_section(settings, "any", table, &p, NULL), WEFT_OK);
        assert_int_equal(weft_params_int(p, "n"), want[i][0]);
        assert_int_equal(weft_params_int(p, "m"), want[i][1]);
        weft_settings_destroy(settings);
    }
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

/* Of a parameter that has no range: beyond 64 bits there is no number, with a suffix or without. */
static void no_number_is_too_large_for_its_type(void **state)
{
    static const weft_param any[] = {{.name = "x", .type = WEFT_PARAM_INT, .help = "x"},
                                     {.name = NULL}};
    static const char *const words[] = {"9223372036854775808", "-9223372036854775809",
                                        "99999999999999999999", "9223372036854775807k"};

    (void)state;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        char ini[80];
        const weft_params *p;
        weft_error err = {0};
        snprintf(ini, sizeof ini, "[any]\nx = %s\n", words[i]);
        weft_settings *settings = read_text(ini);
        assert_int_equal(weft_settings_section(settings, "any", any, &p, &err), WEFT_ERR_INPUT);
        assert_non_null(strstr(weft_error_text(&err), "out of range"));
        weft_error_release(&err);
        weft_settings_destroy(settings);
    }
}

static void a_section_may_be_claimed_again(void **state)
{
    static const weft_param other[] = {{.name = "x", .type = WEFT_PARAM_INT, .help = "x"},
                                       {.name = NULL}};
    weft_settings *settings = read_text("[demo]\ncount = 3\n");
    const weft_params *first = demo(settings), *p;
    weft_error err = {0};

    (void)state;
    assert_ptr_equal(demo(settings), first);
    assert_int_equal(weft_settings_section(settings, "demo", other, &p, &err), WEFT_ERR_INTERNAL);
    weft_error_release(&err);
    weft_settings_destroy(settings);
}

/* ---- names ---- */

static void nearest_names(void **state)
{
    static const char *const names[] = {"degree", "seq_len", "global_batch",
                                        "tp",     "cp",      "shard_degree"};
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

/* A checkpoint's settings name no files; what is set later is the user's. */
static void data_names_no_files(void **state)
{
    static const weft_param table[] = {
        {.name = "file",
         .type = WEFT_PARAM_PATH,
         .flags = WEFT_PARAM_REQUIRED | WEFT_PARAM_LIST,
         .help = "files"},
        {.name = "tokenizer", .type = WEFT_PARAM_PATH, .value = "bytes", .help = "a file"},
        {.name = "mix", .type = WEFT_PARAM_STRING, .flags = WEFT_PARAM_FILE, .help = "files"},
        {.name = "driver",
         .type = WEFT_PARAM_STRING,
         .value = "libx.so",
         .flags = WEFT_PARAM_LIBRARY,
         .help = "a library"},
        {.name = "note", .type = WEFT_PARAM_STRING, .help = "a note"},
        {.name = NULL}};
    weft_settings *settings = read_text("[demo]\nfile = /a /b\ntokenizer = /t\nmix = /m\n"
                                        "driver = /d.so\nnote = /n\n");
    (void)state;
    weft_settings_take_as_data(settings, WEFT_TRUST_NONE);
    assert_edit(weft_settings_override, settings, "demo.mix=mine", NULL);
    const weft_params *p = claim(settings, "demo", table);
    assert_string_equal(weft_params_text(p, "file"), "");
    assert_null(weft_params_word(p, "file", 0));
    assert_false(weft_params_given(p, "file"));
    assert_string_equal(weft_params_text(p, "tokenizer"), "bytes");
    assert_string_equal(weft_params_text(p, "mix"), "mine");
    assert_string_equal(weft_params_text(p, "driver"), "libx.so");
    assert_string_equal(weft_params_text(p, "note"), "/n");
    assert_int_equal(weft_settings_finish(settings, NULL, false, NULL), WEFT_OK);
    weft_settings_destroy(settings);
}

/* A command's own INI gives way to what the user has said; an empty value says nothing. */
static void fall_back_gives_way(void **state)
{
    weft_settings *settings = read_text("[demo]\nnote = mine\nsize =\n");
    weft_error err = {0};
    (void)state;
    assert_edit(weft_settings_override, settings, "demo.numbers=3", NULL);
    assert_int_equal(weft_settings_fall_back(settings, "built-in.ini",
                                             "[demo]\nnote = theirs\nsize = 7\nmode = careful\n"
                                             "numbers = 1 2\n",
                                             &err),
                     WEFT_OK);
    const weft_params *p = demo(settings);
    assert_string_equal(weft_params_text(p, "note"), "mine");
    assert_int_equal(weft_params_int(p, "size"), 7);
    assert_string_equal(weft_params_text(p, "mode"), "careful");
    assert_string_equal(weft_params_where(p, "mode").file, "built-in.ini");
    assert_string_equal(weft_params_word(p, "numbers", 0), "3");
    weft_settings_destroy(settings);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_hold),
        cmocka_unit_test(fall_back_gives_way),
        cmocka_unit_test(values_are_read),
        cmocka_unit_test(numbers_are_read_in_any_locale),
        cmocka_unit_test(getters_refuse_other_keys_and_types),
        cmocka_unit_test(integers_take_suffixes),
        cmocka_unit_test(ranges_hold_their_ends),
        cmocka_unit_test(booleans_have_eight_words),
        cmocka_unit_test(windows_files_are_read),
        cmocka_unit_test(lists_go_on_in_indented_lines),
        cmocka_unit_test(empty_means_not_set),
        cmocka_unit_test(long_values_are_whole),
        cmocka_unit_test(longest_line),
        cmocka_unit_test(presets_are_those_of_the_choice),
        cmocka_unit_test(many_words_in_one_line),
        cmocka_unit_test(no_number_is_too_large_for_its_type),
        cmocka_unit_test(a_section_may_be_claimed_again),
        cmocka_unit_test(nearest_names),
        cmocka_unit_test(core_tables_hold_together),
        cmocka_unit_test(data_names_no_files),
    };

    return cmocka_run_group_tests_name("settings", tests, NULL, NULL);
}
