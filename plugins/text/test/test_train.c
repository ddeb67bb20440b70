/* SPDX-License-Identifier: Apache-2.0 */
/* Training of vocabularies: against a plain reference, on random words. */
#include "train_reference.h"

#include <weft/files.h>

#include <jansson.h>
#include <setjmp.h>
#include <stdlib.h>
#include <unistd.h>
/* last: it needs the headers above */
#include <cmocka.h>

static const char *const endoftext[] = {"<|endoftext|>"};

typedef struct corpus {
    char words[REF_WORDS][REF_LETTERS];
    long counts[REF_WORDS];
    int n;
} corpus;

static uint32_t next(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* Distinct random words of few letters: many ties, runs of one letter, and tokens that can be made
 * in several ways. */
static void make_corpus(corpus *c, uint32_t seed)
{
    int letters = 1 + (int)(next(&seed) % 4), most = 2 + (int)(next(&seed) % (REF_LETTERS - 2)),
        n = 1 + (int)(next(&seed) % (REF_WORDS - 1));
    *c = (corpus){0};
    for (int i = 0; i < n; i++) {
        char word[REF_LETTERS] = {0};
        int length = 1 + (int)(next(&seed) % (uint32_t)most);
        bool known = false;
        for (int k = 0; k < length && k + 1 < REF_LETTERS; k++)
            word[k] = (char)('a' + next(&seed) % (uint32_t)letters);
        for (int k = 0; k < c->n; k++)
            known = known || !strcmp(c->words[k], word);
        if (known)
            continue;
        memcpy(c->words[c->n], word, sizeof word);
        c->counts[c->n++] = 1 + (long)(next(&seed) % 5);
    }
}

static void add_words(const corpus *c, int from, int step, text_train_words *words)
{
    weft_error err = {0};
    for (int i = from; i >= 0 && i < c->n; i += step)
        for (long k = 0; k < c->counts[i]; k++) /* one at a time, as they come */
            assert_int_equal(text_train_words_add(words, c->words[i], strlen(c->words[i]), 1, &err),
                             WEFT_OK);
}

static void assert_same(const text_train_result *got, const reference *want, uint32_t seed)
{
    if (got->tokens.n != want->n_tokens || got->n_merges != (size_t)want->n_merges)
        fail_msg("seed %u: %d tokens and %zu merges, not %d and %d", seed, got->tokens.n,
                 got->n_merges, want->n_tokens, want->n_merges);
    for (int i = 0; i < want->n_tokens; i++)
        assert_string_equal(got->tokens.list[i], want->tokens[i]);
    for (int i = 0; i < want->n_merges; i++)
        if (got->merges[i].left != want->merges[i].left ||
            got->merges[i].right != want->merges[i].right)
            fail_msg("seed %u: merge %d is another", seed, i);
}

static void equals_the_reference(void **state)
{
    (void)state;
    static const char *const special[] = {"<|endoftext|>", "ab",
                                          "cab"}; /* two that merges make too */
    static corpus c;
    reference *want = calloc(1, sizeof *want);
    assert_non_null(want);
    for (uint32_t seed = 1; seed <= 150; seed++) {
        make_corpus(&c, seed);
        text_train_options o = {.vocab_size = 257 + (int)(seed * 7 % 300),
                                .min_frequency = seed % 4,
                                .max_token = seed % 3 ? 0 : 2 + seed % 5,
                                .special = special,
                                .n_special = seed % 5 ? 1 : 3};
        ref_train(want, (const char(*)[REF_LETTERS])c.words, c.counts, c.n, &o);
        text_train_words words = {0};
        text_train_result got = {0};
        weft_error err = {0};
        add_words(&c, 0, 1, &words);
        assert_int_equal(words.n, c.n);
        assert_int_equal(text_train_bpe(&words, &o, &got, &err), WEFT_OK);
        assert_same(&got, want, seed);
        text_train_result_release(&got);
        text_train_words_release(&words);
    }
    free(want);
}

static char *train_json(text_train_words *words)
{
    weft_error err = {0};
    weft_text json = {0};
    text_train_result result = {0};
    text_train_options o = {
        .vocab_size = 400, .min_frequency = 1, .special = endoftext, .n_special = 1};
    text_train_files files = {.special = endoftext, .n_special = 1};
    assert_int_equal(text_train_bpe(words, &o, &result, &err), WEFT_OK);
    assert_int_equal(text_train_json(&result, &files, &json, &err), WEFT_OK);
    text_train_result_release(&result);
    text_train_words_release(words);
    return json.data;
}

/* What two threads counted, joined either way, is what one counted, in any order. */
static void depends_on_counts_alone(void **state)
{
    (void)state;
    static corpus c;
    weft_error err = {0};
    for (uint32_t seed = 500; seed < 520; seed++) {
        make_corpus(&c, seed);
        text_train_words one = {0}, back = {0}, even = {0}, odd = {0};
        add_words(&c, 0, 1, &one);
        add_words(&c, c.n - 1, -1, &back);
        add_words(&c, 0, 2, &even);
        add_words(&c, 1, 2, &odd);
        add_words(&c, 0, 1, &odd);
        add_words(&c, 0, 1, &even);
        assert_int_equal(text_train_words_join(&odd, &even, &err), WEFT_OK);
        assert_int_equal(odd.n, c.n);
        for (size_t i = 0; i < odd.n; i++)
            assert_int_equal(odd.list[i].count % 3, 0);
        for (size_t i = 0; i < odd.n; i++)
            odd.list[i].count /= 3;
        char *first = train_json(&one), *second = train_json(&back), *third = train_json(&odd);
        assert_string_equal(first, second);
        assert_string_equal(first, third);
        weft_free(first);
        weft_free(second);
        weft_free(third);
    }
}

static void counts_words_of_any_bytes(void **state)
{
    (void)state;
    weft_error err = {0};
    text_train_words words = {0};
    char word[20];
    for (int round = 0; round < 3; round++)
        for (int i = 0; i < 20000; i++) {
            size_t n = (size_t)snprintf(word, sizeof word, "%d", i);
            memset(word + n, 0,
                   sizeof word - n); /* words that differ only in NULs behind them are different */
            assert_int_equal(text_train_words_add(&words, word, n + (size_t)(i % 5), 2, &err),
                             WEFT_OK);
        }
    assert_int_equal(text_train_words_add(&words, "", 0, 1, &err), WEFT_OK);
    assert_int_equal(words.n, 20001);
    for (size_t i = 0; i < 20000; i++)
        assert_int_equal(words.list[i].count, 6);
    text_train_words_release(&words);
}

static void says_how_many_tokens_the_text_has(void **state)
{
    (void)state;
    weft_error err = {0};
    text_train_words words = {0};
    text_train_result result = {0};
    text_train_options o = {.vocab_size = 258};
    assert_int_equal(text_train_words_add(&words, "abab", 4, 3, &err), WEFT_OK);
    assert_int_equal(text_train_words_add(&words, "c", 1, 5, &err), WEFT_OK);
    assert_int_equal(text_train_bpe(&words, &o, &result, &err), WEFT_OK);
    assert_int_equal(result.tokens.n, 258); /* ab, abab */
    assert_int_equal(result.n_bytes, 17);
    assert_int_equal(result.n_tokens, 8);
    text_train_result_release(&result);
    text_train_words_release(&words);
}

static void writes_files_that_parse(void **state)
{
    (void)state;
    static const char *const special[] = {"<|end \"of\" text|>", "<b\xC3\xA9gin>"};
    weft_error err = {0};
    text_train_words words = {0};
    text_train_result result = {0};
    char folder[] = "/tmp/weft-train-XXXXXX";
    assert_non_null(mkdtemp(folder));
    char *path = weft_format("%s/tokenizer.json", folder),
         *beside = weft_format("%s/tokenizer_config.json", folder);
    text_train_options o = {.vocab_size = 262, .special = special, .n_special = 2};
    text_train_files files = {.path = path,
                              .pattern = "\\w+|\"",
                              .special = special,
                              .n_special = 2,
                              .bos = special[1],
                              .eos = special[0]};
    assert_int_equal(text_train_words_add(&words, " \"\\ \"\\ \"\\", 8, 3, &err), WEFT_OK);
    assert_int_equal(text_train_bpe(&words, &o, &result, &err), WEFT_OK);
    assert_int_equal(text_train_write(&result, &files, &err), WEFT_OK);
    json_t *root = json_load_file(path, 0, NULL), *config = json_load_file(beside, 0, NULL);
    assert_non_null(root);
    assert_non_null(config);
    json_t *model = json_object_get(root, "model"), *vocab = json_object_get(model, "vocab");
    assert_int_equal(json_object_size(vocab), 262);
    assert_int_equal(json_integer_value(json_object_get(vocab, special[1])), 1);
    assert_int_equal(json_integer_value(json_object_get(vocab, "!")), 2);
    assert_int_equal(json_array_size(json_object_get(model, "merges")), result.n_merges);
    json_t *split =
        json_array_get(json_object_get(json_object_get(root, "pre_tokenizer"), "pretokenizers"), 0);
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(split, "pattern"), "Regex")),
        files.pattern);
    assert_int_equal(json_array_size(json_object_get(root, "added_tokens")), 2);
    assert_string_equal(json_string_value(json_object_get(config, "bos_token")), special[1]);
    assert_string_equal(json_string_value(json_object_get(config, "eos_token")), special[0]);
    json_decref(root);
    json_decref(config);
    assert_int_equal(unlink(path) | unlink(beside) | rmdir(folder), 0);
    files.path = "/nowhere/at/all/tokenizer.json";
    assert_int_not_equal(text_train_write(&result, &files, &err), WEFT_OK);
    weft_error_release(&err);
    weft_free(path);
    weft_free(beside);
    text_train_result_release(&result);
    text_train_words_release(&words);
}

