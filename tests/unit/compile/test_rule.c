/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "compile/graph/rule.h"

static void parse(weft_rule *rule, const char *text, const char *linear, int n_ins, int n_outs,
                  const int *in_dims, const int *out_dims)
{
    weft_error err = {0};
    if (weft_rule_parse(text, linear, n_ins, n_outs, in_dims, out_dims, rule, &err))
        fail_msg("%s", weft_error_text(&err));
}

/* Has some operand the letter, and this result not? */
static bool contracts(const weft_rule *rule, int letter, int result)
{
    return (weft_rule_in_letters(rule) >> letter & 1) &&
           weft_rule_dim(&rule->out[result], letter) < 0;
}

static void letters_and_marks(void **state)
{
    weft_rule r;
    (void)state;
    parse(&r, "b q h [d], b [k] h [d],q,[k] -> b q h [d], b q", "1, 0 2", 4, 2, (int[]){4, 4, 1, 1},
          (int[]){4, 2});
    assert_int_equal(r.n_letters, 5);
    assert_int_equal(r.n_ins, 4);
    assert_int_equal(r.n_outs, 2);
    assert_string_equal(r.name[3], "d");
    assert_string_equal(r.name[4], "k");
    assert_int_equal(r.whole, 1 << 3 | 1 << 4);
    assert_true(r.in[1].whole[1]);
    assert_false(r.in[1].whole[0]);
    assert_int_equal(r.in[1].letter[2], r.in[0].letter[2]);
    assert_int_equal(weft_rule_dim(&r.in[1], 4), 1);
    assert_int_equal(weft_rule_dim(&r.in[0], 4), -1);
    assert_int_equal(weft_rule_letters(&r.out[1]), 1 | 2);
    assert_int_equal(weft_rule_in_letters(&r), 31);
    assert_true(contracts(&r, 4, 0));
    assert_true(contracts(&r, 2, 1));
    assert_false(contracts(&r, 2, 0));
    assert_int_equal(r.n_groups, 2);
    assert_int_equal(r.group[0], 2);
    assert_int_equal(r.group[1], 5);
}

static void words_are_letters(void **state)
{
    weft_rule r;
    (void)state;
    parse(&r, "batch seq embed, ffn embed -> batch seq ffn", "0, 1", 2, 1, (int[]){3, 2}, NULL);
    assert_int_equal(r.n_letters, 4);
    assert_string_equal(r.name[2], "embed");
    assert_true(contracts(&r, 2, 0));
}

static void star_is_every_dim_of_the_longest(void **state)
{
    weft_rule r;
    (void)state;
    parse(&r, "*, -> *", "0", 2, 1, (int[]){3, 0}, (int[]){3});
    assert_int_equal(r.in[0].n_dims, 3);
    assert_int_equal(r.in[1].n_dims, 0);
    assert_int_equal(r.out[0].letter[2], r.in[0].letter[2]);
    parse(&r, ", * -> *", NULL, 2, 1, (int[]){0, 2}, (int[]){2});
    assert_int_equal(r.in[1].n_dims, 2);
    assert_int_equal(r.n_groups, 0);
    parse(&r, "* ->", NULL, 1, 1, (int[]){0}, (int[]){0});
    assert_int_equal(r.n_letters, 0);
}

static void dots_repeat_the_last(void **state)
{
    weft_rule r;
    int dims[64];
    (void)state;
    for (int i = 0; i < 64; i++)
        dims[i] = 2;
    parse(&r, "* ... -> *", "all", 3, 1, dims, dims);
    assert_int_equal(r.in[2].letter[1], r.in[0].letter[1]);
    assert_int_equal(r.group[0], 7);
    parse(&r, "* ... -> * ...", "all", 64, 64, dims, dims);
    assert_int_equal(r.in[63].n_dims, 2);
    assert_int_equal(r.out[63].letter[1], 1);
    assert_true(r.group[0] == UINT64_MAX);
    parse(&r, "b, * ... -> b", NULL, 1 + 2, 1, (int[]){1, 2, 2}, NULL);
    assert_int_equal(r.in[0].n_dims, 1);
    assert_int_equal(r.in[2].n_dims, 2);
}

static void more_is_a_mark_of_a_dim(void **state)
{
    weft_rule r;
    (void)state;
    parse(&r, "b+ s e, b s e -> b+ s e", "0 1", 2, 1, (int[]){3, 3}, (int[]){3});
    assert_int_equal(r.n_letters, 3);
    assert_string_equal(r.name[0], "b");
    assert_int_equal(r.more, 1);
    assert_true(r.in[0].more[0] && !r.in[1].more[0] && r.out[0].more[0] && !r.in[0].more[1]);
}

