/* SPDX-License-Identifier: Apache-2.0 */
/* Choices from known distributions, and the service as the loop uses it, with a tokenizer of one id
 * a byte. */
#include "../sample.h"
#include "console/settings.h"
#include "tests/lib/created.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

extern const weft_plugin sample_LTX_plugin;

enum { N = 4, DRAWS = 20000 };

/* ---- choices ---- */

/* Probabilities 0.4, 0.1, 0.3, 0.2 at temperature 1, up to a constant that does not matter. */
static const double probability[N] = {0.4, 0.1, 0.3, 0.2};

static void fill(float *logits)
{
    for (int i = 0; i < N; i++)
        logits[i] = (float)(log(probability[i]) + 3);
}

/* The share of u in (0, 1) that falls on each id. */
static void shares(const sample_how *how, double *share)
{
    float logits[N];
    sample_candidate scratch[N];
    fill(logits);
    memset(share, 0, N * sizeof *share);
    for (int i = 0; i < DRAWS; i++) {
        int32_t id = sample_choose(how, logits, N, (i + 0.5) / DRAWS, scratch);
        assert_in_range(id, 0, N - 1);
        share[id] += 1.0 / DRAWS;
    }
}

static void check(sample_how how, const double want[N])
{
    double share[N];
    shares(&how, share);
    for (int i = 0; i < N; i++)
        if (fabs(share[i] - want[i]) > 2.0 / DRAWS)
            fail_msg("id %d: %.4f, not %.4f", i, share[i], want[i]);
}

static void temperature(void **state)
{
    (void)state;
    check((sample_how){1, 0, 1}, probability);
    check((sample_how){0, 0, 1}, (const double[N]){1, 0, 0, 0});
    /* Half the temperature squares the probabilities: 16 : 1 : 9 : 4. */
    check((sample_how){0.5, 0, 1}, (const double[N]){16.0 / 30, 1.0 / 30, 9.0 / 30, 4.0 / 30});
}

static void top_k(void **state)
{
    (void)state;
    check((sample_how){1, 2, 1}, (const double[N]){4.0 / 7, 0, 3.0 / 7, 0});
    check((sample_how){1, 1, 1}, (const double[N]){1, 0, 0, 0});
    check((sample_how){1, 100, 1}, probability);
}

static void top_p(void **state)
{
    (void)state;
    /* The smallest set that has the probability: 0.4 + 0.3 is the first that reaches 0.65. */
    check((sample_how){1, 0, 0.65}, (const double[N]){4.0 / 7, 0, 3.0 / 7, 0});
    check((sample_how){1, 0, 0.85}, (const double[N]){4.0 / 9, 0, 3.0 / 9, 2.0 / 9});
    check((sample_how){1, 0, 0}, (const double[N]){1, 0, 0, 0});
    /* Of what top_k has left: 4/7 alone has half of it. */
    check((sample_how){1, 2, 0.5}, (const double[N]){1, 0, 0, 0});
}

static void not_finite(void **state)
{
    (void)state;
    sample_candidate scratch[N];
    sample_how greedy = {0, 0, 1}, warm = {1, 0, 1};
    const float some[N] = {NAN, -INFINITY, 2, INFINITY}, none[N] = {NAN, NAN, -INFINITY, INFINITY};
    assert_int_equal(sample_choose(&greedy, some, N, 0.5, scratch), 2);
    assert_int_equal(sample_choose(&warm, some, N, 0.999, scratch), 2);
    assert_int_equal(sample_choose(&greedy, none, N, 0.5, scratch), -1);
    assert_int_equal(sample_choose(&warm, none, N, 0.5, scratch), -1);
    assert_int_equal(sample_choose(&greedy, some, 0, 0.5, scratch), -1);
}

static void equal_ones_go_by_id(void **state)
{
    (void)state;
    sample_candidate scratch[N];
    sample_how greedy = {0, 0, 1}, two = {1, 2, 1};
    const float same[N] = {1, 1, 1, 1};
    assert_int_equal(sample_choose(&greedy, same, N, 0.9, scratch), 0);
    assert_int_equal(sample_choose(&two, same, N, 0.1, scratch), 0);
    assert_int_equal(sample_choose(&two, same, N, 0.9, scratch), 1);
}

static void flat_text(void **state)
{
    (void)state;
    weft_text text = {0};
    sample_add_flat(&text, "\n a\tb\r\n\n\x01\x7f c\xc3\xa9 ");
    assert_string_equal(weft_text_get(&text), " a b c\xc3\xa9 ");
    weft_text_release(&text);
}

/* ---- the service ---- */

static int tokenizer_bos = 256;

static int vocab_size(void *self)
{
    (void)self;
    return 258;
}

static int bos(void *self)
{
    return *(int *)self;
}

static int eos(void *self)
{
    (void)self;
    return 257;
}

