/* SPDX-License-Identifier: Apache-2.0 */
/* cpu: the device that every machine has. Memory is the host's, kernels compute at once in the
 * calling thread and its OpenMP team. */
#include "cpu.h"
#include "matmul.h"

#include <string.h>

#include <weft/files.h>

typedef struct cpu {
    const weft_host *host;
    bool plain;
    uint64_t adversary; /* 0: in order */
    weft_queue queues[CPU_MAX_QUEUES];
    cpu_scratches scratches;
} cpu;

static const weft_param params[] = {
    {.name = "kernels",
     .type = WEFT_PARAM_CHOICE,
     .value = "auto",
     .choices = (const char *const[]){"auto", "plain", NULL},
     .help =
         "auto: the fastest kernel for every op; plain: the reference kernels, slow and exact."},
    {.name = "products",
     .type = WEFT_PARAM_CHOICE,
     .value = "auto",
     .choices = (const char *const[]){"auto", "bf16", "f32", NULL},
     .flags = WEFT_PARAM_PER_RANK,
     .help = "How bf16 matrices are multiplied: in bf16, or widened to f32; auto: bf16 where the "
             "CPU has AVX512-BF16 or AMX."},
    {.name = "queues",
     .type = WEFT_PARAM_CHOICE,
     .value = "one",
     .choices = (const char *const[]){"one", "adversarial", NULL},
     .flags = WEFT_PARAM_ADVANCED,
     .help = "adversarial: a test of the program's order: two queues, run as far out of order as "
             "they are allowed to."},
    {.name = "adversary_seed",
     .type = WEFT_PARAM_INT,
     .value = "1",
     .min = 1,
     .max = 9007199254740992.0,
     .flags = WEFT_PARAM_ADVANCED,
     .when = "queues=adversarial",
     .help = "Seed of the adversarial order."},
    {.name = NULL},
};

/* ---- life ---- */

static cpu_products products_of(const weft_params *values)
{
    if (weft_params_is(values, "products", "bf16"))
        return CPU_PRODUCTS_BF16;
    if (weft_params_is(values, "products", "f32"))
        return CPU_PRODUCTS_F32;
    return cpu_has_bf16() ? CPU_PRODUCTS_BF16 : CPU_PRODUCTS_F32;
}

static weft_status cpu_create(void *self, weft_error *err)
{
    (void)err;
    cpu *c = self;
    const weft_host *host = c->host;
    c->plain = weft_params_is(host->params, "kernels", "plain");
    if (weft_params_is(host->params, "queues", "adversarial"))
        c->adversary = (uint64_t)weft_params_int(host->params, "adversary_seed");
    for (int i = 0; i < CPU_MAX_QUEUES; i++)
        c->queues[i] = (weft_queue){.threads = cpu_team_limit(host->threads),
                                    .products = products_of(host->params),
                                    .amx = cpu_may_use_amx(),
                                    .scratches = &c->scratches};
    return WEFT_OK;
}

/* The rank's own thread opens; it is the one that will launch. */
static weft_status open_team(cpu *c, weft_error *err)
{
    int planned = c->queues[0].threads, given;
    weft_status s = cpu_team_probe(planned, &given, err);
    if (s)
        return s;
    for (int i = 0; i < CPU_MAX_QUEUES; i++)
        c->queues[i].threads = given;
    cpu_team_begin(given); /* kernels of other plugins may not say how many they want */
    if (given < c->host->threads)
        weft_log_print(c->host->log, WEFT_LOG_WARN,
                       "OpenMP gives this rank %d of %d threads (see OMP_THREAD_LIMIT in the "
                       "environment); it goes on with %d",
                       given, c->host->threads, given);
    return WEFT_OK;
}

#ifdef WEFT_ONEDNN
#define PRODUCTS "matrix products by oneDNN"
#define NEEDS    ""
#else
#define PRODUCTS "matrix products of our own (built without oneDNN: slower)"
#define NEEDS    " in a weft built without oneDNN"
#endif

static weft_status cpu_open(void *self, weft_error *err)
{
    cpu *c = self;
    weft_status s = open_team(c, err);
    if (!s && weft_params_is(c->host->params, "products", "bf16") && !cpu_can_bf16())
        s = weft_fail(
            err, WEFT_ERR_INPUT, weft_params_where(c->host->params, "products"),
            "[cpu] products = bf16, but there are no bf16 products on this CPU (%s)%s; use "
            "auto or f32",
            cpu_isa_name(cpu_isa_get()), NEEDS);
    return s;
}

static void cpu_close(void *self)
{
    (void)self;
}

/* ---- the device ---- */

static void print_left(const weft_host_room *room, weft_text *text)
{
    const bool of_group = room->group < room->machine;
    weft_text_add(text, of_group ? "; its control group has " : "; it has ");
    weft_print_bytes(text, (double)(of_group ? room->group : room->machine));
    weft_text_add(text, " left");
}

/* Disks read into whole pages without a copy, and faster into large ones, which take several times
 * as long to get. */
enum { PAGE = 4096 };

static void *allocate(const weft_host *host, size_t bytes)
{
    void *far_self;
    const weft_far *far = host->service(host, "far", &far_self);
    return far && !far->in_host_memory ? weft_alloc_pages(bytes)
                                       : weft_alloc_aligned(bytes < PAGE ? 64 : PAGE, bytes);
}

/* By all threads: the system gives a page when it is first written, which takes as long as a copy
 * of it or longer. */
