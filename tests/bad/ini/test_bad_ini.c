/* SPDX-License-Identifier: Apache-2.0 */
/* Wrong INI texts and what must be said about them: the place, the reason, the nearest right name,
 * and nothing else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "settings/settings.h"

#define GOOD   "[weft]\nplugins = demo tp\n[train]\nsteps = 5\n" /* four lines */
#define TEN    "0123456789"
#define FIFTY  TEN TEN TEN TEN TEN
#define HEADER "[weft]\nplugins = demo\n[train]\nsteps = 5\n"

static const char *const modes[] = {"fast", "careful", NULL};
static const char *const automatic[] = {"auto", NULL};

static const weft_param demo_params[] = {
    {.name = "level",
     .type = WEFT_PARAM_INT,
     .value = "1",
     .min = 1,
     .max = 9,
     .unit = "turns",
     .help = "how many"},
    {.name = "rate",
     .type = WEFT_PARAM_REAL,
     .value = "0.5",
     .min = 0,
     .max = 1,
     .help = "how fast"},
    {.name = "mode", .type = WEFT_PARAM_CHOICE, .value = "fast", .choices = modes, .help = "how"},
    {.name = "verbose", .type = WEFT_PARAM_BOOL, .value = "no", .help = "whether"},
    {.name = "size",
     .type = WEFT_PARAM_INT,
     .value = "auto",
     .choices = automatic,
     .unit = "bytes",
     .help = "how large"},
    {.name = "numbers",
     .type = WEFT_PARAM_INT,
     .min = 0,
     .max = 100,
     .flags = WEFT_PARAM_LIST,
     .help = "which"},
    {.name = "note", .type = WEFT_PARAM_STRING, .help = "what"},
    {.name = NULL},
};

static const weft_param tp_params[] = {
    {.name = "degree",
     .type = WEFT_PARAM_INT,
     .value = "1",
     .min = 1,
     .max = 64,
     .unit = "ranks",
     .help = "ranks"},
    {.name = NULL},
};

static const char *const unlisted[] = {"fsdp", "metrics", NULL};

typedef struct bad {
    const char *text;
    size_t size;         /* 0: strlen(text) */
    const char *says[5]; /* one item of the error each, all of them, in order */
} bad;

