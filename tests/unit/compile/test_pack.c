/* SPDX-License-Identifier: Apache-2.0 */
/* Packing of lifetimes: nothing in use at one time overlaps, little is lost, and the same pieces
 * lie at the same places every time. */
#include "compile/program/pack.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <weft/random.h>
/* last: it needs the headers above */
#include <cmocka.h>

enum { MOST = 400 };

static uint64_t rolls;

static uint64_t roll(uint64_t seed, uint64_t below)
{
    return weft_random_bits(seed, 5, rolls++) % below;
}

static int64_t rounded(int64_t bytes, int64_t alignment)
{
    return (bytes + alignment - 1) / alignment * alignment;
}

static bool overlap(const weft_lifetime *a, const weft_lifetime *b)
{
    return a->first <= b->last && b->first <= a->last && a->offset < b->offset + b->bytes &&
           b->offset < a->offset + a->bytes;
}

/* Everything that is promised of every packing. The peak is counted instant by instant. */
static void check(const weft_lifetime *list, int n, int64_t alignment, const weft_packed *packed)
{
    int64_t most = 0;
    int at = 0, end = 0;
    for (int i = 0; i < n; i++) {
        end = list[i].last > end ? list[i].last : end;
        assert_int_equal(list[i].offset % alignment, 0);
        assert_true(list[i].offset >= 0 && list[i].offset + list[i].bytes <= packed->bytes);
        for (int k = 0; k < i; k++)
            if (list[i].bytes && list[k].bytes && overlap(&list[i], &list[k]))
                fail_msg("pieces %d and %d overlap", k, i);
    }
    for (int t = 0; t <= end; t++) {
        int64_t alive = 0;
        for (int i = 0; i < n; i++)
            if (list[i].first <= t && t <= list[i].last)
                alive += rounded(list[i].bytes, alignment);
        if (alive > most) {
            most = alive;
            at = t;
        }
    }
    assert_int_equal(packed->peak, most);
    assert_int_equal(packed->peak_at, at);
    assert_true(packed->bytes >= most);
}

/* Packs, checks, packs once more. Returns what is lost, relative to the peak. */
static double lost(weft_lifetime *list, int n, int64_t alignment)
{
    weft_lifetime again[MOST];
    weft_packed packed, other;
    memcpy(again, list, sizeof *list * (size_t)n);
    assert_int_equal(weft_pack(list, n, alignment, false, &packed, NULL), WEFT_OK);
    check(list, n, alignment, &packed);
    assert_int_equal(weft_pack(again, n, alignment, false, &other, NULL), WEFT_OK);
    assert_int_equal(packed.bytes, other.bytes);
    for (int i = 0; i < n; i++)
        assert_int_equal(list[i].offset, again[i].offset);
    assert_int_equal(weft_pack(again, n, alignment, true, &other, NULL), WEFT_OK);
    check(again, n, alignment, &other);
    assert_true(other.bytes >= packed.bytes);
    return packed.peak ? (double)(packed.bytes - packed.peak) / (double)packed.peak : 0.0;
}

/* Many short lives and a few long ones; sizes from one kind, or from anything. */
static int make_random(uint64_t seed, weft_lifetime *list)
{
    int n = (int)roll(seed, 150) + 1, end = (int)roll(seed, 80) + 1;
    for (int i = 0; i < n; i++) {
        int first = (int)roll(seed, (uint64_t)end),
            life = (int)roll(seed, roll(seed, 10) ? 8 : (uint64_t)end);
        list[i] = (weft_lifetime){.bytes = seed % 3 ? (int64_t)roll(seed, 100000)
                                                    : (int64_t)64 << roll(seed, 8),
                                  .first = first,
                                  .last = first + life < end ? first + life : end - 1,
                                  .offset = -1};
    }
    return n;
}

static void random_lives(void **state)
{
    enum { SEEDS = 60 };
    weft_lifetime list[MOST];
    double sum = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        rolls = 0;
        int n = make_random(seed, list);
        double part = lost(list, n, seed % 5 ? 64 : 1);
        sum += part;
        if (part > 0.08)
            fail_msg("seed %d: %.1f%% lost", (int)seed, 100 * part);
    }
    if (sum / SEEDS > 0.01)
        fail_msg("%.2f%% lost on average", 100 * sum / SEEDS);
}

/* A step of training: each block leaves something for the backward and works on much more that
 * comes and goes; gradients pile up as what was kept goes away. */
