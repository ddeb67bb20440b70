/* SPDX-License-Identifier: Apache-2.0 */
#include "vet/sha256.h"

#include <sodium.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)

#include <cpuid.h>
#include <immintrin.h>
#include <stdatomic.h>

enum { BLOCK = WEFT_SHA256_BLOCK, LEAF_EXTENDED = 7, SHA_BIT = 1 << 29 };

/* FIPS 180-4, 4.2.2 */
static const uint32_t constants[BLOCK] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

/* Asked once: in a virtual machine each question leaves it, and takes longer than a small file. */
static bool has_instructions(void)
{
    static atomic_int known; /* 0: not asked yet, 1: no, 2: yes */
    unsigned a, b, c, d;
    int answer = atomic_load_explicit(&known, memory_order_relaxed);
    if (!answer) {
        bool has = __builtin_cpu_supports("sse4.1") &&
                   __get_cpuid_count(LEAF_EXTENDED, 0, &a, &b, &c, &d) && (b & SHA_BIT);
        answer = has ? 2 : 1;
        atomic_store_explicit(&known, answer, memory_order_relaxed);
    }
    return answer == 2;
}

/* The instructions keep the eight words as two vectors, (f e b a) and (h g d c) from the lowest,
 * and do four rounds with two of them. words: of the next 16 rounds, four to a vector. */
__attribute__((target("sha,sse4.1"))) static void add_blocks(__m128i *abef, __m128i *cdgh,
                                                             const unsigned char *p, size_t n)
{
    const __m128i to_big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    for (; n > 0; n--, p += BLOCK) {
        __m128i words[4], abef_before = *abef, cdgh_before = *cdgh;
        for (int i = 0; i < 4; i++)
            words[i] = _mm_shuffle_epi8(_mm_loadu_si128((const __m128i *)(const void *)p + i),
                                        to_big_endian);
#pragma GCC unroll 16 /* the words stay in registers */
        for (size_t i = 0; i < 16; i++) {
            __m128i *now = &words[i % 4];
            const __m128i next = words[(i + 1) % 4], third = words[(i + 2) % 4],
                          last = words[(i + 3) % 4];
            __m128i sum = _mm_add_epi32(
                *now, _mm_loadu_si128((const __m128i *)(const void *)(constants + 4 * i)));
            *cdgh = _mm_sha256rnds2_epu32(*cdgh, *abef, sum);
            *abef = _mm_sha256rnds2_epu32(*abef, *cdgh, _mm_shuffle_epi32(sum, 0x0e));
            *now = _mm_add_epi32(_mm_sha256msg1_epu32(*now, next), _mm_alignr_epi8(last, third, 4));
            *now = _mm_sha256msg2_epu32(*now, last);
        }
        *abef = _mm_add_epi32(*abef, abef_before);
        *cdgh = _mm_add_epi32(*cdgh, cdgh_before);
    }
}

static void put_word(unsigned char *p, uint32_t word)
{
    for (int i = 0; i < 4; i++)
        p[i] = (unsigned char)(word >> (24 - 8 * i));
}

/* What is left behind whole blocks, one bit, zeros, and the number of bits. */
static size_t pad(unsigned char out[2 * BLOCK], const unsigned char *rest, size_t n, uint64_t size)
{
    size_t blocks = n + 1 + 8 <= BLOCK ? 1 : 2, end = blocks * BLOCK;
    memset(out, 0, 2 * BLOCK);
    if (n > 0)
        memcpy(out, rest, n);
    out[n] = 0x80;
    put_word(out + end - 8, (uint32_t)(size >> 29));
    put_word(out + end - 4, (uint32_t)(size << 3));
    return blocks;
}

static bool begin_fast(uint32_t words[8])
{
    static const uint32_t f_e_b_a_h_g_d_c[8] = {0x9b05688c, 0x510e527f, 0xbb67ae85, 0x6a09e667,
                                                0x5be0cd19, 0x1f83d9ab, 0xa54ff53a, 0x3c6ef372};
    memcpy(words, f_e_b_a_h_g_d_c, sizeof f_e_b_a_h_g_d_c);
    return has_instructions();
}

static void add_fast(uint32_t words[8], const void *bytes, size_t blocks)
{
    __m128i abef = _mm_loadu_si128((const void *)words),
            cdgh = _mm_loadu_si128((const void *)(words + 4));
    add_blocks(&abef, &cdgh, bytes, blocks);
    _mm_storeu_si128((void *)words, abef);
    _mm_storeu_si128((void *)(words + 4), cdgh);
}

static void end_fast(uint32_t words[8], const unsigned char *rest, size_t n, uint64_t size,
                     unsigned char digest[WEFT_SHA256_BYTES])
{
    static const int places[8] = {3, 2, 7, 6, 1, 0, 5, 4}; /* of a to h in both vectors */
    unsigned char tail[2 * BLOCK];
    add_fast(words, tail, pad(tail, rest, n, size));
    for (size_t i = 0; i < 8; i++)
        put_word(digest + 4 * i, words[places[i]]);
}

#else

static bool begin_fast(uint32_t words[8])
{
    (void)words;
    return false;
}

static void add_fast(uint32_t words[8], const void *bytes, size_t blocks)
{
    (void)words, (void)bytes, (void)blocks;
}

static void end_fast(uint32_t words[8], const unsigned char *rest, size_t n, uint64_t size,
                     unsigned char digest[WEFT_SHA256_BYTES])
{
    (void)words, (void)rest, (void)n, (void)size, (void)digest;
}

#endif

void weft_sha256_init(weft_sha256_sum *sum)
{
    sum->size = 0;
    sum->fast = begin_fast(sum->words);
    if (!sum->fast)
        crypto_hash_sha256_init(&sum->state);
}

void weft_sha256_add(weft_sha256_sum *sum, const void *bytes, size_t blocks)
{
    sum->size += blocks * WEFT_SHA256_BLOCK;
    if (sum->fast)
        add_fast(sum->words, bytes, blocks);
    else
        crypto_hash_sha256_update(&sum->state, bytes, blocks * WEFT_SHA256_BLOCK);
}

void weft_sha256_end(weft_sha256_sum *sum, const void *rest, size_t size,
                     unsigned char digest[WEFT_SHA256_BYTES])
{
    const size_t blocks = size / WEFT_SHA256_BLOCK, left = size % WEFT_SHA256_BLOCK;
    const unsigned char *p = rest;
    if (blocks)
        weft_sha256_add(sum, p, blocks);
    p = left ? p + (size - left) : p;
    if (sum->fast) {
        end_fast(sum->words, p, left, sum->size + left, digest);
        return;
    }
    crypto_hash_sha256_update(&sum->state, p, left);
    crypto_hash_sha256_final(&sum->state, digest);
}

void weft_sha256(const void *bytes, size_t size, unsigned char digest[WEFT_SHA256_BYTES])
{
    weft_sha256_sum sum;
    weft_sha256_init(&sum);
    weft_sha256_end(&sum, bytes, size, digest);
}
