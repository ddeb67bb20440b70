/* SPDX-License-Identifier: Apache-2.0 */
/* cuda: one NVIDIA GPU, by its driver. What is enqueued is in memory.c and order.c. */
#include "device.h"
#include "dnn.h"

#include <string.h>
#include <unistd.h>

#define DRIVER   "libcuda.so.1"
#define CUBLASLT "libcublasLt.so.13"
#define CUDNN    "libcudnn.so.9"
#define CUDNN_PARTS                                                                                \
    "libcudnn_graph.so.9 libcudnn_heuristic.so.9 libcudnn_engines_precompiled.so.9 "               \
    "libcudnn_engines_runtime_compiled.so.9 libcudnn_engines_tensor_ir.so.9 libnvrtc.so.13"

static const char *const automatic[] = {"auto", NULL};

static const weft_param params[] = {
    {.name = "device",
     .type = WEFT_PARAM_INT,
     .value = "auto",
     .min = 0,
     .max = 1023,
     .choices = automatic,
     .flags = WEFT_PARAM_PER_RANK,
     .help = "Number of the GPU, among those that CUDA_VISIBLE_DEVICES leaves; auto: one for each "
             "process of a host, the first for the first; the only one, if there is one."},
    {.name = "gpu",
     .type = WEFT_PARAM_STRING,
     .value = "auto",
     .flags = WEFT_PARAM_LIST | WEFT_PARAM_FILE,
     .help = "Which GPU `weft plan` is to predict times for, whether there is one or not: a100, "
             "h100, h100-500w, h200, b200, 4090 or a file of your own, and what differs from it, "
             "as h100 bandwidth=2.4e12; auto: no prediction."},
    {.name = "kernels",
     .type = WEFT_PARAM_CHOICE,
     .value = "auto",
     .choices = (const char *const[]){"auto", "plain", NULL},
     .help = "auto: the GPU computes; plain: the reference kernels on the host, slow and exact."},
    {.name = "graphs",
     .type = WEFT_PARAM_CHOICE,
     .value = "yes",
     .choices = (const char *const[]){"yes", "no", "check", NULL},
     .help = "yes: what a task enqueues is captured and launched at once; no: one by one; check: "
             "one by one, waiting behind each, so that an error is named where it is."},
    {.name = "memory",
     .type = WEFT_PARAM_CHOICE,
     .value = "plain",
     .choices = (const char *const[]){"plain", "exportable", NULL},
     .help =
         "plain: memory of this process, by cuMemAlloc; exportable: memory that other processes "
         "can map, by the driver's virtual memory management, in whole pages of 2 MiB: what "
         "[nccl] register = windows needs."},
    {.name = "products",
     .type = WEFT_PARAM_CHOICE,
     .value = "heuristic",
     .choices = (const char *const[]){"heuristic", "timed", NULL},
     .help = "How algorithms of matrix products are chosen: by cuBLASLt's heuristics; or by timing "
             "those that it puts first, once, and keeping the fastest in the user's cache folder."},
    {.name = "pairs",
     .type = WEFT_PARAM_CHOICE,
     .value = "no",
     .choices = (const char *const[]){"no", "yes", NULL},
     .help =
         "yes: where the plugin join is listed, two products of one x with weights of one shape "
         "(gate and up, k and v) are one launch, and their weights' gradients another; no GPU "
         "has measured whether that is faster."},
    {.name = "attention",
     .type = WEFT_PARAM_CHOICE,
     .value = "auto",
     .choices = (const char *const[]){"auto", "own", "cudnn", NULL},
     .help =
         "Who computes attention in bf16 of samples that are one document: own: weft's kernels; "
         "cudnn: NVIDIA's cuDNN, which must be there; auto: cuDNN if it is there."},
    {.name = "attention_sums",
     .type = WEFT_PARAM_CHOICE,
     .value = "any",
     .choices = (const char *const[]){"any", "ordered", NULL},
     .help = "In which order cuDNN sums gradients of queries: any, which differs from run to run; "
             "ordered: always the same, slower, or by weft's kernels where cuDNN cannot."},
    {.name = "f8_sums",
     .type = WEFT_PARAM_CHOICE,
     .value = "f32",
     .choices = (const char *const[]){"f32", "fast", NULL},
     .help = "How forward products of values in 8 bits are summed: in f32; fast: as the matrix "
             "instructions like it, in fewer bits. Gradients' are summed in f32."},
    {.name = "driver",
     .type = WEFT_PARAM_STRING,
     .value = DRIVER,
     .flags = WEFT_PARAM_ADVANCED | WEFT_PARAM_PER_RANK | WEFT_PARAM_LIBRARY,
     .help = "Name or path of NVIDIA's driver library."},
    {.name = "cublaslt",
     .type = WEFT_PARAM_STRING,
     .value = CUBLASLT,
     .flags = WEFT_PARAM_ADVANCED | WEFT_PARAM_PER_RANK | WEFT_PARAM_LIBRARY,
     .help = "Name or path of the library that multiplies matrices."},
    {.name = "cudnn",
     .type = WEFT_PARAM_STRING,
     .value = CUDNN,
     .flags = WEFT_PARAM_ADVANCED | WEFT_PARAM_PER_RANK | WEFT_PARAM_LIBRARY,
     .help = "Name or path of the library that computes attention."},
    {.name = "cudnn_parts",
     .type = WEFT_PARAM_STRING,
     .value = CUDNN_PARTS,
     .flags = WEFT_PARAM_LIST | WEFT_PARAM_ADVANCED | WEFT_PARAM_PER_RANK | WEFT_PARAM_LIBRARY,
     .help = "Libraries that this one opens by itself: under a lock they are vetted, too."},
    {.name = NULL},
};

