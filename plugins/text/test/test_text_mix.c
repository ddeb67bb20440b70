/* SPDX-License-Identifier: Apache-2.0 */
/* Several sources, validation files, documents kept apart. */
#include "text_run.h"

#define PLAIN "\nbos = no\neos = no\n"

enum { SEQ = 8, MAX = 64 };

typedef struct buffers {
    int32_t ids[MAX], labels[MAX], positions[MAX], segments[MAX];
} buffers;

static void get(run *r, weft_split split, int64_t i, buffers *b)
{
    memset(b, 0x7f, sizeof *b);
    weft_sample out = {
        .ids = b->ids, .labels = b->labels, .positions = b->positions, .segments = b->segments};
    assert_int_equal(r->data->sample(r->text, split, i, &out, &r->err), WEFT_OK);
}

/* n bytes `letter`, with a digit now and then. */
static void put_letter(const char *path, char letter, size_t n)
{
    char *text = malloc(n);
    assert_non_null(text);
    for (size_t i = 0; i < n; i++)
        text[i] = i % 10 == 9 ? (char)('0' + i / 10 % 10) : letter;
    put_bytes(path, text, n);
    free(text);
}

static void start(run *r, const char *ini, int64_t seq_len, uint64_t seed)
{
    run_start(r, ini);
    assert_int_equal(r->data->begin(r->text, seq_len, seed, &r->err), WEFT_OK);
}

/* ---- mix ---- */

static int source_of(const buffers *b)
{
    for (int j = 0; j < SEQ; j++)
        if (b->ids[j] >= 'a')
            return b->ids[j] - 'a';
    fail();
    return -1;
}

static void draws_by_weight(void **state)
{
    (void)state;
    put_letter("a.txt", 'a', 3000);
    put_letter("b.txt", 'b', 1000);
    put_letter("c.txt", 'c', 500);
    run r;
    start(&r, "mix = a.txt 7, b.txt 2,\n  c.txt 1" PLAIN, SEQ, 42);
    int64_t seen[3] = {0}, switches = 0;
    int last = 0;
    for (int64_t i = 0; i < 40960; i++) {
        buffers b;
        get(&r, WEFT_SPLIT_TRAIN, i, &b);
        int s = source_of(&b);
        seen[s]++;
        switches += s != last;
        last = s;
        const double shares[] = {0.7, 0.2, 0.1};
        if ((i + 1) % 4096 == 0) /* exact but for rounding after every block */
            for (int t = 0; t < 3; t++)
                assert_true((double)seen[t] - shares[t] * (double)(i + 1) < 3 &&
                            (double)seen[t] - shares[t] * (double)(i + 1) > -3);
        else if (i > 400)
            for (int t = 0; t < 3; t++)
                assert_true((double)seen[t] / (double)(i + 1) - shares[t] < 0.1 &&
                            (double)seen[t] / (double)(i + 1) - shares[t] > -0.1);
    }
    assert_true(switches > 10000); /* mingled, not one behind the other */
    run_end(&r);
}

