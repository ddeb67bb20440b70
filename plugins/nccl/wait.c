/* SPDX-License-Identifier: Apache-2.0 */
/* Communicators do not block: what they have not done at once is asked for until they have. */
#include "nccl.h"

#include <errno.h>
#include <sched.h>
#include <time.h>

/* NCCL begins a thread for a call, which takes up to 0.1 ms on ranks that are connected. */
static const double spin_s = 2e-3, pause_s = 1e-3, look_s = 0.1;

static void rest(double waited)
{
    const struct timespec pause = {.tv_nsec = (long)(pause_s * 1e9)};
    if (waited < spin_s || (nanosleep(&pause, NULL) != 0 && errno != EINTR))
        sched_yield();
}

/* A rank that is gone is an error of the network here; the core's own channel knows more, soon. */
static bool somebody_has_left(transport *t, int result)
{
    const double until = weft_now() + 2;
    if (result != NCCL_REMOTE_ERROR && result != NCCL_SYSTEM_ERROR)
        return false;
    while (!atomic_load(&t->left) && weft_now() < until)
        rest(look_s);
    return atomic_load(&t->left);
}

weft_status nccl_fail_left(weft_error *err)
{
    return weft_fail(err, WEFT_ERR_PEER, WEFT_NOWHERE,
                     "another rank has ended in the middle of a step");
}

weft_status nccl_error(transport *t, nccl_comm_t of, int result, const char *what, weft_error *err)
{
    const char *more = t->api.ncclGetLastError(of), *text = t->api.ncclGetErrorString(result);
    t->failed = true;
    if (somebody_has_left(t, result))
        return nccl_fail_left(err);
    return weft_fail(err, result == NCCL_REMOTE_ERROR ? WEFT_ERR_PEER : WEFT_ERR_RUN, WEFT_NOWHERE,
                     "nccl: rank %d: %s: %s%s%s", t->host->rank, what, text ? text : "an error",
                     more && *more ? ": " : "", more ? more : "");
}

/* A call that says that it has succeeded may have begun only: ncclCommSplit does say so. */
weft_status nccl_settle(transport *t, const group *g, const comm *of, int result, const char *what,
                        weft_error *err)
{
    const double since = weft_now();
    double look_at = since + look_s;
    while (nccl_is_well(result)) {
        int state = NCCL_SUCCESS;
        int asked = t->api.ncclCommGetAsyncError(of->handle, &state);
        result = asked ? asked : state;
        if (result != NCCL_IN_PROGRESS)
            break;
        if (atomic_load(&t->left))
            return nccl_fail_left(err);
        double now = weft_now();
        if (g && now >= look_at) {
            look_at = now + look_s;
            weft_status s = t->host->waiting(t->host, since, g->ranks, g->absent, g->n, err);
            if (s)
                return s;
        }
        rest(now - since);
    }
    return result == NCCL_SUCCESS ? WEFT_OK : nccl_error(t, of->handle, result, what, err);
}

/* What goes wrong between ranks, as on the network, is not an error of the GPU: its kernels wait
 * on.
 */
weft_status nccl_check(void *self, weft_error *err)
{
    transport *t = self;
    if (atomic_load(&t->left))
        return nccl_fail_left(err);
    for (const comm *c = t->comms; c; c = c->next) {
        int state = NCCL_SUCCESS;
        int asked = !c->handle ? NCCL_SUCCESS : t->api.ncclCommGetAsyncError(c->handle, &state);
        state = asked ? asked : state;
        if (!nccl_is_well(state))
            return nccl_error(t, c->handle, state, "what ranks send each other has failed", err);
    }
    return WEFT_OK;
}

/* An abort waits for its communicator's kernels, and these may stand on a stream behind those of
 * others, which wait for ranks that are gone. In one group all are told to end before any is waited
 * for. */
void nccl_abort_all(transport *t)
{
    t->failed = true;
    t->api.ncclGroupStart();
    for (const comm *c = t->comms; c; c = c->next)
        if (c->handle)
            t->api.ncclCommAbort(c->handle);
    t->api.ncclGroupEnd();
    while (t->comms) { /* nothing writes handles any more */
        comm *c = t->comms;
        t->comms = c->next;
        weft_free(c);
    }
    t->world = NULL;
}

/* The device's own queues say nothing of those that transfers are on. */
static bool are_over(const group *g, const channel *list)
{
    const transport *t = g->t;
    bool done = true;
    for (int i = 0; i < g->n && done; i++)
        if (list[i].queue)
            done = t->device->record(t->device_self, list[i].queue, g->ready, NULL) == WEFT_OK &&
                   t->device->poll(t->device_self, g->ready, &done, NULL) == WEFT_OK && done;
    return done;
}

bool nccl_is_idle(transport *t, const group *g)
{
    bool done = false;
    return !t->failed && !atomic_load(&t->left) &&
           t->device->poll(t->device_self, NULL, &done, NULL) == WEFT_OK && done &&
           (!g || !g->to || !g->from || (are_over(g, g->to) && are_over(g, g->from)));
}