static const bad cases[] = {
    /* form */
    {"steps = 5\n" GOOD, 0, {"run.ini:1: 'steps' stands before the first section"}},
    {GOOD "[demo]\nlevel\n", 0, {"run.ini:6: 'level' has no '='; write 'key = value'"}},
    {GOOD "[demo]\nlevel: 3\n", 0, {"run.ini:6: 'level: 3' has no '='"}},
    {GOOD "[demo]\na:b = 3\n", 0, {"run.ini:6: 'a:b' is not a key"}},
    {GOOD "[demo]\n= 3\n", 0, {"run.ini:6: no key before '='"}},
    {GOOD "[demo\nlevel = 3\n", 0, {"run.ini:5: section '[demo' has no closing ']'"}},
    {GOOD "[demo\nlevel\n  more\n",
     0,
     {"run.ini:5: section '[demo' has no", "run.ini:6: 'level' has no '='"}},
    {GOOD "[]\n", 0, {"run.ini:5: [] is not a section name"}},
    {GOOD "[de mo]\n", 0, {"run.ini:5: [de mo] is not a section name"}},
    {GOOD "[demo] level = 3\n", 0, {"run.ini:5: 'level = 3' behind [demo]"}},
    {GOOD "[" FIFTY "]\n", 0, {"run.ini:5: section name [" FIFTY "...] has 50 bytes; at most 49"}},
    {GOOD "[demo]\n" FIFTY " = 1\n", 0, {"run.ini:6: key '" FIFTY "...' has 50 bytes; at most 49"}},
    {GOOD "[demo]\nnote = a\0b\n",
     sizeof(GOOD "[demo]\nnote = a\0b\n") - 1,
     {"run.ini:6: NUL in byte 9 of the line"}},
    {GOOD "[demo]\nnote = \xff\n", 0, {"run.ini:6: byte 8 of the line (0xff) is not UTF-8"}},
    {GOOD "[demo]\nnote = \xc0\xaf\n", 0, {"run.ini:6: byte 8 of the line (0xc0) is not UTF-8"}},
    {GOOD "[demo]\nnote = \xed\xa0\x80\n",
     0,
     {"run.ini:6: byte 8 of the line (0xed) is not UTF-8"}},
    {GOOD "[demo]\nnote = \xe2\x82\n", 0, {"run.ini:6: byte 8 of the line (0xe2) is not UTF-8"}},
    {GOOD "[demo]\nnote = \033[31m\n", 0, {"run.ini:6: control character 0x1b in byte 8"}},
    {GOOD "[demo]\nlevel = 1\n; a comment\nlevel = 2\n",
     0,
     {"run.ini:8: [demo] level is set twice, first in line 6; keep one"}},
    {GOOD "[demo]\nlevel = 1\n[tp]\n[demo]\nlevel = 1\n",
     0,
     {"run.ini:9: [demo] level is set twice, first in line 6"}},
    /* includes */
    {"include = /nowhere/at/all.ini\n" GOOD,
     0,
     {"run.ini:1: cannot open '/nowhere/at/all.ini': No such file"}},
    {"include =\n" GOOD, 0, {"run.ini:1: include takes one file"}},
    {"include = /\n" GOOD, 0, {"run.ini:1: cannot open '/': Is a directory"}},
    {GOOD "[demo]\ninclude = x.ini\n", 0, {"run.ini:6: [demo] unknown key 'include'"}},
    /* plugins */
    {"[weft]\nplugins = demo tp demo\n[train]\nsteps = 5\n",
     0,
     {"run.ini:2: plugin 'demo' is listed twice, first at run.ini:2"}},
    {"[weft]\nplugins =\n  demo ; one\n  tp\n  ?demo\n[train]\nsteps = 5\n",
     0,
     {"run.ini:5: plugin 'demo' is listed twice, first at run.ini:3"}},
    {"[weft]\nplugins = demo, tp\n[train]\nsteps = 5\n",
     0,
     {"run.ini:2: 'demo,' is not a plugin's name; names are separated by blanks, not commas"}},
    {"[weft]\nplugins = ../demo\n[train]\nsteps = 5\n",
     0,
     {"run.ini:2: '../demo' is not a plugin's name"}},
    {"[weft]\nplugins = demo\n  dir = x\n[train]\nsteps = 5\n",
     0,
     {"run.ini:3: '=' among the plugins' names; a line with a key starts in the first"}},
    {"[train]\nsteps = 5\n", 0, {"run.ini: [weft] needs 'plugins': the plugins of this run"}},
    {"[weft]\nplugins =\n[train]\nsteps = 5\n", 0, {"run.ini:2: [weft] needs 'plugins'"}},
    {"[weft]\nplugins = demo\n\n[train]\nseed = 1\n",
     0,
     {"run.ini:4: [train] needs 'steps': optimizer steps"}},
    {"", 0, {"run.ini: [weft] needs 'plugins'", "run.ini: [train] needs 'steps': optimizer steps"}},
    /* unknown names */
    {GOOD "[demo]\nlevle = 3\n",
     0,
     {"run.ini:6: [demo] unknown key 'levle'; did you mean 'level'?"}},
    {GOOD "[demo]\nzzz = 3\n", 0, {"run.ini:6: [demo] unknown key 'zzz'"}},
    {GOOD "degree = 3\n",
     0,
     {"run.ini:5: [train] unknown key 'degree'; 'degree' is a key of [tp]"}},
    {GOOD "global_batch_size = 3\n",
     0,
     {"run.ini:5: [train] unknown key 'global_batch_size'; did you mean 'global_batch'?"}},
    {GOOD "[fsdp]\ndegree = 3\n",
     0,
     {"run.ini:5: section [fsdp] belongs to a plugin that is not listed; add 'fsdp' to [weft] "
      "plugins"}},
    {GOOD "[metrcis]\n", 0, {"run.ini:5: unknown section [metrcis]; did you mean [metrics]?"}},
    {GOOD "[quantum]\nx = 1\n",
     0,
     {"run.ini:5: unknown section [quantum]; no plugin has this name"}},
    /* values */
    {GOOD "[demo]\nlevel = many\n",
     0,
     {"run.ini:6: [demo] level = many: not understood; give an integer from 1 to 9 (turns)"}},
    {GOOD "[demo]\nlevel = 10\n",
     0,
     {"run.ini:6: [demo] level = 10: out of range; give an integer from 1 to 9 (turns)"}},
    {GOOD "[demo]\nlevel = 1.5\n", 0, {"run.ini:6: [demo] level = 1.5: not understood"}},
    {GOOD "[demo]\nlevel = 2 # two\n",
     0,
     {"run.ini:6: [demo] level = 2 # two: not understood; give an integer from 1 to 9 (turns); a "
      "comment"}},
    {GOOD "[demo]\nlevel = 1 2\n", 0, {"it takes one value"}},
    {GOOD "[demo]\nlevel = 1\n  mode = fast\n",
     0,
     {"run.ini:7: [demo] level takes one value, and this indented line goes on with it"}},
    {GOOD "[demo]\nsize = 9999999999G\n",
     0,
     {"run.ini:6: [demo] size = 9999999999G: out of range"}},
    {GOOD "[demo]\nsize = 99999999999999999999\n",
     0,
     {"out of range; give an integer (bytes) or 'auto'"}},
    {GOOD "[demo]\nsize = 4kb\n",
     0,
     {"size = 4kb: not understood; give an integer (bytes) or 'auto'; suffixes are k, M, G and Ki, "
      "Mi, Gi"}},
    {GOOD "[demo]\nsize = atuo\n", 0, {"did you mean 'auto'?"}},
    {GOOD "[demo]\nrate = nan\n",
     0,
     {"run.ini:6: [demo] rate = nan: not understood; give a number from 0 to 1"}},
    {GOOD "[demo]\nrate = 1.5\n", 0, {"rate = 1.5: out of range"}},
    {GOOD "[demo]\nrate = 0x1p-1\n", 0, {"rate = 0x1p-1: not understood"}},
    {GOOD "[demo]\nrate = 1e999\n", 0, {"rate = 1e999: out of range"}},
    {GOOD "[demo]\nmode = carefull\n",
     0,
     {"run.ini:6: [demo] mode = carefull: not understood; give fast or careful; did you mean "
      "'careful'?"}},
    {GOOD "[demo]\nverbose = maybe\n", 0, {"verbose = maybe: not understood; give yes or no"}},
    {GOOD "[demo]\nnumbers = 1 2\n  3 x\n", 0, {"run.ini:7: [demo] numbers = x: not understood"}},
    {GOOD "[demo]\nnumbers = 1,2\n",
     0,
     {"numbers = 1,2: not understood; give an integer from 0 to 100; items are separated by "
      "blanks"}},
    {HEADER "seq_len = 0\n",
     0,
     {"[train] seq_len = 0: out of range; give an integer from 1 to 1048576 (tokens)"}},
    {"[weft]\nplugins = demo\n[train]\nsteps = 0\n",
     0,
     {"run.ini:4: [train] steps = 0: out of range; give an integer of at least 1 (steps)"}},
    /* several at once */
    {GOOD "[demo]\nlevel = 10\nmoed = fast\n[tp]\ndegree = x\n[fsdq]\n",
     0,
     {"run.ini:6: [demo] level = 10", "run.ini:9: [tp] degree = x",
      "run.ini:7: [demo] unknown key 'moed'; did you mean 'mode'?",
      "run.ini:10: unknown section [fsdq]; did you mean [fsdp]?"}},
    {"x = 1\n[weft\nplugins = a a\n[train]\nsteps\n[demo]\nnote = \x01\n",
     0,
     {"run.ini:1: 'x' stands before", "run.ini:2: section '[weft' has no",
      "run.ini:5: 'steps' has no '='", "run.ini:7: control character 0x01"}},
};

