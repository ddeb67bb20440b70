/* SPDX-License-Identifier: Apache-2.0 */
/* Services: tables of functions that plugins give and the core (or other plugins, by capability)
 * use. Every table begins with its size, which is checked; so should that of a service of your own,
 * or it cannot be wrapped (WEFT_WRAP). */
#ifndef WEFT_SERVICE_H
#define WEFT_SERVICE_H

#include <weft/device.h>
#include <weft/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- transport: groups and collectives between ranks ---- */

/* Where the ranks may be that a transport connects. */
enum { WEFT_RANKS_THREADS = 1 /* of one process */, WEFT_RANKS_PROCESSES = 2 };

/* A transfer between two members of a group that was begun; the transport's own. */
typedef struct weft_request weft_request;

/* A group that a plan will make, for what a transport says of memory. */
typedef struct weft_planned_group {
    int n, hosts;      /* ranks, and how many hosts they are on, as far as the device knows that */
    bool collects;     /* collectives run in it, */
    bool sums, maxima; /* and these among them */
    int peers;         /* pairs of `connect` that this rank is an end of */
} weft_planned_group;

/* A part of what a collective sends, and what that is. Of what goes to several members, each one's
 * share has such a part at the same place. */
typedef struct weft_sent_piece {
    const weft_value *value; /* the redistribute's operand: a gradient, a weight, an activation */
    weft_tensor tensor;      /* what this rank holds of it before: its bounds; data is NULL */
    int64_t at, count;       /* of the call's elements; padding counts */
} weft_sent_piece;

/* What a call of a collective is for, as planned; the same object whenever it is made. */
typedef struct weft_sent {
    const weft_node *const *nodes; /* redistributes that are sent as one */
    int n_nodes;
    const weft_step *step; /* over which axes, and which dim is cut or made whole by it */
    const weft_sent_piece *pieces;
    int n_pieces;
} weft_sent;

/* What one rank will call a transport for, for its `plan`: a collective, or sends and receives of
 * one size, either being WEFT_SEND. */
typedef struct weft_planned_call {
    weft_mode mode; /* modes run one after the other: what one needs the next may use */
    weft_move move;
    int members;   /* of the group */
    int64_t count; /* as in the call */
    weft_dtype dtype;
    int at_once; /* so many such transfers are under way together at most, from the call to the end
                    of `wait`; of a collective 1 */
    const weft_sent *sent; /* of a collective: what for, see weft_running; else NULL */
} weft_planned_call;

/* capability "transport". Carries tensors only. Every member of a group calls the same collectives
 * in the same order with the same counts: there is no count per member. Of what does not divide,
 * the core sends as much for every member as the largest part has, and packs and unpacks around the
 * call. One returns when its buffers may be used again on `queue`. Sends and receives may stand
 * anywhere between them. What stands on two queues has no order but that of the calls: a group may
 * have a collective under way on each, so what memory a transport needs for one, each queue has for
 * itself, or the transport orders them. Sums are made in f32 (f64 for f64), and rounded once; a
 * maximum keeps a NaN, wherever it comes from. An error means that the group is broken and the run
 * must end. Whoever waits for others calls host->waiting meanwhile, so that a rank that hangs is
 * noticed. */
