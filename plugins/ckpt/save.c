/* SPDX-License-Identifier: Apache-2.0 */
/* A save from its beginning to its end. Every rank's thread writes; all meet; rank 0's thread
 * commits; all meet again. */
#include "ckpt.h"

#include <string.h>

static void *work(void *arg)
{
    ckpt *self = arg;
    weft_blame_set((weft_blame){.plugin = "ckpt", .hook = "save"});
    self->thread_status = self->phase == CKPT_WRITING ? ckpt_writer_run(&self->writer)
                                                      : ckpt_commit(self, &self->thread_err);
    __atomic_store_n(&self->done, true, __ATOMIC_RELEASE);
    return NULL;
}

static weft_status start(ckpt *self, ckpt_phase phase, weft_error *err)
{
    self->phase = phase;
    self->done = false;
    self->thread_status = WEFT_OK;
    weft_error_clear(&self->thread_err);
    int code = pthread_create(&self->thread, NULL, work, self);
    if (code)
        return weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE,
                         "cannot start the thread that writes checkpoints: %s", strerror(code));
    self->thread_made = true;
    return WEFT_OK;
}

static void join(ckpt *self)
{
    if (self->thread_made)
        pthread_join(self->thread, NULL);
    self->thread_made = false;
}

/* What a save made: everything but its outcome. */
static void clear(ckpt *self)
{
    join(self);
    if (self->writer_made)
        ckpt_writer_release(&self->writer);
    self->writer_made = false;
    weft_free(self->dir);
    weft_free(self->pending);
    weft_free(self->manifest);
    self->dir = self->pending = self->manifest = NULL;
    self->phase = CKPT_IDLE;
}

/* A fresh folder. An unfinished save of this name goes; what else has it is set aside. */
static weft_status make_folder(const ckpt *self, weft_error *err)
{
    const weft_io *io = self->io;
    char *optim = weft_format("%s/optim", self->pending),
         *draft = weft_format("%s/" CKPT_DRAFT, self->pending);
    weft_status s = optim && draft ? WEFT_OK : weft_fail_memory(err);
    if (!s && ckpt_exists(io, self->pending))
        s = (ckpt_look(io, self->pending).unfinished ? ckpt_remove
                                                     : ckpt_rename_aside)(io, self->pending, err);
    s = s ? s : weft_io_make_dirs(io, self->pending, err);
    s = s ? s : weft_io_write_file(io, draft, "", 0, err);
    s = s ? s : weft_io_sync_dir(io, self->pending, err);
    s = s || self->export ? s : weft_io_make_dirs(io, optim, err);
    weft_free(optim);
    weft_free(draft);
    return s;
}

static weft_status prepare(ckpt *self, weft_error *err)
{
    const char *dtype = weft_params_text(self->params, "export_dtype");
    ckpt_choice choice = {.params = self->params,
                          .model_only = self->export,
                          .dtype = self->export ? weft_dtype_find(dtype) : WEFT_DTYPES};
    const weft_state_view *state = &self->state;
    self->dir = self->export ? weft_format("%s/model", self->host->dir)
                             : ckpt_step_path(self->root, state->progress.step);
    self->pending = self->dir ? weft_format(self->export ? "%s.new" : "%s", self->dir) : NULL;
    if (!self->pending)
        return weft_fail_memory(err);
    self->buffer.head = self->buffer.tail = 0;
    self->writer = (ckpt_writer){.io = self->io,
                                 .state = state,
                                 .dir = self->pending,
                                 .rank = state->rank,
                                 .copies = state->rank == 0 ? state->tokenizer_files : NULL,
                                 .buffer = &self->buffer};
    self->writer_made = true;
    weft_status s = ckpt_parts_init(&self->writer.parts, state, &choice, err);
    s = s ? s : ckpt_writer_init(&self->writer, err);
    return !s && state->rank == 0 ? make_folder(self, err) : s;
}

/* For observers. */
static void note(const ckpt *self, bool well)
{
    weft_saves *n = self->state.saves;
    if (!n)
        return;
    n->failed += !well;
    n->held_s += self->held_s;
    if (!well || self->export)
        return;
    n->step = self->state.progress.step;
    n->time_ns = weft_utc();
}

