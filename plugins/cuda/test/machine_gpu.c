/* SPDX-License-Identifier: Apache-2.0 */
/* How trials run the kernels of the cuda plugin on a GPU, by the driver that WEFT_TEST_CUDA_DRIVER
 * names and the cuBLASLt that WEFT_TEST_CUBLASLT names; attention by the cuDNN of
 * WEFT_TEST_CUDNN, too, if there is one. Every operand has memory of its own between
 * two guards that must stay as they were; WEFT_TEST_EXACT: without guards, so that
 * compute-sanitizer knows its ends. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "blas.h"
#include "device.h"
#include "dnn.h"
#include "machine.h"
#include "trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { GUARD = 1 << 10, MOST_TAKEN = 64, POISON = 0xa5 };

typedef struct taken {
    void *data; /* the host's; NULL: there is none */
    size_t bytes;
    CUdeviceptr memory; /* with its guards */
} taken;

static struct {
    cuda_driver driver;
    CUmodule modules[CUDA_MOST_FILES];
    CUfunction functions[CUDA_N_KERNELS];
    cuda_products *products;
    cuda_dnn *dnn; /* NULL: there is none */
    weft_queue queue;
    taken taken[MOST_TAKEN];
    int n_taken;
    size_t guard;
    char name[256];
} gpu;

static void succeed(CUresult result, const char *what)
{
    weft_error err = {0};
    if (cuda_check(&gpu.driver, result, what, &err))
        fail_msg("%s", weft_error_text(&err));
}

static const char *named(const char *variable, const char *otherwise)
{
    const char *text = getenv(variable);
    return text && *text ? text : otherwise;
}

static void open_context(void)
{
    const cuda_driver *d = &gpu.driver;
    CUdevice device;
    CUcontext context;
    succeed(d->cuInit(0), "cuInit");
    succeed(d->cuDeviceGet(&device, 0), "cuDeviceGet");
    succeed(d->cuDeviceGetName(gpu.name, sizeof gpu.name, device), "cuDeviceGetName");
    succeed(d->cuDevicePrimaryCtxRetain(&context, device), "cuDevicePrimaryCtxRetain");
    succeed(d->cuCtxSetCurrent(context), "cuCtxSetCurrent");
    succeed(d->cuStreamCreateWithPriority(&gpu.queue.stream, CU_STREAM_NON_BLOCKING, 0),
            "a stream");
}

/* With sums in a fixed order: trials are repeated, to the same bits. */
static void open_dnn(void)
{
    weft_error why = {0};
    CUdevice device;
    int major = 0, minor = 0;
    succeed(gpu.driver.cuDeviceGet(&device, 0), "cuDeviceGet");
    gpu.driver.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
    gpu.driver.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
    if (cuda_dnn_create(named("WEFT_TEST_CUDNN", "libcudnn.so.9"), 10 * major + minor, true,
                        &gpu.dnn, &why))
        printf("# no attention by cuDNN: %s\n", weft_error_text(&why));
    weft_error_release(&why);
}

static void open_gpu(void)
{
    weft_error err = {0};
    if (gpu.queue.stream)
        return;
    gpu.guard = *named("WEFT_TEST_EXACT", "") ? 0 : GUARD;
    if (cuda_driver_open(&gpu.driver, named("WEFT_TEST_CUDA_DRIVER", "libcuda.so.1"), &err))
        fail_msg("%s", weft_error_text(&err));
    open_context();
    if (cuda_kernels_load(&gpu.driver, gpu.modules, gpu.functions, &err) ||
        cuda_products_create(named("WEFT_TEST_CUBLASLT", "libcublasLt.so.13"), NULL, &gpu.products,
                             &err))
        fail_msg("%s", weft_error_text(&err));
    gpu.queue.driver = &gpu.driver;
    gpu.queue.functions = gpu.functions;
    gpu.queue.products = gpu.products;
    open_dnn();
}

/* ---- memory ---- */

static CUdeviceptr inside(const taken *t)
{
    return t->memory + gpu.guard;
}

static void upload(CUdeviceptr to, const void *from, size_t bytes)
{
    succeed(gpu.driver.cuMemcpyHtoDAsync(to, from, bytes, gpu.queue.stream), "upload");
}

static void download(void *to, CUdeviceptr from, size_t bytes)
{
    succeed(gpu.driver.cuMemcpyDtoHAsync(to, from, bytes, gpu.queue.stream), "download");
    succeed(gpu.driver.cuStreamSynchronize(gpu.queue.stream), "download");
}

static void *take(void *data, size_t bytes)
{
    size_t whole = bytes + 2 * gpu.guard;
    for (int i = 0; i < gpu.n_taken && data; i++)
        if (gpu.taken[i].data == data)
            return (void *)(uintptr_t)inside(&gpu.taken[i]);
    assert_true(gpu.n_taken < MOST_TAKEN);
    taken *t = &gpu.taken[gpu.n_taken++];
    *t = (taken){.data = data, .bytes = bytes};
    succeed(gpu.driver.cuMemAlloc(&t->memory, whole ? whole : 1), "cuMemAlloc");
    succeed(gpu.driver.cuMemsetD8Async(t->memory, POISON, whole ? whole : 1, gpu.queue.stream),
            "cuMemsetD8");
    if (data && bytes > 0)
        upload(inside(t), data, bytes);
    return (void *)(uintptr_t)inside(t);
}

