/* SPDX-License-Identifier: Apache-2.0 */
/* What the tasks of a planned step take: all of its operations, and what goes from stage to stage.
 */
#include "../../lib/plan_run.h"
#include "forecast/forecast.h"

#include <math.h>
#include <setjmp.h>
#include <string.h>
/* last: it needs the headers above */
#include <cmocka.h>

#define MODEL                                                                                      \
    "[train]\nsteps = 2\nseq_len = 16\nglobal_batch = 16\nmicro_batch = 4\n"                       \
    "[llama3]\ndim = 32\nn_layers = 4\nn_heads = 4\nn_kv_heads = 2\nhead_dim = 8\nffn_dim = "      \
    "48\nvocab_size = 64\n"

static void start(plan_run *p, const char *plugins, const char *sections, int ranks)
{
    weft_text text = {0};
    weft_text_print(&text, "%s%s", MODEL, sections);
    plan_run_start(p, plugins, weft_text_get(&text),
                   &(weft_plan_options){.ranks = ranks, .train_only = true});
    weft_text_release(&text);
}

static weft_costs costs_of(const plan_run *p, double flops_per_s, double bytes_per_s)
{
    weft_roofline r;
    weft_forecast f;
    assert_false(weft_plan_roofline(p->plan, &r));
    weft_roofline_assume(&r, flops_per_s, bytes_per_s);
    assert_int_equal(weft_plan_forecast(p->plan, &r, &f, NULL), WEFT_OK);
    const weft_costs costs = f.costs;
    f.costs = (weft_costs){0};
    weft_forecast_release(p->plan, &f);
    return costs;
}

static double step_of(const weft_costs *c, int64_t micro_batches)
{
    double sum = 0;
    for (int part = 0; part < WEFT_PARTS; part++) {
        bool micro = part == WEFT_PART_F || part == WEFT_PART_B;
        for (int i = 0; i < (micro ? c->stages : c->ranks); i++)
            sum += c->seconds[part][i] * (micro ? (double)micro_batches : 1);
    }
    return sum;
}

/* One operation a second, and sending takes none: the seconds of a step are its operations. Sums
 * that a kernel makes in place count here, and not there. */
static void check_flops(const char *plugins, const char *sections, int ranks)
{
    plan_run p;
    start(&p, plugins, sections, ranks);
    weft_costs c = costs_of(&p, 1, INFINITY);
    double want = p.plan->lowered[WEFT_MODE_TRAIN]->flops, got = step_of(&c, p.plan->micro_batches);
    if (got < want || got > 1.01 * want)
        fail_msg("%s: tasks take %.0f operations, and the step has %.0f", plugins, got, want);
    weft_costs_release(&c);
    plan_run_release(&p);
}

static void every_operation_counts_once(void **state)
{
    (void)state;
    check_flops("llama3 adamw", "", 1);
    check_flops("llama3 bf16 ac adamw", "[ac]\nmode = full\n", 1);
    check_flops("llama3 order ac adamw", "[order]\nstages = 3\n", 1);
    check_flops("llama3 local tp fsdp adamw", "[tp]\ndegree = 2\n[fsdp]\ndegree = 2\n", 4);
}

/* What is sent within a stage takes time as well. */
static void collectives_take_time(void **state)
{
    (void)state;
    plan_run p;
    start(&p, "llama3 local tp adamw", "[tp]\ndegree = 2\n", 2);
    weft_costs c = costs_of(&p, INFINITY, 1);
    /* with the sequence cut: a gather before each attention and MLP, a scatter of sums behind, and
     * one of the embedding's sums; each sends a half of B S E f32. The head is the backward's. */
    double half = 4 * 16 * 32 * 4 / 2.0;
    assert_true(c.seconds[WEFT_PART_F][0] == (4 * 4 + 1) * half);
    weft_costs_release(&c);
    plan_run_release(&p);
}

static void stages_send_activations_and_gradients(void **state)
{
    (void)state;
    plan_run p;
    start(&p, "llama3 order adamw", "[order]\nstages = 3\n", 1);
    weft_costs c = costs_of(&p, 1, 1);
    for (int s = 0; s < 3; s++) {
        double bytes = 4 * 16 * 32 * 4; /* B S E f32 */
        double turn =
            4 * 16 * 8 * 4; /* B S, cosines and sines of a head's pairs: where blocks are */
        assert_true(c.bytes[0][s] == (s == 0 ? bytes + turn : s == 1 ? bytes : 0));
        assert_true(c.bytes[1][s] == (s > 0 ? bytes : 0));
    }
    weft_costs_release(&c);
    plan_run_release(&p);
}

static weft_costs seen_from(int rank)
{
    plan_run p;
    plan_run_start(&p, "llama3 local pp adamw", MODEL "[pp]\ndegree = 2\nvirtual_stages = 2\n",
                   &(weft_plan_options){.rank = rank, .ranks = 2, .train_only = true});
    weft_costs c = costs_of(&p, 1, 1);
    plan_run_release(&p);
    return c;
}

