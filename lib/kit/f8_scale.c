/* SPDX-License-Identifier: Apache-2.0 */
/* The scale by which values fill the range of 8 bits. */
#include <math.h>
#include <weft/base.h>

float weft_f8_scale_of(double amax, weft_dtype dtype, bool power_of_two, int64_t margin)
{
    static const double least = 1e-12;
    float scale = (float)ldexp(weft_dtype_max(dtype) / (amax < least ? least : amax), (int)-margin);
    if (!power_of_two || !isfinite(scale) || scale == 0)
        return scale;
    int exponent;
    frexpf(scale, &exponent);
    return ldexpf(1, exponent - 1);
}
