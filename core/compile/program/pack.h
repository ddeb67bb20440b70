/* SPDX-License-Identifier: Apache-2.0 */
/* Offsets for pieces of memory whose lifetimes are known: those in use at the same time never
 * overlap, and all of them together take little more than the most that is in use at once. Knows
 * nothing of graphs. */
#ifndef WEFT_PROGRAM_PACK_H
#define WEFT_PROGRAM_PACK_H

#include <weft/base.h>

typedef struct weft_lifetime {
    int64_t bytes;   /* 0: takes no room */
    int first, last; /* in use at these instants and all between; 0 <= first <= last */
    int64_t offset;  /* out: a multiple of the alignment */
} weft_lifetime;

typedef struct weft_packed {
    int64_t bytes; /* what the pieces take together */
    int64_t peak;  /* the most in use at once, each rounded up to the alignment: the lower bound */
    int peak_at;   /* the first instant at which that much is */
} weft_packed;

/* Equal pieces in equal order have equal offsets on every machine: effort is bounded by work
 * counted, not by a clock. rough: the sweep alone. Sums of sizes must not overflow. */
weft_status weft_pack(weft_lifetime *pieces, int n, int64_t alignment, bool rough, weft_packed *out,
                      weft_error *err);

#endif
