/* SPDX-License-Identifier: Apache-2.0 */
/* Hashes of what graphs and programs are made of. */
#ifndef WEFT_LIB_FORECAST_MIX_H
#define WEFT_LIB_FORECAST_MIX_H

#include <string.h>
#include <weft/op.h>
#include <weft/random.h>

static inline void mix(uint64_t *hash, const void *bytes, size_t n)
{
    *hash = weft_hash_bytes(*hash, bytes, n);
}

static inline void mix_number(uint64_t *hash, int64_t number)
{
    mix(hash, &number, sizeof number);
}

/* With its end, so that two texts are not one. */
static inline void mix_text(uint64_t *hash, const char *text)
{
    text = text ? text : "";
    mix(hash, text, strlen(text) + 1);
}

static inline void mix_attrs(uint64_t *hash, const weft_attr *list, int n)
{
    for (int i = 0; i < n; i++) {
        mix_text(hash, list[i].key);
        mix_number(hash, list[i].i);
        mix(hash, &list[i].r, sizeof list[i].r);
        mix_text(hash, list[i].text);
    }
}

#endif