static void clear(char *memory, size_t bytes, int threads)
{
    const size_t piece = (size_t)16 << 20;
    const int64_t n = (int64_t)((bytes + piece - 1) / piece);
#pragma omp parallel for schedule(static) num_threads(threads) if (n > 1)
    for (int64_t i = 0; i < n; i++) {
        const size_t at = (size_t)i * piece;
        memset(memory + at, 0, bytes - at < piece ? bytes - at : piece);
    }
}

static weft_status device_alloc(void *self, size_t bytes, void **memory, weft_error *err)
{
    const cpu *c = self;
    const weft_host_room room = weft_find_host_room("");
    const bool fits = bytes <= room.machine && bytes <= room.group;
    weft_text left = {0};
    /* a kernel that promises too much would kill us later */
    void *p = fits ? allocate(c->host, bytes) : NULL;
    if (!p) {
        if (!fits)
            print_left(&room, &left);
        weft_status s = weft_fail(err, WEFT_ERR_MEMORY, WEFT_NOWHERE,
                                  "out of memory: the host cannot give %zu bytes%s", bytes,
                                  weft_text_get(&left));
        weft_text_release(&left);
        return s;
    }
    clear(p, bytes, c->queues[0].threads);
    *memory = p;
    return WEFT_OK;
}

static void device_free(void *self, void *memory, size_t bytes)
{
    (void)self, (void)bytes;
    weft_free_aligned(memory);
}

static weft_status device_upload(void *self, weft_queue *queue, void *to, const void *from_host,
                                 size_t bytes, weft_error *err)
{
    (void)self, (void)queue, (void)err;
    if (bytes > 0)
        memmove(to, from_host, bytes);
    return WEFT_OK;
}

static weft_status device_download(void *self, weft_queue *queue, void *to_host, const void *from,
                                   size_t bytes, weft_error *err)
{
    return device_upload(self, queue, to_host, from, bytes, err);
}

static weft_status device_move(void *self, weft_queue *queue, const weft_box *boxes, int n,
                               weft_error *err)
{
    (void)self, (void)queue, (void)err;
    weft_boxes_move(boxes, n);
    return WEFT_OK;
}

static weft_status device_reduce(void *self, weft_queue *queue, const weft_reduction *r,
                                 weft_error *err)
{
    (void)self, (void)queue, (void)err;
    weft_reduction_run(r);
    return WEFT_OK;
}

static weft_queue *device_queue(void *self, int i)
{
    cpu *c = self;
    return i >= 0 && i < CPU_MAX_QUEUES ? &c->queues[i] : NULL;
}

static int device_threads(void *self)
{
    return ((const cpu *)self)->queues[0].threads;
}

/* Launches return when they are done. */
static weft_status device_wait(void *self, weft_error *err)
{
    (void)self, (void)err;
    return WEFT_OK;
}

static bool device_plain(void *self)
{
    return ((const cpu *)self)->plain;
}

static uint64_t device_adversary(void *self)
{
    return ((const cpu *)self)->adversary;
}

static double device_peak(void *self, weft_dtype dtype, double reached)
{
    const cpu *c = self;
    return cpu_peak(dtype, &c->queues[0], c->host, reached);
}

static void device_describe(void *self, weft_text *text)
{
    const cpu *c = self;
    cpu_isa isa = cpu_isa_get();
    cpu_model_name(text);
    weft_text_print(text, ": %d thread%s, %s", c->queues[0].threads,
                    c->queues[0].threads == 1 ? "" : "s", cpu_isa_name(isa));
    if (c->plain) {
        weft_text_add(text, ", plain kernels");
    } else {
        bool bf16 = c->queues[0].products == CPU_PRODUCTS_BF16;
        const char *how = !bf16            ? "as f32"
                          : cpu_has_amx()  ? "by AMX"
                          : cpu_has_bf16() ? "by AVX512-BF16"
                                           : "emulated with AVX-512";
        weft_text_print(text, ", bf16 products %s (", how);
        cpu_matmul_library(text);
        weft_text_add(text, ")");
    }
    if (c->adversary)
        weft_text_print(text, ", two queues in adversarial order, seed %llu",
                        (unsigned long long)c->adversary);
}

/* oneDNN keeps compiled kernels, OpenMP a stack per thread (of which little is touched). */
static size_t device_library_bytes(void *self, int64_t captured)
{
    const cpu *c = self;
    (void)captured;
    return ((size_t)16 << 20) + (size_t)c->queues[0].threads * ((size_t)256 << 10);
}

static const weft_device device = {
    .size = sizeof(weft_device),
    .name = "cpu",
    .n_queues = CPU_MAX_QUEUES, /* the second one is of use only in the adversarial order */
    .host_memory = true,
    .shared = true,
    .alloc = device_alloc,
    .free = device_free,
    .upload = device_upload,
    .download = device_download,
    .move = device_move,
    .reduce = device_reduce,
    .queue = device_queue,
    .threads = device_threads,
    .wait = device_wait,
    .plain = device_plain,
    .adversary = device_adversary,
    .peak = device_peak,
    .describe = device_describe,
    .library_bytes = device_library_bytes,
};

static const weft_contribution contributions[] = {
    {.kind = WEFT_SERVICE,
     .gives = (const char *const[]){"device", NULL},
     .service = "device",
     .table = &device},
    {.kind = WEFT_END},
};

WEFT_PLUGIN(cpu) = {
    WEFT_PLUGIN_HEAD,
    .name = "cpu",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "the CPU: OpenMP and vector kernels for every op, " PRODUCTS,
    .numerics = WEFT_NUMERICS_TOLERANCE,
    .params = params,
    .contributions = contributions,
    .kernels = cpu_kernels,
    .self_size = WEFT_SELF(cpu),
    .create = cpu_create,
    .open = cpu_open,
    .close = cpu_close,
};