typedef struct weft_transport {
    size_t size;
    const char *name;
    unsigned ranks; /* WEFT_RANKS_*, one or both; none: processes. `weft train -n` starts threads
                       where it may */
    bool device_memory; /* takes whatever memory the device has, behind what is on `queue`; else
                           what the host may use, and it is there already: with other devices a
                           wrap is needed that brings it there and says true here */
    bool ordered;       /* the sums of floating numbers are made in the order of the group: the same
                           bits on every run and every rank */
    /* ranks[n] in the group's order; me: this rank's place in it. Collective over all ranks of the
     * run, in the same order. */
    weft_status (*group)(void *self, const int *ranks, int n, int me, void **group,
                         weft_error *err);
    void (*ungroup)(void *self, void *group);
    /* Optional: member `from` of the group will send to member `to`. Collective as `group` is, and
     * told of every such pair, in both directions if both are used, before its first transfer: for
     * transports that make a channel for each. */
    weft_status (*connect)(void *self, void *group, int from, int to, weft_error *err);
    /* Optional: called every 100 ms or so while this rank waits for its device: has something gone
     * wrong that the device does not know of? */
    weft_status (*check)(void *self, weft_error *err);
    /* Optional: may the device keep what the collectives of a task enqueue, and enqueue it again by
     * itself (weft_device.begin)? From `create` on. They must then do nothing but enqueue,
     * on `queue`, the same for the same arguments, and what is enqueued again must meet with other
     * ranks' as a call does. NULL, or false: tasks in which ranks communicate are enqueued one
     * instruction after the other every time. Of tasks that send or receive nobody asks: what they
     * begin may outlive them. A wrap that sees collectives and lacks this says no. */
    bool (*captured)(void *self);
    /* Optional, both or none: memory in which tensors lie, told once it is there (groups may be
     * made by then or not) and before it goes. */
    weft_status (*add_memory)(void *self, void *memory, size_t bytes, weft_error *err);
    void (*remove_memory)(void *self, void *memory, size_t bytes);
    /* Optional: where the collectives of this group lie. `digest` stands for the places of all that
     * they send and receive, in their order: in which piece of add_memory, and how far behind its
     * head. Members that are told the same number use the same places in every collective of the
     * run; 0: none runs in the group. For transports to which that matters, as to NCCL's symmetric
     * windows. Called once for each group, when all groups are made and all memory was added,
     * before the first collective; collective as `group` is. A wrap that sends from or receives in
     * other places of that memory than it is given keeps this to itself. */
    weft_status (*places)(void *self, void *group, uint64_t digest, weft_error *err);
    /* Optional: all that this rank will call it for, in no order, for a transport, or a wrap, that
     * needs memory for it. *host_bytes: how much of the host's that will be, in all; it is in the
     * plan. A wrap that has this calls the one further in by itself, for what it will
     * send there, and counts that memory, too. From `create` on; who has planned before plans
     * anew, and nothing is under way then. */
    weft_status (*plan)(void *self, const weft_planned_call *calls, int n, int64_t *host_bytes,
                        weft_error *err);
    /* Optional: the device's memory that the transport and its library take for these groups, an
     * estimate in bytes for the plan. From `create` on. */
    size_t (*library_bytes)(void *self, const weft_planned_group *groups, int n);
    /* Optional: may it carry what lies in the memory of this device (NULL: of none that is listed
     * before it)? For plans, which open nothing; fails in the words of `open`. From `create` on. */
    weft_status (*takes)(void *self, const weft_device *device, weft_error *err);
    /* Optional: is such a reduction made by sending every rank's terms to whoever reduces them, so
     * that an all_reduce sends as much as an all_gather? For plans. From `create` on. */
    bool (*sends_terms)(void *self, weft_reduce op);
    /* This rank takes part no more: whoever waits for it, now or later, gets an error. */
    void (*leave)(void *self);
    /* Optional, both or none: the collectives of this group that are called in between, on one
     * queue, are one; none reads what another writes. They may be begun together when group_end is
     * called, which is called also when one of them has failed. A wrap that sees collectives and
     * lacks these gets them one by one. */
    weft_status (*group_begin)(void *self, void *group, weft_error *err);
    weft_status (*group_end)(void *self, void *group, weft_error *err);
    /* recv: n * count elements, member i's at i * count. */
    weft_status (*all_gather)(void *self, void *group, const void *send, void *recv, int64_t count,
                              weft_dtype dtype, weft_queue *queue, weft_error *err);
    /* send: n * count elements; recv: count, the reduction of everyone's piece `me`. */
    weft_status (*reduce_scatter)(void *self, void *group, const void *send, void *recv,
                                  int64_t count, weft_dtype dtype, weft_reduce op,
                                  weft_queue *queue, weft_error *err);
    /* send and recv: count elements; may be the same memory. */
    weft_status (*all_reduce)(void *self, void *group, const void *send, void *recv, int64_t count,
                              weft_dtype dtype, weft_reduce op, weft_queue *queue, weft_error *err);
    /* send and recv: n * count elements; piece i goes to member i. */
    weft_status (*all_to_all)(void *self, void *group, const void *send, void *recv, int64_t count,
                              weft_dtype dtype, weft_queue *queue, weft_error *err);
    /* Begins to send count elements to member `to` of the group, or to receive them from member
     * `from`, and returns without waiting for it. Between two members of a group transfers are
     * matched in order: the first that one sends is the first that the other receives; each
     * direction by itself. Other groups of the same ranks have nothing to do with it. A transfer is
     * done when both have begun it: nobody's wait is needed for the other's. count may be 0; if
     * count or dtype are not the same on both sides, both get an error, from here or from wait.
     * `data` is the transport's until wait. Enqueued on `queue`, behind what is there. send, recv,
     * wait and broadcast are there all four or not at all (NULL): then the transport is refused
     * where a run needs them. */
    weft_status (*send)(void *self, void *group, int to, const void *data, int64_t count,
                        weft_dtype dtype, weft_queue *queue, weft_request **request,
                        weft_error *err);
    weft_status (*recv)(void *self, void *group, int from, void *data, int64_t count,
                        weft_dtype dtype, weft_queue *queue, weft_request **request,
                        weft_error *err);
    /* Until the transfer is done; the request is gone then, also after an error. What nobody has
     * waited for ends with the group, done or not. */
    weft_status (*wait)(void *self, weft_request *request, weft_queue *queue, weft_error *err);
    /* data: of member `root`; of the others, receives it. */
    weft_status (*broadcast)(void *self, void *group, int root, void *data, int64_t count,
                             weft_dtype dtype, weft_queue *queue, weft_error *err);
} weft_transport;

