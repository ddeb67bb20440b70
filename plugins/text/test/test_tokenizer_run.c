/* SPDX-License-Identifier: Apache-2.0 */
/* Tokenizers from files in a run: rank files with their pattern and special tokens, and long
 * documents, whose ids do not depend on threads or parts.
 */
#include "text_run.h"

/* All bytes, and some more; each has the next rank. */
static void put_ranks(const char *path)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    static const char *const more[] = {
        "IHQ=", "aGU=",     "IHRoZQ==", "YW4=",
        "IGFu", "IGFuZA==", "ZW5k"}; /* " t", "he", " the", "an", " an", " and", "end" */
    weft_text out = {0};
    for (unsigned b = 0; b < 256; b++)
        weft_text_print(&out, "%c%c== %u\n", alphabet[b >> 2], alphabet[(b & 3) << 4], b);
    for (unsigned i = 0; i < sizeof more / sizeof *more; i++)
        weft_text_print(&out, "%s %u\n", more[i], 256 + i);
    put(path, out.data);
    weft_text_release(&out);
}

static void expect_ids(const run *r, const char *text, const int32_t *want, size_t n_want)
{
    int32_t *ids = NULL;
    size_t n = 0, capacity = 0;
    weft_error err = {0};
    assert_int_equal(r->tokenizer->encode(r->text, text, strlen(text), &ids, &n, &capacity, &err),
                     WEFT_OK);
    assert_int_equal(n, n_want);
    assert_memory_equal(ids, want, n * sizeof *ids);
    weft_free(ids);
}

#define RANKS "path = a.txt\ntokenizer = o.tiktoken\n"

static void takes_rank_files(void **state)
{
    (void)state;
    put_ranks("o.tiktoken");
    put("a.txt", "and the<|a|> end");
    run r;
    run_start(&r,
              RANKS "pattern = gpt2\nspecial = <|a|> <|b|>=300 <|c|>\nbos = <|b|>\neos = <|c|>");
    assert_int_equal(r.tokenizer->vocab_size(r.text), 303);
    assert_int_equal(r.tokenizer->bos(r.text), 300);
    assert_int_equal(r.tokenizer->eos(r.text), 302);
    assert_string_equal(r.tokenizer->files(r.text)[0], "o.tiktoken");
    assert_null(r.tokenizer->files(r.text)[1]);
    const int32_t prompt[] = {259, 'd', 258, 301, ' ', 'e', 'n', 'd'},
                  trained[] = {300, 259, 'd', 258, '<', '|', 'a',
                               '|', '>', ' ', 'e', 'n', 'd', 302};
    expect_ids(&r, "and the<|a|> end", prompt, 8);
    assert_tokens(&r, trained, 14); /* special tokens are text there */
    const int32_t gaps[] = {259, 280, 'd', 299};
    weft_text out = {0};
    assert_int_equal(r.tokenizer->decode(r.text, gaps, 4, &out, &r.err), WEFT_OK);
    assert_string_equal(weft_text_get(&out), "and");
    assert_int_equal(r.tokenizer->decode(r.text, (const int32_t[]){400}, 1, &out, &r.err),
                     WEFT_ERR_INPUT);
    weft_text_release(&out);
    run_end(&r);
}

/* Whatever changes ids makes other tokens; a cache is never shared. */
static void pattern_and_special_tokens_count(void **state)
{
    (void)state;
    static const char *const variants[] = {
        RANKS "pattern = gpt2\nspecial = <|a|>\nbos = <|a|>\neos = no",
        RANKS "pattern = [^ ]+|[ ]+\nspecial = <|a|>\nbos = <|a|>\neos = no",
        RANKS "pattern = gpt2\nspecial = <|a|>=400\nbos = <|a|>\neos = no",
        RANKS "pattern = gpt2\nspecial = <|b|> <|a|>\nbos = <|a|>\neos = no"};
    uint64_t fingerprints[4];
    put_ranks("o.tiktoken");
    put("a.txt", "and the end");
    for (int i = 0; i < 4; i++) {
        run r;
        run_start(&r, variants[i]);
        assert_true(was_tokenised(&r));
        fingerprints[i] = r.data->fingerprint(r.text);
        for (int k = 0; k < i; k++)
            assert_true(fingerprints[i] != fingerprints[k]);
        run_end(&r);
        run_start(&r, variants[i]);
        assert_false(was_tokenised(&r));
        run_end(&r);
    }
}

