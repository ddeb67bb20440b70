/* SPDX-License-Identifier: Apache-2.0 */
/* Text part by part: logits do not depend on where a prompt was cut, caches are planned, and a full
 * context goes on. */
#include "../../lib/model_run.h"
#include "forecast/forecast.h"
#include "generate/generate.h"

#include <math.h>
#include <setjmp.h>
#include <string.h>
/* last: it needs the headers above */
#include <cmocka.h>

#define LLAMA                                                                                      \
    "[llama3]\ndim = 32\nn_layers = 2\nn_heads = 4\nn_kv_heads = 2\nffn_dim = 48\nvocab_size = "   \
    "50\n"
#define RUN                                                                                        \
    "threads = 1\ncheck = memory\n[train]\nsteps = 1\nseq_len = 8\n[sample]\nevery = "             \
    "0\ntemperature = 0\n"

enum { TOKENS = 150 };

static void start(model_run *m, const char *rest)
{
    model_run_start(m, "llama3 bold cpu adamw sample", rest);
}

static void make_ids(int32_t *ids)
{
    for (int i = 0; i < TOKENS; i++)
        ids[i] = (i * 7 + i * i / 3) % 50;
}

static double distance(const float *a, const float *b, int64_t n)
{
    double sum = 0, norm = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += pow((double)a[i] - (double)b[i], 2);
        norm += pow((double)a[i], 2);
    }
    return sqrt(sum / norm);
}

static void good(weft_status s, model_run *m)
{
    if (s)
        fail_msg("%s", weft_error_text(&m->err));
}

/* The prompt at once, in parts of 64, against one token after the other. */
static void parts_are_as_single_tokens(void **state)
{
    static const struct {
        const char *ini;
        double bound;
    } runs[] = {{RUN "context = 160\n" LLAMA, 1e-5},
                {RUN "context = 160\n[train]\ndtype = f64\n" LLAMA, 1e-12}};
    int32_t ids[TOKENS];
    const int32_t *prompt = ids;
    make_ids(ids);
    (void)state;
    for (size_t r = 0; r < sizeof runs / sizeof runs[0]; r++) {
        model_run m;
        weft_decoder parts, single;
        size_t n = TOKENS, one = 1;
        start(&m, runs[r].ini);
        good(weft_decoder_init(&parts, m.plan, m.run, m.run->step, &m.err), &m);
        good(weft_decoder_init(&single, m.plan, m.run, m.run->step, &m.err), &m);
        weft_decoder_start(&parts, &prompt, &n, 1);
        good(weft_decoder_run(&parts, &m.err), &m);
        weft_decoder_start(&single, &prompt, &one, 1);
        for (int i = 1; i < TOKENS; i++) {
            good(weft_decoder_run(&single, &m.err), &m);
            assert_true(i > 100 || distance(parts.logits, single.logits, parts.vocab) > 0.1);
            assert_true(weft_decoder_add(&single, ids + i));
        }
        good(weft_decoder_run(&single, &m.err), &m);
        double d = distance(parts.logits, single.logits, parts.vocab);
        if (!(d < runs[r].bound))
            fail_msg("logits are off by %g", d);
        weft_decoder_release(&parts);
        weft_decoder_release(&single);
        model_run_release(&m);
    }
}

static void caches_are_planned(void **state)
{
    model_run m;
    (void)state;
    start(&m, RUN "context = 160\n" LLAMA);
    /* keys and values of 2 layers: 1 text, 160 places, 2 heads of 8, f32 */
    assert_int_equal(m.plan->caches.n, 4);
    assert_int_equal(m.plan->caches.bytes, 4 * 160 * 2 * 8 * 4);
    for (int i = 0; i < m.plan->states.n; i++)
        assert_null(weft_states_find(&m.plan->caches, m.plan->states.list[i].name));
    weft_text text = {0};
    weft_plan_print(m.plan, true, &text);
    assert_non_null(strstr(weft_text_get(&text), "key-value cache"));
    assert_non_null(strstr(weft_text_get(&text), "decode.forward"));
    weft_text_release(&text);
    model_run_release(&m);
}

static void a_full_context_goes_on(void **state)
{
    int32_t ids[TOKENS];
    make_ids(ids);
    (void)state;
    model_run m;
    weft_decoder d;
    weft_continuation t;
    start(&m, RUN "context = 16\ntokens = 1000\n" LLAMA);
    good(weft_decoder_init(&d, m.plan, m.run, m.run->step, &m.err), &m);
    weft_generation slides = {.most = 40, .slides = true}, ends = {.most = 40};
    good(weft_continuation_init(&t, 0, ids, 30, &m.err), &m);
    good(weft_generate(&d, &slides, &t, 1, &m.err), &m);
    assert_int_equal(t.n, 70);
    assert_int_equal(t.ending, WEFT_ENDING_LENGTH);
    assert_int_equal(slides.tokens, 40);
    weft_continuation_release(&t);
    good(weft_continuation_init(&t, 0, ids, 5, &m.err), &m);
    good(weft_generate(&d, &ends, &t, 1, &m.err), &m);
    assert_int_equal(t.n, 16);
    assert_int_equal(t.ending, WEFT_ENDING_CONTEXT);
    /* the same text ends before a token that is an end */
    int32_t eos = t.ids[9];
    size_t first = 5;
    while (t.ids[first] != eos)
        first++;
    weft_continuation again;
    weft_generation stops = {.most = 40, .eos = &eos, .n_eos = 1};
    good(weft_continuation_init(&again, 0, ids, 5, &m.err), &m);
    good(weft_generate(&d, &stops, &again, 1, &m.err), &m);
    assert_int_equal(again.ending, WEFT_ENDING_EOS);
    assert_int_equal(again.n, first);
    weft_continuation_release(&again);
    weft_continuation_release(&t);
    weft_decoder_release(&d);
    model_run_release(&m);
}

