/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks as threads of one process: collectives are copies and sums in shared memory, in the order
 * of the group. */
#include "local.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <time.h>

enum { PIECE = 2048 }; /* elements reduced at a time */
enum { LOOK_NS = 100000000 };

/* ---- the world ---- */

static void destroy_group(group *g)
{
    pthread_cond_destroy(&g->turned);
    pthread_mutex_destroy(&g->lock);
    weft_free(g->ranks);
    weft_free(g->joined);
    weft_free(g->gone);
    weft_free(g->absent);
    weft_free(g->send);
    weft_free(g->recv);
    weft_free(g);
}

static void destroy_world(world *w)
{
    while (w->groups) {
        group *g = w->groups;
        w->groups = g->next;
        destroy_group(g);
    }
    pthread_mutex_destroy(&w->lock);
    weft_free(w);
}

static world *create_world(int ranks)
{
    world *w = weft_alloc_zero(1, sizeof *w);
    if (!w)
        return NULL;
    w->ranks = ranks;
    pthread_mutex_init(&w->lock, NULL);
    return w;
}

/* ---- groups ---- */

static void init_turned(group *g)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&g->turned, &attributes);
    pthread_condattr_destroy(&attributes);
}

static group *create_group(world *w, const int *ranks, int n)
{
    group *g = weft_alloc_zero(1, sizeof *g);
    if (!g)
        return NULL;
    g->world = w;
    g->n = n;
    pthread_mutex_init(&g->lock, NULL);
    init_turned(g);
    g->ranks = weft_alloc((size_t)n * sizeof *g->ranks);
    g->send = weft_alloc_zero((size_t)n, sizeof *g->send);
    g->recv = weft_alloc_zero((size_t)n, sizeof *g->recv);
    g->absent = weft_alloc((size_t)n * sizeof *g->absent);
    g->joined = weft_alloc_zero((size_t)n, sizeof *g->joined);
    g->gone = weft_alloc_zero((size_t)n, sizeof *g->gone);
    if (!g->ranks || !g->absent || !g->joined || !g->gone || !g->send || !g->recv) {
        destroy_group(g);
        return NULL;
    }
    memcpy(g->ranks, ranks, (size_t)n * sizeof *ranks);
    memset(g->absent, true, (size_t)n * sizeof *g->absent);
    g->broken = w->broken;
    g->next = w->groups;
    w->groups = g;
    return g;
}

/* Several groups may have the same ranks: each rank joins them in the order in which they were
 * made, and the newest is first in the list. */
static group *find_group(const world *w, const int *ranks, int n, int me)
{
    group *oldest = NULL;
    for (group *g = w->groups; g; g = g->next)
        if (g->n == n && !g->joined[me] && memcmp(g->ranks, ranks, (size_t)n * sizeof *ranks) == 0)
            oldest = g;
    return oldest;
}

static weft_status make_group(void *self, const int *ranks, int n, int me, void **out,
                              weft_error *err)
{
    world *w = ((local *)self)->world;
    member *m = weft_alloc_zero(1, sizeof *m);
    if (!m)
        return weft_fail_memory(err);
    pthread_mutex_lock(&w->lock);
    group *g = find_group(w, ranks, n, me);
    if (!g)
        g = create_group(w, ranks, n);
    if (g)
        g->joined[me] = true;
    pthread_mutex_unlock(&w->lock);
    if (!g) {
        weft_free(m);
        return weft_fail_memory(err);
    }
    *m = (member){.group = g, .me = me};
    *out = m;
    return WEFT_OK;
}

static void leave_group(void *self, void *handle)
{
    (void)self; /* the group itself goes with the world: others may still be in it */
    local_drop_requests(handle);
    weft_free(handle);
}

bool local_rest(group *g)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += LOOK_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    return pthread_cond_timedwait(&g->turned, &g->lock, &until) != ETIMEDOUT;
}

/* Until the turn is over, under the lock. The core is asked now and then whether to go on. */
static weft_status await_turn(const local *l, group *g, unsigned turn, weft_error *err)
{
    double since = weft_now();
    weft_status s = WEFT_OK;
    while (g->turn == turn && !g->broken && !s)
        if (!local_rest(g) && g->turn == turn && !g->broken)
            s = l->host->waiting(l->host, since, g->ranks, g->absent, g->n, err);
    return s;
}