/* Those of other ranks are lowered for it: each rank is told the same. */
static void ranks_of_a_pipeline_agree(void **state)
{
    (void)state;
    weft_costs a = seen_from(0), b = seen_from(1);
    assert_int_equal(a.stages, 4);
    for (int part = 0; part < WEFT_PARTS; part++)
        for (int i = 0; i < (weft_part_is_micro((weft_part)part) ? 4 : 2); i++)
            assert_true(a.seconds[part][i] == b.seconds[part][i]);
    for (int s = 0; s < 4; s++)
        assert_true(a.seconds[WEFT_PART_F][s] > 0 && a.seconds[WEFT_PART_B][s] > 0 &&
                    a.bytes[0][s] == b.bytes[0][s] && a.bytes[1][s] == b.bytes[1][s]);
    weft_costs_release(&a);
    weft_costs_release(&b);
}

static uint64_t identity_of(const char *plugins, const char *sections, int ranks)
{
    plan_run p;
    weft_roofline r;
    weft_forecast f;
    start(&p, plugins, sections, ranks);
    weft_plan_roofline(p.plan, &r);
    assert_int_equal(weft_plan_forecast(p.plan, &r, &f, NULL), WEFT_OK);
    const uint64_t identity = weft_plan_identity(p.plan, &f);
    weft_forecast_release(p.plan, &f);
    plan_run_release(&p);
    return identity;
}

/* Settings that do nothing leave a plan what it is; an order of tasks, and a buffer, do not. */
static void plans_are_what_runs(void **state)
{
    (void)state;
    const char *fsdp = "llama3 local fsdp adamw", *pp = "llama3 local pp adamw";
    const uint64_t two = identity_of(fsdp, "[fsdp]\nzero = 2\n", 2),
                   three = identity_of(fsdp, "[fsdp]\nzero = 3\n", 2),
                   stages = identity_of(pp, "[pp]\ndegree = 2\n", 2);
    assert_true(two == identity_of(fsdp, "[fsdp]\nzero = 2\nreshard = no\n", 2));
    assert_true(two != three);
    assert_true(three != identity_of(fsdp, "[fsdp]\nzero = 3\nreshard = no\n", 2));
    assert_true(stages == identity_of(pp, "[pp]\ndegree = 2\nschedule = 1f1b\n", 2));
    assert_true(stages != identity_of(pp, "[pp]\ndegree = 2\nschedule = gpipe\n", 2));
    assert_true(stages != two);
}

/* The most that any rank holds at once, of those that are planned; how many these are. */
static int64_t most_alive(const char *schedule, bool rough, int *planned)
{
    weft_text text = {0};
    plan_run p;
    weft_roofline r;
    weft_forecast f;
    int64_t most = 0;
    weft_text_print(&text, "%s[pp]\ndegree = 16\nschedule = %s\n",
                    "[train]\nsteps = 2\nseq_len = 64\nglobal_batch = 8\nmicro_batch = 1\n"
                    "[llama3]\ndim = 32\nn_layers = 31\nn_heads = 4\nn_kv_heads = 2\nhead_dim = "
                    "8\nffn_dim = 48\nvocab_size = 64\n",
                    schedule);
    plan_run_start(&p, "llama3 local pp adamw", weft_text_get(&text),
                   &(weft_plan_options){.ranks = 16, .train_only = true, .rough = rough});
    assert_false(weft_plan_roofline(p.plan, &r));
    assert_int_equal(weft_plan_forecast(p.plan, &r, &f, NULL), WEFT_OK);
    *planned = 0;
    for (int i = 0; i < 16; i++) {
        *planned += f.like[i] == i;
        if (f.like[i] == i && f.ranks[i]->live_peak > most)
            most = f.ranks[i]->live_peak;
    }
    weft_forecast_release(p.plan, &f);
    plan_run_release(&p);
    weft_text_release(&text);
    return most;
}

/* Of ranks that are alike a rough plan has few, and that one among them which holds most: the first
 * by 1F1B; one in the middle where gradients of weights wait. */
static void few_of_many_are_planned(void **state)
{
    static const char *const schedules[] = {"1f1b", "zb_h1", "gpipe"};
    (void)state;
    for (size_t i = 0; i < sizeof schedules / sizeof *schedules; i++) {
        int few, all;
        const int64_t rough = most_alive(schedules[i], true, &few),
                      whole = most_alive(schedules[i], false, &all);
        assert_int_equal(all, 16);
        if (few > 6 || rough > whole || (double)rough < 0.98 * (double)whole)
            fail_msg("%s: %d ranks planned, %lld bytes alive at most, for %lld", schedules[i], few,
                     (long long)rough, (long long)whole);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_operation_counts_once),
        cmocka_unit_test(few_of_many_are_planned),
        cmocka_unit_test(collectives_take_time),
        cmocka_unit_test(stages_send_activations_and_gradients),
        cmocka_unit_test(ranks_of_a_pipeline_agree),
        cmocka_unit_test(plans_are_what_runs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
