/* SPDX-License-Identifier: Apache-2.0 */
/* The words of a command line against a table of options. */
#include <weft/options.h>

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct result {
    bool flag, deep, paints;
    const char *text, *colour, *paint;
    int64_t number, any;
    weft_option_values values;
    const char *arguments[16];
    int n_arguments;
    weft_error err;
} result;

static const char *const colours[] = {"red", "green", "blue", NULL};

/* Parses words that are separated by blanks. */
static weft_status parse(result *r, const char *words, int max_arguments)
{
    static char memory[256];
    char *argv[32] = {(char[]){"command"}};
    int argc = 1;
    *r = (result){0};
    const weft_option list[] = {
        {.name = "f", .flag = &r->flag},
        {.name = "flag", .flag = &r->flag},
        {.name = "flag-deep", .flag = &r->deep},
        {.name = "text", .argument = "TEXT", .help = "any text", .text = &r->text},
        {.name = "colour",
         .argument = "NAME",
         .help = "one of three",
         .text = &r->colour,
         .choices = colours},
        {.name = "paint",
         .argument = "[NAME]",
         .help = "maybe one of three",
         .flag = &r->paints,
         .text = &r->paint,
         .choices = colours},
        {.name = "n",
         .argument = "N",
         .help = "a number",
         .number = &r->number,
         .min = 1,
         .max = 9},
        {.name = "any", .number = &r->any},
        {.name = "o", .values = &r->values},
        {.name = "with", .values = &r->values},
        {.name = NULL},
    };
    const weft_options options = {.command = "do",
                                  .list = list,
                                  .arguments = r->arguments,
                                  .max_arguments = max_arguments,
                                  .n_arguments = &r->n_arguments};
    assert_true(strlen(words) < sizeof memory);
    memcpy(memory, words, strlen(words) + 1);
    char *rest = NULL;
    for (char *word = strtok_r(memory, " ", &rest); word; word = strtok_r(NULL, " ", &rest))
        argv[argc++] = word;
    return weft_options_parse(&options, argc, argv, &r->err);
}

static void result_release(result *r)
{
    weft_option_values_release(&r->values);
    weft_error_release(&r->err);
}

/* Every error, one a line. */
static void assert_errors(const char *words, int max_arguments, const char *want)
{
    result r;
    weft_text got = {0};
    assert_int_equal(parse(&r, words, max_arguments), WEFT_ERR_INPUT);
    for (int i = 0; i < r.err.n_items; i++) {
        assert_int_equal(r.err.items[i].status, WEFT_ERR_INPUT);
        weft_text_print(&got, "%s\n", r.err.items[i].text);
    }
    assert_string_equal(weft_text_get(&got), want);
    weft_text_release(&got);
    result_release(&r);
}

static void test_forms(void **state)
{
    static const char *const forms[] = {
        "--text a -n 4 --flag --colour blue", "--text=a -n4 -f --colour=blue",
        "--text b --text a -n 5 -n4 -f --flag --colour=red --colour=blue"};
    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        result r;
        assert_int_equal(parse(&r, forms[i], 0), WEFT_OK);
        assert_string_equal(r.text, "a");
        assert_string_equal(r.colour, "blue");
        assert_int_equal(r.number, 4);
        assert_true(r.flag);
        assert_false(r.deep); /* its name begins like another's */
        result_release(&r);
    }
}

/* An argument that may be left out is one of its words, or attached. */
static void test_optional(void **state)
{
    static const struct {
        const char *words, *paint;
        int n_arguments;
    } cases[] = {{"--paint", NULL, 0},           {"--paint one", NULL, 1},
                 {"--paint red one", "red", 1},  {"one --paint red", "red", 1},
                 {"--paint=blue", "blue", 0},    {"--paint -- red", NULL, 1},
                 {"--paint --flag red", NULL, 1}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        result r;
        assert_int_equal(parse(&r, cases[i].words, 1), WEFT_OK);
        assert_true(r.paints);
        assert_int_equal(r.n_arguments, cases[i].n_arguments);
        assert_true(cases[i].paint ? r.paint && strcmp(r.paint, cases[i].paint) == 0 : !r.paint);
        result_release(&r);
    }
    assert_errors("--paint=mauve", 0, "--paint mauve: give red, green or blue\n");
}

static void test_arguments(void **state)
{
    result r;
    (void)state;
    assert_int_equal(parse(&r, "one - --text --flag -- two --flag --", -1), WEFT_OK);
    assert_int_equal(r.n_arguments, 5);
    assert_string_equal(r.arguments[0], "one");
    assert_string_equal(r.arguments[1], "-");
    assert_string_equal(r.arguments[2], "two");
    assert_string_equal(r.arguments[3], "--flag");
    assert_string_equal(r.arguments[4], "--");
    assert_string_equal(r.text, "--flag"); /* the next word, whatever it is */
    assert_false(r.flag);
    result_release(&r);
}