static weft_status check(const char *text, size_t size, weft_error *err)
{
    weft_settings *settings;
    const weft_params *params;
    weft_status status = weft_settings_read_text("run.ini", text, size, &settings, err);

    if (status != WEFT_OK)
        return status;
    weft_settings_section(settings, "weft", weft_core_params("weft"), &params, err);
    weft_settings_section(settings, "train", weft_core_params("train"), &params, err);
    weft_settings_section(settings, "mesh", weft_core_params("mesh"), &params, err);
    weft_settings_section(settings, "demo", demo_params, &params, err);
    weft_settings_section(settings, "tp", tp_params, &params, err);
    weft_settings_finish(settings, unlisted, false, err);
    weft_settings_destroy(settings);
    return weft_error_status(err);
}

static void bad_ini_is_explained(void **state)
{
    int failed = 0;

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        const bad *c = &cases[i];
        weft_error err = {0};
        weft_status status = check(c->text, c->size ? c->size : strlen(c->text), &err);
        int n = 0;
        bool good = status == WEFT_ERR_INPUT;

        for (; n < 5 && c->says[n]; n++)
            good = good && n < err.n_items && strstr(err.items[n].text, c->says[n]) &&
                   err.items[n].status == WEFT_ERR_INPUT;
        if (!good || n != err.n_items) {
            fprintf(stderr, "case %zu, status %d\n%s\n", i, (int)status, c->text);
            for (int k = 0; k < err.n_items; k++)
                fprintf(stderr, "  says: %s\n", err.items[k].text);
            failed++;
        }
        weft_error_release(&err);
    }
    assert_int_equal(failed, 0);
}

