/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL as far as the plugin nccl asks for it, between processes of one host that each have the fake
 * driver: what ranks send each other lies in files. It is stricter than NCCL where NCCL may be: a
 * communicator does one thing after the other, a send ends when it has been received, sums go round
 * in a ring and are rounded at every rank, and maxima lose NaNs. Nothing is on its stream before
 * ncclCommGetAsyncError has said so, and what ranks do together for the first time is not before
 * all of them have called: they connect then. An abort waits until its communicator's work has left
 * the streams, behind whatever stands there before it; those of one group, when it ends, for all of
 * theirs; a process that has aborted must not wait at its exit for what libraries do there. What
 * ranks do differently in one collective is an error, where NCCL would hang.
 *
 * WEFT_FAKE_NCCL_DIR    where the files are (default /tmp)
 * WEFT_FAKE_NCCL_RANK   the rank, of all, at which one of these happens:
 * WEFT_FAKE_NCCL_STALL  the number of the operation that never begins
 * WEFT_FAKE_NCCL_FAIL   the number of the operation at which the network fails
 * WEFT_FAKE_NCCL_WINDOW the number of the window that cannot be made
 * WEFT_FAKE_NCCL_CALL_US for how long a call is under way at least (default 0): NCCL begins a
 *                       thread for it, which plans and launches
 * WEFT_FAKE_NCCL_WINDOWS  0: it makes none, as NCCL between ranks that do not reach each other's
 *                       memory */
#include "fake_nccl.h"

#include <weft/base.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* nccl.h, which would declare what is defined here, need not be there. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

/* ---- communicators ---- */

static int go_on(comm *c);

static comm *make(const char *path, int n, int me, int world)
{
    comm *c = calloc(1, sizeof *c);
    snprintf(c->path, sizeof c->path, "%s", path);
    c->n = n;
    c->me = me;
    c->world = world;
    c->sent = calloc((size_t)n, sizeof *c->sent);
    c->received = calloc((size_t)n, sizeof *c->received);
    c->met = calloc(2 * (size_t)n, sizeof *c->met);
    fake_count(&fake.communicators, 1);
    fake_help();
    return c;
}

typedef struct vote {
    int color, key;
} vote;

/* Are all there, and what do they say? */
static bool read_votes(const comm *c, vote *votes)
{
    for (int r = 0; r < c->n; r++) {
        char name[256];
        head h;
        size_t bytes;
        snprintf(name, sizeof name, "%s.%d", c->pending, r);
        char *data = fake_read(name, &h, &bytes);
        if (!data)
            return false;
        memcpy(&votes[r], data, sizeof votes[r]);
        free(data);
    }
    return true;
}

static void vote_for(comm *c, const char *pending, int color, int key)
{
    const vote mine = {color, key};
    const head h = {0};
    char name[256];
    snprintf(c->pending, sizeof c->pending, "%s", pending);
    snprintf(name, sizeof name, "%s.%d", c->pending, c->me);
    fake_write(name, &h, &mine, sizeof mine);
}

static void split(comm *c, const vote *votes)
{
    int n = 0, me = 0;
    const vote mine = votes[c->me];
    if (mine.color < 0)
        return;
    for (int r = 0; r < c->n; r++)
        if (votes[r].color == mine.color) {
            n++;
            me += votes[r].key < mine.key || (votes[r].key == mine.key && r < c->me);
        }
    char path[256];
    snprintf(path, sizeof path, "%s-%d", c->pending, mine.color);
    *c->child = make(path, n, me, c->world);
    (*c->child)->ctas = c->child_ctas;
}

/* Of what was asked, not of what is on a stream. */
static int state_of(comm *c)
{
    if (c->error)
        return c->error;
    if (c->waits)
        return go_on(c);
    if (c->opening)
        return fake_open_window(c);
    if (c->finalized)
        return c->issued == c->done && !c->persistent ? SUCCESS : PROGRESS;
    if (!*c->pending)
        return SUCCESS;
    vote *votes = calloc((size_t)c->n, sizeof *votes);
    bool all = read_votes(c, votes);
    if (all && c->child)
        split(c, votes);
    if (all)
        *c->pending = '\0';
    free(votes);
    return all ? SUCCESS : PROGRESS;
}

EXPORT int ncclGetVersion(int *version)
{
    *version = (int)fake_number("WEFT_FAKE_NCCL_VERSION", 22800);
    return SUCCESS;
}

