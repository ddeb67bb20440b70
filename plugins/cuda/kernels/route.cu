/* SPDX-License-Identifier: Apache-2.0 */
/* Which experts a token goes to, with which weights, and what balances them: a warp for each token,
 * in f64 as on a CPU, so that both choose alike. Lane l has experts l, l + 32 and so on. */
#include "kernel.h"

enum {
    WARPS_HERE = CUDA_ROUTE_THREADS / 32,
    MOST_WARPS = CUDA_THREADS / 32,
    SOFTMAX = 0,
    SIGMOID = 1,
    SOFTMAX_CHOSEN = 2
};

/* A walk of the grid's warps over [from, to). */
#define FOR_TOKENS(i, from, to, blocks)                                                            \
    for (int64_t i = (from) + (((int64_t)blockIdx.x * blockDim.x + threadIdx.x) >> 5); i < (to);   \
         i += (int64_t)(blocks) * (blockDim.x >> 5))
#define FOR_EXPERTS(x) for (int x = (int)threadIdx.x & 31; x < a.n; x += 32)

/* Of a token: where its logits begin, the largest, and the sum of exp beside it. */
typedef struct token_scores {
    int64_t at;
    double most, sum;
} token_scores;

static __device__ inline double logit(const cuda_route_args &a, const token_scores &t, int x)
{
    return get_wide(a.logits, t.at + x);
}

struct fmax_of {
    static __device__ inline double of(double x, double y)
    {
        return fmax(x, y);
    }
};

static __device__ inline token_scores scores_of(const cuda_route_args &a, int64_t token)
{
    token_scores t = {token * a.n, -INFINITY, 0.0};
    FOR_EXPERTS(x)
    t.most = fmax(t.most, logit(a, t, x));
    t.most = warp_reduce<fmax_of>(t.most);
    FOR_EXPERTS(x)
    t.sum += exp(logit(a, t, x) - t.most);
    t.sum = warp_reduce<add_of>(t.sum);
    return t;
}

static __device__ inline double softmax(const cuda_route_args &a, const token_scores &t, int x)
{
    return exp(logit(a, t, x) - t.most) / t.sum;
}

/* What an expert is chosen by, before the bias, and, but for SOFTMAX_CHOSEN, weighed by. */
static __device__ inline double score(const cuda_route_args &a, const token_scores &t, int x)
{
    if (a.score == SIGMOID)
        return 1.0 / (1.0 + exp(-logit(a, t, x)));
    return a.score == SOFTMAX ? softmax(a, t, x) : logit(a, t, x);
}

/* ---- choosing ---- */

/* A score that is not a number is the last to be chosen. */
static __device__ inline double choice(double s)
{
    return s != s ? -INFINITY : s;
}

static __device__ inline double best_two(const double *c, int from, int to)
{
    double one = -INFINITY, two = -INFINITY;
    for (int x = from; x < to; x++)
        if (c[x] > one) {
            two = one;
            one = c[x];
        } else if (c[x] > two) {
            two = c[x];
        }
    return one + two;
}

/* Experts of groups that are not among the best cannot be chosen. A lane for each group. */
static __device__ inline void limit_groups(const cuda_route_args &a, double *c, double *sums)
{
    const int width = a.n / a.groups, lane = (int)threadIdx.x & 31;
    __syncwarp();
    for (int i = lane; i < a.groups; i += 32)
        sums[i] = best_two(c, i * width, (i + 1) * width);
    __syncwarp();
    for (int i = lane; i < a.groups; i += 32) {
        int better = 0;
        for (int j = 0; j < a.groups; j++)
            better += sums[j] > sums[i] || (sums[j] == sums[i] && j < i);
        for (int x = i * width; better >= a.keep && x < (i + 1) * width; x++)
            c[x] = -INFINITY;
    }
    __syncwarp();
}

/* The largest that is not taken yet, of equals the first; taken ones are NaN. */
static __device__ inline int take_largest(const cuda_route_args &a, double *c)
{
    double value = -INFINITY;
    int best = INT32_MAX;
    FOR_EXPERTS(x)
    if (c[x] == c[x] && (best == INT32_MAX || c[x] > value)) {
        value = c[x];
        best = x;
    }
    for (int step = 16; step > 0; step >>= 1) {
        const double theirs = __shfl_xor_sync(0xffffffffu, value, step);
        const int other = __shfl_xor_sync(0xffffffffu, best, step);
        if (other != INT32_MAX &&
            (best == INT32_MAX || theirs > value || (theirs == value && other < best))) {
            value = theirs;
            best = other;
        }
    }
    if ((best & 31) == ((int)threadIdx.x & 31))
        c[best] = NAN;
    return best;
}

/* Scores of those that are chosen among: into c, this warp's. */
static __device__ inline void choices_of(const cuda_route_args &a, const token_scores &t, double *c)
{
    FOR_EXPERTS(x)
    c[x] = choice(score(a, t, x) + (a.bias.data ? get_wide(a.bias, x) : 0.0));
}

