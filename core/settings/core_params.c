/* SPDX-License-Identifier: Apache-2.0 */
/* The parameters of the core's own sections. */
#include "settings/settings.h"

#include <string.h>

#define NO_LIMIT 9.3e18 /* above every 64-bit integer */

static const char *const automatic[] = {"auto", NULL};
static const char *const all[] = {"all", NULL};
static const char *const levels[] = {"debug", "info", "warn", NULL};
static const char *const log_times[] = {"file", "all", NULL};
static const char *const checks[] = {"none", "replicas", "memory", "nan", NULL};
static const char *const dtypes[] = {"f32", "f64", NULL};
static const char *const changes[] = {"log", "refuse", NULL};
static const char *const nonfinite[] = {"stop", "skip", NULL};

static const weft_param run_params[] = {
    {.name = "plugins",
     .type = WEFT_PARAM_STRING,
     .flags = WEFT_PARAM_REQUIRED | WEFT_PARAM_LIST,
     .help =
         "the plugins of this run, composed in this order; ?name marks one that may be missing"},
    {.name = "defaults",
     .type = WEFT_PARAM_STRING,
     .flags = WEFT_PARAM_LIST | WEFT_PARAM_ADVANCED,
     .help = "the plugins of every run that [weft] plugins need not name, composed before those "
             "that it names; SERVICE:NAME only where none of them gives that service"},
    {.name = "dir",
     .type = WEFT_PARAM_PATH,
     .flags = WEFT_PARAM_PER_RANK,
     .help = "the run folder; not set: nothing is written"},
    {.name = "plugin_path",
     .type = WEFT_PARAM_PATH,
     .flags = WEFT_PARAM_LIST | WEFT_PARAM_PER_RANK | WEFT_PARAM_BESIDE | WEFT_PARAM_LIBRARY,
     .help = "folders searched for plugins before all others"},
    {.name = "plugin_change",
     .type = WEFT_PARAM_CHOICE,
     .value = "log",
     .choices = changes,
     .flags = WEFT_PARAM_ADVANCED,
     .help =
         "what it does if a checkpoint was made with other bytes of a plugin than go on from it: "
         "log says so, refuse ends the run before it begins"},
    {.name = "lock",
     .type = WEFT_PARAM_PATH,
     .flags = WEFT_PARAM_ONCE | WEFT_PARAM_PER_RANK | WEFT_PARAM_BESIDE,
     .help = "only the plugins that this file names, written by weft vet, may be opened; set once, "
             "it cannot be changed"},
    {.name = "lock_key",
     .type = WEFT_PARAM_PATH,
     .flags = WEFT_PARAM_ONCE | WEFT_PARAM_PER_RANK | WEFT_PARAM_BESIDE | WEFT_PARAM_ADVANCED,
     .help = "the public key, of minisign, that the lock must be signed with"},
    {.name = "threads",
     .type = WEFT_PARAM_INT,
     .value = "auto",
     .min = 1,
     .max = 4096,
     .unit = "threads per rank",
     .choices = automatic,
     .flags = WEFT_PARAM_PER_RANK,
     .help =
         "threads that one rank may use; auto shares the processors among the ranks of a machine"},
    {.name = "log",
     .type = WEFT_PARAM_CHOICE,
     .value = "info",
     .choices = levels,
     .flags = WEFT_PARAM_PER_RANK,
     .help = "the least important lines that are logged"},
    {.name = "log_time",
     .type = WEFT_PARAM_CHOICE,
     .value = "file",
     .choices = log_times,
     .flags = WEFT_PARAM_PER_RANK,
     .help = "which lines begin with the time, in UTC: those of log.txt, or all"},
    {.name = "log_ranks",
     .type = WEFT_PARAM_BOOL,
     .value = "no",
     .flags = WEFT_PARAM_PER_RANK,
     .help = "every rank keeps all of its lines in a file of its own, log-RANK.txt; rank 0 in "
             "log.txt"},
    {.name = "rank_timeout",
     .type = WEFT_PARAM_REAL,
     .value = "600",
     .min = 0,
     .max = 1e9,
     .unit = "seconds",
     .help = "the run ends when a rank has waited so long for another one in a step, which hangs "
             "then; at the start, in the first step and while a checkpoint is made start_timeout "
             "counts; 0 is for ever"},
    {.name = "start_timeout",
     .type = WEFT_PARAM_REAL,
     .value = "1800",
     .min = 0,
     .max = 1e9,
     .unit = "seconds",
     .help = "the same where ranks may be slow without fault: from their first word to each other "
             "on, in the first step, and in the step after a checkpoint has begun; where it is not "
             "set, rank_timeout counts if it is more; 0 is for ever"},
    {.name = "check",
     .type = WEFT_PARAM_CHOICE,
     .value = "none",
     .choices = checks,
     .flags = WEFT_PARAM_LIST | WEFT_PARAM_ADVANCED | WEFT_PARAM_SERVED,
     .help =
         "what is checked while running, one or several: replicas: the ranks that should hold the "
         "same do; memory: no instruction writes outside its results or reads what nobody wrote "
         "(slow, twice the memory); nan: every value is finite, or the first is named (slow)"},
    {.name = NULL},
};

