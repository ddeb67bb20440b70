/* SPDX-License-Identifier: Apache-2.0 */
/* What a rank says, and when it gives up, while it waits for others. One for every rank; it belongs
 * to the rank's thread. */
#ifndef WEFT_EXECUTE_WATCH_H
#define WEFT_EXECUTE_WATCH_H

#include <stdatomic.h>
#include <weft/base.h>

/* [weft] start_timeout, until it is known: the limit while ranks may rightly be slow: at the start,
 * in the first step, after a save has begun. */
enum { WEFT_PATIENCE_S = 1800 };

/* A host's name, for messages; ends with a 0. */
enum { WEFT_HOST_BYTES = 64 };
typedef char weft_host_name[WEFT_HOST_BYTES];

/* What a rank is at; strings belong to others. */
typedef struct weft_doing {
    const char *what; /* "all_gather", or a phase; NULL: nothing in particular */
    const char *by;   /* the plugin that wants it; NULL: the core */
    int block;        /* negative: none */
} weft_doing;

/* When in a run that is. */
typedef struct weft_moment {
    int64_t step;     /* 0: in none */
    const char *part; /* of a pipeline's task that runs: "backward"; NULL: there are no stages */
    int stage;
    int64_t micro_batch; /* -1: none */
} weft_moment;

typedef struct weft_watch {
    const weft_log *log; /* NULL: nothing is said */
    int rank;
    /* the channel's thread reads these */
    _Atomic double limit_s;    /* [weft] rank_timeout; 0: never */
    _Atomic double patience_s; /* [weft] start_timeout: the limit while patient; 0: never */
    atomic_bool patient;
    bool started;         /* steps are being made: a wait of seconds is not worth a word */
    weft_doing task;      /* changed under the channel's lock */
    weft_moment now;      /* the same */
    double counted;       /* when the last of these began */
    double since, next_s; /* the wait, and how long it has lasted when it is next worth a word */
    bool told;            /* other ranks know that this one waits */
    int64_t waits;        /* that were worth a word */
    const weft_host_name *hosts; /* by rank; NULL: all are on this one, or it is not known */
} weft_watch;

/* A wait that goes on. */
typedef struct weft_waiting {
    double since;       /* weft_now() when it began */
    double limit_s;     /* it fails after so long */
    const int *ranks;   /* who meets, this rank among them; NULL: 0, 1, 2, ... */
    const bool *absent; /* who of them has not come */
    int n;
} weft_waiting;

void weft_watch_init(weft_watch *watch, int rank);
/* Adds " in all_gather of fsdp, block 3"; nothing if nothing in particular is done. */
void weft_print_doing(weft_text *text, const weft_doing *doing);
/* Adds ", backward of stage 1, micro-batch 3, step 7"; nothing if it is in no step. */
void weft_print_moment(weft_text *text, const weft_moment *moment);
/* How long a wait that begins now may last, in seconds. */
double weft_watch_limit(const weft_watch *watch);
/* Is it so long that other ranks should know of it? Called before weft_watch_look. */
bool weft_watch_is_long(weft_watch *watch, const weft_waiting *w);
/* Called while the rank waits, every second or so. Of those who wait for the same ranks only the
 * first speaks, at growing intervals. Fails with WEFT_ERR_PEER when the limit has passed. */
weft_status weft_watch_look(weft_watch *watch, const weft_waiting *w, weft_error *err);

#endif