static __device__ inline double divisor(const cuda_route_args &a, const double *s)
{
    double sum = a.eps;
    if (!a.norm)
        return 1.0;
    for (int j = 0; j < a.k; j++)
        sum += s[j];
    return sum;
}

/* SOFTMAX_CHOSEN: a softmax over the chosen logits, which all lanes have put there. */
static __device__ inline void soften(const cuda_route_args &a, double *s)
{
    double most = -INFINITY, sum = 0.0;
    __syncwarp();
    for (int j = 0; j < a.k; j++)
        most = fmax(most, s[j]);
    for (int j = 0; j < a.k; j++)
        sum += exp(s[j] - most);
    __syncwarp();
    for (int j = (int)threadIdx.x & 31; j < a.k; j += 32)
        s[j] = exp(s[j] - most) / sum;
}

WEFT_KERNEL(route, cuda_route_args, CUDA_ROUTE_THREADS)
{
    __shared__ double choices[WARPS_HERE][CUDA_MOST_EXPERTS], few[WARPS_HERE][CUDA_MOST_CHOSEN];
    double *c = choices[threadIdx.x >> 5], *s = few[threadIdx.x >> 5];
    const int lane = (int)threadIdx.x & 31;
    FOR_TOKENS(i, 0, a.tokens, gridDim.x)
    {
        const token_scores t = scores_of(a, i);
        __syncwarp(); /* an earlier token's may still be read */
        choices_of(a, t, c);
        if (a.groups > 1)
            limit_groups(a, c, s);
        for (int j = 0; j < a.k; j++) {
            const int x = take_largest(a, c);
            if (lane == 0) {
                ((int32_t *)a.chosen.data)[i * a.k + j] = x;
                s[j] = score(a, t, x);
            }
        }
        if (a.score == SOFTMAX_CHOSEN)
            soften(a, s);
        __syncwarp();
        const double by = divisor(a, s);
        for (int j = lane; j < a.k; j += 32)
            put_wide(a.weights, i * a.k + j, s[j] / by * a.scale);
    }
}

/* ---- the gradient of the logits ---- */

/* Adds to what is there, if that is asked. */
static __device__ inline void put_sum(const cuda_route_args &a, int64_t at, double x)
{
    put_wide(a.out, at, x + (a.accumulate ? get_wide(a.out, at) : 0.0));
}

/* From choice j's score and its gradient to that of its logit, beside the softmax's own. */
static __device__ inline double through_score(const cuda_route_args &a, double s, double ds,
                                              double dot)
{
    if (a.score == SOFTMAX_CHOSEN)
        return s * (ds - dot);
    return a.score == SIGMOID ? ds * s * (1.0 - s) : ds * s;
}

WEFT_KERNEL(route_dx, cuda_route_args, CUDA_THREADS)
{
    __shared__ double few[MOST_WARPS][CUDA_MOST_CHOSEN];
    double *s = few[threadIdx.x >> 5];
    FOR_TOKENS(i, 0, a.tokens, gridDim.x)
    {
        const token_scores t = scores_of(a, i);
        double dot = 0.0, all = 0.0;
        __syncwarp(); /* an earlier token's may still be read */
        for (int j = (int)threadIdx.x & 31; j < a.k; j += 32)
            s[j] = score(a, t, get_int(a.chosen, i * a.k + j));
        if (a.score == SOFTMAX_CHOSEN)
            soften(a, s);
        __syncwarp();
        const double by = divisor(a, s);
        for (int j = 0; j < a.k; j++)
            dot += get_wide(a.dy, i * a.k + j) * (s[j] / by);
        dot = a.norm ? dot : 0.0;
        for (int j = 0; j < a.k; j++)
            all += a.scale * (get_wide(a.dy, i * a.k + j) - dot) / by * s[j];
        FOR_EXPERTS(x)
        {
            double d = a.score == SOFTMAX ? -softmax(a, t, x) * all : 0.0;
            for (int j = 0; j < a.k; j++)
                if (get_int(a.chosen, i * a.k + j) == x)
                    d += through_score(a, s[j], a.scale * (get_wide(a.dy, i * a.k + j) - dot) / by,
                                       all);
            put_sum(a, i * a.n + x, d);
        }
    }
}

/* ---- what balances: sums over the tokens [each] of a sum, in n_parts parts ---- */

/* The part of an expert in the scores of a token; of logits that are chosen by, in their softmax.
 */
static __device__ inline double sum_of_scores(const cuda_route_args &a, const token_scores &t)
{
    double sum = 0.0;
    if (a.score != SIGMOID)
        return 1.0;
    FOR_EXPERTS(x)
    sum += score(a, t, x);
    return warp_reduce<add_of>(sum);
}

