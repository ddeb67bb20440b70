/* SPDX-License-Identifier: Apache-2.0 */
/* ckpt: sharded, asynchronous, atomic, checksummed checkpoints that load onto any mesh. */
#include "ckpt.h"

#include <string.h>

static const char *const automatic[] = {"auto", NULL}, *const errors[] = {"warn", "stop", NULL},
                         *const positions[] = {"continue", "restart", NULL},
                         *const dtypes[] = {"no", "f32", "bf16", "f64", NULL};

const weft_param ckpt_params[] = {
    {.name = "every",
     .type = WEFT_PARAM_INT,
     .value = "0",
     .min = 0,
     .max = 1e15,
     .unit = "steps",
     .help = "Save after every so many steps; 0: not by steps."},
    {.name = "minutes",
     .type = WEFT_PARAM_REAL,
     .value = "15",
     .min = 0,
     .max = 1e9,
     .unit = "minutes",
     .help = "Save when so much time has passed since the last save; 0: not by time."},
    {.name = "last", .type = WEFT_PARAM_BOOL, .value = "yes", .help = "Save after the last step."},
    {.name = "keep",
     .type = WEFT_PARAM_INT,
     .value = "3",
     .min = 0,
     .max = 1e9,
     .help = "How many checkpoints stay, the newest ones; 0: all."},
    {.name = "keep_every",
     .type = WEFT_PARAM_INT,
     .value = "0",
     .min = 0,
     .max = 1e15,
     .unit = "steps",
     .when = "keep!=0",
     .help = "Checkpoints of steps that this divides stay, too; 0: none."},
    {.name = "load",
     .type = WEFT_PARAM_PATH,
     .value = "latest",
     .help = "What to go on from: latest, none, a step of this run's folder, or another run's or "
             "checkpoint's folder."},
    {.name = "initial",
     .type = WEFT_PARAM_PATH,
     .help =
         "A run's or checkpoint's folder: its weights, and nothing else, are the initial ones."},
    {.name = "data",
     .type = WEFT_PARAM_CHOICE,
     .value = "continue",
     .choices = positions,
     .when = "load!=none",
     .help = "What to do if seed, seq_len, data or tokenizer are not the checkpoint's: refuse "
             "(continue), or begin with the first sample (restart)."},
    {.name = "on_error",
     .type = WEFT_PARAM_CHOICE,
     .value = "warn",
     .choices = errors,
     .help = "What a save that fails does: warn and go on, or stop the run."},
    {.name = "exclude",
     .type = WEFT_PARAM_STRING,
     .flags = WEFT_PARAM_LIST,
     .help = "Patterns (*, ?, [...]) of tensors that are neither saved nor loaded; they begin as "
             "in a new run."},
    {.name = "export_dtype",
     .type = WEFT_PARAM_CHOICE,
     .value = "no",
     .choices = dtypes,
     .help = "After the last step, also write the parameters alone, in this dtype, to the folder "
             "model in the run folder; no: do not."},
    {.name = "timeout",
     .type = WEFT_PARAM_REAL,
     .value = "600",
     .min = 0.01,
     .max = 1e9,
     .unit = "seconds",
     .help = "How long a rank that is done waits for the others, in each phase of a save or load, "
             "before the run fails and names them.",
     .flags = WEFT_PARAM_ADVANCED},
    {.name = "buffer",
     .type = WEFT_PARAM_INT,
     .value = "auto",
     .min = CKPT_CHUNK,
     .max = 1e15,
     .unit = "bytes",
     .choices = automatic,
     .flags = WEFT_PARAM_ADVANCED,
     .help = "Memory for state that is not yet written when the next update is due; auto: enough "
             "for all that this rank writes."},
    {.name = NULL},
};

/* ---- policy ---- */

