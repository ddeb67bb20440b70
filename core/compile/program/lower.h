/* SPDX-License-Identifier: Apache-2.0 */
/* From an ordered joint graph to programs: flat lists of instructions whose operands are (base,
 * offset), and a memory plan in which every byte has a place. */
#ifndef WEFT_PROGRAM_LOWER_H
#define WEFT_PROGRAM_LOWER_H

#include "compile/graph/graph.h"
#include "compile/schedule/schedule.h"

#include <weft/plugin.h>

/* ---- kernels ---- */

typedef struct weft_kernels {
    const weft_kernel **list; /* those of one device, all plugins */
    const char **owners;      /* of each: the plugin that brought it */
    int n;
    bool plain; /* use reference kernels only */
    const weft_device *device;
    void *device_self;
} weft_kernels;

/* tables: kernel tables of plugins, each ended by op == NULL; owners: the plugins' names. */
weft_status weft_kernels_init(weft_kernels *kernels, const weft_device *device, void *device_self,
                              const weft_kernel *const *tables, const char *const *owners,
                              int n_tables, weft_error *err);
void weft_kernels_release(weft_kernels *kernels);
/* The best kernel for a call; NULL: the op's plain one. */
const weft_kernel *weft_kernels_find(const weft_kernels *kernels, const weft_call *call);
/* The plugin that a kernel is of; NULL: none (a plain one). */
const char *weft_kernels_owner(const weft_kernels *kernels, const weft_kernel *kernel);

/* ---- state: what lives from step to step ---- */

typedef struct weft_state_entry {
    const char *name;
    int64_t offset, bytes;
    weft_value *value; /* in the train graph */
    bool far;          /* it lies in far memory, and offset is there */
} weft_state_entry;

/* Of places in far memory. */
enum { WEFT_FAR_ALIGNMENT = 4096 };

typedef struct weft_states {
    weft_pool pool;
    weft_map by_name;
    weft_state_entry *list;
    int n;
    int64_t bytes, alignment;
    int64_t far_bytes;
} weft_states;

/* Gives every parameter and state of the train graph a place, but caches; evaluate and generate
 * find theirs by name. Without training, of the graph that reads prompts. caches: instead, state of
 * the kind CACHE, which is not part of what a checkpoint holds. */
weft_status weft_states_init(weft_states *states, const weft_graph *g, const int *coord,
                             bool caches, int64_t alignment, weft_error *err);
void weft_states_release(weft_states *states);
const weft_state_entry *weft_states_find(const weft_states *states, const char *name);

/* ---- exchanges: a collective as it is carried out ---- */

/* Boxes that the device moves, calls of the transport, boxes again: all of it is known before the
 * run. */

/* A byte of one of the instruction's tensors, or of its workspace. */
typedef struct weft_place {
    int of; /* tensor; WEFT_PLACE_* */
    int64_t at;
} weft_place;

enum { WEFT_PLACE_WORKSPACE = -1, WEFT_PLACE_ZEROS = -2 };

typedef struct weft_place_box {
    weft_place to, from;
    weft_box box; /* but for where */
} weft_place_box;

/* Boxes in any order, or one call of the transport. */
typedef struct weft_exchange_part {
    const weft_step *step; /* what it is a part of */
    bool sends;            /* else boxes */
    int first, n;
    weft_place send, recv; /* recv: of an all_reduce and a broadcast, what is sent, too */
    int64_t count;
    weft_dtype dtype;
    weft_reduce op;
    weft_sent *sent; /* what it is for */
    int first_piece; /* while it is made */
} weft_exchange_part;

/* One part after the other. */
typedef struct weft_exchange {
    weft_exchange_part *parts;
    weft_place_box *boxes;
    int n_parts, n_boxes;
} weft_exchange;

/* ---- programs ---- */

typedef enum weft_base {
    WEFT_BASE_NONE,
    WEFT_BASE_ARENA,
    WEFT_BASE_STATE,
    WEFT_BASE_INPUT,
    WEFT_BASE_STEP_INPUT,
    WEFT_BASE_CACHE,
    WEFT_BASE_FAR,  /* far memory, which has no addresses */
    WEFT_BASE_SLOT, /* of the arena: where, depends on the micro-batch */
    WEFT_BASES
} weft_base;