EXPORT const char *ncclGetErrorString(int result)
{
    return result == UNHANDLED  ? "unhandled cuda error"
           : result == SYSTEM   ? "unhandled system error"
           : result == ARGUMENT ? "invalid argument"
           : result == USAGE    ? "invalid usage"
           : result == REMOTE   ? "remote process exited or there was a network error"
                                : "another error";
}

EXPORT const char *ncclGetLastError(const comm *c)
{
    return c && c->error == SYSTEM ? "the network fails, as it was told to"
           : c && c->why           ? c->why
                                   : "";
}

EXPORT int ncclGetUniqueId(fake_id *id)
{
    static int n;
    const char *dir = getenv("WEFT_FAKE_NCCL_DIR");
    snprintf(id->path, sizeof id->path, "%s/nccl-%ld-%d", dir ? dir : "/tmp", (long)getpid(), n++);
    return SUCCESS;
}

/* As ncclConfig_t begins in all versions since 2.18: size, magic, version, blocking, and how
 * many blocks a kernel has. */
static bool is_config(const void *config, int *ctas)
{
    struct {
        size_t size;
        unsigned magic, version;
        int blocking, cluster, min_ctas, max_ctas;
    } c;
    if (!config)
        return false;
    memcpy(&c, config, sizeof c);
    *ctas = c.max_ctas > 0 ? c.max_ctas : 0;
    return c.size >= 48 && c.magic == 0xcafebeef && c.version >= 21800 && c.blocking == 0;
}

bool fake_is_ready(const comm *c)
{
    return !c->error && !c->aborted && !c->finalized && !c->waits && !c->opening && !*c->pending;
}

EXPORT int ncclCommInitRankConfig(comm **out, int n, fake_id id, int rank, void *config)
{
    char pending[240];
    int ctas = 0;
    *out = NULL;
    if (!fake_has_context() || !is_config(config, &ctas) || rank < 0 || rank >= n)
        return ARGUMENT;
    snprintf(pending, sizeof pending, "%s.init", id.path);
    *out = make(id.path, n, rank, rank);
    (*out)->ctas = ctas;
    vote_for(*out, pending, 0, rank);
    return PROGRESS;
}

EXPORT int ncclCommSplit(comm *c, int color, int key, comm **out, void *config)
{
    char pending[240];
    int ctas = 0;
    *out = NULL;
    if (!fake_has_context() || !is_config(config, &ctas) || color < -1)
        return ARGUMENT;
    if (!fake_is_ready(c))
        return USAGE;
    snprintf(pending, sizeof pending, "%s.s%d", c->path, c->splits++);
    c->child = out;
    c->child_ctas = ctas;
    vote_for(c, pending, color, key);
    return SUCCESS; /* as NCCL does, though it has only begun */
}

EXPORT int ncclCommGetAsyncError(comm *c, int *result)
{
    *result = fake_has_context() ? state_of(c) : ARGUMENT;
    return SUCCESS;
}

EXPORT int ncclCommFinalize(comm *c)
{
    if (!fake_is_ready(c) || !fake_has_context())
        return USAGE;
    c->finalized = true;
    return PROGRESS;
}

static _Thread_local int depth;
static _Thread_local op *grouped, *last;
static _Thread_local CUstream grouped_on;
static _Thread_local comm *aborting; /* in this group, by next_aborting */

static bool has_left(const void *what)
{
    const comm *c = what;
    return c->on_streams == 0;
}

/* Its kernels see at once that it is aborted, and end; it waits for them. */
static void await_aborted(comm *list)
{
    for (comm *c = list; c; c = c->next_aborting)
        fake_advance_until(has_left, c);
}

static comm *kept; /* what was aborted: streams may still hold it */

/* NCCL's threads may still be on their way out when the process ends, and find nothing there. */
__attribute__((destructor)) static void unwind(void)
{
    if (kept)
        abort();
}

/* What is under way ends, undone. */
EXPORT int ncclCommAbort(comm *c)
{
    char name[256];
    const head h = {0};
    snprintf(name, sizeof name, "%s.gone.%d", c->path, c->me);
    fake_write(name, &h, NULL, 0);
    pthread_mutex_lock(&fake.lock);
    c->aborted = fake.astray = true;
    c->next = kept;
    kept = c;
    fake.communicators--;
    fake_drop_windows(c);
    pthread_mutex_unlock(&fake.lock);
    c->next_aborting = depth ? aborting : NULL;
    if (depth)
        aborting = c;
    else
        await_aborted(c);
    return SUCCESS;
}

