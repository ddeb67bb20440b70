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
    *r = (random_block){.block = {r->nodes, n, r->values, 3}};
    for (int i = 0; i < 3; i++)
        r->values[i] = (ac_value){-1, i ? below(seed, &at, 3) : 0, false, i};
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
                (ac_value){i, below(seed, &at, 6), !node->always && below(seed, &at, 2), 0};
        }
    }
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
    ac_value values[4] = {{-1, 0, true, 0}, {0, 5, false, 1}, {1, 2, false, 2}, {2, 9, true, 3}};
    const ac_block block = {nodes, 3, values, 4};
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
        cmocka_unit_test(test_fronts),
        cmocka_unit_test(test_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