static int make_step(uint64_t seed, weft_lifetime *list)
{
    enum { BLOCKS = 16, LENGTH = 10 };
    int n = 0, end = 2 * BLOCKS * LENGTH;
    for (int b = 0; b < BLOCKS; b++) {
        int there = b * LENGTH, back = end - (b + 1) * LENGTH;
        list[n++] = (weft_lifetime){.bytes = 6400, .first = there, .last = back + 8};
        list[n++] = (weft_lifetime){.bytes = 1600, .first = back + 8, .last = end};
        for (int i = 0; i < 10; i++) {
            int first = (int)roll(seed, LENGTH - 2), life = (int)roll(seed, 4);
            int64_t bytes = (int64_t)640 << roll(seed, 7);
            list[n++] = (weft_lifetime){
                .bytes = bytes, .first = there + first, .last = there + first + life};
            list[n++] =
                (weft_lifetime){.bytes = bytes, .first = back + first, .last = back + first + life};
        }
    }
    return n;
}

static void steps_of_training(void **state)
{
    weft_lifetime list[MOST];
    (void)state;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        rolls = 0;
        double part = lost(list, make_step(seed, list), 64);
        if (part > 0.03)
            fail_msg("seed %d: %.1f%% lost", (int)seed, 100 * part);
    }
}

/* A thousand times as large, alignment and all, it is the same question, and the better answer is
 * worth a thousand times as much. */
static void more_is_searched_where_more_is_lost(void **state)
{
    enum { SEEDS = 20, SCALE = 1024 };
    weft_lifetime small[MOST], large[MOST];
    double sum_small = 0, sum_large = 0;
    (void)state;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        rolls = 0;
        int n = make_random(seed, small);
        for (int i = 0; i < n; i++) {
            large[i] = small[i];
            large[i].bytes = SCALE * rounded(small[i].bytes, 64);
        }
        sum_small += lost(small, n, 64);
        sum_large += lost(large, n, 64 * SCALE);
    }
    assert_true(sum_large < sum_small);
}

typedef struct area {
    int first, last;
    int64_t bytes;
} area;

/* Cuts a full rectangle of time and memory to pieces, so that nothing need be lost. */
static int cut(uint64_t seed, area a, int depth, weft_lifetime *list, int n)
{
    area b = a;
    bool time = roll(seed, 2);
    if (depth == 0 || (time ? a.last - a.first < 2 : a.bytes < 128)) {
        list[n] = (weft_lifetime){.bytes = a.bytes, .first = a.first, .last = a.last};
        return n + 1;
    }
    if (time) {
        a.last = a.first + (int)roll(seed, (uint64_t)(a.last - a.first));
        b.first = a.last + 1;
    } else {
        a.bytes = 64 * (1 + (int64_t)roll(seed, (uint64_t)(a.bytes / 64 - 1)));
        b.bytes -= a.bytes;
    }
    n = cut(seed, a, depth - 1, list, n);
    return cut(seed, b, depth - 1, list, n);
}

static void nothing_need_be_lost(void **state)
{
    weft_lifetime list[MOST];
    (void)state;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        rolls = 0;
        int n = cut(seed, (area){0, 63, 64000}, 5, list, 0);
        double part = lost(list, n, 64);
        if (part > 0.08)
            fail_msg("seed %d: %.1f%% of %d pieces lost", (int)seed, 100 * part, n);
    }
}

static void extremes(void **state)
{
    weft_packed packed;
    (void)state;
    assert_int_equal(weft_pack(NULL, 0, 64, false, &packed, NULL), WEFT_OK);
    assert_int_equal(packed.bytes, 0);
    weft_lifetime empty = {.offset = 7};
    assert_int_equal(weft_pack(&empty, 1, 64, false, &packed, NULL), WEFT_OK);
    assert_int_equal(packed.bytes, 0);
    assert_int_equal(empty.offset, 0);
    weft_lifetime large[] = {{.bytes = (int64_t)1 << 58, .first = 0, .last = 1},
                             {.bytes = ((int64_t)1 << 58) + 1, .first = 1, .last = 2},
                             {.bytes = 1, .first = 3, .last = 3}};
    assert_int_equal(weft_pack(large, 3, 64, false, &packed, NULL), WEFT_OK);
    check(large, 3, 64, &packed);
    assert_int_equal(packed.bytes, packed.peak);
}

static void no_memory(void **state)
{
    weft_lifetime list[MOST];
    weft_packed packed;
    (void)state;
    rolls = 0;
    int n = make_random(7, list);
    for (long k = 1;; k++) {
        weft_alloc_fail_at(k);
        weft_status s = weft_pack(list, n, 64, false, &packed, NULL);
        weft_alloc_fail_at(0);
        if (s == WEFT_OK) {
            assert_true(k > 3);
            break;
        }
        assert_int_equal(s, WEFT_ERR_MEMORY);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_lives),
        cmocka_unit_test(steps_of_training),
        cmocka_unit_test(more_is_searched_where_more_is_lost),
        cmocka_unit_test(nothing_need_be_lost),
        cmocka_unit_test(extremes),
        cmocka_unit_test(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
