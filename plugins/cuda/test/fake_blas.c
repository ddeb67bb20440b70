/* SPDX-License-Identifier: Apache-2.0 */
/* cuBLASLt as far as the plugin asks for it: plain loops, sums in f32. It is in one library with
 * the fake driver, so that what it does is captured with the rest. Of several algorithms each adds
 * from a term of its own on, so that results show which one it was. It takes what cuBLASLt's table
 * of types lists, and of products in 8 bits what Hopper has; and it loads a kernel at its first
 * launch, when all streams have done what they were told. Where it is
 * Where it is not told otherwise it splits sums in two, and rounds both to the result's dtype
 * before they are added. Fast sums of products in 8 bits lose bits.
 *
 * WEFT_FAKE_CUDA_MAJOR    products in 8 bits from 9 on, by rows in 9 alone
 * WEFT_FAKE_BLAS_FASTEST  the algorithm that takes the least time (default 0, of 0 to 2) */
#include "fake_driver.h"

#include <cublasLt.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <weft/base.h>

enum { ALGORITHMS = 3, MAGIC = 0x77656674, WORKSPACE = 1024 };

/* Descriptors are opaque: these are ours, behind the library's pointers. */
typedef struct description {
    int32_t turn_a, turn_b, a_mode, b_mode;
    const float *a_scale, *b_scale;
    int8_t fast;
} description;
_Static_assert(sizeof(description) <= sizeof(cublasLtMatmulDescOpaque_t), "no room");

typedef struct preference {
    uint64_t workspace;
    uint32_t alignment, schemes;
} preference;
_Static_assert(sizeof(preference) <= sizeof(cublasLtMatmulPreferenceOpaque_t), "no room");

typedef struct layout {
    cudaDataType type;
    uint64_t rows, columns;
    int64_t step, next; /* next: elements from one matrix to the one behind it */
    int32_t count;
} layout;
_Static_assert(sizeof(layout) <= sizeof(cublasLtMatrixLayoutOpaque_t), "no room");

static cublasStatus_t done(const void *allocated)
{
    return allocated ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_ALLOC_FAILED;
}

/* Of a handle: a call needs one, and the context in which it was made. */
static bool is_open(const struct cublasLtContext *handle)
{
    return handle && fake_has_context();
}

EXPORT cublasStatus_t cublasLtCreate(cublasLtHandle_t *handle)
{
    *handle = NULL;
    if (!fake_has_context())
        return CUBLAS_STATUS_NOT_INITIALIZED;
    *handle = (cublasLtHandle_t)malloc(1);
    return done(*handle);
}