static __device__ inline double part_of(const cuda_route_args &a, const token_scores &t, int x,
                                        double whole)
{
    return a.score == SIGMOID ? score(a, t, x) / whole : softmax(a, t, x);
}

/* Tokens of part p of a sum. */
#define FOR_PART(i, sum) FOR_TOKENS(i, (sum)*a.each, ((sum) + 1) * a.each, a.n_parts)

/* What the block's warps have summed becomes a part. */
template <typename T>
static __device__ inline void put_part(const cuda_route_args &a, int64_t sum,
                                       T (&sums)[WARPS_HERE][CUDA_MOST_EXPERTS])
{
    __syncthreads();
    for (int x = (int)threadIdx.x; x < a.n; x += (int)blockDim.x) {
        double all = 0.0;
        for (int w = 0; w < WARPS_HERE; w++)
            all += (double)sums[w][x];
        a.parts[(sum * a.n_parts + blockIdx.x) * a.n + x] = all;
    }
    __syncthreads();
}

WEFT_KERNEL(router_mean, cuda_route_args, CUDA_ROUTE_THREADS)
{
    __shared__ double sums[WARPS_HERE][CUDA_MOST_EXPERTS];
    double *mine = sums[threadIdx.x >> 5];
    for (int64_t sum = blockIdx.y; sum < a.sums; sum += gridDim.y) {
        FOR_EXPERTS(x)
        mine[x] = 0.0;
        FOR_PART(i, sum)
        {
            const token_scores t = scores_of(a, i);
            const double whole = sum_of_scores(a, t);
            FOR_EXPERTS(x)
            mine[x] += part_of(a, t, x, whole);
        }
        put_part(a, sum, sums);
    }
}

WEFT_KERNEL(router_share, cuda_route_args, CUDA_ROUTE_THREADS)
{
    __shared__ double choices[WARPS_HERE][CUDA_MOST_EXPERTS];
    __shared__ int32_t sums[WARPS_HERE][CUDA_MOST_EXPERTS];
    double *c = choices[threadIdx.x >> 5];
    int32_t *mine = sums[threadIdx.x >> 5];
    for (int64_t sum = blockIdx.y; sum < a.sums; sum += gridDim.y) {
        FOR_EXPERTS(x)
        mine[x] = 0;
        FOR_PART(i, sum)
        {
            choices_of(a, scores_of(a, i), c);
            for (int j = 0; j < a.k; j++) {
                const int x = take_largest(a, c);
                if ((x & 31) == ((int)threadIdx.x & 31))
                    mine[x]++;
            }
        }
        put_part(a, sum, sums);
    }
}

/* The parts of each sum. */
WEFT_KERNEL(router_sums, cuda_route_args, CUDA_THREADS)
{
    for (int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x; i < a.sums * a.n;
         i += (int64_t)gridDim.x * blockDim.x) {
        const int64_t sum = i / a.n, x = i - sum * a.n;
        double all = 0.0;
        for (int p = 0; p < a.n_parts; p++)
            all += a.parts[(sum * a.n_parts + p) * a.n + x];
        put_sum(a, i, all);
    }
}

WEFT_KERNEL(router_mean_dx, cuda_route_args, CUDA_THREADS)
{
    FOR_TOKENS(i, 0, a.tokens, gridDim.x)
    {
        const token_scores t = scores_of(a, i);
        const int64_t at = i / a.each * a.n;
        const double whole = sum_of_scores(a, t);
        double dot = 0.0;
        FOR_EXPERTS(x)
        dot += part_of(a, t, x, whole) * get_wide(a.dy, at + x);
        dot = warp_reduce<add_of>(dot);
        FOR_EXPERTS(x)
        {
            const double d = part_of(a, t, x, whole) * (get_wide(a.dy, at + x) - dot);
            put_sum(a, i * a.n + x, a.score == SIGMOID ? d * (1.0 - score(a, t, x)) : d);
        }
    }
}

/* ---- the sum of (log sum exp logits)^2: a part for each block ---- */

WEFT_KERNEL(router_z, cuda_route_args, CUDA_THREADS)
{
    double sum = 0.0;
    FOR_TOKENS(i, 0, a.tokens, gridDim.x)
    {
        const token_scores t = scores_of(a, i);
        const double z = t.most + log(t.sum);
        sum += z * z;
    }
    sum = block_sum((threadIdx.x & 31) == 0 ? sum : 0.0);
    if (threadIdx.x == 0)
        a.parts[blockIdx.x] = sum;
}

WEFT_KERNEL(router_z_dx, cuda_route_args, CUDA_THREADS)
{
    FOR_TOKENS(i, 0, a.tokens, gridDim.x)
    {
        const token_scores t = scores_of(a, i);
        const double z = t.most + log(t.sum), dy = get_wide(a.dy, 0);
        FOR_EXPERTS(x)
        put_sum(a, i * a.n + x, 2.0 * z * exp(logit(a, t, x) - z) * dy);
    }
}
