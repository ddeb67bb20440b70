/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the dump plugin: which values are wanted, and those of the current step. */
#ifndef WEFT_DUMP_H
#define WEFT_DUMP_H

#include <weft/plugin.h>

/* One file each. */
typedef enum dump_group { DUMP_PARAMETERS, DUMP_GRADIENTS, DUMP_VALUES, DUMP_GROUPS } dump_group;

/* A value of the graph that goes to a file. */
typedef struct dump_target {
    int id;            /* of the value */
    const char *value; /* its name */
    dump_group group;
    const char *name; /* in the file */
} dump_target;

/* A copy of one tensor, made while its step runs. */
typedef struct dump_tensor {
    dump_group group;
    char *name;
    weft_tensor shape; /* data is the copy */
} dump_tensor;

typedef struct dump {
    const weft_host *host;
    int64_t *steps; /* the chosen ones */
    int n_steps;
    weft_pool pool; /* names of targets */
    dump_target *targets;
    int n_targets, targets_capacity;
    dump_tensor *kept;
    int n_kept, kept_capacity;
    int64_t kept_step;
} dump;

/* ---- marking (joint.c) ---- */

/* Marks what the settings ask for; fills self->targets. */
void dump_joint(void *self, weft_graph *graph);
extern const weft_op *const dump_ops[];

/* ---- keeping and writing (files.c) ---- */

bool dump_is_chosen(const dump *self, int64_t step);
/* Copies a value that was made, if it is a target. */
weft_status dump_keep(dump *self, const weft_run_view *run, weft_error *err);
/* Writes what was kept into dir/dump/step-N and forgets it. */
weft_status dump_write(dump *self, const weft_run_view *run, weft_error *err);
void dump_forget(dump *self);

#endif