EXPORT cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle)
{
    free((void *)handle);
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT const char *cublasLtGetStatusString(cublasStatus_t status)
{
    (void)status;
    return "as the fake has it";
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
    if (which == CUBLASLT_MATMUL_DESC_FAST_ACCUM && size == sizeof d->fast) {
        memcpy(&d->fast, value, size);
        return CUBLAS_STATUS_SUCCESS;
    }
    int32_t *number = which == CUBLASLT_MATMUL_DESC_TRANSA         ? &d->turn_a
                      : which == CUBLASLT_MATMUL_DESC_TRANSB       ? &d->turn_b
                      : which == CUBLASLT_MATMUL_DESC_A_SCALE_MODE ? &d->a_mode
                      : which == CUBLASLT_MATMUL_DESC_B_SCALE_MODE ? &d->b_mode
                                                                   : NULL;
    const float **address = which == CUBLASLT_MATMUL_DESC_A_SCALE_POINTER   ? &d->a_scale
                            : which == CUBLASLT_MATMUL_DESC_B_SCALE_POINTER ? &d->b_scale
                                                                            : NULL;
    if (!number && !address)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (size != (number ? sizeof *number : sizeof *address))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (number)
        memcpy(number, value, size);
    else
        memcpy(address, value, size);
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *made, cudaDataType type,
                                                 uint64_t rows, uint64_t columns, int64_t step)
{
    layout *l = calloc(1, sizeof **made);
    if (l)
        *l = (layout){type, rows, columns, step, 0, 1};
    *made = (cublasLtMatrixLayout_t)(void *)l;
    return done(l);
}

EXPORT cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t of,
                                                       cublasLtMatrixLayoutAttribute_t which,
                                                       const void *value, size_t size)
{
    layout *l = (layout *)(void *)of;
    bool count = which == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT;
    if (!count && which != CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (size != (count ? sizeof l->count : sizeof l->next))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (count)
        memcpy(&l->count, value, size);
    else
        memcpy(&l->next, value, size);
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l)
{
    free(l);
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *made)
{
    *made = calloc(1, sizeof **made);
    if (*made)
        ((preference *)(void *)*made)->schemes = CUBLASLT_REDUCTION_SCHEME_MASK;
    return done(*made);
}

EXPORT cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p)
{
    free(p);
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t of, cublasLtMatmulPreferenceAttributes_t which, const void *value,
    size_t size)
{
    preference *p = (preference *)(void *)of;
    if (which == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK && size == sizeof p->schemes) {
        memcpy(&p->schemes, value, size);
        return CUBLAS_STATUS_SUCCESS;
    }
    bool workspace = which == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES;
    if (!workspace && (which < CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES ||
                       which > CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (size != (workspace ? sizeof p->workspace : sizeof p->alignment))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (workspace)
        memcpy(&p->workspace, value, size);
    else
        memcpy(&p->alignment, value, size);
    return CUBLAS_STATUS_SUCCESS;
}

typedef struct product {
    layout a, b, d;
    description how;
    const void *left, *right;
    void *result, *workspace;
    float beta;
    int algorithm;
    bool rounds; /* sums of parts, to the result's dtype, before they are added */
} product;

static product product_of(cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                          cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t d)
{
    return (product){.how = *(description *)(void *)desc,
                     .a = *(layout *)(void *)a,
                     .b = *(layout *)(void *)b,
                     .d = *(layout *)(void *)d};
}

static bool is_f8(cudaDataType type)
{
    return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2;
}

static uint64_t size_of(cudaDataType type)
{
    return is_f8(type) ? 1 : type == CUDA_R_16BF ? 2 : 4;
}

/* As on Hopper: the contracted dim first in both (columns come first here), columns at multiples of
 * 16 bytes, not two of e5m2, and by rows both or neither. */
static bool fits_f8(const product *p)
{
    long major = fake_number("WEFT_FAKE_CUDA_MAJOR", 9);
    bool rows = p->how.a_mode == CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
    return major >= 9 && is_f8(p->b.type) && p->how.turn_a == CUBLAS_OP_T &&
           p->how.turn_b == CUBLAS_OP_N && p->a.rows % 16 == 0 && p->d.rows % 16 == 0 &&
           p->a.step % 16 == 0 && p->b.step % 16 == 0 &&
           (uint64_t)p->d.step * size_of(p->d.type) % 16 == 0 &&
           (p->a.type == CUDA_R_8F_E4M3 || p->b.type == CUDA_R_8F_E4M3) && p->how.a_scale &&
           p->how.b_scale && p->how.a_mode == p->how.b_mode && (!rows || major == 9) &&
           (p->d.type == CUDA_R_16BF || p->d.type == CUDA_R_32F);
}

/* From one matrix to the next: as a tensor map has it, in bytes, so not below 0. */
static bool is_stride(const layout *l)
{
    const int64_t size = (int64_t)size_of(l->type), most = (int64_t)1 << 40;
    return l->count == 1 || (l->next >= 0 && l->next < most / size);
}

/* Results that lie in each other would be of whoever comes last. */
static bool is_apart(const layout *l)
{
    const int64_t all = (int64_t)(l->columns - 1) * l->step + (int64_t)l->rows;
    return l->count == 1 || l->next >= all || l->next * l->count <= l->step;
}

/* Do the extents fit, and the dtypes as cuBLASLt has them? */
static bool fits(const product *p)
{
    bool ta = p->how.turn_a == CUBLAS_OP_T, tb = p->how.turn_b == CUBLAS_OP_T;
    if ((ta ? p->a.columns : p->a.rows) != p->d.rows ||
        (tb ? p->b.rows : p->b.columns) != p->d.columns ||
        (ta ? p->a.rows : p->a.columns) != (tb ? p->b.columns : p->b.rows) ||
        p->a.step < (int64_t)p->a.rows || p->b.step < (int64_t)p->b.rows ||
        p->d.step < (int64_t)p->d.rows || !is_stride(&p->a) || !is_stride(&p->b) ||
        !is_stride(&p->d) || p->a.count != p->d.count || p->b.count != p->d.count || p->d.count < 1)
        return false;
    if (is_f8(p->a.type))
        return p->d.count == 1 && fits_f8(p);
    return p->a.type == p->b.type && !p->how.a_scale && !p->how.b_scale &&
           (p->d.type == p->a.type || p->d.type == CUDA_R_32F);
}

static cublasLtMatmulHeuristicResult_t result_of(int algorithm, uint64_t alignment, bool rounds)
{
    cublasLtMatmulHeuristicResult_t r;
    memset(&r, 0, sizeof r);
    r.algo.data[0] = MAGIC;
    r.algo.data[1] = (uint64_t)algorithm;
    r.algo.data[2] = alignment; /* it was chosen for operands that begin so */
    r.algo.data[3] = rounds;
    r.workspaceSize = WORKSPACE;
    return r;
}

EXPORT cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
    cublasLtMatmulPreference_t of, int wanted, cublasLtMatmulHeuristicResult_t results[],
    int *found)
{
    const product p = product_of(desc, a, b, d);
    const preference *prefers = (const preference *)(void *)of;
    *found = 0;
    if (!is_open(handle))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (wanted < 1 || memcmp(c, d, sizeof *c) != 0)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!fits(&p) || prefers->workspace < WORKSPACE || prefers->alignment < 1)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    for (; *found < wanted && *found < ALGORITHMS; ++*found)
        results[*found] = result_of(*found, prefers->alignment,
                                    prefers->schemes & (CUBLASLT_REDUCTION_SCHEME_INPLACE |
                                                        CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE));
    return CUBLAS_STATUS_SUCCESS;
}

