/* SPDX-License-Identifier: Apache-2.0 */
/* The plugin contract: one exported symbol, <name>_LTX_plugin, a descriptor. Everything else is
 * found through it.
 *
 * A plugin is created once per rank. All hooks of one instance are called by the rank's one thread.
 * Nothing in a plugin may be global: eight ranks run as threads of one process. No exit, abort or
 * printing; errors are values, words go to the log. */
#ifndef WEFT_PLUGIN_H
#define WEFT_PLUGIN_H

#include <weft/base.h>
#include <weft/graph.h>
#include <weft/hf.h>
#include <weft/mesh.h>
#include <weft/op.h>
#include <weft/params.h>
#include <weft/pass.h>
#include <weft/review.h>
#include <weft/service.h>

#ifdef __cplusplus
extern "C" {
#endif

#define WEFT_PLUGIN_MAGIC 0x74666577u /* "weft" */

/* What listing the plugin does to a run's numbers. */
typedef enum weft_numerics {
    WEFT_NUMERICS_BITWISE,
    WEFT_NUMERICS_TOLERANCE,
    WEFT_NUMERICS_CHANGES
} weft_numerics;

/* ---- observers ---- */

typedef enum weft_event {
    WEFT_EVENT_START = 1, /* steps will be made: once, after init or load */
    WEFT_EVENT_STEP_BEGIN = 2,
    WEFT_EVENT_STEP_END = 4,
    WEFT_EVENT_EVALUATE = 8, /* a validation loss is known */
    WEFT_EVENT_VALUE = 16,   /* a value marked `fetch` was made */
    WEFT_EVENT_STOP = 32,    /* the run ends, for whatever reason */
    WEFT_EVENT_TEXT = 64,    /* a text was generated */
    /* Around every instruction of every program. They cost time, but only in runs in which an
     * observer asks for them. On a device that computes later than it is told to, END says that the
     * work is enqueued. */
    WEFT_EVENT_INSTRUCTION_BEGIN = 128,
    WEFT_EVENT_INSTRUCTION_END = 256, /* and nothing failed */
    /* When an instruction ran: began_s, ended_s. On a device that computes later, and knows
     * (`elapsed`), they are shown when the host has waited for all of them, before STEP_END; else
     * at once, by the host's clock. */
    WEFT_EVENT_INSTRUCTION_TIMES = 512,
    /* Once, before all others: the run's memory is there, and the state is initialised. Who asks
     * for it finds WEFT_MARGIN_BYTES that are nobody's behind each piece. */
    WEFT_EVENT_MEMORY = 1024,
    WEFT_EVENT_GRADIENTS = 2048, /* all that a step computes before the update is known */
    WEFT_EVENT_UPDATED = 4096,   /* parameters and states have their next content */
    /* After GRADIENTS, instead of the update: the loss or the norm is not finite. The state is
     * whole, so the step may be run again (<weft/execute.h>). An observer that `fails`, and knows
     * why, says it as the step's error: WEFT_ERR_REPEATS. */
    WEFT_EVENT_NOT_FINITE = 8192,
} weft_event;

enum { WEFT_MARGIN_BYTES = 4096 };

/* A piece of memory that the run has allocated of its device. */
typedef struct weft_memory {
    const char *name; /* "arena", "state", ... */
    void *at;
    size_t bytes;
} weft_memory;

/* What an instruction works on, or what a step has made, where it lies on this rank. */
typedef struct weft_operand {
    const weft_value *value; /* NULL: room that an instruction works in */
    weft_tensor tensor; /* this rank's part; data is the device's, NULL: other ranks hold it alone,
                           or it lies in far memory (weft_run_tensor reads it); of room to work in
                           only data counts */
    size_t bytes;       /* of the content */
    /* INSTRUCTION */
    bool read, written; /* by it */
    int buffer;         /* in which of the plan's buffers of this mode it is; -1: in none */
    int64_t slot;       /* which micro-batch's, of buffers that have a place for several; else 0 */
    int first, last;    /* of the arena: between these positions nobody else has this memory; last
                           below first: it lies elsewhere, or keeps its place */
} weft_operand;

typedef struct weft_report {
    const char *name;
    double value;
} weft_report;

/* An instruction as it was planned on this rank, as `weft plan --program` prints it. */
typedef struct weft_instruction_view {
    weft_mode mode;      /* whose program it is: of the graph for this mode ... */
    const char *program; /* ... "begin", "forward", "backward", "step_end", "update" */
    int index, n;        /* its place there, from 0; how many the program has */
    weft_instruction_kind kind;
    const weft_node *const *nodes; /* what it does: one, or redistributes that are sent as one */
    int n_nodes;
    const weft_mesh *mesh; /* names the axes of the nodes' steps */
    const char *kernel;    /* COMPUTE: its name, "plain" if it is the op's own; else NULL */
    const char *by;        /* COMPUTE: the plugin of the kernel; NULL: the core, or no kernel */
    double flops;          /* COMPUTE: operations of this one execution; else 0 */
    int64_t bytes; /* COLLECTIVE: what this rank sends, as `weft plan` counts it; else the size of
                      operands and results together */
    int queue;
    /* BEGIN and END alone */
    int position; /* in the order of all instructions of the mode's programs */
    bool early;   /* in its program's prologue: before the body of the task before it */
    /* Prologues and bodies that have begun so far: where it grows the host may have written inputs
     * and state. */
    int64_t stretch;
    const weft_operand *operands; /* operands, results, and room to work in if it has some */
    int n_ins, n_outs, n_operands;
} weft_instruction_view;

/* How long one part of a step takes, waits for other stages of a pipeline left out: of several
 * ranks that do the same the slowest. */
typedef struct weft_part_time {
    weft_part part;
    int place;      /* of F and B the stage; else the rank of the pipeline */
    double seconds; /* of F and B: of one micro-batch, the mean of the step's */
} weft_part_time;

/* Const view of the run at an event; valid during the call only. Fields that an event does not
 * concern are 0 or NULL. */
typedef struct weft_run_view {
    int rank, ranks;
    const char *dir;     /* run folder; NULL: none */
    int64_t step, steps; /* 1-based step (START: steps finished before), total */
    /* What is counted next: "tokens", those with a label, or, of data without a sequence of labels,
     * and where the model says by what the loss is divided, "samples". */
    const char *unit;
    int64_t tokens, total_tokens; /* of this step, since the start of training */
    int64_t samples;              /* global samples consumed */
    int64_t skipped, in_a_row;    /* updates left out so far; of these, the last ones */
    double loss, grad_norm;       /* of STEP_END, NOT_FINITE */
    const weft_saves *saves;      /* NULL: nobody keeps the state */
    int64_t waits; /* how often this rank waited so long for others that it was worth a word */
    double step_s, data_s, elapsed_s; /* seconds: this step, of it waiting for data, since START */
    /* Of the step before, and of all ranks' own time in it, which is without calls of the
     * transport: the longest, whose that is, and the median. 0: one rank, or a device that computes
     * by itself, so that the host does not know. */
    double slowest_s, median_s;
    int slowest_rank;
    double flops;         /* model flops of this step: 6 N + attention, see the page of metrics */
    double peak_flops;    /* the device's measured matrix rate in the run's dtype; 0: unknown */
    size_t planned_bytes; /* arena, state and inputs as planned */
    size_t base_bytes;    /* high-water mark of the process before these: weft, libraries, data */
    size_t peak_bytes;    /* high-water mark of the process now */
    double eval_loss;     /* EVALUATE */
    int64_t eval_tokens;
    const weft_report *reports; /* scalars that passes named (lr, ...) */
    int n_reports;
    const weft_part_time *parts; /* STEP_END, on every rank, of a step that was asked for by
                                    WEFT_ASK_TIMES; else NULL */
    int n_parts;
    const weft_value *value;   /* VALUE: what it is in the graph ... */
    const weft_tensor *tensor; /* ... and its local data in host memory; where the sequence lies in
                                  another order, an event for each piece that lies together in the
                                  sample */
    int piece;                 /* which of these, from 0 */
    int64_t micro_batch;       /* VALUE, INSTRUCTION: from 0; -1 outside micro-batches */
    const weft_instruction_view *instruction; /* INSTRUCTION */
    const weft_memory *memory;                /* MEMORY: the arena first */
    int n_memory;
    const weft_operand *operands; /* GRADIENTS, NOT_FINITE: the loss, reports, gradients; UPDATED:
                                     parameters, states; the same on every rank, in this order */
    int n_operands;
    const weft_mesh *mesh;     /* GRADIENTS, UPDATED */
    int64_t micro_batches;     /* of a step */
    double began_s, ended_s;   /* INSTRUCTION_TIMES, as weft_now() */
    const char *prompt, *text; /* TEXT */
    weft_status status;        /* STOP: why */
    struct weft_run *core;     /* the core's own: weft_run_ask, weft_run_tensor */
} weft_run_view;

/* What an observer may ask of the run. */
enum {
    WEFT_ASK_STOP = 1,  /* to end after this step, as if a signal had asked to stop */
    WEFT_ASK_SAVE = 2,  /* to save after this step, if a listed plugin keeps the state */
    WEFT_ASK_TIMES = 4, /* to measure how long the parts of the next step take */
};
/* Asks for one of these or both, from an observer on any rank: one that asks is enough. All ranks
 * agree once a step, after STEP_END; what is asked later counts after the next step. */
void weft_run_ask(const weft_run_view *run, unsigned what);
/* INSTRUCTION_BEGIN and _END, GRADIENTS, UPDATED: operand i with its data in memory that the host
 * may read, until the next call or the end of the event; waits for what is enqueued. NULL where
 * this rank holds nothing of it. */
weft_status weft_run_tensor(const weft_run_view *run, int i, weft_tensor *out, weft_error *err);

/* ---- contributions ---- */

/* Of passes. Within a stage, listed order. GRAPH passes see the model's graph before placement;
 * TABLE passes see it as those have left it, and add lines to the table that placement goes by;
 * PLACED passes see it with a layout on every value and redistributes where these change; all run
 * once per mode. JOINT passes see the placed graph with its backward (train mode only). What
 * these two add is placed at once. CLOSED passes see the graph whole, with what the host reads: no
 * pass behind asks what a node means, so they may put the steps of a computation in its place.
 * ORDERED passes see the graph in the order in which it will run, with the part and pipeline stage
 * of every node; what they add is placed at once. Both once per mode. */
typedef enum weft_pass_stage {
    WEFT_STAGE_MESH,
    WEFT_STAGE_GRAPH,
    WEFT_STAGE_TABLE,
    WEFT_STAGE_PLACED,
    WEFT_STAGE_JOINT,
    WEFT_STAGE_CLOSED,
    WEFT_STAGE_ORDERED,
    WEFT_STAGES
} weft_pass_stage;

/* What a mesh pass may do; the core collects and nests the axes in listed order. Where a parameter
 * says the degree, a contribution of kind WEFT_AXIS is shorter. */
typedef struct weft_mesh_plan weft_mesh_plan;
/* Declares an axis. degree 0: auto (what is left of the ranks; one axis at most). at: where the
 * degree was set. */
weft_status weft_mesh_plan_axis(weft_mesh_plan *plan, const char *name, int64_t degree,
                                weft_where at, weft_error *err);
/* Of an axis that the same pass has declared: it will cut this dim of all inputs ("batch", "seq").
 * What must be divided before placement, as the head's chunks of the sequence, heeds that. The rule
 * itself is for the graph pass to add. dim: lives as long as the plugin. */
weft_status weft_mesh_plan_cuts(weft_mesh_plan *plan, const char *name, const char *dim,
                                weft_error *err);

/* What a command may use of the program that runs it. */
typedef struct weft_command_host {
    const weft_log *log;
    const char
        *cache_dir; /* the user's cache folder for weft, which may not exist yet; NULL: none */
    int threads;    /* how many it may use */
    bool terminal;  /* the log goes to a terminal */
    /* Writes to standard output; fails if nobody reads. */
    weft_status (*write)(const struct weft_command_host *host, const void *data, size_t n,
                         weft_error *err);
    const weft_finder *plugins; /* the others */
    /* A command whose answer is no sets it, as one that compares and finds what differs: then it
     * returns WEFT_OK, and the program ends with exit code 1 and without an error. */
    bool *answers_no;
} weft_command_host;

/* `weft NAME ...`: work on files that needs no run, no INI and no mesh. The plugin is found and
 * opened by the command's name (or by the program's short list of commands), but not created. */
typedef struct weft_command {
    const char *name, *summary; /* one word; one line */
    const char *usage;          /* what --help prints, whole lines */
    /* argv[0] is the name; --help never gets here. Errors of usage are WEFT_ERR_INPUT. */
    weft_status (*run)(const weft_command_host *host, int argc, char **argv, weft_error *err);
} weft_command;

typedef enum weft_kind {
    WEFT_END,
    WEFT_PASS,
    WEFT_SERVICE,
    WEFT_OBSERVER,
    WEFT_COMMAND,
    WEFT_WRAP,
    WEFT_AXIS,
    WEFT_REVIEW
} weft_kind;

/* In which modes a pass runs, as bits. */
enum {
    WEFT_IN_TRAIN = 1 << WEFT_MODE_TRAIN,
    WEFT_IN_EVALUATE = 1 << WEFT_MODE_EVALUATE,
    WEFT_IN_GENERATE = 1 << WEFT_MODE_GENERATE,
    WEFT_IN_DECODE = 1 << WEFT_MODE_DECODE,
};

typedef struct weft_contribution {
    weft_kind kind; /* WEFT_END ends the table */
    /* Capabilities, NULL-ended lists or NULL. needs: must have been given by an earlier listed
     * plugin (same or earlier stage), or by the core; "x?" is used if there; "x (from y)" tells
     * users who gives it. gives: for later ones. once: no other plugin may give the same (device,
     * model, ...). */
    const char *const *needs, *const *gives, *const *refuses;
    /* PASS. after: NULL, or capabilities with blanks between: the pass runs behind all passes of
     * its stage that give them, wherever its plugin is listed; "x?": if any does. So a plugin has
     * passes at two places of the list. */
    weft_pass_stage stage;
    const char *after;
    unsigned modes; /* all stages but mesh: WEFT_IN_...; 0: all modes */
    weft_status (*mesh)(void *self, weft_mesh_plan *plan, weft_error *err);
    /* All other stages. What goes wrong is an error of the graph: weft_graph_fail, or
     * weft_graph_error for functions that take a weft_error. */
    void (*graph)(void *self, weft_graph *graph);
    /* AXIS: a mesh axis of this name; it gives the capability "axis:NAME". degree: the INT
     * parameter that says its size; a word there (auto) is all ranks that other axes leave. cuts:
     * NULL, or the dim of all inputs that it will cut (weft_mesh_plan_cuts). */
    const char *axis, *degree, *cuts;
    /* SERVICE: "device", "data", "tokenizer", "generator", ... and its table.
     * WRAP: the service that it stands around ("x?": only if somebody gives x), and a table of the
     * same type. Functions that this table leaves NULL go to `next`, and what is not a function is
     * read from the service's own table, so that a wrapped cpu is still the device "cpu". */
    const char *service;
    const void *table;
    /* WRAP, called once, right after create and under its rules: what the wrap stands around, to
     * be kept in self. Whatever calls the service calls this table with this self instead; the
     * table's functions call next's with next_self, from when and from whatever thread the service
     * itself may be called. Functions that nobody further in has are NULL there. Both are the
     * core's, which knows by them in whose code an error arises, and live until destroy. The
     * service must be listed before. Of several wraps of one service the first listed is nearest to
     * it, and the last one is called first; those of [weft] defaults are called before. A wrap
     * whose `group` gives handles of its own, or the like, has every function that takes them. */
    weft_status (*wrap)(void *self, const void *next, void *next_self, weft_error *err);
    /* OBSERVER: set of events. An error is logged, the run goes on, and the observer is switched
     * off; after WEFT_ERR_IO it is shown what comes next all the same, and may try again */
    unsigned events;
    bool fails; /* its errors end the run instead, with their code */
    /* Optional: which of these events this run needs, 0 for none. Asked once, before the run's
     * memory is there. */
    unsigned (*wants)(void *self);
    weft_status (*observe)(void *self, weft_event event, const weft_run_view *run, weft_error *err);
    /* COMMAND */
    const weft_command *command;
    /* WRAP, optional: whether it stands around the service, where that depends on who gives it.
     * Asked right before `wrap`, by which the wrap learns that it does. Returns a table of the
     * service's type that lives as long as self, from which what is not a function is read, too;
     * NULL: what is there is left as it is. device: of those that are listed before; NULL: none. */
    const void *(*around)(void *self, const void *next, const weft_device *device);
    /* REVIEW: looks at the finished plan of a training run (<weft/review.h>). stage: the first one
     * that what it asks for changes. Reviews of an earlier stage come first, and those of later
     * ones see only plans behind which these ask for nothing new. */
    weft_status (*review)(void *self, weft_plan *plan, weft_error *err);
} weft_contribution;

/* What a plugin may ask of its host; valid until destroy. */
typedef struct weft_host {
    const weft_params *params;              /* this plugin's section */
    const weft_params *weft, *train, *mesh; /* [weft], [train], [mesh] */
    /* Rank 0's lines go to standard error and into log.txt of the run folder, those below [weft]
     * log nowhere. Of the other ranks only warnings and errors are shown, on standard error of
     * their process and without a word of which rank it is; none is in log.txt. So what is said
     * once for the run is said by rank 0, and what another rank must say names the rank. */
    const weft_log *log;
    const char *dir; /* run folder, exists after open on rank 0; NULL: none (plan, config) */
    const char
        *cache_dir; /* the user's cache folder for weft, which may not exist yet; NULL: none */
    int rank, ranks, threads; /* threads: how many this rank may use */
    bool terminal;            /* the log goes to a terminal */
    bool no_data; /* text is written with a trained model: nothing is learnt, so no training data is
                     read */
    /* Another plugin's service by capability, once it is open; *self receives its instance. NULL:
     * nobody gives it. With the wraps that are open by then: before the run, those that are listed
     * before whoever asks. */
    const void *(*service)(const struct weft_host *host, const char *name, void **self);
    /* Exchanges n bytes with every rank over the core's control channel: all receives ranks * n
     * bytes, rank r's at r * n. Collective; for setting things up (pointers of a shared process,
     * ids), not for tensors. With one rank it copies. */
    weft_status (*exchange)(const struct weft_host *host, const void *mine, size_t n, void *all,
                            weft_error *err);
    /* The same; fails, and names the ranks that have not come, once this one has waited for limit_s
     * seconds. */
    weft_status (*exchange_within)(const struct weft_host *host, double limit_s, const void *mine,
                                   size_t n, void *all, weft_error *err);
    /* For transports: called every 100 ms or so while this rank waits for others, since weft_now()
     * was `since`, the same for the whole wait. ranks[n]: who meets, this rank among them; absent:
     * who of them has not come. The core tells the user, in what the rank waits, too; it fails when
     * [weft] rank_timeout has passed: then the wait must end with that error. */
    weft_status (*waiting)(const struct weft_host *host, double since, const int *ranks,
                           const bool *absent, int n, weft_error *err);
    void *core; /* the core's own */
} weft_host;

/* Says something to the user once a run: of all ranks that say it the first one's line is shown,
 * and the same line only once, however often passes run. at: where the user's text gives reason for
 * it; WEFT_NOWHERE: nowhere. For a rank's own matters there is host->log. */
void weft_warn(const weft_host *host, weft_where at, const char *format, ...) WEFT_PRINTF(3, 4);
void weft_inform(const weft_host *host, const char *format, ...) WEFT_PRINTF(2, 3);

/* What this rank does at this moment, for wraps of its services, which see bytes alone. */
typedef struct weft_running {
    weft_mode mode;
    int64_t step, micro_batch; /* micro_batch: -1 outside of them */
    weft_instruction_kind kind;
    const weft_node *const *nodes; /* one, or redistributes that are sent as one */
    int n_nodes;
    const weft_tensor *tensors; /* operands, then results: this rank's parts and their bounds */
    int n_ins, n_outs;
    const weft_sent *sent; /* in a call of a collective: what is sent; else NULL */
} weft_running;
/* False: it runs no instruction, or a device repeats those of a task that it has kept. */
bool weft_running_now(const weft_host *host, weft_running *out);

/* State of a service, a wrap, an observer: bytes that each rank has for itself from step to step,
 * zeros at first. They are in the plan's memory, the device's, and in checkpoints, where they are
 * called PLUGIN.NAME and the mesh. From `create` on, until the graphs are planned: passes, and
 * weft_transport.plan, know how many are needed. Asked for again, it is the larger of both. */
enum {
    /* A run that goes on without them, as on another mesh, begins them anew; else it is refused. */
    WEFT_KEEP_RESETS = 1,
    /* The host works on them: refused beside a device that has memory of its own. */
    WEFT_KEEP_HOST = 2
};
weft_status weft_keep(const weft_host *host, const char *name, int64_t bytes, unsigned flags,
                      weft_error *err);
/* Where they lie while the run lasts; NULL: there is no run, or none were asked for. */
void *weft_kept(const weft_host *host, const char *name);

/* What to give dlopen for a library that is opened by name, or by a path. Without a lock: what is
 * asked for. Under [weft] lock: the path that was vetted, opened already with all that it needs; an
 * error if the lock does not know it, with *path still `name`, or if it is not what was vetted, or
 * if anything else is mapped that was not. *path lives as long as the plugin; from create on. */
weft_status weft_library_find(const weft_host *host, const char *name, const char **path,
                              weft_error *err);

/* For services that wait for the run's device, while a run lasts: until the event is done. As where
 * the core waits, what has failed is named, who has ended is noticed, and [weft] rank_timeout
 * holds. */
weft_status weft_event_wait(const weft_host *host, weft_device_event *event, weft_error *err);

/* For models: how many ids the embedding and the head have. That is `given`, unless vocab_size in
 * the model's section is auto: then as many as the run's tokenizer has. */
weft_status weft_vocabulary(const weft_host *host, const char *section, int64_t given,
                            int64_t *size, weft_error *err);

typedef struct weft_plugin {
    uint32_t magic; /* WEFT_PLUGIN_MAGIC */
    uint32_t size;  /* sizeof(weft_plugin) */
    uint16_t abi_major, abi_minor;
    /* Of an entry of each table, in bytes, and WEFT_SERVICE_SIZES: a plugin that was built with
     * other headers of the same number is refused before any table is read. */
    uint16_t param_size, contribution_size, op_size, kernel_size;
    uint32_t service_sizes;
    const char *name;                        /* as in the file name and the INI */
    const char *version, *licence, *summary; /* all non-empty */
    weft_numerics numerics;
    const weft_param *params;               /* NULL: none */
    const weft_contribution *contributions; /* NULL: none */
    const weft_op *const *ops;              /* NULL-ended; NULL: none */
    const weft_kernel *kernels;             /* ended by op == NULL; NULL: none */
    /* Size of the plugin's own struct, which begins with a `const weft_host *`: WEFT_SELF(type).
     * Before create it is zeroed, and the host and all parameters that have a field are filled in;
     * after destroy it is freed. 0: self is the host. */
    size_t self_size;
    /* Parameters are parsed and checked. Touches no hardware, peers or files. May be NULL. */
    weft_status (*create)(void *self, weft_error *err);
    /* Hardware, peers, files; never called by plan, inspect or config. Undone by close. */
    weft_status (*open)(void *self, weft_error *err);
    void (*close)(void *self);
    /* What create has made; also after a create that failed. Self itself is not the plugin's to
     * free. */
    void (*destroy)(void *self);
} weft_plugin;

/* weft_plugin.self_size of a struct that begins with `const weft_host *host`. */
#ifdef __cplusplus
#define WEFT_SELF(type)                                                                            \
    (sizeof(type) + 0 * sizeof(static_cast<const weft_host * type::*>(&type::host)) +              \
     0 * sizeof(char[offsetof(type, host) == 0 ? 1 : -1]))
#else
#define WEFT_SELF(type)                                                                            \
    (sizeof(type) + 0 * sizeof(char[_Generic(((type *)0)->host, const weft_host * : 1)]) +         \
     0 * sizeof(char[offsetof(type, host) == 0 ? 1 : -1]))
#endif

/* One number for the sizes of what services, observers and commands exchange with the core. */
#define WEFT_SIZES(a, b, c) ((uint32_t)(sizeof(a) + 1009 * sizeof(b) + 1000003 * sizeof(c)))
#define WEFT_SERVICE_SIZES                                                                         \
    (WEFT_SIZES(weft_device, weft_transport, weft_data) +                                          \
     3 * WEFT_SIZES(weft_tokenizer, weft_generator, weft_store) +                                  \
     5 * WEFT_SIZES(weft_weights, weft_model_format, weft_schedule) +                              \
     7 * WEFT_SIZES(weft_run_view, weft_host, weft_command) +                                      \
     11 * WEFT_SIZES(weft_value, weft_node, weft_state_view) +                                     \
     13 * WEFT_SIZES(weft_call, weft_tensor, weft_layout) +                                        \
     17 * WEFT_SIZES(weft_hf_tensor, weft_hf_key, weft_hf_form))

/* The descriptor's head, for a plugin's one exported symbol:
 *     WEFT_PLUGIN(fsdp) = { WEFT_PLUGIN_HEAD, .name = "fsdp", .version = WEFT_VERSION, ... };
 * The same in C++20. C++17 has no names in initialisers: there the head is followed by all fields
 * in their order, as far as they are not NULL at the end:
 *     WEFT_PLUGIN(fsdp) = { WEFT_PLUGIN_HEAD, "fsdp", WEFT_VERSION, ... }; */
#if defined(__cplusplus) && __cplusplus < 202002L
#define WEFT_PLUGIN_HEAD                                                                           \
    WEFT_PLUGIN_MAGIC, sizeof(weft_plugin), WEFT_ABI_MAJOR, WEFT_ABI_MINOR, sizeof(weft_param),    \
        sizeof(weft_contribution), sizeof(weft_op), sizeof(weft_kernel), WEFT_SERVICE_SIZES
#else
#define WEFT_PLUGIN_HEAD                                                                           \
    .magic = WEFT_PLUGIN_MAGIC, .size = sizeof(weft_plugin), .abi_major = WEFT_ABI_MAJOR,          \
    .abi_minor = WEFT_ABI_MINOR, .param_size = sizeof(weft_param),                                 \
    .contribution_size = sizeof(weft_contribution), .op_size = sizeof(weft_op),                    \
    .kernel_size = sizeof(weft_kernel), .service_sizes = WEFT_SERVICE_SIZES
#endif
/* In C++ outside of every class and function; the symbol has C's name whatever the namespace. */
#ifdef __cplusplus
#define WEFT_PLUGIN(name)                                                                          \
    extern "C" {                                                                                   \
    WEFT_EXPORT extern const weft_plugin name##_LTX_plugin;                                        \
    }                                                                                              \
    const weft_plugin name##_LTX_plugin
#else
#define WEFT_PLUGIN(name)                                                                          \
    WEFT_EXPORT extern const weft_plugin name##_LTX_plugin;                                        \
    const weft_plugin name##_LTX_plugin
#endif

#ifdef __cplusplus
}
#endif
#endif
