/* SPDX-License-Identifier: Apache-2.0 */
/* Learning rates against numbers worked out by hand, and which parameters are decayed. */
#include "../adamw.h"
#include "settings/settings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <string.h>

extern const weft_plugin adamw_LTX_plugin;

static weft_settings *settings;

static const weft_params *read_params(const char *text)
{
    weft_error err = {0};
    const weft_params *params = NULL;
    weft_settings_destroy(settings);
    settings = NULL;
    if (weft_settings_read_text("test.ini", text, strlen(text), &settings, &err) != WEFT_OK ||
        weft_settings_section(settings, "adamw", adamw_LTX_plugin.params, &params, &err) != WEFT_OK)
        fail_msg("%s", weft_error_text(&err));
    weft_error_release(&err);
    return params;
}

static int free_settings(void **state)
{
    (void)state;
    weft_settings_destroy(settings);
    settings = NULL;
    return 0;
}

/* Steps 1, 2, ... of a run against `want`. */
static void check_lr(const char *text, int n, const double *want)
{
    adamw_schedule s = adamw_schedule_plan(read_params(text), n);
    for (int i = 0; i < n; i++)
        if (fabs(adamw_schedule_lr(&s, i + 1) - want[i]) > 1e-12)
            fail_msg("step %d: %.15g, not %.15g", i + 1, adamw_schedule_lr(&s, i + 1), want[i]);
}

static void constant_after_warmup(void **state)
{
    (void)state;
    static const double want[] = {0.25, 0.5, 0.75, 1, 1, 1};
    check_lr("[adamw]\nlr = 1\nwarmup_steps = 4\nlr_decay = constant\n", 6, want);
}

static void linear_over_the_rest(void **state)
{
    (void)state;
    /* Two steps up, one at the top, then 1 - p with p = 1/8 ... 7/8. */
    static const double want[] = {1, 2, 2, 1.75, 1.5, 1.25, 1, 0.75, 0.5, 0.25};
    check_lr("[adamw]\nlr = 2\nwarmup_steps = 2\nlr_decay = linear\n", 10, want);
}

static void linear_to_a_floor(void **state)
{
    (void)state;
    /* 0.2 + 0.8 x with x = 3/4, 1/2, 1/4 */
    static const double want[] = {1, 0.8, 0.6, 0.4};
    check_lr("[adamw]\nlr = 1\nwarmup_steps = 0\nlr_decay = linear\nmin_lr_factor = 0.2\n", 4,
             want);
}

static void warmup_stable_decay(void **state)
{
    (void)state;
    /* decay_ratio 0.4 of 10 steps: 4, of which the last three real ones are below the top. */
    static const double root[] = {
        0.5, 1, 1, 1, 1, 1, 1, 0.5, 1 - 0.70710678118654752, 1 - 0.86602540378443865};
    check_lr("[adamw]\nlr = 1\nwarmup_steps = 2\nlr_decay = sqrt\ndecay_ratio = 0.4\n", 10, root);
}

static void cosine(void **state)
{
    (void)state;
    static const double want[] = {1, 0.85355339059327376, 0.5, 0.14644660940672624};
    check_lr("[adamw]\nlr = 1\nwarmup_steps = 0\nlr_decay = cosine\n", 4, want);
}

static void decay_yields_to_warmup(void **state)
{
    (void)state;
    static const double want[] = {0.25, 0.5, 0.75, 1, 1, 0.5};
    check_lr("[adamw]\nlr = 1\nwarmup_steps = 4\nlr_decay = linear\ndecay_ratio = 0.9\n", 6, want);
    static const double cut_off[] = {0.125, 0.25, 0.375};
    check_lr("[adamw]\nlr = 1\nwarmup_steps = 8\n", 3, cut_off);
}

static void automatic_warmup(void **state)
{
    (void)state;
    const weft_params *params = read_params("[adamw]\n");
    assert_int_equal(adamw_schedule_plan(params, 9).warmup, 0);
    assert_int_equal(adamw_schedule_plan(params, 50).warmup, 5);
    assert_int_equal(adamw_schedule_plan(params, 1000000).warmup, 200);
    assert_int_equal(adamw_schedule_plan(params, 1000000).decay, 999800);
}

static void past_the_end(void **state)
{
    (void)state;
    adamw_schedule s = adamw_schedule_plan(read_params("[adamw]\nlr = 1\nwarmup_steps = 0\n"), 4);
    assert_true(adamw_schedule_lr(&s, 100) == adamw_schedule_lr(&s, 4));
    assert_true(adamw_schedule_lr(&s, 4) > 0);
}

static void shapes_have_names(void **state)
{
    (void)state;
    for (int i = ADAMW_CONSTANT; i <= ADAMW_COSINE; i++)
        assert_int_equal(adamw_shape_find(adamw_shape_name((adamw_shape)i)), i);
}

static void who_is_decayed(void **state)
{
    (void)state;
    const weft_params *params = read_params("[adamw]\nno_decay = model.embed* *.layers.[01].*\n");
    assert_true(adamw_decays(params, "model.layers.2.mlp.up_proj.weight", 2));
    assert_false(adamw_decays(params, "model.layers.1.mlp.up_proj.weight", 2));
    assert_false(adamw_decays(params, "model.embed_tokens.weight", 2));
    assert_false(adamw_decays(params, "model.norm.weight", 1));
    params = read_params("[adamw]\ndecay = all\n");
    assert_true(adamw_decays(params, "model.norm.weight", 1));
    assert_true(adamw_decays(params, "model.embed_tokens.weight", 2));
}

static void bad_settings(void **state)
{
    (void)state;
    static const char *const bad[] = {"beta2 = 1\n", "lr = -1\n", "lr_decay = exponential\n",
                                      "decay_ratio = 1.5\n", "max_norm = nan\n"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        weft_error err = {0};
        weft_settings *s = NULL;
        const weft_params *params = NULL;
        char text[64] = "[adamw]\n";
        memcpy(text + 8, bad[i], strlen(bad[i]) + 1);
        assert_int_equal(weft_settings_read_text("bad.ini", text, strlen(text), &s, &err), WEFT_OK);
        assert_int_equal(weft_settings_section(s, "adamw", adamw_LTX_plugin.params, &params, &err),
                         WEFT_ERR_INPUT);
        assert_non_null(strstr(weft_error_text(&err), "bad.ini:2"));
        weft_settings_destroy(s);
        weft_error_release(&err);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(constant_after_warmup),
        cmocka_unit_test(linear_over_the_rest),
        cmocka_unit_test(linear_to_a_floor),
        cmocka_unit_test(warmup_stable_decay),
        cmocka_unit_test(cosine),
        cmocka_unit_test(decay_yields_to_warmup),
        cmocka_unit_test(automatic_warmup),
        cmocka_unit_test(past_the_end),
        cmocka_unit_test(shapes_have_names),
        cmocka_unit_test(who_is_decayed),
        cmocka_unit_test(bad_settings),
    };
    return cmocka_run_group_tests(tests, NULL, free_settings);
}
