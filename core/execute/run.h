/* SPDX-License-Identifier: Apache-2.0 */
/* Executing a plan on one rank: memory, data, the loop, its observers. Internal to weft (core and
 * cli). */
#ifndef WEFT_EXECUTE_RUN_H
#define WEFT_EXECUTE_RUN_H

#include "compile/driver/plan.h"
#include "execute/collective.h"
#include "execute/control.h"

#include <pthread.h>
#include <signal.h>
#include <weft/execute.h>

/* One observer contribution. */
typedef struct weft_watcher {
    const weft_loaded *loaded;
    const weft_contribution *contribution;
    unsigned events; /* those that it needs in this run */
    bool off;
    double lost_s;     /* since when it cannot do its work, as far as was said; 0: it can */
    double well_s;     /* since when it can; 0: it cannot */
    double patience_s; /* for how long it must, to be taken for well again */
} weft_watcher;

/* What observers have asked for since the ranks last agreed. */
struct weft_asked {
    unsigned what; /* WEFT_ASK_* */
    /* Plugins, as in their list; -1: none. */
    int now;          /* is being shown something */
    int stops, saves; /* asked last for that */
    bool told;        /* that nobody keeps the state */
};

/* The inputs of one step on the host: step inputs, then those of each micro-batch. */
struct weft_batch {
    const weft_plan *plan; /* whose device gives the memory */
    const weft_lowered *l;
    void *step, *micro; /* micro: micro_batches blobs of input_bytes */
    weft_batch_bytes bytes;
};

/* Fills the next step's inputs while this one computes. */
typedef struct weft_loader {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool running, wanted, ready, quit;
    int64_t first_sample; /* of the wanted step */
    weft_status status;
    weft_error err;
    weft_batch *batch[2];
    int filling; /* which of the two */
} weft_loader;

enum { WEFT_STAGED_OPS = 64 };

struct weft_run {
    weft_plan *plan;
    weft_pool pool; /* of small things that last as long */
    const weft_log *log;
    const char *dir;
    int threads;
    const weft_data *data;
    void *data_self;
    const weft_tokenizer *tokenizer;
    void *tokenizer_self;
    void *arena, *state, *inputs, *step_inputs, *cache; /* device memory */
    weft_held held;                                     /* how much of each */
    int n_added; /* pieces of memory that the transport knows */
    weft_prepared prepared;
    weft_groups groups;
    const weft_op *staged[WEFT_STAGED_OPS]; /* those that the log has named */
    int n_staged;
    bool explained, answers;      /* where the device failed has been said; its poll answers */
    struct weft_streams *streams; /* NULL: the device computes at once */
    weft_box *boxes;              /* room for those of one move */
    size_t boxes_capacity;
    struct weft_transfer *transfers[WEFT_MODES]; /* by number in the mode's programs */
    const weft_far *far;                         /* the plan's, once room was asked for */
    char *far_memory;                            /* in its place, where that is the host's */
    const weft_host *host;
    weft_watch *watch, alone; /* the control channel's; alone: of the one rank that needs none */
    weft_watcher *watchers;
    int n_watchers;
    bool shows_instructions; /* some watcher asks for them */
    bool shows_times;        /* ... and when they ran */
    bool has_margins;        /* some watcher asks for the memory */
    bool is_showing;         /* to an observer, who may run something itself */
    int64_t stretch;         /* prologues and bodies that have begun */
    weft_operand *operands;  /* room for those that observers are shown */
    size_t operands_capacity;
    void *host_copy; /* of the one that an observer has asked for last */
    size_t host_copy_bytes;
    struct weft_timing *timing; /* NULL: nobody asks */
    weft_loader loader;
    bool loader_made;
    const weft_batch *batch; /* the inputs of what runs now */
    weft_run_view view;      /* what observers are shown */
    struct weft_asked asked;
    int stopped_by;             /* the plugin that has ended the run; -1: a signal */
    const weft_value **scalars; /* what is read of a step: loss, tokens, reports ... */
    double *scalars_read;       /* ... and what it is */
    void *scalars_host;         /* where the device puts it: SCALAR_BYTES each */
    int n_scalars;              /* for which there is room */
    weft_report *reports;       /* as many as the training graph has */
    double *most;               /* of each, since the run began or went on */
    struct weft_probe *probe;   /* who compares runs; NULL: nobody */
    struct weft_times *times;   /* NULL until somebody asks for them */
    bool wants_times;           /* all ranks: somebody has asked for those of the next step */
    double waited_s;            /* for other stages, since the task began */
    double sent_s;              /* in calls of the transport, of this step */
    int64_t stop_after; /* end after this many steps, as if all were done; 0: [train] steps */
    int64_t consumed;   /* global samples, the data position */
    int64_t step;       /* finished steps */
    int64_t first_step; /* finished before this process began */
    struct weft_keeper *keeper; /* who keeps its state; NULL until weft_run_continue */
    const volatile sig_atomic_t
        *saves_asked; /* how often somebody has asked for a save; NULL: nobody can */
    void (*step_made)(void *ctx, const weft_run_view *view); /* after each; NULL: nobody is told */
    void *step_made_ctx;
    /* When the service `generator` wants texts, after a step; NULL: none are written. */
    weft_status (*write_texts)(struct weft_run *run, weft_error *err);
    bool peak_asked; /* the device has been asked for its rate */
    bool saved;      /* the store was busy after the last step, and some ranks may still be */
    uint64_t seed;
};

