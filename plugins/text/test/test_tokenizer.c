/* SPDX-License-Identifier: Apache-2.0 */
/* Tokenizers against what Hugging Face's library made of the same texts (golden/, see
 * make_golden.py), and the scanners against PCRE2. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zlib.h>

#include "../tokenizer/engine.h"

/* ---- golden files ---- */

typedef struct blob {
    unsigned char *data;
    size_t n, at;
} blob;

static char *path_of(const char *name, const char *ending)
{
    const char *source = getenv("srcdir");
    char *path =
        weft_format("%s/plugins/text/test/golden/%s%s", source ? source : ".", name, ending);
    assert_non_null(path);
    return path;
}

static uint32_t take32(blob *b)
{
    assert_true(b->at + 4 <= b->n);
    const unsigned char *p = b->data + b->at;
    b->at += 4;
    return p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint32_t take16(blob *b)
{
    assert_true(b->at + 2 <= b->n);
    const unsigned char *p = b->data + b->at;
    b->at += 2;
    return p[0] | (uint32_t)p[1] << 8;
}

static const char *take(blob *b, size_t n)
{
    assert_true(b->at + n <= b->n);
    b->at += n;
    return (const char *)b->data + b->at - n;
}

static blob unpack(const char *name)
{
    char *data, *path = path_of(name, ".z");
    size_t n;
    weft_error err = {0};
    assert_int_equal(weft_read_file(path, &data, &n, &err), WEFT_OK);
    blob packed = {(unsigned char *)data, n, 0}, out = {NULL, take32(&packed), 0};
    uLongf room = out.n;
    out.data = malloc(out.n + 1);
    assert_non_null(out.data);
    assert_int_equal(uncompress(out.data, &room, packed.data + 4, n - 4), Z_OK);
    assert_int_equal(room, out.n);
    weft_free(data);
    weft_free(path);
    return out;
}

typedef struct opened {
    tokenizer *t;
    tokenizer_scratch *s;
    weft_error err;
    int32_t *ids;
    size_t n_ids, capacity;
} opened;

static void open_golden(opened *o, const char *name)
{
    char *path = path_of(name, ".json");
    *o = (opened){0};
    if (tokenizer_load(path, &o->t, &o->err))
        print_error("%s\n", weft_error_text(&o->err));
    assert_non_null(o->t);
    assert_int_equal(tokenizer_scratch_create(o->t, &o->s, &o->err), WEFT_OK);
    weft_free(path);
}

static void close_golden(opened *o)
{
    tokenizer_scratch_destroy(o->s);
    tokenizer_destroy(o->t);
    weft_free(o->ids);
    weft_error_release(&o->err);
}

static void encode(opened *o, const char *text, size_t n, unsigned flags)
{
    o->n_ids = 0;
    weft_status status =
        tokenizer_encode(o->t, o->s, text, n, flags, &o->ids, &o->n_ids, &o->capacity, &o->err);
    if (status)
        print_error("%s\n", weft_error_text(&o->err));
    assert_int_equal(status, WEFT_OK);
}

static bool same_ids(const opened *o, blob *want, uint32_t n)
{
    bool same = n == o->n_ids;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t id = take16(want);
        same = same && (uint32_t)o->ids[i] == id;
    }
    return same;
}

static bool same_text(opened *o, blob *want, const char *text, size_t n)
{
    weft_text out = {0};
    uint32_t length = take32(want);
    const char *expected = length == UINT32_MAX ? text : take(want, length);
    size_t n_expected = length == UINT32_MAX ? n : length;
    assert_int_equal(tokenizer_decode(o->t, o->ids, o->n_ids, &out, &o->err), WEFT_OK);
    bool same = out.size == n_expected && !memcmp(weft_text_get(&out), expected, n_expected);
    weft_text_release(&out);
    return same;
}

static void replay(const char *name)
{
    blob texts = unpack("texts"), want = unpack(name);
    opened o;
    open_golden(&o, name);
    int wrong = 0, n_texts = 0;
    for (unsigned flags = 0; flags <= TOKENIZER_NO_SPECIAL; flags++)
        for (texts.at = 0; texts.at < texts.n; n_texts++) {
            uint32_t n = take32(&texts);
            const char *text = take(&texts, n);
            encode(&o, text, n, flags);
            bool right = same_ids(&o, &want, take32(&want));
            if (!flags)
                right = same_text(&o, &want, text, n) && right;
            if (!right && wrong++ < 5)
                print_error("%s: differs in text %d: %.*s\n", name, n_texts, (int)n, text);
        }
    assert_int_equal(wrong, 0);
    assert_int_equal(want.at, want.n);
    assert_true(n_texts >= 2 * 1500);
    close_golden(&o);
    free(texts.data);
    free(want.data);
}

