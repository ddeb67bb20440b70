/* SPDX-License-Identifier: Apache-2.0 */
/* tokenizer.json as input: everything wrong is named with its JSON path, and no bytes do harm; and
 * the tokenizer of a run, with its BOS and EOS. */
#include "text_run.h"

#include "../tokenizer/engine.h"

static char *golden; /* one tokenizer.json, in memory */
static size_t n_golden;

/* ---- what is wrong is named ---- */

#define MODEL                                                                                      \
    "\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"ab\":2},\"merges\":[\"a b\"]}"

static void expect(const char *json, const char *const *parts)
{
    tokenizer *t;
    weft_error err = {0};
    assert_int_equal(tokenizer_parse("x.json", json, strlen(json), &t, &err), WEFT_ERR_INPUT);
    assert_null(t);
    for (int i = 0; parts[i]; i++) {
        bool found = false;
        for (int k = 0; k < err.n_items; k++)
            found = found || strstr(err.items[k].text, parts[i]);
        if (!found)
            print_error("%s: no error says \"%s\"; the first says \"%s\"\n", json, parts[i],
                        weft_error_text(&err));
        assert_true(found);
    }
    assert_non_null(strstr(weft_error_text(&err), "x.json"));
    weft_error_release(&err);
}

#define EXPECT(json, ...) expect(json, (const char *const[]){__VA_ARGS__, NULL})

static void names_unknown_components(void **state)
{
    (void)state;
    EXPECT("{\"normalizer\":{\"type\":\"BertNormalizer\"}," MODEL "}", "$.normalizer.type",
           "BertNormalizer");
    EXPECT("{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":"
           "\"Nmt\"}]}," MODEL "}",
           "$.normalizer.normalizers[1].type", "Nmt");
    EXPECT("{\"pre_tokenizer\":{\"type\":\"Whitespace\"}," MODEL "}", "$.pre_tokenizer.type",
           "Whitespace");
    EXPECT("{\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\"}," MODEL "}", "$.decoder.type",
           "WordPiece");
    EXPECT("{\"model\":{\"type\":\"Unigram\",\"vocab\":[]}}", "$.model.type", "Unigram");
    EXPECT("{\"truncate\":1," MODEL "}", "$.truncate");
    EXPECT("{\"normalizer\":{\"type\":\"NFC\",\"extra\":1}," MODEL "}", "$.normalizer.extra");
}

static void names_everything_wrong_at_once(void **state)
{
    (void)state;
    EXPECT("{\"version\":\"2.0\",\"normalizer\":{\"type\":\"Strip\",\"strip_left\":1},\"pre_"
           "tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":"
           "\"(?<n>a)\"},\"behavior\":\"Sideways\",\"invert\":false},\"decoder\":{\"type\":"
           "\"Strip\",\"content\":\"xy\",\"start\":-1,\"stop\":0}," MODEL "}",
           "$.version", "$.normalizer.strip_left", "$.normalizer.strip_right",
           "$.pre_tokenizer.pattern.Regex", "$.pre_tokenizer.behavior", "$.decoder.content",
           "$.decoder.start");
    EXPECT("{\"model\":{\"type\":\"BPE\",\"dropout\":0.1,\"unk_token\":\"u\",\"end_of_word_"
           "suffix\":\"</w>\",\"vocab\":{\"a\":0,\"b\":1},\"merges\":["
           "\"a b\",\"a c\",\"abc\",[\"a\"],7]}}",
           "$.model.dropout", "$.model.end_of_word_suffix");
    EXPECT("{\"model\":{\"type\":\"BPE\",\"unk_token\":\"u\",\"vocab\":{\"a\":0,\"b\":1},"
           "\"merges\":[\"a b\",\"a c\",\"abc\",[\"a\"],7]}}",
           "$.model.unk_token", "$.model.merges[0]", "$.model.merges[1]", "$.model.merges[2]",
           "$.model.merges[3]", "$.model.merges[4]");
    EXPECT("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}}",
           "the same id");
    EXPECT("{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1},\"merges\":[]}}", "$.model.vocab");
    EXPECT("[1]", "$: must be");
    EXPECT("{\"model\":", "not JSON");
}

static void names_wrong_added_tokens(void **state)
{
    (void)state;
#define ADDED(id, content)                                                                         \
    "{\"id\":" id ",\"content\":\"" content                                                        \
    "\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,\"normalized\":false,\"special\":" \
    "true}"
    EXPECT("{\"added_tokens\":[" ADDED("3", "<s>") "," ADDED("9", "</s>") "]," MODEL "}",
           "$.added_tokens[1].id", "is 9", "id 4");
    EXPECT("{\"added_tokens\":[" ADDED("3", "<s>") "," ADDED("3", "<s>") "]," MODEL "}",
           "$.added_tokens[1]");
    EXPECT("{\"added_tokens\":[" ADDED("3", "") ",{\"id\":3}]," MODEL "}",
           "$.added_tokens[0].content", "$.added_tokens[1].content", "$.added_tokens[1].special");
}

