/* SPDX-License-Identifier: Apache-2.0 */
/* cuBLASLt: the library, and products by it. It counts columns first, so it is asked for the turned
 * product, c^T = b^T a^T, and nothing is copied. */
#include "blas.h"

#include <string.h>

static weft_status check(const cuda_blas *blas, cublasStatus_t status, const char *what,
                         weft_error *err)
{
    if (status == CUBLAS_STATUS_SUCCESS)
        return WEFT_OK;
    return weft_fail(err, status == CUBLAS_STATUS_ALLOC_FAILED ? WEFT_ERR_MEMORY : WEFT_ERR_RUN,
                     WEFT_NOWHERE, "%s: cuBLASLt says %d, %s", what, (int)status,
                     blas->cublasLtGetStatusString(status));
}

/* ---- the library ---- */

weft_status cuda_blas_open(cuda_blas *blas, const char *library, weft_error *err)
{
    static const char *const names[] = {
#define CUDA_NAME(function) #function,
        CUDA_BLAS_FUNCTIONS(CUDA_NAME)
#undef CUDA_NAME
    };
    void *handle, *found[sizeof names / sizeof *names];
    _Static_assert(sizeof found == sizeof *blas, "a field of cuda_blas has no name");
    weft_status s = cuda_library_open(&handle, library, "cuBLASLt",
                                      "It comes with the CUDA toolkit (Debian, Ubuntu: libcublas) "
                                      "and with PyTorch's packages; [cuda] cublaslt = PATH says "
                                      "where it is",
                                      err);
    for (size_t i = 0; i < sizeof names / sizeof *names && !s; i++)
        s = cuda_library_find(handle, library, names[i], &found[i], err);
    if (!s)
        memcpy(blas, found, sizeof found);
    return s;
}

weft_status cuda_products_create(const char *library, const weft_log *log, cuda_products **products,
                                 weft_error *err)
{
    cuda_products *p = weft_alloc_zero(1, sizeof *p);
    if (!p)
        return weft_fail_memory(err);
    p->log = log;
    weft_status s = cuda_blas_open(&p->blas, library, err);
    if (!s)
        s = check(&p->blas, p->blas.cublasLtCreate(&p->handle), "cublasLtCreate", err);
    if (s) {
        weft_free(p);
        return s;
    }
    *products = p;
    return WEFT_OK;
}

void cuda_products_hurry(cuda_products *products, bool fast)
{
    products->fast = fast;
}

void cuda_products_close(cuda_products *products)
{
    if (products && products->handle)
        products->blas.cublasLtDestroy(products->handle);
    if (products)
        products->handle = NULL;
}

void cuda_products_destroy(cuda_products *products)
{
    weft_free(products);
}

/* ---- descriptors ---- */

static cudaDataType type_of(int32_t dtype)
{
    return dtype == WEFT_F8E4M3   ? CUDA_R_8F_E4M3
           : dtype == WEFT_F8E5M2 ? CUDA_R_8F_E5M2
           : dtype == WEFT_BF16   ? CUDA_R_16BF
                                  : CUDA_R_32F;
}

static weft_status set_stride(const cuda_blas *blas, cublasLtMatrixLayout_t layout,
                              int64_t elements, weft_error *err)
{
    return check(blas,
                 blas->cublasLtMatrixLayoutSetAttribute(layout,
                                                        CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET,
                                                        &elements, sizeof elements),
                 "cublasLtMatrixLayoutSetAttribute", err);
}

/* Of each product one behind the other, or row by row in turn. */
static weft_status describe_each(const cuda_blas *blas, cublasLtMatrixLayout_t layout, int64_t each,
                                 int64_t step, weft_error *err)
{
    const int32_t count = (int32_t)each;
    weft_status s = check(blas,
                          blas->cublasLtMatrixLayoutSetAttribute(
                              layout, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &count, sizeof count),
                          "cublasLtMatrixLayoutSetAttribute", err);
    return s ? s : set_stride(blas, layout, step, err);
}

/* Of a pair, whose operands lie elsewhere at every launch. */
static weft_status set_strides(const cuda_matmul *m, const cuda_operands *o, weft_error *err)
{
    const cuda_product *p = &m->product;
    const cuda_blas *blas = &m->products->blas;
    const int64_t a = (int64_t)weft_dtype_size((weft_dtype)p->a),
                  b = (int64_t)weft_dtype_size((weft_dtype)p->b),
                  c = (int64_t)weft_dtype_size((weft_dtype)p->c);
    weft_status s = set_stride(blas, m->left, o->next_b / b, err);
    s = s ? s : set_stride(blas, m->right, o->next_a / a, err);
    return s ? s : set_stride(blas, m->result, o->next_c / c, err);
}