EXPORT cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              const cublasLtMatmulAlgo_t *algorithm,
                                              cublasLtMatmulHeuristicResult_t *result)
{
    const product p = product_of(desc, a, b, d);
    if (!is_open(handle))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (memcmp(c, d, sizeof *c) != 0 || !fits(&p) || algorithm->data[0] != MAGIC ||
        algorithm->data[1] >= ALGORITHMS)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    *result = result_of((int)algorithm->data[1], algorithm->data[2], algorithm->data[3] != 0);
    return CUBLAS_STATUS_SUCCESS;
}

static float from_f8(uint8_t code, bool e5m2)
{
    int bits = e5m2 ? 2 : 3, bias = e5m2 ? 15 : 7, exponent = (code & 0x7f) >> bits;
    int fraction = code & ((1 << bits) - 1);
    float sign = code & 0x80 ? -1.0f : 1.0f;
    if (e5m2 ? exponent == 31 : (code & 0x7f) == 0x7f)
        return e5m2 && fraction == 0 ? sign * INFINITY : NAN;
    return sign * (exponent ? ldexpf((float)(fraction + (1 << bits)), exponent - bias - bits)
                            : ldexpf((float)fraction, 1 - bias - bits));
}

static uint64_t place(const layout *l, int32_t which, uint64_t row, uint64_t column)
{
    return (uint64_t)which * (uint64_t)l->next + column * (uint64_t)l->step + row;
}

static float get(const void *data, const layout *l, int32_t which, uint64_t row, uint64_t column)
{
    uint64_t at = place(l, which, row, column);
    if (is_f8(l->type))
        return from_f8(((const uint8_t *)data)[at], l->type == CUDA_R_8F_E5M2);
    return l->type == CUDA_R_16BF ? weft_bf16_to_f32(((const uint16_t *)data)[at])
                                  : ((const float *)data)[at];
}

static float scale_of(const float *scale, int32_t mode, uint64_t i)
{
    return !scale ? 1.0f : scale[mode == CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F ? i : 0];
}

/* Both operands as numbers, a term's behind each other; the sums of one column. */
typedef struct numbers {
    uint64_t terms;
    float *left, *right, *sums, *before; /* [terms][rows], [columns][terms], [rows], [rows] */
} numbers;

