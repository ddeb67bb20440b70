/* SPDX-License-Identifier: Apache-2.0 */
/* The control channel of ranks that are processes: every rank has one connection, to rank 0, and a
 * thread that reads it, so that a rank that has ended is known at once, whatever the others are
 * doing. An exchange is a gather at rank 0 and a broadcast. */
#include "base/blame.h"
#include "execute/control_kind.h"
#include "net/rendezvous.h"
#include "net/socket.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <sodium.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { DATA = 16, ALL, LEFT, BYE, WAITS, ASK, ANSWER };
/* How often processes are asked whether they are there, within the limit of a wait. */
enum { ASKED_PER_LIMIT = 8 };
static const double most_ask_s = 30, most_message_s = 60;
static const size_t MOST_BYTES = (size_t)1 << 30;

/* Who is at the other end. On rank 0 one for every rank, its own unused; elsewhere only rank 0. */
typedef struct peer {
    bool full, done;
    double silent_s; /* since it last said something, as far as it was asked */
    uint64_t tag;
    size_t n;
    void *data; /* what came for the exchange in progress, if full */
} peer;

typedef struct tcp {
    weft_control base;
    int rank, n_peers;
    peer *peers;
    weft_link *links;         /* of peers: in memory that no core dump shows */
    double message_s;         /* how long one may take, there or here */
    double ask_at;            /* when peers are asked again whether they are there */
    weft_message_part *parts; /* rank 0 */
    bool *absent;             /* of peers: who is being waited for */
    weft_host_name *hosts;    /* [ranks] */
    bool late;                /* this rank has given up waiting: the others may not know yet */
    pthread_mutex_t sending;
    pthread_t reader;
    bool reading, closing;
    int wake;
    void (*lost)(void *ctx, const weft_verdict *why);
    void *ctx;
} tcp;

static bool send_to(tcp *t, int i, uint32_t kind, uint64_t tag, const void *data, size_t bytes)
{
    pthread_mutex_lock(&t->sending);
    weft_link *link = &t->links[i];
    bool ok = link->fd >= 0 && weft_link_send(link, kind, tag, data, bytes, t->message_s);
    if (!ok && link->fd >= 0)
        shutdown(link->fd, SHUT_RDWR); /* half a message may be under way: of no use any more, which
                                    the reading thread will see */
    pthread_mutex_unlock(&t->sending);
    return ok;
}

/* Not under the lock: sending may wait. */
static void break_and_tell(tcp *t, const weft_verdict *why)
{
    pthread_mutex_lock(&t->base.lock);
    weft_control_break(&t->base, why);
    pthread_mutex_unlock(&t->base.lock);
    for (int i = 0; i < t->n_peers; i++) /* who is only late hears of it when it goes on */
        if (i != why->rank || why->late)
            send_to(t, i, LEFT, 0, why, sizeof *why);
}

/* ---- who waits ---- */

static void send_waits(tcp *t, int to, int rank)
{
    send_to(t, to, WAITS, ((uint64_t)rank << 1) | t->base.waits[rank], NULL, 0);
}

/* Rank 0 passes on who waits, under the lock, to those only that wait themselves: others need not
 * know, and may be stopped. A rank that begins to wait is told of all. */
static void pass_on(tcp *t, int rank, bool waits)
{
    t->base.waits[rank] = waits;
    for (int i = 1; i < t->n_peers; i++)
        if (i != rank && t->base.waits[i])
            send_waits(t, i, rank);
    for (int i = 0; i < t->n_peers && rank > 0 && waits; i++)
        if (i != rank && t->base.waits[i])
            send_waits(t, rank, i);
}

static void tell(weft_control *c, int rank, bool waits)
{
    tcp *t = (tcp *)c;
    if (rank == 0) {
        pass_on(t, rank, waits);
        return;
    }
    memset(c->waits, 0,
           (size_t)c->ranks * sizeof *c->waits); /* what it was told in its last wait */
    c->waits[rank] = waits;
    send_waits(t, 0, rank);
}

static void hear(tcp *t, uint64_t tag)
{
    uint64_t rank = tag >> 1;
    pthread_mutex_lock(&t->base.lock);
    if (rank < (uint64_t)t->base.ranks && t->rank == 0)
        pass_on(t, (int)rank, tag & 1);
    else if (rank < (uint64_t)t->base.ranks)
        t->base.waits[rank] = tag & 1;
    pthread_mutex_unlock(&t->base.lock);
}

