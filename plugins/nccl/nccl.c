/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks as processes, a GPU each, that talk through NVIDIA's NCCL. */
#include "nccl.h"

#include <string.h>

static const weft_param params[] = {
    {.name = "sums",
     .type = WEFT_PARAM_CHOICE,
     .value = "nccl",
     .choices = (const char *const[]){"nccl", "exact", NULL},
     .help = "nccl: NCCL sums, which rounds bf16 at every rank, in an order of its own; exact: "
             "terms are sent as they are and summed in the group's order in f32, rounded once."},
    {.name = "captured",
     .type = WEFT_PARAM_BOOL,
     .value = "no",
     .help =
         "Collectives are captured, too, with what is computed around them, and launched at once."},
    {.name = "register",
     .type = WEFT_PARAM_CHOICE,
     .value = "no",
     .choices = (const char *const[]){"no", "yes", "windows", NULL},
     .help = "yes: NCCL is told where a run's memory lies, and may send from there without copying "
             "it first; windows: ranks read each other's where they have laid it out alike: 2.27 "
             "or later, with [cuda] memory = exportable."},
    {.name = "library",
     .type = WEFT_PARAM_STRING,
     .value = "libnccl.so.2",
     .flags = WEFT_PARAM_ADVANCED | WEFT_PARAM_PER_RANK | WEFT_PARAM_LIBRARY,
     .help = "Name or path of NCCL's library."},
    {.name = NULL},
};

/* ---- communicators ---- */

/* On the list before there is a handle, which NCCL may write when a call for it has failed here. */
static weft_status add_comm(transport *t, comm **out, weft_error *err)
{
    comm *c = weft_alloc_zero(1, sizeof *c);
    if (!c)
        return weft_fail_memory(err);
    c->next = t->comms;
    *out = t->comms = c;
    return WEFT_OK;
}

/* The last that was added. */
static void drop_comm(transport *t)
{
    comm *c = t->comms;
    t->comms = c->next;
    weft_free(c);
}

/* NCCL's own waiting for others knows no names, so all ranks meet before each of its calls that
 * waits for all. */
static weft_status meet(transport *t, weft_error *err)
{
    char mine = 0, *all = weft_alloc((size_t)t->host->ranks);
    weft_status s =
        all ? t->host->exchange(t->host, &mine, sizeof mine, all, err) : weft_fail_memory(err);
    weft_free(all);
    return s;
}

static weft_status share_id(transport *t, nccl_id *id, weft_error *err)
{
    nccl_id *all = weft_alloc_zero((size_t)t->host->ranks, sizeof *all);
    if (!all)
        return weft_fail_memory(err);
    int r = t->host->rank == 0 ? t->api.ncclGetUniqueId(id) : NCCL_SUCCESS;
    weft_status s = r ? nccl_error(t, NULL, r, "no communicator can be begun", err)
                      : t->host->exchange(t->host, id, sizeof *id, all, err);
    *id = all[0];
    weft_free(all);
    return s;
}

static weft_status open_world(transport *t, weft_error *err)
{
    static const char what[] = "the communicator of all ranks cannot be made";
    nccl_config config = NCCL_CONFIG_NON_BLOCKING;
    nccl_id id = {{0}};
    comm *world = NULL;
    weft_status s = share_id(t, &id, err);
    s = s ? s : add_comm(t, &world, err);
    if (s)
        return s;
    int r =
        t->api.ncclCommInitRankConfig(&world->handle, t->host->ranks, id, t->host->rank, &config);
    if (!world->handle) {
        drop_comm(t);
        return nccl_error(t, NULL, r, what, err);
    }
    t->world = world;
    return nccl_settle(t, NULL, world, r, what, err);
}

weft_status nccl_split(transport *t, int color, int key, int most_blocks, comm **out,
                       weft_error *err)
{
    static const char what[] = "a communicator cannot be made";
    nccl_config config = NCCL_CONFIG_NON_BLOCKING;
    comm *made = NULL;
    config.max_ctas = most_blocks;
    weft_status s = meet(t, err);
    s = s ? s : add_comm(t, &made, err);
    if (s)
        return s;
    int r = t->api.ncclCommSplit(t->world->handle, color < 0 ? NCCL_NO_COLOR : color, key,
                                 &made->handle, &config);
    s = nccl_settle(t, NULL, t->world, r, what, err);
    if (s)
        return s;
    if (color < 0) {
        drop_comm(t);
        return WEFT_OK;
    }
    if (!made->handle)
        return nccl_error(t, t->world->handle, NCCL_INTERNAL_ERROR, what, err);
    *out = made;
    s = nccl_settle(t, NULL, made, NCCL_IN_PROGRESS, what, err);
    return s || t->registers != NCCL_REGISTERS_MEMORY ? s : nccl_register(t, made, err);
}

