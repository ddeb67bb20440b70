/* SPDX-License-Identifier: Apache-2.0 */
#include "io/internal.h"

bool store_volume(int n_dims, const int64_t *size, int64_t *volume)
{
    int64_t v = 1;
    bool empty = false, fits = true;
    for (int d = 0; d < n_dims; d++) {
        empty = empty || size[d] == 0;
        /* A dim of 0 must not hide what others come to: products of some dims are made, too. */
        fits = fits && size[d] >= 0 && !__builtin_mul_overflow(v, size[d] ? size[d] : 1, &v);
    }
    *volume = empty ? 0 : v;
    return fits;
}

bool store_boxes_meet(int n_dims, const int64_t *lo_a, const int64_t *size_a, const int64_t *lo_b,
                      const int64_t *size_b)
{
    for (int d = 0; d < n_dims; d++) {
        int64_t lo = lo_a[d] > lo_b[d] ? lo_a[d] : lo_b[d];
        int64_t hi_a = lo_a[d] + size_a[d], hi_b = lo_b[d] + size_b[d];
        if ((hi_a < hi_b ? hi_a : hi_b) <= lo)
            return false;
    }
    return true;
}
