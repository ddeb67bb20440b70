/* SPDX-License-Identifier: Apache-2.0 */
/* Stands around the transport and sends gradients as bf16; what that rounds off is kept and added
 * the next time. Shows what a wrap knows of a call, and its state. */
#include <weft/weft.h>

typedef struct site {
    const weft_sent *sent;
    int64_t at, count; /* elements: where those that it has rounded off begin, how many */
} site;

typedef struct compress {
    const weft_host *host;
    bool strict;
    const weft_transport *next;
    void *next_self;
    site *sites;
    int n_sites;
    uint16_t *packed; /* room for what any call sends, and for what comes */
} compress;

static const weft_param params[] = {
    {.name = "strict", WEFT_BOOL(compress, strict), .value = "no", .help = "On this mesh alone."},
    {0},
};

static weft_status wrap(void *self, const void *next, void *next_self, weft_error *err)
{
    compress *c = self;
    (void)err;
    c->next = next;
    c->next_self = next_self;
    return WEFT_OK;
}

/* Is all that it sends gradients of parameters? What tokens have a part in has other dims. */
static bool is_wanted(const weft_planned_call *call)
{
    bool wanted = call->sent && call->mode == WEFT_MODE_TRAIN && call->dtype == WEFT_F32 &&
                  (call->move == WEFT_REDUCE_SCATTER || call->move == WEFT_ALL_REDUCE);
    for (int i = 0; wanted && i < call->sent->n_pieces; i++) {
        const weft_value *v = call->sent->pieces[i].value;
        wanted = v->node->phase == WEFT_BACKWARD && weft_value_dim(v, "batch") < 0 &&
                 weft_value_dim(v, "seq") < 0;
    }
    return wanted;
}

/* Room for what is rounded off of each call, for the longest one, and what is sent instead. */
static weft_status plan(void *self, const weft_planned_call *calls, int n, int64_t *host_bytes,
                        weft_error *err)
{
    compress *c = self;
    int64_t total = 0, most = 0;
    c->sites = weft_realloc(c->sites, (size_t)(n + 1) * sizeof *c->sites);
    c->n_sites = 0;
    for (int i = 0; c->sites && i < n; i++) {
        if (!is_wanted(&calls[i]))
            continue;
        int64_t count = calls[i].count * (calls[i].move == WEFT_ALL_REDUCE ? 1 : calls[i].members);
        c->sites[c->n_sites++] = (site){calls[i].sent, total, count};
        total += count;
        most = count > most ? count : most;
    }
    c->packed = weft_realloc(c->packed, (size_t)(2 * most + 1) * sizeof *c->packed);
    weft_status s = c->sites && c->packed ? WEFT_OK : weft_fail_memory(err);
    s = s || !c->next->plan ? s : c->next->plan(c->next_self, calls, n, host_bytes, err);
    *host_bytes += 2 * most * (int64_t)sizeof *c->packed;
    return s ? s
             : weft_keep(c->host, "error", total * (int64_t)sizeof(float),
                         WEFT_KEEP_HOST | (c->strict ? 0 : WEFT_KEEP_RESETS), err);
}

static const site *find_site(const compress *c, weft_reduce op)
{
    weft_running now;
    if (op == WEFT_REDUCE_SUM && weft_running_now(c->host, &now))
        for (int i = 0; i < c->n_sites; i++)
            if (c->sites[i].sent == now.sent)
                return &c->sites[i];
    return NULL;
}

typedef weft_status reduction(void *self, void *group, const void *send, void *recv, int64_t n,
                              weft_dtype dtype, weft_reduce op, weft_queue *queue, weft_error *err);

static weft_status reduce(const compress *c, bool scatter, void *group, const void *send,
                          void *recv, int64_t n, weft_dtype dtype, weft_reduce op,
                          weft_queue *queue, weft_error *err)
{
    reduction *call = scatter ? c->next->reduce_scatter : c->next->all_reduce;
    const site *s = find_site(c, op);
    if (!s)
        return call(c->next_self, group, send, recv, n, dtype, op, queue, err);
    uint16_t *reduced = c->packed + s->count;
    float *error = (float *)weft_kept(c->host, "error") + s->at;
    for (int64_t i = 0; i < s->count; i++) {
        const float whole = ((const float *)send)[i] + error[i];
        c->packed[i] = weft_f32_to_bf16(whole);
        error[i] = whole - weft_bf16_to_f32(c->packed[i]);
    }
    weft_status t = call(c->next_self, group, c->packed, reduced, n, WEFT_BF16, op, queue, err);
    for (int64_t i = 0; i < n; i++)
        ((float *)recv)[i] = weft_bf16_to_f32(reduced[i]);
    return t;
}

static weft_status reduce_scatter(void *self, void *group, const void *send, void *recv, int64_t n,
                                  weft_dtype dtype, weft_reduce op, weft_queue *queue,
                                  weft_error *err)
{
    return reduce(self, true, group, send, recv, n, dtype, op, queue, err);
}

static weft_status all_reduce(void *self, void *group, const void *send, void *recv, int64_t n,
                              weft_dtype dtype, weft_reduce op, weft_queue *queue, weft_error *err)
{
    return reduce(self, false, group, send, recv, n, dtype, op, queue, err);
}

static void destroy(void *self)
{
    compress *c = self;
    weft_free(c->sites);
    weft_free(c->packed);
}

static const weft_transport table = {.size = sizeof(weft_transport),
                                     .plan = plan,
                                     .reduce_scatter = reduce_scatter,
                                     .all_reduce = all_reduce};
static const weft_contribution contributions[] = {
    {.kind = WEFT_WRAP, .service = "transport?", .table = &table, .wrap = wrap},
    {0},
};

WEFT_PLUGIN(compress) = {
    WEFT_PLUGIN_HEAD,
    .name = "compress",
    .version = "1.0",
    .licence = "Apache-2.0",
    .summary = "sends gradients as bf16, with error feedback",
    .numerics = WEFT_NUMERICS_CHANGES,
    .params = params,
    .self_size = WEFT_SELF(compress),
    .contributions = contributions,
    .destroy = destroy,
};
