/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of cuBLASLt in a table, as the driver's are; products of matrices by them. */
#ifndef WEFT_CUDA_BLAS_H
#define WEFT_CUDA_BLAS_H

#include <cublasLt.h>

#include "gpu.h"

#define CUDA_BLAS_FUNCTIONS(X)                                                                     \
    X(cublasLtCreate)                                                                              \
    X(cublasLtDestroy)                                                                             \
    X(cublasLtGetStatusString)                                                                     \
    X(cublasLtGetVersion)                                                                          \
    X(cublasLtMatmul)                                                                              \
    X(cublasLtMatmulAlgoCheck)                                                                     \
    X(cublasLtMatmulAlgoGetHeuristic)                                                              \
    X(cublasLtMatmulDescCreate)                                                                    \
    X(cublasLtMatmulDescDestroy)                                                                   \
    X(cublasLtMatmulDescSetAttribute)                                                              \
    X(cublasLtMatmulPreferenceCreate)                                                              \
    X(cublasLtMatmulPreferenceDestroy)                                                             \
    X(cublasLtMatmulPreferenceSetAttribute)                                                        \
    X(cublasLtMatrixLayoutCreate)                                                                  \
    X(cublasLtMatrixLayoutDestroy)                                                                 \
    X(cublasLtMatrixLayoutSetAttribute)

typedef struct cuda_blas {
#define CUDA_FIELD(function) __typeof__(function) *function;
    CUDA_BLAS_FUNCTIONS(CUDA_FIELD)
#undef CUDA_FIELD
} cuda_blas;

/* Fills the table from a library (a name or a path). What is missing is an input error. */
weft_status cuda_blas_open(cuda_blas *blas, const char *library, weft_error *err);

/* What a result is multiplied by: nothing, one number of either operand, one of every row of c by
 * a's and one of every column by b's. Only operands in 8 bits have any. */
typedef enum cuda_scaling { CUDA_UNSCALED, CUDA_SCALED, CUDA_SCALED_ROWS } cuda_scaling;

/* Of several products. APART: rows of tokens, which a has and, if a is turned, b, else c, take
 * turns: one of each product, then the next of each. PAIR: two, anywhere; they share a or, if a is
 * turned, b, and begin at multiples of CUDA_PRODUCT_ALIGNMENT. */
typedef enum cuda_apart { CUDA_BEHIND, CUDA_APART, CUDA_PAIR } cuda_apart;

/* A product of row-major matrices: c[m n] = (or +=) a b, a [m k] or, turned, [k m]; b [k n] or
 * [n k]. each: so many such products, one behind the other; 0: one. apart: how else they lie.
 * alignment: operands begin at multiples of so many bytes; 0: CUDA_PRODUCT_ALIGNMENT. All that an
 * algorithm is chosen by: made by cuda_product_of or zeroed first, for it is compared as bytes. */
typedef struct cuda_product {
    int64_t m, n, k;
    int32_t turn_a, turn_b, accumulate;
    int32_t a, b, c; /* weft_dtype */
    int32_t scaling; /* cuda_scaling */
    int32_t apart;   /* cuda_apart */
    int32_t alignment;
    int32_t fast; /* sums of products in 8 bits need not be all in f32 */
    int64_t each;
} cuda_product;

/* Forward, gradients of activations, of weights. */
typedef enum cuda_kind { CUDA_FORWARD, CUDA_DX, CUDA_DW, CUDA_KINDS } cuda_kind;

/* Of tensors, unscaled. */
cuda_product cuda_product_make(const weft_tensor *a, const weft_tensor *b, const weft_tensor *c,
                               cuda_kind kind, bool accumulate);
/* What linear, linear_dx, linear_dw and float8's of that kind are; unscaled. */
cuda_product cuda_product_of(const weft_call *call);
/* Are dtypes and extents what cuBLASLt takes? Of those that are not in 8 bits. */
bool cuda_product_is_known(const cuda_product *p);
/* Are the extents what cuBLASLt counts in? */
bool cuda_product_fits(const cuda_product *p);
/* There is no term, or no result. */
static inline bool cuda_product_is_empty(const cuda_product *p)
{
    return p->m == 0 || p->n == 0 || p->k == 0;
}
static inline int64_t cuda_product_count(const cuda_product *p)
{
    return p->each ? p->each : 1;
}
/* "[m k] x [k n] of bf16 to f32" */
void cuda_product_print(const cuda_product *p, weft_text *text);

/* A product that the library knows, and the algorithm for it. */
typedef struct cuda_matmul {
    cuda_products *products;
    cuda_product product;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t left, right, result; /* of the turned product */
    cublasLtMatmulAlgo_t algorithm;
    struct cuda_matmul *next; /* of products->all */
} cuda_matmul;

struct cuda_products {
    cuda_blas blas;
    cublasLtHandle_t handle;
    const weft_log *log;  /* NULL: nobody is told */
    bool fast;            /* sums of forward products in 8 bits need not be all in f32 */
    int narrow;           /* products in 8 bits that are prepared; */
    int wide[CUDA_KINDS]; /* and those that are widened though they need not be */
    cuda_matmul *all;
};

/* All of these addresses are multiples of this: algorithms are chosen by it. */
enum { CUDA_PRODUCT_ALIGNMENT = 256, CUDA_MOST_ALGORITHMS = 8 };

typedef struct cuda_operands {
    const void *a, *b;
    void *c, *workspace;            /* of CUDA_PRODUCT_WORKSPACE bytes */
    const float *a_scale, *b_scale; /* what to multiply by, not what values were multiplied by */
    bool add;                       /* to what is there, whatever the product says */
    int64_t next_a, next_b, next_c; /* of a pair: bytes from the first to the other, not below 0 */
} cuda_operands;

/* With the algorithm that heuristics put first. *out NULL: there is none. */
weft_status cuda_matmul_create(cuda_products *products, const cuda_product *product,
                               cuda_matmul **out, weft_error *err);
void cuda_matmul_destroy(cuda_matmul *m);
/* Up to `most` algorithms, no more than CUDA_MOST_ALGORITHMS, the best first, as heuristics see it.
 */
weft_status cuda_matmul_find(const cuda_matmul *m, cublasLtMatmulAlgo_t *algorithms, int most,
                             int *n, weft_error *err);
/* Can the algorithm, wherever it comes from, do this product in the workspace? */
bool cuda_matmul_takes(const cuda_matmul *m, const cublasLtMatmulAlgo_t *algorithm);
weft_status cuda_matmul_launch(const cuda_matmul *m, const weft_queue *queue,
                               const cuda_operands *o, weft_error *err);

/* ---- product.c, for float8.c ---- */

/* Operands and workspace of a product in memory beside the run's, one after the other from there
 * on; how many bytes that takes. */
size_t cuda_product_lay_out(const cuda_product *p, CUdeviceptr at, cuda_operands *out);
size_t cuda_product_scratch(const cuda_product *p);
/* A result without terms is zeros, or what it was. */
weft_status cuda_product_clear(const weft_call *call, weft_error *err);
/* The library of a call that is prepared. */
weft_status cuda_product_open(const weft_call *call, cuda_products **products, weft_error *err);
/* The error that there is no algorithm. */
weft_status cuda_product_none(const cuda_product *p, const char *op, weft_error *err);

#endif