/* What is said of it is where it was. */
typedef struct registered {
    comm *of;
    const void *memory;
    size_t bytes;
} registered;

EXPORT int ncclCommRegister(comm *c, void *memory, size_t bytes, void **handle)
{
    *handle = NULL;
    if (!fake_is_ready(c))
        return USAGE;
    if (!fake_has_context() || !bytes || !fake_owns(memory, bytes))
        return ARGUMENT;
    registered *r = malloc(sizeof *r);
    *r = (registered){c, memory, bytes};
    c->registered++;
    fake_count(&fake.registrations, 1);
    *handle = r;
    return SUCCESS;
}

EXPORT int ncclCommDeregister(comm *c, void *handle)
{
    registered *r = handle;
    if (!r || r->of != c || !fake_owns(r->memory, r->bytes)) {
        fake_refuse(CUDA_ERROR_INVALID_VALUE, "memory was given back before NCCL was told");
        return ARGUMENT;
    }
    c->registered--;
    fake_count(&fake.registrations, -1);
    free(r);
    return SUCCESS;
}

EXPORT int ncclCommDestroy(comm *c)
{
    if (c->registered || c->windows || c->issued != c->done || c->waits || *c->pending)
        return USAGE;
    fake_count(&fake.communicators, -1);
    free(c->sent);
    free(c->received);
    free(c->met);
    free(c);
    return SUCCESS;
}

/* ---- before it is on a stream: who does it with whom for the first time connects ---- */

/* This rank is there, and so is the other. */
static bool meet(const comm *c, const char *what, int me, int other)
{
    const head h = {0};
    char name[256];
    snprintf(name, sizeof name, "%s.%s%d-%d", c->path, what, me, other);
    if (access(name, F_OK) != 0)
        fake_write(name, &h, NULL, 0);
    snprintf(name, sizeof name, "%s.%s%d-%d", c->path, what, other, me);
    return access(name, F_OK) == 0;
}

/* NCCL allocates and may wait for the GPU: nobody wants that in the middle of a step. */
static void count_late(bool connected)
{
    fake.nccl_late += connected && fake.told > 0;
}

static bool connect_transfer(comm *c, const op *o)
{
    bool *met = &c->met[2 * o->with + (o->kind == RECV)];
    char mine[256], others[256];
    const int from = o->kind == SEND ? c->me : o->with, to = o->kind == SEND ? o->with : c->me;
    const head h = {0};
    if (*met || o->with == c->me)
        return true;
    snprintf(mine, sizeof mine, "%s.%s%d-%d", c->path, o->kind == SEND ? "to" : "at", from, to);
    snprintf(others, sizeof others, "%s.%s%d-%d", c->path, o->kind == SEND ? "at" : "to", from, to);
    if (access(mine, F_OK) != 0)
        fake_write(mine, &h, NULL, 0);
    *met = access(others, F_OK) == 0;
    count_late(*met);
    return *met;
}

/* For sums NCCL connects others than for what is only sent. */
static bool connect_all(comm *c, const op *o)
{
    const bool sums = o->kind == SCATTER || o->kind == REDUCE;
    bool all = true;
    for (int r = 0; r < c->n && !c->connected[sums]; r++)
        if (!meet(c, sums ? "m" : "c", c->me, r))
            all = false;
    count_late(all && !c->connected[sums] && c->n > 1);
    return c->connected[sums] = c->connected[sums] || all;
}

static bool is_connected(comm *c, const op *ops)
{
    bool all = true;
    for (const op *o = ops; o; o = o->next)
        if (!(is_transfer(o) ? connect_transfer(c, o) : connect_all(c, o)))
            all = false;
    return all;
}

/* What NCCL takes of machines of eight GPUs with NVLink: 24 channels of collectives, of transfers
 * up to 32, each a block of its kernel, which stay until the others have come. */
static int count_ctas(const batch *b)
{
    enum { COLLECTIVE = 24, TRANSFER = 32 };
    const int most = is_transfer(b->ops) ? TRANSFER : COLLECTIVE;
    const int n = b->of->ctas && b->of->ctas < most ? b->of->ctas : most;
    if (is_transfer(b->ops) && n > fake.nccl_blocks)
        fake.nccl_blocks = n;
    return n;
}

