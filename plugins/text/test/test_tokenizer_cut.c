/* SPDX-License-Identifier: Apache-2.0 */
/* Cutting changes no ids: documents at the places that tokenizer_cut finds, for every golden
 * tokenizer, and words before U+2581, for vocabularies drawn at random. Texts are made of what is
 * near a cut: blanks, letters, digits, added tokens, combining marks. */
#include "../tokenizer/engine.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
/* last: it needs the headers above */
#include <cmocka.h>

static unsigned draw(uint32_t *seed, unsigned n)
{
    *seed = *seed * 1664525u + 1013904223u;
    return (*seed >> 8) % n;
}

static void add_ids(const tokenizer *t, tokenizer_scratch *s, const char *text, size_t n,
                    unsigned flags, int32_t **ids, size_t *n_ids)
{
    weft_error err = {0};
    size_t capacity = *n_ids;
    if (tokenizer_encode(t, s, text, n, flags, ids, n_ids, &capacity, &err))
        fail_msg("%s", weft_error_text(&err));
}

/* ---- documents ---- */

static tokenizer *load(const char *path)
{
    weft_error err = {0};
    tokenizer *t = NULL;
    if (tokenizer_load(path, &t, &err))
        fail_msg("%s", weft_error_text(&err));
    return t;
}

/* Added tokens that take no blanks and reach over none, as most are. puts: the tokenizer puts a
 * blank after an added token, so one that ends with a letter forbids cuts. */
static void tame(json_t *added, bool puts)
{
    const char *content = json_string_value(json_object_get(added, "content"));
    const char *other = !strcmp(content, "Two words")                ? " words"
                        : puts && !strcmp(content, "word")           ? "word>"
                        : puts && !strcmp(content, "<|endoftext|>x") ? "<|endoftext|>"
                                                                     : NULL;
    assert_false(other && json_object_set_new(added, "content", json_string(other)));
    assert_false(json_object_set_new(added, "lstrip", json_false()) ||
                 json_object_set_new(added, "rstrip", json_false()) ||
                 json_object_set_new(added, "single_word", json_false()));
}

static tokenizer *load_tame(const char *path, bool puts)
{
    json_error_t wrong;
    json_t *root = json_load_file(path, 0, &wrong), *added;
    assert_non_null(root);
    size_t i;
    json_array_foreach(json_object_get(root, "added_tokens"), i, added) {
        tame(added, puts);
    }
    char *text = json_dumps(root, 0);
    weft_error err = {0};
    tokenizer *t = NULL;
    assert_non_null(text);
    if (tokenizer_parse(path, text, strlen(text), &t, &err))
        fail_msg("%s", weft_error_text(&err));
    free(text);
    json_decref(root);
    return t;
}

static size_t make_text(char *out, uint32_t *seed)
{
    static const char *const parts[] = {"a",
                                        " b",
                                        " words",
                                        "NORMAL",
                                        " NORMAL",
                                        "word",
                                        " the",
                                        " ",
                                        "  ",
                                        "   ",
                                        "\n",
                                        "\t",
                                        "1",
                                        " 23",
                                        "x 4 y",
                                        "4567",
                                        "'s",
                                        " 're",
                                        "<s>",
                                        " </s>",
                                        ".",
                                        " -",
                                        "\xCC\x81",
                                        "\xCC\xA7",
                                        "a\xCC\x81 b",
                                        "\xC3\xA9",
                                        "<|left|> a",
                                        "a<|right|>",
                                        "caf\xC3\xA9",
                                        "<|both|>",
                                        "word> a",
                                        "A B",
                                        "Z y",
                                        "\r\n",
                                        "\xC2\xA0",
                                        "\xE2\x96\x81",
                                        "a\xE2\x96\x81 b",
                                        "\xE6\x97\xA5",
                                        "\xF0\x9F\x98\x80",
                                        "e ",
                                        "s th"};
    size_t n = 0;
    for (int i = 0; i < 24; i++) {
        const char *part = parts[draw(seed, sizeof parts / sizeof *parts)];
        memcpy(out + n, part, strlen(part));
        n += strlen(part);
    }
    return n;
}