static void gpt2_is_exact(void **state)
{
    (void)state;
    replay("gpt2");
}

static void llama3_is_exact(void **state)
{
    (void)state;
    replay("llama3");
}

static void qwen_is_exact(void **state)
{
    (void)state;
    replay("qwen");
}

static void llama2_is_exact(void **state)
{
    (void)state;
    replay("llama2");
}

static void metaspace_is_exact(void **state)
{
    (void)state;
    replay("metaspace");
}

static void sequence_is_exact(void **state)
{
    (void)state;
    replay("sequence");
}

/* ---- which bytes come back ---- */

/* How many texts decode to themselves, without special tokens parsed; of those that do not, all
 * must have lost something known. */
static int count_changed(const char *name, int *n)
{
    blob texts = unpack("texts");
    opened o;
    open_golden(&o, name);
    int changed = 0;
    *n = 0;
    while (texts.at < texts.n) {
        uint32_t length = take32(&texts);
        const char *text = take(&texts, length);
        weft_text out = {0};
        encode(&o, text, length, TOKENIZER_NO_SPECIAL);
        bool added =
            false; /* added tokens that are not special are still parsed, and take blanks */
        for (size_t i = 0; i < o.n_ids; i++)
            added = added || o.t->tokens[o.ids[i]].added;
        assert_int_equal(tokenizer_decode_bytes(o.t, o.ids, o.n_ids, &out, &o.err), WEFT_OK);
        if (!added) {
            changed += out.size != length || memcmp(weft_text_get(&out), text, length) != 0;
            (*n)++;
        }
        weft_text_release(&out);
    }
    close_golden(&o);
    free(texts.data);
    return changed;
}

static void bytes_come_back_unless_a_step_loses_them(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        bool loses;
    } cases[] = {{"gpt2", false},
                 {"llama3", false},
                 {"qwen", true} /* NFC */,
                 {"llama2", true} /* a blank and U+2581 are one */,
                 {"metaspace", true},
                 {"sequence", true} /* NFKD, Lowercase, Strip, Replace; unknown characters */};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int n, changed = count_changed(cases[i].name, &n);
        assert_true(n > 300);
        assert_int_equal(changed > 0, cases[i].loses);
    }
}

/* ---- scanners ---- */

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static size_t random_text(uint64_t *state, char *out, size_t room)
{
    static const char *const parts[] = {
        "a",    "Z",        "th", "0",    "12",       " ",        "  ",       "\n",
        "\r\n", "\t",       "'s", "'LL",  "'",        ".",        "!?",       "\v",
        "_",    "ve",       "\f", "'r",   "\xC3\xA9", "\xC2\xA0", "\xC2\x85", "\xE2\x80\x83",
        "l",    "\xCC\x81", "'v", "\x1C", "\x7F",     "\xC5\xBF"};
    size_t n = 0, pieces = next_random(state) % 12;
    bool ascii = next_random(state) % 2;
    for (size_t i = 0; i < pieces; i++) {
        const char *part = parts[next_random(state) % (sizeof parts / sizeof *parts)];
        size_t length = strlen(part);
        if (n + length > room || (ascii && (unsigned char)part[0] >= 128))
            continue;
        memcpy(out + n, part, length);
        n += length;
    }
    return n;
}