static weft_status encode(void *self, const char *text, size_t n, int32_t **ids, size_t *n_ids,
                          size_t *capacity, weft_error *err)
{
    (void)self;
    if (*n_ids + n > *capacity) {
        int32_t *more = weft_realloc(*ids, (*n_ids + n) * sizeof *more);
        if (!more)
            return weft_fail_memory(err);
        *ids = more;
        *capacity = *n_ids + n;
    }
    for (size_t i = 0; i < n; i++)
        (*ids)[(*n_ids)++] = (unsigned char)text[i];
    return WEFT_OK;
}

static const weft_tokenizer tokenizer = {
    .size = sizeof tokenizer, .vocab_size = vocab_size, .bos = bos, .eos = eos, .encode = encode};

typedef struct fixture {
    weft_settings *settings;
    weft_host host;
    weft_log log;
    weft_text lines;
    weft_error err;
    void *self;
    const weft_generator *table;
} fixture;

static void keep_line(void *self, weft_log_level level, const char *line)
{
    (void)level;
    weft_text_print(self, "%s\n", line);
}

static int setup(void **state)
{
    tokenizer_bos = 256;
    return (*state = calloc(1, sizeof(fixture))) ? 0 : -1;
}

static void end(fixture *f)
{
    created_release(&sample_LTX_plugin, &f->host, f->self);
    f->self = NULL;
    weft_settings_destroy(f->settings);
    f->settings = NULL;
}

static int teardown(void **state)
{
    fixture *f = *state;
    end(f);
    weft_text_release(&f->lines);
    weft_error_release(&f->err);
    free(f);
    return 0;
}

static const void *service(const weft_host *host, const char *name, void **self)
{
    (void)host;
    *self = &tokenizer_bos;
    return strcmp(name, "tokenizer") == 0 ? &tokenizer : NULL;
}

static const void *no_service(const weft_host *host, const char *name, void **self)
{
    (void)host, (void)name, (void)self;
    return NULL;
}

static weft_status begin(fixture *f, const char *ini)
{
    f->log = (weft_log){keep_line, &f->lines};
    if (!f->host.service)
        f->host.service = service;
    f->host.log = &f->log;
    f->host.ranks = 1;
    f->table = sample_LTX_plugin.contributions[0].table;
    assert_int_equal(weft_settings_read_text("test.ini", ini, strlen(ini), &f->settings, &f->err),
                     WEFT_OK);
    assert_int_equal(weft_settings_section(f->settings, "sample", sample_LTX_plugin.params,
                                           &f->host.params, &f->err),
                     WEFT_OK);
    assert_int_equal(weft_settings_override(f->settings, "train.steps=100", &f->err), WEFT_OK);
    if (weft_settings_section(f->settings, "train", weft_core_params("train"), &f->host.train,
                              &f->err) != WEFT_OK)
        fail_msg("%s", weft_error_text(&f->err));
    return created_init(&sample_LTX_plugin, &f->host, &f->self, &f->err);
}

static weft_status prompt(fixture *f, int i, const int32_t **ids, size_t *n)
{
    return f->table->prompt(f->self, i, &tokenizer, &tokenizer_bos, ids, n, &f->err);
}

static void training_needs_a_tokenizer(void **state)
{
    fixture *f = *state;
    f->host.service = no_service;
    assert_int_equal(begin(f, "[sample]\nevery = 50\n"), WEFT_ERR_INPUT);
    assert_non_null(strstr(weft_error_text(&f->err), "tokenizer"));
}

static void writing_needs_none(void **state)
{
    fixture *f = *state;
    f->host.service = no_service;
    f->host.no_data = true;
    assert_int_equal(begin(f, "[sample]\nevery = 50\n"), WEFT_OK);
}

static void when_text_is_wanted(void **state)
{
    fixture *f = *state;
    assert_int_equal(begin(f, "[sample]\nevery = 50\ncontext = 64\n"), WEFT_OK);
    assert_int_equal(f->table->context(f->self), 64);
    assert_false(f->table->want(f->self, 49, false));
    assert_true(f->table->want(f->self, 50, false));
    assert_true(f->table->want(f->self, 51, true));
    end(f);
    assert_int_equal(begin(f, "[sample]\nevery = 0\n"), WEFT_OK);
    assert_false(f->table->want(f->self, 100, false));
    assert_true(f->table->want(f->self, 100, true));
}

static void several_prompts(void **state)
{
    fixture *f = *state;
    static const char *const want[] = {"One a", "two|b", "c"};
    assert_int_equal(begin(f, "[sample]\nprompt = One a | two|b | c\n"), WEFT_OK);
    const int32_t *ids;
    size_t n;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(prompt(f, i, &ids, &n), WEFT_OK);
        assert_int_equal(n, 1 + strlen(want[i]));
        assert_int_equal(ids[0], 256);
        for (size_t k = 1; k < n; k++)
            assert_int_equal(ids[k], want[i][k - 1]);
    }
    assert_int_equal(prompt(f, 3, &ids, &n), WEFT_OK);
    assert_int_equal(n, 0);
    assert_null(ids);
    /* Asked for again: the same array. */
    const int32_t *first = NULL;
    assert_int_equal(prompt(f, 0, &first, &n), WEFT_OK);
    assert_int_equal(prompt(f, 0, &ids, &n), WEFT_OK);
    assert_ptr_equal(first, ids);
}

