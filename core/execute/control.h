/* SPDX-License-Identifier: Apache-2.0 */
/* The control channel between ranks: agreement on status, small exchanges. Carries no tensors.
 * Ranks are threads of this process, or processes that talk over sockets; nothing but the two
 * functions that make a channel knows which. */
#ifndef WEFT_EXECUTE_CONTROL_H
#define WEFT_EXECUTE_CONTROL_H

#include "execute/watch.h"
#include "host/plugins.h"

#include <signal.h>

typedef struct weft_control weft_control;

/* How a rank ended. */
typedef struct weft_verdict {
    int32_t rank;
    int32_t status; /* weft_status; WEFT_ERR_PEER: it ended because of another, or without a word */
    int32_t late;   /* it has not ended: others gave up waiting for it, and text says so */
    char text[512];
    weft_host_name host; /* its own; "" if all are on one, or if text names it */
} weft_verdict;

/* ---- making a channel ---- */

/* For ranks that are threads of this process, which share the channel. */
weft_status weft_control_create(int ranks, weft_control **out, weft_error *err);

/* For a rank that is a process of its own. */
typedef struct weft_join {
    int rank, ranks;
    const char *master; /* where rank 0 listens: "host:port", "[v6]:port", or "@name", a name on
                           this host that needs no port */
    const char *token;  /* the secret of the run: only who proves that it has the same may join,
                           here and there; it is never sent. "": none, which will do for a name,
                           where the kernel says who the others are, and for nothing else. */
    double limit_s;     /* how long to wait for the others */
    /* not 0: the wait ends at once, with WEFT_ERR_STOPPED on all ranks that are there; NULL: it
     * cannot be asked to */
    const volatile sig_atomic_t *stop;
    weft_host_name *hosts; /* [ranks] filled with where they are, as far as it is known; or NULL */
    const weft_log *log;   /* rank 0 says for whom it waits long; NULL: it does not */
    /* How long others wait for a rank that has come until their settings are read; 0: for ever.
     * Rank 0's counts. NULL: WEFT_PATIENCE_S. weft_rendezvous leaves there what counts. */
    double *patience_s;
    /* Called once, on the channel's own thread, when a rank has ended before its time; may be NULL.
     * It may block: nothing is received any more. */
    void (*lost)(void *ctx, const weft_verdict *why);
    void *ctx;
} weft_join;

/* Rank 0 listens, all others connect, as often as it takes; returns when all ranks are there. After
 * the limit the error says which are missing. */
weft_status weft_control_join(const weft_join *join, weft_control **out, weft_error *err);
void weft_control_destroy(weft_control *control);

/* ---- using it: every rank calls the same functions in the same order ---- */

/* What a rank says, and when it gives up, while it waits; here and in transports. */
weft_watch *weft_control_watch(weft_control *control, int rank);
/* What the rank is at from now on; returns what it was at, to be put back. control may be NULL. */
weft_doing weft_control_set_task(weft_control *control, int rank, weft_doing task);
/* When it is there; watch is the rank's. control may be NULL. */
void weft_control_set_moment(weft_control *control, weft_watch *watch, weft_moment now);
/* all receives ranks * n bytes; without a channel, control NULL, those of this one. Fails on every
 * rank, instead of waiting, once one has left or is at another point, or when the watch's limit has
 * passed. */
weft_status weft_control_exchange(weft_control *control, int rank, const void *mine, size_t n,
                                  void *all, weft_error *err);
/* The same with another limit. The error names all ranks that have not come. */
weft_status weft_control_exchange_within(weft_control *control, int rank, double limit_s,
                                         const void *mine, size_t n, void *all, weft_error *err);
/* host->exchange, over the channel that the host's plugin set holds. */
weft_status weft_host_exchange(const weft_host *host, const void *mine, size_t n, void *all,
                               weft_error *err);
weft_status weft_host_exchange_within(const weft_host *host, double limit_s, const void *mine,
                                      size_t n, void *all, weft_error *err);
/* host->waiting: tells the rank's watch, and when that gives up, all other ranks. */
weft_status weft_host_waiting(const weft_host *host, double since, const int *ranks,
                              const bool *absent, int n, weft_error *err);
/* This rank takes part no more; whoever waits for it is woken with an error that says why. */
void weft_control_leave(weft_control *control, int rank, weft_status status, const char *why);
/* The first failure of any rank that is known here; false: none. */
bool weft_control_verdict(weft_control *control, weft_verdict *out);
/* Notes what the verdict says as an error, and returns WEFT_ERR_PEER. */
weft_status weft_verdict_fail(const weft_verdict *why, weft_error *err);

#endif
