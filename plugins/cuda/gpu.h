/* SPDX-License-Identifier: Apache-2.0 */
/* The CUDA device: what its files share. Internal to the plugin and its tests.
 *
 * No function of NVIDIA's is linked: those of the driver stand in a table that driver.c fills when
 * the device is opened, so that the plugin loads anywhere and tests can put a driver of their own
 * there. Kernels are asked for by number and launched with one struct (kernels/args.h). */
#ifndef WEFT_CUDA_PLUGIN_H
#define WEFT_CUDA_PLUGIN_H

#include <cuda.h>

#include "kernels/args.h"
#include "kernels/list.h"

#include <weft/plugin.h>

/* ---- the driver's functions (driver.c) ---- */

/* cuda.h puts versions behind some names by macros, here as well: fields and symbols have them. */
#define CUDA_DRIVER_FUNCTIONS(X)                                                                   \
    X(cuInit)                                                                                      \
    X(cuDriverGetVersion)                                                                          \
    X(cuGetErrorName)                                                                              \
    X(cuGetErrorString)                                                                            \
    X(cuDeviceGetCount)                                                                            \
    X(cuDeviceGet)                                                                                 \
    X(cuDeviceGetName)                                                                             \
    X(cuDeviceGetAttribute)                                                                        \
    X(cuDeviceTotalMem)                                                                            \
    X(cuDevicePrimaryCtxRetain)                                                                    \
    X(cuDevicePrimaryCtxRelease)                                                                   \
    X(cuCtxSetCurrent)                                                                             \
    X(cuModuleLoadData)                                                                            \
    X(cuModuleUnload)                                                                              \
    X(cuModuleGetFunction)                                                                         \
    X(cuFuncGetAttribute)                                                                          \
    X(cuFuncSetAttribute)                                                                          \
    X(cuFuncLoad)                                                                                  \
    X(cuLaunchKernel)                                                                              \
    X(cuMemAlloc)                                                                                  \
    X(cuMemFree)                                                                                   \
    X(cuMemGetInfo)                                                                                \
    X(cuMemGetAllocationGranularity)                                                               \
    X(cuMemAddressReserve)                                                                         \
    X(cuMemAddressFree)                                                                            \
    X(cuMemCreate)                                                                                 \
    X(cuMemRelease)                                                                                \
    X(cuMemMap)                                                                                    \
    X(cuMemUnmap)                                                                                  \
    X(cuMemSetAccess)                                                                              \
    X(cuMemHostAlloc)                                                                              \
    X(cuMemFreeHost)                                                                               \
    X(cuMemcpyHtoDAsync)                                                                           \
    X(cuMemcpyDtoHAsync)                                                                           \
    X(cuMemcpyDtoDAsync)                                                                           \
    X(cuMemsetD8Async)                                                                             \
    X(cuCtxGetStreamPriorityRange)                                                                 \
    X(cuStreamCreateWithPriority)                                                                  \
    X(cuStreamDestroy)                                                                             \
    X(cuStreamSynchronize)                                                                         \
    X(cuStreamQuery)                                                                               \
    X(cuStreamWaitEvent)                                                                           \
    X(cuStreamWriteValue64)                                                                        \
    X(cuStreamBeginCapture)                                                                        \
    X(cuStreamEndCapture)                                                                          \
    X(cuEventCreate)                                                                               \
    X(cuEventDestroy)                                                                              \
    X(cuEventRecord)                                                                               \
    X(cuEventQuery)                                                                                \
    X(cuEventSynchronize)                                                                          \
    X(cuEventElapsedTime)                                                                          \
    X(cuGraphInstantiate)                                                                          \
    X(cuGraphLaunch)                                                                               \
    X(cuGraphExecDestroy)                                                                          \
    X(cuGraphDestroy)

typedef struct cuda_driver {
#define CUDA_FIELD(function) __typeof__(function) *function;
    CUDA_DRIVER_FUNCTIONS(CUDA_FIELD)
#undef CUDA_FIELD
} cuda_driver;

/* Opens the library (a name or a path) and fills the table. A library or a function that is not
 * there is an input error that says what was looked for. */
weft_status cuda_driver_open(cuda_driver *driver, const char *library, weft_error *err);
/* As dlopen, with the same error. `what` it is, `remedy` for whoever has none. */
weft_status cuda_library_open(void **handle, const char *library, const char *what,
                              const char *remedy, weft_error *err);
