/* SPDX-License-Identifier: Apache-2.0 */
/* What kernels are given: one struct each, read by the host's C, nvcc and the tests' C++. */
#ifndef WEFT_CUDA_ARGS_H
#define WEFT_CUDA_ARGS_H

#include <weft/base.h>

enum {
    CUDA_THREADS = 256,       /* of a block, but for attention */
    CUDA_MOST_INS = 8,        /* operands of a sum */
    CUDA_MOST_DIMS = 6,       /* of a move */
    CUDA_MOST_PAIRS = 256,    /* angles: pairs of a head */
    CUDA_PARTS = 256,         /* sums over rows are made in this many parts, whatever the GPU */
    CUDA_SUM_BLOCKS = 512,    /* sums of all elements: the same */
    CUDA_PIECE = 64,          /* gradient of an embedding: tokens that a block adds */
    CUDA_COLUMNS = 256,       /* sums over rows: columns of a block */
    CUDA_TILE = 64,           /* attention: rows of a block, in warps of 16 */
    CUDA_MOST_EXPERTS = 1024, /* that a router chooses among */
    CUDA_MOST_CHOSEN = 128,   /* experts of a token; and groups that limit the choice */
    CUDA_ROUTE_THREADS = 128, /* of blocks that hold all experts' scores, a token's a warp */
    CUDA_MOST_NUMBERS = 32,   /* of a sum of single numbers */
    CUDA_RUN_WORDS = 3,       /* of an expert's rows in the list of a grouped product */
};

/* An operand or a result. Where `whole` is said, all of them are bf16 at multiples of 16 bytes and
 * have rows of a multiple of 8 elements. */
typedef struct cuda_view {
    void *data;
    int32_t dtype; /* weft_dtype */
} cuda_view;

/* Element-wise ops. */
typedef struct cuda_elementwise_args {
    cuda_view ins[CUDA_MOST_INS], outs[2];
    int64_t n, width; /* elements; of a row */
    int32_t n_ins;
    int32_t accumulate, exact, whole;
} cuda_elementwise_args;

/* Norms: x, w, bias or dy (of a norm that adds: what x is added to, into `sum`); `stats` is [rows
 * 2] f32, mean and 1 / deviation; `parts` as of columns.
 */
typedef struct cuda_norm_args {
    cuda_view x, w, bias, dy, out, parts, sum;
    float *stats;
    int64_t rows, width;
    float eps;
    int32_t centred, accumulate;
} cuda_norm_args;

/* Sums over rows, in CUDA_PARTS parts [parts width] f32. Without stats: of dy alone. */
typedef struct cuda_columns_args {
    cuda_view x, dy, out;
    const float *stats;
    float *parts;
    int64_t rows, width, n_parts;
    int32_t accumulate;
} cuda_columns_args;

/* Parts of heads: `width` elements of `whole`, from `first` on; `heads` of a token. */
typedef struct cuda_heads_args {
    cuda_view in, more, out;
    int64_t rows, first, width, whole, heads;
    int32_t accumulate;
} cuda_heads_args;

/* Cosines, then sines, of a row's position times each pair's frequency. */
typedef struct cuda_angles_args {
    cuda_view positions, out;
    int64_t rows;
    int32_t pairs, accumulate;
    float scale;
    double frequency[CUDA_MOST_PAIRS];
} cuda_angles_args;

/* Of each head, `width` elements, `pairs` from element `first` on turn. */
typedef struct cuda_rope_args {
    cuda_view x, turn, out;
    int64_t rows;
    int32_t width, heads, first, pairs, neighbours, accumulate;
    float sign;
} cuda_rope_args;

/* keys [tokens] in blocks that are sorted, order [tokens] all of them: row of the table << 32, and
 * token. parts: two of each piece of the order, of an id that began before it, and of one that goes
 * on behind it. */