/* Looks into a run from outside, on every rank: after all gradients are known, after the update,
 * and (NULL: not) at every value marked `fetch`. */
typedef struct weft_probe {
    weft_status (*gradients)(struct weft_probe *probe, weft_run *run, weft_error *err);
    weft_status (*updated)(struct weft_probe *probe, weft_run *run, weft_error *err);
    weft_status (*value)(struct weft_probe *probe, weft_run *run, const weft_value *v,
                         const weft_tensor *local, int64_t micro, weft_error *err);
} weft_probe;

/* plugins are open. Allocates all memory, prepares kernels, initialises state. log and dir are
 * kept. */
weft_status weft_run_create(weft_plan *plan, const weft_host *host, weft_run **out,
                            weft_error *err);
void weft_run_destroy(weft_run *run);
/* Fills the state from where the run is to go on, or begin, if a plugin says so; from then on it is
 * saved. All ranks. */
weft_status weft_run_continue(weft_run *run, weft_error *err);
/* Trains to [train] steps. *stop is looked at after every step; not 0 ends the run with
 * WEFT_ERR_STOPPED. */
weft_status weft_run_train(weft_run *run, const volatile sig_atomic_t *stop, weft_error *err);

/* ---- parts ---- */

weft_status weft_init_state(weft_run *run, weft_error *err);
/* access.c: what a store is shown of it, with data, or functions, to reach it by; kept as in
 * weft_plan_state. *tensors: weft_free. */
weft_status weft_run_state(weft_run *run, const int64_t *kept, weft_state_view *view,
                           weft_state_tensor **tensors, weft_error *err);
/* times.c: how long parts take. begin and end of a step, on all ranks; around a task, whose waits
 * for other stages are added to run->waited_s meanwhile. */
weft_status weft_times_begin(weft_run *run, weft_error *err);
weft_status weft_times_end(weft_run *run, weft_error *err);
double weft_times_start(weft_run *run);
weft_status weft_times_add(weft_run *run, const weft_lowered *l, const weft_task *task,
                           double start, weft_error *err);
/* The body of one task's program; its prologue. */
weft_status weft_execute(weft_run *run, const weft_lowered *l, const weft_task *task,
                         weft_error *err);
weft_status weft_execute_prologue(weft_run *run, const weft_lowered *l, const weft_task *task,
                                  weft_error *err);
/* Where a buffer lies now. micro: which micro-batch's inputs. */
void *weft_run_address(const weft_run *run, const weft_lowered *l, int buffer, int64_t micro);
/* scalars.c: the values of whole scalars after the programs that made them. Waits for the device
 * once, however many they are. */
enum { WEFT_SCALAR_BYTES = 8 };
weft_status weft_run_scalars(weft_run *run, const weft_lowered *l, const weft_value *const *values,
                             int n, double *out, weft_error *err);
/* host_kernel.c: a plain kernel on a device whose memory the host cannot use, or not yet. */
weft_status weft_run_staged(weft_run *run, const weft_call *call, const char *owner,
                            weft_error *err);

/* ---- streams.c, waiting.c: a device that computes later; else they do nothing ---- */

weft_status weft_streams_create(weft_run *run, weft_error *err);
void weft_streams_destroy(weft_run *run);
/* Around what is enqueued for an instruction of program p: behind what it must wait for on other
 * queues; what waits for it can. */
weft_status weft_streams_before(weft_run *run, const weft_lowered *l, const weft_program *p,
                                const weft_instruction *in, int64_t micro, weft_error *err);
weft_status weft_streams_after(weft_run *run, const weft_lowered *l, const weft_instruction *in,
                               weft_error *err);
/* All that is enqueued from now on comes behind what was before, on whatever queue; but nobody
 * waits for transfers that way. */