/* ---- the reading thread ---- */

static void drop(tcp *t, int i)
{
    pthread_mutex_lock(&t->sending);
    weft_link_close(&t->links[i]);
    pthread_mutex_unlock(&t->sending);
}

static void keep(tcp *t, int i, const weft_message *m)
{
    pthread_mutex_lock(&t->base.lock);
    peer *p = &t->peers[i];
    weft_free(p->data);
    p->full = true;
    p->tag = m->tag;
    p->n = m->n;
    p->data = m->data;
    pthread_cond_broadcast(&t->base.changed);
    pthread_mutex_unlock(&t->base.lock);
}

/* In what this rank was, and when: one that has gone has come no farther than this one could
 * without it. */
static void print_own(tcp *t, weft_text *text)
{
    pthread_mutex_lock(&t->base.lock);
    const weft_doing task = t->base.watches->task;
    const weft_moment now = t->base.watches->now;
    pthread_mutex_unlock(&t->base.lock);
    if (!task.what && now.step <= 0)
        return;
    weft_text_print(text, "; rank %d was", t->rank);
    if (task.what)
        weft_print_doing(text, &task);
    else
        weft_text_add(text, " in no transfer");
    weft_print_moment(text, &now);
    weft_text_add(text, " then");
}

/* Somebody has gone without a word: who it was on which host. */
static bool lose(tcp *t, int i, weft_verdict *why, const char *reason)
{
    weft_text text = {0};
    drop(t, i);
    weft_text_add(&text, "killed or unreachable");
    if (t->base.watches->hosts && *t->hosts[i])
        weft_text_print(&text, " on %s", t->hosts[i]);
    weft_text_print(&text, " (%s)", reason);
    print_own(t, &text);
    weft_verdict_init(why, i, WEFT_ERR_PEER, weft_text_get(&text));
    weft_text_release(&text);
    return false;
}

/* Takes what there is of a message, and does what a whole one says. False: somebody has ended
 * before its time, and *why says who. */
static bool read_some(tcp *t, int i, weft_verdict *why)
{
    weft_message m;
    const char *reason;
    weft_arrival a = weft_link_take(&t->links[i], MOST_BYTES, &m, &reason);
    if (a == WEFT_ARRIVAL_BROKEN)
        return lose(t, i, why, reason);
    t->peers[i].silent_s = 0;
    if (a == WEFT_ARRIVAL_PART)
        return true;
    if (m.kind == DATA || m.kind == ALL) {
        keep(t, i, &m);
        return true;
    }
    if (m.kind == WAITS)
        hear(t, m.tag);
    if (m.kind == ASK)
        send_to(t, i, ANSWER, 0, NULL, 0);
    bool left = m.kind == LEFT && m.n == sizeof *why;
    if (left) {
        memcpy(why, m.data, sizeof *why);
        weft_verdict_mend(why, t->base.ranks, i);
    }
    if (m.kind == BYE) {
        pthread_mutex_lock(&t->base.lock);
        t->peers[i].done = true;
        pthread_cond_broadcast(&t->base.changed);
        pthread_mutex_unlock(&t->base.lock);
        drop(t, i);
    }
    weft_free(m.data);
    return !left;
}

/* When the message of this peer that is on its way must be here; whoever trickles keeps nobody else
 * waiting, and ends then. */
static double due(const tcp *t, int i)
{
    const weft_link *link = &t->links[i];
    return link->fd >= 0 && link->since > 0 ? link->since + t->message_s : INFINITY;
}

static int ms_until_due(const tcp *t)
{
    double first = t->ask_at;
    for (int i = 0; i < t->n_peers; i++)
        first = fmin(first, due(t, i));
    return weft_socket_ms_until(first);
}

static void verdict_silent(const tcp *t, int i, double silent_s, weft_verdict *why)
{
    const weft_host_name *hosts = t->base.watches->hosts;
    weft_text text = {0};
    weft_text_print(&text, "timed out after %.3g s in which rank %d%s%s did not answer", silent_s,
                    i, hosts ? " on " : "", hosts ? hosts[i] : "");
    weft_verdict_init(why, i, WEFT_ERR_PEER, weft_text_get(&text));
    why->late = true;
    weft_text_release(&text);
}

