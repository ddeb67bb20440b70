/* SPDX-License-Identifier: Apache-2.0 */
/* weft tokenize when memory runs out: every mode ends with an error, and leaves nothing behind. */
#include "command/command.h"

#include <weft/files.h>

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* last: it needs the headers above */
#include <cmocka.h>

static char folder[] = "/tmp/weft-command-XXXXXX";
static size_t written;

static weft_status count_bytes(const weft_command_host *host, const void *data, size_t n,
                               weft_error *err)
{
    (void)host;
    (void)data;
    (void)err;
    written += n;
    return WEFT_OK;
}

static weft_status run(const char *words, weft_error *err)
{
    char copy[512], *argv[32], *rest = copy;
    int argc = 0;
    weft_command_host host = {.threads = 1, .write = count_bytes};
    strncpy(copy, words, sizeof copy - 1);
    copy[sizeof copy - 1] = 0;
    while ((argv[argc] = strsep(&rest, " ")))
        argc++;
    written = 0;
    return text_command.run(&host, argc, argv, err);
}

/* Every n-th allocation fails, early ones all, later ones some. */
static void fail_each(const char *words, const char *leaves)
{
    weft_error err = {0};
    weft_alloc_fail_at(0);
    assert_int_equal(run(words, &err), WEFT_OK);
    long n = weft_alloc_count();
    for (long i = 1; i <= n; i += i < 120 ? 1 : 1 + n / 60) {
        if (leaves)
            unlink(leaves);
        weft_alloc_fail_at(i);
        weft_status status = run(words, &err);
        weft_alloc_fail_at(0);
        if (status == WEFT_OK) /* a library did without */
            continue;
        assert_int_not_equal(weft_error_status(&err), WEFT_OK);
        if (leaves)
            assert_int_not_equal(access(leaves, F_OK), 0);
        weft_error_clear(&err);
    }
    if (leaves)
        unlink(leaves);
    weft_error_release(&err);
}

static int enter(void **state)
{
    static const char text[] =
        "the quick brown fox and the lazy dog, and the quick dog and the fox\n",
                      json[] = "{\"text\": \"a fox\"}\n\n{\"text\": \"\"}\n";
    weft_error err = {0};
    (void)state;
    if (!mkdtemp(folder) || chdir(folder))
        return -1;
    return weft_write_file("a.txt", text, sizeof text - 1, &err) ||
           weft_write_file("b.jsonl", json, sizeof json - 1, &err) ||
           weft_write_file("ids", "65 66\n[67]\n", 11, &err) ||
           run("tokenize --train --vocab-size 300 --out t a.txt", &err);
}

static int leave(void **state)
{
    static const char *const files[] = {"a.txt",
                                        "b.jsonl",
                                        "ids",
                                        "t/tokenizer.json",
                                        "t/tokenizer_config.json",
                                        "n/tokenizer_config.json"};
    (void)state;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        unlink(files[i]);
    rmdir("t");
    rmdir("n");
    return chdir("/") || rmdir(folder);
}

static void trains(void **state)
{
    (void)state;
    fail_each("tokenize --train --vocab-size 270 --special <a> --overwrite --out n a.txt b.jsonl",
              "n/tokenizer.json");
}

static void encodes(void **state)
{
    (void)state;
    fail_each("tokenize --tokenizer t a.txt b.jsonl", NULL);
    fail_each("tokenize --tokenizer t --json --eos <|endoftext|> b.jsonl", NULL);
    fail_each("tokenize --tokenizer t --bin auto --out x.bin a.txt b.jsonl", "x.bin");
    assert_int_not_equal(access("x.bin.part", F_OK), 0);
}

static void decodes(void **state)
{
    (void)state;
    fail_each("tokenize --tokenizer t --decode ids", NULL);
    fail_each("tokenize --tokenizer t --decode --json ids", NULL);
}

static void counts_and_describes(void **state)
{
    (void)state;
    fail_each("tokenize --tokenizer t --count a.txt b.jsonl", NULL);
    fail_each("tokenize --tokenizer t --count --json .", NULL);
    fail_each("tokenize --tokenizer t --info", NULL);
    weft_error err = {0};
    assert_int_equal(run("tokenize --tokenizer t --info", &err), WEFT_OK);
    assert_true(written > 100);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trains),
        cmocka_unit_test(encodes),
        cmocka_unit_test(decodes),
        cmocka_unit_test(counts_and_describes),
    };
    return cmocka_run_group_tests(tests, enter, leave);
}