/* ---- groups ---- */

static void free_queues(const group *g, channel *list)
{
    for (int i = 0; list && i < g->n; i++)
        if (list[i].queue)
            g->t->device->queue_destroy(g->t->device_self, list[i].queue);
    weft_free(list);
}

/* What a kernel still waits for would never come, and memory could not be freed before it ends. */
static void ungroup(void *self, void *handle)
{
    transport *t = self;
    group *g = handle;
    if (!nccl_is_idle(t, g))
        nccl_abort_all(t);
    nccl_drop_transfers(g);
    if (g->byte)
        t->device->free(t->device_self, g->byte, NCCL_BYTE);
    if (g->ready)
        t->device->event_destroy(t->device_self, g->ready);
    free_queues(g, g->to);
    free_queues(g, g->from);
    weft_free(g->ranks);
    weft_free(g->absent);
    weft_free(g);
}

static weft_status make_group(void *self, const int *ranks, int n, int me, void **out,
                              weft_error *err)
{
    transport *t = self;
    weft_status s = t->world ? WEFT_OK : open_world(t, err);
    group *g = s ? NULL : weft_alloc_zero(1, sizeof *g);
    if (!g)
        return s ? s : weft_fail_memory(err);
    g->t = t;
    g->n = n;
    g->me = me;
    g->ranks = weft_alloc_zero((size_t)n, sizeof *g->ranks);
    g->absent = weft_alloc_zero((size_t)n, sizeof *g->absent);
    g->to = weft_alloc_zero((size_t)n, sizeof *g->to);
    g->from = weft_alloc_zero((size_t)n, sizeof *g->from);
    s = g->ranks && g->absent && g->to && g->from ? WEFT_OK : weft_fail_memory(err);
    for (int i = 0; i < n && !s; i++) {
        g->ranks[i] = ranks[i];
        g->absent[i] = i != me;
    }
    s = s ? s : t->device->event_create(t->device_self, &g->ready, err);
    s = s ? s : nccl_split(t, ranks[0], me, NCCL_UNSET, &g->of, err);
    if (s)
        ungroup(t, g);
    else
        *out = g;
    return s;
}

/* ---- the plugin ---- */

static weft_status create(void *self, weft_error *err)
{
    (void)err;
    transport *t = self;
    const weft_host *host = t->host;
    t->exact = weft_params_is(host->params, "sums", "exact");
    t->captured = weft_params_bool(host->params, "captured");
    t->registers = weft_params_is(host->params, "register", "windows") ? NCCL_REGISTERS_WINDOWS
                   : weft_params_is(host->params, "register", "yes")   ? NCCL_REGISTERS_MEMORY
                                                                       : NCCL_REGISTERS_NOTHING;
    atomic_init(&t->left, false);
    return WEFT_OK;
}

/* Before this plugin, so that it is closed after it. */
static weft_status takes(void *self, const weft_device *d, weft_error *err)
{
    (void)self;
    if (d && d->vendor && strcmp(d->vendor, "cuda") == 0 && d->stream && d->queue_create)
        return WEFT_OK;
    if (!d)
        return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                         "nccl needs the device that it sends from; list cuda before nccl");
    return weft_fail(err, WEFT_ERR_INPUT, WEFT_NOWHERE,
                     "nccl sends what lies in the memory of NVIDIA's GPUs, and the device is '%s'; "
                     "list cuda in its place, or mpi, ucx or local in place of nccl",
                     d->name);
}

static weft_status find_device(transport *t, weft_error *err)
{
    t->device = t->host->service(t->host, "device", &t->device_self);
    return takes(t, t->device, err);
}