/* Whatever the weights, samples of a source are its samples 0, 1, 2, ... each once. */
static void numbers_every_source_without_gaps(void **state)
{
    (void)state;
    const double weights[][5] = {{1, 1, 1, 1, 1},
                                 {1, 1e-6, 3, 0.001, 1e-9},
                                 {1e9, 1, 1e-9, 1e9, 1e9},
                                 {1, 0, 0, 0, 0},
                                 {0.3, 0.7, 0, 0, 0}};
    for (size_t w = 0; w < sizeof weights / sizeof *weights; w++) {
        text_source sources[5] = {0};
        text_mix mix;
        for (int s = 0; s < 5; s++)
            sources[s].weight = weights[w][s];
        text_mix_init(&mix, sources, 5);
        enum { BLOCKS = 5 };
        uint64_t count[5] = {0};
        static unsigned char taken[5][BLOCKS * TEXT_MIX_BLOCK];
        memset(taken, 0, sizeof taken);
        for (uint64_t i = 0; i < BLOCKS * TEXT_MIX_BLOCK; i++) {
            size_t s;
            uint64_t k;
            text_mix_place(&mix, 7, i, &s, &k);
            assert_true(s < mix.n);
            assert_true(k < BLOCKS * TEXT_MIX_BLOCK);
            assert_int_equal(taken[s][k]++, 0);
            count[s]++;
        }
        for (size_t s = 0; s < mix.n; s++)
            for (uint64_t k = 0; k < count[s]; k++)
                assert_int_equal(taken[s][k], 1);
        size_t s;
        uint64_t k;
        text_mix_place(&mix, 7, INT64_MAX, &s, &k); /* far out */
        assert_true(s < mix.n && k <= INT64_MAX);
    }
    text_source many[TEXT_SOURCES_MAX] = {0};
    for (int s = 0; s < TEXT_SOURCES_MAX; s++)
        many[s].weight = 1 + s % 2 * 1e-9;
    text_mix mix;
    text_mix_init(&mix, many, TEXT_SOURCES_MAX);
    uint64_t next[TEXT_SOURCES_MAX] = {0};
    for (uint64_t i = 0; i < 10 * TEXT_MIX_BLOCK; i++) {
        size_t s;
        uint64_t k;
        text_mix_place(&mix, 7, i, &s, &k);
        next[s] = k + 1 > next[s] ? k + 1 : next[s];
    }
    uint64_t sum = 0;
    for (int s = 0; s < TEXT_SOURCES_MAX; s++)
        sum += next[s];
    assert_int_equal(sum, 10 * TEXT_MIX_BLOCK);
}

/* A sample is a function of seed and i: whoever asks, in whatever order, however many threads made
 * the tokens. */
static void gives_equal_samples_to_all(void **state)
{
    (void)state;
    put_letter("a.txt", 'a', 3000);
    put_letter("b.txt", 'b', 2000);
    const char *ini = "mix = a.txt 0.6 b.txt 0.4\nreset = attention positions\nvalidation = 0.1";
    run r;
    start(&r, ini, SEQ, 42);
    enum { SAMPLES = 48 };
    static buffers all[SAMPLES];
    for (int i = 0; i < SAMPLES; i++)
        get(&r, WEFT_SPLIT_TRAIN, i, &all[i]);
    run_end(&r);
    for (int ranks = 1; ranks <= 8; ranks++)
        for (int rank = 0; rank < ranks; rank++) {
            start(&r, ini, SEQ, 42);
            for (int i = SAMPLES - 1; i >= 0; i--) {
                if (i % ranks != rank)
                    continue;
                buffers b;
                get(&r, WEFT_SPLIT_TRAIN, i, &b);
                assert_memory_equal(&b, &all[i], sizeof b);
            }
            run_end(&r);
        }
    start(&r, ini, SEQ, 43);
    int equal = 0;
    for (int i = 0; i < SAMPLES; i++) {
        buffers b;
        get(&r, WEFT_SPLIT_TRAIN, i, &b);
        equal += !memcmp(&b, &all[i], sizeof b);
    }
    assert_true(equal < SAMPLES / 4);
    run_end(&r);
}

/* Each source has an order of its own in each epoch: no two of them are shuffled alike. */
static void shuffles_every_source_by_itself(void **state)
{
    enum { SOURCES = 3, EPOCHS = 3, WINDOWS = 30, ORDERS = SOURCES * EPOCHS };
    static int order[ORDERS][WINDOWS]; /* -1: not seen */
    run r;
    (void)state;
    for (int s = 0; s < SOURCES; s++) { /* a window is its letter and its number, twice */
        char name[] = {(char)('a' + s), '.', 't', 'x', 't', 0}, text[WINDOWS * SEQ + 1];
        for (int w = 0; w < WINDOWS; w++)
            snprintf(text + w * SEQ, SEQ + 1, "%c%02d-%c%02d-", 'a' + s, w, 'a' + s, w);
        put(name, text);
    }
    memset(order, 0xff, sizeof order);
    start(&r, "mix = a.txt 1, b.txt 1, c.txt 1\nvalidation = 0" PLAIN, SEQ, 42);
    for (int64_t i = 0; i < 5 * (int64_t)TEXT_MIX_BLOCK; i++) {
        size_t s;
        uint64_t k;
        buffers b;
        text_mix_place(&r.text->mix, 42, (uint64_t)i, &s, &k);
        if (k >= EPOCHS * WINDOWS)
            continue;
        get(&r, WEFT_SPLIT_TRAIN, i, &b);
        assert_int_equal(b.ids[0], 'a' + (int)s);
        order[s * EPOCHS + k / WINDOWS][k % WINDOWS] = (b.ids[1] - '0') * 10 + b.ids[2] - '0';
    }
    for (int a = 0; a < ORDERS; a++) {
        unsigned seen = 0;
        for (int w = 0; w < WINDOWS; w++)
            seen |= order[a][w] < 0 ? 0 : 1u << order[a][w];
        assert_int_equal(seen, (1u << WINDOWS) - 1);
        for (int b = 0; b < a; b++) {
            int same = 0;
            for (int w = 0; w < WINDOWS; w++)
                same += order[a][w] == order[b][w];
            assert_true(same < WINDOWS / 3);
        }
    }
    run_end(&r);
}

