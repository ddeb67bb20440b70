/* SPDX-License-Identifier: Apache-2.0 */
/* Stands around the transport and counts what this rank sends, by kind and mesh axes; says so when
 * training ends. Three contributions of one plugin: the wrap counts, a pass looks at the mesh,
 * since a transport knows ranks and no axes, and an observer tells steps apart. */
#include <weft/weft.h>

#include <inttypes.h>
#include <string.h>

typedef enum kind {
    ALL_GATHER,
    REDUCE_SCATTER,
    ALL_REDUCE,
    ALL_TO_ALL,
    SEND,
    BROADCAST,
    KINDS
} kind;

static const char *const names[KINDS] = {"all_gather", "reduce_scatter", "all_reduce",
                                         "all_to_all", "send",           "broadcast"};

typedef struct count {
    int64_t calls, bytes;
} count;

/* A group as the wrap hands it out. */
typedef struct counted_group {
    void *inner; /* the group of what is wrapped */
    int n, me;
    char axes[WEFT_MAX_AXES * 25];
    count now[KINDS], step[KINDS], all[KINDS]; /* since the last event; in the last step; ever */
    struct counted_group *next;
} counted_group;

typedef struct counter {
    const weft_host *host;
    const weft_transport *next;
    void *next_self;
    weft_mesh mesh;
    counted_group *groups;
} counter;

/* ---- which axes a group is of ---- */

/* How many members lie between two that differ on this axis; 0: none differ. The slowest axis has
 * the greatest. */
static int stride_of(const weft_mesh *mesh, int axis, const int *ranks, int n)
{
    int first[WEFT_MAX_AXES], other[WEFT_MAX_AXES];
    weft_mesh_coord(mesh, ranks[0], first);
    for (int i = 1; i < n; i++) {
        weft_mesh_coord(mesh, ranks[i], other);
        if (other[axis] != first[axis])
            return i;
    }
    return 0;
}

/* "dp_shard,tp", the slowest first, as weft plan says. */
static void name_axes(counted_group *g, const weft_mesh *mesh, const int *ranks)
{
    weft_text text = {0};
    for (int stride = g->n; stride > 0; stride--)
        for (int a = 0; a < mesh->n_axes; a++)
            if (stride_of(mesh, a, ranks, g->n) == stride)
                weft_text_print(&text, "%s%s", text.size ? "," : "", mesh->axis[a].name);
    strncpy(g->axes, weft_text_get(&text), sizeof g->axes - 1);
    weft_text_release(&text);
}

/* ---- the wrap ---- */

static weft_status wrap(void *self, const void *next, void *next_self, weft_error *err)
{
    counter *c = self;
    (void)err;
    c->next = next;
    c->next_self = next_self;
    return WEFT_OK;
}

static weft_status make_group(void *self, const int *ranks, int n, int me, void **out,
                              weft_error *err)
{
    counter *c = self;
    counted_group *g = weft_alloc_zero(1, sizeof *g);
    if (!g)
        return weft_fail_memory(err);
    weft_status s = c->next->group(c->next_self, ranks, n, me, &g->inner, err);
    if (s) {
        weft_free(g);
        return s;
    }
    g->n = n;
    g->me = me;
    name_axes(g, &c->mesh, ranks);
    g->next = c->groups;
    c->groups = g;
    *out = g;
    return WEFT_OK;
}

static void free_group(void *self, void *group)
{
    counter *c = self;
    counted_group *g = group, **at = &c->groups;
    while (*at != g)
        at = &(*at)->next;
    *at = g->next;
    c->next->ungroup(c->next_self, g->inner);
    weft_free(g);
}

static weft_status connect(void *self, void *group, int from, int to, weft_error *err)
{
    counter *c = self;
    const counted_group *g = group;
    return c->next->connect ? c->next->connect(c->next_self, g->inner, from, to, err) : WEFT_OK;
}

static void add(counted_group *g, kind k, int64_t bytes)
{
    g->now[k].calls++;
    g->now[k].bytes += bytes;
    g->all[k].calls++;
    g->all[k].bytes += bytes;
}

/* What a rank sends in a ring, as weft plan counts it: its piece to each of the others. */
static int64_t piece_bytes(const counted_group *g, int64_t elements, weft_dtype dtype)
{
    return elements * (int64_t)weft_dtype_size(dtype) * (g->n - 1);
}

static weft_status all_gather(void *self, void *group, const void *send, void *recv, int64_t n,
                              weft_dtype dtype, weft_queue *queue, weft_error *err)
{
    const counter *c = self;
    counted_group *g = group;
    add(g, ALL_GATHER, piece_bytes(g, n, dtype));
    return c->next->all_gather(c->next_self, g->inner, send, recv, n, dtype, queue, err);
}

static weft_status reduce_scatter(void *self, void *group, const void *send, void *recv, int64_t n,
                                  weft_dtype dtype, weft_reduce op, weft_queue *queue,
                                  weft_error *err)
{
    const counter *c = self;
    counted_group *g = group;
    add(g, REDUCE_SCATTER, piece_bytes(g, n, dtype));
    return c->next->reduce_scatter(c->next_self, g->inner, send, recv, n, dtype, op, queue, err);
}

