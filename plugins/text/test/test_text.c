/* SPDX-License-Identifier: Apache-2.0 */
/* The tokenizer and the samples: round trips, packing, shuffling, validation. */
#include "text_run.h"

/* ---- tokenizer ---- */

static void encodes_and_decodes_all_text(void **state)
{
    (void)state;
    run r;
    assert_int_equal(run_create(&r, "path = x"),
                     WEFT_OK); /* usable before open: a plan needs the vocabulary */
    assert_int_equal(r.tokenizer->vocab_size(r.text), 258);
    assert_int_equal(r.tokenizer->bos(r.text), 256);
    assert_int_equal(r.tokenizer->eos(r.text), 257);
    const char text[] = "a\0b \xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80\n";
    size_t n = sizeof text - 1, n_ids = 0, capacity = 0;
    int32_t *ids = NULL;
    assert_int_equal(r.tokenizer->encode(r.text, text, 4, &ids, &n_ids, &capacity, &r.err),
                     WEFT_OK);
    assert_int_equal(r.tokenizer->encode(r.text, text + 4, n - 4, &ids, &n_ids, &capacity, &r.err),
                     WEFT_OK);
    assert_int_equal(n_ids, n);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(ids[i], (unsigned char)text[i]);
    weft_text out = {0};
    int32_t bos = 256;
    assert_int_equal(r.tokenizer->decode(r.text, &bos, 1, &out, &r.err), WEFT_OK);
    assert_int_equal(r.tokenizer->decode(r.text, ids, n_ids, &out, &r.err), WEFT_OK);
    assert_int_equal(out.size, n);
    assert_memory_equal(out.data, text, n);
    weft_text_release(&out);
    weft_free(ids);
    run_end(&r);
}

static void decodes_every_byte(void **state)
{
    (void)state;
    run r;
    assert_int_equal(run_create(&r, "path = x"), WEFT_OK);
    weft_text out = {0};
    for (int32_t id = 0; id < 256; id++) {
        assert_int_equal(r.tokenizer->decode(r.text, &id, 1, &out, &r.err), WEFT_OK);
        assert_int_equal(out.size, id + 1);
        assert_int_equal((unsigned char)out.data[id], id);
    }
    weft_text_release(&out);
    run_end(&r);
}

static void refuses_what_it_cannot_code(void **state)
{
    (void)state;
    run r;
    assert_int_equal(run_create(&r, "path = x\nbos = no\neos = no"), WEFT_OK);
    assert_int_equal(r.tokenizer->bos(r.text), -1);
    assert_int_equal(r.tokenizer->eos(r.text), -1);
    int32_t bad[] = {258, -1}, *ids = NULL;
    size_t n_ids = 0, capacity = 0;
    weft_text out = {0};
    for (int i = 0; i < 2; i++)
        assert_int_equal(r.tokenizer->decode(r.text, &bad[i], 1, &out, &r.err), WEFT_ERR_INPUT);
    assert_int_equal(r.tokenizer->encode(r.text, "ab\xFF", 3, &ids, &n_ids, &capacity, &r.err),
                     WEFT_ERR_INPUT);
    assert_int_equal(n_ids, 0);
    weft_text_release(&out);
    run_end(&r);
    assert_int_not_equal(run_create(&r, "path = x\ntokenizer = gpt2"), WEFT_OK);
    assert_contains(weft_error_text(&r.err), "run.ini:3");
    assert_contains(weft_error_text(&r.err), "gpt2");
    assert_contains(weft_error_text(&r.err), "bytes");
    run_end(&r);
}

/* ---- samples ---- */

enum { MAX_SEQ = 64 };

typedef struct buffers {
    int32_t ids[MAX_SEQ], labels[MAX_SEQ], positions[MAX_SEQ], segments[MAX_SEQ];
} buffers;

static void get(run *r, weft_split split, int64_t i, buffers *b)
{
    memset(b, 0x7f, sizeof *b);
    weft_sample out = {
        .ids = b->ids, .labels = b->labels, .positions = b->positions, .segments = b->segments};
    assert_int_equal(r->data->sample(r->text, split, i, &out, &r->err), WEFT_OK);
    for (int j = 0; j < r->text->seq_len; j++) {
        assert_int_equal(b->positions[j], j);
        assert_int_equal(b->segments[j], 0);
    }
}

/* Which token a sample starts at, for streams in which no two windows are equal. */
static int64_t find_start(const run *r, const buffers *b)
{
    const text_cache *cache = &r->text->sources[0].cache;
    int64_t tokens = r->text->sources[0].n_train, found = -1;
    for (int64_t at = 0; at < tokens; at++) {
        bool equal = true;
        for (int64_t j = 0; equal && j < r->text->seq_len; j++)
            equal = text_cache_token(cache, (at + j) % tokens) == b->ids[j] &&
                    text_cache_token(cache, (at + j + 1) % tokens) == b->labels[j];
        if (equal) {
            assert_int_equal(found, -1);
            found = at;
        }
    }
    assert_int_not_equal(found, -1);
    return found;
}