static weft_status train_once(const corpus *c, weft_error *err)
{
    text_train_words words = {0}, more = {0};
    text_train_result result = {0};
    weft_text json = {0};
    text_train_options o = {.vocab_size = 300, .special = endoftext, .n_special = 1};
    text_train_files files = {.special = endoftext, .n_special = 1};
    weft_status status = WEFT_OK;
    for (int i = 0; !status && i < c->n; i++)
        status =
            text_train_words_add(i % 2 ? &words : &more, c->words[i], strlen(c->words[i]), 2, err);
    if (!status)
        status = text_train_words_join(&words, &more, err);
    if (!status)
        status = text_train_bpe(&words, &o, &result, err);
    if (!status)
        status = text_train_json(&result, &files, &json, err);
    weft_text_release(&json);
    text_train_result_release(&result);
    text_train_words_release(&words);
    text_train_words_release(&more);
    return status;
}

static void survives_every_failed_allocation(void **state)
{
    (void)state;
    static corpus c;
    make_corpus(&c, 77);
    weft_error err = {0};
    weft_alloc_fail_at(0);
    assert_int_equal(train_once(&c, &err), WEFT_OK);
    long n = weft_alloc_count();
    assert_true(n > 100);
    for (long i = 1; i <= n; i += i < 60 ? 1 : 7) {
        weft_alloc_fail_at(i);
        weft_status status = train_once(&c, &err);
        weft_alloc_fail_at(0);
        assert_int_equal(status, WEFT_ERR_MEMORY);
        weft_error_clear(&err);
    }
    weft_error_release(&err);
}