/* ---- life ---- */

static weft_status cuda_create(void *self, weft_error *err)
{
    cuda *c = self;
    const weft_host *host = c->host;
    c->plain = weft_params_is(host->params, "kernels", "plain");
    c->timed = weft_params_is(host->params, "products", "timed");
    c->own = weft_params_is(host->params, "attention", "own");
    c->must = weft_params_is(host->params, "attention", "cudnn");
    c->ordered = weft_params_is(host->params, "attention_sums", "ordered");
    c->capture = weft_params_is(host->params, "graphs", "yes");
    c->exports = weft_params_is(host->params, "memory", "exportable");
    weft_status s = cuda_gpu_read(host->params, &c->profile, &c->gpu, err);
    for (int i = 0; i < CUDA_QUEUES; i++) {
        c->queues[i].careful = weft_params_is(host->params, "graphs", "check");
        c->queues[i].loads = host->ranks > 1;
        c->queues[i].pairs = weft_params_is(host->params, "pairs", "yes");
        c->queues[i].planned = c->gpu.rates.name != NULL;
        c->queues[i].dnn_planned = !c->own && !c->plain;
        c->queues[i].dnn_must = c->must;
        c->queues[i].dnn_rate = c->gpu.rates.library_attention;
        c->queues[i].narrow = c->gpu.rates.narrow;
        c->queues[i].narrow_rows = c->gpu.rates.narrow_rows;
    }
    return s;
}

/* Where a rank is. Ranks that are threads of one process share its GPU. */
typedef struct place {
    char host[64];
    int64_t process;
} place;

/* How many other processes of this host have a rank below this process's first. */
static weft_status count_before(const cuda *c, int *n, weft_error *err)
{
    const weft_host *host = c->host;
    place mine = {.process = getpid()};
    place *all = weft_alloc_zero((size_t)host->ranks, sizeof *all);
    if (!all)
        return weft_fail_memory(err);
    if (gethostname(mine.host, sizeof mine.host - 1) != 0)
        *mine.host = '\0';
    weft_status s = host->exchange(host, &mine, sizeof mine, all, err);
    *n = 0;
    for (int r = 0; r < host->ranks && !s && memcmp(&all[r], &mine, sizeof mine); r++) {
        bool first = strcmp(all[r].host, mine.host) == 0;
        for (int i = 0; i < r && first; i++)
            first = memcmp(&all[i], &all[r], sizeof all[i]) != 0;
        *n += first;
    }
    weft_free(all);
    return s;
}

