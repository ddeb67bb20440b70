/* SPDX-License-Identifier: Apache-2.0 */
/* Fronts of random blocks against all sets, and sums of fronts against all choices. */
#include "../ac.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { MOST = 12, MOST_INS = 3 };

typedef struct random_block {
    ac_block block;
    ac_node nodes[MOST];
    ac_value values[3 * MOST];
    ac_wait waits[2];
    int ins[MOST][MOST_INS], outs[MOST][2];
} random_block;

static int below(uint64_t seed, uint64_t *at, int n)
{
    return (int)(weft_random_bits(seed, 7, (*at)++) % (uint64_t)n);
}

/* Up to MOST nodes of one or two results, and three values from outside. */
static void make(random_block *r, uint64_t seed)
{
    uint64_t at = 0;
    const int n = 2 + below(seed, &at, MOST - 1);
    *r = (random_block){
        .block = {.nodes = r->nodes, .n_nodes = n, .values = r->values, .n_values = 3}};
    for (int i = 0; i < 3; i++)
        r->values[i] = (ac_value){
            .maker = -1, .bytes = i ? below(seed, &at, 3) : 0, .id = i, .one = below(seed, &at, 3)};
    for (int i = 0; i < n; i++) {
        ac_node *node = &r->nodes[i];
        *node = (ac_node){.seconds = below(seed, &at, 8),
                          .ins = r->ins[i],
                          .outs = r->outs[i],
                          .n_ins = 1 + below(seed, &at, MOST_INS),
                          .n_outs = 1 + below(seed, &at, 2),
                          .always = below(seed, &at, 9) == 0};
        for (int k = 0; k < node->n_ins; k++)
            r->ins[i][k] = below(seed, &at, r->block.n_values);
        for (int k = 0; k < node->n_outs; k++) {
            r->outs[i][k] = r->block.n_values;
            r->values[r->block.n_values++] =
                (ac_value){.maker = i,
                           .bytes = below(seed, &at, 6),
                           .read = !node->always && below(seed, &at, 2),
                           .one = below(seed, &at, 4),
                           .held = seed % 2 ? below(seed, &at, 5) : 0};
        }
    }
    r->block.waits = r->waits;
    r->block.n_waits = seed % 2 ? 2 : 0;
    r->block.all = seed % 4 == 3;
    for (int i = 0; i < r->block.n_waits; i++)
        r->waits[i] = (ac_wait){
            .with = below(seed, &at, r->block.n_values + 1) - 1,
            .host = below(seed, &at, 4) ? 3 + below(seed, &at, r->block.n_values - 3) : -1,
            .there = below(seed, &at, 4),
            .alone = below(seed, &at, 4)};
}

/* No set is better than the front, and every point of it is what it says. */
static void test_fronts(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 300; seed++) {
        random_block r;
        ac_front f;
        weft_error err = {0};
        make(&r, seed);
        assert_int_equal(ac_front_find(&r.block, &f, &err), WEFT_OK);
        assert_true(f.exact && f.n > 0);
        for (int i = 0; i < f.n; i++) {
            const ac_point p = ac_weigh(&r.block, &f.points[i].kept);
            assert_int_equal(p.bytes, f.points[i].bytes);
            assert_true(p.seconds == f.points[i].seconds); /* whole numbers */
            assert_true(i == 0 ||
                        (p.bytes > f.points[i - 1].bytes && p.seconds < f.points[i - 1].seconds));
        }
        for (uint64_t set = 0; set < (uint64_t)1 << r.block.n_nodes; set++) {
            ac_set kept = {{set}};
            for (int i = 0; i < r.block.n_nodes; i++)
                ac_put(&kept, i, ac_has(&kept, i) && !r.nodes[i].always);
            const ac_point p = ac_weigh(&r.block, &kept);
            int beaten = 0;
            for (int i = 0; i < f.n; i++)
                beaten += f.points[i].bytes <= p.bytes && f.points[i].seconds <= p.seconds;
            assert_true(beaten > 0);
        }
        ac_front_release(&f);
    }
}

/* A chain of three: keeping the middle one saves computing it and the first. */
static void test_by_hand(void **state)
{
    static const int ins[3][1] = {{0}, {1}, {2}}, outs[3][1] = {{1}, {2}, {3}};
    ac_node nodes[3];
    ac_value values[4] = {{.maker = -1, .read = true},
                          {.maker = 0, .bytes = 5, .one = 5, .id = 1},
                          {.maker = 1, .bytes = 2, .one = 2, .id = 2},
                          {.maker = 2, .bytes = 9, .one = 9, .id = 3, .read = true}};
    const ac_block block = {.nodes = nodes, .n_nodes = 3, .values = values, .n_values = 4};
    ac_front f;
    (void)state;
    for (int i = 0; i < 3; i++)
        nodes[i] =
            (ac_node){.seconds = 1 + i, .ins = ins[i], .outs = outs[i], .n_ins = 1, .n_outs = 1};
    assert_int_equal(ac_front_find(&block, &f, NULL), WEFT_OK);
    assert_int_equal(f.n,
                     3); /* nothing; the middle; the last: the first one alone is never worth it */
    assert_int_equal(f.points[0].bytes, 0);
    assert_true(f.points[0].seconds == 6);
    assert_int_equal(f.points[1].bytes, 2);
    assert_true(f.points[1].seconds == 3);
    assert_int_equal(f.points[2].bytes, 9);
    assert_true(f.points[2].seconds == 0);
    ac_front_release(&f);
}

/* Two: a gradient of a weight reads the second one, and waits with a gradient of 4 bytes. Kept,
 * both wait in two places (18 and 3); made again of the first, if that is kept and no smaller, in
 * one. Made of nothing kept, nothing waits, unless all do. In the first one's place the gradient
 * takes 1 more. */
