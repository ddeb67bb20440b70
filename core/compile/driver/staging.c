/* SPDX-License-Identifier: Apache-2.0 */
/* Host memory through which goes what ranks send each other, where the transport carries that alone
 * and the device has memory of its own. */
#include "compile/driver/plan.h"

bool weft_plan_is_staged(const weft_plan *plan)
{
    void *self;
    const weft_transport *t = weft_plugins_service(plan->plugins, "transport", &self);
    const weft_device *d = plan->device;
    return t && !t->device_memory && plan->ranks > 1 && !(d->host_memory && !d->record);
}

static int64_t members_of(const weft_mesh *mesh, const weft_step *step)
{
    int64_t n = 1;
    for (int k = 0; k < step->n_axes; k++)
        n *= mesh->axis[step->axes[k]].size;
    return n;
}

static void widen(int64_t *most, int64_t bytes)
{
    *most = bytes > *most ? bytes : *most;
}

static void add_collective(weft_staging *s, const weft_mesh *mesh, const weft_exchange *e)
{
    for (int i = 0; i < e->n_parts; i++) {
        const weft_exchange_part *p = &e->parts[i];
        if (!p->sends)
            continue;
        const int64_t piece = p->count * (int64_t)weft_dtype_size(p->dtype),
                      all = piece * members_of(mesh, p->step);
        const weft_move move = p->step->move;
        widen(&s->send, move == WEFT_REDUCE_SCATTER || move == WEFT_ALL_TO_ALL ? all : piece);
        if (move != WEFT_BROADCAST)
            widen(&s->recv, move == WEFT_ALL_GATHER || move == WEFT_ALL_TO_ALL ? all : piece);
    }
}

/* ---- transfers ---- */

static bool is_post(const weft_instruction *in)
{
    return in->kind == WEFT_POST_SEND || in->kind == WEFT_POST_RECV;
}

static int64_t bytes_of(const weft_instruction *in)
{
    return weft_tensor_count(&in->tensors[0]) * (int64_t)weft_dtype_size(in->tensors[0].dtype);
}

/* How many of this size are on their way at once. What stages send each other may be until it is
 * sent again, or received once more; what is shifted, until it is awaited in its program. */
static int find_most(const weft_lowered *l, int64_t bytes)
{
    int stages = 0, most = 0;
    for (int a = 0; a < l->n_programs; a++)
        for (int i = 0, shifts = 0; i < l->programs[a].n; i++) {
            const weft_instruction *in = &l->programs[a].list[i];
            bool shifted = in->node && weft_node_shifts(in->node);
            if (is_post(in) && !shifted && bytes_of(in) == bytes)
                stages += in->kind == WEFT_POST_SEND ? 1 : WEFT_MOST_POSTED;
            if (is_post(in) && shifted)
                shifts += bytes_of(in) == bytes;
            else if (in->kind == WEFT_AWAIT && shifted)
                shifts -= 2 * (bytes_of(in) == bytes); /* both ways */
            most = shifts > most ? shifts : most;
        }
    return stages + most;
}

static int count(const int64_t *list, int n, int64_t bytes)
{
    int found = 0;
    for (int i = 0; i < n; i++)
        found += list[i] == bytes;
    return found;
}

static weft_status add_places(weft_staging *s, int64_t bytes, int n, weft_error *err)
{
    if (n <= 0)
        return WEFT_OK;
    int64_t *fresh = weft_realloc(s->places, (size_t)(s->n_places + n) * sizeof *fresh);
    if (!fresh)
        return weft_fail_memory(err);
    s->places = fresh;
    while (n-- > 0)
        s->places[s->n_places++] = bytes;
    return WEFT_OK;
}

/* Modes run one after the other, and use the same places. */
static weft_status add_mode(weft_staging *s, const weft_lowered *l, weft_error *err)
{
    int64_t *seen = weft_alloc(((size_t)l->n_transfers + 1) * sizeof *seen);
    weft_status status = seen ? WEFT_OK : weft_fail_memory(err);
    int n_seen = 0;
    for (int a = 0; a < l->n_programs; a++)
        for (int i = 0; i < l->programs[a].n && !status; i++) {
            const weft_instruction *in = &l->programs[a].list[i];
            if (in->kind == WEFT_COLLECTIVE)
                add_collective(s, &l->graph->config.mesh, in->exchange);
            if (!is_post(in) || bytes_of(in) == 0 || count(seen, n_seen, bytes_of(in)))
                continue;
            const int64_t bytes = seen[n_seen++] = bytes_of(in);
            status = add_places(s, bytes,
                                find_most(l, bytes) - count(s->places, s->n_places, bytes), err);
        }
    weft_free(seen);
    return status;
}

weft_status weft_staging_init(weft_staging *s, const weft_plan *plan, weft_error *err)
{
    *s = (weft_staging){0};
    weft_status status = WEFT_OK;
    for (int m = 0; m < WEFT_MODES && !status && weft_plan_is_staged(plan); m++)
        if (plan->lowered[m])
            status = add_mode(s, plan->lowered[m], err);
    return status;
}

int64_t weft_staging_bytes(const weft_staging *s)
{
    int64_t bytes = s->send + s->recv;
    for (int i = 0; i < s->n_places; i++)
        bytes += s->places[i];
    return bytes;
}

void weft_staging_release(weft_staging *s)
{
    weft_free(s->places);
    *s = (weft_staging){0};
}
