/* SPDX-License-Identifier: Apache-2.0 */
/* Which source a sample comes from. Samples are taken in blocks; of its first b blocks' samples a
 * source has floor(b * block * share), and one, the filler, what is left. Within a block the order
 * is a permutation. So shares are exact over any long stretch, near over a short one, and a
 * sample's source, and its number in there, take the same time for every i. */
#include "data.h"

__extension__ typedef unsigned __int128 wide;

enum { SHARE_BITS = 48 };

void text_mix_init(text_mix *mix, const text_source *sources, size_t n)
{
    double total = 0;
    *mix = (text_mix){0};
    while (mix->n < n && sources[mix->n].weight > 0)
        total += sources[mix->n++].weight;
    for (size_t s = 0; s < mix->n; s++) {
        mix->share[s] = (uint64_t)(sources[s].weight / total * (double)(UINT64_C(1) << SHARE_BITS));
        if (sources[s].weight > sources[mix->filler].weight)
            mix->filler = s;
    }
}

/* Samples of source s in the first `block` blocks; not for the filler. */
static uint64_t before(const text_mix *mix, size_t s, uint64_t block)
{
    return (uint64_t)((wide)block * TEXT_MIX_BLOCK * mix->share[s] >> SHARE_BITS);
}

/* The filler comes last in a block. Others never fill it: their shares are at most 1 - 1/n, and
 * rounding adds less than one sample each. */
void text_mix_place(const text_mix *mix, uint64_t seed, uint64_t i, size_t *s, uint64_t *k)
{
    *s = mix->filler;
    *k = i;
    if (mix->n < 2)
        return;
    uint64_t block = i / TEXT_MIX_BLOCK, others = 0;
    uint64_t place =
        weft_permute(seed, weft_hash_name("text mix") + block, TEXT_MIX_BLOCK, i % TEXT_MIX_BLOCK);
    for (size_t t = 0; t < mix->n; t++) {
        if (t == mix->filler)
            continue;
        uint64_t first = before(mix, t, block), n = before(mix, t, block + 1) - first;
        others += first;
        if (place < n) {
            *s = t;
            *k = first + place;
            return;
        }
        place -= n;
    }
    *k = block * TEXT_MIX_BLOCK - others + place;
}