/* n pairs of bytes, no two of them equal. */
static void put_distinct(const char *path, int n)
{
    char data[1024];
    for (int i = 0; i < n; i++) {
        data[2 * i] = (char)('A' + i / 26);
        data[2 * i + 1] = (char)('a' + i % 26);
    }
    put_bytes(path, data, (size_t)(2 * n));
}

static void packs_in_order_without_shuffle(void **state)
{
    (void)state;
    put_distinct("a.txt", 150); /* 300 tokens */
    run r;
    run_start(&r, "path = a.txt\nbos = no\neos = no\nshuffle = no\nvalidation = 0");
    assert_int_equal(r.data->begin(r.text, 7, 42, &r.err), WEFT_OK);
    assert_int_equal(r.data->samples(r.text, WEFT_SPLIT_TRAIN), INT64_MAX);
    assert_int_equal(r.data->samples(r.text, WEFT_SPLIT_VALIDATION), 0);
    buffers b;
    for (int64_t i = 0; i < 300; i++) { /* 7 epochs, through all seams */
        get(&r, WEFT_SPLIT_TRAIN, i, &b);
        for (int64_t j = 0; j < 7; j++) {
            assert_int_equal(b.ids[j],
                             text_cache_token(&r.text->sources[0].cache, (i * 7 + j) % 300));
            assert_int_equal(b.labels[j],
                             text_cache_token(&r.text->sources[0].cache, (i * 7 + j + 1) % 300));
        }
    }
    run_end(&r);
}

/* Every window that starts in an epoch comes exactly once in it; 7 epochs of 300 tokens are 300
 * windows of 7, together every token 7 times as a label. */
static void shuffles_by_a_permutation_of_each_epoch(void **state)
{
    (void)state;
    put_distinct("a.txt", 150);
    run r;
    run_start(&r, "path = a.txt\nbos = no\neos = no\nvalidation = 0");
    assert_int_equal(r.data->begin(r.text, 7, 42, &r.err), WEFT_OK);
    int seen[300] = {0};
    int64_t order[300], places[300], i = 0;
    int moved = 0;
    for (int64_t epoch = 0; epoch < 7; epoch++) {
        int64_t first = (epoch * 300 + 6) / 7, end = ((epoch + 1) * 300 + 6) / 7;
        for (; i < end; i++) {
            buffers b;
            get(&r, WEFT_SPLIT_TRAIN, i, &b);
            order[i] = find_start(&r, &b);
            int64_t place = (order[i] - first * 7 % 300 + 300) % 300; /* in the epoch's grid */
            assert_int_equal(place % 7, 0);
            assert_true(place / 7 < end - first);
            places[i] = place / 7;
            moved += places[i] != i - first;
            seen[order[i]]++;
        }
        int same = 0;
        for (int64_t k = first; epoch > 0 && k < first + 42; k++)
            same += places[k] == places[k - 43];
        assert_true(same < 20); /* another epoch, another order */
    }
    assert_int_equal(i, 300);
    for (int at = 0; at < 300; at++)
        assert_int_equal(seen[at], 1); /* each start once: no window twice within an epoch */
    assert_true(moved > 250);

    buffers again;
    get(&r, WEFT_SPLIT_TRAIN, 123, &again); /* a function of i alone, in any order of asking */
    assert_int_equal(find_start(&r, &again), order[123]);
    assert_int_equal(r.data->begin(r.text, 7, 43, &r.err), WEFT_OK);
    int equal = 0;
    for (i = 0; i < 43; i++) {
        get(&r, WEFT_SPLIT_TRAIN, i, &again);
        equal += find_start(&r, &again) == order[i];
    }
    assert_true(equal < 20); /* another seed, another order */
    run_end(&r);
}

static void gives_samples_far_out(void **state)
{
    (void)state;
    put_distinct("a.txt", 150);
    run r;
    run_start(&r, "path = a.txt\nbos = no\neos = no\nvalidation = 0");
    assert_int_equal(r.data->begin(r.text, 7, 42, &r.err), WEFT_OK);
    buffers b;
    get(&r, WEFT_SPLIT_TRAIN, INT64_MAX - 1, &b);
    find_start(&r, &b);
    weft_sample out = {
        .ids = b.ids, .labels = b.labels, .positions = b.positions, .segments = b.segments};
    assert_int_equal(r.data->sample(r.text, WEFT_SPLIT_TRAIN, -1, &out, &r.err), WEFT_ERR_INTERNAL);
    run_end(&r);
}

/* Labels of all validation samples are the held-back tokens in order, each once; training sees none
 * of them. */
