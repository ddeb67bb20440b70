/* SPDX-License-Identifier: Apache-2.0 */
/* Rank files: what they become, and files that are damaged at random. */
#include "tokenizer/tiktoken.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* last: it needs the headers above */
#include <cmocka.h>

static char path[] = "/tmp/weft-ranks-XXXXXX";

static void put(const void *data, size_t n)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

static void add_line(weft_text *out, const char *token, size_t n, int rank)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        uint32_t bits = 0;
        for (size_t k = 0; k < 3; k++)
            bits = bits << 8 | (i + k < n ? (unsigned char)token[i + k] : 0u);
        char four[4];
        for (size_t k = 0; k < 4; k++)
            four[k] = i + k > n ? '=' : digits[bits >> (18 - 6 * k) & 63];
        weft_text_add_bytes(out, four, 4);
    }
    weft_text_print(out, " %d\n", rank);
}

/* The bytes in reverse, then ab, abc, abcd. */
static void make_ranks(weft_text *out)
{
    for (int b = 0; b < 256; b++) {
        char byte = (char)(255 - b);
        add_line(out, &byte, 1, b);
    }
    for (int n = 2; n <= 4; n++)
        add_line(out, "abcd", (size_t)n, 254 + n);
    assert_false(out->out_of_memory);
}

static void assert_ids(const tokenizer *t, const char *text, const int32_t *want, size_t n)
{
    weft_error err = {0};
    tokenizer_scratch *scratch = NULL;
    int32_t *ids = NULL;
    size_t n_ids = 0, capacity = 0;
    weft_text back = {0};
    assert_int_equal(tokenizer_scratch_create(t, &scratch, &err), WEFT_OK);
    assert_int_equal(
        tokenizer_encode(t, scratch, text, strlen(text), 0, &ids, &n_ids, &capacity, &err),
        WEFT_OK);
    assert_int_equal(n_ids, n);
    assert_memory_equal(ids, want, n * sizeof *want);
    assert_int_equal(tokenizer_decode(t, ids, n_ids, &back, &err), WEFT_OK);
    assert_string_equal(weft_text_get(&back), text);
    weft_text_release(&back);
    weft_free(ids);
    tokenizer_scratch_destroy(scratch);
}

static void reads_tokens_and_special_tokens(void **state)
{
    (void)state;
    static const char *const special[] = {"<|a=1|>", "<|far|>=500", "<|next|>", NULL};
    weft_text file = {0};
    weft_error err = {0};
    tokenizer *t = NULL;
    make_ranks(&file);
    put(file.data, file.size);
    assert_int_equal(tokenizer_load_ranks(path, "llama3", special, &t, &err), WEFT_OK);
    assert_int_equal(tokenizer_find(t, "<|a=1|>", 7),
                     501); /* not a number behind '=': all of it is the name */
    assert_int_equal(tokenizer_find(t, "<|far|>", 7), 500);
    assert_int_equal(tokenizer_find(t, "<|next|>", 8), 502);
    assert_int_equal(tokenizer_vocab_size(t), 503);
    assert_ids(t, "abcd <|far|>\n", (int32_t[]){258, 255 - ' ', 500, 255 - '\n'}, 4);
    assert_ids(t, "abcab", (int32_t[]){257, 256}, 2);
    tokenizer_destroy(t);
    weft_text_release(&file);
}

static void refuses_lines_that_are_wrong(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "YQ==",       "YQ== ",          "YQ== x",  "YQ== 1x",  "YQ==1",  " 1",
        "YQ= 1",      "YQ 1",           "Y*== 1",  "Y=== 1",   "YR== 1", "YWJ= 1",
        "YQ==YQ== 1", "YQ== 268435456", "YQ== -1", "YQ== 1 2", "YQ==  1"};
    weft_text good = {0};
    make_ranks(&good);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        weft_text file = {0};
        weft_error err = {0};
        tokenizer *t = NULL;
        weft_text_print(&file, "%.*s%s\n%s", (int)good.size, good.data, bad[i], "YWJjZGU= 259\n");
        put(file.data, file.size);
        if (tokenizer_load_ranks(path, "gpt2", NULL, &t, &err) != WEFT_ERR_INPUT)
            fail_msg("'%s' is taken", bad[i]);
        assert_null(t);
        assert_non_null(strstr(weft_error_text(&err), ":260: "));
        assert_int_equal(err.n_items, 1);
        weft_error_release(&err);
        weft_text_release(&file);
    }
    weft_text_release(&good);
}

