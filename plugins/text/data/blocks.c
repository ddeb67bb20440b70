/* SPDX-License-Identifier: Apache-2.0 */
/* Checksums over a token file's tokens and offsets, so that what has changed since it was made is
 * not trained on. A block is compared when it is read for the first time. */
#include "build.h"

int64_t text_blocks_count(int64_t end)
{
    int64_t bytes = end - TEXT_BLOCKS_AT;
    return bytes / TEXT_BLOCK + (bytes % TEXT_BLOCK != 0);
}

uint64_t *text_blocks_alloc(int64_t end)
{
    return weft_alloc_zero((size_t)text_blocks_count(end) / 64 + 1, sizeof(uint64_t));
}

static bool block_matches(const char *map, int64_t end, const uint64_t *sums, int64_t i)
{
    int64_t at = TEXT_BLOCKS_AT + i * TEXT_BLOCK, left = end - at;
    return weft_sum(map + at, left < TEXT_BLOCK ? (size_t)left : TEXT_BLOCK) == sums[i];
}

bool text_blocks_match(const char *map, int64_t end, const uint64_t *sums)
{
    int64_t n = text_blocks_count(end), i = 0;
    while (i < n && block_matches(map, end, sums, i))
        i++;
    return i == n;
}

weft_status text_cache_check(const text_cache *cache, const void *from, size_t n, weft_error *err)
{
    const char *map = cache->map;
    int64_t at = (const char *)from - map - TEXT_BLOCKS_AT;
    for (int64_t i = at / TEXT_BLOCK; n > 0 && i <= (at + (int64_t)n - 1) / TEXT_BLOCK; i++) {
        uint64_t *word = &cache->checked[i / 64], bit = UINT64_C(1) << i % 64;
        if (__atomic_load_n(word, __ATOMIC_RELAXED) & bit)
            continue;
        if (!block_matches(map, cache->blocks_end, cache->sums, i))
            return weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE,
                             "the token file %s is damaged: %d KiB from byte %lld on are not what "
                             "was written; delete the file and start again: it is made anew from "
                             "the text",
                             cache->path, TEXT_BLOCK >> 10,
                             (long long)(TEXT_BLOCKS_AT + i * TEXT_BLOCK));
        __atomic_fetch_or(word, bit, __ATOMIC_RELAXED);
    }
    return WEFT_OK;
}
