/* SPDX-License-Identifier: Apache-2.0 */
/* Where long documents are cut: the words of both parts are the words of the whole. */
#include "tokenizer/tiktoken.h"
#include "training/train.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
/* last: it needs the headers above */
#include <cmocka.h>

/* A tokenizer of bytes with this pattern and these special tokens. */
static tokenizer *make(const char *pattern, const char *const *special, int n_special)
{
    weft_error err = {0};
    text_train_words none = {0};
    text_train_result bytes = {0};
    weft_text json = {0};
    tokenizer *t = NULL;
    text_train_options o = {.special = special, .n_special = n_special};
    text_train_files files = {.pattern =
                                  strcmp(pattern, "gpt2") ? tokenizer_pattern(pattern) : NULL,
                              .special = special,
                              .n_special = n_special};
    assert_int_equal(text_train_bpe(&none, &o, &bytes, &err), WEFT_OK);
    assert_int_equal(text_train_json(&bytes, &files, &json, &err), WEFT_OK);
    assert_int_equal(tokenizer_parse("test", json.data, json.size, &t, &err), WEFT_OK);
    text_train_result_release(&bytes);
    weft_text_release(&json);
    return t;
}

static weft_status add_word(void *self, const char *word, size_t n, weft_error *err)
{
    (void)err;
    weft_text_add_bytes(self, word, n);
    weft_text_add_bytes(self, "\1", 1); /* no text here holds it */
    return WEFT_OK;
}

static void add_words(const tokenizer *t, const char *s, size_t n, unsigned flags, weft_text *out)
{
    weft_error err = {0};
    tokenizer_scratch *scratch = NULL;
    assert_int_equal(tokenizer_scratch_create(t, &scratch, &err), WEFT_OK);
    assert_int_equal(tokenizer_words(t, scratch, s, n, flags, add_word, out, &err), WEFT_OK);
    tokenizer_scratch_destroy(scratch);
}

static size_t make_text(char *out, uint32_t *seed)
{
    static const char *const parts[] = {"a",        "b",
                                        " ",        " ",
                                        " ",        "\n",
                                        "'",        "re",
                                        "S",        "1",
                                        "23",       "\t",
                                        ".",        "--",
                                        "\r\n",     "\xC3\xA9",
                                        "\xCC\x81", "\xC2\xA0",
                                        "<|x|>",    "x y",
                                        "ll",       " the",
                                        "'d",       "\xE2\x80\xA8",
                                        "_",        "\xF0\x9F\x98\x80"};
    size_t n = 0;
    for (int i = 0; i < 30; i++) {
        *seed = *seed * 1664525u + 1013904223u;
        const char *part = parts[(*seed >> 10) % (sizeof parts / sizeof *parts)];
        memcpy(out + n, part, strlen(part));
        n += strlen(part);
    }
    return n;
}

static void words_stay_the_same(void **state)
{
    (void)state;
    static const char *const special[] = {"<|x|>"}, *const patterns[] = {"gpt2", "llama3", "qwen2",
                                                                         "o200k"};
    uint32_t seed = 1;
    int cuts = 0;
    for (int p = 0; p < 4; p++) {
        tokenizer *t = make(patterns[p], special, 1);
        for (int round = 0; round < 500; round++) {
            char text[512];
            size_t n = make_text(text, &seed);
            unsigned flags = round % 2 ? TOKENIZER_NO_SPECIAL : 0;
            weft_text whole = {0};
            add_words(t, text, n, flags, &whole);
            for (size_t at, end = n; (at = tokenizer_cut(t, text, end, 0)) < end; end = at + 1) {
                weft_text parts = {0};
                add_words(t, text, at, flags, &parts);
                add_words(t, text + at, n - at, flags, &parts);
                assert_int_equal(parts.size, whole.size);
                assert_memory_equal(parts.data, whole.data, whole.size);
                weft_text_release(&parts);
                cuts++;
            }
            weft_text_release(&whole);
        }
        tokenizer_destroy(t);
    }
    assert_true(cuts > 1000);
}

static void does_not_cut_where_it_cannot_know(void **state)
{
    (void)state;
    static const char text[] = "one two three four";
    static const char *const special[] = {"<|x|>"}, *const wide[] = {"<two words>"};
    size_t n = strlen(text);
    tokenizer *known = make("llama3", special, 1), *unknown = make("\\w+ \\w+|\\W", special, 1),
              *over = make("llama3", wide, 1);
    assert_int_equal(tokenizer_cut(known, text, n, 0), 13);
    assert_int_equal(tokenizer_cut(known, text, n, 13), 13);
    assert_int_equal(tokenizer_cut(known, text, 14, 0), 7);
    assert_int_equal(tokenizer_cut(known, text, n, 14), n);
    assert_int_equal(tokenizer_cut(known, text, 4, 0), 4); /* what follows the blank is not known */
    assert_int_equal(tokenizer_cut(known, "", 0, 0), 0);
    assert_int_equal(tokenizer_cut(unknown, text, n, 0), n);
    assert_int_equal(tokenizer_cut(over, text, n, 0), n);
    tokenizer_destroy(known);
    tokenizer_destroy(unknown);
    tokenizer_destroy(over);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(words_stay_the_same),
        cmocka_unit_test(does_not_cut_where_it_cannot_know),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