static void the_frame_of_the_cases_is_good(void **state)
{
    weft_error err = {0};

    (void)state;
    assert_int_equal(check(GOOD, strlen(GOOD), &err), WEFT_OK);
    assert_int_equal(check(HEADER "[demo]\n", strlen(HEADER "[demo]\n"), &err), WEFT_OK);
    weft_error_release(&err);
}

/* A damaged file must end in errors or settings, never in a crash: every prefix, and every byte
 * replaced. */
static void damaged_text_is_survived(void **state)
{
    static const char text[] = "\xef\xbb\xbfinclude = /nowhere\r\n[weft]\r\nplugins =\n  demo ; "
                               "first\n  tp\n[train]\nsteps = 10k\n[demo]\nnote = \xc3\xa9 ; x\n";
    static const char bytes[] = {0, '\n', '[', ']', '=', ';', '#', ' ', '\r', (char)0xff, '"', '|'};
    char copy[sizeof(text)];
    weft_error err = {0};

    (void)state;
    for (size_t i = 0; i < sizeof(text); i++) {
        check(text, i, &err);
        assert_true(i < 4 || err.n_items > 0);
        weft_error_clear(&err);
        for (size_t k = 0; k < sizeof(bytes); k++) {
            memcpy(copy, text, sizeof(text));
            copy[i] = bytes[k];
            check(copy, sizeof(text) - 1, &err);
            assert_true(weft_error_status(&err) == WEFT_OK ||
                        weft_error_status(&err) == WEFT_ERR_INPUT);
            weft_error_clear(&err);
        }
    }
    weft_error_release(&err);
}

static void binary_file_is_given_up_early(void **state)
{
    char *text = malloc(100000);
    weft_error err = {0};

    (void)state;
    assert_non_null(text);
    for (size_t i = 0; i < 100000; i++)
        text[i] = (char)(i % 3 ? i * 7 : '\n');
    assert_int_equal(check(text, 100000, &err), WEFT_ERR_INPUT);
    assert_true(err.n_items > 10 && err.n_items < 60);
    assert_non_null(strstr(err.items[err.n_items - 1].text, "too many errors"));
    weft_error_release(&err);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_frame_of_the_cases_is_good),
        cmocka_unit_test(bad_ini_is_explained),
        cmocka_unit_test(damaged_text_is_survived),
        cmocka_unit_test(binary_file_is_given_up_early),
    };

    return cmocka_run_group_tests_name("bad_ini", tests, NULL, NULL);
}