/* ---- programs ---- */

typedef enum weft_instruction_kind {
    WEFT_COMPUTE,    /* a kernel */
    WEFT_ZERO_FILL,  /* a sum over micro-batches begins */
    WEFT_COPY,       /* a new content goes to where it belongs */
    WEFT_COLLECTIVE, /* a redistribute: the steps of its nodes say what is sent over which axes */
    WEFT_OBSERVE,    /* a value is shown to observers */
    WEFT_POST_SEND,  /* another stage's value begins to be sent; of a micro-batch, at its task's end
                      */
    WEFT_POST_RECV,  /* begins to be received: in a program's prologue */
    WEFT_AWAIT,      /* what was posted is there, before its first reader */
    WEFT_FETCH,      /* begins to come from far memory; to go there */
    WEFT_EVICT,
    WEFT_ARRIVE /* what was fetched is there, before its first reader; what was evicted is away, and
                   its memory free */
} weft_instruction_kind;

/* ---- schedule: what each rank of a pipeline runs, and in which order ---- */

/* One entry of a rank's list. */
typedef struct weft_task {
    weft_part part;
    int stage;           /* of F, B and W; else 0 */
    int64_t micro_batch; /* of F, B and W, from 0 on; else -1 */
    weft_where at;       /* in a file that says so, for messages */
} weft_task;

/* The lists of all ranks of a pipeline, while a schedule makes them. */
typedef struct weft_tasks weft_tasks;
/* Appends a task to a rank's list. */
weft_status weft_tasks_add(weft_tasks *tasks, int rank, weft_part part, int stage,
                           int64_t micro_batch, weft_error *err);
/* Where the tasks that are added from now on stand; WEFT_NOWHERE at first. The file's name is kept
 * as it is. */
void weft_tasks_set_where(weft_tasks *tasks, weft_where at);

/* A pipeline that wants a schedule. */
typedef struct weft_pipeline_view {
    int ranks, stages;
    int64_t micro_batches; /* of a step */
    const int *rank_of;    /* by stage: the rank that has it (weft_set_stage_rank) */
} weft_pipeline_view;

