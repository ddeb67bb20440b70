/* SPDX-License-Identifier: Apache-2.0 */
/* Documents packed into one sample, with segments and positions of their own, train as each of them
 * in a sample of its own: the same loss, norm and gradient of every parameter. Without segments
 * they do not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "../../lib/model_run.h"

#include <weft/random.h>

#include <math.h>
#include <string.h>

enum { SEQ = 64, DOCUMENTS = 6, VOCAB = 50 };

static const int lengths[DOCUMENTS] = {9, 1, 22, 3, 16, 13}; /* SEQ in all */

typedef struct samples {
    int32_t ids[DOCUMENTS * SEQ], labels[DOCUMENTS * SEQ], positions[DOCUMENTS * SEQ],
        segments[DOCUMENTS * SEQ];
} samples;

/* Token j of a document; its last one has no label. */
static void put_token(samples *s, int at, int document, int j, bool segments, bool positions,
                      int place)
{
    int32_t next = (int32_t)(weft_random_bits(1, (uint64_t)document, (uint64_t)j + 1) % VOCAB);
    s->ids[at] = (int32_t)(weft_random_bits(1, (uint64_t)document, (uint64_t)j) % VOCAB);
    s->labels[at] = j + 1 < lengths[document] ? next : -1;
    s->segments[at] = segments ? document : 0;
    s->positions[at] = positions ? j : place;
}

static void fill_packed(samples *s, bool segments, bool positions)
{
    int at = 0;
    for (int d = 0; d < DOCUMENTS; d++)
        for (int j = 0; j < lengths[d]; j++, at++)
            put_token(s, at, d, j, segments, positions, at);
}

/* Padded with tokens that have no label. Causality alone keeps documents from seeing them. */
static void fill_alone(samples *s)
{
    for (int d = 0; d < DOCUMENTS; d++)
        for (int j = 0; j < SEQ; j++) {
            int at = d * SEQ + j;
            if (j < lengths[d])
                put_token(s, at, d, j, false, true, j);
            else {
                s->ids[at] = 7;
                s->labels[at] = -1;
                s->segments[at] = 0;
                s->positions[at] = j;
            }
        }
}

static void train(model_run *m, const char *model, const char *settings, const samples *s, int n)
{
    char *plugins = weft_format("cpu %s adamw", model);
    char *ini = weft_format(
        "threads = 1\n[train]\nsteps = 1\nseq_len = %d\nglobal_batch = %d\nseed = 5\n%s", SEQ, n,
        settings);
    assert_non_null(plugins);
    assert_non_null(ini);
    model_run_start(m, plugins, ini);
    model_run_feed(m, &(model_samples){.ids = s->ids,
                                       .labels = s->labels,
                                       .positions = s->positions,
                                       .segments = s->segments,
                                       .samples = n});
    model_run_train(m);
    weft_free(ini);
    weft_free(plugins);
}

/* The largest ||a - b|| / ||b|| of all gradients; gradients that are zero but for rounding count
 * for their part of the whole. */
static double worst(model_run *a, model_run *b)
{
    double most = 0, all = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < model_run_parameters(a); i++) {
            model_numbers x = model_run_gradient(a, model_run_name(a, i)),
                          y = model_run_gradient(b, model_run_name(a, i));
            double difference = 0, norm = 0;
            assert_int_equal(x.n, y.n);
            for (int64_t k = 0; k < x.n; k++) {
                difference += (x.list[k] - y.list[k]) * (x.list[k] - y.list[k]);
                norm += y.list[k] * y.list[k];
            }
            if (!pass)
                all += norm;
            else if (sqrt(difference) / (sqrt(norm) + 1e-4 * sqrt(all)) > most)
                most = sqrt(difference) / (sqrt(norm) + 1e-4 * sqrt(all));
        }
    return most;
}

static const struct {
    const char *name, *settings;
} models[] = {
    {"llama3", "[llama3]\nvocab_size = 50\ndim = 32\nn_layers = 2\nn_heads = 4\nn_kv_heads = "
               "2\nffn_dim = 64\n"},
    {"gpt2", "[gpt2]\nvocab_size = 50\ndim = 32\nn_layers = 2\nn_heads = 4\nn_positions = 64\n"},
};

static void compare(const char *settings, double tolerance)
{
    static samples packed, alone, one;
    fill_alone(&alone);
    fill_packed(&packed, true, true);
    for (int i = 0; i < 2; i++) {
        char *all = weft_format("%s%s", settings, models[i].settings);
        assert_non_null(all);
        model_run a, b, c;
        train(&a, models[i].name, all, &alone, DOCUMENTS);
        train(&b, models[i].name, all, &packed, 1);
        assert_int_equal(a.run->view.tokens, SEQ - DOCUMENTS);
        assert_int_equal(b.run->view.tokens, SEQ - DOCUMENTS);
        double loss = fabs(b.run->view.loss - a.run->view.loss) / a.run->view.loss,
               gradients = worst(&b, &a);
        print_message("# %s: loss %.2g apart, gradients %.2g\n", models[i].name, loss, gradients);
        assert_true(loss <= tolerance && gradients <= 20 * tolerance);
        for (int without = 0; without < 2; without++) { /* segments and positions are both needed,
                                                           or nothing would have been shown */
            fill_packed(&one, without == 1, without == 0);
            train(&c, models[i].name, all, &one, 1);
            assert_true((models[i].name[0] == 'l' && without == 1) ||
                        worst(&c, &a) > 1e-2); /* rotary positions are relative */
            model_run_release(&c);
        }
        model_run_release(&b);
        model_run_release(&a);
        weft_free(all);
    }
}

static void packed_is_alone_in_f64(void **state)
{
    (void)state;
    compare("dtype = f64\n[cpu]\nkernels = plain\n", 1e-12);
}

static void packed_is_alone_in_f32(void **state)
{
    (void)state;
    compare("dtype = f32\n", 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_is_alone_in_f64),
        cmocka_unit_test(packed_is_alone_in_f32),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
