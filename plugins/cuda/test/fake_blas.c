/* SPDX-License-Identifier: Apache-2.0 */
/* cuBLASLt as far as the plugin asks for it: plain loops, sums in f32. It is in one library with
 * the fake driver, so that what it does is captured with the rest. */
#include "fake_driver.h"

#include <cublasLt.h>

#include <stdlib.h>
#include <string.h>

#include <weft/base.h>

/* Descriptors are opaque: these are ours, behind the library's pointers. */
typedef struct description {
    cublasOperation_t turn_a, turn_b;
} description;

typedef struct layout {
    cudaDataType type;
    uint64_t rows, columns;
    int64_t step;
} layout;

static cublasStatus_t done(const void *allocated)
{
    return allocated ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

EXPORT cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    *handle = (cublasLtHandle_t)malloc(1);
    return done(*handle);
}

EXPORT cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    free((void *)handle);
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT size_t cublasLtGetVersion(void)
{
    return 130000;
}

EXPORT cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *desc,
                                               cublasComputeType_t compute, cudaDataType_t scale)
{
    if (compute != CUBLAS_COMPUTE_32F || scale != CUDA_R_32F)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    *desc = calloc(1, sizeof **desc);
    return done(*desc);
}

EXPORT cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc)
{
    free(desc);
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc,
                                                     cublasLtMatmulDescAttributes_t which,
                                                     const void *value, size_t size)
{
    description *d = (description *)(void *)desc;
    if (size != sizeof(int32_t))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (which == CUBLASLT_MATMUL_DESC_TRANSA)
        d->turn_a = (cublasOperation_t) * (const int32_t *)value;
    else if (which == CUBLASLT_MATMUL_DESC_TRANSB)
        d->turn_b = (cublasOperation_t) * (const int32_t *)value;
    else
        return CUBLAS_STATUS_NOT_SUPPORTED;
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *made, cudaDataType type,
                                                 uint64_t rows, uint64_t columns, int64_t step)
{
    layout *l = calloc(1, sizeof **made);
    if (l)
        *l = (layout){type, rows, columns, step};
    *made = (cublasLtMatrixLayout_t)(void *)l;
    return done(l);
}

EXPORT cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l)
{
    free(l);
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *preference)
{
    *preference = calloc(1, sizeof **preference);
    return done(*preference);
}

EXPORT cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference)
{
    free(preference);
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t which,
    const void *value, size_t size)
{
    (void)preference, (void)value;
    return which == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES && size == sizeof(size_t)
               ? CUBLAS_STATUS_SUCCESS
               : CUBLAS_STATUS_NOT_SUPPORTED;
}

typedef struct product {
    layout a, b, d;
    description turn;
    const void *left, *right;
    void *result;
    float beta;
} product;

/* Do the extents fit, and the dtypes as cuBLASLt has them? */
static bool fits(const product *p)
{
    bool ta = p->turn.turn_a == CUBLAS_OP_T, tb = p->turn.turn_b == CUBLAS_OP_T;
    return (ta ? p->a.columns : p->a.rows) == p->d.rows &&
           (tb ? p->b.rows : p->b.columns) == p->d.columns &&
           (ta ? p->a.rows : p->a.columns) == (tb ? p->b.columns : p->b.rows) &&
           p->a.step >= (int64_t)p->a.rows && p->b.step >= (int64_t)p->b.rows &&
           p->d.step >= (int64_t)p->d.rows && p->a.type == p->b.type &&
           (p->d.type == p->a.type || p->d.type == CUDA_R_32F);
}

EXPORT cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
    cublasLtMatmulPreference_t preference, int wanted, cublasLtMatmulHeuristicResult_t results[],
    int *found)
{
    product p = {.turn = *(description *)(void *)desc,
                 .a = *(layout *)(void *)a,
                 .b = *(layout *)(void *)b,
                 .d = *(layout *)(void *)d};
    (void)handle, (void)c, (void)preference;
    *found = wanted > 0 && fits(&p);
    if (*found)
        memset(&results[0], 0, sizeof results[0]);
    return *found ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED;
}

static float get(const void *data, const layout *l, uint64_t row, uint64_t column)
{
    uint64_t at = column * (uint64_t)l->step + row;
    return l->type == CUDA_R_16BF ? weft_bf16_to_f32(((const uint16_t *)data)[at])
                                  : ((const float *)data)[at];
}

static void run(const void *what)
{
    const product *p = what;
    bool ta = p->turn.turn_a == CUBLAS_OP_T, tb = p->turn.turn_b == CUBLAS_OP_T;
    uint64_t terms = ta ? p->a.rows : p->a.columns;
    for (uint64_t j = 0; j < p->d.columns; j++)
        for (uint64_t i = 0; i < p->d.rows; i++) {
            float sum = 0;
            for (uint64_t k = 0; k < terms; k++)
                sum += get(p->left, &p->a, ta ? k : i, ta ? i : k) *
                       get(p->right, &p->b, tb ? j : k, tb ? k : j);
            if (p->beta != 0)
                sum += p->beta * get(p->result, &p->d, i, j);
            uint64_t at = j * (uint64_t)p->d.step + i;
            if (p->d.type == CUDA_R_16BF)
                ((uint16_t *)p->result)[at] = weft_f32_to_bf16(sum);
            else
                ((float *)p->result)[at] = sum;
        }
}

EXPORT cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                     const void *alpha, const void *left, cublasLtMatrixLayout_t a,
                                     const void *right, cublasLtMatrixLayout_t b, const void *beta,
                                     const void *c, cublasLtMatrixLayout_t c_layout, void *result,
                                     cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t *algo,
                                     void *workspace, size_t workspace_bytes, cudaStream_t stream)
{
    product p = {.turn = *(description *)(void *)desc,
                 .a = *(layout *)(void *)a,
                 .b = *(layout *)(void *)b,
                 .d = *(layout *)(void *)d,
                 .left = left,
                 .right = right,
                 .result = result,
                 .beta = *(const float *)beta};
    (void)handle, (void)c_layout, (void)workspace, (void)workspace_bytes;
    if (*(const float *)alpha != 1 || c != result || !algo || !stream || !fits(&p))
        return CUBLAS_STATUS_INVALID_VALUE;
    return fake_enqueue(stream, run, &p, sizeof p) == CUDA_SUCCESS ? CUBLAS_STATUS_SUCCESS
                                                                   : CUBLAS_STATUS_EXECUTION_FAILED;
}
