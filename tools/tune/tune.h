/* SPDX-License-Identifier: Apache-2.0 */
/* weft tune: which of the settings that plugins let it choose make the fastest step that fits. */
#ifndef WEFT_TUNE_TUNE_H
#define WEFT_TUNE_TUNE_H

#include "cli.h"
#include "host/plugins.h"

enum {
    TUNE_MOST_KEYS = 24,
    TUNE_MOST_VALUES = 40,
    TUNE_OWN_EDITS = 40, /* plugins that are listed, a depth, what a run on this machine is told */
    TUNE_MOST_EDITS = 96
};

typedef enum tune_kind {
    TUNE_VALUES, /* any of them */
    TUNE_RANKS,  /* degrees: their product divides the ranks */
    TUNE_BATCH   /* how many samples of the global batch are a micro-batch */
} tune_kind;

typedef struct tune_key {
    const char *section, *key;
    tune_kind kind;
    const char *values[TUNE_MOST_VALUES];
    int n;
    int base; /* what the INI says; -1: none of the values */
    const weft_param *table, *param;
    const char *
        *texts; /* what the INI says of every key of the table; NULL: it counts everywhere */
    bool refused[TUNE_MOST_VALUES]; /* of degrees: plugins refuse it by itself */
    bool costly[TUNE_MOST_VALUES];  /* some plugin looks at its plans again */
} tune_key;

/* What may be chosen (space.c). Texts are in the pool. */
typedef struct tune_space {
    weft_pool pool;
    const weft_cli_options *options; /* the user's, --fix among them */
    int ranks;
    tune_key keys[TUNE_MOST_KEYS];
    int n_keys;
    const weft_option_values *fixed; /* of --fix */
    const char *with[8]; /* plugins that are listed for the search, as --with has them */
    int n_with;
    char *depth_section, *depth_key; /* of the model; NULL: it does not say */
    int64_t depth;
    int pp;              /* which key is the degree of the pipeline; -1: none */
    int64_t fixed_ranks; /* product of the degrees that --fix says */
} tune_space;

typedef struct tune_choice {
    int at[TUNE_MOST_KEYS];
} tune_choice;

/* A choice, planned. */
typedef struct tune_result {
    tune_choice choice;
    bool refused, whole; /* whole: as `weft plan` plans it, not judged by a part, or roughly */
    double step_s, worst_s;
    double bytes;         /* of the rank that holds most, with what libraries take */
    double bubble;        /* weft_timeline.bubble */
    double sent;          /* bytes, of a step and rank */
    double tokens_s, mfu; /* in tokens or samples, `unit` */
    const char *unit;
    const char *bound;
    double bound_share;
    uint64_t identity; /* of the plan: equal numbers are one plan; of an estimate, of its plans */
    double room;       /* bytes that the device has; 0: nobody knows */
    double arena, state, others, libraries; /* of bytes */
    uint64_t profile;                       /* of the rates; 0: there is none */
    int rounds;  /* plans that were made, for one may be looked at again */
    int waiting; /* shares of a micro-batch without a sample */
} tune_result;

/* ---- space.c ---- */

/* fixed: texts "tp.degree=8". */
weft_status tune_space_init(tune_space *space, const weft_cli_options *options,
                            const weft_option_values *fixed, weft_error *err);
void tune_space_release(tune_space *space);
/* NULL: the run does not list it. */
const weft_loaded *tune_find_plugin(const weft_plugins *plugins, const char *name);
/* Degrees alone: do they divide the ranks, and is none refused by itself? */
bool tune_choice_fits(const tune_space *space, const tune_choice *choice);
/* Does the section's plugin take the ranks that other degrees leave? */
bool tune_takes_rest(const tune_space *space, const char *section);
/* What a key is here, of the search or fixed; 1: it is neither, or no number from 1 on. */
int64_t tune_number(const tune_space *space, const tune_choice *choice, const char *section,
                    const char *key);
/* Has a key a meaning here? A plugin whose degree is 1 does nothing. */
bool tune_key_counts(const tune_space *space, const tune_choice *choice, int key);
/* How many keys differ from the INI. */
int tune_choice_changes(const tune_space *space, const tune_choice *choice);
/* Appends "tp.degree=8", ... of what differs from the INI, and what --fix says of plugins that are
 * listed: with these a plan is this one. */
void tune_choice_print(const tune_space *space, const tune_choice *choice, weft_text *text);
/* The choice as edits behind the user's; strings are in `pool`. depth: blocks; 0: all. */
weft_status tune_choice_edits(const tune_space *space, const tune_choice *choice, int64_t depth,
                              weft_pool *pool, weft_cli_options *out, weft_error *err);

/* The INI with this choice, without keys that do nothing. threads: of each rank; 0: as it says. */
weft_status tune_print_ini(const tune_space *space, const tune_choice *choice, int threads,
                           weft_text *text, weft_error *err);

/* ---- tune.c ---- */

/* What was found, as a file. Where that fails, as on a full disk, it goes behind `out`, which is
 * printed: what has taken hours is not lost. */
weft_status tune_write_file(const char *path, const weft_text *found, weft_text *out,
                            weft_error *err);

/* ---- trial.c ---- */

/* Plans it, whole. What plugins refuse is no error, but result->refused; why may be NULL. */
weft_status tune_plan(const tune_space *space, const tune_choice *choice, tune_result *result,
                      weft_text *why, weft_error *err);
/* By two plans of a part of the model's blocks, where that has many. */
weft_status tune_estimate(const tune_space *space, const tune_choice *choice, tune_result *result,
                          weft_text *why, weft_error *err);

/* ---- search.c ---- */

/* Why plugins refuse choices, and how many. */
typedef struct tune_reason {
    char *text;
    int64_t n;
} tune_reason;

typedef struct tune_search {
    tune_space *space;
    double room;              /* bytes a rank; 0: any */
    bool for_memory;          /* the smallest is wanted, not the fastest */
    int top;                  /* so many are to be printed */
    int most_plans, threads;  /* how many plan at a time: the answer is the same */
    double from_s, limit_s;   /* when the command began, and how long it may take; 0: any time */
    double longest_s[2];      /* what was looked at together; [true]: whole */
    int64_t planned, refused; /* choices */
    int64_t effort;           /* plans: of a choice that is looked at again, several */
    bool cut, all;            /* cut: --limit has ended it; all: every choice was planned whole */
    tune_reason *reasons;     /* the most frequent first */
    int n_reasons, reason_capacity;
    tune_result **results; /* whole plans, the best first; weft_free, and the pool */
    int n;
    weft_pool pool;
} tune_search;

weft_status tune_run(tune_search *search, weft_error *err);
void tune_search_release(tune_search *search);
bool tune_fits(const tune_search *search, const tune_result *result);

#endif
