/* SPDX-License-Identifier: Apache-2.0 */
/* Schedules with times: how long ranks wait, and what is drawn of it. */
#include "../../lib/pipeline_lists.h"
#include "../../lib/pipeline_sim.h"

#include "forecast/timeline.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <weft/random.h>
/* last: it needs the headers above */
#include <cmocka.h>

/* A forward through all stages of a rank takes `unit`, a backward twice that. */
static weft_costs even_costs(const weft_tasks *t, double unit)
{
    weft_costs c;
    assert_int_equal(weft_costs_init(&c, t->ranks, t->stages, NULL), WEFT_OK);
    for (int s = 0; s < t->stages; s++) {
        c.seconds[WEFT_PART_F][s] = unit * t->ranks / t->stages;
        c.seconds[WEFT_PART_B][s] = 2 * c.seconds[WEFT_PART_F][s];
    }
    return c;
}

static weft_timeline *simulate(const weft_tasks *t, const weft_costs *c, int64_t sending)
{
    weft_timeline *line;
    weft_error err = {0};
    if (weft_timeline_create(t, c, sending, &line, &err))
        fail_msg("%s", weft_error_text(&err));
    return line;
}

/* ---- figures of the known schedules ---- */

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t alive(const char *kind, int p, int v, int64_t m, int r)
{
    if (strcmp(kind, "gpipe") == 0)
        return v * m;
    return v == 1 ? least(m, p - r) : least(v * m, (v - 1) * p + 2 * (p - 1 - r) + 1);
}

static void check_known(const char *kind, int p, int v, int64_t m, int64_t sending)
{
    weft_tasks *t = pipeline_schedule(kind, p, p * v, m);
    weft_costs c = even_costs(t, 1);
    weft_timeline *line = simulate(t, &c, sending);
    double idle = 3.0 * (p - 1) / v, step = 3.0 * (double)m + idle;
    if (fabs(line->idle_most_s - idle) > 1e-9 || fabs(line->step_s - step) > 1e-9)
        fail_msg("%s, %d ranks, %d stages each, %d micro-batches, %d sent at a time: idle for %g "
                 "of %g, not %g of %g",
                 kind, p, v, (int)m, (int)sending, line->idle_most_s, line->step_s, idle, step);
    assert_true(fabs(line->bubble - idle / step) < 1e-9);
    for (int r = 0; r < p; r++)
        assert_int_equal(line->alive[r], alive(kind, p, v, m, r));
    weft_timeline_destroy(line);
    weft_costs_release(&c);
    weft_tasks_destroy(t);
}

static void known_schedules_wait_as_they_should(void **state)
{
    (void)state;
    for (int64_t sending = 0; sending <= 2; sending++)
        for (int p = 2; p <= 8; p++)
            for (int64_t m = p; m <= 3 * p + 1; m++) {
                check_known("gpipe", p, 1, m, sending);
                check_known("1f1b", p, 1, m, sending);
                for (int v = 1; v <= 3 && m % p == 0; v++) {
                    check_known("gpipe", p, v, m, sending);
                    check_known("interleaved", p, v, m, sending);
                }
            }
}

/* Forward, input gradients and weights take 503, 604 and 436, as a block of 8B does, and a transfer
 * 0.02 of what they take on average. */
static void zero_bubbles_are_as_small_as_promised(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int v;
        double most; /* percent of the time that ranks are idle */
    } cases[] = {
        {"zb_h1", 1, 9.3}, {"interleaved_zb", 2, 5.3}, {"zbv", 2, 4.8}, {"dualpipev", 2, 5.6}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weft_tasks *t = pipeline_schedule(cases[i].name, 8, 8 * cases[i].v, 32);
        weft_costs c;
        assert_int_equal(weft_costs_init(&c, t->ranks, t->stages, NULL), WEFT_OK);
        for (int s = 0; s < t->stages; s++) {
            c.seconds[WEFT_PART_F][s] = 0.503 / cases[i].v;
            c.seconds[WEFT_PART_B][s] = 0.604 / cases[i].v;
            c.seconds[WEFT_PART_W][s] = 0.436 / cases[i].v;
        }
        assert_int_equal(weft_tasks_find_sending(t, NULL), WEFT_OK);
        c.latency_s = 0.02 * (0.503 + 0.604 + 0.436) / 3;
        weft_timeline *line = simulate(t, &c, t->sending);
        print_message("%s: %.2f %% idle\n", cases[i].name, 100 * line->bubble);
        assert_true(100 * line->bubble <= cases[i].most &&
                    100 * line->bubble > 0.95 * cases[i].most);
        weft_timeline_destroy(line);
        weft_costs_release(&c);
        weft_tasks_destroy(t);
    }
}

