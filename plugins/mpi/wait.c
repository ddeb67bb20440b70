/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting for messages: at first without a pause, so that a short wait stays short; then the core
 * is given to whoever wants it; a long wait costs none. */
#include "mpi.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <time.h>

/* From the beginning of a wait. Messages only move while somebody looks, so a wait of some
 * milliseconds, as for a large one, does without pauses; they grow to 1/64 of the wait. */
static const double spin_s = 50e-6, yield_s = 5e-3, longest_pause_s = 1e-3, look_s = 0.1;

static void pause_for(double seconds)
{
    const struct timespec pause = {.tv_nsec = (long)(seconds * 1e9)};
    if (nanosleep(&pause, NULL) != 0 && errno != EINTR)
        sched_yield();
}

static void rest(double waited)
{
    if (waited < spin_s)
        return;
    if (waited < yield_s)
        sched_yield();
    else
        pause_for(waited / 64 < longest_pause_s ? waited / 64 : longest_pause_s);
}

/* Who is being waited for: those from or to whom a message is still under way. */
static weft_status find_absent(group *g, MPI_Request *requests, const int *with, int n, int *left,
                               weft_error *err)
{
    *left = 0;
    memset(g->absent, 0, (size_t)g->n * sizeof *g->absent);
    for (int i = 0; i < n; i++) {
        int done;
        int code = MPI_Request_get_status(requests[i], &done, MPI_STATUS_IGNORE);
        if (code != MPI_SUCCESS)
            return mpi_error(code, "a message was lost", err);
        if (done)
            continue;
        g->absent[with[i]] = true;
        ++*left;
    }
    return WEFT_OK;
}

/* Gives up when a rank has ended, for its messages will never come, or when the core says so. Every
 * message that is done begins the wait anew. */
weft_status mpi_wait_all(group *g, MPI_Request *requests, const int *with, int n, weft_error *err)
{
    double since = weft_now(), look = since + look_s;
    for (int left, before = n;;) {
        int done = 0, code = MPI_Testall(n, requests, &done, MPI_STATUSES_IGNORE);
        if (code != MPI_SUCCESS)
            return mpi_error(code, "a message was lost", err);
        if (done)
            return WEFT_OK;
        if (atomic_load(g->left))
            return weft_fail(err, WEFT_ERR_PEER, WEFT_NOWHERE,
                             "another rank has ended in the middle of a step");
        double now = weft_now();
        if (now >= look) {
            look = now + look_s;
            weft_status s = find_absent(g, requests, with, n, &left, err);
            since = left < before ? now : since;
            before = left;
            s = s ? s : g->host->waiting(g->host, since, g->ranks, g->absent, g->n, err);
            if (s)
                return s;
        }
        rest(now - since);
    }
}