weft_status cuda_library_find(void *handle, const char *library, const char *symbol, void **found,
                              weft_error *err);

/* ---- kernels ---- */

typedef enum cuda_kernel {
#define CUDA_NUMBER(file, name, threads) CUDA_KERNEL_##name,
    CUDA_KERNELS(CUDA_NUMBER)
#undef CUDA_NUMBER
        CUDA_N_KERNELS
} cuda_kernel;

typedef struct cuda_products cuda_products;
typedef struct cuda_dnn cuda_dnn;

/* What launches learn about their rank: call->queue. */
struct weft_queue {
    const cuda_driver *driver;
    const CUfunction *functions; /* by cuda_kernel; NULL until the device is open */
    CUstream stream;
    cuda_products *products;  /* NULL until the device is open */
    cuda_dnn *dnn;            /* NULL: it is not used, or not there, or the device is not open */
    bool dnn_planned;         /* attention has memory for it */
    bool dnn_must;            /* and is its, else only if it is there */
    double dnn_rate;          /* times as fast as ours, on the GPU that is planned for */
    bool pairs;               /* two products of one x may be one launch */
    bool loads;               /* products are launched once before the first step, see timing.c */
    bool planned;             /* it is said for which GPU: */
    bool narrow, narrow_rows; /* the GPU that is planned for multiplies values in 8 bits, and by a
                                 scale for each row */
    double slow;              /* operations of the largest attention without matrix instructions */
    bool careful;             /* wait behind every launch, so that an error is named where it is: */
    const weft_host *host;    /* with whose patience; NULL: any */
    weft_device_event *behind;
    struct weft_queue *next; /* of those that a transport asked for */
};

/* Enqueues a kernel. An empty grid is nothing to do. */
weft_status cuda_launch(const weft_queue *queue, cuda_kernel kernel, const void *args, int64_t grid,
                        weft_error *err);
weft_status cuda_launch_grid(const weft_queue *queue, cuda_kernel kernel, const void *args,
                             const int64_t grid[3], size_t shared_bytes, weft_error *err);
/* Enqueues a copy, or a fill with zeros, where both sides are the GPU's. */
weft_status cuda_box_move(const weft_queue *queue, const weft_box *box, weft_error *err);
const char *cuda_kernel_name(cuda_kernel kernel);
/* Threads of a block. */
int cuda_kernel_threads(cuda_kernel kernel);
/* WEFT_OK, or a message of what failed. */
weft_status cuda_check(const cuda_driver *driver, CUresult result, const char *what,
                       weft_error *err);
/* The same of what was put on a queue, which is waited for first where the queue is careful. */
weft_status cuda_enqueued(const weft_queue *queue, CUresult result, const char *what,
                          weft_error *err);

/* The compiled kernels of a file of kernels/, for cuModuleLoadData (modules.c). */
typedef struct cuda_module_image {
    const char *file;
    const void *image;
} cuda_module_image;
extern const cuda_module_image cuda_module_images[]; /* file NULL ends */
/* Loads them all; by number of the image and of the kernel. */
weft_status cuda_kernels_load(const cuda_driver *driver, CUmodule *modules, CUfunction *functions,
                              weft_error *err);
/* Which of them a kernel is in. */
const char *cuda_kernel_file(cuda_kernel kernel);

/* Kernels of ops, op NULL ends. */
extern const weft_kernel cuda_kernels[];

cuda_view cuda_view_of(const weft_tensor *t);
/* bf16 at a multiple of 16 bytes, rows of a multiple of 8 elements: see kernels/args.h. */
bool cuda_is_whole(const weft_tensor *t);
/* Are all operands and results at multiples of 16 bytes? */
bool cuda_is_aligned(const weft_call *call);
/* Blocks for so many elements in chunks of 8, or rows a block each. */
int64_t cuda_chunk_blocks(int64_t n);
int64_t cuda_row_blocks(int64_t rows);
int64_t cuda_rows(const weft_tensor *t);
int64_t cuda_width(const weft_tensor *t);
weft_status cuda_check_workspace(const weft_call *call, size_t needed, weft_error *err);

/* ---- launches by family ---- */

