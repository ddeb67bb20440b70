/* SPDX-License-Identifier: Apache-2.0 */
/* The CPU device: what its files share. Internal to the plugin (and its tests and bench).
 *
 * The vector kernels are headers (elementwise.h, norm.h, ...) that isa_generic.c, isa_avx2.c and
 * isa_avx512.c compile once each, and isa_avx512bf16.c and isa_amx.c those of attention; every
 * launch picks the table of the running CPU. Matrix products are oneDNN's, or our own (product.c on
 * matmul.h). */
#ifndef WEFT_CPU_H
#define WEFT_CPU_H

#include "matmul.h"

#include <stdatomic.h>
#include <weft/plugin.h>

enum { CPU_MAX_QUEUES = 2 };

typedef enum cpu_products { CPU_PRODUCTS_F32, CPU_PRODUCTS_BF16 } cpu_products;

/* What oneDNN has said of products: a model has a few kinds of them, each in every block. */
typedef struct cpu_scratches {
    atomic_flag busy; /* whoever finds it set asks for itself */
    int n, next;
    struct {
        cpu_matmul_shape shape;
        int threads;
        size_t bytes;
    } kept[48];
} cpu_scratches;

/* What kernels learn about their rank: call->queue. */
struct weft_queue {
    int threads; /* how many threads the rank may use; in a launch, call->threads says so */
    cpu_products products;    /* how bf16 x bf16 is multiplied */
    bool amx;                 /* and by AMX: only where cpu_may_use_amx() */
    double grain;             /* operations that pay for one more thread; 0: CPU_GRAIN */
    cpu_scratches *scratches; /* or NULL */
};

/* Some 10 us. A thread that still spins is there at once, one that sleeps in 20 to 40 us. */
#define CPU_GRAIN 1e6

/* ---- threads (team.c) ---- */

/* OpenMP's settings of the calling thread as they were. */
typedef struct cpu_team {
    int threads, dynamic;
} cpu_team;

/* Whatever asks OpenMP for a team between the two gets exactly so many threads. */
cpu_team cpu_team_begin(int threads);
void cpu_team_end(cpu_team before);
/* Between the two: would a team have so many threads? */
bool cpu_team_is_whole(int threads);
/* So many threads, or fewer where the environment says that no team may have them. */
int cpu_team_limit(int threads);
/* Asks for a team of so many threads and counts who comes. */
weft_status cpu_team_probe(int threads, int *given, weft_error *err);

/* ---- the hardware (hardware.c) ---- */

typedef enum cpu_isa { CPU_ISA_GENERIC, CPU_ISA_AVX2, CPU_ISA_AVX512 } cpu_isa;

cpu_isa cpu_isa_get(void);
const char *cpu_isa_name(cpu_isa isa);
/* AVX512-BF16 or AMX: bf16 products are faster than f32 ones. */
bool cpu_has_bf16(void);
/* oneDNN can multiply bf16 at all (AVX-512). */
bool cpu_can_bf16(void);
bool cpu_has_amx(void);
/* Asks the system for AMX's registers, for the whole process: true where our own kernels may use
 * them. */
bool cpu_may_use_amx(void);
/* AVX512-BF16 and what the vector kernels need besides: attention multiplies bf16 by itself. */
bool cpu_has_bf16_dots(void);
/* "AMD EPYC 9B14 ..." into text; "unknown" where the CPU does not say. */
void cpu_model_name(weft_text *text);

/* ---- kernels (kernels.c) ---- */

extern const weft_kernel cpu_kernels[];
/* The sum of squares (sumsq.c). */
bool cpu_sumsq_accepts(const weft_call *call);
size_t cpu_sumsq_workspace(const weft_call *call);
weft_status cpu_sumsq_launch(const weft_call *call, weft_error *err);
/* muon's iteration (newton_schulz.c). */
bool cpu_newton_schulz_accepts(const weft_call *call);
size_t cpu_newton_schulz_workspace(const weft_call *call);
weft_status cpu_newton_schulz_prepare(const weft_call *call, void **state, weft_error *err);
void cpu_newton_schulz_release(void *state);
weft_status cpu_newton_schulz_launch(const weft_call *call, weft_error *err);

typedef weft_status cpu_launch(const weft_call *call, weft_error *err);

