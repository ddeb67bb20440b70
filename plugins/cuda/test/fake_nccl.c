/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL as far as the plugin nccl asks for it, between processes of one host that each have the fake
 * driver: what ranks send each other lies in files. It is stricter than NCCL where NCCL may be: a
 * communicator does one thing after the other, a send ends when it has been received, sums go round
 * in a ring and are rounded at every rank, and maxima lose NaNs. What ranks do differently in one
 * collective is an error, where NCCL would hang.
 *
 * WEFT_FAKE_NCCL_DIR    where the files are (default /tmp)
 * WEFT_FAKE_NCCL_RANK   the rank, of all, at which one of these happens:
 * WEFT_FAKE_NCCL_STALL  the number of the operation that never begins
 * WEFT_FAKE_NCCL_FAIL   the number of the operation at which the network fails */
#include "fake_driver.h"

#include <weft/base.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* nccl.h, which would declare what is defined here, need not be there. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

enum { SUCCESS, SYSTEM = 2, USAGE = 5, PROGRESS = 7 };
enum { BYTES = 1, F32 = 7, F64 = 8, BF16 = 9 };
typedef enum kind { GATHER, SCATTER, REDUCE, BROADCAST, SEND, RECV } kind;

typedef struct fake_id {
    char path[128];
} fake_id;

typedef struct comm {
    char path[192];
    int n, me, world; /* world: the rank of all */
    int error;
    bool aborted;
    long issued, done, number; /* number: of collectives */
    long *sent, *received;     /* [n] */
    int splits;
    /* what it is being made of, or what is being made of it */
    char pending[240];
    struct comm **child;
} comm;

typedef struct op {
    kind kind;
    comm *of;
    const char *send;
    char *recv;
    size_t count;
    int type, with; /* with: the root, or the other end */
    long number;
    bool posted, over;
    struct op *next;
} op;

/* What is done together. */
typedef struct batch {
    comm *of;
    op *ops;
    long ticket;
    bool stalls;
} batch;

static long begun;

/* ---- files ---- */

static void name_of(char *out, size_t size, const comm *c, const op *o, int from, int to)
{
    if (o->kind == SEND || o->kind == RECV)
        snprintf(out, size, "%s.p%d-%d.%ld", c->path, from, to, o->number);
    else
        snprintf(out, size, "%s.%ld.%d", c->path, o->number, from);
}

typedef struct head {
    int kind, type;
    size_t count;
} head;

static void write_file(const char *name, const head *h, const void *data, size_t bytes)
{
    char early[260];
    snprintf(early, sizeof early, "%s.new", name);
    FILE *f = fopen(early, "we");
    if (!f || fwrite(h, sizeof *h, 1, f) != 1 || (bytes && fwrite(data, bytes, 1, f) != 1)) {
        perror(early);
        abort();
    }
    fclose(f);
    rename(early, name);
}

/* As many bytes as there are, in memory of the caller's; NULL: it is not there. */
static char *read_file(const char *name, head *h, size_t *bytes)
{
    FILE *f = fopen(name, "re");
    if (!f)
        return NULL;
    fseek(f, 0, SEEK_END);
    *bytes = (size_t)ftell(f) - sizeof *h;
    rewind(f);
    char *data = malloc(*bytes + 1);
    if (fread(h, sizeof *h, 1, f) != 1 || (*bytes && fread(data, *bytes, 1, f) != 1))
        abort();
    fclose(f);
    return data;
}

static size_t size_of(int type)
{
    return type == F32 ? 4 : type == F64 ? 8 : type == BF16 ? 2 : 1;
}

/* ---- communicators ---- */

static comm *make(const char *path, int n, int me, int world)
{
    comm *c = calloc(1, sizeof *c);
    snprintf(c->path, sizeof c->path, "%s", path);
    c->n = n;
    c->me = me;
    c->world = world;
    c->sent = calloc((size_t)n, sizeof *c->sent);
    c->received = calloc((size_t)n, sizeof *c->received);
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
        char *data = read_file(name, &h, &bytes);
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
    write_file(name, &h, &mine, sizeof mine);
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
}

/* Under the lock. */
static int state_of(comm *c)
{
    if (c->error || !*c->pending)
        return c->error;
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
    return result == SYSTEM  ? "unhandled system error"
           : result == USAGE ? "invalid usage"
                             : "another error";
}

