/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of tasks: those of the known schedules, as text, and proved or refused. */
#include "../../lib/pipeline_lists.h"
#include "../../lib/pipeline_sim.h"
#include "kit/task_lists.h"
#include "plugins/pp/pp.h"

#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <weft/files.h>
/* last: it needs the headers above */
#include <cmocka.h>

static weft_tasks *create(int ranks, int stages, int64_t micro)
{
    weft_tasks *t;
    assert_int_equal(weft_tasks_create(ranks, stages, micro, true, &t, NULL), WEFT_OK);
    return t;
}

/* The most micro-batches of all of a rank's stages together that wait for their backward. */
static int64_t most_waiting(const weft_tasks *t, int rank)
{
    int64_t alive = 0, most = 0;
    for (int i = 0; i < t->of[rank].n; i++) {
        weft_part part = t->of[rank].list[i].part;
        alive += (part == WEFT_PART_F) - (part == WEFT_PART_B);
        most = alive > most ? alive : most;
    }
    return most;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static void check_one(const char *kind, int p, int v, int64_t m)
{
    weft_tasks *t = pipeline_schedule(kind, p, p * v, m);
    weft_error err = {0};
    if (weft_tasks_verify(t, 1, NULL, &err))
        fail_msg("%s, %d ranks, %d stages each, %d micro-batches: %s", kind, p, v, (int)m,
                 weft_error_text(&err));
    assert_true(pipeline_finishes(t, 1, 1));
    bool whole = m % p == 0 && m >= p;
    for (int r = 0; r < p; r++) {
        int64_t want = strcmp(kind, "gpipe") == 0  ? v * m
                       : strcmp(kind, "1f1b") == 0 ? least(m, p - r)
                       : v > 1                     ? least(v * m, (v - 1) * p + 2 * (p - 1 - r) + 1)
                                                   : least(m, p - r);
        if (whole || v == 1)
            assert_int_equal(most_waiting(t, r), want);
    }
    double bubble = 3.0 * (p - 1) / v;
    if ((v > 1 ? whole : m >= p) && fabs(pipeline_bubble(t) - bubble) > 1e-6)
        fail_msg("%s, %d ranks, %d stages each, %d micro-batches: idle for %g, not %g", kind, p, v,
                 (int)m, pipeline_bubble(t), bubble);
    weft_tasks_destroy(t);
}

static void known_schedules_have_their_bubbles(void **state)
{
    (void)state;
    for (int p = 1; p <= 8; p++)
        for (int64_t m = 1; m <= 20; m++) {
            check_one("1f1b", p, 1, m);
            for (int v = 1; v <= 3; v++) {
                check_one("gpipe", p, v, m);
                check_one("interleaved", p, v, m);
            }
        }
}

/* How far ahead they are is what each costs: zb_h1 holds as much as 1f1b, zb_h2 about twice as
 * much. With enough micro-batches ranks wait two thirds of what those of 1f1b do. */
static void zero_bubbles_are_ahead(void **state)
{
    (void)state;
    for (int p = 2; p <= 8; p++)
        for (int64_t m = p; m <= 20; m++)
            for (int twice = 0; twice < 2; twice++) {
                weft_tasks *t = pipeline_schedule(twice ? "zb_h2" : "zb_h1", p, p, m);
                for (int r = 0; r < p; r++)
                    assert_int_equal(most_waiting(t, r),
                                     least(m, twice ? 2 * (p - 1 - r) + 1 : p - r));
                if (m >= 2 * p && fabs(pipeline_bubble(t) - 2 * (p - 1)) > 1e-6)
                    fail_msg("zb_h%d, %d ranks, %d micro-batches: idle for %g", 1 + twice, p,
                             (int)m, pipeline_bubble(t));
                weft_tasks_destroy(t);
            }
}

static weft_status refill(const char *name, weft_tasks *t, weft_error *err)
{
    const weft_pipeline_view view = {t->ranks, t->stages, t->micro_batches, t->rank_of};
    return pp_fill(pp_find_schedule(name), &view, t, err);
}

static void stages_that_do_not_fit_are_refused(void **state)
{
    (void)state;
    weft_error err = {0};
    weft_tasks *t = create(2, 4, 3);
    assert_int_equal(refill("zb_h1", t, &err), WEFT_ERR_INPUT);
    assert_non_null(strstr(weft_error_text(&err), "zb_h1 cannot have 4 stages on 2 ranks"));
    weft_tasks_destroy(t);
    weft_error_clear(&err);
    t = create(2, 3, 3);
    assert_int_equal(refill("gpipe", t, &err), WEFT_ERR_INPUT);
    weft_tasks_destroy(t);
    weft_error_clear(&err);
    assert_int_equal(weft_tasks_create(2, 2, (int64_t)1 << 40, true, &t, &err), WEFT_ERR_INPUT);
    assert_null(t);
    weft_error_release(&err);
}

/* ---- text ---- */

static void text_comes_back(void **state)
{
    (void)state;
    weft_tasks *t = pipeline_schedule("interleaved", 3, 6, 11), *again = create(3, 6, 11);
    weft_text one = {0}, two = {0};
    weft_tasks_print(t, &one);
    assert_int_equal(pipeline_parse(again, weft_text_get(&one), NULL), WEFT_OK);
    weft_tasks_print(again, &two);
    assert_string_equal(weft_text_get(&one), weft_text_get(&two));
    assert_memory_equal(weft_text_get(&one), "rank 0: begin 0F0 0F1 0F2 3F0", 29);
    for (const char *line = weft_text_get(&one); *line; line += strcspn(line, "\n") + 1)
        assert_true(strcspn(line, "\n") <= 100);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(t->of[r].n, again->of[r].n);
        for (int i = 0; i < t->of[r].n; i++) {
            const weft_task *a = &t->of[r].list[i], *b = &again->of[r].list[i];
            assert_true(a->part == b->part && a->stage == b->stage &&
                        a->micro_batch == b->micro_batch);
        }
    }
    weft_text_release(&one);
    weft_text_release(&two);
    weft_tasks_destroy(t);
    weft_tasks_destroy(again);
}

