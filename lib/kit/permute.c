/* SPDX-License-Identifier: Apache-2.0 */
/* A permutation of any number of things that is computed, not stored: shuffled samples. */
#include <weft/random.h>

/* One pass of a Feistel network over numbers of 2 * half bits. */
static uint64_t feistel(uint64_t seed, uint64_t stream, int half, uint64_t x)
{
    enum { ROUNDS = 8 };
    uint32_t mask = (uint32_t)((UINT64_C(1) << half) - 1);
    uint32_t left = (uint32_t)(x >> half), right = (uint32_t)x & mask;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint32_t next =
            left ^ ((uint32_t)weft_random_bits(seed, stream, round << 32 | right) & mask);
        left = right;
        right = next;
    }
    return (uint64_t)left << half | right;
}

/* The network permutes the next power of 4 above n; walking on until the number is below n leaves a
 * permutation of 0..n-1. */
uint64_t weft_permute(uint64_t seed, uint64_t stream, uint64_t n, uint64_t i)
{
    if (n < 2 || i >= n)
        return i;
    int half = (64 - __builtin_clzll(n - 1) + 1) / 2;
    do
        i = feistel(seed, stream, half, i);
    while (i >= n);
    return i;
}
