/* SPDX-License-Identifier: Apache-2.0 */
/* What runs only every H steps: what follows a mark, what is refused, and which kinds of steps
 * there are. */
#include "../../lib/graph_text.h"
#include "../../lib/small_model.h"
#include "compile/program/lower.h"
#include "forecast/forecast.h"

/* The slow copy, the way to it, and what is made of both every four steps. */
typedef struct slow {
    weft_value *copy, *way, *next, *taken;
} slow;

static weft_value *end_of_step(model *m, weft_value *v)
{
    weft_value *copy = weft_add1(m->g, "gelu", NULL, v);
    return copy;
}

static slow add_slow(model *m, int64_t every)
{
    slow s;
    weft_value *fast = end_of_step(m, m->w->gradient);
    weft_set_update(m->g, m->w, fast);
    s.copy = weft_add_state_like(m->g, "copy", m->w, WEFT_F32, WEFT_STATE_AVERAGE);
    s.way = weft_add2(m->g, "add", "way", s.copy, fast);
    s.next = weft_add1(m->g, "gelu", "next", s.way);
    s.taken = weft_add2(m->g, "silu_mul", "taken", fast, s.next);
    weft_set_every(m->g, s.next, every, NULL);
    weft_set_every(m->g, s.taken, every, fast);
    weft_set_update(m->g, s.copy, s.next);
    weft_set_update(m->g, m->w, s.taken);
    return s;
}

static void finish(model *m)
{
    if (weft_graph_order(m->g))
        fail_msg("%s", weft_error_text(weft_graph_error(m->g)));
    weft_graph_assign_parts(m->g);
    weft_graph_verify(m->g, weft_graph_error(m->g));
}

static void what_follows(void **state)
{
    (void)state;
    model m;
    begin(&m);
    differentiate(&m);
    slow s = add_slow(&m, 4);
    weft_value *read = weft_add1(m.g, "sum", "read", s.taken);
    weft_add_report(m.g, "read", read);
    finish(&m);
    if (weft_graph_status(m.g))
        fail_msg("%s", weft_error_text(weft_graph_error(m.g)));
    assert_int_equal(s.next->node->every, 4);
    assert_int_equal(s.way->node->every, 4); /* read by that alone */
    assert_int_equal(s.taken->node->every, 4);
    assert_int_equal(weft_value_every(s.taken), 1); /* it is there in every step */
    assert_int_equal(read->node->every, 1);
    assert_ptr_equal(m.w->becomes, s.taken);
    assert_null(s.taken->node->ins[0]->update_of);
    assert_int_equal(s.taken->node->ins[0]->node->every, 1);
    assert_string_equal(m.w->updated_by, "core");
    end(&m);
}

/* In more steps than either of its readers. */
static void of_two_readers(void **state)
{
    (void)state;
    model m;
    begin(&m);
    differentiate(&m);
    weft_value *way = weft_add1(m.g, "gelu", "way", m.w->gradient);
    static const int64_t every[] = {6, 9};
    for (int i = 0; i < 2; i++) {
        char name[2] = {(char)('a' + i), 0};
        weft_value *s = weft_add_state_like(m.g, name, m.w, WEFT_F32, WEFT_STATE_AVERAGE);
        weft_value *next = weft_add2(m.g, "add", NULL, s, way);
        weft_set_every(m.g, next, every[i], NULL);
        weft_set_update(m.g, s, next);
    }
    finish(&m);
    assert_int_equal(weft_graph_status(m.g), WEFT_OK);
    assert_int_equal(way->node->every, 3);
    end(&m);
}

/* ---- mistakes ---- */