static void look_at_guard(const taken *t, CUdeviceptr at, const char *where)
{
    unsigned char guard[GUARD];
    if (gpu.guard == 0)
        return;
    download(guard, at, gpu.guard);
    for (size_t i = 0; i < gpu.guard; i++)
        if (guard[i] != POISON)
            fail_msg("something was written %s an operand of %zu bytes (byte %zu of its guard)",
                     where, t->bytes, i);
}

static void give_back(const taken *t)
{
    look_at_guard(t, t->memory, "before");
    look_at_guard(t, inside(t) + t->bytes, "behind");
    if (t->data && t->bytes > 0)
        download(t->data, inside(t), t->bytes);
    succeed(gpu.driver.cuMemFree(t->memory), "cuMemFree");
}

static void return_all(void)
{
    succeed(gpu.driver.cuStreamSynchronize(gpu.queue.stream), "the kernel");
    for (int i = 0; i < gpu.n_taken; i++)
        give_back(&gpu.taken[i]);
    gpu.n_taken = 0;
}

/* ---- the machine ---- */

static const char *name(void)
{
    static char text[512];
    if (!gpu.dnn)
        return *gpu.name ? gpu.name : "no GPU";
    snprintf(text, sizeof text,
             "%s; cuDNN had a plan for %d calls of attention, and none for %d%s%s%s", gpu.name,
             gpu.dnn->taken, gpu.dnn->left, gpu.dnn->left ? " (" : "", gpu.dnn->why,
             gpu.dnn->left ? ")" : "");
    return text;
}

static bool is_by_dnn(const trial *t, int variant_number)
{
    open_gpu();
    return gpu.dnn && variant_number == 1 && t->ins[0].dtype == WEFT_BF16 &&
           (strcmp(t->op->name, "attention") == 0 || strcmp(t->op->name, "attention_dx") == 0);
}

static const char *variant(const trial *t, int i)
{
    return i == 0 ? "on the GPU" : is_by_dnn(t, i) ? "by cuDNN" : NULL;
}

/* Of a pair it is where operands lie that says how many launches there are, and so which bits. */
static int repeats(const trial *t)
{
    return t->op->flags & WEFT_OP_PAIR ? 1 : 2;
}

/* Matrix instructions of Hopper align 32 products in 8 bits to the largest and keep 13 bits of each
 * behind the point: an H100 was off by 1e-5 of the largest. What is widened is summed in f32. */
static double rounding(const trial *t, int i)
{
    (void)i;
    if (!weft_dtype_is_f8(t->ins[0].dtype) || !strstr(t->op->name, "linear"))
        return 0.0;
    for (int n = 0; n < t->n_attrs; n++)
        if (strcmp(t->attrs[n].key, "emulate") == 0 && strcmp(t->attrs[n].text, "yes") == 0)
            return 0.0;
    return 0x1p-11;
}

static void address(const trial *t, int variant_number, int repeat, weft_call *call)
{
    (void)repeat;
    open_gpu();
    gpu.queue.dnn = is_by_dnn(t, variant_number) ? gpu.dnn : NULL;
    gpu.queue.dnn_planned = gpu.queue.dnn;
    gpu.queue.pairs = true;
    cuda_products_hurry(gpu.products, getenv("WEFT_TEST_FAST_SUMS") != NULL);
    call->queue = &gpu.queue;
}

static void take_tensors(weft_tensor *to, const weft_tensor *from, int n)
{
    for (int i = 0; i < n; i++) {
        to[i] = from[i];
        to[i].data = take(from[i].data,
                          (size_t)weft_tensor_count(&from[i]) * weft_dtype_size(from[i].dtype));
    }
}

static weft_status launch(const trial *t, int variant_number, int repeat, const weft_call *call,
                          weft_error *err)
{
    weft_tensor ins[MOST_TENSORS], outs[MOST_TENSORS];
    weft_call there = *call;
    (void)variant_number, (void)repeat;
    take_tensors(ins, call->ins, call->n_ins);
    take_tensors(outs, call->outs, call->n_outs);
    there.ins = ins;
    there.outs = outs;
    there.workspace = take(NULL, call->workspace_bytes);
    weft_status s = t->kernel->launch(&there, err);
    return_all();
    return s;
}

const trial_machine machine = {.kernels = cuda_kernels,
                               .alignment = CUDA_PRODUCT_ALIGNMENT,
                               .ops = machine_ops,
                               .variant = variant,
                               .repeats = repeats,
                               .repeated = "when it is run",
                               .slow = true,
                               .address = address,
                               .launch = launch,
                               .name = name,
                               .rounding = rounding};