/* Once a group is broken nobody meets in it any more: what those who left had shown may be gone. */
static weft_status show(const local *l, member *m, const void *send, void *recv, weft_error *err)
{
    group *g = m->group;
    weft_status s = WEFT_OK;
    pthread_mutex_lock(&g->lock);
    unsigned turn = g->turn;
    g->send[m->me] = send;
    g->recv[m->me] = recv;
    g->absent[m->me] = false;
    if (!g->broken && ++g->arrived == g->n) {
        g->arrived = 0;
        g->working = g->n;
        g->turn++;
        memset(g->absent, true, (size_t)g->n * sizeof *g->absent);
        pthread_cond_broadcast(&g->turned);
    }
    s = await_turn(l, g, turn, err);
    if (s)
        g->broken = true; /* nobody meets any more whom this rank has not waited for */
    bool met = g->turn != turn;
    pthread_mutex_unlock(&g->lock);
    if (s || met)
        return s;
    return weft_fail(err, WEFT_ERR_PEER, WEFT_NOWHERE,
                     "another rank has ended in the middle of a step");
}

/* Whoever met works to the end, broken or not, so nobody waits here for long; and nobody's memory
 * goes away while another reads it. */
static weft_status finish(group *g)
{
    pthread_mutex_lock(&g->lock);
    if (--g->working == 0)
        pthread_cond_broadcast(&g->turned);
    while (g->working > 0)
        pthread_cond_wait(&g->turned, &g->lock);
    pthread_mutex_unlock(&g->lock);
    return WEFT_OK;
}

/* ---- collectives ---- */

static weft_status all_gather(void *self, void *handle, const void *send, void *recv, int64_t count,
                              weft_dtype dtype, weft_queue *queue, weft_error *err)
{
    (void)queue;
    member *m = handle;
    size_t bytes = (size_t)count * weft_dtype_size(dtype);
    weft_status s = show(self, m, send, recv, err);
    for (int i = 0; i < m->group->n && !s; i++)
        memcpy((char *)recv + (size_t)i * bytes, m->group->send[i], bytes);
    return s ? s : finish(m->group);
}

static weft_status all_to_all(void *self, void *handle, const void *send, void *recv, int64_t count,
                              weft_dtype dtype, weft_queue *queue, weft_error *err)
{
    (void)queue;
    member *m = handle;
    size_t bytes = (size_t)count * weft_dtype_size(dtype);
    weft_status s = show(self, m, send, recv, err);
    for (int i = 0; i < m->group->n && !s; i++)
        memcpy((char *)recv + (size_t)i * bytes, m->group->send[i] + (size_t)m->me * bytes, bytes);
    return s ? s : finish(m->group);
}

static weft_status broadcast(void *self, void *handle, int root, void *data, int64_t count,
                             weft_dtype dtype, weft_queue *queue, weft_error *err)
{
    (void)queue;
    member *m = handle;
    weft_status s = show(self, m, data, data, err);
    if (!s && m->me != root && count)
        memcpy(data, m->group->send[root], (size_t)count * weft_dtype_size(dtype));
    return s ? s : finish(m->group);
}

static float load(const char *p, int64_t i, weft_dtype dtype)
{
    return dtype == WEFT_BF16 ? weft_bf16_to_f32(((const uint16_t *)(const void *)p)[i])
                              : ((const float *)(const void *)p)[i];
}

/* A NaN stays, wherever it comes from. */
static double larger(double a, double b)
{
    return a > b || isnan(a) ? a : b;
}

static void reduce_f64(const group *g, int64_t at, int64_t n, weft_reduce op, double *out)
{
    memcpy(out, (const double *)(const void *)g->send[0] + at, (size_t)n * sizeof *out);
    for (int r = 1; r < g->n; r++) {
        const double *x = (const double *)(const void *)g->send[r] + at;
        for (int64_t i = 0; i < n; i++)
            out[i] = op == WEFT_REDUCE_SUM ? out[i] + x[i] : larger(out[i], x[i]);
    }
}

static void reduce_f32(const group *g, int64_t at, int64_t n, weft_dtype dtype, weft_reduce op,
                       float *out)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = load(g->send[0], at + i, dtype);
    for (int r = 1; r < g->n; r++)
        for (int64_t i = 0; i < n; i++) {
            float x = load(g->send[r], at + i, dtype);
            out[i] = op == WEFT_REDUCE_SUM ? out[i] + x : (float)larger(out[i], x);
        }
}

/* Everyone's elements [at, at + n) combined, n <= PIECE, in the dtype itself. */
static void reduce_piece(const group *g, int64_t at, int64_t n, weft_dtype dtype, weft_reduce op,
                         void *out)
{
    float wide[PIECE];
    if (dtype == WEFT_F64) {
        reduce_f64(g, at, n, op, out);
    } else if (dtype == WEFT_F32) {
        reduce_f32(g, at, n, dtype, op, out);
    } else {
        reduce_f32(g, at, n, dtype, op, wide);
        for (int64_t i = 0; i < n; i++)
            ((uint16_t *)out)[i] = weft_f32_to_bf16(wide[i]);
    }
}

