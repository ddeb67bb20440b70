/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 by the processor's instructions is libsodium's, whatever the length and the place. */
#include "vet/sha256.h"

#include <setjmp.h>
#include <sodium.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
/* last: it needs the headers above */
#include <cmocka.h>

enum { MOST = 1000, PLACES = 17 };

static void known(void **state)
{
    (void)state;
    static const char hex[] = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    unsigned char digest[WEFT_SHA256_BYTES];
    char text[2 * WEFT_SHA256_BYTES + 1];
    weft_sha256("abc", 3, digest);
    sodium_bin2hex(text, sizeof text, digest, sizeof digest);
    assert_string_equal(text, hex);
}

static void fill(unsigned char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        bytes[i] = (unsigned char)(i * i * 31 + i / 7);
}

static void every_length(void **state)
{
    (void)state;
    unsigned char bytes[MOST + PLACES], one[WEFT_SHA256_BYTES], two[WEFT_SHA256_BYTES];
    fill(bytes, sizeof bytes);
    for (size_t n = 0; n <= MOST; n++) {
        const unsigned char *p = bytes + n % PLACES;
        weft_sha256(p, n, one);
        crypto_hash_sha256(two, p, n);
        assert_memory_equal(one, two, sizeof one);
    }
}

/* By the instructions, where there are any, and by libsodium. */
static void in_pieces(void **state)
{
    (void)state;
    unsigned char bytes[MOST], whole[WEFT_SHA256_BYTES], digest[WEFT_SHA256_BYTES];
    fill(bytes, sizeof bytes);
    crypto_hash_sha256(whole, bytes, MOST);
    for (size_t blocks = 0; blocks <= MOST / WEFT_SHA256_BLOCK; blocks++)
        for (int fast = 0; fast < 2; fast++) {
            const size_t first = blocks * WEFT_SHA256_BLOCK;
            weft_sha256_sum sum;
            weft_sha256_init(&sum);
            if (!fast) {
                sum.fast = false;
                crypto_hash_sha256_init(&sum.state);
            }
            weft_sha256_add(&sum, bytes, blocks / 2);
            weft_sha256_add(&sum, bytes + blocks / 2 * WEFT_SHA256_BLOCK, blocks - blocks / 2);
            weft_sha256_end(&sum, bytes + first, MOST - first, digest);
            assert_memory_equal(digest, whole, sizeof whole);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(known), cmocka_unit_test(every_length),
                                       cmocka_unit_test(in_pieces)};
    return sodium_init() < 0 ? 1 : cmocka_run_group_tests(tests, NULL, NULL);
}