/* Every source holds back its own last part; all of them are validated, each token once. */
static void validates_every_source(void **state)
{
    (void)state;
    put_letter("a.txt", 'a', 1000);
    put_letter("b.txt", 'b', 300);
    run r;
    start(&r, "mix = a.txt 0.5, b.txt 0.5\nvalidation = 0.1" PLAIN, SEQ, 1);
    int64_t labels[2] = {0}, n = r.data->samples(r.text, WEFT_SPLIT_VALIDATION);
    assert_int_equal(n, 13 + 4); /* 100 and 30 tokens */
    for (int64_t i = 0; i < n; i++) {
        buffers b;
        get(&r, WEFT_SPLIT_VALIDATION, i, &b);
        for (int j = 0; j < SEQ; j++)
            labels[i >= 13] += b.labels[j] >= 0;
        assert_int_equal(source_of(&b), i >= 13);
    }
    assert_int_equal(labels[0], 100);
    assert_int_equal(labels[1], 30);
    buffers b;
    get(&r, WEFT_SPLIT_VALIDATION, n, &b);
    for (int j = 0; j < SEQ; j++)
        assert_int_equal(b.labels[j], -1);
    run_end(&r);
}

static void validates_files_of_their_own(void **state)
{
    (void)state;
    put_letter("a.txt", 'a', 1000);
    put_letter("v.txt", 'v', 101);
    run r;
    start(&r, "path = a.txt\nvalidation_path = v.txt" PLAIN, SEQ, 1);
    assert_int_equal(r.text->sources[0].n_train, 1000); /* nothing is held back of it now */
    assert_int_equal(r.data->samples(r.text, WEFT_SPLIT_VALIDATION), 13);
    int64_t labels = 0;
    for (int64_t i = 0; i < 13; i++) {
        buffers b;
        get(&r, WEFT_SPLIT_VALIDATION, i, &b);
        for (int j = 0; j < SEQ && b.labels[j] >= 0; j++, labels++) {
            assert_int_equal(b.ids[j], text_cache_token(&r.text->sources[1].cache, labels));
            assert_int_equal(b.labels[j], text_cache_token(&r.text->sources[1].cache, labels + 1));
        }
    }
    assert_int_equal(labels, 100); /* the first token has none before it */
    for (int64_t i = 0; i < 300; i++) {
        buffers b;
        get(&r, WEFT_SPLIT_TRAIN, i, &b);
        assert_int_equal(source_of(&b), 0);
    }
    weft_text line = {0};
    r.data->describe(r.text, &line);
    assert_string_equal(weft_text_get(&line),
                        "1.1 kB text, 2 files, 1,101 tokens, 258 vocabulary, 9.17 % held back");
    weft_text_release(&line);
    run_end(&r);
}

static void refuses_wrong_mixes(void **state)
{
    (void)state;
    put_letter("a.txt", 'a', 1000);
    put_letter("b.txt", 'b', 5);
    refuse("mix = a.txt 0.5, b.txt", "no weight for b.txt");
    refuse("mix = a.txt", "no weight for a.txt");
    refuse("mix = 0.5 a.txt", "the weight 0.5 without files before it");
    refuse("mix = a.txt 0.5 0.5", "the weight 0.5 without files");
    refuse("mix = a.txt 0", "the weight 0; it should be more than 0");
    refuse("mix = a.txt -1", "the weight -1; it should");
    refuse("mix = a.txt 1e999", "it should be more than 0");
    refuse("shuffle = no", "path must be set");
    refuse("mix = a.txt 1 missing.txt 1", "run.ini:2");
    refuse("mix = a.txt 1 missing.txt 1", "missing.txt");
    run r;
    run_start(&r, "mix = a.txt 1 b.txt 1" PLAIN);
    assert_int_equal(r.data->begin(r.text, SEQ, 1, &r.err), WEFT_ERR_INPUT);
    assert_contains(weft_error_text(&r.err), "too little data in b.txt: 5 training tokens");
    run_end(&r);
    put("0.5", "a file of that name");
    run_start(&r, "mix = ./0.5 1" PLAIN);
    run_end(&r);
}

