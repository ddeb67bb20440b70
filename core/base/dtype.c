/* SPDX-License-Identifier: Apache-2.0 */
#include <weft/base.h>

#include <string.h>

static const struct {
    const char *name;
    size_t size;
    bool is_float;
} dtypes[WEFT_DTYPES] = {
    [WEFT_F32] = {"f32", 4, true},  [WEFT_F64] = {"f64", 8, true}, [WEFT_BF16] = {"bf16", 2, true},
    [WEFT_I32] = {"i32", 4, false}, [WEFT_U8] = {"u8", 1, false},
};

size_t weft_dtype_size(weft_dtype dtype)
{
    return dtype < WEFT_DTYPES ? dtypes[dtype].size : 0;
}

const char *weft_dtype_name(weft_dtype dtype)
{
    return dtype < WEFT_DTYPES ? dtypes[dtype].name : "?";
}

weft_dtype weft_dtype_find(const char *name)
{
    int i = 0;
    while (i < WEFT_DTYPES && strcmp(dtypes[i].name, name) != 0)
        i++;
    return (weft_dtype)i;
}

bool weft_dtype_is_float(weft_dtype dtype)
{
    return dtype < WEFT_DTYPES && dtypes[dtype].is_float;
}
