/* SPDX-License-Identifier: Apache-2.0 */
/* Services: tables of functions that plugins give and the core (or other plugins, by capability) use. */
#ifndef WEFT_SERVICE_H
#define WEFT_SERVICE_H

#include <weft/op.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- device: memory, queues, and the name that kernels register for ---- */

/* capability "device". All functions but describe are called between open and close, by the rank's one thread unless said otherwise. */
typedef struct weft_device {
    size_t size;      /* sizeof(weft_device) */
    const char *name; /* kernels name it: "cpu" */
    int n_queues;     /* how many queues instructions may be spread over; 1: strictly in order */
    bool host_memory; /* the host may read and write device memory directly */
    weft_status (*alloc)(void *self, size_t bytes, void **memory, weft_error *err); /* zeroed, 64-byte aligned at least */
    void (*free)(void *self, void *memory, size_t bytes);
    weft_status (*upload)(void *self, void *to, const void *from_host, size_t bytes, weft_error *err);
    weft_status (*download)(void *self, void *to_host, const void *from, size_t bytes, weft_error *err);
    weft_queue *(*queue)(void *self, int i);
    /* Waits until everything enqueued on all queues is done. */
    weft_status (*wait)(void *self, weft_error *err);
    /* Use plain kernels for everything (a user's setting). */
    bool (*plain)(void *self);
    /* In the two-queue test mode: a seed for the adversarial order, else 0. */
    uint64_t (*adversary)(void *self);
    /* Measured rate of a matrix product of this dtype in flop/s (<= 100 ms, cached); 0: unknown. */
    double (*peak)(void *self, weft_dtype dtype);
    /* One line for the log: "2 threads, AVX-512, bf16 products in hardware". */
    void (*describe)(void *self, weft_text *text);
    /* What libraries own outside the arena, an estimate in bytes for the plan. */
    size_t (*library_bytes)(void *self);
} weft_device;

/* ---- transport: groups and collectives between ranks ---- */

typedef enum weft_reduce { WEFT_REDUCE_SUM, WEFT_REDUCE_MAX } weft_reduce;

/* capability "transport". Carries tensors only. Every member of a group calls the same functions in the same order with the same counts; a function
 * returns when its buffers may be used again on `queue`. Sums are made in f32 (f64 for f64) in the order of the group, so they are the same on every
 * run and rank. An error means that the group is broken and the run must end. */
typedef struct weft_transport {
    size_t size;
    const char *name;
    bool threads; /* ranks are threads of one process */
    /* ranks[n] in the group's order; me: this rank's place in it. Collective over all ranks of the run, in the same order. */
    weft_status (*group)(void *self, const int *ranks, int n, int me, void **group, weft_error *err);
    void (*ungroup)(void *self, void *group);
    /* This rank takes part no more: whoever waits for it, now or later, gets an error. */
    void (*leave)(void *self);
    /* recv: n * count elements, member i's at i * count. */
    weft_status (*all_gather)(void *self, void *group, const void *send, void *recv, int64_t count, weft_dtype dtype, weft_queue *queue,
                              weft_error *err);
    /* send: n * count elements; recv: count, the reduction of everyone's piece `me`. */
    weft_status (*reduce_scatter)(void *self, void *group, const void *send, void *recv, int64_t count, weft_dtype dtype, weft_reduce op,
                                  weft_queue *queue, weft_error *err);
    /* send and recv: count elements; may be the same memory. */
    weft_status (*all_reduce)(void *self, void *group, const void *send, void *recv, int64_t count, weft_dtype dtype, weft_reduce op,
                              weft_queue *queue, weft_error *err);
    /* send and recv: n * count elements; piece i goes to member i. */
    weft_status (*all_to_all)(void *self, void *group, const void *send, void *recv, int64_t count, weft_dtype dtype, weft_queue *queue,
                              weft_error *err);
} weft_transport;

/* ---- tokenizer ---- */

/* capability "tokenizer". Functions are thread-safe after open. */
typedef struct weft_tokenizer {
    size_t size;
    int (*vocab_size)(void *self);
    int (*bos)(void *self); /* -1: none */
    int (*eos)(void *self);
    /* Appends the ids of text[0..n) (UTF-8) to a malloc'ed array *ids (weft_realloc; caller frees with weft_free). */
    weft_status (*encode)(void *self, const char *text, size_t n, int32_t **ids, size_t *n_ids, size_t *capacity, weft_error *err);
    /* Appends the bytes of the ids. */
    weft_status (*decode)(void *self, const int32_t *ids, size_t n, weft_text *text, weft_error *err);
} weft_tokenizer;

/* ---- data ---- */

typedef enum weft_split { WEFT_SPLIT_TRAIN, WEFT_SPLIT_VALIDATION } weft_split;

/* One sample: seq_len + 1 consecutive tokens of the packed stream, hence seq_len pairs of (id, next id). */
typedef struct weft_sample {
    int32_t *ids;       /* [seq_len] */
    int32_t *labels;    /* [seq_len]; -1: ignored */
    int32_t *positions; /* [seq_len] */
    int32_t *segments;  /* [seq_len]; equal: may attend to each other */
} weft_sample;

/* capability "data". sample() may be called from a thread of its own; it calls neither OpenMP nor MPI. */
typedef struct weft_data {
    size_t size;
    /* Called once, after open, before any sample. seed of the run. */
    weft_status (*begin)(void *self, int64_t seq_len, uint64_t seed, weft_error *err);
    /* Samples of a split; training repeats for ever and gives INT64_MAX. Validation: every token once, the rest padded with ignored labels. */
    int64_t (*samples)(void *self, weft_split split);
    /* Global sample i, the same on any rank of any mesh. */
    weft_status (*sample)(void *self, weft_split split, int64_t i, const weft_sample *out, weft_error *err);
    /* One line for the log. */
    void (*describe)(void *self, weft_text *text);
    /* Which data this is: goes into digests and checkpoints. */
    uint64_t (*fingerprint)(void *self);
} weft_data;

/* ---- generator: decides when text is generated and picks the next id ---- */

/* capability "generator", given by sample; the loop asks it after every step. */
typedef struct weft_generator {
    size_t size;
    /* Tokens of context the generate program is built for. */
    int64_t (*context)(void *self);
    /* True if text should be generated after this step (last: it is the final one). */
    bool (*want)(void *self, int64_t step, bool last);
    /* The prompt of text number i (from 0) as ids, which it owns; *n = 0 ends. */
    weft_status (*prompt)(void *self, int i, const weft_tokenizer *tokenizer, void *tokenizer_self, const int32_t **ids, size_t *n, weft_error *err);
    /* Picks from logits[vocab]; returns -1 to end the text. n: how many tokens were generated before this one. */
    int32_t (*pick)(void *self, const float *logits, int64_t vocab, int64_t step, int text_number, int64_t n);
    /* The text is complete: prompt and continuation, decoded. */
    void (*done)(void *self, int64_t step, int text_number, const char *prompt, const char *continuation, const weft_log *log);
} weft_generator;

#ifdef __cplusplus
}
#endif
#endif