static int32_t likeliest(const weft_decoder *d)
{
    int32_t best = 0;
    for (int32_t i = 1; i < d->vocab; i++)
        best = d->logits[i] > d->logits[best] ? i : best;
    return best;
}

/* A text that slides out of its caches goes on as one that begins with what is left of it: here
 * each token is chosen by a model that reads its whole window anew. */
static void what_slides_is_as_what_begins(void **state)
{
    enum { CONTEXT = 16, ADDED = 45, MOST = TOKENS + ADDED };
    static const size_t prompts[] = {1, 5, 15, 16, 17, 30};
    int32_t ids[TOKENS];
    model_run m;
    weft_decoder d, fresh;
    (void)state;
    make_ids(ids);
    start(&m, RUN "context = 16\ntokens = 1000\n" LLAMA);
    good(weft_decoder_init(&d, m.plan, m.run, m.run->step, &m.err), &m);
    for (size_t i = 0; i < sizeof prompts / sizeof prompts[0]; i++) {
        weft_continuation t;
        weft_generation slides = {.most = ADDED, .slides = true};
        int32_t want[MOST];
        size_t n = prompts[i], from = n > CONTEXT ? n - CONTEXT : 0;
        memcpy(want, ids, n * sizeof *ids);
        while (n < prompts[i] + ADDED) {
            const int32_t *window = want + from;
            size_t size = n - from;
            good(weft_decoder_init(&fresh, m.plan, m.run, m.run->step, &m.err), &m);
            weft_decoder_start(&fresh, &window, &size, 1);
            good(weft_decoder_run(&fresh, &m.err), &m);
            want[n++] = likeliest(&fresh);
            weft_decoder_release(&fresh);
            from = size == CONTEXT ? n - CONTEXT / 2 : from;
        }
        good(weft_continuation_init(&t, 0, ids, prompts[i], &m.err), &m);
        good(weft_generate(&d, &slides, &t, 1, &m.err), &m);
        assert_int_equal(t.n, n);
        assert_memory_equal(t.ids, want, n * sizeof *want);
        weft_continuation_release(&t);
    }
    weft_decoder_release(&d);
    model_run_release(&m);
}

/* ---- as text ---- */

static int no_bos(void *self)
{
    (void)self;
    return -1;
}

/* An id is a byte. */
static weft_status decode_bytes(void *self, const int32_t *ids, size_t n, weft_text *text,
                                weft_error *err)
{
    (void)self, (void)err;
    for (size_t i = 0; i < n; i++)
        weft_text_add_bytes(text, &(char){(char)ids[i]}, 1);
    return WEFT_OK;
}

/* What is added begins with a whole character, even where what was there before ended within one,
 * and what stands for that begins as the whole one does (U+FFFD and U+FFFC). */
static void what_is_added_is_whole_characters(void **state)
{
    static const struct {
        const char *prompt, *rest, *added;
    } cases[] = {
        {"ab", "cd", "cd"},
        {"a\xC3", "\xA9z", "\xC3\xA9z"},
        {"a\xEF\xBF", "\xBC", "\xEF\xBF\xBC"},
        {"\xEF\xBF", "\xBC", "\xEF\xBF\xBC"},
        {"\xC3\xA9", "\xC3\xA8", "\xC3\xA8"},
    };
    static const weft_tokenizer table = {
        .size = sizeof table, .bos = no_bos, .eos = no_bos, .decode = decode_bytes};
    const weft_run_tokenizer tokenizer = {.table = &table};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weft_text before = {0}, after = {0};
        weft_error err = {0};
        int32_t ids[16];
        size_t n_prompt = strlen(cases[i].prompt), n = n_prompt + strlen(cases[i].rest);
        for (size_t k = 0; k < n; k++)
            ids[k] =
                (unsigned char)(k < n_prompt ? cases[i].prompt[k] : cases[i].rest[k - n_prompt]);
        const weft_continuation t = {.ids = ids, .n = n, .n_prompt = n_prompt};
        assert_int_equal(weft_continuation_decode(&t, &tokenizer, &before, &after, &err), WEFT_OK);
        assert_string_equal(weft_text_get(&after), cases[i].added);
        weft_text_release(&before);
        weft_text_release(&after);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parts_are_as_single_tokens),
        cmocka_unit_test(caches_are_planned),
        cmocka_unit_test(a_full_context_goes_on),
        cmocka_unit_test(what_slides_is_as_what_begins),
        cmocka_unit_test(what_is_added_is_whole_characters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
