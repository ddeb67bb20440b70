/* SPDX-License-Identifier: Apache-2.0 */
/* What tokens are made from: each part of it makes another token file and another fingerprint, and
 * no run gets tokens that other settings made. */
#include "text_run.h"

static char path_a[] = "/a", path_b[] = "/b", path_c[] = "/c", bytes_name[] = "bytes",
            other_name[] = "others";

/* All that tokens depend on. */
typedef struct world {
    text_tokenizer tokenizer;
    text_file list[2];
    text_source sources[2];
    text_plugin text;
} world;

static void make_world(world *w)
{
    *w = (world){
        .tokenizer = {.name = bytes_name, .vocab_size = 258, .bos = 256, .eos = 257},
        .list = {{.path = path_a, .kind = TEXT_BIN, .size = 10, .hash = 1},
                 {.path = path_b, .kind = TEXT_INDEX, .size = 20, .hash = 2}},
        .sources = {{.weight = 1, .n_train = 100}, {.weight = 2, .n_train = 200}},
        .text = {.field = "text", .bin_width = 2, .n_sources = 2},
    };
    w->text.tokenizer = &w->tokenizer;
    w->text.sources = w->sources;
    w->sources[0].files = (text_files){.list = w->list, .n = 2};
}

/* One thing that is otherwise. `tokens`: other tokens, so another token file; `samples`: other
 * samples, so another fingerprint. */
typedef struct change {
    const char *name;
    void (*make)(world *w);
    bool tokens, samples;
} change;

#define CHANGE(name, what)                                                                         \
    static void name(world *w)                                                                     \
    {                                                                                              \
        what;                                                                                      \
    }
CHANGE(another_tokenizer, w->tokenizer.name = other_name)
CHANGE(another_vocabulary, w->tokenizer.vocab_size++)
CHANGE(another_bos, w->tokenizer.bos++)
CHANGE(another_eos, w->tokenizer.eos++)
CHANGE(with_bos, w->text.bos = true)
CHANGE(with_eos, w->text.eos = true)
CHANGE(skip_bad, w->text.skip_bad = true)
CHANGE(repair_utf8, w->text.repair_utf8 = true)
CHANGE(another_field, w->text.field = "body")
CHANGE(another_width, w->text.bin_width = 4)
CHANGE(another_kind, w->list[1].kind = TEXT_PLAIN)
CHANGE(another_path, w->list[1].path = path_c)
CHANGE(one_file, w->sources[0].files.n = 1)
CHANGE(shuffle, w->text.shuffle = true)
CHANGE(reset_attention, w->text.reset_attention = true)
CHANGE(reset_positions, w->text.reset_positions = true)
CHANGE(another_weight, w->sources[1].weight = 3)
CHANGE(another_part, w->sources[1].n_train = 201)
CHANGE(one_source, w->text.n_sources = 1)
CHANGE(another_size, w->list[1].size++)
CHANGE(another_text, w->list[1].hash++)
CHANGE(nothing, (void)w)

static const change changes[] = {
    {"the tokenizer's name", another_tokenizer, true, true},
    {"the vocabulary", another_vocabulary, true, true},
    {"the tokenizer's BOS", another_bos, true, true},
    {"the tokenizer's EOS", another_eos, true, true},
    {"bos", with_bos, true, true},
    {"eos", with_eos, true, true},
    {"on_bad", skip_bad, true, true},
    {"invalid_utf8", repair_utf8, true, true},
    {"field", another_field, true, true},
    {"bin_dtype", another_width, true, true},
    {"a file's kind", another_kind, true, true},
    {"a file's path", another_path, true, false},
    {"the files", one_file, true, true},
    {"shuffle", shuffle, false, true},
    {"reset = attention", reset_attention, false, true},
    {"reset = positions", reset_positions, false, true},
    {"a weight", another_weight, false, true},
    {"what is held back", another_part, false, true},
    {"the sources", one_source, false, true},
    {"a file's size", another_size, false, true},
    {"a file's contents", another_text, false, true},
    {"nothing", nothing, false, false},
};
enum { CHANGES = sizeof changes / sizeof *changes };