/* The save has failed, on all ranks. Is that an error of the run? */
static weft_status failed(ckpt *self, weft_status s, int whose, const char *why, weft_error *err)
{
    s = s == WEFT_ERR_INPUT ? WEFT_ERR_IO : s; /* training has long begun */
    note(self, false);
    self->outcome = s;
    weft_text_clear(&self->why);
    weft_text_print(&self->why, "%s of step %lld could not be saved: ",
                    self->export ? "the model" : "the checkpoint",
                    (long long)self->state.progress.step);
    if (self->host->ranks > 1)
        weft_text_print(&self->why, "rank %d: ", whose);
    weft_text_add(&self->why, why);
    if (weft_params_is(self->params, "on_error", "stop"))
        return weft_fail(err, s, WEFT_NOWHERE, "%s", weft_text_get(&self->why));
    if (self->host->rank == 0 &&
        self->state.progress.step < self->state.steps) /* the last one is an error of the run's */
        weft_log_print(self->host->log, WEFT_LOG_ERROR,
                       "%s; the run goes on, and tries again when the next one is due ([ckpt] "
                       "on_error = stop ends it)",
                       weft_text_get(&self->why));
    return WEFT_OK;
}

static weft_status begin(ckpt *self, const weft_state_view *state, bool export, weft_error *err)
{
    weft_error mine = {0};
    weft_text text = {0};
    int whose;
    self->state = *state;
    self->export = export;
    self->began_s = weft_now();
    self->held_s = 0;
    self->outcome = WEFT_OK;
    weft_status s = prepare(self, &mine);
    s = ckpt_agree(self->host, s, &mine, &text, &whose, err);
    weft_error_release(&mine);
    if (!s)
        s = start(self, CKPT_WRITING, err);
    else if (whose >= 0) {
        clear(self);
        s = failed(self, s, whose, weft_text_get(&text), err);
    }
    self->held_s += weft_now() - self->began_s;
    weft_text_release(&text);
    return s;
}

weft_status ckpt_begin(void *self_, const weft_state_view *state, weft_error *err)
{
    ckpt *self = self_;
    if (!self->root)
        return WEFT_OK;
    self->last_begin_s = self->elapsed_s;
    weft_status s = ckpt_finish(self, false, err);
    if (s || state->progress.step == self->saved_step)
        return s;
    return begin(self, state, false, err);
}

weft_status ckpt_before_update(void *self_, weft_error *err)
{
    ckpt *self = self_;
    if (self->phase != CKPT_WRITING)
        return WEFT_OK;
    double start_s = weft_now();
    weft_status s = ckpt_writer_stage(&self->writer, err);
    self->held_s += weft_now() - start_s;
    return s;
}

bool ckpt_ready(void *self_)
{
    ckpt *self = self_;
    return self->phase != CKPT_IDLE &&
           (!self->thread_made || __atomic_load_n(&self->done, __ATOMIC_ACQUIRE));
}

/* Every rank's records to rank 0. */
static weft_status gather(ckpt *self, weft_text *records, weft_error *err)
{
    const weft_host *host = self->host;
    int64_t mine = (int64_t)self->writer.record.size, most = 0;
    int64_t *sizes = weft_alloc((size_t)host->ranks * sizeof *sizes);
    char *padded = NULL, *all = NULL;
    weft_status s =
        sizes ? ckpt_exchange(host, &mine, sizeof mine, sizes, err) : weft_fail_memory(err);
    for (int r = 0; r < host->ranks && !s; r++)
        most = sizes[r] > most ? sizes[r] : most;
    if (!s && (!(padded = weft_alloc_zero(1, (size_t)most + 1)) ||
               !(all = weft_alloc((size_t)(most * host->ranks) + 1))))
        s = weft_fail_memory(err);
    if (!s) {
        memcpy(padded, weft_text_get(&self->writer.record), (size_t)mine);
        s = ckpt_exchange(host, padded, (size_t)most, all, err);
    }
    for (int r = 0; r < host->ranks && !s; r++) {
        if (sizes[r] && records->size)
            weft_text_add(records, ",\n");
        weft_text_add_bytes(records, all + r * most, (size_t)sizes[r]);
    }
    weft_free(sizes);
    weft_free(padded);
    weft_free(all);
    return s;
}