static void bad_text_is_named(void **state)
{
    (void)state;
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"# a comment\n\nrank 0: begin 0F\n", "x:3: '0F' is not a task"},
        {"rank 0: 0F0x", "x:1: '0F0x' is not a task"},
        {"rank 0: F0", "x:1: 'F0' is not a task"},
        {"rank 0: 0f0", "x:1: '0f0' is not a task"},
        {"rank 0: -1F0", "x:1: '-1F0' is not a task"},
        {"rank 0: 0F99999999999999999999", "is not a task"},
        {"rank 0: update#\n begins", "x:2: 'begins' is not a task"},
        {"begin", "x:1: 'begin' stands before any rank"},
        {"rank", "x:1: 'rank' must be followed by a number"},
        {"rank 1 begin", "x:1: '1' is not the number of a rank"},
        {"rank 1:0F0", "x:1: '1:0F0' is not the number of a rank"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weft_tasks *t = create(2, 2, 2);
        weft_error err = {0};
        assert_int_equal(pipeline_parse(t, cases[i].text, &err), WEFT_ERR_INPUT);
        if (!strstr(weft_error_text(&err), cases[i].error))
            fail_msg("'%s' gives '%s'", cases[i].text, weft_error_text(&err));
        weft_error_release(&err);
        weft_tasks_destroy(t);
    }
}

/* ---- tables of PyTorch, which its own code wrote ---- */

static weft_tasks *read_table(const char *name, int64_t micro, pp_lists *lists)
{
    const char *tree = getenv("WEFT_TREE");
    char *path = weft_format("%s/tests/golden/torch_schedules/%s.csv", tree ? tree : ".", name);
    char *text;
    size_t size;
    weft_error err = {0};
    if (weft_read_file(path, &text, &size, &err) || pp_lists_read(path, text, size, lists, &err))
        fail_msg("%s", weft_error_text(&err));
    assert_true(lists->table && lists->micro_batches == micro);
    weft_tasks *t = create(lists->ranks, lists->stages, micro);
    memcpy(t->rank_of, lists->rank_of, (size_t)lists->stages * sizeof *t->rank_of);
    assert_int_equal(pp_lists_fill(lists, t, NULL), WEFT_OK);
    assert_int_equal(weft_tasks_frame(t, NULL), WEFT_OK);
    if (weft_tasks_find_sending(t, &err))
        fail_msg("%s: %s", name, weft_error_text(&err));
    weft_free(path);
    weft_free(text);
    return t;
}

