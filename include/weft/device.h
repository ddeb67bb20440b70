/* SPDX-License-Identifier: Apache-2.0 */
/* The service "device": memory, queues, and the name that kernels register for.
 *
 * Device memory is the device's own: nobody but it touches what lies there, unless it says
 * `host_memory`. What the core wants done there it asks of the functions below, each enqueued on a
 * queue. A queue does one thing after the other, in the order in which they were enqueued; queues
 * know nothing of each other but for events. An enqueuing function returns without waiting, and
 * what it was given (boxes, lists of pointers; not the memory they point to) is its caller's again.
 *
 * A device without `record` computes at once: everything is done when the function returns, all
 * its queues are one, and nobody waits.
 *
 * Errors stick. When something fails on a queue, wait, poll and everything that is enqueued from
 * then on fail too; the core then downloads nothing more and saves nothing.
 *
 * Functions that are marked optional may be NULL. */
#ifndef WEFT_DEVICE_H
#define WEFT_DEVICE_H

#include <weft/op.h>
#include <weft/params.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { WEFT_BOX_DIMS = 4 };

/* A copy of strided runs of bytes: for all i < n[0], j < n[1], k < n[2], l < n[3] the `bytes` bytes
 * at from + i * from_stride[0] + j * from_stride[1] + ... go to to + i * to_stride[0] + ....
 * Strides are in bytes, 0 where n is 1. No byte of `to` is written twice or read as `from` by the
 * same box.
 */
typedef struct weft_box {
    void *to;
    const void *from; /* NULL: zeros */
    int64_t bytes;    /* of a run, which is contiguous on both sides; 0: nothing to do */
    int64_t n[WEFT_BOX_DIMS], to_stride[WEFT_BOX_DIMS], from_stride[WEFT_BOX_DIMS];
} weft_box;

/* The box of one run. */
weft_box weft_box_of(void *to, const void *from, int64_t bytes);
/* As `move` and `reduce` below, by the host, where it can reach the memory: for devices that are
 * made of it. */
void weft_boxes_move(const weft_box *boxes, int n);

typedef enum weft_reduce { WEFT_REDUCE_SUM, WEFT_REDUCE_MAX } weft_reduce;

/* n_from arrays of `count` elements become one, which goes to n_to places. */
typedef struct weft_reduction {
    void *const *to;
    const void *const *from;
    int n_to, n_from;
    int64_t count;
    weft_dtype dtype;
    weft_reduce op;
} weft_reduction;

void weft_reduction_run(const weft_reduction *r);
/* Can elements of this dtype be reduced? All floating ones of 16 bits or more. */
bool weft_reduction_takes(weft_dtype dtype);

/* A point on a queue that others may wait for; the device's own. */
typedef struct weft_device_event weft_device_event;

/* What a device reaches, for plans that are made without it: a guess at how long work takes. Each 0
 * where it is unknown. Rates of work are those of large calls. */
typedef struct weft_device_rates {
    const char *name;              /* "H100 SXM" */
    double peak[WEFT_DTYPES];      /* flop/s of matrix products by the dtype of what is multiplied,
                                      as the vendor states it: what MFU refers to */
    double product[WEFT_DTYPES];   /* flop/s that they reach, */
    double attention[WEFT_DTYPES]; /* and that attention does */
    double other;                  /* flop/s of all else */
    double memory;                 /* bytes/s, read and written */
    double launch_s;               /* what every instruction takes besides */
    bool skips_masked;             /* attention computes only what its mask leaves */
    int64_t memory_bytes;          /* of the whole device */
    bool one_a_process;            /* ranks that are threads of one process share it */
    int host;                      /* how many devices a host has; ranks fill hosts in order */
    double link, link_s;           /* to others of the host: bytes/s that a rank sends, seconds
                                      that a hop takes */
    double net, net_s;             /* the same to other hosts, a rank's share of the way out */
    double host_link;              /* bytes/s between its memory and the host's, one way */
    double unsure;                 /* attention may take so many times as long, for nobody has
                                      measured it: predictions are ranges; 0 or 1: it was measured */
    int sms;                       /* multiprocessors */
    bool waves;                    /* products whose tiles do not fill them reach less */
    double k_half;    /* of a product's rate a sum of so many terms reaches half; 0: all reach it */
    bool narrow;      /* it multiplies values in 8 bits; */
    bool narrow_rows; /* with a scale for each row, too */
    double call_s,
        net_call_s;           /* what a collective takes within a host, and across hosts, besides */
    double half_bytes;        /* below so many bytes it takes up to 1.5 times as long */
    double library_attention; /* times as fast as `attention` a vendor's library is; 0: unknown */
    uint64_t hash;            /* of the profile that says so; 0: none does */
    double
        attention_edge;      /* keys along the mask's edge that are computed for nothing, and what a
                                call begins and ends with: a sequence of so many takes twice as long */
    double attention_narrow; /* of attention's rate, the share that heads of less than 128 elements
                                reach; 0: all */
    double
        enqueue_s; /* what the host takes to enqueue an instruction, or a task that is replayed */
    double beside; /* of a collective's time, the share by which what is computed beside it takes
                      longer */
    double step_s; /* what a step takes besides, */
    double micro_batch_s;  /* and a micro-batch, before which the host waits for all that is under
                              way */
    double thread_scaling; /* of a CPU's thread: n of them reach n to this power as much */
    bool keeps_none; /* it replays no task, though it could: the host enqueues each instruction */
} weft_device_rates;