/* Compares the whole with its parts for every place. Returns how many there are. */
static int compare_cuts(const tokenizer *t, tokenizer_scratch *s, const char *text, size_t n,
                        unsigned flags)
{
    int cuts = 0;
    int32_t *whole = NULL, *parts = NULL;
    size_t n_whole = 0;
    add_ids(t, s, text, n, flags, &whole, &n_whole);
    for (size_t at, end = n; (at = tokenizer_cut(t, text, end, 0)) < end; end = at + 1, cuts++) {
        size_t n_parts = 0;
        weft_free(parts);
        parts = NULL;
        add_ids(t, s, text, at, flags, &parts, &n_parts);
        add_ids(t, s, text + at, n - at, flags | TOKENIZER_CONTINUES, &parts, &n_parts);
        if (n_parts != n_whole || memcmp(parts, whole, n_whole * sizeof *parts) != 0)
            fail_msg("%s: cut at %zu of '%.*s'", t->name, at, (int)n, text);
    }
    weft_free(whole);
    weft_free(parts);
    return cuts;
}

static int compare_texts(const tokenizer *t)
{
    weft_error err = {0};
    tokenizer_scratch *s;
    uint32_t seed = 7;
    int cuts = 0;
    assert_int_equal(tokenizer_scratch_create(t, &s, &err), WEFT_OK);
    for (int round = 0; round < 600; round++) {
        char text[512];
        size_t n = make_text(text, &seed);
        cuts += compare_cuts(t, s, text, n, round % 2 ? TOKENIZER_NO_SPECIAL : 0);
    }
    tokenizer_scratch_destroy(s);
    return cuts;
}

static void documents_can_be_cut(void **state)
{
    (void)state;
    static const char *const golden[] = {"gpt2",   "llama3",    "qwen",
                                         "llama2", "metaspace", "sequence"};
    const char *source = getenv("srcdir");
    for (size_t i = 0; i < sizeof golden / sizeof *golden; i++) {
        char *path =
            weft_format("%s/plugins/text/test/golden/%s.json", source ? source : ".", golden[i]);
        assert_non_null(path);
        tokenizer *t = load(path);
        assert_int_equal(compare_texts(t), 0); /* their added tokens take blanks */
        tokenizer_destroy(t);
        t = strcmp(golden[i], "sequence") ? load_tame(path, !strcmp(golden[i], "llama2")) : NULL;
        if (t && compare_texts(t) < 1000)
            fail_msg("%s: few cuts", golden[i]);
        tokenizer_destroy(t);
        weft_free(path);
    }
}

/* ---- words ---- */

#define BLANK "\xE2\x96\x81"

static void add_token(json_t *vocab, const char *text)
{
    if (!json_object_get(vocab, text))
        assert_false(
            json_object_set_new(vocab, text, json_integer((json_int_t)json_object_size(vocab))));
}

static const char *token_at(json_t *vocab, unsigned which)
{
    void *at = json_object_iter(vocab);
    while (which--)
        at = json_object_iter_next(vocab, at);
    return json_object_iter_key(at);
}

/* Letters, U+2581 and up to 30 merges of anything; what is not a letter is bytes, unknown or
 * nothing. */
static tokenizer *make_vocabulary(uint32_t *seed)
{
    static const char *const first[] = {"a", "b", BLANK, "?", BLANK BLANK, "c"};
    json_t *vocab = json_object(), *merges = json_array();
    for (unsigned i = 0, n = 3 + draw(seed, 4); i < n && i < 6; i++)
        add_token(vocab, first[i]);
    bool bytes = draw(seed, 2), unknown = draw(seed, 3);
    for (int b = 0; bytes && b < 256; b++) {
        char text[8];
        snprintf(text, sizeof text, "<0x%02X>", (unsigned)b);
        if (draw(seed, 2000))
            add_token(vocab, text);
    }
    for (unsigned i = 0, n = draw(seed, 30); i < n; i++) {
        unsigned most = (unsigned)json_object_size(vocab);
        const char *left = token_at(vocab, draw(seed, most)),
                   *right = token_at(vocab, draw(seed, most));
        if (draw(seed, 20) && !strncmp(right, BLANK, 3) &&
            (strlen(left) < 3 || strcmp(left + strlen(left) - 3, BLANK) != 0))
            continue; /* mostly as real ones are */
        json_t *pair = json_pack("[s, s]", left, right);
        char *joined = weft_format("%s%s", left, right);
        assert_non_null(joined);
        add_token(vocab, joined);
        weft_free(joined);
        assert_false(json_array_append_new(merges, pair));
    }
    json_t *root =
        json_pack("{s: {s: s, s: b, s: b, s: o, s: o}}", "model", "type", "BPE", "byte_fallback",
                  bytes, "fuse_unk", (int)draw(seed, 2), "vocab", vocab, "merges", merges);
    assert_non_null(root);
    if (unknown)
        assert_false(json_object_set_new(json_object_get(root, "model"), "unk_token",
                                         json_string(first[draw(seed, 10) ? 0 : 2])));
    char *text = json_dumps(root, 0);
    weft_error err = {0};
    tokenizer *t = NULL;
    assert_non_null(text);
    if (tokenizer_parse("random", text, strlen(text), &t, &err))
        fail_msg("%s", weft_error_text(&err));
    free(text);
    json_decref(root);
    return t;
}