/* ---- times ---- */

static void assert_time(const weft_timeline *line, int rank, int i, double start, double end)
{
    const weft_task_time *at = &line->of[rank][i];
    if (fabs(at->start - start) > 1e-9 || fabs(at->end - end) > 1e-9)
        fail_msg("rank %d, task %d runs from %g to %g, not from %g to %g", rank, i, at->start,
                 at->end, start, end);
}

/* By hand: begin 0F0 0F1 0B0 0B1 step_end update; begin 1F0 1B0 1F1 1B1 step_end update. */
static void transfers_take_time(void **state)
{
    (void)state;
    weft_tasks *t = pipeline_schedule("1f1b", 2, 2, 2);
    weft_costs c = even_costs(t, 1);
    c.bytes[0][0] = 1; /* 0.5 s */
    c.bytes[1][1] = 2;
    c.bytes_per_s = 2;
    for (int r = 0; r < 2; r++) {
        c.seconds[WEFT_PART_STEP_END][r] = 1 + r;
        c.seconds[WEFT_PART_UPDATE][r] = 0.5;
    }
    for (int64_t sending = 0; sending < 2; sending++) {
        weft_timeline *line = simulate(t, &c, sending);
        double wait = sending ? 0.5 : 0; /* the first result must have left */
        assert_time(line, 0, 1, 0, 1);
        assert_time(line, 0, 2, 1 + wait, 2 + wait);
        assert_time(line, 1, 1, 1.5, 2.5);
        assert_time(line, 1, 2, 2.5, 4.5);
        assert_time(line, 1, 3, 4.5, 5.5);
        assert_time(line, 1, 4, 5.5, 7.5);
        assert_time(line, 0, 3, 5.5, 7.5);
        assert_time(line, 0, 4, 8.5, 10.5);
        assert_time(line, 0, 5, 10.5, 11.5);
        assert_time(line, 1, 5, 7.5, 9.5);
        assert_time(line, 1, 6, 11.5, 12); /* nobody updates before all know the norm */
        assert_true(fabs(line->step_s - 12) < 1e-9);
        assert_true(fabs(line->idle_s[0] - 4.5) < 1e-9 && fabs(line->idle_s[1]) < 1e-9);
        assert_true(fabs(line->bubble - (1 - 12 / 21.0)) < 1e-9);
        weft_timeline_destroy(line);
    }
    weft_costs_release(&c);
    weft_tasks_destroy(t);
}

/* By hand: begin 1F0 1F1 1F2 ...; what takes 3 s to arrive comes every 3 s, however soon it is
 * sent. */
static void transfers_follow_each_other(void **state)
{
    (void)state;
    weft_tasks *t = pipeline_schedule("gpipe", 2, 2, 3);
    weft_costs c = even_costs(t, 1);
    c.bytes[0][0] = 6;
    c.bytes_per_s = 2;
    weft_timeline *line = simulate(t, &c, 0);
    assert_time(line, 0, 3, 2, 3); /* all are sent by then */
    assert_time(line, 1, 1, 4, 5);
    assert_time(line, 1, 2, 7, 8);
    assert_time(line, 1, 3, 10, 11);
    weft_timeline_destroy(line);
    weft_costs_release(&c);
    weft_tasks_destroy(t);
}

/* A receive begins when its rank comes to the task before: the second forward's cannot arrive while
 * the first one's backward has not been come to. One link carries one thing at a time. */
static void receives_begin_one_task_ahead(void **state)
{
    (void)state;
    weft_tasks *t = pipeline_schedule("1f1b", 2, 2, 3);
    weft_costs c = even_costs(t, 1);
    c.bytes[0][0] = 10;
    c.bytes_per_s = 1;
    weft_timeline *line = simulate(t, &c, 0);
    assert_time(line, 1, 1, 11, 12);
    assert_time(line, 1, 2, 12, 14);
    assert_time(line, 1, 3, 22, 23); /* begun at 12, not at 2 nor at 11 */
    weft_timeline_destroy(line);
    weft_costs_release(&c);
    weft_tasks_destroy(t);
}