static void fingerprints_what_changes_samples(void **state)
{
    (void)state;
    put_letter("a.txt", 'a', 1000);
    put_letter("b.txt", 'b', 900);
    const char *const inis[] = {
        "path = a.txt b.txt",
        "mix = a.txt 1 b.txt 1",
        "mix = b.txt 1 a.txt 1",
        "mix = a.txt 1 b.txt 2",
        "path = a.txt b.txt\nreset = attention",
        "path = a.txt b.txt\nreset = positions",
        "path = a.txt b.txt\nreset = positions attention",
        "path = a.txt\nvalidation_path = b.txt",
        "path = a.txt b.txt\nvalidation = 0.2",
    };
    enum { KINDS = sizeof inis / sizeof *inis };
    uint64_t prints[KINDS];
    for (int i = 0; i < KINDS; i++) {
        prints[i] = fingerprint_of(inis[i]);
        assert_true(prints[i] == fingerprint_of(inis[i]));
        for (int j = 0; j < i; j++)
            assert_true(prints[i] != prints[j]);
    }
}

/* ---- documents ---- */

/* What segments and positions must be, found from BOS and from how many ids follow each other. */
static void check_documents(const run *r, const buffers *b, int64_t seq_len, bool attention,
                            bool positions)
{
    int32_t segment = 0, position = 0;
    (void)r;
    for (int64_t j = 0; j < seq_len; j++, position++) {
        if (b->labels[j] == -1) {
            assert_int_equal(b->segments[j], attention ? -1 : 0);
            continue;
        }
        if (j > 0 && b->ids[j] == 256) {
            segment++;
            position = 0;
        }
        assert_int_equal(b->segments[j], attention ? segment : 0);
        assert_int_equal(b->positions[j], positions ? position : j);
    }
}

static void keeps_documents_apart(void **state)
{
    (void)state;
    FILE *f = fopen("a.jsonl", "w");
    assert_non_null(f);
    for (int i = 0; i < 200; i++)
        fprintf(f, "{\"text\": \"%.*s\"}\n", i * 7 % 23, "abcdefghijklmnopqrstuvwxyz");
    assert_int_equal(fclose(f), 0);
    const char *const inis[] = {"", "reset = attention", "reset = positions",
                                "reset = attention positions"};
    for (int k = 0; k < 4; k++) {
        char ini[200];
        snprintf(ini, sizeof ini, "path = a.jsonl\neos = no\n%s", inis[k]);
        run r;
        for (int64_t seq_len = 1; seq_len <= MAX; seq_len = seq_len * 2 + 1) {
            start(&r, ini, seq_len, 3);
            buffers b;
            for (int64_t i = 0; i < 2 * r.text->sources[0].n_train / seq_len; i++) {
                get(&r, WEFT_SPLIT_TRAIN, i, &b);
                check_documents(&r, &b, seq_len, k & 1, k & 2);
            }
            int64_t n = r.data->samples(r.text, WEFT_SPLIT_VALIDATION);
            for (int64_t i = 0; i < n; i++) {
                get(&r, WEFT_SPLIT_VALIDATION, i, &b);
                check_documents(&r, &b, seq_len, k & 1, k & 2);
            }
            run_end(&r);
        }
    }
}

