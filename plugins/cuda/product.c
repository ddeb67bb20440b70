/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix products by cuBLASLt: bf16 or f32 operands, sums in f32, results in either. cuBLAS counts
 * columns first, so it is asked for the turned product: c^T = b^T a^T, and nothing is copied. */
#include "blas.h"

#include <string.h>

static weft_status check(cublasStatus_t status, const char *what, weft_error *err)
{
    if (status == CUBLAS_STATUS_SUCCESS)
        return WEFT_OK;
    return weft_fail(err, status == CUBLAS_STATUS_ALLOC_FAILED ? WEFT_ERR_MEMORY : WEFT_ERR_RUN,
                     WEFT_NOWHERE, "%s: cuBLASLt status %d", what, (int)status);
}

/* ---- the library ---- */

weft_status cuda_products_create(const char *library, cuda_products **products, weft_error *err)
{
    static const char *const names[] = {
#define CUDA_NAME(function) #function,
        CUDA_BLAS_FUNCTIONS(CUDA_NAME)
#undef CUDA_NAME
    };
    void *handle, *found[sizeof names / sizeof *names];
    cuda_products *p = weft_alloc_zero(1, sizeof *p);
    if (!p)
        return weft_fail_memory(err);
    weft_status s = cuda_library_open(&handle, library, "cuBLASLt",
                                      "It comes with the CUDA toolkit (Debian, Ubuntu: libcublas) "
                                      "and with PyTorch's packages; [cuda] cublaslt = PATH says "
                                      "where it is",
                                      err);
    for (size_t i = 0; i < sizeof names / sizeof *names && !s; i++)
        s = cuda_library_find(handle, library, names[i], &found[i], err);
    _Static_assert(sizeof found == sizeof p->blas, "a field of cuda_blas has no name");
    if (!s) {
        memcpy(&p->blas, found, sizeof found);
        s = check(p->blas.cublasLtCreate(&p->handle), "cublasLtCreate", err);
    }
    if (s) {
        weft_free(p);
        return s;
    }
    *products = p;
    return WEFT_OK;
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

/* ---- calls ---- */

static int64_t extent(const weft_tensor *t, int from, int to)
{
    int64_t n = 1;
    for (int d = from; d < to; d++)
        n *= t->size[d];
    return n;
}

cuda_product cuda_product_of(const weft_call *call)
{
    const weft_tensor *a = &call->ins[0], *b = &call->ins[1];
    int shared = (a->n_dims + b->n_dims - call->outs[0].n_dims) / 2;
    if (strcmp(call->op->name, "linear_dw") == 0) /* dy^T x */
        return (cuda_product){extent(a, shared, a->n_dims), extent(b, shared, b->n_dims),
                              extent(a, 0, shared), true, false};
    int left = a->n_dims - shared;
    cuda_product p = {.m = extent(a, 0, left), .k = extent(a, left, a->n_dims)};
    if (strcmp(call->op->name, "linear_dx") == 0) { /* dy w */
        p.n = extent(b, shared, b->n_dims);
        return p;
    }
    p.n = extent(b, 0, b->n_dims - shared); /* x w^T */
    p.turn_b = true;
    return p;
}

bool cuda_product_accepts(const weft_call *call)
{
    weft_dtype a = call->ins[0].dtype, b = call->ins[1].dtype, c = call->outs[0].dtype;
    cuda_product p = cuda_product_of(call);
    return !weft_call_has_lengths(call) && a == b && (a == WEFT_BF16 || a == WEFT_F32) &&
           (c == a || c == WEFT_F32) && p.m < INT32_MAX && p.n < INT32_MAX && p.k < INT32_MAX;
}

/* What heuristics may choose is not known without a GPU: its bound is. */
size_t cuda_product_workspace(const weft_call *call)
{
    cuda_product p = cuda_product_of(call);
    return p.m > 0 && p.n > 0 && p.k > 0 ? CUDA_PRODUCT_WORKSPACE : 0;
}

/* ---- prepared: descriptors and the algorithm of calls that are alike ---- */

typedef struct prepared {
    cuda_products *products;
    cuda_product shape;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t left, right, result; /* of the turned product */
    cublasLtMatmulAlgo_t algorithm;
    bool empty; /* no term: zeros, or nothing to add */
} prepared;

void cuda_product_release(void *state)
{
    prepared *p = state;
    if (!p)
        return;
    const cuda_blas *blas = &p->products->blas;
    if (p->desc)
        blas->cublasLtMatmulDescDestroy(p->desc);
    if (p->left)
        blas->cublasLtMatrixLayoutDestroy(p->left);
    if (p->right)
        blas->cublasLtMatrixLayoutDestroy(p->right);
    if (p->result)
        blas->cublasLtMatrixLayoutDestroy(p->result);
    weft_free(p);
}

static cudaDataType type_of(weft_dtype dtype)
{
    return dtype == WEFT_BF16 ? CUDA_R_16BF : CUDA_R_32F;
}

/* Row-major [rows columns] is column-major [columns rows]. */
static weft_status describe(const cuda_blas *blas, cublasLtMatrixLayout_t *layout, weft_dtype dtype,
                            int64_t rows, int64_t columns, weft_error *err)
{
    return check(blas->cublasLtMatrixLayoutCreate(layout, type_of(dtype), (uint64_t)columns,
                                                  (uint64_t)rows, columns),
                 "cublasLtMatrixLayoutCreate", err);
}

static weft_status set_turn(const cuda_blas *blas, cublasLtMatmulDesc_t desc,
                            cublasLtMatmulDescAttributes_t which, bool turn, weft_error *err)
{
    int32_t op = turn ? CUBLAS_OP_T : CUBLAS_OP_N;
    return check(blas->cublasLtMatmulDescSetAttribute(desc, which, &op, sizeof op),
                 "cublasLtMatmulDescSetAttribute", err);
}

static weft_status describe_all(prepared *p, const weft_call *call, weft_error *err)
{
    const cuda_blas *blas = &p->products->blas;
    cuda_product s = p->shape;
    weft_status status =
        check(blas->cublasLtMatmulDescCreate(&p->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F),
              "cublasLtMatmulDescCreate", err);
    if (!status)
        status = set_turn(blas, p->desc, CUBLASLT_MATMUL_DESC_TRANSA, s.turn_b, err);
    if (!status)
        status = set_turn(blas, p->desc, CUBLASLT_MATMUL_DESC_TRANSB, s.turn_a, err);
    if (!status)
        status = describe(blas, &p->left, call->ins[1].dtype, s.turn_b ? s.n : s.k,
                          s.turn_b ? s.k : s.n, err);
    if (!status)
        status = describe(blas, &p->right, call->ins[0].dtype, s.turn_a ? s.k : s.m,
                          s.turn_a ? s.m : s.k, err);
    if (!status)
        status = describe(blas, &p->result, call->outs[0].dtype, s.m, s.n, err);
    return status;
}

static weft_status choose(prepared *p, const weft_call *call, weft_error *err)
{
    const cuda_blas *blas = &p->products->blas;
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t result;
    size_t most = CUDA_PRODUCT_WORKSPACE;
    int found = 0;
    memset(&result, 0, sizeof result);
    weft_status s = check(blas->cublasLtMatmulPreferenceCreate(&preference),
                          "cublasLtMatmulPreferenceCreate", err);
    if (!s)
        s = check(blas->cublasLtMatmulPreferenceSetAttribute(
                      preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &most, sizeof most),
                  "cublasLtMatmulPreferenceSetAttribute", err);
    if (!s) {
        cublasStatus_t status = blas->cublasLtMatmulAlgoGetHeuristic(
            p->products->handle, p->desc, p->left, p->right, p->result, p->result, preference, 1,
            &result, &found);
        if (status != CUBLAS_STATUS_SUCCESS || found < 1)
            s = weft_fail(err, WEFT_ERR_RUN, WEFT_NOWHERE,
                          "%s: cuBLASLt has no algorithm for [%lld %lld] x [%lld %lld] of %s in "
                          "%zu bytes of workspace (status %d)",
                          call->op->name, (long long)p->shape.m, (long long)p->shape.k,
                          (long long)p->shape.k, (long long)p->shape.n,
                          weft_dtype_name(call->ins[0].dtype), most, (int)status);
    }
    if (preference)
        blas->cublasLtMatmulPreferenceDestroy(preference);
    p->algorithm = result.algo;
    return s;
}

weft_status cuda_product_prepare(const weft_call *call, void **state, weft_error *err)
{
    if (!call->queue || !call->queue->products)
        return weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                         "%s: prepared before the device is open", call->op->name);
    prepared *p = weft_alloc_zero(1, sizeof *p);
    if (!p)
        return weft_fail_memory(err);
    p->products = call->queue->products;
    p->shape = cuda_product_of(call);
    p->empty = cuda_product_workspace(call) == 0;
    weft_status s = p->empty ? WEFT_OK : describe_all(p, call, err);
    if (!s && !p->empty)
        s = choose(p, call, err);
    if (s)
        cuda_product_release(p);
    else
        *state = p;
    return s;
}

