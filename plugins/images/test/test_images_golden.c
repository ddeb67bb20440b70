/* SPDX-License-Identifier: Apache-2.0 */
/* Pictures against tests/golden/flux_images.safetensors, which numpy computed in f64 from the
 * published equations, of given noise: with and without the shift, and with cfg. */
#include "../images.h"
#include "model_run.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
/* last: it needs the headers above */
#include <cmocka.h>

enum { SAMPLES = 3 };

static safetensors *golden(const char *name)
{
    const char *tree = getenv("WEFT_TREE");
    weft_error err = {0};
    safetensors *file = NULL;
    char *path = weft_format("%s/tests/golden/%s", tree ? tree : ".", name);
    assert_non_null(path);
    if (safetensors_read(path, &file, &err))
        fail_msg("%s", weft_error_text(&err));
    weft_free(path);
    return file;
}

static const images *find(const model_run *m)
{
    for (int i = 0; i < m->plugins->n; i++)
        if (strcmp(m->plugins->list[i].module.plugin->name, "images") == 0)
            return m->plugins->list[i].self;
    fail_msg("images is not listed");
    return NULL;
}

/* The first text, as if it were the empty one. */
static char *write_empty(const safetensors *model)
{
    weft_error err = {0};
    weft_safetensor t[2];
    const char *const names[] = {"t5", "clip"};
    char *path = weft_format("/tmp/weft-images-%d.safetensors", (int)getpid());
    assert_non_null(path);
    for (int i = 0; i < 2; i++) {
        t[i] = *safetensors_find(model, names[i]);
        t[i].size[0] = 1;
    }
    if (weft_write_safetensors(path, t, 2, NULL, &err))
        fail_msg("%s", weft_error_text(&err));
    return path;
}

static void check(const char *plugins, const char *rest, const char *expected, double bound)
{
    model_run m;
    safetensors *model = golden("flux.safetensors"), *all = golden("flux_images.safetensors");
    const weft_safetensor *want = safetensors_find(all, expected);
    const char *tree = getenv("WEFT_TREE");
    char *empty = write_empty(model);
    char *list = weft_format("diffusion flux latents images cpu %s adamw", plugins);
    char *ini = weft_format(
        "threads = 1\n[train]\nglobal_batch = 3\nsteps = 1\n%s\n"
        "path = %s/tests/golden/flux.safetensors\n[images]\nprompts = "
        "%s/tests/golden/flux.safetensors\nempty = %s\nfile = /dev/null/none\nguidance = 2.5\n"
        "noise = file\n%s",
        safetensors_metadata(model, "ini"), tree ? tree : ".", tree ? tree : ".", empty, rest);
    assert_non_null(want);
    model_run_start(&m, list, ini);
    model_run_set_all(&m, model, "weight");
    const images *self = find(&m);
    assert_int_equal(self->n, SAMPLES);
    assert_int_equal(safetensor_count(want), SAMPLES * images_points(&self->model));
    double *made = weft_alloc((size_t)safetensor_count(want) * sizeof *made), most = 0;
    const weft_tensor to = {
        .dtype = WEFT_F64, .n_dims = 1, .size = {safetensor_count(want)}, .data = made};
    assert_non_null(made);
    weft_run_view view = m.run->view;
    view.core = m.run;
    if (images_make(self, &view, &to, &m.err))
        fail_msg("%s", weft_error_text(&m.err));
    for (int64_t i = 0; i < safetensor_count(want); i++)
        most = fmax(most, fabs(made[i] - safetensor_get(want, i)));
    if (!(most <= bound))
        fail_msg("%s, %s: a number is off by %.3g", expected, rest, most);
    weft_free(made);
    model_run_release(&m);
    unlink(empty);
    weft_free(empty);
    weft_free(list);
    weft_free(ini);
    safetensors_destroy(model);
    safetensors_destroy(all);
}

#define F64 "[train]\ndtype = f64\n"
static void f64_is_exact(void **state)
{
    (void)state;
    check("", "steps = 4\nshift = auto\n" F64, "plain", 1e-10);
    check("", "steps = 4\nshift = places\nbatch = 2\n" F64, "plain", 1e-10);
    check("", "steps = 3\nshift = none\nbatch = 3\n" F64, "unshifted", 1e-10);
}

static void cfg_goes_beyond_the_prompt(void **state)
{
    (void)state;
    check("", "steps = 4\ncfg = 1.75\n" F64, "cfg", 1e-10);
    check("", "steps = 4\ncfg = 1.75\nbatch = 2\n" F64, "cfg", 1e-10);
}

static void others_are_near(void **state)
{
    (void)state;
    check("", "steps = 4\n", "plain", 1e-4);
    check("bf16", "steps = 4\n", "plain", 0.3);
}

/* Times as diffusers' FlowMatchEulerDiscreteScheduler has them, which keeps f32. */
static void times_are_the_published(void **state)
{
    static const int64_t sizes[][2] = {{8, 8}, {16, 16}, {48, 32}, {64, 64}, {96, 64}},
                         steps[] = {1, 4, 28, 50};
    safetensors *all = golden("flux_times.safetensors");
    (void)state;
    for (int i = 0; i < 5 * 4 * 2; i++) {
        const int64_t *size = sizes[i / 8];
        const images m = {.model = {.rows = size[0], .columns = size[1], .guided = true},
                          .steps = steps[i / 2 % 4],
                          .shift = i % 2 ? IMAGES_BY_PLACES : IMAGES_UNSHIFTED,
                          .base_shift = 0.5,
                          .max_shift = 1.15};
        char name[64];
        snprintf(name, sizeof name, "%s.%d.%d", i % 2 ? "places" : "none", (int)(size[0] * size[1]),
                 (int)m.steps);
        const weft_safetensor *want = safetensors_find(all, name);
        assert_non_null(want);
        assert_int_equal(safetensor_count(want), m.steps + 1);
        for (int64_t k = 0; k <= m.steps; k++)
            if (!(fabs(images_noise_before(&m, k) - safetensor_get(want, k)) < 1e-6))
                fail_msg("%s: time %d is %.9g, and not %.9g", name, (int)k,
                         images_noise_before(&m, k), safetensor_get(want, k));
    }
    safetensors_destroy(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(f64_is_exact),
        cmocka_unit_test(cfg_goes_beyond_the_prompt),
        cmocka_unit_test(others_are_near),
        cmocka_unit_test(times_are_the_published),
    };
    return cmocka_run_group_tests_name("images_golden", tests, NULL, NULL);
}
