/* SPDX-License-Identifier: Apache-2.0 */
/* What the kinds of control channel share. */
#ifndef WEFT_RUN_CONTROL_KIND_H
#define WEFT_RUN_CONTROL_KIND_H

#include "run/control.h"

#include <pthread.h>
#include <time.h>

/* What an exchange is for: ranks that are at different points must not take each other's bytes. */
typedef enum weft_control_tag { WEFT_TAG_DATA, WEFT_TAG_AGREE, WEFT_TAG_FIRST } weft_control_tag;

enum { WEFT_EXCHANGE_LIMIT_S = 1800 };

typedef struct weft_control_kind {
    weft_status (*exchange)(weft_control *control, int rank, weft_control_tag tag, double limit_s,
                            const void *mine, size_t n, void *all, weft_error *err);
    weft_status (*broadcast)(weft_control *control, int rank, weft_text *text, weft_error *err);
    void (*leave)(weft_control *control, const weft_verdict *why);
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
};

/* One rank's part of an exchange. */
typedef struct weft_part {
    weft_control_tag tag;
    size_t n;
    const void *data;
} weft_part;

void weft_control_init(weft_control *control, const weft_control_kind *kind, int ranks);
void weft_control_release(weft_control *control);
void weft_verdict_init(weft_verdict *v, int rank, weft_status status, const char *text);
/* When a wait that begins now ends. */
struct timespec weft_control_deadline(double limit_s);
/* These ranks have been waited for in vain; at least one is absent. */
void weft_verdict_late(weft_verdict *v, const bool *absent, int ranks, double limit_s);
/* Under the lock: the channel is of no use any more; the first reason stays. */
void weft_control_break(weft_control *control, const weft_verdict *why);
/* Under the lock: the error of an exchange over a broken channel. */
weft_status weft_control_broken(const weft_control *control, weft_error *err);
/* Are all ranks at the same point? If not, *why says who is to blame: one that failed, else the
 * first that differs from rank 0. */
bool weft_parts_match(const weft_part *parts, int ranks, weft_verdict *why);

#endif
