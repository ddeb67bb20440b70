/* SPDX-License-Identifier: Apache-2.0 */
/* FLUX against tests/golden/flux.safetensors, which PyTorch computed in f64 from the published
 * equations: the loss of each sample and of all, and every gradient. Noise and times are given. */
#include "model_run.h"

#include <math.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
/* last: it needs the headers above */
#include <cmocka.h>

static char *golden_path(void)
{
    const char *tree = getenv("WEFT_TREE");
    return weft_format("%s/tests/golden/flux.safetensors", tree ? tree : ".");
}

static void start(model_run *m, safetensors **file, const char *plugins, int batch,
                  const char *rest)
{
    weft_error err = {0};
    char *path = golden_path(), *list = weft_format("diffusion flux latents cpu %s adamw", plugins);
    assert_non_null(path);
    assert_non_null(list);
    if (safetensors_read(path, file, &err))
        fail_msg("%s", weft_error_text(&err));
    char *ini = weft_format("threads = 1\n[train]\nglobal_batch = %d\n%s\npath = %s\n%s", batch,
                            safetensors_metadata(*file, "ini"), path, rest);
    assert_non_null(ini);
    model_run_start(m, list, ini);
    model_run_set_all(m, *file, "weight");
    weft_free(path);
    weft_free(list);
    weft_free(ini);
}

static double norm_of(const weft_safetensor *t)
{
    double sum = 0;
    for (int64_t i = 0; i < safetensor_count(t); i++)
        sum += safetensor_get(t, i) * safetensor_get(t, i);
    return sqrt(sum);
}

/* Each gradient's distance, over its size and a part of all gradients' together. */
static void compare(model_run *m, const safetensors *file, double loss_bound, double bound)
{
    double all = 0;
    const weft_safetensor *t, *loss = safetensors_find(file, "loss");
    for (int i = 0; (t = safetensors_at(file, i)); i++)
        if (strncmp(t->name, "gradient/", 9) == 0)
            all += norm_of(t) * norm_of(t);
    if (!(fabs(m->run->view.loss / safetensor_get(loss, 0) - 1) <= loss_bound))
        fail_msg("the loss is %.15g, not %.15g", m->run->view.loss, safetensor_get(loss, 0));
    for (int i = 0; i < model_run_parameters(m); i++) {
        char *name = weft_format("gradient/%s", model_run_name(m, i));
        assert_non_null(name);
        t = safetensors_find(file, name);
        if (!t)
            fail_msg("no %s", name);
        const model_numbers g = m->gradients[i];
        double difference = 0;
        assert_int_equal(g.n, safetensor_count(t));
        for (int64_t k = 0; k < g.n; k++)
            difference += pow(g.list[k] - safetensor_get(t, k), 2);
        if (!(sqrt(difference) <= bound * (norm_of(t) + 1e-3 * sqrt(all))))
            fail_msg("%s is off by %.3g of its norm, %.3g of all", name,
                     sqrt(difference) / norm_of(t), sqrt(difference / all));
        weft_free(name);
    }
}

static void check(const char *plugins, const char *rest, double loss_bound, double bound)
{
    model_run m;
    safetensors *file;
    start(&m, &file, plugins, 3, rest);
    model_run_train(&m);
    compare(&m, file, loss_bound, bound);
    model_run_release(&m);
    safetensors_destroy(file);
}

#define F64 "[train]\nsteps = 1\ndtype = f64\n"
static void f64_is_exact(void **state)
{
    (void)state;
    check("", F64, 1e-12, 1e-9);
    check("", F64 "[cpu]\nkernels = plain\n", 1e-12, 1e-9);
    check("", F64 "[train]\nmicro_batch = 1\n", 1e-12, 1e-9);
    check("ac", F64 "[ac]\nmode = full\n[train]\nmicro_batch = 1\n", 1e-12, 1e-9);
}

/* About forty roundings in a row, and sums of sixty-four. */
static void others_are_near(void **state)
{
    (void)state;
    check("", "[train]\nsteps = 1\n", 2e-6, 1e-5);
    check("", "[train]\nsteps = 1\n[cpu]\nkernels = plain\n", 2e-6, 1e-5);
    check("bf16", "[train]\nsteps = 1\n", 2e-2, 0.15);
    check("bf16", "[train]\nsteps = 1\n[cpu]\nkernels = plain\n", 2e-2, 0.15);
}

typedef struct seen {
    double loss[3];
    int n;
} seen;

static void after_step(model_run *m, void *ctx)
{
    seen *s = ctx;
    if (s->n < 3)
        s->loss[s->n] = m->run->view.loss;
    s->n++;
}

/* With a learning rate of 0 every step is of the same weights, and of the next sample. */
static void each_sample_is_as_given(void **state)
{
    model_run m;
    safetensors *file;
    seen s = {.n = 0};
    (void)state;
    start(&m, &file, "", 1,
          "[train]\nsteps = 3\ndtype = f64\n[adamw]\nlr = 1e-30\nweight_decay = 0\n");
    m.after_step = after_step;
    m.ctx = &s;
    model_run_train(&m);
    assert_int_equal(s.n, 3);
    const weft_safetensor *errors = safetensors_find(file, "errors");
    for (int i = 0; i < 3; i++)
        if (!(fabs(s.loss[i] / safetensor_get(errors, i) - 1) < 1e-12))
            fail_msg("sample %d has %.15g, not %.15g", i, s.loss[i], safetensor_get(errors, i));
    model_run_release(&m);
    safetensors_destroy(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f64_is_exact),
        cmocka_unit_test(others_are_near),
        cmocka_unit_test(each_sample_is_as_given),
    };
    return cmocka_run_group_tests_name("flux_golden", tests, NULL, NULL);
}
