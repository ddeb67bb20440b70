/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary positions: the angles of every position, and heads turned by them. */
#include "kernel.h"

/* A thread makes 8 neighbouring pairs of a row. Angles are made in f64: positions go to 10^6, and
 * f32 has 7 digits. */
WEFT_KERNEL(angles, cuda_angles_args, CUDA_THREADS)
{
    int64_t chunks = (a.pairs + 7) / 8, all = a.rows * chunks;
    for (int64_t t = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; t < all;
         t += (int64_t)gridDim.x * blockDim.x) {
        int64_t row = t / chunks, i = 8 * (t % chunks), at = row * 2 * a.pairs;
        float c[8], s[8];
        double position = (double)get_int(a.positions, row);
        EACH8(k)
        {
            double angle = i + k < a.pairs ? position * a.frequency[i + k] : 0.0;
            double turns = angle * 0.15915494309189533577;
            sincospif((float)(2.0 * (turns - rint(turns))), &s[k], &c[k]);
            c[k] *= a.scale;
            s[k] *= a.scale;
        }
        store8_or_add(a.out, at + i, at + a.pairs, c, a.accumulate);
        at += a.pairs;
        store8_or_add(a.out, at + i, at + a.pairs, s, a.accumulate);
    }
}

/* What does not turn: elements [from, to) of a head, in chunks of 8 that `of` threads share. */
template <bool WHOLE>
static __device__ inline void keep(const cuda_rope_args &a, int64_t from, int64_t to, int64_t i,
                                   int64_t of)
{
    for (int64_t e = from + 8 * i; e < to; e += 8 * of) {
        float x[8];
        const eight<WHOLE> was = fetch8_if<WHOLE>(a.accumulate, a.out, e, to);
        widen8(fetch8<WHOLE>(a.x, e, to), x);
        store8_sum<WHOLE>(a.out, e, to, x, a.accumulate, was);
    }
}

/* Pairs x, y of 8. */
static __device__ inline void turn8(float x[8], float y[8], const float c[8], const float s[8])
{
    EACH8(k)
    {
        float to_x = x[k] * c[k] - y[k] * s[k];
        y[k] = x[k] * s[k] + y[k] * c[k];
        x[k] = to_x;
    }
}

/* A thread turns 8 neighbouring pairs of every head of a row, whose angles all heads share. WHOLE:
 * pairs of halves that begin at multiples of 8, too. */
template <bool WHOLE> static __device__ inline void rope_of(const cuda_rope_args &a)
{
    int64_t chunks = (a.pairs + 7) / 8, all = a.rows * chunks;
    for (int64_t t = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; t < all;
         t += (int64_t)gridDim.x * blockDim.x) {
        int64_t row = t / chunks, i = 8 * (t % chunks), turn = row * 2 * a.pairs + i;
        float c[8], s[8];
        if (WHOLE) {
            load8_words(a.turn, turn, c);
            load8_words(a.turn, turn + a.pairs, s);
        } else {
            load8(a.turn, turn, turn - i + a.pairs, c);
            load8(a.turn, turn + a.pairs, turn - i + 2 * a.pairs, s);
        }
        EACH8(k) s[k] *= a.sign;
        for (int h = (int)blockIdx.y; h < a.heads; h += (int)gridDim.y) {
            float x[8], y[8];
            int64_t at = (row * a.heads + h) * (int64_t)a.width, first = at + a.first,
                    middle = first + a.pairs, end = middle + a.pairs;
            keep<WHOLE>(a, at, first, t % chunks, chunks);
            keep<WHOLE>(a, end, at + a.width, t % chunks, chunks);
            if (WHOLE || !a.neighbours) {
                const eight<WHOLE> raw_x = fetch8<WHOLE>(a.x, first + i, middle),
                                   raw_y = fetch8<WHOLE>(a.x, middle + i, end),
                                   was_x = fetch8_if<WHOLE>(a.accumulate, a.out, first + i, middle),
                                   was_y = fetch8_if<WHOLE>(a.accumulate, a.out, middle + i, end);
                widen8(raw_x, x);
                widen8(raw_y, y);
                turn8(x, y, c, s);
                store8_sum<WHOLE>(a.out, first + i, middle, x, a.accumulate, was_x);
                store8_sum<WHOLE>(a.out, middle + i, end, y, a.accumulate, was_y);
                continue;
            }
            float low[8], high[8];
            load8(a.x, first + 2 * i, end, low);
            load8(a.x, first + 2 * i + 8, end, high);
            EACH8(k)
            {
                x[k] = k < 4 ? low[2 * (k & 3)] : high[2 * (k & 3)];
                y[k] = k < 4 ? low[2 * (k & 3) + 1] : high[2 * (k & 3) + 1];
            }
            turn8(x, y, c, s);
            EACH8(k)
            {
                low[k] = k & 1 ? y[k / 2] : x[k / 2];
                high[k] = k & 1 ? y[4 + k / 2] : x[4 + k / 2];
            }
            store8_or_add(a.out, first + 2 * i, end, low, a.accumulate);
            store8_or_add(a.out, first + 2 * i + 8, end, high, a.accumulate);
        }
    }
}

WEFT_KERNEL(rope, cuda_rope_args, CUDA_THREADS)
{
    rope_of<false>(a);
}

WEFT_KERNEL(rope_whole, cuda_rope_args, CUDA_THREADS)
{
    rope_of<true>(a);
}