/* A reduce_scatter and an all_gather. */
static weft_status all_reduce(void *self, void *group, const void *send, void *recv, int64_t n,
                              weft_dtype dtype, weft_reduce op, weft_queue *queue, weft_error *err)
{
    const counter *c = self;
    counted_group *g = group;
    add(g, ALL_REDUCE, 2 * piece_bytes(g, (n + g->n - 1) / g->n, dtype));
    return c->next->all_reduce(c->next_self, g->inner, send, recv, n, dtype, op, queue, err);
}

static weft_status all_to_all(void *self, void *group, const void *send, void *recv, int64_t n,
                              weft_dtype dtype, weft_queue *queue, weft_error *err)
{
    const counter *c = self;
    counted_group *g = group;
    add(g, ALL_TO_ALL, piece_bytes(g, n, dtype));
    return c->next->all_to_all(c->next_self, g->inner, send, recv, n, dtype, queue, err);
}

static weft_status send(void *self, void *group, int to, const void *data, int64_t n,
                        weft_dtype dtype, weft_queue *queue, weft_request **request,
                        weft_error *err)
{
    const counter *c = self;
    counted_group *g = group;
    add(g, SEND, n * (int64_t)weft_dtype_size(dtype));
    return c->next->send(c->next_self, g->inner, to, data, n, dtype, queue, request, err);
}

/* Nothing is sent; the group is the wrap's, so this cannot go past it. */
static weft_status recv(void *self, void *group, int from, void *data, int64_t n, weft_dtype dtype,
                        weft_queue *queue, weft_request **request, weft_error *err)
{
    const counter *c = self;
    const counted_group *g = group;
    return c->next->recv(c->next_self, g->inner, from, data, n, dtype, queue, request, err);
}

/* To each of the others. */
static weft_status broadcast(void *self, void *group, int root, void *data, int64_t n,
                             weft_dtype dtype, weft_queue *queue, weft_error *err)
{
    const counter *c = self;
    counted_group *g = group;
    add(g, BROADCAST, g->me == root ? piece_bytes(g, n, dtype) : 0);
    return c->next->broadcast(c->next_self, g->inner, root, data, n, dtype, queue, err);
}

/* All that takes a group, since these groups are the wrap's own; `leave` and `wait` go past it. */
static const weft_transport table = {
    .size = sizeof(weft_transport),
    .group = make_group,
    .ungroup = free_group,
    .connect = connect,
    .all_gather = all_gather,
    .reduce_scatter = reduce_scatter,
    .all_reduce = all_reduce,
    .all_to_all = all_to_all,
    .send = send,
    .recv = recv,
    .broadcast = broadcast,
};

/* ---- the pass and the observer ---- */

static void look(void *self, weft_graph *g)
{
    counter *c = self;
    c->mesh = *weft_graph_mesh(g);
}

static void report(const counter *c)
{
    bool any = false;
    for (const counted_group *g = c->groups; g; g = g->next)
        for (int k = 0; k < KINDS; k++) {
            if (!g->all[k].calls)
                continue;
            any = true;
            weft_inform(c->host,
                        "count_bytes: %s over %s: in the last step %" PRId64 " calls, %" PRId64
                        " bytes; in all %" PRId64 " calls, %" PRId64 " bytes",
                        names[k], g->axes, g->step[k].calls, g->step[k].bytes, g->all[k].calls,
                        g->all[k].bytes);
        }
    if (!any)
        weft_inform(c->host, "count_bytes: nothing was sent");
}

static weft_status observe(void *self, weft_event event, const weft_run_view *run, weft_error *err)
{
    counter *c = self;
    (void)run, (void)err;
    if (event == WEFT_EVENT_STOP)
        report(c);
    for (counted_group *g = c->groups; g; g = g->next) {
        if (event == WEFT_EVENT_STEP_END) /* validation is between the end and the next beginning */
            memcpy(g->step, g->now, sizeof g->step);
        memset(g->now, 0, sizeof g->now);
    }
    return WEFT_OK;
}

/* "transport?": a run of one rank need not have one. */
static const weft_contribution contributions[] = {
    {.kind = WEFT_WRAP, .service = "transport?", .table = &table, .wrap = wrap},
    {.kind = WEFT_PASS, .stage = WEFT_STAGE_GRAPH, .graph = look},
    {.kind = WEFT_OBSERVER,
     .events = WEFT_EVENT_STEP_BEGIN | WEFT_EVENT_STEP_END | WEFT_EVENT_STOP,
     .observe = observe},
    {0},
};

WEFT_PLUGIN(count_bytes) = {
    WEFT_PLUGIN_HEAD,
    .name = "count_bytes",
    .version = "1.0",
    .licence = "Apache-2.0",
    .summary = "counts what is sent, by kind and mesh axes",
    .numerics = WEFT_NUMERICS_BITWISE,
    .contributions = contributions,
    .self_size = WEFT_SELF(counter),
};