static void never(model *m)
{
    add_slow(m, 0);
}
static void in_micro_batches(model *m)
{
    weft_set_every(m->g, weft_graph_loss(m->g), 2, NULL);
}
static void a_state(model *m)
{
    slow s = add_slow(m, 2);
    weft_set_every(m->g, s.copy, 2, NULL);
}
static void no_operand(model *m)
{
    slow s = add_slow(m, 2);
    weft_set_every(m->g, s.way, 2, s.taken);
}
static void read_in_between(model *m)
{
    slow s = add_slow(m, 2);
    weft_add_report(m->g, "sum", weft_add1(m->g, "sum", "read", s.next));
    finish(m);
}
static void reported(model *m)
{
    weft_value *n = weft_add1(m->g, "sum", "n", m->w->gradient);
    weft_set_every(m->g, n, 3, NULL);
    weft_add_report(m->g, "n", n);
    finish(m);
}
static void read_by_another_period(model *m)
{
    slow s = add_slow(m, 2);
    weft_value *t = weft_add_state_like(m->g, "t", m->w, WEFT_F32, WEFT_STATE_AVERAGE);
    weft_value *next = weft_add2(m->g, "add", "third", t, s.next);
    weft_set_every(m->g, next, 3, NULL);
    weft_set_update(m->g, t, next);
    finish(m);
}
static void five_periods(model *m)
{
    for (int i = 0; i < 5; i++) {
        char name[2] = {(char)('a' + i), 0};
        weft_value *s = weft_add_state_like(m->g, name, m->w, WEFT_F32, WEFT_STATE_AVERAGE);
        weft_value *next = weft_add2(m->g, "add", NULL, s, m->w->gradient);
        weft_set_every(m->g, next, 2 + i, NULL);
        weft_set_update(m->g, s, next);
    }
    finish(m);
}
static void twice_all_the_same(model *m)
{
    add_slow(m, 2);
    weft_set_update(m->g, m->w, end_of_step(m, m->w->gradient));
}

static void mistakes(void **state)
{
    (void)state;
    static const struct {
        void (*make)(model *m);
        const char *words;
    } cases[] = {
        {never, "next cannot be made every 0 steps: the least is 1, every step"},
        {in_micro_batches, "cannot be made every 2 steps: only what runs once a step can be left"},
        {a_state, "copy cannot be made every 2 steps: only what runs once a step"},
        {no_operand, "way cannot be made every 2 steps: what it is in the others must be an"},
        {read_in_between, "next (core) is made every 2 steps, and read (core) needs it in others"},
        {reported, "n (core) is made every 3 steps, and n (core) needs it in others, too; let a "},
        {read_by_another_period, "next (core) is made every 2 steps, and third (core) needs it"},
        {five_periods, "nodes run every 2, 3, 4, 5 and 6 (core) steps; a run has at most 4"},
        {twice_all_the_same, "up is updated twice, first by core; only one plugin may do it"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        model m;
        begin(&m);
        differentiate(&m);
        cases[i].make(&m);
        wants(&m, cases[i].words);
        end(&m);
    }
}

/* ---- kinds of steps ---- */

/* Counted over many steps: those there are, and how many are of each. */
static void kinds_of_steps(void **state)
{
    (void)state;
    static const weft_lowered cases[] = {
        {.n_periods = 0},
        {.n_periods = 1, .periods = {7}},
        {.n_periods = 2, .periods = {4, 2}},
        {.n_periods = 3, .periods = {2, 3, 6}},
        {.n_periods = 3, .periods = {6, 10, 15}},
        {.n_periods = 4, .periods = {4, 6, 9, 12}},
    };
    enum { STEPS = 25200 }; /* a multiple of all */
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const weft_lowered *l = &cases[i];
        int count[WEFT_ALL_PERIODS + 1] = {0}, next = -1;
        for (int64_t step = 1; step <= STEPS; step++)
            count[weft_lowered_runs(l, step)]++;
        for (int runs = 0; runs <= WEFT_ALL_PERIODS; runs++) {
            if (!count[runs])
                continue;
            next = weft_lowered_next_runs(l, next);
            assert_int_equal(next, runs);
            const double share = weft_lowered_share(l, (unsigned)runs);
            assert_true(share * STEPS > count[runs] - 1e-6 && share * STEPS < count[runs] + 1e-6);
        }
        assert_int_equal(weft_lowered_next_runs(l, next), -1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_follows),
        cmocka_unit_test(of_two_readers),
        cmocka_unit_test(mistakes),
        cmocka_unit_test(kinds_of_steps),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
