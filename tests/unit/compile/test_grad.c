/* SPDX-License-Identifier: Apache-2.0 */
/* Gradient statements: what is wrong with one is said before a graph is made of it. */
#include "../../lib/standard_ops.h"
#include "compile/graph/grad.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
/* last: it needs the headers above */
#include <cmocka.h>

static weft_status check(const char *rule, const char *text, weft_error *err)
{
    weft_ops ops;
    const char *const grad[] = {text, NULL};
    const weft_op brk = {.name = "brk", .rule = rule, .grad = grad};
    const weft_op *const list[] = {&brk, NULL}, *const *const more[] = {list};
    assert_int_equal(standard_ops_init(&ops, more, NULL, 1, err), WEFT_OK);
    weft_status s = weft_ops_check_texts(&ops, list, err);
    weft_ops_release(&ops);
    return s;
}

static weft_status never_called(weft_backward *b, const weft_node *n, weft_value *const *dys,
                                weft_value **dxs, weft_error *err)
{
    (void)b, (void)n, (void)dys, (void)dxs, (void)err;
    return WEFT_ERR_INTERNAL;
}

static void sound_ones(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"*, * -> *", "0 1: silu_mul_dx 0 1 dy"},    {"*, * -> *", "all: dy"},
        {"* ... -> *", "7: gelu_dx 6 dy"},           {"* -> * ...", "0: unchunk dys"},
        {"*, * -> *, *", " 1 :  gelu_dx  r1  dy1 "}, {"*, -> *", "0: scale dy 1"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weft_error err = {0};
        if (check(cases[i][0], cases[i][1], &err))
            fail_msg("%s", weft_error_text(&err));
    }
    weft_ops ops;
    weft_error err = {0};
    assert_int_equal(standard_ops_init(&ops, NULL, NULL, 0, &err), WEFT_OK);
    if (weft_ops_check_texts(&ops, standard_ops(), &err))
        fail_msg("%s", weft_error_text(&err));
    weft_ops_release(&ops);
}

static void wrong_ones(void **state)
{
    (void)state;
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"0 gelu_dx 0 dy", "there is no ':' behind the operands that it is for"},
        {"", "there is no ':' behind the operands that it is for"},
        {": gelu_dx 0 dy", "the operands that it is for stand before the ':'"},
        {"all 0: dy", "the operands that it is for stand before the ':'"},
        {"2: gelu_dx 0 dy", "there is no operand '2'"},
        {"-1: gelu_dx 0 dy", "there is no operand '-1'"},
        {"x: gelu_dx 0 dy", "there is no operand 'x'"},
        {"99999999999: dy", "there is no operand '99999999999'"},
        {"0:", "behind the ':' stands an op, or 'dy'"},
        {"0: ", "behind the ':' stands an op, or 'dy'"},
        {"0: nothing_dx 0 dy", "there is no op 'nothing_dx'"},
        {"0: gelu_dx 2 dy", "there is no '2'"},
        {"0: gelu_dx r1 dy", "there is no 'r1'"},
        {"0: gelu_dx 0 dy1", "there is no 'dy1'"},
        {"0: gelu_dx 0 dyx", "there is no 'dyx'"},
        {"0: gelu_dx 0 like", "there is no 'like'"},
        {"0: gelu_dx 0 like2", "there is no 'like2'"},
        {"0: gelu_dx r dy", "there is no 'r'"},
        {"0: gelu_dx all dy", "there is no 'all'"},
        {"0: dy 1", "'dy' alone goes to one operand, or to all"},
        {"0 1: dy", "'dy' alone goes to one operand, or to all"},
        {"0: gelu_dx dy", "gelu_dx takes 2 operands, not 1"},
        {"0: silu_mul_dx 0 1 dy", "silu_mul_dx has 2 results, for 1 operands"},
        {"0 1 0 1 0 1 0 1 0: gelu_dx 0 dy", "it is for more than 8 operands"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weft_error err = {0};
        if (check("*, * -> *", cases[i].text, &err) != WEFT_ERR_INTERNAL)
            fail_msg("\"%s\" is not found", cases[i].text);
        char *want = weft_format("op brk: gradient \"%s\": %s", cases[i].text, cases[i].words);
        assert_string_equal(weft_error_text(&err), want);
        weft_free(want);
        weft_error_release(&err);
    }
}