/* capability "schedule". May be called as soon as all plugins are created. */
typedef struct weft_schedule {
    size_t size;
    /* Adds F and B of every stage and micro-batch of a step to the lists of the pipeline's ranks,
     * and of a stage whose backward is split (weft_split_backward) W of every micro-batch. The core
     * adds what comes before and behind, and proves that the lists run to their end before anything
     * does. The same on every rank of the run. */
    weft_status (*generate)(void *self, const weft_pipeline_view *pipeline, weft_tasks *tasks,
                            weft_error *err);
} weft_schedule;

/* ---- tokenizer ---- */

/* capability "tokenizer". Functions are thread-safe after open. The table can be had, and
 * vocab_size, bos and eos work, as soon as all plugins are created: plans need them. */
typedef struct weft_tokenizer {
    size_t size;
    int (*vocab_size)(void *self);
    int (*bos)(void *self); /* -1: none */
    int (*eos)(void *self);
    /* Appends the ids of text[0..n) (UTF-8) to a malloc'ed array *ids (weft_realloc; caller frees
     * with weft_free). */
    weft_status (*encode)(void *self, const char *text, size_t n, int32_t **ids, size_t *n_ids,
                          size_t *capacity, weft_error *err);
    /* Appends the bytes of the ids. */
    weft_status (*decode)(void *self, const int32_t *ids, size_t n, weft_text *text,
                          weft_error *err);
    /* Paths of the files that it is made of, NULL-ended; they go into checkpoints as they are. The
     * function or its result may be NULL: none. */
    const char *const *(*files)(void *self);
} weft_tokenizer;

/* ---- data ---- */

typedef enum weft_split { WEFT_SPLIT_TRAIN, WEFT_SPLIT_VALIDATION } weft_split;

/* What samples have: an array, and an input of that name for models (weft_add_input), where the
 * core fills none of that name itself. */
typedef struct weft_field {
    const char *name;
    const char *shape; /* "batch", and dims that the model declares: "batch rows columns" */
    weft_dtype dtype;  /* WEFT_I32; real numbers of any other, which models get in the graph's */
    /* Integers: from `low` on, and below the size of this dim, where the model has it; NULL: any.
     * The core checks them, for kernels index memory with them. */
    const char *below;
    int32_t low;
    int32_t pad; /* what fills a sample that is not there, behind the last one of validation */
} weft_field;

/* One sample, to be filled. */
typedef struct weft_sample {
    /* Of text, [seq_len]: if data have no fields of their own, or have integers "batch seq" of this
     * name; else NULL. seq_len + 1 consecutive tokens of the packed stream, hence seq_len pairs of
     * (id, next id). */
    int32_t *ids;       /* from 0 on and below the model's vocabulary; the core checks */
    int32_t *labels;    /* the same; -1: ignored */
    int32_t *positions; /* from 0 on; below what the model has, if it learns them */
    int32_t *segments;  /* equal: may attend to each other */
    /* An array for each of the data's fields, in their order: of the dims behind "batch", row by
     * row. NULL: the model declares no dim of a name that the field has. */
    void *const *field;
    int32_t number; /* filled by the core: the low 31 bits of weft_data.sample's `i` */
} weft_sample;

/* capability "data". sample() may be called from a thread of its own; it calls neither OpenMP nor
 * MPI. */
typedef struct weft_data {
    size_t size;
    /* Called once, after open, before any sample. seed of the run. */
    weft_status (*begin)(void *self, int64_t seq_len, uint64_t seed, weft_error *err);
    /* Samples of a split; training repeats for ever and gives INT64_MAX. Validation: every token
     * once, the rest padded with ignored labels. */
    int64_t (*samples)(void *self, weft_split split);
    /* Global sample i, the same on any rank of any mesh. */
    weft_status (*sample)(void *self, weft_split split, int64_t i, const weft_sample *out,
                          weft_error *err);
    /* One line for the log. */
    void (*describe)(void *self, weft_text *text);
    /* Which data this is: goes into digests and checkpoints. */
    uint64_t (*fingerprint)(void *self);
    /* Is every sample one document, its segments all equal? Attention may then be computed by
     * kernels that know of no documents; a sample that breaks the promise ends the run. NULL: no
     * promise. */
    bool (*one_document)(void *self);
    /* Which fields samples have, ended by one without a name; the same from create on. NULL: ids,
     * labels, positions and segments. Speeds and counts are of tokens if labels have a sequence,
     * else of samples. */
    const weft_field *(*fields)(void *self);
    /* Called right before begin: have the dims of its fields the sizes that the data have?
     * weft_graph_size says what the model gives them. NULL: any will do. */
    weft_status (*fit)(void *self, const weft_graph *g, weft_error *err);
} weft_data;