static void empty_prompts(void **state)
{
    fixture *f = *state;
    const int32_t *ids;
    size_t n;
    assert_int_equal(begin(f, "[sample]\nprompt = |\n"), WEFT_OK);
    assert_int_equal(prompt(f, 0, &ids, &n), WEFT_OK);
    assert_int_equal(n, 1);
    end(f);
    tokenizer_bos = -1;
    assert_int_equal(begin(f, "[sample]\nprompt = |\n"), WEFT_OK);
    assert_int_equal(prompt(f, 0, &ids, &n), WEFT_ERR_INPUT);
    assert_non_null(strstr(weft_error_text(&f->err), "test.ini:2"));
    assert_non_null(strstr(weft_error_text(&f->err), "empty prompt"));
}

static void text_ends(void **state)
{
    fixture *f = *state;
    float logits[300] = {0};
    const int32_t *ids;
    size_t n;
    assert_int_equal(begin(f, "[sample]\ntemperature = 0\ntokens = 3\nprompt = abc\n"), WEFT_OK);
    assert_int_equal(prompt(f, 0, &ids, &n), WEFT_OK);
    logits[65] = 1;
    logits[299] = 9; /* a row of padding: no id of the tokenizer */
    assert_int_equal(f->table->pick(f->self, logits, 300, 5, 0, 0), 65);
    assert_int_equal(f->table->pick(f->self, logits, 300, 5, 0, 2), 65);
    assert_int_equal(f->table->pick(f->self, logits, 300, 5, 0, 3), -1);
    logits[257] = 2; /* end of text */
    assert_int_equal(f->table->pick(f->self, logits, 300, 5, 0, 0), -1);
}

static void same_seed_same_text(void **state)
{
    fixture *f = *state;
    static const char *const inis[] = {
        "[sample]\nseed = 7\ntop_k = 0\n", "[sample]\nseed = 7\ntop_k = 0\n",
        "[sample]\nseed = 8\ntop_k = 0\n", "[sample]\ntop_k = 0\n[train]\nseed = 7\n"};
    int32_t picked[4][60];
    float logits[200] = {0};
    for (int run = 0; run < 4; run++) {
        assert_int_equal(begin(f, inis[run]), WEFT_OK);
        /* Backwards in the second run: a choice depends on where it is, not on what was asked
         * before. */
        for (int k = 0; k < 60; k++) {
            int i = run == 1 ? 59 - k : k;
            picked[run][i] = f->table->pick(f->self, logits, 200, i / 30, i / 15 % 2, i % 15);
            assert_in_range(picked[run][i], 0, 199);
        }
        end(f);
    }
    assert_memory_equal(picked[0], picked[1], sizeof picked[0]);
    assert_memory_equal(picked[0], picked[3], sizeof picked[0]);
    assert_memory_not_equal(picked[0], picked[2], sizeof picked[0]);
    /* Steps, texts and places have choices of their own. */
    assert_memory_not_equal(picked[0], picked[0] + 15, 15 * sizeof(int32_t));
    assert_memory_not_equal(picked[0], picked[0] + 30, 15 * sizeof(int32_t));
}

static void what_is_logged(void **state)
{
    fixture *f = *state;
    assert_int_equal(begin(f, "[sample]\n"), WEFT_OK);
    f->table->done(f->self, 100, 0, "Once upon\na time", " there\n\nwas.", &f->log);
    assert_string_equal(weft_text_get(&f->lines), "step 100  \"Once upon a time\" there was.\n");
}

static void memory_runs_out(void **state)
{
    fixture *f = *state;
    assert_int_equal(begin(f, "[sample]\nprompt = a | b\n"), WEFT_OK);
    float logits[20] = {0};
    long n = 0;
    bool reached = true;
    while (reached) {
        void *self = NULL;
        const int32_t *ids;
        size_t n_ids;
        weft_alloc_fail_at(++n);
        weft_status status = created_init(&sample_LTX_plugin, &f->host, &self, &f->err);
        if (status == WEFT_OK)
            status = f->table->prompt(self, 1, &tokenizer, &tokenizer_bos, &ids, &n_ids, &f->err);
        if (status == WEFT_OK && f->table->pick(self, logits, 20, 1, 1, 0) < 0)
            status = WEFT_ERR_MEMORY;
        reached = weft_alloc_count() >= n;
        weft_alloc_fail_at(0);
        assert_int_equal(status, reached ? WEFT_ERR_MEMORY : WEFT_OK);
        created_release(&sample_LTX_plugin, &f->host, self);
    }
    assert_true(n > 5);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(temperature),
        cmocka_unit_test(top_k),
        cmocka_unit_test(top_p),
        cmocka_unit_test(not_finite),
        cmocka_unit_test(equal_ones_go_by_id),
        cmocka_unit_test(flat_text),
        TEST(training_needs_a_tokenizer),
        TEST(writing_needs_none),
        TEST(when_text_is_wanted),
        TEST(several_prompts),
        TEST(empty_prompts),
        TEST(text_ends),
        TEST(same_seed_same_text),
        TEST(what_is_logged),
        TEST(memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
