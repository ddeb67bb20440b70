/* SPDX-License-Identifier: Apache-2.0 */
/* An instance of the device, and what the table of functions is made of. */
#ifndef WEFT_CUDA_DEVICE_H
#define WEFT_CUDA_DEVICE_H

#include "gpu.h"

/* Compute, collectives, what stages send each other. */
enum { CUDA_QUEUES = 4, CUDA_MOST_FILES = 32, CUDA_GRAPH_LISTS = 1024 };

/* What is planned for, whether it is there or not (gpus.c). */
typedef struct cuda_gpu {
    weft_device_rates rates; /* name NULL: nobody said which GPU it is */
} cuda_gpu;

/* Reads [cuda] gpu; *profile: NULL before, and the caller's to destroy. */
weft_status cuda_gpu_read(const weft_params *params, weft_profile **profile, cuda_gpu *gpu,
                          weft_error *err);
/* What a run's memory takes beyond what was asked for, at most, where it comes in whole pages. */
size_t cuda_gpu_rounding_bytes(void);

/* What begin and end enclose, captured. */
typedef struct cuda_graph {
    uint64_t key;
    CUgraphExec exec; /* NULL: seen once, run one by one */
    struct cuda_graph *next;
} cuda_graph;

typedef struct cuda {
    const weft_host *host;
    bool plain, capture, open;
    cuda_gpu gpu;
    weft_profile *profile; /* NULL: nobody said which GPU it is */
    bool timed;            /* products: by the clock, not by heuristics */
    cuda_driver driver;
    CUdevice number;
    CUcontext context;
    CUmodule modules[CUDA_MOST_FILES];
    CUfunction functions[CUDA_N_KERNELS];
    cuda_products *products;
    cuda_dnn *dnn;           /* NULL: attention is our own */
    bool own, must, ordered; /* attention is our own; is cuDNN's; its sums have a fixed order */
    weft_queue queues[CUDA_QUEUES];
    weft_queue *extra;       /* those that a transport asked for */
    CUstream zeros;          /* fills memory that is new, and waits for nobody */
    volatile uint64_t *tags; /* [CUDA_QUEUES] what each is at; pages that stay */
    size_t used, most;       /* bytes of device memory */
    bool exports;            /* memory is such that other processes can map it: */
    CUmemAllocationProp export;
    size_t granularity;                   /* it comes in multiples of this */
    cuda_graph *graphs[CUDA_GRAPH_LISTS]; /* by key */
    cuda_graph *current;                  /* between begin and end */
    bool capturing;
    bool abandoned; /* the capture, before its end */
} cuda;

/* ---- export.c ---- */

/* What the GPU has for it; nothing without [cuda] memory = exportable. */
weft_status cuda_export_open(cuda *c, weft_error *err);
/* As cuMemAlloc and cuMemFree. what: the call whose result it is. */
CUresult cuda_export_alloc(cuda *c, size_t bytes, CUdeviceptr *memory, const char **what);
void cuda_export_free(cuda *c, CUdeviceptr memory, size_t bytes);

/* ---- memory.c; as <weft/device.h> says ---- */

weft_status cuda_alloc(void *self, size_t bytes, void **memory, weft_error *err);
void cuda_free(void *self, void *memory, size_t bytes);
weft_status cuda_alloc_host(void *self, size_t bytes, void **memory, weft_error *err);
void cuda_free_host(void *self, void *memory, size_t bytes);
weft_status cuda_upload(void *self, weft_queue *queue, void *to, const void *from_host,
                        size_t bytes, weft_error *err);
weft_status cuda_download(void *self, weft_queue *queue, void *to_host, const void *from,
                          size_t bytes, weft_error *err);
weft_status cuda_move(void *self, weft_queue *queue, const weft_box *boxes, int n, weft_error *err);
weft_status cuda_reduce(void *self, weft_queue *queue, const weft_reduction *r, weft_error *err);

/* ---- queues.c ---- */

weft_status cuda_queues_open(cuda *c, weft_error *err);
void cuda_queues_close(cuda *c);
void *cuda_stream(void *self, weft_queue *queue);
weft_status cuda_queue_create(void *self, weft_queue **queue, weft_error *err);
void cuda_queue_destroy(void *self, weft_queue *queue);
void cuda_tag(void *self, weft_queue *queue, uint64_t tag);
uint64_t cuda_reached(void *self, weft_queue *queue);

/* ---- order.c: events, waiting, what is captured ---- */

weft_status cuda_event_create(void *self, weft_device_event **event, weft_error *err);
weft_status cuda_timed_event_create(void *self, weft_device_event **event, weft_error *err);
weft_status cuda_elapsed(void *self, weft_device_event *from, weft_device_event *to,
                         double *seconds, weft_error *err);
void cuda_event_destroy(void *self, weft_device_event *event);
weft_status cuda_record(void *self, weft_queue *queue, weft_device_event *event, weft_error *err);
weft_status cuda_await(void *self, weft_queue *queue, weft_device_event *event, weft_error *err);
weft_status cuda_poll(void *self, weft_device_event *event, bool *done, weft_error *err);
weft_status cuda_wait(void *self, weft_error *err);
weft_status cuda_begin(void *self, uint64_t key, bool *replayed, weft_error *err);
weft_status cuda_end(void *self, weft_error *err);
/* What is being captured when something fails never runs; until it ends, the GPU can be asked
 * nothing. */
void cuda_capture_abandon(cuda *c);
void cuda_forget(void *self);

/* ---- timing.c ---- */

/* Launches every product and every plan of cuDNN once, so that it is loaded. */
weft_status cuda_products_load(cuda *c, weft_error *err);

/* ---- plugin.c ---- */

/* Under a lock: has cuDNN opened anything that was not vetted? */
weft_status cuda_dnn_check_mapped(const cuda *c, weft_error *err);

/* ---- settle.c ---- */

weft_status cuda_settle(void *self, weft_error *err);

/* ---- peak.c ---- */

double cuda_peak(void *self, weft_dtype dtype, double reached);

#endif
