/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks as threads of one process: collectives are copies and sums in memory that all of them
 * reach, made by the device, in the order of the group. */
#include "local.h"

#include <errno.h>
#include <string.h>
#include <time.h>

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
    weft_free(g->members);
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
    g->members = weft_alloc_zero((size_t)n, sizeof *g->members);
    g->absent = weft_alloc((size_t)n * sizeof *g->absent);
    g->joined = weft_alloc_zero((size_t)n, sizeof *g->joined);
    g->gone = weft_alloc_zero((size_t)n, sizeof *g->gone);
    if (!g->ranks || !g->absent || !g->joined || !g->gone || !g->send || !g->recv || !g->members) {
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

/* The device is open by now, wherever it is listed. */
static weft_status find_device(local *l, weft_error *err)
{
    if (!l->device)
        l->device = l->host->service(l->host, "device", &l->device_self);
    if (l->device && l->device->shared)
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                     "local: ranks that are threads reach each other's memory, and on device '%s' "
                     "they cannot; list another transport, and start the ranks as processes",
                     l->device ? l->device->name : "none");
}

static void destroy_member(const local *l, member *m)
{
    if (m->shown)
        l->device->event_destroy(l->device_self, m->shown);
    if (m->worked)
        l->device->event_destroy(l->device_self, m->worked);
    for (int i = 0; m->incoming && i < m->n_incoming; i++)
        if (m->incoming[i])
            l->device->queue_destroy(l->device_self, m->incoming[i]);
    weft_free(m->incoming);
    weft_free(m->from);
    weft_free(m->to);
    weft_free(m->boxes);
    weft_free(m);
}

static weft_status create_member(const local *l, int n, member **out, weft_error *err)
{
    member *m = weft_alloc_zero(1, sizeof *m);
    if (!m)
        return weft_fail_memory(err);
    m->from = weft_alloc((size_t)n * sizeof *m->from);
    m->to = weft_alloc((size_t)n * sizeof *m->to);
    m->boxes = weft_alloc((size_t)n * sizeof *m->boxes);
    m->incoming = weft_alloc_zero((size_t)n, sizeof(weft_queue *));
    m->n_incoming = n;
    weft_status s = m->from && m->to && m->boxes && m->incoming ? WEFT_OK : weft_fail_memory(err);
    if (!s && l->device->record)
        s = l->device->event_create(l->device_self, &m->shown, err);
    if (!s && l->device->record)
        s = l->device->event_create(l->device_self, &m->worked, err);
    if (s)
        destroy_member(l, m);
    else
        *out = m;
    return s;
}

static weft_status make_group(void *self, const int *ranks, int n, int me, void **out,
                              weft_error *err)
{
    local *l = self;
    world *w = l->world;
    member *m = NULL;
    weft_status s = find_device(l, err);
    s = s ? s : create_member(l, n, &m, err);
    if (s)
        return s;
    pthread_mutex_lock(&w->lock);
    group *g = find_group(w, ranks, n, me);
    if (!g)
        g = create_group(w, ranks, n);
    if (g) {
        g->joined[me] = true;
        g->members[me] = m;
    }
    pthread_mutex_unlock(&w->lock);
    if (!g) {
        destroy_member(l, m);
        return weft_fail_memory(err);
    }
    m->group = g;
    m->me = me;
    *out = m;
    return WEFT_OK;
}