static void refuses_expressions_that_mean_something_else(void **state)
{
    (void)state;
    static const char *const wrong[] = {
        "(?<name>a)",  "\\h+",        "[a&&b]",      "[a[b]]", "a(?i)b", "(?i:ss)",
        "\\1",         "[\\P{L}]",    "\\p{Greek}",  "a{2}+",  "(a",     "a)",
        "[a",          "\\",          "*a",          "a**",    "(?x) a", "(?i:\xC3\xA9)",
        "[[:alpha:]]", "\\K",         "\\x{110000}", "\\p{L",  "(?R)",   "(*UCP)",
        "\\xFF",       "(?i:\\p{Lu})"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        pattern p;
        weft_error err = {0};
        weft_status status =
            pattern_compile(&p, wrong[i], strlen(wrong[i]), false, WEFT_NOWHERE, "$.here", &err);
        if (!status)
            print_error("%s is taken\n", wrong[i]);
        assert_int_equal(status, WEFT_ERR_INPUT);
        assert_non_null(strstr(weft_error_text(&err), "$.here"));
        pattern_release(&p);
        weft_error_release(&err);
    }
}

/* ---- no bytes do harm ---- */

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return *state >> 33;
}

static size_t change(uint64_t *random, char *json, size_t n)
{
    static const char *const words[] = {"true", "null",        "0",          "\"\"",
                                        "{}",   "[]",          "\"Regex\"",  "\"String\"",
                                        "-1",   "99999999999", "\"\\u0000\""};
    static const char *const found[] = {
        "true",  "false",   "null", "\"Isolated\"", "\"ByteLevel\"", "\"id\"",
        "\"a\"", "\"\\\\p", "1",    "\"e"};
    size_t times = 1 + next_random(random) % 3;
    for (size_t i = 0; i < times; i++) {
        size_t at = next_random(random) % n;
        const char *what = found[next_random(random) % (sizeof found / sizeof *found)],
                   *with = words[next_random(random) % (sizeof words / sizeof *words)];
        char *place = memmem(json + at, n - at, what, strlen(what));
        size_t length = strlen(with), old = strlen(what);
        if (next_random(random) % 4 == 0)
            json[at] = (char)next_random(random);
        else if (place && length <= old) { /* the rest becomes blanks */
            memset(place, ' ', old);
            memcpy(place, with, length);
        } else if (place && n > 64)
            memmove(place, place + 1, (size_t)(json + n - place) - 1), n--;
    }
    return n;
}

static void use(tokenizer *t, uint64_t *random)
{
    tokenizer_scratch *s;
    weft_error err = {0};
    assert_int_equal(tokenizer_scratch_create(t, &s, &err), WEFT_OK);
    int32_t *ids = NULL;
    size_t n_ids = 0, capacity = 0;
    char text[80];
    for (int i = 0; i < 4; i++) {
        size_t n = next_random(random) % sizeof text;
        for (size_t k = 0; k < n; k++)
            text[k] =
                "the <s> 0'A\n\xC3\xA9\xE2\x96\x81\xF0\x9F\x98\x80\xCC\x81"[next_random(random) %
                                                                            23];
        if (i == 0) {
            memcpy(text, "Hello <s>  there 12\xC3\xA9", 22);
            n = 22;
        }
        tokenizer_encode(t, s, text, n, i & 1, &ids, &n_ids, &capacity, &err);
    }
    weft_text out = {0};
    tokenizer_decode(t, ids, n_ids, &out, &err);
    for (size_t i = 0; i < n_ids; i++)
        assert_in_range(ids[i], 0, tokenizer_vocab_size(t) - 1);
    weft_text_release(&out);
    weft_free(ids);
    tokenizer_scratch_destroy(s);
    weft_error_release(&err);
}

static void survives_changed_files(void **state)
{
    (void)state;
    uint64_t random = 3;
    int good = 0, bad = 0;
    char *json = malloc(n_golden);
    assert_non_null(json);
    for (int i = 0; i < 250; i++) {
        memcpy(json, golden, n_golden);
        size_t n = change(&random, json, n_golden);
        tokenizer *t;
        weft_error err = {0};
        weft_status status = tokenizer_parse("x.json", json, n, &t, &err);
        assert_int_equal(status == WEFT_OK, t != NULL);
        assert_int_equal(status == WEFT_OK, err.n_items == 0);
        if (t)
            use(t, &random);
        good += t != NULL;
        bad += t == NULL;
        tokenizer_destroy(t);
        weft_error_release(&err);
    }
    free(json);
    assert_true(good > 5 && bad > 5);
}