/* ---- generator: decides when the model is to write, and what ---- */

struct weft_run_view; /* <weft/plugin.h> */

/* capability "generator", given by sample and images; the loop asks it after every step. */
typedef struct weft_generator {
    size_t size;
    /* Tokens of context the generate program is built for. */
    int64_t (*context)(void *self);
    /* True if the model should write after this step (last: it is the final one). */
    bool (*want)(void *self, int64_t step, bool last);
    /* The prompt of text number i (from 0) as ids, which it owns; *n = 0 ends. */
    weft_status (*prompt)(void *self, int i, const weft_tokenizer *tokenizer, void *tokenizer_self,
                          const int32_t **ids, size_t *n, weft_error *err);
    /* Picks from logits[vocab]; returns -1 to end the text. n: how many tokens were generated
     * before this one. */
    int32_t (*pick)(void *self, const float *logits, int64_t vocab, int64_t step, int text_number,
                    int64_t n);
    /* The text is complete: prompt and continuation, decoded. */
    void (*done)(void *self, int64_t step, int text_number, const char *prompt,
                 const char *continuation, const weft_log *log);
    /* Of what is no text, these three instead of context, prompt, pick and done; else NULL. fields:
     * the inputs of the graph of WEFT_MODE_GENERATE, from create on, in place of the data's. rows:
     * the size of its batch. write: runs it, by <weft/execute.h>, as often as it likes, and makes
     * of weft_run_output what it will; all ranks together, and none may fail alone. */
    const weft_field *(*fields)(void *self);
    int64_t (*rows)(void *self);
    weft_status (*write)(void *self, const struct weft_run_view *run, weft_error *err);
} weft_generator;

/* ---- state: what a run must have to go on ---- */

/* A parameter or a state of any kind, as one rank holds it. */
typedef struct weft_state_tensor {
    const char *name;
    bool moment;         /* a state, as an optimizer's moments; else a parameter */
    bool buffer;         /* a state that belongs to the model: where its parameters go, it goes */
    weft_tensor tensor;  /* this rank's part [lo, lo + size) of the whole, dense; may be empty (a
                            size of 0). data: where it lies, if the host may use that; else NULL,
                            and it is there for weft_state_view.read and write alone */
    const char *kept_by; /* the plugin that keeps it (weft_keep): every rank its own bytes, on this
                            mesh alone; else NULL */
    bool resets;         /* one that is not found, or of another size, is zeros, and no error */
    bool elsewhere;      /* another stage of a pipeline holds it: this rank's part is empty, of a
                            single number, too */
    int replica,
        replicas; /* how many ranks hold this same part, and which of them this is, from 0 */
} weft_state_tensor;

/* What is not a tensor. The learning rate follows from the step, random numbers from seed, names
 * and counters. */
typedef struct weft_progress {
    int64_t step;     /* finished steps */
    int64_t samples;  /* global samples consumed: the data position */
    int64_t tokens;   /* as weft_run_view.total_tokens */
    int64_t skipped;  /* steps whose update was left out */
    int64_t in_a_row; /* of these, how many were the last ones */
} weft_progress;

/* How it stands with the saves of a run. */
typedef struct weft_saves {
    int64_t step,
        time_ns;    /* the newest whole one; when it was made, since 1970; 0: none is known */
    int64_t failed; /* that this process could not make */
    double held_s;  /* how long training has waited for this process' */
} weft_saves;