static const weft_param train_params[] = {
    {.name = "steps",
     .type = WEFT_PARAM_INT,
     .min = 1,
     .max = NO_LIMIT,
     .unit = "steps",
     .flags = WEFT_PARAM_REQUIRED,
     .help = "optimizer steps of the whole run"},
    {.name = "seq_len",
     .type = WEFT_PARAM_INT,
     .value = "256",
     .min = 1,
     .max = 1 << 20,
     .unit = "tokens",
     .help = "tokens in one sample"},
    {.name = "global_batch",
     .type = WEFT_PARAM_INT,
     .value = "8",
     .min = 1,
     .max = NO_LIMIT,
     .unit = "samples",
     .help = "samples in one step, of all ranks and micro-batches together"},
    {.name = "micro_batch",
     .type = WEFT_PARAM_INT,
     .tune = "batch",
     .value = "auto",
     .min = 1,
     .max = NO_LIMIT,
     .unit = "samples",
     .choices = automatic,
     .help = "samples of all ranks that go through the model at once; auto is global_batch, one "
             "micro-batch a step"},
    {.name = "seed",
     .type = WEFT_PARAM_INT,
     .value = "42",
     .min = 0,
     .max = NO_LIMIT,
     .help = "seed of initial weights, data order, and whatever else a plugin draws"},
    {.name = "dtype",
     .type = WEFT_PARAM_CHOICE,
     .value = "f32",
     .choices = dtypes,
     .help = "element type of parameters, before any plugin lowers it"},
    {.name = "eval_every",
     .type = WEFT_PARAM_INT,
     .value = "0",
     .min = 0,
     .max = NO_LIMIT,
     .unit = "steps",
     .help = "evaluate after every so many steps; 0 is never"},
    {.name = "eval_batches",
     .type = WEFT_PARAM_INT,
     .value = "all",
     .min = 1,
     .max = NO_LIMIT,
     .unit = "batches",
     .choices = all,
     .when = "eval_every!=0",
     .help = "micro-batches of validation data in one evaluation"},
    {.name = "nonfinite",
     .type = WEFT_PARAM_CHOICE,
     .value = "stop",
     .choices = nonfinite,
     .help = "what a loss or gradient norm that is not finite, or a step without any label, does: "
             "stop the run (exit code 4), or skip the update"},
    {.name = "nonfinite_limit",
     .type = WEFT_PARAM_INT,
     .value = "10",
     .min = 0,
     .max = NO_LIMIT,
     .unit = "steps",
     .when = "nonfinite=skip",
     .help = "how many updates in a row may be skipped; one more stops the run; 0: any number"},
    {.name = "loss_chunk",
     .type = WEFT_PARAM_INT,
     .value = "auto",
     .min = 1,
     .max = NO_LIMIT,
     .unit = "tokens",
     .choices = automatic,
     .flags = WEFT_PARAM_ADVANCED,
     .help = "tokens of all ranks whose logits are in memory at once; auto: as the device wishes"},
    {.name = NULL},
};

static const weft_param mesh_params[] = {
    {.name = "order",
     .type = WEFT_PARAM_STRING,
     .flags = WEFT_PARAM_LIST,
     .help = "mesh axes from the innermost (fastest links) to the outermost; not set: as the "
             "plugins are listed"},
    {.name = "rule",
     .type = WEFT_PARAM_STRING,
     .flags = WEFT_PARAM_LIST | WEFT_PARAM_ADVANCED | WEFT_PARAM_SERVED,
     .help = "placement rules that count before those of plugins, one a line: 'param:PATTERN DIM "
             "AXIS', 'input DIM AXIS', 'role:ROLE DIM AXIS'; '-' "
             "for DIM: whole over the axis"},
    {.name = NULL},
};

const weft_param *weft_core_params(const char *section)
{
    if (strcmp(section, "weft") == 0)
        return run_params;
    if (strcmp(section, "train") == 0)
        return train_params;
    if (strcmp(section, "mesh") == 0)
        return mesh_params;
    return NULL;
}