EXPORT const char *ncclGetLastError(const comm *c)
{
    return c && c->error == SYSTEM ? "the network fails, as it was told to" : "";
}

EXPORT int ncclGetUniqueId(fake_id *id)
{
    static int n;
    const char *dir = getenv("WEFT_FAKE_NCCL_DIR");
    snprintf(id->path, sizeof id->path, "%s/nccl-%ld-%d", dir ? dir : "/tmp", (long)getpid(), n++);
    return SUCCESS;
}

EXPORT int ncclCommInitRankConfig(comm **out, int n, fake_id id, int rank, void *config)
{
    char pending[240];
    (void)config;
    snprintf(pending, sizeof pending, "%s.init", id.path);
    *out = make(id.path, n, rank, rank);
    vote_for(*out, pending, 0, rank);
    return PROGRESS;
}

EXPORT int ncclCommSplit(comm *c, int color, int key, comm **out, void *config)
{
    char pending[240];
    (void)config;
    snprintf(pending, sizeof pending, "%s.s%d", c->path, c->splits++);
    c->child = out;
    *out = NULL;
    vote_for(c, pending, color, key);
    return PROGRESS;
}

EXPORT int ncclCommGetAsyncError(comm *c, int *result)
{
    pthread_mutex_lock(&fake.lock);
    *result = state_of(c);
    pthread_mutex_unlock(&fake.lock);
    return SUCCESS;
}

EXPORT int ncclCommFinalize(comm *c)
{
    return c->issued == c->done ? SUCCESS : USAGE;
}

/* What is under way ends, undone. Streams may still hold it, so it is not freed. */
EXPORT int ncclCommAbort(comm *c)
{
    pthread_mutex_lock(&fake.lock);
    c->aborted = true;
    pthread_mutex_unlock(&fake.lock);
    return SUCCESS;
}

EXPORT int ncclCommDestroy(comm *c)
{
    free(c->sent);
    free(c->received);
    free(c);
    return SUCCESS;
}

/* ---- collectives: everyone's part is a file ---- */

static size_t sent_bytes(const op *o)
{
    size_t bytes = o->count * size_of(o->type);
    return o->kind == SCATTER                             ? bytes * (size_t)o->of->n
           : o->kind == BROADCAST && o->with != o->of->me ? 0
                                                          : bytes;
}

static double get(const char *data, int type, size_t i)
{
    return type == F32   ? ((const float *)(const void *)data)[i]
           : type == F64 ? ((const double *)(const void *)data)[i]
                         : weft_bf16_to_f32(((const uint16_t *)(const void *)data)[i]);
}

static void put(char *data, int type, size_t i, double v)
{
    if (type == F32)
        ((float *)(void *)data)[i] = (float)v;
    else if (type == F64)
        ((double *)(void *)data)[i] = v;
    else
        ((uint16_t *)(void *)data)[i] = weft_f32_to_bf16((float)v);
}

/* Round the ring, from another rank for every element, rounded at each. */
static void sum(const op *o, char *const *parts, size_t offset)
{
    const int n = o->of->n;
    for (size_t i = 0; i < o->count; i++) {
        int first = (int)((i + 1) % (size_t)n);
        put(o->recv, o->type, i, get(parts[first], o->type, offset + i));
        for (int k = 1; k < n; k++)
            put(o->recv, o->type, i,
                get(o->recv, o->type, i) + get(parts[(first + k) % n], o->type, offset + i));
    }
}

static void finish(op *o, char *const *parts)
{
    comm *c = o->of;
    size_t bytes = o->count * size_of(o->type);
    switch (o->kind) {
    case GATHER:
        for (int r = 0; r < c->n; r++)
            memcpy(o->recv + (size_t)r * bytes, parts[r], bytes);
        break;
    case SCATTER:
        sum(o, parts, (size_t)c->me * o->count);
        break;
    case REDUCE:
        sum(o, parts, 0);
        break;
    case BROADCAST:
        memcpy(o->recv, parts[o->with], bytes);
        break;
    case SEND:
    case RECV:
        break;
    }
}

static void post(op *o)
{
    char name[256];
    const head h = {o->kind, o->type, o->count};
    name_of(name, sizeof name, o->of, o, o->of->me, o->with);
    write_file(name, &h, o->send, sent_bytes(o));
    o->posted = true;
}