typedef enum weft_buffer_class {
    WEFT_CLASS_STATE, /* parameters and optimizer state, in the state base */
    WEFT_CLASS_CACHE, /* keys and values of the text so far, in the cache base */
    WEFT_CLASS_INPUT,
    WEFT_CLASS_GRADIENT, /* of parameters */
    WEFT_CLASS_WEIGHT,   /* copies made from parameters: casts, gathers */
    WEFT_CLASS_SAVED,    /* activations that wait for the backward */
    WEFT_CLASS_HELD,     /* what the backward leaves to the weights' gradients */
    WEFT_CLASS_SENT,     /* copies that are on their way to other stages */
    WEFT_CLASS_TEMPORARY,
    WEFT_CLASS_WORKSPACE,
    WEFT_CLASSES
} weft_buffer_class;

/* A piece of memory and when it is in use: positions count instructions over all programs of the
 * graph, in order. */
typedef struct weft_buffer {
    weft_base base;
    int64_t offset, bytes;
    int first, last;
    weft_buffer_class kind;
    int slots;  /* of base SLOT: which; offset is inside the slot */
    bool early; /* written in a prologue, and so alive since the task before */
    const weft_value
        *value; /* the first that lies there; NULL: workspace of the instruction at `first` */
} weft_buffer;

/* A receive may be begun while the one before it is not yet awaited. */
enum { WEFT_MOST_POSTED = 2 };

/* What queues are for, as far as there are so many. */
enum {
    WEFT_QUEUE_COMPUTE,
    WEFT_QUEUE_COLLECTIVES,
    WEFT_QUEUE_TRANSFERS,
    WEFT_QUEUE_PIECES,
    WEFT_MOST_QUEUES
};

typedef struct weft_instruction {
    weft_instruction_kind kind;
    const weft_node *node;
    const weft_node **parts;   /* collectives that run as one: all of them, `node` the first; one
                                  operand and one result each. NULL: `node` alone */
    const weft_kernel *kernel; /* NULL: plain */
    const char *owner;         /* the plugin of the kernel, or of the op if it is plain; NULL:
                                  the core */
    weft_call call; /* as its kernel sees it, but for data and workspace, once it is prepared; the
                       state is owned by the prepared cache */
    int n_ins, n_outs;
    weft_tensor *tensors;    /* ins, then outs; data is filled in when run */
    int *buffers;            /* of each tensor */
    int workspace;           /* buffer, -1: none */
    weft_exchange *exchange; /* COLLECTIVE: how it is carried out */
    int transfer; /* POST_SEND, POST_RECV, AWAIT, FETCH, EVICT, ARRIVE: which, from 0 on; of what is
                     shifted, a rank receives one and sends the next, and awaits both at once */
    double flops; /* of one run of it */
    double masked; /* the share of them that a mask leaves nothing of, once a forecast has looked */
    weft_kernel_work work; /* of one launch, if the kernel says; launches 0: it does not */
    int64_t every; /* runs in the steps that this divides; below 0: in the others; 1: in all */
    bool accumulate;
    bool early;   /* stands in its program's prologue */
    bool fetch;   /* some result goes to observers */
    int position; /* in the order that buffers live by */
    int queue;
    int event; /* recorded behind it, for those on other queues that wait; -1: nobody does */
    int waits[WEFT_MOST_QUEUES - 1]; /* instructions of the same program on other queues that must
                                        be done first; for other tasks' see weft_boundary */
    int n_waits;
    bool crosses; /* it waits for one of another task, behind some of them */
} weft_instruction;

/* An instruction as its kernel sees it, but for what only a run knows: data, state, workspace. */
weft_call weft_instruction_call(const weft_instruction *in, const weft_kernels *kernels);
/* The device's alignment, 64 at least. */
int64_t weft_device_alignment(const weft_device *device);
static inline int64_t weft_align(int64_t n, int64_t alignment)
{
    return (n + alignment - 1) / alignment * alignment;
}
/* What kernels are told of the device, in calls of all kinds. */
void weft_kernels_address(const weft_kernels *kernels, int queue, weft_call *call);
/* What operand or result i of an instruction is in the graph. */
const weft_value *weft_instruction_in(const weft_instruction *in, int i);
const weft_value *weft_instruction_out(const weft_instruction *in, int i);

/* One part of one stage. */
typedef struct weft_program {
    weft_part part;
    int stage;
    weft_instruction *list;
    int n, capacity;
    int n_prologue; /* its first instructions, which run before the body of the task before it:
                       receives, and in pipelines the first gather of a micro-batch's program */
    int from, to;   /* its positions are [from, to) */
    unsigned periods, runs; /* bits of weft_lowered.periods: of its instructions; of those that run
                               here: of a variant not all */
    int *like; /* of F, B and W, by micro-batch: the first for which all that it touches lies in
                  the same places */
} weft_program;