static void assert_same_lists(const weft_tasks *a, const weft_tasks *b)
{
    weft_text one = {0}, two = {0};
    weft_tasks_print(a, &one);
    weft_tasks_print(b, &two);
    assert_string_equal(weft_text_get(&one), weft_text_get(&two));
    weft_text_release(&one);
    weft_text_release(&two);
}

static void tables_of_pytorch_are_ours(void **state)
{
    (void)state;
    static const struct {
        const char *file, *schedule;
        int64_t micro;
        int overlapped;
        bool same;
    } cases[] = {
        {"interleaved1f1b", "ScheduleInterleaved1F1B", 8, 0, true},
        {"interleavedzb", "interleavedzerobubble", 8, 0, true},
        {"zb1p", "zb_h1", 10, 0, true},
        {"zbv", "ZBVZeroBubble", 8, 0, true},
        {"zbv_few", "zbv", 3, 0, true},
        {"dualpipev", "ScheduleDualPipeV", 10, 41, true},
        {"loopedbfs", "LoopedBFS", 4, 0, false}, /* its backwards begin with the last */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        pp_lists lists;
        weft_tasks *t = read_table(cases[i].file, cases[i].micro, &lists);
        assert_int_equal(lists.overlapped, cases[i].overlapped);
        assert_int_equal(lists.out_of_order, cases[i].same ? -1 : 2);
        weft_tasks *ours =
            pipeline_schedule(cases[i].schedule, t->ranks, t->stages, t->micro_batches);
        for (int s = 0; s < t->stages; s++)
            assert_int_equal(t->rank_of[s], ours->rank_of[s]);
        if (cases[i].same)
            assert_same_lists(t, ours);
        weft_tasks_destroy(ours);
        weft_tasks_destroy(t);
        pp_lists_release(&lists);
    }
}

static void a_table_comes_back(void **state)
{
    (void)state;
    weft_tasks *t = pipeline_schedule("dualpipev", 3, 6, 7), *again = create(3, 6, 7);
    weft_text csv = {0};
    weft_tasks_print_csv(t, &csv);
    assert_memory_equal(weft_text_get(&csv), "0F0,0F1,0F2,0F3,0F4,5F0,5I0,", 28);
    assert_int_equal(pipeline_parse(again, weft_text_get(&csv), NULL), WEFT_OK);
    memcpy(again->rank_of, t->rank_of, 6 * sizeof *t->rank_of);
    assert_int_equal(weft_tasks_frame(again, NULL), WEFT_OK);
    assert_same_lists(t, again);
    weft_text_release(&csv);
    weft_tasks_destroy(t);
    weft_tasks_destroy(again);
}