static bool init_numbers(numbers *x, const product *p)
{
    const uint64_t rows = p->d.rows, columns = p->d.columns,
                   terms = p->how.turn_a == CUBLAS_OP_T ? p->a.rows : p->a.columns;
    float *all = malloc((terms * (rows + columns) + 2 * rows) * sizeof *all + 1);
    *x = (numbers){terms, all, NULL, NULL, NULL};
    if (!all)
        return false;
    x->right = all + terms * rows;
    x->sums = x->right + terms * columns;
    x->before = x->sums + rows;
    return true;
}

static void read_numbers(numbers *x, const product *p, int32_t which)
{
    const bool ta = p->how.turn_a == CUBLAS_OP_T, tb = p->how.turn_b == CUBLAS_OP_T;
    for (uint64_t k = 0; k < x->terms; k++) {
        for (uint64_t i = 0; i < p->d.rows; i++)
            x->left[k * p->d.rows + i] = get(p->left, &p->a, which, ta ? k : i, ta ? i : k);
        for (uint64_t j = 0; j < p->d.columns; j++)
            x->right[j * x->terms + k] = get(p->right, &p->b, which, tb ? j : k, tb ? k : j);
    }
}

static void round_to_bf16(float *list, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        list[i] = weft_bf16_to_f32(weft_f32_to_bf16(list[i]));
}

/* Each algorithm begins at another term, and so rounds otherwise. */
static void sum_column(numbers *x, const product *p, uint64_t j)
{
    const uint64_t rows = p->d.rows, first = (uint64_t)p->algorithm * x->terms / ALGORITHMS;
    memset(x->sums, 0, 2 * rows * sizeof *x->sums); /* and before */
    for (uint64_t n = 0, k = first; n < x->terms; n++, k = k + 1 < x->terms ? k + 1 : 0) {
        const float *left = x->left + k * rows, right = x->right[j * x->terms + k];
        if (n == x->terms / 2 && p->rounds && p->d.type == CUDA_R_16BF) {
            round_to_bf16(x->sums, rows);
            memcpy(x->before, x->sums, rows * sizeof *x->sums);
            memset(x->sums, 0, rows * sizeof *x->sums);
        }
        if (p->how.fast && is_f8(p->a.type)) /* a few bits of a sum are lost */
            round_to_bf16(x->sums, rows);
        for (uint64_t i = 0; i < rows; i++)
            x->sums[i] += left[i] * right;
    }
}

static void store_column(const numbers *x, const product *p, int32_t which, uint64_t j)
{
    for (uint64_t i = 0; i < p->d.rows; i++) {
        float sum = (x->sums[i] + x->before[i]) * scale_of(p->how.a_scale, p->how.a_mode, i) *
                    scale_of(p->how.b_scale, p->how.b_mode, j);
        if (p->beta != 0)
            sum += p->beta * get(p->result, &p->d, which, i, j);
        const uint64_t at = place(&p->d, which, i, j);
        if (p->d.type == CUDA_R_16BF)
            ((uint16_t *)p->result)[at] = weft_f32_to_bf16(sum);
        else
            ((float *)p->result)[at] = sum;
    }
}

static void run(const void *what)
{
    const product *p = what;
    const char *fastest = getenv("WEFT_FAKE_BLAS_FASTEST");
    numbers x;
    if (fastest && fake_number("WEFT_FAKE_BLAS_FASTEST", 0) != p->algorithm)
        fake.lag += 1;
    fake.products[p->algorithm]++;
    memset(p->workspace, 0xff, WORKSPACE); /* whoever keeps something there finds it spoilt */
    if (!init_numbers(&x, p))
        abort(); /* nobody waits for what a stream does, to be told */
    for (int32_t which = 0; which < p->d.count; which++) {
        read_numbers(&x, p, which);
        for (uint64_t j = 0; j < p->d.columns; j++) {
            sum_column(&x, p, j);
            store_column(&x, p, which, j);
        }
    }
    free(x.left);
}

/* Each matrix by itself: they may lie in memory of several allocations. */
static bool reaches(const void *data, const layout *l)
{
    const uint64_t size = size_of(l->type),
                   bytes = (place(l, 0, l->rows - 1, l->columns - 1) + 1) * size;
    for (int32_t i = 0; i < l->count; i++)
        if (!fake_owns((const char *)data + (uint64_t)i * (uint64_t)l->next * size, bytes))
            return false;
    return true;
}