/* One setting in force, as text: of the model, a word that its `create` made a number of is that
 * number. */
typedef struct weft_setting {
    const char *section, *key, *value;
    const weft_param *table; /* that the key is of */
} weft_setting;

/* The state of a run on this rank. The tensors are the same, in the same order, on every rank; only
 * their parts differ. What it points to lives as long as the run; a copy of the struct is a
 * snapshot of the counters, not of the tensors. */
typedef struct weft_state_view {
    int rank, ranks;
    const weft_state_tensor *tensors;
    int n_tensors;
    /* Bytes [at, at + n) of this rank's part of tensor i, wherever it lies: to the host's memory,
     * or from there. Done on return. */
    weft_status (*read)(const struct weft_state_view *state, int i, int64_t at, int64_t n, void *to,
                        weft_error *err);
    weft_status (*write)(const struct weft_state_view *state, int i, int64_t at, int64_t n,
                         const void *from, weft_error *err);
    bool any_thread; /* may call these, and use `data`; else the rank's own thread alone */
    void *core;      /* the core's own */
    weft_progress progress;
    int64_t steps;     /* in all */
    const char *model; /* name of the plugin that gives the model: its section of the settings says
                          which model it is */
    uint64_t data_id, tokenizer_id; /* equal: the same samples in the same order (for one seed and
                                       seq_len), the same ids; 0: not known */
    const char *const *plugins; /* name, version and SHA-256 of the file ("": built in) of each, in
                                   listed order; NULL-ended */
    bool same_plugins;          /* the user refuses to go on with other bytes of a plugin */
    weft_saves *saves;          /* kept by the store, for observers, on the rank's own thread */
    const char *const *kernels; /* op and the kernel chosen for it, alternating; NULL-ended */
    const char *const *tokenizer_files; /* NULL-ended; may be NULL */
    const weft_setting *settings;       /* all that must be equal on all ranks, sections together */
    int n_settings;
} weft_state_view;

/* Fills this rank's part of tensor i with what `read` gives of boxes of the whole, dense and
 * row-major: where it lies, or some MiB of rows after the other. */
weft_status weft_state_fill(const weft_state_view *state, int i,
                            weft_status (*read)(void *ctx, const weft_state_tensor *tensor,
                                                const int64_t *lo, const int64_t *size, void *to,
                                                weft_error *err),
                            void *ctx, weft_error *err);

/* ---- far memory: for what a step reads once or twice ---- */

/* What far memory moves in a second. */
typedef struct weft_far_rates {
    double read, write; /* bytes */
    double call_s;      /* seconds that each transfer takes besides */
} weft_far_rates;

/* capability "far". Memory that no kernel can address, as a disk: what a rank fetches from it is in
 * the device's memory until it is evicted to it. Only a device that computes at once in the host's
 * memory reaches it through read and write; any reaches the host's (in_host_memory). It is scratch:
 * nothing of it outlives the run. Any thread may call read, write and wait; of two transfers that
 * touch the same bytes, one of them a write, the second begins when the first is over. */
typedef struct weft_far {
    size_t size;
    /* Room for `bytes` that are all zero, behind open: all that will be needed, or an error. Places
     * are below that. */
    weft_status (*reserve)(void *self, int64_t bytes, weft_error *err);
    /* Begins to bring n bytes from place `at` to the host's memory, or from there, and returns at
     * once. That memory is the service's until wait. */
    weft_status (*read)(void *self, int64_t at, int64_t n, void *to, weft_request **request,
                        weft_error *err);
    weft_status (*write)(void *self, int64_t at, int64_t n, const void *from,
                         weft_request **request, weft_error *err);
    /* Until it is done; the request is gone then, also after an error. */
    weft_status (*wait)(void *self, weft_request *request, weft_error *err);
    /* Until nothing is under way any more, well or not: the host's memory may go. */
    void (*drain)(void *self);
    /* Optional, these: from `create` on. Where it is, for people: "disk /nvme". */
    void (*describe)(void *self, weft_text *text);
    /* false: not known. */
    bool (*rates)(void *self, weft_far_rates *rates);
    /* The host's memory that it takes for itself where so many bytes lie far; part of the plan. */
    int64_t (*buffer_bytes)(void *self, int64_t bytes);
    /* As weft_device.counts. */
    int (*counts)(void *self, struct weft_report *list);
    /* It is memory of the host that the core allocates (weft_device.alloc_host) and the device
     * copies to and from, in the order of its queues: reserve, read, write, wait and drain are not
     * called. Without rates it is as fast as the device says of its link to the host. */
    bool in_host_memory;
} weft_far;