static void bad_tables_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *text, *error; /* NULL: it is read */
    } cases[] = {
        {"0F0, 0B0 ,\r\n1F0,,1I0,1W0\r\n\r\n", NULL},
        {"\"0F0\",0UNSHARD,0SEND_F1,0RESHARD,(1F0;0B0)OVERLAP_F_B,0WAIT_SEND_F0", NULL},
        {"0F0,0F1,0F3x\n", "x:1: column 9: '0F3x' is no task"},
        {"0F0,,\n,1F0,F1\n", "x:2: column 6: 'F1' is no task"},
        {"0F0,0B", "x:1: column 5: '0B' has no micro-batch"},
        {"0F0,0f1", "x:1: column 5: '0f1' is no task"},
        {"0F0,-1F0", "'-1F0' is no task"},
        {"0F0,0OVERLAP_F_B1", "'0OVERLAP_F_B1' is no task"},
        {"0F0,0UNSHARDED", "is no task"},
        {"0F0,(0F1;1B0)", "'(0F1;1B0)' is no pair"},
        {"0F0,(0F1;1B0)OVERLAP_F_BX", "is no pair"},
        {"0F0,(0F1;)OVERLAP_F_B", "has nothing between its brackets or semicolons"},
        {"0F0,()OVERLAP_F_B", "has nothing between"},
        {"0F0,(0F1;1X0)OVERLAP_F_B", "'1X0' is no task"},
        {"0F0,\"0F1", "x:1: column 5: '\"' begins a cell that does not end"},
        {"0F0,0F99999999999999999", "is no task"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weft_tasks *t = create(2, 2, 2);
        weft_error err = {0};
        weft_status s = pipeline_parse(t, cases[i].text, &err);
        assert_int_equal(s, cases[i].error ? WEFT_ERR_INPUT : WEFT_OK);
        if (cases[i].error && !strstr(weft_error_text(&err), cases[i].error))
            fail_msg("'%s' gives '%s'", cases[i].text, weft_error_text(&err));
        weft_error_release(&err);
        weft_tasks_destroy(t);
    }
}

/* B of a stage that has I or W is both. */
static void a_whole_backward_is_its_halves(void **state)
{
    (void)state;
    weft_tasks *t = create(1, 2, 2);
    weft_text text = {0};
    assert_int_equal(pipeline_parse(t, "rank 0: 0F0 1F0 1B0 0I0 0W0 0F1 1F1 1B1 0B1", NULL),
                     WEFT_OK);
    weft_tasks_print(t, &text);
    assert_string_equal(weft_text_get(&text), "rank 0: 0F0 1F0 1B0 0I0 0W0 0F1 1F1 1B1 0I1 0W1\n");
    weft_text_release(&text);
    weft_tasks_destroy(t);
}

/* PyTorch's lists need more places than one, or are slower with one. */
static void places_are_as_many_as_lists_need(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int p, v;
        int64_t micro, sending;
    } cases[] = {
        {"1f1b", 8, 1, 32, 1},           {"interleaved", 8, 2, 32, 1},   {"gpipe", 8, 2, 32, 1},
        {"zb_h1", 8, 1, 32, 1},          {"zbv", 8, 2, 32, 1},           {"dualpipev", 8, 2, 32, 1},
        {"interleaved_zb", 8, 2, 32, 6}, {"interleaved_zb", 4, 2, 8, 3}, {"bfs", 8, 2, 32, 24},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weft_tasks *t =
            pipeline_schedule(cases[i].name, cases[i].p, cases[i].p * cases[i].v, cases[i].micro);
        assert_int_equal(weft_tasks_find_sending(t, NULL), WEFT_OK);
        if (t->sending != cases[i].sending)
            fail_msg("%s, %d ranks: %d places, not %d", cases[i].name, cases[i].p, (int)t->sending,
                     (int)cases[i].sending);
        weft_tasks_destroy(t);
    }
    weft_tasks *t = pipeline_schedule("interleaved_zb", 4, 8, 8);
    weft_error err = {0};
    assert_int_equal(weft_tasks_verify(t, 1, NULL, &err), WEFT_ERR_INPUT); /* one short */
    assert_non_null(strstr(weft_error_text(&err), "in a circle"));
    weft_error_release(&err);
    weft_tasks_destroy(t);
}

/* ---- proof ---- */