typedef struct cuda_embedding_args {
    cuda_view ids, table, dy, out;
    int64_t *keys, *order;
    float *parts;
    int64_t tokens, width, lo, rows;
    int32_t accumulate, whole; /* dy is */
} cuda_embedding_args;

/* Cross-entropy: rows of logits. */
typedef struct cuda_loss_args {
    cuda_view logits, max, labels, dy, out;
    int64_t rows, width, lo;
    int32_t accumulate, whole;
} cuda_loss_args;

/* Sums of all elements: by f64 parts of CUDA_SUM_BLOCKS blocks. */
typedef struct cuda_sum_args {
    cuda_view x, out;
    double *parts;
    int64_t n;
    int32_t n_parts, accumulate;
} cuda_sum_args;

/* Single numbers. */
typedef struct cuda_scalar_args {
    cuda_view in, out;
    double value, min_factor;
    int64_t warmup, decay, total;
    int32_t shape, accumulate;
} cuda_scalar_args;

typedef struct cuda_adamw_args {
    cuda_view p, m, v, g, p_out, m_out, v_out, clip, lr, step;
    int64_t n;
    double beta1, beta2, eps, weight_decay;
} cuda_adamw_args;

/* Copies between boxes of words: size[0] is the outermost. Steps are in bytes. */
typedef struct cuda_move_args {
    const unsigned char *from; /* NULL: zeros */
    unsigned char *to;
    int64_t size[CUDA_MOST_DIMS], from_step[CUDA_MOST_DIMS], to_step[CUDA_MOST_DIMS];
    int64_t words;                   /* of all dims */
    uint32_t factor[CUDA_MOST_DIMS]; /* x / size = x * factor >> 32 >> shift; 0: it is not */
    int32_t shift[CUDA_MOST_DIMS];
    int32_t n_dims, word; /* bytes of a word: 16, 4, 2 or 1 */
} cuda_move_args;

/* n_from arrays become one, which goes to n_to places: see weft_reduction. */
enum { CUDA_MOST_RANKS = 64 };
typedef struct cuda_reduce_args {
    const void *from[CUDA_MOST_RANKS];
    void *to[CUDA_MOST_RANKS];
    int64_t n;
    int32_t n_from, n_to, dtype, most; /* most: the maximum, not the sum */
} cuda_reduce_args;

/* Rows of one tensor put where an index says, or taken from there. */
typedef struct cuda_rows_args {
    cuda_view in, more, index, out;
    int64_t batch, places, n, width;
    int32_t group, head_lo, kv_lo, heads, kv_heads, d; /* repeat_kv */
    int32_t accumulate;
} cuda_rows_args;

/* 8-bit floats. keep: a scale or amax is of all, of a row of `width` elements, or of one of `width`
 * columns, whose maxima are made in n_parts parts [n_parts width]. */
enum { CUDA_KEEP_NONE, CUDA_KEEP_ROWS, CUDA_KEEP_COLUMNS };
typedef struct cuda_quantise_args {
    cuda_view x, scale, out;
    float *parts;
    int64_t n, width, n_parts;
    int32_t keep, e5m2, power_of_two, margin;
    double most; /* the dtype's largest number */
} cuda_quantise_args;

/* Made and narrowed at once: rows of a norm, with `sum` also added first, or of silu_mul of x and
 * w, all bf16. scale: of all; NULL: each row's, which goes to `scales`. parts: a maximum of each
 * block; NULL: nobody asks. Of the gradients of silu_mul, dy being beside x and w, `other` is that
 * of w, by a scale of its own, and its maxima are behind those of x. */
typedef struct cuda_narrow_args {
    cuda_norm_args of;
    const float *scale, *other_scale;
    float *scales, *parts;
    uint8_t *out, *other;
    int32_t e5m2, power_of_two;
    double most; /* the dtype's largest number */
} cuda_narrow_args;