static void large_ones_take_no_time(void **state)
{
    (void)state;
    clock_t start = clock(); /* of this process: others may have the machine */
    weft_tasks *t = pipeline_schedule("interleaved", 16, 48, 256);
    weft_costs c = even_costs(t, 1);
    c.bytes_per_s = 1e12;
    weft_timeline *line = simulate(t, &c, 1);
    weft_text text = {0};
    weft_timeline_print(line, 200, &text);
    weft_timeline_print_svg(line, &text);
    double taken_s = (double)(clock() - start) / CLOCKS_PER_SEC;
    print_message("%d ranks, %d stages, %d micro-batches: %.3f s\n", t->ranks, t->stages,
                  (int)t->micro_batches, taken_s);
    assert_true(taken_s < 1);
    weft_text_release(&text);
    weft_timeline_destroy(line);
    weft_costs_release(&c);
    weft_tasks_destroy(t);
}

static void lists_without_an_end_are_refused(void **state)
{
    (void)state;
    weft_tasks *t;
    weft_timeline *line;
    weft_error err = {0};
    assert_int_equal(weft_tasks_create(2, 2, 2, true, &t, NULL), WEFT_OK);
    assert_int_equal(pipeline_parse(t,
                                    "rank 0: begin 0F0 0B0 0F1 0B1 step_end update\n"
                                    "rank 1: begin 1F0 1F1 1B0 1B1 step_end update\n",
                                    NULL),
                     WEFT_OK);
    weft_costs c = even_costs(t, 1);
    assert_int_equal(weft_timeline_create(t, &c, 0, &line, &err), WEFT_ERR_INTERNAL);
    assert_null(line);
    weft_error_release(&err);
    weft_costs_release(&c);
    weft_tasks_destroy(t);
}

static void out_of_memory_is_said(void **state)
{
    (void)state;
    weft_tasks *t = pipeline_schedule("1f1b", 3, 3, 5);
    for (long n = 1;; n++) {
        weft_costs c = {0};
        weft_timeline *line = NULL;
        weft_alloc_fail_at(n);
        weft_status s = weft_costs_init(&c, 3, 3, NULL);
        s = s ? s : weft_timeline_create(t, &c, 0, &line, NULL);
        bool all = weft_alloc_count() < n;
        weft_alloc_fail_at(0);
        weft_timeline_destroy(line);
        weft_costs_release(&c);
        assert_int_equal(s, all ? WEFT_OK : WEFT_ERR_MEMORY);
        if (all)
            break;
    }
    weft_tasks_destroy(t);
}

/* ---- pictures ---- */

static void rows_show_tasks(void **state)
{
    (void)state;
    weft_tasks *t = pipeline_schedule("1f1b", 2, 2, 3);
    weft_costs c = even_costs(t, 0.5);
    weft_timeline *line = simulate(t, &c, 1);
    weft_text text = {0};
    weft_timeline_print(line, 7 + 36, &text);
    assert_string_equal(weft_text_get(&text),
                        "rank 0 0--1--......0=====2--1=====...2=====\n"
                        "rank 1 ...0--0=====1--1=====2--2=====......\n"
                        "  - forward, = backward, . waits,\n"
                        "  + begin, step_end, update; numbers are micro-batches; a column is 167 "
                        "ms\n");
    weft_text_clear(&text);
    weft_timeline_print_summary(line, &text);
    assert_string_equal(weft_text_get(&text),
                        "step 6.00 s, bubble 25.0 %: 2 ranks, 2 stages, 3 micro-batches\n"
                        "  rank 0 waits 1.50 s; 2 micro-batches alive at most\n"
                        "  rank 1 waits 0 s; 1 micro-batch alive at most\n");
    weft_text_release(&text);
    weft_timeline_destroy(line);
    weft_costs_release(&c);
    weft_tasks_destroy(t);
}

static int count(const char *text, const char *what)
{
    int n = 0;
    for (; (text = strstr(text, what)); text++)
        n++;
    return n;
}

