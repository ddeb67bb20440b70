/* SPDX-License-Identifier: Apache-2.0 */
/* What `weft oracle` says of parts: rounding is not taken for a scale, be an element ever so much
 * of a part, and a scale is not taken for rounding. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tools/oracle/oracle.h"

#include <weft/random.h>

enum { MOST = 640, FEW = 500, MANY = 2000 }; /* MANY: draws, with WEFT_LONG */

/* Bounds of what is made of the same operands in bf16. */
static const double most_error = 1.0 / 256, most_scale = 1.0 / 1024;

/* Numbers of one draw. */
typedef struct dice {
    uint64_t seed, next;
} dice;

static double roll(dice *d)
{
    return weft_random_uniform(d->seed, 0, d->next++);
}

static double bell(dice *d)
{
    return sqrt(-2 * log(1 - roll(d))) * cos(6.283185307179586 * roll(d));
}

/* As two kernels do that add up in other orders. */
static double rounded(dice *d, double x)
{
    return (double)weft_bf16_to_f32(weft_f32_to_bf16((float)(x * (1 + ldexp(bell(d), -10)))));
}

/* n elements, of which few are large where `spread` is: what two runs make of them, one of them
 * times `factor`. */
static oracle_part draw(uint64_t seed, int n, double spread, double factor)
{
    dice d = {seed, 0};
    double a[MOST], b[MOST];
    oracle_part worst = {0, 0};
    for (int i = 0; i < n; i++) {
        double x = bell(&d) * exp(spread * bell(&d));
        a[i] = rounded(&d, x);
        b[i] = rounded(&d, factor * x);
    }
    oracle_measure_whole(a, b, n, &worst);
    return worst;
}

static int draws(void)
{
    return getenv("WEFT_LONG") ? MANY : FEW;
}

static int beyond(int n, double spread, double factor)
{
    int found = 0;
    for (int seed = 0; seed < draws(); seed++) {
        oracle_part part = draw((uint64_t)seed, n, spread, factor);
        found += part.error > most_error || part.scale > most_scale;
    }
    return found;
}

static const int sizes[] = {1, 2, 3, 5, 8, 16, 40, 160, MOST};
static const double spreads[] = {0, 1, 2};

/* One of 16,000 goes beyond each bound by chance. */
static void rounding_is_no_scale(void **state)
{
    int found = 0;
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t k = 0; k < sizeof spreads / sizeof *spreads; k++)
            found += beyond(sizes[i], spreads[k], 1);
    assert_in_range(found, 0, getenv("WEFT_LONG") ? 7 : 2);
}

static void scale_is_no_rounding(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t k = 0; k < sizeof spreads / sizeof *spreads; k++) {
            assert_int_equal(beyond(sizes[i], spreads[k], 1.03), draws());
            if (sizes[i] >= 40 && spreads[k] == 0)
                assert_int_equal(beyond(sizes[i], spreads[k], 1.01), draws());
            else
                assert_in_range(beyond(sizes[i], spreads[k], 1.01), draws() / 2, draws());
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rounding_is_no_scale),
                                       cmocka_unit_test(scale_is_no_rounding)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