/* One per op with a vector kernel; see CPU_VECTOR_OPS. */
#define CPU_VECTOR_OPS(OP)                                                                         \
    OP(add)                                                                                        \
    OP(add_bias)                                                                                   \
    OP(scale)                                                                                      \
    OP(cast)                                                                                       \
    OP(accumulate)                                                                                 \
    OP(accumulate_max)                                                                             \
    OP(broadcast)                                                                                  \
    OP(silu_mul)                                                                                   \
    OP(silu_mul_dx)                                                                                \
    OP(gelu)                                                                                       \
    OP(gelu_dx)                                                                                    \
    OP(rms_norm)                                                                                   \
    OP(rms_norm_dx)                                                                                \
    OP(rms_norm_dw)                                                                                \
    OP(add_rms_norm)                                                                               \
    OP(rms_norm_dx_dw)                                                                             \
    OP(float8_rms_norm)                                                                            \
    OP(float8_rms_norm_amax)                                                                       \
    OP(float8_rms_norm_rows)                                                                       \
    OP(float8_add_rms_norm)                                                                        \
    OP(float8_add_rms_norm_amax)                                                                   \
    OP(float8_add_rms_norm_rows)                                                                   \
    OP(float8_silu_mul)                                                                            \
    OP(float8_silu_mul_amax)                                                                       \
    OP(float8_silu_mul_dx_amax)                                                                    \
    OP(float8_silu_mul_rows)                                                                       \
    OP(float8_quantise_amax)                                                                       \
    OP(float8_quantise_rows)                                                                       \
    OP(head_norm)                                                                                  \
    OP(head_norm_dx)                                                                               \
    OP(head_norm_dw)                                                                               \
    OP(layer_norm)                                                                                 \
    OP(layer_norm_dx)                                                                              \
    OP(layer_norm_dw)                                                                              \
    OP(head_part)                                                                                  \
    OP(head_place)                                                                                 \
    OP(head_join)                                                                                  \
    OP(head_sum)                                                                                   \
    OP(rope)                                                                                       \
    OP(rope_dx)                                                                                    \
    OP(embedding)                                                                                  \
    OP(embedding_dw)                                                                               \
    OP(attention_merge)                                                                            \
    OP(take)                                                                                       \
    OP(chunk)                                                                                      \
    OP(unchunk)                                                                                    \
    OP(sum)                                                                                        \
    OP(count_valid)                                                                                \
    OP(bias_dw)                                                                                    \
    OP(max_v)                                                                                      \
    OP(sumexp)                                                                                     \
    OP(sumexp_dx)                                                                                  \
    OP(pick)                                                                                       \
    OP(pick_dx)                                                                                    \
    OP(nll)                                                                                        \
    OP(nll_de)                                                                                     \
    OP(nll_dt)                                                                                     \
    OP(cache)                                                                                      \
    OP(decode)                                                                                     \
    OP(attention)                                                                                  \
    OP(attention_dx)

/* Of our own products (gemm.h): the most rows and columns of a tile, the terms that are summed at
 * a time, the columns of b that are packed together, and a thread's memory. Rows of a fill half of
 * a second cache of 512 KiB: with 144 of them, b is packed nearly twice as often. */
enum {
    CPU_GEMM_ROWS = 264,
    CPU_GEMM_COLUMNS = 256,
    CPU_GEMM_DEPTH = 256,
    CPU_GEMM_GROUP = 64,
    CPU_GEMM_FLOATS =
        CPU_GEMM_ROWS * (CPU_GEMM_DEPTH + 4 + CPU_GEMM_COLUMNS) + CPU_GEMM_GROUP * CPU_GEMM_DEPTH
};

/* m rows and n columns of c, from row i and column j on. */
typedef struct cpu_tile {
    int64_t i, j, m, n;
} cpu_tile;

/* A tile of c[m, n] = (or +=) a b. work: 64-byte aligned. */
typedef void cpu_gemm_tile(const cpu_matmul_shape *s, const void *a, const void *b, void *c,
                           cpu_tile tile, float *work);

/* What computes tiles: vectors, of f32 and of bf16 as f32 (gemm.h), or of bf16: dot products of
 * AVX512-BF16 (gemm.h, too), or AMX (gemm_amx.h). */
typedef struct cpu_gemm {
    int64_t rows, columns, group; /* the most of a tile, and how many columns belong together */
    /* Of a thread, for a tile of such a product, or of one with fewer rows. */
    int64_t (*floats)(const cpu_matmul_shape *s);
    cpu_gemm_tile *tile;
} cpu_gemm;

extern const cpu_gemm cpu_gemm_vectors; /* by the launchers of this CPU */
extern const cpu_gemm cpu_gemm_dots;    /* only where cpu_has_bf16_dots() */
extern const cpu_gemm cpu_gemm_amx;     /* only where cpu_may_use_amx() */
/* Of those by vectors: the same for all. */
int64_t cpu_gemm_floats(const cpu_matmul_shape *shape);

typedef struct cpu_launchers {
#define CPU_FIELD(op) cpu_launch *op;
    CPU_VECTOR_OPS(CPU_FIELD)
#undef CPU_FIELD
    /* Natural exponential of n numbers, for tests of its accuracy. */
    void (*exp)(const float *x, float *y, int64_t n);
    cpu_gemm_tile *gemm; /* work: CPU_GEMM_FLOATS */
} cpu_launchers;

/* Attention whose products are of bf16: only where cpu_has_bf16_dots(), or cpu_may_use_amx(). */
typedef struct cpu_attention_launchers {
    cpu_launch *forward, *backward;
} cpu_attention_launchers;

extern const cpu_attention_launchers cpu_attention_bf16, cpu_attention_amx;
extern const cpu_launchers cpu_launchers_generic, cpu_launchers_avx2, cpu_launchers_avx512;
/* The table for this CPU, or for `isa` if the CPU has it (tests). */
const cpu_launchers *cpu_launchers_get(cpu_isa isa);