static void a_picture_has_a_box_a_task(void **state)
{
    (void)state;
    weft_tasks *t = pipeline_schedule("interleaved", 3, 6, 4);
    weft_costs c = even_costs(t, 0.001);
    weft_timeline *line = simulate(t, &c, 1);
    weft_text text = {0};
    weft_timeline_print_svg(line, &text);
    const char *svg = weft_text_get(&text);
    assert_int_equal(count(svg, "<g>"), 2 * 6 * 4); /* begin, step_end and update take no time */
    assert_int_equal(count(svg, "<title>rank 1: 4B3, from "), 1);
    assert_int_equal(count(svg, "url(#wait)\"/>\n"), 3);
    for (int i = 0; i < 2; i++) {
        static const char *const open[] = {"<g>", "<text "}, *const close[] = {"</g>", "</text>"};
        assert_int_equal(count(svg, open[i]), count(svg, close[i]));
    }
    assert_int_equal(count(svg, "nan") + count(svg, "inf"), 0);
    weft_text_release(&text);
    weft_timeline_destroy(line);
    weft_costs_release(&c);
    weft_tasks_destroy(t);
}

/* ---- measured times ---- */

static const char *const measured =
    "{\"step\": 1, \"parts\": [{\"part\": \"forward\", \"stage\": 0, \"ms\": 90}]}\n"
    "{\"step\": 2, \"parts\": [{\"part\": \"forward\", \"stage\": 0, \"ms\": 2}, {\"part\": "
    "\"backward\", \"stage\": 0, \"ms\": 4}, {\"part\": \"update\", \"ms\": 7}]}\n"
    "{\"step\": 2, \"eval_loss\": 3}\n"
    "{\"step\": 3, \"parts\": [{\"part\": \"forward\", \"stage\": 0, \"ms\": 1}, {\"part\": "
    "\"step_end\", \"rank\": 0, \"ms\": 0.5}]}\n";

static void measured_times_are_medians(void **state)
{
    (void)state;
    weft_costs c;
    assert_int_equal(weft_costs_init(&c, 1, 1, NULL), WEFT_OK);
    assert_int_equal(weft_costs_parse(&c, "m", measured, NULL), WEFT_OK);
    assert_true(fabs(c.seconds[WEFT_PART_F][0] - 0.002) < 1e-12);
    assert_true(fabs(c.seconds[WEFT_PART_B][0] - 0.004) < 1e-12);
    assert_true(fabs(c.seconds[WEFT_PART_STEP_END][0] - 0.0005) < 1e-12);
    assert_true(fabs(c.seconds[WEFT_PART_UPDATE][0] - 0.007) < 1e-12);
    assert_true(c.seconds[WEFT_PART_BEGIN][0] == 0);
    weft_costs_release(&c);
}

static void bad_times_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"{\"step\": 1}\nno\n", "m: no line has times of tasks; set [metrics] parts"},
        {"{\"parts\": [{\"part\": \"sideways\", \"stage\": 0, \"ms\": 1}]}", "m:1: a part must be"},
        {"{\"parts\": [{\"part\": \"forward\", \"stage\": 0}]}", "m:1: a part has no \"ms\""},
        {"{\"parts\": [{\"part\": \"forward\", \"stage\": 0, \"ms\": -1}]}",
         "m:1: a part has no \"ms\""},
        {"{\"parts\": [{\"part\": \"forward\", \"stage\": 2, \"ms\": 1}]}",
         "m:1: stage 2 of forward: the plan has 2"},
        {"{\"parts\": [{\"part\": \"update\", \"rank\": 3, \"ms\": 1}]}",
         "m:1: rank 3 of update: the plan has 2"},
        {"", "no line has times of tasks"},
        {measured, "no line has a time of forward of stage 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weft_costs c;
        weft_error err = {0};
        assert_int_equal(weft_costs_init(&c, 2, 2, NULL), WEFT_OK);
        assert_int_equal(weft_costs_parse(&c, "m", cases[i].text, &err), WEFT_ERR_INPUT);
        if (!strstr(weft_error_text(&err), cases[i].error))
            fail_msg("'%s' gives '%s'", cases[i].text, weft_error_text(&err));
        weft_error_release(&err);
        weft_costs_release(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_schedules_wait_as_they_should),
        cmocka_unit_test(zero_bubbles_are_as_small_as_promised),
        cmocka_unit_test(transfers_take_time),
        cmocka_unit_test(transfers_follow_each_other),
        cmocka_unit_test(receives_begin_one_task_ahead),
        cmocka_unit_test(large_ones_take_no_time),
        cmocka_unit_test(lists_without_an_end_are_refused),
        cmocka_unit_test(out_of_memory_is_said),
        cmocka_unit_test(rows_show_tasks),
        cmocka_unit_test(a_picture_has_a_box_a_task),
        cmocka_unit_test(measured_times_are_medians),
        cmocka_unit_test(bad_times_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
