/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary positions. A thread turns 8 neighbouring pairs of every head of a row, whose angles all
 * heads share. Angles are made in f64: positions go to 10^6, and f32 has 7 digits. */
#include "kernel.h"

WEFT_KERNEL(rope, cuda_rope_args, CUDA_THREADS)
{
    int64_t chunks = (a.half + 7) / 8, all = a.rows * chunks;
    for (int64_t t = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; t < all;
         t += (int64_t)gridDim.x * blockDim.x) {
        int64_t row = t / chunks, i = 8 * (t % chunks);
        float c[8], s[8];
        double position = (double)get_int(a.positions, row);
        EACH8(k)
        {
            double angle = i + k < a.half ? position * a.frequency[i + k] : 0.0;
            double turns = angle * 0.15915494309189533577;
            sincospif((float)(2.0 * (turns - rint(turns))), &s[k], &c[k]);
        }
        for (int h = (int)blockIdx.y; h < a.heads; h += (int)gridDim.y) {
            float x[8], y[8], to_x[8], to_y[8];
            int64_t at = row * a.width + (int64_t)h * 2 * a.half, middle = at + a.half;
            load8(a.x, at + i, middle, x);
            load8(a.x, middle + i, middle + a.half, y);
            EACH8(k)
            {
                to_x[k] = x[k] * c[k] - y[k] * s[k];
                to_y[k] = x[k] * s[k] + y[k] * c[k];
            }
            store8_or_add(a.out, at + i, middle, to_x, a.accumulate);
            store8_or_add(a.out, middle + i, middle + a.half, to_y, a.accumulate);
        }
    }
}
