/* SPDX-License-Identifier: Apache-2.0 */
#include <weft/base.h>

#include <float.h>
#include <math.h>
#include <string.h>

static const struct {
    const char *name;
    size_t size;
    double max; /* 0: no float */
} dtypes[WEFT_DTYPES] = {
    [WEFT_F32] = {"f32", 4, FLT_MAX},
    [WEFT_F64] = {"f64", 8, DBL_MAX},
    [WEFT_BF16] = {"bf16", 2, 0x1.fep127},
    [WEFT_I32] = {"i32", 4, 0},
    [WEFT_U8] = {"u8", 1, 0},
    [WEFT_F8E4M3] = {"f8e4m3", 1, 448},
    [WEFT_F8E5M2] = {"f8e5m2", 1, 57344},
    [WEFT_F8E8M0] = {"f8e8m0", 1, 0x1p127},
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
    return weft_dtype_max(dtype) > 0;
}

bool weft_dtype_is_f8(weft_dtype dtype)
{
    return dtype == WEFT_F8E4M3 || dtype == WEFT_F8E5M2 || dtype == WEFT_F8E8M0;
}

double weft_dtype_max(weft_dtype dtype)
{
    return dtype < WEFT_DTYPES ? dtypes[dtype].max : 0;
}

/* ---- floats of 8 bits ---- */

/* Constants, so that nothing need be made at run time: mantissas times a power of two, from the
 * denormal numbers to the row with NaN. */
#define M4(p)    4 * (p), 5 * (p), 6 * (p), 7 * (p)
#define M8(p)    8 * (p), 9 * (p), 10 * (p), 11 * (p), 12 * (p), 13 * (p), 14 * (p), 15 * (p)
#define LEAST(p) 0 * (p), 1 * (p), 2 * (p), 3 * (p)
#define MOST(p)  8 * (p), 9 * (p), 10 * (p), 11 * (p), 12 * (p), 13 * (p), 14 * (p), NAN

#define E4M3(s)                                                                                    \
    LEAST(s 0x1p-9f), M4(s 0x1p-9f), M8(s 0x1p-9f), M8(s 0x1p-8f), M8(s 0x1p-7f), M8(s 0x1p-6f),   \
        M8(s 0x1p-5f), M8(s 0x1p-4f), M8(s 0x1p-3f), M8(s 0x1p-2f), M8(s 0x1p-1f), M8(s 0x1p0f),   \
        M8(s 0x1p1f), M8(s 0x1p2f), M8(s 0x1p3f), M8(s 0x1p4f), MOST(s 0x1p5f)

#define E5M2(s)                                                                                    \
    LEAST(s 0x1p-16f), M4(s 0x1p-16f), M4(s 0x1p-15f), M4(s 0x1p-14f), M4(s 0x1p-13f),             \
        M4(s 0x1p-12f), M4(s 0x1p-11f), M4(s 0x1p-10f), M4(s 0x1p-9f), M4(s 0x1p-8f),              \
        M4(s 0x1p-7f), M4(s 0x1p-6f), M4(s 0x1p-5f), M4(s 0x1p-4f), M4(s 0x1p-3f), M4(s 0x1p-2f),  \
        M4(s 0x1p-1f), M4(s 0x1p0f), M4(s 0x1p1f), M4(s 0x1p2f), M4(s 0x1p3f), M4(s 0x1p4f),       \
        M4(s 0x1p5f), M4(s 0x1p6f), M4(s 0x1p7f), M4(s 0x1p8f), M4(s 0x1p9f), M4(s 0x1p10f),       \
        M4(s 0x1p11f), M4(s 0x1p12f), M4(s 0x1p13f), s INFINITY, NAN, NAN, NAN

#define P4(p)  1 * (p), 2 * (p), 4 * (p), 8 * (p)
#define P16(p) P4(p), P4(16 * (p)), P4(256 * (p)), P4(4096 * (p))

static const float e8m0[256] = {P16(0x1p-127f), P16(0x1p-111f),
                                P16(0x1p-95f),  P16(0x1p-79f),
                                P16(0x1p-63f),  P16(0x1p-47f),
                                P16(0x1p-31f),  P16(0x1p-15f),
                                P16(0x1p1f),    P16(0x1p17f),
                                P16(0x1p33f),   P16(0x1p49f),
                                P16(0x1p65f),   P16(0x1p81f),
                                P16(0x1p97f),   P4(0x1p113f),
                                P4(0x1p117f),   P4(0x1p121f),
                                0x1p125f,       0x1p126f,
                                0x1p127f,       NAN};

static const float e4m3[256] = {E4M3(+), E4M3(-)}, e5m2[256] = {E5M2(+), E5M2(-)};

const float *weft_f8_values(weft_dtype dtype)
{
    return dtype == WEFT_F8E4M3   ? e4m3
           : dtype == WEFT_F8E5M2 ? e5m2
           : dtype == WEFT_F8E8M0 ? e8m0
                                  : NULL;
}

uint8_t weft_f64_to_f8(double x, weft_dtype dtype)
{
    float f = weft_f64_to_f32_odd(x);
    return dtype == WEFT_F8E8M0 ? weft_f32_to_f8e8m0(f) : weft_f32_to_f8(f, dtype == WEFT_F8E5M2);
}

float weft_f64_to_f32_odd(double x)
{
    union {
        float f;
        uint32_t u;
    } v = {(float)x};
    if ((double)v.f != x && isfinite(v.f) && !(v.u & 1u))
        v.u = fabs((double)v.f) > fabs(x) ? v.u - 1u : v.u + 1u;
    return v.f;
}