static void test_nothing(void **state)
{
    result r;
    (void)state;
    assert_int_equal(parse(&r, "", 0), WEFT_OK);
    assert_int_equal(r.n_arguments, 0);
    assert_null(r.text);
    assert_int_equal(r.number, 0);
    result_release(&r);
}

static void test_values(void **state)
{
    result r;
    (void)state;
    assert_int_equal(parse(&r, "-oa=1 --with b -o c=2 --with=d", 0), WEFT_OK);
    assert_int_equal(r.values.n, 4);
    static const char *const options[] = {"o", "with", "o", "with"}, *const texts[] = {"a=1", "b",
                                                                                       "c=2", "d"};
    for (int i = 0; i < 4; i++) {
        assert_string_equal(r.values.list[i].option, options[i]);
        assert_string_equal(r.values.list[i].text, texts[i]);
    }
    result_release(&r);
}

static void test_numbers(void **state)
{
    result r;
    (void)state;
    assert_int_equal(parse(&r, "-n 1 --any -9223372036854775808", 0), WEFT_OK);
    assert_int_equal(r.number, 1);
    assert_true(r.any == INT64_MIN);
    result_release(&r);
    assert_errors("-n 0", 0, "-n 0: give an integer from 1 to 9\n");
    assert_errors("-n10", 0, "-n 10: give an integer from 1 to 9\n");
    assert_errors("-n 4k", 0, "-n 4k: give an integer from 1 to 9\n");
    assert_errors("--any=", 0, "--any : give an integer\n");
    assert_errors("--any 9223372036854775808", 0, "--any 9223372036854775808: give an integer\n");
}

/* What is wrong is told all at once, and what is right is taken. */
static void test_errors(void **state)
{
    (void)state;
    assert_errors("--colour mauve --flag=1 --txet x --zebra --colour=", 1,
                  "--colour mauve: give red, green or blue\n"
                  "--flag takes no argument\n"
                  "unknown option '--txet'; did you mean '--text'?\n"
                  "unknown option '--zebra'; weft do --help lists all\n"
                  "--colour : give red, green or blue\n");
    assert_errors("-fx", 0, "-f takes no argument\n");
    assert_errors("-x", 0, "unknown option '-x'; weft do --help lists all\n");
    assert_errors("--n 4", 1, "unknown option '--n'; weft do --help lists all\n");
    assert_errors("-text a", 1, "unknown option '-text'; did you mean '--text'?\n");
    assert_errors("a b c", 1, "one argument too many: 'b'\none argument too many: 'c'\n");
    assert_errors("--text", 0, "--text needs an argument\n");
    assert_errors("-n", 0, "-n needs an argument\n");
}

static void test_no_memory(void **state)
{
    result r;
    (void)state;
    weft_alloc_fail_at(1);
    assert_int_equal(parse(&r, "-o a", 0), WEFT_ERR_MEMORY);
    weft_alloc_fail_at(0);
    assert_int_equal(r.values.n, 0);
    result_release(&r);
}

static void test_usage(void **state)
{
    int64_t n = 0;
    bool flag = false;
    const weft_option list[] = {
        {.name = "n", .argument = "RANKS", .help = "how many", .number = &n},
        {.name = "hidden", .flag = &flag},
        {.name = "quiet", .help = "say nothing", .flag = &flag},
        {.name = NULL},
    };
    weft_text text = {0};
    (void)state;
    weft_options_print(list, &text);
    assert_string_equal(weft_text_get(&text), "  -n RANKS                   how many\n"
                                              "  --quiet                    say nothing\n");
    weft_text_release(&text);
}

/* Who wants neither words nor their number leaves both out; too many are an error all the same. */
static void test_nowhere(void **state)
{
    char *argv[] = {(char[]){"command"}, (char[]){"one"}, (char[]){"two"}};
    weft_options options = {.command = "do", .max_arguments = 1};
    weft_error err = {0};
    (void)state;
    assert_int_equal(weft_options_parse(&options, 1, argv, &err), WEFT_OK);
    assert_int_equal(weft_options_parse(&options, 2, argv, &err), WEFT_OK);
    assert_int_equal(weft_options_parse(&options, 3, argv, &err), WEFT_ERR_INPUT);
    assert_string_equal(weft_error_text(&err), "one argument too many: 'two'");
    options.max_arguments = -1;
    assert_int_equal(weft_options_parse(&options, 3, argv, &err), WEFT_OK);
    weft_error_release(&err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_forms),     cmocka_unit_test(test_optional),
        cmocka_unit_test(test_arguments), cmocka_unit_test(test_nothing),
        cmocka_unit_test(test_values),    cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_errors),    cmocka_unit_test(test_no_memory),
        cmocka_unit_test(test_usage),     cmocka_unit_test(test_nowhere),
    };
    return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
