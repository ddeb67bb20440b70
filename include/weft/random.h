/* SPDX-License-Identifier: Apache-2.0 */
/* Counter-based random numbers: the same bits on every machine, device and mesh. No libm. */
#ifndef WEFT_RANDOM_H
#define WEFT_RANDOM_H

#include <weft/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): 128 random
 * bits of (counter, key). */
void weft_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);
/* FNV-1a of a name: which stream. */
uint64_t weft_hash_name(const char *name);
/* Goes on from `hash` with n bytes more. */
uint64_t weft_hash_bytes(uint64_t hash, const void *bytes, size_t n);
/* 53 random bits of (seed, stream, index) as a double in (0, 1). */
double weft_random_uniform(uint64_t seed, uint64_t stream, uint64_t index);
/* 64 random bits of (seed, stream, index). */
uint64_t weft_random_bits(uint64_t seed, uint64_t stream, uint64_t index);
/* Inverse of the normal distribution function, for u in (0, 1); relative error below 1e-14; own
 * arithmetic, no libm. */
double weft_normal_inverse(double u);
/* out[i] = weft_normal_inverse(weft_random_uniform(seed, stream, first + i)) for i < n, the same
 * bits in a third of the time where n is large. */
void weft_random_normals(uint64_t seed, uint64_t stream, uint64_t first, int64_t n, double *out);
/* A permutation of 0..n-1 that is a function of (seed, stream): where `i` goes. O(1) memory. */
uint64_t weft_permute(uint64_t seed, uint64_t stream, uint64_t n, uint64_t i);

#ifdef __cplusplus
}
#endif
#endif