static void scanners_find_what_pcre2_finds(void **state)
{
    (void)state;
    static const char *const expressions[] = {
        "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
        "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
        "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
        "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}+|\\p{N}{1,3}| "
        "?[^\\s\\p{L}\\p{N}]++[\\r\\n]*|\\s*[\\r\\n]|\\s+(?!\\S)|\\s+",
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| "
        "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"};
    uint64_t random = 7;
    pcre2_match_data *data = pcre2_match_data_create(1, NULL);
    for (size_t e = 0; e < sizeof expressions / sizeof *expressions; e++) {
        pattern p;
        weft_error err = {0};
        assert_int_equal(pattern_compile(&p, expressions[e], strlen(expressions[e]), false,
                                         WEFT_NOWHERE, "$", &err),
                         WEFT_OK);
        assert_non_null(p.scan);
        long known = 0, all = 0;
        for (int i = 0; i < 20000; i++) {
            char text[64];
            size_t n = random_text(&random, text, sizeof text);
            for (size_t at = 0; at < n;) {
                assert_int_equal(pcre2_match(p.code, (PCRE2_SPTR)text, n, at, 0, data, NULL), 1);
                const PCRE2_SIZE *match = pcre2_get_ovector_pointer(data);
                assert_int_equal(match[0], at);
                size_t end = p.scan(text, n, at);
                if (end)
                    assert_int_equal(end, match[1]);
                known += end != 0;
                all++;
                at = match[1];
            }
        }
        assert_true(known > all / 2);
        pattern_release(&p);
    }
    pcre2_match_data_free(data);
}

/* ---- long words ---- */

static void long_words_merge_in_order(void **state)
{
    (void)state;
    static const char json[] =
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"aa\":1,\"aaaa\":2,\"aaaaaaaa\":3},"
        "\"merges\":[\"a a\",[\"aa\",\"aa\"],\"aaaa aaaa\"]}}";
    enum { N = (1 << 20) + 7 };
    opened o = {0};
    char *text = malloc(N);
    assert_non_null(text);
    memset(text, 'a', N);
    assert_int_equal(tokenizer_parse("a.json", json, sizeof json - 1, &o.t, &o.err), WEFT_OK);
    assert_int_equal(tokenizer_scratch_create(o.t, &o.s, &o.err), WEFT_OK);
    encode(&o, text, N, 0);
    assert_int_equal(o.n_ids, (1 << 17) + 3);
    for (int i = 0; i < 1 << 17; i++)
        assert_int_equal(o.ids[i], 3);
    assert_int_equal(o.ids[1 << 17], 2);
    assert_int_equal(o.ids[(1 << 17) + 1], 1);
    assert_int_equal(o.ids[(1 << 17) + 2], 0);
    free(text);
    close_golden(&o);
}

/* ---- words, and text that is not text ---- */

static weft_status note_word(void *self, const char *word, size_t n, weft_error *err)
{
    (void)err;
    weft_text_add_bytes(self, word, n);
    weft_text_add(self, "|");
    return WEFT_OK;
}

static void gives_the_words_of_a_text(void **state)
{
    (void)state;
    opened o;
    weft_text words = {0};
    open_golden(&o, "llama3");
    static const char text[] = "It's 12345<|endoftext|> gr\xC3\xBC\xC3\x9F";
    assert_int_equal(tokenizer_words(o.t, o.s, text, sizeof text - 1, 0, note_word, &words, &o.err),
                     WEFT_OK);
    assert_string_equal(words.data, "It|'s| |123|45| gr\xC3\xBC\xC3\x9F|");
    weft_text_release(&words);
    close_golden(&o);
}

static void refuses_what_is_not_utf8(void **state)
{
    (void)state;
    opened o;
    open_golden(&o, "gpt2");
    encode(&o, "ab", 2, 0);
    size_t before = o.n_ids;
    assert_int_equal(
        tokenizer_encode(o.t, o.s, "ab\xFF", 3, 0, &o.ids, &o.n_ids, &o.capacity, &o.err),
        WEFT_ERR_INPUT);
    assert_int_equal(o.n_ids, before);
    assert_non_null(strstr(weft_error_text(&o.err), "at byte 2"));
    int32_t ids[] = {-1, 1 << 20};
    weft_text out = {0};
    for (int i = 0; i < 2; i++)
        assert_int_equal(tokenizer_decode(o.t, &ids[i], 1, &out, &o.err), WEFT_ERR_INPUT);
    weft_text_release(&out);
    close_golden(&o);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gpt2_is_exact),
        cmocka_unit_test(llama3_is_exact),
        cmocka_unit_test(qwen_is_exact),
        cmocka_unit_test(llama2_is_exact),
        cmocka_unit_test(metaspace_is_exact),
        cmocka_unit_test(sequence_is_exact),
        cmocka_unit_test(bytes_come_back_unless_a_step_loses_them),
        cmocka_unit_test(scanners_find_what_pcre2_finds),
        cmocka_unit_test(long_words_merge_in_order),
        cmocka_unit_test(gives_the_words_of_a_text),
        cmocka_unit_test(refuses_what_is_not_utf8),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
