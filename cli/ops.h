/* SPDX-License-Identifier: Apache-2.0 */
/* The table of all ops: what a plugin's process tells of its own, and how it is shown. */
#ifndef WEFT_CLI_OPS_H
#define WEFT_CLI_OPS_H

#include "compile/graph/graph.h"
#include "probe.h"

/* Of one op; every field is there, empty where there is nothing to say. */
typedef struct weft_op_row {
    const char *name, *owner;                               /* owner: a plugin, or "core" */
    const char *summary, *rule, *linear, *gradient, *flags; /* gradient: statements by "; " */
    const char *family, *attrs, *pattern;                   /* family: empty where it is the name */
} weft_op_row;

typedef struct weft_kernel_row {
    const char *op, *owner, *device, *name;
} weft_kernel_row;

typedef struct weft_op_table {
    weft_pool pool;
    weft_op_row *ops;
    weft_kernel_row *kernels;
    int n_ops, n_kernels, ops_capacity, kernels_capacity;
    int n_known; /* the first ones: shown only if one of the kernels is for them */
} weft_op_table;

typedef enum weft_op_form { WEFT_OPS_TEXT, WEFT_OPS_JSON, WEFT_OPS_MARKDOWN } weft_op_form;

/* The ops of a plugin (NULL: none), of the core, and of plugins that need not be listed; opens
 * these. Release ops in every case. */
weft_status weft_cli_ops_init(weft_ops *ops, weft_search *search, const weft_plugin *plugin,
                              weft_error *err);

/* Adds the core's ops; those of a plugin, with its kernels. */
weft_status weft_op_table_add_core(weft_op_table *table, weft_error *err);
weft_status weft_op_table_add(weft_op_table *table, weft_search *search, const char *name,
                              weft_error *err);
void weft_op_table_print(const weft_op_table *table, weft_op_form form, weft_text *text);
void weft_op_table_release(weft_op_table *table);

#endif