/* The group itself goes with the world: others may still be in it. */
static void leave_group(void *self, void *handle)
{
    group *g = ((member *)handle)->group;
    local_drop_requests(self, handle);
    pthread_mutex_lock(&g->lock);
    while (g->awaiting > 0) /* others may still enqueue what awaits this one's events */
        pthread_cond_wait(&g->turned, &g->lock);
    pthread_mutex_unlock(&g->lock);
    destroy_member(self, handle);
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
static weft_status meet(const local *l, member *m, const void *send, void *recv, weft_error *err)
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
static void part(group *g)
{
    pthread_mutex_lock(&g->lock);
    if (--g->working == 0) {
        g->awaiting = g->n;
        pthread_cond_broadcast(&g->turned);
    }
    while (g->working > 0)
        pthread_cond_wait(&g->turned, &g->lock);
    pthread_mutex_unlock(&g->lock);
}

/* This member needs nobody's events any more. */
static void let_go(group *g)
{
    pthread_mutex_lock(&g->lock);
    if (--g->awaiting == 0)
        pthread_cond_broadcast(&g->turned);
    pthread_mutex_unlock(&g->lock);
}

static weft_status record(const local *l, weft_queue *queue, weft_device_event *event,
                          weft_error *err)
{
    return event ? l->device->record(l->device_self, queue, event, err) : WEFT_OK;
}

/* What is enqueued next comes behind what all others have shown, or done. */
static weft_status await_others(const local *l, const member *m, bool worked, weft_queue *queue,
                                weft_error *err)
{
    weft_status s = WEFT_OK;
    for (int i = 0; i < m->group->n && m->shown && !s; i++) {
        const member *other = m->group->members[i];
        if (other != m)
            s = l->device->await(l->device_self, queue, worked ? other->worked : other->shown, err);
    }
    return s;
}

/* ---- collectives ---- */

struct collective {
    const char *name;
    weft_status (*work)(const local *l, member *m, const collective *c, weft_error *err);
    int64_t count;
    weft_dtype dtype;
    weft_reduce op;
    int root;
    weft_queue *queue;
};

static bool is_same(const collective *a, const collective *b)
{
    return a->work == b->work && a->count == b->count && a->dtype == b->dtype && a->op == b->op &&
           a->root == b->root;
}

/* All members see what all are in, and so all or none refuse. */
static weft_status compare(const member *m, weft_error *err)
{
    const group *g = m->group;
    int i = 0;
    while (i < g->n && is_same(g->members[i]->now, m->now))
        i++;
    if (i == g->n)
        return WEFT_OK;
    const collective *mine = m->now, *other = g->members[i]->now;
    return weft_fail(err, WEFT_ERR_RUN, WEFT_NOWHERE,
                     "local: rank %d is in %s of %lld %s, and rank %d in %s of %lld %s: all must "
                     "call the same in the same order",
                     g->ranks[m->me], mine->name, (long long)mine->count,
                     weft_dtype_name(mine->dtype), g->ranks[i], other->name,
                     (long long)other->count, weft_dtype_name(other->dtype));
}

static weft_status run(void *self, void *handle, const void *send, void *recv, const collective *c,
                       weft_error *err)
{
    const local *l = self;
    member *m = handle;
    m->now = c;
    weft_status s = record(l, c->queue, m->shown, err);
    s = s ? s : meet(l, m, send, recv, err);
    if (s)
        return s;
    s = compare(m, err);
    s = s ? s : await_others(l, m, false, c->queue, err);
    s = s ? s : c->work(l, m, c, err);
    s = s ? s : record(l, c->queue, m->worked, err);
    part(m->group);
    s = s ? s : await_others(l, m, true, c->queue, err);
    let_go(m->group);
    return s;
}

static weft_status move(const local *l, member *m, int n, const collective *c, weft_error *err)
{
    return n ? l->device->move(l->device_self, c->queue, m->boxes, n, err) : WEFT_OK;
}

static weft_status gather(const local *l, member *m, const collective *c, weft_error *err)
{
    const group *g = m->group;
    int64_t bytes = c->count * (int64_t)weft_dtype_size(c->dtype);
    for (int i = 0; i < g->n; i++)
        m->boxes[i] = weft_box_of(g->recv[m->me] + i * bytes, g->send[i], bytes);
    return move(l, m, g->n, c, err);
}

static weft_status all_gather(void *self, void *handle, const void *send, void *recv, int64_t count,
                              weft_dtype dtype, weft_queue *queue, weft_error *err)
{
    const collective c = {
        .name = "all_gather", .work = gather, .count = count, .dtype = dtype, .queue = queue};
    return run(self, handle, send, recv, &c, err);
}

static weft_status turn(const local *l, member *m, const collective *c, weft_error *err)
{
    const group *g = m->group;
    int64_t bytes = c->count * (int64_t)weft_dtype_size(c->dtype);
    for (int i = 0; i < g->n; i++)
        m->boxes[i] = weft_box_of(g->recv[m->me] + i * bytes, g->send[i] + m->me * bytes, bytes);
    return move(l, m, g->n, c, err);
}

static weft_status all_to_all(void *self, void *handle, const void *send, void *recv, int64_t count,
                              weft_dtype dtype, weft_queue *queue, weft_error *err)
{
    const collective c = {
        .name = "all_to_all", .work = turn, .count = count, .dtype = dtype, .queue = queue};
    return run(self, handle, send, recv, &c, err);
}

static weft_status take(const local *l, member *m, const collective *c, weft_error *err)
{
    const group *g = m->group;
    if (m->me == c->root)
        return WEFT_OK;
    m->boxes[0] = weft_box_of(g->recv[m->me], g->send[c->root],
                              c->count * (int64_t)weft_dtype_size(c->dtype));
    return move(l, m, 1, c, err);
}

static weft_status broadcast(void *self, void *handle, int root, void *data, int64_t count,
                             weft_dtype dtype, weft_queue *queue, weft_error *err)
{
    const collective c = {.name = "broadcast",
                          .work = take,
                          .count = count,
                          .dtype = dtype,
                          .root = root,
                          .queue = queue};
    return run(self, handle, data, data, &c, err);
}

static weft_status check_dtype(weft_dtype dtype, weft_error *err)
{
    return weft_reduction_takes(dtype)
               ? WEFT_OK
               : weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE, "local: %s cannot be reduced",
                           weft_dtype_name(dtype));
}