/* A process that is stopped, or whose host hangs, says nothing, while this rank may be in a library
 * that waits for it and does not look at the clock. Who waits on the channel gives up sooner, and
 * knows in what. */
static bool ask_all(tcp *t, weft_verdict *why)
{
    const double now = weft_now(), limit_s = weft_watch_limit(t->base.watches),
                 every_s = fmin(limit_s / ASKED_PER_LIMIT, most_ask_s);
    if (now < t->ask_at)
        return true;
    for (int i = 0; i < t->n_peers; i++) {
        peer *p = &t->peers[i];
        if (t->links[i].fd < 0)
            continue;
        if (p->silent_s > limit_s + 2 * weft_control_extra(limit_s)) {
            verdict_silent(t, i, p->silent_s, why);
            return false;
        }
        if (p->silent_s <= 0) /* once: what is not read fills the connection */
            send_to(t, i, ASK, 0, NULL, 0);
        p->silent_s += every_s; /* not by the clock: this process may have been stopped itself */
    }
    t->ask_at = now + every_s;
    return true;
}

static bool is_closing(tcp *t)
{
    pthread_mutex_lock(&t->base.lock);
    bool closing = t->closing;
    pthread_mutex_unlock(&t->base.lock);
    return closing;
}

static void *read_all(void *arg)
{
    tcp *t = arg;
    weft_blame_set_rank(t->rank);
    struct pollfd *list = weft_alloc_zero((size_t)t->n_peers + 1, sizeof *list);
    weft_verdict why;
    bool well = list != NULL;
    if (!well)
        weft_verdict_init(&why, t->rank, WEFT_ERR_MEMORY, "out of memory");
    while (well && !is_closing(t)) {
        for (int i = 0; i < t->n_peers; i++)
            list[i] = (struct pollfd){.fd = t->links[i].fd, .events = POLLIN};
        list[t->n_peers] = (struct pollfd){.fd = t->wake, .events = POLLIN};
        if (poll(list, (nfds_t)t->n_peers + 1, ms_until_due(t)) < 0 && errno != EINTR) {
            weft_verdict_init(&why, t->rank, WEFT_ERR_IO, strerror(errno));
            well = false;
        }
        for (int i = 0; i < t->n_peers && well; i++) {
            if (list[i].fd >= 0 && list[i].revents)
                well = read_some(t, i, &why);
            if (well && due(t, i) <= weft_now())
                well = lose(t, i, &why, "its message did not come as a whole in time");
        }
        well = well && ask_all(t, &why);
    }
    weft_free(list);
    if (!well && !is_closing(t)) {
        break_and_tell(t, &why);
        if (t->lost)
            t->lost(t->ctx, &why);
    }
    return NULL;
}

/* ---- exchanges ---- */

static bool all_full(const tcp *t)
{
    for (int i = 0; i < t->n_peers; i++)
        if (i != t->rank && !t->peers[i].full)
            return false;
    return true;
}

/* Under the lock: a rank that is awaited has finished already. */
static void find_done(tcp *t)
{
    for (int i = 0; i < t->n_peers; i++) {
        weft_verdict why;
        if (!t->peers[i].done || t->peers[i].full)
            continue;
        weft_verdict_init(&why, i, WEFT_ERR_PEER, "it has finished already");
        weft_control_break(&t->base, &why);
    }
}

/* Under the lock: until everyone this rank waits for has spoken. */
static weft_status await(tcp *t, double limit_s, weft_error *err)
{
    /* rank 0, which knows who is missing, comes first */
    const double extra_s = t->rank ? weft_control_extra(limit_s) : 0;
    const weft_waiting w = {weft_now(), limit_s + extra_s, NULL, t->absent, t->n_peers};
    weft_verdict why;
    while (!t->base.broken && !all_full(t)) {
        find_done(t);
        for (int i = 0; i < t->n_peers; i++)
            t->absent[i] = i != t->rank && !t->peers[i].full;
        if (t->base.broken || weft_control_wait(&t->base, t->rank, &w, &why) || all_full(t) ||
            t->base.broken)
            continue;
        weft_control_break(&t->base, &why);
        t->late = true;
    }
    return t->base.broken && !all_full(t) ? weft_control_broken(&t->base, err) : WEFT_OK;
}