weft_status weft_streams_join(weft_run *run, weft_error *err);
/* What `from` has enqueued so far comes before what `to` will. */
weft_status weft_streams_order(weft_run *run, int from, int to, weft_error *err);
/* Before a task's prologue or body, and behind a body. */
weft_status weft_streams_enter(weft_run *run, weft_error *err);
weft_status weft_streams_leave(weft_run *run, weft_error *err);
/* Around instructions [from, *to) of a body, of which the device keeps all or none. *replayed: they
 * need not be enqueued. */
weft_status weft_streams_begin(weft_run *run, const weft_lowered *l, const weft_task *task,
                               int from, int *to, bool *replayed, weft_error *err);
weft_status weft_streams_end(weft_run *run, const weft_lowered *l, bool replayed, weft_error *err);
/* The queue that an instruction's transfers use. */
int weft_streams_transfers(const weft_run *run, const weft_instruction *in);
/* Behind an upload of inputs on the first queue, where other queues read some, too. */
weft_status weft_streams_uploaded(weft_run *run, const weft_lowered *l, weft_error *err);
/* Until one event is done, as in weft_run_wait, the one place where a rank waits for its device;
 * NULL: of a device that has none. Where something goes through the host. */
weft_status weft_run_wait_for(weft_run *run, weft_device_event *event, weft_error *err);
/* At the run's end, well or not: the host's memory is no longer the device's. */
void weft_streams_drain(weft_run *run);
/* Waits so, and has it in the host's memory on return. */
weft_status weft_run_download(weft_run *run, void *to_host, const void *from, size_t bytes,
                              weft_error *err);
/* After an error: where the device's queues were, if it knows. */
void weft_streams_explain(weft_run *run, weft_status status, weft_error *err);
/* collective.c: a redistribute: boxes that the device moves, and calls of the transport. The
 * tensors' data are known. */
weft_status weft_collective(weft_run *run, const weft_instruction *in, void *workspace,
                            weft_error *err);
/* transfers.c: sends and receives between stages. place: where what is sent waits, until it is
 * there. */
weft_status weft_transfers_create(weft_run *run, weft_error *err);
void weft_transfers_destroy(weft_run *run);
weft_status weft_transfer_send(weft_run *run, const weft_lowered *l, const weft_instruction *in,
                               size_t bytes, void *place, weft_error *err);
weft_status weft_transfer_recv(weft_run *run, const weft_lowered *l, const weft_instruction *in,
                               weft_error *err);
/* Of a FETCH, before it begins: is it of a sum over micro-batches, and this the step's first? Each
 * of them asks once. */
bool weft_transfer_is_zero(weft_run *run, const weft_lowered *l, const weft_instruction *in);
/* FETCH and EVICT; ARRIVE is an await. */
weft_status weft_transfer_far(weft_run *run, const weft_lowered *l, const weft_instruction *in,
                              weft_error *err);
weft_status weft_transfer_await(weft_run *run, const weft_lowered *l, const weft_instruction *in,
                                weft_error *err);
/* Until everything that was begun is over. */
weft_status weft_transfers_end(weft_run *run, const weft_lowered *l, weft_error *err);
/* far.c: room for all that lies far. */
weft_status weft_far_open(weft_run *run, weft_error *err);
void weft_far_close(weft_run *run);
weft_status weft_far_copy(const weft_run *run, const weft_instruction *in, size_t bytes,
                          weft_error *err);
/* Begins what an instruction says. s, with what it was, if that is an error. */
weft_status weft_far_begin(const weft_run *run, const weft_lowered *l, const weft_instruction *in,
                           weft_request **request, weft_error *err);
weft_status weft_far_blame(const weft_run *run, const weft_instruction *in, weft_status s,
                           weft_error *err);
/* For the host, at once. */
weft_status weft_far_move(weft_run *run, int64_t at, int64_t n, void *to, const void *from,
                          weft_error *err);
weft_status weft_observe(weft_run *run, weft_event event, weft_error *err);
/* Does anybody who is not switched off see this event? */
bool weft_is_observed(const weft_run *run, weft_event event);
/* What a step has made: GRADIENTS, or UPDATED. */
weft_status weft_observe_step(weft_run *run, weft_event event, weft_error *err);
/* instruction.c: what observers are told of one, and showing it at INSTRUCTION_BEGIN or _END. micro
 * as in weft_execute. The view's operands are those of the instruction that was described last. */
weft_status weft_instruction_describe(weft_run *run, const weft_lowered *l,
                                      const weft_instruction *in, int64_t micro,
                                      weft_instruction_view *view, weft_error *err);