/* Once all have written number k, all have read k - 1. */
static bool run_collective(op *o)
{
    comm *c = o->of;
    bool all = true, same = true;
    char name[256];
    if (!o->posted)
        post(o);
    for (int r = 0; r < c->n && all; r++) {
        name_of(name, sizeof name, c, o, r, 0);
        all = access(name, F_OK) == 0;
    }
    if (!all)
        return false;
    char **parts = calloc((size_t)c->n, sizeof *parts);
    for (int r = 0; r < c->n; r++) {
        head h;
        size_t bytes;
        name_of(name, sizeof name, c, o, r, 0);
        parts[r] = read_file(name, &h, &bytes);
        same = same && h.kind == (int)o->kind && h.type == o->type && h.count == o->count;
    }
    if (same)
        finish(o, parts);
    else
        c->error = USAGE;
    for (int r = 0; r < c->n; r++)
        free(parts[r]);
    free(parts);
    o->number--;
    name_of(name, sizeof name, c, o, c->me, 0);
    unlink(name);
    return same;
}

/* ---- sends and receives ---- */

static bool run_transfer(op *o)
{
    comm *c = o->of;
    char name[256];
    head h;
    size_t bytes;
    bool sends = o->kind == SEND;
    name_of(name, sizeof name, c, o, sends ? c->me : o->with, sends ? o->with : c->me);
    if (sends && !o->posted) {
        post(o);
        return false;
    }
    if (sends)
        return access(name, F_OK) != 0;
    char *data = read_file(name, &h, &bytes);
    if (!data)
        return false;
    if (bytes == o->count * size_of(o->type))
        memcpy(o->recv, data, bytes);
    else
        c->error = USAGE;
    free(data);
    unlink(name);
    return !c->error;
}

/* ---- on a stream ---- */

static bool run_batch(void *what)
{
    const batch *b = what;
    comm *c = b->of;
    bool over = true;
    if (c->aborted)
        return true;
    if (b->stalls || c->error || b->ticket != c->done)
        return false;
    for (op *o = b->ops; o; o = o->next) {
        if (!o->over)
            o->over = o->kind == SEND || o->kind == RECV ? run_transfer(o) : run_collective(o);
        over = over && o->over;
    }
    c->done += over;
    return over;
}

static void drop_batch(void *what)
{
    batch *b = what;
    for (op *o = b->ops, *next; o; o = next) {
        next = o->next;
        free(o);
    }
    free(b);
}

/* In the order of their calls, or of the launches of their graphs. */
static void give_numbers(batch *b)
{
    comm *c = b->of;
    b->ticket = c->issued++;
    for (op *o = b->ops; o; o = o->next)
        o->number = o->kind == SEND   ? c->sent[o->with]++
                    : o->kind == RECV ? c->received[o->with]++
                                      : c->number++;
    if (++begun && c->world == fake_number("WEFT_FAKE_NCCL_RANK", 0)) {
        b->stalls = begun == fake_number("WEFT_FAKE_NCCL_STALL", 0);
        if (begun == fake_number("WEFT_FAKE_NCCL_FAIL", 0))
            c->error = SYSTEM;
    }
}

static void *copy_batch(const void *what)
{
    batch *b = malloc(sizeof *b);
    *b = *(const batch *)what;
    for (op **at = &b->ops; *at; at = &(*at)->next) {
        op *o = malloc(sizeof *o);
        *o = **at;
        *at = o;
    }
    give_numbers(b);
    return b;
}

static int enqueue(op *ops, CUstream stream)
{
    batch *b = calloc(1, sizeof *b);
    *b = (batch){.of = ops->of, .ops = ops};
    if (!fake_is_recording())
        give_numbers(b);
    return fake_enqueue_until(stream, run_batch, drop_batch, copy_batch, b) == CUDA_SUCCESS
               ? SUCCESS
               : 1;
}

static _Thread_local int depth;
static _Thread_local op *grouped, *last;
static _Thread_local CUstream grouped_on;

EXPORT int ncclGroupStart(void)
{
    depth++;
    return SUCCESS;
}

EXPORT int ncclGroupEnd(void)
{
    op *all = grouped;
    if (--depth > 0 || !all)
        return SUCCESS;
    grouped = last = NULL;
    return enqueue(all, grouped_on);
}

static int begin(op o, CUstream stream)
{
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