/* Values of a micro-batch that live from one program to another, while those of other micro-batches
 * do: each micro-batch that is on its way has a slot, in which they lie together. */
typedef struct weft_slots {
    int maker, reader; /* programs: of the makers, of the readers of the last position */
    int n;
    int64_t bytes; /* of one */
    int *slot_of;  /* by micro-batch */
    int buffer;    /* in which all of them are, one behind the other; -1: they are inputs */
} weft_slots;

/* An instruction that waits for one of another task, on another queue. */
typedef struct weft_boundary_wait {
    int after, before; /* of the two programs: who waits, and for whom */
} weft_boundary_wait;

/* What must wait where one task of the list comes behind another, whose body may still run. Before
 * that all is done. */
typedef struct weft_boundary {
    int before,
        after;     /* programs: of the task whose body may still run, and of the one that waits */
    bool prologue; /* what waits is the prologue of `after`. It is enqueued a task earlier, so there
                      is a task between the two; but none behind a begin, whose results it reads */
    weft_boundary_wait *waits; /* in the order of those who wait */
    int n_waits;
} weft_boundary;

typedef struct weft_lowered {
    weft_graph *graph;
    const weft_task_list *tasks; /* in this order; every one has its program */
    weft_pool pool;
    weft_buffer *buffers;
    int n_buffers, buffers_capacity;
    int *buffer_of;         /* by value id; -1: none */
    weft_program *programs; /* parts one after the other; of B and W the last stage first. So an
                               operand is made in a reader's own program or in an earlier one */
    int n_programs;
    int n_variants; /* behind these: of what runs once a step, without the instructions that only
                       some steps have. The host picks one; the memory is the same */
    int64_t periods[WEFT_MOST_PERIODS];
    int n_periods;
    weft_slots *slots;
    int n_slots;
    weft_slots inputs; /* of a micro-batch: uploaded in its maker's prologue; n 0: there are none */
    weft_boundary *boundaries;
    int n_boundaries, boundaries_capacity;
    int n_positions, n_transfers, n_events;
    int64_t sending;   /* of a node, on their way at once: each has a place */
    int64_t alignment; /* of every tensor and workspace */
    int64_t arena_bytes, step_input_bytes;
    int64_t input_bytes; /* of one micro-batch */
    int64_t live_peak;   /* the most that is alive at once: arena_bytes minus this is lost to
                            fragmentation */
    int peak_position;
    int coord[WEFT_MAX_AXES];
    int64_t load_bytes; /* the most that a kernel takes before the first step */
    double flops;       /* of one step: everything that is computed */
    double model_flops; /* of one step, what MFU counts: the forward's products, and for each as
                           much again for every operand's gradient that is needed; three times the
                           forward's where nothing is frozen */
    weft_dtype product_dtype; /* that most of these run in: what MFU is measured against */
} weft_lowered;

typedef struct weft_lower_options {
    const weft_kernels *kernels;
    const weft_states *states;
    const weft_task_list *tasks; /* what this rank runs; outlives what is lowered */
    int rank, n_queues;
    bool rough;                /* memory in one sweep */
    int64_t sending;           /* results of one stage and part on their way at once; 0: one */
    uint64_t adversary;        /* not 0: spread instructions over the queues by this seed */
    const weft_states *caches; /* of a graph that writes text; NULL: none */
} weft_lower_options;

weft_status weft_lower(weft_graph *g, const weft_lower_options *options, weft_lowered **out,
                       weft_error *err);
void weft_lowered_destroy(weft_lowered *l);
/* The dtype that a product of this node runs in. */
weft_dtype weft_product_dtype(const weft_graph *g, const weft_node *n);
/* How often a product of the forward is computed in a step, forward and backward: its gradients
 * cost twice what it does, in equal shares for each operand that can have one; what is frozen needs
 * none. */
