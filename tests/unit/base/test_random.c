/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <weft/random.h>

/* The known answers that the authors of Philox publish with Random123. */
static void philox_known_answers(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], want[4];
    } cases[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{~0u, ~0u, ~0u, ~0u}, {~0u, ~0u}, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint32_t out[4];
        weft_philox(cases[i].counter, cases[i].key, out);
        assert_memory_equal(out, cases[i].want, sizeof out);
    }
}

static void hash_is_fnv1a(void **state)
{
    (void)state;
    assert_true(weft_hash_name("") == UINT64_C(0xcbf29ce484222325));
    assert_true(weft_hash_name("a") == UINT64_C(0xaf63dc4c8601ec8c));
    assert_true(weft_hash_name("foobar") == UINT64_C(0x85944171f73967e8));
    assert_true(weft_hash_bytes(weft_hash_name("foo"), "bar", 3) == weft_hash_name("foobar"));
}

static void bits_depend_on_seed_stream_and_index(void **state)
{
    (void)state;
    uint64_t bits = weft_random_bits(1, 2, 3);
    assert_true(bits == weft_random_bits(1, 2, 3));
    assert_true(bits != weft_random_bits(2, 2, 3));
    assert_true(bits != weft_random_bits(1, 3, 3));
    assert_true(bits != weft_random_bits(1, 2, 4));
    assert_true(bits != weft_random_bits(UINT64_C(1) << 32 | 1, 2, 3));
    assert_true(bits != weft_random_bits(1, UINT64_C(1) << 32 | 2, 3));
    assert_true(bits != weft_random_bits(1, 2, UINT64_C(1) << 32 | 3));
    assert_true(weft_random_bits(0, 0, 0) == UINT64_C(0xe169c58d6627e8d5));
}

static void uniform_is_uniform(void **state)
{
    (void)state;
    enum { N = 100000, BINS = 16 };
    int count[BINS] = {0};
    double sum = 0;
    for (uint64_t i = 0; i < N; i++) {
        double u = weft_random_uniform(7, weft_hash_name("uniform"), i);
        assert_true(u > 0 && u < 1);
        sum += u;
        count[(int)(u * BINS)]++;
    }
    assert_true(fabs(sum / N - 0.5) < 0.004); /* four standard deviations */
    double chi2 = 0, want = (double)N / BINS;
    for (int b = 0; b < BINS; b++)
        chi2 += (count[b] - want) * (count[b] - want) / want;
    assert_true(chi2 < 37.7); /* 99.9 % of chi-square with 15 degrees of freedom */
}

/* Quantiles to 20 digits, from Newton's method in 40-digit arithmetic. */
static void normal_quantiles(void **state)
{
    (void)state;
    static const struct {
        double u, z;
    } cases[] = {
        {1e-300, -37.047096299361199237},       {1e-100, -21.273453560965324294},
        {1e-20, -9.2623400897984075796},        {1e-10, -6.3613409024040561991},
        {1e-05, -4.2648907939228246102},        {0.001, -3.0902323061678135354},
        {0.01, -2.3263478740408410931},         {0.05, -1.644853626951472688},
        {0.07, -1.4757910281791706856},         {0.08, -1.4050715603096325447},
        {0.1, -1.2815515655446004353},          {0.25, -0.6744897501960817432},
        {0.4, -0.25334710313579974132},         {0.49, -0.025068908258711058033},
        {0.4999999, -2.5066282747031065135e-7}, {0.5000001, 2.5066282733116483012e-7},
        {0.6, 0.25334710313579974132},          {0.75, 0.6744897501960817432},
        {0.9, 1.2815515655446005935},           {0.92, 1.4050715603096328248},
        {0.93, 1.475791028179171099},           {0.975, 1.9599639845400538556},
        {0.99, 2.3263478740408407676},          {0.999999, 4.7534243088170877657},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double z = weft_normal_inverse(cases[i].u);
        assert_true(fabs(z - cases[i].z) <= 1e-14 * fabs(cases[i].z));
    }
    assert_true(weft_normal_inverse(0.5) == 0);
}

static void normal_inverse_is_odd_and_grows(void **state)
{
    (void)state;
    double last = weft_normal_inverse(0x1p-1074);
    assert_true(isfinite(last) && last < -38);
    for (int e = -1000; e < -1; e++) {
        double z = weft_normal_inverse(ldexp(1, e));
        assert_true(z > last);
        last = z;
    }
    for (int i = 1; i < 1024; i++) {
        double z = weft_normal_inverse(i / 2048.0);
        assert_true(z == -weft_normal_inverse(1 - i / 2048.0));
    }
    assert_true(isfinite(weft_normal_inverse(1 - 0x1p-53)));
}