/* Rank 0: everyone's part into all, if they are at the same point. Under the lock. */
static bool take_parts(tcp *t, weft_control_tag tag, const void *mine, size_t n, void *all,
                       weft_verdict *why)
{
    t->parts[0] = (weft_message_part){tag, n, mine};
    for (int r = 1; r < t->n_peers; r++)
        t->parts[r] =
            (weft_message_part){(weft_control_tag)t->peers[r].tag, t->peers[r].n, t->peers[r].data};
    if (!weft_parts_match(t->parts, t->n_peers, why))
        return false;
    for (int r = 0; r < t->n_peers && n; r++)
        memcpy((char *)all + (size_t)r * n, t->parts[r].data, n);
    for (int r = 1; r < t->n_peers; r++) {
        weft_free(t->peers[r].data);
        t->peers[r].data = NULL;
        t->peers[r].full = false;
    }
    return true;
}

/* Rank 0: once everyone has spoken, all of it (first: what this text holds, instead) goes to
 * everyone. */
static weft_status gather(tcp *t, weft_control_tag tag, double limit_s, const void *mine, size_t n,
                          void *all, const weft_text *first, weft_error *err)
{
    weft_verdict why;
    pthread_mutex_lock(&t->base.lock);
    weft_status s = await(t, limit_s, err);
    bool match = !s && take_parts(t, tag, mine, n, all, &why);
    bool late = t->late;
    if (late)
        why = t->base.why;
    pthread_mutex_unlock(&t->base.lock);
    if (late)
        break_and_tell(t, &why);
    if (s)
        return s;
    if (!match) {
        break_and_tell(t, &why);
        if (why.rank != 0)
            send_to(t, why.rank, LEFT, 0, &why, sizeof why);
        return weft_control_broken(&t->base, err);
    }
    /* Whoever cannot be reached is found by the reading thread. */
    for (int r = 1; r < t->n_peers; r++)
        send_to(t, r, ALL, tag, first ? weft_text_get(first) : all,
                first ? first->size : n * (size_t)t->n_peers);
    return WEFT_OK;
}

/* All others: says its part and takes the answer, into all or, whatever its size, into first. */
static weft_status ask(tcp *t, weft_control_tag tag, double limit_s, const void *mine, size_t n,
                       void *all, weft_text *first, weft_error *err)
{
    size_t bytes = n * (size_t)t->base.ranks;
    send_to(t, 0, DATA, tag, mine, n); /* if rank 0 is gone, the reading thread says so */
    pthread_mutex_lock(&t->base.lock);
    weft_status s = await(t, limit_s, err);
    bool late = t->late;
    weft_verdict why = t->base.why;
    if (!s) {
        peer *p = &t->peers[0];
        if (first)
            weft_text_add_bytes(first, p->data, p->n);
        else if (p->n != bytes)
            s = weft_fail(err, WEFT_ERR_INTERNAL, WEFT_NOWHERE,
                          "rank 0 sent %zu bytes where %zu were expected", p->n, bytes);
        else if (bytes)
            memcpy(all, p->data, bytes);
        weft_free(p->data);
        p->data = NULL;
        p->full = false;
    }
    pthread_mutex_unlock(&t->base.lock);
    if (late)
        break_and_tell(t, &why);
    return s;
}

static weft_status check_channel(weft_control *c, weft_error *err)
{
    pthread_mutex_lock(&c->lock);
    weft_status s = c->broken ? weft_control_broken(c, err) : WEFT_OK;
    pthread_mutex_unlock(&c->lock);
    return s;
}

static weft_status exchange(weft_control *c, int rank, weft_control_tag tag, double limit_s,
                            const void *mine, size_t n, void *all, weft_error *err)
{
    (void)rank;
    tcp *t = (tcp *)c;
    weft_status s = check_channel(c, err);
    if (s)
        return s;
    return t->rank ? ask(t, tag, limit_s, mine, n, all, NULL, err)
                   : gather(t, tag, limit_s, mine, n, all, NULL, err);
}

static weft_status broadcast(weft_control *c, int rank, weft_text *text, weft_error *err)
{
    tcp *t = (tcp *)c;
    double limit_s = weft_watch_limit(weft_control_watch(c, rank));
    weft_status s = check_channel(c, err);
    if (s)
        return s;
    return t->rank ? ask(t, WEFT_TAG_FIRST, limit_s, NULL, 0, NULL, text, err)
                   : gather(t, WEFT_TAG_FIRST, limit_s, NULL, 0, NULL, text, err);
}