/* All have written, or one has failed. */
static weft_status meet(ckpt *self, weft_error *err)
{
    weft_text text = {0};
    int whose;
    weft_status s =
        ckpt_agree(self->host, self->thread_status, &self->writer.err, &text, &whose, err);
    if (s && whose < 0) {
        weft_text_release(&text);
        return s;
    }
    weft_text records = {0}, manifest = {0};
    if (s)
        s = failed(self, s, whose, weft_text_get(&text), err);
    else if (!(s = gather(self, &records, err)) && self->host->rank == 0) {
        ckpt_manifest_write(&manifest, &self->state, self->params, weft_text_get(&records));
        if (records.out_of_memory || manifest.out_of_memory)
            s = weft_fail_memory(err);
        self->manifest = s ? NULL : manifest.data;
        self->manifest_size = manifest.size;
        if (!s)
            manifest = (weft_text){0};
    }
    weft_text_release(&text);
    weft_text_release(&records);
    weft_text_release(&manifest);
    self->phase = CKPT_COMMITTING;
    if (!s && self->host->rank == 0)
        s = start(self, CKPT_COMMITTING, err);
    return s;
}

static void say(const ckpt *self)
{
    if (self->host->rank != 0)
        return;
    if (self->export)
        weft_log_print(self->host->log, WEFT_LOG_INFO, "the model as %s: %s",
                       weft_params_text(self->params, "export_dtype"), self->dir);
    else
        weft_log_print(self->host->log, WEFT_LOG_INFO,
                       "checkpoint of step %lld: %s, in %.2f s, of which training waited %.2f s",
                       (long long)self->state.progress.step, self->dir, weft_now() - self->began_s,
                       self->held_s);
}

/* The commit is over. */
static weft_status end(ckpt *self, weft_error *err)
{
    weft_text text = {0};
    int whose;
    weft_status before = self->outcome;
    weft_status s =
        ckpt_agree(self->host, self->thread_status, &self->thread_err, &text, &whose, err);
    if (s && whose < 0) {
        weft_text_release(&text);
        return s;
    }
    if (s && !before)
        s = failed(self, s, whose, weft_text_get(&text), err);
    else
        s = WEFT_OK;
    if (!self->outcome) {
        say(self);
        note(self, true);
        if (!self->export)
            self->saved_step = self->state.progress.step;
    }
    weft_text_release(&text);
    clear(self);
    return s;
}

weft_status ckpt_advance(void *self_, weft_error *err)
{
    ckpt *self = self_;
    double start_s = weft_now();
    join(self);
    ckpt_phase phase = self->phase;
    if (phase == CKPT_COMMITTING)
        return end(self, err);
    weft_status s = phase == CKPT_WRITING ? meet(self, err) : WEFT_OK;
    self->held_s += weft_now() - start_s;
    return s;
}

static weft_status drain(ckpt *self, weft_error *err)
{
    bool stage = self->phase == CKPT_WRITING &&
                 !self->state.any_thread; /* what cannot be read from another thread; else it need
                                             not be copied */
    weft_status s = stage ? ckpt_before_update(self, err) : WEFT_OK;
    while (!s && self->phase != CKPT_IDLE) {
        double start_s = weft_now();
        join(self);
        self->held_s += weft_now() - start_s;
        s = ckpt_advance(self, err);
    }
    return s;
}

weft_status ckpt_finish(void *self_, bool last, weft_error *err)
{
    ckpt *self = self_;
    weft_status s = drain(self, err);
    if (!s && last && !self->outcome && self->root &&
        !weft_params_is(self->params, "export_dtype", "no") &&
        self->state.progress.step == self->state.steps && self->saved_step == self->state.steps) {
        s = begin(self, &self->state, true, err);
        s = s ? s : drain(self, err);
    }
    if (!s && last && self->outcome)
        s = weft_fail(err, self->outcome, WEFT_NOWHERE, "%s", weft_text_get(&self->why));
    return s;
}

/* The only rank needs nobody to end a save: what it writes is of a step that was whole, in memory
 * or in far memory, which is as good as it was. Of many one has failed, and agrees to nothing. */
static void end_alone(ckpt *self)
{
    weft_error why = {0};
    if (drain(self, &why))
        weft_log_print(self->host->log, WEFT_LOG_WARN, "%s", weft_error_text(&why));
    weft_error_release(&why);
}

void ckpt_abandon(void *self_)
{
    ckpt *self = self_;
    if (self->host->ranks == 1 && self->phase != CKPT_IDLE)
        end_alone(self);
    if (self->writer_made && self->phase == CKPT_WRITING)
        ckpt_writer_quit(&self->writer);
    clear(self);
}