/* What an op's name, attributes and extents say is found out in prepare: its state is the arguments
 * of a launch but for addresses, and which kernel has how many blocks. A launch looks at none of
 * these, as test programs check: the host would do it for every instruction of every step. */
typedef weft_status cuda_launcher(const weft_call *call, weft_error *err);
typedef weft_status cuda_preparer(const weft_call *call, void **state, weft_error *err);

/* A copy of what prepare made, for weft_free. */
weft_status cuda_keep(const void *made, size_t bytes, void **state, weft_error *err);

cuda_preparer cuda_elementwise_prepare, cuda_norm_prepare, cuda_columns_prepare,
    cuda_head_norm_prepare, cuda_heads_prepare, cuda_angles_prepare, cuda_rope_prepare,
    cuda_chunk_prepare, cuda_rows_prepare, cuda_loss_prepare, cuda_sum_prepare, cuda_scalar_prepare,
    cuda_adamw_prepare, cuda_quantise_prepare, cuda_history_prepare, cuda_narrow_prepare;
cuda_launcher cuda_elementwise_launch, cuda_chunk_launch, cuda_unchunk_launch;
cuda_launcher cuda_add_norm_launch, cuda_norm_dx_dw_launch;
bool cuda_norm_joins(const weft_call *call);
cuda_launcher cuda_norm_launch, cuda_norm_dw_launch, cuda_angles_launch, cuda_rope_launch;
cuda_launcher cuda_head_norm_launch, cuda_head_norm_dw_launch, cuda_heads_launch;
cuda_launcher cuda_embedding_launch, cuda_embedding_dw_launch, cuda_loss_launch;
cuda_launcher cuda_sum_launch, cuda_scalar_launch, cuda_adamw_launch, cuda_rows_launch;
cuda_launcher cuda_quantise_launch, cuda_history_launch, cuda_narrow_launch;
bool cuda_narrow_accepts(const weft_call *call);
size_t cuda_narrow_workspace(const weft_call *call);
weft_kernel_work cuda_narrow_work(const weft_call *call);
cuda_launcher cuda_attention_launch, cuda_attention_dx_launch, cuda_attention_merge_launch;

size_t cuda_columns_workspace(const weft_call *call);
size_t cuda_head_norm_workspace(const weft_call *call);
size_t cuda_embedding_workspace(const weft_call *call);
weft_kernel_work cuda_pick_work(const weft_call *call);
weft_kernel_work cuda_embedding_work(const weft_call *call);
weft_kernel_work cuda_embedding_dw_work(const weft_call *call);
size_t cuda_sum_workspace(const weft_call *call);
size_t cuda_amax_workspace(const weft_call *call);
size_t cuda_attention_workspace(const weft_call *call);
size_t cuda_attention_dx_workspace(const weft_call *call);
weft_kernel_work cuda_attention_work(const weft_call *call);
weft_kernel_work cuda_attention_dx_work(const weft_call *call);
bool cuda_attention_accepts(const weft_call *call);
/* Asks cuDNN, too, and notes what will be slow. */
cuda_preparer cuda_attention_prepare;
void cuda_attention_release(void *state);
bool cuda_attention_is_by_dnn(const void *state);

/* ---- attention by cuDNN (dnn.h) ---- */

/* A library, opened, and a handle of it. */
weft_status cuda_dnn_create(const char *library, int capability, bool ordered, cuda_dnn **dnn,
                            weft_error *err);
/* Ends the handle; what was prepared may be released until destroy. */
void cuda_dnn_close(cuda_dnn *dnn);
void cuda_dnn_destroy(cuda_dnn *dnn);
size_t cuda_dnn_workspace(const weft_call *call);
size_t cuda_dnn_loads(const weft_call *call);
/* Is this a call that cuDNN is to be asked for? As far as a plan can know. */
bool cuda_dnn_may_take(const weft_call *call);
/* What it would execute, from what our own kernels do. */
weft_kernel_work cuda_dnn_work(const weft_call *call, weft_kernel_work own);
/* *state NULL: our own kernels do it. */
weft_status cuda_dnn_prepare(const weft_call *call, float scale, void **state, weft_error *err);
void cuda_dnn_release(void *state);
weft_status cuda_dnn_launch(const weft_call *call, void *state, weft_error *err);

bool cuda_angles_accepts(const weft_call *call);
bool cuda_rope_accepts(const weft_call *call);
bool cuda_quantise_accepts(const weft_call *call);
bool cuda_chunk_accepts(const weft_call *call);

