/* SPDX-License-Identifier: Apache-2.0 */
/* Meshes: ranks and coordinates; axes as plugins declare them, sizes left to be found, what cannot
 * be. */
#include "compile/mesh/axes.h"

#include <setjmp.h>
#include <stdio.h>
#include <string.h>
/* last: it needs the headers above */
#include <cmocka.h>

static void ranks_are_coordinates(void **state)
{
    (void)state;
    weft_mesh m = {3,
                   {{.name = "a", .size = 2}, {.name = "b", .size = 3}, {.name = "c", .size = 4}}};
    assert_int_equal(weft_mesh_ranks(&m), 24);
    assert_int_equal(weft_mesh_count(&m, 0), 1);
    assert_int_equal(weft_mesh_count(&m, 5), 8);
    assert_int_equal(weft_mesh_find(&m, "c"), 2);
    assert_int_equal(weft_mesh_find(&m, "z"), -1);
    for (int r = 0; r < 24; r++) {
        int c[WEFT_MAX_AXES];
        weft_mesh_coord(&m, r, c);
        assert_int_equal(c[0] + 2 * (c[1] + 3 * c[2]), r);
        assert_int_equal(c[7], 0);
    }
    weft_mesh none = {0};
    assert_int_equal(weft_mesh_ranks(&none), 1);
}

static weft_status plan_mesh(int ranks, const char *text, const char *order, weft_mesh *mesh,
                             weft_error *err)
{
    static const char *const by[] = {"tp", "cp", "fsdp"};
    weft_mesh_plan plan;
    weft_mesh_plan_init(&plan, ranks);
    char name[32], words[64];
    const char *list[8];
    int degree, used, n = 0;
    for (const char *p = text; sscanf(p, " %31[^=]=%d%n", name, &degree, &used) == 2; p += used) {
        plan.by = by[plan.n % 3];
        weft_status s =
            weft_mesh_plan_axis(&plan, name, degree, (weft_where){"run.ini", plan.n + 1}, err);
        if (s)
            return s;
    }
    snprintf(words, sizeof words, "%s", order);
    char *rest = words, *word;
    while ((word = strsep(&rest, " ")))
        if (*word)
            list[n++] = word;
    return weft_mesh_plan_finish(&plan, list, n, (weft_where){"run.ini", 99}, mesh, err);
}

