/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the profile plugin: what is recorded, and what is made of it. */
#ifndef WEFT_PROFILE_H
#define WEFT_PROFILE_H

#include <weft/plugin.h>

/* ---- what is recorded (record.c) ---- */

/* One instruction of one program: what all its executions have in common. Strings belong to the
 * record's pool. */
typedef struct profile_kind {
    const char *op;             /* "linear", "all_gather", "send" */
    const char *value;          /* what it makes, or moves */
    const char *by, *kernel;    /* the plugin that caused it; NULL: no kernel */
    const char *mode, *program; /* "train", "forward" */
    weft_instruction_kind kind;
    int stage, block, queue;
    double flops; /* of one execution */
    int64_t bytes;
} profile_kind;

typedef struct profile_event {
    int kind; /* place in the list of kinds */
    int32_t micro_batch;
    int64_t step;
    int64_t start_ns, end_ns; /* since the record's epoch */
} profile_event;

typedef struct profile_step {
    int64_t step;
    int64_t start_ns, end_ns;
} profile_step;

typedef struct profile_program profile_program;

/* Zero-initialised is valid and empty. */
typedef struct profile_record {
    weft_pool pool;
    profile_kind *kinds;
    int n_kinds, kinds_capacity;
    profile_event *events;
    int64_t n_events, events_capacity;
    profile_step *steps;
    int n_steps, steps_capacity;
    profile_program *programs, *last; /* a list; the one that was found last */
    double epoch_s;                   /* weft_now() of time 0 */
    int64_t epoch_utc_ns;             /* the same moment, since 1970 */
} profile_record;

void profile_record_begin(profile_record *record);
void profile_record_release(profile_record *record);
weft_status profile_record_add(profile_record *record, const weft_run_view *run, double start,
                               double end, weft_error *err);
weft_status profile_record_step(profile_record *record, int64_t step, double start, double end,
                                weft_error *err);

/* ---- tables (table.c) ---- */

/* What the machine can do at most, of one rank; 0: not known. */
typedef struct profile_limits {
    double flops_per_s, bytes_per_s, sent_per_s;
} profile_limits;

/* Time of all instructions with one name: an op, or a block. */
typedef struct profile_row {
    const char *name;
    double seconds;       /* of all executions */
    double bound_seconds; /* what they would take at the limits */
    double flops, bytes;  /* of all */
    double sent;
    int64_t times;
    bool bounded; /* bound_seconds says something of all of them */
} profile_row;

typedef struct profile_table {
    weft_pool pool;
    profile_row *rows;
    int n, capacity;
} profile_table;

void profile_table_release(profile_table *table);
/* Adds an execution to the row of this name. sends: bytes are sent, not read and written. */
weft_status profile_table_add(profile_table *table, const profile_limits *limits, const char *name,
                              double seconds, double flops, double bytes, bool sends,
                              weft_error *err);
/* "3", "embedding", "head"; "none": of no block. */
void profile_block_name(int block, char *name, size_t size);
/* Lines, the slowest first: `title` heads the names; times of a step and rank, if all is of so many
 * of both. most: 0: all rows. */
void profile_table_print(const profile_table *table, const char *title, double steps_and_ranks,
                         int most, weft_text *text);
/* One line: the limits. */
void profile_limits_print(const profile_limits *limits, weft_text *text);

/* ---- files (trace.c, merge.c) ---- */

/* The record of one rank as Chrome trace JSON. */
void profile_trace_print(const profile_record *record, const profile_limits *limits, int rank,
                         int ranks, weft_text *text);
/* DIR/profile, DIR/profile/rank-N.json; weft_free. */
char *profile_folder(const char *dir);
char *profile_path(const char *dir, int rank);

extern const weft_command profile_command;

/* ---- rates.c ---- */

/* How many bytes a second so many threads read and write in the host's memory; 0: unknown. */
double profile_measure_memory(int threads);

#endif