static void refuses_what_is_no_vocabulary(void **state)
{
    (void)state;
    static const char *const files[] = {"", "\n\n", "YQ== 0\n", "YQ== 0\nYQ== 1\n"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        weft_error err = {0};
        tokenizer *t = NULL;
        put(files[i], strlen(files[i]));
        assert_int_equal(tokenizer_load_ranks(path, "gpt2", NULL, &t, &err), WEFT_ERR_INPUT);
        assert_null(t);
        assert_true(strlen(weft_error_text(&err)) > 10);
        weft_error_release(&err);
    }
}

static void takes_a_damaged_file_or_says_why_not(void **state)
{
    (void)state;
    uint32_t seed = 1;
    weft_text good = {0};
    make_ranks(&good);
    int taken = 0, refused = 0;
    for (int round = 0; round < 600; round++) {
        char *data = malloc(good.size);
        assert_non_null(data);
        memcpy(data, good.data, good.size);
        for (int k = 0; k <= round % 4; k++) {
            seed = seed * 1664525u + 1013904223u;
            data[(seed >> 8) % good.size] =
                round % 3 ? "A=0 \n+z9"[seed >> 5 & 7] : (char)(seed >> 24);
        }
        size_t n = round % 10 ? good.size : (seed >> 8) % good.size;
        put(data, n);
        free(data);
        weft_error err = {0};
        tokenizer *t = NULL;
        weft_status status =
            tokenizer_load_ranks(path, round % 2 ? "gpt2" : "llama3", NULL, &t, &err);
        assert_true(status == WEFT_OK || status == WEFT_ERR_INPUT);
        assert_true((status == WEFT_OK) == (t != NULL));
        assert_true((status == WEFT_OK) == (err.n_items == 0));
        taken += status == WEFT_OK;
        refused += status != WEFT_OK;
        tokenizer_destroy(t);
        weft_error_release(&err);
    }
    assert_true(refused > 100);
    assert_true(taken > 0);
    weft_text_release(&good);
}

static void survives_every_failed_allocation(void **state)
{
    (void)state;
    static const char *const special[] = {"<|x|>", NULL};
    weft_text file = {0};
    weft_error err = {0};
    tokenizer *t = NULL;
    make_ranks(&file);
    put(file.data, file.size);
    weft_alloc_fail_at(0);
    assert_int_equal(tokenizer_load_ranks(path, "gpt2", special, &t, &err), WEFT_OK);
    long n = weft_alloc_count();
    tokenizer_destroy(t);
    for (long i = 1; i <= n; i++) {
        t = NULL;
        weft_alloc_fail_at(i);
        weft_status status = tokenizer_load_ranks(path, "gpt2", special, &t, &err);
        weft_alloc_fail_at(0);
        assert_int_equal(status, WEFT_ERR_MEMORY);
        assert_null(t);
        weft_error_clear(&err);
    }
    weft_error_release(&err);
    weft_text_release(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_tokens_and_special_tokens),
        cmocka_unit_test(refuses_lines_that_are_wrong),
        cmocka_unit_test(refuses_what_is_no_vocabulary),
        cmocka_unit_test(takes_a_damaged_file_or_says_why_not),
        cmocka_unit_test(survives_every_failed_allocation),
    };
    int fd = mkstemp(path);
    if (fd < 0 || close(fd))
        return 99;
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    unlink(path);
    return failed;
}
