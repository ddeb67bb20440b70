/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks as processes that talk through UCX, whoever started them. */
#include "ucx.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

weft_status ucx_error(ucs_status_t status, const char *what, weft_error *err)
{
    return weft_fail(err, WEFT_ERR_RUN, WEFT_NOWHERE, "ucx: %s: %s", what,
                     ucs_status_string(status));
}

/* ---- bringing it up ---- */

/* Whose loopback device a rank has: two that have the same can reach each other over it. A boot
 * of a kernel, and the network namespace in it; empty where the system does not say. */
typedef struct whereabouts {
    char boot[40], network[40];
} whereabouts;

static void find_whereabouts(whereabouts *out)
{
    *out = (whereabouts){0};
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    if (read(fd, out->boot, sizeof out->boot - 1) < 0 ||
        readlink("/proc/self/ns/net", out->network, sizeof out->network - 1) < 0)
        *out = (whereabouts){0};
    close(fd);
}

static weft_status are_together(const transport *t, bool *together, weft_error *err)
{
    whereabouts mine, *all = weft_alloc_zero((size_t)t->host->ranks, sizeof *all);
    if (!all)
        return weft_fail_memory(err);
    find_whereabouts(&mine);
    weft_status s = t->host->exchange(t->host, &mine, sizeof mine, all, err);
    *together = !s && *mine.boot;
    for (int r = 0; r < t->host->ranks && !s; r++)
        *together = *together && memcmp(&all[r], &all[0], sizeof *all) == 0;
    weft_free(all);
    return s;
}

/* With TCP UCX listens on every network device that it may use, and takes the word of whoever
 * connects: on one host nobody from elsewhere need be able to. */
static ucs_status_t narrow(const transport *t, bool together, ucp_config_t *config)
{
    const char *devices = getenv("UCX_NET_DEVICES");
    if (devices && *devices)
        return UCS_OK; /* the user's own choice */
    if (together)
        return ucp_config_modify(config, "NET_DEVICES", "lo");
    if (t->host->rank == 0)
        weft_log_print(t->host->log, WEFT_LOG_INFO,
                       "ucx: it may listen on all networks of the hosts, and any program that can "
                       "connect there can end the run; UCX_NET_DEVICES names those that it uses");
    return UCS_OK;
}

static weft_status make_worker(transport *t, bool together, weft_error *err)
{
    const ucp_params_t params = {.field_mask =
                                     UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_ESTIMATED_NUM_EPS,
                                 .features = UCP_FEATURE_TAG,
                                 .estimated_num_eps = (size_t)t->host->ranks};
    const ucp_worker_params_t one = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                     .thread_mode = UCS_THREAD_MODE_SINGLE};
    ucp_config_t *config = NULL;
    ucs_status_t status = ucp_config_read(NULL, NULL, &config);
    if (status == UCS_OK)
        status = narrow(t, together, config);
    if (status == UCS_OK)
        status = ucp_init(&params, config, &t->context);
    if (config)
        ucp_config_release(config);
    if (status != UCS_OK) {
        t->context = NULL;
        return ucx_error(status, "it cannot be initialised", err);
    }
    status = ucp_worker_create(t->context, &one, &t->worker);
    if (status == UCS_OK)
        return WEFT_OK;
    t->worker = NULL;
    return ucx_error(status, "a worker cannot be made", err);
}

/* All ranks' addresses, over the core's own channel: UCX needs nobody else to come up. */
static weft_status share_addresses(transport *t, const ucp_address_t *mine, size_t bytes,
                                   weft_error *err)
{
    size_t ranks = (size_t)t->host->ranks, longest = 0;
    const uint64_t n = bytes;
    uint64_t *all = weft_alloc_zero(ranks, sizeof *all);
    weft_status s =
        all ? t->host->exchange(t->host, &n, sizeof n, all, err) : weft_fail_memory(err);
    for (size_t r = 0; r < ranks && !s; r++)
        longest = all[r] > longest ? (size_t)all[r] : longest;
    weft_free(all);
    if (s)
        return s;
    char *padded = weft_alloc_zero(longest, 1);
    t->address_bytes = longest;
    t->addresses = weft_alloc_zero(ranks, longest);
    if (!padded || !t->addresses)
        s = weft_fail_memory(err);
    else
        memcpy(padded, mine, bytes);
    s = s ? s : t->host->exchange(t->host, padded, longest, t->addresses, err);
    weft_free(padded);
    return s;
}

static weft_status open_worker(void *self, weft_error *err)
{
    transport *t = self;
    ucp_address_t *address;
    size_t bytes;
    if (t->host->ranks == 1)
        return WEFT_OK; /* no groups, no messages */
    t->ends = weft_alloc_zero((size_t)t->host->ranks, sizeof *t->ends);
    bool together = false;
    weft_status s = t->ends ? are_together(t, &together, err) : weft_fail_memory(err);
    s = s ? s : make_worker(t, together, err);
    if (s)
        return s;
    ucs_status_t status = ucp_worker_get_address(t->worker, &address, &bytes);
    if (status != UCS_OK)
        return ucx_error(status, "the worker has no address", err);
    s = share_addresses(t, address, bytes, err);
    ucp_worker_release_address(t->worker, address);
    return s;
}

/* ---- taking it down ---- */

/* Everything that was sent has been received when all ranks are here: each has waited for what it
 * was to get. */
static bool meet(const transport *t)
{
    char mine = 0, *all = weft_alloc((size_t)t->host->ranks);
    bool met = all && !atomic_load(&t->left) &&
               t->host->exchange(t->host, &mine, sizeof mine, all, NULL) == WEFT_OK;
    weft_free(all);
    return met;
}

