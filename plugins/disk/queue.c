/* SPDX-License-Identifier: Apache-2.0 */
/* Threads that move pieces between a file and memory. A piece is whole blocks of the file; where
 * what was asked for is that, too, and lies where direct access allows it, nothing is copied. Else
 * it goes through memory of the thread's own. */
#include "disk.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

/* What of a transfer one call of the system moves. */
typedef struct piece {
    disk_move *move;
    int64_t at, n; /* asked for */
    char *memory;
} piece;

/* ---- the file ---- */

static const char *call(const disk_queue *q, bool writes, char *data, int64_t n, int64_t at)
{
    while (n > 0) {
        const ssize_t done = writes ? q->io->pwrite(q->io->ctx, q->fd, data, (size_t)n, at)
                                    : q->io->pread(q->io->ctx, q->fd, data, (size_t)n, at);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return strerror(errno);
        if (done == 0)
            return writes ? "nothing more can be written" : "the file has lost its end";
        data += done;
        at += done;
        n -= done;
    }
    return NULL;
}

static uint64_t sum_of(const char *block)
{
    const uint64_t sum = weft_sum(block, DISK_BLOCK);
    return sum ? sum : 1;
}

static const char *compare(const disk_queue *q, const char *data, int64_t from, int64_t to)
{
    for (int64_t at = from; at < to && q->sums; at += DISK_BLOCK) {
        const uint64_t sum = q->sums[at / DISK_BLOCK];
        if (sum && sum != sum_of(data + (at - from)))
            return "the disk gives back what was not written ([disk] verify)";
    }
    return NULL;
}

static const char *read_blocks(const disk_queue *q, char *data, int64_t from, int64_t to)
{
    const char *why = call(q, false, data, to - from, from);
    return why ? why : compare(q, data, from, to);
}

/* What of its first and last block is not written stays as it is. */
static const char *fill_edges(const disk_queue *q, const piece *p, char *room, int64_t from,
                              int64_t to)
{
    const char *why = NULL;
    if (p->at > from)
        why = read_blocks(q, room, from, from + DISK_BLOCK);
    const bool same = to - from == DISK_BLOCK && p->at > from;
    if (!why && p->at + p->n < to && !same)
        why = read_blocks(q, room + (to - from - DISK_BLOCK), to - DISK_BLOCK, to);
    return why;
}

/* Nothing of it fills the memory that others need. */
static void forget(const disk_queue *q, bool writes, int64_t from, int64_t to)
{
    if (q->direct)
        return;
    if (writes)
        sync_file_range(q->fd, from, to - from,
                        SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
                            SYNC_FILE_RANGE_WAIT_AFTER);
    posix_fadvise(q->fd, from, to - from, POSIX_FADV_DONTNEED);
}

static void add_sums(const disk_queue *q, const char *data, int64_t from, int64_t to)
{
    for (int64_t at = from; at < to && q->sums; at += DISK_BLOCK)
        q->sums[at / DISK_BLOCK] = sum_of(data + (at - from));
}

static const char *move_whole(const disk_queue *q, const piece *p)
{
    if (!p->move->writes)
        return read_blocks(q, p->memory, p->at, p->at + p->n);
    add_sums(q, p->memory, p->at, p->at + p->n);
    return call(q, true, p->memory, p->n, p->at);
}

static const char *copy_piece(const disk_queue *q, const piece *p, char *room)
{
    const int64_t from = p->at / DISK_BLOCK * DISK_BLOCK,
                  to = (p->at + p->n + DISK_BLOCK - 1) / DISK_BLOCK * DISK_BLOCK;
    const bool writes = p->move->writes;
    const char *why = writes ? fill_edges(q, p, room, from, to) : read_blocks(q, room, from, to);
    if (!why && !writes)
        memcpy(p->memory, room + (p->at - from), (size_t)p->n);
    if (!why && writes) {
        memcpy(room + (p->at - from), p->memory, (size_t)p->n);
        add_sums(q, room, from, to);
        why = call(q, true, room, to - from, from);
    }
    return why;
}

static const char *move_piece(const disk_queue *q, const piece *p, char *room)
{
    const bool whole =
        p->at % DISK_BLOCK == 0 && p->n % DISK_BLOCK == 0 && (uintptr_t)p->memory % DISK_BLOCK == 0;
    const char *why = whole ? move_whole(q, p) : copy_piece(q, p, room);
    forget(q, p->move->writes, p->at / DISK_BLOCK * DISK_BLOCK,
           (p->at + p->n + DISK_BLOCK - 1) / DISK_BLOCK * DISK_BLOCK);
    return why;
}

/* ---- the threads ---- */

static bool is_left(const disk_move *m)
{
    return m->next < m->n && !m->failed && !m->no_memory;
}

/* The first piece of the first transfer. It ends where the file's pieces do, so that no two share a
 * block. */
