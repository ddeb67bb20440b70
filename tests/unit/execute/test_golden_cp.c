/* SPDX-License-Identifier: Apache-2.0 */
/* Packed documents over ranks that share each sequence, head and tail, against PyTorch: loss and
 * the gradient of every parameter of tests/golden/llama_packed.safetensors. The run is `weft train`
 * itself, which begins with the file's weights as those of a Hugging Face folder. */
#include "../../lib/read_safetensors.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* last: it needs the headers above */
#include <cmocka.h>

enum { MOST = 64 };

static safetensors *golden;
static char dir[] = "/tmp/weft-golden-XXXXXX";

static char *need(char *text)
{
    assert_non_null(text);
    return text;
}

static const weft_safetensor *tensor(const safetensors *file, const char *name)
{
    const weft_safetensor *t = safetensors_find(file, name);
    if (!t)
        fail_msg("no tensor %s", name);
    return t;
}

static safetensors *read_file(const char *path)
{
    safetensors *file = NULL;
    weft_error err = {0};
    if (safetensors_read(path, &file, &err))
        fail_msg("%s", weft_error_text(&err));
    return file;
}

static void write_text(const char *name, const void *text, size_t n)
{
    weft_error err = {0};
    char *path = need(weft_format("%s/%s", dir, name));
    if (weft_write_file(path, text, n, &err))
        fail_msg("%s", weft_error_text(&err));
    weft_free(path);
}

/* The tensors weight/NAME as NAME. */
static void write_weights(void)
{
    static const char config[] =
        "{\"model_type\": \"llama\", \"hidden_act\": \"silu\", \"hidden_size\": 12, "
        "\"intermediate_size\": 26, \"num_attention_heads\": 4, \"num_key_value_heads\": 4, "
        "\"head_dim\": 2, \"num_hidden_layers\": 1, \"vocab_size\": 50, \"rms_norm_eps\": 1e-05, "
        "\"rope_theta\": 500000.0, \"tie_word_embeddings\": false}\n";
    weft_safetensor list[MOST];
    const weft_safetensor *t;
    weft_error err = {0};
    int n = 0;
    for (int i = 0; (t = safetensors_at(golden, i)); i++)
        if (strncmp(t->name, "weight/", 7) == 0 && n < MOST) {
            list[n] = *t;
            list[n++].name = t->name + 7;
        }
    write_text("config.json", config, sizeof config - 1);
    char *path = need(weft_format("%s/model.safetensors", dir));
    if (weft_write_safetensors(path, list, n, NULL, &err))
        fail_msg("%s", weft_error_text(&err));
    weft_free(path);
}

static void write_samples(void)
{
    static const char *const parts[] = {"ids", "labels", "positions", "segments"};
    const weft_safetensor *ids = tensor(golden, "ids");
    size_t samples = (size_t)ids->size[0], seq = (size_t)ids->size[1];
    int32_t *all = malloc(samples * 4 * seq * sizeof *all);
    assert_non_null(all);
    for (size_t i = 0; i < samples * 4; i++)
        memcpy(all + i * seq, (const int32_t *)tensor(golden, parts[i % 4])->data + i / 4 * seq,
               seq * sizeof *all);
    write_text("samples", all, samples * 4 * seq * sizeof *all);
    free(all);
}

static int start(void **state)
{
    const char *tree = getenv("WEFT_TREE");
    char *path = need(weft_format("%s/tests/golden/llama_packed.safetensors", tree ? tree : "."));
    (void)state;
    golden = read_file(path);
    weft_free(path);
    if (!mkdtemp(dir))
        return -1;
    write_weights();
    write_samples();
    return 0;
}

static int end(void **state)
{
    char *command = weft_format("rm -rf %s", dir);
    (void)state;
    safetensors_destroy(golden);
    int code = command ? system(command) : -1;
    weft_free(command);
    return code;
}

/* ---- one run ---- */