weft_status weft_observe_instruction(weft_run *run, const weft_instruction_view *view,
                                     int64_t micro, weft_event event, weft_error *err);
/* Room for n operands of observers. */
weft_status weft_run_operands(weft_run *run, int n, weft_error *err);
/* weft_instruction_view's bytes. */
int64_t weft_instruction_bytes(const weft_graph *g, const weft_instruction *in);
/* When instructions ran, for observers of INSTRUCTION_TIMES. Around one, which is shown
 * at once where the host's clock is the device's. */
weft_status weft_timing_create(weft_run *run, weft_error *err);
void weft_timing_destroy(weft_run *run);
weft_status weft_timing_begin(weft_run *run, const weft_instruction_view *view, int64_t micro,
                              double *began, weft_error *err);
weft_status weft_timing_end(weft_run *run, const weft_instruction_view *view, int64_t micro,
                            double began, weft_error *err);
/* Shows those that were enqueued: all is done. */
weft_status weft_timing_show(weft_run *run, weft_error *err);
/* Waits for those of which the times are not known yet, and shows them. */
weft_status weft_timing_finish(weft_run *run, weft_error *err);
/* Shows a local tensor of a value to observers of VALUE; device memory is copied to the host first.
 */
weft_status weft_observe_value(weft_run *run, const weft_lowered *l, const weft_value *v,
                               int64_t micro, weft_error *err);
weft_status weft_observe_sources(weft_run *run, const weft_lowered *l, int64_t micro,
                                 weft_error *err);

/* data.c: one sample's part of this rank's inputs. Sample `row` of micro-batch `micro`; sample
 * NULL: padding. */
void weft_fill_inputs(const weft_batch *batch, int64_t micro, int64_t row,
                      const weft_sample *sample);
/* n samples from `first` on, those from `end` on not there. */
typedef struct weft_samples {
    weft_split split;
    int64_t first, n, end;
} weft_samples;
/* Reads what this rank holds of them, and fills it. */
weft_status weft_fill_samples(weft_run *run, const weft_batch *b, const weft_samples *of,
                              weft_error *err);
/* number: what the graph is told of the micro-batch that lies at place `micro` of the batch. */
void weft_fill_micro_batch(const weft_batch *batch, int64_t micro, int64_t number);
weft_status weft_sample_init(weft_sample *s, const weft_graph *g, weft_error *err);
void weft_sample_release(weft_sample *s);
/* Does any input of this rank hold something of row `row` of a micro-batch? */
bool weft_owns_row(const weft_lowered *l, int64_t micro, int64_t row);
/* Those of a micro-batch, to its slot; enqueued in a prologue. */
weft_status weft_upload_micro_batch(weft_run *run, const weft_lowered *l, int64_t micro,
                                    weft_error *err);

weft_status weft_loader_create(weft_run *run, weft_error *err);
void weft_loader_destroy(weft_run *run);
/* Asks for the step whose first sample this is; returns at once. */
void weft_loader_want(weft_run *run, int64_t first_sample);
/* Waits for what was asked for. */
weft_status weft_loader_get(weft_run *run, const weft_batch **batch, weft_error *err);

/* keeper.c: keeping the state. Without a store they do nothing. */
typedef struct weft_wish { /* one rank's, after a step */
    int32_t saves;         /* asked for by signals so far */
    int32_t by;            /* stop: the plugin that wants it; -1: a signal */
    bool stop, save, ready, times;
    double own_s; /* of the step, without calls of the transport; 0: not known */
} weft_wish;
void weft_keeper_destroy(weft_run *run);
/* What a checkpoint says of a plugin's key: of the model, a word that its `create` made a number
 * of, as of its flavor, is that number, in the pool. */
const char *weft_keeper_text(weft_pool *pool, const weft_loaded *plugin, const weft_param *key);
weft_status weft_keeper_before_update(weft_run *run, weft_error *err);
void weft_keeper_wish(weft_run *run, bool last, weft_wish *wish);
weft_status weft_keeper_act(weft_run *run, const weft_wish *all, int n, bool stop, bool last,
                            weft_error *err);
/* Does a listed plugin keep the state? */
bool weft_keeper_keeps(const weft_run *run);
/* Is there somewhere to save to? */
bool weft_keeper_saves(const weft_run *run);
void weft_keeper_finish(weft_run *run);
/* After the last step. */
weft_status weft_keeper_end(weft_run *run, weft_error *err);
/* The state may go away. */
void weft_keeper_abandon(weft_run *run);

weft_status weft_run_evaluate(weft_run *run, weft_error *err);
/* High-water mark of this process in bytes, 0 if unknown. */
size_t weft_peak_bytes(void);

#endif
