/* SPDX-License-Identifier: Apache-2.0 */
/* What the kinds of control channel share. */
#ifndef WEFT_EXECUTE_CONTROL_KIND_H
#define WEFT_EXECUTE_CONTROL_KIND_H

#include "execute/control.h"

#include <pthread.h>
#include <time.h>

/* What an exchange is for: ranks that are at different points must not take each other's bytes. */
typedef enum weft_control_tag { WEFT_TAG_DATA, WEFT_TAG_AGREE, WEFT_TAG_FIRST } weft_control_tag;

typedef struct weft_control_kind {
    weft_status (*exchange)(weft_control *control, int rank, weft_control_tag tag, double limit_s,
                            const void *mine, size_t n, void *all, weft_error *err);
    weft_status (*broadcast)(weft_control *control, int rank, weft_text *text, weft_error *err);
    void (*leave)(weft_control *control, const weft_verdict *why);
    /* Under the lock: other ranks that wait should know that this one waits, or no more. */
    void (*tell)(weft_control *control, int rank, bool waits);
    void (*destroy)(weft_control *control);
} weft_control_kind;

/* Head of every kind's own struct. */
struct weft_control {
    const weft_control_kind *kind;
    int ranks;
    pthread_mutex_t lock; /* over all that follows and the kind's own */
    pthread_cond_t changed;
    bool broken; /* no exchange works any more */
    bool failed; /* why is set */
    weft_verdict why;
    weft_watch *watches; /* of the ranks in this process, from `first` on */
    int first;
    bool *waits;    /* by rank: it waits for others itself, so it is not the one that hangs */
    bool *suspects; /* scratch */
};

/* One rank's part of an exchange. */
typedef struct weft_message_part {
    weft_control_tag tag;
    size_t n;
    const void *data;
} weft_message_part;

/* first, n: the ranks in this process. On error nothing needs to be released. */
weft_status weft_control_init(weft_control *control, const weft_control_kind *kind, int ranks,
                              int first, int n, weft_error *err);
void weft_control_release(weft_control *control);
void weft_verdict_init(weft_verdict *v, int rank, weft_status status, const char *text);
/* What a rank says of itself. */
void weft_verdict_own(weft_verdict *v, weft_control *control, int rank, weft_status status,
                      const char *text);
/* One that came from another rank, which may have sent anything: its texts end, and it names a rank
 * of the run, sender if it did not. */
void weft_verdict_mend(weft_verdict *v, int ranks, int sender);
/* How much longer a rank waits for one that may be waiting itself. */
double weft_control_extra(double limit_s);
/* Under the lock: waits for a change, and tells the rank's watch every now and then; false: its
 * limit has passed, and *why says so. */
bool weft_control_wait(weft_control *control, int rank, const weft_waiting *w, weft_verdict *why);
/* Under the lock: the first reason stays; what another rank failed of is not what the rank that
 * follows it failed of. */
void weft_control_note(weft_control *control, const weft_verdict *why);
/* Under the lock: the channel is of no use any more. */
void weft_control_break(weft_control *control, const weft_verdict *why);
/* Under the lock: the error of an exchange over a broken channel. */
weft_status weft_control_broken(const weft_control *control, weft_error *err);
/* Are all ranks at the same point? If not, *why says who is to blame: one that failed, else the
 * first that differs from rank 0. */
bool weft_parts_match(const weft_message_part *parts, int ranks, weft_verdict *why);

#endif