static void check_validation(run *r, int64_t seq_len, int64_t held)
{
    const text_cache *cache = &r->text->sources[0].cache;
    int64_t n = cache->n_tokens, next = n - held;
    assert_int_equal(r->data->begin(r->text, seq_len, 1, &r->err), WEFT_OK);
    int64_t samples = r->data->samples(r->text, WEFT_SPLIT_VALIDATION);
    assert_int_equal(samples, (held + seq_len - 1) / seq_len);
    buffers b;
    for (int64_t i = 0; i < samples; i++) {
        get(r, WEFT_SPLIT_VALIDATION, i, &b);
        for (int64_t j = 0; j < seq_len; j++) {
            if (next == n) {
                assert_int_equal(b.labels[j], -1);
                assert_int_equal(b.ids[j], 0);
                continue;
            }
            assert_int_equal(b.ids[j], text_cache_token(cache, next - 1));
            assert_int_equal(b.labels[j], text_cache_token(cache, next));
            next++;
        }
    }
    assert_int_equal(next, n);
    get(r, WEFT_SPLIT_VALIDATION, samples, &b); /* beyond: padding only */
    for (int64_t j = 0; j < seq_len; j++)
        assert_int_equal(b.labels[j], -1);
    for (int64_t i = 0; i < 2 * n / seq_len; i++) {
        get(r, WEFT_SPLIT_TRAIN, i, &b);
        assert_in_range(find_start(r, &b), 0, n - held - 1);
    }
}

static void validates_every_token_once(void **state)
{
    (void)state;
    put_distinct("a.txt", 150);
    run r;
    run_start(&r, "path = a.txt\nbos = no\neos = no\nvalidation = 0.1");
    check_validation(&r, 7, 30);  /* a padded last window */
    check_validation(&r, 10, 30); /* none padded */
    check_validation(&r, 64, 30); /* one window */
    check_validation(&r, 2, 30);
    run_end(&r);
    run_start(&r, "path = a.txt\nbos = no\neos = no\nvalidation = 0.5");
    check_validation(&r, 31, 150);
    run_end(&r);
}

static void says_when_there_is_too_little(void **state)
{
    (void)state;
    put("a.txt", "0123456789");
    run r;
    run_start(&r, "path = a.txt\nbos = no\neos = no\nvalidation = 0.2");
    buffers b;
    weft_sample out = {
        .ids = b.ids, .labels = b.labels, .positions = b.positions, .segments = b.segments};
    assert_int_equal(r.data->sample(r.text, WEFT_SPLIT_TRAIN, 0, &out, &r.err),
                     WEFT_ERR_INTERNAL); /* before begin */
    weft_error_clear(&r.err);
    assert_int_equal(r.data->begin(r.text, 8, 1, &r.err), WEFT_ERR_INPUT);
    assert_contains(weft_error_text(&r.err), "run.ini:2");
    assert_contains(weft_error_text(&r.err), "8 training tokens after holding back");
    assert_contains(weft_error_text(&r.err), "needs 9");
    assert_int_equal(r.data->begin(r.text, 7, 1, &r.err), WEFT_OK);
    run_end(&r);
}

static void describes_itself(void **state)
{
    (void)state;
    put_many("a.txt", 1234567);
    run r;
    run_start(&r, "path = a.txt");
    weft_text line = {0};
    r.data->describe(r.text, &line);
    assert_string_equal(weft_text_get(&line),
                        "1.2 MB text, 1 file, 1,234,569 tokens, 258 vocabulary, 5 % held back");
    weft_text_release(&line);
    run_end(&r);
    put("b.txt", "ab");
    run_start(&r, "path = b.txt\nvalidation = 0");
    r.data->describe(r.text, &line);
    assert_string_equal(weft_text_get(&line),
                        "2 bytes text, 1 file, 4 tokens, 258 vocabulary, nothing held back");
    weft_text_release(&line);
    run_end(&r);
}

static void fingerprints_contents_and_settings(void **state)
{
    (void)state;
    put("a.txt", "some words");
    put("b.txt", "some words");
    put("c.txt", "same words");
    uint64_t a = fingerprint_of("path = a.txt");
    assert_true(a == fingerprint_of("path = a.txt"));
    assert_true(a == fingerprint_of("path = b.txt")); /* elsewhere, later: the same data */
    assert_true(a != fingerprint_of("path = c.txt"));
    assert_true(a != fingerprint_of("path = a.txt b.txt"));
    assert_true(a != fingerprint_of("path = a.txt\nbos = no"));
    assert_true(a != fingerprint_of("path = a.txt\nshuffle = no"));
    assert_true(a != fingerprint_of("path = a.txt\nvalidation = 0.1"));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, scratch_enter, scratch_leave)
    const struct CMUnitTest tests[] = {
        TEST(encodes_and_decodes_all_text),
        TEST(decodes_every_byte),
        TEST(refuses_what_it_cannot_code),
        TEST(packs_in_order_without_shuffle),
        TEST(shuffles_by_a_permutation_of_each_epoch),
        TEST(gives_samples_far_out),
        TEST(validates_every_token_once),
        TEST(says_when_there_is_too_little),
        TEST(describes_itself),
        TEST(fingerprints_contents_and_settings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