/* Not weft's: the kit's Python opens this library by itself. */
static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int go_on(comm *c)
{
    batch *b = c->waits;
    const double now = seconds(), took = now - b->since;
    b->slept = b->slept || now - b->asked >= 1e-3;
    b->asked = now;
    if (took < 1e-6 * (double)fake_number("WEFT_FAKE_NCCL_CALL_US", 0) || !is_connected(c, b->ops))
        return PROGRESS;
    c->waits = NULL;
    fake.nccl_s += took;
    fake.nccl_slept += b->slept;
    if (fake_is_capturing(c->on))
        b->persistent = ++c->persistent;
    else
        fake_give_numbers(b);
    return fake_enqueue_until(c->on, fake_run_batch, fake_drop_batch, fake_copy_batch, b,
                              count_ctas(b)) == CUDA_SUCCESS
               ? SUCCESS
               : UNHANDLED;
}

static const char *find_wrong(const op *o, CUstream stream)
{
    size_t sent = o->send ? fake_sent_bytes(o) : 0, got = fake_received_bytes(o);
    return !fake_has_context()                  ? "this thread has no context"
           : !fake_is_ready(o->of)              ? "the communicator is not done with the last call"
           : !stream                            ? "no stream"
           : o->with < 0 || o->with >= o->of->n ? "no such rank"
           : is_transfer(o) && !o->count        ? "nothing is sent"
           : sent && !fake_owns(o->send, sent)  ? "what is sent is not all in the GPU's memory"
           : got && !fake_owns(o->recv, got)    ? "what is received has no room in the GPU's memory"
                                                : NULL;
}

static int enqueue(op *ops, CUstream stream)
{
    comm *c = ops->of;
    batch *b = calloc(1, sizeof *b);
    *b = (batch){.of = c, .ops = ops, .since = seconds(), .asked = seconds()};
    fake.nccl_calls++;
    for (const op *o = ops; o; o = o->next)
        fake.nccl_operations++;
    c->waits = b;
    c->on = stream;
    return PROGRESS;
}

EXPORT int ncclGroupStart(void)
{
    depth++;
    return SUCCESS;
}

EXPORT int ncclGroupEnd(void)
{
    op *all = grouped;
    if (--depth > 0)
        return SUCCESS;
    await_aborted(aborting);
    aborting = NULL;
    if (!all)
        return SUCCESS;
    grouped = last = NULL;
    return enqueue(all, grouped_on);
}

static int begin(op o, CUstream stream)
{
    if (o.of->error)
        return o.of->error;
    const char *wrong = find_wrong(&o, stream);
    if (wrong) {
        fake_refuse(CUDA_ERROR_INVALID_VALUE, wrong);
        return USAGE;
    }
    op *made = malloc(sizeof *made);
    *made = o;
    if (depth == 0)
        return enqueue(made, stream);
    if (grouped && (grouped->of != o.of || grouped_on != stream))
        return USAGE; /* of this fake, not of NCCL */
    if (grouped)
        last->next = made;
    else
        grouped = made;
    last = made;
    grouped_on = stream;
    return SUCCESS;
}

EXPORT int ncclAllGather(const void *send, void *recv, size_t count, int type, comm *c, CUstream s)
{
    return begin((op){GATHER, c, send, recv, count, type, 0, 0, false, false, NULL}, s);
}

EXPORT int ncclReduceScatter(const void *send, void *recv, size_t count, int type, int how, comm *c,
                             CUstream s)
{
    (void)how;
    return begin((op){SCATTER, c, send, recv, count, type, 0, 0, false, false, NULL}, s);
}

EXPORT int ncclAllReduce(const void *send, void *recv, size_t count, int type, int how, comm *c,
                         CUstream s)
{
    (void)how;
    return begin((op){REDUCE, c, send, recv, count, type, 0, 0, false, false, NULL}, s);
}

EXPORT int ncclBroadcast(const void *send, void *recv, size_t count, int type, int root, comm *c,
                         CUstream s)
{
    return begin((op){BROADCAST, c, send, recv, count, type, root, 0, false, false, NULL}, s);
}

EXPORT int ncclSend(const void *data, size_t count, int type, int to, comm *c, CUstream s)
{
    return begin((op){SEND, c, data, NULL, count, type, to, 0, false, false, NULL}, s);
}

EXPORT int ncclRecv(void *data, size_t count, int type, int from, comm *c, CUstream s)
{
    return begin((op){RECV, c, NULL, data, count, type, from, 0, false, false, NULL}, s);
}