static void compare_words(tokenizer *t, uint32_t *seed)
{
    static const char *const parts[] = {"a",   "b",         "c",          "ab", BLANK,
                                        BLANK, BLANK BLANK, "?",          "x",  "\xC3\xA9",
                                        "y",   "?" BLANK,   "x" BLANK "a"};
    weft_error err = {0};
    tokenizer_scratch *s;
    assert_int_equal(tokenizer_scratch_create(t, &s, &err), WEFT_OK);
    for (int round = 0; round < 12; round++) {
        weft_text text = {0};
        int32_t *apart = NULL, *whole = NULL;
        size_t n_apart = 0, n_whole = 0;
        for (int i = 0; i < (round % 4 ? 12 : 80); i++)
            weft_text_add(&text, parts[draw(seed, sizeof parts / sizeof *parts)]);
        add_ids(t, s, text.data, text.size, 0, &apart, &n_apart);
        t->parts = false;
        add_ids(t, s, text.data, text.size, 0, &whole, &n_whole);
        t->parts = true;
        if (n_apart != n_whole || (n_whole && memcmp(apart, whole, n_whole * sizeof *whole) != 0))
            fail_msg("parts differ: %s", text.data);
        weft_free(apart);
        weft_free(whole);
        weft_text_release(&text);
    }
    tokenizer_scratch_destroy(s);
}

static void words_can_be_parted(void **state)
{
    (void)state;
    uint32_t seed = 3;
    int found[2] = {0};
    for (int i = 0; i < 400; i++) {
        tokenizer *t = make_vocabulary(&seed);
        found[t->parts]++;
        if (t->parts)
            compare_words(t, &seed);
        tokenizer_destroy(t);
    }
    assert_true(found[0] > 30 && found[1] > 30);
}

/* One merge is enough: it would join over the place. */
static void words_are_not_parted_where_merges_cross(void **state)
{
    (void)state;
    static const struct {
        const char *json;
        bool parts;
    } cases[] = {
        {"{'model': {'type': 'BPE', 'unk_token': 'a', 'vocab': {'a': 0, '_': 1, '_a': 2, '__': 3}, "
         "'merges': [['_', 'a'], ['_', '_']]}}",
         true},
        {"{'model': {'type': 'BPE', 'unk_token': 'a', 'vocab': {'a': 0, '_': 1, 'a_': 2}, "
         "'merges': [['a', '_']]}}",
         false},
        {"{'model': {'type': 'BPE', 'unk_token': 'a', 'vocab': {'a': 0, '_': 1, '_a': 2, 'a_a': "
         "3}, 'merges': [['_', 'a'], ['a', '_a']]}}",
         false},
        {"{'model': {'type': 'BPE', 'unk_token': 'a', 'vocab': {'a': 0, 'b': 1}, 'merges': []}}",
         false},
        {"{'model': {'type': 'BPE', 'unk_token': '_', 'vocab': {'a': 0, '_': 1}, 'merges': []}}",
         false},
        {"{'model': {'type': 'BPE', 'vocab': {'a': 0, '_': 1}, 'merges': []}}", false},
        {"{'model': {'type': 'BPE', 'unk_token': 'a', 'ignore_merges': true, 'vocab': {'a': 0, "
         "'_': 1, 'a_': 2}, 'merges': []}}",
         false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        weft_text json = {0};
        for (const char *c = cases[i].json; *c; c++)
            if (*c == '_' && strchr("'a_", c[-1]))
                weft_text_add(&json, BLANK);
            else
                weft_text_add_bytes(&json, *c == '\'' ? "\"" : c, 1);
        weft_error err = {0};
        tokenizer *t = NULL;
        if (tokenizer_parse("case", json.data, json.size, &t, &err))
            fail_msg("%s: %s", json.data, weft_error_text(&err));
        if (t->parts != cases[i].parts)
            fail_msg("parts is wrong: %s", json.data);
        tokenizer_destroy(t);
        weft_text_release(&json);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(documents_can_be_cut),
        cmocka_unit_test(words_can_be_parted),
        cmocka_unit_test(words_are_not_parted_where_merges_cross),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