static void bad_lists_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *rank0, *rank1, *error;
    } cases[] = {
        {"begin 0F0 0F1 0B0 0B1 step_end update", "begin 1F0 1B0 1F1 1B1 step_end update", NULL},
        {"begin 0F0 0B0 0B1 step_end update", "begin 1F0 1B0 1F1 1B1 step_end update",
         "rank 0 lacks 0F1"},
        {"begin 0F0 0F1 0B0 0B1 step_end update", "begin 1F0 1B0 1F1 step_end update",
         "rank 1 lacks 1B1"},
        {"begin 0F0 0F1 0F0 0B0 0B1 step_end update", "begin 1F0 1B0 1F1 1B1 step_end update",
         "rank 0, task 3 (0F0) is there twice: it is also rank 0, task 1 (0F0)"},
        {"begin 0F0 0F1 0B0 0B1 0B1 step_end update", "begin 1F0 1B0 1F1 1B1 step_end update",
         "rank 0, task 5 (0B1) is there twice"},
        {"begin 0F0 0B1 0F1 0B0 step_end update", "begin 1F0 1B0 1F1 1B1 step_end update",
         "rank 0, task 2 (0B1) runs before its forward, rank 0, task 3 (0F1)"},
        {"begin 0F0 0F1 0B0 0B1 step_end update", "begin 1B0 1F0 1F1 1B1 step_end update",
         "rank 1, task 1 (1B0) runs before its forward"},
        {"begin 0F0 0B0 0F1 0B1 step_end update", "begin 1F0 1F1 1B0 1B1 step_end update",
         "ranks would wait for each other for ever: rank"},
        {"begin 0F0 0F1 0B0 0B1 step_end update", "begin 1F1 1F0 1B0 1B1 step_end update",
         "rank 1, task 1 (1F1) receives activations out of order: it is sent the result of rank 0, "
         "task 1 (0F0)"},
        {"begin 0F0 0F1 0B1 0B0 step_end update", "begin 1F0 1F1 1B0 1B1 step_end update",
         "rank 0, task 3 (0B1) receives gradients out of order"},
        {"begin 1F0 0F1 0B0 0B1 step_end update", "begin 1F0 1B0 1F1 1B1 step_end update",
         "rank 0, task 1 (1F0) is of another rank's stage"},
        {"begin 2F0 0F1 0B0 0B1 step_end update", "begin 1F0 1B0 1F1 1B1 step_end update",
         "rank 0, task 1 (2F0) is of a stage that the pipeline does not have"},
        {"begin 0F2 0F1 0B0 0B1 step_end update", "begin 1F0 1B0 1F1 1B1 step_end update",
         "rank 0, task 1 (0F2) is of a micro-batch that the step does not have"},
        {"0F0 0F1 0B0 0B1 step_end update", "begin 1F0 1B0 1F1 1B1 step_end update",
         "rank 0, task 0 (0F0) is first; that must be begin"},
        {"begin 0F0 0F1 0B0 0B1 update", "begin 1F0 1B0 1F1 1B1 step_end update",
         "rank 0, task 4 (0B1) stands at the end"},
        {"begin 0F0 begin 0F1 0B0 0B1 step_end update", "begin 1F0 1B0 1F1 1B1 step_end update",
         "rank 0, task 2 (begin) stands among forwards and backwards"},
        {"begin 0F0 0F1 0B0 0B1 step_end update", "", "rank 1 has 0 tasks"},
        {"begin 0F0 0F1 0I0 0I1 0W0 0W1 step_end update", "begin 1F0 1B0 1F1 1B1 step_end update",
         NULL},
        {"begin 0F0 0F1 0I0 0I1 0W0 step_end update", "begin 1F0 1B0 1F1 1B1 step_end update",
         "rank 0 lacks 0W1; of a stage that has one W"},
        {"begin 0F0 0F1 0I0 0W0 0W1 step_end update", "begin 1F0 1B0 1F1 1B1 step_end update",
         "rank 0 lacks 0I1"},
        {"begin 0F0 0F1 0W0 0I0 0I1 0W1 step_end update", "begin 1F0 1B0 1F1 1B1 step_end update",
         "rank 0, task 3 (0W0) reads a result that is made later, by rank 0, task 4 (0I0)"},
        {"begin 0F0 0F1 0I0 0W0 0I1 0W1 0W0 step_end update",
         "begin 1F0 1B0 1F1 1B1 step_end update", "(0W0) is there twice"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weft_tasks *t = create(2, 2, 2);
        weft_error err = {0};
        char *text = weft_format("rank 0: %s\nrank 1: %s\n", cases[i].rank0, cases[i].rank1);
        assert_int_equal(pipeline_parse(t, text, &err), WEFT_OK);
        weft_status s = weft_tasks_verify(t, 0, NULL, &err);
        assert_int_equal(s, cases[i].error ? WEFT_ERR_INPUT : WEFT_OK);
        if (cases[i].error && !strstr(weft_error_text(&err), cases[i].error))
            fail_msg("'%s' gives '%s'", text, weft_error_text(&err));
        weft_error_release(&err);
        weft_tasks_destroy(t);
        weft_free(text);
    }
}

