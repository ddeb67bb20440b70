/* SPDX-License-Identifier: Apache-2.0 */
/* SHA-256 of bytes. Every command that opens plugins hashes megabytes of them: with the processor's
 * own instructions, where it has them, and else by libsodium, which uses none. */
#ifndef WEFT_LIB_VET_SHA256_H
#define WEFT_LIB_VET_SHA256_H

#include <stdbool.h>
#include <stddef.h>

enum { WEFT_SHA256_BYTES = 32 };

void weft_sha256(const void *bytes, size_t size, unsigned char digest[WEFT_SHA256_BYTES]);
/* The former of the two ways; false, and nothing is done: this processor does not know it. */
bool weft_sha256_fast(const void *bytes, size_t size, unsigned char digest[WEFT_SHA256_BYTES]);

#endif