/* Row-major [rows columns] is column-major [columns rows]. */
static weft_status describe(const cuda_matmul *m, cublasLtMatrixLayout_t *layout, int32_t dtype,
                            int64_t rows, int64_t columns, bool tokens, weft_error *err)
{
    const cuda_blas *blas = &m->products->blas;
    const cuda_product *p = &m->product;
    const bool apart = tokens && p->apart == CUDA_APART;
    weft_status s = check(
        blas,
        blas->cublasLtMatrixLayoutCreate(layout, type_of(dtype), (uint64_t)columns, (uint64_t)rows,
                                         apart ? cuda_product_count(p) * columns : columns),
        "cublasLtMatrixLayoutCreate", err);
    if (!s && p->each)
        s = describe_each(blas, *layout, p->each, apart ? columns : rows * columns, err);
    return s;
}

static weft_status set(const cuda_matmul *m, cublasLtMatmulDescAttributes_t which,
                       const void *value, size_t size, weft_error *err)
{
    return check(&m->products->blas,
                 m->products->blas.cublasLtMatmulDescSetAttribute(m->desc, which, value, size),
                 "cublasLtMatmulDescSetAttribute", err);
}

static weft_status set_int(const cuda_matmul *m, cublasLtMatmulDescAttributes_t which,
                           int32_t value, weft_error *err)
{
    return set(m, which, &value, sizeof value, err);
}

/* cuBLASLt's A is b. */
static weft_status set_scales(const cuda_matmul *m, const float *a, const float *b, weft_error *err)
{
    weft_status s = set(m, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, &b, sizeof b, err);
    return s ? s : set(m, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, &a, sizeof a, err);
}

/* Whether there are scales, not where they are, is what algorithms are chosen by. False: this
 * version of the library knows none of the kind. */
static bool describe_scales(const cuda_matmul *m)
{
    const float *somewhere = (const float *)(uintptr_t)CUDA_PRODUCT_ALIGNMENT;
    const int32_t rows = CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
    if (m->product.scaling && set_scales(m, somewhere, somewhere, NULL))
        return false;
    return m->product.scaling != CUDA_SCALED_ROWS ||
           (!set_int(m, CUBLASLT_MATMUL_DESC_A_SCALE_MODE, rows, NULL) &&
            !set_int(m, CUBLASLT_MATMUL_DESC_B_SCALE_MODE, rows, NULL));
}

static weft_status describe_all(cuda_matmul *m, weft_error *err)
{
    const cuda_blas *blas = &m->products->blas;
    const cuda_product *p = &m->product;
    const int8_t fast = (int8_t)p->fast;
    weft_status s =
        check(blas, blas->cublasLtMatmulDescCreate(&m->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F),
              "cublasLtMatmulDescCreate", err);
    if (!s && fast)
        s = set(m, CUBLASLT_MATMUL_DESC_FAST_ACCUM, &fast, sizeof fast, err);
    if (!s)
        s = set_int(m, CUBLASLT_MATMUL_DESC_TRANSA, p->turn_b ? CUBLAS_OP_T : CUBLAS_OP_N, err);
    if (!s)
        s = set_int(m, CUBLASLT_MATMUL_DESC_TRANSB, p->turn_a ? CUBLAS_OP_T : CUBLAS_OP_N, err);
    if (!s)
        s = describe(m, &m->left, p->b, p->turn_b ? p->n : p->k, p->turn_b ? p->k : p->n, p->turn_a,
                     err);
    if (!s)
        s = describe(m, &m->right, p->a, p->turn_a ? p->k : p->m, p->turn_a ? p->m : p->k, true,
                     err);
    if (!s)
        s = describe(m, &m->result, p->c, p->m, p->n, !p->turn_a, err);
    if (!s && p->apart == CUDA_PAIR) { /* as if one lay behind the other */
        cuda_operands o;
        cuda_product_lay_out(p, 0, &o);
        s = set_strides(m, &o, err);
    }
    return s;
}

/* ---- algorithms ---- */

static uint32_t alignment_of(const cuda_product *p)
{
    return p->alignment ? (uint32_t)p->alignment : CUDA_PRODUCT_ALIGNMENT;
}

/* What an algorithm may use, and what it may rely on. */
static weft_status prefer(const cuda_blas *blas, cublasLtMatmulPreference_t preference,
                          uint32_t alignment, weft_error *err)
{
    static const cublasLtMatmulPreferenceAttributes_t alignments[] = {
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES};
    const uint64_t most = CUDA_PRODUCT_WORKSPACE;
    /* Sums in parts: in f32 until all are there, which is not what the library prefers. */
    const uint32_t schemes = CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    weft_status s =
        check(blas,
              blas->cublasLtMatmulPreferenceSetAttribute(
                  preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most),
              "cublasLtMatmulPreferenceSetAttribute", err);
    s = s ? s
          : check(blas,
                  blas->cublasLtMatmulPreferenceSetAttribute(
                      preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes,
                      sizeof schemes),
                  "cublasLtMatmulPreferenceSetAttribute", err);
    for (size_t i = 0; i < sizeof alignments / sizeof *alignments && !s; i++)
        s = check(blas,
                  blas->cublasLtMatmulPreferenceSetAttribute(preference, alignments[i], &alignment,
                                                             sizeof alignment),
                  "cublasLtMatmulPreferenceSetAttribute", err);
    return s;
}