static void get(int i, weft_text *identity, uint64_t *fingerprint)
{
    world w;
    weft_error err = {0};
    make_world(&w);
    changes[i].make(&w);
    assert_int_equal(text_identity(&w.text, &w.sources[0].files, identity, &err), WEFT_OK);
    *fingerprint = text_fingerprint(&w.text);
}

static bool same(const weft_text *a, const weft_text *b)
{
    return a->size == b->size && !memcmp(a->data, b->data, a->size);
}

static void every_part_tells(void **state)
{
    weft_text identity[CHANGES] = {{0}};
    uint64_t fingerprint[CHANGES];
    (void)state;
    for (int i = 0; i < CHANGES; i++)
        get(i, &identity[i], &fingerprint[i]);
    for (int i = 0; i < CHANGES; i++)
        for (int k = 0; k < i; k++) {
            const change *a = &changes[i], *b = &changes[k];
            if (same(&identity[i], &identity[k]) != (!a->tokens && !b->tokens))
                fail_msg("%s, or %s: token files of one name", a->name, b->name);
            if ((fingerprint[i] == fingerprint[k]) != (!a->samples && !b->samples))
                fail_msg("%s, or %s: one fingerprint", a->name, b->name);
        }
    for (int i = 0; i < CHANGES; i++)
        weft_text_release(&identity[i]);
}

/* ---- whole runs: what the first one leaves, the second must not take for its own ---- */

/* What a run says, and its ids. */
typedef struct result {
    weft_status status;
    int64_t n;
    int32_t ids[64];
} result;

static result result_of(const char *ini, const char *cache)
{
    char all[300];
    run r;
    result x = {0};
    snprintf(all, sizeof all, "%s\ncache = %s\nvalidation = 0", ini, cache);
    x.status = run_open(&r, all);
    if (!x.status) {
        x.n = r.text->sources[0].cache.n_tokens;
        assert_in_range(x.n, 1, 64);
        assert_int_equal(text_source_read(&r.text->sources[0], 0, x.n, x.ids, &r.err), WEFT_OK);
    }
    run_end(&r);
    return x;
}

static void no_run_gets_the_tokens_of_another(void **state)
{
    static const char *const pairs[][2] = {
        {"path = bad.txt\ninvalid_utf8 = replace", "path = bad.txt"},
        {"path = bad.jsonl\non_bad = skip", "path = bad.jsonl"},
        {"path = bad.txt good.txt\non_bad = skip",
         "path = bad.txt good.txt\non_bad = skip\ninvalid_utf8 = replace"},
        {"path = good.txt\nbos = no", "path = good.txt"},
        {"path = good.txt\neos = no", "path = good.txt"},
        {"path = good.txt\neos = no", "path = good.txt\nbos = no"},
        {"path = two.jsonl", "path = two.jsonl\nfield = body"},
        {"path = two.jsonl", "path = two.jsonl\nformat = text"},
        {"path = ids.bin\nbin_dtype = uint16", "path = ids.bin\nbin_dtype = uint32"},
        {"path = good.txt bad.txt\ninvalid_utf8 = replace",
         "path = bad.txt good.txt\ninvalid_utf8 = replace"},
    };
    (void)state;
    put("good.txt", "good");
    put("bad.txt", "b\xFF"
                   "d");
    put("bad.jsonl", "{\"text\": \"one\"}\nbad\n");
    put("two.jsonl", "{\"text\": \"one\", \"body\": \"another\"}\n");
    put_bytes("ids.bin", "\1\0\0\0\2\0\0\0\3\0\0\0\4\0\0\0", 16);
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        for (int turn = 0; turn < 2; turn++) {
            const char *first = pairs[i][turn], *second = pairs[i][!turn];
            char shared[40], fresh[40];
            snprintf(shared, sizeof shared, "shared/%zu-%d", i, turn);
            snprintf(fresh, sizeof fresh, "fresh/%zu-%d", i, turn);
            const result before = result_of(first, shared), got = result_of(second, shared),
                         want = result_of(second, fresh);
            assert_memory_not_equal(&before, &want, sizeof want); /* or this pair shows nothing */
            if (memcmp(&got, &want, sizeof want) != 0)
                fail_msg("behind [%s], [%s] gets other tokens than alone", first, second);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_part_tells),
        cmocka_unit_test_setup_teardown(no_run_gets_the_tokens_of_another, scratch_enter_memory,
                                        scratch_leave),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