static weft_status choose_device(const cuda *c, int gpus, int *wanted, weft_error *err)
{
    int before = 0;
    weft_status s = count_before(c, &before, err);
    bool given = !weft_params_is(c->host->params, "device", "auto");
    *wanted = given ? (int)weft_params_int(c->host->params, "device") : gpus == 1 ? 0 : before;
    if (s || given || *wanted < gpus)
        return s;
    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                     "rank %d is process number %d of this host, which has %d GPUs; start one "
                     "process for each GPU",
                     c->host->rank, before + 1, gpus);
}

/* A driver runs what compilers of its own major version made, and older ones. */
static weft_status check_driver(const cuda *c, weft_error *err)
{
    int version = 0;
    weft_status s =
        cuda_check(&c->driver, c->driver.cuDriverGetVersion(&version), "cuDriverGetVersion", err);
    if (s || version / 1000 >= CUDA_VERSION / 1000)
        return s;
    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                     "NVIDIA's driver here is one for CUDA %d.%d, and weft's kernels were compiled "
                     "by CUDA %d.%d; install a driver for CUDA %d.0 or later, or build weft with "
                     "an older CUDA (--with-cuda=DIR)",
                     version / 1000, version % 1000 / 10, CUDA_VERSION / 1000,
                     CUDA_VERSION % 1000 / 10, CUDA_VERSION / 1000);
}

static weft_status find_device(cuda *c, weft_error *err)
{
    const cuda_driver *d = &c->driver;
    int n = 0, wanted = 0;
    CUresult r = d->cuInit(0);
    if (r == CUDA_SUCCESS)
        r = d->cuDeviceGetCount(&n);
    if (r == CUDA_ERROR_NO_DEVICE || (r == CUDA_SUCCESS && n == 0))
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "NVIDIA's driver is here, but it finds no GPU; see nvidia-smi and "
                         "CUDA_VISIBLE_DEVICES, or list cpu instead of cuda");
    weft_status s = cuda_check(d, r, "NVIDIA's driver does not start", err);
    s = s ? s : check_driver(c, err);
    s = s ? s : choose_device(c, n, &wanted, err);
    if (s)
        return s;
    if (wanted >= n)
        return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(c->host->params, "device"),
                         "[cuda] device = %d, but there are %d GPUs; the last is number %d", wanted,
                         n, n - 1);
    return cuda_check(d, d->cuDeviceGet(&c->number, wanted), "cuDeviceGet", err);
}

/* 90: Hopper. */
static weft_status check_capability(const cuda *c, int *capability, weft_error *err)
{
    const cuda_driver *d = &c->driver;
    int major = 0, minor = 0;
    weft_status s = cuda_check(
        d, d->cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, c->number),
        "cuDeviceGetAttribute", err);
    if (!s)
        s = cuda_check(d,
                       d->cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                                               c->number),
                       "cuDeviceGetAttribute", err);
    *capability = 10 * major + minor;
    if (s || major >= 8)
        return s;
    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                     "this GPU's compute capability begins with %d; weft's kernels need 8.0 "
                     "(A100) or later",
                     major);
}

/* Two versions need not give the same bits, and only one rank might have any. */
static weft_status agree_on_dnn(const cuda *c, weft_error *err)
{
    const weft_host *host = c->host;
    const int64_t mine = c->dnn ? (int64_t)c->dnn->api.cudnnGetVersion() : 0;
    int64_t *all = weft_alloc_zero((size_t)host->ranks, sizeof *all);
    if (!all)
        return weft_fail_memory(err);
    weft_status s = host->exchange(host, &mine, sizeof mine, all, err);
    for (int r = 0; r < host->ranks && !s; r++)
        if (all[r] != all[0])
            s = weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                          "attention by cuDNN: rank 0 has version %lld and rank %d has %lld (0: "
                          "none that can be opened); install the same everywhere, or set [cuda] "
                          "attention = own",
                          (long long)all[0], r, (long long)all[r]);
    weft_free(all);
    return s;
}

static void cuda_close(void *self);

/* Empty: not set. */
static const char *text_or(const cuda *c, const char *key, const char *preset)
{
    const char *text = weft_params_text(c->host->params, key);
    return *text ? text : preset;
}

/* Under a lock what cuDNN opens by itself is opened ahead of it. A part that the lock does not know
 * may be one that this version does not have. */