weft_status cuda_matmul_find(const cuda_matmul *m, cublasLtMatmulAlgo_t *algorithms, int most,
                             int *n, weft_error *err)
{
    const cuda_blas *blas = &m->products->blas;
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t results[CUDA_MOST_ALGORITHMS];
    int found = 0;
    *n = 0;
    memset(results, 0, sizeof results);
    weft_status s = check(blas, blas->cublasLtMatmulPreferenceCreate(&preference),
                          "cublasLtMatmulPreferenceCreate", err);
    if (s)
        return s;
    s = prefer(blas, preference, alignment_of(&m->product), err);
    if (!s) {
        cublasStatus_t status = blas->cublasLtMatmulAlgoGetHeuristic(
            m->products->handle, m->desc, m->left, m->right, m->result, m->result, preference, most,
            results, &found);
        bool none = status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE;
        s = none ? WEFT_OK : check(blas, status, "cublasLtMatmulAlgoGetHeuristic", err);
        found = none ? 0 : found;
    }
    blas->cublasLtMatmulPreferenceDestroy(preference);
    for (int i = 0; i < found && !s; i++)
        if (results[i].state == CUBLAS_STATUS_SUCCESS &&
            results[i].workspaceSize <= CUDA_PRODUCT_WORKSPACE)
            algorithms[(*n)++] = results[i].algo;
    return s;
}

bool cuda_matmul_takes(const cuda_matmul *m, const cublasLtMatmulAlgo_t *algorithm)
{
    cublasLtMatmulHeuristicResult_t result;
    memset(&result, 0, sizeof result);
    cublasStatus_t status = m->products->blas.cublasLtMatmulAlgoCheck(
        m->products->handle, m->desc, m->left, m->right, m->result, m->result, algorithm, &result);
    return status == CUBLAS_STATUS_SUCCESS && result.state == CUBLAS_STATUS_SUCCESS &&
           result.workspaceSize <= CUDA_PRODUCT_WORKSPACE;
}

/* ---- products ---- */

weft_status cuda_matmul_create(cuda_products *products, const cuda_product *product,
                               cuda_matmul **out, weft_error *err)
{
    int n = 0;
    *out = NULL;
    cuda_matmul *m = weft_alloc_zero(1, sizeof *m);
    if (!m)
        return weft_fail_memory(err);
    m->products = products;
    m->product = *product;
    m->next = products->all;
    products->all = m;
    weft_status s = describe_all(m, err);
    if (!s && describe_scales(m))
        s = cuda_matmul_find(m, &m->algorithm, 1, &n, err);
    if (!s && n > 0)
        *out = m;
    else
        cuda_matmul_destroy(m);
    return s;
}

void cuda_matmul_destroy(cuda_matmul *m)
{
    if (!m)
        return;
    const cuda_blas *blas = &m->products->blas;
    cuda_matmul **at = &m->products->all;
    while (*at && *at != m)
        at = &(*at)->next;
    if (*at)
        *at = m->next;
    if (m->desc)
        blas->cublasLtMatmulDescDestroy(m->desc);
    if (m->left)
        blas->cublasLtMatrixLayoutDestroy(m->left);
    if (m->right)
        blas->cublasLtMatrixLayoutDestroy(m->right);
    if (m->result)
        blas->cublasLtMatrixLayoutDestroy(m->result);
    weft_free(m);
}

static bool is_aligned(const cuda_operands *o, uint32_t alignment)
{
    const uintptr_t bits = (uintptr_t)o->workspace | (uintptr_t)o->a_scale | (uintptr_t)o->b_scale |
                           (uintptr_t)(o->next_a | o->next_b | o->next_c);
    return ((uintptr_t)o->a | (uintptr_t)o->b | (uintptr_t)o->c) % alignment == 0 &&
           bits % CUDA_PRODUCT_ALIGNMENT == 0;
}

weft_status cuda_matmul_launch(const cuda_matmul *m, const weft_queue *queue,
                               const cuda_operands *o, weft_error *err)
{
    const float one = 1.0f, beta = m->product.accumulate || o->add ? 1.0f : 0.0f;
    if (!is_aligned(o, alignment_of(&m->product)))
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                         "a product's operands do not begin at multiples of %d bytes",
                         (int)alignment_of(&m->product));
    weft_status s = m->product.scaling ? set_scales(m, o->a_scale, o->b_scale, err) : WEFT_OK;
    if (!s && m->product.apart == CUDA_PAIR)
        s = set_strides(m, o, err);
    if (!s)
        s = check(&m->products->blas,
                  m->products->blas.cublasLtMatmul(
                      m->products->handle, m->desc, &one, o->b, m->left, o->a, m->right, &beta,
                      o->c, m->result, o->c, m->result, &m->algorithm, o->workspace,
                      CUDA_PRODUCT_WORKSPACE, (cudaStream_t)queue->stream),
                  "cublasLtMatmul", err);
    return s ? s : cuda_enqueued(queue, CUDA_SUCCESS, "cublasLtMatmul", err);
}