/* What a function says of itself. */
static void of_functions(void **state)
{
    (void)state;
    static const struct {
        const char *of, *reads, *words;
    } cases[] = {
        {"0 1", "0 r0 1", NULL},
        {"all", "all r0", NULL},
        {"1", NULL, NULL},
        {"2", NULL, "op brk: grad_of \"2\": there is no operand or result '2'"},
        {"0 r0", NULL, NULL},
        {"0 r1", NULL, "op brk: grad_of \"0 r1\": there is no operand or result 'r1'"},
        {"0", "r1", "op brk: grad_reads \"r1\": there is no operand or result 'r1'"},
        {"0", "dy", "op brk: grad_reads \"dy\": there is no operand or result 'dy'"},
        {"0", "0.0 r0 1.3", NULL},
        {"0", "2.0", "op brk: grad_reads \"2.0\": there is no operand or result '2.0'"},
        {"0", "0.", "op brk: grad_reads \"0.\": there is no operand or result '0.'"},
        {"0.0", NULL, "op brk: grad_of \"0.0\": there is no operand or result '0.0'"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weft_ops ops;
        weft_error err = {0};
        const weft_op brk = {.name = "brk",
                             .rule = "*, * -> *",
                             .grad_of = cases[i].of,
                             .grad_reads = cases[i].reads,
                             .differentiate = never_called};
        const weft_op *const list[] = {&brk, NULL}, *const *const more[] = {list};
        assert_int_equal(standard_ops_init(&ops, more, NULL, 1, &err), WEFT_OK);
        weft_status s = weft_ops_check_texts(&ops, list, &err);
        assert_int_equal(s, cases[i].words ? WEFT_ERR_INTERNAL : WEFT_OK);
        assert_string_equal(weft_error_text(&err), cases[i].words ? cases[i].words : "");
        weft_error_release(&err);
        weft_ops_release(&ops);
    }
}

static void wrong_rules(void **state)
{
    (void)state;
    static const struct {
        const char *rule, *linear, *words;
    } cases[] = {
        {"* *", NULL, "index rule \"* *\": one \"->\" is needed"},
        {"[a -> a", NULL, "index rule \"[a -> a\": unbalanced brackets"},
        {"a b, a -> a c", NULL,
         "index rule \"a b, a -> a c\": index c of a result is in no operand; an op that knows its "
         "size needs `infer`"},
        {"a a -> a", NULL,
         "index rule \"a a -> a\": index a occurs twice in one operand or result"},
        {"*, * -> *", "2",
         "index rule \"*, * -> *\": a linear group names an operand that does not exist"},
        {"* -> *", "x", "index rule \"* -> *\": linear groups are lists of operand numbers"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weft_error err = {0};
        const weft_op op = {.name = "brk", .rule = cases[i].rule, .linear = cases[i].linear};
        assert_int_equal(weft_rule_check(&op, &err), WEFT_ERR_INTERNAL);
        assert_string_equal(weft_error_text(&err), cases[i].words);
        weft_error_release(&err);
    }
    static const char *const sound[][2] = {{"* ... -> *", "63"}, {" ->", NULL},
                                           {"-> ", ""},          {", * -> *", "0 1"},
                                           {"* ->", "all"},      {"a -> a ...", "0"}};
    for (size_t i = 0; i < sizeof sound / sizeof sound[0]; i++) {
        weft_error err = {0};
        const weft_op op = {.name = "brk", .rule = sound[i][0], .linear = sound[i][1]};
        if (weft_rule_check(&op, &err))
            fail_msg("%s", weft_error_text(&err));
    }
}

static void op_twice(void **state)
{
    (void)state;
    static const weft_op mine = {.name = "mine"}, linear = {.name = "linear"};
    static const weft_op *const first[] = {&mine, NULL}, *const second[] = {&linear, &mine, NULL};
    static const weft_op *const *const more[] = {first, second + 1, second};
    static const char *const names[] = {"solo", "duo", "trio"};
    weft_ops ops;
    weft_error err = {0};
    assert_int_equal(standard_ops_init(&ops, more, names, 2, &err), WEFT_ERR_INPUT);
    assert_string_equal(weft_error_text(&err),
                        "plugin 'duo' brings an op 'mine', which plugin 'solo' has already; choose "
                        "another name");
    weft_error_release(&err);
    weft_ops_release(&ops);
    assert_int_equal(standard_ops_init(&ops, more + 2, names + 2, 1, &err), WEFT_ERR_INPUT);
    assert_string_equal(
        weft_error_text(&err),
        "plugin 'trio' brings an op 'linear', which plugin 'ops' has already; choose another name");
    weft_error_release(&err);
    weft_ops_release(&ops);
}

/* What only a node can tell: its numbers of operands and results. */
static void of_a_node(void **state)
{
    (void)state;
    const weft_op any = {.name = "any", .rule = "* ... -> * ..."};
    weft_error err = {0};
    weft_grad s;
    assert_int_equal(weft_grad_read(&any, "2: gelu_dx 2 dy", 3, 1, &s, &err), WEFT_OK);
    assert_int_not_equal(weft_grad_read(&any, "2: gelu_dx 2 dy", 2, 1, &s, &err), WEFT_OK);
    assert_int_not_equal(weft_grad_read(&any, "0: gelu_dx r1 dy", 2, 1, &s, &err), WEFT_OK);
    weft_error_release(&err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sound_ones),   cmocka_unit_test(wrong_ones), cmocka_unit_test(wrong_rules),
        cmocka_unit_test(of_functions), cmocka_unit_test(of_a_node),  cmocka_unit_test(op_twice)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