static void train(int ranks, const char *plugins, const char *settings)
{
    const char *weft = getenv("WEFT"), *fixtures = getenv("WEFT_TEST_FIXTURES");
    const char *ini = safetensors_metadata(golden, "ini");
    assert_non_null(weft);
    assert_non_null(fixtures);
    char *text = need(weft_format(
        "[weft]\nplugins = llama3 recorded hf cpu local %s adamw dump metrics\ndir = run\nthreads "
        "= 1\nplugin_path = %s/../run\n[train]\nsteps = 1\nseq_len = 12\nglobal_batch = 2\n%s"
        "[recorded]\npath = samples\n[hf]\nload = .\n%s",
        plugins, fixtures, ini, settings));
    write_text("run.ini", text, strlen(text));
    char *command = need(weft_format("cd %s && rm -rf run && HOME=%s timeout -k 5 60 %s train "
                                     "run.ini -n %d >out 2>&1 || { cat out; exit 1; }",
                                     dir, dir, weft, ranks));
    if (system(command))
        fail_msg("%d ranks with %s", ranks, plugins);
    weft_free(text);
    weft_free(command);
}

static double loss_of_run(void)
{
    weft_error err = {0};
    char *path = need(weft_format("%s/run/metrics.jsonl", dir)), *text;
    size_t size;
    if (weft_read_file(path, &text, &size, &err))
        fail_msg("%s", weft_error_text(&err));
    const char *at = strstr(text, "\"loss\":");
    assert_non_null(at);
    double loss = strtod(at + 7, NULL);
    weft_free(text);
    weft_free(path);
    return loss;
}

static double difference(const weft_safetensor *a, const weft_safetensor *b)
{
    double sum = 0;
    assert_int_equal(safetensor_count(a), safetensor_count(b));
    for (int64_t i = 0; i < safetensor_count(a); i++)
        sum += pow(safetensor_get(a, i) - safetensor_get(b, i), 2);
    return sqrt(sum);
}

static double norm(const weft_safetensor *t)
{
    double sum = 0;
    for (int64_t i = 0; i < safetensor_count(t); i++)
        sum += pow(safetensor_get(t, i), 2);
    return sqrt(sum);
}

/* tensor: |a - b| over |b|; where hardly anything is left of a gradient, over 1 / 1000 of the
 * norm of lm_head's. */
static void check_run(int ranks, const char *plugins, const char *settings, double loss,
                      double relative)
{
    train(ranks, plugins, settings);
    char *path = need(weft_format("%s/run/dump/step-1/gradients-rank-0.safetensors", dir));
    safetensors *made = read_file(path);
    const weft_safetensor *t;
    double least = norm(tensor(golden, "gradient/lm_head.weight")) / 1000,
           want = safetensor_get(tensor(golden, "loss"), 0);
    int n = 0;
    for (int i = 0; (t = safetensors_at(golden, i)); i++) {
        if (strncmp(t->name, "gradient/", 9) != 0)
            continue;
        double off = difference(tensor(made, t->name + 9), t);
        if (!(off <= relative * fmax(norm(t), least)))
            fail_msg("%s is off by %.3g of its norm", t->name, off / norm(t));
        n++;
    }
    assert_int_equal(n, 12);
    if (!(fabs(loss_of_run() - want) <= loss * want))
        fail_msg("the loss is %.12g, not %.12g", loss_of_run(), want);
    safetensors_destroy(made);
    weft_free(path);
}

/* ---- tests ---- */

#define F64 "[train]\ndtype = f64\n[cpu]\nkernels = plain\n"

/* The file holds f32, half a unit in the last place. */
static void f64_is_exact(void **state)
{
    (void)state;
    check_run(2, "cp", F64 "[cp]\ndegree = 2\nattention = ring\n", 1e-8, 0x1p-24);
    check_run(5, "cp", F64 "[cp]\ndegree = 5\nattention = ring\n", 1e-8, 0x1p-24);
    check_run(2, "cp", F64 "[cp]\ndegree = 2\nattention = gather\n", 1e-8, 0x1p-24);
}

/* As in test_golden: 4 times the rounding of ten ops in a block and the head, and of sums. */
static void f32_is_near(void **state)
{
    (void)state;
    check_run(2, "cp", "[cp]\ndegree = 2\nattention = ring\n", 5e-7, 4 * 11.5 * 0x1p-24);
    check_run(3, "cp", "[cp]\ndegree = 3\nattention = ring\n", 5e-7, 4 * 11.5 * 0x1p-24);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f64_is_exact),
        cmocka_unit_test(f32_is_near),
    };
    return cmocka_run_group_tests(tests, start, end);
}
