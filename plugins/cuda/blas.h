/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of cuBLASLt in a table, as the driver's are. */
#ifndef WEFT_CUDA_BLAS_H
#define WEFT_CUDA_BLAS_H

#include <cublasLt.h>

#include "gpu.h"

#define CUDA_BLAS_FUNCTIONS(X)                                                                     \
    X(cublasLtCreate)                                                                              \
    X(cublasLtDestroy)                                                                             \
    X(cublasLtGetVersion)                                                                          \
    X(cublasLtMatmul)                                                                              \
    X(cublasLtMatmulAlgoGetHeuristic)                                                              \
    X(cublasLtMatmulDescCreate)                                                                    \
    X(cublasLtMatmulDescDestroy)                                                                   \
    X(cublasLtMatmulDescSetAttribute)                                                              \
    X(cublasLtMatmulPreferenceCreate)                                                              \
    X(cublasLtMatmulPreferenceDestroy)                                                             \
    X(cublasLtMatmulPreferenceSetAttribute)                                                        \
    X(cublasLtMatrixLayoutCreate)                                                                  \
    X(cublasLtMatrixLayoutDestroy)

typedef struct cuda_blas {
#define CUDA_FIELD(function) __typeof__(function) *function;
    CUDA_BLAS_FUNCTIONS(CUDA_FIELD)
#undef CUDA_FIELD
} cuda_blas;

struct cuda_products {
    cuda_blas blas;
    cublasLtHandle_t handle;
};

/* A product as row-major matrices: c[m n] = (or +=) a b, a [m k] or, turned, [k m]; b [k n] or
 * [n k]. */
typedef struct cuda_product {
    int64_t m, n, k;
    bool turn_a, turn_b;
} cuda_product;
cuda_product cuda_product_of(const weft_call *call);

#endif