/* Without ids that mark them, too, and where the epoch begins again. */
static void keeps_unmarked_documents_apart(void **state)
{
    (void)state;
    put("a.jsonl", "{\"text\": \"aaaaa\"}\n{\"text\": \"bbb\"}\n{\"text\": \"cccc\"}\n");
    run r;
    start(&r, "path = a.jsonl\nreset = attention positions\nvalidation = 0\nshuffle = no" PLAIN, 5,
          3);
    const char *ids = "aaaaabbbcccc", *positions = "012340120123";
    int64_t segment = 0;
    for (int64_t i = 0; i < 24; i++) {
        buffers b;
        get(&r, WEFT_SPLIT_TRAIN, i, &b);
        segment = 0;
        int64_t begun = 0;
        for (int64_t j = 0; j < 5; j++) {
            int64_t at = (i * 5 + j) % 12;
            assert_int_equal(b.ids[j], ids[at]);
            if (j > 0 && positions[at] == '0') {
                segment++;
                begun = j;
            }
            assert_int_equal(b.segments[j], segment);
            assert_int_equal(b.positions[j], j - begun);
        }
    }
    run_end(&r);
    put("one.txt", "aaaaaaa"); /* one document: its second reading is another */
    start(&r, "path = one.txt\nreset = attention positions\nvalidation = 0\nshuffle = no" PLAIN, 5,
          3);
    buffers b;
    get(&r, WEFT_SPLIT_TRAIN, 1, &b);
    const int32_t segments[] = {0, 0, 1, 1, 1}, places[] = {0, 1, 0, 1, 2};
    assert_memory_equal(b.segments, segments, sizeof segments);
    assert_memory_equal(b.positions, places, sizeof places);
    run_end(&r);
}

/* 10^12 tokens: a sparse file stands for them; tokens near its end are those that are asked for. */
static void reaches_tokens_far_out(void **state)
{
    (void)state;
    const int64_t tokens = INT64_C(1000000000000);
    int fd = open("a.bin", O_RDWR | O_CREAT, 0666);
    assert_true(fd >= 0);
    if (ftruncate(fd, 2 * tokens)) { /* a file system of small files */
        close(fd);
        return;
    }
    assert_int_equal(pwrite(fd, "\1\0\2\0\3\0", 6, 2 * (tokens - 3)), 6);
    close(fd);
    run r;
    assert_int_equal(run_create(&r, "path = a.bin\nshuffle = no\nreset = attention positions"),
                     WEFT_OK);
    text_source *source = &r.text->sources[0];
    text_bin bin = {.path = "a.bin", .n_tokens = tokens, .width = 2};
    struct file {
        char page[TEXT_BLOCKS_AT];
        uint64_t offsets[3];
    } file = {.offsets = {0, (uint64_t)tokens - 2, (uint64_t)tokens}};
    uint64_t checked = 1;
    source->bins = (text_bins){.list = &bin, .n = 1, .vocab = 258};
    source->cache = (text_cache){.map = &file,
                                 .checked = &checked,
                                 .n_tokens = tokens,
                                 .n_documents = 2,
                                 .offsets = file.offsets};
    source->n_train = tokens;
    r.text->opened = true;
    assert_int_equal(r.data->begin(r.text, 10, 1, &r.err), WEFT_OK);
    buffers b;
    for (int64_t epoch = 0; epoch < 9000000; epoch += 999999) {
        get(&r, WEFT_SPLIT_TRAIN, tokens / 10 * (epoch + 1) - 1, &b);
        const int32_t last[] = {0, 0, 1, 2, 3}, places[] = {5, 6, 7, 0, 1};
        assert_memory_equal(b.ids + 5, last, sizeof last);
        assert_memory_equal(b.positions + 5, places, sizeof places);
        assert_int_equal(b.labels[9], 0); /* the first token again */
    }
    r.text->shuffle = true;
    for (int64_t i = 0; i < 1000; i++) {
        get(&r, WEFT_SPLIT_TRAIN, tokens / 10 * 7 + i * 99999, &b);
        assert_true(b.ids[0] <= 3);
    }
    source->bins = (text_bins){0};
    source->cache = (text_cache){0};
    run_end(&r);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, scratch_enter_memory, scratch_leave)
    const struct CMUnitTest tests[] = {
        TEST(draws_by_weight),
        TEST(numbers_every_source_without_gaps),
        TEST(gives_equal_samples_to_all),
        TEST(shuffles_every_source_by_itself),
        TEST(validates_every_source),
        TEST(validates_files_of_their_own),
        TEST(refuses_wrong_mixes),
        TEST(fingerprints_what_changes_samples),
        TEST(keeps_documents_apart),
        TEST(keeps_unmarked_documents_apart),
        TEST(reaches_tokens_far_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