/* The functions for it are there, and memory is of its kind. */
static weft_status check_registers(const transport *t, int version, weft_error *err)
{
    const nccl_api *api = &t->api;
    const weft_where where = weft_params_where(t->host->params, "register");
    const bool windows = t->registers == NCCL_REGISTERS_WINDOWS;
    if (!windows)
        return WEFT_OK;
    if (version < 22700 || !api->ncclCommWindowRegister || !api->ncclCommWindowDeregister)
        return weft_fail(err, WEFT_ERR_INPUT, where,
                         "[nccl] register = windows needs NCCL 2.27 or later, and %s is %d.%d",
                         weft_params_text(t->host->params, "library"), version / 10000,
                         version % 10000 / 100);
    if (t->device->exportable && t->device->exportable(t->device_self))
        return WEFT_OK;
    return weft_fail(err, WEFT_ERR_INPUT, where,
                     "[nccl] register = windows needs memory that other processes can map; set "
                     "[cuda] memory = exportable");
}

/* Versions are 10000 * major + 100 * minor + patch. */
static weft_status open_library(void *self, weft_error *err)
{
    transport *t = self;
    const char *library;
    int version = 0;
    weft_status s = find_device(t, err);
    s = s ? s
          : weft_library_find(t->host, weft_params_text(t->host->params, "library"), &library, err);
    s = s ? s : nccl_api_open(&t->api, library, err);
    if (s)
        return s;
    if (t->api.ncclGetVersion(&version) != NCCL_SUCCESS || version >= NCCL_OLDEST)
        return check_registers(t, version, err);
    return weft_fail(err, WEFT_ERR_INPUT, weft_params_where(t->host->params, "library"),
                     "%s is NCCL %d.%d; weft needs 2.22 or later",
                     weft_params_text(t->host->params, "library"), version / 10000,
                     version % 10000 / 100);
}

/* May be called from another thread, while the rank's own waits: that one aborts. */
static void leave(void *self)
{
    atomic_store(&((transport *)self)->left, true);
}

static bool all_are_here(transport *t)
{
    return !t->failed && !atomic_load(&t->left) && meet(t, NULL) == WEFT_OK;
}

/* Each rank ends its communicators when nobody sends any more; if one has ended before its time,
 * they are aborted. */
static void close_library(void *self)
{
    transport *t = self;
    bool well = t->world && all_are_here(t);
    for (comm *c = t->comms; c && well; c = t->comms) {
        well = nccl_settle(t, NULL, c, t->api.ncclCommFinalize(c->handle), "", NULL) == WEFT_OK;
        if (!well)
            break;
        t->comms = c->next;
        t->api.ncclCommDestroy(c->handle);
        weft_free(c);
    }
    nccl_abort_all(t);
    nccl_free_scratch(t);
}

/* NCCL's maxima may lose a NaN. */
static bool sends_terms(void *self, weft_reduce op)
{
    return op == WEFT_REDUCE_MAX || ((const transport *)self)->exact;
}

static bool captured(void *self)
{
    return ((const transport *)self)->captured;
}

static const weft_transport table = {
    .size = sizeof(weft_transport),
    .name = "nccl",
    .ranks = WEFT_RANKS_PROCESSES,
    .device_memory = true,
    .ordered = false,
    .group = make_group,
    .ungroup = ungroup,
    .connect = nccl_connect,
    .check = nccl_check,
    .library_bytes = nccl_library_bytes,
    .takes = takes,
    .sends_terms = sends_terms,
    .captured = captured,
    .add_memory = nccl_add_memory,
    .remove_memory = nccl_remove_memory,
    .places = nccl_places,
    .leave = leave,
    .group_begin = nccl_group_begin,
    .group_end = nccl_group_end,
    .all_gather = nccl_all_gather,
    .reduce_scatter = nccl_reduce_scatter,
    .all_reduce = nccl_all_reduce,
    .all_to_all = nccl_all_to_all,
    .send = nccl_send,
    .recv = nccl_recv,
    .wait = nccl_wait,
    .broadcast = nccl_broadcast,
};

static const weft_contribution contributions[] = {
    {.kind = WEFT_SERVICE, .service = "transport", .table = &table}, {.kind = WEFT_END}};

WEFT_PLUGIN(nccl) = {
    WEFT_PLUGIN_HEAD,
    .name = "nccl",
    .version = WEFT_VERSION,
    .licence = "Apache-2.0",
    .summary = "ranks as processes with a GPU each that talk through NVIDIA's NCCL",
    .numerics = WEFT_NUMERICS_TOLERANCE,
    .params = params,
    .contributions = contributions,
    .self_size = WEFT_SELF(transport),
    .create = create,
    .open = open_library,
    .close = close_library,
};