/* Threads that a launch of this call may use. */
int cpu_threads(const weft_call *call);
/* Threads that so many floating-point operations pay for. */
int cpu_threads_for(const weft_call *call, double operations);
/* Of kernels that sum over rows. */
size_t cpu_rows_workspace(const weft_call *call);
/* A launch that finds less workspace than it needs must not begin. */
weft_status cpu_check_workspace(const weft_call *call, size_t needed, weft_error *err);

/* Rows of a reduction over rows are summed in this many fixed parts, whatever the thread count. */
enum { CPU_PARTS = 32 };

enum { CPU_MAX_ROPE = 512 }; /* rope: elements of a head */

/* ---- attention's sizes (attention_size.c): workspace and tiles follow from shapes and threads
 * alone ---- */

enum {
    CPU_TILE = 64, /* queries and keys of a tile */
    CPU_PAD = 16,  /* rows of tiles are multiples of it */
    CPU_STACK = 4, /* heads that share the keys of a tile */
};

typedef struct cpu_attention {
    int64_t batch, q_rows, k_rows, heads, kv_heads, head_dim;
    int64_t padded;                /* head_dim, rounded up to CPU_PAD */
    int64_t head_lo, kv_lo, group; /* global number of the first local head; q heads per k head */
    double scale;
    bool causal;
    bool hides; /* it has places and documents; else every place sees every other */
    bool bf16;  /* products are of bf16: q, k, v and dout are, and the rank multiplies them so */
    bool amx;   /* and by AMX */
    int threads;
    bool one_pass;  /* backward: dq, dk and dv in one walk over the tiles */
    int64_t floats; /* workspace of one thread */
} cpu_attention;

/* False if the call is not one that the tiled kernels take. */
bool cpu_attention_read(const weft_call *call, bool backward, cpu_attention *a);
size_t cpu_attention_workspace(const weft_call *call);
/* For few queries against many keys: the forward alone. */
bool cpu_decode_accepts(const weft_call *call);
size_t cpu_decode_workspace(const weft_call *call);
weft_status cpu_decode_prepare(const weft_call *call, void **state, weft_error *err);
size_t cpu_attention_dx_workspace(const weft_call *call);
weft_status cpu_attention_prepare(const weft_call *call, void **state, weft_error *err);
weft_status cpu_attention_dx_prepare(const weft_call *call, void **state, weft_error *err);
/* Is the call, its threads and its workspace what the state was prepared for? */
weft_status cpu_attention_check(const weft_call *call, bool backward, size_t workspace,
                                weft_error *err);
void cpu_attention_release(void *state);

/* ---- matrix products (product.c) ---- */

/* Are extents and strides what oneDNN counts in? */
bool cpu_product_fits(const cpu_matmul_shape *shape);
/* What multiplies its tiles, by tiles.h; NULL: oneDNN does it, by sliced.h. */
const cpu_gemm *cpu_product_gemm(const weft_call *call, const cpu_matmul_shape *shape);
/* What of ours multiplies bf16 best; NULL: nothing does as it is. */
const cpu_gemm *cpu_product_gemm_own(const weft_call *call);
bool cpu_product_accepts(const weft_call *call);
size_t cpu_product_workspace(const weft_call *call);
weft_status cpu_product_prepare(const weft_call *call, void **state, weft_error *err);
void cpu_product_release(void *state);
weft_status cpu_product_launch(const weft_call *call, weft_error *err);

/* ---- a product for each index of a dim (product_each.c) ---- */

bool cpu_each_accepts(const weft_call *call);
size_t cpu_each_workspace(const weft_call *call);
weft_status cpu_each_prepare(const weft_call *call, void **state, weft_error *err);
void cpu_each_release(void *state);
weft_status cpu_each_launch(const weft_call *call, weft_error *err);

/* ---- products of each expert's rows (product_grouped.c) ---- */

bool cpu_grouped_accepts(const weft_call *call);
size_t cpu_grouped_workspace(const weft_call *call);
weft_status cpu_grouped_launch(const weft_call *call, weft_error *err);

/* ---- peak (peak.c) ---- */

typedef struct cpu_sample {
    double rate; /* flop/s; 0: it cannot be measured */
    bool clean;  /* nothing disturbed it, and it is of a large product: worth keeping */
} cpu_sample;

typedef cpu_sample cpu_measure(weft_dtype dtype, int threads, double seconds);

/* Rate of a square matrix product in flop/s, measured in at most 100 ms: the best of now and of
 * what is cached in a text file under the host's cache_dir (NULL: nothing is), and at least
 * `reached`, what the run itself has made. */
double cpu_peak(weft_dtype dtype, const weft_queue *queue, const weft_host *host, double reached);
/* The same with another way to measure, for tests. */
double cpu_peak_by(cpu_measure *by, weft_dtype dtype, const weft_queue *queue,
                   const weft_host *host, double reached);
/* Where the number is kept; fresh text (weft_free) or NULL. */
char *cpu_peak_path(weft_dtype dtype, const weft_queue *queue, const char *cache_dir);

#endif