static weft_status check_dtype(weft_dtype dtype, weft_error *err)
{
    return weft_dtype_is_float(dtype) && !weft_dtype_is_f8(dtype)
               ? WEFT_OK
               : weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE, "local: %s cannot be reduced",
                           weft_dtype_name(dtype));
}

static weft_status reduce_scatter(void *self, void *handle, const void *send, void *recv,
                                  int64_t count, weft_dtype dtype, weft_reduce op,
                                  weft_queue *queue, weft_error *err)
{
    (void)queue;
    member *m = handle;
    size_t width = weft_dtype_size(dtype);
    weft_status s = check_dtype(dtype, err);
    s = s ? s : show(self, m, send, recv, err);
    for (int64_t i = 0; i < count && !s; i += PIECE)
        reduce_piece(m->group, m->me * count + i, count - i < PIECE ? count - i : PIECE, dtype, op,
                     (char *)recv + (size_t)i * width);
    return s ? s : finish(m->group);
}

/* Member i combines the i-th part and hands it to everyone; nobody else reads that part, so sending
 * and receiving memory may be the same. */
static weft_status all_reduce(void *self, void *handle, const void *send, void *recv, int64_t count,
                              weft_dtype dtype, weft_reduce op, weft_queue *queue, weft_error *err)
{
    (void)queue;
    member *m = handle;
    group *g = m->group;
    size_t width = weft_dtype_size(dtype);
    int64_t part = (count + g->n - 1) / g->n, from = m->me * part,
            to = from + part < count ? from + part : count;
    double piece[PIECE];
    weft_status s = check_dtype(dtype, err);
    s = s ? s : show(self, m, send, recv, err);
    for (int64_t i = from; i < to && !s; i += PIECE) {
        int64_t n = to - i < PIECE ? to - i : PIECE;
        reduce_piece(g, i, n, dtype, op, piece);
        for (int r = 0; r < g->n; r++)
            memcpy(g->recv[r] + (size_t)i * width, piece, (size_t)n * width);
    }
    return s ? s : finish(g);
}

/* ---- the plugin ---- */

static weft_status create(const weft_host *host, void **self, weft_error *err)
{
    local *l = weft_alloc_zero(1, sizeof *l);
    if (!l)
        return weft_fail_memory(err);
    l->host = host;
    *self = l;
    return WEFT_OK;
}

static weft_status open_world(void *self, weft_error *err)
{
    local *l = self;
    const weft_host *host = l->host;
    world *mine = host->rank == 0 ? create_world(host->ranks) : NULL;
    world **all = weft_alloc_zero((size_t)host->ranks, sizeof *all);
    weft_status s =
        all ? host->exchange(host, &mine, sizeof mine, all, err) : weft_fail_memory(err);
    if (!s)
        l->world = all[0];
    if (!s && !l->world)
        s = weft_fail_memory(err);
    if (s && mine)
        destroy_world(mine);
    weft_free(all);
    return s;
}

/* Nobody touches this rank's memory any more when it returns. */
static void leave(void *self)
{
    world *w = ((local *)self)->world;
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    w->broken = true;
    for (group *g = w->groups; g; g = g->next) {
        pthread_mutex_lock(&g->lock);
        g->broken = true;
        pthread_cond_broadcast(&g->turned);
        while (g->copying > 0)
            pthread_cond_wait(&g->turned, &g->lock);
        pthread_mutex_unlock(&g->lock);
    }
    pthread_mutex_unlock(&w->lock);
}

/* The last one out destroys the world. */
static void close_world(void *self)
{
    local *l = self;
    world *w = l->world;
    if (!w)
        return;
    pthread_mutex_lock(&w->lock);
    bool last = ++w->left == w->ranks;
    pthread_mutex_unlock(&w->lock);
    if (last)
        destroy_world(w);
    l->world = NULL;
}

static void destroy(void *self)
{
    weft_free(self);
}

static const weft_transport transport = {
    .size = sizeof(weft_transport),
    .name = "local",
    .threads = true,
    .group = make_group,
    .ungroup = leave_group,
    .leave = leave,
    .all_gather = all_gather,
    .reduce_scatter = reduce_scatter,
    .all_reduce = all_reduce,
    .all_to_all = all_to_all,
    .send = local_send,
    .recv = local_recv,
    .wait = local_wait,
    .broadcast = broadcast,
};

static const weft_contribution contributions[] = {
    {.kind = WEFT_SERVICE, .service = "transport", .table = &transport}, {.kind = WEFT_END}};

WEFT_PLUGIN(local) = {
    WEFT_PLUGIN_HEAD,
    .name = "local",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "ranks as threads of one process",
    .numerics = WEFT_NUMERICS_BITWISE,
    .contributions = contributions,
    .create = create,
    .open = open_world,
    .close = close_world,
    .destroy = destroy,
};