static weft_status launch_empty(const weft_call *call, weft_error *err)
{
    const weft_tensor *out = &call->outs[0];
    int64_t bytes = weft_tensor_count(out) * (int64_t)weft_dtype_size(out->dtype);
    cuda_move_args zeros = {.to = out->data, .size = {bytes}, .n_dims = 1};
    if (call->accumulate)
        return WEFT_OK;
    return cuda_launch(call->queue, CUDA_KERNEL_move, &zeros, cuda_chunk_blocks(bytes / 2 + 1),
                       err);
}

weft_status cuda_product_launch(const weft_call *call, weft_error *err)
{
    const prepared *p = call->state;
    const float one = 1.0f, beta = call->accumulate ? 1.0f : 0.0f;
    if (weft_tensor_count(&call->outs[0]) == 0)
        return WEFT_OK;
    if (p->empty)
        return launch_empty(call, err);
    weft_status s = cuda_check_workspace(call, CUDA_PRODUCT_WORKSPACE, err);
    if (s)
        return s;
    s = check(p->products->blas.cublasLtMatmul(
                  p->products->handle, p->desc, &one, call->ins[1].data, p->left, call->ins[0].data,
                  p->right, &beta, call->outs[0].data, p->result, call->outs[0].data, p->result,
                  &p->algorithm, call->workspace, call->workspace_bytes,
                  (cudaStream_t)call->queue->stream),
              call->op->name, err);
    if (!s && call->queue->careful)
        s = cuda_check(call->queue->driver,
                       call->queue->driver->cuStreamSynchronize(call->queue->stream),
                       call->op->name, err);
    return s;
}