/* If these change, initial weights change: on every machine the same. */
static void normal_bits(void **state)
{
    (void)state;
    uint64_t hash = weft_hash_name("");
    for (uint64_t i = 0; i < 10000; i++) {
        double z = weft_normal_inverse(weft_random_uniform(42, weft_hash_name("wte"), i));
        hash = weft_hash_bytes(hash, &z, sizeof z);
    }
    assert_true(hash == UINT64_C(0x90f7d09be0cbcd06));
}

/* Any number of them, from any element on, with nothing written behind. */
static void normals_together_are_those_alone(void **state)
{
    (void)state;
    enum { MOST = 1000 };
    static const uint64_t first[] = {0, 1, 63, (UINT64_C(1) << 32) - 100, UINT64_MAX - 500};
    double z[MOST + 1];
    for (uint64_t k = 0; k < 1000; k++) {
        const uint64_t from = first[k % 5], seed = k << 30, stream = weft_random_bits(1, 2, k);
        const int n = (int)(k < 200 ? k : weft_random_bits(3, 4, k) % MOST);
        z[n] = 7;
        weft_random_normals(seed, stream, from, n, z);
        for (int i = 0; i < n; i++) {
            const double u = weft_random_uniform(seed, stream, from + (uint64_t)i);
            assert_true(z[i] == weft_normal_inverse(u));
        }
        assert_true(z[n] == 7);
    }
}

static void normal_moments(void **state)
{
    (void)state;
    enum { N = 100000 };
    double m[5] = {0};
    for (uint64_t i = 0; i < N; i++) {
        double z = weft_normal_inverse(weft_random_uniform(1, weft_hash_name("normal"), i));
        for (int k = 1; k <= 4; k++)
            m[k] += pow(z, k) / N;
    }
    /* four standard deviations of each moment's estimate: sqrt(E z^2k - (E z^k)^2) / sqrt(N) */
    assert_true(fabs(m[1]) < 4 * sqrt(1.0 / N));
    assert_true(fabs(m[2] - 1) < 4 * sqrt(2.0 / N));
    assert_true(fabs(m[3]) < 4 * sqrt(15.0 / N));
    assert_true(fabs(m[4] - 3) < 4 * sqrt(96.0 / N));
}

static void permutation_is_a_bijection(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {1, 2, 3, 4, 5, 7, 16, 17, 100, 255, 256, 257, 1000, 4097};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        unsigned char seen[4097] = {0};
        for (uint64_t i = 0; i < sizes[s]; i++) {
            uint64_t to = weft_permute(3, 4, sizes[s], i);
            assert_true(to < sizes[s]);
            assert_int_equal(seen[to], 0);
            seen[to] = 1;
        }
    }
}

static void permutation_of_a_huge_range_stays_in_it(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {UINT64_C(1) << 32, (UINT64_C(1) << 32) + 1, UINT64_C(1) << 63,
                                     UINT64_MAX};
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        for (uint64_t i = 0; i < 1000; i++)
            assert_true(weft_permute(3, 4, sizes[s], sizes[s] - 1 - i) < sizes[s]);
    }
}

static void permutation_mixes(void **state)
{
    (void)state;
    enum { N = 1000 };
    double sum = 0;
    int fixed = 0, same = 0;
    for (uint64_t i = 0; i < N; i++) {
        uint64_t to = weft_permute(5, 6, N, i);
        sum += ((double)i - (N - 1) / 2.0) * ((double)to - (N - 1) / 2.0);
        fixed += to == i;
        same += to == weft_permute(6, 6, N, i);
    }
    double correlation = sum / (N * ((double)N * N - 1) / 12);
    assert_true(fabs(correlation) < 4 / sqrt(N));
    assert_true(fixed < 8 && same < 8); /* both Poisson with mean 1 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_known_answers),
        cmocka_unit_test(hash_is_fnv1a),
        cmocka_unit_test(bits_depend_on_seed_stream_and_index),
        cmocka_unit_test(uniform_is_uniform),
        cmocka_unit_test(normal_quantiles),
        cmocka_unit_test(normal_inverse_is_odd_and_grows),
        cmocka_unit_test(normal_bits),
        cmocka_unit_test(normals_together_are_those_alone),
        cmocka_unit_test(normal_moments),
        cmocka_unit_test(permutation_is_a_bijection),
        cmocka_unit_test(permutation_of_a_huge_range_stays_in_it),
        cmocka_unit_test(permutation_mixes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