static weft_status open_dnn_parts(const cuda *c, weft_error *err)
{
    const char *name, *path;
    weft_status s = WEFT_OK;
    for (int i = 0; !s && (name = weft_params_word(c->host->params, "cudnn_parts", i)); i++) {
        weft_error why = {0};
        s = weft_library_find(c->host, name, &path, &why);
        if (s && path != name)
            s = weft_fail(err, s, WEFT_NOWHERE, "%s", weft_error_text(&why));
        else
            s = WEFT_OK;
        weft_error_release(&why);
    }
    return s;
}

weft_status cuda_dnn_check_mapped(const cuda *c, weft_error *err)
{
    const char *library;
    return c->dnn ? weft_library_find(c->host, text_or(c, "cudnn", CUDNN), &library, err) : WEFT_OK;
}

/* auto: without it is no error, but is said. */
static weft_status open_dnn(cuda *c, int capability, weft_error *err)
{
    weft_error why = {0};
    const char *library;
    if (c->own || c->plain)
        return WEFT_OK;
    weft_status s = weft_library_find(c->host, text_or(c, "cudnn", CUDNN), &library, &why);
    s = s ? s : open_dnn_parts(c, &why);
    s = s ? s : cuda_dnn_create(library, capability, c->ordered, &c->dnn, &why);
    if (s && c->must)
        s = weft_fail(err, s, weft_params_where(c->host->params, "attention"),
                      "[cuda] attention = cudnn: %s", weft_error_text(&why));
    else if (s && c->host->rank == 0)
        weft_log_print(c->host->log, WEFT_LOG_INFO,
                       "cuda: attention is computed by weft's own kernels, which are slower than "
                       "cuDNN's: %s",
                       weft_error_text(&why));
    weft_error_release(&why);
    for (int i = 0; i < CUDA_QUEUES; i++)
        c->queues[i].dnn = c->dnn;
    return s && c->must ? s : agree_on_dnn(c, err);
}

static weft_status cuda_open(void *self, weft_error *err)
{
    cuda *c = self;
    const cuda_driver *d = &c->driver;
    const char *driver, *blas;
    int capability = 0;
    weft_status s = weft_library_find(c->host, text_or(c, "driver", DRIVER), &driver, err);
    s = s ? s : weft_library_find(c->host, text_or(c, "cublaslt", CUBLASLT), &blas, err);
    s = s ? s : cuda_driver_open(&c->driver, driver, err);
    if (s)
        return s;
    c->open = true;
    s = find_device(c, err);
    if (!s)
        s = check_capability(c, &capability, err);
    if (!s)
        s = cuda_check(d, d->cuDevicePrimaryCtxRetain(&c->context, c->number),
                       "the GPU cannot be used", err);
    if (!s)
        s = cuda_check(d, d->cuCtxSetCurrent(c->context), "cuCtxSetCurrent", err);
    if (!s)
        s = cuda_export_open(c, err);
    if (!s)
        s = cuda_products_create(blas, c->host->rank == 0 ? c->host->log : NULL, &c->products, err);
    if (!s)
        cuda_products_hurry(c->products, weft_params_is(c->host->params, "f8_sums", "fast"));
    if (!s)
        s = open_dnn(c, capability, err);
    if (!s)
        s = cuda_kernels_load(&c->driver, c->modules, c->functions, err);
    if (!s)
        s = cuda_queues_open(c, err);
    if (s)
        cuda_close(c);
    return s;
}

/* After an error of the GPU everything here fails, too, and there is nobody left to tell. */
static void cuda_close(void *self)
{
    cuda *c = self;
    const cuda_driver *d = &c->driver;
    if (!c->open)
        return;
    c->open = false;
    cuda_forget(c);
    cuda_queues_close(c);
    for (int i = 0; cuda_module_images[i].file; i++)
        if (c->modules[i])
            d->cuModuleUnload(c->modules[i]);
    cuda_products_close(c->products);
    cuda_dnn_close(c->dnn);
    if (c->context)
        d->cuDevicePrimaryCtxRelease(c->number);
    c->context = NULL;
}