typedef struct cuda_history_args {
    cuda_view was, scale, step, maxima[48], out, scale_out;
    int64_t n, interval;
    int32_t n_maxima, recent, power_of_two, margin;
    double most;
} cuda_history_args;

/* Values in 8 bits as products want them. turn: [rows width] becomes [width pitch], zeros from
 * `rows` on. widen: to bf16, each divided by its row's scale, its column's or the only one. */
typedef struct cuda_f8_args {
    const uint8_t *in;
    void *out;
    const float *scale;
    int64_t rows, width, pitch;
    int32_t e5m2, by_row, by_column;
} cuda_f8_args;

/* 1 / scale; n numbers, all alike where there is one scale (step 0). */
typedef struct cuda_f8_inverse_args {
    const float *a, *b;
    float *a_out, *b_out;
    int64_t a_n, b_n;
    int32_t a_step, b_step;
} cuda_f8_inverse_args;

/* Attention. Ranges of tiles: [batch tiles 4] = least and largest index, least and largest
 * segment. */
typedef struct cuda_attention_args {
    cuda_view q, k, v, out, dout, dq, dk, dv;
    const int32_t *index_q, *index_k, *segments_q, *segments_k;
    float *lse, *delta;
    int32_t *ranges_q, *ranges_k;
    int32_t batch, q_rows, k_rows, heads, kv_heads, d, head_lo, kv_lo, group, causal;
    int32_t add_dq; /* dq is added to what is there */
    float scale;
} cuda_attention_args;

/* Around cuDNN's: rows [lo, lo + n) of each of the batch, from [batch n width] to [batch rows
 * width]; log-sum-exps, theirs [batch heads n], ours [batch rows heads]. */
typedef struct cuda_dnn_rows_args {
    cuda_view from, to;
    int64_t batch, rows, lo, n, width;
    int32_t add;
} cuda_dnn_rows_args;

typedef struct cuda_dnn_lse_args {
    float *lse, *theirs;
    int64_t batch, rows, heads, lo, n;
} cuda_dnn_lse_args;

/* Routers, of `tokens` tokens with n logits each; `each` tokens are summed in one. bias without
 * data: there is none. */
typedef struct cuda_route_args {
    cuda_view logits, bias, chosen, weights, dy, out;
    double *parts; /* [sums n_parts n], or of router_z [n_parts] */
    int64_t tokens, each, sums;
    int32_t n, k, score, norm, groups, keep, n_parts, accumulate;
    double eps, scale;
} cuda_route_args;

/* Choices [batch seq k], and rows [token groups owners slots width] where they have their slots; a
 * token group is per_batch samples by per_seq places. map: of each row 1 + its choice; 0: none. */
typedef struct cuda_slots_args {
    cuda_view in, by, out, refused, most;
    const int32_t *chosen, *slot;
    int32_t *slot_out, *counts, *wanted, *map;
    int64_t batch, seq, per_batch, per_seq, parts, slots, rows, width, balanced;
    int32_t k, experts, each, owners, groups, of_token, accumulate;
} cuda_slots_args;

/* Loads of experts, and single numbers. */
typedef struct cuda_load_args {
    cuda_view ins[CUDA_MOST_NUMBERS], out;
    int64_t n, rows, lo;
    int32_t n_ins, recentre, accumulate;
    double scale;
} cuda_load_args;

/* Products of each expert's rows: a [rows k] by b, of each expert [n k], or turned [k n]; of the
 * gradient of weights a [rows m], b [rows n]. counts [groups experts]. list: of each run (a token
 * group's rows of an expert) where they begin, how many they are, and the tiles of rows before it;
 * then all tiles, then of each expert group of a token group the rows in use. */
typedef struct cuda_grouped_args {
    cuda_view a, b, out;
    const int32_t *counts;
    int32_t *list;
    int64_t slots, rows, m, n, k;
    int32_t groups, experts, each, accumulate, tile, turned, whole;
} cuda_grouped_args;

#endif