static void leave(weft_control *c, const weft_verdict *why)
{
    break_and_tell((tcp *)c, why);
}

static void destroy(weft_control *c)
{
    tcp *t = (tcp *)c;
    const uint64_t one = 1;
    if (t->reading) {
        pthread_mutex_lock(&c->lock);
        t->closing = true; /* before the others hear of it and close, too */
        pthread_mutex_unlock(&c->lock);
        for (int i = 0; i < t->n_peers; i++)
            send_to(t, i, BYE, 0, NULL, 0);
        if (write(t->wake, &one, sizeof one) == sizeof one)
            pthread_join(t->reader, NULL);
        else
            pthread_detach(t->reader); /* cannot be: a counter takes at least one */
    }
    for (int i = 0; i < t->n_peers && t->links; i++)
        weft_link_close(&t->links[i]);
    for (int i = 0; i < t->n_peers && t->peers; i++)
        weft_free(t->peers[i].data);
    if (t->wake >= 0)
        close(t->wake);
    pthread_mutex_destroy(&t->sending);
    weft_control_release(c);
    sodium_free(t->links);
    weft_free(t->peers);
    weft_free(t->parts);
    weft_free(t->absent);
    weft_free(t->hosts);
    weft_free(t);
}

static const weft_control_kind kind = {exchange, broadcast, leave, tell, destroy};

/* Are there several hosts, that it would be worth to name them? */
static bool are_several(weft_host_name *hosts, int ranks)
{
    for (int r = 0; r < ranks; r++)
        hosts[r][WEFT_HOST_BYTES - 1] = '\0';
    for (int r = 1; r < ranks; r++)
        if (strcmp(hosts[r], hosts[0]) != 0)
            return true;
    return false;
}

static weft_link *make_links(int n)
{
    weft_link *links = sodium_init() < 0 ? NULL : sodium_allocarray((size_t)n, sizeof *links);
    for (int i = 0; i < n && links; i++)
        links[i] = (weft_link){.fd = -1};
    return links;
}

static weft_status start(tcp *t, const weft_join *join, weft_error *err)
{
    t->links = make_links(t->n_peers);
    t->peers = weft_alloc_zero((size_t)t->n_peers, sizeof *t->peers);
    t->parts = weft_alloc_zero((size_t)join->ranks, sizeof *t->parts);
    t->absent = weft_alloc_zero((size_t)t->n_peers, sizeof *t->absent);
    t->hosts = weft_alloc_zero((size_t)join->ranks, sizeof *t->hosts);
    double patience_s = join->patience_s ? *join->patience_s : WEFT_PATIENCE_S;
    weft_join own = *join;
    own.hosts = t->hosts;
    own.patience_s = &patience_s;
    weft_status s = t->links && t->peers && t->parts && t->absent && t->hosts
                        ? weft_rendezvous(&own, t->links, err)
                        : weft_fail_memory(err);
    if (s)
        return s;
    t->base.watches->patience_s = patience_s;
    t->message_s = patience_s > 0 ? fmin(patience_s, most_message_s) : most_message_s;
    t->ask_at = weft_now();
    if (are_several(t->hosts, join->ranks))
        t->base.watches->hosts = (const weft_host_name *)t->hosts;
    t->wake = eventfd(0, EFD_CLOEXEC);
    int code = t->wake < 0 ? errno : pthread_create(&t->reader, NULL, read_all, t);
    if (code)
        return weft_fail(err, WEFT_ERR_IO, WEFT_NOWHERE,
                         "cannot start the control channel's thread: %s", strerror(code));
    t->reading = true;
    return WEFT_OK;
}

weft_status weft_control_join(const weft_join *join, weft_control **out, weft_error *err)
{
    tcp *t = weft_alloc_zero(1, sizeof *t);
    *out = NULL;
    if (!t)
        return weft_fail_memory(err);
    if (weft_control_init(&t->base, &kind, join->ranks, join->rank, 1, err)) {
        weft_free(t);
        return WEFT_ERR_MEMORY;
    }
    pthread_mutex_init(&t->sending, NULL);
    t->rank = join->rank;
    t->n_peers = join->rank ? 1 : join->ranks;
    t->wake = -1;
    t->lost = join->lost;
    t->ctx = join->ctx;
    weft_status s = start(t, join, err);
    if (s)
        destroy(&t->base);
    else
        *out = &t->base;
    return s;
}
