/* SPDX-License-Identifier: Apache-2.0 */
/* Element types as files call them, and their conversion. */
#include "io/internal.h"

#include <math.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "safetensors files are little-endian, and tensors are read as they lie in memory");

static const store_type types[] = {
    {"F32", 32, WEFT_F32, false},
    {"F64", 64, WEFT_F64, false},
    {"BF16", 16, WEFT_BF16, false},
    {"I32", 32, WEFT_I32, false},
    {"U8", 8, WEFT_U8, false},
    {"F16", 16, WEFT_DTYPES, true},
    {"BOOL", 8, WEFT_DTYPES, false},
    {"I8", 8, WEFT_DTYPES, false},
    {"F8_E5M2", 8, WEFT_F8E5M2, false},
    {"F8_E4M3", 8, WEFT_F8E4M3, false},
    {"F8_E8M0", 8, WEFT_F8E8M0, false},
    {"I16", 16, WEFT_DTYPES, false},
    {"U16", 16, WEFT_DTYPES, false},
    {"U32", 32, WEFT_DTYPES, false},
    {"I64", 64, WEFT_DTYPES, false},
    {"U64", 64, WEFT_DTYPES, false},
    {"C64", 64, WEFT_DTYPES, false},
    {"F4", 4, WEFT_DTYPES, false},
    {"F6_E2M3", 6, WEFT_DTYPES, false},
    {"F6_E3M2", 6, WEFT_DTYPES, false},
    {"F8_E4M3FNUZ", 8, WEFT_DTYPES, false},
    {"F8_E5M2FNUZ", 8, WEFT_DTYPES, false},
};

enum { N_TYPES = sizeof types / sizeof types[0] };

const char *store_type_name(weft_dtype dtype)
{
    for (int i = 0; i < N_TYPES; i++) {
        if (types[i].dtype == dtype && dtype != WEFT_DTYPES)
            return types[i].name;
    }
    return NULL;
}

const store_type *store_type_find(const char *name)
{
    for (int i = 0; i < N_TYPES; i++) {
        if (strcmp(types[i].name, name) == 0)
            return &types[i];
    }
    return NULL;
}

bool store_converts(const store_type *from, weft_dtype to)
{
    if (!from || (unsigned)to >= WEFT_DTYPES)
        return false;
    bool real = from->half || (from->dtype != WEFT_DTYPES && weft_dtype_is_float(from->dtype));
    bool exact = to == WEFT_F64 && (from->dtype == WEFT_I32 || from->dtype == WEFT_U8);
    return from->dtype == to || exact || (real && weft_dtype_is_float(to));
}

static double half_to_f64(uint16_t h)
{
    int exponent = (h >> 10) & 31, mantissa = h & 1023;
    double size = 0;
    if (exponent == 31)
        size = mantissa ? (double)NAN : (double)INFINITY;
    else
        size = ldexp(exponent ? mantissa + 1024 : mantissa, (exponent ? exponent : 1) - 25);
    return h & 0x8000 ? -size : size;
}

static double load(const store_type *type, const uint8_t *from)
{
    uint16_t h = 0;
    float f = 0;
    double d = 0;
    int32_t i = 0;
    if (type->dtype == WEFT_U8)
        return *from;
    if (type->dtype == WEFT_I32) {
        memcpy(&i, from, sizeof i);
        return i;
    }
    if (weft_dtype_is_f8(type->dtype))
        return (double)weft_f8_values(type->dtype)[*from];
    if (type->dtype == WEFT_F64) {
        memcpy(&d, from, sizeof d);
        return d;
    }
    if (type->dtype == WEFT_F32) {
        memcpy(&f, from, sizeof f);
        return (double)f;
    }
    memcpy(&h, from, sizeof h);
    return type->half ? half_to_f64(h) : (double)weft_bf16_to_f32(h);
}

/* Narrower than f32: rounded once, on the way through an f32 whose last bit is what was cut off. */
static void store(weft_dtype dtype, double d, uint8_t *to)
{
    float f = (float)d;
    uint16_t h = dtype == WEFT_BF16 ? weft_f32_to_bf16(weft_f64_to_f32_odd(d)) : 0;
    if (dtype == WEFT_F64)
        memcpy(to, &d, sizeof d);
    else if (dtype == WEFT_F32)
        memcpy(to, &f, sizeof f);
    else if (dtype == WEFT_BF16)
        memcpy(to, &h, sizeof h);
    else
        *to = weft_f64_to_f8(d, dtype);
}

/* Blocks of one length, which compilers make vectors of, and copy without a call. */
enum { BLOCK = 32 };
typedef void convert_block(const uint8_t *from, uint8_t *to);

static void bf16_to_f32(const uint8_t *from, uint8_t *to)
{
    uint16_t h[BLOCK];
    float f[BLOCK];
    memcpy(h, from, sizeof h);
    for (int k = 0; k < BLOCK; k++)
        f[k] = weft_bf16_to_f32(h[k]);
    memcpy(to, f, sizeof f);
}

static void f32_to_bf16(const uint8_t *from, uint8_t *to)
{
    float f[BLOCK];
    uint16_t h[BLOCK];
    memcpy(f, from, sizeof f);
    for (int k = 0; k < BLOCK; k++)
        h[k] = weft_f32_to_bf16(f[k]);
    memcpy(to, h, sizeof h);
}

static convert_block *find_block(const store_type *from, weft_dtype dtype)
{
    return from->dtype == WEFT_BF16 && dtype == WEFT_F32   ? bf16_to_f32
           : from->dtype == WEFT_F32 && dtype == WEFT_BF16 ? f32_to_bf16
                                                           : NULL;
}

/* Fewer than a block's. */
static void convert_rest(convert_block *block, const uint8_t *from, size_t from_bytes, uint8_t *to,
                         size_t to_bytes)
{
    uint8_t whole[BLOCK * sizeof(float)] = {0}, done[BLOCK * sizeof(float)];
    memcpy(whole, from, from_bytes);
    block(whole, done);
    memcpy(to, done, to_bytes);
}

void store_convert(const store_type *from, weft_dtype dtype, const void *data, void *to, int64_t n)
{
    const uint8_t *in = data;
    uint8_t *out = to;
    const size_t from_width = (size_t)from->bits / 8, to_width = weft_dtype_size(dtype);
    convert_block *block = find_block(from, dtype);
    if (from->dtype == dtype) {
        memcpy(out, in, (size_t)n * to_width);
        return;
    }
    for (; block && n >= BLOCK; n -= BLOCK, in += BLOCK * from_width, out += BLOCK * to_width)
        block(in, out);
    if (block)
        convert_rest(block, in, (size_t)n * from_width, out, (size_t)n * to_width);
    for (; !block && n > 0; n--, in += from_width, out += to_width)
        store(dtype, load(from, in), out);
}