static void cuda_destroy(void *self)
{
    cuda_products_destroy(((cuda *)self)->products);
    cuda_dnn_destroy(((cuda *)self)->dnn);
    weft_profile_destroy(((cuda *)self)->profile);
}

/* ---- what the device says of itself ---- */

static weft_queue *device_queue(void *self, int i)
{
    return &((cuda *)self)->queues[i];
}

static bool device_plain(void *self)
{
    return ((const cuda *)self)->plain;
}

static void device_describe(void *self, weft_text *text)
{
    cuda *c = self;
    char name[128] = "a GPU";
    size_t bytes = 0;
    int version = 0;
    if (!c->open) {
        weft_text_add(text, "an NVIDIA GPU, which is not open");
        return;
    }
    c->driver.cuDeviceGetName(name, sizeof name, c->number);
    c->driver.cuDeviceTotalMem(&bytes, c->number);
    c->driver.cuDriverGetVersion(&version);
    weft_text_print(text, "%s: %.1f GiB, driver for CUDA %d.%d", name,
                    (double)bytes / (1024.0 * 1024 * 1024), version / 1000, version % 1000 / 10);
    if (c->plain)
        weft_text_add(text, ", plain kernels on the host");
}

static size_t device_library_bytes(void *self, int64_t captured)
{
    const cuda *c = self;
    return weft_gpu_bytes(&c->gpu.rates, c->capture ? captured : 0) +
           (c->exports ? cuda_gpu_rounding_bytes() : 0);
}

static bool device_exportable(void *self)
{
    return ((const cuda *)self)->exports;
}

static bool device_rates(void *self, weft_device_rates *rates)
{
    const cuda *c = self;
    *rates = c->gpu.rates;
    rates->keeps_none = !c->capture;
    return c->gpu.rates.name != NULL;
}

static size_t device_peak_bytes(void *self)
{
    return ((const cuda *)self)->most;
}

static int device_counts(void *self, weft_report *list)
{
    return cuda_f8_products_count(((const cuda *)self)->products, list);
}

static const weft_device device = {
    .size = sizeof(weft_device),
    .name = "cuda",
    .n_queues = CUDA_QUEUES,
    .shared = true,
    .alignment = 256,
    .head_tokens = 4096,
    .alloc = cuda_alloc,
    .free = cuda_free,
    .alloc_host = cuda_alloc_host,
    .free_host = cuda_free_host,
    .upload = cuda_upload,
    .download = cuda_download,
    .move = cuda_move,
    .reduce = cuda_reduce,
    .queue = device_queue,
    .event_create = cuda_event_create,
    .event_destroy = cuda_event_destroy,
    .timed_event_create = cuda_timed_event_create,
    .elapsed = cuda_elapsed,
    .record = cuda_record,
    .await = cuda_await,
    .poll = cuda_poll,
    .wait = cuda_wait,
    .vendor = "cuda",
    .stream = cuda_stream,
    .queue_create = cuda_queue_create,
    .queue_destroy = cuda_queue_destroy,
    .begin = cuda_begin,
    .end = cuda_end,
    .forget = cuda_forget,
    .settle = cuda_settle,
    .tag = cuda_tag,
    .reached = cuda_reached,
    .peak = cuda_peak,
    .plain = device_plain,
    .exportable = device_exportable,
    .describe = device_describe,
    .library_bytes = device_library_bytes,
    .rates = device_rates,
    .peak_bytes = device_peak_bytes,
    .counts = device_counts,
};

static const weft_contribution contributions[] = {
    {.kind = WEFT_SERVICE,
     .gives = (const char *const[]){"device", NULL},
     .service = "device",
     .table = &device},
    {.kind = WEFT_END},
};

WEFT_PLUGIN(cuda) = {
    WEFT_PLUGIN_HEAD,
    .name = "cuda",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "an NVIDIA GPU: kernels of our own, matrix products by cuBLASLt",
    .numerics = WEFT_NUMERICS_TOLERANCE,
    .params = params,
    .contributions = contributions,
    .kernels = cuda_kernels,
    .self_size = WEFT_SELF(cuda),
    .create = cuda_create,
    .open = cuda_open,
    .close = cuda_close,
    .destroy = cuda_destroy,
};