static void close_end(const transport *t, ucp_ep_h end)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
                                       .flags = UCP_EP_CLOSE_FLAG_FORCE};
    void *request = ucp_ep_close_nbx(end, &param);
    if (!UCS_PTR_IS_PTR(request))
        return;
    while (ucp_request_check_status(request) == UCS_INPROGRESS)
        ucp_worker_progress(t->worker);
    ucp_request_free(request);
}

/* After a failure UCX is left as it is: messages may be under way, from and to memory that is gone
 * soon. */
static void close_worker(void *self)
{
    transport *t = self;
    if (!t->worker || !meet(t))
        return;
    for (int r = 0; r < t->host->ranks; r++)
        if (t->ends[r])
            close_end(t, t->ends[r]);
    ucp_worker_destroy(t->worker);
    ucp_cleanup(t->context);
    t->worker = NULL;
    t->context = NULL;
}

/* May be called from another thread, while the rank's own waits. */
static void leave(void *self)
{
    atomic_store(&((transport *)self)->left, true);
}

static weft_status create(void *self, weft_error *err)
{
    (void)err;
    transport *t = self;
    atomic_init(&t->left, false);
    return WEFT_OK;
}

static void destroy(void *self)
{
    transport *t = self;
    weft_free(t->ends);
    weft_free(t->addresses);
}

/* ---- groups ---- */

static void ungroup(void *self, void *handle)
{
    (void)self;
    group *g = handle;
    ucx_drop_transfers(g);
    weft_pairs_release(&g->pairs);
    weft_free(g->ranks);
    weft_free(g->absent);
    weft_free(g->messages);
    weft_free(g);
}

static weft_status make_group(void *self, const int *ranks, int n, int me, void **out,
                              weft_error *err)
{
    transport *t = self;
    group *g = weft_alloc_zero(1, sizeof *g);
    if (!g)
        return weft_fail_memory(err);
    g->t = t;
    g->number = t->groups++;
    g->n = n;
    g->me = me;
    g->ranks = weft_alloc_zero((size_t)n, sizeof *g->ranks);
    g->absent = weft_alloc_zero((size_t)n, sizeof *g->absent);
    g->messages = weft_alloc_zero(2 * (size_t)n, sizeof *g->messages);
    weft_status s = weft_pairs_init(&g->pairs, n, me, ucx_swap, g, err);
    if (!s && (!g->ranks || !g->absent || !g->messages))
        s = weft_fail_memory(err);
    if (s) {
        ungroup(self, g);
        return s;
    }
    memcpy(g->ranks, ranks, (size_t)n * sizeof *ranks);
    *out = g;
    return WEFT_OK;
}

static weft_status all_gather(void *self, void *handle, const void *send, void *recv, int64_t count,
                              weft_dtype dtype, weft_queue *queue, weft_error *err)
{
    (void)self, (void)queue;
    return weft_pairs_all_gather(&((group *)handle)->pairs, send, recv, count, dtype, err);
}

static weft_status reduce_scatter(void *self, void *handle, const void *send, void *recv,
                                  int64_t count, weft_dtype dtype, weft_reduce op,
                                  weft_queue *queue, weft_error *err)
{
    (void)self, (void)queue;
    return weft_pairs_reduce_scatter(&((group *)handle)->pairs, send, recv, count, dtype, op, err);
}

static weft_status all_reduce(void *self, void *handle, const void *send, void *recv, int64_t count,
                              weft_dtype dtype, weft_reduce op, weft_queue *queue, weft_error *err)
{
    (void)self, (void)queue;
    return weft_pairs_all_reduce(&((group *)handle)->pairs, send, recv, count, dtype, op, err);
}

static weft_status all_to_all(void *self, void *handle, const void *send, void *recv, int64_t count,
                              weft_dtype dtype, weft_queue *queue, weft_error *err)
{
    (void)self, (void)queue;
    return weft_pairs_all_to_all(&((group *)handle)->pairs, send, recv, count, dtype, err);
}

static weft_status broadcast(void *self, void *handle, int root, void *data, int64_t count,
                             weft_dtype dtype, weft_queue *queue, weft_error *err)
{
    (void)self, (void)queue;
    return weft_pairs_broadcast(&((group *)handle)->pairs, root, data, count, dtype, err);
}

/* ---- the plugin ---- */

static const weft_transport table = {
    .size = sizeof(weft_transport),
    .name = "ucx",
    .ranks = WEFT_RANKS_PROCESSES,
    .ordered = true,
    .group = make_group,
    .ungroup = ungroup,
    .leave = leave,
    .all_gather = all_gather,
    .reduce_scatter = reduce_scatter,
    .all_reduce = all_reduce,
    .all_to_all = all_to_all,
    .send = ucx_send,
    .recv = ucx_recv,
    .wait = ucx_wait,
    .broadcast = broadcast,
};

static const weft_contribution contributions[] = {
    {.kind = WEFT_SERVICE, .service = "transport", .table = &table}, {.kind = WEFT_END}};

WEFT_PLUGIN(ucx) = {
    WEFT_PLUGIN_HEAD,
    .name = "ucx",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "ranks as processes that talk through UCX, however they were started",
    .numerics = WEFT_NUMERICS_BITWISE,
    .contributions = contributions,
    .self_size = WEFT_SELF(transport),
    .create = create,
    .open = open_worker,
    .close = close_worker,
    .destroy = destroy,
};