/* ---- store: keeps state and brings it back ---- */

typedef enum weft_store_found {
    WEFT_STORE_NOTHING,
    WEFT_STORE_WEIGHTS,
    WEFT_STORE_STATE
} weft_store_found;

/* capability "store". The loop of every rank calls it; functions marked (all) are called by all
 * ranks at the same point and end alike on all. A save has two phases: every rank writes; the first
 * one commits. Between them, and at the end, all meet in `advance`. */
typedef struct weft_store {
    size_t size;
    /* Memory that saves of such a state (tensors without data) take beside it on this rank, in
     * bytes; part of the plan. */
    int64_t (*buffer_bytes)(void *self, const weft_state_view *state);
    /* (all) Once, after initialisation: fills the tensors. STATE: *progress, too, and the run goes
     * on from there. */
    weft_status (*load)(void *self, const weft_state_view *state, weft_progress *progress,
                        weft_store_found *found, weft_error *err);
    /* Is a save due after this step? elapsed_s: since the run began. Ranks may differ: one that
     * wants it is enough. */
    bool (*want)(void *self, const weft_progress *at, double elapsed_s, bool last);
    /* (all) Begins a save; the tensors may be read until before_update returns. One that is still
     * under way is finished first. */
    weft_status (*begin)(void *self, const weft_state_view *state, weft_error *err);
    /* Tensors are about to change: copies what is not yet written. Returns at once if nothing is.
     */
    weft_status (*before_update)(void *self, weft_error *err);
    /* This rank's part of the phase under way is done, well or not. Does not wait. */
    bool (*ready)(void *self);
    /* (all) When all ranks are ready. A failed save is an error only if the user wants it to be. */
    weft_status (*advance)(void *self, weft_error *err);
    /* (all) Waits until no save is under way. last: the run ends here, so a failed save is an
     * error. */
    weft_status (*finish)(void *self, bool last, weft_error *err);
    /* The run ends here with an error, and the tensors will go away: what is under way ends well
     * where no other rank is needed for that, else it is lost; none before it. */
    void (*abandon)(void *self);
} weft_store;

/* ---- weights: where parameters begin, if not at random ---- */

/* capability "weights". */
typedef struct weft_weights {
    size_t size;
    /* (all ranks) After initialisation, unless a store has found something: fills all parameters
     * (weft_state_fill). *loaded = false: nothing is set. */
    weft_status (*load)(void *self, const weft_state_view *state, bool *loaded, weft_error *err);
    /* (all ranks) After the last step; may be NULL. */
    weft_status (*save)(void *self, const weft_state_view *state, weft_error *err);
} weft_weights;

/* ---- format: folders of other programs that hold a model ---- */

struct weft_plugin;

/* For who has no run: plugins are found and opened as a run's are, and never created, to be asked
 * what their tables say. */
typedef struct weft_finder {
    void *self;
    weft_status (*find)(void *self, const char *name, const struct weft_plugin **out,
                        weft_error *err);
} weft_finder;

/* capability "format". Functions need no instance: self is unused, and the table may be called
 * where the plugin was only opened. */
typedef struct weft_model_format {
    size_t size;
    bool (*is)(const char *folder);
    /* Appends an INI's text: [weft] plugins that make the model and load its weights, the model's
     * section, and what else follows from the folder. */
    weft_status (*settings)(const char *folder, const weft_finder *plugins, weft_text *ini,
                            weft_error *err);
} weft_model_format;

#ifdef __cplusplus
}
#endif
#endif