/* Everyone's elements [at, at + n) combined, to what m->to says. */
static weft_status reduce(const local *l, member *m, int64_t at, int64_t n, int n_to,
                          const collective *c, weft_error *err)
{
    const group *g = m->group;
    for (int i = 0; i < g->n; i++)
        m->from[i] = g->send[i] + (size_t)at * weft_dtype_size(c->dtype);
    const weft_reduction r = {.to = m->to,
                              .from = m->from,
                              .n_to = n_to,
                              .n_from = g->n,
                              .count = n,
                              .dtype = c->dtype,
                              .op = c->op};
    return n > 0 ? l->device->reduce(l->device_self, c->queue, &r, err) : WEFT_OK;
}

static weft_status reduce_mine(const local *l, member *m, const collective *c, weft_error *err)
{
    m->to[0] = m->group->recv[m->me];
    return reduce(l, m, m->me * c->count, c->count, 1, c, err);
}

static weft_status reduce_scatter(void *self, void *handle, const void *send, void *recv,
                                  int64_t count, weft_dtype dtype, weft_reduce op,
                                  weft_queue *queue, weft_error *err)
{
    const collective c = {.name = "reduce_scatter",
                          .work = reduce_mine,
                          .count = count,
                          .dtype = dtype,
                          .op = op,
                          .queue = queue};
    weft_status s = check_dtype(dtype, err);
    return s ? s : run(self, handle, send, recv, &c, err);
}

/* Member i combines the i-th part and hands it to everyone; nobody else reads that part, so sending
 * and receiving memory may be the same. */
static weft_status reduce_part(const local *l, member *m, const collective *c, weft_error *err)
{
    const group *g = m->group;
    int64_t size = (c->count + g->n - 1) / g->n, from = m->me * size,
            to = from + size < c->count ? from + size : c->count;
    for (int i = 0; i < g->n; i++)
        m->to[i] = g->recv[i] + (size_t)from * weft_dtype_size(c->dtype);
    return reduce(l, m, from, to - from, g->n, c, err);
}

static weft_status all_reduce(void *self, void *handle, const void *send, void *recv, int64_t count,
                              weft_dtype dtype, weft_reduce op, weft_queue *queue, weft_error *err)
{
    const collective c = {.name = "all_reduce",
                          .work = reduce_part,
                          .count = count,
                          .dtype = dtype,
                          .op = op,
                          .queue = queue};
    weft_status s = check_dtype(dtype, err);
    return s ? s : run(self, handle, send, recv, &c, err);
}

/* ---- the plugin ---- */

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

static const weft_transport transport = {
    .size = sizeof(weft_transport),
    .name = "local",
    .ranks = WEFT_RANKS_THREADS,
    .device_memory = true,
    .ordered = true,
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
    .self_size = WEFT_SELF(local),
    .open = open_world,
    .close = close_world,
};