static void dots_in_front_are_any_dims(void **state)
{
    weft_rule r;
    (void)state;
    parse(&r, "... [e], [e] -> ... [e]", "1", 2, 1, (int[]){3, 1}, NULL);
    assert_int_equal(r.in[0].n_dims, 3);
    assert_int_equal(r.out[0].n_dims, 3);
    assert_int_equal(r.out[0].letter[1], r.in[0].letter[1]);
    assert_true(r.in[0].whole[2] && !r.in[0].whole[1]);
    parse(&r, "... h, ... -> ... h", "0", 2, 1, (int[]){4, 3}, (int[]){4});
    assert_int_equal(r.in[1].n_dims, 3);
    parse(&r, "... f -> f", "0", 1, 1, (int[]){1}, (int[]){1});
    assert_int_equal(r.n_letters, 1);
    parse(&r, "..., v e -> ... e", "1", 2, 1, (int[]){1, 2}, NULL);
    assert_int_equal(r.out[0].n_dims, 2);
    parse(&r, "... v ... -> ...", "all", 3, 1, (int[]){2, 2, 2}, NULL);
    assert_int_equal(r.in[2].letter[1], r.in[0].letter[1]);
    parse(&r, "... f -> f", "0", 1, 1, NULL, NULL);
    assert_int_equal(r.in[0].n_dims, 2);
}

static void no_operands(void **state)
{
    weft_rule r;
    (void)state;
    parse(&r, "->", NULL, 0, 1, NULL, (int[]){0});
    parse(&r, "-> vocab embed", NULL, 0, 1, NULL, (int[]){2});
    assert_int_equal(r.out[0].n_dims, 2);
    parse(&r, "->", "all", 1, 1, (int[]){0}, (int[]){0});
}

static void bad_rules_are_refused(void **state)
{
    static const struct {
        const char *rule, *linear;
        int n_ins, n_outs;
        const char *says;
    } c[] = {
        {"a b", NULL, 1, 1, "one \"->\""},
        {"a -> b -> c", NULL, 1, 1, "one \"->\""},
        {"a b -> a", NULL, 2, 1, "has 1 operand, and the node 2"},
        {"a b, a b -> a", NULL, 1, 1, "has 2 operands, and the node 1"},
        {"a b -> a, b", NULL, 1, 1, "has 2 results, and the node 1"},
        {"a b -> a", NULL, 0, 1, "has 1 operand, and the node 0"},
        {"a b, a, a ... -> a", NULL, 2, 1, "has at least 3 operands, and the node 2"},
        {"a b,, -> a", NULL, 3, 1, "nothing stands behind a ','"},
        {"a b -> a,", NULL, 1, 2, "nothing stands behind a ','"},
        {"a a -> a", NULL, 1, 1, "index a occurs twice"},
        {"a b -> b b", NULL, 1, 1, "index b occurs twice"},
        {"a b c -> a", NULL, 1, 1, "operand 0 has 2 dims, not 3"},
        {"a b -> a", NULL, 1, 1, "result 0 has 2 dims, not 1"},
        {"[a b -> a b", NULL, 1, 1, "unbalanced"},
        {"a b] -> a b", NULL, 1, 1, "unbalanced"},
        {"a [] -> a b", NULL, 1, 1, "empty or too long"},
        {"a abcdefghijklmnopqrstuvwxyzabcdefgh -> a b", NULL, 1, 1, "empty or too long"},
        {"a b ..., a b -> a b", NULL, 2, 1, "at the end"},
        {"a b -> a b", "1", 1, 1, "operand that does not exist"},
        {"a b -> a b", "x", 1, 1, "operand numbers"},
        {"a b -> a b", "0,,0", 1, 1, "empty"},
        {"a b -> a b", "99999999999999999999", 1, 1, "operand that does not exist"},
        {"a b c d e f g -> a b", NULL, 1, 1, "too many dims"},
        {"* ... -> *", NULL, 65, 1, "at most 64"},
    };
    int dims[65];
    weft_rule r;
    (void)state;
    for (int i = 0; i < 65; i++)
        dims[i] = 2;
    for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
        weft_error err = {0};
        if (!weft_rule_parse(c[i].rule, c[i].linear, c[i].n_ins, c[i].n_outs, dims, dims, &r, &err))
            fail_msg("\"%s\" was taken", c[i].rule);
        if (!strstr(weft_error_text(&err), c[i].says))
            fail_msg("\"%s\" does not say \"%s\"", weft_error_text(&err), c[i].says);
        weft_error_release(&err);
    }
}

static void too_many_letters(void **state)
{
    weft_text text = {0};
    weft_error err = {0};
    weft_rule r;
    int dims[11];
    (void)state;
    for (int i = 0; i < 11; i++) {
        weft_text_print(&text, "%sa%d b%d c%d", i ? ", " : "", i, i, i);
        dims[i] = 3;
    }
    weft_text_add(&text, " ->");
    assert_int_not_equal(weft_rule_parse(weft_text_get(&text), NULL, 11, 1, dims, NULL, &r, &err),
                         WEFT_OK);
    assert_non_null(strstr(weft_error_text(&err), "too many letters"));
    weft_text_release(&text);
    weft_error_release(&err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(letters_and_marks),
        cmocka_unit_test(words_are_letters),
        cmocka_unit_test(star_is_every_dim_of_the_longest),
        cmocka_unit_test(dots_repeat_the_last),
        cmocka_unit_test(more_is_a_mark_of_a_dim),
        cmocka_unit_test(dots_in_front_are_any_dims),
        cmocka_unit_test(no_operands),
        cmocka_unit_test(bad_rules_are_refused),
        cmocka_unit_test(too_many_letters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