static void meshes_are_planned(void **state)
{
    (void)state;
    static const struct {
        int ranks;
        const char *axes, *order, *want; /* want: name and size of each axis, or, if it starts with
                                            '!', part of the error */
    } cases[] = {
        {8, "tp=2 cp=1 dp_shard=0", "", "tp2 dp_shard4"},
        {8, "tp=2 cp=2 dp_shard=0", "cp tp", "cp2 tp2 dp_shard2"},
        {1, "tp=1 dp_shard=0", "", ""},
        {1, "", "", ""},
        {6, "tp=4 dp_shard=0", "",
         "!run.ini:2: the mesh (tp 4 = 4) does not fit 6 ranks; start with -n 4 or a multiple"},
        {6, "tp=2 dp_shard=2", "",
         "!run.ini:2: the mesh (tp 2 x dp_shard 2 = 4) does not fit 6 ranks; start with -n 4, or "
         "change a degree"},
        {4, "tp=0 dp_shard=0", "", "!run.ini:2: both tp and dp_shard have degree auto"},
        {4, "tp=2 tp=2", "", "!run.ini:2: mesh axis 'tp' is declared by both tp and cp"},
        {4, "tp=4", "pp",
         "!run.ini:99: [mesh] order names 'pp', but no listed plugin declares that axis"},
        {4, "tp=2 cp=2", "tp tp", "!run.ini:99: [mesh] order names 'tp' twice"},
        {4, "an_axis_with_a_very_long_name=2", "", "!longer than 23 characters"},
        {512, "a=2 b=2 c=2 d=2 e=2 f=2 g=2 h=2 i=2", "", "!9 axes of size above 1"},
        {256, "a=2 b=2 c=2 d=2 e=2 f=2 g=2 h=2 i=1", "", "a2 b2 c2 d2 e2 f2 g2 h2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weft_mesh mesh;
        weft_error err = {0};
        weft_text text = {0};
        weft_status s = plan_mesh(cases[i].ranks, cases[i].axes, cases[i].order, &mesh, &err);
        for (int a = 0; !s && a < mesh.n_axes; a++)
            weft_text_print(&text, "%s%s%d", a ? " " : "", mesh.axis[a].name, mesh.axis[a].size);
        bool refused = cases[i].want[0] == '!';
        assert_int_equal(s, refused ? WEFT_ERR_INPUT : WEFT_OK);
        if (refused && !strstr(weft_error_text(&err), cases[i].want + 1))
            fail_msg("%s: %s", cases[i].axes, weft_error_text(&err));
        if (!refused)
            assert_string_equal(weft_text_get(&text), cases[i].want);
        weft_error_release(&err);
        weft_text_release(&text);
    }
}

static void wrong_axes(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t degree;
        const char *words;
    } cases[] = {
        {"", 2, "me declares a mesh axis ''; names are of letters, digits and '_'"},
        {"a/b", 2, "me declares a mesh axis 'a/b'; names are of letters, digits and '_'"},
        {"dp shard", 2, "me declares a mesh axis 'dp shard'; names are of letters, digits and '_'"},
        {"+tp", 1, "me declares a mesh axis '+tp'; names are of letters, digits and '_'"},
        {"tp", -1,
         "me declares mesh axis 'tp' with degree -1; a degree is at least 1, or 0 for as many "
         "ranks "
         "as are left"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        weft_mesh_plan plan;
        weft_error err = {0};
        weft_mesh_plan_init(&plan, 2);
        plan.by = "me";
        weft_where at = {"run.ini", 3};
        assert_int_equal(weft_mesh_plan_axis(&plan, cases[i].name, cases[i].degree, at, &err),
                         WEFT_ERR_INPUT);
        if (!strstr(weft_error_text(&err), cases[i].words))
            fail_msg("\"%s\", not \"%s\"", weft_error_text(&err), cases[i].words);
        weft_error_release(&err);
    }
}

static void too_many_ranks(void **state)
{
    (void)state;
    weft_mesh mesh;
    weft_error err = {0};
    assert_int_equal(plan_mesh(2, "a=1048576 b=1048576 c=1048576 d=1048576", "", &mesh, &err),
                     WEFT_ERR_INPUT);
    assert_non_null(strstr(weft_error_text(&err), "the mesh has more than 2^63 ranks"));
    weft_error_release(&err);
}

/* ---- layouts on a mesh ---- */

/* What is open stays as it is or is closed: a sum becomes no maximum, no maximum a sum, and nothing
 * becomes a maximum. */
static void no_way_between_kinds(void **state)
{
    (void)state;
    enum { NO, SUM = WEFT_OPEN_SUM, MAX = WEFT_OPEN_MAX, KINDS };
    for (int from = NO; from < KINDS; from++)
        for (int to = NO; to < KINDS; to++)
            for (int beside = 0; beside < 2;
                 beside++) { /* on another axis the same on both sides */
                weft_step steps[WEFT_MAX_STEPS];
                weft_layout a = {0}, b = {0};
                if (from)
                    a = weft_layout_set_open(a, 0, from);
                if (to)
                    b = weft_layout_set_open(b, 0, to);
                if (beside)
                    a = weft_layout_cut(a, 0, 1, false), b = weft_layout_cut(b, 0, 1, false);
                bool is_way = from == to || to == NO || (from == NO && to == SUM);
                assert_int_equal(weft_layout_steps(a, b, 1, steps) >= 0, is_way);
            }
}

/* What is at one coordinate of an axis comes to all, or from all to one, by steps that leave what
 * another axis cuts alone; that axis itself cuts it in no one way. */
static void no_way_from_a_place_to_a_cut(void **state)
{
    (void)state;
    for (int axis = 0; axis < 2; axis++)
        for (int at = 0; at < 2; at++) {
            weft_step steps[WEFT_MAX_STEPS];
            const weft_layout all = {0}, there = weft_layout_set_at(all, axis, at),
                              cut = weft_layout_cut(all, 0, axis, false),
                              both = weft_layout_cut(there, 0, 1 - axis, false);
            assert_int_equal(weft_layout_steps(there, cut, 1, steps), -1);
            assert_int_equal(weft_layout_steps(cut, there, 1, steps), -1);
            assert_int_equal(weft_layout_steps(both, cut, 1, steps), -1);
            assert_int_equal(weft_layout_steps(there, all, 1, steps), 1);
            assert_int_equal(weft_layout_steps(all, there, 1, steps), 1);
            assert_int_equal(weft_layout_steps(there, both, 1, steps), 1);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_way_between_kinds),
                                       cmocka_unit_test(no_way_from_a_place_to_a_cut),
                                       cmocka_unit_test(ranks_are_coordinates),
                                       cmocka_unit_test(meshes_are_planned),
                                       cmocka_unit_test(wrong_axes),
                                       cmocka_unit_test(too_many_ranks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