static void survives_every_failed_allocation(void **state)
{
    (void)state;
    static const char json[] =
        "{\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"NFC\"},{\"type\":"
        "\"Replace\",\"pattern\":{\"String\":\"q\"},\"content\":"
        "\"b\"},{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"x+|yyyyyyyyyyyyyyyyyyyyyyyyyy\"},"
        "\"content\":\"\"}]},\"added_tokens\":[{\"id\":3,"
        "\"content\":\"<q>\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
        "\"normalized\":true,\"special\":true}],"
        "\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":true}"
        ","
        "\"decoder\":{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":true}"
        "," MODEL "}";
    long failures = 0;
    for (long n = 1;; n++) {
        tokenizer *t = NULL;
        tokenizer_scratch *s = NULL;
        int32_t *ids = NULL;
        size_t n_ids = 0, capacity = 0;
        weft_text out = {0};
        weft_error err = {0};
        weft_alloc_fail_at(n);
        weft_status status = tokenizer_parse("x.json", json, sizeof json - 1, &t, &err);
        status = status ? status : tokenizer_scratch_create(t, &s, &err);
        status = status ? status
                        : tokenizer_encode(t, s, "ab ae\xCC\x81 ba", 10, 0, &ids, &n_ids, &capacity,
                                           &err);
        status = status ? status : tokenizer_decode(t, ids, n_ids, &out, &err);
        bool done = weft_alloc_count() < n;
        weft_alloc_fail_at(0);
        assert_int_equal(status, done ? WEFT_OK : WEFT_ERR_MEMORY);
        tokenizer_scratch_destroy(s);
        tokenizer_destroy(t);
        weft_text_release(&out);
        weft_free(ids);
        weft_error_release(&err);
        if (done)
            break;
        failures++;
    }
    assert_true(failures > 10);
}

/* ---- the tokenizer of a run ---- */

static void takes_bos_and_eos_from_the_config(void **state)
{
    (void)state;
    run r;
    put_bytes("tokenizer.json", golden, n_golden);
    put("a.txt", "the <s> and");
    refuse("path = a.txt\ntokenizer = tokenizer.json", "which token is bos");
    put("tokenizer_config.json",
        "{\"bos_token\": null, \"eos_token\": {\"content\": \"<|endoftext|>\"}}");
    run_start(&r, "path = a.txt\ntokenizer = tokenizer.json");
    assert_int_equal(r.tokenizer->bos(r.text), -1);
    int eos = r.tokenizer->eos(r.text);
    assert_true(eos >= 0);
    assert_true(r.tokenizer->vocab_size(r.text) > 1000);
    assert_string_equal(r.tokenizer->files(r.text)[1], "tokenizer_config.json");
    run_end(&r);
    run_start(&r, "path = a.txt\ntokenizer = tokenizer.json\nbos = <s>\neos = no");
    int bos = r.tokenizer->bos(r.text);
    assert_true(bos >= 0);
    assert_int_equal(r.tokenizer->eos(r.text), -1);
    int32_t *ids = NULL;
    size_t n = 0, capacity = 0;
    assert_int_equal(r.tokenizer->encode(r.text, "<s>", 3, &ids, &n, &capacity, &r.err), WEFT_OK);
    assert_int_equal(n, 1);
    assert_int_equal(ids[0], bos);
    weft_text out = {0};
    assert_int_equal(r.tokenizer->decode(r.text, ids, n, &out, &r.err), WEFT_OK);
    assert_string_equal(weft_text_get(&out), "<s>");
    weft_text_release(&out);
    weft_free(ids);
    run_end(&r);
    refuse("path = a.txt\ntokenizer = tokenizer.json\nbos = <nope>", "no such token");
    refuse("path = a.txt\ntokenizer = nowhere.json", "no such file");
    run_start(&r, "path = a.txt\ntokenizer = .\nbos = no\neos = no");
    assert_string_equal(r.tokenizer->files(r.text)[0], "./tokenizer.json");
    run_end(&r);
    put("tokenizer_config.json", "{\"bos_token\": 5}");
    refuse("path = a.txt\ntokenizer = tokenizer.json", "$.bos_token");
}

/* ---- */

static bool read_golden(void)
{
    const char *source = getenv("srcdir");
    weft_error err = {0};
    char *path = weft_format("%s/plugins/text/test/golden/llama3.json", source ? source : ".");
    bool read = path && !weft_read_file(path, &golden, &n_golden, &err);
    weft_error_release(&err);
    weft_free(path);
    return read;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_unknown_components),
        cmocka_unit_test(names_everything_wrong_at_once),
        cmocka_unit_test(names_wrong_added_tokens),
        cmocka_unit_test(refuses_expressions_that_mean_something_else),
        cmocka_unit_test(survives_changed_files),
        cmocka_unit_test(survives_every_failed_allocation),
        cmocka_unit_test_setup_teardown(takes_bos_and_eos_from_the_config, scratch_enter,
                                        scratch_leave),
    };
    if (!read_golden())
        return 99;
    int rc = cmocka_run_group_tests(tests, NULL, NULL);
    weft_free(golden);
    return rc;
}