double weft_product_passes(const weft_node *n);
/* Of every part and every stage that it has there is one, maybe without instructions; else NULL. */
weft_program *weft_lowered_program(const weft_lowered *l, weft_part part, int stage);
/* Which periods a step ends, as bits; of one that ends all: WEFT_ALL_PERIODS. */
enum { WEFT_ALL_PERIODS = (1 << WEFT_MOST_PERIODS) - 1 };
unsigned weft_lowered_runs(const weft_lowered *l, int64_t step);
/* The task's program in such a step. */
const weft_program *weft_lowered_pick(const weft_lowered *l, const weft_task *task, unsigned runs);
/* The next kind of step that there is, as bits, from -1 on; -1: there is no more. */
int weft_lowered_next_runs(const weft_lowered *l, int runs);
/* Of two programs whose tasks follow each other in the list; NULL: they never do. */
const weft_boundary *weft_lowered_boundary(const weft_lowered *l, const weft_program *before,
                                           const weft_program *after, bool prologue);
/* The first stage that this rank runs. */
int weft_lowered_first_stage(const weft_lowered *l);
/* Does the prologue of the program begin with the upload of its micro-batch's inputs? */
bool weft_lowered_uploads(const weft_lowered *l, const weft_program *p);
/* The first micro-batch for which the program is at the same places in memory; -1: of all one. */
int64_t weft_program_like(const weft_program *p, int64_t micro);
/* What the inputs of the micro-batches take that are on their way at once. */
int64_t weft_lowered_inputs(const weft_lowered *l);
/* What the host holds of a step before it is uploaded: what all micro-batches share, and their own
 * inputs; each with room for an address where there are none. */
typedef struct weft_batch_bytes {
    size_t step, micro;
} weft_batch_bytes;
weft_batch_bytes weft_lowered_batch(const weft_lowered *l, int64_t micro_batches);

/* ---- parts of lowering, for its own files and tests ---- */

/* This rank's part of a value, without data. */
void weft_local_tensor(const weft_graph *g, const weft_value *v, const int *coord,
                       weft_tensor *out);
/* The place in the sample of what lies at place i of the sequence. */
int64_t weft_seq_place(const weft_graph *g, int64_t i);
/* Global row-major index of local element i. */
uint64_t weft_global_index(const weft_tensor *t, int64_t i);
/* How many elements from i on follow each other in the whole, too. */
int64_t weft_elements_in_row(const weft_tensor *t, int64_t i);
/* Where in the memory of its base (of SLOT: in the arena) a buffer is for a micro-batch (-1: any).
 */
int64_t weft_buffer_offset(const weft_lowered *l, const weft_buffer *b, int64_t micro);
/* Bytes of the largest shard of a value: what its buffer takes on every rank. */
int64_t weft_nominal_bytes(const weft_graph *g, const weft_value *v);
/* Of parts that run as one, is this sent by itself, from where it lies to where it goes? Large ones
 * are: packing them would cost more than it saves.
 */
bool weft_part_goes_alone(const weft_graph *g, const weft_node *part);
/* What a group is for: transfers have channels of their own, so that each is in one order on both
 * ends. */
typedef enum weft_channel {
    WEFT_CHANNEL_COLLECTIVES,
    WEFT_CHANNEL_ACTIVATIONS,
    WEFT_CHANNEL_GRADIENTS,
    WEFT_CHANNEL_RING
} weft_channel;
/* The channel of a step of a node. */
weft_channel weft_channel_of(const weft_node *n, const weft_step *step);
/* What a rank sends for part `part` (0: of one node) of a collective. */
int64_t weft_part_sent_bytes(const weft_graph *g, const weft_instruction *in, int part);
/* Gives arena buffers offsets; returns the arena's size. */
weft_status weft_plan_memory(weft_buffer *buffers, int n, int64_t alignment, bool rough,
                             int64_t *arena, int64_t *peak, int *peak_at, weft_error *err);
/* Waits between queues: data and reuse of memory. */
weft_status weft_plan_waits(weft_lowered *l, int n_queues, uint64_t seed, weft_error *err);
/* The same between tasks that follow each other. Waits inside of programs are known. */
weft_status weft_plan_boundaries(weft_lowered *l, int n_queues, weft_error *err);

/* ---- prepared kernels, shared by equal calls ---- */

typedef struct weft_prepared {
    weft_pool pool;
    weft_map by_call;
    struct weft_prepared_item *items;
} weft_prepared;

/* Runs `prepare` for every instruction that has one, once per distinct call. The device is open:
 * every kernel is asked again for its workspace, and refused if the plan gave it less. */
weft_status weft_prepare(weft_prepared *prepared, const weft_kernels *kernels, weft_lowered *l,
                         weft_error *err);
void weft_prepared_release(weft_prepared *prepared);

#endif
