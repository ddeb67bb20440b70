/* SPDX-License-Identifier: Apache-2.0 */
#ifndef STORE_SHARD_H
#define STORE_SHARD_H

#include "io/internal.h"

/* Whether these pieces can be one file. */
weft_status store_check_pieces(const char *path, const weft_piece *pieces, int n, bool sharded,
                               weft_error *err);
/* The header's JSON, padded to whole 64 bytes with the 8 before it; begin[n + 1]: where each
 * piece's data begins behind it, and where the last one ends. */
void store_build_header(weft_text *text, const weft_piece *pieces, int n, bool sharded,
                        const char *const *metadata, int64_t *begin);

#endif