static bool take(disk_queue *q, piece *p)
{
    disk_move *m = q->first;
    while (m && !is_left(m)) {
        m = q->first = m->behind;
        if (!m)
            q->last = NULL;
    }
    if (!m)
        return false;
    const int64_t at = m->at + m->next, room = DISK_PIECE - at % DISK_PIECE, left = m->n - m->next;
    *p = (piece){m, at, left < room ? left : room, m->memory + m->next};
    m->next += p->n;
    m->moving++;
    if (q->moving++ == 0)
        q->since = weft_now();
    return true;
}

static void finish(disk_queue *q, const piece *p, const char *why)
{
    disk_move *m = p->move;
    if (why && !m->failed && !m->no_memory) {
        m->failed =
            weft_format("%s: %lld bytes at %lld of its scratch file cannot be %s: %s", q->name,
                        (long long)p->n, (long long)p->at, m->writes ? "written" : "read", why);
        m->no_memory = !m->failed;
    }
    *(m->writes ? &q->written : &q->read) += p->n;
    m->moving--;
    if (--q->moving == 0)
        q->busy_s += weft_now() - q->since;
    pthread_cond_broadcast(&q->changed);
}

static void *work(void *arg)
{
    disk_queue *q = arg;
    piece p;
    weft_blame_set((weft_blame){.plugin = "disk", .hook = "transfers"});
    char *own = weft_alloc(DISK_PIECE + DISK_BLOCK);
    char *room = own ? own + (DISK_BLOCK - (uintptr_t)own % DISK_BLOCK) : NULL;
    pthread_mutex_lock(&q->lock);
    for (;;) {
        while (!q->quit && !take(q, &p))
            pthread_cond_wait(&q->changed, &q->lock);
        if (q->quit)
            break;
        pthread_mutex_unlock(&q->lock);
        const char *why = room ? move_piece(q, &p, room) : "out of memory";
        pthread_mutex_lock(&q->lock);
        finish(q, &p, why);
    }
    pthread_mutex_unlock(&q->lock);
    weft_free(own);
    return NULL;
}

weft_status disk_queue_start(disk_queue *q, int n, weft_error *err)
{
    pthread_mutex_init(&q->lock, NULL);
    pthread_cond_init(&q->changed, NULL);
    q->locks = true;
    while (q->n_threads < n && q->n_threads < DISK_MOST_THREADS &&
           pthread_create(&q->threads[q->n_threads], NULL, work, q) == 0)
        q->n_threads++;
    return q->n_threads ? WEFT_OK
                        : weft_fail(err, WEFT_ERR_RUN, WEFT_NOWHERE,
                                    "%s: no thread can be started to move its bytes", q->name);
}

void disk_queue_drain(disk_queue *q)
{
    if (!q->locks)
        return;
    pthread_mutex_lock(&q->lock);
    for (disk_move *m = q->first; m; m = m->behind)
        m->next = m->n;
    q->first = q->last = NULL;
    while (q->moving)
        pthread_cond_wait(&q->changed, &q->lock);
    pthread_mutex_unlock(&q->lock);
}

void disk_queue_stop(disk_queue *q)
{
    if (!q->locks)
        return;
    disk_queue_drain(q);
    pthread_mutex_lock(&q->lock);
    q->quit = true;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
    while (q->n_threads > 0)
        pthread_join(q->threads[--q->n_threads], NULL);
    pthread_cond_destroy(&q->changed);
    pthread_mutex_destroy(&q->lock);
    q->locks = false;
}

void disk_queue_add(disk_queue *q, disk_move *m)
{
    pthread_mutex_lock(&q->lock);
    *(q->last ? &q->last->behind : &q->first) = m;
    q->last = m;
    pthread_cond_broadcast(&q->changed);
    pthread_mutex_unlock(&q->lock);
}

/* One that is done may still stand in the list, until a thread comes by. */
static void leave(disk_queue *q, const disk_move *m)
{
    disk_move *before = NULL;
    for (disk_move *k = q->first; k; before = k, k = k->behind) {
        if (k != m)
            continue;
        *(before ? &before->behind : &q->first) = k->behind;
        q->last = q->last == k ? before : q->last;
        return;
    }
}

weft_status disk_queue_wait(disk_queue *q, disk_move *m, weft_error *err)
{
    const double since = weft_now();
    pthread_mutex_lock(&q->lock);
    while (m->moving || is_left(m))
        pthread_cond_wait(&q->changed, &q->lock);
    leave(q, m);
    q->waited_s += weft_now() - since;
    pthread_mutex_unlock(&q->lock);
    weft_status s = m->no_memory ? weft_fail_memory(err)
                    : m->failed  ? weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE, "%s", m->failed)
                                 : WEFT_OK;
    weft_free(m->failed);
    return s;
}

weft_status disk_queue_time(disk_queue *q, bool writes, int64_t at, char *memory, int64_t n,
                            double *seconds, weft_error *err)
{
    disk_move m = {.at = at, .n = n, .memory = memory, .writes = writes};
    const double since = weft_now();
    disk_queue_add(q, &m);
    weft_status s = disk_queue_wait(q, &m, err);
    *seconds = weft_now() - since;
    return s;
}
