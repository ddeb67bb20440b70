/* SPDX-License-Identifier: Apache-2.0 */
/* Rotary positions (Su et al., "RoFormer", 2021): pairs of a head's elements turn together by their
 * position times a frequency of their own. An op `angles` makes the cosines and sines of all
 * positions, once for all blocks, and `rope` turns queries and keys by them. Here is the law of the
 * frequencies, for models, which choose it, and for kernels of `angles`. */
#ifndef WEFT_ROPE_H
#define WEFT_ROPE_H

#include <math.h>
#include <string.h>
#include <weft/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Pair i turns by theta^(-i/pairs) a position. Laws for contexts beyond the `original` one slow by
 * `factor` what turns less than `low` times in it, keep what turns more than `high` times, and
 * blend between: "llama3" by turns, "yarn" (Peng et al., 2023) by the number of the pair. */
typedef struct weft_rope {
    int64_t pairs;
    double theta;
    const char *law; /* NULL, "llama3", "yarn" */
    double factor, low, high, original;
    double scale; /* what cosines and sines are multiplied by; 0: 1 */
} weft_rope;

/* The number of the pair that turns so often in the original context, a fraction in between. */
static inline double weft_rope_pair(const weft_rope *r, double turns)
{
    const double positions = r->original / (turns * 6.283185307179586);
    return (double)r->pairs * log(positions) / log(r->theta);
}

/* How much of pair i is kept: 1 all, 0 slowed. f: its frequency. */
static inline double weft_rope_kept(const weft_rope *r, int64_t i, double f)
{
    if (strcmp(r->law, "llama3") == 0)
        return (r->original * f / 6.283185307179586 - r->low) / (r->high - r->low);
    const double first = fmax(floor(weft_rope_pair(r, r->high)), 0),
                 last = fmin(ceil(weft_rope_pair(r, r->low)), (double)(2 * r->pairs - 1));
    return 1 - ((double)i - first) / (last > first ? last - first : 1e-3);
}

/* By how much pair i turns from one position to the next. */
static inline double weft_rope_frequency(const weft_rope *r, int64_t i)
{
    const double f = pow(r->theta, -(double)i / (double)r->pairs);
    if (!r->law || !*r->law)
        return f;
    const double kept = fmin(fmax(weft_rope_kept(r, i, f), 0), 1);
    return f * (kept + (1 - kept) / r->factor);
}

/* By how much YaRN makes scores of attention more or less sharp: cosines and sines are multiplied
 * by a ratio of two such numbers, or scores by the square of one. */
static inline double weft_yarn_scale(double factor, double by)
{
    return factor > 1 ? 0.1 * by * log(factor) + 1 : 1;
}

/* The angles of some positions, whole numbers, for weft_rope_turn. Of places with several axes, as
 * rows and columns of a picture, each axis has angles of its own, and turns a part of each head. */
#define WEFT_ROPE_ATTRS "pairs, theta, law, factor, low, high, original, scale"
static inline weft_value *weft_rope_angles_of(weft_graph *g, const char *name, const weft_rope *r,
                                              weft_value *positions)
{
    const weft_attr attrs[] = {
        {.key = "pairs", .kind = WEFT_ATTR_INT, .i = r->pairs},
        {.key = "theta", .kind = WEFT_ATTR_REAL, .r = r->theta},
        {.key = "scale", .kind = WEFT_ATTR_REAL, .r = r->scale != 0 ? r->scale : 1},
        {.key = "law", .kind = WEFT_ATTR_TEXT, .text = r->law},
        {.key = "factor", .kind = WEFT_ATTR_REAL, .r = r->factor},
        {.key = "low", .kind = WEFT_ATTR_REAL, .r = r->low},
        {.key = "high", .kind = WEFT_ATTR_REAL, .r = r->high},
        {.key = "original", .kind = WEFT_ATTR_REAL, .r = r->original}};
    weft_value *turn = NULL;
    weft_add_full(g, "angles", name, 1, &positions, 1, &turn, attrs, r->law ? 8 : 3);
    return turn;
}

/* Those of the positions in a text, which belong to no block. */
static inline weft_value *weft_rope_angles(weft_graph *g, const weft_rope *r)
{
    return weft_rope_angles_of(g, "turn", r, weft_add_input(g, "positions"));
}

/* What a call of `angles` is told. */
static inline weft_rope weft_rope_of(const weft_call *call)
{
    return (weft_rope){.pairs = weft_call_int(call, "pairs"),
                       .theta = weft_call_real(call, "theta"),
                       .law = weft_call_text(call, "law"),
                       .factor = weft_call_real(call, "factor"),
                       .low = weft_call_real(call, "low"),
                       .high = weft_call_real(call, "high"),
                       .original = weft_call_real(call, "original"),
                       .scale = weft_call_real(call, "scale")};
}

/* x [.. heads] with as many pairs of each head turned as there are angles, from element `first` of
 * the head on; the others stay. Pairs are i and i + pairs, or with `neighbours` 2 i and 2 i + 1. */
static inline weft_value *weft_rope_turn(weft_graph *g, const char *name, weft_value *x,
                                         weft_value *turn, int64_t first, bool neighbours)
{
    const weft_attr attrs[] = {{.key = "first", .kind = WEFT_ATTR_INT, .i = first},
                               {.key = "neighbours", .kind = WEFT_ATTR_INT, .i = neighbours}};
    weft_value *ins[] = {x, turn}, *y = NULL;
    weft_add_full(g, "rope", name, 2, ins, 1, &y, attrs, first || neighbours ? 2 : 0);
    return y;
}

#ifdef __cplusplus
}
#endif
#endif