static void test_what_waits(void **state)
{
    static const int ins[2][1] = {{0}, {1}}, outs[2][1] = {{1}, {2}};
    ac_node nodes[2];
    ac_value values[3] = {{.maker = -1, .read = true},
                          {.maker = 0, .bytes = 10, .one = 5, .id = 1},
                          {.maker = 1, .bytes = 21, .one = 9, .held = 12, .id = 2, .read = true}};
    const ac_wait in_place = {.with = 2, .host = 1, .there = 1, .alone = 4},
                  always = {.with = -1, .host = 1, .there = 1, .alone = 4};
    ac_block block = {.nodes = nodes, .n_nodes = 2, .values = values, .n_values = 3};
    const ac_set first = {{1}}, second = {{2}}, none = {{0}};
    (void)state;
    for (int i = 0; i < 2; i++)
        nodes[i] =
            (ac_node){.seconds = 1 + i, .ins = ins[i], .outs = outs[i], .n_ins = 1, .n_outs = 1};
    assert_int_equal(ac_weigh(&block, &second).bytes, 21);
    assert_int_equal(ac_weigh(&block, &second).one, 9);
    assert_int_equal(ac_weigh(&block, &none).bytes, 0);
    assert_int_equal(ac_weigh(&block, &first).bytes, 10); /* 9 are more than 5 */
    values[1].one = 9;
    assert_int_equal(ac_weigh(&block, &first).bytes, 22);
    assert_int_equal(ac_weigh(&block, &first).one, 9);
    block.waits = &in_place;
    block.n_waits = 1;
    assert_int_equal(ac_weigh(&block, &first).bytes, 23);
    assert_int_equal(ac_weigh(&block, &second).bytes, 25);
    assert_int_equal(ac_weigh(&block, &none).bytes, 0);
    block.waits = &always;
    assert_int_equal(ac_weigh(&block, &none).bytes, 4);
    block.all = true; /* it waits, whatever it is made of */
    assert_int_equal(ac_weigh(&block, &none).bytes, 16);
    assert_int_equal(ac_weigh(&block, &second).bytes, 25);
}

/* A chain of three, the second of which is always made again, and larger than what it is made of.
 * The gradient that is read with it waits if the first is kept and the third is, too: then nothing
 * else is computed again of it. */
static void test_what_waits_with_gathers(void **state)
{
    static const int ins[3][1] = {{0}, {1}, {2}}, outs[3][1] = {{1}, {2}, {3}};
    ac_node nodes[3];
    ac_value values[4] = {{.maker = -1, .read = true},
                          {.maker = 0, .bytes = 10, .one = 5, .id = 1, .read = true},
                          {.maker = 1, .bytes = 90, .one = 9, .id = 2},
                          {.maker = 2, .bytes = 40, .one = 8, .id = 3, .read = true}};
    const ac_wait in_place = {.with = 2, .host = 3, .there = 3, .alone = 7},
                  alone = {.with = 2, .host = -1, .there = 7, .alone = 7};
    ac_block block = {.nodes = nodes, .n_nodes = 3, .values = values, .n_values = 4, .n_waits = 1};
    const ac_set first = {{1}}, third = {{4}}, both = {{5}};
    (void)state;
    for (int i = 0; i < 3; i++)
        nodes[i] = (ac_node){.seconds = 1,
                             .ins = ins[i],
                             .outs = outs[i],
                             .n_ins = 1,
                             .n_outs = 1,
                             .always = i == 1};
    block.waits = &in_place;
    assert_int_equal(ac_weigh(&block, &both).bytes, 53);
    assert_int_equal(ac_weigh(&block, &third).bytes, 40);
    assert_int_equal(ac_weigh(&block, &first).bytes, 10);
    block.waits = &alone;
    assert_int_equal(ac_weigh(&block, &both).bytes, 57);
    assert_int_equal(ac_weigh(&block, &third).bytes, 40);
}

static void test_sums(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 60; seed++) {
        random_block r[3];
        ac_front f[3];
        const ac_front *fronts[3] = {&f[0], &f[1], &f[2]};
        const int64_t places[3] = {1, 3, 2};
        ac_sums sums;
        for (int b = 0; b < 3; b++) {
            make(&r[b], 1000 * seed + (uint64_t)b);
            assert_int_equal(ac_front_find(&r[b].block, &f[b], NULL), WEFT_OK);
        }
        assert_int_equal(ac_sums_make(3, fronts, places, &sums, NULL), WEFT_OK);
        for (int64_t most = 0; most < 200; most += 7) {
            double best = -1;
            for (int i = 0; i < f[0].n * f[1].n * f[2].n; i++) {
                const ac_point *p[3] = {&f[0].points[i % f[0].n], &f[1].points[i / f[0].n % f[1].n],
                                        &f[2].points[i / f[0].n / f[1].n]};
                const double seconds = p[0]->seconds + p[1]->seconds + p[2]->seconds;
                if (p[0]->bytes + 3 * p[1]->bytes + 2 * p[2]->bytes <= most &&
                    (best < 0 || seconds < best))
                    best = seconds;
            }
            const int i = ac_sums_find(&sums, most);
            assert_int_equal(i < 0, best < 0);
            int points[3];
            if (i < 0)
                continue;
            ac_sums_choice(&sums, i, points);
            assert_true(f[0].points[points[0]].seconds + f[1].points[points[1]].seconds +
                            f[2].points[points[2]].seconds ==
                        best);
        }
        ac_sums_release(&sums);
        for (int b = 0; b < 3; b++)
            ac_front_release(&f[b]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_hand),
        cmocka_unit_test(test_what_waits),
        cmocka_unit_test(test_what_waits_with_gathers),
        cmocka_unit_test(test_fronts),
        cmocka_unit_test(test_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
