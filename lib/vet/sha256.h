/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 of bytes. Every command that opens plugins hashes megabytes of them: with the processor's
 * own instructions, where it has them, and else by libsodium, which uses none. */
#ifndef WEFT_LIB_VET_SHA256_H
#define WEFT_LIB_VET_SHA256_H

#include <sodium.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { WEFT_SHA256_BYTES = 32, WEFT_SHA256_BLOCK = 64 };

/* Of bytes that come in pieces. */
typedef struct weft_sha256_sum {
    bool fast;
    uint64_t size;                  /* so far */
    uint32_t words[8];              /* as the instructions keep them */
    crypto_hash_sha256_state state; /* else libsodium's */
} weft_sha256_sum;

void weft_sha256_init(weft_sha256_sum *sum);
/* Whole blocks, and at the end what is left, however much it is. */
void weft_sha256_add(weft_sha256_sum *sum, const void *bytes, size_t blocks);
void weft_sha256_end(weft_sha256_sum *sum, const void *rest, size_t size,
                     unsigned char digest[WEFT_SHA256_BYTES]);

void weft_sha256(const void *bytes, size_t size, unsigned char digest[WEFT_SHA256_BYTES]);

#endif