static bool want(void *self_, const weft_progress *at, double elapsed_s, bool last)
{
    ckpt *self = self_;
    int64_t every = weft_params_int(self->params, "every");
    double minutes = weft_params_real(self->params, "minutes");
    self->elapsed_s = elapsed_s;
    if (!self->root || at->step == self->saved_step)
        return false;
    if (last)
        return weft_params_bool(self->params, "last");
    return (every > 0 && at->step % every == 0) ||
           (minutes > 0 && elapsed_s - self->last_begin_s >= 60 * minutes);
}

static int64_t buffer_bytes(void *self_, const weft_state_view *state)
{
    const ckpt *self = self_;
    ckpt_choice choice = {.params = self->params, .dtype = WEFT_DTYPES};
    ckpt_parts parts;
    int64_t all = 0, asked = weft_params_int(self->params, "buffer");
    if (!self->root)
        return 0;
    if (ckpt_parts_init(&parts, state, &choice, NULL) == WEFT_OK)
        for (int i = 0; i < parts.n; i++)
            all += ckpt_buffer_room(weft_piece_bytes(&parts.list[i].piece));
    ckpt_parts_release(&parts);
    return asked > 0 && asked < all ? asked : all;
}

const weft_store ckpt_store = {
    .size = sizeof(weft_store),
    .buffer_bytes = buffer_bytes,
    .load = ckpt_load,
    .want = want,
    .begin = ckpt_begin,
    .before_update = ckpt_before_update,
    .ready = ckpt_ready,
    .advance = ckpt_advance,
    .finish = ckpt_finish,
    .abandon = ckpt_abandon,
};

/* ---- the plugin ---- */

static void destroy(void *self_)
{
    ckpt *self = self_;
    ckpt_abandon(self);
    weft_free(self->root);
    weft_free_aligned(self->buffer.data);
    weft_text_release(&self->why);
    weft_error_release(&self->thread_err);
}

/* A run goes on from what `load` names, whatever it is, or fails; `initial` would never be read. */
static weft_status check_initial(const weft_params *p, weft_error *err)
{
    const weft_where load = weft_params_where(p, "load");
    weft_text at = {0};
    if (!weft_params_given(p, "initial") || weft_params_is(p, "load", "latest") ||
        weft_params_is(p, "load", "none"))
        return WEFT_OK;
    weft_text_print(&at, load.line > 0 ? "%s:%d" : "%s", load.file, load.line);
    weft_fail(err, WEFT_ERR_INPUT, weft_params_where(p, "initial"),
              "[ckpt] initial = %s begins a new run, and load = %s (%s) goes on with one; take one "
              "of the two out",
              weft_params_text(p, "initial"), weft_params_text(p, "load"), weft_text_get(&at));
    weft_text_release(&at);
    return WEFT_ERR_INPUT;
}

static weft_status create(void *self_, weft_error *err)
{
    ckpt *self = self_;
    const weft_host *host = self->host;
    *self = (ckpt){.host = host, .params = host->params, .io = weft_io_system(), .saved_step = -1};
    if (host->dir && !(self->root = weft_format("%s/ckpt", host->dir)))
        return weft_fail_memory(err);
    const weft_status s = check_initial(host->params, err);
    if (s)
        return s;
    if (!host->dir)
        weft_warn(host, WEFT_NOWHERE,
                  "ckpt has nowhere to save to: there is no run folder; set [weft] dir");
    return WEFT_OK;
}

static const char *const others[] = {"store", NULL};
static const weft_contribution contributions[] = {
    {.kind = WEFT_SERVICE, .refuses = others, .service = "store", .table = &ckpt_store},
    {.kind = WEFT_COMMAND, .command = &ckpt_command},
    {.kind = WEFT_END},
};

WEFT_PLUGIN(ckpt) = {
    WEFT_PLUGIN_HEAD,
    .name = "ckpt",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary =
        "checkpoints: saved while training goes on, whole or not at all, loaded onto any mesh",
    .numerics = WEFT_NUMERICS_BITWISE,
    .params = ckpt_params,
    .contributions = contributions,
    .self_size = WEFT_SELF(ckpt),
    .create = create,
    .destroy = destroy,
};