/* ---- random lists ---- */

static void proof_agrees_with_simulation(void **state)
{
    (void)state;
    int accepted = 0, refused = 0;
    for (uint64_t seed = 1; seed <= 10000; seed++) {
        pipeline_case c;
        weft_error err = {0};
        pipeline_case_init(&c, seed);
        bool proved = !weft_tasks_verify(c.tasks, c.sending, NULL, &err);
        if (proved != pipeline_finishes(c.tasks, c.sending, seed)) {
            weft_text text = {0};
            pipeline_case_print(&c, &text);
            fail_msg("seed %d: %s\n%s", (int)seed,
                     proved ? "proved, and does not finish" : weft_error_text(&err),
                     weft_text_get(&text));
        }
        assert_int_equal(proved, err.n_items == 0);
        accepted += proved;
        refused += !proved;
        weft_error_release(&err);
        pipeline_case_release(&c);
    }
    print_message("%d lists accepted, %d refused\n", accepted, refused);
    assert_true(accepted > 1000 && refused > 1000);
}

/* Seconds of the processor for making and proving a schedule: the least of three. */
static double time_of(int64_t micro_batches)
{
    double least = 0;
    for (int i = 0; i < 3; i++) {
        const clock_t start = clock();
        weft_tasks *t = pipeline_schedule("interleaved", 16, 128, micro_batches);
        assert_int_equal(weft_tasks_verify(t, 1, NULL, NULL), WEFT_OK);
        const double took = (double)(clock() - start) / CLOCKS_PER_SEC;
        least = i == 0 || took < least ? took : least;
        weft_tasks_destroy(t);
    }
    return least;
}

/* Eight times as many micro-batches take about eight times as long, whatever the machine has to do
 * meanwhile. */
static void large_ones_take_no_time(void **state)
{
    (void)state;
    const double few = time_of(128), many = time_of(1024);
    print_message("16 ranks, 128 stages: %.4f s for 128 micro-batches, %.4f s for 1024\n", few,
                  many);
    assert_true(many < 40 * few); /* by squares: 64 */
}

/* Every allocation may fail. */
static void out_of_memory_is_said(void **state)
{
    (void)state;
    weft_tasks *t = pipeline_schedule("1f1b", 3, 3, 5);
    for (long n = 1;; n++) {
        weft_error err = {0};
        weft_alloc_fail_at(n);
        weft_status s = weft_tasks_verify(t, 0, NULL, &err);
        bool all = weft_alloc_count() < n;
        weft_alloc_fail_at(0);
        weft_error_release(&err);
        assert_int_equal(s, all ? WEFT_OK : WEFT_ERR_MEMORY);
        if (all)
            break;
    }
    weft_tasks_destroy(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_schedules_have_their_bubbles),
        cmocka_unit_test(zero_bubbles_are_ahead),
        cmocka_unit_test(stages_that_do_not_fit_are_refused),
        cmocka_unit_test(text_comes_back),
        cmocka_unit_test(bad_text_is_named),
        cmocka_unit_test(tables_of_pytorch_are_ours),
        cmocka_unit_test(a_table_comes_back),
        cmocka_unit_test(bad_tables_are_named),
        cmocka_unit_test(a_whole_backward_is_its_halves),
        cmocka_unit_test(places_are_as_many_as_lists_need),
        cmocka_unit_test(bad_lists_are_named),
        cmocka_unit_test(proof_agrees_with_simulation),
        cmocka_unit_test(large_ones_take_no_time),
        cmocka_unit_test(out_of_memory_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