static void refuses_what_does_not_fit(void **state)
{
    (void)state;
    put_ranks("o.tiktoken");
    put("a.txt", "and the end");
    put("t.json", "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]}}");
    refuse(RANKS, "give [text] pattern");
    refuse(RANKS "pattern = (\nbos = no\neos = no", "the pattern");
    refuse(RANKS "pattern = gpt2", "which token is bos");
    refuse(RANKS "pattern = gpt2\nspecial = <|a|>=5\nbos = no\neos = no", "id 5");
    refuse("path = a.txt\nspecial = <|a|>", "special is for rank files");
    refuse("path = a.txt\npattern = gpt2", "pattern is for rank files");
    refuse("path = a.txt\ntokenizer = t.json\npattern = gpt2\nbos = no\neos = no",
           "leave out [text] pattern");
    refuse("path = a.txt\ntokenizer = a.txt\nbos = no\neos = no",
           "neither a tokenizer.json nor a rank file");
}

/* ---- long documents ---- */

#define BLANK "\xE2\x96\x81"
#define LLAMA                                                                                      \
    "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\",\"prepend\":"   \
    "\"" BLANK "\"},{\"type\":\"Replace\",\"pattern\":"                                            \
    "{\"String\":\" \"},\"content\":\"" BLANK                                                      \
    "\"}]},\"model\":{\"type\":\"BPE\",\"unk_token\":\"?\",\"vocab\":{\"?\":0,\"" BLANK            \
    "\":1,\"a\":2,\"t\":3,\"h\":4,\"" BLANK "t\":5,\"he\":6,\"e\":7,\"" BLANK                      \
    "the\":8,\"" BLANK BLANK "\":9},\"merges\":[\"" BLANK " t\",\"h e\",\"" BLANK                  \
    "t he\",\"" BLANK " " BLANK "\"]}}"

/* Words, numbers, runs of blanks and characters of all lengths. */
static size_t put_long(const char *path, size_t n)
{
    static const char *const parts[] = {" the",
                                        " and",
                                        " end",
                                        "  ",
                                        "\n\n",
                                        " 123",
                                        "4",
                                        "\xC3\xA9",
                                        " \xCC\x81",
                                        "\xE6\x97\xA5",
                                        "\xF0\x9F\x98\x80",
                                        "he",
                                        " a",
                                        "t",
                                        ".",
                                        "'s",
                                        "\t",
                                        " x",
                                        "A",
                                        "          "};
    weft_text out = {0};
    for (uint32_t seed = 5; out.size < n;) {
        seed = seed * 1664525u + 1013904223u;
        weft_text_add(&out, parts[(seed >> 10) % (sizeof parts / sizeof *parts)]);
    }
    put(path, out.data);
    n = out.size;
    weft_text_release(&out);
    return n;
}

static void compare_long(const char *tokenizer, int threads)
{
    run r;
    char *ini = weft_format("path = a.txt\n%s\nbos = no\neos = no\ncache = cache%d", tokenizer,
                            threads),
         *text;
    size_t size, n = 0, capacity = 0;
    int32_t *ids = NULL;
    assert_non_null(ini);
    assert_int_equal(run_create(&r, ini), WEFT_OK);
    r.host.threads = threads;
    assert_int_equal(text_LTX_plugin.open(r.text, &r.err), WEFT_OK);
    assert_true(was_tokenised(&r));
    assert_int_equal(weft_read_file("a.txt", &text, &size, &r.err), WEFT_OK);
    assert_int_equal(r.tokenizer->encode(r.text, text, size, &ids, &n, &capacity, &r.err), WEFT_OK);
    assert_tokens(&r, ids, (int64_t)n);
    weft_free(ids);
    weft_free(text);
    weft_free(ini);
    run_end(&r);
}

static void parts_are_as_the_whole(void **state)
{
    (void)state;
    static const char *const tokenizers[] = {
        "tokenizer = o.tiktoken\npattern = llama3", "tokenizer = o.tiktoken\npattern = o200k",
        "tokenizer = o.tiktoken\npattern = [^ ]+|[ ]+", "tokenizer = l.json", "tokenizer = bytes"};
    put_ranks("o.tiktoken");
    put("l.json", LLAMA);
    assert_true(put_long("a.txt", 5 << 19) > 2 << 20);
    for (size_t i = 0; i < sizeof tokenizers / sizeof *tokenizers; i++)
        for (int threads = 1; threads <= 3; threads += 2)
            compare_long(tokenizers[i], threads);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, scratch_enter, scratch_leave)
    const struct CMUnitTest tests[] = {
        TEST(takes_rank_files),
        TEST(pattern_and_special_tokens_count),
        TEST(refuses_what_does_not_fit),
        TEST(parts_are_as_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