/* What the library would crash on, or read beside. */
static const char *find_wrong(const product *p, size_t workspace_bytes, uint64_t alignment)
{
    const uintptr_t bits = (uintptr_t)p->left | (uintptr_t)p->right | (uintptr_t)p->result;
    const bool rows = p->how.a_mode == CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F;
    const float *a = p->how.a_scale, *b = p->how.b_scale;
    return !fits(p)                        ? "there is no such product"
           : !is_apart(&p->d)              ? "results of a batch lie in each other"
           : bits % alignment              ? "operands are not where the algorithm wants them"
           : workspace_bytes < WORKSPACE   ? "there is too little workspace"
           : (uintptr_t)p->workspace % 256 ? "the workspace is no multiple of 256 bytes"
           : !reaches(p->left, &p->a)      ? "A is not all in the GPU's memory"
           : !reaches(p->right, &p->b)     ? "B is not all in the GPU's memory"
           : !reaches(p->result, &p->d)    ? "D is not all in the GPU's memory"
           : (uintptr_t)a % 16 || (uintptr_t)b % 16         ? "scales are no multiple of 16 bytes"
           : a && !fake_owns(a, 4 * (rows ? p->d.rows : 1)) ? "A's scales are not there"
           : b && !fake_owns(b, 4 * (rows ? p->d.columns : 1)) ? "B's scales are not there"
           : !fake_owns(p->workspace, workspace_bytes)         ? "the workspace is not there"
                                                               : NULL;
}

/* What a kernel is compiled for; each is loaded once. */
static void load(const product *p, CUstream stream)
{
    static struct kind {
        cudaDataType a, b, d;
        description how;
        int algorithm;
    } loaded[64];
    static size_t n;
    struct kind k;
    memset(&k, 0, sizeof k);
    k.a = p->a.type, k.b = p->b.type, k.d = p->d.type, k.algorithm = p->algorithm;
    k.how.turn_a = p->how.turn_a, k.how.turn_b = p->how.turn_b, k.how.a_mode = p->how.a_mode;
    pthread_mutex_lock(&fake.lock);
    size_t i = 0;
    while (i < n && memcmp(&loaded[i], &k, sizeof k) != 0)
        i++;
    bool first = i == n && n < sizeof loaded / sizeof *loaded;
    if (first)
        loaded[n++] = k;
    fake.late_libraries += first && fake.told > 0;
    pthread_mutex_unlock(&fake.lock);
    if (first && !fake_is_capturing(stream))
        fake_drain();
}

EXPORT cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc,
                                     const void *alpha, const void *left, cublasLtMatrixLayout_t a,
                                     const void *right, cublasLtMatrixLayout_t b, const void *beta,
                                     const void *c, cublasLtMatrixLayout_t c_layout, void *result,
                                     cublasLtMatrixLayout_t d, const cublasLtMatmulAlgo_t *algo,
                                     void *workspace, size_t workspace_bytes, cudaStream_t stream)
{
    product p = product_of(desc, a, b, d);
    p.left = left;
    p.right = right;
    p.result = result;
    p.workspace = workspace;
    p.beta = *(const float *)beta;
    p.algorithm = algo ? (int)algo->data[1] : 0;
    p.rounds = algo && algo->data[3];
    const char *wrong = find_wrong(&p, workspace_bytes, algo ? algo->data[2] : 16);
    if (!is_open(handle))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (*(const float *)alpha != 1 || c != result || !algo || algo->data[0] != MAGIC || !stream ||
        memcmp(c_layout, d, sizeof *d) != 0 || wrong) {
        fake_refuse(CUDA_ERROR_INVALID_VALUE, wrong ? wrong : "a product that nobody asked about");
        return CUBLAS_STATUS_INVALID_VALUE;
    }
    load(&p, stream);
    return fake_enqueue(stream, run, &p, sizeof p) == CUDA_SUCCESS ? CUBLAS_STATUS_SUCCESS
                                                                   : CUBLAS_STATUS_EXECUTION_FAILED;
}