static weft_status stop(void *self, int tokens, int vocab_size, weft_error *err)
{
    assert_true(tokens <= vocab_size);
    ++*(int *)self;
    return weft_fail(err, WEFT_ERR_STOPPED, WEFT_NOWHERE, "stopped");
}

static void can_be_stopped(void **state)
{
    (void)state;
    static corpus c;
    int calls = 0;
    weft_error err = {0};
    text_train_words words = {0};
    text_train_result result = {0};
    text_train_options o = {.vocab_size = 400, .progress = stop, .self = &calls};
    make_corpus(&c, 3);
    add_words(&c, 0, 1, &words);
    assert_int_equal(text_train_bpe(&words, &o, &result, &err), WEFT_ERR_STOPPED);
    assert_int_equal(calls, 1);
    assert_null(result.merges);
    assert_int_equal(result.tokens.n, 0);
    weft_error_release(&err);
    text_train_words_release(&words);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equals_the_reference),
        cmocka_unit_test(depends_on_counts_alone),
        cmocka_unit_test(counts_words_of_any_bytes),
        cmocka_unit_test(says_how_many_tokens_the_text_has),
        cmocka_unit_test(writes_files_that_parse),
        cmocka_unit_test(survives_every_failed_allocation),
        cmocka_unit_test(can_be_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
