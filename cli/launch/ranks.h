/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks of a run as threads of this process: started, agreed with, ended together. */
#ifndef WEFT_CLI_LAUNCH_RANKS_H
#define WEFT_CLI_LAUNCH_RANKS_H

#include "execute/run.h"
#include "net/agree.h"
#include "session.h"

#include <pthread.h>

/* How long a rank may take to end once another has failed. */
enum { WEFT_RANK_GRACE_S = 10 };

/* One rank; it belongs to its thread while the body runs. */
typedef struct weft_rank {
    weft_session session;
    weft_control *control; /* NULL: one rank */
    weft_error err;
    weft_status status;
    weft_status (*body)(struct weft_rank *rank, void *ctx);
    void *ctx;
    pthread_t thread;
    bool started, ended;
    struct weft_crew *crew; /* all ranks, where they are threads */
} weft_rank;

/* The transport wakes whoever waits for this rank. */
void weft_rank_leave_transport(const weft_plugins *plugins);
/* Ends a phase: after it all ranks know whether all may go on, so that one rank's failure is every
 * rank's clear end. */
static inline weft_status weft_rank_agree(weft_rank *rank, const char *phase, weft_status mine)
{
    return rank->control
               ? weft_control_agree(rank->control, rank->session.host.rank, phase, mine, &rank->err)
               : mine;
}
/* Opens its plugins, in the time that a start may take. */
weft_status weft_rank_open(weft_rank *rank);
/* Its run, which waits for its device as long as [weft] says. */
weft_status weft_rank_prepare(weft_rank *rank, weft_plan *plan, weft_run **run);
/* Creates a session per rank (options->ranks of them, at least one) and runs body on every rank;
 * rank 0 is the caller's thread. quiet: only warnings are logged. Reports errors; returns the exit
 * code. A rank that hangs while another has failed cannot be ended but with the whole process,
 * which is what happens then, after the report. */
int weft_ranks_run(const weft_cli_options *options, bool quiet,
                   weft_status (*body)(weft_rank *rank, void *ctx), void *ctx);

#endif