/* ---- products: cuBLASLt (blas.h) ---- */

/* A library, opened, and a handle of it. log: for whom may be told something; NULL: nobody. */
weft_status cuda_products_create(const char *library, const weft_log *log, cuda_products **products,
                                 weft_error *err);
/* Forward products in 8 bits may be summed faster, in less than f32. */
void cuda_products_hurry(cuda_products *products, bool fast);
/* Ends the handle; what was prepared may be released until destroy. */
void cuda_products_close(cuda_products *products);
void cuda_products_destroy(cuda_products *products);
/* The most workspace that a product is given. */
enum { CUDA_PRODUCT_WORKSPACE = 32 << 20 };

bool cuda_product_accepts(const weft_call *call);
size_t cuda_product_workspace(const weft_call *call);
weft_status cuda_product_prepare(const weft_call *call, void **state, weft_error *err);
size_t cuda_product_loads(const weft_call *call);
void cuda_product_release(void *state);
weft_status cuda_product_launch(const weft_call *call, weft_error *err);
/* linear_each and its gradients (product_each.c). */
bool cuda_each_accepts(const weft_call *call);
size_t cuda_each_workspace(const weft_call *call);
size_t cuda_each_loads(const weft_call *call);
weft_kernel_work cuda_each_work(const weft_call *call);
weft_status cuda_each_prepare(const weft_call *call, void **state, weft_error *err);
void cuda_each_release(void *state);
weft_status cuda_each_launch(const weft_call *call, weft_error *err);

/* linear_pair and linear_pair_dw (product_pair.c). */
bool cuda_pair_accepts(const weft_call *call);
size_t cuda_pair_workspace(const weft_call *call);
size_t cuda_pair_loads(const weft_call *call);
weft_kernel_work cuda_pair_work(const weft_call *call);
weft_status cuda_pair_prepare(const weft_call *call, void **state, weft_error *err);
void cuda_pair_release(void *state);
weft_status cuda_pair_launch(const weft_call *call, weft_error *err);

/* ---- experts (ops_experts.c, product_grouped.c) ---- */

cuda_launcher cuda_route_launch, cuda_route_dx_launch, cuda_router_sums_launch,
    cuda_router_dx_launch, cuda_router_z_launch, cuda_assign_launch, cuda_to_slots_launch,
    cuda_from_slots_launch, cuda_slot_scale_launch, cuda_slot_dot_launch, cuda_load_launch,
    cuda_grouped_launch;
cuda_preparer cuda_route_prepare, cuda_assign_prepare, cuda_to_slots_prepare,
    cuda_from_slots_prepare, cuda_load_prepare, cuda_grouped_prepare;
bool cuda_route_accepts(const weft_call *call);
bool cuda_assign_accepts(const weft_call *call);
bool cuda_to_slots_accepts(const weft_call *call);
bool cuda_from_slots_accepts(const weft_call *call);
bool cuda_load_accepts(const weft_call *call);
bool cuda_grouped_accepts(const weft_call *call);
size_t cuda_router_sums_workspace(const weft_call *call);
size_t cuda_router_z_workspace(const weft_call *call);
size_t cuda_assign_workspace(const weft_call *call);
size_t cuda_to_slots_workspace(const weft_call *call);
size_t cuda_grouped_workspace(const weft_call *call);
weft_kernel_work cuda_slots_work(const weft_call *call);
weft_kernel_work cuda_grouped_work(const weft_call *call);

/* ---- products in 8 bits ---- */

/* How many are widened, by kind, if any are. */
void cuda_f8_products_tell(const cuda_products *products);
/* The same as reports: how many, none if there is no such product. */
int cuda_f8_products_count(const cuda_products *products, weft_report *list);
bool cuda_f8_product_accepts(const weft_call *call);
size_t cuda_f8_product_workspace(const weft_call *call);
weft_kernel_work cuda_f8_product_work(const weft_call *call);
size_t cuda_f8_product_loads(const weft_call *call);
weft_status cuda_f8_product_check(const weft_call *call, weft_error *err);
weft_status cuda_f8_product_prepare(const weft_call *call, void **state, weft_error *err);
void cuda_f8_product_release(void *state);
weft_status cuda_f8_product_launch(const weft_call *call, weft_error *err);

#endif