/* What a file says of a device that need not be there: one of weft's own (share/weft/gpus) or the
 * user's. */
typedef struct weft_profile weft_profile;
/* The words of a key that is a LIST of STRINGs: a name or the path of a file (which has a '/' or
 * ends in .ini), and what differs from it, as "h100 bandwidth=2.4e12". An unknown name is refused
 * with the nearest one, faults of a file with their lines. weft_profile_destroy. */
weft_status weft_profile_read(const weft_params *params, const char *key, weft_profile **out,
                              weft_error *err);
const weft_device_rates *weft_profile_rates(const weft_profile *profile); /* live as long */
void weft_profile_destroy(weft_profile *profile);
/* An estimate of what a GPU takes beside a plan's memory: its context, kernels, and graphs of so
 * many launches. Without a number of multiprocessors it is that of a typical one. */
size_t weft_gpu_bytes(const weft_device_rates *rates, int64_t captured);

/* plugin.h; what `counts` gives at most. */
struct weft_report;
enum { WEFT_MOST_COUNTS = 8 };

/* capability "device". All functions but describe are called between open and close, by the rank's
 * one thread unless said otherwise. */
typedef struct weft_device {
    size_t size;         /* sizeof(weft_device) */
    const char *name;    /* kernels name it: "cpu" */
    int n_queues;        /* how many queues instructions may be spread over; 1: strictly in order.
                            Of three or more the second is for collectives and the third for what
                            stages send each other; a fourth for what is sent while other pieces of
                            a micro-batch are computed */
    bool host_memory;    /* the host may read and write device memory directly */
    bool shared;         /* instances of this device in one process reach each other's memory and
                            events: ranks that are threads can read what another one holds */
    int64_t alignment;   /* of every tensor, workspace and piece of memory: a power of two, 64 or
                            more; 0: 64 */
    int64_t head_tokens; /* of how many tokens of a rank the head makes logits at once, at most, if
                            nobody says otherwise; 0: as many as suit the caches of a CPU */

    /* ---- memory ---- */

    /* zeroed, and aligned */
    weft_status (*alloc)(void *self, size_t bytes, void **memory, weft_error *err);
    /* Waits for whatever still uses it. */
    void (*free)(void *self, void *memory, size_t bytes);
    /* Optional: can other processes map what alloc gives, as a vendor's library may want of memory
     * that ranks read from each other directly? From `create` on. NULL, or false: no. */
    bool (*exportable)(void *self);
    /* Optional, both or none: zeroed host memory from which uploads and to which downloads are
     * fast (pinned). Any other will do as well. */
    weft_status (*alloc_host)(void *self, size_t bytes, void **memory, weft_error *err);
    void (*free_host)(void *self, void *memory, size_t bytes);

    /* ---- on a queue ---- */

    /* queue NULL: behind all that was enqueued on any queue, and done on return: that waits. Else
     * the host's memory is the device's until the next wait, or an event behind it is done. */
    weft_status (*upload)(void *self, weft_queue *queue, void *to, const void *from_host,
                          size_t bytes, weft_error *err);
    weft_status (*download)(void *self, weft_queue *queue, void *to_host, const void *from,
                            size_t bytes, weft_error *err);
    /* Boxes in any order, or all at once; both sides in device memory, of any instance if `shared`.
     */
    weft_status (*move)(void *self, weft_queue *queue, const weft_box *boxes, int n,
                        weft_error *err);
    /* Element by element in the order of `from`: sums in f32 (f64 for f64), rounded once at the
     * end; maxima of which a NaN is the largest. So the result has the same bits wherever it is
     * made. Any of `to` may be any of `from`, and else they do not overlap. */
    weft_status (*reduce)(void *self, weft_queue *queue, const weft_reduction *r, weft_error *err);

    /* ---- queues ---- */

    /* From `create` on, by any thread; all queues of a device are alike. Until `open` it only says
     * what kernels must know to be planned (how many threads, say), and may be NULL. */
    weft_queue *(*queue)(void *self, int i);
    /* How many threads of the host a launch may use: weft_call.threads. As queue, from `create` on;
     * `open` may find that there are fewer. Optional: one. */
    int (*threads)(void *self);
    /* Optional, all of these five or none. An event stands for what was enqueued on a queue when it
     * was last recorded; one that never was is done. If `shared`, any instance may record and await
     * it; only who created it destroys it, and what was to await it still does. */
    weft_status (*event_create)(void *self, weft_device_event **event, weft_error *err);
    void (*event_destroy)(void *self, weft_device_event *event);
    weft_status (*record)(void *self, weft_queue *queue, weft_device_event *event, weft_error *err);
    /* What is enqueued on `queue` from now on begins when the event, as it is now, is done. The
     * host does not wait. */
    weft_status (*await)(void *self, weft_queue *queue, weft_device_event *event, weft_error *err);
    /* Is the event done (NULL: everything, on all queues)? Returns at once. */
    weft_status (*poll)(void *self, weft_device_event *event, bool *done, weft_error *err);
    /* Until everything that was enqueued on all queues is done. The core waits once a step, where
     * it reads the step's reports; with `poll`, by asking. */
    weft_status (*wait)(void *self, weft_error *err);

    /* Optional, both or none. As event_create, of one that is also a moment: whenever it is
     * recorded and done, `elapsed` says how long after `from` it was, in seconds; less than 0:
     * before. Both are such events, and done. */
    weft_status (*timed_event_create)(void *self, weft_device_event **event, weft_error *err);
    weft_status (*elapsed)(void *self, weft_device_event *from, weft_device_event *to,
                           double *seconds, weft_error *err);

    /* Optional, all of these or none: for transports that enqueue work on queues of their own, or
     * that of a vendor's library. Whose hardware it is ("cuda"), and the vendor's own name of a
     * queue there (a CUstream), from `open` on. queue_create: one that no instruction is spread
     * over. `wait` and `poll` of everything look past it: what it waits for may come when the rank
     * that looks goes on. Who must know records an event there. */
    const char *vendor;
    void *(*stream)(void *self, weft_queue *queue);
    weft_status (*queue_create)(void *self, weft_queue **queue, weft_error *err);
    void (*queue_destroy)(void *self, weft_queue *queue);

    /* ---- tasks ---- */

    /* Optional, both or none. Around some of what a task enqueues, where that is the same whenever
     * the key is: the same functions with the same arguments on the same queues, whatever the data.
     * Before `begin` the first queue waits for all that it needs of others (they may be at the next
     * task's inputs), and before `end` for all of them; what other queues get between the two
     * awaits an event of the first, or of what came behind it.
     * *replayed: the device has enqueued what it was given for this key before, and the caller
     * leaves it out; `end` is called all the same. There are collectives in it only if the
     * transport can be captured (weft_transport.captured), and nothing that sends or receives. */
    weft_status (*begin)(void *self, uint64_t key, bool *replayed, weft_error *err);
    weft_status (*end)(void *self, weft_error *err);
    /* Optional: of what it was given for all keys nothing is kept any more. Called before the
     * groups of a run are given back, for a library whose work was kept may wait for that. */
    void (*forget)(void *self);

    /* Optional: the kernels of all programs are prepared. Every rank calls it at the same point,
     * before anything is computed, so that here a device may use host->exchange: for choices that
     * must be the same everywhere. */
    weft_status (*settle)(void *self, weft_error *err);

    /* ---- looking at it ---- */

    /* Optional, both or none. What is enqueued on `queue` from now on bears this tag. reached: the
     * tag of what the queue is at, or was at when an error stopped it; 0: of nothing yet. It asks
     * nobody and never fails: by it the core names what has failed, or what hangs. */
    void (*tag)(void *self, weft_queue *queue, uint64_t tag);
    uint64_t (*reached)(void *self, weft_queue *queue);
    /* Optional: use plain kernels for everything (a user's setting). */
    bool (*plain)(void *self);
    /* Optional: in the two-queue test mode a seed for the adversarial order, else 0. */
    uint64_t (*adversary)(void *self);
    /* Optional: measured rate of a matrix product of this dtype in flop/s, in at most 100 ms; 0:
     * unknown. reached: the run's own best so far, which shows a lower rate to be wrong. Called
     * when a run has made steps for some seconds, and again whenever a step is faster than the
     * answer. */
    double (*peak)(void *self, weft_dtype dtype, double reached);
    /* Optional: one line for the log: "2 threads, AVX-512, bf16 products in hardware". */
    void (*describe)(void *self, weft_text *text);
    /* Optional: what libraries own outside the arena, an estimate in bytes for the plan; without
     * that of a transport. captured: how many instructions `begin` will be given to replay. */
    size_t (*library_bytes)(void *self, int64_t captured);
    /* Optional: by any thread, from `create` on, whether there is such a device or not. false:
     * nothing is known. */
    bool (*rates)(void *self, weft_device_rates *rates);
    /* Optional: the most device memory that was in use at once. Without it, and for host_memory,
     * the process's own high-water mark counts. */
    size_t (*peak_bytes)(void *self);
    /* Optional: numbers that say how this rank's device does its work, at most WEFT_MOST_COUNTS,
     * with names that last as long as it is open; how many. Asked for once a step: they stand
     * behind the reports that passes make. */
    int (*counts)(void *self, struct weft_report *list);
} weft_device;

#ifdef __cplusplus
}
#endif
#endif
